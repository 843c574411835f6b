"""Element-wise operators, with broadcasting."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from typing import Any

import torch

from smex import tdl
from smex.specs.common import element, specs
from smex.tdl import Opaque, SymbolicTensor, and_, like, spec, where
from smex.tdl.expressions import as_expr

_LN_2 = math.log(2)


def elementwise(*targets: str) -> Callable[[Any], Any]:
    """Registers a function of numbers: the output's elements are it, of the arguments' elements.

    Arguments that are not tensors reach the function as they are. With a complex number among them,
    which expressions do not have, the call is an unknown function of the elements.
    """

    def register(function: Any) -> Any:
        def described(*args: Any) -> Any:
            if any(isinstance(arg, complex) for arg in args):
                return _unknown(targets[0], args)
            return lambda *i: function(*(element(arg, i) for arg in args))

        specs(*targets)(described)
        return function

    return register


def unknown(*targets: str) -> None:
    """Registers element-wise operators that have no formula in the language."""
    for target in targets:
        spec(target)(lambda *args, target=target: _unknown(target, args))


def _unknown(target: str, args: Any) -> Any:
    name = target.partition("::")[2].partition(".")[0]
    tensors = [arg for arg in args if isinstance(arg, SymbolicTensor)]
    return lambda *i: Opaque(name, *(element(x, i) for x in tensors))


def _crosses(rest: Any, b: Any) -> Any:
    """Returns whether the quotient with this remainder was rounded up, towards zero."""
    return and_(rest != 0, (rest < 0) != (as_expr(b) < 0))


def _remainder(a: Any, b: Any) -> Any:
    rest = tdl.fmod(a, b)
    return where(_crosses(rest, b), rest + b, rest)


def _floor_divided(a: Any, b: Any) -> Any:
    rest = tdl.fmod(a, b)
    floor = tdl.round_((a - rest) / b) - _crosses(rest, b)
    return where(as_expr(b) == 0, a / b, floor)


for _target, _function in {
    "aten::_masked_scale": lambda x, mask, scale: x * mask * scale,
    "aten::_neg_view": operator.neg,
    "aten::abs": tdl.abs_,
    "aten::acos": tdl.acos,
    "aten::acosh": tdl.acosh,
    "aten::alias": lambda x: x,
    "aten::alias_copy": lambda x: x,
    "aten::asin": tdl.asin,
    "aten::asinh": tdl.asinh,
    "aten::atan": tdl.atan,
    "aten::atan2": tdl.atan2,
    "aten::atanh": tdl.atanh,
    "aten::ceil": tdl.ceil,
    "aten::clone": lambda x, *_: x,
    "aten::contiguous": lambda x, *_: x,
    "aten::copy": lambda a, b, *_: like(b, a),
    "aten::copysign": tdl.copysign,
    "aten::cos": tdl.cos,
    "aten::cosh": tdl.cosh,
    "aten::deg2rad": lambda x: x * (math.pi / 180),
    "aten::detach": lambda x: x,
    "aten::detach_copy": lambda x: x,
    "aten::eq": operator.eq,
    "aten::erf": tdl.erf,
    "aten::erfc": tdl.erfc,
    "aten::exp": tdl.exp,
    "aten::exp2": tdl.exp2,
    "aten::expm1": tdl.expm1,
    "aten::fill": lambda x, value: like(value, x),
    "aten::floor": tdl.floor,
    "aten::floor_divide": _floor_divided,
    "aten::fmax": lambda a, b: where(tdl.isnan(b), a, where(a > b, a, b)),
    "aten::fmin": lambda a, b: where(tdl.isnan(b), a, where(a < b, a, b)),
    "aten::fmod": tdl.fmod,
    "aten::frac": lambda x: x - tdl.trunc(x),
    "aten::ge": operator.ge,
    "aten::gt": operator.gt,
    "aten::heaviside": lambda x, zero: where(x == 0, zero, x > 0),
    "aten::hypot": tdl.hypot,
    "aten::isinf": lambda x: tdl.abs_(x) == math.inf,
    "aten::isnan": tdl.isnan,
    "aten::isneginf": lambda x: x == -math.inf,
    "aten::isposinf": lambda x: x == math.inf,
    "aten::ldexp": lambda x, power: x * tdl.exp2(power),
    "aten::le": operator.le,
    "aten::lift": lambda x: x,
    "aten::lift_fresh": lambda x: x,
    "aten::lift_fresh_copy": lambda x: x,
    "aten::log": tdl.log,
    "aten::log10": tdl.log10,
    "aten::log1p": tdl.log1p,
    "aten::log2": tdl.log2,
    "aten::logical_and": tdl.and_,
    "aten::logical_not": tdl.not_,
    "aten::logical_or": tdl.or_,
    "aten::logical_xor": tdl.xor_,
    "aten::lt": operator.lt,
    "aten::maximum": tdl.maximum,
    "aten::minimum": tdl.minimum,
    "aten::mul": operator.mul,
    "aten::native_dropout_backward": lambda grad, mask, scale: grad * mask * scale,
    "aten::ne": operator.ne,
    "aten::neg": operator.neg,
    "aten::nextafter": tdl.nextafter,
    "aten::ones_like": lambda x, *_: like(1, x),
    "aten::pow": tdl.pow_,
    "aten::pow_.Tensor": tdl.pow_,
    "aten::rad2deg": lambda x: x * (180 / math.pi),
    "aten::reciprocal": tdl.reciprocal,
    "aten::remainder": _remainder,
    "aten::round": tdl.round_,
    "aten::rsqrt": tdl.rsqrt,
    "aten::rsub": lambda a, b, alpha: b - alpha * a,
    "aten::sgn": tdl.sign,
    "aten::sign": tdl.sign,
    "aten::signbit": tdl.signbit,
    "aten::sin": tdl.sin,
    "aten::sinh": tdl.sinh,
    "aten::sqrt": tdl.sqrt,
    "aten::tan": tdl.tan,
    "aten::tanh": tdl.tanh,
    "aten::tanh_backward": lambda grad, y: grad * (1 - y * y),
    "aten::trunc": tdl.trunc,
}.items():
    elementwise(_target)(_function)

unknown(
    "aten::__lshift__",
    "aten::__rshift__",
    "aten::_conj_copy",
    "aten::_conj_physical",
    "aten::bitwise_and",  # of integers or booleans
    "aten::bitwise_left_shift",
    "aten::bitwise_not",
    "aten::bitwise_or",
    "aten::bitwise_right_shift",
    "aten::bitwise_xor",
    "aten::complex",
    "aten::conj_physical",
    "aten::gcd",
    "aten::lcm",
    "aten::polar",
)


@elementwise("aten::_conj")
def _conj(x):
    return x


@elementwise("aten::_to_copy")
def _to_copy(x, dtype, *_):
    if dtype is None or dtype.is_floating_point or dtype.is_complex:
        return x
    return x != 0 if dtype is torch.bool else tdl.trunc(x)


@elementwise("aten::add")
def add(a, b, alpha):
    return a + (b if alpha == 1 else alpha * b)


@elementwise("aten::addcdiv")
def addcdiv(x, a, b, value):
    return x + value * a / b


@elementwise("aten::addcmul")
def addcmul(x, a, b, value):
    return x + value * a * b


@elementwise("aten::angle")
def angle(x):
    return where(tdl.isnan(x), x, where(x < 0, math.pi, 0))


@elementwise("aten::clamp", "aten::clamp.Tensor")
def clamp(x, low, high):
    x = x if low is None else tdl.maximum(x, low)
    return x if high is None else tdl.minimum(x, high)


@elementwise("aten::clamp_max")
def clamp_max(x, high):
    return tdl.minimum(x, high)


@elementwise("aten::clamp_min")
def clamp_min(x, low):
    return tdl.maximum(x, low)


@elementwise("aten::div")
def div(a, b, rounding_mode=None):
    if rounding_mode == "floor":
        return _floor_divided(a, b)
    return tdl.trunc(a / b) if rounding_mode == "trunc" else a / b


@elementwise("aten::empty_like", "aten::zero", "aten::zeros_like")
def zeros_like(x, *_):
    return like(0, x)


@spec("aten::frexp")
def frexp(x):
    def exponent(x):
        finite = and_(x != 0, tdl.abs_(x) < math.inf)
        return where(finite, tdl.floor(tdl.log2(tdl.abs_(x))) + 1, 0)

    return lambda *i: x[i] * tdl.exp2(-exponent(x[i])), lambda *i: exponent(x[i])


@elementwise("aten::full_like")
def full_like(x, value, *_):
    return like(float(value), x)


@elementwise("aten::lerp")
def lerp(a, b, weight):
    near_end = b - (b - a) * (1 - weight)
    return where(tdl.abs_(weight) < 0.5, a + weight * (b - a), near_end)


@elementwise("aten::logaddexp")
def logaddexp(a, b):
    high, low = tdl.maximum(a, b), tdl.minimum(a, b)
    return where(a == b, a + _LN_2, high + tdl.log1p(tdl.exp(low - high)))


@elementwise("aten::logaddexp2")
def logaddexp2(a, b):
    high, low = tdl.maximum(a, b), tdl.minimum(a, b)
    return where(a == b, a + 1, high + tdl.log1p(tdl.exp2(low - high)) / _LN_2)


@elementwise("aten::masked_fill")
def masked_fill(x, mask, value):
    return where(mask, value, x)


@spec("aten::nan_to_num")
def nan_to_num(x, nan, posinf, neginf):
    if posinf is None or neginf is None:
        return lambda *i: Opaque("nan_to_num", x[i])  # the largest number of the type

    def body(*i):
        finite = where(x[i] == math.inf, posinf, where(x[i] == -math.inf, neginf, x[i]))
        return where(tdl.isnan(x[i]), nan or 0, finite)

    return body


@elementwise("aten::round.decimals")
def round_decimals(x, decimals):
    power = 10 ** abs(decimals)
    return tdl.round_(x * power) / power if decimals > 0 else tdl.round_(x / power) * power


@elementwise("aten::sub")
def sub(a, b, alpha):
    return a - (b if alpha == 1 else alpha * b)


@spec("aten::where")
def where_(condition, *branches):
    if not branches:
        return None  # the positions of non-zero elements
    return lambda *i: where(element(condition, i), *(element(x, i) for x in branches))


@elementwise("aten::xlogy")
def xlogy(x, y):
    x, y = as_expr(x), as_expr(y)
    return where(tdl.isnan(y), y, where(x == 0, 0, x * tdl.log(y)))
