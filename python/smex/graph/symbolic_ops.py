"""What symbols make of operators, methods and torch functions: one handler for each meaning."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, fx

from smex.graph.ops.kernels import softmax_over_edges
from smex.graph.symbolic import (
    HANDLERS,
    Leaf,
    Reduction,
    RefusedError,
    Shape,
    Symbol,
    Term,
    Tracer,
    Value,
    formula_of,
    of_leaf,
    symbol,
)

if TYPE_CHECKING:
    from smex.graph.relation import Relation

MAX_TERMS = 64
"""A formula with more operations than this is not fused."""


def _value(x: Any) -> Value:
    if not isinstance(x, Symbol) or isinstance(x, fx.proxy.Attribute):
        raise RefusedError(
            f"the attribute {x.attr} of a tensor is read"
            if isinstance(x, fx.proxy.Attribute)
            else f"a {type(x).__name__} takes part, expected features of the graph and numbers"
        )
    return x.value if x.value.reduce is None else _on_nodes(x)


def _on_nodes(x: Symbol) -> Value:
    """Reduced messages as an operand of a formula of nodes."""
    if x.on_nodes is None:
        assert x.value.reduce is not None
        reduction = Reduction.of(x.value.reduce, x.value)
        leaf = Leaf("n", reduction.named(), None, _once(reduction.run))
        x.on_nodes = Value(Term("leaf", (leaf,)), x.value.shape, x.value.dtype, lead=1)
    return x.on_nodes


def _once(make: Callable[[Relation], Tensor]) -> Callable[[Relation], Tensor]:
    """The same tensor for several formulas; a trace serves one call."""
    made: list[Tensor] = []

    def get(relation: Relation) -> Tensor:
        if not made:
            made.append(make(relation))
        return made[0]

    return get


def _number(x: Any) -> float:
    if type(x) not in (int, float) or not math.isfinite(x) or float(x) != x:
        raise RefusedError(f"{x!r} is not a number that a formula can hold")
    return float(x)


def _call(op: str, args: tuple[Any, ...], shape: Shape, like: Value, dropped: bool) -> Symbol:
    size = 1 + sum(arg.size for arg in args)
    if size > MAX_TERMS:
        raise RefusedError(f"the formula has more than {MAX_TERMS} terms")
    return symbol(Value(Term(op, args, size), shape, like.dtype, like.lead, dropped))


def _unary(op: str) -> Callable[..., Symbol]:
    def handler(tracer: Tracer, x: Any) -> Symbol:
        value = _value(x)
        return _call(op, (value.term,), value.shape, value, value.dropped)

    return handler


def _binary(op: str) -> Callable[..., Symbol]:
    def handler(tracer: Tracer, a: Any, b: Any) -> Symbol:
        if isinstance(b, Tensor):
            left = _value(a)
            return _pair(op, left, _shared(b, left))
        if isinstance(a, Tensor):
            right = _value(b)
            return _pair(op, _shared(a, right), right)
        if not isinstance(b, fx.Proxy):
            left = _value(a)
            return _call(op, (left.term, _constant(b)), left.shape, left, left.dropped)
        right = _value(b)
        if not isinstance(a, fx.Proxy):
            return _call(op, (_constant(a), right.term), right.shape, right, right.dropped)
        return _pair(op, _value(a), right)

    return handler


def _scaled_binary(op: str) -> Callable[..., Symbol]:
    """``a + alpha * b`` and ``a - alpha * b``."""
    binary, times = _binary(op), _binary("*")

    def handler(tracer: Tracer, input: Any, other: Any, *, alpha: Any = 1) -> Symbol:
        if type(alpha) in (int, float) and alpha == 1:
            return binary(tracer, input, other)
        if isinstance(other, Tensor):
            raise RefusedError("alpha times a tensor that is no feature of the graph")
        if not isinstance(other, fx.Proxy):
            return binary(tracer, input, _number(other) * _number(alpha))
        return binary(tracer, input, times(tracer, other, alpha))

    return handler


def _constant(x: Any) -> Term:
    return Term("number", (_number(x),))


def _shared(x: Tensor, beside: Value) -> Value:
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
    """Where the operands of a formula are, of which that is known."""
    if term.op == "leaf":
        tensor = term.args[0].tensor
        return set() if tensor is None else {tensor.device}
    return set().union(*(_devices(arg) for arg in term.args if isinstance(arg, Term)))


def _pair(op: str, a: Value, b: Value) -> Symbol:
    """An operation of two tensors, which in a Python function broadcast as whole tensors do."""
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
    return _call(op, (a.term, b.term), shape, a, a.dropped or b.dropped)


def _broadcast(a: Shape, b: Shape) -> Shape:
    for x, y in zip(a, b):
        if x != y and x != 1 and y != 1:
            raise RefusedError(f"features of shapes {list(a)} and {list(b)} do not broadcast")
    return tuple(y if x == 1 else x for x, y in zip(a, b))


def _cat(tracer: Tracer, tensors: Any, dim: Any = 0) -> Symbol:
    """Features of nodes side by side."""
    parts = [_value(x) for x in tensors]
    first = parts[0]
    at = _one_dim(dim)
    at = at + 1 + len(first.shape) if at < 0 else at
    if not 1 <= at <= len(first.shape) or not all(_is_of_nodes(part.term) for part in parts):
        raise RefusedError(f"cat over dimension {dim} of other tensors than features of nodes")
    rest = {(part.shape[: at - 1], part.shape[at:], part.dtype, part.dropped) for part in parts}
    if len(rest) > 1 or first.dropped:
        raise RefusedError("cat of tensors whose shapes or dtypes differ")
    shape = (*first.shape[: at - 1], sum(part.shape[at - 1] for part in parts), *first.shape[at:])
    args = (Term("number", (at,)), *(part.term for part in parts))
    return _call("cat", args, shape, first, dropped=False)


def _is_of_nodes(term: Term) -> bool:
    if term.op == "leaf":
        return term.args[0].letter in "nc"
    return all(_is_of_nodes(arg) for arg in term.args if isinstance(arg, Term))


def _with_last(term: Term) -> Term:
    """A formula with a last dimension of size 1 more, which its operands get."""
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


def _pow(tracer: Tracer, x: Any, exponent: Any) -> Symbol:
    value, number = _value(x), _number(exponent)
    if number == 0:
        raise RefusedError("a power of 0 is a constant")
    return _call("pow", (value.term, Term("number", (number,))), value.shape, value, value.dropped)


def _square(tracer: Tracer, x: Any) -> Symbol:
    return _pow(tracer, x, 2)


def _reciprocal(tracer: Tracer, x: Any) -> Symbol:
    return _binary("/")(tracer, 1.0, x)


def _rsqrt(tracer: Tracer, x: Any) -> Symbol:
    return _reciprocal(tracer, _unary("sqrt")(tracer, x))


def _relu(tracer: Tracer, input: Any, inplace: bool = False) -> Symbol:
    _not_in_place(inplace)
    return _unary("relu")(tracer, input)


def _leaky_relu(
    tracer: Tracer, input: Any, negative_slope: float = 0.01, inplace: bool = False
) -> Symbol:
    _not_in_place(inplace)
    value, slope = _value(input), Term("number", (_number(negative_slope),))
    return _call("leaky_relu", (value.term, slope), value.shape, value, value.dropped)


def _silu(tracer: Tracer, input: Any, inplace: bool = False) -> Symbol:
    _not_in_place(inplace)
    return _pair("*", _value(input), _value(_unary("sigmoid")(tracer, input)))


def _same(tracer: Tracer, input: Any) -> Symbol:
    """A copy, which nothing can tell from the original since nothing is changed in place."""
    return symbol(_value(input))


def _detach(tracer: Tracer, input: Any) -> Symbol:
    return _view(_value(input), ".detach()", lambda x: x.detach())


def _not_in_place(inplace: Any) -> None:
    if inplace:
        raise RefusedError("inplace=True changes a value in place")


def _softmax(
    tracer: Tracer, input: Any, dim: Any = None, _stacklevel: int = 3, dtype: Any = None
) -> Symbol:
    """Softmax over the messages of a node, whose scores are then one more feature of edges."""
    value = _value(input)
    at = _one_dim(dim)
    if dtype is not None or value.lead != 2 or (at + 2 + len(value.shape) if at < 0 else at) != 1:
        raise RefusedError("softmax over another dimension than that of the messages")
    formula = formula_of(value.term)

    def make(relation: Relation) -> Tensor:
        return softmax_over_edges(relation, formula.on_edges(relation))

    leaf = Leaf("e", f"softmax({formula.named()})", None, _once(make))
    return symbol(value._replace(term=Term("leaf", (leaf,))))


# ---- views of rows ----


def _unsqueeze(tracer: Tracer, input: Any, dim: int) -> Symbol:
    value = _value(input)
    rank = value.lead + len(value.shape)
    at = dim if dim >= 0 else dim + rank + 1
    if value.dropped and at == rank:
        return symbol(value._replace(shape=(*value.shape, 1), dropped=False))
    if at < value.lead or at > rank:
        raise RefusedError(f"unsqueeze({dim}) adds a dimension before those of the features")
    return _view(value, f".unsqueeze({at - rank - 1})", lambda x: x.unsqueeze(at - rank - 1))


def _squeeze(tracer: Tracer, input: Any, dim: Any = None) -> Symbol:
    value = _value(input)
    rank = value.lead + len(value.shape)
    at = _one_dim(dim)
    at = at + rank if at < 0 else at
    if not value.lead <= at < rank:
        raise RefusedError(f"squeeze({dim}) removes a dimension before those of the features")
    if value.shape[at - value.lead] != 1:
        return symbol(value)
    return _view(value, f".squeeze({at - rank})", lambda x: x.squeeze(at - rank))


def _size(tracer: Tracer, input: Any, dim: Any = None) -> Any:
    return input.shape if dim is None else input.shape[dim]


def _dim(tracer: Tracer, input: Any) -> int:
    return input.ndim


def _getitem(tracer: Tracer, input: Any, index: Any) -> Symbol:
    value = _value(input)
    parts = index if isinstance(index, tuple) else (index,)
    if value.lead != 1 or parts[0] != slice(None):
        raise RefusedError(f"the index {index!r} selects among edges or messages")
    if not all(x is None or type(x) in (int, slice, type(Ellipsis)) for x in parts):
        raise RefusedError("an index is a tensor or a list")
    return _view(value, f"[{index!r}]", lambda x: x[parts])


def _reshape(tracer: Tracer, input: Any, *shape: Any) -> Symbol:
    value = _value(input)
    if len(shape) == 1 and isinstance(shape[0], (tuple, list)):
        shape = tuple(shape[0])
    if value.lead != 1 or not all(type(n) is int for n in shape) or len(shape) < 1:
        raise RefusedError(f"view{shape} is not a view of the features alone")
    feature_shape = shape[1:]
    if (
        shape[0] != -1
        or math.prod(feature_shape) != math.prod(value.shape)
        or min(shape[1:], default=1) < 1
    ):
        raise RefusedError(f"view{shape} is not a view of the features alone; write view(-1, ...)")
    return _view(value, f".view{shape}", lambda x: x.reshape(x.shape[0], *feature_shape))


def _view(value: Value, key: str, view: Callable[[Tensor], Tensor]) -> Symbol:
    """A view of each row, which is taken before rows are gathered; of features only."""
    leaf = value.term.args[0] if value.term.op == "leaf" else None
    if leaf is None or leaf.tensor is None:
        raise RefusedError("a view of a computed value; take the view of the features instead")
    return of_leaf(Leaf(leaf.letter, leaf.key + key, view(leaf.tensor)), value.lead)


# ---- reductions ----


def _reduction(name: str) -> Callable[..., Symbol]:
    def handler(
        tracer: Tracer, input: Any, dim: Any = None, keepdim: bool = False, **kw: Any
    ) -> Symbol:
        value = _value(input)
        if kw or dim is None or keepdim not in (True, False):
            raise RefusedError(f"{name} without a dimension, or with options")
        dim = _one_dim(dim)
        at = dim + value.lead + len(value.shape) if dim < 0 else dim
        if value.lead == 2 and at == 1 and not keepdim:
            return symbol(value._replace(lead=1, reduce=name))
        if name == "sum" and value.shape and at == value.lead + len(value.shape) - 1:
            return _sum_last(value, keepdim)
        raise RefusedError(f"{name} over dimension {dim}")

    return handler


def _one_dim(dim: Any) -> int:
    if isinstance(dim, (tuple, list)) and len(dim) == 1:
        dim = dim[0]
    if type(dim) is not int:
        raise RefusedError(f"the dimension {dim!r} is not one number")
    return dim


def _sum_last(value: Value, keepdim: bool) -> Symbol:
    if value.dropped:
        raise RefusedError("a sum over the last dimension of such a sum")
    term = value.term
    op, args = ("dot", term.args) if term.op == "*" else ("sum_last", (term,))
    shape = (*value.shape[:-1], 1) if keepdim else value.shape[:-1]
    return _call(op, args, shape, value, not keepdim)


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
    pointwise = _binary("maximum" if name == "max" else "minimum")

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
        if torch.is_grad_enabled() and needs_grad(_value(input).term):
            raise RefusedError(
                f"a{name} shares the gradient among equal messages; use {name}(...)[0]"
            )
        return reduction(tracer, input, dim, keepdim)

    return handler


def needs_grad(term: Term) -> bool:
    """Whether a gradient flows into an operand of a formula."""
    if term.op == "leaf":
        tensor = term.args[0].tensor
        return tensor is None or tensor.requires_grad
    return any(needs_grad(arg) for arg in term.args if isinstance(arg, Term))


def _pointwise(name: str) -> Callable[..., Symbol]:
    """``torch.maximum`` and ``torch.minimum``, which take tensors only."""
    binary = _binary(name)

    def handler(tracer: Tracer, input: Any, other: Any) -> Symbol:
        if not isinstance(other, Tensor):
            _value(other)
        return binary(tracer, input, other)

    return handler


def is_known(function: Any) -> bool:
    """Whether symbols know what to make of a function."""
    try:
        return function in HANDLERS
    except TypeError:  # not hashable
        return False


def _register(handler: Callable[..., Any], *targets: Any) -> None:
    HANDLERS.update(dict.fromkeys(targets, handler))


_register(_amax("max"), torch.amax, ".amax")
_register(_amax("min"), torch.amin, ".amin")
_register(
    _binary("*"),
    *(operator.mul, torch.mul, torch.multiply, ".mul", ".multiply"),
    *(Tensor.mul, Tensor.__mul__, Tensor.__rmul__),
)
_register(_binary("+"), operator.add, Tensor.__add__, Tensor.__radd__)
_register(_binary("-"), operator.sub, Tensor.__sub__)
_register(
    _binary("/"),
    *(operator.truediv, torch.div, torch.divide, torch.true_divide),
    *(".div", ".divide", ".true_divide", Tensor.__truediv__, Tensor.div),
)
_register(lambda tracer, b, a: _binary("-")(tracer, a, b), Tensor.__rsub__)
_register(lambda tracer, b, a: _binary("/")(tracer, a, b), Tensor.__rtruediv__)
_register(_cat, torch.cat, torch.concat)
_register(_detach, torch.detach, ".detach")
_register(_extremum("max"), torch.max, ".max")
_register(_extremum("min"), torch.min, ".min")
_register(_getitem, operator.getitem)
_register(_leaky_relu, F.leaky_relu, torch._C._nn.leaky_relu)
_register(_pointwise("maximum"), torch.maximum, ".maximum")
_register(_pointwise("minimum"), torch.minimum, ".minimum")
_register(_pow, operator.pow, torch.pow, ".pow")
_register(_reciprocal, torch.reciprocal, ".reciprocal")
_register(_reduction("mean"), torch.mean, ".mean")
_register(_reduction("sum"), torch.sum, ".sum")
_register(_relu, F.relu, torch.relu, ".relu")
_register(_reshape, torch.reshape, ".reshape", ".view")
_register(_rsqrt, torch.rsqrt, ".rsqrt")
_register(_scaled_binary("+"), torch.add, ".add", Tensor.add)
_register(_scaled_binary("-"), torch.sub, torch.subtract, ".sub", ".subtract", Tensor.sub)
_register(_size, ".size")
_register(_dim, ".dim", ".ndimension")
_register(_squeeze, torch.squeeze, ".squeeze")
_register(_same, torch.clone, ".clone", ".contiguous")
_register(_silu, F.silu)
_register(_softmax, F.softmax, torch.softmax, ".softmax")
_register(_square, torch.square, ".square")
_register(_unary("abs"), operator.abs, torch.abs, torch.absolute, ".abs", ".absolute")
_register(_unary("exp"), torch.exp, ".exp")
_register(_unary("log"), torch.log, ".log")
_register(_unary("neg"), operator.neg, torch.neg, torch.negative, ".neg", ".negative")
_register(_unary("sigmoid"), torch.sigmoid, F.sigmoid, torch.special.expit, ".sigmoid")
_register(_unary("sqrt"), torch.sqrt, ".sqrt")
_register(_unary("tanh"), torch.tanh, F.tanh, ".tanh")
_register(_unsqueeze, torch.unsqueeze, ".unsqueeze")
