"""Subgraphs against networkx and brute force."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import smex
import smex.graph as sg
from support.graphs import IDTYPES, TRIPLES, graphs, heterographs, pairs, some_of, with_features

MANY = settings(max_examples=40, deadline=None)


def as_named(s, canonical=("_N", "_E", "_N")):
    """{edge id in the graph: its ends in the graph}; the ids that the subgraph stores."""
    src, dst = s.edges(etype=canonical)
    src_ids = s.nodes[canonical[0]].data[sg.NID][src.long()]
    dst_ids = s.nodes[canonical[2]].data[sg.NID][dst.long()]
    eids = s.edges[canonical].data[sg.EID].tolist()
    assert len(set(eids)) == len(eids)
    return dict(zip(eids, zip(src_ids.tolist(), dst_ids.tolist())))


def check_features(s, g):
    """Features are those of the nodes and edges that the stored ids name."""
    for ntype in s.ntypes:
        ids = s.nodes[ntype].data[sg.NID]
        assert ids.dtype == g.idtype
        assert torch.equal(s.nodes[ntype].data["h"], g.nodes[ntype].data["h"][ids.long()])
    for canonical in s.canonical_etypes:
        ids = s.edges[canonical].data[sg.EID]
        assert ids.dtype == g.idtype
        assert torch.equal(s.edges[canonical].data["w"], ids.double())


@MANY
@given(st.data())
def test_of_nodes(data):
    g = data.draw(graphs())
    nodes = data.draw(some_of(g.num_nodes()))
    s = sg.node_subgraph(g, torch.tensor(nodes, dtype=g.idtype))
    expected = {e: (u, v) for e, (u, v) in enumerate(pairs(g)) if u in nodes and v in nodes}
    assert as_named(s) == expected and s.ndata[sg.NID].tolist() == nodes
    check_features(s, g)
    order = sorted(expected, key=lambda e: (nodes.index(expected[e][0]), e))
    assert s.edata[sg.EID].tolist() == order
    kept = g.subgraph(nodes, relabel_nodes=False)
    assert pairs(kept) == [expected[e] for e in order] and kept.num_nodes() == g.num_nodes()
    assert sg.NID not in kept.ndata and torch.equal(kept.ndata["h"], g.ndata["h"])


@MANY
@given(st.data())
def test_of_nodes_by_networkx(data):
    pytest.importorskip("networkx", reason="networkx is not installed")
    g = data.draw(graphs())
    nodes = sorted(data.draw(some_of(g.num_nodes())))
    expected = sg.to_networkx(g).subgraph(nodes)
    found = sg.node_subgraph(g, nodes, relabel_nodes=False)
    assert sorted(pairs(found)) == sorted(expected.edges())


@MANY
@given(st.data())
def test_of_edges(data):
    g = data.draw(graphs())
    edges = data.draw(some_of(g.num_edges()))
    s = sg.edge_subgraph(g, torch.tensor(edges, dtype=g.idtype))
    ends = pairs(g)
    assert as_named(s) == {e: ends[e] for e in edges} and s.edata[sg.EID].tolist() == edges
    seen = [ends[e][0] for e in edges] + [ends[e][1] for e in edges]
    assert s.ndata[sg.NID].tolist() == list(dict.fromkeys(seen))
    check_features(s, g)
    kept = g.edge_subgraph(edges, relabel_nodes=False, store_ids=False)
    assert pairs(kept) == [ends[e] for e in edges] and list(kept.edata) == ["w"]


@pytest.mark.parametrize("inwards", [True, False])
def test_of_edges_at_nodes(inwards):
    @MANY
    @given(st.data())
    def check(data):
        g = data.draw(graphs())
        nodes = data.draw(some_of(g.num_nodes()))
        make, side = (sg.in_subgraph, 1) if inwards else (sg.out_subgraph, 0)
        expected = [e for v in nodes for e, ends in enumerate(pairs(g)) if ends[side] == v]
        s = make(g, nodes)
        assert s.edata[sg.EID].tolist() == expected and s.num_nodes() == g.num_nodes()
        assert pairs(s) == [pairs(g)[e] for e in expected]
        relabelled = make(g, nodes, relabel_nodes=True)
        assert as_named(relabelled) == {e: pairs(g)[e] for e in expected}
        check_features(relabelled, g)

    check()


@pytest.mark.parametrize("inwards", [True, False])
def test_neighbourhoods_by_networkx(inwards):
    networkx = pytest.importorskip("networkx", reason="networkx is not installed")

    @MANY
    @given(st.data())
    def check(data):
        g = data.draw(graphs(min_nodes=1))
        node, k = data.draw(st.integers(0, g.num_nodes() - 1)), data.draw(st.integers(0, 3))
        n = sg.to_networkx(g)
        expected = networkx.ego_graph(n.reverse() if inwards else n, node, radius=k)
        make = sg.khop_in_subgraph if inwards else sg.khop_out_subgraph
        s, where = make(g, node, k)
        assert s.ndata[sg.NID].tolist() == sorted(expected) and where.dtype == torch.int64
        assert s.ndata[sg.NID][where].tolist() == [node]
        assert s.num_edges() == expected.number_of_edges()
        check_features(s, g)
        kept = make(g, [node], k, relabel_nodes=False)
        assert kept.num_edges() == s.num_edges() and kept.num_nodes() == g.num_nodes()

    check()


@MANY
@given(st.data())
def test_of_several_types(data):
    h = data.draw(heterographs())
    nodes = {t: data.draw(some_of(h.num_nodes(t))) for t in h.ntypes if data.draw(st.booleans())}
    s = sg.node_subgraph(h, nodes)
    check_features(s, h)
    for canonical in TRIPLES:
        u_in, v_in = nodes.get(canonical[0], []), nodes.get(canonical[2], [])
        ends = pairs(h, canonical)
        expected = {e: (u, v) for e, (u, v) in enumerate(ends) if u in u_in and v in v_in}
        assert as_named(s, canonical) == expected
    edges = {c: data.draw(some_of(h.num_edges(c))) for c in TRIPLES if data.draw(st.booleans())}
    s = h.edge_subgraph(edges)
    check_features(s, h)
    for canonical in TRIPLES:
        ends = pairs(h, canonical)
        assert as_named(s, canonical) == {e: ends[e] for e in edges.get(canonical, [])}


@MANY
@given(st.data())
def test_neighbourhoods_of_several_types(data):
    h = data.draw(heterographs())
    start = {t: data.draw(some_of(h.num_nodes(t))) for t in h.ntypes}
    k = data.draw(st.integers(0, 3))
    reached = {(t, v) for t, ids in start.items() for v in ids}
    for _ in range(k):
        more = {(c[0], u) for c in TRIPLES for u, v in pairs(h, c) if (c[2], v) in reached}
        reached = reached | more
    s, where = h.khop_in_subgraph(start, k)
    for ntype in h.ntypes:
        found = s.nodes[ntype].data[sg.NID]
        assert found.tolist() == sorted(v for t, v in reached if t == ntype)
        assert found[where[ntype]].tolist() == start[ntype]
    flat, _, _ = sg.to_homogeneous(h, return_count=True)
    assert set(where) == set(h.ntypes) and flat.num_nodes() >= sum(map(len, where.values()))


@pytest.mark.parametrize("idtype", IDTYPES)
def test_forms_of_ids(idtype):
    g = with_features(sg.graph(([0, 1, 2], [1, 2, 0]), idtype=idtype))
    for nodes in (
        [2, 0],
        (2, 0),
        np.array([2, 0]),
        torch.tensor([2, 0]),
        torch.tensor([2, 0], dtype=torch.int32),
        (v for v in (2, 0)),
    ):
        assert sg.node_subgraph(g, nodes).ndata[sg.NID].tolist() == [2, 0]
    for mask in ([True, False, True], torch.tensor([True, False, True]), np.array([1, 0, 1], bool)):
        assert sg.node_subgraph(g, mask).ndata[sg.NID].tolist() == [0, 2]
        assert sg.edge_subgraph(g, mask).edata[sg.EID].tolist() == [0, 2]
        assert sg.in_subgraph(g, mask).edata[sg.EID].tolist() == [2, 1]
    assert sg.node_subgraph(g, 1).num_nodes() == 1 and sg.node_subgraph(g, []).num_nodes() == 0
    assert sg.node_subgraph(g, range(2), output_device="cpu").num_edges() == 1


def test_of_types():
    h = with_features(sg.heterograph({c: ([0, 1], [1, 0]) for c in TRIPLES}))
    s = sg.node_type_subgraph(h, ["u", "v"])
    assert s.canonical_etypes == [("u", "f", "u"), ("u", "p", "v"), ("v", "q", "u")]
    assert sg.edge_type_subgraph(h, ["p"], output_device="cpu").ntypes == ["u", "v"]
    assert torch.equal(s.nodes["u"].data["h"], h.nodes["u"].data["h"])


@pytest.mark.parametrize(
    "cut",
    [
        lambda g: sg.node_subgraph(g, [3, 0, 1]),
        lambda g: sg.edge_subgraph(g, [4, 0]),
        lambda g: sg.in_subgraph(g, [1], relabel_nodes=True),
        lambda g: sg.khop_out_subgraph(g, 0, 2)[0],
        lambda g: sg.node_subgraph(sg.node_subgraph(g, [3, 0, 1]), [1]),
    ],
)
def test_gradients_flow_through(cut):
    def features(h, w):
        g = sg.graph(([0, 0, 1, 2, 2], [1, 1, 1, 0, 0]), num_nodes=4)
        g.ndata["h"], g.edata["w"] = h, w
        s = cut(g)
        return s.ndata["h"].exp(), s.edata["w"].exp().sum()

    leaves = [torch.randn(n, 2, dtype=torch.float64, requires_grad=True) for n in (4, 5)]
    assert torch.autograd.gradcheck(features, leaves)


def test_the_former_name_of_relabel_nodes():
    g = line()
    for call in (g.edge_subgraph, lambda *args, **kwargs: sg.edge_subgraph(g, *args, **kwargs)):
        with pytest.warns(DeprecationWarning, match="preserve_nodes is now relabel_nodes=False"):
            assert call([0], preserve_nodes=True).num_nodes() == 3
        with pytest.warns(DeprecationWarning, match="relabel_nodes=True"):
            assert call([0], preserve_nodes=False).num_nodes() == 2


def line():
    return sg.graph(([0, 1], [1, 2]))


def typed():
    return sg.heterograph({("u", "e", "v"): ([0], [1]), ("u", "k", "v"): ([0], [1])})


@pytest.mark.parametrize(
    ("make", "error", "text"),
    [
        (
            lambda: sg.node_subgraph(sg.create_block(([0], [1])), [0]),
            smex.SmexTypeError,
            "found a block",
        ),
        (lambda: sg.node_subgraph(line(), [3]), smex.SmexValueError, "found 3"),
        (lambda: sg.node_subgraph(line(), [-1]), smex.SmexValueError, "found -1"),
        (lambda: sg.node_subgraph(line(), [0.5]), smex.SmexTypeError, "integer"),
        (
            lambda: sg.node_subgraph(line(), [True, False]),
            smex.SmexValueError,
            r"mask of shape \[3\], found shape \[2\]",
        ),
        (
            lambda: sg.node_subgraph(typed(), [0]),
            smex.SmexTypeError,
            'several node types.*"u", "v"',
        ),
        (lambda: sg.node_subgraph(typed(), {"w": [0]}), smex.SmexValueError, "no 'w'"),
        (lambda: sg.edge_subgraph(typed(), [0]), smex.SmexTypeError, "several edge types"),
        (lambda: sg.edge_subgraph(line(), [2]), smex.SmexValueError, "found 2"),
        (lambda: sg.edge_subgraph(typed(), {"x": [0]}), smex.SmexValueError, "no 'x'"),
        (lambda: sg.in_subgraph(line(), [9]), smex.SmexValueError, "found 9"),
        (
            lambda: sg.khop_in_subgraph(line(), 0, -1),
            smex.SmexValueError,
            "k of at least 0, found -1",
        ),
    ],
)
def test_errors(make, error, text):
    with pytest.raises(error, match=text):
        make()
