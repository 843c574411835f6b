"""Line graphs, walks, and features in other dtypes."""

import pytest
import torch
from hypothesis import given, settings

import smex
import smex.graph as sg
from support.graphs import graphs, pairs

MANY = settings(max_examples=40, deadline=None)


@MANY
@given(graphs())
def test_line_graph(g):
    edges = pairs(g)
    joined = [
        (e, f)
        for e, (u, v) in enumerate(edges)
        for f, (x, y) in enumerate(edges)
        if v == x and e != f
    ]
    assert pairs(sg.line_graph(g)) == joined
    shared = g.line_graph(backtracking=False, shared=True)
    assert pairs(shared) == [(e, f) for e, f in joined if edges[e][0] != edges[f][1]]
    assert torch.equal(shared.ndata["w"], g.edata["w"]) and shared.idtype == g.idtype


@MANY
@given(graphs())
def test_walks(g):
    adjacency = torch.zeros(g.num_nodes(), g.num_nodes())
    for u, v in pairs(g):
        adjacency[u, v] += 1
    for k in range(4):
        assert torch.equal(sg.khop_adj(g, k), torch.linalg.matrix_power(adjacency, k))
    twice = sg.khop_graph(g, 2)
    found = torch.zeros_like(adjacency)
    for u, v in pairs(twice):
        found[u, v] += 1
    assert torch.equal(found, adjacency @ adjacency) and torch.equal(twice.ndata["h"], g.ndata["h"])


def test_walks_need_no_matrix_of_nodes_by_nodes():
    number = 100_000  # of which a dense matrix would have 37 GiB
    ids = torch.arange(number - 1)
    g = sg.khop_graph(sg.graph((ids, ids + 1)), 3)
    assert torch.equal(g.edges()[0], ids[:-2]) and torch.equal(g.edges()[1], ids[2:] + 1)


def test_walks_between_the_same_nodes_are_counted_not_listed():
    twice = sg.graph(([0, 0], [0, 0]))
    assert sg.khop_adj(twice, 60).item() == 2.0**60
    layers = sg.graph(([0] * 50 + list(range(1, 51)), list(range(1, 51)) + [51] * 50))
    assert sg.khop_graph(layers, 2).num_edges() == 50 and sg.khop_graph(layers, 3).num_edges() == 0


@MANY
@given(graphs())
def test_norm(g):
    expected = [1 / g.in_degrees().tolist()[v] for _, v in pairs(g)]
    torch.testing.assert_close(sg.norm_by_dst(g), torch.tensor(expected))


@pytest.mark.parametrize(
    ("convert", "dtype"),
    [
        (sg.to_half, torch.float16),
        (sg.to_float, torch.float32),
        (sg.to_double, torch.float64),
        (sg.to_bfloat16, torch.bfloat16),
    ],
)
def test_dtypes_of_features(convert, dtype):
    g = sg.heterograph({("u", "e", "v"): ([0], [1])})
    g.nodes["u"].data["h"], g.edata["n"] = torch.ones(1), torch.ones(1, dtype=torch.int32)
    result = convert(g)
    assert result.nodes["u"].data["h"].dtype == dtype and result.edata["n"].dtype == torch.int32
    assert g.nodes["u"].data["h"].dtype == torch.float32


def test_errors():
    h = sg.heterograph({("u", "e", "v"): ([0], [1])})
    with pytest.raises(smex.SmexTypeError, match="line_graph: expected a graph of one node type"):
        sg.line_graph(h)
    with pytest.raises(smex.SmexValueError, match="khop_adj: expected k of at least 0, found -1"):
        sg.khop_adj(sg.graph(([0], [1])), -1)
