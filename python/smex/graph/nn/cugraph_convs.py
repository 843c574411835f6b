"""DGL's layers on cugraph's kernels, with their parameters; here they run on this package's own."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from smex.errors import SmexValueError
from smex.graph.graph import Graph
from smex.graph.nn.inputs import check_at_least_one, check_choice, check_graph, check_rows
from smex.graph.nn.typed.rel_graph_conv import relational_sum
from smex.graph.nn.typed.typed_sources import edge_types
from smex.graph.ops.attention import gat_attention
from smex.graph.ops.grouped import lengths_of
from smex.graph.ops.kernels import aggregate


class CuGraphSAGEConv(nn.Module):
    r"""GraphSAGE (Hamilton et al., NeurIPS'17, algorithm 1), one matrix for neighbours and self.

    .. math:: h_v' = W \, [aggregate_{u \in N(v)}(h_u), h_v] + b

    The first ``in_feats`` columns of ``linear.weight`` are the neighbours'. DGL's layer of this
    name needs cugraph and a GPU; this one neither.

    Args:
        in_feats: features of an input row.
        out_feats: features of an output row.
        aggregator_type: ``mean``, ``sum``, ``min`` or ``max``; 0 without in-edges.
        feat_drop: dropout of the input rows.
        bias: whether there is a bias b.

    Raises:
        SmexValueError: an unknown aggregator; in :meth:`forward` features of another width.

    Example:
        >>> g = sg.graph(([0, 1], [1, 2]))
        >>> sg.nn.CuGraphSAGEConv(4, 2)(g, torch.ones(3, 4)).shape
        torch.Size([3, 2])
    """

    def __init__(
        self,
        in_feats: int,
        out_feats: int,
        aggregator_type: str = "mean",
        feat_drop: float = 0.0,
        bias: bool = True,
    ):
        super().__init__()
        choices = ("mean", "sum", "min", "max")
        check_choice("CuGraphSAGEConv", "aggregator_type", aggregator_type, choices)
        self.in_feats, self.out_feats, self.aggr = in_feats, out_feats, aggregator_type
        self.feat_drop = nn.Dropout(feat_drop)
        self.linear = nn.Linear(2 * in_feats, out_feats, bias=bias)

    def reset_parameters(self) -> None:
        """Those of ``torch.nn.Linear``."""
        self.linear.reset_parameters()

    def forward(self, g: Graph, feat: Tensor, max_in_degree: int | None = None) -> Tensor:
        """Returns the new features ``[num_dst, out_feats]``.

        Args:
            g: a graph with one edge type.
            feat: ``[num_src, in_feats]``; of a block the first rows are the destinations'.
            max_in_degree: taken for compatibility.
        """
        check_graph("CuGraphSAGEConv", g)
        relation = g.relation()
        check_rows("CuGraphSAGEConv", "source node", feat, relation.num_src, self.in_feats)
        feat = self.feat_drop(feat)
        of_neighbours, of_self = self.linear.weight.split(self.in_feats, 1)
        own = nn.functional.linear(feat[: relation.num_dst], of_self, self.linear.bias)
        # A sum may be projected before it travels, where that makes rows narrower.
        if self.aggr in ("mean", "sum") and self.out_feats < self.in_feats:
            return own + aggregate(relation, "u0", self.aggr, [feat @ of_neighbours.t()])
        return own + aggregate(relation, "u0", self.aggr, [feat]) @ of_neighbours.t()


class CuGraphGATConv(nn.Module):
    r"""Graph attention (Veličković et al., ICLR'18, eq. 3 and 4) without dropout of attention.

    As :class:`GATConv`, with the attention vectors of sources and destinations one after the other
    in one parameter, ``attn_weights [2 * num_heads * out_feats]``, and nodes without in-edges
    allowed. DGL's layer of this name needs cugraph and a GPU; this one neither.

    Args:
        in_feats: features of an input row.
        out_feats: features of an output row of each head.
        num_heads: heads.
        feat_drop: dropout of the input rows.
        negative_slope: of the leaky ReLU.
        residual: whether to add the destination's own row, projected where sizes differ.
        activation: applied to the result.
        bias: whether there is a bias.

    Raises:
        SmexValueError: less than one head; in :meth:`forward` features of another width.

    Example:
        >>> g = sg.graph(([0, 1], [1, 2]))
        >>> sg.nn.CuGraphGATConv(4, 2, num_heads=3)(g, torch.ones(3, 4)).shape
        torch.Size([3, 3, 2])
    """

    def __init__(
        self,
        in_feats: int,
        out_feats: int,
        num_heads: int,
        feat_drop: float = 0.0,
        negative_slope: float = 0.2,
        residual: bool = False,
        activation: Callable[[Tensor], Tensor] | None = None,
        bias: bool = True,
    ):
        super().__init__()
        check_at_least_one("CuGraphGATConv", "num_heads", num_heads)
        width = num_heads * out_feats
        self.in_feats, self.out_feats, self.num_heads = in_feats, out_feats, num_heads
        self.feat_drop = nn.Dropout(feat_drop)
        self.negative_slope, self.activation = negative_slope, activation
        self.fc = nn.Linear(in_feats, width, bias=False)
        self.attn_weights = nn.Parameter(torch.empty(2 * width))
        self.bias = nn.Parameter(torch.empty(width)) if bias else None
        self.res_fc: nn.Module | None = None
        if residual:
            self.res_fc = (
                nn.Identity() if in_feats == width else nn.Linear(in_feats, width, bias=False)
            )
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Glorot's normal weights with the gain of a ReLU, and a zero bias."""
        gain = nn.init.calculate_gain("relu")
        nn.init.xavier_normal_(self.fc.weight, gain=gain)
        nn.init.xavier_normal_(
            self.attn_weights.data.view(2, self.num_heads, self.out_feats), gain=gain
        )
        if self.bias is not None:
            nn.init.zeros_(self.bias)
        if isinstance(self.res_fc, nn.Linear):
            self.res_fc.reset_parameters()

    def forward(self, g: Graph, feat: Tensor, max_in_degree: int | None = None) -> Tensor:
        """Returns the new features ``[num_dst, heads, out_feats]``.

        Args:
            g: a graph with one edge type.
            feat: ``[num_src, in_feats]``; of a block the first rows are the destinations'.
            max_in_degree: taken for compatibility.
        """
        check_graph("CuGraphGATConv", g)
        num_src, num_dst = g.num_src_nodes(), g.num_dst_nodes()
        check_rows("CuGraphGATConv", "source node", feat, num_src, self.in_feats)
        feat = self.feat_drop(feat)
        heads = (self.num_heads, self.out_feats)
        value = self.fc(feat).unflatten(-1, heads)
        left, right = self.attn_weights.view(2, *heads)
        result = gat_attention(
            g,
            torch.einsum("nhf,hf->nh", value, left),
            torch.einsum("nhf,hf->nh", value[:num_dst], right),
            value,
            self.negative_slope,
        )
        if self.res_fc is not None:
            result = result + self.res_fc(feat[:num_dst]).unflatten(-1, heads)
        if self.bias is not None:
            result = result + self.bias.view(heads)
        return result if self.activation is None else self.activation(result)


class CuGraphRelGraphConv(nn.Module):
    r"""Relational graph convolution (Schlichtkrull et al., ESWC'18, eq. 2).

    .. math:: h_v' = W_0^T h_v + b + \sum_{(u, r) \in N(v)} c_{vr} W_r^T h_u

    As :class:`RelGraphConv`, with W_0 the last matrix of the parameter ``W``, after those of the
    relations or bases. DGL's layer of this name needs cugraph and a GPU; this one neither.

    Args:
        in_feat: features of an input row.
        out_feat: features of an output row.
        num_rels: number of relations, that is of edge types.
        regularizer: of the matrices W_r: None, or ``basis`` for sums of ``num_bases`` matrices.
        num_bases: number of bases.
        bias: whether there is a bias b.
        self_loop: whether there is a matrix W_0.
        dropout: of the result.
        apply_norm: whether c is 1 by the number of edges of type r into v, otherwise 1; it makes a
            number for each node and relation.

    Raises:
        SmexValueError: an unknown regularizer, or ``basis`` without ``num_bases``; in
            :meth:`forward` features of another width, or types that are not one of ``num_rels``
            for each edge.

    Example:
        >>> g = sg.graph(([0, 1], [1, 2]))
        >>> sg.nn.CuGraphRelGraphConv(4, 2, 3)(g, torch.ones(3, 4), torch.tensor([0, 2])).shape
        torch.Size([3, 2])
    """

    def __init__(
        self,
        in_feat: int,
        out_feat: int,
        num_rels: int,
        regularizer: str | None = None,
        num_bases: int | None = None,
        bias: bool = True,
        self_loop: bool = True,
        dropout: float = 0.0,
        apply_norm: bool = False,
    ):
        super().__init__()
        check_choice("CuGraphRelGraphConv", "regularizer", regularizer, (None, "basis"))
        if regularizer is not None and num_bases is None:
            raise SmexValueError(
                "CuGraphRelGraphConv: regularizer 'basis' needs num_bases, found None"
            )
        self.in_feat, self.out_feat, self.num_rels = in_feat, out_feat, num_rels
        self.regularizer, self.num_bases = regularizer, num_bases
        self.self_loop, self.apply_norm = self_loop, apply_norm
        self.dropout = nn.Dropout(dropout)
        matrices = num_rels if num_bases is None or regularizer is None else num_bases
        self.W = nn.Parameter(torch.empty(matrices + int(self_loop), in_feat, out_feat))
        self.coeff = None
        if regularizer is not None:
            self.coeff = nn.Parameter(torch.empty(num_rels, matrices))
        self.bias = nn.Parameter(torch.empty(out_feat)) if bias else None
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Uniform weights up to 1 / sqrt(in_feat), Glorot's uniform coefficients and W_0."""
        bound = 1 / math.sqrt(self.in_feat) if self.in_feat else 0.0
        gain = nn.init.calculate_gain("relu")
        relations, loop = self._matrices(self.W.data)
        nn.init.uniform_(relations, -bound, bound)
        if self.coeff is not None:
            nn.init.xavier_uniform_(self.coeff, gain=gain)
        if loop is not None:
            nn.init.xavier_uniform_(loop, gain=gain)
        if self.bias is not None:
            nn.init.zeros_(self.bias)

    def _matrices(self, weight: Tensor) -> tuple[Tensor, Tensor | None]:
        """Those of relations or bases, and that of the node itself."""
        return (weight[:-1], weight[-1]) if self.self_loop else (weight, None)

    def forward(
        self, g: Graph, feat: Tensor, etypes: Any, max_in_degree: int | None = None
    ) -> Tensor:
        """Returns the new features ``[num_dst, out_feat]``.

        Args:
            g: a graph with one edge type.
            feat: ``[num_src, in_feat]``; of a block the first rows are the destinations'.
            etypes: ``[num_edges]``, the relation of each edge.
            max_in_degree: taken for compatibility.
        """
        check_graph("CuGraphRelGraphConv", g)
        check_rows("CuGraphRelGraphConv", "source node", feat, g.num_src_nodes(), self.in_feat)
        types = edge_types("CuGraphRelGraphConv", g, etypes, self.num_rels)
        factor = self._factor(g, types, feat) if self.apply_norm else None
        weight, loop = self._matrices(self.W)
        result = relational_sum(g, feat, types, weight, self.coeff, factor)
        if loop is not None:
            result = result + feat[: g.num_dst_nodes()] @ loop
        if self.bias is not None:
            result = result + self.bias
        return self.dropout(result)

    def _factor(self, g: Graph, types: Tensor, feat: Tensor) -> Tensor:
        """Returns 1 by the number of edges of its type into its node, for each edge."""
        kind = g.relation().coo()[1].long() * self.num_rels + types
        counts = lengths_of(kind, g.num_dst_nodes() * self.num_rels)
        return counts[kind].double().reciprocal().to(feat.dtype).unsqueeze(-1)
