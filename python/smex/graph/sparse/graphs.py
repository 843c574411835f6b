"""Graphs whose adjacency matrices are the product or the sum of those of others."""

from __future__ import annotations

import functools
from collections.abc import Sequence

from smex.errors import SmexValueError
from smex.graph.creation.convert import heterograph
from smex.graph.graph import Graph
from smex.graph.sparse.adjacency import adj
from smex.graph.sparse.arithmetic import spsp_add
from smex.graph.sparse.matrix import SparseMatrix
from smex.graph.sparse.products import spspmm
from smex.graph.words import CanonicalType

__all__ = ["adj_product_graph", "adj_sum_graph"]


def adj_product_graph(A: Graph, B: Graph, weight_name: str, etype: str = "_E") -> Graph:
    """Returns the graph whose weighted adjacency matrix is the product of those of two graphs.

    It has an edge where a path of an edge of `A` and one of `B` leads, also where weights add up to
    0; edges are ordered by source, then destination.

    Args:
        A: a graph of one edge type, with weights ``[num_edges]``; its destinations are the sources
            of `B`.
        B: likewise.
        weight_name: the edge feature of both, and of the result; gradients flow into it.
        etype: name of the result's edge type, from the sources' type of `A` to the destinations'
            type of `B`.

    Raises:
        SmexValueError: there are not as many destinations of `A` as sources of `B`, or weights are
            no vector.
        KeyError: a graph has no such feature.

    Example:
        >>> g = sg.graph(([0, 1], [1, 2]))
        >>> g.edata["w"] = torch.tensor([2.0, 3.0])
        >>> paths = sg.adj_product_graph(g, g, "w")
        >>> paths.edges(), paths.edata["w"]
        ((tensor([0]), tensor([2])), tensor([6.]))
    """
    product = spspmm(adj(A, eweight_name=weight_name), adj(B, eweight_name=weight_name))
    kinds = (A.canonical_etypes[0][0], etype, B.canonical_etypes[0][2])
    return _of_matrix(product, kinds, weight_name, A)


def adj_sum_graph(graphs: Sequence[Graph], weight_name: str) -> Graph:
    """Returns the graph whose weighted adjacency matrix is the sum of those of graphs.

    It has an edge where one of them has one; edges are ordered by source, then destination.

    Args:
        graphs: graphs of one edge type and the same numbers of nodes, with weights
            ``[num_edges]``; the result has the types of the first one.
        weight_name: the edge feature of all, and of the result; gradients flow into it.

    Raises:
        SmexValueError: there are no graphs, numbers of nodes differ, or weights are no vector.
        KeyError: a graph has no such feature.

    Example:
        >>> g, h = sg.graph(([0, 1], [1, 2])), sg.graph(([1], [2]), num_nodes=3)
        >>> g.edata["w"], h.edata["w"] = torch.tensor([2.0, 3.0]), torch.tensor([4.0])
        >>> sg.adj_sum_graph([g, h], "w").edata["w"]
        tensor([2., 7.])
    """
    if not graphs:
        raise SmexValueError("adj_sum_graph: expected at least one graph, found none")
    matrices = [adj(g, eweight_name=weight_name) for g in graphs]
    total = functools.reduce(spsp_add, matrices[1:], matrices[0].coalesce())
    return _of_matrix(total, graphs[0].canonical_etypes[0], weight_name, graphs[0])


def _of_matrix(matrix: SparseMatrix, kinds: CanonicalType, weight_name: str, like: Graph) -> Graph:
    ends = {kinds: (matrix.row, matrix.col)}
    sizes = {kinds[0]: matrix.shape[0], kinds[2]: matrix.shape[1]}
    if kinds[0] == kinds[2] and matrix.shape[0] != matrix.shape[1]:
        raise SmexValueError(
            f"adj_product_graph: expected as many sources as destinations of one node type, found "
            f"{matrix.shape[0]} and {matrix.shape[1]}"
        )
    result = heterograph(ends, sizes, like.idtype, like.device)
    result.edata[weight_name] = matrix.val
    return result
