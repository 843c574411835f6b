"""Plans that are measured in turns, the offer, and a runner that goes on under another plan."""

import copy
import itertools
import math
import warnings

import pytest
import torch
from torch import nn
from torch.nn import functional as F

import smex
from smex.cluster import (
    Comparison,
    Measured,
    RunnerConfig,
    compare,
    get_runner,
    heterog_testbed,
    plan,
)
from smex.cluster.comparing import warn_of
from smex.cluster.strategies import BASELINES, Strategies
from support.processes import ProcessPool

CLUSTER = heterog_testbed().first(3)


class Net(nn.Module):
    """With batch norm, dropout, and buffers of which one is not saved."""

    def __init__(self):
        super().__init__()
        self.first = nn.Linear(6, 16, bias=False)
        self.norm = nn.BatchNorm1d(16)
        self.last = nn.Linear(16, 3)
        self.register_buffer("seen", torch.zeros(16), persistent=False)

    def forward(self, x):
        hidden = F.dropout(self.norm(self.first(x)), 0.2, self.training)
        with torch.no_grad():
            self.seen += hidden.abs().mean(0)
        return self.last(torch.tanh(hidden + 0.01 * self.seen))


def made(dtype=torch.float64):
    with torch.random.fork_rng():
        torch.manual_seed(0)
        model = Net().to(dtype)
        return model, (torch.randn(12, 6, dtype=dtype), torch.randn(12, 3, dtype=dtype))


def graph_of(model, args):
    return smex.capture_graph(model, args, loss_fn=F.mse_loss)


def one_worker(graph, cluster=CLUSTER):
    """All of the model on the first worker."""
    strategies = Strategies(graph, cluster)
    return strategies.plan(strategies.uniform("G0"))


# ---- the offer, by given numbers ----


def row(name, *rounds, is_data_parallel=False, simulated=1.0):
    rounds = tuple(tuple(map(float, seconds)) for seconds in rounds)
    return Measured(name, f"plan of {name}", simulated, rounds, 2048, is_data_parallel)


def test_what_a_row_says():
    one = row("a", (1, 2, 9), (3, 4, 5))
    assert one.seconds == 3.5 and one.spread == 2.0
    assert repr(one) == "Measured(a: 3.5 s a step, rounds within 2 s, 1 s simulated, " + (
        "peak 2.0 KiB predicted)"
    )
    assert "simulated" not in repr(row("a", (1,), (1,), simulated=None))


@pytest.mark.parametrize(
    ("first", "others", "offered"),
    [
        (((10,), (10,)), {"EV-AR": ((8,), (8,))}, "EV-AR"),
        (((10,), (10,)), {"EV-AR": ((8,), (8,)), "EV-PS": ((7,), (7,))}, "EV-PS"),
        (((10,), (10,)), {"EV-AR": ((10,), (10,))}, None),
        (((10,), (10,)), {"EV-AR": ((11,), (11,))}, None),
        (((10,), (10,)), {"mine": ((5,), (5,)), "EV-AR": ((8,), (8,))}, "EV-AR"),
        (((10,), (10,)), {"mine": ((5,), (5,))}, None),
        (((9,), (11,)), {"EV-AR": ((8,), (8,))}, None),  # within the noise of the first
        (((10,), (10,)), {"EV-AR": ((7,), (9,))}, None),  # of the other
        (((9.5,), (10.5,)), {"EV-AR": ((8.4,), (8.6,))}, "EV-AR"),
        (((10,), (10,)), {"EV-PS": ((5,), (11,)), "EV-AR": ((8.5,), (8.5,))}, "EV-AR"),
        (((10, 10, 99), (10, 10, 99)), {"EV-AR": ((8, 8, 8), (8, 8, 8))}, "EV-AR"),
    ],
)
def test_data_parallelism_is_offered_beyond_the_noise(first, others, offered):
    rows = [row("first", *first)]
    rows += [
        row(name, *rounds, is_data_parallel=name in BASELINES) for name, rounds in others.items()
    ]
    comparison = Comparison(tuple(rows))
    assert comparison.offer == (offered and f"plan of {offered}")
    assert ("is offered" in repr(comparison)) == (offered is not None)
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        warn_of(comparison)
    assert [each.category for each in told] == [smex.SlowPlanWarning] * (offered is not None)


def test_a_table():
    rows = row("mine", (4,), (5,)), row("EV-AR", (2,), (2,), is_data_parallel=True, simulated=None)
    comparison = Comparison(rows)
    assert comparison.fastest is rows[1] is comparison["EV-AR"]
    assert str(comparison).splitlines() == [
        "Comparison(2 plans: EV-AR is the fastest with 2 s a step, EV-AR is offered)",
        "  plan   simulated  measured  rounds within  predicted peak",
        "  mine         1 s     4.5 s            1 s         2.0 KiB",
        "  EV-AR                  2 s           0 µs         2.0 KiB  offered",
    ]
    with pytest.raises(smex.SmexValueError, match="expected one of mine, EV-AR, found 'x'"):
        comparison["x"]
    message = (
        "'mine' takes 4.5 s a step, and data parallelism, 'EV-AR', 2 s; rounds of either are "
        r"within 1 s. smex.partition\(model, plan=comparison.offer\) runs the latter"
    )
    with pytest.warns(smex.SlowPlanWarning, match=message):
        warn_of(comparison)


# ---- what is measured ----


def quietly(*args, **options):
    """Whether anything is offered depends on the machine that tests run on."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", smex.SlowPlanWarning)
        return compare(*args, **options)


def test_data_parallelism_is_added_by_the_simulator():
    model, args = made()
    graph = graph_of(model, args)
    found = plan(graph, CLUSTER, "local", calls=8)
    comparison = quietly(model, args, F.mse_loss, {"mine": found}, steps=2)
    baselines = {name: plan(graph, CLUSTER, name) for name in BASELINES}
    best = min(baselines, key=lambda name: baselines[name].seconds)
    first, added = comparison.rows
    assert (first.name, added.name) == ("mine", best)
    assert not first.is_data_parallel and added.is_data_parallel
    assert first.plan is found.plan and added.plan.placements() == baselines[best].plan.placements()
    assert first.simulated_seconds == found.seconds
    assert added.simulated_seconds == baselines[best].seconds
    assert first.peak_bytes == max(found.peak_bytes)
    assert [len(each.rounds) for each in comparison.rows] == [2, 2]
    steps = list(itertools.chain(*first.rounds, *added.rounds))
    assert len(steps) == 8 and all(0 < seconds < 60 for seconds in steps)


@pytest.mark.parametrize("own", ["data_parallel", "named", "homes"])
def test_nothing_is_added_to_data_parallelism(own):
    model, args = made()
    graph = graph_of(model, args)
    plans = {
        "data_parallel": {"a": plan(graph, CLUSTER, "data_parallel")},
        "named": {"a": one_worker(graph), "EV-AR": plan(graph, CLUSTER, "EV-AR").plan},
        "homes": {"a": smex.search(graph, 3, planner="homes")},
    }[own]
    comparison = quietly(model, args, F.mse_loss, plans, steps=1)
    assert [each.name for each in comparison.rows] == list(plans)
    assert comparison.rows[-1].is_data_parallel


def test_plans_of_like_workers():
    model, args = made()
    graph = graph_of(model, args)
    machine = smex.Machine.h100_nvlink()
    timed = smex.search(graph, 2, objective="time", machine=machine)
    comparison = quietly(model, args, F.mse_loss, {"a": timed}, steps=1, optimizer_states=2)
    assert [each.name for each in comparison.rows] == ["a", "data_parallel"]
    assert comparison["a"].simulated_seconds == smex.simulate(timed).seconds
    assert comparison["a"].peak_bytes > max(timed.peak_bytes())
    assert comparison["data_parallel"].plan.planner == "data_parallel"
    untimed = quietly(model, args, F.mse_loss, {"a": smex.search(graph, 2)}, steps=1)
    assert [each.simulated_seconds for each in untimed.rows] == [None, None]


def test_what_does_not_fit_is_not_added():
    model, args = made()
    graph = graph_of(model, args)
    devices = [
        smex.cluster.Device(each.name, each.flops, each.memory_bandwidth, each.launch, 100.0)
        for each in CLUSTER.devices[:2]
    ]
    link = smex.cluster.Link(1e-5, 1e9)
    tiny = smex.Cluster("tiny", tuple(devices), (0, 0), link, (link,))
    comparison = quietly(model, args, F.mse_loss, {"a": one_worker(graph, tiny)}, steps=1)
    assert [each.name for each in comparison.rows] == ["a"] and comparison.offer is None


@pytest.mark.parametrize("optimizer", [None, torch.optim.AdamW])
def test_the_model_and_random_numbers_stay(optimizer):
    model, (x, y) = made()
    x.requires_grad_()
    graph = graph_of(model, (x, y))
    state, seen = copy.deepcopy(model.state_dict()), model.seen.clone()
    torch.manual_seed(3)
    before = torch.get_rng_state()
    plans = {"a": one_worker(graph), "b": one_worker(graph, CLUSTER.first(1))}
    quietly(model, (x, y), F.mse_loss, plans, steps=2, optimizer=optimizer)
    assert torch.equal(torch.get_rng_state(), before)
    torch.testing.assert_close(model.state_dict(), state, rtol=0, atol=0)
    assert torch.equal(model.seen, seen) and x.grad is None
    assert all(parameter.grad is None for parameter in model.parameters())


def test_a_model_on_the_meta_device():
    with torch.device("meta"):
        model = nn.Sequential(nn.Linear(6, 16), nn.ReLU(), nn.Linear(16, 3))
    args = torch.randn(12, 6), torch.randn(12, 3)
    found = plan(graph_of(model, args), CLUSTER, "EV-PS")
    comparison = quietly(model, args, F.mse_loss, {"EV-PS": found}, steps=1)
    assert comparison["EV-PS"].seconds > 0
    assert all(parameter.is_meta for parameter in model.parameters())


def test_what_is_compared():
    model, args = made()
    plans = {"a": smex.search(graph_of(model, args), 2)}
    for given in (plans["a"], {"a": "plan.json"}, {1: plans["a"]}):
        with pytest.raises(smex.SmexTypeError, match="compare: plans must be a dict of what"):
            compare(model, args, F.mse_loss, given)
    with pytest.raises(smex.SmexValueError, match="expected 1 plan or more, found none"):
        compare(model, args, F.mse_loss, {})
    with pytest.raises(smex.SmexValueError, match="expected 1 step or more, found 0"):
        compare(model, args, F.mse_loss, plans, steps=0)
    with pytest.raises(smex.SmexValueError, match="expected 2 rounds or more, .* found 1"):
        compare(model, args, F.mse_loss, plans, rounds=1)
    with pytest.raises(smex.SmexTypeError, match="options of smex.partition among .* 'keep_model'"):
        compare(model, args, F.mse_loss, plans, keep_model=True)
    outputs = {"data_parallel": smex.search(smex.capture_graph(model, args[:1]), 2)}
    with pytest.raises(smex.SmexTypeError, match="the net must return its loss, a tensor of one"):
        compare(model, args[:1], None, outputs)


# ---- on processes ----


def on_ranks(rank):
    torch.set_num_threads(1)
    model, args = made()
    graph = graph_of(model, args)
    cluster = CLUSTER.first(2)
    plans = {"a": one_worker(graph, cluster), "b": smex.search(graph, 2, replicate_bytes=0)}
    before = torch.get_rng_state()
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        comparison = compare(model, args, F.mse_loss, plans, steps=2, optimizer=torch.optim.AdamW)
    numbers = [
        (each.name, each.simulated_seconds, each.rounds, each.peak_bytes)
        for each in comparison.rows
    ]
    offer = comparison.offer and comparison.offer.placements()
    warned = sum(each.category is smex.SlowPlanWarning for each in told)
    return numbers, offer, warned, torch.equal(before, torch.get_rng_state())


def on_rows_of_each_rank(rank):
    """With a model on the meta device, whose rows are divided among the ranks."""
    torch.set_num_threads(1)
    with torch.device("meta"):
        model = nn.Sequential(nn.Linear(6, 16), nn.ReLU(), nn.Linear(16, 3))
    args = torch.randn(12, 6), torch.randn(12, 3)
    graph = graph_of(model, args)
    names = [value.name for value in graph.captured.values if value.role == "input"]
    rows = {name: [0] for name in names}
    cluster = CLUSTER.first(2)
    cut = smex.search(graph, 2, pinned=rows, objective="time", machine=cluster)
    own = tuple(tensor[6 * rank : 6 * rank + 6] for tensor in args)
    comparison = quietly(model, own, F.mse_loss, {"a": cut}, steps=1, inputs="local")
    added = comparison.rows[-1]
    expected = plan(graph, cluster, added.name)
    return len(comparison.rows), added.simulated_seconds == expected.seconds


def other_plans(rank):
    model, args = made()
    plans = {f"plan {rank}": smex.search(graph_of(model, args), 2)}
    try:
        compare(model, args, F.mse_loss, plans)
    except smex.SmexRuntimeError as error:
        return str(error)


def test_processes():
    pool = ProcessPool()
    try:
        found = pool.run(on_ranks, 2, timeout=120)
        local = pool.run(on_rows_of_each_rank, 2, timeout=120)
        refused = pool.run(other_plans, 2, timeout=120)
    finally:
        pool.close()
    (numbers, offer, warned, is_kept), other = found
    assert other == (numbers, offer, 0, True) and is_kept
    names = [name for name, *_ in numbers]
    assert names[:2] == ["a", "b"] and len(names) == 3 and names[2] in BASELINES
    assert warned == (offer is not None)
    assert local == [(2, True)] * 2
    assert all("differ in plans" in text for text in refused)


# ---- the runner ----


def model_and_loss():
    return made()[0], F.mse_loss


def batches():
    _, (x, y) = made()
    yield x, y
    yield 2 * x, y
    yield x - 1, y + 1


OPTIMIZERS = {
    "sgd": lambda own: torch.optim.SGD(own, lr=0.05, momentum=0.9),
    "adamw": lambda own: torch.optim.AdamW(own, lr=0.01, amsgrad=True),
}


def runner_of(optimizer, planner="CP-AR"):
    config = RunnerConfig(planner, optimizer=OPTIMIZERS[optimizer])
    return get_runner(model_and_loss, batches, CLUSTER, config)


def state_of(runner):
    return {**runner.net.state_dict(), "seen": runner.net._state.cuts["seen"].copied()}


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
def test_going_on_under_another_plan_is_as_if_never_switched(optimizer):
    torch.manual_seed(7)
    stayed = runner_of(optimizer)
    expected = stayed.run(2).losses + stayed.run(3).losses + stayed.run(2).losses

    torch.manual_seed(7)
    runner = runner_of(optimizer)
    losses = runner.run(2).losses
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", smex.SlowPlanWarning)
        comparison = runner.compare(steps=1)
    assert comparison.rows[0].name == "CP-AR" and len(comparison.rows) == 1
    others = [one_worker(graph_of(*made())), smex.search(graph_of(*made()), 3, replicate_bytes=0)]
    for other, steps in zip(others, (3, 2), strict=True):
        before = runner.net
        runner.use(other)
        assert runner.net is not before and runner.found.plan is other
        assert runner.net.plan.placements() == other.placements()
        losses += runner.run(steps).losses
    assert losses == pytest.approx(expected, rel=1e-10)
    torch.testing.assert_close(state_of(runner), state_of(stayed), rtol=1e-10, atol=1e-12)


def test_switching_before_the_first_step_and_back():
    torch.manual_seed(7)
    expected = runner_of("adamw").run(3).losses
    torch.manual_seed(7)
    runner = runner_of("adamw")
    first = runner.found
    runner.use(plan(graph_of(*made()), CLUSTER, "EV-PS"))
    losses = runner.run(1).losses
    runner.use(first)
    assert runner.found is first
    assert losses + runner.run(2).losses == pytest.approx(expected, rel=1e-10)


@pytest.mark.parametrize("workers", [(1, 1), (1, 3), (3, 1)])
def test_one_worker_trains_the_model_itself(workers):
    def of(count):
        cluster = CLUSTER.first(count)
        return get_runner(model_and_loss, batches, cluster, RunnerConfig("CP-AR", rate=0.1))

    torch.manual_seed(7)
    expected = of(3).run(4).losses
    torch.manual_seed(7)
    runner = of(workers[0])
    losses = runner.run(2).losses
    runner.use(plan(graph_of(*made()), CLUSTER.first(workers[1]), "EV-AR"))
    assert losses + runner.run(2).losses == pytest.approx(expected, rel=1e-10)


def test_options_of_the_optimiser_stay():
    runner = runner_of("adamw")
    runner.run(1)
    runner.optimizer.param_groups[0]["lr"] = 0.125
    runner.use(plan(graph_of(*made()), CLUSTER, "EV-PS"))
    assert [group["lr"] for group in runner.optimizer.param_groups] == [0.125]
    states = runner.optimizer.state
    assert {int(states[p]["step"]) for p in runner.net.parameters()} == {1}


def test_a_plan_of_another_machine_is_simulated_on_the_runners():
    runner = runner_of("sgd")
    other = smex.search(graph_of(*made()), 3)
    runner.use(other)
    assert runner.found.seconds == smex.simulate(other, CLUSTER).seconds
    assert math.isfinite(runner.run(1).predicted_seconds) and runner.found.fits


def test_comparing_does_not_change_the_training():
    torch.manual_seed(7)
    stayed = runner_of("adamw", "local")
    expected = stayed.run(4).losses
    torch.manual_seed(7)
    runner = runner_of("adamw", "local")
    losses = runner.run(2).losses
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", smex.SlowPlanWarning)
        comparison = runner.compare({"one": one_worker(graph_of(*made()))}, steps=1)
    assert [each.name for each in comparison.rows][:2] == ["local", "one"]
    assert comparison.rows[-1].is_data_parallel
    assert losses + runner.run(2).losses == expected


def test_what_a_runner_compares_and_uses():
    runner = runner_of("sgd")
    with pytest.raises(smex.SmexTypeError, match="use: expected what smex.search .* found str"):
        runner.use("EV-AR")
    with pytest.raises(smex.SmexValueError, match="'CP-AR' is the runner's own plan"):
        runner.compare({"CP-AR": runner.found})
    before = runner.net
    others = smex.search(smex.capture_graph(nn.Linear(3, 3), (torch.randn(2, 3),)), 3)
    with pytest.raises(smex.SmexError):
        runner.use(others)
    assert runner.net is before
    runner.run(1)
