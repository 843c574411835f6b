"""Layers on adjacency matrices."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from smex.errors import SmexValueError
from smex.graph.nn.inputs import check_choice, check_rows
from smex.graph.words import describe

NORMS = ("none", "both", "right")


def _ends(layer: str, adj: Tensor, feat: Any, width: int) -> tuple[Tensor, Tensor, Tensor]:
    """Returns the matrix in the features' dtype, and the rows of sources and of destinations."""
    source, own = feat if isinstance(feat, tuple) else (feat, feat)
    if adj.dim() != 2:
        raise SmexValueError(
            f"{layer}: expected an adjacency matrix [num_dst, num_src], found {describe(adj)}"
        )
    check_rows(layer, "source node", source, adj.shape[1], width)
    check_rows(layer, "destination node", own, adj.shape[0], width)
    return adj.to(source), source, own


class DenseGraphConv(nn.Module):
    r"""Graph convolution on an adjacency matrix, see :class:`GraphConv`.

    .. math:: H' = D_{dst}^{-1/2} A D_{src}^{-1/2} H W + b

    Args:
        in_feats: features of an input row.
        out_feats: features of an output row.
        norm: ``both``, ``right`` (divide by the row sums of A) or ``none``.
        bias: whether there is a bias b.
        activation: applied to the result.

    Raises:
        SmexValueError: an unknown ``norm``; in :meth:`forward` features that do not fit.

    Example:
        >>> sg.nn.DenseGraphConv(4, 2)(torch.eye(3), torch.ones(3, 4)).shape
        torch.Size([3, 2])
    """

    def __init__(
        self,
        in_feats: int,
        out_feats: int,
        norm: str = "both",
        bias: bool = True,
        activation: Callable[[Tensor], Tensor] | None = None,
    ):
        super().__init__()
        check_choice("DenseGraphConv", "norm", norm, NORMS)
        self._in_feats, self._out_feats, self._norm = in_feats, out_feats, norm
        self.weight = nn.Parameter(torch.empty(in_feats, out_feats))
        self.bias = nn.Parameter(torch.empty(out_feats)) if bias else None
        self._activation = activation
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Glorot's uniform weights and a zero bias."""
        nn.init.xavier_uniform_(self.weight)
        if self.bias is not None:
            nn.init.zeros_(self.bias)

    def forward(self, adj: Tensor, feat: Any) -> Tensor:
        """Returns the convolved features ``[num_dst, out_feats]``.

        Args:
            adj: ``[num_dst, num_src]``.
            feat: ``[num_src, in_feats]``, or a pair, of which the first counts.
        """
        source = feat[0] if isinstance(feat, tuple) else feat
        check_rows("DenseGraphConv", "source node", source, adj.shape[-1], self._in_feats)
        adj = adj.to(source)
        ins = adj.sum(1, keepdim=True).clamp(min=1)
        if self._norm == "both":
            adj = adj * ins**-0.5 * adj.sum(0).clamp(min=1) ** -0.5
        elif self._norm == "right":
            adj = adj / ins
        narrower = self._in_feats > self._out_feats
        result = adj @ (source @ self.weight) if narrower else (adj @ source) @ self.weight
        if self.bias is not None:
            result = result + self.bias
        return result if self._activation is None else self._activation(result)


class DenseSAGEConv(nn.Module):
    r"""GraphSAGE with ``gcn`` on an adjacency matrix, see :class:`SAGEConv`.

    .. math:: H' = W (D + I)^{-1} (A + I) H + b

    Args:
        in_feats: features of an input row.
        out_feats: features of an output row.
        feat_drop: dropout of the input rows.
        bias: whether there is a bias b.
        norm: applied to the result, after the activation.
        activation: applied to the result.

    Raises:
        SmexValueError: in :meth:`forward` a matrix or features that do not fit.

    Example:
        >>> sg.nn.DenseSAGEConv(4, 2)(torch.eye(3), torch.ones(3, 4)).shape
        torch.Size([3, 2])
    """

    def __init__(
        self,
        in_feats: int,
        out_feats: int,
        feat_drop: float = 0.0,
        bias: bool = True,
        norm: Callable[[Tensor], Tensor] | None = None,
        activation: Callable[[Tensor], Tensor] | None = None,
    ):
        super().__init__()
        self.feat_drop = nn.Dropout(feat_drop)
        self.fc = nn.Linear(in_feats, out_feats, bias=bias)
        self._norm, self._activation = norm, activation
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Glorot's uniform weights with the gain of a ReLU."""
        nn.init.xavier_uniform_(self.fc.weight, gain=nn.init.calculate_gain("relu"))

    def forward(self, adj: Tensor, feat: Any) -> Tensor:
        """Returns the new features ``[num_dst, out_feats]``.

        Args:
            adj: ``[num_dst, num_src]``.
            feat: ``[num_nodes, in_feats]``, or a pair for sources and destinations.
        """
        adj, source, own = _ends("DenseSAGEConv", adj, feat, self.fc.in_features)
        if own is source:
            source = own = self.feat_drop(source)
        else:
            source, own = self.feat_drop(source), self.feat_drop(own)
        result = self.fc((adj @ source + own) / (adj.sum(1, keepdim=True) + 1))
        if self._activation is not None:
            result = self._activation(result)
        return result if self._norm is None else self._norm(result)


class DenseChebConv(nn.Module):
    r"""Chebyshev convolution on an adjacency matrix, see :class:`ChebConv`.

    Args:
        in_feats: features of an input row.
        out_feats: features of an output row.
        k: number of terms.
        bias: whether there is a bias.

    Raises:
        SmexValueError: in :meth:`forward` a matrix or features that do not fit.

    Example:
        >>> sg.nn.DenseChebConv(4, 2, k=3)(torch.ones(3, 3), torch.ones(3, 4)).shape
        torch.Size([3, 2])
    """

    def __init__(self, in_feats: int, out_feats: int, k: int, bias: bool = True):
        super().__init__()
        self._in_feats, self._out_feats, self._k = in_feats, out_feats, k
        self.W = nn.Parameter(torch.empty(k, in_feats, out_feats))
        self.bias = nn.Parameter(torch.empty(out_feats)) if bias else None
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Glorot's normal matrices with the gain of a ReLU, and a zero bias."""
        gain = nn.init.calculate_gain("relu")
        for i in range(self._k):
            nn.init.xavier_normal_(self.W[i], gain=gain)
        if self.bias is not None:
            nn.init.zeros_(self.bias)

    def forward(self, adj: Tensor, feat: Tensor, lambda_max: float | None = None) -> Tensor:
        """Returns the new features ``[num_nodes, out_feats]``.

        Args:
            adj: ``[num_nodes, num_nodes]``.
            feat: ``[num_nodes, in_feats]``.
            lambda_max: the largest eigenvalue of the normalised Laplacian; computed where None.
        """
        adj, feat, _ = _ends("DenseChebConv", adj, feat, self._in_feats)
        scale = adj.sum(1).clamp(min=1) ** -0.5
        eye = torch.eye(adj.shape[0], dtype=adj.dtype, device=adj.device)
        laplacian = eye - scale.unsqueeze(1) * adj * scale
        if lambda_max is None:
            with torch.no_grad():
                wide = laplacian.to(torch.promote_types(laplacian.dtype, torch.float32))
                lambda_max = float(torch.linalg.eigvals(wide).real.max())
        laplacian = 2 * laplacian / lambda_max - eye
        terms = [feat]
        for i in range(1, self._k):
            product = laplacian @ terms[-1]
            terms.append(product if i == 1 else 2 * product - terms[-2])
        result = torch.einsum("kni,kio->no", torch.stack(terms), self.W.to(terms[0].dtype))
        return result if self.bias is None else result + self.bias
