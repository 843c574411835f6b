"""Built-in functions against functions that do the same, and against plain tensors."""

import itertools

import pytest
import torch

import smex.graph as sg
import smex.graph.function as fn
from support.graph_reference import messages, reduced
from support.message_functions import (
    FIELDS,
    KINDS,
    REDUCERS,
    frames_of,
    graph_of,
    reduce_udf,
    set_features,
    small,
    udf_of,
    unfused,
)

OPS = {"add": "+", "sub": "-", "mul": "*", "div": "/", "dot": "dot"}
BINARY = [f"{a}_{op}_{b}" for op in OPS for a, b in itertools.permutations("uve", 2)]


def run(g, etype, message, reduce, leaves):
    """The result and the gradients of a random projection of it."""
    g.update_all(message, reduce, etype=etype)
    out = frames_of(g, etype)[1].pop("out")
    weight = torch.linspace(-1, 2, out.numel(), dtype=out.dtype).view_as(out)
    return [out, *torch.autograd.grad((out * weight).sum(), leaves, allow_unused=True)]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("reduce", REDUCERS)
@pytest.mark.parametrize("name", BINARY)
def test_a_builtin_is_the_function_that_does_the_same(name, reduce, kind):
    g, etype = graph_of(kind)
    leaves = set_features(g, etype)
    left, _, right = name.split("_")
    message = getattr(fn, name)(FIELDS[left], FIELDS[right], "m")
    builtin = run(g, etype, message, getattr(fn, reduce)("m", "out"), leaves)
    by_function = run(g, etype, unfused(udf_of(name)), unfused(reduce_udf(reduce)), leaves)
    for a, b in zip(builtin, by_function):
        torch.testing.assert_close(a, b)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("reduce", REDUCERS)
@pytest.mark.parametrize("copy", ["copy_u", "copy_e", "copy_src", "copy_edge"])
def test_copies(copy, reduce, kind):
    g, etype = graph_of(kind)
    leaves = set_features(g, etype)
    letter = "u" if copy in ("copy_u", "copy_src") else "e"
    message = getattr(fn, copy)(FIELDS[letter], "m")
    out, *_ = run(g, etype, message, getattr(fn, reduce)("m", "out"), leaves)
    src, dst = g.edges(etype=etype)
    sent = messages(letter + "0", src, dst, [leaves[0] if letter == "u" else leaves[2]])
    torch.testing.assert_close(out, reduced(sent, dst, out.shape[0], reduce))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", BINARY)
def test_apply_edges(name, kind):
    g, etype = graph_of(kind)
    leaves = set_features(g, etype)
    left, op, right = name.split("_")
    g.apply_edges(getattr(fn, name)(FIELDS[left], FIELDS[right], "k"), etype=etype)
    edge = frames_of(g, etype)[2]
    operands = [leaves["uve".index(x)] for x in (left, right)]
    text = f"dot({left}0, {right}1)" if op == "dot" else f"{left}0 {OPS[op]} {right}1"
    torch.testing.assert_close(edge["k"], messages(text, *g.edges(etype=etype), operands))
    g.apply_edges(unfused(udf_of(name)), etype=etype)
    torch.testing.assert_close(edge["k"], edge["m"])


def test_names_of_builtins():
    assert repr(fn.u_mul_e("h", "w", "m")) == "u_mul_e('h', 'w', 'm')"
    assert repr(fn.sum("m", "out")) == "sum('m', 'out')"
    assert fn.e_div_v.__name__ == fn.e_div_v("a", "b", "m").name == "e_div_v"
    assert fn.copy_src is fn.copy_u and fn.copy_edge is fn.copy_e
    assert (
        len({n for n in fn.__all__ if ("_" in n and n[0] in "uve") or n in ("copy_u", "copy_e")})
        == 32
    )
    builtin = fn.u_dot_v("a", "b", "m")
    assert (builtin.binary_op, builtin.lhs, builtin.rhs, builtin.out_field) == ("dot", 0, 1, "m")
    assert (builtin.lhs_field, builtin.rhs_field) == ("a", "b")


def test_integers_take_the_plain_way():
    g = small()
    g.ndata["i"] = torch.arange(4)
    g.update_all(fn.copy_u("i", "m"), fn.sum("m", "out"))
    assert g.ndata["out"].tolist() == [2, 2, 1, 0]
    g.update_all(lambda e: {"m": e.src["i"]}, lambda n: {"out": n.mailbox["m"].max(1)[0]})
    assert g.ndata["out"].tolist() == [2, 2, 1, 0]


@pytest.mark.parametrize("dtype", [torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64])
def test_sums_of_integers_are_int64(dtype):
    g = sg.graph(([0, 1], [2, 2]))
    g.ndata["i"] = torch.tensor([100, 100, 0], dtype=dtype)
    for message in (fn.copy_u("i", "m"), lambda e: {"m": e.src["i"]}):
        for reduce in (fn.sum("m", "out"), lambda n: {"out": n.mailbox["m"].sum(1)}):
            g.update_all(message, reduce)
            assert g.ndata["out"].dtype == torch.int64 and g.ndata["out"].tolist() == [0, 0, 200]


def test_broadcasting_lines_features_up_from_the_right():
    g = small()
    g.update_all(fn.u_mul_e("h", "w", "m"), fn.sum("m", "out"))
    assert g.ndata["out"].tolist() == [[16, 20], [12, 21], [4, 6], [0, 0]]
    g.edata["w"] = torch.ones(5, 3, 1)
    g.update_all(fn.u_mul_e("h", "w", "m"), fn.sum("m", "out"))
    assert g.ndata["out"].shape == (4, 3, 2)


def test_names_that_are_no_strings():
    g = small()
    g.ndata[3] = torch.ones(4, 1)
    for reduce in (fn.sum("m", "o"), lambda n: {"o": n.mailbox["m"].sum(1)}):
        g.update_all(fn.copy_u(3, "m"), reduce)
        assert g.ndata["o"].view(-1).tolist() == [1, 3, 1, 0]


# ---- torch.compile ----


def two_steps(g, h, w):
    with g.local_scope():
        g.ndata["h"], g.edata["w"] = h, w
        g.update_all(fn.u_mul_e("h", "w", "m"), fn.sum("m", "h"))
        g.apply_edges(fn.u_dot_v("h", "h", "score"))
        g.edata["a"] = sg.ops.edge_softmax(g, g.edata["score"])
        g.update_all(lambda e: {"m": e.src["h"] * e.data["a"]}, fn.max("m", "out"))
        return g.ndata["out"].square().sum()


def test_a_compiled_step_has_no_graph_break():
    g = small()
    leaves = [torch.rand(4, 3, requires_grad=True), torch.rand(5, 1, requires_grad=True)]
    compiled = torch.compile(two_steps, fullgraph=True, backend="aot_eager")
    out, expected = compiled(g, *leaves), two_steps(g, *leaves)
    torch.testing.assert_close(out, expected)
    for a, b in zip(torch.autograd.grad(out, leaves), torch.autograd.grad(expected, leaves)):
        torch.testing.assert_close(a, b)
