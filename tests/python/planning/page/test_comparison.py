"""Two plans side by side on a page."""

from xml.etree import ElementTree

import pytest
import torch
from torch.nn import functional as F

import smex
from smex.text import duration_words, size_words

MACHINE = smex.Machine("test", {"float32": 1e10}, 1e10, 1e-6, 1e9, (smex.Level(1024, 1e-5, 1e9),))


@pytest.fixture(scope="module")
def graph():
    layers = [torch.nn.Linear(16, 32), torch.nn.ReLU(), torch.nn.Linear(32, 16)]
    args = (torch.zeros(8, 16), torch.zeros(8, 16))
    return smex.capture_graph(torch.nn.Sequential(*layers), args, loss_fn=F.mse_loss)


def tables(page):
    return [
        [["".join(cell.itertext()) for cell in row] for row in table.iter("tr")]
        for table in page.iter("table")
    ]


def shown(here, there, tmp_path):
    path = tmp_path / "both.html"
    assert here.compare(there).show(path) == path
    return ElementTree.fromstring(path.read_text(encoding="utf-8"))


@pytest.mark.parametrize("machine", [None, MACHINE], ids=["bytes", "seconds"])
def test_the_page_has_both_plans(graph, machine, tmp_path):
    here = smex.search(graph, 2, replicate_bytes=0, machine=machine)
    there = smex.search(graph, 4, planner="data_parallel", machine=machine)
    page = shown(here, there, tmp_path)
    assert tables(page)[0][0] == ["", "tofu", "data_parallel", "change"]
    totals = {row[0]: row[1:] for row in tables(page)[0][1:]}
    assert totals["workers"][:2] == ["2", "4"] or totals["workers"][:2] == ["2", "2×2"]
    sizes = [size_words(plan.total_bytes) for plan in (here, there)]
    change = f"{there.total_bytes / here.total_bytes - 1:+.1%}"
    assert totals["moves"] == [*sizes, change]
    peaks = [size_words(max(plan.peak_bytes())) for plan in (here, there)]
    assert totals["peak per worker"][:2] == peaks
    if machine:
        assert f"Both on {machine.name}: " in "".join(page.itertext())
        seconds = [duration_words(plan.seconds) for plan in (here, there)]
        assert totals["takes"][:2] == seconds
        assert totals["simulated, with overlap"][0] == duration_words(smex.simulate(here).seconds)
    else:
        assert "takes" not in totals
    sides = [box for box in page.iter("div") if box.get("class") == "sides"]
    assert [len(box.findall("div")) for box in sides] == [2, 2]
    assert [len(matrix[0]) - 2 for matrix in tables(sides[1])] == [2, 4]


def test_plans_are_told_apart_by_planner_then_by_mesh(graph, tmp_path):
    two, four = (smex.search(graph, n, replicate_bytes=0) for n in (2, 4))
    assert tables(shown(two, four, tmp_path))[0][0][1:3] in (["2", "4"], ["2", "2×2"])
    assert tables(shown(two, two, tmp_path))[0][0][1:3] == ["this plan", "the other"]


def test_timelines_have_one_scale(graph, tmp_path):
    here = smex.search(graph, 2, replicate_bytes=0, machine=MACHINE)
    there = smex.search(graph, 2, planner="data_parallel", machine=MACHINE)
    page = shown(here, there, tmp_path)
    ends = []
    for svg in page.findall(".//div[@class='scroll zoom narrow']/svg"):
        passes = [r for r in svg.iter("rect") if r.find("title").text in ("forward", "backward")]
        ends.append(max(float(r.get("x")) + float(r.get("width")) for r in passes) - 110)
    assert ends[0] / ends[1] == pytest.approx(here.seconds / there.seconds, rel=1e-3)
    assert max(ends) == pytest.approx(600, abs=0.1)


def test_tensors_that_are_placed_differently_are_listed(graph, tmp_path):
    here = smex.search(graph, 2, replicate_bytes=0, pinned={"0.weight": [0], "2.bias": [0]})
    there = smex.search(graph, 2, replicate_bytes=0, pinned={"0.weight": [1], "2.bias": [0]})
    page = shown(here, there, tmp_path)
    (table,) = [rows for rows in tables(page) if rows[0][0] == "tensor"]
    names = [row[0] for row in table[1:]]
    both = here.placements(), there.placements()
    assert names == [name for name in both[0] if both[0][name] != both[1][name]]
    row = table[1 + names.index("0.weight")]
    assert row[3].startswith("S0/2") and row[6].startswith("S1/2")


def test_a_plan_beside_itself_differs_nowhere(graph, tmp_path):
    plan = smex.search(graph, 2, replicate_bytes=0, machine=MACHINE)
    page = shown(plan, plan, tmp_path)
    text = "".join(page.itertext())
    assert "All calls cost the same." in text and "No tensor is placed differently." in text
    assert {row[3] for row in tables(page)[0][1:]} == {"", "+0.0%"}


def test_plans_of_other_models_are_compared_by_their_totals(graph, tmp_path):
    other = smex.search(smex.capture_graph(torch.nn.Linear(16, 4), (torch.zeros(8, 16),)), 2)
    page = shown(smex.search(graph, 2, replicate_bytes=0), other, tmp_path)
    assert "The plans are of other calls." in "".join(page.itertext())


def test_words_and_errors(graph):
    here, there = smex.search(graph, 2), smex.search(graph, 3)
    both = here.compare(there)
    assert str(both) == here.diff(there) and "2 workers" in repr(both)
    assert ElementTree.fromstring(both._repr_html_()).get("class") == "smex-plan"
    with pytest.raises(smex.SmexTypeError, match="expected a plan to compare with, got 7"):
        here.compare(7)
    net = smex.partition(torch.nn.Linear(4, 4), workers=1, args=(torch.zeros(2, 4),))
    with pytest.raises(smex.SmexTypeError, match="got a PartitionedModule: give its .plan"):
        here.compare(net)
