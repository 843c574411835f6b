"""smex::sddmm."""

from __future__ import annotations

import itertools

import pytest
import torch

import smex
from support.kernel_reference import S, close, messages, operands_for, random_graph

pytestmark = pytest.mark.skipif(
    not smex.show_config().native, reason=f"native library: {smex.show_config().native_reason}"
)

TARGET_PAIRS = ["".join(pair) for pair in itertools.product("uve", repeat=2)]
SHAPES = [
    ((4,), (4,)),
    ((5,), (1,)),
    ((1,), (3,)),
    ((), ()),
    ((3,), ()),
    ((2, 4), (2, 1)),
    ((2, 1), (1, 3)),
    ((2, 3), (3,)),
    ((2, 3, 4), (3, 1)),
    ((2, 8), (2, 8)),
]
FEW_SHAPES = [((4,), (4,)), ((2, 4), (2, 1)), ((2, 3), (3,))]
DTYPES = [torch.float32, torch.float64, torch.bfloat16, torch.float16]
IDS = [torch.int32, torch.int64]


def sddmm(graph, message, operands, reduce_to=None):
    return S.sddmm(graph.in_edges, graph.out_edges, message, operands, reduce_to)


def check(graph, message, operands, dtype, reduce_to=None):
    """Values and gradients against messages that are stored."""
    name = (message, [tuple(x.shape) for x in operands], reduce_to)
    out = sddmm(graph, message, operands, reduce_to)
    expected = messages(graph, message, operands)
    if reduce_to is not None:
        aligned = [1] * (expected.dim() - 1 - len(reduce_to)) + reduce_to
        expected = expected.sum_to_size(graph.num_edges, *aligned)
        expected = expected.reshape(graph.num_edges, *reduce_to)
    close(out, expected, dtype, name)
    grad = torch.linspace(-1, 1, out.numel()).reshape(out.shape).to(dtype)
    found = torch.autograd.grad(out, operands, grad)
    wanted = torch.autograd.grad(expected, operands, grad.double())
    for x, y in zip(found, wanted):
        close(x, y, dtype, name)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("ids", IDS, ids=str)
def test_every_built_in(ids, dtype):
    graph = random_graph(ids=ids)
    shapes = SHAPES if dtype == torch.float64 and ids == torch.int64 else FEW_SHAPES
    for target, (a, _) in itertools.product("uve", shapes):
        check(graph, f"{target}0", operands_for(graph, f"{target}0", [a], dtype), dtype)
    for (first, second), pair in itertools.product(TARGET_PAIRS, shapes):
        for op in "+-*/":
            message = f"{first}0 {op} {second}1"
            check(graph, message, operands_for(graph, message, pair, dtype), dtype)
        if all(pair) and pair[0][-1] == pair[1][-1]:
            message = f"dot({first}0, {second}1)"
            check(graph, message, operands_for(graph, message, pair, dtype), dtype)


@pytest.mark.parametrize("heads", [1, 3, 8, 16, 17])
@pytest.mark.parametrize("inner", [1, 2, 4, 7, 8, 16, 33])
def test_dot_products_of_many_heads(heads, inner):
    graph = random_graph()
    for dtype in (torch.float32, torch.bfloat16):
        operands = operands_for(graph, "dot(u0, v1)", [(heads, inner)] * 2, dtype)
        check(graph, "dot(u0, v1)", operands, dtype)


EXPRESSIONS = [
    ("exp(u0) * leaky_relu(v1 - e2, 0.2)", [(4, 3), (3,), (4, 1)]),
    ("sigmoid(u0) / (1 + abs(e1))", [(5,), (5,)]),
    ("maximum(u0, 0.3) * minimum(v1, e2)", [(3,), (3,), (3,)]),
    ("dot(u0, v1) * u2", [(2, 4), (2, 4), (2, 4)]),
    ("dot(leaky_relu(u0 + v1, 0.2), e2)", [(2, 4), (2, 4), (2, 4)]),
    ("dot(u0, v1)", [(2, 4), (2, 1)]),
    ("e0 * e1 * e2", [(2, 2), (2, 1), ()]),
]


@pytest.mark.parametrize(("message", "shapes"), EXPRESSIONS, ids=str)
def test_expressions(message, shapes):
    graph = random_graph()
    for dtype in (torch.float64, torch.float32):
        check(graph, message, operands_for(graph, message, shapes, dtype), dtype)


def test_dot_products_of_a_repeated_number():
    graph = random_graph()
    for shapes in (((1,), (4,)), ((2, 4), (4,)), ((2, 1), (2, 4))):
        check(graph, "dot(u0, v1)", operands_for(graph, "dot(u0, v1)", shapes), torch.float64)


REDUCED = [
    ("u0 * v1", [(4, 8), (4, 8)], [4, 1]),
    ("u0 * v1", [(4, 8), (4, 8)], [1, 8]),
    ("u0 * v1", [(4, 8), (4, 8)], [8]),
    ("u0 * v1", [(4, 8), (4, 8)], [1]),
    ("u0 * v1", [(4, 8), (4, 8)], []),
    ("u0 * v1", [(2, 3, 5), (3, 1)], [2, 1, 5]),
    ("u0 * v1", [(2, 3, 5), (3, 1)], [1, 3, 1]),
    ("exp(u0) - v1", [(2, 3), (2, 3)], [2, 1]),
    ("dot(u0, v1)", [(4, 8), (4, 8)], [1, 1]),
    ("dot(u0, v1)", [(2, 3, 8), (2, 3, 8)], [1, 3, 1]),
    ("dot(u0, v1) * e2", [(3, 8), (3, 8), (3, 8)], [3, 1]),
    ("u0 + v1", [(3,), (1,)], [1]),
    ("u0 + v1", [(2, 3), (3,)], [2, 1]),
    ("u0 + v1", [(2, 1), (1, 3)], [1, 3]),
]


@pytest.mark.parametrize(("message", "shapes", "reduce_to"), REDUCED, ids=str)
def test_sums_down_to_a_shape(message, shapes, reduce_to):
    graph = random_graph()
    operands = operands_for(graph, message, shapes)
    check(graph, message, operands, torch.float64, reduce_to)


GRADCHECKED = [
    ("u0", [(2,)]),
    ("v0 * e1", [(2, 2), (2, 1)]),
    ("u0 - v1", [(2, 1), (1, 2)]),
    ("u0 / v1", [(2,), (2,)]),
    ("dot(u0, v1)", [(2, 3), (2, 3)]),
    ("exp(u0) * leaky_relu(v1 - e2, 0.2)", [(2,), (2,), (1,)]),
    ("relu(u0) * tanh(v1) + abs(e2)", [(2,), (1,), (2,)]),
]


@pytest.mark.parametrize(("message", "shapes"), GRADCHECKED, ids=str)
def test_gradients_and_their_gradients(message, shapes):
    graph = random_graph(num_src=3, num_dst=3, num_edges=5)
    operands = operands_for(graph, message, shapes)

    def f(*operands):
        return sddmm(graph, message, list(operands))

    assert torch.autograd.gradcheck(f, operands)
    assert torch.autograd.gradgradcheck(f, operands)


@pytest.mark.parametrize("message", ["step(u0)", "sign(v0)", "greater(u0, v1)"])
def test_gradients_of_steps_are_zero(message):
    graph = random_graph()
    operands = operands_for(graph, message, [(3,)] * (2 if "v1" in message else 1))
    out = sddmm(graph, message, operands)
    for grad in torch.autograd.grad(out.sum(), operands, allow_unused=True):
        assert grad is None or not grad.any()


@pytest.mark.parametrize("size", [(0, 0, 0), (3, 4, 0), (1, 1, 1)])
def test_small_and_empty_graphs(size):
    graph = random_graph(*size)
    for message, shapes in (
        ("u0", [(3,)]),
        ("e0", [()]),
        ("v0 * e1", [(2, 3), (2, 1)]),
        ("dot(u0, v1)", [(2, 3), (2, 3)]),
    ):
        check(graph, message, operands_for(graph, message, shapes), torch.float64)


def test_features_of_size_zero():
    graph = random_graph()
    for message, shapes in (
        ("u0", [(0,)]),
        ("u0 * e1", [(3, 0), (3, 1)]),
        ("dot(u0, v1)", [(0,), (0,)]),
        ("dot(u0, v1)", [(2, 0), (2, 0)]),
    ):
        operands = operands_for(graph, message, shapes)
        check(graph, message, operands, torch.float64)
        assert not sddmm(graph, message, operands).any()
    check(graph, "u0 * v1", operands_for(graph, "u0 * v1", [(0,), (1,)]), torch.float64, [1])


def test_results_do_not_depend_on_threads():
    graph = random_graph(300, 200, 40_000, hub=0.6)
    threads = torch.get_num_threads()
    try:
        for message, shapes in (("dot(u0, v1)", [(2, 8)] * 2), ("u0 / v1", [(16,)] * 2)):
            operands = operands_for(graph, message, shapes, torch.float32)
            results = []
            for count in (1, 2, 5, 2):
                torch.set_num_threads(count)
                out = sddmm(graph, message, operands)
                results.append([out, *torch.autograd.grad(out.sum(), operands)])
                assert all(torch.equal(x, y) for x, y in zip(results[-1], results[0])), count
            close(results[0][0], messages(graph, message, operands), torch.float32)
    finally:
        torch.set_num_threads(threads)


# ---- errors ----


def test_errors():
    graph = random_graph()
    in_edges, out_edges = graph.in_edges, graph.out_edges
    u, v = operands_for(graph, "u0 * v1", [(4,), (4,)])
    for grad in (True, False):
        u, v = u.detach().requires_grad_(grad), v.detach().requires_grad_(grad)
        with pytest.raises(ValueError, match="smex::sddmm: edges are .*, found 1 tensors"):
            S.sddmm(in_edges[:1], out_edges, "u0 * v1", [u, v])
        with pytest.raises(ValueError, match="smex::sddmm: message .* has 2 operands, found 1"):
            S.sddmm(in_edges, out_edges, "u0 * v1", [u])
        with pytest.raises(ValueError, match="smex::sddmm: message .* expected the end"):
            S.sddmm(in_edges, out_edges, "u0 u1", [u, v])
        with pytest.raises(ValueError, match=r"feature shapes \[4\] and \[3\] do not broadcast"):
            S.sddmm(in_edges, out_edges, "u0 * v1", [u, v[:, :3]])
        with pytest.raises(ValueError, match=r"of shape \[4\] cannot be summed to \[3\]"):
            S.sddmm(in_edges, out_edges, "u0 * v1", [u, v], [3])
        with pytest.raises(ValueError, match=r"of shape \[4\] cannot be summed to \[1, 4\]"):
            S.sddmm(in_edges, out_edges, "u0 * v1", [u, v], [1, 4])
        with pytest.raises(TypeError, match="operands must have one type, found Double and Half"):
            S.sddmm(in_edges, out_edges, "u0 * v1", [u, v.half()])
    with pytest.raises(ValueError, match="the gradient of u0 needs out_edges, found none"):
        S.sddmm(in_edges, [], "u0", [u.requires_grad_()])


def test_meta_tensors_give_the_same_shapes_and_errors():
    graph = random_graph()
    edges = [x.to("meta") for x in graph.in_edges]
    for message, shapes, reduce_to in REDUCED:
        operands = operands_for(graph, message, shapes)
        expected = sddmm(graph, message, operands, reduce_to)
        found = S.sddmm(edges, [], message, [x.detach().to("meta") for x in operands], reduce_to)
        assert found.shape == expected.shape
    u = torch.empty(7, 4, device="meta")
    with pytest.raises(ValueError, match="cannot be summed to"):
        S.sddmm(edges, [], "u0", [u], [3])
