"""Graphs of points: an edge from each of a point's nearest ones to it."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from smex.errors import SmexValueError
from smex.graph.creation.convert import graph
from smex.graph.graph import Graph
from smex.graph.packages import optional
from smex.graph.words import counted, describe, quoted

__all__ = ["knn_graph", "radius_graph", "segmented_knn_graph"]

_ALGORITHMS = ("bruteforce-blas", "bruteforce", "bruteforce-sharemem", "kd-tree", "nn-descent")
_DISTANCES = ("euclidean", "cosine")
_MODES = {
    "use_mm_for_euclid_dist_if_necessary",
    "use_mm_for_euclid_dist",
    "donot_use_mm_for_euclid_dist",
}
_BLOCK = 1 << 24  # distances held at a time, 64 MB of float32


def knn_graph(
    x: Any,
    k: int,
    algorithm: str = "bruteforce-blas",
    dist: str = "euclidean",
    exclude_self: bool = False,
) -> Graph:
    """The graph with edges to each point from the `k` points nearest to it, itself among them.

    Edges are ordered by destination, then by distance.

    Args:
        x: the points ``[num_points, size]``, or several sets of them ``[num_sets, num_points,
            size]``, whose graph is a batch with one graph for each set; a tensor or a NumPy array.
        k: number of neighbours; at most all points, with a warning.
        algorithm: ``"kd-tree"`` (SciPy's, on the CPU) or one of the names of brute force; all of
            them are exact.
        dist: ``"euclidean"`` or ``"cosine"``.
        exclude_self: whether a point is no neighbour of itself.

    Raises:
        SmexImportError: ``"kd-tree"`` without SciPy.
        SmexValueError: there are no points, `x` has another shape, or a name is unknown.

    Example:
        >>> import smex.graph as sg
        >>> sg.knn_graph(torch.tensor([[0.0], [1.0], [3.0]]), 1, exclude_self=True).edges()
        (tensor([1, 0, 1]), tensor([0, 1, 2]))
    """
    x = _points("knn_graph", x, (2, 3))
    segments = [x.shape[-2]] * (x.shape[0] if x.dim() == 3 else 1)
    return _knn("knn_graph", x.flatten(0, -2), k, segments, algorithm, dist, exclude_self)


def segmented_knn_graph(
    x: Any,
    k: int,
    segs: Sequence[int] | Tensor,
    algorithm: str = "bruteforce-blas",
    dist: str = "euclidean",
    exclude_self: bool = False,
) -> Graph:
    """As :func:`knn_graph`, of sets of points of different sizes: a batch of their graphs.

    Args:
        x: the points of all sets ``[num_points, size]``, one set after another; a tensor or a NumPy
            array.
        k: number of neighbours, at most the size of a set.
        segs: number of points of each set.
        algorithm: as for :func:`knn_graph`.
        dist: as for :func:`knn_graph`.
        exclude_self: as for :func:`knn_graph`.

    Raises:
        SmexImportError: as for :func:`knn_graph`.
        SmexValueError: a set is empty, sizes do not sum to the number of points, or a name is
            unknown.

    Example:
        >>> import smex.graph as sg
        >>> points = torch.tensor([[0.0], [1.0], [3.0], [9.0]])
        >>> sg.segmented_knn_graph(points, 1, [2, 2], exclude_self=True).edges()
        (tensor([1, 0, 3, 2]), tensor([0, 1, 2, 3]))
    """
    x = _points("segmented_knn_graph", x, (2,))
    sizes = segs.tolist() if isinstance(segs, Tensor) else [int(size) for size in segs]
    if sum(sizes) != x.shape[0]:
        raise SmexValueError(
            f"segmented_knn_graph: expected sizes that sum to the number of points, {x.shape[0]}, "
            f"found the sum {sum(sizes)}"
        )
    return _knn("segmented_knn_graph", x, k, sizes, algorithm, dist, exclude_self)


def _knn(
    op: str,
    x: Any,
    k: int,
    sizes: list[int],
    algorithm: str,
    dist: str,
    exclude_self: bool,
) -> Graph:
    if algorithm not in _ALGORITHMS or dist not in _DISTANCES:
        raise SmexValueError(
            f"{op}: expected an algorithm among {quoted(_ALGORITHMS)} and a distance among "
            f'{quoted(_DISTANCES)}, found "{algorithm}" and "{dist}"'
        )
    if not sizes or min(sizes) <= exclude_self or k < 1:
        raise SmexValueError(
            f"{op}: expected k of at least 1 and sets of more than {int(exclude_self)} points, "
            f"found k = {k} and sets of {sizes} points"
        )
    if k > min(sizes) - exclude_self:
        warnings.warn(
            f"{op}: a set of {counted(min(sizes), 'point')} has less than {k} neighbours for each; "
            "all of them are taken",
            stacklevel=3,
        )
    if dist == "cosine":
        x = torch.nn.functional.normalize(x)
    find = _tree_neighbours if algorithm == "kd-tree" else _nearest
    sources, counts, start = [], [], 0
    for part in x.split(sizes):
        near = find(op, part, min(k, part.shape[0] - exclude_self), exclude_self)
        sources.append(near.reshape(-1) + start)
        counts.append(torch.full((part.shape[0],), near.shape[1], device=x.device))
        start += part.shape[0]
    dst = torch.arange(start, device=x.device).repeat_interleave(torch.cat(counts))
    g = graph((torch.cat(sources), dst), num_nodes=start)
    g.set_batch_num_nodes(sizes)
    g.set_batch_num_edges([near.shape[0] for near in sources])
    return g


def _nearest(op: str, points: Tensor, k: int, exclude_self: bool) -> Tensor:
    """Returns the `k` nearest points of each, int64 ``[points, k]``."""
    found = []
    for rows in torch.arange(points.shape[0], device=points.device).split(_rows(points.shape[0])):
        distance = torch.cdist(points[rows], points)
        own = (torch.arange(rows.shape[0], device=points.device), rows)
        distance[own] = torch.inf if exclude_self else 0.0
        found.append(distance.topk(k, largest=False).indices)
    return torch.cat(found)


def _tree_neighbours(op: str, points: Tensor, k: int, exclude_self: bool) -> Tensor:
    """As :func:`_nearest`, by SciPy's k-d tree."""
    spatial = optional(op, "scipy.spatial")
    host: Any = points.detach().cpu().numpy()
    near = torch.from_numpy(spatial.cKDTree(host).query(host, [*range(1, k + exclude_self + 1)])[1])
    if exclude_self:  # of more equal points than k + 1, a point may not be among its neighbours
        own = near == torch.arange(near.shape[0])[:, None]
        own[~own.any(1), -1] = True
        near = near[~own].view(-1, k)
    return near.to(points.device)


def _points(op: str, x: Any, dims: tuple[int, ...]) -> Tensor:
    """Returns the points as a tensor of a type that distances can be computed in."""
    try:
        points = torch.as_tensor(x)
    except (TypeError, ValueError, RuntimeError):
        points = None
    if points is None or points.dim() not in dims or points.is_complex():
        sets = " or [num_sets, num_points, size]" if 3 in dims else ""
        raise SmexValueError(
            f"{op}: expected points [num_points, size]{sets} as a tensor or a NumPy array, found "
            f"{describe(x if points is None else points)}"
        )
    if points.dtype in (torch.float32, torch.float64):
        return points
    return points.to(torch.float32 if points.is_floating_point() else torch.float64)


def _rows(number: int) -> int:
    return max(_BLOCK // max(number, 1), 1)


def radius_graph(
    x: Any,
    r: float,
    p: float = 2,
    self_loop: bool = False,
    compute_mode: str = "donot_use_mm_for_euclid_dist",
    get_distances: bool = False,
) -> Any:
    """Returns the graph with edges in both directions between points at most `r` apart.

    Edges are ordered by source, then by destination.

    Args:
        x: the points ``[num_points, size]``, a tensor or a NumPy array.
        r: the largest distance.
        p: distances are those of the p-norm.
        self_loop: whether a point is joined to itself.
        compute_mode: how ``torch.cdist`` computes distances.
        get_distances: whether to return the distance along each edge, ``[num_edges, 1]``, too.

    Raises:
        SmexValueError: `x` has another shape, or `compute_mode` is unknown.

    Example:
        >>> import smex.graph as sg
        >>> sg.radius_graph(torch.tensor([[0.0], [1.0], [3.0]]), 1.5).edges()
        (tensor([0, 1]), tensor([1, 0]))
    """
    x = _points("radius_graph", x, (2,))
    if compute_mode not in _MODES:
        raise SmexValueError(
            f"radius_graph: expected a compute_mode of torch.cdist, {quoted(sorted(_MODES))}, "
            f'found "{compute_mode}"'
        )
    number = x.shape[0]
    pairs = [torch.empty((0, 2), dtype=torch.int64, device=x.device)]
    for rows in torch.arange(number, device=x.device).split(_rows(number)):
        near = torch.cdist(x[rows], x, p, compute_mode) <= r
        own = (torch.arange(rows.shape[0], device=x.device), rows)
        near[own] = self_loop
        row, other = near.nonzero().unbind(1)
        pairs.append(torch.stack([rows[row], other], 1))
    src, dst = torch.cat(pairs).unbind(1)
    g = graph((src.contiguous(), dst.contiguous()), num_nodes=number)
    if not get_distances:
        return g
    return g, torch.linalg.vector_norm(x[src] - x[dst], p, dim=1, keepdim=True)
