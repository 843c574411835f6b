"""Graphs in print: DGL's text form, and a table for notebooks."""

from __future__ import annotations

import html as markup

from smex.graph.core.batches import BatchMixin
from smex.graph.core.drawing import drawing
from smex.graph.core.graph_core import GraphCore
from smex.graph.features.column import Scheme
from smex.graph.features.frame import Frame

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

    A small graph is drawn beside it, and of a heterograph its types.
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
        f'<div style="display:flex;align-items:center;gap:1em">{table}{drawing(graph)}</div></div>'
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
