"""Formulas by torch's operators, where no kernel computes them."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from smex.formula import OPERATIONS, Term


def evaluate(term: Term, value_of: Callable[[Any], Any]) -> Any:
    """Returns the value of a formula, whose leaves have given values.

    Equal parts are computed once.
    """
    return _evaluate(term, value_of, {})


def _evaluate(term: Term, value_of: Callable[[Any], Any], known: dict[int, Any]) -> Any:
    if term.op == "number":
        return term.args[0]
    if term.op == "leaf":
        return value_of(term.args[0])
    if id(term) not in known:
        arguments = (_evaluate(arg, value_of, known) for arg in term.args)
        known[id(term)] = FUNCTIONS[term.op](*arguments)
    return known[id(term)]


def _function_of(operation: Any) -> Callable[..., Any]:
    """Returns the function that torch has for an operation.

    Numbers may stand in the place of tensors.
    """
    if operation.sign and operation.arguments == 2:
        return getattr(operator, {"div": "truediv"}.get(operation.name, operation.name))
    function = getattr(torch, operation.torch, None) or getattr(F, operation.torch)
    if operation.arguments == 1 or operation.takes_number:
        return function
    return _of_tensors(function, operation.is_condition)


def _of_tensors(function: Callable[..., Tensor], is_condition: bool) -> Callable[..., Tensor]:
    """Returns a function of two tensors for one that may be a number; conditions become numbers."""

    def pointwise(a: Any, b: Any) -> Tensor:
        like = a if isinstance(a, Tensor) else b
        found = function(*(x if isinstance(x, Tensor) else like.new_tensor(x) for x in (a, b)))
        return found.to(like.dtype) if is_condition else found

    return pointwise


class _Slope(torch.autograd.Function):
    """The second tensor, whose gradient is multiplied by the first."""

    @staticmethod
    def forward(ctx: Any, factor: Tensor, x: Tensor) -> Tensor:
        ctx.save_for_backward(factor)
        return x.view_as(x)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[None, Tensor]:
        (factor,) = ctx.saved_tensors
        return None, grad * factor


class _StraightThrough(torch.autograd.Function):
    """The first tensor, with the gradient of the second."""

    @staticmethod
    def forward(ctx: Any, a: Tensor, b: Tensor) -> Tensor:
        return a.view_as(a)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[None, Tensor]:
        return None, grad


FUNCTIONS: dict[str, Callable[..., Any]] = {
    **{op: _function_of(operation) for op, operation in OPERATIONS.items() if operation.torch},
    "cat": lambda dim, *parts: torch.cat(parts, dim),
    "dot": lambda a, b: (a * b).sum(-1, keepdim=True),
    "part": lambda condition, x: torch.where(condition != 0, x, -0.0),
    "select": lambda condition, x: torch.where(condition != 0, x, 0.0),
    "slope": lambda factor, x: _Slope.apply(factor, x),
    "straight_through": lambda a, b: _StraightThrough.apply(a, b),
    "sum_last": lambda x: x.sum(-1, keepdim=True),
}
"""What torch computes for the operations of formulas: its own operators, and what has none."""
