"""What users do with a net over processes, beside the same on threads or the model alone."""

import copy
import json
import pickle

import pytest
import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import init_device_mesh

import smex

pytestmark = pytest.mark.costly

GROUP = {"SMEX_SHARED_MEMORY": "0"}


class Net(nn.Module):
    def __init__(self, dropout=0.0):
        super().__init__()
        self.first, self.norm = nn.Linear(12, 24), nn.BatchNorm1d(24)
        self.drop, self.second = nn.Dropout(dropout), nn.Linear(24, 12)
        self.second.weight = nn.Parameter(self.first.weight.detach().t().clone())

    def forward(self, x):
        return self.second(self.drop(torch.relu(self.norm(self.first(x)))))


def data(rows=16, seed=0):
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(rows, 12, generator=generator, dtype=torch.float64)
    return x, torch.randn(rows, 12, generator=generator, dtype=torch.float64)


def model(seed=0, **options):
    torch.manual_seed(seed)
    return Net(**options).double()


def assert_same(found, expected):
    assert found.keys() == expected.keys()
    for name, tensor in expected.items():
        assert torch.equal(found[name], tensor), name


# ---- clipping ----


def clipped(rank, workers, order, max_norm):
    net = smex.partition(
        model(), workers=workers, args=data(), loss_fn=nn.functional.mse_loss, replicate_bytes=0
    )
    net(*data()).backward()
    total = smex.clip_grad_norm_(net, max_norm, order)
    return total, net.full_grads()


@pytest.mark.parametrize("order", [2.0, 1.0, float("inf")])
def test_gradients_are_clipped_by_the_norm_of_all(processes, order):
    reference = model()
    nn.functional.mse_loss(reference(data()[0]), data()[1]).backward()
    expected = torch.nn.utils.clip_grad_norm_(reference.parameters(), 0.1, order)
    threads = clipped(0, 2, order, 0.1)
    torch.testing.assert_close(threads[0], expected)
    for total, grads in processes.run(clipped, 2, 2, order, 0.1):
        assert torch.equal(total, threads[0])
        assert_same(grads, threads[1])
    for name, parameter in reference.named_parameters():
        torch.testing.assert_close(threads[1][name], parameter.grad)


# Functions of torch as programs have them before any net is made.
TORCHS_CLIP, TORCHS_NORM = torch.nn.utils.clip_grad_norm_, torch.nn.utils.get_total_norm


def clip_a_generator(net, order):
    return TORCHS_CLIP(net.parameters(), 0.1, order)


def clip_a_list(net, order):
    return TORCHS_CLIP(list(net.parameters()), 0.1, norm_type=order, foreach=False)


def clip_groups(net, order):
    optimizer = torch.optim.AdamW(net.parameters())
    listed = [p for group in optimizer.param_groups for p in group["params"]]
    return torch.nn.utils.clip_grad_norm_(listed, 0.1, order, foreach=True)


def take_the_norm(net, order):
    total = TORCHS_NORM([p.grad for p in net.parameters()], order)
    torch.nn.utils.clip_grads_with_norm_(net.parameters(), 0.1, total)
    return total


def clip_with_another(net, order):
    """Of which every rank has the whole, as a head beside the net."""
    other = nn.Parameter(torch.zeros(3, dtype=torch.float64))
    other.grad = torch.full_like(other, 0.5)
    total = TORCHS_CLIP([*net.parameters(), other], 0.1, order)
    return total, other.grad


def clipped_by_torch(rank, clip, order, copies=False):
    net = smex.partition(model(), args=data(), loss_fn=nn.functional.mse_loss, replicate_bytes=0)
    if copies:
        net = copy.deepcopy(net)
    net(*data()).backward()
    return clip(net, order), net.full_grads()


@pytest.mark.parametrize("order", [2.0, 1.0, float("inf")])
@pytest.mark.parametrize("clip", [clip_a_generator, clip_a_list, clip_groups, take_the_norm])
def test_torchs_functions_take_the_norm_of_all(processes, clip, order):
    expected = clipped(0, 2, order, 0.1)
    for total, grads in processes.run(clipped_by_torch, 2, clip, order, clip is clip_a_list):
        assert torch.equal(total, expected[0])
        assert_same(grads, expected[1])


def test_torchs_functions_take_what_is_no_nets_along(processes):
    reference = model()
    nn.functional.mse_loss(reference(data()[0]), data()[1]).backward()
    expected, own = clip_with_another(reference, 2.0)
    for (total, other), grads in processes.run(clipped_by_torch, 2, clip_with_another, 2.0):
        torch.testing.assert_close(total, expected)
        torch.testing.assert_close(other, own)
        for name, parameter in reference.named_parameters():
            torch.testing.assert_close(grads[name], parameter.grad)


def norm_of_one(rank):
    """Of the bias of the first layer, and of a net of which nothing is in the list."""
    net = smex.partition(model(), args=data(), loss_fn=nn.functional.mse_loss, replicate_bytes=0)
    net(*data()).backward()
    one = dict(net.named_parameters())["first.bias"]
    plain = torch.full((4,), 2.0)
    return TORCHS_NORM([one.grad]), TORCHS_NORM([plain]), net.full_grads()["first.bias"]


def test_torchs_functions_take_the_norm_of_some(processes):
    for one, plain, grad in processes.run(norm_of_one, 2):
        torch.testing.assert_close(one, grad.norm())
        assert plain == 4.0


def clip_nan_by_torch(rank):
    net = smex.partition(model(), args=data(), loss_fn=nn.functional.mse_loss, replicate_bytes=0)
    net(*data()).backward()
    if rank == 1:
        next(iter(net.parameters())).grad.fill_(float("nan"))
    try:
        TORCHS_CLIP(list(net.parameters()), 0.1, error_if_nonfinite=True)
    except smex.SmexRuntimeError as error:
        return str(error)


def test_torchs_functions_tell_of_nan_on_all_ranks(processes):
    for text in processes.run(clip_nan_by_torch, 2):
        assert "nan" in text


@pytest.mark.parametrize(
    ("arguments", "error", "text"),
    [
        ((nn.Linear(2, 2), 1.0), smex.SmexTypeError, "Linear"),
        ((None, 1.0), smex.SmexTypeError, "NoneType"),
    ],
)
def test_clipping_refuses_other_modules(arguments, error, text):
    with pytest.raises(error, match=text):
        smex.clip_grad_norm_(*arguments)


def test_clipping_refuses_a_negative_norm_and_tells_of_nan():
    net = smex.partition(model(), workers=2, args=data(), loss_fn=nn.functional.mse_loss)
    net(*data()).backward()
    with pytest.raises(smex.SmexValueError, match="at least 0"):
        smex.clip_grad_norm_(net, -1.0)
    before = net.full_grads()
    next(iter(net.parameters())).grad.fill_(float("nan"))
    with pytest.raises(smex.SmexRuntimeError, match="nan"):
        smex.clip_grad_norm_(net, 1.0, error_if_nonfinite=True)
    assert before


def wrapped(rank):
    net = smex.partition(model(), args=data()[0], replicate_bytes=0)
    before = net.state_dict()
    texts = []
    for misuse in (nn.parallel.DistributedDataParallel, pickle.dumps):
        try:
            misuse(net)
        except (smex.SmexRuntimeError, smex.SmexTypeError) as error:
            texts.append(str(error))
    assert_same(net.state_dict(), before)
    return texts


def test_a_net_is_not_wrapped_or_pickled(processes):
    for first, second in processes.run(wrapped, 2):
        assert "is divided among the ranks already" in first
        assert "smex.save" in second


# ---- values ----


def of_first_rank(rank):
    """Ranks that have made other weights, and draw other numbers."""
    net = smex.partition(
        model(seed=rank, dropout=0.3), args=data(), loss_fn=nn.functional.mse_loss,
        replicate_bytes=0,
    )  # fmt: skip
    torch.manual_seed(100 + rank)
    losses = []
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.9, foreach=True)
    for _ in range(3):
        loss = net(*data())
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        losses.append(loss.item())
    return losses, net.state_dict(), {n: p.shape for n, p in net.named_parameters()}


@pytest.mark.parametrize("variables", [{}, GROUP], ids=["shared memory", "group"])
def test_rank_0_gives_weights_and_seeds(processes, variables):
    net = smex.partition(
        model(seed=0, dropout=0.3), workers=2, args=data(), loss_fn=nn.functional.mse_loss,
        replicate_bytes=0,
    )  # fmt: skip
    first, *others = processes.run(of_first_rank, 2, variables=variables)
    for losses, state, _ in others:
        assert losses == first[0]
        assert_same(state, first[1])
    assert set(first[2]) == {name for name, _ in model().named_parameters()}
    assert first[2]["first.weight"].numel() == 12 * 24 // 2
    torch.manual_seed(100)
    assert net(*data()).item() == first[0][0]


def whole_life(rank, workers):
    """Trains, evaluates on other sizes, saves, loads, goes on; with results and their gradients."""
    torch.manual_seed(1)
    net = smex.partition(model(), workers=workers, replicate_bytes=0, args=data()[0])
    optimizer = torch.optim.AdamW(net.parameters(), lr=0.01, fused=True)
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 1, gamma=0.5)
    seen = []
    for epoch in range(3):
        net.train()
        for rows in (16, 16, 7):
            x, y = data(rows, seed=epoch)
            x.requires_grad_()
            for _ in range(2):  # accumulates
                loss = nn.functional.mse_loss(net(x), y)
                (loss / 2).backward()
            seen.append(loss.detach())
            seen.append(x.grad.clone())
            optimizer.step()
            optimizer.zero_grad()
        scheduler.step()
        net.eval()
        with torch.no_grad():
            seen.append(net(data(5)[0]))
    saved = net.state_dict()
    for parameter in net.parameters():
        with torch.no_grad():
            parameter.zero_()
    net.load_state_dict(saved)
    plain = model(seed=7)
    plain.load_state_dict(saved)
    plain.eval()
    with torch.no_grad():
        torch.testing.assert_close(net(data(5)[0]), plain(data(5)[0]))
    clone = copy.deepcopy(net)
    with torch.no_grad():
        seen.append(clone(data(5)[0]))
    return seen, saved


@pytest.mark.parametrize("variables", [{}, GROUP], ids=["shared memory", "group"])
def test_a_whole_life_equals_that_on_threads(processes, variables):
    expected, state = whole_life(0, 2)
    for seen, saved in processes.run(whole_life, 2, 2, variables=variables):
        assert_same(saved, state)
        for found, wanted in zip(seen, expected, strict=True):
            assert torch.equal(found, wanted)


def two_nets(rank, workers):
    """A generator and a critic in turns, as one learns from the other."""
    torch.manual_seed(2)
    maker = smex.partition(model(), workers=workers, args=data()[0], replicate_bytes=0)
    critic = smex.partition(model(seed=3), workers=workers, args=data()[0], replicate_bytes=0)
    optimizers = [torch.optim.SGD(net.parameters(), lr=0.1) for net in (maker, critic)]
    for _ in range(3):
        critic(maker(data()[0])).square().mean().backward()
        for optimizer in optimizers:
            optimizer.step()
            optimizer.zero_grad()
    return maker.state_dict(), critic.state_dict()


def test_two_nets_take_turns(processes):
    expected = two_nets(0, 3)
    for found in processes.run(two_nets, 3, 3):
        for state, wanted in zip(found, expected, strict=True):
            assert_same(state, wanted)


# ---- inputs, meshes, measurements ----


def local_inputs(rank, world):
    x, y = data(4 * world)
    rows = slice(4 * rank, 4 * rank + 4)
    net = smex.partition(
        model(), args=(x[rows], y[rows]), loss_fn=nn.functional.mse_loss, inputs="local",
        replicate_bytes=0,
    )  # fmt: skip
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    losses = []
    for _ in range(3):
        given = x[rows].clone().requires_grad_()
        loss = net(given, y[rows])
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        losses.append((loss.detach(), given.grad))
    return losses


@pytest.mark.parametrize("world", [2, 3])
def test_each_rank_gives_its_rows(processes, world):
    reference = model()
    x, y = data(4 * world)
    x.requires_grad_()
    optimizer = torch.optim.SGD(reference.parameters(), lr=0.1)
    expected = []
    for _ in range(3):
        x.grad = None
        loss = nn.functional.mse_loss(reference(x), y)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        expected.append((loss.detach(), x.grad.clone()))
    for rank, found in enumerate(processes.run(local_inputs, world, world)):
        for (loss, grad), (wanted, wanted_grad) in zip(found, expected, strict=True):
            torch.testing.assert_close(loss, wanted)
            torch.testing.assert_close(grad, wanted_grad[4 * rank : 4 * rank + 4])


def of_a_mesh(rank, folder):
    mesh = init_device_mesh("cpu", (2, 2))
    net = smex.partition(
        model(), mesh=mesh, args=data(), loss_fn=nn.functional.mse_loss, replicate_bytes=0
    )
    result = net.trace(f"{folder}/trace.json", *data(), backward=True)
    stats = net.stats()
    return (
        net.plan.mesh,
        result.shape,
        stats["bytes_moved"],
        stats["predicted_bytes_moved"],
        repr(net),
    )


def test_a_mesh_gives_the_steps_and_one_file_has_all_tracks(processes, tmp_path):
    for steps, shape, moved, predicted, text in processes.run(of_a_mesh, 4, str(tmp_path)):
        assert steps == (2, 2)
        assert shape == ()
        assert moved == predicted > 0
        assert "4 workers as 2×2" in text
    events = json.loads((tmp_path / "trace.json").read_text())["traceEvents"]
    tracks = {e["tid"] for e in events if e["ph"] == "X" and e["pid"] == 0}
    assert tracks == {0, 1, 2, 3}


def alone_among_many(rank):
    """A net of one process where others have none."""
    shape = None
    if rank == 1:
        net = smex.partition(model(), workers=2, processes=1, args=data()[0])
        shape = net(data()[0]).shape
    dist.barrier()
    return shape


def test_a_process_may_have_a_net_to_itself(processes):
    assert processes.run(alone_among_many, 2)[1] == (16, 12)


def part_of_the_ranks(rank):
    mesh = torch.distributed.device_mesh.DeviceMesh("cpu", [1, 2])
    if rank == 0:
        try:
            smex.partition(model(), mesh=mesh, args=data()[0])
        except smex.SmexValueError as error:
            dist.barrier()
            return str(error)
    net = smex.partition(model(), mesh=mesh, args=data()[0], replicate_bytes=0)
    result = net(data()[0]).detach()
    dist.barrier()
    return result


def test_a_mesh_may_leave_ranks_out(processes):
    text, *results = processes.run(part_of_the_ranks, 3)
    assert "rank 0 calls it" in text
    expected = smex.partition(model(), workers=2, args=data()[0], replicate_bytes=0)(data()[0])
    for found in results:
        assert torch.equal(found, expected.detach())


def impossible(rank):
    texts = []
    for options in (
        {"workers": 3},
        {"inputs": "mine"},
        {"processes": 2},
        {"processes": 1, "mesh": init_device_mesh("cpu", (dist.get_world_size(),))},
    ):
        try:
            smex.partition(model(), args=data()[0], **options)
        except smex.SmexValueError as error:
            texts.append(str(error))
    return texts


def test_what_cannot_be(processes):
    for texts in processes.run(impossible, 2):
        assert len(texts) == 4
        assert "3 workers do not divide into 2 processes" in texts[0]


def reads_the_model(rank):
    original = model()
    net = smex.partition(original, args=data()[0], replicate_bytes=0, keep_model=False)
    try:
        original.first.weight.sum()
    except smex.SmexRuntimeError as error:
        return str(error), net.state_dict()["first.weight"]
    return "", None


def test_a_model_that_was_given_up_is_not_read_by_one_rank(processes):
    for text, weight in processes.run(reads_the_model, 2):
        assert "net.state_dict()" in text
        assert torch.equal(weight, model().first.weight)


def two_nets_in_other_orders(rank, copies):
    torch.set_num_threads(1)
    batch, target = torch.randn(6, 5, dtype=torch.float64), torch.randint(4, (6,))
    options = {
        "args": (batch, target),
        "loss_fn": torch.nn.functional.cross_entropy,
        "replicate_bytes": 0,
    }
    torch.manual_seed(0)
    first = smex.partition(torch.nn.Linear(5, 4).double(), **options)
    if copies:
        second = copy.deepcopy(first)
    else:
        second = smex.partition(torch.nn.Linear(5, 4).double(), **options)
    first(batch, target).backward()
    second(batch, target).backward()
    try:
        (second if rank else first)(batch, target)
    except smex.RankFailure as failure:
        return str(failure)
    return "mixed"


@pytest.mark.parametrize("copies", [False, True])
@pytest.mark.parametrize("variables", [{}, {"SMEX_SHARED_MEMORY": "0"}], ids=["memory", "group"])
def test_equal_nets_are_not_taken_for_each_other(processes, copies, variables):
    for failure in processes.run(two_nets_in_other_orders, 2, copies, variables=variables):
        assert "does not run the same" in failure


def clipped_by_value(rank):
    net = smex.partition(torch.nn.Linear(5, 4).double(), replicate_bytes=0)
    net(torch.ones(3, 5, dtype=torch.float64)).sum().backward()
    torch.nn.utils.clip_grad_value_(net.parameters(), 1e-3)
    try:
        torch.optim.LBFGS(net.parameters())
    except smex.errors.SmexRuntimeError as error:
        optimizer = str(error)
    return max(p.grad.abs().max().item() for p in net.parameters()), optimizer


def test_values_are_clipped_by_torch(processes):
    for largest, optimizer in processes.run(clipped_by_value, 2):
        assert largest == 1e-3
        assert "torch.optim.LBFGS takes dot products" in optimizer


def disagreement(rank, kind):
    torch.set_num_threads(1)
    torch.manual_seed(0)
    x, y = torch.randn(12, 5), torch.randint(4, (12,))
    options = {} if kind == "replica" else {"replicate_bytes": 0}
    loss_fn = torch.nn.functional.cross_entropy
    net = smex.partition(torch.nn.Linear(5, 4), args=(x, y), loss_fn=loss_fn, **options)
    torch.manual_seed(rank)  # as where nobody seeds
    order = torch.randperm(12) if kind == "shuffled" else torch.arange(12)
    if kind == "replica":
        net.apply(
            lambda module: (
                torch.nn.init.normal_(module.weight) if hasattr(module, "weight") else None
            )
        )
        with torch.no_grad():
            for parameter in net.parameters():
                parameter.normal_()
    if kind == "rounded":  # by another processor
        x = x * (1 + 1e-6 * rank)
    try:
        loss = net(x[order], y[order])
    except smex.errors.SmexValueError as error:
        torch.manual_seed(0)
        smex.init(net, seed=0)
        again = net(x, y)  # it is still good
        return str(error), again.item()
    return "", loss.item()


@pytest.mark.parametrize(
    ("kind", "told"),
    [
        ("shuffled", 'passed different tensors as "'),
        ("replica", 'hold parameter or buffer "'),
        ("same", ""),
        ("rounded", ""),
    ],
)
def test_what_ranks_should_have_alike_is_compared(processes, kind, told):
    found = processes.run(disagreement, 3, kind)
    for text, loss in found:
        assert told in text and bool(text) == bool(told)
        assert loss == pytest.approx(found[0][1], abs=1e-5)
