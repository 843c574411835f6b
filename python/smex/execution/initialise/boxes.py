"""Boxes of tensors, and views of tensors as boxes with steps."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from typing import NamedTuple

Box = tuple[tuple[int, int], ...]
"""By dimension where it begins and ends."""


class Axis(NamedTuple):
    """What a view shows of a dimension: every `step`th element from `start` on.

    Attributes:
        start: the first element.
        step: the distance of neighbours.
        dim: of the view; None where the view shows one element and has no dimension for it.
    """

    start: int
    step: int
    dim: int | None


def whole_box(shape: Sequence[int]) -> Box:
    """Returns the box of a whole tensor."""
    return tuple([(0, size) for size in shape])


def shape_of(box: Box) -> list[int]:
    """Returns the extents of a box."""
    return [hi - lo for lo, hi in box]


def numel(box: Box) -> int:
    """Returns how many elements a box has."""
    return math.prod(shape_of(box))


def blocks(box: Box, most: int) -> Iterator[Box]:
    """Divides a box along its outer dimensions into boxes of at most `most` elements."""
    if numel(box) <= most:
        yield box
        return
    dim = next(d for d, (lo, hi) in enumerate(box) if hi - lo > 1)
    lo, hi = box[dim]
    step = max(1, most // (numel(box) // (hi - lo)))
    for at in range(lo, hi, step):
        part = (*box[:dim], (at, min(at + step, hi)), *box[dim + 1 :])
        yield from blocks(part, most)


def without(boxes: Sequence[Box], taken: Box) -> list[Box]:
    """Returns what remains of disjoint boxes where another one is taken out of them."""
    found = []
    for box in boxes:
        inner = [(max(a, c), min(b, d)) for (a, b), (c, d) in zip(box, taken, strict=True)]
        if any(lo >= hi for lo, hi in inner):
            found.append(box)
            continue
        rest = list(box)
        for dim, (lo, hi) in enumerate(inner):
            for part in ((rest[dim][0], lo), (hi, rest[dim][1])):
                if part[0] < part[1]:
                    found.append((*rest[:dim], part, *rest[dim + 1 :]))
            rest[dim] = (lo, hi)
    return found


def axes_of(
    root_shape: Sequence[int],
    root_stride: Sequence[int],
    shape: Sequence[int],
    stride: Sequence[int],
    offset: int,
) -> list[Axis] | None:
    """Returns what a view shows of a tensor, by the tensor's dimensions; None if that is no box.

    The tensor is dense; dimensions of stride 0 repeat what the view shows.
    """
    if 0 in root_shape:
        return None
    order = sorted(range(len(root_shape)), key=lambda d: (-root_stride[d], d))
    starts = [0] * len(root_shape)
    for dim in order:
        if root_shape[dim] > 1:
            starts[dim], offset = divmod(offset, root_stride[dim])
    if offset or any(at >= size for at, size in zip(starts, root_shape, strict=True)):
        return None
    axes = [Axis(start, 1, None) for start in starts]
    for dim, (size, distance) in enumerate(zip(shape, stride, strict=True)):
        if size == 1 or distance == 0:
            continue
        fits = (
            d
            for d in order
            if axes[d].dim is None
            and root_shape[d] > 1
            and distance % root_stride[d] == 0
            and starts[d] + distance // root_stride[d] * (size - 1) < root_shape[d]
        )
        found = next(fits, None)
        if found is None:
            return None
        axes[found] = Axis(starts[found], distance // root_stride[found], dim)
    return axes


def box_behind(axes: Sequence[Axis], box: Box) -> Box:
    """Returns the box of a tensor that holds a box of a view of it."""
    bounds = []
    for start, step, dim in axes:
        lo, hi = (0, 1) if dim is None else box[dim]
        bounds.append((start + step * lo, start + step * (hi - 1) + 1))
    return tuple(bounds)


def box_before(axes: Sequence[Axis], shape: Sequence[int], box: Box) -> Box | None:
    """Returns which box of a view of that shape lies in a box of the tensor; None for nothing.

    No dimension of the view repeats anything.
    """
    found = list(whole_box(shape))
    for (start, step, dim), (lo, hi) in zip(axes, box, strict=True):
        if dim is None:
            if not lo <= start < hi:
                return None
            continue
        first = max(0, -(-(lo - start) // step))
        last = min(shape[dim], (hi - 1 - start) // step + 1)
        if first >= last:
            return None
        found[dim] = (first, last)
    return tuple(found)


def covered(axes: Sequence[Axis], shape: Sequence[int]) -> Box | None:
    """Returns the box of the tensor that a view shows without gaps; None where it has some."""
    if any(axis.step != 1 for axis in axes):
        return None
    return box_behind(axes, whole_box(shape))


def slices(box: Box, steps: Sequence[int] | None = None) -> tuple[slice, ...]:
    """Returns a box as an index."""
    return tuple(slice(lo, hi, step) for (lo, hi), step in zip(box, steps or itertools.repeat(1)))
