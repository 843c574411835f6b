"""Softmax, losses, variances, norms and extremes are cut along the rows that they reduce."""

import json
import math

import pytest
import torch
from torch.nn import functional as F

import smex


class Rows(torch.nn.Module):
    """A linear layer whose columns are cut, and a function of whole rows."""

    def __init__(self, function, columns=64):
        super().__init__()
        self.w, self.function = torch.nn.Linear(16, columns), function

    def forward(self, x):
        return self.function(self.w(x))


def loss_of(y):
    return F.cross_entropy(y, torch.arange(len(y)) * 5 % y.shape[1])


def ignoring(y):
    target = torch.arange(len(y)) * 5 % y.shape[1]
    target[2] = -100
    return F.cross_entropy(y, target, torch.linspace(0.5, 2, y.shape[1]).to(y), label_smoothing=0.1)


FUNCTIONS = {
    "softmax": lambda y: y.softmax(-1),
    "softmax of the middle": lambda y: y.view(2, 4, 64).transpose(1, 2).softmax(1),
    "log_softmax": lambda y: y.log_softmax(-1),
    "safe softmax": lambda y: torch.ops.aten._safe_softmax(y, -1),
    "logsumexp": lambda y: y.logsumexp(-1),
    "logsumexp of all": lambda y: y.logsumexp((0, 1), keepdim=True),
    "cross entropy": loss_of,
    "weighted cross entropy": ignoring,
    "var": lambda y: y.var(-1),
    "std": lambda y: y.std(-1, correction=0, keepdim=True),
    "var of all": lambda y: y.var(),
    "var_mean": lambda y: torch.stack(torch.var_mean(y, -1)),
    "std_mean": lambda y: torch.stack(torch.std_mean(y, 1, keepdim=True)),
    "norm": lambda y: torch.linalg.vector_norm(y, 2, -1),
    "norm of all": lambda y: y.norm(),
    "norm 1": lambda y: torch.linalg.vector_norm(y, 1, -1, keepdim=True),
    "norm 3": lambda y: torch.linalg.vector_norm(y, 3, -1),
    "norm inf": lambda y: torch.linalg.vector_norm(y, math.inf, -1),
    "norm -inf": lambda y: torch.linalg.vector_norm(y, -math.inf, -1),
    "normalize": lambda y: F.normalize(y, dim=-1),
    "max": lambda y: y.max(-1).values,
    "min": lambda y: y.min(-1, keepdim=True).values,
    "max with positions": lambda y: y.max(-1)[0] * y.max(-1)[1],
    "argmax": lambda y: y.argmax(-1) * y.sum(-1),
    "argmin": lambda y: y.argmin(-1, keepdim=True) * y,
    "argmax of all": lambda y: y.argmax() * y,
    "topk": lambda y: y.topk(3, -1)[0] * y.topk(3, -1)[1],
    "smallest": lambda y: y.topk(2, 1, largest=False)[0],
}  # fmt: skip


class Function(torch.nn.Module):
    def __init__(self, function):
        super().__init__()
        self.forward = function


def operators(net, path, *args):
    net.trace(path / "trace.json", *args)
    events = json.loads((path / "trace.json").read_text())["traceEvents"]
    return {event["name"] for event in events if event.get("ph") == "X"}


@pytest.mark.parametrize("name", FUNCTIONS)
@pytest.mark.parametrize("workers", [1, 2, 3, 4])
def test_equals_the_whole(name, workers):
    torch.manual_seed(0)
    model = Rows(FUNCTIONS[name]).double()
    x = torch.randn(8, 16).double()
    out = model(x)
    grad = torch.randn_like(out)
    wanted = torch.autograd.grad(out, list(model.parameters()), grad)
    pins = {"w.weight": 0, "w.bias": 0, "x": "R"} if workers > 1 else {}
    net = smex.partition(model, workers=workers, args=(x,), pins=pins, replicate_bytes=0)
    for _ in range(2):
        net.zero_grad()
        found = net(x)
        torch.testing.assert_close(found.detach(), out.detach(), rtol=1e-10, atol=1e-12)
        found.backward(grad)
    grads = net.full_grads()
    for (key, _), full in zip(model.named_parameters(), wanted, strict=True):
        torch.testing.assert_close(grads[key], full, rtol=1e-9, atol=1e-11)
    with torch.no_grad():
        torch.testing.assert_close(net(x), out.detach(), rtol=1e-10, atol=1e-12)
    stats = net.stats()
    assert stats["bytes_moved"] == stats["predicted_bytes_moved"]


CUT = {
    "softmax": "aten::amax",
    "cross entropy": "aten::amax",
    "logsumexp": "aten::amax",
    "var": "aten::sub.Tensor",
    "norm": "aten::sqrt",
    "max with positions": "smex::first_position",
    "argmax": "smex::first_position",
}


@pytest.mark.parametrize("name", CUT)
def test_one_call_where_rows_are_whole(name, tmp_path):
    """The members run only where they are needed."""
    model, x = Rows(FUNCTIONS[name]), torch.randn(8, 16)
    rows = smex.partition(model, workers=2, args=(x,), planner="data_parallel")
    columns = smex.partition(
        model, workers=2, args=(x,), pins={"w.weight": 0, "x": "R"}, replicate_bytes=0
    )
    with torch.no_grad():
        assert CUT[name] not in operators(rows, tmp_path, x)
        assert CUT[name] in operators(columns, tmp_path, x)


def test_a_loss_over_cut_classes_moves_numbers_of_tokens():
    """Megatron's vocabulary-parallel loss: three numbers a token, however many classes there are."""
    torch.manual_seed(0)
    x = torch.randn(8, 16)
    moved = []
    for classes in (64, 4096):
        net = smex.partition(
            Rows(loss_of, classes), workers=2, args=(x,),
            pins={"w.weight": 0, "w.bias": 0, "x": "R"}, replicate_bytes=0,
        )  # fmt: skip
        net(x).backward()
        moved.append(net.stats()["bytes_moved"])
    assert moved[0] == moved[1] < 8 * 4 * 2 * 8


@pytest.mark.parametrize("workers", [2, 3])
def test_extremes_are_the_first_and_numbers_that_are_none(workers):
    torch.manual_seed(0)
    x = torch.randint(0, 4, (6, 40)).double()
    x[1, 7] = x[1, 30] = math.nan
    x[2] = -math.inf
    x[3, 39] = math.inf

    def function(x):
        return torch.stack([x.max(1)[1], x.min(1)[1], x.argmax(1), x.argmin(1)])

    def values(x):
        return torch.stack([x.max(1)[0], x.min(1)[0], x.logsumexp(1)])

    for whole in (function, values):
        net = smex.partition(
            Function(whole), workers=workers, args=(x,), pins={"x": 1}, replicate_bytes=0
        )
        torch.testing.assert_close(net(x), whole(x), equal_nan=True)


@pytest.mark.parametrize("workers", [2, 3])
def test_rows_that_are_hidden(workers):
    x = torch.randn(4, 24)
    x[0] = -math.inf
    x[1, :20] = -math.inf
    x[2, 3] = math.inf

    def function(x):
        return torch.cat([x.softmax(1), x.log_softmax(1), torch.ops.aten._safe_softmax(x, 1)])

    net = smex.partition(
        Function(function), workers=workers, args=(x,), pins={"x": 1}, replicate_bytes=0
    )
    torch.testing.assert_close(net(x), function(x), equal_nan=True)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_halves_are_added_in_float32(dtype):
    x = (torch.randn(4, 4096) * 3).to(dtype)

    def function(x):
        rows = [
            x.softmax(1).sum(1),
            x.log_softmax(1)[:, 0],
            x.var(1),
            x.norm(dim=1),
            x.logsumexp(1),
        ]
        return torch.stack(
            [x.softmax(1, dtype=torch.float32)[:, 0], *(row.float() for row in rows)]
        )

    net = smex.partition(Function(function), workers=2, args=(x,), pins={"x": 1}, replicate_bytes=0)
    near = torch.finfo(dtype).eps
    torch.testing.assert_close(net(x), function(x), rtol=2 * near, atol=near)


def test_sizes_for_which_there_is_no_formula():
    """Empty rows, no dimension, one element: the call stays as it is."""

    def function(x, empty, one):
        return (
            x.softmax(0), x.argmax(), x.max(), empty.softmax(1), empty.log_softmax(0),
            one.var(1), one.std(1), empty.logsumexp(1), one.topk(1, 1)[1],
        )  # fmt: skip

    args = torch.tensor(1.5), torch.zeros(3, 0), torch.randn(3, 1)
    net = smex.partition(Function(function), workers=2, args=args)
    for found, wanted in zip(net(*args), function(*args), strict=True):
        torch.testing.assert_close(found, wanted, equal_nan=True)
