"""Which nodes a node reaches, along types of edges or along shortest paths."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from smex.errors import SmexValueError
from smex.graph.graph import Graph
from smex.graph.packages import optional
from smex.graph.parts.selection import check_one_type
from smex.graph.structure.relation import Relation
from smex.graph.words import EdgeType

__all__ = ["double_radius_node_labeling", "metapath_reachable_graph", "shortest_dist"]


def metapath_reachable_graph(g: Graph, metapath: Sequence[EdgeType]) -> Graph:
    """Returns the graph with an edge to each node that can be reached along these edge types.

    There are no parallel edges; edges are ordered by source, then destination, and their type is
    ``_E``. Node features are shared, batches are kept.

    Args:
        g: a graph.
        metapath: edge types, each of which starts where the one before it ends.

    Raises:
        SmexValueError: there is no type, or one does not start where the one before it ends.

    Example:
        >>> import smex.graph as sg
        >>> g = sg.heterograph({
        ...     ("user", "follows", "user"): ([0, 1], [1, 2]),
        ...     ("user", "plays", "game"): ([1, 2], [0, 1]),
        ... })
        >>> sg.metapath_reachable_graph(g, ["follows", "plays"]).edges()
        (tensor([0, 1]), tensor([0, 1]))
    """
    types = [g.to_canonical_etype(etype) for etype in metapath]
    chained = all(first[2] == second[0] for first, second in itertools.pairwise(types))
    if not types or not chained:
        raise SmexValueError(
            "metapath_reachable_graph: expected edge types that follow one another, found "
            f"{types}; each must start from the node type in which the one before it ends"
        )
    relation = g._relations[types[0]].to_simple()[0]
    for etype in types[1:]:
        relation = _followed_by(relation, g._relations[etype])
    ends = dict.fromkeys((types[0][0], types[-1][2]))
    return Graph(
        {(types[0][0], "_E", types[-1][2]): relation},
        {ntype: g.num_nodes(ntype) for ntype in sorted(ends)},
        src_frames={ntype: g._src_frames[ntype].clone() for ntype in ends},
    )._batched_as(g)


def _followed_by(first: Relation, second: Relation) -> Relation:
    """An edge for each pair of nodes joined by an edge of the one and then one of the other."""
    src, middle = first.coo()
    dst = second.out_edges_of(middle)[1]
    src = src.repeat_interleave(second.out_degrees(middle).long())
    return Relation.from_coo(src, dst, first.num_src, second.num_dst, check=False).to_simple()[0]


def shortest_dist(g: Graph, root: int | None = None, return_paths: bool = False) -> Any:
    """Returns the number of edges on a shortest path between any two nodes, or from one to all.

    By SciPy.

    Args:
        g: a graph of one node type and one edge type.
        root: the node to start from; None: all.
        return_paths: whether to return paths too.

    Returns:
        int64 ``[num_nodes, num_nodes]`` with sources as rows, or ``[num_nodes]`` from `root`; -1
        where there is no path. With `return_paths` a tuple of it and the edges of a shortest path,
        int64 ``[..., longest]``, -1 behind its end.

    Raises:
        SmexImportError: SciPy is not installed.
        SmexTypeError: the graph has several types.
        SmexValueError: there is no node `root`.

    Example:
        >>> import smex.graph as sg
        >>> sg.shortest_dist(sg.graph(([0, 1], [1, 2])), root=0)
        tensor([0, 1, 2])
    """
    op = "shortest_dist"
    check_one_type(op, g)
    if root is not None and not 0 <= root < g.num_nodes():
        raise SmexValueError(f"{op}: expected a root from 0 to {g.num_nodes() - 1}, found {root}")
    csgraph = optional(op, "scipy.sparse.csgraph")
    if g.num_nodes() == 0:
        distance, before = np.zeros((0, 0)), np.zeros((0, 0), dtype=np.int64)
    else:
        distance, before = csgraph.shortest_path(
            g.adj_external(scipy_fmt="csr"),
            unweighted=True,
            return_predecessors=True,
            indices=root,
        )
    dist = torch.from_numpy(np.where(np.isinf(distance), -1, distance)).long()
    if not return_paths:
        return dist.to(g.device)
    paths = _path_edges(g, dist, torch.from_numpy(before).long())
    return dist.to(g.device), paths.to(g.device)


def _path_edges(g: Graph, dist: Tensor, before: Tensor) -> Tensor:
    """The edges of the paths whose last but one nodes are `before`, of which none are negative."""
    longest = max(int(dist.max()), 0) if dist.numel() else 0
    paths = torch.full((*dist.shape, longest), -1)
    flat, rows = paths.flatten(0, -2), torch.atleast_2d(before)
    start, node = torch.where(torch.atleast_2d(dist) > 0)
    row = start * rows.shape[1] + node
    step = dist.flatten()[row] - 1
    while row.numel():
        previous = rows[start, node]
        edge = g.edge_ids(previous.to(g.device, g.idtype), node.to(g.device, g.idtype))
        flat[row, step] = edge.long().cpu()
        more = step > 0
        start, node, row, step = start[more], previous[more], row[more], step[more] - 1
    return paths


def double_radius_node_labeling(g: Graph, src: int, dst: int) -> Tensor:
    """Each node's label by its distances to two nodes (Zhang and Chen, NeurIPS'18, section 3.1).

    With the distance ``s`` to `src` in the graph without `dst`, ``t`` to `dst` in the graph without
    `src`, and ``d = s + t``, the label is ``1 + min(s, t) + (d // 2) * (d // 2 + d % 2 - 1)``; it
    is 1 for the two nodes, and 0 where there is no path to one of them. Directions do not count.

    Args:
        g: a graph of one node type and one edge type.
        src: a node.
        dst: another node.

    Returns:
        int64 ``[num_nodes]``.

    Raises:
        SmexImportError: SciPy is not installed.
        SmexTypeError: the graph has several types.
        SmexValueError: the two are one node, or there is no such node.

    Example:
        >>> import smex.graph as sg
        >>> sg.double_radius_node_labeling(sg.graph(([0, 0, 1, 2], [1, 2, 2, 3])), 0, 1)
        tensor([1, 1, 2, 5])
    """
    op = "double_radius_node_labeling"
    check_one_type(op, g)
    number = g.num_nodes()
    src, dst = int(src), int(dst)
    if src == dst or not (0 <= src < number and 0 <= dst < number):
        raise SmexValueError(
            f"{op}: expected two different nodes from 0 to {number - 1}, found {src} and {dst}"
        )
    matrix = g.adj_external(scipy_fmt="csr")
    s, t = _distances(op, matrix, src, dst), _distances(op, matrix, dst, src)
    reached = np.isfinite(s + t)
    half, odd = np.divmod(np.where(reached, s + t, 0), 2)
    labels = np.where(reached, 1 + np.minimum(s, t) + half * (half + odd - 1), 0)
    labels[[src, dst]] = 1
    return torch.from_numpy(labels).long().to(g.device)


def _distances(op: str, matrix: Any, start: int, without: int) -> np.ndarray:
    """Distances from a node in the graph without another; infinite where there is no path."""
    keep = np.delete(np.arange(matrix.shape[0]), without)
    result = np.full(matrix.shape[0], np.inf)
    result[keep] = optional(op, "scipy.sparse.csgraph").shortest_path(
        matrix[keep][:, keep],
        directed=False,
        unweighted=True,
        indices=start - (start > without),
    )
    return result
