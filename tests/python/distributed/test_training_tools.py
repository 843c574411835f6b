"""torch's tools around a training, on a net over processes beside the model alone or threads."""

import copy
import multiprocessing
import warnings

import pytest
import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.fsdp.sharded_grad_scaler import ShardedGradScaler
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn

import smex

GROUP = {"SMEX_SHARED_MEMORY": "0"}


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.norm, self.second = nn.Linear(12, 24), nn.LayerNorm(24), nn.Linear(24, 12)

    def forward(self, x):
        return self.second(torch.relu(self.norm(self.first(x))))


def data(rows=16, seed=0, dtype=torch.float64):
    generator = torch.Generator().manual_seed(seed)
    draw = torch.randn(2, rows, 12, generator=generator, dtype=torch.float64).to(dtype)
    return draw[0], draw[1]


def model(dtype=torch.float64):
    torch.manual_seed(0)
    return Net().to(dtype)


def divided(workers=None, **options):
    options = {"loss_fn": nn.functional.mse_loss, "args": data(), "replicate_bytes": 0, **options}
    return smex.partition(model(), workers=workers, **options)


class Alone(nn.Module):
    """The model with its loss, as a net is called."""

    def __init__(self):
        super().__init__()
        self.model = model()

    def forward(self, x, y):
        return nn.functional.mse_loss(self.model(x), y)


def assert_close(found, expected):
    assert found.keys() == expected.keys()
    for name, tensor in expected.items():
        torch.testing.assert_close(found[name], tensor, msg=name)


# ---- optimisers ----


def optimizer_of(kind, parameters):
    name, option = kind
    make = {"adamw": torch.optim.AdamW, "sgd": torch.optim.SGD}[name]
    options = {"lr": 0.05, option: True} if option else {"lr": 0.05}
    return make(parameters, **options, **({"momentum": 0.9} if name == "sgd" else {}))


KINDS = [(name, option) for name in ("adamw", "sgd") for option in ("", "foreach", "fused")]


def trained(net, kind):
    """Accumulates two batches for each step; the rate falls."""
    optimizer = optimizer_of(kind, net.parameters())
    scheduler = torch.optim.lr_scheduler.OneCycleLR(optimizer, max_lr=0.1, total_steps=4)
    for step in range(3):
        for part in range(2):
            (net(*data(seed=2 * step + part)) / 2).backward()
        optimizer.step()
        scheduler.step()
        optimizer.zero_grad()


def all_optimizers(rank, workers=None):
    states = []
    net = divided(workers)
    start = net.state_dict()
    for kind in KINDS:
        net.load_state_dict(start)
        trained(net, kind)
        states.append(net.state_dict())
    return states


def test_optimizers_schedulers_and_accumulation(processes):
    threads = all_optimizers(0, 2)
    for found in processes.run(all_optimizers, 2):
        for kind, state, same in zip(KINDS, found, threads, strict=True):
            alone = Alone()
            trained(alone, kind)
            assert_close(state, alone.model.state_dict())
            assert all(torch.equal(state[name], same[name]) for name in same), kind


WHOLES = {
    "Adafactor": lambda net: torch.optim.Adafactor(net.parameters()),
    "Muon": lambda net: torch.optim.Muon([p for p in net.parameters() if p.dim() == 2]),
    "AdamW": lambda net: torch.optim.AdamW(net.parameters()),
}


def warned_of_tiles(rank, kind, replicate_bytes, workers=None):
    """What two steps warn of."""
    net = divided(workers, replicate_bytes=replicate_bytes)
    optimizer = WHOLES[kind](net)
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        for _ in range(2):
            net(*data()).backward()
            optimizer.step()
    return [str(each.message) for each in found]


@pytest.mark.parametrize("kind", WHOLES)
def test_optimisers_of_whole_parameters_warn_of_tiles(processes, kind):
    runs = [warned_of_tiles(0, kind, 0, 2), *processes.run(warned_of_tiles, 2, kind, 0)]
    for texts in runs:
        if kind == "AdamW":
            assert texts == []
        else:
            (text,) = texts
            assert text.startswith(f"{kind} takes each tile of first.weight") and "AdamW" in text
    whole = 1 << 30
    runs = [warned_of_tiles(0, kind, whole, 2), *processes.run(warned_of_tiles, 2, kind, whole)]
    assert all(texts == [] for texts in runs)


class Penalised(nn.Module):
    def __init__(self):
        super().__init__()
        self.model = model()

    def forward(self, x, y):
        norms = sum(parameter.norm() for parameter in self.model.parameters())
        return nn.functional.mse_loss(self.model(x), y) + 0.1 * norms


def penalised(rank):
    net = smex.partition(Penalised(), args=data(), replicate_bytes=0)
    loss = net(*data())
    loss.backward()
    total = smex.clip_grad_norm_(net, float("inf"))
    assert torch.equal(total, nn.utils.get_total_norm([p.grad for p in net.parameters()]))
    try:
        torch.optim.LBFGS(list(net.parameters())).step(lambda: loss)
    except smex.SmexRuntimeError as error:
        return loss.item(), total.item(), net.full_grads(), str(error)


def test_penalties_in_the_model_and_the_norm_of_all_gradients(processes):
    alone = Penalised()
    loss = alone(*data())
    loss.backward()
    total = nn.utils.get_total_norm([p.grad for p in alone.parameters()])
    for found, norm, grads, text in processes.run(penalised, 2):
        assert found == pytest.approx(loss.item(), rel=1e-12)
        assert norm == pytest.approx(total.item(), rel=1e-12)
        assert_close(grads, {name: p.grad for name, p in alone.named_parameters()})
        assert "torch.optim.LBFGS takes dot products" in text


def average_of(net):
    """The weights of some steps of training, averaged."""
    average = AveragedModel(net, multi_avg_fn=get_ema_multi_avg_fn(0.9))
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    for step in range(3):
        net(*data(seed=step)).backward()
        optimizer.step()
        optimizer.zero_grad()
        average.update_parameters(net)
    return average


def averaged(rank):
    average = average_of(divided())
    return average(*data()).item(), average.module.state_dict()


def test_weights_are_averaged(processes):
    average = average_of(Alone())
    for loss, state in processes.run(averaged, 2):
        assert loss == pytest.approx(average(*data()).item(), rel=1e-12)
        assert_close(state, average.module.model.state_dict())


# ---- precision ----


def scaled(rank, kind, make):
    """One step in which one rank's tile of a gradient has an infinity, and a good one."""
    net = divided()
    optimizer = optimizer_of(kind, net.parameters())
    scaler = make("cpu", init_scale=8.0)
    values = [net.state_dict()]
    for step in range(2):
        scaler.scale(net(*data(seed=step))).backward()
        if rank == 1 and step == 0:
            next(iter(net.parameters())).grad[0] = float("inf")
        try:
            scaler.step(optimizer)
        except smex.SmexRuntimeError as error:
            return str(error)
        scaler.update()
        optimizer.zero_grad()
        values.append(net.state_dict())
    return scaler.get_scale(), values


@pytest.mark.parametrize("kind", [("adamw", ""), ("sgd", "foreach")])
def test_all_ranks_skip_the_step_of_an_infinity(processes, kind):
    for scale, values in processes.run(scaled, 2, kind, ShardedGradScaler):
        assert scale == 4.0
        before, skipped, after = values
        assert all(torch.equal(skipped[name], before[name]) for name in before)
        alone = Alone()
        optimizer = optimizer_of(kind, alone.parameters())
        alone(*data(seed=1)).backward()
        optimizer.step()
        assert_close(after, alone.model.state_dict())


@pytest.mark.parametrize(
    ("make", "kind", "text"),
    [
        (torch.amp.GradScaler, ("adamw", ""), "ShardedGradScaler"),
        (torch.amp.GradScaler, ("sgd", "fused"), "ShardedGradScaler"),
        (ShardedGradScaler, ("adamw", "fused"), "foreach=True"),
    ],
)
def test_scalers_that_ask_nobody_are_refused(processes, make, kind, text):
    found = processes.outcomes(scaled, 2, kind, make, timeout=30)
    texts = [str(what) for _, what in found]
    assert any(text in each for each in texts), texts
    assert not any(isinstance(what, tuple) for _, what in found)


def of_replicas(rank):
    """All ranks hold all of it, and so see the same gradients."""
    net = divided(replicate_bytes=1 << 30)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    scaler = torch.amp.GradScaler("cpu", init_scale=8.0)
    scaler.scale(net(*data())).backward()
    scaler.step(optimizer)
    scaler.update()
    return net.state_dict()


def test_a_scaler_of_replicas_is_torchs(processes):
    alone = Alone()
    optimizer = torch.optim.SGD(alone.parameters(), lr=0.1)
    alone(*data()).backward()
    optimizer.step()
    for found in processes.run(of_replicas, 2):
        assert_close(found, alone.model.state_dict())


def in_low_precision(rank, workers=None):
    net = smex.partition(
        model(torch.float32), workers=workers, loss_fn=nn.functional.mse_loss, replicate_bytes=0,
        args=data(dtype=torch.float32),
    )  # fmt: skip
    optimizer = torch.optim.AdamW(net.parameters(), lr=0.01)
    losses = []
    for step in range(3):
        with torch.autocast("cpu", dtype=torch.bfloat16):
            loss = net(*data(seed=step, dtype=torch.float32))
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        losses.append(loss.item())
    return losses, net.state_dict()


def test_autocast(processes):
    losses, state = in_low_precision(0, 2)
    for found, values in processes.run(in_low_precision, 2):
        assert found == losses
        assert all(torch.equal(values[name], state[name]) for name in state)
    reference = model(torch.float32)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        first = nn.functional.mse_loss(
            reference(data(dtype=torch.float32)[0]), data(dtype=torch.float32)[1]
        )
    assert losses[0] == pytest.approx(first.item(), rel=1e-2)


# ---- modules ----


def hooked(rank):
    net = divided()
    seen = []
    net.register_forward_hook(lambda module, inputs, output: seen.append("forward") or output * 2)
    for parameter in net.parameters():
        parameter.register_hook(lambda grad: grad * 3)
        parameter.register_post_accumulate_grad_hook(lambda p: seen.append("accumulated"))
    net(*data()).backward()
    return seen, net.full_grads(), len(list(net.parameters()))


def test_hooks_of_a_net_and_of_its_tiles(processes):
    alone = Alone()
    (6 * alone(*data())).backward()
    for seen, grads, count in processes.run(hooked, 2):
        assert seen == ["forward"] + ["accumulated"] * count
        assert_close(grads, {n: p.grad for n, p in alone.model.named_parameters()})


def converted(rank):
    net = divided()
    before = net(*data()).item()
    net.to("cpu").double()
    try:
        net.half()
    except smex.SmexRuntimeError as error:
        return before == net(*data()).item(), str(error)
    return False, ""


def test_a_net_keeps_its_type(processes):
    for same, text in processes.run(converted, 2):
        assert same
        assert '"first.weight"' in text and "convert the model before smex.partition" in text


def several(rank):
    """A net of one process, one of all, and a copy of this, which learn from each other."""
    alone = smex.partition(model(), workers=2, processes=1, args=data()[0], replicate_bytes=0)
    whole = divided(loss_fn=None, args=data()[0])
    clone = copy.deepcopy(whole)
    optimizer = torch.optim.SGD(clone.parameters(), lr=0.1)
    for _ in range(2):
        clone(whole(alone(data()[0]))).square().mean().backward()
        optimizer.step()
    return alone.full_grads(), whole.full_grads(), clone.state_dict(), whole.state_dict()


def test_nets_pass_results_to_each_other(processes):
    alone, whole, clone = model(), model(), model()
    optimizer = torch.optim.SGD(clone.parameters(), lr=0.1)
    for _ in range(2):
        clone(whole(alone(data()[0]))).square().mean().backward()
        optimizer.step()
    for grads_alone, grads_whole, copied, original in processes.run(several, 2):
        assert_close(grads_alone, {n: p.grad for n, p in alone.named_parameters()})
        assert_close(grads_whole, {n: p.grad for n, p in whole.named_parameters()})
        assert_close(copied, clone.state_dict())
        assert_close(original, whole.state_dict())


# ---- what ranks do differently ----


def modes_of_one(rank):
    net = divided()
    net(*data()).backward()
    if rank == 0:
        net.eval()
    try:
        net(*data())
    except smex.RankFailure as failure:
        return str(failure)
    return ""


def test_a_mode_of_one_rank_is_an_error(processes):
    for text in processes.run(modes_of_one, 2, timeout=20):
        assert "every rank must call the same nets" in text and "under the same modes" in text


def state_of_one(rank):
    net = divided()
    net(*data()).backward()
    try:
        if rank == 0:
            net.state_dict()
        net(*data())
    except smex.RankFailure as failure:
        return str(failure)
    return ""


@pytest.mark.parametrize("variables", [{}, GROUP], ids=["shared memory", "group"])
def test_a_state_dict_of_one_rank_is_an_error(processes, variables):
    for text in processes.run(state_of_one, 2, timeout=20, variables=variables):
        assert "every rank must" in text and "state_dict" in text


def rows_of_its_own(rank):
    try:
        divided(inputs="local", args=data(4 + rank))
    except smex.SmexRuntimeError as error:
        return str(error)
    return ""


def test_local_inputs_of_unequal_rows(processes):
    for text in processes.run(rows_of_its_own, 2):
        assert 'rank 0 and rank 1 differ in argument "x": float64[4, 12] and float64[5, 12]' in text
        assert "drop_last=True" in text


# ---- data ----


class Rows(torch.utils.data.Dataset):
    def __len__(self):
        return 32

    def __getitem__(self, index):
        x, y = data(32)
        return x[index], y[index]


def loaded(rank, workers=None):
    options = multiprocessing.current_process()._config
    before = options.get("daemon")
    options["daemon"] = False  # a process of the pool may start none otherwise
    net = divided(workers)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    loader = torch.utils.data.DataLoader(
        Rows(), batch_size=16, shuffle=True, generator=torch.Generator().manual_seed(0),
        num_workers=1, persistent_workers=True, multiprocessing_context="fork",
    )  # fmt: skip
    losses = []
    for _ in range(3):
        for x, y in loader:
            loss = net(x, y)
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
            losses.append(loss.item())
    loader._iterator._shutdown_workers()
    options["daemon"] = before
    if dist.is_initialized():
        dist.barrier()
    return losses


def test_a_loader_with_processes_that_stay(processes):
    expected = loaded(0, 2)
    assert len(expected) == 6
    for losses in processes.run(loaded, 2):
        assert losses == expected
