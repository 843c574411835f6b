"""Symbols: what a message or reduce function computes with while it is traced.

A :class:`Symbol` is a ``torch.fx.Proxy``: operators, methods and torch functions applied to it are
recorded. It records a formula over features of edges and their ends, keeps account of the shape and
dtype that a tensor would have in its place, and refuses whatever it cannot say as a formula.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from torch import Tensor, fx
from torch.overrides import TorchFunctionMode

from smex.formula import Term

if TYPE_CHECKING:
    from smex.graph.features.frame import Frame
    from smex.graph.structure.relation import Relation

Shape = tuple[int, ...]

HANDLERS: dict[Any, Callable[..., Any]] = {}
"""What a symbol makes of each function, and of each method (with a dot before its name); the
entries are made by the modules of :mod:`smex.graph.tracing.symbols`.
"""

COMPOSED: dict[Any, Callable[..., Any]] = {}
"""Functions that symbols replace by others: see :mod:`smex.graph.tracing.symbols.composed`."""


class RefusedError(Exception):
    """What is being traced has no fused form."""


class Leaf(NamedTuple):
    """An operand: a feature, possibly seen through a view of its rows."""

    letter: str  # u, v or e; n of the nodes that messages are reduced for; c: shared by all
    key: str  # which operand of that letter; equal keys mean equal tensors
    tensor: Tensor | None  # None: made for the edges at hand by `make`
    make: Callable[[Relation], Tensor] | None = None

    def of(self, relation: Relation) -> Tensor:
        """Returns the operand, when the formula runs on a relation."""
        if self.tensor is not None:
            return self.tensor
        assert self.make is not None
        return self.make(relation)


def key_of(field: str) -> str:
    """A feature's name, quoted where it could read like a formula: equal keys are equal tensors."""
    return field if isinstance(field, str) and field.isidentifier() else repr(field)


class Value(NamedTuple):
    """What a tensor would be in the place of a symbol.

    ``lead`` counts the dimensions before those of a feature: 1 of edges or nodes, 2 of a mailbox.
    With ``reduce`` the term is one of messages, and the value what each node makes of them.
    ``dropped`` says that the formula's last dimension,
    of size 1, is not there. A condition is a bool tensor, 1 or 0 in the formula; a count is the
    number of messages of a node, a Python number in the place of a tensor.
    """

    term: Term
    shape: Shape
    dtype: torch.dtype
    lead: int
    dropped: bool = False
    reduce: str | None = None
    is_condition: bool = False
    is_count: bool = False


class Tracer(fx.proxy.TracerBase):
    """Turns what happens to symbols into formulas; makes no ``fx.Graph``."""

    def create_proxy(
        self, kind: str, target: Any, args: Any, kwargs: Any, *_: Any, **__: Any
    ) -> Any:
        """Called by ``fx.Proxy`` for each operator, method and function."""
        key = target if kind == "call_function" else f".{target}"
        key = key if _is_hashable(key) else None
        if key in COMPOSED:
            return COMPOSED[key](*args, **kwargs)
        handler = HANDLERS.get(key)
        if handler is None:
            raise RefusedError(f"{spelled(target, kind)} has no fused form")
        with torch._C.DisableTorchFunction():  # views of operands are ours, not the user's
            return handler(self, *args, **kwargs)

    def to_bool(self, obj: Any) -> bool:
        """Returns a branch on a tensor's values."""
        raise RefusedError("a branch depends on the values of a tensor")

    def iter(self, obj: Any) -> Iterator[Any]:
        """Returns a loop over a tensor."""
        raise RefusedError("a tensor is iterated over")

    def keys(self, obj: Any) -> Any:
        """``**`` of a tensor."""
        raise RefusedError("a tensor is used as a mapping")


class Symbol(fx.Proxy):
    """Stands in for a tensor."""

    def __init__(self, value: Value, tracer: Tracer):
        self.value = value
        self.tracer = tracer
        self.on_nodes: Value | None = None  # of a reduction that is computed with

    @classmethod
    def __torch_function__(cls, orig_method, types, args=None, kwargs=None):
        """Called for torch functions of symbols."""
        return TRACER.create_proxy("call_function", orig_method, args or (), kwargs or {})

    @property
    def shape(self) -> Sizes:
        """The sizes that are known."""
        return Sizes(self.value)

    @property
    def ndim(self) -> int:
        """The number of dimensions."""
        return len(Sizes(self.value))

    def __bool__(self) -> bool:
        return self.tracer.to_bool(self)

    def __iter__(self) -> Iterator[Any]:
        return self.tracer.iter(self)

    def __repr__(self) -> str:
        return "Symbol"


class Sizes:
    """The shape of a symbol, of which the sizes before those of a feature are not known."""

    def __init__(self, value: Value):
        self._unknown = value.lead
        self._sizes = value.shape

    def __len__(self) -> int:
        return self._unknown + len(self._sizes)

    def __getitem__(self, index: Any) -> Any:
        at = index + len(self) if type(index) is int and index < 0 else index
        if at == 1 and self._unknown == 2:
            return symbol(COUNT)
        if type(at) is not int or not self._unknown <= at < len(self):
            raise RefusedError(f"the size [{index!r}] is used; those of a feature are known")
        return self._sizes[at - self._unknown]

    def __getattr__(self, name: str) -> Any:
        raise RefusedError(f"shape.{name} is used; only sizes of a feature are known")


TRACER = Tracer()


def is_known(function: Any) -> bool:
    """Returns whether symbols know what to make of a function."""
    try:
        return function in HANDLERS or function in COMPOSED
    except TypeError:  # not hashable
        return False


class OnlySymbols(TorchFunctionMode):
    """While it is on, no torch function runs on plain tensors, which one could change."""

    def __torch_function__(self, func, types, args=(), kwargs=None):
        """Refuses calls without a symbol; those with one are recorded."""
        kwargs = kwargs or {}
        if getattr(func, "__name__", "") == "__get__":
            return func(*args, **kwargs)
        if not any(isinstance(x, Symbol) for x in (*args, *kwargs.values(), *_listed(args))):
            raise RefusedError(f"{spelled(func)} of tensors that are no features of the graph")
        return Symbol.__torch_function__(func, types, args, kwargs)


def _listed(args: tuple[Any, ...]) -> tuple[Any, ...]:
    """Returns what a list in the first place holds, as ``torch.cat`` takes it."""
    return tuple(args[0]) if args and isinstance(args[0], (tuple, list)) else ()


def spelled(target: Any, kind: str = "call_function") -> str:
    """Returns a function or method in a message."""
    if kind == "call_method":
        return f"the method {target}"
    module = getattr(target, "__module__", None) or "torch"
    name = getattr(target, "__name__", repr(target))
    module = {"torch._C._nn": "torch.nn.functional", "_operator": "operator"}.get(module, module)
    return f"{module}.{name}"


def _is_hashable(key: Any) -> bool:
    return getattr(key, "__hash__", None) is not None


# ---- making symbols ----


def feature(frame: Frame, letter: str, field: str) -> Symbol:
    """Returns the symbol of a feature of edges or of their ends."""
    return of_leaf(Leaf(letter, key_of(field), frame[field]))


def of_leaf(leaf: Leaf, lead: int = 1) -> Symbol:
    """Returns the symbol of an operand."""
    tensor = leaf.tensor
    assert tensor is not None
    shape, is_condition = tuple(tensor.shape[1:]), tensor.dtype is torch.bool
    value = Value(Term("leaf", (leaf,)), shape, tensor.dtype, lead, is_condition=is_condition)
    return Symbol(value, TRACER)


def symbol(value: Value) -> Symbol:
    """Returns a symbol with a value."""
    return Symbol(value, TRACER)


def _count_of_messages(relation: Relation) -> Tensor:
    return relation.in_degrees()


COUNT = Value(
    Term("leaf", (Leaf("n", "mailbox.size(1)", None, _count_of_messages),)),
    shape=(),
    dtype=torch.int64,
    lead=1,
    is_count=True,
)
"""How many messages a node has."""


def count_beside(value: Value, other: Value) -> Value:
    """Returns a count, or a formula of it, with the dtype and as many dimensions as a tensor."""
    rank = len(other.shape)

    def adapted(term: Term) -> Term:
        if term.op == "leaf":
            leaf: Leaf = term.args[0]
            key = leaf.key + f"[{', '.join([':', *['None'] * rank])}]" * bool(rank)

            def make(relation: Relation) -> Tensor:
                return leaf.of(relation).to(other.dtype).view(-1, *[1] * rank)

            return Term("leaf", (Leaf("n", key, None, make),))
        return term._replace(args=tuple(adapted(x) for x in term.args)) if _has_args(term) else term

    shape = (1,) * rank
    return value._replace(term=adapted(value.term), shape=shape, dtype=other.dtype, is_count=False)


def _has_args(term: Term) -> bool:
    return any(isinstance(arg, Term) for arg in term.args)
