"""Symbols: what a message or reduce function computes with while it is traced.

A :class:`Symbol` is a ``torch.fx.Proxy``: operators, methods and torch functions applied to it are
recorded. It records a formula over features of edges and their ends, keeps account of the shape and
dtype that a tensor would have in its place, and refuses whatever it cannot say as a formula.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from torch import Tensor, fx
from torch.overrides import TorchFunctionMode

from smex.graph.ops.kernels import aggregate, per_edge

if TYPE_CHECKING:
    from smex.graph.frame import Frame
    from smex.graph.relation import Relation

Shape = tuple[int, ...]

HANDLERS: dict[Any, Callable[..., Any]] = {}
"""What a symbol makes of each function, and of each method (with a dot before its name); the
entries are in :mod:`smex.graph.symbolic_ops`.
"""


class RefusedError(Exception):
    """What is being traced has no fused form."""


class Leaf(NamedTuple):
    """An operand: a feature, possibly seen through a view of its rows."""

    letter: str  # u, v or e; n of the nodes that messages are reduced for; c: shared by all
    key: str  # which operand of that letter; equal keys mean equal tensors
    tensor: Tensor | None  # None: made for the edges at hand by `make`
    make: Callable[[Relation], Tensor] | None = None

    def of(self, relation: Relation) -> Tensor:
        """The operand, when the formula runs on a relation."""
        if self.tensor is not None:
            return self.tensor
        assert self.make is not None
        return self.make(relation)


def key_of(field: str) -> str:
    """A feature's name, quoted where it could read like a formula: equal keys are equal tensors."""
    return field if isinstance(field, str) and field.isidentifier() else repr(field)


class Term(NamedTuple):
    """A node of a formula: an operation, a leaf or a number."""

    op: str  # a function's name, an infix operator, "leaf" or "number"
    args: tuple[Any, ...]
    size: int = 1


class Value(NamedTuple):
    """What a tensor would be in the place of a symbol.

    ``lead`` counts the dimensions before those of a feature: 1 of edges or nodes, 2 of a mailbox.
    With ``reduce`` the term is one of messages, and the value what each node makes of them.
    ``dropped`` says that the formula's last dimension,
    of size 1, is not there.
    """

    term: Term
    shape: Shape
    dtype: torch.dtype
    lead: int
    dropped: bool = False
    reduce: str | None = None


class Tracer(fx.proxy.TracerBase):
    """Turns what happens to symbols into formulas; makes no ``fx.Graph``."""

    def create_proxy(
        self, kind: str, target: Any, args: Any, kwargs: Any, *_: Any, **__: Any
    ) -> Any:
        """Called by ``fx.Proxy`` for each operator, method and function."""
        key = target if kind == "call_function" else f".{target}"
        handler = HANDLERS.get(key) if _is_hashable(key) else None
        if handler is None:
            raise RefusedError(f"{spelled(target, kind)} has no fused form")
        with torch._C.DisableTorchFunction():  # views of operands are ours, not the user's
            return handler(self, *args, **kwargs)

    def to_bool(self, obj: Any) -> bool:
        """A branch on a tensor's values."""
        raise RefusedError("a branch depends on the values of a tensor")

    def iter(self, obj: Any) -> Iterator[Any]:
        """A loop over a tensor."""
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

    def __getitem__(self, index: Any) -> int:
        at = index + len(self) if type(index) is int and index < 0 else index
        if type(at) is not int or not self._unknown <= at < len(self):
            raise RefusedError(f"the size [{index!r}] is used; those of a feature are known")
        return self._sizes[at - self._unknown]

    def __getattr__(self, name: str) -> Any:
        raise RefusedError(f"shape.{name} is used; only sizes of a feature are known")


TRACER = Tracer()


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
    """What a list in the first place holds, as ``torch.cat`` takes it."""
    return tuple(args[0]) if args and isinstance(args[0], (tuple, list)) else ()


def spelled(target: Any, kind: str = "call_function") -> str:
    """A function or method in a message."""
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
    """The symbol of a feature of edges or of their ends."""
    return of_leaf(Leaf(letter, key_of(field), frame[field]))


def of_leaf(leaf: Leaf, lead: int = 1) -> Symbol:
    """The symbol of an operand."""
    tensor = leaf.tensor
    assert tensor is not None
    return Symbol(Value(Term("leaf", (leaf,)), tuple(tensor.shape[1:]), tensor.dtype, lead), TRACER)


def symbol(value: Value) -> Symbol:
    """A symbol with a value."""
    return Symbol(value, TRACER)


# ---- formulas as text ----


class Formula(NamedTuple):
    """A formula as ``smex::`` operators read it, and its operands in the order of their numbers."""

    text: str
    leaves: tuple[Leaf, ...]

    def operands(self, relation: Relation) -> list[Tensor]:
        """The operands, for the edges of a relation."""
        return [leaf.of(relation) for leaf in self.leaves]

    def on_edges(self, relation: Relation) -> Tensor:
        """The value on every edge."""
        if len(self.leaves) == 1 and self.text == "e0":
            return self.leaves[0].of(relation)
        return per_edge(relation, self.text, self.operands(relation))

    def named(self) -> str:
        """The text with the features' names, such as ``u.h * e.w``."""

        def name(match: re.Match) -> str:
            leaf = self.leaves[int(match[1])]
            if leaf.tensor is None:
                return leaf.key
            if leaf.letter == "c":
                return f"tensor{list(leaf.tensor.shape[1:])}"
            return f"{leaf.letter}.{leaf.key}"

        return re.sub(r"\b[uvecn](\d+)\b", name, self.text)


def formula_of(term: Term) -> Formula:
    """The text of a formula; operands are numbered in the order of their first appearance."""
    leaves: dict[tuple[str, str], Leaf] = {}
    text = _text(term, leaves)
    return Formula(text, tuple(leaves.values()))


class Reduction(NamedTuple):
    """What each node makes of its messages."""

    reduce: str
    formula: Formula
    dropped: bool  # the formula's last dimension, of size 1, is not in the result

    @staticmethod
    def of(reduce: str, value: Value) -> Reduction:
        """The reduction of messages with a value."""
        term = value.term if reduce in ("sum", "mean") else without_inner_sums(value.term)
        return Reduction(reduce, formula_of(term), value.dropped)

    def named(self) -> str:
        """The text with the features' names, such as ``sum(u.h * e.w)``."""
        return f"{self.reduce}({self.formula.named()})"

    def run(self, relation: Relation, zero_empty: bool = True) -> Tensor:
        """The result ``[num_dst, ...]``, by one kernel."""
        operands = self.formula.operands(relation)
        out = aggregate(relation, self.formula.text, self.reduce, operands, zero_empty)
        return out.squeeze(-1) if self.dropped else out


def without_inner_sums(term: Term) -> Term:
    """The same formula with sums over the last dimension as operands, unless it is such a sum.

    ``max`` and ``min`` are found element by element, where a sum inside of the message has no
    place; the sums are small, one number for each edge or head.
    """
    return term if term.op in SUMS else _hoisted(term)


SUMS = ("dot", "sum_last")
"""Operations that add up over the last dimension."""


def _hoisted(term: Term) -> Term:
    if term.op in ("leaf", "number"):
        return term
    if term.op in SUMS:
        formula = formula_of(term)
        return Term("leaf", (Leaf("e", formula.named(), None, formula.on_edges),))
    return Term(term.op, tuple(_hoisted(arg) for arg in term.args), term.size)


def _text(term: Term, leaves: dict[tuple[str, str], Leaf]) -> str:
    if term.op == "number":
        return repr(term.args[0])
    if term.op == "leaf":
        leaf = term.args[0]
        leaves.setdefault((leaf.letter, leaf.key), leaf)
        return f"{leaf.letter}{list(leaves).index((leaf.letter, leaf.key))}"
    if term.op in "+-*/":
        left, right = (_grouped(arg, leaves) for arg in _in_order(term))
        return f"{left} {term.op} {right}"
    if term.op == "neg":
        return "-" + _grouped(term.args[0], leaves)
    return f"{term.op}({', '.join(_text(arg, leaves) for arg in _in_order(term))})"


def _in_order(term: Term) -> tuple[Term, ...]:
    """The arguments; of a product or a sum of two features the source's first, as built-ins say."""
    letters = [arg.args[0].letter for arg in term.args if arg.op == "leaf"]
    if term.op in ("+", "*", "dot") and letters in (["e", "u"], ["v", "u"], ["e", "v"]):
        return (term.args[1], term.args[0])
    return term.args


def _grouped(term: Term, leaves: dict[tuple[str, str], Leaf]) -> str:
    text = _text(term, leaves)
    return f"({text})" if term.op in ("+", "-", "*", "/", "neg") else text
