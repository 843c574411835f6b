"""What a Graphormer is told about nodes and pairs of nodes, as learnt vectors."""

from __future__ import annotations

from torch import Tensor, nn

from smex.errors import SmexValueError
from smex.graph.frame import describe
from smex.graph.nn.inputs import check_choice

DIRECTIONS = ("in", "out", "both")


class DegreeEncoder(nn.Module):
    r"""A vector for each degree (Ying et al., NeurIPS'21, eq. 5), to be added to nodes' features.

    .. math:: z^-_{\deg^-(v)} + z^+_{\deg^+(v)}

    Degree 0, with which batches of graphs are filled up, has a vector of zeros.

    Args:
        max_degree: the largest degree with a vector of its own; larger ones get its.
        embedding_dim: features of a vector.
        direction: the degrees: ``in``, ``out``, or ``both``, whose vectors are added.

    Raises:
        SmexValueError: an unknown direction; in :meth:`forward` degrees of another shape.

    Example:
        >>> g = sg.graph(([0, 1, 2], [1, 2, 0]))
        >>> degrees = torch.stack([g.in_degrees(), g.out_degrees()]).unsqueeze(1)
        >>> sg.nn.DegreeEncoder(5, 8)(degrees).shape
        torch.Size([1, 3, 8])
    """

    def __init__(self, max_degree: int, embedding_dim: int, direction: str = "both"):
        super().__init__()
        check_choice("DegreeEncoder", "direction", direction, DIRECTIONS)
        self.max_degree, self.direction = max_degree, direction
        size = max_degree + 1
        if direction == "both":
            self.encoder1 = nn.Embedding(size, embedding_dim, padding_idx=0)
            self.encoder2 = nn.Embedding(size, embedding_dim, padding_idx=0)
        else:
            self.encoder = nn.Embedding(size, embedding_dim, padding_idx=0)

    def forward(self, degrees: Tensor) -> Tensor:
        """The vectors ``[batch_size, num_nodes, embedding_dim]``.

        Args:
            degrees: ``[batch_size, num_nodes]``, with 0 where a graph has no more nodes; of
                ``both`` in- and out-degrees stacked, ``[2, batch_size, num_nodes]``.
        """
        both = self.direction == "both"
        if degrees.dim() != 2 + both or (both and degrees.shape[0] != 2):
            wanted = "[2, batch_size, num_nodes]" if both else "[batch_size, num_nodes]"
            raise SmexValueError(
                f"DegreeEncoder: expected degrees {wanted}, found {describe(degrees)}"
            )
        degrees = degrees.clamp(0, self.max_degree)
        if both:
            return self.encoder1(degrees[0]) + self.encoder2(degrees[1])
        return self.encoder(degrees)


class SpatialEncoder(nn.Module):
    r"""A number for each distance and head (Ying et al., NeurIPS'21, eq. 6), a bias of attention.

    .. math:: b_{d(u, v)}

    Pairs of nodes that no path joins, which have the distance -1, get 0.

    Args:
        max_dist: the largest distance with a number of its own; larger ones get its.
        num_heads: heads.

    Example:
        >>> g = sg.graph(([0, 1, 2], [1, 2, 0]))
        >>> bias = sg.nn.SpatialEncoder(max_dist=2, num_heads=4)(sg.shortest_dist(g)[None])
        >>> sg.nn.GraphormerLayer(8, 16, 4)(torch.rand(1, 3, 8), bias).shape
        torch.Size([1, 3, 8])
    """

    def __init__(self, max_dist: int, num_heads: int = 1):
        super().__init__()
        self.max_dist, self.num_heads = max_dist, num_heads
        self.embedding_table = nn.Embedding(max_dist + 2, num_heads, padding_idx=0)

    def forward(self, dist: Tensor) -> Tensor:
        """The biases ``[batch_size, num_nodes, num_nodes, num_heads]``.

        Args:
            dist: ``[batch_size, num_nodes, num_nodes]``, distances as
                :func:`smex.graph.shortest_dist` has them, -1 where there is no path or no node.
        """
        return self.embedding_table(dist.clamp(-1, self.max_dist) + 1)
