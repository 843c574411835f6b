"""Pictures of how a tensor is cut: one box a tile, in the colours of the workers that hold it."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence

from smex._C import cut_of
from smex.planning.markup import escape

WIDTH, HEIGHT = 90, 36  # of a picture in a table, in pixels
_HATCH = 8  # pixels between lines
_MOST_COLOURED = 32  # workers; with more only the cuts are drawn

Tile = tuple[bool, list[tuple[int, int]]]
"""Whether a worker holds a tile, and the tile's (lo, hi) by dimension."""


def worker_colour(worker: int, workers: int) -> str:
    """Returns the colour of a worker in all pictures."""
    return f"hsl({worker * 360 // workers} 60% 70%)"


def legend(workers: int) -> str:
    """Returns the workers in their colours."""
    if workers > _MOST_COLOURED:
        return ""
    chips = "".join(
        f'<span class="worker" style="background:{worker_colour(worker, workers)}">{worker}</span>'
        for worker in range(workers)
    )
    return f"<p>workers: {chips}</p>"


def axes_of(ndim: int, placement: Sequence[int]) -> tuple[int, int]:
    """Returns the dimensions to show downwards and to the right, those that are cut first.

    -1 for none.
    """
    if ndim < 2:
        return -1, ndim - 1
    cut = sorted({cut_of(choice) for choice in placement if choice >= 0})[:2]
    if len(cut) == 2:
        return cut[0], cut[1]
    return 0, max(1, *cut, 1)


def tensor_picture(shape: Sequence[int], placement: Sequence[int], tiles: Sequence[Tile]) -> str:
    """Returns a tensor's tiles and the dimensions that are shown."""
    axes = axes_of(len(shape), placement)
    words = [f"{arrow} dim {dim}" for arrow, dim in zip("↓→", axes, strict=True) if dim >= 0]
    return f"{tiles_svg(shape, tiles, axes)} <small class='unbroken'>{' '.join(words)}</small>"


def tiles_svg(
    shape: Sequence[int],
    tiles: Sequence[Tile],
    axes: tuple[int, int],
    size: tuple[float, float] = (WIDTH, HEIGHT),
) -> str:
    """Two dimensions of a tensor, downwards and to the right, with the tiles of all workers.

    A box that several workers hold, because they are replicas or differ in another dimension, is
    striped in their colours and hatched.
    """
    holders: dict[tuple[float, ...], list[tuple[int, str]]] = {}
    for worker, (held, box) in enumerate(tiles):
        if held:
            drawn = (*_span(box, shape, axes[1]), *_span(box, shape, axes[0]))
            label = ", ".join(f"{lo}:{hi}" for lo, hi in box)
            holders.setdefault(drawn, []).append((worker, f"worker {worker}: {label}"))
    draw = _boxes if len(tiles) <= _MOST_COLOURED else _cuts
    width, height = size
    return f'<svg width="{width:g}" height="{height:g}">{draw(holders, len(tiles), size)}</svg>'


def _boxes(
    holders: dict[tuple[float, ...], list[tuple[int, str]]],
    workers: int,
    size: tuple[float, float],
) -> str:
    """Boxes in the colours of their workers, each with its bounds as a title."""
    width, height = size
    boxes = []
    for (x0, x1, y0, y1), held_by in holders.items():
        stripe = (x1 - x0) / len(held_by)
        for position, (worker, label) in enumerate(held_by):
            boxes.append(
                f'<rect x="{(x0 + position * stripe) * width:.2f}" y="{y0 * height:.2f}" '
                f'width="{stripe * width:.2f}" height="{(y1 - y0) * height:.2f}" '
                f'fill="{worker_colour(worker, workers)}"><title>{escape(label)}</title></rect>'
            )
        boxes.append(
            f'<rect x="{x0 * width:.2f}" y="{y0 * height:.2f}" '
            f'width="{(x1 - x0) * width:.2f}" height="{(y1 - y0) * height:.2f}" '
            'fill="none" stroke="var(--stroke)" pointer-events="none"/>'
        )
        if len(held_by) > 1:
            lines = _hatching(x0 * width, x1 * width, y0 * height, y1 * height)
            boxes.append(
                f'<path d="{lines}" stroke="var(--hatch)" pointer-events="none" fill="none"/>'
            )
    return "".join(boxes)


def _hatching(x0: float, x1: float, y0: float, y1: float) -> str:
    """Returns lines from the lower left to the upper right through a box."""
    lines = []
    for step in range(1, math.ceil((x1 - x0 + y1 - y0) / _HATCH)):
        low, high = x0 + step * _HATCH - (y1 - y0), x0 + step * _HATCH  # below, above
        left, right = max(low, x0), min(high, x1)
        lines.append(f"M{left:.1f} {y1 - (left - low):.1f}L{right:.1f} {y0 + (high - right):.1f}")
    return "".join(lines)


def _cuts(
    holders: dict[tuple[float, ...], list[tuple[int, str]]],
    workers: int,
    size: tuple[float, float],
) -> str:
    """Returns the lines along which a tensor is cut for many workers; tiles form a grid."""
    width, height = size
    across = sorted({x * width for x0, x1, _, _ in holders for x in (x0, x1)})
    down = sorted({y * height for _, _, y0, y1 in holders for y in (y0, y1)})
    strokes = [f"M{x:.2f} 0V{height:g}" for x in across] + [f"M0 {y:.2f}H{width:g}" for y in down]
    return (
        f'<rect width="{width:g}" height="{height:g}" fill="var(--grid)"><title>'
        f"{len(holders)} boxes of {workers} workers</title></rect>"
        f'<path d="{"".join(strokes)}" stroke="var(--stroke)" stroke-width="0.5" fill="none"/>'
    )


def _span(box: list[tuple[int, int]], shape: Sequence[int], dim: int) -> tuple[float, float]:
    """Returns a box's extent along a dimension as fractions of the tensor's."""
    if dim < 0 or shape[dim] == 0:
        return 0.0, 1.0
    lo, hi = box[dim]
    return lo / shape[dim], hi / shape[dim]


def bar(parts: Sequence[tuple[float, str, str]], width: int = 150, height: int = 12) -> str:
    """Returns a bar of (amount, colour, title) parts side by side."""
    total = sum(amount for amount, _, _ in parts)
    ends = list(itertools.accumulate(amount for amount, _, _ in parts))
    rects = [
        f'<rect x="{(end - amount) / total * width:.1f}" width="{amount / total * width:.1f}" '
        f'height="{height}" fill="{colour}"><title>{escape(title)}</title></rect>'
        for end, (amount, colour, title) in zip(ends, parts, strict=True)
        if amount > 0
    ]
    return f'<svg width="{width}" height="{height}">{"".join(rects)}</svg>'
