"""Graphs in parts."""

import sys

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import smex
import smex.graph as sg
from support.graphs import graphs, pairs


@pytest.fixture
def pymetis():
    return pytest.importorskip("pymetis", reason="pymetis is not installed")


def communities(number=4, size=20):
    """Cliques in a ring, joined by one edge each."""
    src, dst = [], []
    for c in range(number):
        members = range(c * size, (c + 1) * size)
        src += [u for u in members for v in members if u < v]
        dst += [v for u in members for v in members if u < v]
        src.append(c * size)
        dst.append((c + 1) % number * size)
    order = torch.randperm(number * size)
    return sg.graph((order[torch.tensor(src)], order[torch.tensor(dst)])), order


@pytest.mark.parametrize("mode", ["k-way", "recursive"])
@pytest.mark.parametrize("idtype", [torch.int32, torch.int64])
def test_communities_are_found(pymetis, mode, idtype):
    g, order = communities()
    parts = sg.metis_partition_assignment(g.astype(idtype), 4, mode=mode)
    assert parts.dtype == torch.int64
    by_community = parts[order].view(4, 20)
    assert (by_community == by_community[:, :1]).all() and parts.unique().tolist() == [0, 1, 2, 3]


@pytest.mark.parametrize("options", [{"balance_edges": True}, {"objtype": "vol"}])
def test_options(pymetis, options):
    g, _ = communities()
    sizes = sg.metis_partition_assignment(g, 2, **options).bincount()
    assert sizes.shape == (2,) and int(sizes.min()) >= 30


def test_small_cases(pymetis):
    assert sg.metis_partition_assignment(sg.graph(([], [])), 2).shape == (0,)
    assert sg.metis_partition_assignment(sg.graph(([0, 1], [0, 0])), 1).tolist() == [0, 0]
    g, _ = communities()
    parts = sg.metis_partition(g, 4, extra_cached_hops=1, reshuffle=True)
    assert sorted(parts) == [0, 1, 2, 3]
    inner = [p.ndata["orig_id"][p.ndata["inner_node"].bool()] for p in parts.values()]
    assert torch.cat(inner).sort().values.tolist() == list(range(80))


def halo_edges(edges, part, number, hops):
    """Ids of the edges of a part, by the definition."""
    own = {v for v, p in enumerate(part) if p == number}
    if hops == 0:
        return {e for e, (u, v) in enumerate(edges) if u in own and v in own}
    chosen = {e for e, (u, v) in enumerate(edges) if v in own}
    chosen |= {e for e, (u, v) in enumerate(edges) if u in own and v not in own}
    frontier = {edges[e][0] for e in chosen if edges[e][1] in own} - own
    seen = own | frontier
    for _ in range(hops - 1):
        more = {e for e, (u, v) in enumerate(edges) if v in frontier}
        frontier = {edges[e][0] for e in more} - seen
        seen |= frontier
        chosen |= more
    return chosen


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_halos(data):
    g = data.draw(graphs())
    part = data.draw(st.lists(st.integers(0, 2), min_size=g.num_nodes(), max_size=g.num_nodes()))
    hops = data.draw(st.integers(0, 3))
    reshuffle = data.draw(st.booleans())
    found, node_ids, edge_ids = sg.partition_graph_with_halo(g, part, hops, reshuffle)
    assert (node_ids is not None) == reshuffle == (edge_ids is not None)
    for number, p in found.items():
        nodes = p.ndata["orig_id" if reshuffle else sg.NID].tolist()
        eids = p.edata["orig_id" if reshuffle else sg.EID].tolist()
        assert set(eids) == halo_edges(pairs(g), part, number, hops) and len(set(eids)) == len(eids)
        assert [(nodes[u], nodes[v]) for u, v in pairs(p)] == [pairs(g)[e] for e in eids]
        assert [n for n, i in zip(nodes, p.ndata["inner_node"].tolist()) if i] == [
            v for v in range(g.num_nodes()) if part[v] == number
        ]
        assert p.ndata["part_id"].tolist() == [part[v] for v in nodes]
        inner = [part[pairs(g)[e][1]] == number for e in eids]
        assert p.edata["inner_edge"].tolist() == inner and p.idtype == g.idtype
    if reshuffle and found:
        assert [part[v] for v in node_ids.tolist()] == sorted(part)


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"k": 0}, "k of at least 1, found 0"),
        ({"mode": "fast"}, "found 'fast' and 'cut'"),
        ({"objtype": "best"}, "found 'k-way' and 'best'"),
        ({"mode": "recursive", "objtype": "vol"}, "needs mode 'k-way'"),
        ({"balance_ntypes": torch.zeros(2)}, "balance_ntypes needs several weights"),
    ],
)
def test_impossible_options(pymetis, options, text):
    with pytest.raises(smex.SmexValueError, match=text):
        sg.metis_partition_assignment(sg.graph(([0], [1])), **{"k": 2, **options})


def test_errors(monkeypatch):
    h = sg.heterograph({("u", "e", "v"): ([0], [1])})
    with pytest.raises(smex.SmexTypeError, match="one node type and one edge type, found 2 and 1"):
        sg.partition_graph_with_halo(h, [0, 0, 0], 1)
    with pytest.raises(smex.SmexValueError, match="for each of 2 nodes, found 1 part,"):
        sg.partition_graph_with_halo(sg.graph(([0], [1])), [0], 1)
    monkeypatch.setitem(sys.modules, "pymetis", None)
    with pytest.raises(smex.SmexImportError, match="pip install pymetis"):
        sg.metis_partition_assignment(h, 2)
