"""What element-wise calls compute, as formulas of their arguments.

Bool values are the numbers 0 and 1.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch
from torch import fx

from smex.formula import OPERATIONS, Term
from smex.vertex.compile.simplify import ZEROS

__all__ = ["CALLS", "CLAMPS", "CONDITIONS", "FILLED", "LOGIC", "Formula", "has_options", "term"]

aten = torch.ops.aten

Formula = Term | float
"""What calls are made with; numbers are constants."""


def term(op: str, *args: Formula) -> Term:
    """Returns an operation of formulas and numbers."""
    return Term(op, tuple(x if isinstance(x, Term) else Term("number", (float(x),)) for x in args))


def _plain(op: str) -> Callable[..., Term]:
    return lambda *args: term(op, *args)


def _operator_of(operation: Any) -> Any:
    """Returns the ATen operator of an operation, of two tensors or of one and a number."""
    packet = getattr(aten, operation.torch)
    overload = "Tensor_Scalar" if operation.takes_number else "Tensor"
    return getattr(packet, overload if overload in packet.overloads() else "default")


def _sum(a: Formula, b: Formula, alpha: float = 1) -> Term:
    return term("+", a, term("*", b, alpha))


def _difference(a: Formula, b: Formula, alpha: float = 1) -> Term:
    return term("-", a, term("*", b, alpha))


def _one_minus(x: Formula) -> Term:
    return term("-", 1, x)


def _above(x: Formula, threshold: float) -> Term:
    """1 where x is above the threshold or no number, else 0."""
    return _one_minus(term("less_equal", x, threshold))


def _gelu(x: Formula) -> Term:
    return term("*", x, _normal(x))


def _normal(x: Formula) -> Term:
    """Returns the standard normal distribution's probability below x."""
    return term("*", term("+", term("erf", term("*", x, math.sqrt(0.5))), 1), 0.5)


def _gelu_backward(grad: Formula, x: Formula) -> Term:
    bell = term("exp", term("*", term("*", x, x), -0.5))
    density = term("*", bell, 1 / math.sqrt(2 * math.pi))
    return term("*", grad, term("+", _normal(x), term("*", x, density)))


def _silu_backward(grad: Formula, x: Formula) -> Term:
    share = term("sigmoid", x)
    rest = term("+", 1, term("*", x, _one_minus(share)))
    return term("*", grad, term("*", share, rest))


def _leaky_relu_backward(grad: Formula, x: Formula, slope: float, of_result: bool) -> Term:
    return term("*", grad, term("leaky_step", x, slope))


def _where(condition: Formula, a: Formula, b: Formula) -> Term:
    """The one or the other. What chooses is no factor, and the -0 of `part` changes no sum."""
    if _is_zero(b):
        return term("select", condition, a)
    if _is_zero(a):
        return term("select", _one_minus(condition), b)
    return term("+", term("part", condition, a), term("part", _one_minus(condition), b))


def _is_zero(x: Formula) -> bool:
    return not isinstance(x, Term) and x == 0 and math.copysign(1, x) > 0


def _clamp(x: Formula, min: Formula | None = None, max: Formula | None = None) -> Formula:
    """As torch's: of a bound and what equals it the latter, which keeps the sign of zeros."""
    above = x if min is None else term("maximum", min, x)
    return above if max is None else term("minimum", max, above)


def _elu(x: Formula, alpha: float = 1, scale: float = 1, input_scale: float = 1) -> Formula:
    below = term("*", term("expm1", term("*", x, input_scale)), alpha * scale)
    return _where(term("less", 0, x), term("*", x, scale), below)


def _elu_backward(
    grad: Formula, alpha: float, scale: float, input_scale: float, of_result: bool, x: Formula
) -> Formula:
    slope = term("*", term("exp", term("*", x, input_scale)), alpha * scale * input_scale)
    below = term("*", grad, slope)
    if of_result:
        below = term("*", term("*", grad, input_scale), term("+", x, alpha * scale))
    return _where(term("less", 0, x), term("*", grad, scale), below)


def _hardsigmoid(x: Formula) -> Term:
    return term("/", _clamp(term("+", x, 3), 0, 6), 6)


def _hardsigmoid_backward(grad: Formula, x: Formula) -> Term:
    inside = term("select", term("less", -3, x), term("less", x, 3))
    return term("select", inside, term("/", grad, 6))


def _hardswish(x: Formula) -> Term:
    return term("/", term("*", x, _clamp(term("+", x, 3), 0, 6)), 6)


def _hardswish_backward(grad: Formula, x: Formula) -> Formula:
    inside = term("*", grad, term("+", term("/", x, 3), 0.5))
    return _where(term("less_equal", x, -3), 0.0, _where(term("less_equal", 3, x), grad, inside))


def _mish(x: Formula) -> Term:
    return term("*", x, term("tanh", term("softplus", x)))


def _mish_backward(grad: Formula, x: Formula) -> Term:
    share = term("tanh", term("softplus", x))
    slope = term("*", term("*", x, term("sigmoid", x)), _one_minus(term("*", share, share)))
    return term("*", grad, term("+", share, slope))


def _softplus_backward(grad: Formula, x: Formula, beta: float, threshold: float) -> Formula:
    x = term("*", x, beta)
    return _where(term("less", threshold, x), grad, term("*", grad, term("sigmoid", x)))


def _hardtanh_backward(grad: Formula, x: Formula, low: float, high: float) -> Term:
    outside = term("maximum", term("less_equal", x, low), term("less_equal", high, x))
    return term("select", _one_minus(outside), grad)


_COMPARED: dict[str, Callable[..., Term]] = {
    **{
        operation.torch: _plain(op)
        for op, operation in OPERATIONS.items()
        if operation.is_condition
    },
    "ge": lambda a, b: term("less_equal", b, a),
    "gt": lambda a, b: term("less", b, a),
    "ne": lambda a, b: _one_minus(term("equal", a, b)),
}
"""Comparisons, which are 0 or 1 in a program."""

LOGIC: dict[Any, Callable[..., Term]] = {
    **dict.fromkeys((aten.bitwise_and.Tensor, aten.logical_and.default), _plain("select")),
    **dict.fromkeys((aten.bitwise_not.default, aten.logical_not.default), _one_minus),
    **dict.fromkeys((aten.bitwise_or.Tensor, aten.logical_or.default), _plain("maximum")),
    **dict.fromkeys((aten.bitwise_xor.Tensor, aten.logical_xor.default), _COMPARED["ne"]),
}
"""Of bool tensors."""

CONDITIONS: dict[Any, Callable[..., Term]] = {
    **{
        getattr(getattr(aten, name), overload): formula
        for name, formula in _COMPARED.items()
        for overload in ("Tensor", "Scalar")
    },
    **LOGIC,
    aten.isnan.default: lambda x: _one_minus(term("equal", x, x)),
}
"""Those whose results are bool."""

CLAMPS: dict[Any, Callable[..., Formula]] = {
    aten.clamp.default: _clamp,
    aten.clamp.Tensor: _clamp,
    aten.clamp_max.default: lambda x, max: _clamp(x, None, max),
    aten.clamp_max.Tensor: lambda x, max: _clamp(x, None, max),
    aten.clamp_min.default: _clamp,
    aten.clamp_min.Tensor: _clamp,
    aten.hardtanh.default: lambda x, low=-1, high=1: _clamp(x, low, high),
}

FILLED: dict[Any, tuple[int, Any]] = {
    **dict.fromkeys(ZEROS, (0, 0.0)),
    **dict.fromkeys((aten.ones.default, aten.ones_like.default, aten.new_ones.default), (0, 1.0)),
    aten.full.default: (1, None),
    aten.full_like.default: (1, None),
    aten.new_full.default: (2, None),
    aten.scalar_tensor.default: (0, None),
}
"""For calls that fill a tensor, the number, or which argument is it."""

_COMPOSED: dict[Any, Callable[..., Formula]] = {
    **CLAMPS,
    **CONDITIONS,
    aten._to_copy.default: lambda x, dtype: x,  # of bool
    aten.add.Scalar: _sum,
    aten.add.Tensor: _sum,
    aten.celu.default: lambda x, alpha=1: _elu(x, alpha, 1, 1 / alpha),
    aten.div.Scalar: _plain("/"),
    aten.elu.default: _elu,
    aten.elu_backward.default: _elu_backward,
    aten.gelu.default: _gelu,
    aten.gelu_backward.default: _gelu_backward,
    aten.hardsigmoid.default: _hardsigmoid,
    aten.hardsigmoid_backward.default: _hardsigmoid_backward,
    aten.hardswish.default: _hardswish,
    aten.hardswish_backward.default: _hardswish_backward,
    aten.hardtanh_backward.default: _hardtanh_backward,
    aten.leaky_relu.default: lambda x, slope=0.01: term("leaky_relu", x, slope),
    aten.leaky_relu_backward.default: _leaky_relu_backward,
    aten.masked_fill.Scalar: lambda x, mask, value: _where(mask, value, x),
    aten.masked_fill.Tensor: lambda x, mask, value: _where(mask, value, x),
    aten.mish.default: _mish,
    aten.mish_backward.default: _mish_backward,
    aten.mul.Scalar: _plain("*"),
    aten.reciprocal.default: lambda x: term("/", 1, x),
    aten.rsqrt.default: lambda x: term("/", 1, term("sqrt", x)),
    aten.rsub.Scalar: lambda a, b, alpha=1: _difference(b, a, alpha),
    aten.sgn.default: _plain("sign"),  # of real numbers
    aten.sigmoid_backward.default: lambda grad, y: term("*", grad, term("*", _one_minus(y), y)),
    aten.silu.default: lambda x: term("*", x, term("sigmoid", x)),
    aten.silu_backward.default: _silu_backward,
    aten.softplus_backward.default: _softplus_backward,
    aten.sub.Scalar: _difference,
    aten.sub.Tensor: _difference,
    aten.tanh_backward.default: lambda grad, y: term("*", grad, _one_minus(term("*", y, y))),
    aten.threshold_backward.default: lambda grad, x, threshold: term(
        "select", _above(x, threshold), grad
    ),
    aten.where.self: _where,
}

_PLAIN = {
    _operator_of(operation): op
    for op, operation in OPERATIONS.items()
    if operation.torch and not operation.is_condition and _operator_of(operation) not in _COMPOSED
}

CALLS = {**{target: _plain(op) for target, op in _PLAIN.items()}, **_COMPOSED}
"""For each element-wise operator the formula of what it is called with."""


def has_options(node: fx.Node) -> bool:
    """Returns whether a call that is one operation says more than its arguments."""
    op = _PLAIN.get(node.target)
    return op is not None and len(node.args) + len(node.kwargs) > OPERATIONS[op].arguments
