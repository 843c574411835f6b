"""Convolution of atoms by their distances."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from smex.errors import SmexValueError
from smex.graph.graph import Graph
from smex.graph.nn.inputs import check_graph, check_rows
from smex.graph.ops.kernels import aggregate
from smex.graph.words import describe


class RadialPooling(nn.Module):
    """Distances through radial filters, ``[num_edges, K]``."""

    def __init__(self, cutoffs: Tensor, means: Tensor, scaling: Tensor):
        super().__init__()
        shape = (-1, 1, 1)  # as state dicts of DGL have them
        self.interaction_cutoffs = nn.Parameter(cutoffs.reshape(shape))
        self.rbf_kernel_means = nn.Parameter(means.reshape(shape))
        self.rbf_kernel_scaling = nn.Parameter(scaling.reshape(shape))

    def forward(self, distances: Tensor) -> Tensor:
        """Returns the filters at each distance."""
        cutoff, mean, scaling = (p.flatten() for p in self.parameters())
        near = 0.5 * (torch.cos(math.pi * distances / cutoff) + 1)
        near = torch.where(distances <= cutoff, near, 0)
        return torch.exp(-scaling * (distances - mean) ** 2) * near


class AtomicConv(nn.Module):
    r"""Convolution of atoms (Gomes et al., 2017, arXiv:1703.10603, §3).

    .. math:: h_v' = \Big\Vert_{t, k} \sum_{u \in N(v)} [z_u = t] \,
              e^{-\gamma_k (r_{uv} - r_k)^2} f_k(r_{uv}), \quad
              f_k(r) = \tfrac{1}{2} \left(\cos \frac{\pi r}{c_k} + 1\right)

    with the types z of atoms and their distances r; f is 0 beyond the cut-off c. As in the authors'
    program, and in DGL, f multiplies the exponential. Without ``features_to_use`` the type z itself
    takes the place of [z = t].

    Args:
        interaction_cutoffs: ``[K]``, c.
        rbf_kernel_means: ``[K]``, the centres.
        rbf_kernel_scaling: ``[K]``, γ.
        features_to_use: ``[T]``, the types t, such as atomic numbers, or None.

    Raises:
        SmexValueError: not as many cut-offs, centres and factors; in :meth:`forward` features or
            distances of another width.

    Example:
        >>> layer = sg.nn.AtomicConv(torch.full((3,), 2.0), torch.ones(3), torch.ones(3))
        >>> layer(sg.graph(([0, 1], [1, 2])), torch.ones(3, 1), torch.ones(2, 1))[1]
        tensor([0.5000, 0.5000, 0.5000], grad_fn=<SelectBackward0>)
    """

    def __init__(
        self,
        interaction_cutoffs: Tensor,
        rbf_kernel_means: Tensor,
        rbf_kernel_scaling: Tensor,
        features_to_use: Tensor | None = None,
    ):
        super().__init__()
        filters = (interaction_cutoffs, rbf_kernel_means, rbf_kernel_scaling)
        if len({x.numel() for x in filters}) != 1:
            raise SmexValueError(
                "AtomicConv: expected as many cut-offs, means and scaling factors, found "
                + ", ".join(map(describe, filters))
            )
        self.radial_pooling = RadialPooling(*filters)
        self.features_to_use = (
            None
            if features_to_use is None
            else nn.Parameter(features_to_use.clone(), requires_grad=False)
        )
        self.num_channels = 1 if features_to_use is None else len(features_to_use)

    def forward(self, graph: Graph, feat: Tensor, distances: Tensor) -> Tensor:
        """Returns the new features ``[num_nodes, T * K]``.

        Args:
            graph: a graph of one type of nodes and edges.
            feat: ``[num_nodes, 1]``, the types z.
            distances: ``[num_edges, 1]``.
        """
        check_graph("AtomicConv", graph)
        check_rows("AtomicConv", "node", feat, graph.num_nodes(), 1)
        check_rows("AtomicConv", "edge", distances, graph.num_edges(), 1)
        filtered = self.radial_pooling(distances).to(feat.dtype)
        if self.features_to_use is not None:
            feat = (feat == self.features_to_use).to(feat.dtype)
        # [num_nodes, T, 1] and [num_edges, 1, K]
        operands = [feat.unsqueeze(-1), filtered.unsqueeze(1)]
        return aggregate(graph.relation(), "u0 * e1", "sum", operands).flatten(1)
