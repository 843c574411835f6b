"""smex::spmm and smex::spmm_extremum."""

from __future__ import annotations

import copy
import itertools

import pytest
import torch

import smex
from support.kernel_reference import (
    S,
    close,
    messages,
    operands_for,
    random_graph,
    reduced,
    winners,
)

pytestmark = pytest.mark.skipif(
    not smex.show_config().native, reason=f"native library: {smex.show_config().native_reason}"
)

TARGET_PAIRS = ["uv", "vu", "ue", "eu", "ve", "ev"]
BINARY = ["+", "-", "*", "/"]
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
REDUCES = ["sum", "mean", "max", "min"]


def built_ins(shapes):
    """Every built-in message with the feature shapes of its operands."""
    for target, (a, _) in itertools.product("ue", shapes):
        yield f"{target}0", [a]
    for (first, second), op, pair in itertools.product(TARGET_PAIRS, BINARY, shapes):
        yield f"{first}0 {op} {second}1", list(pair)
    for (first, second), pair in itertools.product(TARGET_PAIRS, shapes):
        if all(pair) and pair[0][-1] == pair[1][-1]:
            yield f"dot({first}0, {second}1)", list(pair)


def spmm(graph, message, reduce, operands, zero_empty=True):
    """Both operators as one; gives the result only."""
    if reduce in ("sum", "mean"):
        return S.spmm(graph.in_edges, graph.out_edges, message, reduce, operands)
    return S.spmm_extremum(graph.in_edges, graph.out_edges, message, reduce, operands, zero_empty)[
        0
    ]


def check(graph, message, reduce, operands, dtype):
    """Values and gradients against messages that are stored."""
    name = (message, reduce, [tuple(x.shape) for x in operands])
    out = spmm(graph, message, reduce, operands)
    stored = messages(graph, message, operands)
    expected = reduced(graph, stored, reduce)
    close(out, expected, dtype, name)
    grad = torch.linspace(-1, 1, out.numel()).reshape(out.shape).to(dtype)
    found = torch.autograd.grad(out, operands, grad)
    wanted = torch.autograd.grad(expected, operands, grad.double())
    for x, y in zip(found, wanted):
        close(x, y, dtype, name)


@pytest.mark.parametrize("reduce", REDUCES)
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("ids", IDS, ids=str)
def test_every_built_in(ids, dtype, reduce):
    graph = random_graph(ids=ids)
    shapes = SHAPES if dtype == torch.float64 and ids == torch.int64 else FEW_SHAPES
    for message, features in built_ins(shapes):
        check(graph, message, reduce, operands_for(graph, message, features, dtype), dtype)


EXPRESSIONS = [
    ("exp(u0) * leaky_relu(v1 - e2, 0.2)", [(4, 3), (3,), (4, 1)]),
    ("sigmoid(u0) / (1 + abs(e1))", [(5,), (5,)]),
    ("tanh(u0 * v1) - relu(e2) + pow(u3, 2)", [(2, 3), (2, 3), (3,), (2, 1)]),
    ("maximum(u0, 0.3) * minimum(v1, e2)", [(3,), (3,), (3,)]),
    ("log(abs(u0)) + sqrt(abs(v1)) * -e2", [(3,), (3,), (1,)]),
    ("v0", [(3,)]),
    ("u0 * u1", [(3,), (3, 1)]),
    ("e0 * e1 * e2", [(2, 2), (2, 1), ()]),
    ("2 * u0 - 1", [(17,)]),
]
WITH_SUMS = [
    ("dot(u0, v1) * u2", [(2, 4), (2, 4), (2, 4)]),
    ("exp(dot(u0, v1)) * e2", [(3,), (3,), (1,)]),
    ("dot(leaky_relu(u0 + v1, 0.2), e2)", [(2, 4), (2, 4), (2, 4)]),
    ("sum_last(u0) * e1", [(4,), (1,)]),
]


@pytest.mark.parametrize("reduce", REDUCES)
@pytest.mark.parametrize(("message", "shapes"), EXPRESSIONS + WITH_SUMS, ids=lambda x: str(x))
def test_expressions(message, shapes, reduce):
    if reduce in ("max", "min") and (message, shapes) in WITH_SUMS[:2] + WITH_SUMS[3:]:
        pytest.skip("a sum inside of a maximum is an error")
    for dtype in (torch.float64, torch.float32):
        graph = random_graph()
        check(graph, message, reduce, operands_for(graph, message, shapes, dtype), dtype)


PRODUCTS = [
    ("u0 * u1 * v2", [(), (), ()]),
    ("u0 * u1 * v2", [(33,), (1,), (1,)]),
    ("v0 * (e1 * u2) * v3", [(2, 8), (2, 1), (2, 8), (2, 8)]),
    ("v0 * v1 * v2 * u3", [(5,), (5,), (5,), (5,)]),  # more factors of a row than have a place
    ("u0 * u1 * e2", [(5,), (1,), (1,)]),
    ("v0 * u1", [(8, 1), (8, 4)]),
    ("u0 * e1", [(8, 2), (8, 1)]),
    ("u0 * e1", [(8, 8), (8, 1)]),
    ("u0 * e1", [(3, 24), (3, 1)]),
]


@pytest.mark.parametrize("reduce", REDUCES)
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize(("message", "shapes"), PRODUCTS, ids=lambda x: str(x))
def test_products(message, shapes, dtype, reduce):
    graph = random_graph(num_edges=60, hub=0.5)
    check(graph, message, reduce, operands_for(graph, message, shapes, dtype), dtype)


def test_a_row_without_edges_is_zero_whatever_its_factor():
    graph = random_graph()
    x, factor = operands_for(graph, "u0 * v1", [(5,), (1,)])
    empty = graph.in_edges[0].diff() == 0
    assert empty.any()
    with torch.no_grad():
        factor[empty] = torch.inf
        assert (spmm(graph, "u0 * v1", "sum", [x, factor])[empty] == 0).all()


@pytest.mark.parametrize("reduce", REDUCES)
@pytest.mark.parametrize("shapes", [((2, 4), (2, 1)), ((2, 4), (4,)), ((1,), (4,)), ((1,), (1,))])
def test_dot_of_broadcast_operands(shapes, reduce):
    graph = random_graph()
    for message in ("dot(u0, v1)", "dot(e0, u1)"):
        operands = operands_for(graph, message, shapes)
        check(graph, message, reduce, operands, torch.float64)


@pytest.mark.parametrize("reduce", REDUCES)
@pytest.mark.parametrize("shapes", [((4,), (1,)), ((2, 4), (2, 1))])
def test_sums_to_which_a_repeated_operand_is_added(shapes, reduce):
    graph = random_graph()
    message = "sum_last(u0 + e1)"
    check(graph, message, reduce, operands_for(graph, message, shapes), torch.float64)


@pytest.mark.parametrize("reduce", REDUCES)
def test_an_operand_under_a_sum_need_not_fit_the_rest(reduce):
    if reduce in ("max", "min"):
        pytest.skip("a sum inside of a maximum is an error")
    graph = random_graph()
    check(
        graph,
        "sum_last(u0) * e1",
        reduce,
        operands_for(graph, "sum_last(u0) * e1", [(4,), (5,)]),
        torch.float64,
    )


@pytest.mark.parametrize("message", ["step(u0)", "sign(u0)", "greater(u0, v1)"])
@pytest.mark.parametrize("reduce", REDUCES)
def test_gradients_of_steps_are_zero(message, reduce):
    graph = random_graph()
    operands = operands_for(graph, message, [(3,)] * (2 if "v1" in message else 1))
    out = spmm(graph, message, reduce, operands)
    for grad in torch.autograd.grad(out.sum(), operands, allow_unused=True):
        assert grad is None or not grad.any()


# ---- gradients ----

GRADCHECKED = [
    ("u0", [(2,)]),
    ("e0", [()]),
    ("u0 * e1", [(2, 2), (2, 1)]),
    ("e0 * v1", [(2,), (2,)]),
    ("u0 + v1", [(2, 1), (1, 2)]),
    ("u0 - e1", [(2,), (1,)]),
    ("u0 / v1", [(2,), (2,)]),
    ("dot(u0, v1)", [(2, 3), (2, 3)]),
    ("exp(u0) * leaky_relu(v1 - e2, 0.2)", [(2,), (2,), (1,)]),
    ("relu(u0) * tanh(v1) + abs(e2)", [(2,), (1,), (2,)]),
    ("maximum(u0, v1) * sigmoid(e2)", [(2,), (2,), ()]),
]


@pytest.mark.parametrize("reduce", REDUCES)
@pytest.mark.parametrize(("message", "shapes"), GRADCHECKED, ids=lambda x: str(x))
def test_gradients_and_their_gradients(message, shapes, reduce):
    graph = random_graph(num_src=3, num_dst=3, num_edges=5)
    operands = operands_for(graph, message, shapes)

    def f(*operands):
        return spmm(graph, message, reduce, list(operands))

    assert torch.autograd.gradcheck(f, operands)
    assert torch.autograd.gradgradcheck(f, operands)


def test_only_wanted_gradients_are_computed():
    graph = random_graph()
    u, e = operands_for(graph, "u0 * e1", [(3,), (3,)])
    for message, operands in (("u0 * e1", [u, e.detach()]), ("u0 * e1", [u.detach(), e])):
        for reduce in REDUCES:
            check_wanted = [x for x in operands if x.requires_grad]
            out = spmm(graph, message, reduce, operands)
            expected = reduced(graph, messages(graph, message, operands), reduce)
            found = torch.autograd.grad(out.sum(), check_wanted)
            wanted = torch.autograd.grad(expected.sum(), check_wanted)
            close(found[0], wanted[0], torch.float64)


def test_no_gradient_is_recorded_without_need():
    graph = random_graph()
    (u,) = operands_for(graph, "u0", [(3,)])
    with torch.no_grad():
        assert not spmm(graph, "u0", "sum", [u]).requires_grad
        assert not spmm(graph, "u0", "max", [u]).requires_grad
    assert not spmm(graph, "u0", "sum", [u.detach()]).requires_grad


def test_out_edges_are_not_needed_without_a_gradient_of_sources():
    graph = random_graph()
    u, e = operands_for(graph, "u0 * e1", [(3,), (3,)])
    out = S.spmm(graph.in_edges, [], "u0 * e1", "sum", [u.detach(), e])
    expected = reduced(graph, messages(graph, "u0 * e1", [u.detach(), e]), "sum")
    (found,) = torch.autograd.grad(out.sum(), e)
    close(found, torch.autograd.grad(expected.sum(), e)[0], torch.float64)
    with pytest.raises(ValueError, match="the gradient of u0 needs out_edges, found none"):
        S.spmm(graph.in_edges, [], "u0", "sum", [u])


def test_large_degrees_do_not_overflow_half():
    n = 70_000  # more than float16 can hold
    graph = random_graph(num_src=1, num_dst=2, num_edges=n, hub=1.0)
    e = torch.ones(n, 1, dtype=torch.float16, requires_grad=True)
    out = spmm(graph, "e0", "mean", [e])
    assert out[0] == 1
    (grad,) = torch.autograd.grad(out, e, torch.full_like(out, 1000))
    close(grad, torch.full_like(grad, 1000 / n, dtype=torch.float64), torch.float16)
    assert (grad > 0).all()


def test_sums_and_gradients_of_small_types_are_rounded_once():
    n = 5000
    graph = random_graph(num_src=1, num_dst=n, num_edges=n, hub=0)
    u = torch.ones(1, 2, dtype=torch.bfloat16, requires_grad=True)
    for reduce in ("sum", "max"):
        degrees = torch.bincount(graph.dst, minlength=n)
        count = n if reduce == "sum" else int((degrees > 0).sum())
        (grad,) = torch.autograd.grad(spmm(graph, "u0", reduce, [u]).sum(), u)
        assert grad[0, 0] == torch.tensor(float(count)).bfloat16()


# ---- maxima and minima ----


@pytest.mark.parametrize("reduce", ["max", "min"])
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_winners_are_the_first_of_equals(dtype, reduce):
    graph = random_graph(num_edges=60)
    for message, shapes in (("u0", [(19,)]), ("u0 * e1", [(4, 3), (4, 1)])):
        operands = [
            torch.randint(-2, 3, x.shape).to(dtype) for x in operands_for(graph, message, shapes)
        ]
        out, winner = S.spmm_extremum(
            graph.in_edges, graph.out_edges, message, reduce, operands, True
        )
        stored = messages(graph, message, operands)
        eids = torch.where(winner < 0, -1, graph.in_edges[2][winner.clamp(min=0)])
        assert winner.dtype == graph.src.dtype
        assert torch.equal(eids, winners(graph, stored, reduce))
        assert torch.equal(out.double(), reduced(graph, stored, reduce))


@pytest.mark.parametrize("reduce", ["max", "min"])
def test_nodes_without_in_edges(reduce):
    graph = random_graph()
    (u,) = operands_for(graph, "u0", [(3,)])
    for zero_empty, empty in ((True, 0.0), (False, -torch.inf if reduce == "max" else torch.inf)):
        out, winner = S.spmm_extremum(
            graph.in_edges, graph.out_edges, "u0", reduce, [u], zero_empty
        )
        expected = reduced(graph, messages(graph, "u0", [u]), reduce, empty)
        close(out, expected, torch.float64)
        assert (winner[-1] == -1).all()
        (grad,) = torch.autograd.grad(out[:-1].sum(), u)
        assert grad.isfinite().all()


@pytest.mark.parametrize("reduce", ["max", "min"])
def test_winners_are_not_made_without_need(reduce):
    graph = random_graph()
    u = operands_for(graph, "u0", [(3,)])[0].detach()
    for message, operands in (("u0", [u]), ("u0 * u1", [u, u])):
        out, winner = S.spmm_extremum(
            graph.in_edges, [], message, reduce, operands, need_winner=False
        )
        assert winner.numel() == 0
        assert torch.equal(out, S.spmm_extremum(graph.in_edges, [], message, reduce, operands)[0])


@pytest.mark.parametrize("message", ["u0", "u0 + e1"])
def test_nan_wins(message):
    graph = random_graph(num_edges=40, hub=0.5)
    operands = [x.detach() for x in operands_for(graph, message, [(5,)] * (1 + ("e1" in message)))]
    operands[0][2, 3] = torch.nan
    stored = messages(graph, message, operands)
    touched = torch.zeros(graph.num_dst, 5).index_add(0, graph.dst, stored.isnan().float()) > 0
    for reduce in REDUCES:
        out = spmm(graph, message, reduce, operands)
        assert torch.equal(out.isnan(), touched), reduce


@pytest.mark.parametrize("width", [1, 5, 16, 70])
@pytest.mark.parametrize("reduce", ["max", "min"])
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_extrema_of_numbers_that_are_not_finite(dtype, reduce, width):
    """Winners too: rows with infinities and NaN go another way than the others."""
    graph = random_graph(num_src=40, num_dst=30, num_edges=600)
    draw = torch.Generator().manual_seed(3)
    x = torch.randn(40, width, generator=draw).to(dtype)
    special = torch.tensor([torch.nan, torch.inf, -torch.inf], dtype=dtype)
    at = torch.randint(0, x.numel(), (max(3, x.numel() // 20),), generator=draw)
    x.view(-1)[at] = special[torch.arange(len(at)) % 3]
    out, winner = S.spmm_extremum(graph.in_edges, graph.out_edges, "u0", reduce, [x], True)
    at = graph.dst[:, None].expand(-1, width)
    expected = torch.zeros(graph.num_dst, width).scatter_reduce(
        0, at, x.float()[graph.src], f"a{reduce}", include_self=False
    )
    torch.testing.assert_close(out.float(), expected, rtol=0, atol=0, equal_nan=True)
    source = graph.in_edges[1][winner.clamp(min=0)]
    won = torch.where(winner < 0, torch.zeros((), dtype=dtype), x.gather(0, source))
    torch.testing.assert_close(won, out, rtol=0, atol=0, equal_nan=True)


# ---- widths ----


@pytest.mark.costly(cases=1)
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_every_width(dtype):
    """Rows are covered by vectors of several widths, the last of which may overlap others."""
    graph = random_graph(num_src=20, num_dst=15, num_edges=80, hub=0.3)
    for width in [*range(1, 131), 200, 255, 257, 270, 300, 520]:
        for message, shapes in (
            ("u0", [(width,)]),
            ("u0 * e1", [(width,), (1,)]),
            ("u0 * e1", [(width,), (width,)]),
            ("u0 * v1", [(width,), (1,)]),
        ):
            operands = [x.detach() for x in operands_for(graph, message, shapes, dtype)]
            stored = messages(graph, message, operands)
            for reduce in REDUCES:
                out = spmm(graph, message, reduce, operands)
                close(out, reduced(graph, stored, reduce), dtype, (message, reduce, shapes))


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_every_number_of_heads(dtype):
    graph = random_graph(num_src=20, num_dst=15, num_edges=80, hub=0.3)
    for heads, inner in itertools.product([*range(1, 18), 33], [1, 2, 4, 6, 8, 12, 16, 20, 32]):
        shapes = [(heads, inner), (heads, 1)]
        operands = [x.detach() for x in operands_for(graph, "u0 * e1", shapes, dtype)]
        out = spmm(graph, "u0 * e1", "sum", operands)
        stored = messages(graph, "u0 * e1", operands)
        close(out, reduced(graph, stored, "sum"), dtype, shapes)


# ---- structure ----


@pytest.mark.parametrize("reduce", REDUCES)
@pytest.mark.parametrize("size", [(0, 0, 0), (3, 0, 0), (0, 3, 0), (3, 4, 0), (1, 1, 1)])
def test_small_and_empty_graphs(size, reduce):
    graph = random_graph(*size)
    for message, shapes in (
        ("u0", [(3,)]),
        ("e0", [()]),
        ("v0", [(2,)]),
        ("u0 * e1", [(2, 3), (2, 1)]),
        ("u0 + v1", [(3,), (1,)]),
        ("dot(u0, v1)", [(2, 3), (2, 3)]),
    ):
        check(graph, message, reduce, operands_for(graph, message, shapes), torch.float64)


@pytest.mark.parametrize("reduce", REDUCES)
def test_features_of_size_zero(reduce):
    graph = random_graph()
    for message, shapes in (
        ("u0", [(0,)]),
        ("u0 * e1", [(3, 0), (3, 1)]),
        ("u0 + v1", [(0,), (1,)]),
        ("dot(u0, v1)", [(0,), (0,)]),
        ("dot(u0, v1)", [(2, 0), (2, 0)]),
    ):
        operands = operands_for(graph, message, shapes)
        check(graph, message, reduce, operands, torch.float64)
        assert not spmm(graph, message, reduce, operands).any()


def test_edge_ids_may_be_left_out():
    graph = random_graph()
    indptr, indices, eids = graph.in_edges
    u, e = operands_for(graph, "u0 * e1", [(3,), (3,)])
    in_order = e[eids]
    for reduce in REDUCES:
        expected = spmm(graph, "u0 * e1", reduce, [u, e])
        found = (
            S.spmm([indptr, indices], [], "u0 * e1", reduce, [u.detach(), in_order])
            if reduce in ("sum", "mean")
            else S.spmm_extremum([indptr, indices], [], "u0 * e1", reduce, [u, in_order], True)[0]
        )
        assert torch.equal(found, expected)
        (grad,) = torch.autograd.grad(found.sum(), in_order)
        close(grad, torch.autograd.grad(expected.sum(), e)[0][eids], torch.float64)


def test_edges_of_any_strides_have_gradients():
    graph = random_graph()
    strided = [torch.stack([x, x.flip(0)], 1)[:, 0] for x in graph.in_edges]
    assert not strided[1].is_contiguous()
    x = operands_for(graph, "u0", [(3,)])[0]
    found, expected = (
        S.spmm_extremum(edges, graph.out_edges, "u0", "max", [x], True)[0]
        for edges in (strided, graph.in_edges)
    )
    assert torch.equal(found, expected)
    grads = [torch.autograd.grad(out.square().sum(), x)[0] for out in (found, expected)]
    assert torch.equal(*grads)


def test_the_power_zero_has_no_gradient():
    graph = random_graph()
    x = operands_for(graph, "u0", [(3,)])[0]
    with torch.no_grad():
        x[0] = 0
    out = S.spmm(graph.in_edges, graph.out_edges, "pow(u0, 0) + u0", "sum", [x])
    assert torch.autograd.grad(out.sum(), x)[0].isfinite().all()


def test_sources_that_are_not_as_many_as_there_are():
    graph = random_graph()
    x = operands_for(graph, "u0", [(3,)])[0].detach()
    for rows in (x[:-1], torch.cat([x, x])):
        with pytest.raises(ValueError, match=r"operand u0 has \d+ rows, but there are 7 source"):
            S.spmm(graph.in_edges, graph.out_edges, "u0", "sum", [rows])


def test_any_strides():
    graph = random_graph()
    wide = torch.rand(4, graph.num_src, dtype=torch.float64).t()
    strided = torch.rand(graph.num_edges, 8, dtype=torch.float64)[:, ::2]
    row = torch.rand(1, 4, dtype=torch.float64).expand(graph.num_dst, 4)
    for message, operands in (("u0 * e1", [wide, strided]), ("u0 - v1", [wide, row])):
        for reduce in REDUCES:
            found = spmm(graph, message, reduce, operands)
            assert torch.equal(
                found, spmm(graph, message, reduce, [x.contiguous() for x in operands])
            )


@pytest.mark.parametrize("reduce", REDUCES)
@pytest.mark.parametrize("message", ["u0", "u0 * e1", "u0 - v1", "dot(u0, v1)"])
def test_results_do_not_depend_on_threads(message, reduce):
    graph = random_graph(300, 200, 40_000, hub=0.6)
    shapes = [(16,)] if message == "u0" else [(16,), (1,)] if "e1" in message else [(16,), (16,)]
    operands = operands_for(graph, message, shapes, torch.float32)

    def run(threads):
        torch.set_num_threads(threads)
        out = spmm(graph, message, reduce, operands)
        return [out, *torch.autograd.grad(out.sum(), operands)]

    threads = torch.get_num_threads()
    try:
        first = run(1)
        for count in (1, 2, 5, 2):
            assert all(torch.equal(x, y) for x, y in zip(run(count), first)), count
    finally:
        torch.set_num_threads(threads)


def test_gradients_of_maxima_do_not_depend_on_threads():
    """Of a graph so large that several threads share the winners."""
    graph = random_graph(300, 5000, 20_000)
    (x,) = operands_for(graph, "u0", [(64,)], torch.float32)
    threads, found = torch.get_num_threads(), []
    try:
        for count in (1, 2, 5):
            torch.set_num_threads(count)
            out = spmm(graph, "u0", "max", [x])
            (grad,) = torch.autograd.grad(out.square().sum(), x, create_graph=True)
            found.append([grad, *torch.autograd.grad(grad.sum(), x)])
    finally:
        torch.set_num_threads(threads)
    for other in found[1:]:
        assert all(torch.equal(a, b) for a, b in zip(found[0], other))


def test_results_on_large_pages():
    """More than 6 MiB, and no multiple of a page."""
    graph = random_graph(50, 30_001, 60_000, hub=0)
    (x,) = operands_for(graph, "u0", [(67,)], torch.float32)
    out = spmm(graph, "u0", "sum", [x])
    assert out.nbytes > 6 * 2**20
    expected = torch.zeros(30_001, 67).index_add(0, graph.dst, x[graph.src])
    torch.testing.assert_close(out, expected)


def test_an_edge_list_of_many_pieces():
    graph = random_graph(300, 200, 40_000, hub=0.6)
    for message, shapes in (
        ("u0", [(16,)]),
        ("u0 * e1", [(4, 8), (4, 1)]),
        ("u0 + v1", [(9,)] * 2),
    ):
        for reduce in REDUCES:
            operands = operands_for(graph, message, shapes)
            check(graph, message, reduce, operands, torch.float64)


# ---- errors ----


def error(kind, text, **changes):
    return pytest.param(kind, text, changes, id=text)


@pytest.mark.parametrize(
    ("kind", "text", "changes"),
    [
        error(ValueError, "edges are \\[indptr, indices\\] or .*, found 1 tensors", edges=[0]),
        error(ValueError, "edges are \\[indptr, indices\\] or .*, found 0 tensors", edges=[]),
        error(TypeError, "indptr, indices and eids are int32 or int64, found Float", cast="float"),
        error(TypeError, "must have one type, found Int and Long", cast="int"),
        error(ValueError, "indptr, indices and eids have 1 dimension, found 2", dims=2),
        error(ValueError, "indptr has num_rows \\+ 1 elements, found 0", indptr=0),
        error(ValueError, "30 indices, but 29 eids", eids=29),
        error(ValueError, "expected a known function at position 0, found", message="sinh(u0)"),
        error(ValueError, 'message "u0" has 1 operands, found 2', message="u0"),
        error(ValueError, 'message "u0 \\* e2" has 3 operands, found 2', message="u0 * e2"),
        error(ValueError, 'message "2" has 0 operands', message="2"),
        error(TypeError, "operands are floating point, found Long", first="long"),
        error(TypeError, "operands must have one type, found Float and Double", first="float"),
        error(ValueError, "as u0 and as v0; pass the tensor twice", message="u0 + v0 * e1"),
        error(ValueError, "operand e1 needs a first dimension of one row", scalar=True),
        error(ValueError, "operand e1 has 29 rows, but there are 30 edges", rows=29),
        error(ValueError, "operand v1 has 30 rows, but there are 6 dest", message="u0 * v1"),
        error(ValueError, "feature shapes \\[4\\] and \\[3\\] do not broadcast", features=3),
    ],
)
@pytest.mark.parametrize("reduce", ["sum", "max"])
@pytest.mark.parametrize("grad", [False, True])
def test_errors(kind, text, changes, reduce, grad):
    graph = random_graph()
    edges = list(graph.in_edges)
    message = changes.get("message", "u0 * e1")
    u, e = torch.rand(7, 4, dtype=torch.float64), torch.rand(30, 4, dtype=torch.float64)
    if "edges" in changes:
        edges = [edges[i] for i in changes["edges"]]
    if "cast" in changes:
        edges[0] = getattr(edges[0], changes["cast"])()
    if "dims" in changes:
        edges[0] = edges[0][None]
    if "indptr" in changes:
        edges[0] = edges[0][:0]
    if "eids" in changes:
        edges[2] = edges[2][: changes["eids"]]
    if "first" in changes:
        u = getattr(u, changes["first"])()
    if "scalar" in changes:
        e = e[0, 0]
    if "rows" in changes:
        e = e[: changes["rows"]]
    if "features" in changes:
        e = e[:, : changes["features"]]
    if grad and u.is_floating_point():
        u.requires_grad_()
    op = S.spmm if reduce == "sum" else S.spmm_extremum
    with pytest.raises(kind, match=text):
        op(edges, graph.out_edges, message, reduce, [u, e])


def test_errors_of_reduce():
    graph = random_graph()
    (u,) = operands_for(graph, "u0", [(3,)])
    with pytest.raises(ValueError, match="reduce is 'sum' or 'mean', found 'max'"):
        S.spmm(graph.in_edges, graph.out_edges, "u0", "max", [u])
    with pytest.raises(ValueError, match="reduce is 'max' or 'min', found 'sum'"):
        S.spmm_extremum(graph.in_edges, graph.out_edges, "u0", "sum", [u])
    with pytest.raises(ValueError, match="max and min take dot and sum_last as the whole message"):
        S.spmm_extremum(graph.in_edges, graph.out_edges, "sum_last(u0) + u1", "max", [u, u])


def test_an_operand_that_is_not_read_is_ignored():
    graph = random_graph()
    u = operands_for(graph, "u0", [(3,)])[0].detach()
    for unread in (torch.tensor(1.0), torch.ones(2, 9), torch.ones(3, dtype=torch.long)):
        assert torch.equal(
            spmm(graph, "u0 + u2", "sum", [u, unread, u]), spmm(graph, "u0 + u1", "sum", [u, u])
        )


def on_meta(graph):
    result = copy.copy(graph)
    result.in_edges = [x.to("meta") for x in graph.in_edges]
    result.out_edges = [x.to("meta") for x in graph.out_edges]
    return result


@pytest.mark.parametrize("reduce", ["sum", "max"])
def test_meta_tensors_give_the_same_shapes_and_errors(reduce):
    graph = random_graph()
    for message, shapes in EXPRESSIONS:
        operands = operands_for(graph, message, shapes)
        found = spmm(on_meta(graph), message, reduce, [x.to("meta") for x in operands])
        expected = spmm(graph, message, reduce, operands)
        assert found.shape == expected.shape
        assert found.dtype == expected.dtype
    in_edges = on_meta(graph).in_edges
    x, y = torch.empty(7, 3, device="meta"), torch.empty(7, 2, device="meta")
    with pytest.raises(ValueError, match="do not broadcast"):
        spmm(on_meta(graph), "u0 * u1", reduce, [x, y])
    with pytest.raises(ValueError, match="is on cpu, the graph on meta"):
        S.spmm(in_edges, [], "e0 * u1", "sum", [torch.empty(30, 3), x])
