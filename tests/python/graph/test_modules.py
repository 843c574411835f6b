"""The modules that programs written for DGL import, by DGL's names."""

import warnings

import pytest
import torch

import smex
import smex.graph as sg
from smex.graph.base import ALL, EID, ETYPE, NID, NTYPE, DGLError, is_all, is_internal_column
from smex.graph.init import base_initializer, zero_initializer
from smex.graph.nn.functional import edge_softmax
from smex.graph.nn.pytorch import GATConv, GraphConv
from smex.graph.utils import apply_each, check_eq_shape, expand_as_pair


def test_layers_have_two_names():
    assert GraphConv is sg.nn.GraphConv and GATConv is sg.nn.pytorch.GATConv
    assert sg.nn.pytorch.__all__ == [
        *sg.nn.__all__, "edge_softmax", "knn_graph", "radius_graph", "segmented_knn_graph",
    ]  # fmt: skip
    assert all(getattr(sg.nn.pytorch, n) is getattr(sg.nn, n) for n in sg.nn.__all__)
    assert edge_softmax is sg.ops.edge_softmax is sg.nn.functional.edge_softmax


def test_base():
    assert (ALL, EID, NID, ETYPE, NTYPE) == (sg.ALL, sg.EID, sg.NID, sg.ETYPE, sg.NTYPE)
    assert DGLError is sg.DGLError
    assert is_all(ALL) and not is_all("all") and not is_all(torch.zeros(1))
    assert is_internal_column("_ID") and is_internal_column("_TYPE")
    assert not is_internal_column("h")
    with pytest.warns(sg.base.DGLWarning, match="look out") as caught:
        sg.base.dgl_warning("look out")
    assert caught[0].filename == __file__
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        sg.base.dgl_warning("gone soon", DeprecationWarning)


def test_version():
    assert sg.__version__ == smex.__version__


def test_initialisers():
    g = sg.graph(([0], [1]))
    g.ndata["h"] = torch.ones(2)
    g.set_n_initializer(zero_initializer)
    g.add_nodes(1)
    assert g.ndata["h"].tolist() == [1, 1, 0]
    g.set_n_initializer(base_initializer)
    with pytest.raises(NotImplementedError, match="base_initializer: it only shows"):
        g.add_nodes(1)


def test_pairs_of_features():
    h = torch.rand(3, 2)
    g, block = sg.graph(([0, 1], [1, 2])), sg.create_block(([0, 1, 2], [0, 0, 1]))
    assert expand_as_pair((h, None), block) == (h, None)
    assert expand_as_pair(h) == expand_as_pair(h, g) == (h, h)
    source, destination = expand_as_pair(h, block)
    assert source is h and torch.equal(destination, h[:2])
    assert expand_as_pair({"a": h}, g) == ({"a": h}, {"a": h})


def test_pairs_of_features_by_type():
    g = sg.heterograph({("a", "x", "b"): ([0, 1, 2], [0, 0, 1]), ("b", "y", "b"): ([1], [0])})
    block = sg.to_block(g, {"b": torch.tensor([0, 1])})
    h = {t: torch.rand(block.num_src_nodes(t), 2) for t in block.srctypes}
    source, destination = expand_as_pair(h, block)
    assert source is h
    assert {t: rows.shape[0] for t, rows in destination.items()} == {"a": 0, "b": 2}
    assert torch.equal(destination["b"], h["b"][:2])


def test_shapes_of_pairs():
    check_eq_shape(torch.ones(3, 2))
    check_eq_shape((torch.ones(3, 2), torch.ones(5, 2)))
    with pytest.raises(sg.DGLError, match=r"one shape, found \[2\] of sources and \[2, 1\]"):
        check_eq_shape((torch.ones(3, 2), torch.ones(5, 2, 1)))


def test_apply_each():
    assert apply_each is sg.apply_each


def test_indices():
    toindex = sg.utils.toindex
    index = toindex(torch.tensor([3, 1]))
    assert toindex(index) is index and list(index) == [3, 1] and len(index) == 2 and index[1] == 1
    assert index.tousertensor("cpu").dtype == torch.int64 and index.tonumpy().tolist() == [3, 1]
    assert list(toindex(slice(2, 5))) == [2, 3, 4] and list(toindex(7)) == [7]
    assert list(toindex([])) == [] and list(toindex({4})) == [4]
    assert toindex(range(3), "int32").tousertensor().dtype == torch.int32
    assert list(sg.utils.zero_index(2)) == [0, 0]
    with pytest.raises(smex.SmexTypeError, match="toindex: expected a vector of integers, found"):
        toindex([0.5])


def test_threads():
    threads = sg.utils.get_num_threads()
    sg.utils.set_num_threads(1)
    assert torch.get_num_threads() == 1
    sg.utils.set_num_threads(threads)
    assert sg.utils.is_iterable([]) and not sg.utils.is_iterable(3)


def test_rows_on_a_gpu():
    cache = sg.cuda.GPUCache(2, 3, torch.int32)
    cache.replace(torch.tensor([5, 6]), torch.arange(6.0).view(2, 3))
    values, index, keys = cache.query(torch.tensor([6, 7]))
    assert values[0].tolist() == [3, 4, 5] and index.tolist() == [1] and keys.tolist() == [7]
    assert keys.dtype == torch.int32 and cache.miss_rate == 0.5
