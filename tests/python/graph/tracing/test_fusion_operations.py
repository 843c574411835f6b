"""Operations that users' functions are made of: the values and gradients of torch, also at edges."""

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import smex.graph as sg
import smex.graph.function as fn

SPECIAL = [0.0, -0.0, 1.0, -1.0, 0.5, 3.0, -3.0, 6.0, 25.0, -25.0, 200.0, -200.0]
"""Where pieces of functions meet, and where exponentials overflow in float32."""

OPERATIONS = {
    "clamp": lambda x: x.clamp(-1, 3),
    "clamp, exchanged bounds": lambda x: torch.clamp(x, 3, -1),
    "clamp_min": lambda x: x.clamp_min(0.5),
    "clamp_max": lambda x: torch.clamp_max(x, 0.5),
    "clip": lambda x: torch.clip(x, max=1.0),
    "elu": F.elu,
    "elu(alpha)": lambda x: F.elu(x, 0.3),
    "celu": lambda x: F.celu(x, 0.7),
    "selu": F.selu,
    "gelu": F.gelu,
    "gelu(tanh)": lambda x: F.gelu(x, approximate="tanh"),
    "hardtanh": F.hardtanh,
    "relu6": F.relu6,
    "hardsigmoid": F.hardsigmoid,
    "silu": F.silu,
    "softplus": F.softplus,
    "softplus(beta)": lambda x: F.softplus(x, beta=2.0, threshold=6.0),
    "logsigmoid": F.logsigmoid,
    "mish": F.mish,
    "softsign": F.softsign,
    "threshold": lambda x: F.threshold(x, 0.5, -7.0),
    "relu": F.relu,
    "leaky_relu": lambda x: F.leaky_relu(x, 0.2),
    "abs": abs,
    "tanh": torch.tanh,
    "sigmoid": torch.sigmoid,
    "erf": torch.erf,
    "expm1": lambda x: torch.expm1(x * 0.1),
    "log1p": lambda x: torch.log1p(x.abs()),
    "sin": torch.sin,
    "cos": torch.cos,
    "where": lambda x: torch.where(x > 0.5, x * x, 2.0),
    "where of two": lambda x: torch.where(x <= 0.5, x * 3, 1 - x),
    "where, both": lambda x: torch.where((x > -1) & (x < 3), x * x, -x),
    "where, either": lambda x: torch.where((x < -1) | ~(x != 3), x * x, -x),
    "where, as a method": lambda x: x.where(x >= 0, 0.25),
    "masked_fill": lambda x: x.masked_fill(x == 0.5, 9.0),
    "times a condition": lambda x: x * (x > 0) + (x > 0) * x,
    "condition as numbers": lambda x: (x > 0).float() * x + x.gt(1).to(torch.float32),
    "powers": lambda x: (x.abs() + 1) ** 0.5 + x**2,
    "norm": lambda x: x.norm(dim=-1, keepdim=True) * x,
    "vector_norm": lambda x: torch.linalg.vector_norm(x, dim=1, keepdim=True) + x,
    "normalize": lambda x: F.normalize(x, dim=1),
    "cosine": lambda x: F.cosine_similarity(x, x + 1, dim=-1).unsqueeze(-1) + x,
    "mean": lambda x: x.mean(-1, keepdim=True) * x,
}


def graph(features):
    """A row of features for each node, which has one message, from itself."""
    nodes = torch.arange(len(features))
    g = sg.graph((nodes, nodes))
    g.ndata["h"] = features
    return g


def check(function, features, **tolerance):
    """Values and gradients of a message are those of the function."""
    x = features.clone().requires_grad_()
    expected = function(x)
    weight = torch.linspace(0.5, 2, expected.numel(), dtype=x.dtype).view_as(expected)
    (expected_grad,) = torch.autograd.grad((expected * weight).sum(), x)

    g = graph(features.clone().requires_grad_())
    found = sg.explain(g, lambda e: {"m": function(e.src["h"])}, fn.sum("m", "out"))
    assert found.fused, found
    g.update_all(lambda e: {"m": function(e.src["h"])}, fn.sum("m", "out"))
    out = g.ndata["out"]
    torch.testing.assert_close(out, expected, equal_nan=True, **tolerance)
    (grad,) = torch.autograd.grad((out * weight).sum(), g.ndata["h"])
    torch.testing.assert_close(grad, expected_grad, equal_nan=True, **tolerance)


@pytest.mark.parametrize("name", OPERATIONS)
def test_values_and_gradients_are_those_of_torch(name):
    function = OPERATIONS[name]
    x = torch.tensor(SPECIAL)
    x = torch.stack((x, x.flip(0), x.roll(3)), 1)
    check(function, x, rtol=3e-6, atol=3e-6)
    check(function, torch.randn(50, 20) * 3, rtol=3e-6, atol=3e-6)
    check(function, torch.zeros(2, 3))


NOT_OF_NAN = {"gelu", "condition as numbers", "norm", "vector_norm", "normalize", "cosine", "mean"}


@pytest.mark.parametrize("name", sorted(OPERATIONS.keys() - NOT_OF_NAN))
def test_no_number_and_infinity(name):
    x = torch.tensor([[float("nan")], [float("inf")], [-float("inf")]], dtype=torch.float32)
    function = OPERATIONS[name]
    g = graph(x)
    g.update_all(lambda e: {"m": function(e.src["h"])}, fn.sum("m", "out"))
    torch.testing.assert_close(g.ndata["out"], function(x), equal_nan=True)


@pytest.mark.parametrize("function", [F.relu, abs])
def test_gradients_where_there_is_no_number(function):
    check(function, torch.tensor([[float("nan")], [1.0]]))


def test_gradient_of_the_larger_where_one_is_no_number():
    x = torch.tensor([[float("nan")], [2.0]], requires_grad=True)
    y = torch.tensor([[3.0], [2.0]], requires_grad=True)
    expected = torch.autograd.grad(torch.maximum(x, y).sum(), (x, y))
    g = graph(x)
    g.edata["w"] = y
    g.update_all(
        lambda e: {"m": torch.maximum(e.src["h"], e.data["w"])},
        lambda n: {"o": n.mailbox["m"].sum(1)},
    )
    for a, b in zip(torch.autograd.grad(g.ndata["o"].sum(), (x, y)), expected):
        torch.testing.assert_close(a, b)


def features_graph():
    torch.manual_seed(0)
    g = sg.graph(([0, 1, 2, 2, 0, 5, 4, 1], [1, 2, 1, 0, 1, 3, 3, 1]), num_nodes=6)
    g.ndata["h"] = torch.randn(6, 4, dtype=torch.float64, requires_grad=True)
    g.edata["w"] = torch.randn(8, 4, dtype=torch.float64, requires_grad=True)
    g.edata["mask"] = torch.tensor([True, False, True, True, False, False, True, True])
    g.edata["masks"] = torch.rand(8, 4) > 0.5
    return g


def results(g, message, reduce):
    g.update_all(message, reduce)
    out = g.ndata.pop("out")
    weight = torch.linspace(-1, 2, out.numel(), dtype=out.dtype).view_as(out)
    return out, *torch.autograd.grad(
        (out * weight).sum(), (g.ndata["h"], g.edata["w"]), allow_unused=True
    )


def unfused(function):
    """The same function, which nothing can fuse."""

    def wrapper(batch):
        print(end="")
        return function(batch)

    return wrapper


MESSAGES = {
    "mask": lambda e: {"m": torch.where(e.data["masks"], e.src["h"], e.data["w"])},
    "mask times": lambda e: {"m": e.data["masks"] * e.src["h"] * e.data["w"]},
    "mask of edges": lambda e: {"m": e.src["h"].masked_fill(e.data["mask"][:, None], 0.5)},
    "masks": lambda e: {
        "m": torch.where(e.data["masks"] & ~e.data["mask"].unsqueeze(1), e.src["h"], 0)
    },
    "mask and comparison": lambda e: {
        "m": torch.where(e.data["masks"] | (e.data["w"] > 0), e.src["h"], -e.data["w"])
    },
    "nearer": lambda e: {"m": torch.where(e.src["h"] < e.dst["h"], e.src["h"], e.data["w"])},
    "distance": lambda e: {"m": (e.src["h"] - e.dst["h"]).norm(dim=1, keepdim=True) * e.data["w"]},
    "cosine": lambda e: {
        "m": F.cosine_similarity(e.src["h"], e.data["w"]).unsqueeze(-1) * e.data["w"]
    },
}


@pytest.mark.parametrize("name", MESSAGES)
@pytest.mark.parametrize("reduce", ["sum", "mean"])
def test_messages_of_several_features(name, reduce):
    message, reduce = MESSAGES[name], getattr(fn, reduce)("m", "out")
    g = features_graph()
    found = sg.explain(g, message, reduce)
    assert found.fused, found
    for a, b in zip(results(g, message, reduce), results(g, unfused(message), reduce)):
        assert (a is None) == (b is None) or not any(x is not None and x.any() for x in (a, b))
        if a is not None and b is not None:
            torch.testing.assert_close(a, b)


REDUCES = {
    "mean": lambda n: {"out": n.mailbox["m"].sum(1) / n.mailbox["m"].size(1)},
    "mean, by shape": lambda n: {"out": n.mailbox["m"].sum(1) / n.mailbox["m"].shape[1]},
    "root of the number": lambda n: {"out": n.mailbox["m"].sum(1) / n.mailbox["m"].shape[1] ** 0.5},
    "variance": lambda n: {
        "out": (n.mailbox["m"] * n.mailbox["m"]).mean(1) - n.mailbox["m"].mean(1) ** 2
    },
    "number less one": lambda n: {
        "out": n.data["h"] + n.mailbox["m"].sum(1) / (n.mailbox["m"].size(1) + 1)
    },
    "where": lambda n: {
        "out": torch.where(n.mailbox["m"].max(1)[0] > 0.5, n.data["h"], n.mailbox["m"].sum(1))
    },
    "gelu": lambda n: {"out": F.gelu(n.mailbox["m"].sum(1) + n.data["h"])},
    "clamp": lambda n: {"out": n.mailbox["m"].sum(1).clamp(-0.5, 0.5)},
    "inside": lambda n: {"out": F.elu(n.mailbox["m"]).sum(1)},
}


@pytest.mark.parametrize("name", REDUCES)
def test_reduce_functions(name):
    message, reduce = fn.u_mul_e("h", "w", "m"), REDUCES[name]
    g = features_graph()
    found = sg.explain(g, message, reduce)
    assert found.fused, found
    for a, b in zip(results(g, message, reduce), results(g, message, unfused(reduce))):
        torch.testing.assert_close(a, b)


def test_a_sum_by_the_number_of_messages_is_the_built_in_mean():
    found = sg.explain(features_graph(), fn.copy_u("h", "m"), REDUCES["mean"])
    assert "mean of u.h" in repr(found)


@pytest.mark.parametrize(
    "module", [nn.ELU(), nn.GELU(), nn.SiLU(), nn.Softplus(), nn.PReLU(), nn.Hardtanh()]
)
def test_modules(module):
    module = module.double()

    def message(edges):
        return {"m": module(edges.src["h"]) * edges.data["w"]}

    g = features_graph()
    assert sg.explain(g, message, fn.sum("m", "out")).fused
    reduce = fn.sum("m", "out")
    for a, b in zip(results(g, message, reduce), results(g, unfused(message), reduce)):
        torch.testing.assert_close(a, b)
    for weight in module.parameters():
        g.update_all(message, reduce)
        (grad,) = torch.autograd.grad(g.ndata["out"].square().sum(), weight)
        g.update_all(unfused(message), reduce)
        (expected,) = torch.autograd.grad(g.ndata["out"].square().sum(), weight)
        torch.testing.assert_close(grad, expected)


@pytest.mark.parametrize(
    ("message", "reason"),
    [
        (lambda e: {"m": e.src["h"] > 0}, "torch.bool"),
        (lambda e: {"m": (e.src["h"] > 0) + 1}, "a condition takes part in arithmetic"),
        (lambda e: {"m": e.data["mask"] * 2}, "a condition takes part in arithmetic"),
        (lambda e: {"m": torch.where(e.data["masks"], 1.0, 2.0)}, "where of"),
        (lambda e: {"m": torch.where(e.src["h"], 1.0, e.src["h"])}, "is not a comparison"),
        (lambda e: {"m": e.src["h"].clamp(min=e.data["w"])}, "clamp between tensors"),
        (lambda e: {"m": e.src["h"].norm(p=1, dim=1)}, "a norm other than the Euclidean"),
        (lambda e: {"m": e.src["h"].norm()}, "a norm other than the Euclidean"),
        (lambda e: {"m": F.elu(e.src["h"], inplace=True)}, "in place"),
        (lambda e: {"m": e.src["h"].float()}, "torch.float64 becomes torch.float32"),
    ],
)
def test_what_is_not_fused(message, reason):
    found = sg.explain(features_graph(), message, fn.sum("m", "out"))
    assert not found.fused and reason in found.reason, found


def test_the_number_of_messages_is_no_feature_by_itself():
    found = sg.explain(
        features_graph(), fn.copy_u("h", "m"), lambda n: {"out": n.mailbox["m"].size(1)}
    )
    assert not found.fused
