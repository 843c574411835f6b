"""Modules that make graphs of points."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from torch import Tensor, nn

from smex.graph.graph import Graph
from smex.graph.transforms import knn_graph, radius_graph, segmented_knn_graph


class KNNGraph(nn.Module):
    """:func:`smex.graph.knn_graph` as a module.

    Args:
        k: number of neighbours.

    Example:
        >>> sg.nn.KNNGraph(1)(torch.tensor([[0.0], [1.0], [3.0]]), exclude_self=True).edges()
        (tensor([1, 0, 1]), tensor([0, 1, 2]))
    """

    def __init__(self, k: int):
        super().__init__()
        self.k = k

    def forward(
        self,
        x: Tensor,
        algorithm: str = "bruteforce-blas",
        dist: str = "euclidean",
        exclude_self: bool = False,
    ) -> Graph:
        """The graph of points ``[num_points, size]``, a batch for ``[num_sets, ...]`` of them."""
        return knn_graph(x, self.k, algorithm=algorithm, dist=dist, exclude_self=exclude_self)


class SegmentedKNNGraph(nn.Module):
    """:func:`smex.graph.segmented_knn_graph` as a module.

    Args:
        k: number of neighbours.

    Example:
        >>> points = torch.tensor([[0.0], [1.0], [1.0], [5.0]])
        >>> sg.nn.SegmentedKNNGraph(1)(points, [2, 2], exclude_self=True).edges()
        (tensor([1, 0, 3, 2]), tensor([0, 1, 2, 3]))
    """

    def __init__(self, k: int):
        super().__init__()
        self.k = k

    def forward(
        self,
        x: Tensor,
        segs: Sequence[int] | Tensor,
        algorithm: str = "bruteforce-blas",
        dist: str = "euclidean",
        exclude_self: bool = False,
    ) -> Graph:
        """The batch of the graphs of points ``[num_points, size]`` in sets of ``segs[i]``."""
        return segmented_knn_graph(
            x, self.k, segs, algorithm=algorithm, dist=dist, exclude_self=exclude_self
        )


class RadiusGraph(nn.Module):
    """:func:`smex.graph.radius_graph` as a module.

    Args:
        r: the radius.
        p: of the norm.
        self_loop: whether points are joined to themselves.
        compute_mode: see ``torch.cdist``.

    Example:
        >>> sg.nn.RadiusGraph(1.5)(torch.tensor([[0.0], [1.0], [3.0]])).edges()
        (tensor([0, 1]), tensor([1, 0]))
    """

    def __init__(
        self,
        r: float,
        p: float = 2,
        self_loop: bool = False,
        compute_mode: str = "donot_use_mm_for_euclid_dist",
    ):
        super().__init__()
        self.r, self.p, self.self_loop, self.compute_mode = r, p, self_loop, compute_mode

    def forward(self, x: Tensor, get_distances: bool = False) -> Any:
        """The graph of points ``[num_points, size]``, and the distances of its edges if wanted."""
        return radius_graph(x, self.r, self.p, self.self_loop, self.compute_mode, get_distances)
