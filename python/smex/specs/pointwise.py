"""Element-wise operators, with broadcasting."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch

from smex import tdl
from smex.specs.common import element, specs
from smex.tdl import like, spec, where


def _unary(target: str, function: Callable[[Any], Any]) -> None:
    spec(target)(lambda x, *_: lambda *i: function(element(x, i)))


def _binary(target: str, function: Callable[[Any, Any], Any]) -> None:
    spec(target)(lambda a, b, *_: lambda *i: function(element(a, i), element(b, i)))


def _number(value: Any) -> Any:
    return tdl._expr(value)


_SQRT_HALF = math.sqrt(0.5)
_GELU_TANH = math.sqrt(2 / math.pi)


def _normal_cdf(x: Any) -> Any:
    return 0.5 * (1 + tdl.erf(x * _SQRT_HALF))


def _gelu_inner(x: Any) -> Any:
    return tdl.tanh(_GELU_TANH * (x + 0.044715 * x * x * x))


for _target, _function in {
    "aten::abs": tdl.abs_,
    "aten::alias": lambda x: x,
    "aten::bitwise_not": tdl.not_,
    "aten::clone": lambda x: x,
    "aten::contiguous": lambda x: x,
    "aten::cos": tdl.cos,
    "aten::detach": lambda x: x,
    "aten::erf": tdl.erf,
    "aten::exp": tdl.exp,
    "aten::expm1": tdl.expm1,
    "aten::floor": tdl.floor,
    "aten::isnan": tdl.isnan,
    "aten::lift_fresh_copy": lambda x: x,
    "aten::log": tdl.log,
    "aten::log1p": tdl.log1p,
    "aten::logical_not": tdl.not_,
    "aten::neg": lambda x: -x,
    "aten::reciprocal": tdl.reciprocal,
    "aten::relu": tdl.relu,
    "aten::rsqrt": tdl.rsqrt,
    "aten::sigmoid": tdl.sigmoid,
    "aten::sign": tdl.sign,
    "aten::silu": lambda x: x * tdl.sigmoid(x),
    "aten::sin": tdl.sin,
    "aten::sqrt": tdl.sqrt,
    "aten::tanh": tdl.tanh,
}.items():
    _unary(_target, _function)

for _target, _binary_function in {
    "aten::bitwise_and": tdl.and_,  # of booleans
    "aten::bitwise_or": tdl.or_,
    "aten::bitwise_xor": tdl.xor_,
    "aten::eq": lambda a, b: _number(a) == b,
    "aten::fill": lambda x, value: like(value, x),
    "aten::ge": lambda a, b: _number(a) >= b,
    "aten::gt": lambda a, b: _number(a) > b,
    "aten::le": lambda a, b: _number(a) <= b,
    "aten::logical_and": tdl.and_,
    "aten::logical_or": tdl.or_,
    "aten::logical_xor": tdl.xor_,
    "aten::lt": lambda a, b: _number(a) < b,
    "aten::maximum": tdl.maximum,
    "aten::minimum": tdl.minimum,
    "aten::mul": lambda a, b: _number(a) * b,
    "aten::ne": lambda a, b: _number(a) != b,
    "aten::pow": lambda a, b: tdl.pow_(a, b),
    "aten::sigmoid_backward": lambda g, y: g * y * (1 - y),
    "aten::tanh_backward": lambda g, y: g * (1 - y * y),
    "aten::copy": lambda a, b: like(b, a),
}.items():
    _binary(_target, _binary_function)


@spec("aten::_to_copy")
def _to_copy(x, dtype, *_):
    if dtype is None or dtype.is_floating_point:
        return lambda *i: element(x, i)
    if dtype is torch.bool:
        return lambda *i: element(x, i) != 0
    return lambda *i: tdl.trunc(element(x, i))


@spec("aten::_conj")
def _conj(x):
    return lambda *i: element(x, i)


@spec("aten::add")
def add(a, b, alpha):
    return lambda *i: (
        _number(element(a, i)) + (element(b, i) if alpha == 1 else alpha * _number(element(b, i)))
    )


@spec("aten::addcdiv")
def addcdiv(x, a, b, value):
    return lambda *i: element(x, i) + value * element(a, i) / element(b, i)


@spec("aten::addcmul")
def addcmul(x, a, b, value):
    return lambda *i: element(x, i) + value * element(a, i) * element(b, i)


@specs("aten::clamp", "aten::clamp.Tensor")
def clamp(x, low, high):
    def body(*i):
        y = element(x, i)
        y = y if low is None else tdl.maximum(y, element(low, i))
        return y if high is None else tdl.minimum(y, element(high, i))

    return body


@spec("aten::clamp_min")
def clamp_min(x, low):
    return lambda *i: tdl.maximum(element(x, i), element(low, i))


@spec("aten::clamp_max")
def clamp_max(x, high):
    return lambda *i: tdl.minimum(element(x, i), element(high, i))


@spec("aten::div")
def div(a, b, rounding_mode=None):
    round_ = {None: lambda x: x, "floor": tdl.floor, "trunc": tdl.trunc}[rounding_mode]
    return lambda *i: round_(_number(element(a, i)) / element(b, i))


@spec("aten::elu")
def elu(x, alpha, scale, input_scale):
    return lambda *i: scale * where(
        x[i] > 0, x[i], alpha * tdl.expm1(input_scale * x[i])
    )  # fmt: skip


@specs("aten::empty_like", "aten::zeros_like")
def zeros_like(x, *_):
    return lambda *i: like(0, x[i])


@spec("aten::full_like")
def full_like(x, value, *_):
    return lambda *i: like(float(value), x[i])


@spec("aten::gelu")
def gelu(x, approximate):
    if approximate == "tanh":
        return lambda *i: 0.5 * x[i] * (1 + _gelu_inner(x[i]))
    return lambda *i: x[i] * _normal_cdf(x[i])


@spec("aten::gelu_backward")
def gelu_backward(grad, x, approximate):
    def exact(*i):
        density = tdl.exp(-0.5 * x[i] * x[i]) / math.sqrt(2 * math.pi)
        return grad[i] * (_normal_cdf(x[i]) + x[i] * density)

    def tanh(*i):
        inner = _gelu_inner(x[i])
        slope = _GELU_TANH * (1 + 3 * 0.044715 * x[i] * x[i])
        return grad[i] * (0.5 * (1 + inner) + 0.5 * x[i] * (1 - inner * inner) * slope)

    return tanh if approximate == "tanh" else exact


@spec("aten::hardtanh")
def hardtanh(x, low, high):
    return lambda *i: tdl.minimum(tdl.maximum(x[i], low), high)


@spec("aten::leaky_relu")
def leaky_relu(x, slope):
    return lambda *i: where(x[i] > 0, x[i], slope * x[i])


@spec("aten::leaky_relu_backward")
def leaky_relu_backward(grad, x, slope, _):
    return lambda *i: where(x[i] > 0, grad[i], slope * grad[i])


def _log_sigmoid(x):
    return tdl.minimum(x, 0) - tdl.log1p(tdl.exp(-tdl.abs_(x)))


@spec("aten::log_sigmoid_forward")
def log_sigmoid_forward(x):
    # The buffer is empty on CUDA and unspecified elsewhere: exp(-|x|) on the CPU.
    return lambda *i: _log_sigmoid(x[i]), None


@spec("aten::masked_fill")
def masked_fill(x, mask, value):
    return lambda *i: where(element(mask, i), element(value, i), element(x, i))


@spec("aten::ones_like")
def ones_like(x, *_):
    return lambda *i: like(1, x[i])


@spec("aten::rsub")
def rsub(a, b, alpha):
    return lambda *i: _number(element(b, i)) - alpha * element(a, i)


@spec("aten::silu_backward")
def silu_backward(grad, x):
    def body(*i):
        s = tdl.sigmoid(x[i])
        return grad[i] * s * (1 + x[i] * (1 - s))

    return body


@spec("aten::sub")
def sub(a, b, alpha):
    return lambda *i: (
        _number(element(a, i)) - (element(b, i) if alpha == 1 else alpha * _number(element(b, i)))
    )


@spec("aten::threshold_backward")
def threshold_backward(grad, x, threshold):
    return lambda *i: where(x[i] <= threshold, 0, grad[i])


@spec("aten::where")
def where_(condition, a, b):
    return lambda *i: where(element(condition, i), element(a, i), element(b, i))
