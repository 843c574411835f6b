"""Gaussian mixture convolution."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from smex.graph.graph import Graph
from smex.graph.nn.conv.nn_conv import AGGREGATORS
from smex.graph.nn.inputs import (
    RefusesZeroInDegree,
    check_choice,
    check_rows,
    size_pair,
    source_and_destination,
)
from smex.graph.ops.kernels import aggregate, per_edge
from smex.graph.structure.relation import Relation


class GMMConv(RefusesZeroInDegree, nn.Module):
    r"""Gaussian mixture convolution (Monti et al., CVPR'17, eq. 11).

    .. math:: h_v' = b + \sum_k aggregate_{u \in N(v)} (w_k(p_{uv}) W_k h_u), \quad
              w_k(p) = \exp(-\tfrac{1}{2} \sum_d (p_d - \mu_{kd})^2 \sigma_{kd}^{-2})

    The weights w are computed in the kernel; those of ``max`` alone are stored.

    Args:
        in_feats: features of an input row, or a pair for sources and destinations.
        out_feats: features of an output row.
        dim: coordinates of an edge.
        n_kernels: number of Gaussians.
        aggregator_type: ``sum``, ``mean`` or ``max``.
        residual: whether to add the destination's own row, projected where sizes differ.
        bias: whether there is a bias b.
        allow_zero_in_degree: whether nodes without in-edges are fine.

    Raises:
        SmexValueError: an unknown aggregator; in :meth:`forward` a node without in-edges, or
            features of another width.

    Example:
        >>> g = sg.add_self_loop(sg.graph(([0, 1], [1, 2])))
        >>> layer = sg.nn.GMMConv(4, 2, dim=3, n_kernels=2)
        >>> layer(g, torch.ones(3, 4), torch.ones(5, 3)).shape
        torch.Size([3, 2])
    """

    def __init__(
        self,
        in_feats: int | tuple[int, int],
        out_feats: int,
        dim: int,
        n_kernels: int,
        aggregator_type: str = "sum",
        residual: bool = False,
        bias: bool = True,
        allow_zero_in_degree: bool = False,
    ):
        super().__init__()
        check_choice("GMMConv", "aggregator_type", aggregator_type, AGGREGATORS)
        self._in_src_feats, self._in_dst_feats = size_pair(in_feats)
        self._out_feats, self._dim, self._n_kernels = out_feats, dim, n_kernels
        self._allow_zero_in_degree = allow_zero_in_degree
        self._aggregator_type = aggregator_type
        self.mu = nn.Parameter(torch.empty(n_kernels, dim))
        self.inv_sigma = nn.Parameter(torch.empty(n_kernels, dim))
        self.fc = nn.Linear(self._in_src_feats, n_kernels * out_feats, bias=False)
        self.res_fc: nn.Module | None = None
        if residual:
            same = self._in_dst_feats == out_feats
            self.res_fc = (
                nn.Identity() if same else nn.Linear(self._in_dst_feats, out_feats, bias=False)
            )
        self.bias = nn.Parameter(torch.empty(out_feats)) if bias else None
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Glorot's normal matrices, means close to 0, unit variances and a zero bias."""
        gain = nn.init.calculate_gain("relu")
        nn.init.xavier_normal_(self.fc.weight, gain=gain)
        if isinstance(self.res_fc, nn.Linear):
            nn.init.xavier_normal_(self.res_fc.weight, gain=gain)
        nn.init.normal_(self.mu, 0, 0.1)
        nn.init.ones_(self.inv_sigma)
        if self.bias is not None:
            nn.init.zeros_(self.bias)

    def forward(self, graph: Graph, feat: Any, pseudo: Tensor) -> Tensor:
        """Returns the new features ``[num_dst, out_feats]``.

        Args:
            graph: a graph with one edge type.
            feat: ``[num_src, in_feats]``, or a pair for sources and destinations.
            pseudo: ``[num_edges, dim]``, the coordinates of edges.
        """
        self._check_in_degrees(graph)
        relation = graph.relation()
        source, own = source_and_destination(graph, feat)
        check_rows("GMMConv", "source node", source, relation.num_src, self._in_src_feats)
        check_rows("GMMConv", "destination node", own, relation.num_dst, self._in_dst_feats)
        check_rows("GMMConv", "edge", pseudo, relation.num_edges, self._dim)
        value = self.fc(source).unflatten(-1, (self._n_kernels, self._out_feats))
        result = self._mixed(relation, value, pseudo.unsqueeze(1)).sum(1)
        if self.res_fc is not None:
            result = result + self.res_fc(own)
        return result if self.bias is None else result + self.bias

    def _mixed(self, relation: Relation, value: Tensor, pseudo: Tensor) -> Tensor:
        """Returns what nodes get from each Gaussian, ``[num_dst, n_kernels, out_feats]``."""
        mu, inv_sigma = self.mu.unsqueeze(0), self.inv_sigma.unsqueeze(0)
        if self._aggregator_type == "max":  # whose kernel takes no sum within a message
            text = "exp(-0.5 * sum_last(pow((e0 - c1) * c2, 2)))"
            weight = per_edge(relation, text, [pseudo, mu, inv_sigma])
            return aggregate(relation, "u0 * e1", "max", [value, weight])
        text = "u0 * exp(-0.5 * sum_last(pow((e1 - c2) * c3, 2)))"
        operands = [value, pseudo, mu, inv_sigma]
        return aggregate(relation, text, self._aggregator_type, operands)
