"""One trace for calls of many sizes: sizes that are symbols, and what they stand for in a call.

torch's tracers compute with symbols and note what they took for granted of them (a branch, a size
that must equal another); where that holds, the graph is that of a call of other sizes too. Records
are made of the trace once, with symbols in them; in a call of given sizes they are numbers.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import torch

from smex.capture.filled import FilledGraph, Place, Template
from smex.capture.records import CapturedGraph

if TYPE_CHECKING:  # it takes a second to import
    import sympy

_SYMBOLIC = (torch.SymInt, torch.SymFloat, torch.SymBool)

Shapes = Sequence[Sequence[int]]
"""Of the tensors of a call, in order, and then of each int that is an argument: it alone."""


class UnknownSizeError(Exception):
    """A size depends on more than the inputs' sizes."""


class Symbols:
    """Sizes of inputs that are symbols while a model is traced, and ints that are arguments.

    Args:
        free: for each input the dimensions whose size is a symbol. Sizes of 0 and 1, which
            broadcast, are none, nor are such ints and negative ones.
        shapes: of the call that is traced.

    Attributes:
        places: of each symbol the input and the dimension.
        sizes: what tracers take for ints.
        names: the symbols in expressions.
    """

    def __init__(self, free: Sequence[frozenset[int]], shapes: Shapes) -> None:
        from torch._dynamo.source import ConstantSource  # which takes seconds to import
        from torch.fx.experimental.symbolic_shapes import DimDynamic, ShapeEnv

        self.env = ShapeEnv()
        self.places = [
            (number, dim)
            for number, dims in enumerate(free)
            for dim in sorted(dims)
            if shapes[number][dim] > 1
        ]
        self.sizes: list[Any] = []
        self.names: list[sympy.Symbol] = []
        self.shapes = [list(shape) for shape in shapes]
        for n, (number, dim) in enumerate(self.places):
            source = ConstantSource(f"size{n}")
            size = shapes[number][dim]
            symbol = self.env.create_symbol(
                size, source, dynamic_dim=DimDynamic.DYNAMIC, constraint_dim=None
            )
            self.names.append(symbol)
            self.sizes.append(self.env.create_symintnode(symbol, hint=size, source=source))

    def shape(self, number: int) -> list[Any]:
        """Returns the shape of an input, with its symbols."""
        shape: list[Any] = list(self.shapes[number])
        for (input_, dim), size in zip(self.places, self.sizes, strict=True):
            if input_ == number:
                shape[dim] = size
        return shape


class _Numbers:
    """Expressions of symbols, computed for given sizes all at once."""

    def __init__(self, symbols: Symbols) -> None:
        self._env = symbols.env
        self._arguments = symbols.names
        self._numbers: dict[sympy.Expr, int] = {}

    def place(self, number: Any) -> Any:
        """Returns where a number will be, or itself where it depends on no symbol."""
        import sympy

        if isinstance(number, list):
            return [self.place(item) for item in number]
        if isinstance(number, tuple):
            return tuple([self.place(item) for item in number])
        if not isinstance(number, _SYMBOLIC):
            return number
        expr = self._env.replace(number.node.expr)
        if expr.is_number or expr in (sympy.true, sympy.false):
            kind = {torch.SymInt: int, torch.SymFloat: float}.get(type(number), bool)
            return kind(expr)
        if not expr.free_symbols <= set(self._arguments):
            raise UnknownSizeError(str(expr))
        return Place(self._numbers.setdefault(expr, len(self._numbers)))

    def function(self) -> Any:
        """Returns a function of the sizes to all numbers, in the order of their places."""
        from torch.fx.experimental.symbolic_shapes import SYMPY_INTERP
        from torch.utils._sympy.printers import PythonPrinter

        names = ", ".join(map(str, self._arguments))
        words = "".join(f"{PythonPrinter().doprint(expr)}, " for expr in self._numbers)
        return eval(f"lambda {names}: ({words})", dict(SYMPY_INTERP))


class AnySizes:
    """Records with symbols, and for each call of other sizes those that it would have had.

    Args:
        records: of a trace with symbols. Its symbols become places.
        symbols: of the trace.

    Raises:
        UnknownSizeError: a size depends on more than the inputs' sizes.
    """

    def __init__(self, records: CapturedGraph, symbols: Symbols) -> None:
        self._places = symbols.places
        self._fixed = [
            (number, dim, size)
            for number, shape in enumerate(symbols.shapes)
            for dim, size in enumerate(shape)
            if (number, dim) not in symbols.places
        ]
        self._env = symbols.env
        numbers = _Numbers(symbols)
        for value in records.values:
            value.shape = numbers.place(tuple(value.shape))
        for op in (*records.ops, *(fusion.fused for fusion in records.fusions)):
            op.args = numbers.place(op.args)
        records.flat_outputs = numbers.place(records.flat_outputs)
        self._template = Template(records)
        self._numbers = numbers.function()
        self._assumed = symbols.env.produce_guards_expression(symbols.sizes) or "True"

    def holds(self, shapes: Shapes) -> bool:
        """Returns whether a call of these shapes has this graph."""
        sizes = self._sizes(shapes)
        return (
            min(sizes) > 1
            and all(shapes[number][dim] == size for number, dim, size in self._fixed)
            and self._env.evaluate_guards_expression(self._assumed, sizes)
        )

    def at(self, shapes: Shapes) -> FilledGraph:
        """Returns the records of a call of these shapes."""
        return FilledGraph(self._template, self._numbers(*self._sizes(shapes)))

    def _sizes(self, shapes: Shapes) -> list[int]:
        return [shapes[number][dim] for number, dim in self._places]
