"""Graphs from graphs: self loops, reversed and merged edges, added and removed nodes and edges.

No function changes its argument. Functions that keep the nodes, and join none of different
graphs of a batch, keep the batch and count its edges anew; the result of any other is one graph.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from smex.errors import SmexTypeError, SmexValueError
from smex.graph.constants import EID
from smex.graph.features.column import MissingFeatureError
from smex.graph.features.frame import Frame
from smex.graph.graph import Graph
from smex.graph.parts.selection import graphs_of, reject_block
from smex.graph.structure.relation import Relation
from smex.graph.words import CanonicalType, EdgeType, quoted

__all__ = [
    "add_edges",
    "add_nodes",
    "add_reverse_edges",
    "add_self_loop",
    "merge",
    "remove_edges",
    "remove_nodes",
    "remove_self_loop",
    "reverse",
    "to_bidirected",
    "to_simple",
    "to_simple_graph",
]

_FILLS = ("mean", "sum", "max", "min")
_AGGREGATORS = ("arbitrary", "sum", "mean")


# ---- self loops ----


def add_self_loop(
    g: Graph,
    edge_feat_names: Sequence[str] | None = None,
    fill_data: float | str = 1.0,
    etype: EdgeType = None,
) -> Graph:
    """Returns the graph with one more edge for each node of a type, from the node to itself.

    Self loops that exist stay; :func:`remove_self_loop` first gives each node exactly one. The new
    edges come last, in the order of the nodes, also in a batch, which is kept.

    Args:
        g: the graph.
        edge_feat_names: features that `fill_data` is for; others of the new edges are zeros, or
            what the graph's initialisers say. By default all features.
        fill_data: the value of the new edges' features, or ``"mean"``, ``"sum"``, ``"max"`` or
            ``"min"`` of those of the edges into the node (0 where there are none).
        etype: the edge type; its source and destination type must be the same.

    Raises:
        SmexTypeError: an integer feature cannot be averaged.
        SmexValueError: source and destination type differ, a feature does not exist, or
            `fill_data` is another string.

    Example:
        >>> import smex.graph as sg
        >>> g = sg.graph(([0, 0], [1, 2]))
        >>> g.edata["w"] = torch.tensor([3.0, 4.0])
        >>> g = sg.add_self_loop(g, fill_data="sum")
        >>> g.edges(), g.edata["w"]
        ((tensor([0, 0, 0, 1, 2]), tensor([1, 2, 0, 1, 2])), tensor([3., 4., 0., 3., 4.]))
    """
    canonical = _loop_type("add_self_loop", g, etype)
    if isinstance(fill_data, str) and fill_data not in _FILLS:
        raise SmexValueError(
            f"add_self_loop: fill_data must be a number or one of {quoted(_FILLS)}, found "
            f'"{fill_data}"'
        )
    frame = g._edge_frames[canonical]
    names = frame.keys() if edge_feat_names is None else list(edge_feat_names)
    loops = torch.arange(g.num_nodes(canonical[0]), dtype=g.idtype, device=g.device)
    values = {}
    for name in names:
        if name not in frame:
            raise MissingFeatureError(
                f'add_self_loop: there is no edge feature "{name}"; there are: {quoted(frame)}'
            )
        values[name] = _loop_values(g._relations[canonical], name, frame[name], fill_data)
    result = g.clone()
    result.add_edges(loops, loops, data=values, etype=canonical)
    return result._batched_as(g)


def remove_self_loop(g: Graph, etype: EdgeType = None) -> Graph:
    """Returns the graph without the edges of a type that go from a node to itself.

    Batches are kept.

    Args:
        g: the graph.
        etype: the edge type; its source and destination type must be the same.

    Raises:
        SmexValueError: source and destination type differ.

    Example:
        >>> import smex.graph as sg
        >>> sg.remove_self_loop(sg.graph(([0, 1, 1], [1, 1, 0]))).edges()
        (tensor([0, 1]), tensor([1, 0]))
    """
    canonical = _loop_type("remove_self_loop", g, etype)
    src, dst = g._relations[canonical].coo()
    result = g.clone()
    kept = (src != dst).nonzero().view(-1).to(g.idtype)
    if kept.shape[0] < src.shape[0]:
        result._keep_edges(kept, canonical)
    return result


def _loop_type(op: str, g: Graph, etype: EdgeType) -> CanonicalType:
    reject_block(op, g)
    canonical = g.to_canonical_etype(etype)
    if canonical[0] != canonical[2]:
        raise SmexValueError(
            f"{op}: a self loop needs one node type on both sides, found {canonical!r}; pass "
            "etype= of another edge type"
        )
    return canonical


def _loop_values(relation: Relation, name: str, column: Tensor, fill: float | str) -> Tensor:
    """Returns what the self loops' feature is, one row for each node."""
    shape = (relation.num_dst, *column.shape[1:])
    if not isinstance(fill, str):
        return column.new_full(shape, fill)
    return _aggregate("add_self_loop", name, column, relation.coo()[1], relation.num_dst, fill)


def _aggregate(
    op: str, name: str, column: Tensor, group: Tensor, num_groups: int, how: str
) -> Tensor:
    """Sum, mean, max or min of the rows of each group; 0 for an empty group."""
    if how == "mean" and not (column.is_floating_point() or column.is_complex()):
        raise SmexTypeError(
            f'{op}: the mean of feature "{name}" needs a floating point dtype, found '
            f"{column.dtype}; convert it, or leave it out"
        )
    out = column.new_zeros((num_groups, *column.shape[1:]))
    if how == "sum":
        return out.index_add(0, group, column)
    reduce = {"mean": "mean", "max": "amax", "min": "amin"}[how]
    index = group.long().view(-1, *[1] * (column.dim() - 1)).expand_as(column)
    return out.scatter_reduce(0, index, column, reduce, include_self=False)


# ---- directions ----


def reverse(
    g: Graph,
    copy_ndata: bool = True,
    copy_edata: bool = False,
    *,
    share_ndata: bool | None = None,
    share_edata: bool | None = None,
) -> Graph:
    """Returns the graph with every edge turned round; edge ids stay.

    Structure is shared, also what either graph computes later. Features are shared too: changing a
    tensor in place is seen in both. Batches are kept.

    Args:
        g: the graph; no block.
        copy_ndata: whether the result has the node features.
        copy_edata: whether it has the edge features.
        share_ndata: former name of `copy_ndata`.
        share_edata: former name of `copy_edata`.

    Raises:
        SmexTypeError: the graph is a block.

    Example:
        >>> import smex.graph as sg
        >>> sg.reverse(sg.graph(([0, 1], [1, 2]))).edges()
        (tensor([1, 2]), tensor([0, 1]))
    """
    reject_block("reverse", g)
    copy_ndata = copy_ndata if share_ndata is None else share_ndata
    copy_edata = copy_edata if share_edata is None else share_edata
    relations = {(d, e, s): r.reverse() for (s, e, d), r in g._relations.items()}
    edge_frames = {(d, e, s): f.clone() for (s, e, d), f in g._edge_frames.items()}
    return _with_nodes_of(g, relations, edge_frames if copy_edata else {}, copy_ndata)


def add_reverse_edges(
    g: Graph,
    readonly: bool | None = None,
    copy_ndata: bool = True,
    copy_edata: bool = False,
    ignore_bipartite: bool = False,
    exclude_self: bool = True,
) -> Graph:
    """Returns the graph with a reverse edge added for every edge; parallel edges may result.

    The new edges come after the others, in the same order, also in a batch, which is kept.

    Args:
        g: the graph; no block.
        readonly: without effect.
        copy_ndata: whether the result has the node features.
        copy_edata: whether it has the edge features, the new edges those of the edges that they
            reverse, and ``EID`` with the ids of these in `g`.
        ignore_bipartite: leave edge types whose source and destination type differ as they are;
            otherwise they are an error.
        exclude_self: add no reverse of self loops.

    Raises:
        SmexTypeError: the graph is a block.
        SmexValueError: source and destination type of an edge type differ.

    Example:
        >>> import smex.graph as sg
        >>> sg.add_reverse_edges(sg.graph(([0, 0], [0, 1]))).edges()
        (tensor([0, 0, 1]), tensor([0, 1, 0]))
    """
    reject_block("add_reverse_edges", g)
    relations, edge_frames = {}, {}
    for canonical, relation in g._relations.items():
        ids = torch.arange(relation.num_edges, dtype=g.idtype, device=g.device)
        if canonical[0] != canonical[2]:
            if not ignore_bipartite:
                _reject_bipartite("add_reverse_edges", canonical, "ignore_bipartite=True")
            relations[canonical] = relation
        else:
            src, dst = relation.coo()
            back = (src != dst).nonzero().view(-1) if exclude_self else ids.long()
            ends = (torch.cat([src, dst[back]]), torch.cat([dst, src[back]]))
            sizes = (relation.num_src, relation.num_dst)
            relations[canonical] = Relation.from_coo(*ends, *sizes, check=False)
            ids = torch.cat([ids, back.to(g.idtype)])
        edge_frames[canonical] = g._edge_frames[canonical].subframe(ids)
        edge_frames[canonical][EID] = ids
    return _with_nodes_of(g, relations, edge_frames if copy_edata else {}, copy_ndata)


def to_bidirected(g: Graph, copy_ndata: bool = False, readonly: bool | None = None) -> Graph:
    """The graph with an edge in both directions wherever there is one, and no parallel edges.

    Edges are ordered by source, then destination; the result has no edge features. Batches are
    kept.

    Args:
        g: the graph; no block.
        copy_ndata: whether the result has the node features.
        readonly: without effect.

    Raises:
        SmexTypeError: the graph is a block.
        SmexValueError: source and destination type of an edge type differ.

    Example:
        >>> import smex.graph as sg
        >>> sg.to_bidirected(sg.graph(([0, 0, 2], [1, 1, 1]))).edges()
        (tensor([0, 1, 1, 2]), tensor([1, 0, 2, 1]))
    """
    reject_block("to_bidirected", g)
    relations = {}
    for canonical, relation in g._relations.items():
        if canonical[0] != canonical[2]:
            _reject_bipartite("to_bidirected", canonical, "edge_type_subgraph to leave it out")
        src, dst = relation.coo()
        ends = (torch.cat([src, dst]), torch.cat([dst, src]))
        sizes = (relation.num_src, relation.num_dst)
        relations[canonical] = Relation.from_coo(*ends, *sizes, check=False).to_simple()[0]
    return _with_nodes_of(g, relations, {}, copy_ndata)


def _reject_bipartite(op: str, canonical: CanonicalType, remedy: str) -> None:
    raise SmexValueError(
        f"{op}: expected edge types between nodes of one type, found {canonical!r}; use {remedy}"
    )


# ---- parallel edges ----


def to_simple(
    g: Graph,
    return_counts: str | None = "count",
    writeback_mapping: bool = False,
    copy_ndata: bool = True,
    copy_edata: bool = False,
    aggregator: str = "arbitrary",
) -> Any:
    """The graph with one edge in the place of parallel ones, ordered by source, then destination.

    Batches are kept.

    Args:
        g: the graph; no block.
        return_counts: edge feature that takes the number of edges merged into one; None for none.
        writeback_mapping: whether to return the mapping too.
        copy_ndata: whether the result has the node features.
        copy_edata: whether it has the edge features.
        aggregator: how those of parallel edges are joined: ``"arbitrary"`` (those of the one with
            the smallest id, which ``EID`` then holds), ``"sum"`` or ``"mean"``.

    Returns:
        The graph; with `writeback_mapping` a tuple of it and, for each edge of `g`, its edge in
        the result, ``[num_edges]``, or {canonical type: mapping} with several edge types.

    Raises:
        SmexTypeError: the graph is a block, or an integer feature cannot be averaged.
        SmexValueError: the aggregator is none of the three.

    Example:
        >>> import smex.graph as sg
        >>> s, mapping = sg.to_simple(sg.graph(([1, 0, 1], [2, 1, 2])), writeback_mapping=True)
        >>> s.edges(), s.edata["count"], mapping
        ((tensor([0, 1]), tensor([1, 2])), tensor([1, 2]), tensor([1, 0, 1]))
    """
    reject_block("to_simple", g)
    if aggregator not in _AGGREGATORS:
        raise SmexValueError(
            f'to_simple: aggregator must be one of {quoted(_AGGREGATORS)}, found "{aggregator}"'
        )
    relations, edge_frames, mappings = {}, {}, {}
    for canonical, relation in g._relations.items():
        relations[canonical], counts, mapping = relation.to_simple()
        frame = Frame(counts.shape[0])
        if copy_edata:
            frame = _joined(g._edge_frames[canonical], mapping, counts.shape[0], aggregator)
        if return_counts is not None:
            frame[return_counts] = counts
        edge_frames[canonical], mappings[canonical] = frame, mapping
    result = _with_nodes_of(g, relations, edge_frames, copy_ndata)
    if not writeback_mapping:
        return result
    return result, (mappings if len(mappings) > 1 else next(iter(mappings.values())))


def to_simple_graph(g: Graph) -> Graph:
    """Former name of :func:`to_simple`."""
    warnings.warn("to_simple_graph is now to_simple", DeprecationWarning, stacklevel=2)
    return to_simple(g)


def _joined(frame: Frame, mapping: Tensor, size: int, aggregator: str) -> Frame:
    """Features of the edges that parallel ones are merged into."""
    if aggregator == "arbitrary":
        ids = torch.arange(mapping.shape[0], device=mapping.device)
        first = torch.empty(size, dtype=torch.int64, device=mapping.device)
        first = first.scatter_reduce(0, mapping.long(), ids, "amin", include_self=False)
        result = frame.subframe(first.to(mapping.dtype))
        result[EID] = first.to(mapping.dtype)
        return result
    columns = {
        name: _aggregate("to_simple", name, column, mapping, size, aggregator)
        for name, column in frame.items()
    }
    return Frame(size, columns)


# ---- nodes and edges more or less ----


def add_nodes(
    g: Graph, num: int, data: Mapping[str, Tensor] | None = None, ntype: str | None = None
) -> Graph:
    """Returns the graph with nodes added, see :meth:`Graph.add_nodes`; a batch becomes one graph.

    Example:
        >>> import smex.graph as sg
        >>> sg.add_nodes(sg.graph(([0], [1])), 2).num_nodes()
        4
    """
    result = g.clone()
    result.add_nodes(num, data=data, ntype=ntype)
    return result


def add_edges(
    g: Graph, u: Any, v: Any, data: Mapping[str, Tensor] | None = None, etype: EdgeType = None
) -> Graph:
    """Returns the graph with edges added, see :meth:`Graph.add_edges`; a batch becomes one graph.

    Example:
        >>> import smex.graph as sg
        >>> sg.add_edges(sg.graph(([0], [1])), [1], [0]).num_edges()
        2
    """
    result = g.clone()
    result.add_edges(u, v, data=data, etype=etype)
    return result


def remove_edges(g: Graph, eids: Any, etype: EdgeType = None, store_ids: bool = False) -> Graph:
    """Returns the graph without some edges, see :meth:`Graph.remove_edges`.

    Example:
        >>> import smex.graph as sg
        >>> sg.remove_edges(sg.graph(([0, 1], [1, 0])), [0]).edges()
        (tensor([1]), tensor([0]))
    """
    result = g.clone()
    result.remove_edges(eids, etype=etype, store_ids=store_ids)
    return result


def remove_nodes(g: Graph, nids: Any, ntype: str | None = None, store_ids: bool = False) -> Graph:
    """Returns the graph without some nodes and their edges, see :meth:`Graph.remove_nodes`.

    Example:
        >>> import smex.graph as sg
        >>> sg.remove_nodes(sg.graph(([0, 1], [1, 2])), [0]).edges()
        (tensor([0]), tensor([1]))
    """
    result = g.clone()
    result.remove_nodes(nids, ntype=ntype, store_ids=store_ids)
    return result


def merge(graphs: Sequence[Graph]) -> Graph:
    """Returns one graph with the nodes and edges of all; nodes of the same id are the same node.

    The result is one graph, also of batches. Edges of the first graph come first; parallel edges
    stay. A node's feature is that of the last graph that has it; nodes and edges of graphs without
    a feature have zeros.

    Args:
        graphs: at least one graph, all of the same node and edge types, idtype and device.

    Raises:
        SmexTypeError: `graphs` is no list of graphs.
        SmexValueError: there is no graph, or types differ.

    Example:
        >>> import smex.graph as sg
        >>> m = sg.merge([sg.graph(([0, 1], [2, 3])), sg.graph(([1, 2], [0, 4]))])
        >>> m.num_nodes(), m.edges()
        (5, (tensor([0, 1, 1, 2]), tensor([2, 3, 0, 4])))
    """
    graphs = graphs_of("merge", graphs)
    if not graphs:
        raise SmexValueError("merge: expected at least one graph, found none")
    result = _without_batches(graphs[0])
    for graph in graphs[1:]:
        types, expected = graph.canonical_etypes, result.canonical_etypes
        if types != expected or graph.ntypes != result.ntypes:
            raise SmexValueError(
                f"merge: expected graphs of the same types, found {expected} and {types}"
            )
        for ntype, number in graph._src_num_nodes.items():
            _merge_nodes(result, graph, ntype, number)
        for canonical, relation in graph._relations.items():
            frame = graph._edge_frames[canonical]
            result.add_edges(*relation.coo(), data=dict(frame.items()), etype=canonical)
    return result


def _merge_nodes(result: Graph, graph: Graph, ntype: str, number: int) -> None:
    more = number - result.num_nodes(ntype)
    if more > 0:
        result.add_nodes(more, ntype=ntype)
    rows = torch.arange(number, dtype=graph.idtype, device=graph.device)
    result._src_frames[ntype].update_rows(rows, dict(graph._src_frames[ntype].items()))


# ---- building blocks ----


def _without_batches(g: Graph) -> Graph:
    result = g.clone()
    result._batch_num_nodes = result._batch_num_edges = None
    return result


def _with_nodes_of(
    g: Graph,
    relations: Mapping[CanonicalType, Relation],
    edge_frames: Mapping[CanonicalType, Frame],
    copy_ndata: bool,
) -> Graph:
    """Returns a graph of the same nodes with other edges."""
    frames = {t: frame.clone() for t, frame in g._src_frames.items()} if copy_ndata else {}
    return Graph(
        relations,
        g._src_num_nodes,
        src_frames=frames,
        edge_frames=edge_frames,
        idtype=g.idtype,
        device=g.device,
    )._batched_as(g)
