"""smex::edge_softmax."""

from __future__ import annotations

import pytest
import torch

import smex
from support.kernel_reference import S, close, random_graph, softmax

pytestmark = pytest.mark.skipif(
    not smex.show_config().native, reason=f"native library: {smex.show_config().native_reason}"
)

DTYPES = [torch.float32, torch.float64, torch.bfloat16, torch.float16]
IDS = [torch.int32, torch.int64]
SHAPES = [(), (1,), (2,), (3,), (8,), (8, 1), (2, 3), (16,), (17,)]


def edges_of(graph, by):
    return graph.in_edges if by == "dst" else graph.out_edges


def scores(graph, shape=(), dtype=torch.float64, seed=3):
    draw = torch.Generator().manual_seed(seed)
    x = torch.randn(graph.num_edges, *shape, generator=draw, dtype=torch.float64)
    return (2 * x).to(dtype).requires_grad_()


@pytest.mark.parametrize("by", ["dst", "src"])
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("ids", IDS, ids=str)
def test_values_and_gradients(ids, dtype, by):
    graph = random_graph(ids=ids, num_edges=60)
    for shape in SHAPES:
        x = scores(graph, shape, dtype)
        out, expected = S.edge_softmax(edges_of(graph, by), x), softmax(graph, x, by)
        close(out, expected, dtype, shape)
        grad = torch.linspace(-1, 1, out.numel()).reshape(out.shape).to(dtype)
        (found,) = torch.autograd.grad(out, x, grad)
        close(found, torch.autograd.grad(expected, x, grad.double())[0], dtype, shape)


@pytest.mark.parametrize("shape", [(), (2,), (2, 1)])
def test_gradients_and_their_gradients(shape):
    graph = random_graph(num_edges=8)
    x = scores(graph, shape)
    for edges in (graph.in_edges, graph.out_edges):
        assert torch.autograd.gradcheck(lambda x, e=edges: S.edge_softmax(e, x), x)
        assert torch.autograd.gradgradcheck(lambda x, e=edges: S.edge_softmax(e, x), x)


def test_rows_add_up_to_one():
    graph = random_graph(100, 50, 20_000, hub=0.7)
    for shape in ((), (8,), (3,)):
        out = S.edge_softmax(graph.in_edges, scores(graph, shape, torch.float32).detach())
        sums = torch.zeros(50, *shape).index_add(0, graph.dst, out)
        has_edges = torch.bincount(graph.dst, minlength=50) > 0
        close(sums[has_edges], torch.ones_like(sums[has_edges]), torch.float32)
        close(out, softmax(graph, scores(graph, shape, torch.float32)), torch.float32)


def test_large_scores_do_not_overflow():
    graph = random_graph()
    x = torch.full((30, 2), 1e30)
    x[::3] = 9.9e29
    close(S.edge_softmax(graph.in_edges, x), softmax(graph, x), torch.float32)


@pytest.mark.parametrize("value", [torch.nan, torch.inf, -torch.inf])
def test_what_is_not_finite(value):
    graph = random_graph(num_edges=200)
    for shape in ((), (8,), (3,)):
        x = scores(graph, shape).detach()
        x[7] = value
        for v in range(graph.num_dst):  # a row of nothing else
            if v == 2:
                x[graph.dst == v] = value
        found, expected = S.edge_softmax(graph.in_edges, x), softmax(graph, x)
        torch.testing.assert_close(found, expected, equal_nan=True)


def test_edge_ids_may_be_left_out():
    graph = random_graph()
    indptr, indices, eids = graph.in_edges
    x = scores(graph, (3,))
    in_order = x[eids]
    found = S.edge_softmax([indptr, indices], in_order)
    assert torch.equal(found, S.edge_softmax(graph.in_edges, x)[eids])


def test_any_strides():
    graph = random_graph()
    x = torch.randn(4, 30).t()
    grad = torch.randn(30, 8)[:, ::2]
    found, dense = x.clone().requires_grad_(), x.contiguous().requires_grad_()
    out, expected = S.edge_softmax(graph.in_edges, x.requires_grad_()), None
    expected = S.edge_softmax(graph.in_edges, dense)
    assert torch.equal(out, expected)
    assert found.shape == out.shape
    (a,) = torch.autograd.grad(out, x, grad)
    (b,) = torch.autograd.grad(expected, dense, grad.contiguous())
    assert torch.equal(a, b)


@pytest.mark.parametrize("size", [(0, 0, 0), (3, 4, 0), (1, 1, 1)])
def test_small_and_empty_graphs(size):
    graph = random_graph(*size)
    for shape in ((), (3,), (0,), (2, 0)):
        x = scores(graph, shape)
        out = S.edge_softmax(graph.in_edges, x)
        assert out.shape == x.shape
        assert (out == 1).all()
        (grad,) = torch.autograd.grad(out.sum(), x)
        assert not grad.any()


def test_results_do_not_depend_on_threads():
    graph = random_graph(300, 200, 60_000, hub=0.6)
    threads = torch.get_num_threads()
    try:
        for shape in ((8,), (3,), (16,)):
            x = scores(graph, shape, torch.float32)
            grad = torch.linspace(-1, 1, x.numel()).reshape(x.shape)
            results = []
            for count in (1, 2, 5, 2):
                torch.set_num_threads(count)
                out = S.edge_softmax(graph.in_edges, x)
                results.append((out, *torch.autograd.grad(out, x, grad)))
                assert all(torch.equal(a, b) for a, b in zip(results[-1], results[0])), count
    finally:
        torch.set_num_threads(threads)


# ---- errors ----


def test_errors():
    graph = random_graph()
    x = torch.rand(30, 2)
    for grad in (True, False):
        x = x.detach().requires_grad_(grad)
        with pytest.raises(ValueError, match=r"expected scores of 30 edges, found shape \[29, 2\]"):
            S.edge_softmax(graph.in_edges, x[:-1])
        with pytest.raises(ValueError, match=r"expected scores of 30 edges, found shape \[\]"):
            S.edge_softmax(graph.in_edges, x[0, 0])
        with pytest.raises(ValueError, match="edges are .*, found 4 tensors"):
            S.edge_softmax([*graph.in_edges, graph.src], x)
    with pytest.raises(TypeError, match="expected floating point scores, found Long"):
        S.edge_softmax(graph.in_edges, x.detach().long())
    with pytest.raises(TypeError, match="must have one type, found Int and Long"):
        S.edge_softmax([graph.in_edges[0].int(), *graph.in_edges[1:]], x)
    with pytest.raises(ValueError, match=r"gradient of shape \[30, 2\], found \[30, 1\]"):
        S.edge_softmax_backward(graph.in_edges, x, x[:, :1])
    with pytest.raises(TypeError, match="expected a gradient of type Float, found Double"):
        S.edge_softmax_backward(graph.in_edges, x, x.double())
    with pytest.raises(ValueError, match="scores are on meta, the graph on cpu"):
        S.edge_softmax(graph.in_edges, torch.empty(30, device="meta"))
