"""Runs of element-wise calls, which are one call of a program, beside the calls one by one."""

import copy
import functools
import json

import pytest
import torch
from torch import nn
from torch.nn import functional as F

import smex
from smex._C import ComputeInstr, lower
from smex.planning import placed

pytestmark = pytest.mark.costly

INF = float("inf")
SPECIAL = [0.0, -0.0, 1.0, -1.0, 0.5, 3.0, -30.0, 90.0, INF, -INF, float("nan")]


@pytest.fixture
def apart(monkeypatch):
    """Makes nets whose calls are not joined."""

    def make(model, **options):
        with monkeypatch.context() as patch:
            patch.setattr(placed, "lower", functools.partial(lower, join=False))
            net = smex.partition(model, **options)
            net.plan.program()
        return net

    return make


def joined_calls(net):
    """What the joined calls of the first worker are made of."""
    own = net.plan.program().workers[0]
    calls = [i for i in (*own.forward, *own.backward) if isinstance(i, ComputeInstr)]
    return [call.what for call in calls if call.what]


class Function(nn.Module):
    def __init__(self, function):
        super().__init__()
        self.function = function

    def forward(self, *inputs):
        return self.function(*inputs)


# A call before and one behind, so that there is something to join. They change no number.
ONE = {
    "clamp": lambda x: x.clamp(-0.5, 2), "exp": torch.exp, "gelu": F.gelu,
    "gelu-tanh": lambda x: F.gelu(x, approximate="tanh"), "hardsigmoid": F.hardsigmoid,
    "hardswish": F.hardswish, "hardtanh": F.hardtanh, "leaky_relu": F.leaky_relu,
    "mish": F.mish, "neg": torch.neg, "pow2": lambda x: x**2, "pow3": lambda x: x**3,
    "reciprocal": torch.reciprocal, "relu": F.relu, "relu6": F.relu6, "rsqrt": torch.rsqrt,
    "sigmoid": torch.sigmoid, "silu": F.silu, "softplus": F.softplus, "softshrink": F.softshrink,
    "sqrt": torch.sqrt, "square": torch.square, "tanh": torch.tanh,
    "threshold": lambda x: F.threshold(x, 0.25, -2),
    "written-out": lambda x: 0.5 * x * (1 + torch.tanh(0.79788456 * (x + 0.044715 * x**3))),
}  # fmt: skip
TWO = {
    "add": lambda x, y: torch.add(x, y, alpha=2), "div": torch.div,
    "lerp": lambda x, y: x.lerp(y, 0.3),
    "maximum": torch.maximum, "minimum": torch.minimum, "mul": torch.mul, "sub": torch.sub,
    "where": lambda x, y: torch.where(x > y, x, y),
}  # fmt: skip


# Where torch's vectors and what is left over of them differ: in the sign of a zero, and in the
# gradient of NaN.
EITHER_ZERO = ("relu6", "softshrink")
EITHER_NAN = ("hardswish", "hardtanh", "relu6", "softshrink")


def same(found, wanted, tolerance, zeros=True):
    """Equal, NaN as NaN, and zeros of one sign."""
    torch.testing.assert_close(found, wanted, rtol=tolerance, atol=tolerance, equal_nan=True)
    zero = (wanted == 0) & (found == 0)
    if zeros:
        assert torch.equal(torch.signbit(found[zero]), torch.signbit(wanted[zero]))


@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float32, 2e-6), (torch.float64, 1e-13)])
@pytest.mark.parametrize("name", [*ONE, *TWO])
def test_numbers_that_are_special(name, dtype, tolerance):
    a = torch.tensor(SPECIAL, dtype=dtype).repeat_interleave(len(SPECIAL))
    b = torch.tensor(SPECIAL, dtype=dtype).repeat(len(SPECIAL))
    if name in ("maximum", "minimum"):  # of zeros torch's vectors give either
        a, b = a + 0.0, b + 0.0
    function = TWO.get(name) or (lambda x, y: ONE[name](x))

    def turned(x):
        return torch.neg(torch.neg(x))

    whole = Function(lambda x, y: turned(function(turned(x), turned(y))))
    inputs = [a.clone().requires_grad_(), b.clone().requires_grad_()]
    own = [a.clone().requires_grad_(), b.clone().requires_grad_()]
    net = smex.partition(whole, args=tuple(own))
    found, wanted = net(*own), whole(*inputs)
    same(found, wanted, tolerance, zeros=name not in EITHER_ZERO)
    upstream = torch.tensor([1.0, -2.0, 0.5], dtype=dtype).repeat(41)[: len(a)]
    found.backward(upstream)
    wanted.backward(upstream)
    for x, y in zip(own, inputs, strict=True):
        if y.grad is not None:
            told = ~(y.isnan() & (name in EITHER_NAN))
            same(x.grad[told], y.grad[told], tolerance, zeros=False)
    assert joined_calls(net)


class Mlp(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.last = nn.Linear(12, 20), nn.Linear(20, 6)

    def forward(self, x):
        y = self.first(x)
        y = F.dropout(torch.tanh(y * 0.5) + y, 0.25, self.training)
        return F.silu(self.last(y)) * 2 - 1


class Block(nn.Module):
    """Attention and a gated MLP, with norms and residuals."""

    def __init__(self, size=12, heads=3):
        super().__init__()
        self.heads, self.size = heads, size
        self.qkv, self.out = nn.Linear(size, 3 * size), nn.Linear(size, size)
        self.gate, self.up, self.down = (
            nn.Linear(size, 20), nn.Linear(size, 20), nn.Linear(20, size)
        )  # fmt: skip
        self.norms = nn.ModuleList([nn.RMSNorm(size), nn.LayerNorm(size)])

    def forward(self, x):
        batch, length, _ = x.shape
        parts = self.qkv(self.norms[0](x)).view(batch, length, 3, self.heads, -1).unbind(2)
        mixed = F.scaled_dot_product_attention(*[p.transpose(1, 2) for p in parts])
        x = x + F.dropout(self.out(mixed.transpose(1, 2).reshape(x.shape)), 0.1, self.training)
        y = self.norms[1](x)
        return x + F.dropout(self.down(F.silu(self.gate(y)) * self.up(y)), 0.1, self.training)


class Cells(nn.Module):
    """An LSTM cell that is written out, over steps."""

    def __init__(self, size=8):
        super().__init__()
        self.size, self.x, self.h = size, nn.Linear(size, 4 * size), nn.Linear(size, 4 * size)

    def forward(self, x):
        h = c = x.new_zeros(x.shape[0], self.size)
        for step in x.unbind(1):
            i, f, g, o = (self.x(step) + self.h(h)).chunk(4, 1)
            c = torch.sigmoid(f) * c + torch.sigmoid(i) * torch.tanh(g)
            h = torch.sigmoid(o) * torch.tanh(c)
        return h


class Residual(nn.Module):
    def __init__(self, channels=6):
        super().__init__()
        self.convs = nn.ModuleList(nn.Conv2d(channels, channels, 3, padding=1) for _ in range(2))
        self.norms = nn.ModuleList(nn.BatchNorm2d(channels) for _ in range(2))

    def forward(self, x):
        y = F.relu(self.norms[0](self.convs[0](x)))
        return F.relu(self.norms[1](self.convs[1](y)) + x) * 0.5 + F.hardswish(x)


MODELS = {
    "MLP": (Mlp, (7, 12)),
    "block": (Block, (3, 5, 12)),
    "cells": (Cells, (5, 3, 8)),
    "residual": (Residual, (4, 6, 5, 5)),
}


def step(net, x, seed=1):
    """The output and the gradients of a training step."""
    torch.manual_seed(seed)
    for p in net.parameters():
        p.grad = None
    y = net(x)
    (y * torch.arange(y.numel(), dtype=y.dtype).view(y.shape).cos()).sum().backward()
    grads = net.full_grads() if isinstance(net, smex.PartitionedModule) else {
        n: p.grad for n, p in net.named_parameters()
    }  # fmt: skip
    return {"output": y.detach(), **grads}


def equal(found, wanted, tolerance):
    assert found.keys() == wanted.keys()
    for name, value in wanted.items():
        torch.testing.assert_close(found[name], value, rtol=tolerance, atol=tolerance, msg=name)


@pytest.mark.parametrize("workers", [1, 2, 3, 4])
@pytest.mark.parametrize("name", MODELS)
def test_a_journey(name, workers, apart):
    """Training, evaluation, another size and training again: as apart, and as the model."""
    torch.manual_seed(0)
    make, shape = MODELS[name]
    model = make().double()
    x = torch.randn(shape, dtype=torch.float64)
    options = {"workers": workers, "args": (x,), "replicate_bytes": 0}
    net = smex.partition(copy.deepcopy(model), **options)
    other = apart(copy.deepcopy(model), **options)
    assert joined_calls(net)
    assert not joined_calls(other)
    for round in range(2):
        equal(step(net, x), step(other, x), 1e-12)  # dropout draws the same
        step(model, x)  # for what its norms remember
        for each in (net, other, model):
            each.eval()
        equal(step(net, x), step(model, x), 1e-11)
        if round == 0:
            torch.testing.assert_close(net(x[1:]), model(x[1:]), rtol=1e-11, atol=1e-11)
        for each in (net, other, model):
            each.train()


@pytest.mark.parametrize("workers", [1, 2, 3])
@pytest.mark.parametrize("name", MODELS)
def test_what_is_predicted_is_what_runs(name, workers, apart):
    torch.manual_seed(0)
    make, shape = MODELS[name]
    model, x = make(), torch.randn(shape)
    options = {"workers": workers, "args": (x,), "replicate_bytes": 0}
    net, other = smex.partition(copy.deepcopy(model), **options), apart(model, **options)
    step(net, x)
    stats = net.stats()
    assert stats["bytes_moved"] == stats["predicted_bytes_moved"]
    for found, predicted in zip(stats["peak_bytes"], stats["predicted_peak_bytes"], strict=True):
        assert found <= predicted
        assert workers > 1 or found == predicted
    before = other.plan.peak_bytes()
    assert all(a <= b for a, b in zip(net.plan.peak_bytes(), before, strict=True))


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("workers", [1, 3])
def test_half_types_are_rounded_once(dtype, workers):
    """No further from float64 than eager, which rounds after each call; by an eighth at most."""
    torch.manual_seed(0)
    model = Function(lambda x, y: (F.silu(x) * y + torch.tanh(x * 0.5) - y) * torch.sigmoid(y))
    x, y = torch.randn(64, 33).to(dtype), torch.randn(64, 33).to(dtype)
    net = smex.partition(model, workers=workers, args=(x, y))
    exact = model(x.double(), y.double())
    found = (net(x, y).double() - exact).norm()
    assert found <= 1.125 * (model(x, y).double() - exact).norm()
    assert found <= 2 * (exact.to(dtype).double() - exact).norm()
    assert joined_calls(net)


@pytest.mark.parametrize("workers", [1, 2])
def test_under_autocast(workers):
    torch.manual_seed(0)
    model = Block().eval()
    x = torch.randn(3, 5, 12)
    exact = step(copy.deepcopy(model).double(), x.double())
    with torch.autocast("cpu", torch.bfloat16):
        net = smex.partition(copy.deepcopy(model), workers=workers, args=(x,))
        found, eager = step(net, x), step(copy.deepcopy(model), x)
    assert joined_calls(net)
    for name, value in exact.items():
        far = (found[name].double() - value).norm() / (value.norm() + 1e-12)
        assert far <= 1.5 * (eager[name].double() - value).norm() / (value.norm() + 1e-12) + 0.01


@pytest.mark.parametrize("layout", ["turned", "channels_last", "expanded", "part"])
@pytest.mark.parametrize("workers", [1, 2])
def test_operands_of_other_layouts(layout, workers):
    make = {
        "turned": lambda x: x.transpose(1, 3),
        "channels_last": lambda x: x.contiguous(memory_format=torch.channels_last),
        "expanded": lambda x: x[:, :1].expand(-1, 4, -1, -1),
        "part": lambda x: x[:, :, :, 1:4],
    }[layout]
    model = Function(lambda x, y: (torch.tanh(make(x)) * 2 + make(y)).reshape(x.shape[0], -1) * 3)
    x, y = torch.randn(2, 6, 4, 4, 5)
    torch.testing.assert_close(
        smex.partition(model, workers=workers, args=(x, y))(x, y), model(x, y)
    )


@pytest.mark.parametrize("rows", [0, 1, 3, 700])
def test_other_sizes(rows):
    model = Function(lambda x, y: torch.tanh(x * y - 1) + y[:1])
    net = smex.partition(model, workers=2)
    x, y = torch.randn(2, max(rows, 1), 5)
    x, y = x[:rows], y[: max(rows, 1)] if rows else y[:0]
    if rows == 0:
        model = net_model = Function(lambda x, y: torch.tanh(x * y - 1) + y)
        net = smex.partition(net_model, workers=2)
    torch.testing.assert_close(net(x, y), model(x, y))


def test_a_trace_tells_what_a_call_is_made_of(tmp_path):
    model = Function(lambda x, y: torch.exp(x * y) + x)
    x, y = torch.randn(2, 4, 4)
    net = smex.partition(model, args=(x, y))
    net.trace(tmp_path / "trace.json", x, y)
    events = json.loads((tmp_path / "trace.json").read_text())
    events = events["traceEvents"] if isinstance(events, dict) else events
    name = "smex::pointwise[aten::mul.Tensor, aten::exp, aten::add.Tensor]"
    assert [e["name"] for e in events if e.get("cat") == "compute"] == [name]
    assert name in str(net.plan.program())
    assert list(net.stats()["seconds_by_target"]) == ["smex::pointwise"]
