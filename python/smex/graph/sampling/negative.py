"""Pairs of nodes that no edge joins."""

from __future__ import annotations

import torch
from torch import Tensor

from smex.errors import SmexValueError
from smex.graph.creation.random import current_generator
from smex.graph.graph import Graph
from smex.graph.sampling.arguments import check_count, check_graph
from smex.graph.words import EdgeType

__all__ = ["global_uniform_negative_sampling"]

_MOST_REDUNDANCY = 10.0


def global_uniform_negative_sampling(
    g: Graph,
    num_samples: int,
    exclude_self_loops: bool = True,
    replace: bool = False,
    etype: EdgeType = None,
    redundancy: float | None = None,
) -> tuple[Tensor, Tensor]:
    """Pairs of nodes drawn uniformly among those that no edge joins.

    Pairs are drawn among all, and those with an edge are dropped.

    Args:
        g: the graph; no block, on the CPU.
        num_samples: number of pairs.
        exclude_self_loops: whether pairs of a node with itself are dropped, where source and
            destination are of one type.
        replace: whether a pair may be drawn more than once.
        etype: edge type; by default the only one.
        redundancy: pairs are drawn ``1 + redundancy`` times as often as needed. By default as the
            density of the edges asks for.

    Returns:
        ``(src, dst)`` in the ids' dtype: `num_samples` pairs, or fewer where too many were dropped.

    Raises:
        SmexTypeError: the graph is a block.
        SmexValueError: a number is negative, or the edge type does not exist.

    Example:
        >>> import smex.graph as sg
        >>> g = sg.graph(([0, 1, 2], [1, 2, 0]))
        >>> src, dst = sg.sampling.global_uniform_negative_sampling(g, 2)
        >>> g.has_edges_between(src, dst).any().item()
        False
    """
    op = "global_uniform_negative_sampling"
    check_graph(op, g)
    num_samples = check_count(op, "num_samples", num_samples)
    if redundancy is not None and redundancy < 0:
        raise SmexValueError(f"{op}: expected redundancy of at least 0, found {redundancy}")
    canonical = g.to_canonical_etype(etype)
    relation = g._relations[canonical]
    loops = exclude_self_loops and canonical[0] == canonical[2]
    num_src, num_dst = relation.num_src, relation.num_dst
    pairs = num_src * num_dst
    if pairs == 0 or num_samples == 0:
        none = torch.empty(0, dtype=g.idtype)
        return none, none
    if redundancy is None:
        redundancy = _redundancy(pairs, relation.num_edges + loops * num_src, num_samples, replace)
    number = int(num_samples * (1 + redundancy)) + 1
    drawn = torch.randint(pairs, (number,), generator=current_generator())
    if not replace:
        # Distinct pairs in random order: the order in which they were drawn first.
        drawn = torch.ops.smex.relabel_ids([drawn], None)[0]
    src = torch.div(drawn, num_dst, rounding_mode="floor")
    dst = (drawn - src * num_dst).to(g.idtype)
    src = src.to(g.idtype)
    kept = ~relation.has_edges(src, dst, check=False)
    if loops:
        kept &= src != dst
    return src[kept][:num_samples], dst[kept][:num_samples]


def _redundancy(pairs: int, joined: int, number: int, replace: bool) -> float:
    """How many more pairs to draw: as many as are dropped on average, and three deviations."""
    free = max(pairs - joined, 1)
    kept = free / pairs
    if not replace:  # the last of them is new with this probability
        kept *= max(1 - number / free, 1 / (1 + _MOST_REDUNDANCY))
    return min((1 + 3 * (kept * number) ** -0.5) / kept - 1, _MOST_REDUNDANCY)
