"""Embeddings of nodes by random walks."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from smex.errors import SmexValueError
from smex.graph.graph import Graph

LARGEST_SCORE = 6.0
"""Scores are cut off beyond it, where the slope of the loss is small anyway."""


class DeepWalk(nn.Module):
    r"""Embeddings by random walks (Perozzi et al., KDD'14, algorithm 1), with negative samples.

    .. math:: -\log \sigma(z_u \cdot c_v) - w \sum_{n} \log \sigma(-z_u \cdot c_n)

    on average over pairs (u, v) that are near each other on a walk, with ``negative_size`` random
    nodes n for each (Mikolov et al., NeurIPS'13, eq. 4). A walk stays at a node without out-edges.

    Args:
        g: a graph of one type of nodes and edges.
        emb_dim: features of an embedding.
        walk_length: nodes of a walk.
        window_size: how far two nodes of a walk are apart at most.
        neg_weight: w.
        negative_size: random nodes for each pair.
        fast_neg: whether random nodes are those of the walks at hand; else they are drawn from all,
            with probabilities by their out-degrees to the power of 3/4.
        sparse: whether gradients are sparse.

    Attributes:
        node_embed: the embeddings.

    Raises:
        SmexValueError: walks that are not longer than the window.

    Example:
        >>> g = sg.graph(([0, 1, 2], [1, 2, 0]))
        >>> model = sg.nn.DeepWalk(g, emb_dim=4, walk_length=6, window_size=2)
        >>> walks = model.sample(torch.tensor([0, 2]))
        >>> walks
        tensor([[0, 1, 2, 0, 1, 2],
                [2, 0, 1, 2, 0, 1]])
        >>> model(walks).shape
        torch.Size([])
    """

    def __init__(
        self,
        g: Graph,
        emb_dim: int = 128,
        walk_length: int = 40,
        window_size: int = 5,
        neg_weight: float = 1,
        negative_size: int = 5,
        fast_neg: bool = True,
        sparse: bool = True,
    ):
        super().__init__()
        if walk_length <= window_size:
            raise SmexValueError(
                f"DeepWalk: expected walk_length above window_size, {window_size}, found "
                f"{walk_length}"
            )
        self.g = g
        self.emb_dim = emb_dim
        self.walk_length, self.window_size = walk_length, window_size
        self.neg_weight, self.negative_size, self.fast_neg = neg_weight, negative_size, fast_neg
        self.node_embed = nn.Embedding(g.num_nodes(), emb_dim, sparse=sparse)
        self.context_embed = nn.Embedding(g.num_nodes(), emb_dim, sparse=sparse)
        steps = torch.arange(walk_length)
        distance = (steps.unsqueeze(1) - steps).abs()
        near = (distance > 0) & (distance <= window_size)
        self.idx_list_dst, self.idx_list_src = near.nonzero(as_tuple=True)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Uniform embeddings up to 1 / emb_dim, and contexts of 0."""
        bound = 1.0 / self.emb_dim
        nn.init.uniform_(self.node_embed.weight, -bound, bound)
        nn.init.zeros_(self.context_embed.weight)

    def sample(self, indices: Tensor) -> Tensor:
        """Random walks ``[num_walks, walk_length]``.

        Args:
            indices: ``[num_walks]``, the nodes that they start from; also a list of them, as a
                DataLoader's ``collate_fn`` gets it.
        """
        form = self.g.relation().csr()
        node = torch.as_tensor(indices, device=self.g.device).long()
        walk = [node]
        for _ in range(self.walk_length - 1):
            first = form.indptr[node]
            degree = form.indptr[node + 1] - first
            drawn = (torch.rand(node.shape, device=node.device) * degree).long()
            position = first + torch.minimum(drawn, (degree - 1).clamp(min=0))
            # A node without out-edges reads some edge, or none, and stays.
            position = position.clamp(max=max(form.indices.shape[0] - 1, 0))
            if form.indices.shape[0]:
                node = torch.where(degree > 0, form.indices[position].long(), node)
            walk.append(node)
        return torch.stack(walk, 1)

    def forward(self, batch_walk: Tensor) -> Tensor:
        """Returns the loss, a number.

        Args:
            batch_walk: ``[num_walks, walk_length]``, walks.
        """
        device = batch_walk.device
        nodes, contexts = self.node_embed(batch_walk), self.context_embed(batch_walk)
        centre = nodes[:, self.idx_list_src.to(device)].flatten(0, 1)
        near = contexts[:, self.idx_list_dst.to(device)].flatten(0, 1)
        # The random nodes are set against the other end of each pair.
        other = nodes[:, self.idx_list_dst.to(device)].flatten(0, 1)
        far = self._random_contexts(contexts, other.shape[0])
        positive = _score((centre * near).sum(-1))
        negative = _score(torch.einsum("pd,pnd->pn", other, far))
        loss = -F.logsigmoid(positive).mean()
        return loss - self.negative_size * self.neg_weight * F.logsigmoid(-negative).mean()

    def _random_contexts(self, contexts: Tensor, num_pairs: int) -> Tensor:
        """``[num_pairs, negative_size, emb_dim]``."""
        size = (num_pairs, self.negative_size)
        if self.fast_neg:
            rows = contexts.flatten(0, 1)
            return rows[torch.randint(rows.shape[0], size, device=rows.device)]
        chance = self.g.out_degrees().double() ** 0.75
        drawn = torch.multinomial(chance, num_pairs * self.negative_size, replacement=True)
        return self.context_embed(drawn.to(contexts.device).view(size))


def _score(x: Tensor) -> Tensor:
    return x.clamp(-LARGEST_SCORE, LARGEST_SCORE)
