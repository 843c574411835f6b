"""What a graph transformer is told about nodes and pairs of nodes, as learnt vectors."""

from __future__ import annotations

import itertools
import math

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from smex.errors import SmexValueError
from smex.graph.nn.inputs import check_choice
from smex.graph.words import describe

DIRECTIONS = ("in", "out", "both")
ENCODERS = ("Transformer", "DeepSet")
NARROWEST = 1e-2
"""Added to the widths of Gaussians, as Luo et al.'s program does, so that none is 0."""


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
        """Returns the vectors ``[batch_size, num_nodes, embedding_dim]``.

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
        """Returns the biases ``[batch_size, num_nodes, num_nodes, num_heads]``.

        Args:
            dist: ``[batch_size, num_nodes, num_nodes]``, distances as
                :func:`smex.graph.shortest_dist` has them, -1 where there is no path or no node.
        """
        return self.embedding_table(dist.clamp(-1, self.max_dist) + 1)


class SpatialEncoder3d(nn.Module):
    r"""A number for each distance in space and head (Luo et al., ICLR'23), a bias.

    .. math:: \psi^k_{uv} = \frac{1}{\sqrt{2 \pi} \sigma_k}
              \exp\left(-\frac{1}{2} \left(\frac{\gamma_{uv} |r_u - r_v| + \beta_{uv} - \mu_k}
              {\sigma_k}\right)^2\right), \quad b_{uv} = W_2\, GELU(W_1 \psi_{uv})

    with :math:`\gamma_{uv} = \gamma_{t(u)} + \gamma'_{t(v)}`, and β alike. The initial γ of a pair
    is 2, its β is 0.

    Args:
        num_kernels: number of Gaussians.
        num_heads: heads.
        max_node_type: number of node types.

    Raises:
        SmexValueError: in :meth:`forward` no points, or not a type for each.

    Example:
        >>> layer = sg.nn.SpatialEncoder3d(4, num_heads=2, max_node_type=3)
        >>> layer(torch.rand(1, 5, 3), torch.tensor([[0, 1, 2, 0, 1]])).shape
        torch.Size([1, 5, 5, 2])
    """

    def __init__(self, num_kernels: int, num_heads: int = 1, max_node_type: int = 100):
        super().__init__()
        self.num_kernels, self.num_heads = num_kernels, num_heads
        self.max_node_type = max_node_type
        self.means = nn.Parameter(torch.empty(num_kernels))
        self.stds = nn.Parameter(torch.empty(num_kernels))
        self.linear_layer_1 = nn.Linear(num_kernels, num_kernels)
        self.linear_layer_2 = nn.Linear(num_kernels, num_heads)
        # Rows: pairs without types, sources from a padded one (type -1) on, destinations alike.
        self.gamma = nn.Embedding(2 * max_node_type + 3, 1, padding_idx=0)
        self.beta = nn.Embedding(2 * max_node_type + 3, 1, padding_idx=0)
        self._reset_own_parameters()

    def reset_parameters(self) -> None:
        """Centres and widths uniform in [0, 3), γ of 1 for each end, β of 0, and linear layers'."""
        self.linear_layer_1.reset_parameters()
        self.linear_layer_2.reset_parameters()
        self._reset_own_parameters()

    def _reset_own_parameters(self) -> None:
        nn.init.uniform_(self.means, 0, 3)
        nn.init.uniform_(self.stds, 0, 3)
        nn.init.ones_(self.gamma.weight)
        nn.init.zeros_(self.beta.weight)

    def forward(self, coord: Tensor, node_type: Tensor | None = None) -> Tensor:
        """Returns the biases ``[batch_size, num_nodes, num_nodes, num_heads]``.

        Args:
            coord: ``[batch_size, num_nodes, 3]``; points of any dimension will do.
            node_type: ``[batch_size, num_nodes]``, each node's type, -1 where a graph has no more
                nodes; None for pairs without types.
        """
        if coord.dim() != 3 or (node_type is not None and node_type.shape != coord.shape[:2]):
            types = "no types" if node_type is None else f"types {describe(node_type)}"
            raise SmexValueError(
                "SpatialEncoder3d: expected points [batch_size, num_nodes, 3] and a type for each, "
                f"or none, found {describe(coord)} and {types}"
            )
        gamma, beta = (self._of_pairs(x, coord, node_type) for x in (self.gamma, self.beta))
        scaled = (gamma * torch.cdist(coord, coord) + beta).unsqueeze(-1)
        width = self.stds.abs() + NARROWEST
        density = torch.exp(-0.5 * ((scaled - self.means) / width) ** 2)
        density = density / (math.sqrt(2 * math.pi) * width)
        return self.linear_layer_2(F.gelu(self.linear_layer_1(density)))

    def _of_pairs(self, table: nn.Embedding, coord: Tensor, node_type: Tensor | None) -> Tensor:
        """Returns the sum of both ends' numbers, ``[batch_size, num_nodes, num_nodes]``."""
        if node_type is None:
            shape = (*coord.shape[:2], coord.shape[1])
            none = torch.zeros(shape, dtype=torch.long, device=coord.device)
            return 2 * table(none).squeeze(-1)
        of_source = table(node_type.long() + 2).squeeze(-1)
        of_destination = table(node_type.long() + self.max_node_type + 3).squeeze(-1)
        return of_source.unsqueeze(2) + of_destination.unsqueeze(1)


class PathEncoder(nn.Module):
    r"""A number for each shortest path and head (Ying et al., NeurIPS'21, eq. 7), a bias.

    .. math:: c_{uv} = \frac{1}{N} \sum_{n=1}^N x_{e_n} \cdot w_n

    with the features x of the path's edges e and their number N. A longer path ends after
    ``max_len`` edges; one without edges has 0.

    Args:
        max_len: the largest number of edges.
        feat_dim: features of an edge.
        num_heads: heads.

    Raises:
        SmexValueError: in :meth:`forward` paths of more edges, or features of another width.

    Example:
        >>> g = sg.graph(([0, 1, 2], [1, 2, 0]))
        >>> dist, path = sg.shortest_dist(g, return_paths=True)
        >>> feat = torch.cat([torch.rand(3, 4), torch.zeros(1, 4)])  # -1, for no edge, is the last
        >>> sg.nn.PathEncoder(2, 4, num_heads=8)(dist[None], feat[path][None]).shape
        torch.Size([1, 3, 3, 8])
    """

    def __init__(self, max_len: int, feat_dim: int, num_heads: int = 1):
        super().__init__()
        self.max_len, self.feat_dim, self.num_heads = max_len, feat_dim, num_heads
        self.embedding_table = nn.Embedding(max_len * num_heads, feat_dim)

    def forward(self, dist: Tensor, path_data: Tensor) -> Tensor:
        """Returns the biases ``[batch_size, num_nodes, num_nodes, num_heads]``.

        Args:
            dist: ``[batch_size, num_nodes, num_nodes]``, as :func:`smex.graph.shortest_dist` has
                them.
            path_data: ``[batch_size, num_nodes, num_nodes, length, feat_dim]``, the features of
                each path's edges, zeros where it has no more; ``length`` is at most ``max_len``.
        """
        length, width = path_data.shape[-2:] if path_data.dim() == 5 else (-1, -1)
        fits = path_data.shape[:3] == dist.shape and width == self.feat_dim
        if not fits or length > self.max_len:
            raise SmexValueError(
                "PathEncoder: expected the features of paths [batch_size, num_nodes, num_nodes, "
                f"length, {self.feat_dim}] of a length of at most {self.max_len}, and a distance "
                f"for each, found {describe(path_data)} and {describe(dist)}; cut longer paths, "
                f"path_data[..., :{self.max_len}, :]"
            )
        table = self.embedding_table.weight.view(self.max_len, self.num_heads, self.feat_dim)
        sums = torch.einsum("buvld,lhd->buvh", path_data, table[:length])
        return sums / dist.clamp(1, self.max_len).unsqueeze(-1)


class LapPosEncoder(nn.Module):
    r"""Learnt positions from a Laplacian's eigenvectors (Rampášek et al., NeurIPS'22, §3.1).

    .. math:: z_v = \sum_{i=1}^k f([\phi_{iv}, \lambda_i])

    with the eigenvalue :math:`\lambda_i` and the entry of the eigenvector :math:`\phi_i`. With
    ``Transformer`` f also sees the other pairs of the node (Kreuzer et al., NeurIPS'21). An
    eigenvalue that is no number, with which smaller graphs are filled up, adds nothing.

    Args:
        model_type: what f is: ``Transformer`` or ``DeepSet``, of feed-forward layers.
        num_layer: its layers.
        k: number of eigenvectors.
        dim: features of the result.
        n_head: heads of a ``Transformer``.
        batch_norm: whether pairs are normalised first.
        num_post_layer: feed-forward layers after the sum.

    Raises:
        SmexValueError: another ``model_type``; in :meth:`forward` eigenvalues and eigenvectors that
            are not ``[num_nodes, k]``.

    Example:
        >>> g = sg.rand_graph(6, 0)
        >>> g.add_edges(torch.arange(6), torch.arange(5, -1, -1))
        >>> g = sg.LapPE(3, eigval_name="eigval", padding=True)(g)
        >>> layer = sg.nn.LapPosEncoder("DeepSet", 2, 3, 8)
        >>> layer(g.ndata["eigval"], g.ndata["PE"]).shape
        torch.Size([6, 8])
    """

    def __init__(
        self,
        model_type: str,
        num_layer: int,
        k: int,
        dim: int,
        n_head: int = 1,
        batch_norm: bool = False,
        num_post_layer: int = 0,
    ):
        super().__init__()
        check_choice("LapPosEncoder", "model_type", model_type, ENCODERS)
        self.model_type, self.k = model_type, k
        if model_type == "Transformer":
            self.linear = nn.Linear(2, dim)
            layer = nn.TransformerEncoderLayer(dim, n_head, batch_first=True)
            self.pe_encoder: nn.Module = nn.TransformerEncoder(layer, num_layer)
        else:
            widths = [2 * dim] * (num_layer - 1) + [dim]
            self.linear = nn.Linear(2, widths[0])
            self.pe_encoder = nn.Sequential(nn.ReLU(), *_feed_forward(widths))
        self.raw_norm = nn.BatchNorm1d(k) if batch_norm else None
        post = [dim, *[2 * dim] * (num_post_layer - 1), dim]
        self.post_mlp = nn.Sequential(*_feed_forward(post)) if num_post_layer else None

    def forward(self, eigvals: Tensor, eigvecs: Tensor) -> Tensor:
        """Returns the positions ``[num_nodes, dim]``.

        Args:
            eigvals: ``[num_nodes, k]``, the eigenvalues of each node's graph, as
                :class:`smex.graph.LapPE` has them with ``eigval_name``.
            eigvecs: ``[num_nodes, k]``.
        """
        if eigvals.dim() != 2 or eigvals.shape != eigvecs.shape or eigvals.shape[1] != self.k:
            raise SmexValueError(
                f"LapPosEncoder: expected eigenvalues and eigenvectors [num_nodes, {self.k}], "
                f"found {describe(eigvals)} and {describe(eigvecs)}"
            )
        missing = eigvals.isnan()
        pairs = torch.stack([eigvecs, eigvals], -1).to(self.linear.weight.dtype)
        pairs = pairs.masked_fill(pairs.isnan(), 0)
        if self.raw_norm is not None:
            pairs = self.raw_norm(pairs)
        rows = self.linear(pairs)
        if self.model_type == "Transformer":
            # Where all are missing they see each other: a softmax of nothing would be no number.
            hidden = missing & ~missing.all(1, keepdim=True)
            rows = self.pe_encoder(rows, src_key_padding_mask=hidden)
        else:
            rows = self.pe_encoder(rows)
        result = rows.masked_fill(missing.unsqueeze(-1), 0).sum(1)
        return result if self.post_mlp is None else self.post_mlp(result)


def _feed_forward(widths: list[int]) -> list[nn.Module]:
    """Linear layers from width to width, each with a ReLU."""
    pairs = itertools.pairwise(widths)
    return [layer for pair in pairs for layer in (nn.Linear(*pair), nn.ReLU())]
