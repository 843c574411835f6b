"""Clusters of unlike devices: their numbers, plans that are made for them, and simulations."""

import copy
import dataclasses
import itertools
import json

import pytest
import torch
from torch import nn
from torch.nn import functional as F

import smex
from smex.cluster import Cluster, Device, Link, heterog_testbed, mixed_nodes

FLOPS = {"float32": 1e12, "float64": 1e12}


def device(name="plain", speed=1.0, memory=1e9):
    flops = {dtype: rate * speed for dtype, rate in FLOPS.items()}
    return Device(name, flops, 1e11 * speed, 0.0, memory)


def pair(first=1.0, second=1.0, bandwidth=1e9, overlap=1.0):
    devices = (device("a", first), device("b", second))
    port = Link(0.0, bandwidth, overlap)
    return Cluster("pair", devices, (0, 1), Link(0.0, 1e12), (port, port))


def mlp(batch=512, width=256):
    with torch.device("meta"):
        model = nn.Sequential(nn.Linear(width, width), nn.ReLU(), nn.Linear(width, width))
        args = torch.empty(batch, width), torch.empty(batch, width)
        return smex.capture_graph(model, args, loss_fn=F.mse_loss)


# ---- numbers ----


def test_the_testbed_of_the_paper():
    cluster = heterog_testbed()
    assert repr(cluster) == (
        "Cluster(HeteroG's testbed: 2 Tesla V100, 4 GTX 1080 Ti, 2 Tesla P100 in 4 nodes)"
    )
    assert heterog_testbed(12).workers == 12 and len(heterog_testbed(12).ports) == 5
    assert cluster.is_unlike and cluster.memory == 11e9
    assert cluster.link(0, 1).bandwidth == 12e9
    assert cluster.link(0, 2).bandwidth == cluster.link(2, 0).bandwidth == 6.25e9
    with pytest.raises(smex.SmexValueError, match="expected 8 or 12 GPUs, found 9"):
        heterog_testbed(9)


@pytest.mark.parametrize("cluster", [heterog_testbed(), heterog_testbed(12), mixed_nodes(), pair()])
def test_files(cluster, tmp_path):
    cluster.save(tmp_path / "c.json")
    again = Cluster.load(tmp_path / "c.json")
    assert again == cluster
    assert [again.link(0, w) for w in range(1, again.workers)] == [
        cluster.link(0, w) for w in range(1, cluster.workers)
    ]


def test_files_that_are_none(tmp_path):
    path = tmp_path / "c.json"
    path.write_text("{")
    with pytest.raises(smex.SmexValueError, match="is not JSON"):
        Cluster.load(path)
    content = pair().contents()
    for wrong in ([], {**content, "more": 1}, {**content, "devices": [5, 0]}):
        path.write_text(json.dumps(wrong))
        with pytest.raises(smex.SmexTypeError, match="Cluster: "):
            Cluster.load(path)
    path.write_text(json.dumps({**content, "format": "other"}))
    with pytest.raises(smex.SmexValueError, match="its format is 'other'"):
        Cluster.load(path)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"nodes": (0,)}, "nodes must be numbers from 0 on, one for each of 2"),
        ({"nodes": (0, 2)}, "nodes must be numbers from 0 on"),
        ({"ports": (Link(0, 1),)}, "expected a port for each of 2 nodes, found 1"),
    ],
)
def test_numbers_that_do_not_fit(changes, message):
    with pytest.raises(smex.SmexValueError, match=message):
        dataclasses.replace(pair(), **changes)


@pytest.mark.parametrize(
    "changes", [{"devices": ()}, {"devices": ("V100",)}, {"inside": 1e9}, {"ports": None}]
)
def test_what_a_cluster_is_made_of(changes):
    with pytest.raises(smex.SmexTypeError, match="Cluster: "):
        dataclasses.replace(pair(), **changes)


def test_numbers_of_devices_and_links():
    with pytest.raises(smex.SmexValueError, match="Device plain: expected flops by float16"):
        Device("plain", {}, 1, 0, 1)
    with pytest.raises(smex.SmexValueError, match="Device plain: memory"):
        device(memory=0)
    with pytest.raises(smex.SmexValueError, match="Link: overlap"):
        Link(0, 1, 2)


def test_the_first_workers():
    first = heterog_testbed().first(3)
    assert first.nodes == (0, 0, 1) and len(first.ports) == 2
    assert [d.name for d in first.devices] == ["Tesla V100", "Tesla V100", "GTX 1080 Ti"]
    with pytest.raises(smex.SmexValueError, match="from 1 to 8 workers, found 9"):
        heterog_testbed().first(9)


def test_a_machine_is_a_cluster_of_like_devices():
    numbers = {"flops": FLOPS, "memory_bandwidth": 1e11, "launch": 0.0, "memory": 1e9}
    machine = smex.Machine("four", levels=(smex.Level(4, 0.0, 1e9),), **numbers)
    each = Device.of(machine)
    like = Cluster("four", (each,) * 4, (0, 0, 0, 0), Link(0.0, 1e9), (Link(0.0, 1e9),))
    assert not like.is_unlike
    graph = mlp()
    for planner in ("tofu", "data_parallel"):
        one, other = (
            smex.search(graph, 4, planner=planner, objective="time", machine=each, mesh=[4])
            for each in (machine, like)
        )
        assert one.placements() == other.placements()
        assert other.seconds == pytest.approx(one.seconds, rel=1e-12)
        assert smex.simulate(other).seconds == pytest.approx(smex.simulate(one).seconds, rel=1e-12)


def test_a_slower_device_takes_as_much_longer():
    graph = mlp()
    plan = smex.search(graph, 2, machine=pair(), weights="even")
    slow = Cluster("slow", tuple(d.slower(3) for d in pair().devices), (0, 1), Link(0.0, 1e12),
                   pair().ports)  # fmt: skip
    assert plan.on(slow).compute_seconds == pytest.approx(3 * plan.compute_seconds)


# ---- plans ----


def test_speed_balances_the_calls():
    graph = mlp()
    cluster = pair(3.0, 1.0, bandwidth=1e15)
    even, fast = (
        smex.search(graph, 2, planner="data_parallel", objective="time", machine=cluster,
                    weights=weights)
        for weights in ("even", None)
    )  # fmt: skip
    assert fast.options.weights.policy == "speed"
    assert dict(fast.options.weights.known)["speed"] == pytest.approx((1, 1 / 3))
    # All is arithmetic and bytes: half of the work on the slow one, or a quarter.
    assert even.compute_seconds / fast.compute_seconds == pytest.approx(2, rel=0.02)
    assert smex.simulate(even).seconds / smex.simulate(fast).seconds == pytest.approx(2, rel=0.05)


def test_other_captures_are_cut_as_the_first():
    model = nn.Sequential(nn.Linear(64, 256), nn.BatchNorm1d(256), nn.Linear(256, 32)).double()
    x, y = torch.rand(64, 64).double(), torch.rand(64, 32).double()
    net = smex.partition(
        model, 2, loss_fn=F.mse_loss, args=(x, y), objective="time", machine=pair(3.0, 1.0),
        replicate_bytes=0,
    )  # fmt: skip
    first = net.plan.options.weights
    assert first.policy == "speed" and first.known
    net.eval()
    with torch.no_grad():
        net(x[:5], y[:5])
    plans = [program.plan for program in net._programs]
    assert len(plans) > 1 and all(plan.options.weights == first for plan in plans)


def test_like_devices_are_cut_evenly():
    plan = smex.search(mlp(), 2, objective="time", machine=pair())
    assert plan.options.weights.policy == "even"
    assert smex.search(mlp(), 2, machine=pair(), weights="speed").options.weights.policy == "even"


def test_plans_are_saved_with_their_cluster(tmp_path):
    graph = mlp()
    plan = smex.search(graph, 8, objective="time", machine=heterog_testbed())
    plan.save(tmp_path / "plan.json")
    again = smex.Plan.load(tmp_path / "plan.json", graph)
    assert again.machine == plan.machine and again.options.weights == plan.options.weights
    assert again.seconds == plan.seconds and str(again.placements()) == str(plan.placements())


def test_more_workers_than_there_are():
    with pytest.raises(smex.SmexValueError, match="a plan for 3 workers does not fit"):
        smex.search(mlp(), 3, objective="time", machine=pair())


def test_nets_of_unlike_devices_compute_the_same():
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(8, 64), nn.BatchNorm1d(64), nn.Linear(64, 4)).double()
    plain = copy.deepcopy(model)
    x, y = torch.rand(64, 8).double(), torch.rand(64, 4).double()
    net = smex.partition(
        model, 8, loss_fn=F.mse_loss, args=(x, y), objective="time", machine=heterog_testbed()
    )
    opts = [torch.optim.Adam(m.parameters(), lr=1e-2) for m in (net, plain)]
    for _ in range(3):
        losses = [net(x, y), F.mse_loss(plain(x), y)]
        for loss, opt in zip(losses, opts, strict=True):
            loss.backward()
            opt.step()
            opt.zero_grad()
        assert losses[0].item() == pytest.approx(losses[1].item(), rel=1e-10)


# ---- the order of execution ----


class Branches(nn.Module):
    """A long branch behind short ones, of which two are of another worker."""

    def __init__(self):
        super().__init__()
        self.side = nn.ModuleList(nn.Linear(32, 32) for _ in range(4))
        self.main = nn.ModuleList(nn.Linear(32, 32) for _ in range(4))

    def forward(self, x):
        sides = [torch.tanh(layer(x)) for layer in self.side]
        for layer in self.main:
            x = torch.relu(layer(x))
        return x + sum(sides)


def branches(cluster):
    torch.manual_seed(0)
    model = Branches().double()
    x = torch.rand(64, 32, dtype=torch.float64)
    graph = smex.capture_graph(model, (x, x), loss_fn=F.mse_loss)
    pins = [smex.pin("main.*", "W1"), smex.pin("side.*", "W0")]
    plan = smex.search(graph, 2, objective="time", machine=cluster, weights="even", pinned=pins)
    return model, x, plan


def test_a_list_order_is_never_slower_and_computes_the_same(tmp_path):
    model, x, plan = branches(pair(2.0, 1.0, bandwidth=2e7))
    ordered = plan.ordered()
    assert smex.simulate(ordered).seconds <= smex.simulate(plan).seconds
    assert ordered.total_bytes == plan.total_bytes
    nets = [smex.partition(model, loss_fn=F.mse_loss, plan=each) for each in (plan, ordered)]
    losses = [net(x, x) for net in nets]
    for loss in losses:
        loss.backward()
    assert torch.equal(*losses)
    grads = [net.full_grads() for net in nets]
    assert all(torch.equal(grads[0][name], grads[1][name]) for name in grads[0])
    ordered.save(tmp_path / "plan.json")
    again = smex.Plan.load(tmp_path / "plan.json", ordered.graph)
    assert again.native.order == ordered.native.order


def test_an_order_needs_times():
    with pytest.raises(smex.SmexValueError, match="ordered: the plan has no machine"):
        smex.search(mlp(), 2).ordered()


# ---- simulations ----


def data_parallel(cluster, **options):
    options = {"planner": "data_parallel", "weights": "even", **options}
    return smex.search(mlp(), cluster.workers, machine=cluster, objective="time", **options)


def test_what_a_simulation_says():
    cluster = heterog_testbed()
    simulation = smex.simulate(data_parallel(cluster))
    assert simulation.seconds >= simulation.least > 0
    for worker, spans in enumerate(simulation.workers):
        assert sum(span.seconds for span in spans) == pytest.approx(simulation.busy[worker])
        assert all(a.end <= b.begin + 1e-15 for a, b in itertools.pairwise(spans))
    assert 0 <= min(simulation.idle) <= max(simulation.idle) < 1
    assert simulation.peak_bytes == simulation.plan.peak_bytes()
    assert "GTX 1080 Ti" in str(simulation) and "critical path" in str(simulation)
    assert repr(simulation).startswith("Simulation(")


def test_the_critical_path_leads_to_the_end():
    for overlap in (0.0, 1.0):
        simulation = smex.simulate(data_parallel(pair(2.0, 1.0, overlap=overlap)))
        path = simulation.critical_path()
        assert path[-1].end == pytest.approx(simulation.seconds)
        assert path[0].begin == 0
        assert all(b.begin >= a.begin for a, b in itertools.pairwise(path))
        if overlap == 1:  # nothing is left out between them
            assert sum(span.seconds for span in path) == pytest.approx(simulation.seconds)


def test_messages_of_a_node_share_its_port():
    """Two workers of a node that receive from two others: at once, or one after the other."""
    graph = mlp()
    each = device()
    port = Link(0.0, 1e9, 1.0)
    apart = Cluster("apart", (each,) * 4, (0, 1, 2, 3), Link(0.0, 1e12), (port,) * 4)
    shared = Cluster("shared", (each,) * 4, (0, 0, 1, 1), Link(0.0, 1e12), (port,) * 2)
    plan = smex.search(graph, 4, machine=apart, planner="fsdp", mesh=[4])
    for cluster in (apart, shared):
        messages = smex.simulate(plan, cluster).messages
        by_port = {}
        for message in messages:
            source, to = map(int, message.where.split(" -> "))
            if cluster.nodes[source] == cluster.nodes[to]:
                continue
            for key in (("in", cluster.nodes[to]), ("out", cluster.nodes[source])):
                by_port.setdefault(key, []).append((message.begin, message.end))
        for spans in by_port.values():
            spans.sort()
            assert all(a[1] <= b[0] + 1e-12 for a, b in itertools.pairwise(spans))
    sums = [sum(m.seconds for m in smex.simulate(plan, c).messages) for c in (apart, shared)]
    assert sums[1] < sums[0]  # a third of them stay inside of nodes


def test_traces_lie_above_each_other(tmp_path):
    model = nn.Linear(8, 8)
    x = torch.rand(16, 8)
    net = smex.partition(model, 2, args=(x,), machine=pair(), replicate_bytes=0)
    net.trace(tmp_path / "ran.json", x)
    smex.simulate(net.plan).trace(tmp_path / "both.json", beside=tmp_path / "ran.json")
    events = json.loads((tmp_path / "both.json").read_text())["traceEvents"]
    names = {e["args"]["name"] for e in events if e["name"] == "process_name"}
    assert names == {"workers", "links", "workers, simulated", "links, simulated"}
    ran = {e["name"] for e in events if e["ph"] == "X" and e["pid"] == 0 and e["cat"] == "compute"}
    told = {e["name"] for e in events if e["ph"] == "X" and e["pid"] == 10}
    assert ran & told
    (tmp_path / "other.json").write_text("[]")
    with pytest.raises(smex.SmexValueError, match="is no trace that net.trace wrote"):
        smex.simulate(net.plan).trace(tmp_path / "x.json", beside=tmp_path / "other.json")


def test_what_can_be_simulated():
    plan = smex.search(mlp(), 2)
    with pytest.raises(smex.SmexValueError, match="has no machine that tells times"):
        smex.simulate(plan)
    with pytest.raises(smex.SmexTypeError, match="expected a plan of smex.search"):
        smex.simulate("plan")
    with pytest.raises(smex.SmexTypeError, match=r"expected a smex.Cluster or a smex.Machine"):
        smex.simulate(plan, "cluster")
    with pytest.raises(smex.SmexValueError, match="does not fit"):
        smex.simulate(plan, pair().first(1))


# ---- memory ----


def test_each_worker_keeps_to_its_own_memory():
    """The large device may hold what the small one cannot."""
    graph = mlp(batch=256, width=512)
    free = smex.search(graph, 2, objective="time", machine=pair(4.0, 1.0), optimizer_states=2)
    large, small = (1.05 * max(free.peaks()), 0.6 * min(free.peaks()))
    cluster = dataclasses.replace(
        pair(4.0, 1.0), devices=(device("a", 4.0, large), device("b", 1.0, small))
    )
    plan = smex.search(
        graph, 2, objective="time", machine=cluster, optimizer_states=2, memory_limit="devices"
    )
    peaks = plan.peaks()
    assert peaks[0] <= large and peaks[1] <= small < peaks[0]
    with pytest.raises(smex.PlanError, match="no plan for 2 workers"):
        smex.search(
            graph, 2, objective="time", machine=cluster, optimizer_states=2, memory_limit=small
        )


def test_limits_of_devices_need_a_cluster():
    with pytest.raises(smex.PlanError, match='memory_limit="devices" needs machine='):
        smex.search(mlp(), 2, memory_limit="devices")
