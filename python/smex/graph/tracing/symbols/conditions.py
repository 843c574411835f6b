"""Comparisons, bool features, and what is chosen by them."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, fx

from smex.formula import Term
from smex.graph.tracing.symbols.symbols import RefusedError, Symbol, Tracer, Value, symbol
from smex.graph.tracing.symbols.values import (
    any_value,
    as_condition,
    as_numbers,
    binary,
    call,
    constant,
    pair,
    register,
    shared,
    value_of,
)


def _comparison(op: str, swap: bool = False, negate: bool = False) -> Callable[..., Symbol]:
    """``less``, ``less_equal`` or ``equal``, of exchanged arguments, or not so."""
    compare = binary(op)

    def handler(tracer: Tracer, input: Any, other: Any) -> Symbol:
        found = compare(tracer, *((other, input) if swap else (input, other)))
        found = as_condition(found)
        return _not(tracer, found) if negate else found

    return handler


def _condition(x: Any) -> Value:
    value = any_value(x) if isinstance(x, Symbol) else None
    if value is None or not value.is_condition:
        raise RefusedError("a condition is not a comparison of features or a bool feature")
    return value


def _not(tracer: Tracer, input: Any) -> Symbol:
    value = _condition(input)
    args = (Term("number", (1.0,)), value.term)
    return as_condition(call("-", args, value.shape, value, value.dropped))


def _logical(op: str) -> Callable[..., Symbol]:
    def handler(tracer: Tracer, input: Any, other: Any) -> Symbol:
        return as_condition(pair(op, _condition(input), _condition(other)))

    return handler


def _where(tracer: Tracer, condition: Any, input: Any, other: Any) -> Symbol:
    """Where its condition does not hold ``select`` gives 0, and ``part`` what adds nothing."""
    holds = _condition(condition)
    tensors = [x for x in (input, other) if isinstance(x, (fx.Proxy, Tensor))]
    if not tensors:
        raise RefusedError("where of two numbers")
    if holds.dtype is torch.bool:
        first = tensors[0]
        dtype = first.dtype if isinstance(first, Tensor) else value_of(first).dtype
        holds = as_numbers(holds, dtype)
    parts = [
        (c, x)
        for c, x in ((holds, input), (_not(tracer, symbol(holds)).value, other))
        if not _is_zero(x)
    ]
    if len(parts) == 1:
        return _chosen("select", *parts[0])
    (value, other_value) = (_chosen("part", c, x).value for c, x in parts)
    return pair("+", value, other_value)


def _is_zero(x: Any) -> bool:
    return type(x) in (int, float) and x == 0 and math.copysign(1, x) > 0


def _chosen(op: str, condition: Value, x: Any) -> Symbol:
    if isinstance(x, Tensor):
        return pair(op, condition, shared(x, condition))
    if isinstance(x, fx.Proxy):
        return pair(op, condition, value_of(x))
    number = Term("number", (float(x),)) if type(x) in (int, float) else constant(x)
    return call(op, (condition.term, number), condition.shape, condition, condition.dropped)


def _masked_fill(tracer: Tracer, input: Any, mask: Any, value: Any) -> Symbol:
    return _where(tracer, mask, value, input)


def _where_of(tracer: Tracer, input: Any, condition: Any, other: Any) -> Symbol:
    return _where(tracer, condition, input, other)


def _cast(dtype: torch.dtype | None) -> Callable[..., Symbol]:
    """``x.to(dtype)``, where it changes nothing or makes numbers of conditions."""

    def handler(tracer: Tracer, input: Any, to: Any = dtype) -> Symbol:
        value = any_value(input)
        to = to.value.dtype if isinstance(to, Symbol) else to
        if value.dtype is torch.bool and isinstance(to, torch.dtype) and to.is_floating_point:
            value = as_numbers(value, to)
        if value.dtype is not to:
            raise RefusedError(f"{value.dtype} becomes {to}")
        return symbol(value._replace(is_condition=False))

    return handler


register(_comparison("less"), operator.lt, torch.lt, torch.less, ".lt", ".less", Tensor.__lt__)
register(
    _comparison("less", swap=True),
    *(operator.gt, torch.gt, torch.greater, ".gt", ".greater", Tensor.__gt__),
)
register(
    _comparison("less_equal"),
    *(operator.le, torch.le, torch.less_equal, ".le", ".less_equal", Tensor.__le__),
)
register(
    _comparison("less_equal", swap=True),
    *(operator.ge, torch.ge, torch.greater_equal, ".ge", ".greater_equal", Tensor.__ge__),
)
register(_comparison("equal"), operator.eq, torch.eq, ".eq", Tensor.__eq__)
register(
    _comparison("equal", negate=True),
    *(operator.ne, torch.ne, torch.not_equal, ".ne", ".not_equal", Tensor.__ne__),
)
register(_logical("*"), operator.and_, torch.logical_and, ".logical_and", Tensor.__and__)
register(_logical("maximum"), operator.or_, torch.logical_or, ".logical_or", Tensor.__or__)
register(_not, operator.invert, torch.logical_not, torch.bitwise_not, ".logical_not")
register(_where, torch.where)
register(_where_of, ".where")
register(_masked_fill, torch.masked_fill, ".masked_fill")
register(_cast(torch.float32), ".float")
register(_cast(torch.float64), ".double")
register(_cast(None), ".to", ".type_as")
