"""Subgraphs: of nodes, of edges, of the edges into or out of nodes, of k-hop neighbourhoods.

All of them keep every node and edge type of the graph. Features of the nodes and edges that stay
are gathered when they are read, and gradients flow back to the graph's own. The subgraph of a batch
is one graph.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Mapping
from typing import Any

import torch
from torch import Tensor

from smex.graph.constants import EID, NID
from smex.graph.features.frame import Frame
from smex.graph.graph import Graph
from smex.graph.parts.selection import check_hops, edges_by_type, nodes_by_type, reject_block
from smex.graph.structure.relation import Relation, unique_and_relabel
from smex.graph.words import CanonicalType, EdgeType

__all__ = [
    "edge_subgraph",
    "edge_type_subgraph",
    "in_subgraph",
    "khop_in_subgraph",
    "khop_out_subgraph",
    "node_subgraph",
    "node_type_subgraph",
    "out_subgraph",
]

Parts = dict[CanonicalType, tuple[Relation, Tensor]]
"""For each edge type the edges that stay, between the same nodes, and their ids in the graph."""


def node_subgraph(
    graph: Graph,
    nodes: Any,
    *,
    relabel_nodes: bool = True,
    store_ids: bool = True,
    output_device: torch.device | str | None = None,
) -> Graph:
    """Returns the subgraph of some nodes and of all edges between them.

    Nodes are numbered in the given order. Edges are ordered by their new source, then by edge id.
    The subgraph of a batch is one graph, since the order may mix its parts;
    :func:`smex.graph.remove_nodes` of the other nodes keeps them.

    Args:
        graph: the graph; no block.
        nodes: different node ids, or a bool mask ``[num_nodes]``; with several node types a dict
            from type to these, in which types without nodes may be left out.
        relabel_nodes: False keeps all nodes, and removes edges only.
        store_ids: whether features ``EID`` and, if nodes are relabelled, ``NID`` hold the ids that
            edges and nodes have in `graph`.
        output_device: device of the result; that of the graph by default.

    Raises:
        SmexTypeError: ids are not integers, no dict is given for several types, or the graph is a
            block.
        SmexValueError: an id or type does not exist, or a mask has another length.

    Example:
        >>> import smex.graph as sg
        >>> g = sg.graph(([0, 1, 2, 3], [1, 2, 3, 0]))
        >>> s = sg.node_subgraph(g, [3, 0, 1])
        >>> s.edges(), s.ndata[sg.NID], s.edata[sg.EID]
        ((tensor([0, 1]), tensor([1, 2])), tensor([3, 0, 1]), tensor([3, 0]))
    """
    reject_block("node_subgraph", graph)
    given = nodes_by_type("node_subgraph", graph, nodes)
    empty = torch.empty(0, dtype=graph.idtype, device=graph.device)
    kept = {ntype: given.get(ntype, empty) for ntype in graph.ntypes}
    induced = {
        (s, e, d): relation.node_subgraph(kept[s], kept[d], check=False)
        for (s, e, d), relation in graph._relations.items()
    }
    if relabel_nodes:
        result = graph_of_parts(graph, induced, kept, store_ids)
    else:
        parts = {
            c: (graph._relations[c].edge_subgraph(ids, check=False), ids)
            for c, (_, ids) in induced.items()
        }
        result = graph_of_parts(graph, parts, None, store_ids)
    return result.to(output_device)


def edge_subgraph(
    graph: Graph,
    edges: Any,
    *,
    relabel_nodes: bool = True,
    store_ids: bool = True,
    output_device: torch.device | str | None = None,
    preserve_nodes: bool | None = None,
) -> Graph:
    """Returns the subgraph of some edges and the nodes that they join.

    Edges are numbered in the given order; nodes of a type in the order of their first appearance in
    the sources and then the destinations of each edge type.

    Args:
        graph: the graph; no block.
        edges: edge ids, or a bool mask ``[num_edges]``; with several edge types a dict from type to
            these, in which types without edges may be left out.
        relabel_nodes: False keeps all nodes with their ids.
        store_ids: as for :func:`node_subgraph`.
        output_device: as for :func:`node_subgraph`.
        preserve_nodes: former name of ``not relabel_nodes``.

    Raises:
        SmexTypeError: as for :func:`node_subgraph`.
        SmexValueError: as for :func:`node_subgraph`.

    Example:
        >>> import smex.graph as sg
        >>> g = sg.graph(([0, 1, 2, 3], [1, 2, 3, 0]))
        >>> s = sg.edge_subgraph(g, [3, 0])
        >>> s.edges(), s.ndata[sg.NID]
        ((tensor([0, 1]), tensor([1, 2])), tensor([3, 0, 1]))
    """
    if preserve_nodes is not None:
        text = f"edge_subgraph: preserve_nodes is now relabel_nodes={not preserve_nodes}"
        warnings.warn(text, DeprecationWarning, stacklevel=2)
        relabel_nodes = not preserve_nodes
    reject_block("edge_subgraph", graph)
    given = edges_by_type("edge_subgraph", graph, edges)
    empty = torch.empty(0, dtype=graph.idtype, device=graph.device)
    parts: Parts = {}
    for canonical, relation in graph._relations.items():
        ids = given.get(canonical, empty)
        parts[canonical] = (relation.edge_subgraph(ids, check=False), ids)
    return _of_edges(graph, parts, relabel_nodes, store_ids).to(output_device)


def in_subgraph(
    graph: Graph,
    nodes: Any,
    *,
    relabel_nodes: bool = False,
    store_ids: bool = True,
    output_device: torch.device | str | None = None,
) -> Graph:
    """Returns the subgraph of all edges into some nodes, node by node.

    Args:
        graph: the graph; no block.
        nodes: as for :func:`node_subgraph`.
        relabel_nodes: True removes nodes without edges and numbers the others as
            :func:`edge_subgraph` does.
        store_ids: as for :func:`node_subgraph`.
        output_device: as for :func:`node_subgraph`.

    Raises:
        SmexTypeError: as for :func:`node_subgraph`.
        SmexValueError: as for :func:`node_subgraph`.

    Example:
        >>> import smex.graph as sg
        >>> g = sg.graph(([0, 1, 2], [2, 2, 0]))
        >>> sg.in_subgraph(g, [2]).edges()
        (tensor([0, 1]), tensor([2, 2]))
    """
    reject_block("in_subgraph", graph)
    given = nodes_by_type("in_subgraph", graph, nodes)
    empty = torch.empty(0, dtype=graph.idtype, device=graph.device)
    parts = {c: r.in_subgraph(given.get(c[2], empty)) for c, r in graph._relations.items()}
    return _of_edges(graph, parts, relabel_nodes, store_ids).to(output_device)


def out_subgraph(
    graph: Graph,
    nodes: Any,
    *,
    relabel_nodes: bool = False,
    store_ids: bool = True,
    output_device: torch.device | str | None = None,
) -> Graph:
    """Returns the subgraph of all edges out of some nodes, node by node; see :func:`in_subgraph`.

    Example:
        >>> import smex.graph as sg
        >>> g = sg.graph(([0, 1, 2], [2, 2, 0]))
        >>> sg.out_subgraph(g, [2]).edges()
        (tensor([2]), tensor([0]))
    """
    reject_block("out_subgraph", graph)
    given = nodes_by_type("out_subgraph", graph, nodes)
    empty = torch.empty(0, dtype=graph.idtype, device=graph.device)
    parts = {c: r.out_subgraph(given.get(c[0], empty)) for c, r in graph._relations.items()}
    return _of_edges(graph, parts, relabel_nodes, store_ids).to(output_device)


def khop_in_subgraph(
    graph: Graph,
    nodes: Any,
    k: int,
    *,
    relabel_nodes: bool = True,
    store_ids: bool = True,
    output_device: torch.device | str | None = None,
) -> Any:
    """Returns the subgraph of all nodes from which at most `k` edges lead to the given ones.

    It has all edges between these nodes. They are numbered in the order of their ids.

    Args:
        graph: the graph; no block.
        nodes: as for :func:`node_subgraph`; a single id too.
        k: number of hops, at least 0.
        relabel_nodes: as for :func:`node_subgraph`.
        store_ids: as for :func:`node_subgraph`.
        output_device: as for :func:`node_subgraph`.

    Returns:
        The subgraph; with `relabel_nodes` a tuple of it and where `nodes` are in it: int64 ids, or
        a dict of them if `nodes` is one.

    Raises:
        SmexTypeError: as for :func:`node_subgraph`.
        SmexValueError: as for :func:`node_subgraph`, or `k` is negative.

    Example:
        >>> import smex.graph as sg
        >>> g = sg.graph(([0, 1, 2, 3], [1, 2, 3, 0]))
        >>> s, where = sg.khop_in_subgraph(g, 3, k=1)
        >>> s.ndata[sg.NID], where
        (tensor([2, 3]), tensor([1]))
    """
    options = {"store_ids": store_ids, "output_device": output_device}
    return _khop("khop_in_subgraph", graph, nodes, k, relabel_nodes, True, options)


def khop_out_subgraph(
    graph: Graph,
    nodes: Any,
    k: int,
    *,
    relabel_nodes: bool = True,
    store_ids: bool = True,
    output_device: torch.device | str | None = None,
) -> Any:
    """Returns the subgraph of all nodes that can be reached by `k` edges.

    See :func:`khop_in_subgraph`.

    Example:
        >>> import smex.graph as sg
        >>> g = sg.graph(([0, 1, 2, 3], [1, 2, 3, 0]))
        >>> sg.khop_out_subgraph(g, 3, k=1)[0].ndata[sg.NID]
        tensor([0, 3])
    """
    options = {"store_ids": store_ids, "output_device": output_device}
    return _khop("khop_out_subgraph", graph, nodes, k, relabel_nodes, False, options)


def node_type_subgraph(
    graph: Graph, ntypes: str | Iterable[str], output_device: torch.device | str | None = None
) -> Graph:
    """Returns the graph of all edge types between some node types; features are shared.

    Raises:
        SmexValueError: a type does not exist, or no edge type joins them.

    Example:
        >>> import smex.graph as sg
        >>> h = sg.heterograph({("a", "x", "b"): ([0], [1]), ("a", "y", "a"): ([0], [1])})
        >>> sg.node_type_subgraph(h, ["a"]).etypes
        ['y']
    """
    return graph.node_type_subgraph(ntypes, output_device)


def edge_type_subgraph(
    graph: Graph, etypes: str | Iterable[EdgeType], output_device: torch.device | str | None = None
) -> Graph:
    """Returns the graph of some edge types and the node types that they join; features are shared.

    Raises:
        SmexValueError: a type does not exist, or none is given.

    Example:
        >>> import smex.graph as sg
        >>> h = sg.heterograph({("a", "x", "b"): ([0], [1]), ("a", "y", "a"): ([0], [1])})
        >>> sg.edge_type_subgraph(h, ["x"]).ntypes
        ['a', 'b']
    """
    return graph.edge_type_subgraph(etypes, output_device)


# ---- assembling ----


def _of_edges(graph: Graph, parts: Parts, relabel_nodes: bool, store_ids: bool) -> Graph:
    if not relabel_nodes:
        return graph_of_parts(graph, parts, None, store_ids)
    ends = [(side, c[2 * side]) for c in parts for side in (0, 1)]
    ids = [relation.coo()[side] for relation, _ in parts.values() for side in (0, 1)]
    kept: dict[str, Tensor] = {}
    renumbered: list[Tensor] = list(ids)
    for ntype in graph.ntypes:
        mine = [n for n, (_, end) in enumerate(ends) if end == ntype]
        empty = torch.empty(0, dtype=graph.idtype, device=graph.device)
        lists = [empty, *(ids[n] for n in mine)]
        kept[ntype], new = unique_and_relabel(lists, None, graph.num_nodes(ntype))
        for n, ids_of_end in zip(mine, new[1:]):
            renumbered[n] = ids_of_end
    relabelled: Parts = {}
    for n, (canonical, (_, eids)) in enumerate(parts.items()):
        sizes = (kept[canonical[0]].shape[0], kept[canonical[2]].shape[0])
        src, dst = renumbered[2 * n : 2 * n + 2]
        relabelled[canonical] = (Relation.from_coo(src, dst, *sizes, check=False), eids)
    return graph_of_parts(graph, relabelled, kept, store_ids)


def graph_of_parts(
    graph: Graph, parts: Parts, kept: Mapping[str, Tensor] | None, store_ids: bool
) -> Graph:
    """Returns the graph of `parts`.

    `kept`: the node ids that stay, None for all under their own ids.
    """
    edge_frames = {
        c: _part(graph._edge_frames[c], ids, EID, store_ids) for c, (_, ids) in parts.items()
    }
    if kept is None:
        sizes = dict(graph._src_num_nodes)
        node_frames = {t: frame.clone() for t, frame in graph._src_frames.items()}
    else:
        sizes = {ntype: ids.shape[0] for ntype, ids in kept.items()}
        node_frames = {
            t: _part(graph._src_frames[t], ids, NID, store_ids) for t, ids in kept.items()
        }
    relations = {c: relation for c, (relation, _) in parts.items()}
    return Graph(relations, sizes, src_frames=node_frames, edge_frames=edge_frames)


def _part(frame: Frame, rows: Tensor, id_name: str, store_ids: bool) -> Frame:
    return frame.part(rows, id_name) if store_ids else frame.subframe(rows)


# ---- neighbourhoods ----


def _khop(
    op: str,
    graph: Graph,
    nodes: Any,
    k: int,
    relabel_nodes: bool,
    inwards: bool,
    options: Mapping[str, Any],
) -> Any:
    reject_block(op, graph)
    check_hops(op, k)
    given = nodes_by_type(op, graph, nodes)
    reached = _within(graph, given, k, inwards)
    result = node_subgraph(graph, reached, relabel_nodes=relabel_nodes, **options)
    if not relabel_nodes:
        return result
    device = options["output_device"] or graph.device
    where = {t: torch.searchsorted(reached[t], ids).to(device) for t, ids in given.items()}
    return result, (where if isinstance(nodes, Mapping) else next(iter(where.values())))


def _within(graph: Graph, start: Mapping[str, Tensor], k: int, inwards: bool) -> dict[str, Tensor]:
    """Ids of the nodes that are at most k edges away, ascending."""
    none = torch.empty(0, dtype=graph.idtype, device=graph.device)
    seen = {t: unique_and_relabel([start.get(t, none)])[0] for t in graph.ntypes}
    frontier = dict(seen)
    for _ in range(k):
        found: dict[str, list[Tensor]] = {t: [none] for t in seen}
        for (s, _, d), relation in graph._relations.items():
            if inwards:
                found[s].append(relation.in_edges_of(frontier[d], check=False)[0])
            else:
                found[d].append(relation.out_edges_of(frontier[s], check=False)[1])
        for ntype, lists in found.items():
            reached = unique_and_relabel(lists, preserve=seen[ntype])[0]
            frontier[ntype] = reached[seen[ntype].shape[0] :]
            seen[ntype] = reached
    return {t: torch.sort(ids).values for t, ids in seen.items()}
