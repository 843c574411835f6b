"""Queries against networkx, SciPy and lists of edges."""

import networkx
import numpy as np
import pytest
import torch

import smex
import smex.graph as sg

IDTYPES = [torch.int32, torch.int64]

# (number of sources, of destinations, of edges): empty, single, self loops, parallel edges, a hub
SHAPES = [(0, 0, 0), (1, 1, 0), (1, 1, 3), (2, 2, 0), (5, 5, 4), (6, 6, 40), (33, 33, 70)]
BIPARTITE = [(3, 5, 0), (1, 7, 9), (4, 3, 25)]


def random_edges(num_src, num_dst, num_edges):
    src = torch.randint(max(num_src, 1), (num_edges,))
    dst = torch.randint(max(num_dst, 1), (num_edges,))
    if num_edges > 20:
        dst[: num_edges // 2] = 0
    return src, dst


def build(shape, idtype):
    """(graph, its edges as a list of pairs); of one type where both sizes are equal."""
    src, dst = random_edges(*shape)
    if shape in BIPARTITE:
        sizes = {"u": shape[0], "v": shape[1]}
        g = sg.heterograph({("u", "r", "v"): (src, dst)}, sizes, idtype=idtype)
    else:
        g = sg.graph((src, dst), num_nodes=shape[0], idtype=idtype)
    return g, list(zip(src.tolist(), dst.tolist()))


@pytest.fixture(params=[*SHAPES, *BIPARTITE], ids=str)
def shape(request):
    return request.param


@pytest.fixture(params=IDTYPES, ids=["int32", "int64"])
def idtype(request):
    return request.param


def lists(tensors):
    return [t.tolist() for t in tensors]


# ---- everything there is, against the list of edges ----


def test_all_edges(shape, idtype):
    g, edges = build(shape, idtype)
    src, dst, eid = g.all_edges(form="all")
    assert {t.dtype for t in (src, dst, eid)} == {idtype}
    assert list(zip(*lists((src, dst)))) == edges and eid.tolist() == list(range(len(edges)))
    assert lists(g.edges()) == lists((src, dst)) == lists(g.edges(form="uv", order=None))
    ordered = sorted((u, v, e) for e, (u, v) in enumerate(edges))
    assert list(zip(*lists(g.edges("all", "srcdst")))) == ordered
    assert g.edges(form="eid", order="srcdst").tolist() == [e for _, _, e in ordered]
    assert lists(g.edges(order="srcdst")) == lists(g.edges("all", "srcdst"))[:2]


def test_edges_at_nodes(shape, idtype):
    g, edges = build(shape, idtype)
    for nodes, end, ask in [
        (range(shape[1]), 1, g.in_edges),
        (range(shape[0]), 0, g.out_edges),
    ]:
        asked = [*nodes, *reversed(nodes)]
        expected = [(*edges[e], e) for n in asked for e in range(len(edges)) if edges[e][end] == n]
        found = ask(asked, form="all")
        assert list(zip(*lists(found))) == expected
        assert (
            lists(ask(asked)) == lists(found[:2]) and ask(asked, "eid").tolist() == lists(found)[2]
        )
        assert {t.dtype for t in found} == {idtype}


def test_degrees(shape, idtype):
    g, edges = build(shape, idtype)
    ins = [sum(v == n for _, v in edges) for n in range(shape[1])]
    outs = [sum(u == n for u, _ in edges) for n in range(shape[0])]
    assert g.in_degrees().tolist() == ins and g.out_degrees().tolist() == outs
    assert g.in_degrees(sg.ALL).dtype == g.out_degrees([]).dtype == idtype
    for node, degree in enumerate(ins):
        assert g.in_degrees(node) == degree and isinstance(g.in_degrees(node), int)
        assert g.in_degrees(torch.tensor(node)).tolist() == [degree]
        assert sorted(g.predecessors(node).tolist()) == sorted(u for u, v in edges if v == node)
    for node, degree in enumerate(outs):
        assert g.out_degrees(np.int64(node)) == degree
        assert sorted(g.successors(node).tolist()) == sorted(v for u, v in edges if u == node)
    assert g.out_degrees(range(shape[0])).tolist() == outs


def test_pairs(shape, idtype):
    g, edges = build(shape, idtype)
    pairs = [(u, v) for u in range(shape[0]) for v in range(shape[1])]
    us, vs = [u for u, _ in pairs], [v for _, v in pairs]
    assert g.has_edges_between(us, vs).tolist() == [pair in edges for pair in pairs]
    joined = list(dict.fromkeys(edges))
    us, vs = [u for u, _ in joined], [v for _, v in joined]
    assert g.edge_ids(us, vs).tolist() == [edges.index(pair) for pair in joined]
    expected = [(*p, e) for p in joined for e in range(len(edges)) if edges[e] == p]
    found = g.edge_ids(us, vs, return_uv=True)
    assert list(zip(*lists(found))) == expected and found[2].dtype == idtype
    assert g.is_multigraph == (len(joined) < len(edges))
    assert list(zip(*lists(g.find_edges(list(range(len(edges))))))) == edges


def test_networkx_agrees(idtype):
    g, edges = build((33, 33, 70), idtype)
    other = networkx.MultiDiGraph()
    other.add_nodes_from(range(33))
    other.add_edges_from(edges)
    assert g.in_degrees().tolist() == [d for _, d in other.in_degree()]
    assert g.out_degrees().tolist() == [d for _, d in other.out_degree()]
    for node in range(33):
        assert set(g.successors(node).tolist()) == set(other.successors(node))
        assert set(g.predecessors(node).tolist()) == set(other.predecessors(node))


# ---- single ids, broadcasting, dtypes ----


@pytest.fixture
def small():
    return sg.graph(([0, 1, 1, 2, 0], [1, 2, 2, 0, 1]))


def test_single_ids_give_python_values(small):
    assert small.has_nodes(2) is True and small.has_nodes(np.int32(3)) is False
    assert small.has_nodes([0, 3]).tolist() == [True, False]
    assert small.has_nodes(torch.tensor(0)).tolist() == [True]
    assert small.has_edges_between(0, 1) is True and small.has_edges_between(1, 0) is False
    assert small.edge_ids(0, 1) == 0 and isinstance(small.edge_ids(0, 1), int)
    assert lists(small.edge_ids(0, 1, return_uv=True)) == [[0, 0], [1, 1], [0, 4]]
    assert lists(small.find_edges(3)) == [[2], [0]]


def test_one_id_goes_with_many(small):
    assert small.has_edges_between(0, [0, 1]).tolist() == [False, True]
    assert small.edge_ids([0, 0], 1).tolist() == [0, 0]
    assert small.edge_ids([0], [1, 1, 1]).tolist() == [0, 0, 0]


def test_ids_of_any_integer_dtype_and_empty_ones(small):
    for ids in (
        [1],
        (1,),
        np.array([1], np.uint8),
        torch.tensor([1], dtype=torch.int16),
        range(1, 2),
    ):
        assert small.in_degrees(ids).tolist() == [2]
    for ids in ([], torch.tensor([]).long(), np.array([])):
        assert small.in_degrees(ids).tolist() == [] and lists(small.in_edges(ids)) == [[], []]
        assert small.edge_ids(ids, ids).shape == small.has_nodes(ids).shape == (0,)


def test_types_are_chosen():
    g = sg.heterograph({("u", "r", "v"): ([0, 1, 1], [1, 2, 2]), ("v", "s", "v"): ([0], [1])})
    assert g.in_degrees(etype="r").tolist() == [0, 1, 2] and g.out_degrees(0, "s") == 1
    assert g.has_nodes([2], ntype="v").item() and g.has_edges_between(0, 1, etype="s")
    assert lists(g.in_edges([1], etype="s")) == [[0], [1]]
    with pytest.raises(smex.SmexValueError, match="edge type: the graph has 2 of them"):
        g.in_degrees()


def test_sides_of_a_block_are_apart():
    g = sg.create_block(([0, 1], [3, 3]), num_src_nodes=2, num_dst_nodes=4)
    assert g.in_degrees().tolist() == [0, 0, 0, 2] and g.out_degrees().tolist() == [1, 1]
    assert g.in_degrees(3) == 2
    with pytest.raises(smex.SmexValueError, match="from 0 to 1, found 3"):
        g.out_degrees(3)


# ---- errors ----


@pytest.mark.parametrize(
    ("ask", "text"),
    [
        (
            lambda g: g.in_degrees(3),
            'in_degrees: nodes of type "_N": expected ids from 0 to 2, found 3',
        ),
        (lambda g: g.out_degrees([-1]), "found -1"),
        (lambda g: g.in_edges(9), "in_edges: nodes of type"),
        (lambda g: g.out_edges(9), "out_edges: nodes of type"),
        (lambda g: g.successors(9), "successors: nodes of type"),
        (lambda g: g.predecessors([0, 1]), "predecessors: expected one node, found 2 ids"),
        (lambda g: g.find_edges([5]), "find_edges: edges of type .* from 0 to 4, found 5"),
        (lambda g: g.has_nodes([-1]), "has_nodes: expected ids of at least 0, found -1"),
        (lambda g: g.edge_ids(0, 2), "edge_ids: there is no edge from 0 to 2 of type"),
        (lambda g: g.edge_ids([0, 1, 2], [1, 2]), "edge_ids: expected as many sources .* 3 and 2"),
        (lambda g: g.edge_ids(7, 0), "edge_ids: nodes of type .* found 7"),
        (lambda g: g.has_edges_between(0, 9), "has_edges_between: nodes of type .* found 9"),
        (lambda g: g.in_edges(0, form="x"), "in_edges: expected the form \"uv\", .* found 'x'"),
        (lambda g: g.all_edges(form="x"), "all_edges: expected the form"),
        (lambda g: g.all_edges(order="dst"), "all_edges: expected the order .* found 'dst'"),
    ],
)
def test_errors(small, ask, text):
    with pytest.raises(smex.SmexValueError, match=text):
        ask(small)


# ---- predicates ----


def test_filter(small):
    small.ndata["h"] = torch.tensor([1.0, -1.0, 2.0])
    small.edata["w"] = torch.arange(5.0)
    assert small.filter_nodes(lambda n: n.data["h"] > 0).tolist() == [0, 2]
    assert small.filter_nodes(lambda n: n.data["h"][:, None] > 0, [2, 1]).tolist() == [2]
    assert small.filter_edges(lambda e: e.src["h"] * e.dst["h"] > 0).tolist() == [3]
    assert small.filter_edges(lambda e: e.data["w"] > 1, edges=[4, 0]).tolist() == [4]
    assert small.filter_edges(lambda e: e.edges()[2] >= 0, edges=([1], [2])).tolist() == [1]
    assert small.int().filter_nodes(lambda n: n.nodes() > 0).dtype == torch.int32


def test_batches_of_a_predicate(small):
    seen = []
    small.filter_nodes(lambda n: seen.append(n) or n.nodes() < 0)
    small.filter_edges(lambda e: seen.append(e) or e.edges()[0] < 0, edges=[3, 1])
    nodes, edges = seen
    assert (len(nodes), nodes.batch_size(), nodes.ntype, nodes.mailbox) == (3, 3, "_N", None)
    assert (len(edges), edges.batch_size()) == (2, 2) and edges.canonical_etype == (
        "_N",
        "_E",
        "_N",
    )
    assert lists(edges.edges()) == [[2, 1], [0, 2], [3, 1]]
    alone = smex.graph.udf.EdgeBatch(small, torch.tensor([3]), ("_N", "_E", "_N"), {}, {}, {})
    assert lists(alone.edges()) == [[2], [0], [3]] and alone.src == alone.data == alone.dst == {}


def test_filter_errors(small):
    with pytest.raises(smex.SmexTypeError, match="filter_edges: .* bool tensor, found list"):
        small.filter_edges(lambda e: [True])
    with pytest.raises(smex.SmexValueError, match="filter_nodes: expected 3 values"):
        small.filter_nodes(lambda n: torch.tensor([True]))
