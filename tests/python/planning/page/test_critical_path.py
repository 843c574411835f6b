"""What an iteration waits for, on the page of a plan."""

import re

import pytest
import torch
from torch.nn import functional as F

import smex
from smex._C import ComputeInstr
from smex.planning.page.critical_path import critical_path, critical_path_section, ops_of

SLOW = smex.Machine("slow link", {"float32": 1e12}, 1e12, 1e-6, 1e9, (smex.Level(1024, 1e-5, 1e7),))
FAST = smex.Machine("fast link", {"float32": 1e9}, 1e10, 1e-6, 1e9, (smex.Level(1024, 1e-9, 1e14),))


@pytest.fixture(scope="module")
def graph():
    layers = [torch.nn.Linear(64, 64), torch.nn.GELU(), torch.nn.Linear(64, 64)]
    args = (torch.zeros(32, 64), torch.zeros(32, 64))
    return smex.capture_graph(torch.nn.Sequential(*layers), args, loss_fn=F.mse_loss)


@pytest.mark.parametrize("workers", [1, 2, 3, 4])
@pytest.mark.parametrize("machine", [SLOW, FAST], ids=["slow", "fast"])
def test_the_path_is_that_of_the_simulator(graph, machine, workers):
    plan = smex.search(graph, workers, replicate_bytes=0, machine=machine)
    seconds, path = critical_path(plan)
    simulation = smex.simulate(plan)
    assert seconds == simulation.seconds
    assert 0.5 * seconds < sum(link.seconds for link in path) <= seconds * (1 + 1e-9)
    messages = {span.where.replace("->", "→") for span in simulation.critical_path()
                if span.kind == "message"}  # fmt: skip
    assert {link.where for link in path if link.kind == "message"} <= messages
    assert {link.kind for link in path} <= {"compute", "copy", "message"}
    assert any(link.kind == "compute" and link.op >= 0 for link in path)


@pytest.mark.parametrize("workers", [1, 2, 3])
def test_calls_are_told_by_their_ops(graph, workers):
    plan = smex.search(graph, workers, replicate_bytes=0, machine=FAST)
    program = plan.program()
    timeline = plan.timeline()
    ran = zip(timeline.instructions(program), timeline.positions(program), strict=True)
    for worker, (rows, positions) in zip(program.workers, ran, strict=True):
        found = ops_of(worker, positions)
        calls = [op for op, row in zip(found, rows, strict=True) if row[1] == "compute"]
        assert sorted(calls) == sorted(
            i.op for i in (*worker.forward, *worker.backward) if isinstance(i, ComputeInstr)
        )
        listed = {
            (i.op, i.target) for i in (*worker.forward, *worker.backward)
            if isinstance(i, ComputeInstr)
        }  # fmt: skip
        for op, (name, kind, _, _) in zip(found, rows, strict=True):
            assert kind != "compute" or (op, name.partition("[")[0]) in listed


def test_the_bottleneck_is_the_slow_part(graph):
    slow = smex.search(graph, 2, replicate_bytes=0, machine=SLOW)
    fast = smex.search(graph, 2, replicate_bytes=0, machine=FAST)
    kinds = []
    for plan in (slow, fast):
        sums = {}
        for link in critical_path(plan)[1]:
            sums[link.kind] = sums.get(link.kind, 0) + link.seconds
        kinds.append(max(sums, key=sums.get))
    assert kinds == ["message", "compute"]
    assert "sent 0 → 1" in critical_path_section(slow, {}) or "sent 1 → 0" in critical_path_section(
        slow, {}
    )
    assert re.search(r"Bottleneck:</b> \S+ on worker", critical_path_section(fast, {}))


def test_shares_are_of_the_iteration(graph):
    plan = smex.search(graph, 2, replicate_bytes=0, machine=FAST)
    section = critical_path_section(plan, {})
    shares = [float(share) for share in re.findall(r">([\d.]+)%</td>", section)]
    assert shares == sorted(shares, reverse=True) and 0 < sum(shares) <= 100.5


def test_ops_refer_to_their_rows(graph):
    plan = smex.search(graph, 2, replicate_bytes=0, machine=FAST)
    rows = {op.id: f"row-{op.id}" for op in graph.captured.ops}
    section = critical_path_section(plan, rows)
    for number, name in re.findall(r'href="#row-(\d+)"><code>([^<]+)</code>', section):
        same = graph.captured.ops[int(number)].target == name
        assert same or name in ("aten::addmm", "smex::pointwise")  # of several ops
    assert "href" in section and "href" not in critical_path_section(plan, {})


def test_without_a_machine_there_is_no_path(graph):
    assert critical_path_section(smex.search(graph, 2), {}) == ""
