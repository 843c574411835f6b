"""What torch asks of an operator, for all that work on messages: opcheck, compile, memory."""

from __future__ import annotations

import itertools
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch
import torch._dynamo.testing

import smex
from support.kernel_reference import S, operands_for, random_graph

pytestmark = pytest.mark.skipif(
    not smex.show_config().native, reason=f"native library: {smex.show_config().native_reason}"
)

SAMPLES = [
    ("u0", [(3,)]),
    ("u0 * e1", [(2, 4), (2, 1)]),
    ("u0 + v1", [(3,), (1,)]),
    ("dot(u0, v1)", [(2, 4), (2, 4)]),
    ("exp(u0) * tanh(v1 - e2)", [(3,), (3,), (1,)]),
]


def calls(graph, dtype=torch.float32):
    """``(name, operator, arguments)`` of every operator."""
    edges = (graph.in_edges, graph.out_edges)
    for message, shapes in SAMPLES:
        operands = operands_for(graph, message, shapes, dtype)
        for reduce in ("sum", "mean"):
            yield f"spmm {message} {reduce}", S.spmm, (*edges, message, reduce, operands)
        yield f"max {message}", S.spmm_extremum, (*edges, message, "max", operands, True)
        yield f"sddmm {message}", S.sddmm, (*edges, message, operands)
    x = operands_for(graph, "e0", [(4,)], dtype)[0]
    yield "edge_softmax", S.edge_softmax, (graph.in_edges, x)
    yield "edge_softmax_backward", S.edge_softmax_backward, (graph.in_edges, x, x.detach())


CALLS = {name: (op, arguments) for name, op, arguments in calls(random_graph())}


@pytest.mark.parametrize("name", CALLS)
def test_opcheck(name):
    op, arguments = CALLS[name]
    torch.library.opcheck(op.default, arguments)


@pytest.mark.parametrize(
    "name", ["spmm u0 * e1 sum", "max u0", "sddmm u0 + v1", "edge_softmax"], ids=str
)
def test_a_tangent_is_refused_and_not_lost(name):
    op, arguments = CALLS[name]

    def with_tangents(x):
        if isinstance(x, list) and x[0].is_floating_point():
            return [with_tangents(y) for y in x]
        floats = isinstance(x, torch.Tensor) and x.is_floating_point()
        return torch.autograd.forward_ad.make_dual(x.detach(), torch.ones_like(x)) if floats else x

    refused = pytest.raises(NotImplementedError, match=r"smex::\w+: an operand has a tangent")
    with torch.autograd.forward_ad.dual_level(), refused:
        op(*map(with_tangents, arguments))


# In a process of its own: what is not checked ends the process.
@pytest.mark.parametrize("op", ["spmm", "spmm_extremum", "sddmm", "edge_softmax"])
def test_too_few_edge_tensors(op):
    code = f"""
import torch, smex
for device in ("cpu", "meta"):
    x = torch.ones(2, 3, device=device)
    for count in (0, 1):
        edges = [torch.zeros(3, dtype=torch.long, device=device)] * count
        rest = {{"spmm": ([], "e0", "sum", [x]), "spmm_extremum": ([], "e0", "max", [x]),
                "sddmm": ([], "e0", [x]), "edge_softmax": (x,)}}["{op}"]
        for lower in (False, True):
            try:
                with torch.autocast("cpu", enabled=lower):
                    torch.ops.smex.{op}(edges, *rest)
            except ValueError as error:
                assert "[indptr, indices]" in str(error), error
            else:
                raise AssertionError("no error")
"""
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stderr[-2000:] or done.returncode


# ---- torch.compile ----


def layer(graph_edges, u, v, e, w):
    """All operators, one after the other."""
    in_edges, out_edges = graph_edges
    score = S.sddmm(in_edges, out_edges, "dot(u0, v1) + e2", [u, v, e])
    weight = S.edge_softmax(in_edges, score)
    total = S.spmm(in_edges, out_edges, "u0 * e1", "sum", [u, weight]) @ w
    mean = S.spmm(in_edges, out_edges, "leaky_relu(u0 - v1, 0.1) * e2", "mean", [u, total, weight])
    largest, _ = S.spmm_extremum(in_edges, out_edges, "u0 + v1", "max", [u, mean], True)
    return largest + mean


def layer_inputs(graph, features=8):
    u, v, e = operands_for(graph, "u0 + v1 + e2", [(features,), (features,), (1,)], torch.float32)
    w = torch.eye(features).requires_grad_()
    return (graph.in_edges, graph.out_edges), u, v, e, w


def assert_same_as_eager(compiled, graph, features=8):
    inputs = layer_inputs(graph, features)
    found, expected = compiled(*inputs), layer(*inputs)
    torch.testing.assert_close(found, expected, rtol=1e-5, atol=1e-5)
    grad = torch.linspace(-1, 1, expected.numel()).reshape(expected.shape)
    for x, y in zip(
        torch.autograd.grad(found, inputs[1:], grad),
        torch.autograd.grad(expected, inputs[1:], grad),
    ):
        torch.testing.assert_close(x, y, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("backend", ["aot_eager", "inductor"])
def test_compiles_without_a_graph_break(backend):
    torch._dynamo.reset()
    compiled = torch.compile(layer, fullgraph=True, backend=backend)
    assert_same_as_eager(compiled, random_graph())


def test_one_compiled_program_for_graphs_of_all_sizes():
    torch._dynamo.reset()
    counter = torch._dynamo.testing.CompileCounterWithBackend("aot_eager")
    compiled = torch.compile(layer, fullgraph=True, backend=counter, dynamic=True)
    for sizes in ((11, 6, 30), (9, 5, 45), (20, 30, 200)):
        assert_same_as_eager(compiled, random_graph(*sizes))
    assert counter.frame_count == 1


def test_features_that_change_size_compile_too():
    torch._dynamo.reset()
    compiled = torch.compile(layer, fullgraph=True, backend="aot_eager", dynamic=True)
    for features in (8, 5, 1):
        assert_same_as_eager(compiled, random_graph(), features)


# ---- threads ----


def test_python_threads_do_not_disturb_each_other():
    graph = random_graph(200, 150, 20_000, hub=0.5)
    inputs = layer_inputs(graph)

    def run(_):
        out = layer(*inputs)
        return [out, *torch.autograd.grad(out.sum(), inputs[1:])]

    expected = run(0)
    with ThreadPoolExecutor(4) as pool:
        for found in pool.map(run, range(16)):
            assert all(torch.equal(x, y) for x, y in zip(found, expected))


def test_new_messages_from_many_threads():
    graph = random_graph()
    u = operands_for(graph, "u0", [(3,)])[0].detach()

    def run(i):
        return S.spmm(graph.in_edges, [], f"u0 * {i}", "sum", [u])

    expected = run(1)
    with ThreadPoolExecutor(8) as pool:
        for i, found in enumerate(pool.map(run, range(6000))):  # more than are remembered
            if i % 97 == 0:
                torch.testing.assert_close(found, expected * i)


# ---- memory ----


def largest_allocation(f):
    """Bytes of the largest tensor that ``f`` makes."""
    with torch.autograd.profiler.profile(profile_memory=True, use_kineto=True) as profile:
        f()
    sizes = [e.nbytes() for e in profile.kineto_results.events() if e.name() == "[memory]"]
    assert sizes, "the profiler reports no memory"
    return max(sizes)


def test_the_measure_of_memory_sees_temporaries():
    x = torch.ones(1000)
    assert largest_allocation(lambda: (x[:, None] * torch.ones(50)).sum()) >= 1000 * 50 * 4


LEAN = [
    ("u0", [(64,)], ["sum", "mean", "max", "min"]),
    ("u0 * e1", [(64,), (1,)], ["sum", "mean", "max"]),
    ("u0 * e1", [(8, 8), (8, 1)], ["sum"]),
    ("u0 + v1", [(64,), (64,)], ["sum", "max"]),
    ("exp(u0) * leaky_relu(v1 - e2, 0.2)", [(64,), (64,), (1,)], ["sum", "mean", "max"]),
    ("dot(u0, v1)", [(8, 8), (8, 8)], ["sddmm"]),
    ("dot(leaky_relu(u0 + v1, 0.2), u2)", [(8, 8), (8, 8), (8, 8)], ["sddmm"]),
]


@pytest.mark.parametrize(
    ("message", "shapes", "reduce"),
    [(m, s, r) for m, s, reduces in LEAN for r in reduces],
    ids=lambda x: str(x),
)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
def test_no_message_is_stored(message, shapes, reduce, dtype):
    graph = random_graph(300, 200, 30_000, hub=0.2)
    operands = operands_for(graph, message, shapes, dtype)
    edges = (graph.in_edges, graph.out_edges)
    name = "max" if reduce == "min" else reduce

    def run():
        if name == "sddmm":
            out = S.sddmm(*edges, message, operands)
        elif name == "max":
            out, _ = S.spmm_extremum(*edges, message, reduce, operands, True)
        else:
            out = S.spmm(*edges, message, reduce, operands)
        torch.autograd.grad(out, operands, torch.ones_like(out))

    per_edge = max(1, *(x[0].numel() for x in operands if x.shape[0] == graph.num_edges), 8)
    found = largest_allocation(run)
    messages_bytes = graph.num_edges * 64 * operands[0].element_size()
    assert found < messages_bytes / 2, (found, messages_bytes)
    assert found <= graph.num_edges * per_edge * 8


@pytest.mark.parametrize(("heads", "dtype"), itertools.product([1, 8], [torch.float32, torch.half]))
def test_edge_softmax_stores_no_more_than_its_result(heads, dtype):
    graph = random_graph(300, 200, 30_000, hub=0.2)
    (x,) = operands_for(graph, "e0", [(heads,)], dtype)

    def run():
        out = S.edge_softmax(graph.in_edges, x)
        torch.autograd.grad(out, x, torch.ones_like(out))

    assert largest_allocation(run) <= x.nbytes + 64
