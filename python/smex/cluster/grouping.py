"""Operators that decide together (HeteroG, §4.1.1: per-group embeddings)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence


def edges_of(graph: object) -> list[tuple[int, int]]:
    """Returns the pairs (maker, reader) of a native graph's ops, each once, in order."""
    makers: dict[int, int] = {}
    ops = list(graph.ops)  # type: ignore[attr-defined]
    for op in ops:
        makers.update(dict.fromkeys(op.outputs, op.id))
    found: dict[tuple[int, int], None] = {}
    for op in ops:
        for value in op.inputs:
            maker = makers.get(value)
            if maker is not None and maker != op.id:
                found[maker, op.id] = None
    return list(found)


def neighbours_of(count: int, edges: Iterable[tuple[int, int]]) -> list[list[int]]:
    """Returns by node those that an edge of either direction leads to, ascending."""
    found: list[set[int]] = [set() for _ in range(count)]
    for a, b in edges:
        found[a].add(b)
        found[b].add(a)
    return [sorted(each) for each in found]


def nearest_groups(
    seconds: Sequence[float], edges: Iterable[tuple[int, int]], most: int
) -> list[int]:
    """Returns by op its group: the longest ops lead one each, all others join the nearest leader.

    Distances are hops of the dataflow in either direction; of leaders equally near the one wins
    whose side arrives first in a breadth-first search from all of them in order. Ops that no hop
    leads to join the leader before them in the graph's order. Groups are numbered in the order of
    their leaders. Takes O(ops · log ops + edges).

    Args:
        seconds: average time of each op.
        edges: pairs (maker, reader) of ops.
        most: N, the most groups; with as many ops or fewer each is its own.
    """
    count = len(seconds)
    if count <= most:
        return list(range(count))
    longest = sorted(range(count), key=lambda op: (-seconds[op], op))[:most]
    leaders = sorted(longest)
    group = [-1] * count
    for number, op in enumerate(leaders):
        group[op] = number
    neighbours = neighbours_of(count, edges)
    reached = list(leaders)
    for op in reached:  # grows meanwhile
        for other in neighbours[op]:
            if group[other] < 0:
                group[other] = group[op]
                reached.append(other)
    last = 0
    for op in range(count):
        if group[op] < 0:
            group[op] = last
        last = group[op]
    return group


def ball(neighbours: Sequence[Sequence[int]], center: int, size: int) -> list[int]:
    """Returns up to `size` nodes nearest to one, itself first."""
    found, reached = {center}, [center]
    for node in reached:
        for other in neighbours[node]:
            if len(reached) >= size:
                return reached[:size]
            if other not in found:
                found.add(other)
                reached.append(other)
    return reached[:size]
