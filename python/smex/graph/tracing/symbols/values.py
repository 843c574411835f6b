"""What symbols stand for, and the operations that formulas are built by."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, fx

from smex.formula import Term
from smex.graph.tracing.symbols.formulas import Reduction
from smex.graph.tracing.symbols.symbols import (
    COUNT,
    HANDLERS,
    Leaf,
    RefusedError,
    Shape,
    Symbol,
    Tracer,
    Value,
    count_beside,
    symbol,
)

if TYPE_CHECKING:
    from smex.graph.structure.relation import Relation


MAX_TERMS = 512
"""A formula with more operations than this is not fused."""


def any_value(x: Any) -> Value:
    """Of a tensor, bool ones included; what reductions gave becomes an operand of nodes."""
    if not isinstance(x, Symbol) or isinstance(x, fx.proxy.Attribute):
        raise RefusedError(
            f"the attribute {x.attr} of a tensor is read"
            if isinstance(x, fx.proxy.Attribute)
            else f"a {type(x).__name__} takes part, expected features of the graph and numbers"
        )
    return x.value if x.value.reduce is None else _on_nodes(x)


def value_of(x: Any) -> Value:
    """Of a tensor of numbers."""
    value = any_value(x)
    if value.is_condition:
        raise RefusedError("a condition takes part in arithmetic; write torch.where")
    return value


def _on_nodes(x: Symbol) -> Value:
    """Reduced messages as an operand of a formula of nodes."""
    if x.on_nodes is None:
        assert x.value.reduce is not None
        reduction = Reduction.of(x.value.reduce, x.value)
        leaf = Leaf("n", reduction.named(), None, once(reduction.run))
        x.on_nodes = Value(Term("leaf", (leaf,)), x.value.shape, x.value.dtype, lead=1)
    return x.on_nodes


def once(make: Callable[[Relation], Tensor]) -> Callable[[Relation], Tensor]:
    """Returns the same tensor for several formulas; a trace serves one call."""
    made: list[Tensor] = []

    def get(relation: Relation) -> Tensor:
        if not made:
            made.append(make(relation))
        return made[0]

    return get


def number_of(x: Any) -> float:
    """Returns a Python number."""
    if type(x) not in (int, float) or not math.isfinite(x) or float(x) != x:
        raise RefusedError(f"{x!r} is not a number that a formula can hold")
    return float(x)


def constant(x: Any) -> Term:
    """Returns a Python number as a term."""
    return Term("number", (number_of(x),))


def call(op: str, args: tuple[Any, ...], shape: Shape, like: Value, dropped: bool) -> Symbol:
    """Returns an operation on terms, of which the result is like a value but for its shape."""
    size = 1 + sum(arg.size for arg in args)
    if size > MAX_TERMS:
        raise RefusedError(f"the formula has more than {MAX_TERMS} terms")
    term = Term(op, args, size)
    return symbol(like._replace(term=term, shape=shape, dropped=dropped, is_condition=False))


def unary(op: str) -> Callable[..., Symbol]:
    """Returns the handler of a function of one tensor."""

    def handler(tracer: Tracer, x: Any) -> Symbol:
        value = value_of(x)
        return call(op, (value.term,), value.shape, value, value.dropped)

    return handler


def binary(op: str) -> Callable[..., Symbol]:
    """Returns the handler of an operation of two tensors, of which one may be a number."""

    def handler(tracer: Tracer, a: Any, b: Any) -> Symbol:
        if op == "*" and isinstance(a, Symbol) and isinstance(b, Symbol):
            return _product(a, b)
        if op == "/" and _is_sum(a) and isinstance(b, Symbol) and b.value is COUNT:
            return symbol(a.value._replace(reduce="mean"))
        if isinstance(b, Tensor):
            left = value_of(a)
            return pair(op, left, shared(b, left))
        if isinstance(a, Tensor):
            right = value_of(b)
            return pair(op, shared(a, right), right)
        if not isinstance(b, fx.Proxy):
            left = value_of(a)
            return call(op, (left.term, constant(b)), left.shape, left, left.dropped)
        right = value_of(b)
        if not isinstance(a, fx.Proxy):
            return call(op, (constant(a), right.term), right.shape, right, right.dropped)
        return pair(op, value_of(a), right)

    return handler


def as_condition(x: Symbol) -> Symbol:
    """Numbers that are 1 and 0 as a bool tensor."""
    return symbol(x.value._replace(is_condition=True))


def _product(a: Symbol, b: Symbol) -> Symbol:
    """Of tensors, of which one may be a condition."""
    left, right = any_value(a), any_value(b)
    found = pair("*", left, right)
    return as_condition(found) if left.is_condition and right.is_condition else found


def _is_sum(x: Any) -> bool:
    return isinstance(x, Symbol) and x.value.reduce == "sum"


def shared(x: Tensor, beside: Value) -> Value:
    """A tensor from outside the graph, such as a parameter, as a row that all edges share."""
    rank = beside.lead + len(beside.shape)
    room = len(beside.shape)
    if x.dim() > room and not (x.dim() == rank and set(x.shape[: beside.lead]) == {1}):
        raise RefusedError(
            f"a tensor of shape {list(x.shape)}, which is no feature of the graph, lines up with "
            "the edges or messages"
        )
    if any(x.device != device for device in _devices(beside.term)):
        raise RefusedError(f"a tensor on {x.device} meets features on another device")
    shape = tuple(x.shape[-room:]) if room else ()
    shape = (1,) * (room - len(shape)) + shape
    leaf = Leaf("c", f"{id(x):x}", x.reshape(1, *shape))
    return Value(Term("leaf", (leaf,)), shape, x.dtype, beside.lead)


def _devices(term: Term) -> set[torch.device]:
    """Returns where the operands of a formula are, of which that is known."""
    if term.op == "leaf":
        tensor = term.args[0].tensor
        return set() if tensor is None else {tensor.device}
    return set().union(*(_devices(arg) for arg in term.args if isinstance(arg, Term)))


def pair(op: str, a: Value, b: Value) -> Symbol:
    """An operation of two tensors, which in a Python function broadcast as whole tensors do."""
    if a.is_count and not b.is_count:
        a = count_beside(a, b)
    if b.is_count and not a.is_count:
        b = count_beside(b, a)
    if a.dtype is torch.bool:
        a = as_numbers(a, b.dtype)
    if b.dtype is torch.bool:
        b = as_numbers(b, a.dtype)
    if a.dtype != b.dtype:
        raise RefusedError(f"dtypes {a.dtype} and {b.dtype} meet")
    if a.lead != b.lead:
        raise RefusedError("features of nodes meet messages of a mailbox")
    if len(a.shape) != len(b.shape):
        raise RefusedError(
            f"features of shapes {list(a.shape)} and {list(b.shape)} meet: with different numbers "
            "of dimensions tensors line up the edges with a feature dimension"
        )
    shape = _broadcast(a.shape, b.shape)
    if a.dropped != b.dropped and a.shape:
        a, b = (x if x.dropped else x._replace(term=_with_last(x.term)) for x in (a, b))
    return call(op, (a.term, b.term), shape, a, a.dropped or b.dropped)


def as_numbers(value: Value, dtype: torch.dtype) -> Value:
    """Returns a formula of bool features with 1 and 0 in their place."""

    def adapted(term: Term) -> Term:
        if term.op == "leaf":
            leaf = term.args[0]
            assert leaf.tensor is not None
            return Term("leaf", (Leaf(leaf.letter, leaf.key, leaf.tensor.to(dtype)),))
        args = (adapted(arg) if isinstance(arg, Term) else arg for arg in term.args)
        return term._replace(args=tuple(args))

    return value._replace(term=adapted(value.term), dtype=dtype)


def _broadcast(a: Shape, b: Shape) -> Shape:
    for x, y in zip(a, b):
        if x != y and x != 1 and y != 1:
            raise RefusedError(f"features of shapes {list(a)} and {list(b)} do not broadcast")
    return tuple(y if x == 1 else x for x, y in zip(a, b))


def _with_last(term: Term) -> Term:
    """Returns a formula with a last dimension of size 1 more, which its operands get."""
    if term.op == "number":
        return term
    if term.op == "leaf":
        leaf = term.args[0]
        if leaf.tensor is None:
            raise RefusedError("a softmax meets a sum over the last dimension")
        return Term(
            "leaf", (Leaf(leaf.letter, leaf.key + ".unsqueeze(-1)", leaf.tensor.unsqueeze(-1)),)
        )
    if term.op in ("dot", "sum_last"):
        raise RefusedError("sums over the last dimension of different shapes meet")
    return Term(term.op, tuple(_with_last(arg) for arg in term.args), term.size)


def one_dim(dim: Any) -> int:
    """Returns a dimension, which may be alone in a tuple."""
    if isinstance(dim, (tuple, list)) and len(dim) == 1:
        dim = dim[0]
    if type(dim) is not int:
        raise RefusedError(f"the dimension {dim!r} is not one number")
    return dim


def refuse_in_place(inplace: Any) -> None:
    """For functions with that option."""
    if inplace:
        raise RefusedError("inplace=True changes a value in place")


def register(handler: Callable[..., Any], *targets: Any) -> None:
    """Makes a handler that of functions, and of methods by their names with a dot before them."""
    HANDLERS.update(dict.fromkeys(targets, handler))
