"""Edge-augmented graph transformer."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from smex.errors import SmexValueError
from smex.graph.words import describe

BOUND = 5.0
"""Scores of attention are cut off beyond, so that pairs can outweigh them (§3.2)."""


class EGTLayer(nn.Module):
    r"""Edge-augmented graph transformer (Hussain et al., KDD'22, §3.2).

    .. math:: s_{uv} = clip(Q_u \cdot K_v) + E_{uv}, \quad
              a_{uv} = softmax_v(s_{uv}) \, \sigma(G_{uv}), \quad
              h_u' = h_u + O \left(\log\left(1 + \sum_v \sigma(G_{uv})\right)
              \sum_v a_{uv} V_v\right), \quad
              e_{uv}' = e_{uv} + O_e s_{uv}

    for every head, with Q, K and V of normalised nodes' features and E and G of normalised pairs';
    then feed-forward layers on each. Virtual nodes are not scaled by the logarithm. As in DGL,
    scores are not divided by the root of a head's width.

    Args:
        feat_size: features of a node.
        edge_feat_size: features of a pair.
        num_heads: heads.
        num_virtual_nodes: how many of the first nodes are virtual.
        dropout: of all results.
        attn_dropout: of the attention weights.
        activation: of the feed-forward layers; an ELU where it is None.
        edge_update: whether pairs get new features.

    Raises:
        SmexValueError: ``num_heads`` does not divide ``feat_size``; in :meth:`forward` features of
            other shapes.

    Example:
        >>> layer = sg.nn.EGTLayer(8, 4, num_heads=2, num_virtual_nodes=1)
        >>> nodes, pairs = layer(torch.rand(5, 3, 8), torch.rand(5, 3, 3, 4))
        >>> nodes.shape, pairs.shape
        (torch.Size([5, 3, 8]), torch.Size([5, 3, 3, 4]))
    """

    def __init__(
        self,
        feat_size: int,
        edge_feat_size: int,
        num_heads: int,
        num_virtual_nodes: int,
        dropout: float = 0,
        attn_dropout: float = 0,
        activation: nn.Module | None = None,
        edge_update: bool = True,
    ):
        super().__init__()
        if feat_size % num_heads:
            raise SmexValueError(
                f"EGTLayer: num_heads must divide feat_size, found {num_heads} and {feat_size}"
            )
        self.feat_size, self.edge_feat_size = feat_size, edge_feat_size
        self.num_heads, self.dot_dim = num_heads, feat_size // num_heads
        self.num_virtual_nodes, self.edge_update = num_virtual_nodes, edge_update
        activation = nn.ELU() if activation is None else activation
        self.mha_ln_h = nn.LayerNorm(feat_size)
        self.mha_ln_e = nn.LayerNorm(edge_feat_size)
        self.edge_input = nn.Linear(edge_feat_size, num_heads)
        self.qkv_proj = nn.Linear(feat_size, feat_size * 3)
        self.gate = nn.Linear(edge_feat_size, num_heads)
        self.attn_dropout = nn.Dropout(attn_dropout)
        self.node_output = nn.Linear(feat_size, feat_size)
        self.mha_dropout_h = nn.Dropout(dropout)
        self.node_ffn = _feed_forward(feat_size, activation, dropout)
        if edge_update:
            self.edge_output = nn.Linear(num_heads, edge_feat_size)
            self.mha_dropout_e = nn.Dropout(dropout)
            self.edge_ffn = _feed_forward(edge_feat_size, activation, dropout)

    def forward(
        self, nfeat: Tensor, efeat: Tensor, mask: Tensor | None = None
    ) -> Tensor | tuple[Tensor, Tensor]:
        """Returns the new features of nodes, or with ``edge_update`` of nodes and pairs.

        Args:
            nfeat: ``[batch, nodes, feat_size]``, virtual nodes first.
            efeat: ``[batch, nodes, nodes, edge_feat_size]``.
            mask: ``[batch, nodes, nodes]``, 0 where a node (dimension 1) looks, and ``-inf`` where
                it must not; it has to look at one at least.
        """
        self._check(nfeat, efeat)
        pairs = self.mha_ln_e(efeat)
        # The heads of a row stand innermost, as in DGL.
        qkv = self.qkv_proj(self.mha_ln_h(nfeat)).unflatten(-1, (3, self.dot_dim, self.num_heads))
        query, key, value = qkv.unbind(2)
        score = torch.einsum("budh,bvdh->buvh", query, key).clamp(-BOUND, BOUND)
        score = score + self.edge_input(pairs)
        gate, seen = self.gate(pairs), score
        if mask is not None:
            gate, seen = gate + mask.unsqueeze(-1), score + mask.unsqueeze(-1)
        gate = gate.sigmoid()
        weight = self.attn_dropout(seen.softmax(2) * gate)
        mixed = torch.einsum("buvh,bvdh->budh", weight, value)
        scale = (1 + gate.sum(2)).log()  # [batch, nodes, heads]
        virtual = torch.arange(nfeat.shape[1], device=nfeat.device) < self.num_virtual_nodes
        scale = scale.masked_fill(virtual.view(1, -1, 1), 1)
        mixed = (mixed * scale.unsqueeze(2)).flatten(2)
        nfeat = nfeat + self.mha_dropout_h(self.node_output(mixed))
        nfeat = nfeat + self.node_ffn(nfeat)
        if not self.edge_update:
            return nfeat
        efeat = efeat + self.mha_dropout_e(self.edge_output(score))
        return nfeat, efeat + self.edge_ffn(efeat)

    def _check(self, nfeat: Tensor, efeat: Tensor) -> None:
        pairs = (*nfeat.shape[:2], *nfeat.shape[1:2], self.edge_feat_size)
        if nfeat.dim() != 3 or nfeat.shape[2] != self.feat_size or efeat.shape != pairs:
            raise SmexValueError(
                f"EGTLayer: expected nodes [batch, nodes, {self.feat_size}] and pairs [batch, "
                f"nodes, nodes, {self.edge_feat_size}], found {describe(nfeat)} and "
                f"{describe(efeat)}"
            )


def _feed_forward(size: int, activation: nn.Module, dropout: float) -> nn.Sequential:
    return nn.Sequential(
        nn.LayerNorm(size),
        nn.Linear(size, size),
        activation,
        nn.Linear(size, size),
        nn.Dropout(dropout),
    )
