"""Graphs without isolated nodes, and blocks."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import smex
import smex.graph as sg
from support.graphs import IDTYPES, TRIPLES, graphs, heterographs, pairs, some_of, with_features

MANY = settings(max_examples=40, deadline=None)


def first_seen(*lists):
    return list(dict.fromkeys(x for values in lists for x in values))


def ends_of(h, ntype):
    """Node ids of a type as compact_graphs reads them."""
    for canonical in h.canonical_etypes:
        for side in (0, 2):
            if canonical[side] == ntype:
                yield [pair[side // 2] for pair in pairs(h, canonical)]


@MANY
@given(st.data())
def test_compact(data):
    h = data.draw(heterographs())
    keep = {t: data.draw(some_of(h.num_nodes(t))) for t in h.ntypes if data.draw(st.booleans())}
    c = sg.compact_graphs(h, always_preserve=keep)
    for ntype in h.ntypes:
        ids = c.nodes[ntype].data[sg.NID]
        assert ids.tolist() == first_seen(keep.get(ntype, []), *ends_of(h, ntype))
        assert torch.equal(c.nodes[ntype].data["h"], h.nodes[ntype].data["h"][ids.long()])
        assert ids.dtype == h.idtype
    for s, e, d in TRIPLES:
        u_ids, v_ids = (c.nodes[t].data[sg.NID].tolist() for t in (s, d))
        assert [(u_ids[u], v_ids[v]) for u, v in pairs(c, (s, e, d))] == pairs(h, (s, e, d))
        assert torch.equal(c.edges[s, e, d].data["w"], h.edges[s, e, d].data["w"])


def test_compact_together():
    g1 = sg.graph(([1, 3], [3, 5]), num_nodes=20)
    g2 = sg.graph(([1, 6], [6, 8]), num_nodes=20)
    c1, c2 = sg.compact_graphs([g1, g2], copy_edata=False)
    assert c1.ndata[sg.NID].tolist() == c2.ndata[sg.NID].tolist() == [1, 3, 5, 6, 8]
    assert pairs(c1) == [(0, 1), (1, 2)] and pairs(c2) == [(0, 3), (3, 4)]
    assert sg.compact_graphs([]) == [] and not sg.compact_graphs(g1, copy_ndata=False).ndata


@MANY
@given(st.data())
def test_block(data):
    g = data.draw(graphs())
    reached = sorted({v for _, v in pairs(g)})
    others = [v for v in range(g.num_nodes()) if v not in reached]
    chosen = data.draw(st.permutations(reached + others[:2])) if data.draw(st.booleans()) else None
    include = data.draw(st.booleans())
    nodes = None if chosen is None else torch.tensor(chosen, dtype=g.idtype)
    b = sg.to_block(g, nodes, include_dst_in_src=include)
    dst = reached if chosen is None else chosen
    src = first_seen(dst if include else [], [u for u, _ in pairs(g)])
    assert b.dstdata[sg.NID].tolist() == dst and b.srcdata[sg.NID].tolist() == src
    assert [(src[u], dst[v]) for u, v in pairs(b)] == pairs(g) and b.is_block
    assert b.edata[sg.EID].tolist() == list(range(g.num_edges()))
    assert torch.equal(b.srcdata["h"], g.ndata["h"][torch.tensor(src, dtype=torch.int64)])
    assert torch.equal(b.edata["w"], g.edata["w"]) and b.idtype == g.idtype
    wanted = torch.tensor(first_seen(src, others), dtype=g.idtype)
    given_src = sg.to_block(g, nodes, include_dst_in_src=include, src_nodes=wanted)
    assert pairs(given_src) == pairs(b) and given_src.num_src_nodes() == len(wanted)


@MANY
@given(heterographs())
def test_block_of_several_types(h):
    b = sg.to_block(h)
    assert b.srctypes == b.dsttypes == h.ntypes
    for s, e, d in TRIPLES:
        src, dst = b.srcnodes[s].data[sg.NID].tolist(), b.dstnodes[d].data[sg.NID].tolist()
        assert [(src[u], dst[v]) for u, v in pairs(b, (s, e, d))] == pairs(h, (s, e, d))
        assert src[: b.num_dst_nodes(s)] == b.dstnodes[s].data[sg.NID].tolist()


@pytest.mark.parametrize("idtype", IDTYPES)
def test_block_of_some_types(idtype):
    h = with_features(sg.heterograph({("A", "e", "B"): ([1, 2], [2, 3])}, idtype=idtype))
    b = sg.to_block(h, {"B": torch.tensor([3, 2])})
    assert (b.num_dst_nodes("A"), b.num_dst_nodes("B")) == (0, 2)
    assert b.srcnodes["B"].data[sg.NID].tolist() == [3, 2]
    assert b.srcnodes["A"].data[sg.NID].tolist() == [1, 2]


def test_block_without_edges():
    b = sg.to_block(sg.graph(([], []), num_nodes=3), [1])
    assert (b.num_src_nodes(), b.num_dst_nodes(), b.num_edges()) == (1, 1, 0)


def test_gradients_flow_through():
    def features(h, w):
        g = sg.graph(([0, 0, 4, 2, 2], [1, 1, 1, 0, 0]), num_nodes=5)
        g.ndata["h"], g.edata["w"] = h, w
        b, c = sg.to_block(g), sg.compact_graphs(g)
        return b.srcdata["h"].exp(), b.dstdata["h"].sin(), b.edata["w"].exp(), c.ndata["h"].exp()

    leaves = [torch.randn(5, 2, dtype=torch.float64, requires_grad=True) for _ in range(2)]
    assert torch.autograd.gradcheck(features, leaves)


def line():
    return sg.graph(([0, 1], [1, 2]), num_nodes=4)


@pytest.mark.parametrize(
    ("make", "error", "text"),
    [
        (
            lambda: sg.to_block(line(), [1]),
            smex.SmexValueError,
            'every destination of an edge, "_N" node 2 is missing',
        ),
        (lambda: sg.to_block(line(), [1, 2, 2]), smex.SmexValueError, "must differ"),
        (
            lambda: sg.to_block(line(), [1, 2], src_nodes=[0, 1, 2]),
            smex.SmexValueError,
            "start with the destinations",
        ),
        (
            lambda: sg.to_block(line(), [1, 2], src_nodes=[1, 2]),
            smex.SmexValueError,
            'every source of an edge, "_N" node 0',
        ),
        (lambda: sg.to_block(sg.create_block(([0], [1]))), smex.SmexTypeError, "found a block"),
        (
            lambda: sg.compact_graphs([line(), sg.graph(([0], [1]))]),
            smex.SmexValueError,
            "same numbers of nodes",
        ),
        (
            lambda: sg.compact_graphs([line(), line().int()]),
            smex.SmexValueError,
            "same idtype and device",
        ),
        (
            lambda: sg.compact_graphs([line(), 3]),
            smex.SmexTypeError,
            "compact_graphs: expected a list of graphs, found int at position 1",
        ),
    ],
)
def test_errors(make, error, text):
    with pytest.raises(error, match=text):
        make()
