"""Scores of pairs of nodes."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from smex.graph.nn.inputs import check_choice
from smex.graph.ops.grouped import gather_mm

OPERATIONS = ("dot", "cos", "ele", "cat")


class EdgePredictor(nn.Module):
    r"""A score of two rows: their dot product, cosine, product by elements, or both side by side.

    Args:
        op: ``dot``, ``cos``, ``ele`` or ``cat``.
        in_feats: features of a row, where a linear layer follows.
        out_feats: features of a score, where a linear layer follows.
        bias: whether the linear layer has a bias.

    Raises:
        SmexValueError: an unknown operation.

    Example:
        >>> sg.nn.EdgePredictor("dot")(torch.ones(2, 4), torch.ones(2, 4)).flatten()
        tensor([4., 4.])
    """

    def __init__(
        self,
        op: str,
        in_feats: int | None = None,
        out_feats: int | None = None,
        bias: bool = False,
    ):
        super().__init__()
        check_choice("EdgePredictor", "op", op, OPERATIONS)
        self.op = op
        self.linear: nn.Linear | None = None
        if in_feats is not None and out_feats is not None:
            width = {"dot": 1, "cos": 1, "ele": in_feats, "cat": 2 * in_feats}[op]
            self.linear = nn.Linear(width, out_feats, bias=bias)

    def reset_parameters(self) -> None:
        """Those of the linear layer."""
        if self.linear is not None:
            self.linear.reset_parameters()

    def forward(self, h_src: Tensor, h_dst: Tensor) -> Tensor:
        """Returns the scores ``[num_pairs, *]``.

        Args:
            h_src: ``[num_pairs, features]``.
            h_dst: ``[num_pairs, features]``.
        """
        if self.op == "dot":
            score = torch.linalg.vecdot(h_src, h_dst).unsqueeze(-1)
        elif self.op == "cos":
            score = F.cosine_similarity(h_src, h_dst).unsqueeze(-1)
        elif self.op == "ele":
            score = h_src * h_dst
        else:
            score = torch.cat([h_src, h_dst], -1)
        return score if self.linear is None else self.linear(score)


class TransE(nn.Module):
    r"""Translated embeddings (Bordes et al., NeurIPS'13, §2), :math:`-\|h + r - t\|_p`.

    Args:
        num_rels: number of relations.
        feats: features of a row.
        p: of the norm.

    Example:
        >>> score = sg.nn.TransE(num_rels=2, feats=4)
        >>> score(torch.ones(3, 4), torch.ones(3, 4), torch.tensor([0, 1, 0])).shape
        torch.Size([3])
    """

    def __init__(self, num_rels: int, feats: int, p: int = 1):
        super().__init__()
        self.rel_emb = nn.Embedding(num_rels, feats)
        self.p = p

    def reset_parameters(self) -> None:
        """Normal embeddings."""
        self.rel_emb.reset_parameters()

    def forward(self, h_head: Tensor, h_tail: Tensor, rels: Tensor) -> Tensor:
        """Returns the scores ``[num_triples]``.

        Args:
            h_head: ``[num_triples, feats]``.
            h_tail: ``[num_triples, feats]``.
            rels: ``[num_triples]``, the relations.
        """
        return -torch.norm(h_head + self.rel_emb(rels) - h_tail, p=self.p, dim=-1)


class TransR(nn.Module):
    r"""Embeddings in a space for each relation (Lin et al., AAAI'15, eq. 7 and 8).

    .. math:: -\|h M_r + r - t M_r\|_p

    Args:
        num_rels: number of relations.
        rfeats: features in the relations' spaces.
        nfeats: features of a row.
        p: of the norm.

    Example:
        >>> score = sg.nn.TransR(num_rels=2, rfeats=3, nfeats=4)
        >>> score(torch.ones(3, 4), torch.ones(3, 4), torch.tensor([0, 1, 0])).shape
        torch.Size([3])
    """

    def __init__(self, num_rels: int, rfeats: int, nfeats: int, p: int = 1):
        super().__init__()
        self.rel_emb = nn.Embedding(num_rels, rfeats)
        self.rel_project = nn.Embedding(num_rels, nfeats * rfeats)
        self.rfeats, self.nfeats, self.p = rfeats, nfeats, p

    def reset_parameters(self) -> None:
        """Normal embeddings and matrices."""
        self.rel_emb.reset_parameters()
        self.rel_project.reset_parameters()

    def forward(self, h_head: Tensor, h_tail: Tensor, rels: Tensor) -> Tensor:
        """Returns the scores ``[num_triples]``.

        Args:
            h_head: ``[num_triples, nfeats]``.
            h_tail: ``[num_triples, nfeats]``.
            rels: ``[num_triples]``, the relations.
        """
        matrices = self.rel_project.weight.view(-1, self.nfeats, self.rfeats)
        translated = gather_mm(h_head - h_tail, matrices, idx_b=rels) + self.rel_emb(rels)
        return -torch.norm(translated, p=self.p, dim=-1)
