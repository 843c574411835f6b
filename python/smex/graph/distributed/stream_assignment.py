"""Which part each node goes to, by streams of nodes that need memory for nodes alone."""

from __future__ import annotations

import math
import pathlib
from collections.abc import Callable, Iterator, Mapping

import torch
from torch import Tensor

from smex.graph.distributed.sorting import Sizes, sorted_edges
from smex.graph.distributed.sources import Edges, FileRows
from smex.graph.words import CanonicalType

STREAMS = ("fennel", "ldg")
PASSES = 5
"""How often each node is assigned at most, if not said otherwise."""
_SLACK = 0.05
"""By how much of its even share a part may exceed it, in the nodes of one kind."""
_STILL = 0.001
"""Passes end when less than so many of the nodes change their part."""


def streamed_parts(
    edges: Mapping[CanonicalType, Edges],
    sizes: Mapping[str, int],
    num_parts: int,
    method: str,
    kinds: Tensor | None,
    balance_edges: bool,
    passes: int,
    scratch: pathlib.Path,
    amounts: Sizes,
    advance: Callable[[int], None],
) -> dict[str, Tensor]:
    """Returns the part of each node, by type: int32 ``[num_nodes]``.

    Nodes of all types are assigned in the order of their ids, each to the part that the method
    scores best: by its neighbours there, whatever the direction of edges, and how full it is. Each
    later pass assigns them again, knowing where the earlier one has left the others.

    Args:
        edges: of each type.
        sizes: number of nodes by type.
        num_parts: number of parts.
        method: one of `STREAMS`.
        kinds: a kind of each node of all types, int32; parts get about as many of each kind.
        balance_edges: whether a node counts as 1 and its edges, not as 1.
        passes: how many at most.
        scratch: a folder.
        amounts: edges at a time.
        advance: told how many edges were read, written or seen.
    """
    offsets, total = {}, 0
    for ntype, size in sizes.items():
        offsets[ntype] = total
        total += size
    both = _both_ways(edges, offsets)
    indptr = torch.zeros(total + 1, dtype=torch.int64)
    for _, rows, _ in both(amounts.block):
        torch.ops.smex.add_counts_(indptr[1:], rows)
    torch.cumsum(indptr, 0, out=indptr)
    place = scratch / "neighbors.bin"
    idtype = torch.int32 if total < 1 << 31 else torch.int64
    with open(place, "wb") as file:
        for piece in sorted_edges(
            both, indptr, [0, total], total, (None, None), [], scratch / "both", amounts, advance
        ):
            file.write(piece.columns.to(idtype).numpy().data)
    neighbors = FileRows(place, idtype, (int(indptr[-1]),))
    weight = 1 + indptr.diff() if balance_edges else None
    parts = torch.full((total,), -1, dtype=torch.int32)
    num_kinds = 1 if kinds is None else int(kinds.max()) + 1 if total else 1
    kind_of = torch.zeros(total, dtype=torch.int64) if kinds is None else kinds.long()
    weights = torch.bincount(kind_of, weight, minlength=num_kinds)
    capacities = (weights / num_parts * (1 + _SLACK)).ceil().long().clamp(min=1)
    del kind_of, weight
    alpha = int(indptr[-1]) / 2 * math.sqrt(num_parts) / max(float(weights.sum()), 1) ** 1.5
    for _ in range(passes):
        loads = torch.zeros(num_kinds, num_parts, dtype=torch.int64)
        moved = 0
        for first, last in _node_blocks(indptr, amounts.bucket):
            rows = indptr[first : last + 1]
            near = neighbors.read(int(rows[0]), int(rows[-1]))
            moved += torch.ops.smex.assign_stream_(
                parts, loads, rows, near, first, kinds, capacities, method, alpha, balance_edges
            )
            advance(near.shape[0])
        if moved <= total * _STILL:
            break
    place.unlink()
    return dict(zip(sizes, parts.split(list(sizes.values()))))


def _both_ways(
    edges: Mapping[CanonicalType, Edges], offsets: Mapping[str, int]
) -> Callable[[int], Iterator[tuple[int, Tensor, Tensor]]]:
    """The edges of all types and the reverse of each, by ids among nodes of all types."""

    def blocks(size: int) -> Iterator[tuple[int, Tensor, Tensor]]:
        for canonical, of_type in edges.items():
            for _, src, dst in of_type.blocks(max(size // 2, 1)):
                src = src.long() + offsets[canonical[0]]
                dst = dst.long() + offsets[canonical[2]]
                yield 0, torch.cat([dst, src]), torch.cat([src, dst])

    return blocks


def _node_blocks(indptr: Tensor, most: int) -> Iterator[tuple[int, int]]:
    """Ranges of nodes that have at most so many neighbours together, one node at least."""
    first, total = 0, indptr.shape[0] - 1
    while first < total:
        after = int(torch.searchsorted(indptr, indptr[first] + most, right=True)) - 1
        last = min(max(after, first + 1), total)
        yield first, last
        first = last
