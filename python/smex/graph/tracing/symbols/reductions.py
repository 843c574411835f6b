"""Sums, means, maxima and softmax over messages, and sums over feature dimensions."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, fx

from smex.formula import Term
from smex.graph.ops.kernels import softmax_over_edges
from smex.graph.tracing.symbols.formulas import formula_of
from smex.graph.tracing.symbols.symbols import Leaf, RefusedError, Symbol, Tracer, Value, symbol
from smex.graph.tracing.symbols.values import binary, call, once, one_dim, register, value_of

if TYPE_CHECKING:
    from smex.graph.structure.relation import Relation


def _reduction(name: str) -> Callable[..., Symbol]:
    def handler(
        tracer: Tracer, input: Any, dim: Any = None, keepdim: bool = False, **kw: Any
    ) -> Symbol:
        value = value_of(input)
        if kw or dim is None or keepdim not in (True, False):
            raise RefusedError(f"{name} without a dimension, or with options")
        dim = one_dim(dim)
        at = dim + value.lead + len(value.shape) if dim < 0 else dim
        if value.lead == 2 and at == 1 and not keepdim:
            return symbol(value._replace(lead=1, reduce=name))
        if value.shape and at == value.lead + len(value.shape) - 1 and name in ("sum", "mean"):
            total = _sum_last(value, keepdim)
            return total if name == "sum" else binary("/")(tracer, total, value.shape[-1])
        raise RefusedError(f"{name} over dimension {dim}")

    return handler


def _sum_last(value: Value, keepdim: bool) -> Symbol:
    if value.dropped:
        raise RefusedError("a sum over the last dimension of such a sum")
    term = value.term
    op, args = ("dot", term.args) if term.op == "*" else ("sum_last", (term,))
    shape = (*value.shape[:-1], 1) if keepdim else value.shape[:-1]
    return call(op, args, shape, value, not keepdim)


class Extremum(NamedTuple):
    """What ``max`` and ``min`` over a dimension return."""

    values: Any
    indices: Any


class _Indices:
    """Positions of the largest messages, which nothing fused can tell."""

    def __getattr__(self, name: str) -> Any:
        raise RefusedError("the positions of the largest or smallest messages are used")


def _extremum(name: str) -> Callable[..., Any]:
    reduction = _reduction(name)
    pointwise = binary("maximum" if name == "max" else "minimum")

    def handler(
        tracer: Tracer, input: Any, dim: Any = None, keepdim: bool = False, **kw: Any
    ) -> Any:
        if isinstance(dim, fx.Proxy):
            return pointwise(tracer, input, dim)
        return Extremum(reduction(tracer, input, dim, keepdim, **kw), _Indices())

    return handler


def _amax(name: str) -> Callable[..., Symbol]:
    reduction = _reduction(name)

    def handler(tracer: Tracer, input: Any, dim: Any = None, keepdim: bool = False) -> Symbol:
        if torch.is_grad_enabled() and needs_grad(value_of(input).term):
            raise RefusedError(
                f"a{name} shares the gradient among equal messages; use {name}(...)[0]"
            )
        return reduction(tracer, input, dim, keepdim)

    return handler


def needs_grad(term: Term) -> bool:
    """Returns whether a gradient flows into an operand of a formula."""
    if term.op == "leaf":
        tensor = term.args[0].tensor
        return tensor is None or tensor.requires_grad
    return any(needs_grad(arg) for arg in term.args if isinstance(arg, Term))


def _pointwise(name: str) -> Callable[..., Symbol]:
    """``torch.maximum`` and ``torch.minimum``, which take tensors only."""
    larger = binary(name)

    def handler(tracer: Tracer, input: Any, other: Any) -> Symbol:
        if not isinstance(other, Tensor):
            value_of(other)
        return larger(tracer, input, other)

    return handler


def _softmax(
    tracer: Tracer, input: Any, dim: Any = None, _stacklevel: int = 3, dtype: Any = None
) -> Symbol:
    """Softmax over the messages of a node, whose scores are then one more feature of edges."""
    value = value_of(input)
    at = one_dim(dim)
    if dtype is not None or value.lead != 2 or (at + 2 + len(value.shape) if at < 0 else at) != 1:
        raise RefusedError("softmax over another dimension than that of the messages")
    formula = formula_of(value.term)

    def make(relation: Relation) -> Tensor:
        return softmax_over_edges(relation, formula.on_edges(relation))

    leaf = Leaf("e", f"softmax({formula.named()})", None, once(make))
    return symbol(value._replace(term=Term("leaf", (leaf,))))


def _cat(tracer: Tracer, tensors: Any, dim: Any = 0) -> Symbol:
    """Features of nodes side by side."""
    parts = [value_of(x) for x in tensors]
    first = parts[0]
    at = one_dim(dim)
    at = at + 1 + len(first.shape) if at < 0 else at
    if not 1 <= at <= len(first.shape) or not all(_is_of_nodes(part.term) for part in parts):
        raise RefusedError(f"cat over dimension {dim} of other tensors than features of nodes")
    rest = {(part.shape[: at - 1], part.shape[at:], part.dtype, part.dropped) for part in parts}
    if len(rest) > 1 or first.dropped:
        raise RefusedError("cat of tensors whose shapes or dtypes differ")
    shape = (*first.shape[: at - 1], sum(part.shape[at - 1] for part in parts), *first.shape[at:])
    args = (Term("number", (at,)), *(part.term for part in parts))
    return call("cat", args, shape, first, dropped=False)


def _is_of_nodes(term: Term) -> bool:
    if term.op == "leaf":
        return term.args[0].letter in "nc"
    return all(_is_of_nodes(arg) for arg in term.args if isinstance(arg, Term))


register(_amax("max"), torch.amax, ".amax")
register(_amax("min"), torch.amin, ".amin")
register(_cat, torch.cat, torch.concat)
register(_extremum("max"), torch.max, ".max")
register(_extremum("min"), torch.min, ".min")
register(_pointwise("maximum"), torch.maximum, ".maximum")
register(_pointwise("minimum"), torch.minimum, ".minimum")
register(_reduction("mean"), torch.mean, ".mean")
register(_reduction("sum"), torch.sum, ".sum")
register(_softmax, F.softmax, torch.softmax, ".softmax")
