"""What symbols make of arithmetic and of functions of one number."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, fx

from smex.formula import OPERATIONS, Term
from smex.graph.tracing.symbols.symbols import RefusedError, Symbol, Tracer, symbol
from smex.graph.tracing.symbols.values import (
    binary,
    call,
    number_of,
    refuse_in_place,
    register,
    unary,
    value_of,
)


def _scaled_binary(op: str) -> Callable[..., Symbol]:
    """``a + alpha * b`` and ``a - alpha * b``."""
    plain, times = binary(op), binary("*")

    def handler(tracer: Tracer, input: Any, other: Any, *, alpha: Any = 1) -> Symbol:
        if type(alpha) in (int, float) and alpha == 1:
            return plain(tracer, input, other)
        if isinstance(other, Tensor):
            raise RefusedError("alpha times a tensor that is no feature of the graph")
        if not isinstance(other, fx.Proxy):
            return plain(tracer, input, number_of(other) * number_of(alpha))
        return plain(tracer, input, times(tracer, other, alpha))

    return handler


def _pow(tracer: Tracer, x: Any, exponent: Any) -> Symbol:
    value, number = value_of(x), number_of(exponent)
    if number == 0:
        raise RefusedError("a power of 0 is a constant")
    return call("pow", (value.term, Term("number", (number,))), value.shape, value, value.dropped)


def _square(tracer: Tracer, x: Any) -> Symbol:
    return _pow(tracer, x, 2)


def _reciprocal(tracer: Tracer, x: Any) -> Symbol:
    return binary("/")(tracer, 1.0, x)


def _rsqrt(tracer: Tracer, x: Any) -> Symbol:
    return _reciprocal(tracer, unary("sqrt")(tracer, x))


def _relu(tracer: Tracer, input: Any, inplace: bool = False) -> Symbol:
    refuse_in_place(inplace)
    return unary("relu")(tracer, input)


def _leaky_relu(
    tracer: Tracer, input: Any, negative_slope: float = 0.01, inplace: bool = False
) -> Symbol:
    refuse_in_place(inplace)
    value, slope = value_of(input), Term("number", (number_of(negative_slope),))
    return call("leaky_relu", (value.term, slope), value.shape, value, value.dropped)


def _same(tracer: Tracer, input: Any) -> Symbol:
    """A copy, which nothing can tell from the original since nothing is changed in place."""
    return symbol(value_of(input))


def _spellings(name: str) -> list[Any]:
    """Functions and methods of torch that have a name, or one that means the same."""
    names = (name, *_ALIASES.get(name, ()))
    functions = [getattr(m, x, None) for m in (operator, torch, torch.special, F) for x in names]
    methods = [f".{x}" for x in names if hasattr(Tensor, x)]
    return [x for x in functions if x is not None] + methods


_ALIASES = {"abs": ("absolute",), "neg": ("negative",), "sigmoid": ("expit",)}

for _operation in OPERATIONS.values():
    # What has no gradient is torch's to compute, which gives zeros instead of none.
    if _operation.torch and _operation.arguments == 1 and _operation.has_gradient:
        register(unary(_operation.name), *_spellings(_operation.torch))

register(
    binary("*"),
    *(operator.mul, torch.mul, torch.multiply, ".mul", ".multiply"),
    *(Tensor.mul, Tensor.__mul__, Tensor.__rmul__),
)
register(binary("+"), operator.add, Tensor.__add__, Tensor.__radd__)
register(binary("-"), operator.sub, Tensor.__sub__)
register(
    binary("/"),
    *(operator.truediv, torch.div, torch.divide, torch.true_divide),
    *(".div", ".divide", ".true_divide", Tensor.__truediv__, Tensor.div),
)
register(lambda tracer, b, a: binary("-")(tracer, a, b), Tensor.__rsub__)
register(lambda tracer, b, a: binary("/")(tracer, a, b), Tensor.__rtruediv__)
register(_leaky_relu, F.leaky_relu, torch._C._nn.leaky_relu)
register(_pow, operator.pow, torch.pow, ".pow")
register(_reciprocal, torch.reciprocal, ".reciprocal")
register(_relu, F.relu, torch.relu, ".relu")
register(_rsqrt, torch.rsqrt, ".rsqrt")
register(_scaled_binary("+"), torch.add, ".add", Tensor.add)
register(_scaled_binary("-"), torch.sub, torch.subtract, ".sub", ".subtract", Tensor.sub)
register(_same, torch.clone, ".clone", ".contiguous")
register(_square, torch.square, ".square")
