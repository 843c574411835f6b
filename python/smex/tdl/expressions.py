"""Elements as expressions, and the tensors that they are read from."""

from __future__ import annotations

import contextvars
from collections.abc import Iterator, Sequence
from typing import Any, Union

from smex._C import tdl as _native
from smex.errors import SpecError

Operand = Union["Expr", float, int, bool]


class Trace:
    """The indices of the spec being traced, in order of first appearance."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.indices: dict[str, Expr] = {}
        self.extents: dict[str, int | None] = {}
        self.wholes: set[str] = set()
        self.bound: set[str] = set()

    def fail(self, text: str) -> SpecError:
        """Returns the error of this spec."""
        return SpecError(f"spec of {self.name}: {text}")

    def bind(self, name: str, extent: int | None, *, strict: bool = True) -> Expr:
        """Opens an index; a name of another extent is an error, or another index."""
        while (
            not strict
            and extent is not None
            and self.extents.get(name, extent) not in (extent, None)
        ):
            name += "_"
        if name in self.bound:
            raise self.fail(f"index {name} is bound twice; give the inner one another name")
        self.bound.add(name)
        if name not in self.indices:
            self.indices[name] = Expr(_native.index(len(self.indices)), name)
            self.extents[name] = extent
        elif extent is not None:
            self.set_extent(name, extent)
        return self.indices[name]

    def set_extent(self, name: str, extent: int) -> None:
        """Says how many values an index has; it has one extent only."""
        known = self.extents[name]
        if known is not None and known != extent:
            raise self.fail(f"index {name}: expected one extent, found {known} and {extent}")
        self.extents[name] = extent

    def release(self, indices: Sequence[Expr]) -> None:
        """Closes indices: another lambda may take their names."""
        self.bound.difference_update(index.name for index in indices)

    def positions(self, indices: Sequence[Expr]) -> list[int]:
        """Returns the numbers of indices in the native Spec."""
        order: list[str | None] = list(self.indices)
        return [order.index(index.name) for index in indices]


active: contextvars.ContextVar[Trace | None] = contextvars.ContextVar("smex_trace", default=None)
"""The trace of the spec function that runs."""

ANYWHERE = "smex.tdl: "
"""How an error begins that does not know the operator."""


def current() -> Trace:
    """Returns the trace of the spec function that runs; there is none outside of one."""
    trace_ = active.get()
    if trace_ is None:
        raise SpecError("smex.tdl: expressions exist only while a spec is traced")
    return trace_


class Expr:
    """An element expression: arithmetic on it builds a larger one."""

    __slots__ = ("name", "node")
    __hash__ = object.__hash__

    def __init__(self, node: Any, name: str | None = None) -> None:
        self.node = node
        self.name = name  # of a plain index

    def __bool__(self) -> bool:
        raise SpecError("smex.tdl: an expression has no truth value; use where(), and_(), or_()")

    def __add__(self, other: Operand) -> Expr:
        return call("add", self, other)

    def __radd__(self, other: Operand) -> Expr:
        return call("add", other, self)

    def __sub__(self, other: Operand) -> Expr:
        return call("sub", self, other)

    def __rsub__(self, other: Operand) -> Expr:
        return call("sub", other, self)

    def __mul__(self, other: Operand) -> Expr:
        return call("mul", self, other)

    def __rmul__(self, other: Operand) -> Expr:
        return call("mul", other, self)

    def __truediv__(self, other: Operand) -> Expr:
        return call("div", self, other)

    def __rtruediv__(self, other: Operand) -> Expr:
        return call("div", other, self)

    def __floordiv__(self, other: Operand) -> Expr:
        return call("floordiv", self, other)

    def __mod__(self, other: Operand) -> Expr:
        return call("mod", self, other)

    def __pow__(self, other: Operand) -> Expr:
        return call("pow", self, other)

    def __rpow__(self, other: Operand) -> Expr:
        return call("pow", other, self)

    def __neg__(self) -> Expr:
        return call("neg", self)

    def __eq__(self, other: object) -> Expr:  # type: ignore[override]
        return call("eq", self, other)

    def __ne__(self, other: object) -> Expr:  # type: ignore[override]
        return call("ne", self, other)

    def __lt__(self, other: Operand) -> Expr:
        return call("lt", self, other)

    def __le__(self, other: Operand) -> Expr:
        return call("le", self, other)

    def __gt__(self, other: Operand) -> Expr:
        return call("gt", self, other)

    def __ge__(self, other: Operand) -> Expr:
        return call("ge", self, other)


def as_expr(value: object) -> Expr:
    """Returns an expression, or a number as one."""
    if isinstance(value, Expr):
        return value
    if isinstance(value, (bool, int, float)):
        return Expr(_native.const(float(value)))
    if isinstance(value, SymbolicTensor):
        raise SpecError("smex.tdl: a tensor must be indexed before it is used: x[i, j]")
    raise SpecError(f"smex.tdl: expected an expression or a number, found {type(value).__name__}")


def call(name: str, *args: object) -> Expr:
    """Returns a function of the language, applied to elements and numbers."""
    return Expr(_native.call(name, [as_expr(arg).node for arg in args]))


def whole(index: Expr) -> Expr:
    """Declares that an index is never divided (a kernel's window), and returns it."""
    if not isinstance(index, Expr) or index.name is None:
        raise SpecError("smex.tdl: whole: expected an index")
    current().wholes.add(index.name)
    return index


class SymbolicTensor:
    """A tensor argument of the operator.

    ``x[i, j]`` reads an element, ``x[:, j]`` in an Opaque all of a dimension, and
    ``x.pad(0.0)[i - 1]`` gives 0.0 outside of the tensor.
    """

    __slots__ = ("_input", "_pad", "dtype", "shape")

    def __init__(
        self, input: int, shape: Sequence[int], dtype: str | None, pad: float | None = None
    ):
        self._input = input
        self._pad = pad
        self.shape = tuple(shape)
        self.dtype = dtype

    @property
    def ndim(self) -> int:
        """The number of dimensions."""
        return len(self.shape)

    def pad(self, value: float) -> SymbolicTensor:
        """Returns the tensor with `value` around it."""
        return SymbolicTensor(self._input, self.shape, self.dtype, float(value))

    def __getitem__(self, key: Any) -> Expr:
        trace_ = current()
        indices = key if isinstance(key, tuple) else (key,)
        if len(indices) != self.ndim:
            raise trace_.fail(
                f"read of input {self._input}: expected {self.ndim} indices, found {len(indices)}"
            )
        nodes = []
        for dim, index in enumerate(indices):
            if isinstance(index, slice):
                if index != slice(None):
                    raise trace_.fail(f"read of input {self._input}: expected ':', found a slice")
                nodes.append(_native.whole())
                continue
            expr_ = as_expr(index)
            if expr_.name is not None and trace_.extents[expr_.name] is None:
                trace_.set_extent(expr_.name, self.shape[dim])
            nodes.append(expr_.node)
        return Expr(_native.read(self._input, nodes, self._pad))

    def __iter__(self) -> Iterator[Expr]:
        raise SpecError("smex.tdl: a tensor argument cannot be iterated over; index it")
