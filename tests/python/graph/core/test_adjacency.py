"""Matrices of a graph against dense ones and SciPy."""

import sys

import networkx
import pytest
import torch

import smex
import smex.graph as sg

IDTYPES = [torch.int32, torch.int64]


@pytest.fixture(params=IDTYPES, ids=["int32", "int64"])
def graphs(request):
    """A graph with a self loop and parallel edges, a bipartite one, one without edges."""
    return [
        sg.graph(([0, 1, 1, 2, 0, 2], [1, 2, 2, 0, 1, 2]), idtype=request.param),
        sg.heterograph({("u", "r", "v"): ([0, 1], [4, 0])}, idtype=request.param),
        sg.graph(([], []), num_nodes=3, idtype=request.param),
    ]


def dense(g, values=None):
    matrix = torch.zeros(g.num_src_nodes(), g.num_dst_nodes())
    for e, (u, v) in enumerate(zip(*(end.tolist() for end in g.edges()))):
        matrix[u, v] += 1 if values is None else values[e]
    return matrix


def test_adjacency(graphs):
    for g in graphs:
        expected = dense(g)
        assert g.adj().to_dense().equal(expected)
        assert isinstance(g.adjacency_matrix(), sg.sparse.SparseMatrix)
        assert g.adj_external().to_dense().equal(expected)
        assert g.adj_external(transpose=True).to_dense().equal(expected.T)
        for fmt in ("coo", "csr"):
            matrix = g.adj_external(scipy_fmt=fmt)
            assert matrix.format == fmt and matrix.nnz == g.num_edges()
            assert torch.from_numpy(matrix.toarray()).equal(expected.to(g.idtype))
            turned = g.adj_external(True, scipy_fmt=fmt).toarray()
            assert torch.from_numpy(turned).equal(expected.T.to(g.idtype))


def test_weights_have_gradients(graphs):
    g = graphs[0]
    w = torch.rand(6, requires_grad=True)
    g.edata["w"] = w
    torch.testing.assert_close(g.adj(eweight_name="w").to_dense(), dense(g, w.detach()))
    (g.adj(eweight_name="w").to_dense() * 3).sum().backward()
    assert w.grad.eq(3).all()
    with pytest.raises(KeyError):
        g.adj(eweight_name="x")


def test_tensors_of_formats(graphs):
    for g in graphs:
        src, dst = g.adj_tensors("coo")
        for fmt, rows, columns in (("csr", src, dst), ("csc", dst, src)):
            indptr, indices, eids = g.adj_tensors(fmt)
            assert indptr.dtype == indices.dtype == eids.dtype == g.idtype
            assert indices.equal(columns[eids])
            lengths = indptr.diff().long()
            assert torch.repeat_interleave(torch.arange(len(lengths)), lengths).equal(
                rows[eids].long()
            )


def test_incidence(graphs):
    for g in graphs:
        eids = range(g.num_edges())
        src, dst = (end.tolist() for end in g.edges())
        ins, outs = g.inc("in").to_dense(), g.incidence_matrix("out").to_dense()
        assert ins.shape == (g.num_dst_nodes(), len(eids)) and ins.sum() == len(eids)
        assert all(ins[dst[e], e] == 1 and outs[src[e], e] == 1 for e in eids)
        if g.is_homogeneous:
            assert g.inc("both").to_dense().equal(ins - outs)


def test_metagraph():
    g = sg.heterograph(
        {("a", "x", "b"): ([0], [0]), ("a", "y", "b"): ([0], [0]), ("b", "x", "a"): ([0], [0])}
    )
    meta = g.metagraph()
    assert isinstance(meta, networkx.MultiDiGraph)
    assert sorted(meta.edges(keys=True)) == [("a", "b", "x"), ("a", "b", "y"), ("b", "a", "x")]


@pytest.mark.parametrize(
    ("ask", "text"),
    [
        (lambda g: g.adj_external(scipy_fmt="csc"), "adj_external: expected scipy_fmt .* 'csc'"),
        (lambda g: g.adj_tensors("x"), "adj_tensors: expected the format .* found 'x'"),
        (lambda g: g.inc("x"), 'inc: expected "in", "out" or "both", found'),
        (lambda g: g.inc("both"), 'inc: "both" needs sources and destinations of one type'),
    ],
)
def test_errors(ask, text):
    for g in (sg.heterograph({("u", "r", "v"): ([0], [1])}), sg.create_block(([0], [1]))):
        with pytest.raises(smex.SmexValueError, match=text):
            ask(g)


@pytest.mark.parametrize(
    ("module", "ask"),
    [
        ("scipy", lambda g: g.adj_external(scipy_fmt="csr")),
        ("networkx", lambda g: g.metagraph()),
    ],
)
def test_libraries_that_are_not_installed(monkeypatch, module, ask):
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(smex.SmexImportError, match="pip install " + module):
        ask(sg.graph(([0], [1])))


def test_external_adjacency_is_coalesced_where_edges_are_ordered_and_none_are_parallel():
    matrix = sg.graph(([0, 0, 1], [1, 2, 0])).adj_external()
    assert matrix.indices().tolist() == [[0, 0, 1], [1, 2, 0]]
    assert matrix.values().tolist() == [1, 1, 1]
    for edges in (([1, 0], [0, 1]), ([0, 0], [1, 1])):
        matrix = sg.graph(edges).adj_external()
        assert not matrix.is_coalesced() and matrix.coalesce().values().sum() == 2


def test_adjacency_has_edges_in_their_order_and_the_formats_of_the_graph():
    g = sg.graph(([1, 0, 1], [0, 1, 0]))
    weight = torch.rand(3, requires_grad=True)
    g.edata["w"] = weight
    matrix = g.adj(eweight_name="w")
    assert matrix.indices().tolist() == [[1, 0, 1], [0, 1, 0]] and matrix.val is g.edata["w"]
    assert matrix.csc()[0] is g.adj_tensors("csc")[0]
    (grad,) = torch.autograd.grad((matrix @ torch.ones(2, 2)).sum(), weight)
    assert grad.tolist() == [2.0, 2.0, 2.0]
    g.edata["w"] = torch.rand(3, 2, 2)
    with pytest.raises(smex.SmexValueError, match="adj: feature 'w': expected values of shape"):
        g.adj(eweight_name="w")
