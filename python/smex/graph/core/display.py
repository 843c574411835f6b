"""Graphs in print: DGL's text form, and a table for notebooks."""

from __future__ import annotations

import html as markup
import math

from smex.graph.core.batches import BatchMixin
from smex.graph.core.graph_core import GraphCore
from smex.graph.features.column import Scheme
from smex.graph.features.frame import Frame

_MAX_DRAWN_NODES = 30  # more are a tangle
_MAX_DRAWN_EDGES = 100
_MAX_ROWS = 50


def text(graph: GraphCore) -> str:
    """Returns the graph as ``repr`` shows it, in DGL's form."""
    if graph.is_homogeneous:
        return (
            f"Graph(num_nodes={graph.num_nodes()}, num_edges={graph.num_edges()},\n"
            f"      ndata_schemes={graph._node_frame(graph._slots()[0]).schemes()}\n"
            f"      edata_schemes={next(iter(graph._edge_frames.values())).schemes()})"
        )
    if graph.is_block and len(graph.srctypes) == len(graph.dsttypes) == len(graph.etypes) == 1:
        return (
            f"Block(num_src_nodes={graph.num_src_nodes()}, "
            f"num_dst_nodes={graph.num_dst_nodes()}, num_edges={graph.num_edges()})"
        )
    edges = {canonical: graph.num_edges(canonical) for canonical in graph.canonical_etypes}
    metagraph = _grouped_metagraph(graph)
    if graph.is_block:
        return (
            f"Block(num_src_nodes={graph._src_num_nodes},\n"
            f"      num_dst_nodes={graph._dst_num_nodes},\n"
            f"      num_edges={edges},\n      metagraph={metagraph})"
        )
    return (
        f"Graph(num_nodes={graph._src_num_nodes},\n      num_edges={edges},\n"
        f"      metagraph={metagraph})"
    )


def _grouped_metagraph(graph: GraphCore) -> list[tuple[str, str, str]]:
    """(source type, destination type, edge type) in the order in which networkx lists edges."""
    by_source: dict[str, dict[str, list[str]]] = {}
    for src, name, dst in graph.canonical_etypes:
        by_source.setdefault(src, {}).setdefault(dst, []).append(name)
        by_source.setdefault(dst, {})
    return [
        (src, dst, name)
        for src, targets in by_source.items()
        for dst, names in targets.items()
        for name in names
    ]


def html(graph: BatchMixin) -> str:
    """Returns a table of types, sizes and features.

    A small homogeneous graph is drawn beside it.
    """
    kind = "Block" if graph.is_block else "Graph"
    facts = f"{graph.idtype}, {graph.device}".replace("torch.", "")
    if graph.batch_size != 1:
        facts += f", batch of {graph.batch_size}"
    rows = [*_node_rows(graph), *_edge_rows(graph)]
    hidden = len(rows) - _MAX_ROWS
    if hidden > 0:
        rows = [*rows[:_MAX_ROWS], f'<tr><td colspan="3">… {hidden} types more</td></tr>']
    table = (
        '<table><thead><tr><th style="text-align:left">type</th><th>number</th>'
        f'<th style="text-align:left">features</th></tr></thead><tbody>{"".join(rows)}</tbody>'
        "</table>"
    )
    return (
        f'<div><div><b>{kind}</b> <span style="opacity:0.7">({facts})</span></div>'
        f'<div style="display:flex;align-items:center;gap:1em">{table}{_drawing(graph)}</div></div>'
    )


def _node_rows(graph: GraphCore) -> list[str]:
    rows = []
    for slot in graph._slots():
        side = {"src": "source ", "dst": "destination "}[slot.side] if graph.is_block else ""
        frame = graph._node_frame(slot)
        rows.append(_row(f"{side}nodes {slot.ntype}", frame))
    return rows


def _edge_rows(graph: GraphCore) -> list[str]:
    return [
        _row(f"edges {src} → {name} → {dst}", frame)
        for (src, name, dst), frame in graph._edge_frames.items()
    ]


def _row(label: str, frame: Frame) -> str:
    features = "<br>".join(_feature(name, s) for name, s in frame.schemes().items())
    return (
        f'<tr><td style="text-align:left">{markup.escape(label)}</td><td>{frame.num_rows:,}</td>'
        f'<td style="text-align:left">{features}</td></tr>'
    )


def _feature(name: str, scheme: Scheme) -> str:
    dtype = str(scheme.dtype).removeprefix("torch.")
    return f"{markup.escape(name)}: {dtype} {markup.escape(str(list(scheme.shape)))}"


def _drawing(graph: GraphCore) -> str:
    """Returns an SVG of nodes on a circle; nothing for other than small homogeneous graphs."""
    nodes, edges = graph.num_nodes(), graph.num_edges()
    if not graph.is_homogeneous or not 0 < nodes <= _MAX_DRAWN_NODES or edges > _MAX_DRAWN_EDGES:
        return ""
    places = [_place(node, nodes) for node in range(nodes)]
    src, dst = (end.tolist() for end in graph.relation().coo())
    lines = "".join(_arrow(places[u], places[v]) for u, v in dict.fromkeys(zip(src, dst)))
    dots = "".join(_dot(node, place) for node, place in enumerate(places))
    return (
        '<svg width="180" height="180" viewBox="-90 -90 180 180" role="img" '
        f'aria-label="{nodes} nodes, {edges} edges">'
        f'<g stroke="#888" fill="none">{lines}</g>{dots}</svg>'
    )


def _place(node: int, nodes: int) -> tuple[float, float]:
    if nodes == 1:
        return 0.0, 0.0
    angle = 2 * math.pi * node / nodes - math.pi / 2
    return 72 * math.cos(angle), 72 * math.sin(angle)


def _arrow(start: tuple[float, float], end: tuple[float, float]) -> str:
    if start == end:
        x, y = start
        return f'<circle cx="{x:.1f}" cy="{y - 9:.1f}" r="6"/>'
    length = math.dist(start, end)
    dx, dy = (end[0] - start[0]) / length, (end[1] - start[1]) / length
    tip_x, tip_y = end[0] - 9 * dx, end[1] - 9 * dy
    left = f"{tip_x - 5 * dx + 3 * dy:.1f} {tip_y - 5 * dy - 3 * dx:.1f}"
    right = f"{tip_x - 5 * dx - 3 * dy:.1f} {tip_y - 5 * dy + 3 * dx:.1f}"
    return (
        f'<path d="M{start[0]:.1f} {start[1]:.1f}L{tip_x:.1f} {tip_y:.1f}'
        f'M{left}L{tip_x:.1f} {tip_y:.1f}L{right}"/>'
    )


def _dot(node: int, place: tuple[float, float]) -> str:
    x, y = place
    return (
        f'<circle cx="{x:.1f}" cy="{y:.1f}" r="8" fill="#4c72b0"/>'
        f'<text x="{x:.1f}" y="{y + 3:.1f}" font-size="9" text-anchor="middle" fill="#fff">{node}'
        "</text>"
    )
