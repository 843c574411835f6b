"""Nets whose workers have less device memory than a step needs, beside nets that have enough."""

import copy
import math
import pickle

import pytest
import torch
from torch import nn
from torch.nn import functional

import smex
import smex.graph as sg
from smex import _C
from smex.planning.placed import view_targets
from support.graph_networks import GCN, SAGE, graph
from support.processes import ProcessPool

pytestmark = pytest.mark.costly


class Deep(nn.Module):
    """Layers with a buffer that training changes, a module used twice, and views."""

    def __init__(self):
        super().__init__()
        self.first = nn.Linear(24, 32)
        self.layers = nn.ModuleList(nn.Linear(32, 32) for _ in range(4))
        self.norm = nn.BatchNorm1d(32)
        self.last = nn.Linear(32, 8)

    def forward(self, x):
        x = self.first(x)
        for layer in self.layers:
            x = torch.relu(layer(x))
        x = self.norm(self.layers[0](x))
        return self.last(x.view(-1, 2, 16).transpose(1, 2).reshape(-1, 32))


class WithDropout(Deep):
    def forward(self, x):
        return super().forward(functional.dropout(x, 0.5, self.training))


def data(rows=48, seed=0):
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(rows, 24, generator=generator), torch.randn(rows, 8, generator=generator)


def made(model=Deep, workers=1, **options):
    torch.manual_seed(0)
    options = {"loss_fn": functional.mse_loss, "args": data(), **options}
    return smex.partition(model(), workers, **options)


def least(net):
    """The least device memory that a net's first plan runs in."""
    plan = smex.search(net.plan.graph, net.workers)
    return _C.largest_instr(plan.program(), view_targets(plan.graph)).bytes


def between(net, share):
    """A limit between the least that works and what the net takes without one."""
    low = least(net)
    return low + share * (max(net.plan.peak_bytes()) - low)


def step(net, optimizer, inputs):
    optimizer.zero_grad()
    loss = net(*inputs)
    loss.backward()
    optimizer.step()
    return loss.detach()


def assert_equal(found, expected):
    assert found.keys() == expected.keys()
    for name, tensor in expected.items():
        assert torch.equal(found[name], tensor), name


def assert_kept_to(net, limit):
    stats = net.stats()
    assert max(stats["peak_bytes"]) <= limit
    assert stats["spilled_bytes"] == stats["predicted_spilled_bytes"]
    return stats


ADAM = torch.optim.Adam
LIMITS = pytest.mark.parametrize("share", [0.0, 0.3, 0.7])


# ---- training ----


@LIMITS
@pytest.mark.parametrize("workers", [1, 2, 3])
@pytest.mark.parametrize("model", [Deep, WithDropout])
def test_training_is_bit_equal_to_that_without_a_limit(model, workers, share):
    free = made(model, workers)
    limit = between(free, share)
    net = made(model, workers, device_memory=limit)
    optimizers = ADAM(free.parameters()), ADAM(net.parameters())
    for seed in range(4):
        inputs = data(seed=seed)
        torch.manual_seed(seed)
        expected = step(free, optimizers[0], inputs)
        torch.manual_seed(seed)
        assert torch.equal(step(net, optimizers[1], inputs), expected)
        stats = assert_kept_to(net, limit)
        predicted = net.plan.spilled_bytes()
        assert stats["spilled_bytes"] == {k: predicted[k] for k in ("spill", "restore")}
        assert predicted["least"] <= predicted["spill"] + predicted["restore"]
        assert_equal(net.full_grads(), free.full_grads())
    assert_equal(net.state_dict(), free.state_dict())
    assert stats["spilled_bytes"]["restore"] > 0


def test_a_smaller_limit_moves_more():
    free = made()
    moved = []
    for share in (0.0, 0.3, 0.7, 1.0):
        plan = made(device_memory=between(free, share)).plan
        bytes_ = plan.spilled_bytes()
        moved.append(bytes_["spill"] + bytes_["restore"])
    assert moved == sorted(moved, reverse=True)
    assert moved[0] > moved[-1]


def test_without_a_limit_nothing_is_spilled():
    net = made()
    net(*data()).backward()
    assert net.plan.spilled_bytes() == {}
    assert "predicted_spilled_bytes" not in net.stats()
    assert not any(net.stats()["spilled_bytes"].values())


@pytest.mark.parametrize("workers", [1, 2])
def test_train_evaluate_and_train_again_with_other_sizes(workers):
    free = made(workers=workers)
    limit = 1.5 * between(free, 0.5)
    net = made(workers=workers, device_memory=limit)
    nets = free, net
    optimizers = [torch.optim.SGD(n.parameters(), lr=0.1, momentum=0.9) for n in nets]
    for rows in (48, 16, 48, 60, 2):
        inputs = data(rows, seed=rows)
        losses = [step(n, o, inputs) for n, o in zip(nets, optimizers, strict=True)]
        assert torch.equal(*losses), rows
        assert_kept_to(net, limit)
        for n in nets:
            n.eval()
        with torch.no_grad():
            assert torch.equal(net(*inputs), free(*inputs)), rows
        assert_kept_to(net, limit)
        for n in nets:
            n.train()
    assert_equal(net.state_dict(), free.state_dict())


def test_several_calls_before_their_backward_passes():
    """Each has its own tiles on the host; they are one net's."""
    free = made(loss_fn=None, args=data()[0])
    net = made(loss_fn=None, args=data()[0], device_memory=1.1 * least(free))
    for n in (free, net):
        first, second = (n(data(seed=seed)[0]) for seed in (0, 1))
        (first.square().sum() + second.sum()).backward()
    assert_equal(net.full_grads(), free.full_grads())


def test_gradients_accumulate_and_inputs_have_theirs():
    free = made(loss_fn=None, args=data()[0])
    net = made(loss_fn=None, args=data()[0], device_memory=1.1 * least(free))
    found = []
    for n in (free, net):
        x = data()[0].requires_grad_()
        for _ in range(2):
            n(x).sum().backward()
        found.append(x.grad)
    assert torch.equal(*found)
    assert_equal(net.full_grads(), free.full_grads())


def test_what_the_caller_changes_between_calls_is_seen():
    """Parameters and inputs lie on the host: no copy of a device outlives a call."""
    free = made()
    net = made(device_memory=1.1 * least(free))
    inputs = data()
    for n in (free, net):
        n(*inputs)
        with torch.no_grad():
            for parameter in n.parameters():
                parameter.mul_(1.5)
    inputs[0].add_(1)
    assert torch.equal(net(*inputs), free(*inputs))


@pytest.mark.parametrize("workers", [1, 2, 4])
@pytest.mark.parametrize("model", [GCN, SAGE])
def test_a_graph_network(model, workers):
    g = graph()
    torch.manual_seed(1)
    args = g, torch.randn(g.num_nodes(), 6), torch.randint(4, (g.num_nodes(),))
    options = {"loss_fn": functional.cross_entropy, "args": args, "workers": workers}
    free = made(model, **options)
    limit = between(free, 0.2)
    net = made(model, **options, device_memory=limit)
    optimizers = ADAM(free.parameters()), ADAM(net.parameters())
    for _ in range(3):
        losses = [step(n, o, args) for n, o in zip((free, net), optimizers, strict=True)]
        assert torch.equal(*losses)
        assert_kept_to(net, limit)
    assert_equal(net.state_dict(), free.state_dict())
    assert net.plan.spilled_bytes()["restore"] > 0


def test_structure_of_a_graph_is_moved_once_where_layers_share_it():
    """Both layers read the same edges: where all fits they come once."""
    g = sg.rand_graph(50, 2000)
    args = g, torch.randn(50, 6), torch.randint(4, (50,))
    options = {"loss_fn": functional.cross_entropy, "args": args}
    free = made(GCN, **options)
    net = made(GCN, **options, device_memory=10 * max(free.plan.peak_bytes()))
    edges = 2 * 2000 * 8  # of both directions, with ids of 8 bytes
    assert edges <= net.plan.spilled_bytes()["restore"] < 1.5 * edges


def test_an_undirected_graph_has_one_structure_for_both_directions():
    """Of sorted edges that go both ways; a net without a limit reads each by itself."""
    pairs = torch.combinations(torch.arange(30))
    ends = torch.cat([pairs, pairs.flip(1)])
    ends = ends[(ends[:, 0] * 30 + ends[:, 1]).argsort()]
    g = sg.graph((ends[:, 0], ends[:, 1]), num_nodes=30)
    args = g, torch.randn(30, 6), torch.randint(4, (30,))
    options = {"loss_fn": functional.cross_entropy, "args": args}
    for workers in (1, 2):
        free = made(GCN, workers, **options)
        roomy = made(GCN, workers, **options, device_memory=10 * max(free.plan.peak_bytes()))
        net = made(GCN, workers, **options, device_memory=1.1 * least(free))
        for n in (free, roomy, net):
            n(*args).backward()
        assert_equal(roomy.full_grads(), free.full_grads())
        assert_equal(net.full_grads(), free.full_grads())
        if workers == 1:
            edges = 8 * g.num_edges()
            assert edges <= roomy.plan.spilled_bytes()["restore"] < 1.5 * edges


# ---- files ----


def test_a_plan_keeps_its_limit_in_a_file(tmp_path):
    free = made()
    limit = math.ceil(between(free, 0.3))
    net = made(device_memory=limit)
    net.plan.save(tmp_path / "plan.json")
    again = made(plan=tmp_path / "plan.json")
    assert again.plan.options.device_memory == limit
    assert again.plan.spilled_bytes() == net.plan.spilled_bytes()
    assert torch.equal(again(*data()), free(*data()))
    assert_kept_to(again, limit)
    loaded = smex.Plan.load(tmp_path / "plan.json", net.plan.graph)
    assert loaded.spilled_bytes() == net.plan.spilled_bytes()
    more = made(plan=tmp_path / "plan.json", device_memory=2 * limit)
    assert more.plan.options.device_memory == 2 * limit
    assert more.plan.spilled_bytes()["restore"] < net.plan.spilled_bytes()["restore"]


def test_a_plan_of_a_search_is_run_with_its_limit():
    free = made()
    limit = between(free, 0.3)
    plan = smex.search(free.plan.graph, 1, device_memory=limit)
    net = made(plan=plan)
    loss = net(*data())
    loss.backward()
    assert torch.equal(loss, free(*data()))
    assert_kept_to(net, limit)


def test_checkpoints_go_between_nets_with_and_without_a_limit(tmp_path):
    free = made(workers=2)
    limit = between(free, 0.3)
    optimizer = ADAM(free.parameters())
    step(free, optimizer, data())
    smex.save(tmp_path / "free", free, optimizer)
    net = made(workers=2, device_memory=limit)
    own = ADAM(net.parameters())
    smex.load(tmp_path / "free", net, own)
    losses = step(net, own, data(seed=1)), step(free, optimizer, data(seed=1))
    assert torch.equal(*losses)
    smex.save(tmp_path / "net", net, own)
    other = made(workers=3)
    smex.load(tmp_path / "net", other, ADAM(other.parameters()))
    assert_equal(other.state_dict(), free.state_dict())


def test_copies_and_pickles_keep_the_limit():
    free = made()
    limit = between(free, 0.3)
    plan = made(device_memory=limit).plan
    assert copy.copy(plan).spilled_bytes() == plan.spilled_bytes()
    net = copy.deepcopy(made(device_memory=limit))
    assert torch.equal(net(*data()), free(*data()))
    assert_kept_to(net, limit)
    state = pickle.loads(pickle.dumps(net.state_dict()))
    assert_equal(state, net.state_dict())


# ---- what it says ----


def test_what_a_plan_says():
    free = made()
    net = made(device_memory=between(free, 0.3))
    moved = net.plan.spilled_bytes()
    for text in (repr(net.plan), repr(net), str(net.plan)):
        assert "spills " in text
        assert "to the host and restores " in text
    assert moved["spill"] > 0
    assert "spills" not in repr(free)


def test_a_trace_has_the_moves(tmp_path):
    net = made(device_memory=1.01 * least(made()))
    net.trace(tmp_path / "trace.json", *data(), backward=True)
    text = (tmp_path / "trace.json").read_text()
    for name in ("spill", "restore"):
        assert f'"{name}"' in text


# ---- errors ----


def test_a_limit_that_is_too_small_tells_what_needs_how_much():
    free = made()
    torch.manual_seed(0)
    model = Deep()
    before = copy.deepcopy(model.state_dict())
    with pytest.raises(
        smex.PlanError,
        match=r"device_memory: .* on worker 0 needs .* at once, for its operands and results, and "
        r"1000 B are given: device_memory=(\d+) is the least that works; a smaller batch or more",
    ) as raised:
        smex.partition(model, 1, loss_fn=functional.mse_loss, args=data(), device_memory=1000)
    assert_equal(model.state_dict(), before)
    needed = int(str(raised.value).split("device_memory=")[1].split(" ")[0])
    assert needed == least(free)
    net = smex.partition(model, 1, loss_fn=functional.mse_loss, args=data(), device_memory=needed)
    assert torch.equal(net(*data()), free(*data()))
    with pytest.raises(smex.PlanError, match=f"device_memory={needed} is the least"):
        made(device_memory=needed - 1)


def test_a_call_that_does_not_fit_leaves_the_net_as_it_was():
    free = made()
    limit = between(free, 0.5)
    net = made(device_memory=limit)
    optimizers = ADAM(free.parameters()), ADAM(net.parameters())
    for n, optimizer in zip((free, net), optimizers, strict=True):
        step(n, optimizer, data())
    before = copy.deepcopy(net.state_dict())
    for _ in range(2):
        with pytest.raises(smex.PlanError, match="needs .* at once, for its operands and results"):
            net(*data(rows=4800))
        assert_equal(net.state_dict(), before)
    losses = [step(n, o, data(seed=1)) for n, o in zip((free, net), optimizers, strict=True)]
    assert torch.equal(*losses)
    assert_kept_to(net, limit)


@torch.library.custom_op("smex_test::keeps_more", mutates_args=())
def keeps_more(x: torch.Tensor) -> torch.Tensor:
    """Its result is a part of larger memory, which no shape tells."""
    return torch.cat([x] * 6)[: len(x)]


@keeps_more.register_fake
def _(x):
    return torch.empty_like(x)


class KeepsMore(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.norm = nn.Linear(24, 32), nn.BatchNorm1d(32)

    def forward(self, x):
        return self.norm(keeps_more(self.first(x)))


@pytest.mark.filterwarnings("ignore::smex.MissingSpecWarning")
def test_an_operator_that_keeps_more_than_its_result_is_told_when_it_runs():
    options = {"model": KeepsMore, "loss_fn": None, "args": data()[0]}
    with torch.no_grad():
        free = made(**options)
        limit = max(free.plan.peak_bytes())
        net = made(**options, device_memory=limit)
        before = copy.deepcopy(net.state_dict())
        for _ in range(2):
            with pytest.raises(
                smex.SmexValueError,
                match=r"keeps_more .* on worker 0: tiles of \d+ bytes at once, more than "
                rf"device_memory={limit} allows: an operator keeps more than its results take; "
                r"give device_memory= \d+ bytes more",
            ):
                net(data()[0])
            assert_equal(net.state_dict(), before)
        net = made(**options, device_memory=limit + 5 * 48 * 32 * 4)
        assert torch.equal(net(data()[0]), free(data()[0]))


@pytest.mark.parametrize("limit", ["16GB", 0, -1, math.nan, math.inf, True])
def test_a_limit_is_a_number_of_bytes(limit):
    with pytest.raises(
        smex.PlanError,
        match="search: device_memory must be a finite number of at least 1 byte, got ",
    ):
        made(device_memory=limit)


def refused_on_ranks(rank):
    torch.manual_seed(0)
    model = Deep()
    try:
        smex.partition(model, loss_fn=functional.mse_loss, args=data(), device_memory=1e6)
    except smex.SmexValueError as error:
        text = str(error)
    alone = smex.partition(
        model, 1, loss_fn=functional.mse_loss, args=data(), processes=1, device_memory=1e6
    )
    return text, alone(*data()).item()


def test_several_ranks_are_refused():
    processes = ProcessPool()
    try:
        found = processes.run(refused_on_ranks, 2)
    finally:
        processes.close()
    expected = made()(*data()).item()
    for text, loss in found:
        assert "device_memory= is of workers in one process, found 2: pass processes=1" in text
        assert loss == pytest.approx(expected)
