"""Graph attention."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from smex.errors import SmexValueError
from smex.graph.graph import Graph
from smex.graph.nn.inputs import (
    RefusesZeroInDegree,
    check_at_least_one,
    check_rows,
    size_pair,
    source_and_destination,
)
from smex.graph.ops.attention import gat_attention
from smex.graph.ops.kernels import aggregate, per_edge, softmax_over_edges


class GATConv(RefusesZeroInDegree, nn.Module):
    r"""Graph attention (Veličković et al., ICLR'18, eq. 3 and 4).

    .. math:: h_v' = \sum_{u \in N(v)} a_{uv} W h_u, \quad
              a_{uv} = softmax_u(LeakyReLU(a_l \cdot W h_u + a_r \cdot W h_v))

    for every head. Runs as one kernel that stores nothing per edge; only dropout of attention,
    edge weights and ``get_attention`` store one number for each edge and head.

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
        bias: whether there is a bias; with a projected residual it is that of the projection,
            ``res_fc.bias``, as in DGL.

    Raises:
        SmexValueError: in :meth:`forward` a node without in-edges, features of another width, or
            one tensor of features where the sizes were a pair.

    Example:
        >>> g = sg.add_self_loop(sg.graph(([0, 1], [1, 2])))
        >>> sg.nn.GATConv(4, 2, num_heads=3)(g, torch.ones(3, 4)).shape
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
    ):
        super().__init__()
        pair = isinstance(in_feats, tuple)
        src_feats, dst_feats = size_pair(in_feats)
        width = num_heads * out_feats
        check_at_least_one("GATConv", "num_heads", num_heads)
        self._num_heads = num_heads
        self._in_src_feats, self._in_dst_feats = src_feats, dst_feats
        self._out_feats = out_feats
        self._allow_zero_in_degree = allow_zero_in_degree
        if pair:
            self.fc_src = nn.Linear(src_feats, width, bias=False)
            self.fc_dst = nn.Linear(dst_feats, width, bias=False)
        else:
            self.fc = nn.Linear(src_feats, width, bias=False)
        self.attn_l = nn.Parameter(torch.empty(1, num_heads, out_feats))
        self.attn_r = nn.Parameter(torch.empty(1, num_heads, out_feats))
        self.feat_drop = nn.Dropout(feat_drop)
        self.attn_drop = nn.Dropout(attn_drop)
        self.leaky_relu = nn.LeakyReLU(negative_slope)
        # As in DGL the bias is that of the residual's matrix, where there is one.
        linear = residual and dst_feats != width
        self.bias = nn.Parameter(torch.empty(width)) if bias and not linear else None
        self.res_fc: nn.Module | None = None
        if residual:
            self.res_fc = nn.Linear(dst_feats, width, bias=bias) if linear else nn.Identity()
        self.activation = activation
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Glorot's normal weights with the gain of a ReLU, and a zero bias."""
        gain = nn.init.calculate_gain("relu")
        for name in ("fc", "fc_src", "fc_dst"):
            if hasattr(self, name):
                nn.init.xavier_normal_(getattr(self, name).weight, gain=gain)
        nn.init.xavier_normal_(self.attn_l, gain=gain)
        nn.init.xavier_normal_(self.attn_r, gain=gain)
        if self.bias is not None:
            nn.init.zeros_(self.bias)
        if isinstance(self.res_fc, nn.Linear):
            nn.init.xavier_normal_(self.res_fc.weight, gain=gain)
            if self.res_fc.bias is not None:
                nn.init.zeros_(self.res_fc.bias)

    def forward(
        self,
        graph: Graph,
        feat: Any,
        edge_weight: Tensor | None = None,
        get_attention: bool = False,
    ) -> Any:
        """Returns the new features ``[num_dst, ..., heads, out_feats]``.

        Args:
            graph: a graph with one edge type.
            feat: ``[num_src, ..., in_feats]``, or a pair for sources and destinations.
            edge_weight: ``[num_edges]``, a factor for the attention of each edge.
            get_attention: whether to return the weights ``[num_edges, ..., heads, 1]`` too.
        """
        self._check_in_degrees(graph)
        if hasattr(self, "fc_src") and not isinstance(feat, tuple):
            raise SmexValueError(
                "GATConv: made for a pair of sizes, expected a pair of features for sources and "
                f"destinations, found {type(feat).__name__}"
            )
        rows, own_rows = source_and_destination(graph, feat)
        relation = graph.relation()
        check_rows("GATConv", "source node", rows, relation.num_src, self._in_src_feats)
        if isinstance(feat, tuple):
            num_dst, width = relation.num_dst, self._in_dst_feats
            check_rows("GATConv", "destination node", own_rows, num_dst, width)
        # The destinations of a block are its first sources, unless they are given.
        prefix = None if isinstance(feat, tuple) else graph.num_dst_nodes()
        value, own, own_rows = self._project(rows, own_rows, prefix)
        left, right = self._scores(value, own, prefix)
        shape = value.shape[1:]  # what is between nodes and heads is folded into the heads
        value, left, right = value.flatten(1, -2), left.flatten(1), right.flatten(1)
        weight = None
        drops = self.attn_drop.p > 0 and self.training
        if drops or edge_weight is not None or get_attention:
            weight = self._weights(graph, left, right, edge_weight)
            result = aggregate(relation, "u0 * e1", "sum", [value, weight])
        else:
            result = gat_attention(graph, left, right, value, self.leaky_relu.negative_slope)
        result = self._finish(result.unflatten(1, shape[:-1]), own_rows)
        if weight is None or not get_attention:
            return result
        return result, weight.unflatten(1, shape[:-1])

    def _project(
        self, rows: Tensor, own_rows: Tensor, prefix: int | None
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Projected features of both ends, and the destinations' rows after dropout."""
        heads = (self._num_heads, self._out_feats)
        pair = hasattr(self, "fc_src")
        dropped = self.feat_drop(rows)
        if prefix is None:
            own = self.feat_drop(own_rows)
        else:  # sparse features have no slices
            own = dropped if prefix == dropped.shape[0] else dropped[:prefix]
        value = (self.fc_src if pair else self.fc)(dropped).unflatten(-1, heads)
        if pair or prefix is None:
            projected = (self.fc_dst if pair else self.fc)(own).unflatten(-1, heads)
        else:
            projected = value[:prefix]
        return value, projected, own

    def _scores(self, value: Tensor, own: Tensor, prefix: int | None) -> tuple[Tensor, Tensor]:
        """The parts of the scores of both ends, ``[rows, ..., heads]``: dot products by head.

        By one matrix product with the attention vectors on the diagonal, so that no product of
        the size of the features is stored.
        """
        if prefix is None:
            return (
                value.flatten(-2) @ _on_diagonal(self.attn_l),
                own.flatten(-2) @ _on_diagonal(self.attn_r),
            )
        both = value.flatten(-2) @ _on_diagonal(torch.cat([self.attn_l, self.attn_r]))
        return both[..., : self._num_heads], both[:prefix, ..., self._num_heads :]

    def _weights(
        self, graph: Graph, left: Tensor, right: Tensor, edge_weight: Tensor | None
    ) -> Tensor:
        relation = graph.relation()
        text = f"leaky_relu(u0 + v1, {float(self.leaky_relu.negative_slope)!r})"
        score = per_edge(relation, text, [left.unsqueeze(-1), right.unsqueeze(-1)])
        weight = self.attn_drop(softmax_over_edges(relation, score, "dst"))
        return weight if edge_weight is None else weight * edge_weight.reshape(-1, 1, 1)

    def _finish(self, result: Tensor, own_rows: Tensor) -> Tensor:
        heads = (self._num_heads, self._out_feats)
        if self.res_fc is not None:
            result = result + self.res_fc(own_rows).unflatten(-1, heads)
        if self.bias is not None:
            result = result + self.bias.view(heads)
        return result if self.activation is None else self.activation(result)


def _on_diagonal(attention: Tensor) -> Tensor:
    """``[vectors, heads, features]`` as a matrix ``[heads * features, vectors * heads]``.

    A row of features times it are the dot products of each head with its own vectors.
    """
    diagonal = attention.transpose(1, 2).diag_embed()  # [vectors, features, heads, heads]
    return diagonal.permute(2, 1, 0, 3).flatten(2).flatten(0, 1)
