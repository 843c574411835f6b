"""Nets whose workers get unequal parts, or none, against the plain model, in float64."""

import copy

import pytest
import torch
from torch import nn
from torch.nn import functional as F

import smex
from smex.cluster.strategies import Strategies
from support.checkpoints import Net, adamw, data, train
from support.families import FAMILIES, small_case
from support.graph_networks import graph, trained
from support.processes import ProcessPool

pytestmark = pytest.mark.costly

SHARES = {2: [3, 1], 3: [2, 0, 1], 4: [4, 2, 1, 1]}


def assert_as_alone(model, inputs, target, loss_fn, net):
    plain = copy.deepcopy(model)
    expected = loss_fn(plain(*inputs), target)
    expected.backward()
    found = net(*inputs, target)
    found.backward()
    torch.testing.assert_close(found.detach(), expected.detach(), rtol=1e-10, atol=1e-12)
    gradients = net.full_grads()
    for name, parameter in plain.named_parameters():
        largest = parameter.grad.abs().max().item()
        torch.testing.assert_close(
            gradients[name], parameter.grad, rtol=0, atol=1e-10 * max(largest, 1e-3), msg=name
        )
    for name, buffer in plain.named_buffers():
        torch.testing.assert_close(net.state_dict()[name], buffer, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize(
    ("workers", "planner"),
    [(2, "tofu"), (3, "tofu"), (4, "data_parallel"), (3, "homes"), (2, "fsdp")],
)
@pytest.mark.parametrize("family", FAMILIES)
def test_families_compute_what_they_compute_alone(family, workers, planner):
    model, inputs, target, loss_fn = small_case(family)
    net = smex.partition(
        model, workers, loss_fn=loss_fn, args=(*inputs, target), planner=planner,
        replicate_bytes=0 if planner == "tofu" else None, weights=SHARES[workers],
    )  # fmt: skip
    assert_as_alone(model, inputs, target, loss_fn, net)
    stats = net.stats()
    assert stats["bytes_moved"] == stats["predicted_bytes_moved"]


@pytest.mark.parametrize("worker", range(3))
def test_one_worker_may_get_everything(worker):
    model, inputs, target, loss_fn = small_case("wresnet")
    shares = [float(other == worker) for other in range(3)]
    net = smex.partition(
        model, 3, loss_fn=loss_fn, args=(*inputs, target), replicate_bytes=0, weights=shares
    )
    assert_as_alone(model, inputs, target, loss_fn, net)
    peaks = net.plan.peak_bytes()
    assert peaks[worker] == max(peaks) > 2 * sorted(peaks)[-2]


@pytest.mark.parametrize("name", ["GCN", "GAT", "R-GCN"])
def test_graph_networks_compute_what_they_compute_alone(name):
    g = graph()
    x = torch.randn(g.num_nodes(), 6, dtype=torch.float64)
    model, expected, weights, gradients = trained(name, g, x)
    net = smex.partition(model, 3, args=(g, x), weights=[3, 0, 1], replicate_bytes=0)
    found = net(g, x)
    (found * weights).sum().backward()
    torch.testing.assert_close(found.detach(), expected, rtol=1e-10, atol=1e-12)
    for key, value in net.full_grads().items():
        torch.testing.assert_close(value, gradients[key], rtol=1e-9, atol=1e-11, msg=key)


def test_rows_are_in_proportion():
    model = nn.Linear(6, 5).double()
    x = torch.rand(16, 6, dtype=torch.float64)
    net = smex.partition(
        model, 4, args=(x,), planner="data_parallel", replicate_bytes=0, weights=[4, 2, 1, 1]
    )
    tiles = net.plan.tiles("input")
    assert [hi - lo for _, [(lo, hi), _] in tiles] == [8, 4, 2, 2]
    assert net.plan.words("input") == "S0/4@4:2:1:1"
    assert "S0/4@4:2:1:1" in str(net.plan)


def test_the_mean_is_of_the_whole_batch():
    """What averages over workers would count rows of the small part more (see torch's DDP)."""
    model = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.Linear(4, 1)).double()
    x = torch.arange(24, dtype=torch.float64).reshape(8, 3) ** 2
    y = torch.linspace(-5, 5, 8, dtype=torch.float64).unsqueeze(1)
    net = smex.partition(
        model, 2, loss_fn=F.mse_loss, args=(x, y), planner="data_parallel", weights=[7, 1]
    )
    assert_as_alone(model, (x,), y, F.mse_loss, net)


# ---- before and after ----


def weighted(shares, **options):
    torch.manual_seed(0)
    net = smex.partition(
        Net().double(), len(shares), args=data(), loss_fn=F.mse_loss, replicate_bytes=0,
        weights=shares, **options,
    )  # fmt: skip
    return net, adamw(net.parameters())


def test_training_goes_on_with_other_workers_and_shares(tmp_path):
    losses = train(*weighted([1]), 6)
    net, opt = weighted([3, 1])
    found = train(net, opt, 2)
    smex.save(tmp_path / "one", net, opt)
    net, opt = weighted([1, 0, 4])
    smex.load(tmp_path / "one", net, opt)
    found += train(net, opt, 2)
    smex.save(tmp_path / "two", net, opt)
    net, opt = weighted([1, 1])
    smex.load(tmp_path / "two", net, opt)
    found += train(net, opt, 2)
    assert found == pytest.approx(losses, rel=1e-10)


def test_evaluating_and_other_batches_between_steps():
    plain = Net().double()
    net = smex.partition(
        copy.deepcopy(plain), 3, args=(data()[0],), replicate_bytes=0, weights=[2, 0, 1]
    )
    opts = [adamw(module.parameters()) for module in (plain, net)]
    for batch in (12, 7, 12, 1, 30):
        x, y = data(max(batch, 2))
        for module, opt in zip((plain, net), opts, strict=True):
            module.train()
            F.mse_loss(module(x), y).backward()
            opt.step()
            opt.zero_grad()
            module.eval()
        with torch.no_grad():
            torch.testing.assert_close(net(x[:batch]), plain(x[:batch]), rtol=1e-9, atol=1e-11)


def test_a_plan_that_was_saved_is_the_same(tmp_path):
    model, inputs, target, loss_fn = small_case("gpt")
    graph_ = smex.capture_graph(model, (*inputs, target), loss_fn=loss_fn)
    plan = smex.search(graph_, 3, planner="homes", weights=[2, 0, 1])
    plan.save(tmp_path / "plan.json")
    again = smex.Plan.load(tmp_path / "plan.json", graph_)
    assert again.placements() == plan.placements() and again.total_bytes == plan.total_bytes
    assert again.native.ops == plan.native.ops
    net = smex.partition(model, loss_fn=loss_fn, plan=tmp_path / "plan.json")
    assert_as_alone(model, inputs, target, loss_fn, net)


@pytest.mark.parametrize(
    ("placement", "words"),
    [("W1", "W0/2 W1/2"), ("S0/2@3:1:1:1 R/2", "S0/2@3:1:1:1 R/2"), ("W1/2 R/2", "W1/2 R/2")],
)
def test_pins(placement, words):
    model = nn.Linear(6, 8).double()
    x = torch.rand(16, 6, dtype=torch.float64)
    net = smex.partition(
        model, 4, args=(x,), mesh=[2, 2], weights=[3, 1, 1, 1],
        pins=[smex.pin("weight", placement)],
    )  # fmt: skip
    assert net.plan.words("weight") == words
    torch.testing.assert_close(net(x), model(x), rtol=1e-10, atol=1e-12)


@pytest.fixture(scope="module")
def pool():
    processes = ProcessPool()
    yield processes
    processes.close()


def in_processes(rank, workers):
    torch.set_num_threads(1)
    net, opt = weighted([3, 0, 1][:workers])
    return train(net, opt, 3), net.state_dict()


@pytest.mark.parametrize("workers", [2, 3])
def test_processes_are_as_threads(pool, workers):
    losses, state = in_processes(0, workers)
    for found, theirs in pool.run(in_processes, workers, workers):
        assert found == losses
        for name, tensor in state.items():
            assert torch.equal(theirs[name], tensor), name


def on_worker(rank, worker, folder):
    """Trains where one process has everything; the others take part with nothing."""
    torch.set_num_threads(1)
    net, opt = _given_to(worker)
    losses = train(net, opt, 2)
    net.eval()
    with torch.no_grad():
        net(*data(7))
    net.train()
    norm = smex.clip_grad_norm_(net, 1.0).item()
    smex.save(f"{folder}/{worker}", net, opt)
    net, opt = _given_to((worker + 1) % 3)
    smex.load(f"{folder}/{worker}", net, opt)
    losses += train(net, opt, 2)
    smex.save(f"{folder}/{worker}b", net, opt)
    net, opt = weighted([1, 2, 1])
    smex.load(f"{folder}/{worker}b", net, opt)
    return losses + train(net, opt, 2), norm, net.state_dict()


def _given_to(worker):
    torch.manual_seed(0)
    model = Net().double()
    graph_ = smex.capture_graph(model, data(), loss_fn=F.mse_loss)
    strategies = Strategies(graph_, smex.cluster.heterog_testbed().first(3))
    plan = strategies.plan([worker] * strategies.groups)
    net = smex.partition(model, plan=plan, args=data(), loss_fn=F.mse_loss)
    return net, adamw(net.parameters())


@pytest.mark.parametrize("worker", [0, 1])
def test_processes_may_have_nothing_of_the_model(pool, worker, tmp_path):
    losses = train(*weighted([1]), 6)
    for found, norm, state in pool.run(on_worker, 3, worker, str(tmp_path)):
        assert found == pytest.approx(losses, rel=1e-10)
        assert norm == 0  # the gradients of a step are gone
        assert state.keys() == Net().state_dict().keys()


# ---- errors ----


@pytest.mark.parametrize(
    ("weights", "message"),
    [
        ([1, 2, 3], r"weights of 2 workers are as many numbers .*got \[1, 2, 3\]"),
        ([1, -1], "numbers from 0 on"),
        ([0, 0], "not all 0"),
        ([1, float("nan")], "numbers from 0 on"),
        ("speed", "needs machine=, a smex.Cluster"),
    ],
)
def test_weights_that_are_none(weights, message):
    graph_ = smex.capture_graph(nn.Linear(4, 4), (torch.rand(8, 4),))
    with pytest.raises(smex.PlanError, match=message):
        smex.search(graph_, 2, weights=weights)


@pytest.mark.parametrize("weights", ["fast", 3, True])
def test_what_weights_may_be(weights):
    graph_ = smex.capture_graph(nn.Linear(4, 4), (torch.rand(8, 4),))
    with pytest.raises(smex.SmexTypeError, match='"even", "speed" or a number for each worker'):
        smex.search(graph_, 2, weights=weights)


@pytest.mark.parametrize(
    ("placement", "message"),
    [
        ("S0@speed", 'cut by weights "speed"; the search is given none'),
        ("W2", "at worker 2 of 2; they are numbered from 0|at number 2 of a step of 2"),
        ([1024], "cut by weights that the search is not given"),
    ],
)
def test_pins_that_do_not_fit(placement, message):
    graph_ = smex.capture_graph(nn.Linear(4, 4), (torch.rand(8, 4),))
    with pytest.raises(smex.PlanError, match=message):
        smex.search(graph_, 2, pinned=[smex.pin("weight", placement)])
