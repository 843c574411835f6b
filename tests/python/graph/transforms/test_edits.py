"""Self loops, reversed and merged edges, added and removed nodes and edges."""

from collections import Counter

import pytest
import torch
from hypothesis import given, settings

import smex
import smex.graph as sg
from support.graphs import IDTYPES, TRIPLES, counted, graphs, heterographs, pairs, with_features

MANY = settings(max_examples=40, deadline=None)


def into(g, column, v):
    """Rows of an edge feature of the edges into a node."""
    return [column[e] for e, (_, dst) in enumerate(pairs(g)) if dst == v]


@MANY
@given(graphs())
def test_self_loops_are_added_last(g):
    result = sg.add_self_loop(g, fill_data=2.5)
    number = g.num_nodes()
    assert pairs(result) == pairs(g) + [(v, v) for v in range(number)]
    assert result.edata["w"].tolist() == [*range(g.num_edges()), *[2.5] * number]
    assert torch.equal(result.ndata["h"], g.ndata["h"]) and result.idtype == g.idtype
    assert pairs(result.remove_self_loop()) == [(u, v) for u, v in pairs(g) if u != v]


@pytest.mark.parametrize("fill", ["sum", "mean", "max", "min"])
def test_self_loops_aggregate_the_edges_into_their_node(fill):
    @MANY
    @given(graphs())
    def check(g):
        g.edata["w"] = torch.randn(g.num_edges(), 3, dtype=torch.float64)
        made = g.add_self_loop(["w"], fill).edata["w"][g.num_edges() :]
        for v in range(g.num_nodes()):
            rows = into(g, g.edata["w"], v)
            expected = torch.zeros(3, dtype=torch.float64)
            if rows:
                stacked = torch.stack(rows)
                expected = {
                    "sum": stacked.sum(0),
                    "mean": stacked.mean(0),
                    "max": stacked.amax(0),
                    "min": stacked.amin(0),
                }[fill]
            torch.testing.assert_close(made[v], expected)

    check()


def test_self_loops_of_one_type_and_some_features():
    h = with_features(sg.heterograph({TRIPLES[0]: ([0, 1], [1, 1]), TRIPLES[1]: ([0], [0])}))
    h.edges["f"].data["k"] = torch.ones(2)
    result = sg.add_self_loop(h, ["w"], 7.0, etype="f")
    assert result.edges["f"].data["w"].tolist() == [0, 1, 7, 7]
    assert result.edges["f"].data["k"].tolist() == [1, 1, 0, 0]
    assert result.num_edges("p") == 1 and h.num_edges("f") == 2
    assert sg.remove_self_loop(result, etype="f").num_edges("f") == 1


@MANY
@given(graphs())
def test_reverse(g):
    networkx = pytest.importorskip("networkx", reason="networkx is not installed")
    result = sg.reverse(g, copy_edata=True)
    assert pairs(result) == [(v, u) for u, v in pairs(g)]
    assert torch.equal(result.edata["w"], g.edata["w"]) and torch.equal(
        result.ndata["h"], g.ndata["h"]
    )
    reversed_nx = sg.to_networkx(g).reverse()
    assert Counter(reversed_nx.edges()) == counted(result)
    assert isinstance(reversed_nx, networkx.MultiDiGraph)
    assert not result.reverse(copy_ndata=False).ndata and not sg.reverse(g).edata


def test_reverse_shares_structure_made_later():
    g = sg.graph(([0, 1], [1, 2]))
    r = g.reverse()
    g.create_formats_()
    assert r.relation().csr().indices.data_ptr() == g.relation().csc().indices.data_ptr()


def test_reverse_turns_types_round():
    h = sg.heterograph({("u", "f", "u"): ([0, 2], [1, 2]), ("u", "p", "g"): ([1, 2, 1], [2, 1, 1])})
    r = h.reverse(share_ndata=False, share_edata=True)
    assert r.canonical_etypes == [("u", "f", "u"), ("g", "p", "u")]
    assert pairs(r, "p") == [(2, 1), (1, 2), (1, 1)]


@MANY
@given(graphs())
def test_reverse_edges(g):
    back = [e for e, (u, v) in enumerate(pairs(g)) if u != v]
    result = sg.add_reverse_edges(g, copy_edata=True)
    assert pairs(result) == pairs(g) + [pairs(g)[e][::-1] for e in back]
    assert result.edata[sg.EID].tolist() == [*range(g.num_edges()), *back]
    assert torch.equal(result.edata["w"].long(), result.edata[sg.EID].long())
    assert result.edata[sg.EID].dtype == g.idtype
    everything = sg.add_reverse_edges(g, exclude_self=False, copy_ndata=False)
    assert (
        everything.num_edges() == 2 * g.num_edges()
        and not everything.edata
        and not everything.ndata
    )


@MANY
@given(graphs())
def test_bidirected(g):
    expected = sorted({(u, v) for u, v in pairs(g)} | {(v, u) for u, v in pairs(g)})
    result = sg.to_bidirected(g, copy_ndata=True)
    assert pairs(result) == expected and torch.equal(result.ndata["h"], g.ndata["h"])


@MANY
@given(heterographs())
def test_simple(h):
    result, mappings = sg.to_simple(h, "n", True, copy_edata=True)
    for canonical in TRIPLES:
        found, mapping = pairs(result, canonical), mappings[canonical].tolist()
        assert found == sorted(set(pairs(h, canonical)))
        data = result.edges[canonical].data
        assert data["n"].tolist() == [counted(h, canonical)[pair] for pair in found]
        assert [found[m] for m in mapping] == pairs(h, canonical)
        assert data[sg.EID].tolist() == [mapping.index(e) for e in range(len(found))]
        assert data["w"].tolist() == data[sg.EID].tolist()
        assert mappings[canonical].dtype == data["n"].dtype == h.idtype


@pytest.mark.parametrize("aggregator", ["sum", "mean"])
def test_simple_aggregates(aggregator):
    @MANY
    @given(graphs())
    def check(g):
        result, mapping = g.to_simple(None, True, copy_edata=True, aggregator=aggregator)
        for e in range(result.num_edges()):
            rows = g.edata["w"][mapping.long() == e]
            torch.testing.assert_close(result.edata["w"][e], getattr(rows, aggregator)())
        assert list(result.edata) == ["w"]

    check()


def test_former_names():
    with pytest.warns(DeprecationWarning, match="to_simple"):
        assert sg.to_simple_graph(sg.graph(([0, 0], [1, 1]))).num_edges() == 1


@pytest.mark.parametrize("idtype", IDTYPES)
def test_functional_forms_leave_the_graph_alone(idtype):
    g = with_features(sg.graph(([0, 1, 2], [1, 2, 0]), idtype=idtype))
    assert sg.add_nodes(g, 2, {"h": torch.ones(2, 2, dtype=torch.float64)}).num_nodes() == 5
    assert pairs(sg.add_edges(g, [0], [2])) == [(0, 1), (1, 2), (2, 0), (0, 2)]
    assert pairs(sg.remove_edges(g, [1])) == [(0, 1), (2, 0)]
    assert pairs(sg.remove_nodes(g, [0], store_ids=True)) == [(0, 1)]
    assert g.num_nodes() == 3 and g.num_edges() == 3 and list(g.ndata) == ["h"]


def test_merge():
    a, b = sg.graph(([0, 1], [2, 3])), sg.graph(([1, 2], [0, 4]))
    a.ndata["x"], b.ndata["x"], b.ndata["y"] = torch.zeros(4), torch.ones(5), torch.ones(5)
    a.edata["e"], b.edata["k"] = torch.ones(2), torch.full((2,), 3.0)
    m = sg.merge([a, b])
    assert pairs(m) == [(0, 2), (1, 3), (1, 0), (2, 4)] and m.ndata["x"].tolist() == [1.0] * 5
    assert m.edata["e"].tolist() == [1, 1, 0, 0] and m.edata["k"].tolist() == [0, 0, 3, 3]
    m = sg.merge([b, a])
    assert m.ndata["x"].tolist() == [0, 0, 0, 0, 1] and m.ndata["y"].tolist() == [1.0] * 5
    assert list(a.ndata) == ["x"] and a.num_edges() == 2


@pytest.mark.parametrize(
    "transform",
    [
        lambda g: sg.add_self_loop(g, fill_data="mean"),
        lambda g: sg.reverse(g, copy_edata=True),
        lambda g: sg.add_reverse_edges(g, copy_edata=True),
        lambda g: sg.to_simple(g, None, copy_edata=True, aggregator="mean"),
        lambda g: sg.to_simple(g, None, copy_edata=True),
        lambda g: sg.merge([g, g]),
    ],
)
def test_gradients_flow_through(transform):
    leaf_h = torch.randn(4, 2, dtype=torch.float64, requires_grad=True)
    leaf_w = torch.randn(5, dtype=torch.float64, requires_grad=True)

    def features(h, w):
        g = sg.graph(([0, 0, 1, 2, 2], [1, 1, 1, 0, 0]), num_nodes=4)
        g.ndata["h"], g.edata["w"] = h, w
        result = transform(g)
        return result.ndata["h"].exp().sum(), result.edata["w"].exp()

    assert torch.autograd.gradcheck(features, (leaf_h, leaf_w))


def bipartite():
    return sg.heterograph({("u", "e", "v"): ([0], [1])})


def block():
    return sg.create_block(([0], [1]))


def weighted(dtype=torch.float32):
    g = sg.graph(([0, 1], [1, 1]))
    g.edata["w"] = torch.ones(2, dtype=dtype)
    return g


@pytest.mark.parametrize(
    ("make", "error", "text"),
    [
        (lambda: sg.add_self_loop(bipartite()), smex.SmexValueError, "one node type on both sides"),
        (
            lambda: sg.remove_self_loop(bipartite()),
            smex.SmexValueError,
            "remove_self_loop: a self loop",
        ),
        (lambda: sg.add_self_loop(block()), smex.SmexTypeError, "no block, found a block"),
        (
            lambda: sg.add_self_loop(weighted(), fill_data="median"),
            smex.SmexValueError,
            'found "median"',
        ),
        (
            lambda: sg.add_self_loop(weighted(), ["q"]),
            KeyError,
            'no edge feature "q"; there are: "w"',
        ),
        (
            lambda: sg.add_self_loop(weighted(torch.int64), fill_data="mean"),
            smex.SmexTypeError,
            'mean of feature "w"',
        ),
        (lambda: sg.reverse(block()), smex.SmexTypeError, "reverse: expected a graph"),
        (
            lambda: sg.add_reverse_edges(bipartite()),
            smex.SmexValueError,
            "use ignore_bipartite=True",
        ),
        (
            lambda: sg.to_bidirected(bipartite()),
            smex.SmexValueError,
            "to_bidirected: expected edge types",
        ),
        (lambda: sg.to_simple(block()), smex.SmexTypeError, "to_simple: expected a graph"),
        (lambda: sg.to_simple(weighted(), aggregator="max"), smex.SmexValueError, 'found "max"'),
        (lambda: sg.merge([]), smex.SmexValueError, "at least one graph"),
        (
            lambda: sg.merge([weighted(), bipartite()]),
            smex.SmexValueError,
            "graphs of the same types",
        ),
    ],
)
def test_errors(make, error, text):
    with pytest.raises(error, match=text):
        make()


def test_bipartite_types_can_be_left_alone():
    result = sg.add_reverse_edges(bipartite(), ignore_bipartite=True, copy_edata=True)
    assert pairs(result) == [(0, 1)] and result.edata[sg.EID].tolist() == [0]
