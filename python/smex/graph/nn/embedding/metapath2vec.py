"""Embeddings of a heterograph's nodes by walks along a metapath."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from smex.errors import SmexValueError
from smex.graph.graph import Graph
from smex.graph.sampling import random_walk

LARGEST_SCORE = 10.0


class MetaPath2Vec(nn.Module):
    r"""metapath2vec (Dong et al., KDD'17, §3.2) with negative samples of all types.

    .. math:: -\log\sigma(z_u \cdot c_v) - \sum_{n} \log\sigma(-z_u \cdot c_n)

    on average over pairs (u, v) that are near each other on a walk along the metapath, with
    ``negative_size`` random nodes n for each, drawn with probabilities by how often walks visit
    them, to the power of 3/4.

    Args:
        g: a graph whose edge types have names of their own.
        metapath: the edge types of a walk.
        window_size: how far two nodes of a walk are apart at most.
        emb_dim: features of an embedding.
        negative_size: random nodes for each pair.
        sparse: whether gradients are sparse.

    Attributes:
        node_embed: the embeddings of all nodes, type after type.
        local_to_global_nid: for each node type the rows of ``node_embed`` that are its nodes'.

    Raises:
        SmexValueError: edge types that do not join, or a window longer than the walks.

    Example:
        >>> buys, of = ("user", "buys", "item"), ("item", "of", "user")
        >>> g = sg.heterograph({buys: ([0, 1], [0, 0]), of: ([0, 0], [0, 1])})
        >>> model = sg.nn.MetaPath2Vec(g, ["buys", "of"], window_size=1, emb_dim=4)
        >>> u, v, n = model.sample(torch.tensor([0, 1]))
        >>> u.shape, n.shape, model(u, v, n).shape
        (torch.Size([8]), torch.Size([8, 5]), torch.Size([]))
    """

    def __init__(
        self,
        g: Graph,
        metapath: Sequence[Any],
        window_size: int,
        emb_dim: int = 128,
        negative_size: int = 5,
        sparse: bool = True,
    ):
        super().__init__()
        types = [g.to_canonical_etype(etype) for etype in metapath]
        if len(types) + 1 < window_size or any(a[2] != b[0] for a, b in pairwise(types)):
            raise SmexValueError(
                "MetaPath2Vec: expected edge types that join, at least window_size - 1, "
                f"{window_size - 1}, of them, found {types}"
            )
        self.hg, self.metapath = g, list(metapath)
        self.emb_dim, self.window_size, self.negative_size = emb_dim, window_size, negative_size
        self.node_metapath = [types[0][0], *(etype[2] for etype in types)]
        self.local_to_global_nid: dict[str, Tensor] = {}
        first = 0
        for ntype in g.ntypes:
            self.local_to_global_nid[ntype] = torch.arange(first, first + g.num_nodes(ntype))
            first += g.num_nodes(ntype)
        walks = self._walks(torch.arange(g.num_nodes(self.node_metapath[0])))
        visits = torch.bincount(walks[walks >= 0], minlength=first)
        self.neg_prob = visits.double() ** 0.75
        self.node_embed = nn.Embedding(first, emb_dim, sparse=sparse)
        self.context_embed = nn.Embedding(first, emb_dim, sparse=sparse)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Uniform embeddings up to 1 / emb_dim, and contexts of 0."""
        bound = 1.0 / self.emb_dim
        nn.init.uniform_(self.node_embed.weight, -bound, bound)
        nn.init.zeros_(self.context_embed.weight)

    def sample(self, indices: Any) -> tuple[Tensor, Tensor, Tensor]:
        """Pairs of nodes near each other on walks, and random nodes, as rows of ``node_embed``.

        Args:
            indices: ``[num_walks]``, the nodes that walks start from; also a list of them, as a
                DataLoader's ``collate_fn`` gets it.

        Returns:
            Both ends of the pairs ``[num_pairs]``, random nodes ``[num_pairs, negative_size]``.
        """
        walks = self._walks(torch.as_tensor(indices))
        steps = torch.arange(walks.shape[1])
        distance = (steps.unsqueeze(1) - steps).abs()
        centre, near = ((distance > 0) & (distance <= self.window_size)).nonzero(as_tuple=True)
        u, v = walks[:, centre].flatten(), walks[:, near].flatten()
        there = (u >= 0) & (v >= 0)  # walks end where there are no edges
        u, v = u[there], v[there]
        size = (u.shape[0], self.negative_size)
        if u.shape[0] == 0:
            return u, v, u.new_empty(size)
        drawn = torch.multinomial(self.neg_prob, size[0] * size[1], replacement=True)
        return u, v, drawn.view(size)

    def _walks(self, start: Tensor) -> Tensor:
        """Walks as rows of ``node_embed``, -1 after their end: ``[num_walks, types]``."""
        walks, _ = random_walk(self.hg, start, metapath=self.metapath)
        offsets = [int(self.local_to_global_nid[t][:1].sum()) for t in self.node_metapath]
        walks = walks.long()
        return torch.where(walks >= 0, walks + torch.tensor(offsets), -1)

    def forward(self, pos_u: Tensor, pos_v: Tensor, neg_v: Tensor) -> Tensor:
        """Returns the loss, a number.

        Args:
            pos_u: ``[num_pairs]`` rows of ``node_embed``.
            pos_v: ``[num_pairs]``, the other ends.
            neg_v: ``[num_pairs, negative_size]``, random nodes.
        """
        centre = self.node_embed(pos_u)
        positive = (centre * self.context_embed(pos_v)).sum(-1)
        negative = torch.einsum("pd,pnd->pn", centre, self.context_embed(neg_v))
        positive, negative = (x.clamp(-LARGEST_SCORE, LARGEST_SCORE) for x in (positive, negative))
        return -(F.logsigmoid(positive) + F.logsigmoid(-negative).sum(1)).mean()
