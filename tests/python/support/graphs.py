"""Graphs for tests: random ones with hubs, self loops, parallel edges and isolated nodes."""

from collections import Counter

import pytest
import torch

import smex.graph as sg

st = pytest.importorskip("hypothesis.strategies", reason="hypothesis is not installed")

IDTYPES = [torch.int32, torch.int64]
TRIPLES = [("u", "f", "u"), ("u", "p", "v"), ("v", "q", "u"), ("z", "f", "v")]


def pairs(g, etype=None):
    """[(source, destination), ...] in the order of edge ids."""
    return list(zip(*(ids.tolist() for ids in g.edges(etype=etype))))


def counted(g, etype=None):
    """How many edges there are between each pair of nodes."""
    return Counter(pairs(g, etype))


def same(a, b):
    """Whether two graphs are equal: types, edges, features."""
    assert a.ntypes == b.ntypes and a.canonical_etypes == b.canonical_etypes
    assert a.idtype == b.idtype
    for ntype in a.ntypes:
        assert a.num_nodes(ntype) == b.num_nodes(ntype)
        x, y = a.nodes[ntype].data, b.nodes[ntype].data
        assert list(x) == list(y) and all(torch.equal(x[name], y[name]) for name in x)
    for canonical in a.canonical_etypes:
        assert pairs(a, canonical) == pairs(b, canonical)
        x, y = a.edges[canonical].data, b.edges[canonical].data
        assert list(x) == list(y) and all(torch.equal(x[name], y[name]) for name in x)


def with_features(g):
    """Features that name the node or edge they belong to."""
    for n, ntype in enumerate(g.ntypes):
        rows = torch.arange(g.num_nodes(ntype), dtype=torch.float64)
        g.nodes[ntype].data["h"] = torch.stack([rows, rows + 100 * n], 1)
    for canonical in g.canonical_etypes:
        g.edges[canonical].data["w"] = torch.arange(g.num_edges(canonical), dtype=torch.float64)
    return g


@st.composite
def edge_lists(draw, num_src, num_dst, max_edges=25):
    """Edges between nodes; every third list has a hub."""
    if num_src == 0 or num_dst == 0:
        return []
    source = st.integers(0, num_src - 1)
    target = st.integers(0, num_dst - 1)
    if draw(st.integers(0, 2)) == 0:
        target = st.one_of(st.just(0), target)
    return draw(st.lists(st.tuples(source, target), max_size=max_edges))


def _ends(edges, idtype):
    return tuple(torch.tensor([e[side] for e in edges], dtype=idtype) for side in (0, 1))


@st.composite
def graphs(draw, min_nodes=0):
    """Graphs of one type, with features."""
    number = draw(st.integers(min_nodes, 10))
    edges = draw(edge_lists(number, number))
    idtype = draw(st.sampled_from(IDTYPES))
    return with_features(sg.graph(_ends(edges, idtype), num_nodes=number))


@st.composite
def heterographs(draw):
    """Graphs of three node types and four edge types, with features."""
    sizes = {ntype: draw(st.integers(0, 6)) for ntype in "uvz"}
    idtype = draw(st.sampled_from(IDTYPES))
    data = {
        (s, e, d): _ends(draw(edge_lists(sizes[s], sizes[d], 10)), idtype) for s, e, d in TRIPLES
    }
    return with_features(sg.heterograph(data, sizes))


@st.composite
def some_of(draw, size):
    """Different integers below size, in any order."""
    return draw(st.permutations(range(size)))[: draw(st.integers(0, size))]
