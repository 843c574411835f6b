"""Several types as one, and one type as several."""

import pytest
import torch
from hypothesis import given, settings

import smex
import smex.graph as sg
from support.graphs import TRIPLES, graphs, heterographs, pairs, with_features


@settings(max_examples=40, deadline=None)
@given(heterographs())
def test_there_and_back(h):
    pytest.importorskip("networkx", reason="networkx is not installed")
    g, nodes, edges = sg.to_homogeneous(h, ["h"], ["w"], return_count=True)
    assert nodes == [h.num_nodes(t) for t in h.ntypes] and edges == [
        h.num_edges(c) for c in TRIPLES
    ]
    assert g.idtype == h.idtype and g.ndata[sg.NTYPE].dtype == torch.int64
    names = [c[1] for c in h.canonical_etypes]
    back = sg.to_heterogeneous(g, h.ntypes, names, metagraph=h.metagraph())
    assert back.ntypes == h.ntypes and back.canonical_etypes == h.canonical_etypes
    for canonical in TRIPLES:
        assert pairs(back, canonical) == pairs(h, canonical)
        assert torch.equal(back.edges[canonical].data["w"], h.edges[canonical].data["w"])
    for ntype in h.ntypes:
        assert torch.equal(back.nodes[ntype].data["h"], h.nodes[ntype].data["h"])


@settings(max_examples=40, deadline=None)
@given(graphs())
def test_types_by_brute_force(g):
    g.ndata["kind"] = torch.arange(g.num_nodes()) % 2
    g.edata["kind"] = torch.arange(g.num_edges()) % 3
    h = sg.to_heterogeneous(g, ["b", "a"], ["x", "y", "z"], "kind", "kind")
    assert h.ntypes == ["a", "b"]
    expected = {}
    for e, (u, v) in enumerate(pairs(g)):
        canonical = ("ba"[u % 2], "xyz"[e % 3], "ba"[v % 2])
        expected.setdefault(canonical, []).append((u // 2, v // 2, e))
    assert h.canonical_etypes == sorted(expected)
    for canonical, edges in expected.items():
        found = h.edges[canonical].data[sg.EID].tolist()
        assert [(u, v, e) for (u, v), e in zip(pairs(h, canonical), found)] == edges
        assert h.edges[canonical].data["w"].tolist() == [float(e) for *_, e in edges]
    assert h.nodes["a"].data[sg.NID].tolist() == list(range(1, g.num_nodes(), 2))
    assert "kind" not in h.nodes["a"].data


def test_of_a_block():
    b = sg.create_block({("u", "x", "v"): ([0, 1], [1, 2]), ("a", "y", "u"): ([3], [1])})
    g = sg.to_homogeneous(b)
    assert g.num_nodes() == 11 and g.ndata[sg.NTYPE].unique().tolist() == [0, 1, 2, 3]


def test_gradients_flow_through():
    h = with_features(sg.heterograph({("u", "x", "v"): ([0, 1], [1, 2])}))
    leaf = torch.ones(2, 2, dtype=torch.float64, requires_grad=True)
    h.nodes["u"].data["h"] = leaf * 3
    g = sg.to_homogeneous(h, ndata=["h"])
    sg.to_heterogeneous(g, h.ntypes, h.etypes).nodes["u"].data["h"].sum().backward()
    assert torch.equal(leaf.grad, torch.full((2, 2), 3.0, dtype=torch.float64))


def two_types():
    return with_features(sg.heterograph({("u", "x", "v"): ([0, 1], [1, 2])}))


def typed(nodes, edges):
    g = sg.graph(([0], [1]))
    g.ndata[sg.NTYPE], g.edata[sg.ETYPE] = torch.tensor(nodes), torch.tensor(edges)
    return g


def changed(name, value):
    h = two_types()
    h.nodes["u"].data[name] = value
    return h


@pytest.mark.parametrize(
    ("make", "error", "text"),
    [
        (
            lambda: sg.to_homogeneous(two_types(), ["q"]),
            KeyError,
            'no node type has a feature "q", of "u", "v"',
        ),
        (
            lambda: sg.to_homogeneous(changed("h", torch.ones(2)), ["h"]),
            smex.SmexValueError,
            "one shape and dtype in all node",
        ),
        (
            lambda: sg.to_heterogeneous(two_types(), ["u"], ["x"]),
            smex.SmexTypeError,
            "found 2 and 1",
        ),
        (lambda: sg.to_heterogeneous(sg.graph(([0], [1])), ["u"], ["x"]), KeyError, "_TYPE"),
        (
            lambda: sg.to_heterogeneous(typed([0, 0.5], [0]), ["u"], ["x"]),
            smex.SmexTypeError,
            "vector of integers",
        ),
        (
            lambda: sg.to_heterogeneous(typed([0, 1], [0]), ["u"], ["x"]),
            smex.SmexValueError,
            r"in \[0, 1\).*found 1",
        ),
        (
            lambda: sg.to_heterogeneous(typed([0, 0], [-1]), ["u"], ["x"]),
            smex.SmexValueError,
            "edge types .*found -1",
        ),
        (
            lambda: sg.to_heterogeneous(
                typed([0, 0], [1]), ["u", "v"], ["y", "x"], metagraph=two_types().metagraph()
            ),
            smex.SmexValueError,
            "edges of type \\('u', 'x', 'u'\\)",
        ),
    ],
)
def test_errors(make, error, text):
    pytest.importorskip("networkx", reason="networkx is not installed")
    with pytest.raises(error, match=text):
        make()
