"""Points far from each other, and pairs of neighbours: how clouds and graphs are made smaller."""

from __future__ import annotations

import torch
from torch import Tensor

from smex.errors import SmexValueError
from smex.graph.creation.random import current_generator
from smex.graph.graph import Graph
from smex.graph.parts.selection import check_one_type
from smex.graph.words import counted, describe, integer

__all__ = ["farthest_point_sampler", "neighbor_matching"]


def farthest_point_sampler(pos: Tensor, npoints: int, start_idx: int | None = None) -> Tensor:
    """Points of each set, each of them the farthest from those before (Eldar et al., IEEE TIP'97).

    Args:
        pos: the points ``[num_sets, num_points, size]``.
        npoints: how many points of each set are taken.
        start_idx: the first one of every set; by default it is drawn, from torch's generator.

    Returns:
        int64 ``[num_sets, npoints]``. Where several points are the farthest, one of them; more than
        there are, points come again. Time is that of ``npoints`` distances to all points.

    Raises:
        SmexValueError: `pos` has another shape, or a number is out of its range.

    Example:
        >>> import smex.graph as sg
        >>> line = torch.tensor([[[0.0], [1.0], [2.0], [9.0]]])
        >>> sg.geometry.farthest_point_sampler(line, 3, start_idx=0)
        tensor([[0, 3, 2]])
    """
    op = "farthest_point_sampler"
    if pos.dim() != 3 or not pos.shape[1]:
        raise SmexValueError(
            f"{op}: expected points [num_sets, num_points, size], at least one in each set, found "
            f"{describe(pos)}"
        )
    count, number = integer(npoints), pos.shape[1]
    if count is None or count < 1:
        raise SmexValueError(f"{op}: expected npoints of at least 1, found {npoints!r}")
    if start_idx is None:
        latest = torch.randint(number, (pos.shape[0],), generator=current_generator())
        latest = latest.to(pos.device)
    else:
        start = integer(start_idx)
        if start is None or not 0 <= start < number:
            raise SmexValueError(
                f"{op}: expected start_idx from 0 to {number - 1}, found {start_idx!r}"
            )
        latest = torch.full((pos.shape[0],), start, device=pos.device)
    sets = torch.arange(pos.shape[0], device=pos.device)
    points = pos.detach()
    nearest = torch.full(pos.shape[:2], torch.inf, dtype=pos.dtype, device=pos.device)
    found = [latest]
    for _ in range(count - 1):
        difference = points - points[sets, latest].unsqueeze(1)
        nearest = torch.minimum(nearest, difference.square().sum(2))
        latest = nearest.argmax(1)
        found.append(latest)
    return torch.stack(found, 1)


def neighbor_matching(
    graph: Graph, e_weights: Tensor | None = None, relabel_idx: bool = True
) -> Tensor:
    """Pairs of neighbours, of heavy edges, as METIS and Graclus make graphs coarser by.

    Edges that are heavier than all that share a node with them are taken, and again among the nodes
    that are left, until no edge is (Fagginger Auer and Bisseling, "A GPU algorithm for greedy graph
    matching", 2012). Equal weights are ordered by chance, from torch's generator.

    Args:
        graph: a graph of one type; directions and self loops do not count, and of parallel edges
            the heaviest does.
        e_weights: ``[num_edges]`` or ``[num_edges, 1]`` of at least 0, others join nothing; None:
            all are equal.
        relabel_idx: whether pairs are numbered from 0 on, otherwise by their lower node.

    Returns:
        ``[num_nodes]``, the number of each node's pair, or of its own where it is alone: int64, or
        with ``relabel_idx=False`` in the ids' dtype.

    Raises:
        SmexTypeError: the graph has several types.
        SmexValueError: there is not one weight for each edge.

    Example:
        >>> import smex.graph as sg
        >>> path = sg.to_bidirected(sg.graph(([0, 1, 2], [1, 2, 3])))
        >>> sg.geometry.neighbor_matching(path, torch.tensor([1.0, 1, 2, 2, 1, 1]))
        tensor([0, 1, 1, 2])
    """
    check_one_type("neighbor_matching", graph)
    src, dst = (ids.long() for ids in graph.edges())
    weights = torch.ones(src.shape[0], device=graph.device) if e_weights is None else e_weights
    if weights.numel() != src.shape[0]:
        raise SmexValueError(
            f"neighbor_matching: expected a weight for each of {counted(src.shape[0], 'edge')}, "
            f"found {describe(weights)}"
        )
    low, high = _by_weight(src, dst, weights.detach().reshape(-1))
    number = graph.num_nodes()
    label = torch.arange(number, device=graph.device)
    while low.shape[0]:
        rank = torch.arange(1, low.shape[0] + 1, device=graph.device)
        best = torch.zeros(number, dtype=torch.int64, device=graph.device)
        for end in (low, high):
            best.scatter_reduce_(0, end, rank, "amax")
        taken = (best[low] == rank) & (best[high] == rank)
        label[high[taken]] = low[taken]
        free = torch.ones(number, dtype=torch.bool, device=graph.device)
        free[low[taken]] = free[high[taken]] = False
        left = free[low] & free[high]
        low, high = low[left], high[left]
    if relabel_idx:
        return torch.unique(label, return_inverse=True)[1]
    return label.to(graph.idtype)


def _by_weight(src: Tensor, dst: Tensor, weights: Tensor) -> tuple[Tensor, Tensor]:
    """Returns the lower and the higher node of each pair that an edge joins, the lightest first."""
    kept = (src != dst) & (weights >= 0)
    ends = torch.stack([torch.minimum(src, dst), torch.maximum(src, dst)])[:, kept]
    pairs, of_edge = torch.unique(ends, dim=1, return_inverse=True)
    heaviest = torch.zeros(pairs.shape[1], dtype=weights.dtype, device=weights.device)
    heaviest.scatter_reduce_(0, of_edge, weights[kept], "amax")
    order = torch.randperm(pairs.shape[1], generator=current_generator()).to(weights.device)
    order = order[heaviest[order].argsort(stable=True)]
    return pairs[0, order], pairs[1, order]
