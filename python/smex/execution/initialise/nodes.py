"""Values that an initialisation makes, as a graph: what each element is computed from."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch

from smex.execution.initialise.boxes import (
    Axis,
    Box,
    axes_of,
    box_behind,
    covered,
    whole_box,
    without,
)


@dataclasses.dataclass(eq=False)
class Node:
    """A tensor that nothing changes any more.

    Attributes:
        shape: its sizes.
        stride: how it lies, densely.
        dtype: of its elements.
        missing: boxes, disjoint, that nothing has given values.
        number: its own; nodes are computed from those of lower ones.
        depth: length of the longest chain of nodes that lead to it.
    """

    shape: tuple[int, ...]
    stride: tuple[int, ...]
    dtype: torch.dtype
    missing: list[Box]
    number: int
    depth: int

    def operands(self) -> Iterator[View]:
        """Yields what it is computed from."""
        return iter(())


@dataclasses.dataclass(frozen=True)
class View:
    """A tensor operand: a node as `torch.as_strided` shows it."""

    node: Node
    shape: tuple[int, ...]
    stride: tuple[int, ...]
    offset: int

    @functools.cached_property
    def axes(self) -> list[Axis] | None:
        """Returns what it shows of its node."""
        return axes_of(self.node.shape, self.node.stride, self.shape, self.stride, self.offset)

    def is_missing(self) -> bool:
        """Returns whether it shows something that nothing has given values."""
        if not self.node.missing or 0 in self.shape:
            return False
        axes = self.axes
        if axes is None:
            return True
        shown = box_behind(axes, whole_box(self.shape))
        return without(self.node.missing, shown) != self.node.missing


def with_views(arguments: Any, found: Callable[[View], Any]) -> Any:
    """Returns arguments, nested in sequences and dictionaries, with others in the place of views.

    It is called for each block that is computed: torch's `tree_map` takes longer than the block.
    """
    if isinstance(arguments, View):
        return found(arguments)
    if isinstance(arguments, (list, tuple)):
        return type(arguments)([with_views(item, found) for item in arguments])
    if isinstance(arguments, dict):
        return {name: with_views(item, found) for name, item in arguments.items()}
    return arguments


def views_in(arguments: Any) -> Iterator[View]:
    """Yields the views among arguments."""
    found: list[View] = []
    with_views(arguments, found.append)
    return iter(found)


@dataclasses.dataclass(eq=False)
class Blank(Node):
    """Memory that was allocated and not written to."""


@dataclasses.dataclass(eq=False)
class Constant(Node):
    """A tensor that was there."""

    tensor: torch.Tensor


@dataclasses.dataclass(eq=False)
class Fill(Node):
    """One number everywhere; a view where it is computed."""

    value: Any

    def operands(self) -> Iterator[View]:
        """Yields the number."""
        if isinstance(self.value, View):
            yield self.value


@dataclasses.dataclass(eq=False)
class Eye(Node):
    """Ones on the diagonal."""


@dataclasses.dataclass(eq=False)
class Cast(Node):
    """Another tensor in this type, repeated where this one is larger."""

    source: View

    def operands(self) -> Iterator[View]:
        """Yields the other tensor."""
        yield self.source


@dataclasses.dataclass(eq=False)
class Call:
    """A call of an operator.

    Attributes:
        function: the operator, or what draws numbers by place in its stead.
        args: positional arguments; tensors are views, and `LIKE` stands for one of the result's
            shape whose values do not matter.
        kwargs: the others.
        written: names of the arguments that it changes.
    """

    function: Any
    args: tuple
    kwargs: dict[str, Any]
    written: tuple[str, ...] = ()

    def operands(self) -> Iterator[View]:
        """Yields its tensor arguments."""
        return views_in((self.args, self.kwargs))


@dataclasses.dataclass(eq=False)
class Result(Node):
    """What a call returns, or writes into an argument.

    Attributes:
        call: the call.
        which: the number of the result, or the argument's name.
        by_element: whether each element is computed from those at its place in the operands.
    """

    call: Call
    which: int | str
    by_element: bool

    def operands(self) -> Iterator[View]:
        """Yields what the call reads."""
        return self.call.operands()


@dataclasses.dataclass(eq=False)
class Draw(Node):
    """Random numbers by place.

    Attributes:
        function: of random_ops, or another that draws with the same operators.
        args: positional arguments, see `Call`; `SIZE` stands for the sizes.
        kwargs: the others.
        key: of the stream: a tensor's name and a number; None until it is known.
        by_element: whether a box can be drawn alone.
    """

    function: Callable
    args: tuple
    kwargs: dict[str, Any]
    by_element: bool = True
    key: tuple[str, int] | None = None

    def operands(self) -> Iterator[View]:
        """Yields tensors that the distribution depends on."""
        return views_in((self.args, self.kwargs))


class Like:
    """Stands for a tensor of the result's shape, of which the dtype matters alone."""

    def __init__(self, dtype: torch.dtype) -> None:
        self.dtype = dtype


SIZE = object()
"""Stands for the sizes of what is drawn."""


@dataclasses.dataclass(eq=False)
class Write(Node):
    """A tensor of which a part was written.

    Attributes:
        base: what it was before.
        place: the part, a view of the base.
        axes: the same by dimensions, None if it is no box.
        value: what was written, of the part's shape.
    """

    base: Node
    place: View
    axes: list[Axis] | None
    value: View

    def operands(self) -> Iterator[View]:
        """Yields what was there and what was written."""
        yield View(self.base, self.base.shape, self.base.stride, 0)
        yield self.value


def missing_after(write_axes: Sequence[Axis] | None, place: View, value: View) -> list[Box]:
    """Returns which boxes of a tensor have no values once a part of it was written."""
    before = place.node.missing
    if value.is_missing():
        return before or [whole_box(place.node.shape)]
    if not before or write_axes is None:
        return before
    box = covered(write_axes, place.shape)
    return before if box is None else without(before, box)


def reachable(views: Sequence[View], seen: set[int]) -> list[Node]:
    """Returns the nodes behind views, with the lowest numbers first; adds those to `seen`."""
    found = []
    stack = [view.node for view in views]
    while stack:
        node = stack.pop()
        if node.number in seen:
            continue
        seen.add(node.number)
        found.append(node)
        stack.extend(view.node for view in node.operands())
    return sorted(found, key=lambda node: node.number)
