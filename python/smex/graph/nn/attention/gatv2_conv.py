"""Graph attention whose ranking of neighbours depends on the destination."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from smex.graph.graph import Graph
from smex.graph.nn.inputs import (
    RefusesZeroInDegree,
    check_at_least_one,
    check_rows,
    check_two_dims,
    size_pair,
    source_and_destination,
)
from smex.graph.nn.propagation import attention_weights
from smex.graph.ops.attention import gatv2_attention
from smex.graph.ops.kernels import aggregate


class GATv2Conv(RefusesZeroInDegree, nn.Module):
    r"""Graph attention, second version (Brody et al., ICLR'22, eq. 7).

    .. math:: h_v' = \sum_{u \in N(v)} a_{uv} W_{src} h_u, \quad
              a_{uv} = softmax_u(a \cdot LeakyReLU(W_{src} h_u + W_{dst} h_v))

    for every head. Runs as one kernel that stores nothing per edge; only dropout of attention and
    ``get_attention`` store one number for each edge and head.

    Args:
        in_feats: features of an input row, or a pair for sources and destinations.
        out_feats: features of an output row of each head.
        num_heads: heads.
        feat_drop: dropout of the input rows.
        attn_drop: dropout of the attention weights.
        negative_slope: of the leaky ReLU.
        residual: whether to add the destination's own row, projected where sizes differ.
        activation: applied to the result.
        allow_zero_in_degree: whether nodes without in-edges, which get 0, are fine.
        bias: whether the projections have biases.
        share_weights: whether both ends have one matrix; a pair of sizes has two anyway.

    Raises:
        SmexValueError: in :meth:`forward` a node without in-edges, or features of another width.

    Example:
        >>> g = sg.add_self_loop(sg.graph(([0, 1], [1, 2])))
        >>> sg.nn.GATv2Conv(4, 2, num_heads=3)(g, torch.ones(3, 4)).shape
        torch.Size([3, 3, 2])
    """

    def __init__(
        self,
        in_feats: int | tuple[int, int],
        out_feats: int,
        num_heads: int,
        feat_drop: float = 0.0,
        attn_drop: float = 0.0,
        negative_slope: float = 0.2,
        residual: bool = False,
        activation: Callable[[Tensor], Tensor] | None = None,
        allow_zero_in_degree: bool = False,
        bias: bool = True,
        share_weights: bool = False,
    ):
        super().__init__()
        self._in_src_feats, self._in_dst_feats = size_pair(in_feats)
        check_at_least_one("GATv2Conv", "num_heads", num_heads)
        self._num_heads, self._out_feats = num_heads, out_feats
        self._allow_zero_in_degree = allow_zero_in_degree
        self.share_weights = share_weights and not isinstance(in_feats, tuple)
        width = num_heads * out_feats
        self.fc_src = nn.Linear(self._in_src_feats, width, bias=bias)
        self.fc_dst = self.fc_src
        if not self.share_weights:
            self.fc_dst = nn.Linear(self._in_dst_feats, width, bias=bias)
        self.attn = nn.Parameter(torch.empty(1, num_heads, out_feats))
        self.feat_drop = nn.Dropout(feat_drop)
        self.attn_drop = nn.Dropout(attn_drop)
        self.leaky_relu = nn.LeakyReLU(negative_slope)
        self.res_fc: nn.Module | None = None
        if residual:
            same = self._in_dst_feats == width
            self.res_fc = nn.Identity() if same else nn.Linear(self._in_dst_feats, width, bias=bias)
        self.activation = activation
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Glorot's normal weights with the gain of a ReLU, and zero biases."""
        gain = nn.init.calculate_gain("relu")
        linears = dict.fromkeys([self.fc_src, self.fc_dst])  # which may be one
        for weight in (*(linear.weight for linear in linears), self.attn):
            nn.init.xavier_normal_(weight, gain=gain)
        if isinstance(self.res_fc, nn.Linear):
            nn.init.xavier_normal_(self.res_fc.weight, gain=gain)
            linears[self.res_fc] = None
        for linear in linears:
            if linear.bias is not None:
                nn.init.zeros_(linear.bias)

    def forward(self, graph: Graph, feat: Any, get_attention: bool = False) -> Any:
        """Returns the new features ``[num_dst, heads, out_feats]``.

        Args:
            graph: a graph with one edge type.
            feat: ``[num_src, in_feats]``, or a pair for sources and destinations.
            get_attention: whether to return the weights ``[num_edges, heads, 1]`` too.
        """
        self._check_in_degrees(graph)
        relation = graph.relation()
        if isinstance(feat, tuple):
            feat = (self.feat_drop(feat[0]), self.feat_drop(feat[1]))
        else:
            feat = self.feat_drop(feat)
        rows, own_rows = source_and_destination(graph, feat)
        check_rows("GATv2Conv", "source node", rows, relation.num_src, self._in_src_feats)
        check_rows("GATv2Conv", "destination node", own_rows, relation.num_dst, self._in_dst_feats)
        check_two_dims("GATv2Conv", "source node", rows)
        heads = (self._num_heads, self._out_feats)
        left = self.fc_src(rows).unflatten(-1, heads)
        if self.share_weights and not isinstance(feat, tuple):
            right = left[: relation.num_dst]
        else:
            right = self.fc_dst(own_rows).unflatten(-1, heads)
        weight = None
        if get_attention or (self.attn_drop.p > 0 and self.training):
            text = f"dot(leaky_relu(u0 + v1, {float(self.leaky_relu.negative_slope)!r}), c2)"
            scores = attention_weights(relation, text, [left, right, self.attn])
            weight = self.attn_drop(scores)
            result = aggregate(relation, "u0 * e1", "sum", [left, weight])
        else:
            result = gatv2_attention(graph, left, right, self.attn, self.leaky_relu.negative_slope)
        if self.res_fc is not None:
            result = result + self.res_fc(own_rows).unflatten(-1, heads)
        if self.activation is not None:
            result = self.activation(result)
        return (result, weight) if get_attention else result
