"""Who sends whom how much, on the page of a plan."""

import math
from xml.etree import ElementTree

import pytest
import torch

import smex
from smex._C import FetchInstr, moved_bytes
from smex.planning.page.links import link_bytes, links_section
from smex.text import size_words


def model(width=12):
    return torch.nn.Sequential(
        torch.nn.Linear(width, 20), torch.nn.Tanh(), torch.nn.Linear(20, 6), torch.nn.Softmax(-1)
    )


def counted(plan):
    """Bytes by the parts of all fetches."""
    found = [[0] * plan.workers for _ in range(plan.workers)]
    for dest, worker in enumerate(plan.program().workers):
        for instr in (*worker.forward, *worker.backward):
            if not isinstance(instr, FetchInstr):
                continue
            for part in instr.parts:
                if part.worker != dest:
                    numel = math.prod(hi - lo for lo, hi in part.source)
                    found[part.worker][dest] += numel * getattr(torch, instr.dtype).itemsize
    return found


@pytest.mark.parametrize("workers", [1, 2, 3, 4, 6])
def test_the_matrix_has_the_bytes_of_the_program(workers):
    graph = smex.capture_graph(model(), (torch.zeros(8, 12),))
    plan = smex.search(graph, workers, replicate_bytes=0)
    found = link_bytes(plan)
    assert found == counted(plan)
    assert sum(map(sum, found)) == moved_bytes(plan.program())
    assert (sum(map(sum, found)) > 0) == (workers > 1)


@pytest.mark.parametrize("workers", [2, 3])
def test_the_matrix_has_what_is_received(workers):
    net = smex.partition(model(), workers=workers, replicate_bytes=0)
    net(torch.randn(8, 12)).sum().backward()
    received = [sum(column) for column in zip(*link_bytes(net.plan))]
    assert received == net.stats()["received_bytes"]


def test_the_section_has_all_cells():
    graph = smex.capture_graph(model(), (torch.zeros(8, 12),))
    plan = smex.search(graph, 3, replicate_bytes=0)
    moved = link_bytes(plan)
    tree = ElementTree.fromstring(f"<div>{links_section(plan)}</div>")
    rows = [["".join(cell.itertext()) for cell in row] for row in tree.iter("tr")]
    assert rows[0] == ["sends", "0", "1", "2", "together"]
    for source in range(3):
        cells = [size_words(n) if source != d else "" for d, n in enumerate(moved[source])]
        assert rows[source + 1] == [str(source), *cells, size_words(sum(moved[source]))]
    sums = [size_words(sum(column)) for column in zip(*moved)]
    assert rows[-1] == ["receives", *sums, size_words(sum(map(sum, moved)))]


def test_nothing_to_send():
    graph = smex.capture_graph(lambda x: x * 2, (torch.zeros(4),))
    assert "No worker receives" in links_section(smex.search(graph, 2, replicate_bytes=0))
    assert links_section(smex.search(graph, 1)) == ""
