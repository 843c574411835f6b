"""Edges drawn for nodes, and those of the largest weight."""

from collections import Counter

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import smex
import smex.graph as sg
from support.graphs import IDTYPES, TRIPLES, graphs, heterographs, pairs, some_of

MANY = settings(max_examples=40, deadline=None)


def chi_squared(counts, probabilities):
    expected = sum(counts) * torch.as_tensor(probabilities, dtype=torch.float64)
    return float(((torch.as_tensor(counts) - expected) ** 2 / expected).sum())


def critical(cells):
    """What the statistic exceeds once in 10,000 times."""
    degrees = cells - 1
    return degrees * (1 - 2 / (9 * degrees) + 3.72 * (2 / (9 * degrees)) ** 0.5) ** 3


def check_drawn(g, s, canonical, nodes, fanout, edge_dir, replace, allowed=None):
    """Every edge is one of the graph, under its id, and there are as many as there must be."""
    eids = s.edges[canonical].data[sg.EID].tolist()
    edges = pairs(g, canonical)
    assert [edges[eid] for eid in eids] == pairs(s, canonical)
    side = 1 if edge_dir == "in" else 0
    found = Counter(pair[side] for pair in pairs(s, canonical))
    for node, times in Counter(nodes).items():
        mine = [n for n, pair in enumerate(edges) if pair[side] == node]
        if allowed is not None:
            mine = [n for n in mine if allowed[n]]
        drawn = len(mine) if fanout < 0 else min(fanout, len(mine))
        if replace and fanout >= 0 and mine:
            drawn = fanout
        assert found.pop(node, 0) == times * drawn
        if allowed is not None:
            assert all(allowed[eid] for eid in eids)
    assert not found
    if not replace and len(set(nodes)) == len(nodes):
        assert len(set(eids)) == len(eids)


@MANY
@given(st.data())
def test_edges(data):
    g = data.draw(graphs())
    nodes = data.draw(some_of(g.num_nodes()))
    fanout, replace = data.draw(st.integers(-1, 4)), data.draw(st.booleans())
    edge_dir = data.draw(st.sampled_from(["in", "out"]))
    g.edata["p"] = torch.tensor([n % 3 for n in range(g.num_edges())], dtype=torch.float64)
    g.edata["m"] = g.edata["p"] > 0
    prob = data.draw(st.sampled_from([None, "p", "m"]))
    allowed = None if prob is None else g.edata["m"].tolist()
    s = sg.sampling.sample_neighbors(g, nodes, fanout, edge_dir, prob, replace)
    check_drawn(g, s, ("_N", "_E", "_N"), nodes, fanout, edge_dir, replace, allowed)
    assert s.num_nodes() == g.num_nodes() and s.idtype == g.idtype
    assert torch.equal(s.ndata["h"], g.ndata["h"])
    assert torch.equal(s.edata["w"], g.edata["w"][s.edata[sg.EID].long()])


@MANY
@given(st.data())
def test_edges_of_several_types(data):
    h = data.draw(heterographs())
    nodes = {t: data.draw(some_of(h.num_nodes(t))) for t in h.ntypes if data.draw(st.booleans())}
    fanout = {canonical: data.draw(st.integers(-1, 3)) for canonical in TRIPLES}
    excluded = {c: data.draw(some_of(h.num_edges(c))) for c in TRIPLES[:2]}
    s = sg.sampling.sample_neighbors(h, nodes, fanout, exclude_edges=excluded)
    for canonical in TRIPLES:
        allowed = [n not in excluded.get(canonical, []) for n in range(h.num_edges(canonical))]
        seeds = nodes.get(canonical[2], [])
        check_drawn(h, s, canonical, seeds, fanout[canonical], "in", False, allowed)


def star(degree, idtype=torch.int64):
    return sg.graph(
        (torch.arange(degree, dtype=idtype), torch.full((degree,), degree, dtype=idtype))
    )


@pytest.mark.parametrize("idtype", IDTYPES)
def test_each_set_is_equally_likely(idtype):
    torch.manual_seed(0)
    g = star(6, idtype)
    s = sg.sampling.sample_neighbors(g, [6] * 30000, 2)
    sets = Counter(map(frozenset, s.edges()[0].view(-1, 2).tolist()))
    assert len(sets) == 15 and chi_squared(list(sets.values()), [1 / 15] * 15) < critical(15)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.float16, torch.int64])
def test_weights_are_respected(dtype):
    torch.manual_seed(1)
    g = star(4)
    g.edata["p"] = torch.tensor([1, 0, 3, 4]).to(dtype)
    s = sg.sampling.sample_neighbors(g, [4] * 40000, 1, prob="p")
    assert s.num_edges() == 40000
    counts = torch.bincount(s.edata[sg.EID], minlength=4).tolist()
    assert counts[1] == 0
    assert chi_squared([counts[0], *counts[2:]], [1 / 8, 3 / 8, 4 / 8]) < critical(3)
    replaced = sg.sampling.sample_neighbors(g, [4] * 5000, 8, prob="p", replace=True)
    counts = torch.bincount(replaced.edata[sg.EID], minlength=4).tolist()
    assert counts[1] == 0 and sum(counts) == 40000
    assert chi_squared([counts[0], *counts[2:]], [1 / 8, 3 / 8, 4 / 8]) < critical(3)


def hub_graph():
    torch.manual_seed(3)
    g = sg.rand_graph(2000, 30000)
    hub = torch.zeros(5000, dtype=torch.int64)
    g = sg.add_edges(g, torch.randint(2000, (5000,)), hub)
    g.edata["p"] = torch.rand(g.num_edges())
    return g


def test_seeds_and_threads():
    g = hub_graph()
    before = torch.get_num_threads()
    draws = [
        lambda: sg.sampling.sample_neighbors(g, torch.arange(2000), 5),
        lambda: sg.sampling.sample_neighbors(g, torch.arange(2000), 100, prob="p"),
        lambda: sg.sampling.sample_neighbors(g, torch.arange(2000), 7, "out", "p", True),
    ]
    try:
        for draw in draws:
            results = []
            for seed, threads in ((0, 1), (0, 2), (1, 2)):
                torch.set_num_threads(threads)
                sg.seed(seed)
                results.append(draw().edata[sg.EID])
            assert torch.equal(results[0], results[1])
            assert not torch.equal(results[1], results[2])
    finally:
        torch.set_num_threads(before)
    assert not torch.equal(draws[0]().edata[sg.EID], draws[0]().edata[sg.EID])


def test_copies():
    g = star(3)
    g.ndata["h"], g.edata["w"] = torch.rand(4), torch.rand(3, requires_grad=True)
    s = sg.sampling.sample_neighbors(g, [3], -1, copy_ndata=False, copy_edata=False)
    assert not s.ndata and list(s.edata) == [sg.EID] and list(g.edata) == ["w"]
    sg.sampling.sample_neighbors(g, [3], -1).edata["w"].sum().backward()
    assert torch.equal(g.edata["w"].grad, torch.ones(3))


def test_nothing():
    g = sg.graph(([], []), num_nodes=3)
    assert sg.sampling.sample_neighbors(g, [0, 1], 2).num_edges() == 0
    assert sg.sampling.sample_neighbors(star(3), [], 2).num_edges() == 0
    assert sg.sampling.sample_neighbors(star(3), [3], 0).num_edges() == 0
    assert sg.sampling.sample_neighbors(star(3), [0, 1], 2, replace=True).num_edges() == 0


def test_types_without_the_feature_are_uniform():
    h = sg.heterograph({("a", "x", "b"): ([0, 1], [0, 0]), ("a", "y", "b"): ([0, 1], [0, 0])})
    h.edges["x"].data["p"] = torch.tensor([0.0, 1.0])
    s = sg.sampling.sample_neighbors(h, {"b": [0]}, 2, prob="p")
    assert (s.num_edges("x"), s.num_edges("y")) == (1, 2)


def test_etypes():
    torch.manual_seed(0)
    g = sg.rand_graph(50, 1000)
    bounds, fanouts = [0, 300, 300, 1000], [2, 3, -1]
    s = sg.sampling.sample_etype_neighbors(g, torch.arange(50), bounds, fanouts)
    for begin, end, fanout in zip(bounds, bounds[1:], fanouts):
        mine = g.edge_subgraph(torch.arange(begin, end), relabel_nodes=False).in_degrees()
        eids = s.edata[sg.EID]
        drawn = torch.bincount(s.edges()[1][(eids >= begin) & (eids < end)], minlength=50)
        assert torch.equal(drawn, mine if fanout < 0 else mine.clamp_max(fanout))
    everything = sg.sampling.sample_etype_neighbors(g, torch.arange(50), bounds, -1)
    assert everything.num_edges() == 1000


@MANY
@given(st.data())
def test_topk(data):
    g = data.draw(graphs())
    k, ascending = data.draw(st.integers(-1, 4)), data.draw(st.booleans())
    g.edata["x"] = torch.tensor([float(n * 7 % 5) for n in range(g.num_edges())])
    edge_dir = data.draw(st.sampled_from(["in", "out"]))
    s = g.select_topk(k, "x", edge_dir=edge_dir, ascending=ascending)
    expected = []
    values, edges, side = g.edata["x"].tolist(), pairs(g), 1 if edge_dir == "in" else 0
    for node in range(g.num_nodes()):
        mine = [n for n, pair in enumerate(edges) if pair[side] == node]
        mine.sort(key=lambda n: values[n] if ascending else -values[n])
        expected += mine if k < 0 else mine[:k]
    assert s.edata[sg.EID].tolist() == expected
    assert pairs(s) == [edges[n] for n in expected]


@pytest.mark.parametrize("idtype", [torch.int32, torch.int64])
@pytest.mark.parametrize("ordered", [True, False])
@pytest.mark.parametrize("k", [-1, 0, 2])
def test_largest_weights_of_few_nodes(idtype, ordered, k):
    torch.manual_seed(0)
    g = sg.rand_graph(100, 1500, idtype=idtype)
    if not ordered:
        indptr, indices, eids = g.adj_tensors("csc")
        shuffled = torch.randperm(1500).to(eids)
        g = sg.graph(("csc", (indptr, indices, shuffled)), idtype=idtype)
    g.edata["w"] = torch.randint(4, (1500,)).float()
    g.edata["w"][::7] = torch.nan
    nodes = torch.tensor([5, 99, 0], dtype=idtype)
    for edge_dir in ("in", "out"):
        whole = g.select_topk(k, "w", edge_dir=edge_dir)
        few = g.select_topk(k, "w", nodes, edge_dir=edge_dir)
        owner = whole.edges()[1 if edge_dir == "in" else 0]
        expected = torch.cat([whole.edata[sg.EID][owner == node] for node in nodes])
        assert torch.equal(few.edata[sg.EID], expected) and few.idtype == idtype


def weighted(values):
    g = star(3)
    g.edata["p"] = torch.tensor(values)
    return g


@pytest.mark.parametrize(
    ("call", "error", "text"),
    [
        (
            lambda: sg.sampling.sample_neighbors(star(3), [4], 2),
            smex.SmexValueError,
            "expected ids from 0 to 3, found 4",
        ),
        (
            lambda: sg.sampling.sample_neighbors(star(3), [3], -2),
            smex.SmexValueError,
            "fanout of at least 0, or -1 for all edges, found -2",
        ),
        (
            lambda: sg.sampling.sample_neighbors(star(3), [3], 1.5),
            smex.SmexValueError,
            "found 1.5",
        ),
        (
            lambda: sg.sampling.sample_neighbors(star(3), [3], {}),
            smex.SmexValueError,
            "must have a number for each edge type",
        ),
        (
            lambda: sg.sampling.sample_neighbors(star(3), [3], 2, "up"),
            smex.SmexValueError,
            "edge_dir 'in' or 'out', found 'up'",
        ),
        (
            lambda: sg.sampling.sample_neighbors(star(3), [3], 2, prob="p"),
            smex.SmexValueError,
            'feature "p" is not set',
        ),
        (
            lambda: sg.sampling.sample_neighbors(weighted([1.0, -1.0, 1.0]), [3], 2, prob="p"),
            smex.SmexValueError,
            "edge feature 'p' .* the weight of edge 1 must be a finite number .* found -1",
        ),
        (
            lambda: sg.sampling.sample_neighbors(
                weighted([1.0, float("nan"), 1.0]), [3], 2, prob="p"
            ),
            smex.SmexValueError,
            "the weight of edge 1",
        ),
        (
            lambda: sg.sampling.sample_neighbors(weighted([[1.0, 2.0]] * 3), [3], 2, prob="p"),
            smex.SmexValueError,
            "one real number for each of 3 edges",
        ),
        (
            lambda: sg.sampling.sample_neighbors(star(3), [3], 2, exclude_edges=[3]),
            smex.SmexValueError,
            "expected ids from 0 to 2, found 3",
        ),
        (
            lambda: sg.sampling.sample_neighbors(sg.create_block(([0], [0])), [0], 1),
            smex.SmexTypeError,
            "found a block",
        ),
        (
            lambda: sg.sampling.sample_neighbors(star(3).to("meta"), [3], 1),
            smex.SmexValueError,
            "graph on the CPU, found one on meta",
        ),
        (
            lambda: sg.sampling.sample_etype_neighbors(star(3), [3], [0, 2], 1),
            smex.SmexValueError,
            "etype_offset must ascend from 0 to the number of edges, 3",
        ),
        (
            lambda: sg.sampling.sample_etype_neighbors(star(3), [3], [0, 2, 3], [1]),
            smex.SmexValueError,
            "a fanout for each of 2 edge types, found 1",
        ),
        (lambda: sg.sampling.select_topk(star(3), 1, 2), smex.SmexTypeError, "name of an edge"),
        (lambda: sg.sampling.select_topk(star(3), 1, "x"), smex.SmexValueError, "is not set"),
    ],
)
def test_errors(call, error, text):
    with pytest.raises(error, match=text):
        call()


def test_operators_name_their_arguments():
    g = star(3)
    rows, node = g.relation().csc(), torch.tensor([3])
    with pytest.raises(ValueError, match="row 9 at position 0 is not in"):
        torch.ops.smex.sample_neighbors(*rows, torch.tensor([9]), 1, False, None, None, 0)
    with pytest.raises(ValueError, match="weights must have one element for each of 3 edges"):
        torch.ops.smex.sample_neighbors(*rows, node, 1, False, torch.ones(2), None, 0)
    with pytest.raises(TypeError, match="weights must be bool, float32 or float64"):
        torch.ops.smex.sample_neighbors(*rows, node, 1, False, torch.ones(3).half(), None, 0)
    with pytest.raises(ValueError, match="values must have one element for each of 3 edges"):
        torch.ops.smex.select_topk(*rows, node, 1, torch.ones(2), False)


def test_weights_of_other_kinds():
    g = sg.graph(([0, 1], [1, 0]))
    with pytest.raises(smex.SmexTypeError, match="sample_neighbors: prob must be the name of an"):
        sg.sampling.sample_neighbors(g, [0], 1, prob=[[1.0, 1.0]])
    with pytest.raises(
        smex.SmexValueError, match="prob must have a tensor for each of 1 edge type"
    ):
        sg.sampling.sample_neighbors(g, [0], 1, prob=[torch.ones(2), None])
    with pytest.raises(smex.SmexValueError, match="prob must have one real number for each of 2"):
        sg.sampling.sample_neighbors(g, [0], 1, prob=torch.ones(3))
    with pytest.raises(smex.SmexValueError, match="prob of type .*: .*-1"):
        sg.sampling.sample_neighbors(g, [0], 1, prob=torch.tensor([-1.0, -1.0]))


def test_weights_of_each_type():
    """Types of which none are given, by None, without elements or left out, draw uniformly."""
    kinds = {("u", "f", "u"): ([0, 1, 2], [0, 0, 0]), ("u", "p", "g"): ([0, 1, 2], [0, 0, 0])}
    g = sg.heterograph(kinds)
    one = torch.tensor([0.0, 0.0, 1.0])
    for prob in ([one, None], [one, torch.empty(0)], {"f": one}, {("u", "f", "u"): one}):
        drawn = sg.sampling.sample_neighbors(g, {"u": [0], "g": [0]}, 2, prob=prob)
        assert drawn.edges["f"].data[sg.EID].tolist() == [2]
        assert drawn.num_edges("p") == 2
