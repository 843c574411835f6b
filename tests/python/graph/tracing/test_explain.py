"""What ``explain`` says: which functions are fused, and why the others are not."""

import functools
import random
import re

import numpy as np
import pytest
import torch
import torch.nn.functional as F

import smex.graph as sg
import smex.graph.function as fn
from support.message_functions import ADD, Counter, graph, total

WEIGHT = torch.rand(4, dtype=torch.float64)
PER_EDGE = torch.rand(8, dtype=torch.float64)
TABLE = {"scale": 2.0}


def in_place(edges):
    x = edges.src["h"].clone()
    x += 1
    return {"m": x}


def writes(edges):
    x = edges.src["h"].clone()
    x[:, 0] = 0
    return {"m": x}


def catches(edges):
    try:
        return {"m": edges.src["h"].cumsum(1)}
    except Exception:
        return {"m": edges.src["h"]}


def without_gradient(edges):
    with torch.no_grad():
        return {"m": edges.src["h"] * 2}


def branches(edges):
    return {"m": edges.src["h"] if edges.src["h"] > 0 else edges.dst["h"]}


def loops(edges):
    return {"m": torch.stack([x * 2 for x in edges.src["h"]])}


MESSAGES = [
    (
        lambda e: {"m": torch.cat([e.src["h"], e.dst["h"]], 1)},
        "cat over dimension 1 of other tensors",
    ),
    (lambda e: {"m": e.src["h"] @ WEIGHT.diag()}, "uses the tensor WEIGHT|reads WEIGHT.diag"),
    (lambda e: {"m": e.src["h"] * F.relu(WEIGHT)}, "relu of tensors that are no features"),
    (lambda e: {"m": e.src["h"] * torch.add(WEIGHT, 1, out=WEIGHT)}, "add of tensors that are no"),
    (lambda e: {"m": F.relu(WEIGHT, True) * e.src["h"]}, "relu of tensors that are no features"),
    (lambda e: {"m": e.src["h"] * WEIGHT.add_(1)}, "reads WEIGHT.add_"),
    (lambda e: {"m": e.src["h"] * WEIGHT[0]}, "getitem|getitem.* no fused form|of tensors"),
    (lambda e: {"m": e.src["s"] * WEIGHT[:1].new_ones(8)}, "of tensors|new_ones"),
    (lambda e: {"m": e.src["s"] * PER_EDGE}, "lines up with the edges"),
    (lambda e: {"m": e.src["h"].sub(WEIGHT, alpha=2)}, "alpha times a tensor"),
    (lambda e: {"m": e.src["h"] * TABLE["scale"]}, "uses TABLE, a dict that may change"),
    (
        lambda e: {"m": e.src["h"] * e.data["t"].view(-1, 1) + e.src["h"].mean()},
        "mean without a dim",
    ),
    (lambda e: {"m": e.src["h"] * len(e)}, "calls len"),
    (lambda e: {"m": e.src["h"] * e.batch_size()}, "edges.batch_size is used"),
    (lambda e: {"m": e.src["h"] * torch.rand(8, 1, dtype=torch.float64)}, "calls torch.rand"),
    (lambda e: {"m": e.src["h"] * random.random()}, "calls random.random"),
    (lambda e: {"m": F.dropout(e.src["h"], 0.5)}, "calls F.dropout"),
    (lambda e: {"m": e.src["h"] * np.float64(2)}, "calls np.float64"),
    (lambda e: {"m": e.src["h"].softmax(1)}, "softmax over another dimension"),
    (lambda e: {"m": e.src["h"].sum(0, keepdim=True) + e.src["h"]}, "sum over dimension 0"),
    (lambda e: {"m": e.src["h"][e.data["t"] > 1]}, "selects among edges"),
    (lambda e: {"m": e.src["h"][[0] * 8]}, "selects among edges"),
    (lambda e: {"m": e.src["h"].cumsum(1)}, "the method cumsum has no fused form"),
    (lambda e: {"m": e.src["h"] * True}, "True is not a number"),
    (lambda e: {"m": e.src["h"] / e.src["h"].shape[0]}, r"the size \[0\] is used"),
    (lambda e: {"m": e.src["h"] / e.src["h"].shape.numel()}, "shape.numel is used"),
    (lambda e: {"m": e.src["h"][:1].squeeze(0)}, "selects among edges"),
    (lambda e: {"m": e.src["h"].squeeze() * 2}, "dimension None is not one number"),
    (lambda e: {"m": e.src["h"].squeeze(0) * 2}, "before those of the features"),
    (lambda e: {"m": e.src["h"] * float("inf")}, "inf is not a number"),
    (lambda e: {"m": (e.src["h"] * 2)[:, :2]}, "a view of a computed value"),
    (lambda e: {"m": e.src["h"].float().double()}, "torch.float64 becomes torch.float32"),
    (in_place, r"changes a value in place \(\+=\)|INPLACE"),
    (writes, "item assignment"),
    (catches, "instruction"),
    (without_gradient, "instruction"),
    (branches, "a branch depends on the values"),
    (loops, "instruction|iterated|no fused form"),
    (Counter().counts, "instruction|in place"),
    (Counter().keeps, "self.kept"),
    (Counter().asks, "reads self.scale, which cannot be looked up"),
    (functools.partial(lambda by, e: {"m": e.src["h"] * by}, 2.0), "is a partial, not a Python"),
]


@pytest.mark.parametrize(("message", "reason"), MESSAGES)
def test_messages_that_are_not_fused(message, reason):
    g = graph()
    found = sg.explain(g, message, ADD)
    assert not found.fused and re.search(reason, found.reason), found
    assert "not fused" in repr(found) and "why: " in repr(found)


@pytest.mark.parametrize(
    ("reduce", "reason"),
    [
        (
            lambda n: {"out": n.mailbox["m"].sum(1) / n.mailbox["m"].shape[0]},
            r"the size \[0\] is used",
        ),
        (lambda n: {"out": n.mailbox["m"].sort(1)[0][:, 0]}, "the method sort"),
        (lambda n: {"out": n.mailbox["m"][:, 0]}, "selects among edges or messages"),
        (lambda n: {"out": n.mailbox["m"].prod(1)}, "the method prod"),
        (lambda n: {"out": n.mailbox["m"].sum(1, keepdim=True)}, "sum over dimension 1"),
        (lambda n: {"out": n.mailbox["m"].sum((1, 2))}, "is not one number"),
        (lambda n: {"out": n.mailbox["m"].max(1)[1]}, "does not return a dict of tensors"),
        (lambda n: {"out": n.mailbox["m"]}, "is no sum, mean, max, min of messages"),
        (lambda n: n.mailbox["m"].sum(1), "does not return a dict"),
    ],
)
def test_reductions_that_are_not_fused(reduce, reason):
    found = sg.explain(graph(), fn.copy_u("h", "m"), reduce)
    assert not found.fused and re.search(reason, found.reason), found
    assert found.message_bytes == 8 * 4 * 8


def test_surroundings_in_which_nothing_is_fused():
    g, message = graph(torch.float32), lambda e: {"m": e.src["h"] * 2}
    with torch.autocast("cpu", torch.bfloat16):
        assert "autocast" in sg.explain(g, message, total).reason
    g.ndata["i"] = torch.arange(6)
    found = sg.explain(g, lambda e: {"m": e.src["i"] * 2}, total)
    assert "kernels have no torch.int64" in found.reason
    g.set_n_initializer(lambda shape, dtype, ctx, ids: torch.ones(shape, dtype=dtype), "out")
    assert "initialiser" in sg.explain(g, message, total).reason


def test_ranks_line_up_as_in_torch():
    """In a function [8, 8] * [8] lines the edges up with the features; a built-in never does."""
    g = graph()
    g.edata["square"] = torch.rand(8, 8, dtype=torch.float64)
    message = lambda e: {"m": e.data["square"] * e.data["t"]}  # noqa: E731
    found = sg.explain(g, message, ADD)
    assert not found.fused and "different numbers of dimensions" in found.reason
    g.update_all(message, ADD)
    expected = torch.zeros(6, 8, dtype=torch.float64)
    expected.index_add_(0, g.edges()[1], g.edata["square"] * g.edata["t"])
    torch.testing.assert_close(g.ndata["out"], expected)


def test_dtypes_are_promoted_as_in_torch():
    g = graph(torch.float32)
    g.edata["d"] = torch.rand(8, 4, dtype=torch.float64)
    message = lambda e: {"m": e.src["h"] * e.data["d"]}  # noqa: E731
    assert "dtypes" in sg.explain(g, message, ADD).reason
    g.update_all(message, ADD)
    assert g.ndata["out"].dtype == torch.float64


def test_a_long_formula_is_left_alone():
    def long(edges):
        x = edges.src["h"]
        for _ in range(12):
            x = x + x
        return {"m": x}

    assert "more than 512 terms" in sg.explain(graph(), long, ADD).reason


def test_what_an_explanation_says():
    g = graph()
    found = sg.explain(g, lambda e: {"m": e.src["h"] * e.data["w"]}, total)
    assert found.outputs == [("out", "sum", "u.h * e.w", "u_mul_e")]
    assert found.message_bytes == 8 * 4 * 8 and found.reason is None
    assert "no message is stored" in repr(found) and "smex::spmm, the built-in u_mul_e" in repr(
        found
    )
    line = in_place.__code__.co_firstlineno + 2
    found = sg.explain(g, in_place, ADD)
    assert found.line in (line - 1, line) and f"(in_place, line {found.line})" in repr(found)
    assert "stored (of a size not known in advance) and reduced in one kernel" in repr(found)
