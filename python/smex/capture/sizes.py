"""One trace for calls of many sizes: sizes that are symbols, and what they stand for in a call.

torch's tracers compute with symbols and note what they took for granted of them (a branch, a size
that must equal another); where that holds, the graph is that of a call of other sizes too.
"""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Sequence
from typing import Any

import sympy
import torch
from torch._dynamo.source import ConstantSource
from torch.fx.experimental.symbolic_shapes import SYMPY_INTERP, DimDynamic, ShapeEnv
from torch.utils._sympy.printers import PythonPrinter

_SYMBOLIC = (torch.SymInt, torch.SymFloat, torch.SymBool)

Shapes = Sequence[Sequence[int]]
"""Of the inputs of a call, in order."""


class UnknownSizeError(Exception):
    """A size depends on more than the inputs' sizes."""


class Symbols:
    """Sizes of inputs that are symbols while a model is traced.

    Args:
        free: for each input the dimensions whose size is a symbol. Sizes of 0 and 1, which
            broadcast, are none.
        shapes: of the call that is traced.

    Attributes:
        places: of each symbol the input and the dimension.
        sizes: what tracers take for ints.
        names: the symbols in expressions.
    """

    def __init__(self, free: Sequence[frozenset[int]], shapes: Shapes) -> None:
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
        if not isinstance(number, _SYMBOLIC):
            return number
        expr = self._env.replace(number.node.expr)
        if expr.is_number or expr in (sympy.true, sympy.false):
            kind = {torch.SymInt: int, torch.SymFloat: float}.get(type(number), bool)
            return kind(expr)
        if not expr.free_symbols <= set(self._arguments):
            raise UnknownSizeError(str(expr))
        return _Place(self._numbers.setdefault(expr, len(self._numbers)))

    def function(self) -> Any:
        """Returns a function of the sizes to all numbers, in the order of their places."""
        names = ", ".join(map(str, self._arguments))
        words = "".join(f"{PythonPrinter().doprint(expr)}, " for expr in self._numbers)
        return eval(f"lambda {names}: ({words})", dict(SYMPY_INTERP))


@dataclasses.dataclass(frozen=True)
class _Place:
    """Of a number among those of a call."""

    at: int


def _filled(places: Any, numbers: Sequence[Any]) -> Any:
    """Returns `places` with numbers in it."""
    if isinstance(places, _Place):
        return numbers[places.at]
    if isinstance(places, tuple):
        return tuple(_filled(place, numbers) for place in places)
    return places


@dataclasses.dataclass(frozen=True)
class _Tensor:
    """A tensor of which the shape and the strides are still to be filled in."""

    shape: tuple[Any, ...]
    strides: tuple[Any, ...]
    dtype: torch.dtype

    def at(self, numbers: Sequence[Any]) -> torch.Tensor:
        """Returns one without content."""
        shape, strides = _filled(self.shape, numbers), _filled(self.strides, numbers)
        return torch.empty_strided(shape, strides, dtype=self.dtype, device="meta")


class AnySizes:
    """A trace with symbols, and for each call of other sizes the trace that it would have had.

    Raises:
        UnknownSizeError: a size depends on more than the inputs' sizes.
    """

    def __init__(self, trace: Any, symbols: Symbols) -> None:
        # What nodes make is on the meta device from here on.
        self._trace = dataclasses.replace(trace, fake_mode=contextlib.nullcontext())
        self._places = symbols.places
        self._fixed = [
            (number, dim, size)
            for number, shape in enumerate(symbols.shapes)
            for dim, size in enumerate(shape)
            if (number, dim) not in symbols.places
        ]
        self._env = symbols.env
        self._assumed = symbols.env.produce_guards_expression(symbols.sizes) or "True"
        numbers = _Numbers(symbols)
        self._nodes: list[tuple[torch.fx.Node, Any]] = []
        for node in trace.graph.nodes:
            made = self._made(node.meta.get("val"), numbers)
            if _has_places(made):
                self._nodes.append((node, made))
            else:
                node.meta["val"] = _with_numbers(made, ())
        self._leaves = [numbers.place(leaf) for leaf in trace.flat_outputs]
        self._numbers = numbers.function()

    def _made(self, made: Any, numbers: _Numbers) -> Any:
        """What a node makes, to be filled in."""
        if isinstance(made, torch.Tensor):
            shape = tuple(map(numbers.place, made.shape))
            return _Tensor(shape, tuple(map(numbers.place, made.stride())), made.dtype)
        if isinstance(made, (list, tuple)):
            return [self._made(item, numbers) for item in made]
        return numbers.place(made)

    def holds(self, shapes: Shapes) -> bool:
        """Returns whether a call of these shapes has this graph."""
        sizes = self._sizes(shapes)
        return (
            min(sizes) > 1
            and all(shapes[number][dim] == size for number, dim, size in self._fixed)
            and self._env.evaluate_guards_expression(self._assumed, sizes)
        )

    def at(self, shapes: Shapes) -> Any:
        """Returns the trace of a call of these shapes; valid until the next is asked for."""
        numbers = self._numbers(*self._sizes(shapes))
        for node, made in self._nodes:
            node.meta["val"] = _with_numbers(made, numbers)
        outputs = [_filled(leaf, numbers) for leaf in self._leaves]
        return dataclasses.replace(self._trace, flat_outputs=outputs)

    def _sizes(self, shapes: Shapes) -> list[int]:
        return [shapes[number][dim] for number, dim in self._places]


def _has_places(made: Any) -> bool:
    if isinstance(made, _Tensor):
        return any(isinstance(number, _Place) for number in (*made.shape, *made.strides))
    if isinstance(made, list):
        return any(map(_has_places, made))
    return isinstance(made, _Place)


def _with_numbers(made: Any, numbers: Sequence[Any]) -> Any:
    if isinstance(made, _Tensor):
        return made.at(numbers)
    if isinstance(made, list):
        return [_with_numbers(item, numbers) for item in made]
    return _filled(made, numbers)
