"""Machines, plans by time, and the planners that they are compared with."""

import itertools
import math
import re

import models
import pytest
import torch
from torch.nn import functional as F

import smex
from smex import _C

pytestmark = pytest.mark.costly

GB = 1e9


def linear(size, layers=1, batch=64):
    """Layers of one matrix each, on the meta device."""
    with torch.device("meta"):
        model = torch.nn.Sequential(
            *(torch.nn.Linear(size, size, bias=False) for _ in range(layers))
        )
        return smex.capture_graph(model, (torch.empty(batch, size),))


def fabric(workers=2, bandwidth=10 * GB, latency=0.0, **changes):
    numbers = {
        "name": "test", "flops": {"float32": 1e12}, "memory_bandwidth": 100 * GB, "launch": 0.0,
        "memory": 16 * GB, "levels": (smex.Level(workers, latency, bandwidth),),
    }  # fmt: skip
    return smex.Machine(**{**numbers, **changes})


# ---- machines ----


def test_presets_tell_what_they_are():
    assert repr(smex.Machine.v100_pcie()) == "Machine(8 V100 on PCIe: 8 workers of 16 GB)"
    assert repr(smex.Machine.k80_pcie()) == "Machine(8 K80 on PCIe: 8 workers of 12 GB)"
    assert smex.Machine.h100_nvlink().workers == 8
    assert smex.Machine.h200_nvlink(4).workers == 32


def test_the_first_steps_are_between_the_nodes():
    machine = smex.Machine.h100_nvlink(nodes=4)
    sizes = [link.bandwidth / GB for link in machine.links([2, 2, 2, 2, 2])]
    assert sizes == [50, 50, 450, 450, 450]
    assert [link.bandwidth / GB for link in machine.links([2, 4])] == [450, 450]
    assert [link.bandwidth / GB for link in machine.links([3, 5])] == [50, 450]
    with pytest.raises(smex.SmexValueError, match="a plan for 64 workers does not fit"):
        machine.links([64])


def test_a_step_for_each_level():
    machine = smex.Machine.h100_nvlink(nodes=4)
    expected = {1: [], 2: [2], 3: [3], 4: [4], 8: [8], 11: None, 12: [2, 6], 16: [2, 8], 32: [4, 8]}
    assert {workers: machine.mesh(workers) for workers in expected} == expected
    assert machine.mesh(64) is None


@pytest.mark.parametrize(
    ("changes", "kind", "text"),
    [
        ({"flops": {"int8": 1}}, smex.SmexValueError, "expected flops by float16"),
        ({"flops": {"int8": 1, "float32": 1}}, smex.SmexValueError, "expected flops by float16"),
        ({"flops": {}}, smex.SmexValueError, "expected flops by float16"),
        ({"flops": 1e12}, smex.SmexValueError, "expected flops by float16"),
        ({"memory": "16"}, smex.SmexValueError, "memory: expected a number from"),
        ({"levels": ()}, smex.SmexTypeError, "expected levels of smex.Level"),
        ({"levels": (8,)}, smex.SmexTypeError, "expected levels of smex.Level"),
        ({"levels": 8}, smex.SmexTypeError, "expected levels of smex.Level in a tuple, found 8"),
        ({"levels": smex.Level(8, 0, 1)}, smex.SmexTypeError, "expected levels of smex.Level"),
        *(
            ({"levels": (smex.Level(size, 0, 1),)}, smex.SmexValueError, "size of level 0: expect")
            for size in (0, 2.5, True, "8", 2**31)
        ),
        *(
            case
            for bad in (-1, 0, 1e-300, 1e300, 10**400, math.inf, math.nan, True, None)
            for case in [
                ({"flops": {"float32": bad}}, smex.SmexValueError, "flops of float32: expected a"),
                ({"memory_bandwidth": bad}, smex.SmexValueError, "memory_bandwidth: expected a"),
                ({"memory": bad}, smex.SmexValueError, "memory: expected a number from 0.001"),
                *(
                    [({"gather_bandwidth": bad}, smex.SmexValueError, "gather_bandwidth: expec")]
                    if bad is not None
                    else []
                ),
                ({"levels": (smex.Level(8, 0, bad),)}, smex.SmexValueError, "bandwidth of level"),
            ]
        ),
        *(
            case
            for bad in (-1, 1e300, math.inf, math.nan, "1", None)
            for case in [
                ({"launch": bad}, smex.SmexValueError, "launch: expected a number from 0 to"),
                ({"levels": (smex.Level(8, bad, 1),)}, smex.SmexValueError, "latency of level 0"),
            ]
        ),
    ],
)
def test_numbers_that_no_machine_has(changes, kind, text):
    with pytest.raises(kind, match=re.escape(text)):
        fabric(**changes)


def test_this_computer_is_measured():
    threads = torch.get_num_threads()
    machine = smex.Machine.calibrate(2)
    assert torch.get_num_threads() == threads
    assert machine.workers == 2 and "this computer" in repr(machine)
    numbers = [*machine.flops.values(), machine.memory_bandwidth, machine.levels[0].bandwidth]
    numbers.append(machine.gather_bandwidth)
    assert all(1e8 < number < 1e15 for number in numbers)
    assert 1e-8 < machine.launch < 1e-3
    with pytest.raises(smex.SmexValueError, match="expected at least 1 worker, found 0"):
        smex.Machine.calibrate(0)
    with pytest.raises(smex.SmexValueError, match="expected at least 1 node, found 0"):
        smex.Machine.h100_nvlink(0)


@pytest.mark.parametrize(
    ("device", "text"),
    [
        ("tpu", 'devices are like "cpu" or "cuda:0", got \'tpu\''),
        ("meta", 'devices are like "cpu" or "cuda:0", got \'meta\''),
        ("cuda:99", 'there is no device "cuda:99"; torch sees'),
    ],
)
def test_what_is_no_device_is_refused(device, text):
    graph = smex.capture_graph(torch.nn.Linear(2, 2), torch.randn(3, 2))
    calls = {
        "calibrate": lambda: smex.Machine.calibrate(device=device),
        "profile": lambda: smex.profile(graph, fabric(), device=device),
        "cluster.profile": lambda: smex.cluster.profile(graph, device=device),
        "partition": lambda: smex.partition(torch.nn.Linear(2, 2), devices=device),
    }
    for name, call in calls.items():
        whose = name.rpartition(".")[2]
        with pytest.raises(smex.SmexValueError, match=re.escape(f"{whose}: {text}")):
            call()


# ---- time ----


def test_the_time_of_a_product_is_its_roofline():
    graph = linear(1000, batch=500)
    alone = smex.search(graph, 1, machine=fabric(1))
    flops = 2 * 500 * 1000 * 1000
    products = sum("mm" in op.target for op in graph.captured.ops)
    assert alone.compute_seconds == pytest.approx(products * flops / 1e12, rel=0.05)
    assert alone.step_seconds == () and alone.seconds == alone.compute_seconds


def test_what_is_moved_takes_the_bandwidth():
    graph = linear(512)
    plan = smex.search(graph, 2, machine=fabric(2, bandwidth=1 * GB), replicate_bytes=0)
    assert plan.total_bytes > 0
    assert sum(plan.step_seconds) == pytest.approx(plan.total_bytes / 2 / GB)
    twice = plan.on(fabric(2, bandwidth=2 * GB))
    assert sum(twice.step_seconds) == pytest.approx(sum(plan.step_seconds) / 2)
    assert twice.placements() == plan.placements()
    assert math.isnan(smex.search(graph, 2).seconds)


def test_time_is_never_more_than_that_of_fewest_bytes():
    for machine in (fabric(4), smex.Machine.v100_pcie(), smex.Machine.h100_nvlink()):
        graph = linear(256, layers=3)
        quick = smex.search(graph, 4, objective="time", machine=machine)
        for planner in _C.planners():
            other = smex.search(graph, 4, planner=planner, machine=machine)
            assert quick.seconds <= other.seconds * (1 + 1e-9), planner


def test_one_step_for_a_node_pays_its_latency_once():
    """Where latency is all, a step of the nodes and one within them take less than four of two."""
    machine = fabric(16, levels=(smex.Level(4, 1e-3, 1e15), smex.Level(4, 1e-2, 1e15)))
    graph = linear(256, layers=2, batch=256)
    options = {"objective": "time", "machine": machine, "replicate_bytes": 0}
    quick = smex.search(graph, 16, **options)
    every = [smex.search(graph, 16, mesh=mesh, **options) for mesh in ([2] * 4, [16], [4, 4])]
    assert quick.seconds == min(plan.seconds for plan in every)
    assert len(quick.mesh) < 4


def test_few_rows_keep_the_weights_cut_and_many_the_batch():
    """Cut by rows, a layer moves the gradient of its M·M weight; by columns its N·M activations."""
    size = 512
    machine = fabric(2, flops={"float32": 1e11})

    def words(batch):
        graph = linear(size, layers=4, batch=batch)
        plan = smex.search(graph, 2, objective="time", machine=machine)
        return {plan.words(f"{layer}.weight") for layer in range(1, 3)}

    assert words(4 * size) == {"R/2"}
    assert "R/2" not in words(size // 8)


def test_a_slow_network_is_used_less_than_the_links_within_a_node():
    slow = fabric(4, levels=(smex.Level(2, 0, 100 * GB), smex.Level(2, 0, 1 * GB)))
    fast = fabric(4, levels=(smex.Level(2, 0, 100 * GB), smex.Level(2, 0, 100 * GB)))
    graph = linear(512, layers=3)
    first = [
        smex.search(graph, 4, objective="time", machine=machine).step_bytes[0]
        for machine in (slow, fast)
    ]
    assert first[0] <= first[1]


def test_a_plan_by_time_tells_its_seconds(tmp_path):
    graph = linear(256, layers=2)
    machine = smex.Machine.h100_nvlink()
    plan = smex.search(graph, 4, objective="time", machine=machine)
    assert plan.machine == machine and plan.objective == "time"
    assert re.search(r"an iteration \(.*\) in [\d.]+ (µs|ms|s) \(", repr(plan))
    assert "takes" in plan.explain("0.weight") and "takes: " in plan.diff(plan)
    assert "takes" not in smex.search(graph, 4).explain("0.weight")
    plan.save(tmp_path / "plan.json")
    again = smex.Plan.load(tmp_path / "plan.json", graph)
    assert again.machine == machine and again.objective == "time"
    assert again.seconds == pytest.approx(plan.seconds)


def test_time_needs_a_machine():
    graph = linear(8)
    with pytest.raises(smex.SmexTypeError, match='objective "time" needs a machine'):
        smex.search(graph, 2, objective="time")
    wanted = "expected a smex.Machine or a smex.Cluster, found"
    with pytest.raises(smex.SmexTypeError, match=re.escape(f"{wanted} 3")):
        smex.search(graph, 2, machine=3)
    with pytest.raises(smex.SmexTypeError, match=re.escape(f"{wanted} None")):
        smex.search(graph, 2).on(None)


def test_a_net_by_time_computes_the_same():
    torch.manual_seed(0)
    model = models.WResNet.small().double()
    x, y = models.WResNet.small_inputs()
    net = smex.partition(
        model, 4, loss_fn=F.cross_entropy, objective="time", machine=smex.Machine.v100_pcie()
    )
    loss = net(x, y)
    torch.testing.assert_close(loss, F.cross_entropy(model(x), y), rtol=1e-10, atol=1e-10)
    assert net.plan.objective == "time"


# ---- memory ----


def mlp():
    """Parameters of 3 MiB, activations of 1.5 MiB."""
    return linear(512, layers=3, batch=256)


def test_a_plan_keeps_to_the_memory_limit():
    graph = mlp()
    machine = fabric(4, bandwidth=1 * GB)
    free = smex.search(graph, 4, objective="time", machine=machine)
    costs = [free.seconds]
    for share in (0.9, 0.7, 0.5):
        limit = share * free.peak()
        plan = smex.search(graph, 4, objective="time", machine=machine, memory_limit=limit)
        assert max(plan.peak_bytes()) <= limit
        costs.append(plan.seconds)
        assert plan.exact != ("gap" in repr(plan))
        assert plan.seconds * (1 - plan.native.gap) >= free.seconds * (1 - 1e-9)
    assert costs == sorted(costs), "less memory never takes less time"
    roomy = smex.search(graph, 4, objective="time", machine=machine, memory_limit=free.peak())
    assert roomy.placements() == free.placements() and roomy.exact


def test_the_optimiser_counts():
    graph = mlp()
    plan = smex.search(graph, 2, replicate_bytes=0)
    adam = smex.search(graph, 2, replicate_bytes=0, optimizer_states=2)
    parameters = sum(plan.worker_bytes(f"{layer}.weight") for layer in range(3))
    assert plan.peak() == max(plan.peak_bytes())
    assert adam.peak() == plan.peak() + 2 * parameters


def test_a_limit_that_nothing_keeps():
    with pytest.raises(
        smex.PlanError,
        match=r"no plan for 2 workers fits 1.0 MiB each: the smallest found takes .* MiB, .* too "
        r"many, at aten::\w+.*, of which .* are parameters .*; take \d+ workers",
    ) as error:
        smex.search(mlp(), 2, memory_limit=2**20)
    enough = re.search(r"take (\d+) workers", str(error.value))
    assert smex.search(mlp(), int(enough[1]), memory_limit=2**20).peak() <= 2**20


def test_a_limit_that_a_plan_without_one_keeps_costs_nothing():
    linear = torch.nn.Linear
    model = torch.nn.Sequential(
        linear(64, 256), torch.nn.ReLU(), linear(256, 256), torch.nn.ReLU(), linear(256, 10)
    )
    args = (torch.empty(32, 64), torch.zeros(32, dtype=torch.int64))
    graph = smex.capture_graph(model, args, loss_fn=F.cross_entropy)
    for workers in (16, 32):
        free = smex.search(graph, workers)
        kept = smex.search(graph, workers, memory_limit=1.05 * free.peak(), mesh=free.mesh)
        assert kept.total_bytes <= free.total_bytes


def test_a_limit_below_what_cannot_be_divided():
    with pytest.raises(
        smex.PlanError, match="; take a smaller batch, more workers alone did not help"
    ):
        smex.search(mlp(), 2, memory_limit=70_000)


def test_a_limit_is_kept_in_the_plans_file(tmp_path):
    graph = mlp()
    limit = 0.7 * smex.search(graph, 2, replicate_bytes=2**40).peak()
    plan = smex.search(graph, 2, memory_limit=limit, optimizer_states=0)
    plan.save(tmp_path / "plan.json")
    assert smex.Plan.load(tmp_path / "plan.json", graph).peak() <= limit


def test_what_fits_in_less_memory_fits_in_more():
    model = torch.nn.Sequential(torch.nn.Linear(64, 48), torch.nn.ReLU(), torch.nn.Linear(48, 10))
    args = (torch.empty(32, 64), torch.zeros(32, dtype=torch.int64))
    graph = smex.capture_graph(model, args, loss_fn=F.cross_entropy)
    fitting = []
    for limit in range(14_400, 17_200, 200):
        try:
            plan = smex.search(graph, 4, memory_limit=limit)
        except smex.PlanError:
            assert not fitting, f"{fitting} fit, {limit} does not"
            continue
        fitting.append(limit)
        assert plan.peak() <= limit and plan.exact == (len(plan.mesh) == 1)
    assert 0 < len(fitting) < 14


def test_one_mesh_that_fits_is_enough():
    """A weight of 6 rows and 6 columns is cut in two steps, 3 and 2, but not in one of 6 x 6."""
    with torch.device("meta"):
        graph = smex.capture_graph(torch.nn.Linear(9, 4, bias=False), (torch.empty(1, 9),))
    fits = smex.search(graph, 6, mesh=[3, 2], replicate_bytes=0)
    at_once = smex.search(graph, 6, mesh=[6], replicate_bytes=0)
    limit = max(fits.peak_bytes())
    assert limit < max(at_once.peak_bytes())
    with pytest.raises(smex.PlanError, match="no plan for 6 workers fits"):
        smex.search(graph, 6, mesh=[6], memory_limit=limit)
    assert smex.search(graph, 6, memory_limit=limit).mesh == (3, 2)


# ---- meshes and planners ----


def test_a_mesh_of_ones_own():
    graph = linear(64)
    assert smex.search(graph, 8, mesh=(2, 4)).mesh == (2, 4)
    assert smex.search(graph, 8, planner="equal_chop").mesh == (8,)
    for mesh in ((2, 3), (8, 1), (2.0, 4)):
        with pytest.raises(smex.PlanError, match="a mesh of ints above 1 whose product is 8"):
            smex.search(graph, 8, mesh=mesh)


def test_a_plan_of_another_mesh_is_loaded(tmp_path):
    graph = linear(64)
    plan = smex.search(graph, 8, mesh=(2, 4), replicate_bytes=0)
    plan.save(tmp_path / "plan.json")
    again = smex.Plan.load(tmp_path / "plan.json", graph)
    assert again.mesh == (2, 4) and again.placements() == plan.placements()


@pytest.fixture(scope="module")
def graphs():
    """Small ones of the models."""
    built = {}
    for name, build in {
        "WResNet": models.WResNet, "RNN": models.RNN, "GPT": models.GPT, "UNet": models.UNet,
    }.items():  # fmt: skip
        model = build.small().double()
        *inputs, _ = build.small_inputs()
        built[name] = smex.capture_graph(model, tuple(inputs))
    return built


@pytest.mark.parametrize("name", ["WResNet", "RNN", "GPT", "UNet"])
@pytest.mark.parametrize("workers", [2, 4, 8])
def test_no_planner_moves_less(graphs, name, workers):
    best = smex.search(graphs[name], workers, replicate_bytes=0)
    plain = smex.search(graphs[name], workers, replicate_bytes=0, refine=False)
    assert best.total_bytes <= plain.total_bytes
    for planner in ("all_row", "spartan", "equal_chop", "icml18", "random"):
        other = smex.search(graphs[name], workers, planner=planner, replicate_bytes=0)
        assert best.total_bytes <= other.total_bytes, planner
        assert other.total_bytes == _C.plan_bytes(graphs[name].native, other.native)


@pytest.mark.parametrize("name", ["WResNet", "RNN", "GPT", "UNet"])
@pytest.mark.parametrize("workers", [4, 8])
def test_no_planner_is_faster(graphs, name, workers):
    machine = smex.Machine.h100_nvlink()
    best = smex.search(graphs[name], workers, objective="time", machine=machine)
    for planner in _C.planners():
        other = smex.search(
            graphs[name], workers, objective="time", machine=machine, planner=planner
        )
        assert best.seconds <= other.seconds, planner


@pytest.mark.parametrize("name", ["WResNet", "RNN", "GPT", "UNet"])
def test_two_steps_together_are_not_worse_than_one_after_the_other(graphs, name):
    for refine in (False, True):
        options = {"mesh": [2, 2], "replicate_bytes": 0, "refine": refine}
        together = smex.search(graphs[name], 4, joint=2, **options)
        apart = smex.search(graphs[name], 4, **options)
        assert together.total_bytes <= apart.total_bytes
        assert together.total_bytes == _C.plan_bytes(graphs[name].native, together.native)


MODELS = {
    "WResNet": (lambda: models.WResNet(26, 1), (16, 3, 64, 64)),
    "RNN": (lambda: models.RNN(2, 64), (32, 4, 64)),
    "MLP": (lambda: models.mlp([64, 256, 256, 64]), (128, 64)),
    "UNet": (lambda: models.UNet(4, 4, 16, 2, 4), (16, 4, 32, 32)),
}


@pytest.mark.parametrize("name", MODELS)
def test_steps_of_a_recursion_cost_more_and_more(name):
    """Theorem 2 of Tofu, whose proof takes every tensor to be halved in every step."""
    build, shape = MODELS[name]
    with torch.device("meta"):
        graph = smex.capture_graph(build(), (torch.empty(shape),))
    plan = smex.search(graph, 8, mesh=[2, 2, 2], refine=False, replicate_bytes=0)
    assert all(a <= b for a, b in itertools.pairwise(plan.step_bytes)), plan.step_bytes


def test_sharded_parameters_stay_where_they_are_pinned():
    graph = linear(64, layers=2)
    pins = [smex.pin("0.weight", "R"), smex.pin("1.weight", "S1")]
    plan = smex.search(graph, 4, planner="fsdp", pinned=pins)
    assert [plan.words(name) for name in ("0.weight", "1.weight")] == ["R/4", "S1/4"]


@pytest.mark.parametrize("planner", _C.planners())
@pytest.mark.parametrize("name", ["RNN", "UNet"])
def test_every_planner_computes_the_model(name, planner):
    build = getattr(models, name)
    torch.manual_seed(1)
    model = build.small().double()
    *inputs, _ = build.small_inputs()
    net = smex.partition(model, 4, planner=planner, replicate_bytes=0)
    found, expected = net(*inputs), model(*inputs)
    torch.testing.assert_close(found, expected, rtol=1e-9, atol=1e-9)
    assert net.plan.planner == planner


def test_a_heuristic_says_so():
    graph = linear(64)
    assert repr(smex.search(graph, 2, planner="spartan")).endswith("a heuristic)")
    assert repr(smex.search(graph, 2)).endswith("exact)")
