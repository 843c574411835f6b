"""Residual gated graph convolution."""

from __future__ import annotations

from collections.abc import Callable

import torch.nn.functional as F
from torch import Tensor, nn

from smex.graph.graph import Graph
from smex.graph.nn.inputs import check_graph, check_rows
from smex.graph.ops.kernels import aggregate, per_edge

EPSILON = 1e-6
"""Added to sums of gates, of which a node without in-edges has none."""


class GatedGCNConv(nn.Module):
    r"""Residual gated graph convolution with features of edges (Bresson and Laurent, 2017, §3).

    .. math:: e_{uv}' = D h_u + E h_v + C e_{uv}, \quad h_v' = A h_v +
              \frac{\sum_{u \in N(v)} \sigma(e_{uv}') \odot B h_u}
              {\sum_{u \in N(v)} \sigma(e_{uv}') + \epsilon}

    then batch normalisation, activation, dropout and the residual, of nodes and of edges. The new
    features of edges are a result and are stored; gates and messages are not.

    Args:
        input_feats: features of a node's row.
        edge_feats: features of an edge's row.
        output_feats: features of new rows.
        dropout: of both results.
        batch_norm: whether both are normalised.
        residual: whether the inputs are added, where all sizes are equal.
        activation: applied to both.

    Raises:
        SmexValueError: in :meth:`forward` features of another width.

    Example:
        >>> g = sg.graph(([0, 1], [1, 2]))
        >>> h, e = sg.nn.GatedGCNConv(4, 3, 5)(g, torch.rand(3, 4), torch.rand(2, 3))
        >>> h.shape, e.shape
        (torch.Size([3, 5]), torch.Size([2, 5]))
    """

    def __init__(
        self,
        input_feats: int,
        edge_feats: int,
        output_feats: int,
        dropout: float = 0,
        batch_norm: bool = True,
        residual: bool = True,
        activation: Callable[[Tensor], Tensor] | None = F.relu,
    ):
        super().__init__()
        self.dropout = nn.Dropout(dropout)
        self.batch_norm = batch_norm
        self.residual = residual and input_feats == output_feats == edge_feats
        self.A = nn.Linear(input_feats, output_feats)
        self.B = nn.Linear(input_feats, output_feats)
        self.D = nn.Linear(input_feats, output_feats)
        self.E = nn.Linear(input_feats, output_feats)
        self.C = nn.Linear(edge_feats, output_feats)
        self.bn_node = nn.BatchNorm1d(output_feats)
        self.bn_edge = nn.BatchNorm1d(output_feats)
        self.activation = activation

    def forward(self, graph: Graph, feat: Tensor, edge_feat: Tensor) -> tuple[Tensor, Tensor]:
        """Returns the new features ``[num_nodes, output_feats]`` and ``[num_edges, output_feats]``.

        Args:
            graph: a graph of one type of nodes and edges.
            feat: ``[num_nodes, input_feats]``.
            edge_feat: ``[num_edges, edge_feats]``.
        """
        check_graph("GatedGCNConv", graph)
        relation = graph.relation()
        check_rows("GatedGCNConv", "node", feat, graph.num_nodes(), self.A.in_features)
        check_rows("GatedGCNConv", "edge", edge_feat, relation.num_edges, self.C.in_features)
        ends = [self.D(feat), self.E(feat), self.C(edge_feat)]
        edges = per_edge(relation, "u0 + v1 + e2", ends)
        total = aggregate(relation, "u0 * sigmoid(e1)", "sum", [self.B(feat), edges])
        gates = aggregate(relation, "sigmoid(e0)", "sum", [edges])
        nodes = self.A(feat) + total / (gates + EPSILON)
        new_nodes = self._finish(nodes, feat, self.bn_node)
        return new_nodes, self._finish(edges, edge_feat, self.bn_edge)

    def _finish(self, x: Tensor, before: Tensor, norm: nn.Module) -> Tensor:
        x = norm(x) if self.batch_norm else x
        x = x if self.activation is None else self.activation(x)
        x = self.dropout(x)
        return before + x if self.residual else x
