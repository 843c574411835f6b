"""Graph attention with features of edges."""

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
    edge_factor,
    size_pair,
    source_and_destination,
)
from smex.graph.nn.propagation import attention_weights
from smex.graph.ops.kernels import aggregate, per_edge, softmax_over_edges


class EGATConv(RefusesZeroInDegree, nn.Module):
    r"""Graph attention that gives edges new features (Kamiński et al., 2022, supplement).

    .. math:: f_{uv}' = LeakyReLU(A_u h_u + A_v h_v + A_e f_{uv} + b), \quad
              a_{uv} = softmax_u(a \cdot f_{uv}'), \quad h_v' = \sum_{u \in N(v)} a_{uv} W h_u

    for every head. The new features of edges are a result and are stored; messages are not.

    Args:
        in_node_feats: features of a node's row, or a pair for sources and destinations.
        in_edge_feats: features of an edge's row.
        out_node_feats: features of a node's new row of each head.
        out_edge_feats: features of an edge's new row of each head.
        num_heads: heads.
        bias: whether there is a bias b.
        allow_zero_in_degree: whether nodes without in-edges, which get 0, are fine.

    Raises:
        SmexValueError: in :meth:`forward` a node without in-edges, or features of another width.

    Example:
        >>> g = sg.add_self_loop(sg.graph(([0, 1], [1, 2])))
        >>> layer = sg.nn.EGATConv(4, 3, 2, 5, num_heads=3)
        >>> h, f = layer(g, torch.ones(3, 4), torch.ones(5, 3))
        >>> h.shape, f.shape
        (torch.Size([3, 3, 2]), torch.Size([5, 3, 5]))
    """

    def __init__(
        self,
        in_node_feats: int | tuple[int, int],
        in_edge_feats: int,
        out_node_feats: int,
        out_edge_feats: int,
        num_heads: int,
        bias: bool = True,
        allow_zero_in_degree: bool = False,
    ):
        super().__init__()
        src_feats, dst_feats = size_pair(in_node_feats)
        check_at_least_one("EGATConv", "num_heads", num_heads)
        self._num_heads = num_heads
        self._out_node_feats, self._out_edge_feats = out_node_feats, out_edge_feats
        self._allow_zero_in_degree = allow_zero_in_degree
        width = out_edge_feats * num_heads
        self.fc_node_src = nn.Linear(src_feats, out_node_feats * num_heads, bias=False)
        self.fc_ni = nn.Linear(src_feats, width, bias=False)
        self.fc_nj = nn.Linear(dst_feats, width, bias=False)
        self.fc_fij = nn.Linear(in_edge_feats, width, bias=False)
        self.attn = nn.Parameter(torch.empty(1, num_heads, out_edge_feats))
        self.bias = nn.Parameter(torch.empty(width)) if bias else None
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Glorot's normal weights with the gain of a ReLU, and a zero bias."""
        gain = nn.init.calculate_gain("relu")
        for linear in (self.fc_node_src, self.fc_ni, self.fc_fij, self.fc_nj):
            nn.init.xavier_normal_(linear.weight, gain=gain)
        nn.init.xavier_normal_(self.attn, gain=gain)
        if self.bias is not None:
            nn.init.zeros_(self.bias)

    def forward(
        self,
        graph: Graph,
        nfeats: Any,
        efeats: Tensor,
        edge_weight: Tensor | None = None,
        get_attention: bool = False,
    ) -> tuple[Tensor, ...]:
        """The new features ``[num_dst, heads, *]`` of nodes and ``[num_edges, heads, *]`` of edges.

        Args:
            graph: a graph with one edge type.
            nfeats: ``[num_src, in_node_feats]``, or a pair for sources and destinations.
            efeats: ``[num_edges, in_edge_feats]``.
            edge_weight: ``[num_edges]``, a factor for the attention of each edge.
            get_attention: whether to return the weights ``[num_edges, heads, 1]`` too.
        """
        self._check_in_degrees(graph)
        relation = graph.relation()
        source, own = source_and_destination(graph, nfeats)
        check_rows("EGATConv", "source node", source, relation.num_src, self.fc_ni.in_features)
        check_rows("EGATConv", "destination node", own, relation.num_dst, self.fc_nj.in_features)
        check_rows("EGATConv", "edge", efeats, relation.num_edges, self.fc_fij.in_features)
        check_two_dims("EGATConv", "source node", source)
        right = self.fc_nj(own)
        right = right if self.bias is None else right + self.bias.to(right.dtype)
        operands = [self.fc_ni(source), right, self.fc_fij(efeats)]
        edges = per_edge(relation, "leaky_relu(u0 + v1 + e2, 0.01)", operands)
        edges = edges.unflatten(-1, (self._num_heads, self._out_edge_feats))
        score = torch.einsum("ehf,hf->eh", edges, self.attn.squeeze(0)).unsqueeze(-1)
        weight = softmax_over_edges(relation, score)
        if edge_weight is not None:
            weight = weight * edge_factor("EGATConv", graph, edge_weight, weight)
        value = self.fc_node_src(source).unflatten(-1, (self._num_heads, self._out_node_feats))
        nodes = aggregate(relation, "u0 * e1", "sum", [value, weight])
        return (nodes, edges, weight) if get_attention else (nodes, edges)


class EdgeGATConv(RefusesZeroInDegree, nn.Module):
    r"""Graph attention whose messages hold edges' features (Monninger et al., RA-L'23, §III-C).

    .. math:: h_v' = W_s h_v + b + \sum_{u \in N(v)} a_{uv} (W_n h_u + W_e e_{uv}), \quad
              a_{uv} = softmax_u(LeakyReLU(a_l \cdot W_n h_u + a_r \cdot W_n h_v
              + a_e \cdot W_e e_{uv}))

    for every head. One number for each edge and head is stored: the edges' features are summed
    before they are projected.

    Args:
        in_feats: features of an input row, or a pair for sources and destinations.
        edge_feats: features of an edge's row.
        out_feats: features of an output row of each head.
        num_heads: heads.
        feat_drop: dropout of the input rows.
        attn_drop: dropout of the attention weights.
        negative_slope: of the leaky ReLU.
        residual: whether there is a matrix W_s.
        activation: applied to the result.
        allow_zero_in_degree: whether nodes without in-edges are fine.
        bias: whether there is a bias b.

    Raises:
        SmexValueError: in :meth:`forward` a node without in-edges, or features of another width.

    Example:
        >>> g = sg.add_self_loop(sg.graph(([0, 1], [1, 2])))
        >>> layer = sg.nn.EdgeGATConv(4, 3, 2, num_heads=3)
        >>> layer(g, torch.ones(3, 4), torch.ones(5, 3)).shape
        torch.Size([3, 3, 2])
    """

    def __init__(
        self,
        in_feats: int | tuple[int, int],
        edge_feats: int,
        out_feats: int,
        num_heads: int,
        feat_drop: float = 0.0,
        attn_drop: float = 0.0,
        negative_slope: float = 0.2,
        residual: bool = True,
        activation: Callable[[Tensor], Tensor] | None = None,
        allow_zero_in_degree: bool = False,
        bias: bool = True,
    ):
        super().__init__()
        self._in_src_feats, self._in_dst_feats = size_pair(in_feats)
        check_at_least_one("EdgeGATConv", "num_heads", num_heads)
        self._num_heads, self._out_feats = num_heads, out_feats
        self._allow_zero_in_degree = allow_zero_in_degree
        width = num_heads * out_feats
        self._pair = isinstance(in_feats, tuple)
        if self._pair:
            self.fc_src = nn.Linear(self._in_src_feats, width, bias=False)
            self.fc_dst = nn.Linear(self._in_dst_feats, width, bias=False)
        else:
            self.fc = nn.Linear(self._in_src_feats, width, bias=False)
        self.attn_l = nn.Parameter(torch.empty(1, num_heads, out_feats))
        self.attn_r = nn.Parameter(torch.empty(1, num_heads, out_feats))
        self.feat_drop = nn.Dropout(feat_drop)
        self.attn_drop = nn.Dropout(attn_drop)
        self.leaky_relu = nn.LeakyReLU(negative_slope)
        self.bias = nn.Parameter(torch.empty(width)) if bias else None
        self.res_fc = nn.Linear(self._in_dst_feats, width, bias=False) if residual else None
        self.attn_edge = nn.Parameter(torch.empty(1, num_heads, out_feats))
        self.fc_edge = nn.Linear(edge_feats, width, bias=False)
        self.activation = activation
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Glorot's normal weights with the gain of a ReLU, and a zero bias."""
        gain = nn.init.calculate_gain("relu")
        for name in ("fc", "fc_src", "fc_dst"):
            if hasattr(self, name):
                nn.init.xavier_normal_(getattr(self, name).weight, gain=gain)
        for weight in (self.attn_l, self.attn_r, self.fc_edge.weight, self.attn_edge):
            nn.init.xavier_normal_(weight, gain=gain)
        if self.bias is not None:
            nn.init.zeros_(self.bias)
        if self.res_fc is not None:
            nn.init.xavier_normal_(self.res_fc.weight, gain=gain)

    def forward(
        self, graph: Graph, feat: Any, edge_feat: Tensor, get_attention: bool = False
    ) -> Any:
        """Returns the new features ``[num_dst, heads, out_feats]``.

        Args:
            graph: a graph with one edge type.
            feat: ``[num_src, in_feats]``, or a pair for sources and destinations.
            edge_feat: ``[num_edges, edge_feats]``.
            get_attention: whether to return the weights ``[num_edges, heads, 1]`` too.
        """
        self._check_in_degrees(graph)
        relation = graph.relation()
        if isinstance(feat, tuple):
            feat = (self.feat_drop(feat[0]), self.feat_drop(feat[1]))
        else:
            feat = self.feat_drop(feat)
        source, own = source_and_destination(graph, feat)
        check_rows("EdgeGATConv", "source node", source, relation.num_src, self._in_src_feats)
        check_rows("EdgeGATConv", "destination node", own, relation.num_dst, self._in_dst_feats)
        check_rows("EdgeGATConv", "edge", edge_feat, relation.num_edges, self.fc_edge.in_features)
        check_two_dims("EdgeGATConv", "source node", source)
        heads = (self._num_heads, self._out_feats)
        value = (self.fc_src if self._pair else self.fc)(source).unflatten(-1, heads)
        if self._pair or isinstance(feat, tuple):
            right = (self.fc_dst if self._pair else self.fc)(own).unflatten(-1, heads)
        else:
            right = value[: relation.num_dst]
        of_edge = self.fc_edge.weight.unflatten(0, heads)  # [heads, out_feats, edge_feats]
        weight = self._weights(relation, value, right, edge_feat, of_edge)
        result = aggregate(relation, "u0 * e1", "sum", [value, weight])
        sums = aggregate(relation, "e0 * e1", "sum", [edge_feat.unsqueeze(1), weight])
        result = result + torch.einsum("vhd,hfd->vhf", sums, of_edge)
        if self.res_fc is not None:
            result = result + self.res_fc(own).unflatten(-1, heads)
        if self.bias is not None:
            result = result + self.bias.view(heads)
        if self.activation is not None:
            result = self.activation(result)
        return (result, weight) if get_attention else result

    def _weights(
        self, relation: Any, value: Tensor, right: Tensor, edge_feat: Tensor, of_edge: Tensor
    ) -> Tensor:
        """Returns the attention ``[num_edges, heads, 1]``."""
        edge_vector = torch.einsum("hfd,hf->dh", of_edge, self.attn_edge.squeeze(0))
        operands = [
            torch.einsum("uhf,hf->uh", value, self.attn_l.squeeze(0)),
            torch.einsum("vhf,hf->vh", right, self.attn_r.squeeze(0)),
            edge_feat @ edge_vector,
        ]
        text = f"leaky_relu(u0 + v1 + e2, {float(self.leaky_relu.negative_slope)!r})"
        weight = attention_weights(relation, text, [x.unsqueeze(-1) for x in operands])
        return self.attn_drop(weight)
