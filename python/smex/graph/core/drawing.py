"""Graphs as pictures: nodes and edges of small ones, and types of heterographs."""

from __future__ import annotations

import html
import math
from collections.abc import Iterable, Sequence

import torch

from smex.graph.core.graph_core import GraphCore

__all__ = ["drawing"]

ON_A_CIRCLE = 30
"""So many nodes at most are numbered, on a circle; more lie by where their edges pull them."""

MOST_NODES, MOST_EDGES = 300, 1500
"""More are a tangle."""

MOST_TYPES, MOST_RELATIONS = 16, 40

LABELS = ("label", "labels", "y")
"""Features of nodes that colours stand for, where they are small integers."""

COLOURS = ("#4c72b0", "#dd8452", "#55a868", "#c44e52", "#8172b3", "#937860", "#da8bc3", "#8c8c8c",
           "#ccb974", "#64b5cd")  # fmt: skip

Place = tuple[float, float]


def drawing(graph: GraphCore) -> str:
    """Returns an SVG: of nodes and edges, or of several types and how they are joined.

    Nothing where the graph is too large for either.
    """
    if not graph.is_homogeneous:
        return "" if graph.is_block else _of_types(graph)
    nodes, edges = graph.num_nodes(), graph.num_edges()
    if not 0 < nodes <= MOST_NODES or edges > MOST_EDGES:
        return ""
    src, dst = (end.tolist() for end in graph.relation().coo())
    pairs = list(dict.fromkeys(zip(src, dst)))
    title = f"{nodes} nodes, {edges} edges"
    colours = _colours(graph)
    if nodes <= ON_A_CIRCLE and len(pairs) <= 100:
        places = [_on_circle(node, nodes, 72) for node in range(nodes)]
        lines = "".join(_arrow(places[u], places[v], 9) for u, v in pairs)
        dots = "".join(
            _dot(place, 8, colour, str(node))
            for node, (place, colour) in enumerate(zip(places, colours))
        )
        return _svg(180, title, lines, dots)
    places = _pulled(nodes, pairs)
    if not places:
        return ""
    lines = "".join(_line(places[u], places[v]) for u, v in pairs if u != v)
    dots = "".join(
        _dot(place, 4 if nodes <= 100 else 3, colour, tip=str(node))
        for node, (place, colour) in enumerate(zip(places, colours))
    )
    return _svg(300, title, lines, dots, opacity=0.5 if edges <= 400 else 0.25)


def _colours(graph: GraphCore) -> Sequence[str]:
    """A node's colour by its class, if some feature tells one."""
    frame = graph._node_frame(graph._slots()[0])
    for name in LABELS:
        scheme = frame.schemes().get(name)
        if scheme is None or len(scheme.shape) > 0 or scheme.dtype.is_floating_point:
            continue
        classes = frame[name].to(torch.int64).tolist()
        if all(-1 <= each < len(COLOURS) for each in classes):
            return [COLOURS[each] if each >= 0 else "#bbb" for each in classes]
    return [COLOURS[0]] * graph.num_nodes()


def _pulled(nodes: int, pairs: Iterable[tuple[int, int]]) -> list[Place]:
    """Places by Fruchterman and Reingold; none without networkx, whose layout it is."""
    try:
        import networkx
    except ImportError:
        return []
    drawn = networkx.Graph()
    drawn.add_nodes_from(range(nodes))
    drawn.add_edges_from(pairs)
    found = networkx.spring_layout(drawn, seed=0, iterations=80, scale=140)
    return [(float(found[node][0]), float(found[node][1])) for node in range(nodes)]


def _of_types(graph: GraphCore) -> str:
    """Node types on a circle, and relations as arrows with their names."""
    types, relations = graph.ntypes, graph.canonical_etypes
    if len(types) > MOST_TYPES or len(relations) > MOST_RELATIONS:
        return ""
    places = {name: _on_circle(n, len(types), 110) for n, name in enumerate(types)}
    names: dict[tuple[str, str], list[str]] = {}
    for src, name, dst in relations:
        names.setdefault((src, dst), []).append(name)
    lines, words = [], []
    for (src, dst), found in names.items():
        if src == dst:
            x, y = places[src]
            lines.append(f'<circle cx="{x:.1f}" cy="{y - 20:.1f}" r="11"/>')
            at = (x, y - 40 - 5 * (len(found) - 1))
        else:
            bend = 30 if (dst, src) in names else 0  # apart from those of the other way
            path, at = _curve(places[src], places[dst], bend, found)
            lines.append(path)
        top = at[1] + 3 - 5 * (len(found) - 1)
        words += [_word((at[0], top + 10 * n), name) for n, name in enumerate(found)]
    dots = "".join(
        _dot(place, 13, COLOURS[n % len(COLOURS)], f"{graph.num_nodes(name):,}", name)
        + _word((place[0], place[1] + 24), name, bold=True)
        for n, (name, place) in enumerate(places.items())
    )
    title = f"{len(types)} types of nodes, {len(relations)} of edges"
    return _svg(340, title, "".join(lines), "".join(words) + dots)


def _svg(size: int, title: str, lines: str, marks: str, opacity: float = 1) -> str:
    half = size // 2
    return (
        f'<svg width="{size}" height="{size}" viewBox="-{half} -{half} {size} {size}" role="img" '
        f'aria-label="{title}" font-family="sans-serif">'
        f'<g stroke="#888" fill="none" stroke-opacity="{opacity}">{lines}</g>{marks}</svg>'
    )


def _on_circle(node: int, nodes: int, radius: float) -> Place:
    if nodes == 1:
        return 0.0, 0.0
    angle = 2 * math.pi * node / nodes - math.pi / 2
    return radius * math.cos(angle), radius * math.sin(angle)


def _line(start: Place, end: Place) -> str:
    return f'<path d="M{start[0]:.1f} {start[1]:.1f}L{end[0]:.1f} {end[1]:.1f}"/>'


def _arrow(start: Place, end: Place, gap: float) -> str:
    """A line to where the node's dot begins; a loop where both are one."""
    if start == end:
        x, y = start
        return f'<circle cx="{x:.1f}" cy="{y - gap:.1f}" r="6"/>'
    length = math.dist(start, end)
    dx, dy = (end[0] - start[0]) / length, (end[1] - start[1]) / length
    tip = (end[0] - gap * dx, end[1] - gap * dy)
    return (
        f'<path d="M{start[0]:.1f} {start[1]:.1f}L{tip[0]:.1f} {tip[1]:.1f}{_head(tip, dx, dy)}"/>'
    )


def _curve(start: Place, end: Place, bend: float, words: Sequence[str]) -> tuple[str, Place]:
    """An arrow bent to its left, and a place for words on that side of its middle."""
    length = math.dist(start, end)
    dx, dy = (end[0] - start[0]) / length, (end[1] - start[1]) / length
    middle = ((start[0] + end[0]) / 2 + bend * dy, (start[1] + end[1]) / 2 - bend * dx)
    reach = math.dist(middle, end)
    tx, ty = (end[0] - middle[0]) / reach, (end[1] - middle[1]) / reach
    tip = (end[0] - 14 * tx, end[1] - 14 * ty)
    path = (
        f'<path d="M{start[0]:.1f} {start[1]:.1f}Q{middle[0]:.1f} {middle[1]:.1f} '
        f'{tip[0]:.1f} {tip[1]:.1f}{_head(tip, tx, ty)}"/>'
    )
    x, y = ((a + 2 * b + c) / 4 for a, b, c in zip(start, middle, end))
    beside = 6 + 5 * len(words) * abs(dx) + 2.6 * max(map(len, words)) * abs(dy)
    return path, (x + beside * dy, y - beside * dx)


def _head(tip: Place, dx: float, dy: float) -> str:
    left = f"{tip[0] - 5 * dx + 3 * dy:.1f} {tip[1] - 5 * dy - 3 * dx:.1f}"
    right = f"{tip[0] - 5 * dx - 3 * dy:.1f} {tip[1] - 5 * dy + 3 * dx:.1f}"
    return f"M{left}L{tip[0]:.1f} {tip[1]:.1f}L{right}"


def _dot(place: Place, radius: int, colour: str, label: str = "", tip: str = "") -> str:
    x, y = place
    inside = f"<title>{html.escape(tip)}</title>" if tip else ""
    text = (
        f'<text x="{x:.1f}" y="{y + 3:.1f}" font-size="{8 if len(label) > 3 else 9}" '
        f'text-anchor="middle" fill="#fff">{html.escape(label)}</text>'
        if label
        else ""
    )
    return f'<circle cx="{x:.1f}" cy="{y:.1f}" r="{radius}" fill="{colour}">{inside}</circle>{text}'


def _word(place: Place, text: str, bold: bool = False) -> str:
    short = text if len(text) <= 18 else text[:17] + "…"
    weight = ' font-weight="bold"' if bold else ""
    return (
        f'<text x="{place[0]:.1f}" y="{place[1]:.1f}" font-size="10" text-anchor="middle" '
        f'fill="currentColor"{weight}>{html.escape(short)}</text>'
    )
