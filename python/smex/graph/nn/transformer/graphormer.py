"""Graph transformer layers on padded batches."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from smex.errors import SmexValueError
from smex.graph.nn.inputs import check_choice

BIAS_TYPES = ("add", "mul")


class BiasedMHA(nn.Module):
    r"""Multihead attention with a bias for each pair of nodes (Ying et al., NeurIPS'21, eq. 6).

    .. math:: softmax\left(\frac{Q K^T}{\sqrt{d}} \circ b\right) V

    Args:
        feat_size: features of a row.
        num_heads: heads.
        bias: whether the projections have biases.
        attn_bias_type: ``add`` or ``mul``: what ∘ is.
        attn_drop: dropout of the attention weights.

    Raises:
        SmexValueError: an unknown type of bias, or a size that ``num_heads`` does not divide.

    Example:
        >>> layer = sg.nn.BiasedMHA(8, num_heads=2)
        >>> layer(torch.rand(5, 3, 8), torch.rand(5, 3, 3, 2)).shape
        torch.Size([5, 3, 8])
    """

    def __init__(
        self,
        feat_size: int,
        num_heads: int,
        bias: bool = True,
        attn_bias_type: str = "add",
        attn_drop: float = 0.1,
    ):
        super().__init__()
        check_choice("BiasedMHA", "attn_bias_type", attn_bias_type, BIAS_TYPES)
        if feat_size % num_heads:
            raise SmexValueError(
                f"BiasedMHA: num_heads must divide feat_size, found {num_heads} and {feat_size}"
            )
        self.feat_size, self.num_heads = feat_size, num_heads
        self.attn_bias_type = attn_bias_type
        self.q_proj = nn.Linear(feat_size, feat_size, bias=bias)
        self.k_proj = nn.Linear(feat_size, feat_size, bias=bias)
        self.v_proj = nn.Linear(feat_size, feat_size, bias=bias)
        self.out_proj = nn.Linear(feat_size, feat_size, bias=bias)
        self.dropout = nn.Dropout(attn_drop)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Glorot's uniform matrices, those of queries, keys and values with gain 1/√2."""
        for linear in (self.q_proj, self.k_proj, self.v_proj):
            nn.init.xavier_uniform_(linear.weight, gain=2**-0.5)
        nn.init.xavier_uniform_(self.out_proj.weight)
        if self.out_proj.bias is not None:
            nn.init.zeros_(self.out_proj.bias)

    def forward(
        self, ndata: Tensor, attn_bias: Tensor | None = None, attn_mask: Tensor | None = None
    ) -> Tensor:
        """Returns the new features ``[batch, nodes, feat_size]``.

        Args:
            ndata: ``[batch, nodes, feat_size]``.
            attn_bias: ``[batch, nodes, nodes, num_heads]``, b.
            attn_mask: ``[batch, nodes, nodes]``, True where a node (dimension 1) must not look; it
                has to look at one at least.
        """
        heads = (self.num_heads, -1)
        query, key, value = (
            project(ndata).unflatten(-1, heads).transpose(1, 2)
            for project in (self.q_proj, self.k_proj, self.v_proj)
        )
        bias = None if attn_bias is None else attn_bias.permute(0, 3, 1, 2).to(query.dtype)
        hidden = None if attn_mask is None else attn_mask.bool().unsqueeze(1)
        drop = self.dropout.p if self.training else 0.0
        if bias is None or self.attn_bias_type == "add":
            if hidden is not None:
                bias = query.new_zeros(hidden.shape) if bias is None else bias
                bias = bias.masked_fill(hidden, -torch.inf)
            mixed = F.scaled_dot_product_attention(query, key, value, bias, drop)
        else:
            score = query @ key.transpose(-1, -2) * key.shape[-1] ** -0.5 * bias
            if hidden is not None:
                score = score.masked_fill(hidden, -torch.inf)
            mixed = F.dropout(score.softmax(-1).to(value.dtype), drop) @ value
        return self.out_proj(mixed.transpose(1, 2).flatten(2))


class GraphormerLayer(nn.Module):
    """A layer of Graphormer (Ying et al., NeurIPS'21, eq. 8 and 9): attention, then feed-forward.

    Args:
        feat_size: features of a row.
        hidden_size: hidden features of the feed-forward layers.
        num_heads: heads.
        attn_bias_type: ``add`` or ``mul``, see :class:`BiasedMHA`.
        norm_first: whether rows are normalised before both parts, not after them.
        dropout: of both parts' results.
        attn_dropout: dropout of the attention weights.
        activation: of the feed-forward layers; a ReLU where it is None.

    Raises:
        SmexValueError: as :class:`BiasedMHA`.

    Example:
        >>> layer = sg.nn.GraphormerLayer(8, 16, num_heads=2)
        >>> layer(torch.rand(5, 3, 8), torch.rand(5, 3, 3, 2)).shape
        torch.Size([5, 3, 8])
    """

    def __init__(
        self,
        feat_size: int,
        hidden_size: int,
        num_heads: int,
        attn_bias_type: str = "add",
        norm_first: bool = False,
        dropout: float = 0.1,
        attn_dropout: float = 0.1,
        activation: nn.Module | None = None,
    ):
        super().__init__()
        self.norm_first = norm_first
        self.attn = BiasedMHA(
            feat_size, num_heads, attn_bias_type=attn_bias_type, attn_drop=attn_dropout
        )
        self.ffn = nn.Sequential(
            nn.Linear(feat_size, hidden_size),
            nn.ReLU() if activation is None else activation,
            nn.Dropout(dropout),
            nn.Linear(hidden_size, feat_size),
            nn.Dropout(dropout),
        )
        self.dropout = nn.Dropout(dropout)
        self.attn_layer_norm = nn.LayerNorm(feat_size)
        self.ffn_layer_norm = nn.LayerNorm(feat_size)

    def forward(
        self, nfeat: Tensor, attn_bias: Tensor | None = None, attn_mask: Tensor | None = None
    ) -> Tensor:
        """Returns the new features ``[batch, nodes, feat_size]``.

        Arguments as of :class:`BiasedMHA`.
        """
        if self.norm_first:
            attended = self.attn(self.attn_layer_norm(nfeat), attn_bias, attn_mask)
            nfeat = nfeat + self.dropout(attended)
            return nfeat + self.ffn(self.ffn_layer_norm(nfeat))
        attended = self.attn(nfeat, attn_bias, attn_mask)
        nfeat = self.attn_layer_norm(nfeat + self.dropout(attended))
        return self.ffn_layer_norm(nfeat + self.ffn(nfeat))
