"""Input graphs as pictures: leaves below, and above them level by level who gathers them."""

from __future__ import annotations

import html
import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np

from smex._C import vertex_levels
from smex.errors import SmexValueError

__all__ = ["drawing"]

MOST_VERTICES = 300
"""Larger graphs are not drawn: nothing could be told apart."""

RADIUS, ACROSS, DOWN, MARGIN = 11, 44, 52, 30
"""In pixels: of a vertex, between neighbours and levels, and around all."""

COLOURS = ("#4c78a8", "#f58518", "#54a24b", "#b279a2", "#e45756", "#72b7b2", "#9d755d", "#eeca3b")


def drawing(
    child_offsets: np.ndarray,
    children: np.ndarray,
    types: Sequence[str] | None,
    labels: Sequence[Any] | None,
    caption: str,
) -> str:
    """Returns HTML: the caption, and below it an SVG where the graph is small and has no cycle.

    Args:
        child_offsets: int64 ``[vertices + 1]``.
        children: int64 ``[edges]``.
        types: the type of each vertex; each has a colour of its own.
        labels: what stands below each vertex beside its number, None for nothing.
        caption: of the picture.
    """
    title = f"<div>{html.escape(caption)}</div>"
    of_vertex = [
        children[begin:end].tolist() for begin, end in itertools.pairwise(child_offsets.tolist())
    ]
    if not 0 < len(of_vertex) <= MOST_VERTICES:
        return title
    try:
        levels = vertex_levels(child_offsets, children)
    except SmexValueError:  # such as a cycle, of which a run tells
        return title
    places = _places(of_vertex, levels)
    width = 2 * MARGIN + max(x for x, _ in places)
    height = 2 * MARGIN + max(y for _, y in places)
    names = list(dict.fromkeys(types or ()))
    parts = [
        f'<line x1="{places[child][0] + MARGIN:.1f}" y1="{places[child][1] + MARGIN:.1f}" '
        f'x2="{places[v][0] + MARGIN:.1f}" y2="{places[v][1] + MARGIN:.1f}"/>'
        for v, own in enumerate(of_vertex)
        for child in own
    ]
    lines = f'<g stroke="currentColor" stroke-opacity="0.45">{"".join(parts)}</g>'
    circles = []
    for v, (x, y) in enumerate(places):
        colour = COLOURS[names.index(types[v]) % len(COLOURS)] if types else COLOURS[0]
        label = "" if labels is None or labels[v] is None else str(labels[v])
        told = f"vertex {v}" + (f", type {types[v]}" if types else "") + f", level {levels[v]}"
        circles.append(
            f'<g transform="translate({x + MARGIN:.1f} {y + MARGIN:.1f})" text-anchor="middle" '
            f'font-size="11"><title>{html.escape(told + (label and f": {label}"))}</title>'
            f'<circle r="{RADIUS}" fill="{colour}"/><text y="4" fill="white">{v}</text>'
            + (label and f'<text y="{RADIUS + 12}" fill="currentColor">{_short(label)}</text>')
            + "</g>"
        )
    key = "".join(
        f'<span style="color:{COLOURS[n % len(COLOURS)]}">●</span> {html.escape(name)} '
        for n, name in enumerate(names)
    )
    return (
        f'{title}<svg viewBox="0 0 {width:.0f} {height:.0f}" width="{width:.0f}" '
        f'style="max-width:100%;height:auto" font-family="sans-serif" role="img">'
        f"{lines}{''.join(circles)}</svg>" + (f"<div>{key}</div>" if key else "")
    )


def _places(of_vertex: Sequence[Sequence[int]], levels: Sequence[int]) -> list[tuple[float, float]]:
    """Each vertex over the middle of what it gathers, where its level has room for it there."""
    top = max(levels)
    wanted = [0.0] * len(of_vertex)
    for level in range(top + 1):
        own = [v for v, at in enumerate(levels) if at == level]
        for order, v in enumerate(own):
            below = [wanted[child] for child in of_vertex[v]]
            wanted[v] = sum(below) / len(below) if below else float(order * ACROSS)
        own.sort(key=lambda v: wanted[v])
        least = -float("inf")
        for v in own:
            wanted[v] = least = max(wanted[v], least)
            least += ACROSS
    first = min(wanted)
    if top > 2 * len(set(wanted)):  # such as a chain, which lies
        return [(float(level * ACROSS), x - first) for x, level in zip(wanted, levels)]
    return [(x - first, float((top - level) * DOWN)) for x, level in zip(wanted, levels)]


def _short(label: str) -> str:
    return html.escape(label if len(label) <= 7 else label[:6] + "…")
