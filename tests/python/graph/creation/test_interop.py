"""PyTorch Geometric and torch's sparse tensors."""

import sys

import pytest
import torch
from hypothesis import given, settings

import smex
import smex.graph as sg
from support.graphs import IDTYPES, graphs, heterographs, pairs, same

MANY = settings(max_examples=30, deadline=None)
LAYOUTS = [torch.sparse_coo, torch.sparse_csr, torch.sparse_csc]


@pytest.fixture(scope="module")
def pyg():
    return pytest.importorskip("torch_geometric", reason="torch_geometric is not installed")


def test_data_there_and_back(pyg):
    @MANY
    @given(graphs())
    def check(g):
        g.edata["edge_w"] = g.edata.pop("w")  # PyG knows edges' features by name if N = E
        data = sg.to_pyg(g)
        assert data.edge_index.dtype == torch.int64 and data.num_nodes == g.num_nodes()
        assert data.edge_index.T.tolist() == [list(pair) for pair in pairs(g)]
        assert data.validate()
        same(sg.from_pyg(data, idtype=g.idtype), g)

    check()


def test_hetero_data_there_and_back(pyg):
    @MANY
    @given(heterographs())
    def check(h):
        data = sg.to_pyg(h)
        assert data.node_types == h.ntypes and data.edge_types == h.canonical_etypes
        for canonical in h.canonical_etypes:
            assert data[canonical].edge_index.T.tolist() == [list(p) for p in pairs(h, canonical)]
        same(sg.from_pyg(data, idtype=h.idtype), h)

    check()


def test_message_passing_agrees(pyg):
    data = pyg.data.Data(
        x=torch.randn(6, 4),
        edge_index=torch.randint(6, (2, 15)),
        edge_attr=torch.randn(15, 2),
        y=torch.tensor([1]),
    )
    g = sg.from_pyg(data)
    assert list(g.ndata) == ["x"] and list(g.edata) == ["edge_attr"]
    conv = pyg.nn.SimpleConv(aggr="sum")
    adjacency = sg.to_torch_sparse(g).to_dense()
    torch.testing.assert_close(conv(data.x, data.edge_index), adjacency.T @ g.ndata["x"])


def test_reserved_names(pyg):
    g = sg.to_homogeneous(sg.heterograph({("u", "e", "v"): ([0, 1], [1, 2])}))
    data = sg.to_pyg(g)
    assert data.node_type.tolist() == [0, 0, 1, 1, 1] and data.edge_type.tolist() == [0, 0]
    assert data.n_id.tolist() == g.ndata[sg.NID].tolist() and data.e_id.tolist() == [0, 1]
    same(sg.from_pyg(data), g)


def test_batches(pyg):
    parts = [
        pyg.data.Data(x=torch.ones(n, 2), edge_index=torch.zeros(2, n).long()) for n in (1, 3, 2)
    ]
    loaded = pyg.data.Batch.from_data_list(parts)
    g = sg.from_pyg(loaded)
    assert g.batch_num_nodes().tolist() == [1, 3, 2] == g.batch_num_edges().tolist()
    assert list(g.ndata) == ["x"]
    back = sg.to_pyg(g)
    assert torch.equal(back.batch, loaded.batch) and torch.equal(back.ptr, loaded.ptr)
    from torch_geometric.utils import add_self_loops

    loaded.edge_index = add_self_loops(loaded.edge_index, num_nodes=6)[
        0
    ]  # behind the edges of all graphs
    g = sg.from_pyg(loaded)
    assert g.batch_num_nodes().tolist() == [1, 3, 2]
    assert g.batch_num_edges().tolist() == [2, 6, 4]
    g = sg.batch([sg.graph(([0], [1])), sg.graph(([], []))])
    assert sg.to_pyg(g).ptr.tolist() == [0, 2, 2]


def test_adj_t(pyg):
    edge_index = torch.tensor([[0, 1, 2], [1, 1, 0]])
    adj_t = pyg.utils.to_torch_csr_tensor(edge_index.flip(0), size=(3, 3))
    data = pyg.data.Data(x=torch.ones(3, 1), adj_t=adj_t)
    assert sorted(pairs(sg.from_pyg(data))) == [(0, 1), (1, 1), (2, 0)]


def test_gradients_flow_through_pyg(pyg):
    x = torch.randn(3, 2, requires_grad=True)
    data = pyg.data.Data(x=x * 2, edge_index=torch.tensor([[0], [1]]))
    sg.to_pyg(sg.from_pyg(data)).x.sum().backward()
    assert torch.equal(x.grad, torch.full((3, 2), 2.0))


@pytest.mark.parametrize("layout", LAYOUTS)
def test_sparse_there_and_back(layout):
    @MANY
    @given(graphs())
    def check(g):
        matrix = sg.to_torch_sparse(g, "w", layout)
        assert matrix.layout == layout and matrix.shape == (g.num_nodes(), g.num_nodes())
        expected = torch.zeros(g.num_nodes(), g.num_nodes(), dtype=torch.float64)
        for e, (u, v) in enumerate(pairs(g)):
            expected[u, v] += float(e)
        back = sg.from_torch_sparse(matrix, "w")
        found = torch.zeros_like(expected)
        found.index_put_(tuple(ids.long() for ids in back.edges()), back.edata["w"], True)
        assert torch.equal(found, expected)
        assert sorted(pairs(back)) == sorted(pairs(g))
        if layout == torch.sparse_coo:
            assert pairs(back) == pairs(g) and back.idtype == torch.int64
        else:
            assert back.idtype == g.idtype and back.formats()["created"][-1] == str(layout)[-3:]

    check()


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("idtype", IDTYPES)
def test_sparse_matrices_compute(layout, idtype):
    g = sg.bipartite_from_torch_sparse(torch.eye(3, 5).to_sparse(), "u", "e", "v", idtype=idtype)
    matrix = sg.to_torch_sparse(g, layout=layout)
    assert matrix.shape == (3, 5) and torch.equal(matrix.to_dense(), torch.eye(3, 5))
    back = sg.bipartite_from_torch_sparse(matrix, "u", "e", "v", "w", idtype=torch.int32)
    assert back.idtype == torch.int32 and back.edata["w"].tolist() == [1.0] * 3


@pytest.mark.parametrize("layout", LAYOUTS)
def test_gradients_flow_through_sparse(layout):
    w = torch.randn(4, dtype=torch.float64, requires_grad=True)

    def values(w):
        g = sg.graph(([0, 2, 1, 0], [1, 1, 0, 2]))
        g.edata["w"] = w
        back = sg.from_torch_sparse(sg.to_torch_sparse(g, "w", layout), "w")
        return back.edata["w"].exp()

    assert torch.autograd.gradcheck(values, (w,))


def with_both_named(name):
    g = sg.graph(([0], [1]))
    g.ndata[name], g.edata[name] = torch.ones(2), torch.ones(1)
    return g


def matrix_feature():
    g = sg.graph(([0], [1]))
    g.edata["w"] = torch.ones(1, 2)
    return g


@pytest.mark.parametrize(
    ("make", "error", "text"),
    [
        (
            lambda: sg.from_pyg([1]),
            smex.SmexTypeError,
            "expected torch_geometric's Data.* found list",
        ),
        (
            lambda: sg.to_pyg(with_both_named("h")),
            smex.SmexValueError,
            'different names, found "h"',
        ),
        (lambda: sg.to_pyg(sg.create_block(([0], [1]))), smex.SmexTypeError, "found a block"),
        (lambda: sg.from_torch_sparse(torch.eye(2)), smex.SmexTypeError, "found torch.strided"),
        (lambda: sg.from_torch_sparse([1]), smex.SmexTypeError, "found list"),
        (
            lambda: sg.from_torch_sparse(torch.ones(2, 3).to_sparse()),
            smex.SmexValueError,
            r"\[2, 3\]; use bipartite",
        ),
        (
            lambda: sg.from_torch_sparse(torch.ones(2, 2, 2).to_sparse()),
            smex.SmexValueError,
            "expected a matrix",
        ),
        (
            lambda: sg.bipartite_from_torch_sparse(torch.ones(2, 3).to_sparse(), "u", "e", "u"),
            smex.SmexValueError,
            "both are of type",
        ),
        (
            lambda: sg.to_torch_sparse(matrix_feature(), layout=torch.strided),
            smex.SmexTypeError,
            "layout must be",
        ),
        (
            lambda: sg.to_torch_sparse(matrix_feature(), "w"),
            smex.SmexValueError,
            "must be a vector",
        ),
        (lambda: sg.to_torch_sparse(matrix_feature(), "q"), KeyError, "q"),
    ],
)
def test_errors(make, error, text, pyg):
    with pytest.raises(error, match=text):
        make()


def test_hetero_data_without_edges(pyg):
    data = pyg.data.HeteroData()
    data["u"].x = torch.ones(2, 1)
    with pytest.raises(smex.SmexValueError, match="HeteroData with edge types, found none"):
        sg.from_pyg(data)


def test_pyg_is_not_installed(monkeypatch):
    monkeypatch.setitem(sys.modules, "torch_geometric.data", None)
    with pytest.raises(smex.SmexImportError, match="pip install torch_geometric"):
        sg.to_pyg(sg.graph(([0], [1])))
