"""Graphs from and to networkx."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings

import smex
import smex.graph as sg
from support.graphs import graphs, heterographs, pairs

networkx = pytest.importorskip("networkx", reason="networkx is not installed")


def test_nodes_are_numbered_by_their_sorted_labels():
    n = networkx.DiGraph([("c", "a"), ("a", "d")])
    n.add_node("b")
    g = sg.from_networkx(n)
    assert g.num_nodes() == 4 and pairs(g) == [(2, 0), (0, 3)]


def test_undirected_graphs_get_both_directions():
    n = networkx.Graph([(2, 1), (0, 2), (1, 1)])
    assert sorted(pairs(sg.from_networkx(n))) == [(0, 2), (1, 1), (1, 2), (2, 0), (2, 1)]


def sample():
    n = networkx.MultiDiGraph()
    n.add_edge(0, 1, id=1, w=1.0, v=[1, 2], t=torch.tensor([1.0]), a=np.array([1.0, 2.0]), b=True)
    n.add_edge(0, 1, id=0, w=2.0, v=[3, 4], t=torch.tensor([2.0]), a=np.array([3.0, 4.0]), b=False)
    n.add_edge(2, 0, id=2, w=3.0, v=[5, 6], t=torch.tensor([3.0]), a=np.array([5.0, 6.0]), b=True)
    for v in n:
        n.nodes[v]["f"] = float(v)
    return n


def test_attributes_become_features():
    g = sg.from_networkx(sample(), node_attrs=["f"], edge_attrs=["w", "v", "t", "a", "b"])
    assert g.ndata["f"].tolist() == [0.0, 1.0, 2.0]
    assert {k: v.dtype for k, v in g.edata.items()} == {
        "w": torch.float32,
        "v": torch.int64,
        "t": torch.float32,
        "a": torch.float64,
        "b": torch.bool,
    }
    assert g.edata["v"].tolist() == [[1, 2], [3, 4], [5, 6]] and g.edata["t"].shape == (3, 1)


def test_edge_ids_from_an_attribute():
    g = sg.from_networkx(sample(), edge_attrs=["w"], edge_id_attr_name="id", idtype=torch.int32)
    assert g.edata["w"].tolist() == [2.0, 1.0, 3.0] and g.idtype == torch.int32


def test_bipartite():
    n = networkx.DiGraph()
    n.add_nodes_from([3, 1], bipartite=0, f=1.0)
    n.add_nodes_from([5, 2, 4], bipartite=1, k=2)
    n.add_edges_from([(3, 5, {"id": 1, "w": 3.0}), (1, 4, {"id": 0, "w": 4.0})])
    g = sg.bipartite_from_networkx(n, "z", "e", "a", ["f"], ["w"], ["k"])
    assert g.canonical_etypes == [("z", "e", "a")] and pairs(g) == [(1, 2), (0, 1)]
    assert (
        g.nodes["z"].data["f"].tolist() == [1.0, 1.0] and g.nodes["a"].data["k"].tolist() == [2] * 3
    )
    g = sg.bipartite_from_networkx(n, "z", "e", "a", e_attrs=["w"], edge_id_attr_name="id")
    assert pairs(g) == [(0, 1), (1, 2)] and g.edata["w"].tolist() == [4.0, 3.0]


@settings(max_examples=30, deadline=None)
@given(graphs())
def test_there_and_back(g):
    n = sg.to_networkx(g, node_attrs=["h"], edge_attrs=["w"])
    assert sorted(n.edges()) == sorted(pairs(g)) and n.number_of_nodes() == g.num_nodes()
    back = sg.from_networkx(n, ["h"] * bool(g.num_nodes()), ["w"] * bool(g.num_edges()), "id")
    assert pairs(back) == pairs(g)
    for name, column in back.edata.items():
        assert torch.equal(column, g.edata[name])
    for name, column in back.ndata.items():
        assert torch.equal(column, g.ndata[name])


@settings(max_examples=20, deadline=None)
@given(heterographs())
def test_types_become_attributes(g):
    n = g.to_networkx(node_attrs=["h"], edge_attrs=["w"])
    flat = sg.to_homogeneous(g)
    by_id = sorted((d["id"], u, v, d["etype"], d["w"].item()) for u, v, d in n.edges(data=True))
    assert [(u, v) for _, u, v, _, _ in by_id] == pairs(flat)
    assert [g.canonical_etypes.index(e) for _, _, _, e, _ in by_id] == flat.edata[sg.ETYPE].tolist()
    assert [w for *_, w in by_id] == flat.edata[sg.EID].tolist()
    assert [g.ntypes.index(t) for _, t in n.nodes(data="ntype")] == flat.ndata[sg.NTYPE].tolist()


def test_names_of_attributes_and_missing_features():
    g = sg.heterograph({("a", "x", "b"): ([0], [1]), ("a", "y", "b"): ([0], [0])})
    g.nodes["a"].data["h"] = torch.ones(1)
    n = g.to_networkx(["h"], None, "kind", "relation", "number")
    assert dict(n.nodes(data="kind")) == {0: "a", 1: "b", 2: "b"} and "h" not in n.nodes[1]
    assert [d for *_, d in n.edges(data="number")] == [1, 0] or len(n.edges) == 2
    block = sg.create_block(([0, 1], [0, 0]))
    assert dict(sg.to_networkx(block).nodes(data="ntype"))[2] == "_N_dst"


def undirected():
    return networkx.path_graph(3)


def without_ids():
    return networkx.DiGraph([(0, 1)])


@pytest.mark.parametrize(
    ("make", "error", "text"),
    [
        (
            lambda: sg.from_networkx([1]),
            smex.SmexTypeError,
            "expected a networkx graph, found list",
        ),
        (
            lambda: sg.from_networkx(undirected(), edge_attrs=["w"]),
            smex.SmexValueError,
            "undirected graph become two",
        ),
        (
            lambda: sg.from_networkx(undirected(), edge_id_attr_name="w"),
            smex.SmexValueError,
            "undirected graph become two",
        ),
        (
            lambda: sg.from_networkx(networkx.DiGraph([(0, "a")])),
            smex.SmexTypeError,
            "cannot be compared",
        ),
        (
            lambda: sg.from_networkx(without_ids(), edge_id_attr_name="id"),
            smex.SmexValueError,
            'id in the attribute "id"',
        ),
        (
            lambda: sg.from_networkx(sample(), edge_id_attr_name="w"),
            smex.SmexValueError,
            "w must hold each of 0 to 2",
        ),
        (
            lambda: sg.from_networkx(sample(), node_attrs=["q"]),
            KeyError,
            'node 0 has no attribute "q"; it has: "f"',
        ),
        (
            lambda: sg.from_networkx(sample(), edge_attrs=["q"]),
            smex.SmexValueError,
            'edge 0 has no attribute "q"',
        ),
        (
            lambda: sg.bipartite_from_networkx(undirected(), "u", "e", "v"),
            smex.SmexValueError,
            "found an undirected one",
        ),
        (
            lambda: sg.bipartite_from_networkx(without_ids(), "u", "e", "v"),
            smex.SmexValueError,
            "bipartite of 0 or 1, found node 0",
        ),
        (
            lambda: sg.to_networkx(sg.graph(([0], [1])), ["q"]),
            KeyError,
            'no node type has a feature "q"',
        ),
        (
            lambda: sg.to_networkx(sg.graph(([0], [1])), None, ["q"]),
            KeyError,
            'no edge type has a feature "q"',
        ),
    ],
)
def test_errors(make, error, text):
    with pytest.raises(error, match=text):
        make()


def test_values_that_do_not_stack_and_edges_the_wrong_way():
    n = networkx.DiGraph([(0, 1)])
    n.nodes[0]["f"], n.nodes[1]["f"] = [1], [1, 2]
    with pytest.raises(smex.SmexValueError, match='node attribute "f" do not stack'):
        sg.from_networkx(n, node_attrs=["f"])
    n.nodes[0]["bipartite"], n.nodes[1]["bipartite"] = 1, 0
    with pytest.raises(smex.SmexValueError, match=r"bipartite=1, found \(0, 1\)"):
        sg.bipartite_from_networkx(n, "u", "e", "v")
