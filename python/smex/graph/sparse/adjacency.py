"""The adjacency matrix of a graph."""

from __future__ import annotations

import torch

from smex.graph.graph import Graph
from smex.graph.sparse.core import check_values
from smex.graph.sparse.matrix import SparseMatrix
from smex.graph.words import EdgeType


def adj(g: Graph, etype: EdgeType = None, eweight_name: str | None = None) -> SparseMatrix:
    """Returns the adjacency matrix ``[num_src, num_dst]``: rows are sources, columns destinations.

    Entry ``i`` is edge ``i``, and parallel edges are entries of their own. The matrix shares the
    graph's formats, in both directions.

    Args:
        g: a graph.
        etype: the edge type, where there are several.
        eweight_name: the edge feature that gives the values, ``[num_edges]`` or
            ``[num_edges, D]``; ones if left out. Gradients flow into it.

    Raises:
        SmexValueError: the feature has another shape.
        KeyError: there is no such feature.

    Example:
        >>> sg.graph(([0, 1], [1, 2])).adj().to_dense()
        tensor([[0., 1., 0.],
                [0., 0., 1.],
                [0., 0., 0.]])
    """
    canonical = g.to_canonical_etype(etype)
    relation = g.relation(canonical)
    if eweight_name is None:
        val = torch.ones(relation.num_edges, device=relation.device)
    else:
        val = g._edge_frames[canonical][eweight_name]
        check_values(f"adj: feature {eweight_name!r}", val, relation.num_edges, relation.device)
    return SparseMatrix(relation.reverse(), val)
