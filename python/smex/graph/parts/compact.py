"""Graphs of fewer nodes: without isolated nodes, and the blocks that a layer computes on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from smex.errors import SmexValueError
from smex.graph.constants import EID, NID
from smex.graph.graph import Graph
from smex.graph.parts.selection import graphs_of, nodes_by_type, reject_block
from smex.graph.structure.relation import Relation, unique_and_relabel

__all__ = ["compact_graphs", "to_block"]


def compact_graphs(
    graphs: Graph | Sequence[Graph],
    always_preserve: Any = None,
    copy_ndata: bool = True,
    copy_edata: bool = True,
) -> Any:
    """Returns the graphs without the nodes that have no edge in any of them.

    Nodes of a type are numbered alike in all results: first those to preserve, then in the order of
    their first appearance among the sources and then the destinations of each edge type of each
    graph. Edge ids stay.

    Args:
        graphs: a graph or several with the same nodes; no blocks.
        always_preserve: nodes that stay in any case: different ids, or a dict from type to ids.
        copy_ndata: whether the results have the node features, and ``NID`` with the former ids.
        copy_edata: whether the results have the edge features; tensors are shared.

    Returns:
        A graph for a graph, a list for several.

    Raises:
        SmexTypeError: `graphs` is no graph and no list of graphs, a graph is a block, or ids are
            not integers.
        SmexValueError: graphs differ in node types, numbers of nodes, ids' dtype or device.

    Example:
        >>> import smex.graph as sg
        >>> g = sg.compact_graphs(sg.graph(([5, 7], [7, 9]), num_nodes=20))
        >>> g.ndata[sg.NID], g.edges()
        (tensor([5, 7, 9]), (tensor([0, 1]), tensor([1, 2])))
    """
    if isinstance(graphs, Graph):
        return compact_graphs([graphs], always_preserve, copy_ndata, copy_edata)[0]
    graphs = graphs_of("compact_graphs", graphs)
    _check_same_nodes(graphs)
    if not graphs:
        return []
    first = graphs[0]
    preserved = {}
    if always_preserve is not None:
        preserved = nodes_by_type("compact_graphs", first, always_preserve)
    ends = [
        (canonical[2 * side], relation.coo()[side])
        for graph in graphs
        for canonical, relation in graph._relations.items()
        for side in (0, 1)
    ]
    kept, renumbered = _renumber(first, ends, preserved)
    results, position = [], 0
    for graph in graphs:
        relations = {}
        for s, e, d in graph._relations:
            src, dst = renumbered[position : position + 2]
            sizes = (kept[s].shape[0], kept[d].shape[0])
            relations[s, e, d] = Relation.from_coo(src, dst, *sizes, check=False)
            position += 2
        results.append(_compacted(graph, relations, kept, copy_ndata, copy_edata))
    return results


def _compacted(graph: Graph, relations, kept, copy_ndata: bool, copy_edata: bool) -> Graph:
    node_frames = {t: graph._src_frames[t].part(ids, NID) for t, ids in kept.items()}
    edge_frames = {c: f.clone() for c, f in graph._edge_frames.items()}
    return Graph(
        relations,
        {t: ids.shape[0] for t, ids in kept.items()},
        src_frames=node_frames if copy_ndata else None,
        edge_frames=edge_frames if copy_edata else None,
        idtype=graph.idtype,
        device=graph.device,
    )


def _check_same_nodes(graphs: Sequence[Graph]) -> None:
    for graph in graphs:
        reject_block("compact_graphs", graph)
        for what, found, expected in (
            ("numbers of nodes", graph._src_num_nodes, graphs[0]._src_num_nodes),
            (
                "idtype and device",
                (graph.idtype, graph.device),
                (graphs[0].idtype, graphs[0].device),
            ),
        ):
            if found != expected:
                raise SmexValueError(
                    f"compact_graphs: all graphs must have the same {what}, found {expected} and "
                    f"{found}"
                )


def to_block(
    g: Graph, dst_nodes: Any = None, include_dst_in_src: bool = True, src_nodes: Any = None
) -> Graph:
    """Returns the block that computes the destinations of a graph's edges from their sources.

    Destinations stand in the order of `dst_nodes`. Sources are the destinations, then other nodes
    in the order of their first appearance as a source. Features are gathered when they are read.

    Args:
        g: the graph; no block.
        dst_nodes: different ids of the destinations, or a dict from type to ids; every node with an
            edge into it must be among them. By default these nodes, in ascending order.
        include_dst_in_src: whether the sources start with the destinations; otherwise they are the
            sources of edges alone.
        src_nodes: different ids of the sources in the order in which they are wanted, or a dict;
            they start with the destinations if `include_dst_in_src`.

    Returns:
        A block with the features of `g`; ``NID`` of its nodes and ``EID`` of its edges hold the ids
        in `g`.

    Raises:
        SmexTypeError: the graph is a block, or ids are not integers.
        SmexValueError: a node of an edge is not among the nodes that are given, or `src_nodes` does
            not start with the destinations.

    Example:
        >>> import smex.graph as sg
        >>> b = sg.to_block(sg.graph(([1, 2], [2, 3])), dst_nodes=torch.tensor([3, 2]))
        >>> b.srcdata[sg.NID], b.dstdata[sg.NID], b.edges()
        (tensor([3, 2, 1]), tensor([3, 2]), (tensor([2, 1]), tensor([1, 0])))
    """
    reject_block("to_block", g)
    pairs = {c: r.coo() for c, r in g._relations.items()}
    targets = [(c[2], dst) for c, (_, dst) in pairs.items()]
    if dst_nodes is None:
        dst_kept = {t: _distinct(g, t, [ids for d, ids in targets if d == t]) for t in g.ntypes}
    else:
        dst_kept = _of_all_types(g, nodes_by_type("to_block", g, dst_nodes))
    new_dst = _positions("dst_nodes", g, targets, dst_kept)
    sources = [(c[0], src) for c, (src, _) in pairs.items()]
    if src_nodes is None:
        src_kept, new_src = _renumber(g, sources, dst_kept if include_dst_in_src else {})
    else:
        src_kept = _of_all_types(g, nodes_by_type("to_block", g, src_nodes))
        if include_dst_in_src:
            _check_prefix(src_kept, dst_kept)
        new_src = _positions("src_nodes", g, sources, src_kept)
    relations = {
        c: Relation.from_coo(u, v, src_kept[c[0]].shape[0], dst_kept[c[2]].shape[0], check=False)
        for c, u, v in zip(pairs, new_src, new_dst)
    }
    edge_frames = {c: f.clone() for c, f in g._edge_frames.items()}
    for frame in edge_frames.values():
        frame[EID] = torch.arange(frame.num_rows, dtype=g.idtype, device=g.device)
    return Graph(
        relations,
        {t: ids.shape[0] for t, ids in src_kept.items()},
        {t: ids.shape[0] for t, ids in dst_kept.items()},
        src_frames={t: g._src_frames[t].part(ids, NID) for t, ids in src_kept.items()},
        dst_frames={t: g._src_frames[t].part(ids, NID) for t, ids in dst_kept.items()},
        edge_frames=edge_frames,
        idtype=g.idtype,
        device=g.device,
    )


def _renumber(
    g: Graph, ends: Sequence[tuple[str, Tensor]], first: Mapping[str, Tensor]
) -> tuple[dict[str, Tensor], list[Tensor]]:
    """Node ids of each type as they first appear, and each list of ids numbered by them."""
    kept: dict[str, Tensor] = {}
    renumbered = [ids for _, ids in ends]
    for ntype in g.ntypes:
        mine = [n for n, (t, _) in enumerate(ends) if t == ntype]
        lists = [_no_ids(g), *(ends[n][1] for n in mine)]
        kept[ntype], new = unique_and_relabel(lists, first.get(ntype), g.num_nodes(ntype))
        for n, ids in zip(mine, new[1:]):
            renumbered[n] = ids
    return kept, renumbered


def _positions(
    name: str, g: Graph, ends: Sequence[tuple[str, Tensor]], kept: Mapping[str, Tensor]
) -> list[Tensor]:
    """Returns where the ids of each list stand among those that are kept of their type."""
    found, positions = _renumber(g, ends, kept)
    for ntype, ids in kept.items():
        distinct = ids if found[ntype].shape == ids.shape else torch.unique(ids)
        if distinct.shape != ids.shape:
            raise SmexValueError(f'to_block: ids of type "{ntype}" must differ, found one twice')
        missing = found[ntype][ids.shape[0] :]
        if missing.shape[0]:
            role = "source" if name == "src_nodes" else "destination"
            raise SmexValueError(
                f'to_block: {name} must hold every {role} of an edge, "{ntype}" node '
                f"{int(missing[0])} is missing"
            )
    return positions


def _check_prefix(src_kept: Mapping[str, Tensor], dst_kept: Mapping[str, Tensor]) -> None:
    for ntype, ids in dst_kept.items():
        if not torch.equal(src_kept[ntype][: ids.shape[0]], ids):
            raise SmexValueError(
                f'to_block: src_nodes must start with the destinations, those of type "{ntype}" do '
                "not; reorder them, or pass include_dst_in_src=False"
            )


def _distinct(g: Graph, ntype: str, lists: list[Tensor]) -> Tensor:
    """Returns the ids of all lists, ascending."""
    return torch.sort(unique_and_relabel([_no_ids(g), *lists], None, g.num_nodes(ntype))[0]).values


def _of_all_types(g: Graph, given: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Ids of every node type; none of types that are not given."""
    return {t: given.get(t, _no_ids(g)) for t in g.ntypes}


def _no_ids(g: Graph) -> Tensor:
    return torch.empty(0, dtype=g.idtype, device=g.device)
