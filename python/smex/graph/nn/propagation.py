"""Sums of neighbours' rows, each times some numbers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from smex.graph.nn.inputs import degree_factor, edge_factor
from smex.graph.ops.kernels import aggregate, per_edge, softmax_over_edges
from smex.graph.structure.relation import Relation

if TYPE_CHECKING:
    from smex.graph.graph import Graph


def sum_of_products(
    relation: Relation, source: Tensor, factors: Sequence[tuple[str, Tensor]]
) -> Tensor:
    """Returns the sum over in-edges of the source's row times factors of both ends and of the edge.

    The factors are part of the kernel, unless rows are so narrow that they have fewer numbers than
    there are edges: then it is cheaper to multiply rows than to read factors edge by edge, in the
    gradient too. On GPUs it always is, where sums of rows have a kernel that messages of several
    operands have not. A program for other sizes than those it was exported with takes the kernel.

    Args:
        relation: the edges.
        source: ``[num_src, ...]``.
        factors: (``u``, ``v`` or ``e``, whose factor it is; one row for each of them).
    """
    if source.device.type == "cuda":
        multiplies_rows = source.dtype != torch.float16  # sums of which do not fit
    else:
        numbers = source.numel()
        is_open = isinstance(numbers, torch.SymInt) and torch.compiler.is_exporting()
        multiplies_rows = (
            not is_open and numbers <= relation.num_edges and source.dtype.itemsize >= 4
        )
    text, operands = "u0", [source]
    after: Tensor | None = None
    for target, factor in factors:
        if multiplies_rows and target == "u":
            operands[0] = operands[0] * factor
        elif multiplies_rows and target == "v":
            after = factor
        else:
            text = f"{text} * {target}{len(operands)}"
            operands.append(factor)
    result = aggregate(relation, text, "sum", operands)
    return result if after is None else result * after


def add_to(fresh: Tensor, addend: Tensor) -> Tensor:
    """Their sum, in place where it has the type of ``fresh``, which nothing else may need."""
    if fresh.dtype != torch.promote_types(fresh.dtype, addend.dtype):
        return fresh + addend
    return fresh.add_(addend)


def weighted(
    layer: str, graph: Graph, source: Tensor, reduce: str, edge_weight: Tensor | None
) -> Tensor:
    """Returns the sources' rows, times a number for each edge where there are any, reduced."""
    if edge_weight is None:
        return aggregate(graph.relation(), "u0", reduce, [source])
    factor = edge_factor(layer, graph, edge_weight, source)
    return aggregate(graph.relation(), "u0 * e1", reduce, [source, factor])


def attention_weights(relation: Relation, score: str, operands: Sequence[Tensor]) -> Tensor:
    """The softmax of a formula over the edges into each node, ``[num_edges, heads, 1]``, stored."""
    return softmax_over_edges(relation, per_edge(relation, score, operands))


class Propagation:
    r"""Multiplies rows by :math:`D_{in}^{-1/2} A D^{-1/2}`, any number of times.

    Args:
        layer: its name, for errors.
        graph: a graph with one edge type between nodes of one type.
        x: rows as they will be multiplied.
        edge_weight: entries of A that are already normalised; then degrees do not count.
        by_out_degree: whether D has the out-degrees; the in-degrees by default.
    """

    def __init__(
        self,
        layer: str,
        graph: Graph,
        x: Tensor,
        edge_weight: Tensor | None = None,
        by_out_degree: bool = False,
    ):
        self.relation = graph.relation()
        self.factors: list[tuple[str, Tensor]] = []
        if edge_weight is not None:
            self.factors.append(("e", edge_factor(layer, graph, edge_weight, x)))
            return
        end = "src" if by_out_degree else "dst"
        self.factors.append(("u", degree_factor(self.relation, end, -0.5, x)))
        self.factors.append(("v", degree_factor(self.relation, "dst", -0.5, x)))

    def __call__(self, x: Tensor, edge_mask: Tensor | None = None) -> Tensor:
        """Returns the product with ``x [num_nodes, ...]``.

        ``edge_mask`` is one more factor of edges.
        """
        more = [] if edge_mask is None else [("e", edge_mask)]
        return sum_of_products(self.relation, x, [*self.factors, *more])
