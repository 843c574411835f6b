"""Fused attention against the same steps one by one, in values, gradients and memory."""

import os
import subprocess
import sys

import pytest
import torch
import torch.nn.functional as F

import smex
import smex.graph as sg


def graph_with_hub(num_src=40, num_dst=30, num_edges=5000, idtype=torch.int64):
    src = torch.randint(0, num_src, (num_edges,), dtype=idtype)
    dst = torch.randint(0, num_dst - 3, (num_edges,), dtype=idtype)  # the last get nothing
    dst[: num_edges // 2] = 4
    return sg.heterograph(
        {("a", "r", "b"): (src, dst)}, num_nodes_dict={"a": num_src, "b": num_dst}
    )


def dense(g, score, value):
    """Softmax of `score` [E, heads] over in-edges, times the sources' values."""
    src, dst = (x.long() for x in g.edges())
    num = g.num_dst_nodes()
    at = dst[:, None].expand_as(score)
    largest = torch.full((num, score.shape[1]), -torch.inf, dtype=score.dtype)
    largest = largest.scatter_reduce(0, at, score.detach(), "amax")
    power = (score - largest[dst]).exp()
    sums = torch.zeros(num, score.shape[1], dtype=score.dtype).scatter_add(0, at, power)
    message = (power / sums[dst])[:, :, None] * value[src]
    out = torch.zeros(num, *value.shape[1:], dtype=value.dtype)
    return out.index_add(0, dst, message)


def gat_dense(g, left, right, value, slope=0.2):
    src, dst = (x.long() for x in g.edges())
    return dense(g, F.leaky_relu(left[src] + right[dst], slope), value)


def operands(g, heads, features, dtype=torch.double):
    shapes = [(g.num_src_nodes(), heads), (g.num_dst_nodes(), heads)]
    shapes.append((g.num_src_nodes(), heads, features))
    return [torch.randn(shape, dtype=dtype).requires_grad_() for shape in shapes]


@pytest.mark.parametrize("idtype", [torch.int32, torch.int64])
@pytest.mark.parametrize(
    ("heads", "features"),
    [(1, 1), (8, 8), (8, 2), (3, 5), (1, 64), (2, 16), (5, 4), (17, 2), (16, 1), (4, 33)],
)
def test_gat_attention_equals_the_steps(heads, features, idtype):
    g = graph_with_hub(idtype=idtype)
    inputs = operands(g, heads, features)
    found, expected = sg.ops.gat_attention(g, *inputs), gat_dense(g, *inputs)
    torch.testing.assert_close(found, expected)
    grad = torch.randn_like(found)
    for a, b in zip(
        torch.autograd.grad(found, inputs, grad), torch.autograd.grad(expected, inputs, grad)
    ):
        torch.testing.assert_close(a, b)


@pytest.mark.parametrize(
    ("dtype", "tolerance"), [(torch.float32, 1e-4), (torch.bfloat16, 0.04), (torch.float16, 0.005)]
)
def test_gat_attention_in_other_types(dtype, tolerance):
    g = graph_with_hub()
    inputs = [x.detach().to(dtype).requires_grad_() for x in operands(g, 4, 16)]
    wide = [x.detach().double().requires_grad_() for x in inputs]
    found, expected = sg.ops.gat_attention(g, *inputs), gat_dense(g, *wide)
    assert found.dtype == dtype
    torch.testing.assert_close(found.double(), expected, rtol=tolerance, atol=tolerance)
    found.sum().backward()
    expected.sum().backward()
    for a, b in zip(inputs, wide):
        size = b.grad.abs().max().item()
        torch.testing.assert_close(a.grad.double(), b.grad, rtol=tolerance, atol=tolerance * size)


def test_gat_attention_gradgradcheck():
    g = graph_with_hub(6, 5, 20)
    inputs = operands(g, 2, 3)
    assert torch.autograd.gradcheck(lambda *x: sg.ops.gat_attention(g, *x), inputs)
    assert torch.autograd.gradgradcheck(lambda *x: sg.ops.gat_attention(g, *x), inputs)


def test_large_scores_do_not_overflow():
    g = graph_with_hub()
    left, right, value = operands(g, 2, 4, torch.float32)
    found = sg.ops.gat_attention(g, left * 1e4, right * 1e4, value)
    assert found.isfinite().all()


def test_gat_attention_does_not_depend_on_threads():
    g = graph_with_hub(num_edges=60000)
    inputs = operands(g, 8, 8, torch.float32)
    before = torch.get_num_threads()
    results = []
    try:
        for threads in (1, 2, 5):
            torch.set_num_threads(threads)
            results.append(sg.ops.gat_attention(g, *inputs))
            again = sg.ops.gat_attention(g, *inputs)
            grads = torch.autograd.grad(again.sum(), inputs)
            twice = torch.autograd.grad(sg.ops.gat_attention(g, *inputs).sum(), inputs)
            assert all(torch.equal(a, b) for a, b in zip(grads, twice))
    finally:
        torch.set_num_threads(before)
    assert torch.equal(results[0], results[1]) and torch.equal(results[0], results[2])


def test_gat_attention_in_half_the_precision_with_narrow_heads():
    g = graph_with_hub()
    inputs = [x.detach().bfloat16().requires_grad_() for x in operands(g, 8, 2)]
    wide = [x.detach().double().requires_grad_() for x in inputs]
    found, expected = sg.ops.gat_attention(g, *inputs), gat_dense(g, *wide)
    torch.testing.assert_close(found.double(), expected, rtol=0.04, atol=0.04)


@pytest.mark.parametrize("num_edges", [0, 1])
def test_gat_attention_of_few_edges(num_edges):
    g = sg.graph((torch.zeros(num_edges, dtype=torch.long),) * 2, num_nodes=3)
    inputs = operands(g, 2, 4)
    out = sg.ops.gat_attention(g, *inputs)
    expected = torch.zeros(3, 2, 4, dtype=torch.double)
    expected[:num_edges] = inputs[2][:num_edges]
    torch.testing.assert_close(out, expected)
    out.sum().backward()


def test_gat_attention_passes_opcheck():
    g = graph_with_hub(6, 5, 20).relation()
    torch.library.opcheck(
        torch.ops.smex.gat_attention,
        (g.in_edges(), g.out_edges(), torch.randn(6, 2, requires_grad=True), torch.randn(5, 2, requires_grad=True),
         torch.randn(6, 2, 3, requires_grad=True), 0.2),
    )  # fmt: skip


def test_gat_attention_allocates_nothing_per_edge_and_feature():
    g = graph_with_hub(2000, 2000, 40000)
    inputs = operands(g, 4, 16, torch.float32)
    g.relation().in_edges(), g.relation().out_edges()
    per_edge = 40000 * 4 * 4  # bytes of one float32 for each edge and head
    with torch.profiler.profile(profile_memory=True) as profile:
        sg.ops.gat_attention(g, *inputs).sum().backward()
    sizes = [event.self_cpu_memory_usage for event in profile.events()]
    assert 0 < max(sizes) < per_edge  # the values take less


def test_gatv2_attention_equals_the_steps():
    g = graph_with_hub()
    left, right = (torch.randn(n, 3, 5, dtype=torch.double).requires_grad_() for n in (40, 30))
    attention = torch.randn(1, 3, 5, dtype=torch.double).requires_grad_()
    src, dst = g.edges()
    score = (F.leaky_relu(left[src] + right[dst], 0.2) * attention).sum(-1)
    expected, inputs = dense(g, score, left), [left, right, attention]
    found = sg.ops.gatv2_attention(g, *inputs)
    torch.testing.assert_close(found, expected)
    torch.testing.assert_close(sg.ops.gatv2_attention(g, left, right, attention[0]), expected)
    grad = torch.randn_like(found)
    for a, b in zip(
        torch.autograd.grad(found, inputs, grad), torch.autograd.grad(expected, inputs, grad)
    ):
        torch.testing.assert_close(a, b)


@pytest.mark.parametrize("scale", [None, 0.7])
def test_dot_attention_equals_the_steps(scale):
    g = graph_with_hub()
    shapes = [(30, 3, 5), (40, 3, 5), (40, 3, 7)]
    inputs = [torch.randn(shape, dtype=torch.double).requires_grad_() for shape in shapes]
    query, key, value = inputs
    src, dst = g.edges()
    score = (query[dst] * key[src]).sum(-1) * (5**-0.5 if scale is None else scale)
    expected, found = dense(g, score, value), sg.ops.dot_attention(g, *inputs, scale=scale)
    torch.testing.assert_close(found, expected)
    grad = torch.randn_like(found)
    for a, b in zip(
        torch.autograd.grad(found, inputs, grad), torch.autograd.grad(expected, inputs, grad)
    ):
        torch.testing.assert_close(a, b)


ATTENTIONS = {
    "gatv2": lambda g, *x: sg.ops.gatv2_attention(g, *x),
    "dot": lambda g, *x: sg.ops.dot_attention(g, *x),
}


def attention_inputs(name, g, heads, features, dtype=torch.double):
    src, dst = g.num_src_nodes(), g.num_dst_nodes()
    rows = [src, dst, 1] if name == "gatv2" else [dst, src, src]
    return [torch.randn(n, heads, features, dtype=dtype).requires_grad_() for n in rows]


def stepwise(name, g, inputs):
    src, dst = (x.long() for x in g.edges())
    if name == "gatv2":
        left, right, weight = inputs
        return dense(g, (F.leaky_relu(left[src] + right[dst], 0.2) * weight).sum(-1), left)
    query, key, value = inputs
    return dense(g, (query[dst] * key[src]).sum(-1) * query.shape[-1] ** -0.5, value)


@pytest.mark.parametrize("idtype", [torch.int32, torch.int64])
@pytest.mark.parametrize(("heads", "features"), [(1, 1), (8, 8), (4, 16), (3, 5), (1, 70)])
@pytest.mark.parametrize("name", ATTENTIONS)
def test_attention_by_a_formula(name, heads, features, idtype):
    """With a hub whose row many pieces share, and nodes without in-edges."""
    g = graph_with_hub(num_edges=20000, idtype=idtype)
    inputs = attention_inputs(name, g, heads, features)
    found, expected = ATTENTIONS[name](g, *inputs), stepwise(name, g, inputs)
    torch.testing.assert_close(found, expected)
    grad = torch.randn_like(found)
    for a, b in zip(
        torch.autograd.grad(found, inputs, grad), torch.autograd.grad(expected, inputs, grad)
    ):
        torch.testing.assert_close(a, b)


@pytest.mark.parametrize(
    ("dtype", "tolerance"), [(torch.float32, 1e-4), (torch.bfloat16, 0.04), (torch.float16, 0.006)]
)
@pytest.mark.parametrize("name", ATTENTIONS)
def test_attention_by_a_formula_in_other_types(name, dtype, tolerance):
    g = graph_with_hub()
    inputs = [x.detach().to(dtype) for x in attention_inputs(name, g, 4, 8)]
    expected = stepwise(name, g, [x.double() for x in inputs])
    found = ATTENTIONS[name](g, *inputs)
    assert found.dtype == dtype
    torch.testing.assert_close(found.double(), expected, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("name", ATTENTIONS)
def test_attention_by_a_formula_gradgradcheck(name):
    g = graph_with_hub(6, 5, 20)
    inputs = attention_inputs(name, g, 2, 3)
    assert torch.autograd.gradcheck(lambda *x: ATTENTIONS[name](g, *x), inputs)
    assert torch.autograd.gradgradcheck(lambda *x: ATTENTIONS[name](g, *x), inputs)


@pytest.mark.parametrize("name", ["gat", *ATTENTIONS])
def test_gradients_of_operands_made_of_each_other_can_be_differentiated(name):
    """With create_graph they are what they are without it."""
    g = graph_with_hub(30, 30, 200)
    x = torch.randn(30, 3, 5, dtype=torch.double, requires_grad=True)
    weight = torch.randn(1, 3, 5, dtype=torch.double, requires_grad=True)

    def attend():
        if name == "gat":
            return sg.ops.gat_attention(g, (x * weight).sum(-1), x.mean(-1), x)
        return ATTENTIONS[name](g, x, x.sin(), weight if name == "gatv2" else x)

    inputs = [x] if name == "dot" else [x, weight]
    plain = torch.autograd.grad(attend().square().sum(), inputs)
    again = torch.autograd.grad(attend().square().sum(), inputs, create_graph=True)
    for a, b in zip(plain, again):
        torch.testing.assert_close(a, b)


@pytest.mark.costly(cases=1)
@pytest.mark.parametrize("isa", ["default", "avx2"])
def test_attention_for_narrower_instruction_sets(isa):
    """In a process of its own: the choice is made once."""
    checks = [
        "test_gat_attention_equals_the_steps",
        "test_gat_attention_in_other_types",
        "test_attention_by_a_formula",
        "test_attention_by_a_formula_in_other_types",
    ]
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"]
    command += [f"{__file__}::{check}" for check in checks]
    environment = {**os.environ, "SMEX_CPU_CAPABILITY": isa}
    run = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stdout[-3000:]
    assert "passed" in run.stdout and "skipped" not in run.stdout


@pytest.mark.parametrize("wanted", [0, 1, 2])
@pytest.mark.parametrize("name", ATTENTIONS)
def test_one_gradient_of_attention_by_a_formula(name, wanted):
    g = graph_with_hub()
    inputs = [x.detach() for x in attention_inputs(name, g, 2, 3)]
    inputs[wanted].requires_grad_()
    (found,) = torch.autograd.grad(ATTENTIONS[name](g, *inputs).sum(), inputs[wanted])
    (expected,) = torch.autograd.grad(stepwise(name, g, inputs).sum(), inputs[wanted])
    torch.testing.assert_close(found, expected)


@pytest.mark.parametrize("name", ATTENTIONS)
def test_attention_by_a_formula_does_not_depend_on_threads(name):
    g = graph_with_hub(num_edges=60000)
    inputs = attention_inputs(name, g, 8, 8, torch.float32)
    before, results = torch.get_num_threads(), []
    try:
        for threads in (1, 2, 5):
            torch.set_num_threads(threads)
            out = ATTENTIONS[name](g, *inputs)
            results.append([out, *torch.autograd.grad(out.sum(), inputs)])
    finally:
        torch.set_num_threads(before)
    for other in results[1:]:
        assert all(torch.equal(a, b) for a, b in zip(results[0], other))


@pytest.mark.parametrize("name", ATTENTIONS)
def test_the_forward_pass_of_attention_by_a_formula_stores_nothing_per_edge(name):
    g = graph_with_hub(500, 500, 60000)
    inputs = attention_inputs(name, g, 8, 4, torch.float32)
    g.relation().in_edges(), g.relation().out_edges()
    with torch.profiler.profile(profile_memory=True) as profile:
        out = ATTENTIONS[name](g, *inputs)
    assert out.requires_grad
    sizes = [event.self_cpu_memory_usage for event in profile.events()]
    assert 0 < max(sizes) < 60000 * 8 * 4  # bytes of a float32 for each edge and head


@pytest.mark.parametrize("name", ATTENTIONS)
def test_attention_by_a_formula_compiles_without_a_graph_break(name):
    g = graph_with_hub(6, 5, 20)
    g.relation().in_edges(), g.relation().out_edges()
    inputs = attention_inputs(name, g, 2, 3)
    compiled = torch.compile(
        lambda *x: ATTENTIONS[name](g, *x), fullgraph=True, backend="aot_eager"
    )
    found, expected = compiled(*inputs), ATTENTIONS[name](g, *inputs)
    torch.testing.assert_close(found, expected)
    for a, b in zip(
        torch.autograd.grad(found.sum(), inputs), torch.autograd.grad(expected.sum(), inputs)
    ):
        torch.testing.assert_close(a, b)


def test_attention_by_a_formula_passes_opcheck():
    g = graph_with_hub(6, 5, 20)
    query, key, value = attention_inputs("dot", g, 2, 3)
    edges = (g.relation().in_edges(), g.relation().out_edges())
    arguments = (*edges, "dot(u0, v1)", [key, query], value)
    torch.library.opcheck(torch.ops.smex.attention.default, arguments)


def test_errors_of_attention_by_a_formula():
    g = graph_with_hub()
    query, key, value = attention_inputs("dot", g, 2, 3)
    with pytest.raises(ValueError, match=r"smex::attention: expected scores of shape \[1\]"):
        sg.ops.dot_attention(g, query, key, value[:, :1])
    with pytest.raises(ValueError, match="dot_attention: expected values of 40 source nodes"):
        sg.ops.dot_attention(g, query, key, value[:7])
    with pytest.raises(ValueError, match=r"expected values \[sources, heads, features\]"):
        sg.ops.dot_attention(g, query, key, value[..., 0])
    with pytest.raises(TypeError, match="operands and values of one type"):
        sg.ops.dot_attention(g, query, key, value.float())


def test_errors():
    g = graph_with_hub()
    left, right, value = operands(g, 2, 4)
    with pytest.raises(smex.SmexValueError, match="expected values of 40 source nodes"):
        sg.ops.gat_attention(g, left, right, value[:7])
    with pytest.raises(ValueError, match=r"expected right scores \[30, 2\]"):
        sg.ops.gat_attention(g, left, left, value)
    with pytest.raises(ValueError, match=r"expected left scores \[sources, heads\]"):
        sg.ops.gat_attention(g, left[:, :1], right, value)
    with pytest.raises(ValueError, match=r"expected values \[sources, heads, features\]"):
        sg.ops.gat_attention(g, left, right, value[:, 0])
    with pytest.raises(TypeError, match="one floating-point type"):
        sg.ops.gat_attention(g, left.float(), right, value)


# ---- the calls of a divided graph, and those of any device ----


@pytest.mark.parametrize("kernels", ["CPU", "CompositeExplicitAutograd"])  # the latter is a GPU's
@pytest.mark.parametrize("idtype", [torch.int32, torch.int64])
@pytest.mark.parametrize(("heads", "features"), [(1, 1), (8, 8), (3, 5), (1, 64), (17, 2)])
def test_gradients_of_graph_attention_by_rows(heads, features, idtype, kernels):
    g = graph_with_hub(idtype=idtype)
    inputs = operands(g, heads, features)
    relation = g.relation()
    in_edges, out_edges = relation.in_edges(), relation.out_edges()
    expected = gat_dense(g, *inputs)
    grad = torch.randn_like(expected)
    gradients = torch.autograd.grad(expected, inputs, grad)

    def call(name, *args):
        op = getattr(torch.ops.smex, name).default
        return op._op_dk(getattr(torch._C.DispatchKey, kernels), *args)

    left, right, value = (x.detach() for x in inputs)
    out, log_sum = call("gat_attention", in_edges, out_edges, left, right, value, 0.2)
    torch.testing.assert_close(out, expected.detach())
    change = (out * grad).sum(-1)
    numbers = (left, right, value, log_sum, change, grad, 0.2)
    of_left, of_value = call("gat_gradient_by_source", out_edges, *numbers)
    of_right = call("gat_gradient_by_destination", in_edges, *numbers)
    for found, wanted in zip((of_left, of_right, of_value), gradients):
        torch.testing.assert_close(found, wanted)
    both = (in_edges, out_edges, left, right, value, out, log_sum, grad, 0.2)
    for found, wanted in zip(call("gat_attention_backward", *both), gradients):
        torch.testing.assert_close(found, wanted)


def test_gradients_by_rows_do_not_depend_on_threads():
    g = graph_with_hub()
    left, right, value = (x.detach() for x in operands(g, 4, 8, torch.float32))
    relation = g.relation()
    out, log_sum = torch.ops.smex.gat_attention(relation.in_edges(), [], left, right, value, 0.2)
    numbers = (left, right, value, log_sum, out.sum(-1), torch.ones_like(out), 0.2)
    before, found = torch.get_num_threads(), []
    try:
        for threads in (1, 2):
            torch.set_num_threads(threads)
            by_source = torch.ops.smex.gat_gradient_by_source(relation.out_edges(), *numbers)
            by_row = torch.ops.smex.gat_gradient_by_destination(relation.in_edges(), *numbers)
            found.append((*by_source, by_row))
    finally:
        torch.set_num_threads(before)
    for one, two in zip(*found):
        assert torch.equal(one, two)


def test_gradients_by_rows_refuse_other_shapes():
    g = graph_with_hub()
    left, right, value = (x.detach() for x in operands(g, 2, 3))
    edges = g.relation().out_edges()
    grad = torch.zeros(g.num_dst_nodes(), 2, 3, dtype=torch.double)
    call = torch.ops.smex.gat_gradient_by_source
    with pytest.raises(ValueError, match=r"expected numbers \[destinations, heads\]"):
        call(edges, left, right, value, right[:-1], right, grad, 0.2)
    with pytest.raises(ValueError, match=r"expected left scores \[sources, heads\]"):
        call(edges, left[:, :1], right, value, right, right, grad, 0.2)
    with pytest.raises(ValueError, match="expected gradients of the values' heads and features"):
        call(edges, left, right, value, right, right, grad[..., :1], 0.2)
    with pytest.raises(ValueError, match="expected 40 rows, found 39"):
        call(edges, left[:-1], right, value[:-1], right, right, grad, 0.2)
