"""Users' functions as kernels: the same results, and never a function that could notice."""

import functools
import math
import random
import re
from types import SimpleNamespace

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import nn

import smex
import smex.graph as sg
import smex.graph.function as fn

SCALE = 2.0


def graph(dtype=torch.float64):
    """Features h, k [6, 4], s [6] of nodes; w [8, 1], z [8, 4], t [8] of edges."""
    g = sg.graph(([0, 1, 2, 2, 0, 5, 4, 1], [1, 2, 1, 0, 1, 3, 3, 1]), num_nodes=6)
    for data, columns in (
        (g.ndata, {"h": (6, 4), "k": (6, 4), "s": (6,), "heads": (6, 2, 3)}),
        (g.edata, {"w": (8, 1), "z": (8, 4), "t": (8,), "a": (8, 2, 1), "flat": (8, 6)}),
    ):
        for name, shape in columns.items():
            data[name] = (torch.rand(shape, dtype=dtype) + 0.5).requires_grad_()
    return g


def unfused(function):
    """The same function, which nothing can fuse."""
    if isinstance(function, fn.BuiltinFunction):
        return function

    def wrapper(batch):
        print(end="")
        return function(batch)

    return wrapper


def run(g, message, reduce):
    """Results, and gradients of a projection of each."""
    before = set(g.ndata)
    g.update_all(message, reduce)
    out = {name: g.ndata.pop(name) for name in set(g.ndata) - before}
    leaves = [*g.ndata.values(), *g.edata.values()]
    grads = {}
    for name, x in out.items():
        weight = torch.linspace(-1, 2, x.numel(), dtype=x.dtype).view_as(x)
        grads[name] = torch.autograd.grad(
            (x * weight).sum(), leaves, allow_unused=True, retain_graph=True
        )
    return out, grads


def assert_fused(message, reduce, *texts):
    g = graph()
    explanation = sg.explain(g, message, reduce)
    assert explanation.fused, explanation
    for text in texts:
        assert text in repr(explanation)
    out, grads = run(g, message, reduce)
    expected, expected_grads = run(g, unfused(message), unfused(reduce))
    assert out.keys() == expected.keys() and out
    for name in out:
        torch.testing.assert_close(out[name], expected[name])
        for a, b in zip(grads[name], expected_grads[name]):
            assert_same_gradient(a, b)


def assert_same_gradient(a, b):
    """No gradient is as good as one of zeros."""
    if a is None or b is None:
        assert all(x is None or not x.any() for x in (a, b))
    else:
        torch.testing.assert_close(a, b)


def total(nodes):
    return {"out": nodes.mailbox["m"].sum(1)}


ADD = fn.sum("m", "out")

# ---- built-ins in disguise ----


@pytest.mark.parametrize(
    ("message", "name"),
    [
        (lambda e: {"m": e.src["h"]}, "copy_u"),
        (lambda e: {"m": e.data["z"]}, "copy_e"),
        (lambda e: {"m": e.src["h"] * e.data["w"]}, "u_mul_e"),
        (lambda e: {"m": e.data["w"] * e.src["h"]}, "u_mul_e"),
        (lambda e: {"m": torch.mul(e.src["h"], e.data["z"])}, "u_mul_e"),
        (lambda e: {"m": e.src["h"].sub(e.dst["k"])}, "u_sub_v"),
        (lambda e: {"m": e.data["z"] / e.dst["k"]}, "e_div_v"),
        (lambda e: {"m": e.src["s"] + e.data["t"]}, "u_add_e"),
        (lambda e: {"m": (e.src["h"] * e.dst["k"]).sum(-1, keepdim=True)}, "u_dot_v"),
        (lambda e: {"m": torch.sum(e.src["h"] * e.dst["k"], dim=1, keepdim=True)}, "u_dot_v"),
        (lambda e: {"m": (e.src["h"] * e.dst["k"]).sum(-1)}, "u_dot_v"),
        (lambda e: {"m": e.src["h"] * e.data["t"].unsqueeze(-1)}, "u_mul_e"),
        (lambda e: {"m": e.src["h"] * e.data["t"][:, None]}, "u_mul_e"),
        (lambda e: {"m": e.src["heads"] * e.data["a"]}, "u_mul_e"),
        (lambda e: {"m": e.data["w"].squeeze(-1)[:, None] * e.src["h"]}, "u_mul_e"),
        (lambda e: {"m": e.src["h"].squeeze(1) * e.data["w"]}, "u_mul_e"),
        (lambda e: {"m": torch.sub(e.src["h"], e.dst["k"], alpha=1)}, "u_sub_v"),
    ],
)
@pytest.mark.parametrize("reduce", ["sum", "mean", "max", "min"])
def test_builtins_in_disguise(message, name, reduce):
    assert_fused(message, getattr(fn, reduce)("m", "out"), f"the built-in {name}", reduce)


@pytest.mark.parametrize(
    ("reduce", "name"),
    [
        (lambda n: {"out": n.mailbox["m"].sum(1)}, "sum"),
        (lambda n: {"out": n.mailbox["m"].sum(dim=1)}, "sum"),
        (lambda n: {"out": torch.sum(n.mailbox["m"], dim=1)}, "sum"),
        (lambda n: {"out": torch.sum(n.mailbox["m"], 1)}, "sum"),
        (lambda n: {"out": n.mailbox["m"].sum(-2)}, "sum"),
        (lambda n: {"out": n.mailbox["m"].sum((1,))}, "sum"),
        (lambda n: {"out": n.mailbox["m"].mean(1)}, "mean"),
        (lambda n: {"out": torch.mean(n.mailbox["m"], dim=1)}, "mean"),
        (lambda n: {"out": n.mailbox["m"].max(1)[0]}, "max"),
        (lambda n: {"out": n.mailbox["m"].max(dim=1).values}, "max"),
        (lambda n: {"out": torch.max(n.mailbox["m"], dim=1)[0]}, "max"),
        (lambda n: {"out": torch.min(n.mailbox["m"], 1).values}, "min"),
        (lambda n: {"out": n.mailbox["m"].min(1)[0]}, "min"),
    ],
)
def test_reductions(reduce, name):
    assert_fused(fn.u_mul_e("h", "w", "m"), reduce, f"{name} of u.h * e.w")
    assert_fused(lambda e: {"m": e.src["h"] * e.data["w"]}, reduce, f"{name} of u.h * e.w")


def unpacks(nodes):
    values, _ = nodes.mailbox["m"].max(1)
    return {"out": values}


def test_an_unpacked_maximum():
    assert_fused(fn.copy_u("h", "m"), unpacks, "max of u.h")


def test_amax_is_fused_where_no_gradient_is_shared_among_equal_messages():
    def largest(nodes):
        return {"out": nodes.mailbox["m"].amax(1)}

    g = graph()
    found = sg.explain(g, fn.copy_u("h", "m"), largest)
    assert not found.fused and "shares the gradient" in found.reason
    with torch.no_grad():
        assert sg.explain(g, fn.copy_u("h", "m"), largest).fused
        assert sg.explain(
            g, fn.copy_u("h", "m"), lambda n: {"o": torch.amin(n.mailbox["m"], 1)}
        ).fused


# ---- expressions ----


def piecewise(edges):
    x = edges.src["h"] - edges.dst["k"]
    gate = torch.sigmoid(x * 2 - 1) / (1 + edges.data["w"].exp())
    return {"m": F.leaky_relu(gate, 0.2) + F.relu(x).tanh() ** 2}


@pytest.mark.parametrize(
    "message",
    [
        piecewise,
        lambda e: {"m": -e.src["h"] + 3},
        lambda e: {"m": 2 - e.src["h"] / 4},
        lambda e: {"m": 1 / e.src["h"]},
        lambda e: {"m": e.src["h"] * -0.5},
        lambda e: {"m": abs(e.src["h"] - e.dst["h"])},
        lambda e: {"m": (e.src["h"] - e.dst["h"]).square()},
        lambda e: {"m": (e.src["h"] * e.data["w"]).sqrt().log()},
        lambda e: {"m": e.src["h"].rsqrt() * e.dst["h"].reciprocal()},
        lambda e: {"m": torch.maximum(e.src["h"], e.dst["k"])},
        lambda e: {"m": torch.max(e.src["h"], e.dst["k"]) - torch.minimum(e.src["k"], e.data["z"])},
        lambda e: {"m": e.src["h"] ** 0.5 + e.src["h"].pow(-2)},
        lambda e: {"m": (e.src["h"] * e.dst["k"]).sum(-1) * e.data["t"]},
        lambda e: {"m": e.src["h"].sum(-1, keepdim=True) * e.data["z"]},
        lambda e: {"m": (e.src["heads"] * e.dst["heads"]).sum(-1) * e.data["a"][:, :, 0]},
        lambda e: {"m": (e.src["heads"] * e.dst["heads"]).sum(-1).unsqueeze(-1) * e.data["a"]},
        lambda e: {"m": e.data["flat"].view(-1, 2, 3) * e.src["heads"]},
        lambda e: {"m": e.src["h"][:, :2] * e.data["z"][:, 2:]},
        lambda e: {"m": torch.exp(e.src["h"]) * SCALE * math.pi},
        lambda e: {"m": F.silu(e.src["h"].clone()) / e.data["w"].detach()},
        lambda e: {"m": e.src["h"] * e.data["t"].view(-1, 1).contiguous()},
        lambda e: {"m": sum([e.src["h"], e.src["k"], e.data["z"]])},
    ],
)
@pytest.mark.parametrize("reduce", [ADD, total, fn.max("m", "out")])
def test_expressions(message, reduce):
    assert_fused(message, reduce)


def test_several_messages_and_results():
    def message(edges):
        return {
            "a": edges.src["h"] * edges.data["w"],
            "b": edges.data["t"],
            "unused": edges.src["s"],
        }

    def reduce(nodes):
        a, b = nodes.mailbox["a"], nodes.mailbox["b"]
        return {"x": a.sum(1), "y": b.max(1)[0], "z": (a * a).mean(1)}

    assert_fused(message, reduce, '"x" = sum of u.h * e.w', '"y" = max of e.t', '"z" = mean of')


def test_attention_over_the_mailbox():
    def message(edges):
        return {"z": edges.src["heads"], "e": F.leaky_relu(edges.data["a"] * 3)}

    def reduce(nodes):
        alpha = F.softmax(nodes.mailbox["e"], dim=1)
        return {"out": torch.sum(alpha * nodes.mailbox["z"], dim=1)}

    assert_fused(message, reduce, "softmax(leaky_relu(e.a * 3.0, 0.01))")


def test_attention_of_one_head():
    def message(edges):
        return {"z": edges.src["h"], "e": (edges.src["h"] * edges.dst["k"]).sum(-1) / 4**0.5}

    def reduce(nodes):
        alpha = torch.softmax(nodes.mailbox["e"], 1).unsqueeze(-1)
        return {"out": (alpha * nodes.mailbox["z"]).sum(1)}

    assert_fused(message, reduce, "u.h * softmax(dot(u.h, v.k) / 2.0)")


def test_methods_and_modules():
    class Layer(nn.Module):
        def __init__(self):
            super().__init__()
            self.slope = 0.3
            self.act = nn.LeakyReLU(0.1)

        def scaled(self, x, by=2.0):
            return x * by * self.slope

        def message(self, edges):
            return {"m": self.act(self.scaled(edges.src["h"]) - edges.dst["k"])}

        def forward(self, edges):
            return self.message(edges)

    layer = Layer()
    assert_fused(layer.message, ADD, "0.3", "0.1")
    assert_fused(layer, total)
    layer.act = nn.ReLU()
    assert_fused(layer.message, ADD, "relu")


def test_apply_edges():
    g = graph()
    g.apply_edges(lambda e: {"score": (e.src["h"] * e.dst["k"]).sum(-1), "copy": e.data["w"]})
    src, dst = g.edges()
    expected = (g.ndata["h"][src] * g.ndata["k"][dst]).sum(-1)
    torch.testing.assert_close(g.edata["score"], expected)
    assert g.edata["copy"].equal(g.edata["w"])
    g.apply_edges(lambda e: {"part": e.src["h"] * e.data["w"]}, [3, 1])
    torch.testing.assert_close(g.edata["part"][3], g.ndata["h"][2] * g.edata["w"][3])
    assert not g.edata["part"][0].any()


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
def test_dtypes_stay(dtype):
    g = graph(dtype)
    message = lambda e: {"m": e.src["h"] * e.data["w"] * 2}  # noqa: E731
    assert sg.explain(g, message, total).fused
    g.update_all(message, total)
    assert g.ndata["out"].dtype == dtype


# ---- what is not fused, and why ----


class Counter:
    def __init__(self):
        self.count = 0
        self.kept = []

    def counts(self, edges):
        self.count += 1
        return {"m": edges.src["h"]}

    def keeps(self, edges):
        self.kept.append(edges.src["h"])
        return {"m": edges.src["h"]}

    @property
    def scale(self):
        self.count += 1
        return 2.0

    def asks(self, edges):
        return {"m": edges.src["h"] * self.scale}


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
    (lambda e: {"m": e.src["h"][e.data["t"] > 1]}, "has no fused form|gt"),
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
    (lambda e: {"m": e.src["h"].float().double()}, "the method float has no fused form"),
    (in_place, r"changes a value in place \(\+=\)|INPLACE"),
    (writes, "item assignment"),
    (catches, "instruction"),
    (without_gradient, "instruction"),
    (branches, "has no fused form"),
    (loops, "instruction|iterated"),
    (Counter().counts, "instruction|in place"),
    (Counter().keeps, "self.kept"),
    (Counter().asks, "reads self.scale, which cannot be looked up"),
    (functools.partial(lambda by, e: {"m": e.src["h"] * by}, 2.0), "is a partial, not a Python"),
]


@pytest.mark.parametrize(
    "message",
    [
        lambda e: {"m": e.src["h"] / e.src["h"].size(-1) ** 0.5},
        lambda e: {"m": e.src["h"] * e.src["h"].shape[1]},
        lambda e: {"m": e.src["heads"].flatten(1) if e.src["h"].ndim > 2 else e.src["h"] * 2},
        lambda e: {"m": e.src["h"] * e.src["heads"].dim() - e.data["w"].size(1)},
        lambda e: {"m": torch.add(e.src["h"], e.data["z"], alpha=0.5)},
        lambda e: {"m": e.src["h"].sub(3, alpha=2)},
        lambda e: {"m": e.src["heads"].view(-1, 6) * e.data["flat"].size(1)},
    ],
)
def test_sizes_and_factors_of_features_are_numbers(message):
    assert_fused(message, ADD)


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
            lambda n: {"out": n.mailbox["m"].sum(1) / n.mailbox["m"].shape[1]},
            r"the size \[1\] is used",
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


# ---- tensors that all edges share ----


class Layer(nn.Module):
    """Messages with parameters, read as modules hold them."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(3)
        self.row = nn.Parameter(torch.rand(4, dtype=torch.float64) + 0.5)
        self.one = nn.Parameter(torch.rand(1, 4, dtype=torch.float64) + 0.5)
        self.head = nn.Parameter(torch.rand(1, 2, 3, dtype=torch.float64))
        self.scale = nn.Parameter(torch.tensor(1.5, dtype=torch.float64))


@pytest.mark.parametrize(
    "factory",
    [
        lambda layer: lambda e: {"m": e.src["h"] * layer.row},
        lambda layer: lambda e: {"m": layer.row - e.src["h"] * e.data["w"]},
        lambda layer: lambda e: {"m": layer.one / e.src["h"] + layer.row},
        lambda layer: lambda e: {"m": torch.maximum(layer.one, e.src["h"] - e.dst["k"])},
        lambda layer: lambda e: {"m": (e.src["heads"] * layer.head).sum(-1, keepdim=True).tanh()},
        lambda layer: lambda e: {"m": (e.src["h"] * layer.row).sum(-1)},
        lambda layer: lambda e: {"m": layer.scale * (e.src["s"] + layer.scale)},
        lambda layer: lambda e: {"m": F.leaky_relu(e.src["h"].sub(layer.one), 0.1)},
    ],
)
@pytest.mark.parametrize("reduce", ["sum", "mean", "max", "min"])
def test_parameters_are_operands(factory, reduce):
    layer, g = Layer(), graph()
    fused = factory(layer)
    total = getattr(fn, reduce)("m", "out")
    explanation = sg.explain(g, fused, total)
    assert explanation.fused and "tensor[" in repr(explanation), explanation
    assert "built-in" not in repr(explanation)
    results = []
    for function in (fused, unfused(fused)):
        g.update_all(function, total)
        out = g.ndata.pop("out")
        leaves = [*layer.parameters(), *g.ndata.values(), *g.edata.values()]
        weight = torch.linspace(-1, 2, out.numel(), dtype=out.dtype).view_as(out)
        grads = torch.autograd.grad((out * weight).sum(), leaves, allow_unused=True)
        results.append((out, grads))
    torch.testing.assert_close(results[0][0], results[1][0])
    for a, b in zip(results[0][1], results[1][1]):
        assert_same_gradient(a, b)


def test_parameters_after_a_reduction():
    layer = Layer()
    reduce = lambda n: {"out": torch.relu(n.mailbox["m"].sum(1) - layer.row) * layer.one}  # noqa: E731
    assert_fused(fn.copy_u("h", "m"), reduce, "relu(sum(u.h) - tensor[4]) * tensor[4]")


def test_a_trace_changes_no_tensor_from_outside():
    g, before = graph(), WEIGHT.clone()
    for message in (
        lambda e: {"m": e.src["h"] * F.relu(WEIGHT - 5, inplace=True)},
        lambda e: {"m": e.src["h"] * torch.neg(WEIGHT, out=WEIGHT)},
        lambda e: {"m": e.src["h"] * F.leaky_relu(WEIGHT, 0.1, True)},
    ):
        assert not sg.explain(g, message, ADD).fused
        assert torch.equal(WEIGHT, before)


# ---- what follows the reduction ----


@pytest.mark.parametrize(
    ("reduce", "text"),
    [
        (lambda n: {"out": n.mailbox["m"].sum(1) * 2}, '"out" = sum(u.h) * 2.0'),
        (lambda n: {"out": F.relu(n.mailbox["m"].sum(1) - 2)}, "relu(sum(u.h) - 2.0)"),
        (lambda n: {"out": n.mailbox["m"].sum(1) + n.data["h"]}, "sum(u.h) + n.h"),
        (
            lambda n: {"out": n.data["k"] - n.mailbox["m"].max(1)[0] * SCALE},
            "n.k - (max(u.h) * 2.0)",
        ),
        (lambda n: {"out": n.mailbox["m"].sum(1) / n.data["h"].size(1)}, "sum(u.h) / 4.0"),
        (
            lambda n: {"out": torch.cat([n.mailbox["m"].mean(1), n.data["h"]], 1)},
            "cat(1, mean(u.h), n.h)",
        ),
        (
            lambda n: {"out": torch.cat([n.mailbox["m"].sum(1), n.data["k"] ** 2], dim=-1).exp()},
            "exp(cat(1, sum(u.h), pow(n.k, 2.0)))",
        ),
        (lambda n: {"out": n.mailbox["m"].sum(1).log()}, "log(sum(u.h))"),
        (lambda n: {"out": torch.maximum(n.mailbox["m"].sum(1), n.data["h"])}, "maximum("),
        (lambda n: {"out": (n.mailbox["m"].sum(1) * n.data["h"]).sum(-1)}, "dot(sum(u.h), n.h)"),
        (lambda n: {"out": n.mailbox["m"].sum(1) * n.data["s"][:, None]}, "sum(u.h) * n."),
        (
            lambda n: {
                "out": n.mailbox["m"].max(1)[0] - n.mailbox["m"].min(1)[0],
                "s": n.data["s"],
            },
            "max(u.h) - min(u.h)",
        ),
    ],
)
def test_what_follows_a_reduction_is_done_for_all_nodes(reduce, text):
    assert_fused(fn.copy_u("h", "m"), reduce, text, "no message is stored")


def test_each_reduction_runs_once(monkeypatch):
    calls = []
    kernel = sg.symbolic.aggregate
    monkeypatch.setattr(sg.symbolic, "aggregate", lambda *a: calls.append(a[1]) or kernel(*a))

    def reduce(nodes):
        total = nodes.mailbox["m"].sum(1)
        return {"a": total * 2, "b": total * total, "c": nodes.mailbox["m"].max(1)[0] + total}

    g = graph()
    g.update_all(fn.copy_u("h", "m"), reduce)
    assert len(calls) == 2


def test_nodes_without_messages_take_no_part_in_what_follows():
    g = sg.graph(([0], [1]))
    g.ndata["h"] = torch.zeros(2, 1, requires_grad=True)
    g.ndata["k"] = torch.tensor([[0.0], [1.0]], requires_grad=True)
    reduce = lambda n: {"out": (n.mailbox["m"].sum(1) / n.data["k"]).exp()}  # noqa: E731
    assert sg.explain(g, fn.copy_u("h", "m"), reduce).fused
    g.update_all(fn.copy_u("h", "m"), reduce)
    assert g.ndata["out"].tolist() == [[0], [1]]
    g.ndata["out"].sum().backward()
    assert g.ndata["k"].grad.isfinite().all() and g.ndata["h"].grad.tolist() == [[1], [0]]


def test_what_follows_sees_the_pulled_nodes():
    g, plain = graph(), graph()
    reduce = lambda n: {"h": n.mailbox["m"].sum(1) + n.data["h"]}  # noqa: E731
    for name in ("h",):
        plain.ndata[name] = g.ndata[name].detach()
    for each, function in ((g, reduce), (plain, unfused(reduce))):
        each.pull([1, 3, 4], fn.copy_u("h", "m"), function)
    torch.testing.assert_close(g.ndata["h"], plain.ndata["h"])


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


# ---- nothing is frozen, nothing notices ----


def value_of(g, message):
    g.update_all(message, ADD)
    return g.ndata["out"] / torch.zeros_like(g.ndata["out"]).index_add(
        0, g.edges()[1], g.ndata["h"][g.edges()[0]]
    )


def test_values_that_change_between_calls():
    g, space, factor = graph(), SimpleNamespace(by=3.0), 5.0

    def closure(edges):
        return {"m": edges.src["h"] * factor}

    def attribute(edges):
        return {"m": edges.src["h"] * space.by}

    def shared(edges):
        return {"m": edges.src["h"] * SCALE}

    def flag(edges):
        if space.by > 3:
            return {"m": edges.src["h"] * 10}
        return {"m": edges.src["h"] * 20}

    global SCALE
    for message in (closure, attribute, shared, flag):
        assert sg.explain(g, message, ADD).fused
    for factor, space.by, SCALE in ((5.0, 3.0, 2.0), (6.0, 4.0, 7.0)):
        expected = [factor, space.by, SCALE, 10.0 if space.by > 3 else 20.0]
        for message, number in zip((closure, attribute, shared, flag), expected):
            found = value_of(g, message)[:4]
            torch.testing.assert_close(found, torch.full_like(found, number))
    SCALE = 2.0


def helper(x):
    return x * 2


def test_functions_that_are_replaced(monkeypatch):
    g = graph()

    def message(edges):
        return {"m": helper(edges.src["h"])}

    assert value_of(g, message)[0, 0].item() == pytest.approx(2)
    calls = []
    monkeypatch.setitem(globals(), "helper", lambda x: x * 3)
    assert value_of(g, message)[0, 0].item() == pytest.approx(3)
    monkeypatch.setitem(globals(), "helper", lambda x: (calls.append(1), x)[1] * 4)
    assert not sg.explain(g, message, ADD).fused and not calls
    assert value_of(g, message)[0, 0].item() == pytest.approx(4)
    assert calls == [1]


def test_side_effects_happen_once():
    g, counter = graph(), Counter()
    for method in (counter.counts, counter.asks):
        counter.count = 0
        sg.explain(g, method, ADD)
        assert counter.count == 0
        g.update_all(method, ADD)
        assert counter.count == 1
    g.update_all(counter.keeps, ADD)
    assert len(counter.kept) == 1 and isinstance(counter.kept[0], torch.Tensor)


def test_random_numbers_are_drawn_once():
    g = graph()

    def noisy(edges):
        return {"m": edges.src["h"] * torch.rand(8, 1, dtype=torch.float64)}

    torch.manual_seed(3)
    expected = (g.ndata["h"][g.edges()[0]] * torch.rand(8, 1, dtype=torch.float64)).sum()
    after = torch.rand(1)
    torch.manual_seed(3)
    sg.explain(g, noisy, ADD)
    g.update_all(noisy, ADD)
    torch.testing.assert_close(g.ndata["out"].sum(), expected)
    assert torch.rand(1).equal(after)


def test_a_symbol_is_never_told_from_a_tensor():
    g = graph()

    def tells(edges):
        return {"m": edges.src["h"] * (1 if isinstance(edges.src["h"], torch.Tensor) else 100)}

    assert value_of(g, tells)[0, 0].item() == pytest.approx(1)
    assert "isinstance" in sg.explain(g, tells, ADD).reason


def test_features_that_may_be_missing():
    g = graph()

    def optional(edges):
        if "nothing" in edges.data:
            return {"m": edges.src["h"] * edges.data["nothing"]}
        other = edges.data.get("other")
        return {"m": edges.src["h"] if other is None else edges.src["h"] * other}

    assert sg.explain(g, optional, ADD).fused
    assert value_of(g, optional)[0, 0].item() == pytest.approx(1)
    g.edata["other"] = torch.full((8, 1), 5.0, dtype=torch.float64)
    assert value_of(g, optional)[0, 0].item() == pytest.approx(5)


def test_hooks_of_a_module_run():
    g, calls = graph(), []

    class Message(nn.Module):
        def forward(self, edges):
            return {"m": edges.src["h"]}

    message = Message()
    assert sg.explain(g, message, ADD).fused
    message.register_forward_hook(lambda *_: calls.append(1))
    assert not sg.explain(g, message, ADD).fused
    g.update_all(message, ADD)
    assert calls == [1]


def test_mistakes_keep_their_own_error():
    g = graph()

    def wrong(edges):
        return {"m": edges.src["h"] * edges.src["heads"]}

    with pytest.raises(RuntimeError, match="must match the size"):
        g.update_all(wrong, ADD)
    with pytest.raises(KeyError, match='feature "nothing" is not set'):
        g.update_all(lambda e: {"m": e.src["nothing"]}, ADD)
    with pytest.raises(smex.SmexTypeError, match="message function: expected a built-in"):
        sg.explain(g, None, ADD)


def test_a_long_formula_is_left_alone():
    def long(edges):
        x = edges.src["h"]
        for _ in range(12):
            x = x + x
        return {"m": x}

    assert "more than 64 terms" in sg.explain(graph(), long, ADD).reason


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


def test_features_whose_names_read_like_formulas():
    g = graph()
    names = {"e0": "w", "e1": "t", "e.w": "t"}
    for name, of in names.items():
        g.edata[name] = g.edata[of].detach().clone().reshape(8, 1).requires_grad_()
    cases = [
        (lambda e: {"m": e.data["e1"] * e.data["e0"] * e.src["h"]}, "(e.e1 * e.e0) * u.h"),
        (lambda e: {"m": (e.data["w"] - e.data["e.w"]) * e.src["h"]}, "(e.w - e.'e.w') * u.h"),
    ]

    def total(nodes):
        return {"out": nodes.mailbox["m"].sum(1)}

    for message, text in cases:
        explanation = sg.explain(g, message, total)
        assert explanation.fused and text in repr(explanation), explanation
        out, grads = run(g, message, total)
        expected, expected_grads = run(g, unfused(message), unfused(total))
        torch.testing.assert_close(out["out"], expected["out"])
        for a, b in zip(grads["out"], expected_grads["out"]):
            torch.testing.assert_close(a, b)


def test_two_softmaxes_of_features_with_similar_names():
    g = graph()
    for name in ("e0", "e.w"):
        g.edata[name] = torch.rand(8, 1, dtype=torch.float64, requires_grad=True)

    def reduce(nodes):
        box = nodes.mailbox
        one = torch.softmax(box["a"], 1) * box["m"]
        other = torch.softmax(box["b"], 1) * box["m"]
        return {"out": (one - 2 * other).sum(1)}

    def message(e):
        return {"a": e.data["w"] - e.data["e0"], "b": e.data["w"] - e.data["e.w"], "m": e.src["h"]}

    out, _ = run(g, message, reduce)
    expected, _ = run(g, unfused(message), unfused(reduce))
    torch.testing.assert_close(out["out"], expected["out"])
