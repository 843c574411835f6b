"""Relational graph convolution."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from smex.graph import function as fn
from smex.graph.graph import Graph
from smex.graph.nn.inputs import check_graph, check_rows, edge_factor
from smex.graph.nn.typed.typed_linear import TypedLinear
from smex.graph.nn.typed.typed_sources import edge_types, typed_sources, typed_sum
from smex.graph.ops.grouped import is_traced, lengths_of, segment_mm
from smex.graph.ops.kernels import aggregate
from smex.graph.structure.relation import Relation
from smex.graph.udf import EdgeBatch, is_replaced


class RelGraphConv(nn.Module):
    r"""Relational graph convolution (Schlichtkrull et al., ESWC'18, eq. 2).

    .. math:: h_v' = W_0^T h_v + b + \sum_{(u, r) \in N(v)} c_{uv} W_r^T h_u

    A row is projected once for each relation that its node sends along, not once for each edge;
    with ``basis`` once for each basis.

    Args:
        in_feat: features of an input row.
        out_feat: features of an output row.
        num_rels: number of relations, that is of edge types.
        regularizer: of the matrices W_r: None, ``basis`` or ``bdd``, see :class:`TypedLinear`.
        num_bases: number of bases or blocks, ``num_rels`` where it is None.
        bias: whether there is a bias b.
        activation: applied to the result.
        self_loop: whether there is a matrix W_0.
        dropout: of the result.
        layer_norm: whether what the neighbours bring is normalised.

    Raises:
        SmexValueError: as :class:`TypedLinear`; in :meth:`forward` features of another width, or
            types that are not one of ``num_rels`` for each edge.

    Example:
        >>> g = sg.graph(([0, 1], [1, 2]))
        >>> sg.nn.RelGraphConv(4, 2, 3)(g, torch.ones(3, 4), torch.tensor([0, 2])).shape
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
        activation: Callable[[Tensor], Tensor] | None = None,
        self_loop: bool = True,
        dropout: float = 0.0,
        layer_norm: bool = False,
    ):
        super().__init__()
        if regularizer is not None and num_bases is None:
            num_bases = num_rels
        self.linear_r = TypedLinear(in_feat, out_feat, num_rels, regularizer, num_bases)
        self.bias, self.self_loop, self.layer_norm = bias, self_loop, layer_norm
        self.activation = activation
        if bias:
            self.h_bias = nn.Parameter(torch.empty(out_feat))
        if layer_norm:
            self.layer_norm_weight = nn.LayerNorm(out_feat)
        if self_loop:
            self.loop_weight = nn.Parameter(torch.empty(in_feat, out_feat))
        self.dropout = nn.Dropout(dropout)
        self.presorted = False
        self._reset_own_parameters()

    def reset_parameters(self) -> None:
        """Those of :class:`TypedLinear`, a zero bias and Glorot's uniform W_0."""
        self.linear_r.reset_parameters()
        self._reset_own_parameters()

    def _reset_own_parameters(self) -> None:
        if self.bias:
            nn.init.zeros_(self.h_bias)
        if self.layer_norm:
            self.layer_norm_weight.reset_parameters()
        if self.self_loop:
            gain = nn.init.calculate_gain("relu")
            nn.init.xavier_uniform_(self.loop_weight, gain=gain)

    def forward(
        self,
        g: Graph,
        feat: Tensor,
        etypes: Any,
        norm: Tensor | None = None,
        *,
        presorted: bool = False,
    ) -> Tensor:
        """Returns the new features ``[num_dst, out_feat]``.

        Args:
            g: a graph with one edge type.
            feat: ``[num_src, in_feat]``.
            etypes: ``[num_edges]``, the relation of each edge.
            norm: ``[num_edges]`` or ``[num_edges, 1]``, c.
            presorted: whether edges are in the order of relations; it changes nothing here.
        """
        check_graph("RelGraphConv", g)
        check_rows("RelGraphConv", "source node", feat, g.num_src_nodes(), self.linear_r.in_size)
        types = edge_types("RelGraphConv", g, etypes, self.linear_r.num_types)
        factor = None if norm is None else edge_factor("RelGraphConv", g, norm, feat)
        if is_replaced(self.message, RelGraphConv.message):
            self.presorted = presorted
            with g.local_scope():
                g.srcdata["h"], g.edata["etype"] = feat, types
                if factor is not None:
                    g.edata["norm"] = factor.view(-1, 1)
                g.update_all(self.message, fn.sum("m", "h"))
                result = g.dstdata["h"]
        else:
            result = self._neighbours(g, feat, types, factor)
        if self.layer_norm:
            result = self.layer_norm_weight(result)
        if self.bias:
            result = result + self.h_bias
        if self.self_loop:
            result = result + feat[: g.num_dst_nodes()] @ self.loop_weight
        if self.activation is not None:
            result = self.activation(result)
        return self.dropout(result)

    def message(self, edges: EdgeBatch) -> dict[str, Tensor]:
        """Returns the messages as ``m``, of sources' ``h`` and edges' ``etype`` and ``norm``.

        Kernels take its place; that of a subclass is called.
        """
        rows = self.linear_r(edges.src["h"], edges.data["etype"], self.presorted)
        return {"m": rows * edges.data["norm"] if "norm" in edges.data else rows}

    def _neighbours(self, g: Graph, feat: Tensor, types: Tensor, factor: Tensor | None) -> Tensor:
        linear = self.linear_r
        if linear.regularizer != "bdd":
            coeff = linear.coeff if linear.regularizer == "basis" else None
            return relational_sum(g, feat, types, linear.W, coeff, factor)
        if is_traced(types):
            width, size = linear.submat_in, linear.submat_out
            rows = feat.reshape(feat.shape[0], linear.num_bases, width)
            weight = linear.W.view(linear.num_types, linear.num_bases, width, size)
            return typed_sum(g.relation(), rows, weight, types, factor).flatten(1)
        sources = typed_sources(g, types)
        rows = linear(feat[sources.nodes], sources.types, sorted_by_type=True)
        return _sum_of_pairs(sources.relation, rows, factor)


def relational_sum(
    g: Graph,
    feat: Tensor,
    types: Tensor,
    weight: Tensor,
    coeff: Tensor | None = None,
    factor: Tensor | None = None,
) -> Tensor:
    """Returns the sums of sources' rows times the matrices of their edges' types.

    Args:
        g: a graph with one edge type.
        feat: ``[num_src, in_feat]``.
        types: ``[num_edges]``, the relation of each edge.
        weight: ``[num_rels, in_feat, out_feat]``, or with `coeff` ``[num_bases, ...]``.
        coeff: ``[num_rels, num_bases]``, what each matrix is a sum of.
        factor: ``[num_edges, 1]``, of the messages.

    Returns:
        ``[num_dst, out_feat]``.
    """
    if coeff is not None:
        # For each basis the sum of rows times coefficients, [num_dst, bases, in_feat].
        of_edge = coeff[types].unsqueeze(-1)
        of_edge = of_edge if factor is None else of_edge * factor.unsqueeze(-1)
        sums = aggregate(g.relation(), "u0 * e1", "sum", [feat.unsqueeze(1), of_edge])
        return torch.einsum("vbi,bio->vo", sums, weight)
    if is_traced(types):
        rows, matrices = feat.unsqueeze(1), weight.unsqueeze(1)
        return typed_sum(g.relation(), rows, matrices, types, factor).flatten(1)
    sources = typed_sources(g, types)
    lengths = lengths_of(sources.types, weight.shape[0])
    return _sum_of_pairs(sources.relation, segment_mm(feat[sources.nodes], weight, lengths), factor)


def _sum_of_pairs(relation: Relation, rows: Tensor, factor: Tensor | None) -> Tensor:
    if factor is None:
        return aggregate(relation, "u0", "sum", [rows])
    return aggregate(relation, "u0 * e1", "sum", [rows, factor])
