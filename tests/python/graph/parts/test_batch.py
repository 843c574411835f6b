"""Batches of graphs."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import smex
import smex.graph as sg
from support.graphs import TRIPLES, graphs, heterographs, pairs, same, with_features

MANY = settings(max_examples=40, deadline=None)


@MANY
@given(st.lists(graphs(), min_size=1, max_size=5))
def test_there_and_back(parts):
    parts = [g.long() for g in parts]
    b = sg.batch(parts)
    assert b.batch_size == len(parts)
    assert b.batch_num_nodes().tolist() == [g.num_nodes() for g in parts]
    assert b.batch_num_edges().tolist() == [g.num_edges() for g in parts]
    offset, expected = 0, []
    for g in parts:
        expected += [(u + offset, v + offset) for u, v in pairs(g)]
        offset += g.num_nodes()
    assert pairs(b) == expected
    for n, (found, g) in enumerate(zip(sg.unbatch(b), parts)):
        same(found, g)
        same(sg.slice_batch(b, n), g)


@MANY
@given(st.lists(heterographs(), min_size=1, max_size=4))
def test_there_and_back_with_types(parts):
    parts = [g.int() for g in parts]
    b = sg.batch(parts)
    for ntype in b.ntypes:
        assert b.batch_num_nodes(ntype).tolist() == [g.num_nodes(ntype) for g in parts]
    for canonical in TRIPLES:
        assert b.batch_num_edges(canonical).tolist() == [g.num_edges(canonical) for g in parts]
    for found, g in zip(sg.unbatch(b), parts):
        same(found, g)


@MANY
@given(graphs(), graphs(), graphs())
def test_batches_of_batches(a, b, c):
    a, b, c = a.long(), b.long(), c.long()
    nested, flat = sg.batch([sg.batch([a, b]), c]), sg.batch([a, b, c])
    same(nested, flat)
    assert nested.batch_num_nodes().tolist() == flat.batch_num_nodes().tolist()


def test_slices_name_where_they_come_from():
    b = sg.batch([with_features(sg.graph(([0], [1]))) for _ in range(3)])
    part = sg.slice_batch(b, 1, store_ids=True)
    assert part.ndata[sg.NID].tolist() == [2, 3] and part.edata[sg.EID].tolist() == [1]
    assert part.batch_size == 1


def test_other_parts():
    b = sg.batch([sg.graph(([0], [1])) for _ in range(3)])
    for nodes, edges in (([2, 4], [1, 2]), (torch.tensor([2, 4]), torch.tensor([1, 2]))):
        one, two = sg.unbatch(b, nodes, edges)
        assert pairs(one) == [(0, 1)] and pairs(two) == [(0, 1), (2, 3)]
    g = sg.graph(([0, 1], [1, 0]))
    assert len(sg.unbatch(g)) == 1 and sg.unbatch(g)[0].batch_size == 1
    empty, whole = sg.unbatch(g, [0, 2], [0, 2])
    assert empty.num_nodes() == 0 and pairs(whole) == [(0, 1), (1, 0)]


def test_choice_of_features():
    a, b = with_features(sg.graph(([0], [1]))), with_features(sg.graph(([0], [1])))
    b.ndata["k"] = torch.ones(2)
    assert list(sg.batch([a, b], ndata=["h"], edata=None).ndata) == ["h"]
    assert not sg.batch([a, b], ndata=None).ndata and list(sg.batch([a, b], ndata=None).edata) == [
        "w"
    ]
    nothing = sg.graph(([], []))
    assert list(sg.batch([a, nothing]).ndata) == ["h"] and list(sg.batch([nothing, a]).edata) == [
        "w"
    ]
    assert list(sg.batch([nothing, nothing]).ndata) == []


def test_sizes_survive_what_keeps_the_nodes():
    b = sg.batch([sg.graph(([0, 1], [1, 1])), sg.graph(([0], [0]))])
    for g in (b.local_var(), b.clone(), b.int(), b.to("cpu"), b.formats("csc")):
        assert g.batch_num_nodes().tolist() == [2, 1]
    assert sg.remove_self_loop(b).batch_num_edges().tolist() == [1, 0]
    for g in (sg.add_edges(b, [0], [1]), sg.add_nodes(b, 1), sg.node_subgraph(b, [0, 2])):
        assert g.batch_size == 1


KEEPING = {
    "add_self_loop": sg.add_self_loop,
    "AddSelfLoop": sg.AddSelfLoop(),
    "to_simple": sg.to_simple,
    "reverse": sg.reverse,
    "add_reverse_edges": sg.add_reverse_edges,
    "AddReverse": sg.AddReverse(),
    "to_bidirected": sg.to_bidirected,
    "khop_graph": lambda g: sg.khop_graph(g, 2),
    "metapath_reachable_graph": lambda g: sg.metapath_reachable_graph(g, ["_E", "_E"]),
}


def three_graphs():
    return [
        sg.graph(([0, 1, 1, 2], [1, 2, 2, 2])),
        sg.graph(([], []), num_nodes=2),
        sg.graph(([0, 1, 0], [1, 0, 0])),
    ]


@pytest.mark.parametrize("name", list(KEEPING))
def test_edits_of_a_batch_are_edits_of_its_graphs(name):
    expected = [KEEPING[name](g) for g in three_graphs()]
    found = KEEPING[name](sg.batch(three_graphs()))
    assert found.batch_num_nodes().tolist() == [3, 2, 2]
    assert found.batch_num_edges().tolist() == [g.num_edges() for g in expected]
    for n, (part, g) in enumerate(zip(sg.unbatch(found), expected)):
        assert pairs(part) == pairs(g) == pairs(sg.slice_batch(found, n))


@MANY
@given(st.lists(graphs(), min_size=1, max_size=4), st.randoms())
def test_edges_of_a_graph_need_not_stand_together(parts, random):
    parts = [sg.add_self_loop(with_features(g.long())) for g in parts]
    expected = sg.batch(parts)
    order = random.sample(range(expected.num_edges()), expected.num_edges())
    g = sg.graph(tuple(ids[order] for ids in expected.edges()), num_nodes=expected.num_nodes())
    g.edata["w"] = expected.edata["w"][order]
    g.set_batch_num_nodes(expected.batch_num_nodes())
    g.set_batch_num_edges(expected.batch_num_edges())
    for op in ("sum", "max"):
        torch.testing.assert_close(
            sg.readout_edges(g, "w", op=op), sg.readout_edges(expected, "w", op=op)
        )
    shared = torch.arange(len(parts))
    assert torch.equal(sg.broadcast_edges(g, shared), sg.broadcast_edges(expected, shared)[order])
    torch.testing.assert_close(sg.softmax_edges(g, "w"), sg.softmax_edges(expected, "w")[order])
    for n, part in enumerate(parts):
        own = sg.slice_batch(g, n, store_ids=True)
        assert sorted(pairs(own)) == sorted(pairs(part)) == sorted(pairs(sg.unbatch(g)[n]))
        assert torch.equal(own.edata["w"], g.edata["w"][own.edata[sg.EID]])
    if g.num_edges():
        g.remove_edges([0])
        assert [part.num_edges() for part in sg.unbatch(g)] == g.batch_num_edges().tolist()


def test_gradients_flow_through():
    def features(h, w):
        parts = []
        for n in range(2):
            g = sg.graph(([0, 0, 1], [1, 1, 2]))
            g.ndata["h"], g.edata["w"] = h * (n + 1), w.exp()
            parts.append(g)
        b = sg.batch(parts)
        back = sg.unbatch(b)[1]
        part = sg.slice_batch(b, 0)
        return b.ndata["h"].sin(), back.edata["w"], part.ndata["h"].exp()

    leaves = [torch.randn(3, 2, dtype=torch.float64, requires_grad=True) for _ in range(2)]
    assert torch.autograd.gradcheck(features, leaves)


def line(**features):
    g = sg.graph(([0, 1], [1, 2]))
    for name, value in features.items():
        g.ndata[name] = value
    return g


def two_types():
    return sg.heterograph({("u", "e", "v"): ([0], [1])})


def block():
    return sg.create_block(([0], [1]))


@pytest.mark.parametrize(
    ("make", "error", "text"),
    [
        (lambda: sg.batch([]), smex.SmexValueError, "at least one graph"),
        (
            lambda: sg.batch(line()),
            smex.SmexTypeError,
            r"batch: expected a list of graphs, found Graph; pass batch\(\[g, ...\]\)",
        ),
        (
            lambda: sg.batch([line(), None]),
            smex.SmexTypeError,
            "batch: expected a list of graphs, found NoneType at position 1",
        ),
        (lambda: sg.batch([1, 2]), smex.SmexTypeError, "found int at position 0"),
        (lambda: sg.merge(line()), smex.SmexTypeError, "merge: expected a list of graphs"),
        (lambda: sg.merge([line(), 3]), smex.SmexTypeError, "merge: .* found int at position 1"),
        (lambda: sg.batch([block()]), smex.SmexTypeError, "batch: .*found a block"),
        (
            lambda: sg.batch([line(), two_types()]),
            smex.SmexValueError,
            "same node types, graph 0 .* graph 1",
        ),
        (lambda: sg.batch([line(), line().int()]), smex.SmexValueError, "same idtype"),
        (
            lambda: sg.batch([line(), line(h=torch.ones(3))]),
            smex.SmexValueError,
            "graph 0 has {} and graph 1 has .*'h'",
        ),
        (
            lambda: sg.batch([line(h=torch.ones(3)), line(h=torch.ones(3, 2))]),
            smex.SmexValueError,
            "same features in all graphs",
        ),
        (
            lambda: sg.batch([line(h=torch.ones(3))], ndata=["q"]),
            smex.SmexValueError,
            'asks for "q" .*has: "h"',
        ),
        (
            lambda: sg.batch([line()], ndata="h"),
            smex.SmexTypeError,
            "list of feature names or None, found 'h'",
        ),
        (lambda: sg.unbatch(block()), smex.SmexTypeError, "found a block"),
        (
            lambda: sg.unbatch(line(), [1, 1], [1, 1]),
            smex.SmexValueError,
            "node_split of '_N' must add up to 3",
        ),
        (
            lambda: sg.unbatch(line(), [1, 2], [3]),
            smex.SmexValueError,
            r"edge_split of .* must add up to 2, found \[3\]",
        ),
        (lambda: sg.unbatch(line(), [4, -1], [1, 1]), smex.SmexValueError, "node_split of '_N'"),
        (
            lambda: sg.unbatch(line(), [1, 2], [2]),
            smex.SmexValueError,
            r"number of parts, found \[1, 2\]",
        ),
        (
            lambda: sg.unbatch(line(), [2, 1], [1, 1]),
            smex.SmexValueError,
            "edge 1 of type .* joins different parts",
        ),
        (
            lambda: sg.unbatch(two_types(), [1], [1]),
            smex.SmexTypeError,
            "expected a dict for node_split",
        ),
        (lambda: sg.slice_batch(line(), 1), smex.SmexValueError, "gid of 0 to 0, found 1"),
        (lambda: sg.slice_batch(line(), -1), smex.SmexValueError, "gid of 0 to 0, found -1"),
    ],
)
def test_errors(make, error, text):
    with pytest.raises(error, match=text):
        make()
