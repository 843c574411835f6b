"""HeteroG's strategies, the searches for them and the runner, on small models."""

import copy
import dataclasses
import functools
import random

import pytest
import torch
from torch import nn
from torch.nn import functional as F

import smex
from smex.cluster import (
    Policy,
    RunnerConfig,
    Sizes,
    Strategies,
    get_runner,
    heterog_testbed,
    plan,
)
from smex.cluster.grouping import ball, edges_of, nearest_groups, neighbours_of
from smex.cluster.planners import PLANNERS
from smex.cluster.searches import Course, around
from smex.cluster.strategies import BASELINES

SMALL = Sizes(gat_layers=1, heads=2, width=8, layers=1, segment=4)
CLUSTER = heterog_testbed().first(3)


class Net(nn.Module):
    """A small transformer layer on tokens."""

    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(11, 8)
        self.layer = nn.TransformerEncoderLayer(8, 2, 16, dropout=0.0, batch_first=True)
        self.head = nn.Linear(8, 5)

    def forward(self, tokens):
        return self.head(self.layer(self.embed(tokens)).mean(1))


def mlp():
    model = nn.Sequential(
        nn.Linear(6, 16), nn.BatchNorm1d(16), nn.ReLU(), nn.Linear(16, 16), nn.Tanh(),
        nn.Linear(16, 3),
    )  # fmt: skip
    return model, (torch.randn(12, 6),), torch.randn(12, 3), F.mse_loss


def conv():
    model = nn.Sequential(
        nn.Conv2d(3, 4, 3, padding=1), nn.BatchNorm2d(4), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(4, 6, 3), nn.ReLU(), nn.Flatten(), nn.Linear(24, 4),
    )  # fmt: skip
    return model, (torch.randn(10, 3, 8, 8),), torch.randint(4, (10,)), F.cross_entropy


def transformer():
    return Net(), (torch.randint(11, (9, 5)),), torch.randint(5, (9,)), F.cross_entropy


MODELS = {"mlp": mlp, "conv": conv, "transformer": transformer}


def of(name):
    torch.manual_seed(0)
    model, inputs, target, loss_fn = MODELS[name]()
    inputs = tuple(x.double() if x.is_floating_point() else x for x in inputs)
    target = target.double() if target.is_floating_point() else target
    return model.double().train(), inputs, target, loss_fn


@functools.cache
def captured(name):
    model, inputs, target, loss_fn = of(name)
    return smex.capture_graph(model, (*inputs, target), loss_fn=loss_fn)


def strategies_of(name, groups=6, cluster=CLUSTER, **options):
    return Strategies(captured(name), cluster, groups=groups, **options)


def assert_as_alone(name, found):
    """One step of SGD of a plan is that of the plain model, and so are its buffers and gradients."""
    model, inputs, target, loss_fn = of(name)
    plain = copy.deepcopy(model)
    expected = loss_fn(plain(*inputs), target)
    expected.backward()
    net = smex.partition(model, loss_fn=loss_fn, args=(*inputs, target), plan=found)
    loss = net(*inputs, target)
    loss.backward()
    torch.testing.assert_close(loss.detach(), expected.detach(), rtol=1e-10, atol=1e-12)
    gradients = net.full_grads()
    for key, parameter in plain.named_parameters():
        largest = parameter.grad.abs().max().item()
        torch.testing.assert_close(
            gradients[key], parameter.grad, rtol=0, atol=1e-10 * max(largest, 1e-3), msg=key
        )
    for step, trained in ((torch.optim.SGD, plain), (torch.optim.SGD, net)):
        step(trained.parameters(), lr=0.1).step()
    values = net.state_dict()
    for key, value in plain.state_dict().items():
        torch.testing.assert_close(values[key], value, rtol=1e-10, atol=1e-12, msg=key)
    stats = net.stats()
    assert stats["bytes_moved"] == stats["predicted_bytes_moved"]


# ---- groups ----


def hops(count, edges, start):
    """Distances by Bellman and Ford."""
    found = [0 if node == start else count for node in range(count)]
    for _ in range(count):
        for a, b in edges:
            found[a] = min(found[a], found[b] + 1)
            found[b] = min(found[b], found[a] + 1)
    return found


@pytest.mark.parametrize("seed", range(5))
def test_the_longest_lead_and_the_others_join_the_nearest(seed):
    chance = random.Random(seed)
    count, most = 24, 5
    seconds = [chance.random() for _ in range(count)]
    edges = [(chance.randrange(node), node) for node in range(1, count)]
    edges += [tuple(sorted(chance.sample(range(count), 2))) for _ in range(6)]
    groups = nearest_groups(seconds, edges, most)
    leaders = sorted(sorted(range(count), key=lambda op: -seconds[op])[:most])
    assert [groups[leader] for leader in leaders] == list(range(most))
    far = [hops(count, edges, leader) for leader in leaders]
    for op in range(count):
        assert far[groups[op]][op] == min(distances[op] for distances in far), (seed, op)


def test_groups_of_few_ops_and_of_ops_without_edges():
    assert nearest_groups([], [], 3) == []
    assert nearest_groups([1.0, 2.0], [], 3) == [0, 1]
    assert nearest_groups([0.0, 3.0, 0.0, 2.0, 0.0], [], 2) == [0, 0, 0, 1, 1]


def test_balls():
    neighbours = neighbours_of(5, [(0, 1), (1, 2), (2, 3)])
    assert neighbours == [[1], [0, 2], [1, 3], [2], []]
    assert ball(neighbours, 1, 1) == [1] and ball(neighbours, 1, 3) == [1, 0, 2]
    assert ball(neighbours, 4, 8) == [4] and sorted(ball(neighbours, 0, 8)) == [0, 1, 2, 3]


def test_edges_are_those_of_the_dataflow():
    graph = captured("mlp").native
    for maker, reader in edges_of(graph):
        assert set(graph.ops[maker].outputs) & set(graph.ops[reader].inputs)
        assert maker < reader


def test_groups_of_a_module_and_of_those_around_it():
    strategies = strategies_of("transformer", groups=2000)
    modules = strategies.modules
    center = modules.index("layer.linear1")
    assert strategies.family(center) == [
        group for group, path in enumerate(modules) if path == "layer.linear1"
    ]
    ops = strategies.graph.native.ops
    assert {ops[group].backward for group in strategies.family(center)} == {False, True}
    # All of the layer would be more than half of the groups.
    assert strategies.family(center, outwards=1) == strategies.family(center)
    attention = modules.index("layer.self_attn")
    assert around(strategies, attention, 0) == [attention]
    assert around(strategies, attention, 1) == strategies.family(attention)
    near = around(strategies, center, 4)
    assert set(near) > set(strategies.family(center)) and near == sorted(near)
    outside = modules.index("") if "" in modules else None
    assert outside is None or strategies.family(outside) == [outside]


# ---- plans compute what the model computes ----


@pytest.mark.parametrize("name", MODELS)
def test_uniform_strategies_compute_what_the_model_computes(name):
    strategies = strategies_of(name)
    for action in strategies.names:
        assert_as_alone(name, strategies.plan(strategies.uniform(action)))


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("name", MODELS)
def test_random_strategies_compute_what_the_model_computes(name, seed):
    chance = random.Random(seed)
    cluster = dataclasses.replace(CLUSTER, devices=tuple(
        device.slower(1 + 3 * worker) for worker, device in enumerate(CLUSTER.devices)
    ))  # fmt: skip
    strategies = strategies_of(name, groups=chance.choice([3, 8, 2000]), cluster=cluster)
    actions = [chance.randrange(len(strategies.names)) for _ in range(strategies.groups)]
    assert_as_alone(name, strategies.plan(actions))


# ---- strategies ----


def test_what_is_cut_is_the_batch():
    strategies = strategies_of("conv")
    words = {
        name: strategies.plan(strategies.uniform(name)).words("input")
        for name in ("EV-PS", "EV-AR", "CP-PS", "CP-AR", "G1")
    }
    assert words == {
        "EV-PS": "S0/3", "EV-AR": "S0/3", "CP-PS": "S0/3@speed", "CP-AR": "S0/3@speed",
        "G1": "W1/3",
    }  # fmt: skip
    held = {
        name: {
            strategies.plan(strategies.uniform(name)).words(key)
            for key in ("0.weight", "4.weight", "7.weight")
        }
        for name in ("EV-PS", "CP-AR")
    }
    assert held == {"EV-PS": {"W0/3", "W1/3", "W2/3"}, "CP-AR": {"R/3"}}


def test_calls_are_counted_once():
    strategies = strategies_of("mlp")
    first = strategies.evaluate(strategies.uniform("EV-AR"))
    assert strategies.calls == 1 and strategies.knows(strategies.uniform("EV-AR"))
    assert strategies.evaluate(list(strategies.uniform("EV-AR"))) is first
    assert strategies.calls == 1
    strategies.plan(strategies.uniform("CP-PS"))
    assert strategies.calls == 1
    strategies.evaluate(strategies.uniform("CP-PS"))
    assert strategies.calls == 2


def test_a_strategy_takes_what_its_plan_is_simulated_to_take():
    strategies = strategies_of("transformer")
    chance = random.Random(5)
    for _ in range(4):
        actions = [chance.randrange(len(strategies.names)) for _ in range(strategies.groups)]
        found = strategies.evaluate(actions)
        simulation = smex.simulate(strategies.plan(actions), CLUSTER)
        assert found.seconds == pytest.approx(simulation.seconds, rel=1e-12)
        assert list(found.peak_bytes) == simulation.peak_bytes


@pytest.mark.parametrize("action", ["G0", *BASELINES])
def test_the_critical_path_is_as_long_as_the_iteration(action):
    strategies = strategies_of("mlp")
    actions = strategies.uniform(action)
    found = strategies.evaluate(actions)
    path = found.critical
    assert len(path) == strategies.groups and min(path) >= 0
    assert sum(path) >= 0.9 * found.seconds
    assert path == strategies_of("mlp").evaluate(actions).critical


def test_strategies_that_are_simulated_at_once_take_what_they_take_alone():
    chance, alone, together = random.Random(7), strategies_of("conv"), strategies_of("conv")
    drawn = [[chance.randrange(len(alone.names)) for _ in range(alone.groups)] for _ in range(5)]
    assert together.evaluate_all([*drawn, drawn[0]]) == [
        alone.evaluate(actions) for actions in (*drawn, drawn[0])
    ]
    assert together.calls == alone.calls == 5
    with pytest.raises(smex.SmexValueError, match="groups an action"):
        together.evaluate_all([drawn[0], [0]])
    assert together.calls == 5


def test_a_course_evaluates_no_more_than_it_has_calls_for():
    strategies = strategies_of("mlp")
    course = Course(strategies, 2)
    names = ("EV-PS", "EV-PS", "CP-AR", "G0", "G1")
    found = course.evaluate_all([strategies.uniform(name) for name in names])
    assert len(found) == 3 and found[0] is found[1] and course.used == strategies.calls == 2
    assert len(course.after) == 2 and not course.goes_on


def test_each_device_has_its_own_memory():
    small = dataclasses.replace(CLUSTER.devices[1], memory=100.0)
    cluster = dataclasses.replace(CLUSTER, devices=(CLUSTER.devices[0], small, CLUSTER.devices[2]))
    strategies = strategies_of("mlp", cluster=cluster)
    assert strategies.evaluate(strategies.uniform("G0")).fits
    alone = strategies.evaluate(strategies.uniform("G1"))
    assert not alone.fits and alone.excess_bytes == alone.peak_bytes[1] - 100
    assert strategies.evaluate(strategies.uniform("G2")).key < alone.key


def test_states_of_the_optimiser_count_where_parameters_are():
    plain, states = strategies_of("mlp"), strategies_of("mlp", optimizer_states=2)
    parameters = sum(8 * x.numel() for x in of("mlp")[0].parameters())
    for action, held in (("G1", [0, parameters, 0]), ("EV-AR", [parameters] * 3)):
        before, after = (each.evaluate(each.uniform(action)).peak_bytes for each in (plain, states))
        assert [b - a for a, b in zip(before, after)] == [2 * nbytes for nbytes in held]


def test_shares_of_ops():
    strategies = strategies_of("mlp")
    assert strategies.shares(strategies.uniform("CP-PS")) == {"CP-PS": 1.0}
    mixed = strategies.shares([0] + [4] * (strategies.groups - 1))
    assert sum(mixed.values()) == pytest.approx(1) and set(mixed) == {"G0", "EV-AR"}


# ---- searches ----


@pytest.mark.parametrize("planner", ["random", "local", "critical_path", "heterog"])
def test_searches_make_as_many_calls_and_find_no_worse_than_the_baselines(planner):
    sizes = {"sizes": SMALL} if planner == "heterog" else {}
    graph = captured("mlp")
    one, other = (
        plan(graph, CLUSTER, planner, calls=20, groups=6, seed=3, ordered=False, **sizes)
        for _ in range(2)
    )
    assert one.calls == len(one.course) == 20 and one.fits
    assert list(one.course) == sorted(one.course, reverse=True)
    assert (
        one.seconds
        == one.course[-1]
        <= min(plan(graph, CLUSTER, name, ordered=False).seconds for name in BASELINES)
    )
    assert (one.course, one.actions) == (other.course, other.actions)
    assert one.plan.planner == "heterog" and one.plan.placements() == other.plan.placements()
    assert sum(one.shares.values()) == pytest.approx(1)
    assert "20 calls" in repr(one) and "of ops" in str(one)


def test_searches_of_few_strategies_end():
    found = plan(captured("mlp"), CLUSTER.first(1), "local", calls=60, groups=1)
    assert found.calls == 5


def test_what_fits_is_better_than_what_is_fast():
    """The whole model on the fastest device is the best, until its memory is too small."""
    model, inputs, target, loss_fn = of("mlp")
    graph = smex.capture_graph(model, (*inputs, target), loss_fn=loss_fn)
    found = plan(graph, CLUSTER, "critical_path", calls=40, groups=6)
    assert found.fits and found.seconds < min(
        plan(graph, CLUSTER, name).seconds for name in BASELINES
    )
    need = max(found.peak_bytes)
    tight = dataclasses.replace(CLUSTER, devices=tuple(
        dataclasses.replace(device, memory=0.7 * need) for device in CLUSTER.devices
    ))  # fmt: skip
    course = Course(Strategies(graph, tight, groups=6), 5)
    course.evaluate(course.strategies.uniform("G0"))
    assert not course.found.fits
    fitting = plan(graph, tight, "local", calls=40, groups=6)
    assert fitting.fits and max(fitting.peak_bytes) <= 0.7 * need
    assert fitting.seconds > found.seconds


def test_a_budget_of_seconds_ends_a_search():
    found = plan(captured("mlp"), CLUSTER, "random", calls=10_000, budget=0.2, groups=6)
    assert 1 <= found.calls < 10_000


@pytest.mark.parametrize("planner", [*BASELINES, "tofu", "data_parallel"])
def test_one_call_planners(planner):
    found = plan(captured("mlp"), CLUSTER, planner)
    assert found.calls == len(found.course) == 1 and found.fits
    assert found.seconds == pytest.approx(smex.simulate(found.plan, CLUSTER).seconds)
    assert found.seconds <= found.course[0]
    assert_as_alone("mlp", found.plan)


def test_plans_are_saved_and_loaded(tmp_path):
    graph = captured("transformer")
    found = plan(graph, CLUSTER, "local", calls=12, groups=6, seed=1)
    found.plan.save(tmp_path / "plan.json")
    again = smex.Plan.load(tmp_path / "plan.json", captured("transformer"))
    assert again.planner == "heterog" and again.placements() == found.plan.placements()
    assert again.op_choices == found.plan.op_choices
    assert "heterog" in again.summary() and "a heuristic" in again.summary()
    assert_as_alone("transformer", str(tmp_path / "plan.json"))


def test_a_plan_of_another_batch_keeps_placements(tmp_path):
    model, inputs, target, loss_fn = of("mlp")
    found = plan(captured("mlp"), CLUSTER, "CP-PS")
    found.plan.save(tmp_path / "plan.json")
    args = torch.cat([*inputs] * 2), torch.cat([target] * 2)
    graph = smex.capture_graph(model, args, loss_fn=loss_fn)
    again = smex.Plan.load(tmp_path / "plan.json", graph)
    assert again.placements() == found.plan.placements()


# ---- the agent ----


def test_policies_are_saved_and_tuned(tmp_path):
    graph, path = captured("mlp"), tmp_path / "policy.pt"
    options = {"calls": 14, "groups": 6, "seed": 2}
    plan(graph, CLUSTER, "heterog", sizes=SMALL, save_policy=path, **options)
    one, other = (
        plan(graph, CLUSTER, "heterog", policy=path, save_policy=tmp_path / f"{n}.pt", **options)
        for n in range(2)
    )
    assert one.calls == 14 and one.course == other.course
    before, after = (torch.load(tmp_path / name)["weights"] for name in ("policy.pt", "0.pt"))
    assert any(not torch.equal(before[key], after[key]) for key in before)
    tuned = plan(captured("conv"), CLUSTER, "heterog", policy=path, calls=8, groups=5)
    assert tuned.calls == 8


def test_policies_of_other_workers_or_files(tmp_path):
    graph, path = captured("mlp"), tmp_path / "policy.pt"
    Policy.for_strategies(strategies_of("mlp"), SMALL).save(path)
    with pytest.raises(smex.SmexValueError, match="is for 3 workers of .*, expected 2 of Tesla"):
        plan(graph, CLUSTER, "heterog", workers=2, policy=path)
    torch.save({"other": 1}, path)
    with pytest.raises(smex.SmexTypeError, match="no file of a policy, expected format"):
        plan(graph, CLUSTER, "heterog", policy=path)
    path.write_text("{}")
    with pytest.raises(smex.SmexTypeError, match="is no file of a policy"):
        plan(graph, CLUSTER, "heterog", policy=path)
    with pytest.raises(FileNotFoundError):
        plan(graph, CLUSTER, "heterog", policy=tmp_path / "none.pt")


@pytest.mark.parametrize("groups", [1, 3, 4, 9])
def test_segments_remember_the_one_before(groups):
    """A group of the second segment sees the first one, not the other way around."""
    policy = Policy(2, ("a",), SMALL)
    rows = torch.randn(groups, 8)
    before = policy._decoded(rows)
    assert before.shape == (groups, 8)
    rows = rows.clone()
    rows[-1] += 1
    changed = (policy._decoded(rows) - before).abs().amax(1) > 0
    last = (groups - 1) // 4 * 4  # where the last segment begins
    assert changed[last:].all() and not changed[:last].any()


@pytest.mark.parametrize("sizes", [{"width": 0}, {"heads": 3}, {"layers": 1.5}])
def test_sizes_that_do_not_fit(sizes):
    with pytest.raises(smex.SmexValueError, match="policy: expected"):
        Sizes(**sizes)
    assert Sizes.of_the_paper().gat_layers == 12


# ---- errors ----


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"planner": "best"}, smex.SmexValueError, "expected planner to be of heterog, random"),
        ({"calls": 0}, smex.SmexValueError, "expected 1 call or more, found 0"),
        ({"budget": -1}, smex.SmexValueError, "budget of more than 0 seconds, found -1"),
        ({"seed": -1}, smex.SmexValueError, "a seed from 0 to"),
        ({"groups": 0}, smex.SmexValueError, "expected 1 group or more, found 0"),
        ({"workers": 4}, smex.SmexValueError, "from 1 to 3 workers, found 4"),
        ({"optimizer_states": -1}, smex.SmexValueError, "optimizer_states from 0 on, found -1"),
        ({"planner": "local", "policy": "p"}, smex.SmexValueError, 'are of planner="heterog"'),
        ({"policy": "p", "sizes": SMALL}, smex.SmexValueError, "leave out policy= or sizes="),
    ],
)
def test_options_that_do_not_fit(options, error, message):
    with pytest.raises(error, match=message):
        plan(captured("mlp"), CLUSTER, **options)


@pytest.mark.parametrize("planner", PLANNERS)
def test_what_is_no_graph_or_cluster(planner):
    with pytest.raises(smex.SmexTypeError, match="expected what smex.capture"):
        plan("graph", CLUSTER, planner)
    with pytest.raises(smex.SmexTypeError, match="expected a smex.Cluster"):
        plan(captured("mlp"), "cluster", planner)


def test_actions_that_do_not_fit():
    strategies = strategies_of("mlp")
    for actions in ([], [99] * strategies.groups, [-1] * strategies.groups):
        with pytest.raises(smex.SmexValueError, match="an action from 0 to 6, found"):
            strategies.evaluate(actions)
    with pytest.raises(smex.SmexValueError, match="expected one of G0, G1, G2, EV-PS"):
        strategies.uniform("G3")


# ---- the runner ----


def make():
    model, _, _, loss_fn = of("mlp")
    return model, loss_fn


def batches():
    _, (x,), y, _ = of("mlp")
    yield x, y
    yield 2 * x, y


def test_a_runner_trains_as_the_plain_model():
    config = RunnerConfig(planner="local", calls=8, groups=6, rate=0.05)
    runner = get_runner(make, batches, CLUSTER, config)
    report = runner.run(2)
    later = runner.run(1)
    model, loss_fn = make()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    for x, y in [*batches(), next(batches())]:
        optimizer.zero_grad()
        loss = loss_fn(model(x), y)
        loss.backward()
        optimizer.step()
        expected = (report.losses + later.losses).pop(0)
        report.losses[:1] = []
        assert expected == pytest.approx(loss.item(), rel=1e-10)
    assert len(later.step_seconds) == 1 and later.predicted_seconds == runner.found.seconds
    assert "1 steps" in repr(later) and "predicted" in repr(later)


def test_a_runner_on_a_list_of_devices_with_an_optimiser():
    config = RunnerConfig("EV-AR", optimizer=lambda own: torch.optim.Adam(own, lr=0.01))
    runner = get_runner(make, batches, list(CLUSTER.devices[1:]), config)
    assert runner.found.plan.workers == 2 and isinstance(runner.optimizer, torch.optim.Adam)
    losses = runner.run(20).losses
    assert losses[-2] < losses[0]


def test_what_a_runner_is_given():
    with pytest.raises(smex.SmexTypeError, match="device_info must be a smex.Cluster or a list"):
        get_runner(make, batches, ["cuda:0"])
    with pytest.raises(smex.SmexTypeError, match="config to be a RunnerConfig"):
        get_runner(make, batches, CLUSTER, {"calls": 3})
    with pytest.raises(smex.SmexTypeError, match=r"model_func must return \(model, loss_fn\)"):
        get_runner(lambda: nn.Linear(2, 2), batches, CLUSTER)
    with pytest.raises(smex.SmexValueError, match="returned no batches"):
        get_runner(make, lambda: [], CLUSTER)
    with pytest.raises(smex.SmexTypeError, match="must yield tuples of the inputs and the target"):
        get_runner(make, lambda: [torch.ones(2)], CLUSTER)
    runner = get_runner(make, batches, CLUSTER, RunnerConfig("EV-PS"))
    with pytest.raises(smex.SmexValueError, match="expected 1 step or more, found 0"):
        runner.run(0)
