"""Input graphs from lists, tuples and graphs, their batches and schedules."""

import pickle
import re
from xml.etree import ElementTree

import numpy as np
import pytest
import torch

import smex
import smex.graph as sg
import smex.vertex as sv
from smex.vertex.execution.schedule import schedule

ANY = [(0, -1, False)]


def children(graph):
    return [graph.children_of(v) for v in range(graph.num_vertices)]


def test_constructors_agree():
    lists = [[], [], [0, 1], [], [2, 3]]
    graph = sv.from_children(lists)
    assert children(graph) == lists
    assert children(sv.from_parents([2, 2, 4, 4, -1])) == lists
    assert children(sv.from_parents(torch.tensor([2, 2, 4, 4, -1]))) == lists
    assert children(sv.tree((((), ()), ()))) == lists
    g = sg.graph(([0, 1, 2, 3], [2, 2, 4, 4]))
    assert children(sv.from_graph(g)[0]) == lists
    assert children(sv.from_graph(sg.reverse(g), reverse=True)[0]) == lists


def test_labels_and_types_of_trees():
    graph = sv.tree(("a", ["b", ("c",)]), lambda label, count: f"{label}{count}")
    assert graph.labels == ["a", "b", "c", None, None, None]
    assert graph.types == ["a0", "b0", "c0", "None1", "None2", "None2"]
    assert children(graph) == [[], [], [], [2], [1, 3], [0, 4]]


@pytest.mark.parametrize("child", [2**63, -(2**63) - 1, 2**70])
def test_a_child_beyond_int64(child):
    with pytest.raises(smex.SmexValueError, match=f"below 2 as children, found {child}"):
        sv.from_children([[], [0, child]])


# ---- pictures ----


def circles(graph):
    """By vertex where it is drawn, and what is written there."""
    svg = ElementTree.fromstring(graph._repr_html_().partition("</div>")[2].partition("<div>")[0])
    places = {}
    for vertex in svg.findall("g")[1:]:
        number, *label = [text.text for text in vertex.findall("text")]
        numbers = re.findall(r"[\d.]+", vertex.get("transform"))
        places[int(number)] = (*map(float, numbers), *label)
    return svg, places


def test_a_tree_is_drawn_with_its_leaves_below():
    svg, places = circles(sv.tree((("the", "film"), ("<b>", "extraordinary"))))
    assert len(svg.find("g")) == 6  # lines
    x, y, labels = zip(*[(*places[v][:2], places[v][2:]) for v in range(7)])
    assert labels == (("the",), ("film",), (), ("<b>",), ("extrao…",), (), ())
    assert y[0] == y[1] == y[3] == y[4] > y[2] == y[5] > y[6]
    assert x[2] == (x[0] + x[1]) / 2 and x[6] == (x[2] + x[5]) / 2
    assert len({(places[v][0], places[v][1]) for v in places}) == 7


def test_a_chain_lies():
    _, places = circles(sv.chain(5))
    assert len({y for _, y in places.values()}) == 1
    assert [places[v][0] for v in range(5)] == sorted(places[v][0] for v in range(5))


def test_types_have_colours_and_a_key():
    graph = sv.from_children([[], [], [0, 1]], types=["leaf", "leaf", "a<b"])
    svg, _ = circles(graph)
    fills = [circle.get("fill") for circle in svg.iter("circle")]
    assert fills[0] == fills[1] != fills[2]
    assert "● </span> leaf" not in (html := graph._repr_html_()) and "</span> leaf" in html
    assert "a&lt;b" in html and "a<b" not in html


@pytest.mark.parametrize(
    "graph",
    [sv.chain(0), sv.chain(301), sv.from_children([[1], [0]]), sv.from_children([[7]])],
    ids=["empty", "large", "cycle", "no such child"],
)
def test_what_cannot_be_drawn_is_named(graph):
    assert graph._repr_html_() == f"<div>{graph!r}</div>"


def test_deep_trees():
    nested = ()
    for _ in range(5000):
        nested = (nested,)
    assert children(sv.tree(nested))[-1] == [4999]


def test_chains():
    assert [children(sv.chain(n)) for n in (0, 1, 3)] == [[], [[]], [[], [0], [1]]]


def test_batched_graphs():
    g = sg.batch(
        [sg.graph(([0, 1], [1, 2])), sg.graph(([], []), num_nodes=1), sg.graph(([1], [0]))]
    )
    g.ndata["kind"] = torch.tensor([0, 1, 1, 2, 1, 0])
    graphs = sv.from_graph(g, types="kind")
    assert [children(one) for one in graphs] == [[[], [0], [1]], [[]], [[1], []]]
    assert [one.types for one in graphs] == [["0", "1", "1"], ["2"], ["1", "0"]]
    result = sv.run(Count(), sg.batch([g]), torch.ones(6, 1))
    assert result.states["n"].flatten().tolist() == [1, 2, 3, 1, 2, 1]


class Count(sv.VertexFunction):
    def __init__(self):
        super().__init__(n=1)

    def forward(self):
        self.scatter(self.pull() + self.gather_sum().n)


def test_a_batch():
    batch = sv.batch([sv.chain(2), sv.chain(0), sv.tree(((), ()))])
    assert repr(batch) == "GraphBatch(3 samples, 5 vertices, 3 edges)"
    assert batch.sample_offsets.tolist() == [0, 2, 2, 5]
    assert batch.children.tolist() == [0, 2, 3]
    assert batch.key == sv.batch([sv.chain(2), sv.chain(0), sv.tree(((), ()))]).key
    assert batch.key != sv.batch([sv.chain(2), sv.tree(((), ()))]).key


def planned(graphs, slots=2, policy="readiness"):
    return schedule(sv.batch(graphs), ANY, [slots], ["F"], None, policy, torch.device("cpu"))


def test_schedules_are_kept_by_structure():
    first = planned([sv.chain(4)])
    assert planned([sv.chain(4)]) is first
    assert planned([sv.chain(5)]) is not first
    assert planned([sv.chain(4)], slots=1) is not first


def test_schedules_do_not_travel_with_a_batch():
    batch = sv.batch([sv.chain(4)])
    schedule(batch, ANY, [2], ["F"], None, "readiness", torch.device("cpu"))
    assert batch.schedules
    other = pickle.loads(pickle.dumps(batch))
    assert not other.schedules
    assert other.key == batch.key


@pytest.mark.parametrize("seed", range(5))
def test_rows_and_children(seed):
    generator = np.random.default_rng(seed)
    lists = [
        [int(c) for c in generator.integers(0, v, generator.integers(0, 4))] if v else []
        for v in range(40)
    ]
    plan = planned([sv.from_children(lists)], slots=3)
    rows, vertices = plan.rows.tolist(), plan.vertices.tolist()
    assert [rows[v] for v in vertices] == list(range(40))
    done = set()
    for kind_number, number in plan.order:
        kind = plan.kinds[kind_number]
        task = kind.tasks[number]
        for i in range(task.size):
            vertex = vertices[task.first_row + i]
            assert kind.is_leaf == (not lists[vertex])
            assert all(rows[c] in done for c in lists[vertex])
            edges = task.edges[task.parents == i].tolist()
            assert edges == [rows[c] for c in lists[vertex]]
            for slot, place in enumerate(task.slots):
                row = place + i if isinstance(place, int) else int(place[i])
                wanted = rows[lists[vertex][slot]] if slot < len(lists[vertex]) else 40
                assert row == wanted
        done |= set(range(task.first_row, task.first_row + task.size))
        own = vertices[task.first_row : task.first_row + task.size]
        assert task.most_children == max(len(lists[v]) for v in own)
    assert done == set(range(40))


def test_the_children_of_chains_are_not_copied():
    plan = planned([sv.chain(n) for n in (3, 7, 5, 7, 1)], slots=1)
    places = [place for kind in plan.kinds for task in kind.tasks for place in task.slots]
    assert len(places) == 6
    assert all(isinstance(place, int) for place in places)


@pytest.mark.parametrize("parent", [2**63, -(2**63) - 1, 2**70])
def test_a_parent_beyond_int64_is_an_error_of_ours(parent):
    with pytest.raises(smex.SmexValueError, match=f"the parent of vertex 1, found {parent}$"):
        sv.from_parents([-1, parent])


def test_lists_as_parents_are_an_error_of_ours():
    with pytest.raises(smex.SmexTypeError, match=r"expected ints as parents, found \[\[1\], \[0"):
        sv.from_parents([[1], [0, 1]])
