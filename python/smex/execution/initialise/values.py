"""Computing boxes of what an initialisation makes.

An element has the same bits in whatever box it is computed. Vector kernels compute what remains at
the end of a row of memory by other instructions than the rest, which may round otherwise; therefore
operands are laid flat and padded to whole vectors, and one thread computes them. What is no
function of the elements at its place is computed as a whole, also by one thread, since libraries
add up in the order of their threads.
"""

from __future__ import annotations

from typing import Any

import torch

from smex.execution.initialise.boxes import (
    Box,
    blocks,
    box_before,
    box_behind,
    numel,
    shape_of,
    slices,
    whole_box,
)
from smex.execution.initialise.draws import Placed, padded_flat
from smex.execution.initialise.nodes import (
    SIZE,
    Cast,
    Constant,
    Draw,
    Eye,
    Fill,
    Like,
    Node,
    Result,
    View,
    Write,
    reachable,
    with_views,
)
from smex.planning.rates import one_thread

_VECTOR = 256
"""Elements: a multiple of what kernels compute in one round, four vectors of 64 bytes each."""

_BLOCK = 2**16
"""Elements computed at once, in the cache."""

_DEPTH = 24
"""Nodes above so many others are computed as a whole: reading is recursive, 14 frames a node."""


class Values:
    """Computes what views show, box by box, on the CPU.

    Args:
        seed: of all draws.
    """

    def __init__(self, seed: int) -> None:
        self._seed = seed
        self._wholes: dict[int, torch.Tensor] = {}  # by number of a node
        self._results: dict[int, Any] = {}  # by id of a call that is computed as a whole
        self._block: dict[tuple[int, Box], torch.Tensor] = {}

    def fill(self, tile: torch.Tensor, view: View, box: Box) -> None:
        """Writes the box of what a view shows to a tensor of the box's shape, on any device."""
        with one_thread():
            self._prepare(view)
            for block in blocks(box, _BLOCK):
                if numel(block):
                    self._block.clear()
                    place = [(lo - a, hi - a) for (lo, hi), (a, _) in zip(block, box, strict=True)]
                    tile[slices(tuple(place))].copy_(self._read(view, block))
            self._block.clear()

    def forget(self) -> None:
        """Lets what was computed as a whole go."""
        self._wholes.clear()
        self._results.clear()

    def number(self, view: View) -> Any:
        """Returns the only number that a view shows."""
        with one_thread():
            self._prepare(view)
            self._block.clear()
            found = self._read(view, whole_box(view.shape)).item()
        self.forget()
        return found

    # ---- what is computed as a whole ----

    def _prepare(self, view: View) -> None:
        """Computes what boxes cannot be computed of, and what would be too deep."""
        pending = reachable([view], set())
        wanted = set()
        for node in reversed(pending):
            if _is_whole(node) or node.depth % _DEPTH == 0:
                wanted.add(node.number)
            for operand in node.operands():
                if operand.axes is None and 0 not in operand.shape:
                    wanted.add(operand.node.number)
        if view.axes is None:
            wanted.add(view.node.number)
        for node in pending:
            if node.number in wanted and node.number not in self._wholes:
                self._wholes[node.number] = self._whole(node)

    def _whole(self, node: Node) -> torch.Tensor:
        """Returns all of a node, lying as it was recorded."""
        whole = torch.empty_strided(node.shape, node.stride, dtype=node.dtype)
        if not whole.numel():
            return whole
        self._block.clear()
        if isinstance(node, Result) and not node.by_element:
            return whole.copy_(self._result(node))
        if isinstance(node, Draw) and not node.by_element:
            return whole.copy_(self._draw(node, whole_box(node.shape), whole.numel()))
        if isinstance(node, Write) and node.axes is None:
            whole.copy_(self._node(node.base, whole_box(node.shape)))
            place = node.place
            part = whole.as_strided(place.shape, place.stride, place.offset)
            part.copy_(self._read(node.value, whole_box(place.shape)))
            return whole
        for block in blocks(whole_box(node.shape), _BLOCK):
            self._block.clear()
            whole[slices(block)].copy_(self._node(node, block))
        return whole

    def _result(self, node: Result) -> torch.Tensor:
        call = node.call
        if id(call) not in self._results:
            changed: dict[str, torch.Tensor] = {}

            def operand(view: View) -> torch.Tensor:
                found = self._read(view, whole_box(view.shape))
                return found.clone(memory_format=torch.contiguous_format)

            args, kwargs = with_views((call.args, call.kwargs), operand)
            for position, argument in enumerate(call.function._schema.arguments):
                if argument.name in call.written and argument.name != "out":
                    at = args[position] if position < len(args) else kwargs[argument.name]
                    changed[argument.name] = at
            if "out" in call.written:
                changed["out"] = kwargs["out"] = torch.empty(0, dtype=node.dtype)
            result = call.function(*args, **kwargs)
            returned = result if isinstance(result, (list, tuple)) else [result]
            self._results[id(call)] = changed | dict(enumerate(returned))
        found: torch.Tensor = self._results[id(call)][node.which]
        return found

    # ---- boxes ----

    def _read(self, view: View, box: Box) -> torch.Tensor:
        """Returns a box of what a view shows; nobody changes it."""
        if not numel(box):
            return torch.empty(shape_of(box), dtype=view.node.dtype)
        axes = view.axes
        if axes is None:
            whole = self._wholes[view.node.number]
            return whole.as_strided(view.shape, view.stride, view.offset)[slices(box)]
        found = self._node(view.node, box_behind(axes, box))
        found = found[tuple([0 if a.dim is None else slice(None, None, a.step) for a in axes])]
        dims = [axis.dim for axis in axes if axis.dim is not None]
        found = found.permute(sorted(range(len(dims)), key=dims.__getitem__))
        for dim in range(len(view.shape)):
            if dim not in dims:
                found = found.unsqueeze(dim)
        return found.expand(shape_of(box))

    def _node(self, node: Node, box: Box) -> torch.Tensor:
        """Returns a box of a node; nobody changes it."""
        if node.number in self._wholes:
            return self._wholes[node.number][slices(box)]
        if isinstance(node, Constant):
            return node.tensor[slices(box)].to("cpu")
        key = (node.number, box)
        if key not in self._block:
            self._block[key] = self._computed(node, box)
        return self._block[key]

    def _computed(self, node: Node, box: Box) -> torch.Tensor:
        if isinstance(node, Write):
            return self._written(node, box)
        if isinstance(node, Fill):
            value = node.value
            if isinstance(value, View):
                value = self._read(value, whole_box(value.shape)).item()
            return torch.full(shape_of(box), value, dtype=node.dtype)
        if isinstance(node, Eye):
            rows, columns = (torch.arange(lo, hi) for lo, hi in box)
            return (rows[:, None] == columns).to(node.dtype)
        if isinstance(node, Cast):
            return self._repeated(node.source, node.shape, box).to(node.dtype)
        if isinstance(node, Draw):
            found = self._draw(node, box, _padded(box))
            return found[: numel(box)].view(shape_of(box))
        if isinstance(node, Result):
            return self._by_element(node, box)
        return torch.zeros(shape_of(box), dtype=node.dtype)  # blank: written over

    def _repeated(self, view: View, shape: tuple[int, ...], box: Box) -> torch.Tensor:
        """Returns a box of what a view shows when it is repeated to a shape."""
        rest = box[len(shape) - len(view.shape) :]
        inner = [
            (0, 1) if size == 1 else bounds for size, bounds in zip(view.shape, rest, strict=True)
        ]
        return self._read(view, tuple(inner)).expand(shape_of(box))

    def _written(self, node: Node, box: Box) -> torch.Tensor:
        writes: list[tuple[Write, Box]] = []
        while isinstance(node, Write) and node.number not in self._wholes:
            assert node.axes is not None
            part = box_before(node.axes, node.place.shape, box)
            if part is not None:
                writes.append((node, part))
            node = node.base
        found = self._node(node, box).clone()
        for write, part in reversed(writes):
            behind = box_behind(write.axes or (), part)
            place = [(lo - a, hi - a) for (lo, hi), (a, _) in zip(behind, box, strict=True)]
            into = found[slices(tuple(place), [axis.step for axis in write.axes or ()])]
            dims = [n for n, axis in enumerate(write.axes or ()) if axis.dim is not None]
            order = [(write.axes or ())[n].dim or 0 for n in dims]
            value = self._read(write.value, part)
            into = into[tuple([slice(None) if n in dims else 0 for n in range(into.dim())])]
            into = into.permute(sorted(range(len(dims)), key=order.__getitem__))
            for dim in range(value.dim()):
                if dim not in order:
                    into = into.unsqueeze(dim)
            into.copy_(value)
        return found

    # ---- element by element ----

    def _by_element(self, node: Result, box: Box) -> torch.Tensor:
        call, padded = node.call, _padded(box)
        args, kwargs = self._flat(node, (call.args, call.kwargs), box, padded)
        for position, argument in enumerate(call.function._schema.arguments):
            if argument.name in call.written and position < len(args):
                args = (*args[:position], args[position].clone(), *args[position + 1 :])
        if "out" in call.written:
            kwargs["out"] = torch.empty(padded, dtype=node.dtype)
        result = call.function(*args, **kwargs)
        if isinstance(result, (list, tuple)):
            result = result[node.which] if isinstance(node.which, int) else result[0]
        if result.dim() == 0:
            result = result.expand(padded)
        return result[: numel(box)].view(shape_of(box)).to(node.dtype)

    def _flat(self, node: Node, arguments: Any, box: Box, padded: int) -> Any:
        """Returns arguments of which tensors are flat and padded; numbers of no dimension stay."""

        def flat(view: View) -> torch.Tensor:
            if not view.shape and node.shape:
                return self._read(view, ())
            return padded_flat(self._repeated(view, node.shape, box), padded)

        return with_views(arguments, flat)

    def _draw(self, node: Draw, box: Box, padded: int) -> torch.Tensor:
        assert node.key is not None
        args, kwargs = self._flat(node, (node.args, node.kwargs), box, padded)
        args = [
            [padded] if arg is SIZE else torch.empty(padded, dtype=arg.dtype)
            if isinstance(arg, Like) else arg
            for arg in args
        ]  # fmt: skip
        with Placed(self._seed, node.key, node.shape, box, padded):
            found: torch.Tensor = node.function(*args, **kwargs)
        return found


def _is_whole(node: Node) -> bool:
    if isinstance(node, (Result, Draw)):
        return not node.by_element
    return isinstance(node, Write) and node.axes is None


def _padded(box: Box) -> int:
    return -(-numel(box) // _VECTOR) * _VECTOR
