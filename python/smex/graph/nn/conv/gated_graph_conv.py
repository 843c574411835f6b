"""Gated graph convolution."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from smex.errors import SmexValueError
from smex.graph.graph import Graph
from smex.graph.nn.inputs import check_graph, check_rows
from smex.graph.nn.typed.typed_sources import (
    TypedSources,
    edge_types,
    typed_sources,
    typed_sum,
)
from smex.graph.ops.grouped import is_traced, lengths_of, segment_mm
from smex.graph.ops.kernels import aggregate


class GatedGraphConv(nn.Module):
    r"""Gated graph convolution (Li et al., ICLR'16, eq. 2 to 6).

    .. math:: h_v^{(0)} = [h_v, 0], \quad a_v^{(t)} = \sum_{(u, e) \in N(v)} W_e h_u^{(t)} + b_e,
              \quad h_v^{(t+1)} = GRU(a_v^{(t)}, h_v^{(t)})

    Args:
        in_feats: features of an input row, at most ``out_feats``.
        out_feats: features of an output row.
        n_steps: number of steps.
        n_etypes: number of edge types.
        bias: whether the GRU has biases.

    Raises:
        SmexValueError: rows that would become narrower; in :meth:`forward` features of another
            width, or no types where there are several.

    Example:
        >>> g = sg.graph(([0, 1], [1, 2]))
        >>> layer = sg.nn.GatedGraphConv(4, 5, n_steps=2, n_etypes=3)
        >>> layer(g, torch.ones(3, 4), torch.tensor([0, 2])).shape
        torch.Size([3, 5])
    """

    def __init__(
        self, in_feats: int, out_feats: int, n_steps: int, n_etypes: int, bias: bool = True
    ):
        super().__init__()
        if in_feats > out_feats:
            raise SmexValueError(
                f"GatedGraphConv: expected out_feats of at least in_feats, {in_feats}, since rows "
                f"are padded, found {out_feats}"
            )
        self._in_feats, self._out_feats = in_feats, out_feats
        self._n_steps, self._n_etypes = n_steps, n_etypes
        self.linears = nn.ModuleList(nn.Linear(out_feats, out_feats) for _ in range(n_etypes))
        self.gru = nn.GRUCell(out_feats, out_feats, bias=bias)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Glorot's normal matrices with the gain of a ReLU, zero biases, and those of the GRU."""
        gain = nn.init.calculate_gain("relu")
        self.gru.reset_parameters()
        for linear in self.linears:
            assert isinstance(linear, nn.Linear)
            nn.init.xavier_normal_(linear.weight, gain=gain)
            nn.init.zeros_(linear.bias)

    def forward(self, graph: Graph, feat: Tensor, etypes: Any = None) -> Tensor:
        """Returns the new features ``[num_nodes, out_feats]``.

        Args:
            graph: a graph of one type of nodes and edges.
            feat: ``[num_nodes, in_feats]``.
            etypes: ``[num_edges]``, the type of each edge; it may be left out where there is one.
        """
        check_graph("GatedGraphConv", graph)
        check_rows("GatedGraphConv", "node", feat, graph.num_nodes(), self._in_feats)
        sources: TypedSources | Tensor | None = None
        if self._n_etypes > 1:
            if etypes is None:
                raise SmexValueError(
                    f"GatedGraphConv: made for {self._n_etypes} edge types, expected etypes, "
                    "found None"
                )
            types = edge_types("GatedGraphConv", graph, etypes, self._n_etypes)
            sources = types if is_traced(types) else typed_sources(graph, types)
        hidden = nn.functional.pad(feat, (0, self._out_feats - self._in_feats))
        for _ in range(self._n_steps):
            hidden = self.gru(self._neighbours(graph, hidden, sources), hidden)
        return hidden

    def _neighbours(
        self, graph: Graph, hidden: Tensor, sources: TypedSources | Tensor | None
    ) -> Tensor:
        """Returns the sums of messages; traced types of edges stand for their sources."""
        if sources is None:
            return aggregate(graph.relation(), "u0", "sum", [self.linears[0](hidden)])
        linears: list[Any] = list(self.linears)
        weight = torch.stack([linear.weight.t() for linear in linears])
        bias = torch.stack([linear.bias for linear in linears])
        if isinstance(sources, Tensor):
            sums = typed_sum(graph.relation(), hidden.unsqueeze(1), weight.unsqueeze(1), sources)
            biases = aggregate(graph.relation(), "e0", "sum", [bias[sources]])
            return sums.squeeze(1) + biases
        lengths = lengths_of(sources.types, self._n_etypes)
        rows = segment_mm(hidden[sources.nodes], weight, lengths) + bias[sources.types]
        return aggregate(sources.relation, "u0", "sum", [rows])
