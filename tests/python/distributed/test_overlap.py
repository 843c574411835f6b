"""Tiles on their way while workers compute, and what is known of links."""

import json

import models
import pytest
import torch
from torch.distributed.device_mesh import init_device_mesh
from torch.nn import functional as F

import smex
from smex._C import FetchInstr
from support.families import next_token

pytestmark = pytest.mark.costly

GROUP = {"SMEX_SHARED_MEMORY": "0"}
AT_ONCE = {"SMEX_OVERLAP": "0"}


def build(family):
    """A model, its inputs, target and loss."""
    torch.manual_seed(0)
    if family == "mlp":
        inputs, target = torch.randn(8, 12).double(), torch.randn(8, 12).double()
        return models.mlp([12, 24, 12]).double(), [inputs], target, F.mse_loss
    tokens = torch.randint(128, (24, 17))
    model = models.GPT(2, 32, 2, 128, 16, fused_attention=True).double()
    return model, [tokens[:, :-1].contiguous()], tokens[:, 1:].contiguous(), next_token


def net_of(family, workers, planner, **options):
    model, inputs, target, loss_fn = build(family)
    net = smex.partition(
        model, workers=workers, args=(*inputs, target), loss_fn=loss_fn, planner=planner,
        replicate_bytes=70_000, **options,
    )  # fmt: skip
    return net, (*inputs, target)


def late(net):
    """Fetches that are due after something else has run."""
    return [
        instr
        for worker in net._first.program.workers
        for instr in (*worker.forward, *worker.backward)
        if isinstance(instr, FetchInstr) and instr.due >= 0
    ]


def train(rank, family, workers, planner, **options):
    torch.manual_seed(0)
    net, batch = net_of(family, workers, planner, **options)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    losses = []
    for _ in range(3):
        loss = net(*batch)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    stats = net.stats()
    peaks = zip(stats["peak_bytes"], stats["predicted_peak_bytes"], strict=True)
    assert all(peak <= predicted for peak, predicted in peaks), stats
    return losses, net.full_grads(), len(late(net))


@pytest.mark.parametrize("planner", ["data_parallel", "fsdp", "tofu"])
@pytest.mark.parametrize("variables", [{}, GROUP, AT_ONCE], ids=["memory", "group", "at once"])
def test_results_do_not_depend_on_when_tiles_are_waited_for(processes, planner, variables):
    losses, grads, count = train(0, "transformer", 3, planner)
    assert count > 0
    found = processes.run(train, 3, "transformer", 3, planner, variables=variables)
    for other_losses, other_grads, other_count in found:
        assert other_losses == losses
        for name, grad in grads.items():
            assert torch.equal(other_grads[name], grad), name
        assert other_count == (0 if variables is AT_ONCE else count)


def train_with_sums(rank):
    return train(rank, "transformer", 2, "data_parallel", collectives="always", deterministic=False)


def test_sums_of_collectives_come_while_workers_compute(processes):
    losses, grads, count = train(0, "transformer", 2, "data_parallel")
    for other_losses, other_grads, other_count in processes.run(train_with_sums, 2):
        assert other_count == count > 0
        assert other_losses == pytest.approx(losses, rel=1e-12)
        torch.testing.assert_close(other_grads, grads)


def traced(rank, path):
    net, batch = net_of("transformer", 2, "data_parallel")
    net.trace(path, *batch, backward=True)
    return net.stats()["bytes_moved"]


def test_a_trace_shows_what_links_carry_meanwhile(processes, tmp_path):
    path = str(tmp_path / "trace.json")
    moved = processes.run(traced, 2, path)[0]
    with open(path) as file:
        events = json.load(file)["traceEvents"]
    begun = {event["id"]: event for event in events if event["ph"] == "b"}
    ended = {event["id"]: event for event in events if event["ph"] == "e"}
    assert begun.keys() == ended.keys() != set()
    links = [e["pid"] for e in events if e["ph"] == "M" and e["args"].get("name") == "links"]
    assert {event["pid"] for event in begun.values()} == set(links)
    computes = [e for e in events if e.get("cat") == "compute"]
    assert any(
        e["tid"] == event["tid"] % 2 and event["ts"] <= e["ts"] < ended[number]["ts"]
        for number, event in begun.items()
        for e in computes
    )
    spans = [e for e in events if e["ph"] == "X" and e["pid"] in links]
    assert sum(e["args"]["bytes"] for e in (*spans, *begun.values())) == moved


def with_other_defaults(rank):
    """What is measured is of the types that programs say, whatever the user's defaults are."""
    torch.set_default_dtype(torch.float64)
    try:
        with torch.device("meta"):
            machine = smex.Machine.calibrate()
        model, batch, target, loss_fn = build("mlp")
        net = smex.partition(model, args=(*batch, target), loss_fn=loss_fn, objective="time")
        return machine, net.plan.seconds, repr(net.plan.timeline())
    finally:
        torch.set_default_dtype(torch.float32)


@pytest.mark.parametrize("variables", [{}, GROUP], ids=["memory", "group"])
def test_defaults_of_types_and_devices_do_not_matter(processes, variables):
    for machine, seconds, text in processes.run(with_other_defaults, 2, variables=variables):
        assert machine.workers == 2
        assert seconds > 0
        assert text.startswith("Timeline(")


def profiled(rank):
    model, batch, target, loss_fn = build("mlp")
    graph = smex.capture(model, (*batch, target), loss_fn=loss_fn)
    machine = smex.profile(graph, smex.Machine.calibrate())
    net = smex.partition(
        model, args=(*batch, target), loss_fn=loss_fn, objective="time", machine=machine
    )
    net(*batch, target).backward()
    alone = smex.profile(graph, machine, processes=1)
    return machine, net.plan.timeline().seconds, alone.workers


def test_all_ranks_know_what_calls_take(processes):
    (first, seconds, _), *others = processes.run(profiled, 2)
    assert any(kind.startswith("aten::addmm ") for kind in first.calls)
    assert 0 < seconds < 10
    for machine, told, workers in others:
        assert machine == first
        assert told == seconds
        assert workers == 2


def traced_nowhere(rank, path):
    net, batch = net_of("mlp", 2, "tofu")
    with pytest.raises(smex.SmexRuntimeError, match="cannot be written"):
        net.trace(path, *batch, backward=True)
    return net(*batch).item()


def test_all_ranks_are_told_of_a_trace_that_cannot_be_written(processes, tmp_path):
    first, second = processes.run(traced_nowhere, 2, str(tmp_path / "none" / "trace.json"))
    assert first == second


def calibrated(rank, shape):
    mesh = init_device_mesh("cpu", shape)
    machine = smex.Machine.calibrate(mesh=mesh)
    assert torch.get_num_threads() == 1
    model, batch, target, loss_fn = build("mlp")
    net = smex.partition(model, mesh=mesh, args=(*batch, target), loss_fn=loss_fn, objective="time")
    own = net.plan.machine
    again = smex.partition(
        model, mesh=mesh, args=(*batch, target), loss_fn=loss_fn, objective="time"
    )
    assert again.plan.machine is own  # measured once
    return machine, own, net.plan.timeline().seconds


@pytest.mark.costly(cases=1)
@pytest.mark.parametrize("shape", [(2,), (2, 2)])
def test_processes_are_measured(processes, shape):
    first, *others = processes.run(calibrated, torch.Size(shape).numel(), shape)
    assert all(other == first for other in others)
    for machine in first[:2]:
        assert [level.size for level in machine.levels] == list(reversed(shape))
        assert machine.workers == torch.Size(shape).numel()
        for level in machine.levels:
            assert level.bandwidth > 1e6
            assert 0 < level.latency < 1
            assert 0 <= level.overlap <= 1
    assert first[2] > 0


def test_what_cannot_be_measured_is_refused():
    with pytest.raises(smex.SmexValueError, match="processes must be 1"):
        smex.Machine.calibrate(processes=2)
    with pytest.raises(smex.SmexValueError, match="at least 1 worker"):
        smex.Machine.calibrate(0)


def misfit(rank):
    mesh = init_device_mesh("cpu", (2,))
    texts = []
    for options in ({"mesh": mesh, "processes": 1}, {"mesh": mesh, "workers": 4}):
        with pytest.raises(smex.SmexValueError) as refused:
            smex.Machine.calibrate(**options)
        texts.append(str(refused.value))
    return texts


def test_a_mesh_has_as_many_workers_as_processes(processes):
    for one, many in processes.run(misfit, 2):
        assert "leave out one of them" in one
        assert "with one each, 2" in many


def machine_of(overlap):
    level = smex.Level(2, 1e-4, 1e8, overlap)
    return smex.Machine("two", {"float64": 1e9}, 1e10, 1e-6, 1e9, (level,))


def test_a_timeline_counts_what_goes_on_meanwhile():
    net, _ = net_of("transformer", 2, "data_parallel", machine=machine_of(1.0))
    plan = net.plan
    late, at_once = plan.timeline(), plan.timeline(overlap=False)
    assert late.least <= late.seconds < at_once.seconds
    assert late.busy == pytest.approx(at_once.busy)
    assert max(late.waiting) < max(at_once.waiting)
    assert late.transferred == pytest.approx(at_once.transferred)
    moved = plan.total_bytes / 2 / 1e8
    assert sum(late.transferred) / 2 == pytest.approx(moved)
    copied = plan.on(machine_of(0.0)).timeline()
    assert copied.seconds > late.seconds
    assert max(copied.busy) > max(late.busy)


def test_a_timeline_needs_a_machine():
    net, _ = net_of("mlp", 2, "tofu")
    with pytest.raises(smex.SmexValueError, match="no machine"):
        net.plan.timeline()
    with pytest.raises(smex.SmexValueError, match="overlap of level 0"):
        machine_of(1.5)
