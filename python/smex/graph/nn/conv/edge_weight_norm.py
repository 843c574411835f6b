"""Normalised weights of edges."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from smex.errors import SmexValueError
from smex.graph.graph import Graph
from smex.graph.nn.inputs import check_choice, check_graph
from smex.graph.ops.kernels import aggregate, per_edge
from smex.graph.words import counted, describe

NORMS = ("none", "both", "right")


class EdgeWeightNorm(nn.Module):
    r"""Weights divided by the sums of weights at the edges' ends (Kipf and Welling, ICLR'17, §2).

    .. math:: c_{uv} = w_{uv} (\sum_x w_{ux} + \epsilon)^{-1/2} (\sum_x w_{xv} + \epsilon)^{-1/2}

    for ``both``, :math:`w_{uv} / (\sum_x w_{xv} + \epsilon)` for ``right``, and the weights
    themselves for ``none``.

    Args:
        norm: ``both``, ``right`` or ``none``.
        eps: ε.

    Raises:
        SmexValueError: an unknown ``norm``; in :meth:`forward` weights that are not a number for
            each edge, or for ``both`` not positive.

    Example:
        >>> g = sg.graph(([0, 1], [2, 2]))
        >>> sg.nn.EdgeWeightNorm("right")(g, torch.tensor([1.0, 3.0]))
        tensor([0.2500, 0.7500])
    """

    def __init__(self, norm: str = "both", eps: float = 0.0):
        super().__init__()
        check_choice("EdgeWeightNorm", "norm", norm, NORMS)
        self._norm = norm
        self._eps = eps

    def forward(self, graph: Graph, edge_weight: Tensor) -> Tensor:
        """Returns the normalised weights ``[num_edges]``.

        Args:
            graph: a graph with one edge type.
            edge_weight: ``[num_edges]``.
        """
        check_graph("EdgeWeightNorm", graph)
        relation = graph.relation()
        if edge_weight.dim() != 1 or edge_weight.shape[0] != relation.num_edges:
            raise SmexValueError(
                f"EdgeWeightNorm: expected one weight for each of "
                f"{counted(relation.num_edges, 'edge')}, found {describe(edge_weight)}"
            )
        if self._norm == "none":
            return edge_weight
        into = self._eps + aggregate(relation, "e0", "sum", [edge_weight])
        if self._norm == "right":
            return per_edge(relation, "e0 / v1", [edge_weight, into])
        # Compiled code cannot branch on a value.
        if not torch.compiler.is_compiling() and bool((edge_weight <= 0).any()):
            raise SmexValueError(
                "EdgeWeightNorm: norm='both' expects positive weights, found "
                f"{float(edge_weight.min())}; take norm='right', or drop such edges"
            )
        out_of = self._eps + aggregate(relation.reverse(), "e0", "sum", [edge_weight])
        # Nodes without edges, whose sum is 0, are not read.
        ends = [edge_weight, out_of.pow(-0.5), into.pow(-0.5)]
        return per_edge(relation, "e0 * u1 * v2", ends)
