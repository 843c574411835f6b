"""Heterogeneous graph transformer."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor, nn

from smex.graph.graph import Graph
from smex.graph.nn.inputs import check_graph, check_rows, check_types
from smex.graph.nn.typed.typed_linear import TypedLinear
from smex.graph.nn.typed.typed_sources import (
    edge_types,
    typed_dots,
    typed_sources,
    typed_sum,
)
from smex.graph.ops.attention import attend
from smex.graph.ops.grouped import is_traced
from smex.graph.ops.kernels import aggregate, softmax_over_edges
from smex.graph.udf import EdgeBatch, is_replaced


class HGTConv(nn.Module):
    r"""Heterogeneous graph transformer (Hu et al., WWW'20, eq. 3 to 5).

    .. math:: a_{uv} = softmax_u\left(\frac{\mu_e}{\sqrt{d}} (K_{t(u)} h_u W^{ATT}_e) \cdot
              (Q_{t(v)} h_v)\right), \quad
              m_v = \sum_{u \in N(v)} a_{uv} V_{t(u)} h_u W^{MSG}_e

    for every head, and :math:`h_v' = s A_{t(v)} m_v + (1 - s) h_v` with
    :math:`s = \sigma(skip_{t(v)})`. Runs as one kernel; keys and values are projected once for
    each edge type that a node sends along, not once for each edge.

    Args:
        in_size: features of an input row.
        head_size: features of each head of an output row.
        num_heads: heads.
        num_ntypes: number of node types.
        num_etypes: number of edge types.
        dropout: of what the neighbours bring.
        use_norm: whether the result is normalised.

    Raises:
        SmexValueError: in :meth:`forward` features of another width, or types that do not exist.

    Example:
        >>> g = sg.graph(([0, 1], [1, 2]))
        >>> layer = sg.nn.HGTConv(4, 2, num_heads=3, num_ntypes=2, num_etypes=2)
        >>> layer(g, torch.ones(3, 4), torch.tensor([0, 1, 1]), torch.tensor([0, 1])).shape
        torch.Size([3, 6])
    """

    def __init__(
        self,
        in_size: int,
        head_size: int,
        num_heads: int,
        num_ntypes: int,
        num_etypes: int,
        dropout: float = 0.2,
        use_norm: bool = False,
    ):
        super().__init__()
        self.in_size, self.head_size, self.num_heads = in_size, head_size, num_heads
        self.use_norm = use_norm
        width = head_size * num_heads
        self.linear_k = TypedLinear(in_size, width, num_ntypes)
        self.linear_q = TypedLinear(in_size, width, num_ntypes)
        self.linear_v = TypedLinear(in_size, width, num_ntypes)
        self.linear_a = TypedLinear(width, width, num_ntypes)
        heads = range(num_heads)
        self.relation_pri = nn.ParameterList(torch.ones(num_etypes) for _ in heads)
        self.relation_att = nn.ModuleList(
            TypedLinear(head_size, head_size, num_etypes) for _ in heads
        )
        self.relation_msg = nn.ModuleList(
            TypedLinear(head_size, head_size, num_etypes) for _ in heads
        )
        self.skip = nn.Parameter(torch.ones(num_ntypes))
        self.drop = nn.Dropout(dropout)
        self.presorted = False
        if use_norm:
            self.norm = nn.LayerNorm(width)
        if in_size != width:
            self.residual_w = nn.Parameter(torch.empty(in_size, width))
            nn.init.xavier_uniform_(self.residual_w)

    def forward(
        self, g: Graph, x: Tensor, ntype: Any, etype: Any, *, presorted: bool = False
    ) -> Tensor:
        """Returns the new features ``[num_dst, num_heads * head_size]``.

        Args:
            g: a graph with one edge type.
            x: ``[num_src, in_size]``.
            ntype: ``[num_src]``, the type of each node.
            etype: ``[num_edges]``, the type of each edge.
            presorted: whether nodes and edges are in the order of types, so that rows of nodes
                need not move.
        """
        check_graph("HGTConv", g)
        check_rows("HGTConv", "source node", x, g.num_src_nodes(), self.in_size)
        ntype = torch.as_tensor(ntype, device=x.device)
        check_types("HGTConv", "ntype", ntype, x.shape[0], len(self.skip))
        own, own_type = x[: g.num_dst_nodes()], ntype[: g.num_dst_nodes()]
        # The first of sorted nodes are sorted too.
        mean = self._neighbours(g, x, own, ntype, own_type, etype, presorted)
        result = self.drop(self.linear_a(mean, own_type, presorted))
        share = torch.sigmoid(self.skip[own_type]).unsqueeze(-1)
        if self.in_size != self.head_size * self.num_heads:
            own = own @ self.residual_w
        result = result * share + own * (1 - share)
        return self.norm(result) if self.use_norm else result

    def message(self, edges: EdgeBatch) -> dict[str, Tensor]:
        """Returns scores ``a`` and messages ``m`` by head, of ``k``, ``v``, ``q`` and ``etype``.

        Kernels take its place; that of a subclass is called.
        """
        etype, scores, messages = edges.data["etype"], [], []
        ends = (edges.src["k"], edges.dst["q"], edges.src["v"])
        for head, (key, query, value) in enumerate(zip(*(rows.unbind(1) for rows in ends))):
            projected = self.relation_att[head](key, etype, self.presorted)
            prior = self.relation_pri[head][etype] / math.sqrt(self.head_size)
            scores.append((projected * query).sum(-1) * prior)
            messages.append(self.relation_msg[head](value, etype, self.presorted))
        return {"a": torch.stack(scores, 1), "m": torch.stack(messages, 1)}

    def _neighbours(
        self,
        g: Graph,
        x: Tensor,
        own: Tensor,
        ntype: Tensor,
        own_type: Tensor,
        etype: Any,
        presorted: bool,
    ) -> Tensor:
        """Returns the attention-weighted mean of messages, ``[num_dst, heads * size]``."""
        heads = (self.num_heads, self.head_size)
        key = self.linear_k(x, ntype, presorted).unflatten(-1, heads)
        value = self.linear_v(x, ntype, presorted).unflatten(-1, heads)
        query = self.linear_q(own, own_type, presorted).unflatten(-1, heads)
        types = edge_types("HGTConv", g, etype, self.relation_pri[0].shape[0])
        if is_replaced(self.message, HGTConv.message):
            self.presorted = presorted
            with g.local_scope():
                g.srcdata["k"], g.srcdata["v"], g.dstdata["q"] = key, value, query
                g.edata["etype"] = types
                g.apply_edges(self.message)
                share = softmax_over_edges(g.relation(), g.edata["a"]).unsqueeze(-1)
                return aggregate(g.relation(), "e0", "sum", [g.edata["m"] * share]).flatten(1)
        prior = torch.stack(list(self.relation_pri), 1) / math.sqrt(self.head_size)
        if is_traced(types):
            attention, message = map(_of_heads, (self.relation_att, self.relation_msg))
            score = typed_dots(g.relation(), key, attention, query, types) * prior[types]
            share = softmax_over_edges(g.relation(), score)
            return typed_sum(g.relation(), value, message, types, share).flatten(1)
        sources = typed_sources(g, types)

        def project(rows: Tensor, linears: nn.ModuleList) -> Tensor:
            parts = rows[sources.nodes].unbind(1)
            projected = (f(part, sources.types, True) for f, part in zip(linears, parts))
            return torch.stack(list(projected), 1)

        key = project(key, self.relation_att) * prior[sources.types].unsqueeze(-1)
        value = project(value, self.relation_msg)
        return attend(sources.relation, "dot(u0, v1)", [key, query], value).flatten(1)


def _of_heads(linears: nn.ModuleList) -> Tensor:
    """Returns the matrices of all heads, ``[num_types, heads, in_size, out_size]``."""
    weights: list[Any] = list(linears)
    return torch.stack([linear.W for linear in weights], 1)
