"""Pages of clusters and machines: residuals of measured calls, and what they show."""

import math
import random
import re
from xml.etree import ElementTree

import numpy as np
import pytest

import smex
from smex.planning.call_costs import CallCost
from smex.planning.residuals import measured_once, percentile, residuals

LINK = smex.cluster.Link(1e-5, 1e9)
NEAR = 1e-4  # csrc/partition/price/call_cost.cpp


def calls(seed, kinds=3):
    """Kinds of 0, 1, 2, ... calls that were measured, and an operator's weights."""
    chance = random.Random(seed)
    found = {"aten::mm": {4: CallCost((1e-6, 1e-11, 1e-10, 0, 0))}}
    for kind in range(kinds + 1):
        rows = tuple(
            (10 ** chance.uniform(2, 8), 10 ** chance.uniform(2, 7), chance.choice([0, 1e4]),
             chance.uniform(0.5, 2))
            for _ in range(kind)
        )  # fmt: skip
        weights = tuple(chance.random() * 10 ** -chance.uniform(6, 10) for _ in range(5))
        found[f"aten::mm <{kind}> & more"] = {4: CallCost(weights, rows), 8: CallCost(weights)}
    return found


def device(name, seed=0, **changes):
    return smex.cluster.Device(
        name, {"float32": 1e12, "float64": 1e11}, 1e11, 1e-6, 1e9, calls=calls(seed), **changes
    )


def cluster_of(*devices):
    return smex.Cluster("a desk", devices, (0,) * len(devices), LINK, (LINK,))


def told(cost, work):
    """Seconds by Shepard's interpolation, in numpy."""
    seconds = np.dot(cost.weights, [1, *work])
    if not cost.measured:
        return seconds
    rows = np.array(cost.measured)
    ratios = np.log((rows[:, :3] + 1) / (np.array(work[:3]) + 1))
    weights = 1 / (NEAR + (ratios**2).sum(1))
    return seconds * math.exp(weights @ np.log(rows[:, 3]) / weights.sum())


@pytest.mark.parametrize("seed", range(3))
def test_seconds_of_a_cost(seed):
    chance = random.Random(seed)
    for costs in calls(seed).values():
        work = [10 ** chance.uniform(0, 9) for _ in range(4)]
        assert costs[4].seconds(*work) == pytest.approx(told(costs[4], work), rel=1e-12)
    assert CallCost((1, 2, 3, 4, 5)).seconds(10, 100) == 1 + 20 + 300


@pytest.mark.parametrize("seed", range(3))
def test_residuals_are_those_of_costs_without_the_call(seed):
    expected = []
    for kind, costs in calls(seed).items():
        rows = costs[4].measured
        for number, row in enumerate(rows):
            if len(rows) < 2:
                continue
            others = CallCost(costs[4].weights, tuple(r for n, r in enumerate(rows) if n != number))
            measured = row[3] * told(CallCost(costs[4].weights), [*row[:3], 0])
            expected.append((kind, measured, told(others, [*row[:3], 0])))
    found = residuals(calls(seed))
    assert [each.kind for each in found] == [kind for kind, _, _ in expected]
    assert [each.measured for each in found] == pytest.approx([m for _, m, _ in expected])
    assert [each.predicted for each in found] == pytest.approx([p for _, _, p in expected])
    assert [each.error for each in found] == pytest.approx([p / m - 1 for _, m, p in expected])
    assert len(found) == 5 and measured_once(calls(seed)) == 1


def test_a_call_without_seconds_has_no_residual():
    rows = ((1, 1, 0, 0.0), (2, 2, 0, 1.0), (3, 3, 0, 2.0))
    assert residuals({"x": {4: CallCost((0, 0, 0, 0, 0), rows)}}) == []
    # Where the one of no seconds tells, nothing is predicted either.
    assert residuals({"x": {4: CallCost((1, 0, 0, 0, 0), rows)}}) == []


@pytest.mark.parametrize("count", [1, 2, 3, 10])
@pytest.mark.parametrize("share", [0.0, 0.5, 0.9, 1.0])
def test_percentiles(count, share):
    chance = random.Random(count)
    errors = [chance.uniform(-1, 1) for _ in range(count)]
    assert percentile(errors, share) == pytest.approx(np.percentile(np.abs(errors), 100 * share))


def page_of(shown, tmp_path):
    path = tmp_path / "page.html"
    assert shown.show(path) == path
    text = path.read_text(encoding="utf-8")
    return text, ElementTree.fromstring(text)


def rows_of(tree, heading):
    found = []
    for table in tree.iter("table"):
        rows = [["".join(cell.itertext()) for cell in row] for row in table.iter("tr")]
        if rows[0][0] == heading:
            found += rows[1:]
    return found


def test_a_page_stands_alone_and_has_each_device_once(tmp_path):
    fast, slow = device("fast <1>"), device("slow", seed=1)
    text, tree = page_of(cluster_of(fast, slow, fast), tmp_path)
    assert not re.search(r"(src|href)=|@import|url\(", text)
    headings = [each.text for each in tree.iter("h2")]
    assert headings == ["fast <1>, workers 0, 2", "slow, worker 1"]
    assert [row[:3] for row in rows_of(tree, "device")] == [
        ["fast <1>", "workers 0, 2", "5"], ["slow", "worker 1", "5"],
    ]  # fmt: skip
    scatters = [svg for svg in tree.iter("svg") if svg.find("circle") is not None]
    assert [len(svg.findall("circle")) for svg in scatters] == [5, 5]
    errors = [each.error for each in residuals(fast.calls)]
    words = f"median of the errors is {percentile(errors, 0.5):.1%}, their 90th percentile "
    assert f"{words}{percentile(errors, 0.9):.1%}" in text
    assert "one call was measured, which no other tells: 1." in text


def test_points_lie_by_their_seconds(tmp_path):
    shown = device("x")
    _, tree = page_of(cluster_of(shown), tmp_path)
    svg = next(svg for svg in tree.iter("svg") if svg.find("circle") is not None)
    line, lower, upper = svg.findall("polyline")
    assert [each.find("title").text for each in (line, lower, upper)] == [
        "as measured", "-15%", "+15%",
    ]  # fmt: skip
    (x0, y0), (x1, y1) = (
        tuple(map(float, line.get("points").split()[end].split(","))) for end in (0, -1)
    )
    found = residuals(shown.calls)
    every = [seconds for each in found for seconds in (each.measured, each.predicted)]
    low, high = math.floor(math.log10(min(every))), math.ceil(math.log10(max(every)))
    for circle, each in zip(svg.findall("circle"), found, strict=True):
        across = (math.log10(each.measured) - low) / (high - low)
        up = (math.log10(each.predicted) - low) / (high - low)
        assert float(circle.get("cx")) == pytest.approx(x0 + across * (x1 - x0), abs=0.2)
        assert float(circle.get("cy")) == pytest.approx(y0 + up * (y1 - y0), abs=0.2)
        assert circle.find("title").text.startswith(f"{each.kind}: ")


def test_kinds_are_sorted_by_their_errors(tmp_path):
    many = smex.cluster.Device("x", {"float32": 1e12}, 1e11, 1e-6, 1e9, calls=calls(2, kinds=30))
    _, tree = page_of(cluster_of(many), tmp_path)
    rows = rows_of(tree, "kind")
    assert len(rows) == 29
    medians = [float(row[4].rstrip("%")) for row in rows]
    assert medians == sorted(medians, reverse=True)
    assert [each.find("summary").text for each in tree.iter("details")] == ["9 more"]
    assert sum(int(row[2]) for row in rows) == len(residuals(many.calls))


def test_devices_of_data_sheets_say_that_nothing_was_measured(tmp_path):
    text, tree = page_of(smex.cluster.heterog_testbed(), tmp_path)
    assert text.count("Nothing was measured") == 3 and "<circle" not in text
    assert len(list(tree.iter("svg"))) == 3  # rooflines
    rates = {row[0] for row in rows_of(tree, "dtype")}
    assert rates == {"■ float16", "■ float32", "■ float64"}
    assert [row[2:] for row in rows_of(tree, "device")] == [["0", "", ""]] * 3


def test_kinds_that_were_measured_once(tmp_path):
    once = smex.cluster.Device("x", {"float32": 1e12}, 1e11, 0, 1e9, calls=calls(0, kinds=1))
    text, _ = page_of(cluster_of(once), tmp_path)
    assert "No kind has two calls that were measured" in text and "tells: 1." in text


def test_a_machine_has_a_page(tmp_path):
    machine = smex.Machine.h100_nvlink()
    text, tree = page_of(machine, tmp_path)
    assert [each.text for each in tree.iter("h2")] == [f"{machine.name}, 8 workers"]
    assert "Nothing was measured" in text


def test_overviews():
    for shown in (cluster_of(device("x")), smex.Machine.h100_nvlink()):
        tree = ElementTree.fromstring(shown._repr_html_())
        assert tree.get("class") == "smex-plan" and tree.find("p").text == repr(shown)
        assert len(rows_of(tree, "device")) == 1
