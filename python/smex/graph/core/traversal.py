"""Orders in which to walk through a graph: breadth first, depth first, topological.

Each function returns steps: what lies in one step may be computed together. The order is found on
the CPU.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from smex.errors import SmexValueError
from smex.graph.core.graph_core import GraphCore, NodeSlot
from smex.graph.structure.relation import Compressed
from smex.graph.words import counted

FORWARD, REVERSE, NONTREE = 0, 1, 2
"""Labels of edges in a depth-first search."""


def bfs_nodes_generator(graph: GraphCore, source: Any, reverse: bool = False) -> tuple[Tensor, ...]:
    """Nodes by their distance from the sources, which are the first step.

    Args:
        graph: a graph with one node type and one edge type.
        source: id or ids to start from.
        reverse: whether to walk against the edges.

    Returns:
        Steps: a tuple of tensors of node ids in the graph's idtype.

    Raises:
        SmexValueError: a source does not exist, or sources and destinations are of distinct types.

    Example:
        >>> g = sg.graph(([0, 0, 1], [1, 2, 3]))
        >>> sg.bfs_nodes_generator(g, 0)
        (tensor([0]), tensor([1, 2]), tensor([3]))
    """
    rows, start = _start("bfs_nodes_generator", graph, source, reverse)
    nodes, sizes = torch.ops.smex.bfs_nodes_levels(rows.indptr, rows.indices, start)
    return _steps(graph, sizes, nodes)


def bfs_edges_generator(graph: GraphCore, source: Any, reverse: bool = False) -> tuple[Tensor, ...]:
    """Returns the edges that reach a node first in :func:`bfs_nodes_generator`.

    Example:
        >>> g = sg.graph(([0, 0, 1, 2], [1, 2, 3, 3]))
        >>> list(sg.bfs_edges_generator(g, 0))
        [tensor([0, 1]), tensor([2])]
    """
    rows, start = _start("bfs_edges_generator", graph, source, reverse)
    edges, sizes = torch.ops.smex.bfs_edges_levels(rows.indptr, rows.indices, rows.eids, start)
    return _steps(graph, sizes, edges)


def topological_nodes_generator(graph: GraphCore, reverse: bool = False) -> tuple[Tensor, ...]:
    """Nodes in an order in which every edge leads from an earlier step to a later one.

    Args:
        graph: a graph with one node type and one edge type.
        reverse: whether to walk against the edges.

    Raises:
        SmexValueError: the graph has a cycle.

    Example:
        >>> g = sg.graph(([0, 0, 1], [1, 2, 2]))
        >>> list(sg.topological_nodes_generator(g))
        [tensor([0]), tensor([1]), tensor([2])]
    """
    rows = _adjacency("topological_nodes_generator", graph, reverse)
    nodes, sizes = torch.ops.smex.topological_levels(rows.indptr, rows.indices)
    missing = rows.indptr.shape[0] - 1 - nodes.shape[0]
    if missing:
        raise SmexValueError(
            f"topological_nodes_generator: the graph has a cycle, with {counted(missing, 'node')} "
            "on it or behind it; expected a graph without cycles"
        )
    return _steps(graph, sizes, nodes)


def dfs_edges_generator(graph: GraphCore, source: Any, reverse: bool = False) -> tuple[Tensor, ...]:
    """Edges that reach a node first in a depth-first search.

    From several sources searches run side by side, each over the whole graph: step k has the k-th
    edge of each of them.

    Args:
        graph: a graph with one node type and one edge type.
        source: id or ids to start from.
        reverse: whether to walk against the edges.

    Example:
        >>> g = sg.graph(([0, 0, 1], [1, 2, 3]))
        >>> list(sg.dfs_edges_generator(g, 0))
        [tensor([0]), tensor([2]), tensor([1])]
    """
    rows, start = _start("dfs_edges_generator", graph, source, reverse)
    edges, _, sizes = _depth_first(rows, start, False, False)
    return _steps(graph, sizes, edges)


def dfs_labeled_edges_generator(
    graph: GraphCore,
    source: Any,
    reverse: bool = False,
    has_reverse_edge: bool = False,
    has_nontree_edge: bool = False,
    return_labels: bool = True,
) -> tuple[Any, ...]:
    """Edges in the order of a depth-first search, with what each of them is.

    Labels: 0 FORWARD, the edge reaches a node first; 1 REVERSE, the search goes back over it;
    2 NONTREE, it leads to a node that was reached before.

    Args:
        graph: a graph with one node type and one edge type.
        source: id or ids to start from, see :func:`dfs_edges_generator`.
        reverse: whether to walk against the edges.
        has_reverse_edge: whether to have REVERSE edges.
        has_nontree_edge: whether to have NONTREE edges.
        return_labels: whether to return labels too.

    Returns:
        As DGL returns it: with labels a pair (steps of edges, steps of labels), each a tuple of
        tensors; without, the steps of edges.

    Example:
        >>> g = sg.graph(([0, 1], [1, 0]))
        >>> edges, labels = sg.dfs_labeled_edges_generator(g, 0, has_nontree_edge=True)
        >>> edges, labels
        ((tensor([0]), tensor([1])), (tensor([0]), tensor([2])))
    """
    rows, start = _start("dfs_labeled_edges_generator", graph, source, reverse)
    edges, labels, sizes = _depth_first(rows, start, has_reverse_edge, has_nontree_edge)
    steps = _steps(graph, sizes, edges)
    if not return_labels:
        return steps
    return steps, _steps(graph, sizes, labels)


def _depth_first(
    rows: Compressed, start: Tensor, with_reverse: bool, with_nontree: bool
) -> tuple[Tensor, Tensor, Tensor]:
    return torch.ops.smex.dfs_labeled_edges(
        rows.indptr, rows.indices, rows.eids, start, with_reverse, with_nontree
    )


def _start(op: str, graph: GraphCore, source: Any, reverse: bool) -> tuple[Compressed, Tensor]:
    """Returns what to walk along, and from where; on the CPU."""
    rows = _adjacency(op, graph, reverse)
    slot = NodeSlot("src", graph.canonical_etypes[0][0])
    return rows, graph._node_ids(source, slot, op).cpu()


def _adjacency(op: str, graph: GraphCore, reverse: bool) -> Compressed:
    """Returns the edges by the node that a walk leaves, on the CPU."""
    src, _, dst = graph.to_canonical_etype(None)
    if src != dst or graph.is_block:
        raise SmexValueError(
            f"{op}: expected a graph whose edges lead from a node type to itself, found "
            f'"{src}" to "{dst}"; make it homogeneous with to_homogeneous'
        )
    relation = graph.relation()
    rows = relation.csc() if reverse else relation.csr()
    eids = None if rows.eids is None else rows.eids.cpu()
    return Compressed(rows.indptr.cpu(), rows.indices.cpu(), eids)


def _steps(graph: GraphCore, sizes: Tensor, values: Tensor) -> tuple[Tensor, ...]:
    return values.to(graph.device).split(sizes.tolist())
