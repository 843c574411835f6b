"""Set transformer: attention among the nodes of each graph of a batch."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from smex.errors import SmexValueError
from smex.graph.graph import Graph
from smex.graph.nn.inputs import check_choice, check_graph, check_rows

BLOCK_TYPES = ("sab", "isab")


class _Sets:
    """Where the rows of sets of different sizes are in a grid ``[num_sets, longest]``."""

    def __init__(self, lengths: Tensor):
        longest = int(lengths.max()) if lengths.numel() else 0
        self.mask = torch.arange(longest, device=lengths.device) < lengths.unsqueeze(1)

    def pad(self, rows: Tensor) -> Tensor:
        """``[num_sets, longest, d]``, with 0 where there is no row."""
        grid = rows.new_zeros(*self.mask.shape, rows.shape[-1])
        return grid.masked_scatter(self.mask.unsqueeze(-1), rows)

    def pack(self, grid: Tensor) -> Tensor:
        """Returns the rows that there are, one after another."""
        return grid[self.mask]


class MultiHeadAttention(nn.Module):
    """Multihead attention of the rows of each set to those of another, and a feed-forward layer.

    Lee et al., ICML'19, eq. 6 and 7, with normalisation after both.
    """

    def __init__(
        self,
        d_model: int,
        num_heads: int,
        d_head: int,
        d_ff: int,
        dropouth: float = 0.0,
        dropouta: float = 0.0,
    ):
        super().__init__()
        width = num_heads * d_head
        self.num_heads, self.d_head = num_heads, d_head
        self.proj_q = nn.Linear(d_model, width, bias=False)
        self.proj_k = nn.Linear(d_model, width, bias=False)
        self.proj_v = nn.Linear(d_model, width, bias=False)
        self.proj_o = nn.Linear(width, d_model, bias=False)
        self.ffn = _feed_forward(d_model, d_ff, dropouth)
        self.dropouta = dropouta
        self.norm_in = nn.LayerNorm(d_model)
        self.norm_inter = nn.LayerNorm(d_model)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Glorot's uniform matrices."""
        for parameter in self.parameters():
            if parameter.dim() > 1:
                nn.init.xavier_uniform_(parameter)

    def forward(self, x: Tensor, memory: Tensor, of_x: _Sets, of_memory: _Sets) -> Tensor:
        """Returns the new rows of x ``[rows of x, d_model]``."""
        query, key, value = (
            sets.pad(project(rows)).unflatten(-1, (self.num_heads, self.d_head)).transpose(1, 2)
            for project, rows, sets in (
                (self.proj_q, x, of_x),
                (self.proj_k, memory, of_memory),
                (self.proj_v, memory, of_memory),
            )
        )
        mask = of_memory.mask[:, None, None]
        drop = self.dropouta if self.training else 0.0
        out = F.scaled_dot_product_attention(query, key, value, mask, drop)
        # A set that asks an empty one hears nothing.
        out = out.masked_fill(~mask.any(-1, keepdim=True), 0)
        x = self.norm_in(x + self.proj_o(of_x.pack(out.transpose(1, 2).flatten(2))))
        return self.norm_inter(x + self.ffn(x))


def _feed_forward(d_model: int, d_ff: int, dropout: float) -> nn.Sequential:
    return nn.Sequential(
        nn.Linear(d_model, d_ff), nn.ReLU(), nn.Dropout(dropout), nn.Linear(d_ff, d_model)
    )


class SetAttentionBlock(nn.Module):
    """Attention of a set to itself (Lee et al., ICML'19, eq. 8)."""

    def __init__(self, *args: Any, **dropout: Any):
        super().__init__()
        self.mha = MultiHeadAttention(*args, **dropout)

    def forward(self, feat: Tensor, sets: _Sets) -> Tensor:
        """Returns the new features of the members."""
        return self.mha(feat, feat, sets, sets)


class InducedSetAttentionBlock(nn.Module):
    """Attention through m rows that all sets share (Lee et al., ICML'19, eq. 9 and 10)."""

    def __init__(self, m: int, d_model: int, *args: Any, **dropout: Any):
        super().__init__()
        self.inducing_points = nn.Parameter(torch.empty(m, d_model))
        self.mha = nn.ModuleList(MultiHeadAttention(d_model, *args, **dropout) for _ in range(2))
        nn.init.xavier_uniform_(self.inducing_points)

    def forward(self, feat: Tensor, sets: _Sets) -> Tensor:
        """Returns the new features of the members."""
        points, of_points = _for_each_set(self.inducing_points, sets)
        memory = self.mha[0](points, feat, of_points, sets)
        return self.mha[1](feat, memory, sets, of_points)


class PMALayer(nn.Module):
    """k rows for each set, by attention of learnt rows to it (Lee et al., ICML'19, eq. 11)."""

    def __init__(self, k: int, d_model: int, heads: int, d_head: int, d_ff: int, **dropout: Any):
        super().__init__()
        self.seed_vectors = nn.Parameter(torch.empty(k, d_model))
        self.mha = MultiHeadAttention(d_model, heads, d_head, d_ff, **dropout)
        self.ffn = _feed_forward(d_model, d_ff, dropout["dropouth"])
        nn.init.xavier_uniform_(self.seed_vectors)

    def forward(self, feat: Tensor, sets: _Sets) -> tuple[Tensor, _Sets]:
        """Returns the features of what each set is pooled into, and the sets of these."""
        seeds, of_seeds = _for_each_set(self.seed_vectors, sets)
        return self.mha(seeds, self.ffn(feat), of_seeds, sets), of_seeds


def _for_each_set(rows: Tensor, sets: _Sets) -> tuple[Tensor, _Sets]:
    num_sets = sets.mask.shape[0]
    lengths = torch.full((num_sets,), rows.shape[0], device=rows.device)
    return rows.repeat(num_sets, 1), _Sets(lengths)


class SetTransformerEncoder(nn.Module):
    """Encoder of the set transformer (Lee et al., ICML'19, §3.1), a set for each graph.

    Args:
        d_model: features of a row.
        n_heads: heads.
        d_head: features of a head.
        d_ff: hidden features of the feed-forward layers.
        n_layers: number of blocks.
        block_type: ``sab``, every node to all of its graph, or ``isab``, through m points.
        m: number of points of ``isab``.
        dropouth: dropout in the feed-forward layers.
        dropouta: dropout of the attention weights.

    Raises:
        SmexValueError: an unknown block type, or ``isab`` without m; in :meth:`forward` features
            of another width.

    Example:
        >>> encoder = sg.nn.SetTransformerEncoder(4, 2, 2, 8)
        >>> encoder(sg.graph(([0, 1], [1, 2])), torch.rand(3, 4)).shape
        torch.Size([3, 4])
    """

    def __init__(
        self,
        d_model: int,
        n_heads: int,
        d_head: int,
        d_ff: int,
        n_layers: int = 1,
        block_type: str = "sab",
        m: int | None = None,
        dropouth: float = 0.0,
        dropouta: float = 0.0,
    ):
        super().__init__()
        check_choice("SetTransformerEncoder", "block_type", block_type, BLOCK_TYPES)
        self.d_model, self.n_layers, self.block_type, self.m = d_model, n_layers, block_type, m
        sizes = (d_model, n_heads, d_head, d_ff)
        dropout: dict[str, Any] = {"dropouth": dropouth, "dropouta": dropouta}
        blocks: list[nn.Module] = []
        for _ in range(n_layers):
            if block_type == "sab":
                blocks.append(SetAttentionBlock(*sizes, **dropout))
            elif m is None:
                raise SmexValueError(
                    "SetTransformerEncoder: block_type='isab' needs m, the number of points, "
                    "found None"
                )
            else:
                blocks.append(InducedSetAttentionBlock(m, *sizes, **dropout))
        self.layers = nn.ModuleList(blocks)

    def forward(self, graph: Graph, feat: Tensor) -> Tensor:
        """Returns the new features ``[num_nodes, d_model]``.

        Args:
            graph: a graph or a batch of graphs, with one node type.
            feat: ``[num_nodes, d_model]``.
        """
        check_graph("SetTransformerEncoder", graph)
        check_rows("SetTransformerEncoder", "node", feat, graph.num_nodes(), self.d_model)
        sets = _Sets(graph.batch_num_nodes().to(feat.device))
        for layer in self.layers:
            feat = layer(feat, sets)
        return feat


class SetTransformerDecoder(nn.Module):
    """Decoder of the set transformer (Lee et al., ICML'19, §3.2): k rows for each graph.

    Args:
        d_model: features of a row.
        num_heads: heads.
        d_head: features of a head.
        d_ff: hidden features of the feed-forward layers.
        n_layers: number of blocks after the pooling.
        k: number of rows that are pooled for each graph.
        dropouth: dropout in the feed-forward layers.
        dropouta: dropout of the attention weights.

    Raises:
        SmexValueError: in :meth:`forward` features of another width.

    Example:
        >>> decoder = sg.nn.SetTransformerDecoder(4, 2, 2, 8, n_layers=1, k=3)
        >>> decoder(sg.graph(([0, 1], [1, 2])), torch.rand(3, 4)).shape
        torch.Size([1, 12])
    """

    def __init__(
        self,
        d_model: int,
        num_heads: int,
        d_head: int,
        d_ff: int,
        n_layers: int,
        k: int,
        dropouth: float = 0.0,
        dropouta: float = 0.0,
    ):
        super().__init__()
        self.n_layers, self.k, self.d_model = n_layers, k, d_model
        dropout: dict[str, Any] = {"dropouth": dropouth, "dropouta": dropouta}
        self.pma = PMALayer(k, d_model, num_heads, d_head, d_ff, **dropout)
        self.layers = nn.ModuleList(
            SetAttentionBlock(d_model, num_heads, d_head, d_ff, **dropout) for _ in range(n_layers)
        )

    def forward(self, graph: Graph, feat: Tensor) -> Tensor:
        """Returns the pooled rows side by side, ``[batch_size, k * d_model]``.

        Args:
            graph: a graph or a batch of graphs, with one node type.
            feat: ``[num_nodes, d_model]``.
        """
        check_graph("SetTransformerDecoder", graph)
        check_rows("SetTransformerDecoder", "node", feat, graph.num_nodes(), self.d_model)
        pooled, sets = self.pma(feat, _Sets(graph.batch_num_nodes().to(feat.device)))
        for layer in self.layers:
            pooled = layer(pooled, sets)
        return pooled.view(-1, self.k * self.d_model)
