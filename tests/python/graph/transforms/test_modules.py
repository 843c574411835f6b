"""Modules against the functions that they stand for, and against dense arithmetic."""

from collections import Counter

import pytest
import torch
from hypothesis import given, settings

import smex
import smex.graph as sg
from support.graphs import graphs, heterographs, pairs

MANY = settings(max_examples=30, deadline=None)
FOLLOWS = ("u", "f", "u")


def same(a, b):
    """Whether two graphs have the same edges and features."""
    assert a.canonical_etypes == b.canonical_etypes and a.ntypes == b.ntypes
    for canonical in a.canonical_etypes:
        assert pairs(a, canonical) == pairs(b, canonical)
        for name, rows in a.edges[canonical].data.items():
            assert torch.equal(rows, b.edges[canonical].data[name])
    for ntype in a.ntypes:
        for name, rows in a.nodes[ntype].data.items():
            assert torch.equal(rows, b.nodes[ntype].data[name])


def test_what_cannot_be_composed():
    assert sg.Compose(t for t in [sg.AddReverse()])(sg.graph(([0], [1]))).num_edges() == 2
    with pytest.raises(smex.SmexTypeError, match="Compose: expected a list of transforms, found"):
        sg.Compose(sg.AddReverse())
    with pytest.raises(smex.SmexTypeError, match="a graph, found 'AddReverse' at place 1"):
        sg.Compose([sg.AddReverse(), "AddReverse"])


@MANY
@given(graphs())
def test_modules_that_call_a_function(g):
    before = g.clone()
    same(sg.RemoveSelfLoop()(g), sg.remove_self_loop(g))
    same(sg.AddSelfLoop()(g), sg.add_self_loop(sg.remove_self_loop(g)))
    same(sg.AddSelfLoop(True, fill_data=2.0)(g), sg.add_self_loop(g, fill_data=2.0))
    same(sg.ToSimple()(g), sg.to_simple(g, copy_edata=True))
    same(sg.LineGraph(False)(g), sg.line_graph(g, False, True))
    same(sg.KHopGraph(2)(g), sg.khop_graph(g, 2))
    both = sg.Compose([sg.RemoveSelfLoop(), sg.AddReverse(copy_edata=True)])
    without = sg.remove_self_loop(g)
    same(both(g), sg.add_edges(without, *without.edges()[::-1], dict(without.edata.items())))
    assert "AddReverse()" in repr(both)
    same(g, before)


@MANY
@given(heterographs())
def test_edge_types(g):
    loops = sg.AddSelfLoop(new_etypes=True)(g)
    for ntype in g.ntypes:
        number = g.num_nodes(ntype)
        assert pairs(loops, (ntype, "self", ntype)) == [(v, v) for v in range(number)]
    once = sg.add_self_loop(sg.remove_self_loop(g, FOLLOWS), etype=FOLLOWS)
    assert pairs(loops, FOLLOWS) == pairs(once, FOLLOWS)
    assert all(u != v for u, v in pairs(sg.RemoveSelfLoop()(g), FOLLOWS))

    back = sg.AddReverse(copy_edata=True)(g)
    assert pairs(back, ("v", "rev_p", "u")) == [(v, u) for u, v in pairs(g, ("u", "p", "v"))]
    assert torch.equal(back.edges["rev_p"].data["w"], g.edges["p"].data["w"])
    edges = pairs(g, FOLLOWS)
    assert pairs(back, FOLLOWS) == edges + [(v, u) for u, v in edges]
    apart = sg.AddReverse(sym_new_etype=True)(g)
    assert pairs(apart, FOLLOWS) == edges
    assert pairs(apart, ("u", "rev_f", "u")) == [(v, u) for u, v in edges]
    assert "w" not in apart.edges["u", "rev_f", "u"].data

    path = [("u", "p", "v"), ("v", "q", "u")]
    more = sg.AddMetaPaths({"pq": path})(g)
    expected = pairs(sg.metapath_reachable_graph(g, path))
    assert pairs(more, "pq") == expected and set(g.canonical_etypes) < set(more.canonical_etypes)
    alone = sg.AddMetaPaths({"pq": path}, keep_orig_edges=False)(g)
    assert alone.etypes == ["pq"] and pairs(alone) == expected and alone.ntypes == g.ntypes


@MANY
@given(graphs())
def test_levi(g):
    levi = sg.ToLevi()(g)
    src, dst = levi.edges(etype="n2e")[0], levi.edges(etype="e2n")[1]
    assert list(zip(src.tolist(), dst.tolist())) == pairs(g)
    assert torch.equal(levi.nodes["edge"].data["w"], g.edata["w"])
    assert torch.equal(levi.nodes["node"].data["h"], g.ndata["h"])


@MANY
@given(graphs(min_nodes=1))
def test_at_random(g):
    shuffled = sg.NodeShuffle()(g)
    order = shuffled.ndata["h"][:, 0].long()
    assert order.sort().values.tolist() == list(range(g.num_nodes()))
    assert torch.equal(shuffled.ndata["h"], g.ndata["h"][order]) and pairs(shuffled) == pairs(g)

    rest = sg.DropNode(0.5)(g)
    kept = rest.ndata["h"][:, 0].long().tolist()
    edges = [(u, v) for u, v in pairs(g) if u in kept and v in kept]
    assert Counter((kept[u], kept[v]) for u, v in pairs(rest)) == Counter(edges)
    rest = sg.DropEdge(0.5)(g)
    assert pairs(rest) == [pairs(g)[e] for e in rest.edata["w"].long().tolist()]
    assert sg.DropEdge(0.0)(g).num_edges() == g.num_edges() and sg.DropEdge(1.0)(g).num_edges() == 0
    more = sg.AddEdge(0.5)(g)
    assert more.num_edges() == g.num_edges() + g.num_edges() // 2
    assert pairs(more)[: g.num_edges()] == pairs(g)


def test_shares_of_what_is_dropped():
    g = sg.rand_graph(4000, 4000)
    assert 0.26 < sg.DropNode(0.7)(g).num_nodes() / 4000 < 0.34
    assert 0.66 < sg.DropEdge(0.3)(g).num_edges() / 4000 < 0.74
    g.ndata["h"] = torch.ones(4000, 400)
    masked = sg.FeatMask(0.4, ["h"])(g).ndata["h"]
    assert 0.5 < masked[0].mean() < 0.7 and torch.equal(masked, masked[:1].expand(4000, -1))


def test_features():
    g = sg.heterograph({("a", "x", "b"): ([0, 1], [0, 1])})
    g.nodes["a"].data["h"] = torch.randn(2, 4)
    g.edata["w"] = torch.rand(2)
    result = sg.RowFeatNormalizer(True, ["h"])(g)
    rows = g.nodes["a"].data["h"] - g.nodes["a"].data["h"].min()
    expected = rows / rows.sum(1, keepdim=True)
    torch.testing.assert_close(result.nodes["a"].data["h"], expected)
    assert not sg.FeatMask(1.0, ["h"], ["w"])(g).edata["w"].any() and g.edata["w"].all()
    with pytest.raises(KeyError, match='RowFeatNormalizer: there is no node feature "f"'):
        sg.RowFeatNormalizer(node_feat_names=["f"])(g)


def dense(g, weights):
    """The weights with destinations as rows."""
    src, dst = (ids.long() for ids in g.edges())
    matrix = torch.zeros(g.num_nodes(), g.num_nodes(), dtype=torch.float64)
    return matrix.index_put((dst, src), weights.double(), accumulate=True)


@MANY
@given(graphs(min_nodes=1))
def test_normalised_weights_and_diffusion(g):
    for weights in (None, torch.rand(g.num_edges()) + 0.1):
        g.edata.pop("s", None)
        if weights is not None:
            g.edata["s"] = weights
        plain = dense(g, torch.ones(g.num_edges()) if weights is None else weights)
        degrees = plain.sum(1)
        scale = torch.where(degrees > 0, degrees.clamp(min=1e-30).rsqrt(), 0)
        gcn = scale[:, None] * plain * scale
        found = dense(g, sg.GCNNorm("s")(g).edata["s"])
        torch.testing.assert_close(found, gcn, atol=1e-5, rtol=0)

        mean = plain / degrees.clamp(min=1e-30)[:, None]
        x, name = g.ndata["h"], None if weights is None else "s"
        for kind, matrix in (("raw", plain), ("rw", mean), ("gcn", gcn)):
            result = sg.SIGNDiffusion(2, "h", "o", name, kind)(g)
            torch.testing.assert_close(result.ndata["o_1"], matrix @ x, atol=1e-4, rtol=1e-5)
            torch.testing.assert_close(
                result.ndata["o_2"], matrix @ matrix @ x, atol=1e-3, rtol=1e-5
            )
        once = 0.7 * gcn @ x + 0.3 * x
        found = sg.SIGNDiffusion(2, "h", "o", name, "ppr", alpha=0.3)(g).ndata["o_2"]
        torch.testing.assert_close(found, 0.7 * gcn @ once + 0.3 * x, atol=1e-4, rtol=1e-5)


@MANY
@given(graphs(min_nodes=1))
def test_diffused_graphs(g):
    g = sg.GCNNorm()(g)
    g.edata["w"] = g.edata["w"].float()
    matrix, eye = dense(g, g.edata["w"]), torch.eye(g.num_nodes(), dtype=torch.float64)
    steps = [0.85**k * 0.15 * torch.linalg.matrix_power(matrix, k) for k in range(200)]
    polynomial = 0.5 * eye + 0.25 * matrix + 0.125 * matrix @ matrix
    heat = torch.linalg.matrix_exp(-2.0 * (eye - matrix))
    for module, expected in (
        (sg.PPR, sum(steps)),
        (sg.HeatKernel, heat),
        (lambda **kw: sg.GDC([0.5, 0.25, 0.125], **kw), polynomial),
    ):
        result = module(eps=0.01)(g)
        found = dense(result, result.edata["w"])
        torch.testing.assert_close(found, torch.where(found != 0, expected, 0), atol=1e-5, rtol=0)
        assert not ((expected > 0.0101) & (found == 0)).any() and (result.edata["w"] >= 0.01).all()
        few = module(avg_degree=1)(g)
        largest = expected.flatten().topk(g.num_nodes()).values[-1]
        assert (few.edata["w"] >= largest.float() - 1e-5).all()
        assert torch.equal(few.ndata["h"], g.ndata["h"])


@pytest.mark.parametrize("weighted", [False, True])
def test_gcn_norm_of_each_type_within_one_node_type(weighted):
    edges = {
        ("g", "r", "g"): ([0, 1, 1], [1, 1, 0]),
        ("u", "f", "u"): ([0, 1, 1, 0], [1, 2, 0, 0]),
        ("u", "p", "g"): ([0, 1], [0, 1]),
    }
    h = sg.heterograph(edges)
    if weighted:
        h.edges["r"].data["w"] = torch.tensor([2.0, 3.0, 0.5])
    found = sg.GCNNorm()(h)
    for canonical in h.canonical_etypes[:2]:
        alone = sg.GCNNorm()(
            sg.to_homogeneous(
                h.edge_type_subgraph([canonical]),
                edata=["w"] if weighted and canonical[1] == "r" else None,
            )
        )
        torch.testing.assert_close(found.edges[canonical].data["w"], alone.edata["w"])
    assert not found.edges["p"].data
    assert not sg.GCNNorm()(h.edge_type_subgraph(["p"])).edata


def test_mistakes():
    h = sg.heterograph({("a", "x", "b"): ([0], [0])})
    with pytest.raises(smex.SmexValueError, match="DropNode: expected a probability from 0 to 1"):
        sg.DropNode(1.5)
    with pytest.raises(smex.SmexValueError, match="AddEdge: expected a ratio of at least 0"):
        sg.AddEdge(-1)
    with pytest.raises(smex.SmexValueError, match="expected diffuse_op among"):
        sg.SIGNDiffusion(1, diffuse_op="fast")
    with pytest.raises(KeyError, match='SIGNDiffusion: there is no node feature "feat"; set it'):
        sg.SIGNDiffusion(1)(sg.graph(([0], [1])))
    for module in (sg.ToLevi(), sg.PPR(), sg.SIGNDiffusion(1)):
        with pytest.raises(smex.SmexTypeError, match="expected a graph of one node type"):
            module(h)


def test_the_package_has_functions_and_modules():
    from smex.graph import transforms

    for name in transforms.__all__:
        assert getattr(sg, name) is getattr(transforms, name) and name in sg.__all__
