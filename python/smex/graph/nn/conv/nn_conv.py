"""Convolution with a matrix for each edge."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from smex.graph.graph import Graph
from smex.graph.nn.inputs import (
    check_choice,
    check_graph,
    check_rows,
    size_pair,
    source_and_destination,
)
from smex.graph.ops.kernels import REDUCERS, aggregate

AGGREGATORS = tuple(reducer for reducer in REDUCERS if reducer != "min")


class NNConv(nn.Module):
    r"""Messages with a matrix that a network makes of the edge (Gilmer et al., ICML'17, §5).

    .. math:: h_v' = W h_v + b + \sum_i aggregate_{u \in N(v)} (h_{u, i} f(e_{uv})_i)

    which for ``sum`` and ``mean`` is the sum or mean of :math:`f(e_{uv})^T h_u`. The matrices are
    stored, the products of rows and matrices are not.

    Args:
        in_feats: features of an input row, or a pair for sources and destinations.
        out_feats: features of an output row.
        edge_func: f, from features of edges to ``in_feats * out_feats`` numbers each.
        aggregator_type: ``sum``, ``mean`` or ``max``.
        residual: whether to add the destination's own row, projected where sizes differ.
        bias: whether there is a bias b.

    Raises:
        SmexValueError: an unknown aggregator; in :meth:`forward` features of another width, or a
            result of ``edge_func`` that is no matrix for each edge.

    Example:
        >>> g = sg.graph(([0, 1], [1, 2]))
        >>> layer = sg.nn.NNConv(4, 2, torch.nn.Linear(3, 8))
        >>> layer(g, torch.ones(3, 4), torch.ones(2, 3)).shape
        torch.Size([3, 2])
    """

    def __init__(
        self,
        in_feats: int | tuple[int, int],
        out_feats: int,
        edge_func: Callable[[Tensor], Tensor],
        aggregator_type: str = "mean",
        residual: bool = False,
        bias: bool = True,
    ):
        super().__init__()
        check_choice("NNConv", "aggregator_type", aggregator_type, AGGREGATORS)
        self._in_src_feats, self._in_dst_feats = size_pair(in_feats)
        self._out_feats = out_feats
        self.edge_func = edge_func
        self.aggre_type = aggregator_type
        self.res_fc: nn.Module | None = None
        if residual:
            same = self._in_dst_feats == out_feats
            self.res_fc = (
                nn.Identity() if same else nn.Linear(self._in_dst_feats, out_feats, bias=False)
            )
        self.bias = nn.Parameter(torch.empty(out_feats)) if bias else None
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Glorot's normal projection with the gain of a ReLU, and a zero bias."""
        if self.bias is not None:
            nn.init.zeros_(self.bias)
        if isinstance(self.res_fc, nn.Linear):
            gain = nn.init.calculate_gain("relu")
            nn.init.xavier_normal_(self.res_fc.weight, gain=gain)

    def forward(self, graph: Graph, feat: Any, efeat: Tensor) -> Tensor:
        """Returns the new features ``[num_dst, out_feats]``.

        Args:
            graph: a graph with one edge type.
            feat: ``[num_src, in_feats]``, or a pair for sources and destinations.
            efeat: ``[num_edges, *]``, what ``edge_func`` takes.
        """
        check_graph("NNConv", graph)
        relation = graph.relation()
        source, own = source_and_destination(graph, feat)
        check_rows("NNConv", "source node", source, relation.num_src, self._in_src_feats)
        check_rows("NNConv", "destination node", own, relation.num_dst, self._in_dst_feats)
        width = self._in_src_feats * self._out_feats
        matrices = self.edge_func(efeat)
        check_rows("NNConv: edge_func", "edge", matrices, relation.num_edges, width)
        matrices = matrices.view(-1, self._in_src_feats, self._out_feats)
        operands = [source.unsqueeze(-1), matrices]
        result = aggregate(relation, "u0 * e1", self.aggre_type, operands).sum(1)
        if self.res_fc is not None:
            result = result + self.res_fc(own)
        return result if self.bias is None else result + self.bias
