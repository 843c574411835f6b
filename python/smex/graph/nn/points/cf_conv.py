"""Continuous-filter convolution."""

from __future__ import annotations

import math
from typing import Any

import torch.nn.functional as F
from torch import Tensor, nn

from smex.graph.graph import Graph
from smex.graph.nn.inputs import check_graph, check_rows, source_and_destination
from smex.graph.ops.kernels import aggregate


class ShiftedSoftplus(nn.Module):
    """``log(1 + exp(x)) - log(2)``, which is 0 at 0."""

    def forward(self, x: Tensor) -> Tensor:
        """Returns the function of each number."""
        return F.softplus(x) - math.log(2.0)


class CFConv(nn.Module):
    r"""Continuous-filter convolution (Schütt et al., NeurIPS'17, eq. 2 and §4.1).

    .. math:: h_v' = s\left(W_o \sum_{u \in N(v)} (W_n h_u + b_n) \odot f(e_{uv}) + b_o\right)

    with :math:`s(x) = \log(1 + e^x) - \log 2` and a network f of two layers, both followed by s.

    Args:
        node_in_feats: features of a node's row.
        edge_in_feats: features of an edge's row.
        hidden_feats: features of messages.
        out_feats: features of an output row.

    Raises:
        SmexValueError: in :meth:`forward` features of another width.

    Example:
        >>> g = sg.graph(([0, 1], [1, 2]))
        >>> sg.nn.CFConv(4, 3, 5, 2)(g, torch.ones(3, 4), torch.ones(2, 3)).shape
        torch.Size([3, 2])
    """

    def __init__(self, node_in_feats: int, edge_in_feats: int, hidden_feats: int, out_feats: int):
        super().__init__()
        self._widths = (node_in_feats, edge_in_feats)
        self.project_edge = nn.Sequential(
            nn.Linear(edge_in_feats, hidden_feats),
            ShiftedSoftplus(),
            nn.Linear(hidden_feats, hidden_feats),
            ShiftedSoftplus(),
        )
        self.project_node = nn.Linear(node_in_feats, hidden_feats)
        self.project_out = nn.Sequential(nn.Linear(hidden_feats, out_feats), ShiftedSoftplus())

    def forward(self, g: Graph, node_feats: Any, edge_feats: Tensor) -> Tensor:
        """Returns the new features ``[num_dst, out_feats]``.

        Args:
            g: a graph with one edge type.
            node_feats: ``[num_src, node_in_feats]``, or a pair, of which the first counts.
            edge_feats: ``[num_edges, edge_in_feats]``.
        """
        check_graph("CFConv", g)
        relation = g.relation()
        source, _ = source_and_destination(g, node_feats)
        check_rows("CFConv", "source node", source, relation.num_src, self._widths[0])
        check_rows("CFConv", "edge", edge_feats, relation.num_edges, self._widths[1])
        filters = self.project_edge(edge_feats)
        nodes = self.project_node(source).to(filters.dtype)
        return self.project_out(aggregate(relation, "u0 * e1", "sum", [nodes, filters]))
