"""Formulas of users' functions as kernels: the same results and the same gradients."""

import math

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import smex.graph as sg
import smex.graph.function as fn
from support.message_functions import (
    ADD,
    assert_fused,
    assert_same_gradient,
    graph,
    run,
    total,
    unfused,
)

SCALE = 2.0

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


# ---- names of features ----


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
