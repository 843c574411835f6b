"""Which part each node goes to, by METIS or otherwise, with limits on the size of parts."""

from __future__ import annotations

import pathlib
import tempfile
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from smex.errors import SmexTypeError, SmexValueError
from smex.graph.distributed.sorting import Sizes
from smex.graph.distributed.sources import Edges, HeldRows
from smex.graph.distributed.stream_assignment import PASSES, STREAMS, streamed_parts
from smex.graph.graph import Graph
from smex.graph.parts.homogeneous import to_homogeneous
from smex.graph.transforms.partition import metis_partition_assignment
from smex.graph.words import counted

METHODS = ("metis", "random", "range")

_SLACK = 0.05
"""By how much of its even share a part may exceed it in the nodes of one kind."""
_ROUNDS = 10
_ROOM = 1 << 30
"""Bytes that streams take for edges at a time, at most."""


def assigned_parts(
    op: str,
    g: Graph,
    num_parts: int,
    method: Any,
    balance_ntypes: Any,
    balance_edges: bool,
    objtype: str,
) -> dict[str, Tensor]:
    """Returns the part of each node, by type: int64 ``[num_nodes]``.

    Args:
        op: the operation, for messages.
        g: the graph, on the CPU.
        num_parts: number of parts.
        method: one of `METHODS` or `STREAMS`, or the parts themselves, by type where there are
            several.
        balance_ntypes: a kind of each node, by type where there are several; parts get about as
            many of each kind. True: types are the kinds.
        balance_edges: whether parts are to be similar in edges too.
        objtype: as for :func:`metis_partition_assignment`.

    Raises:
        SmexValueError: the method does not exist, or parts or kinds are not one for each node.
    """
    sizes = {ntype: g.num_nodes(ntype) for ntype in g.ntypes}
    known = parts_without_edges(op, sizes, num_parts, method)
    if known is not None:
        return known
    if method in STREAMS:
        kinds = kinds_of(op, balance_ntypes, sizes)
        return _streamed(g, sizes, num_parts, method, kinds, balance_edges)
    if method != "metis":
        raise SmexValueError(
            f"{op}: expected part_method {', '.join(map(repr, (*METHODS, *STREAMS)))}, or a part "
            f"for each node, found {method!r}"
        )
    whole = g if g.is_homogeneous else to_homogeneous(g, store_type=False)
    parts = metis_partition_assignment(whole, num_parts, None, balance_edges, objtype=objtype)
    kinds = kinds_of(op, balance_ntypes, sizes)
    if kinds is not None:
        parts = _balanced(whole, parts, kinds, num_parts)
    return dict(zip(sizes, parts.split(list(sizes.values()))))


def _streamed(
    g: Graph,
    sizes: dict[str, int],
    num_parts: int,
    method: str,
    kinds: Tensor | None,
    balance_edges: bool,
) -> dict[str, Tensor]:
    """The parts that the streams of :func:`partition_files` find, of edges in memory."""
    pairs = {c: g.edges(etype=c) for c in g.canonical_etypes}
    edges = {c: Edges([(HeldRows(src), HeldRows(dst))]) for c, (src, dst) in pairs.items()}
    amounts = Sizes(_ROOM, num_edges=2 * g.num_edges())
    with tempfile.TemporaryDirectory() as scratch:
        return streamed_parts(
            edges,
            sizes,
            num_parts,
            method,
            None if kinds is None else kinds.int(),
            balance_edges,
            PASSES,
            pathlib.Path(scratch),
            amounts,
            lambda count: None,
        )


def parts_without_edges(
    op: str, sizes: dict[str, int], num_parts: int, method: Any
) -> dict[str, Tensor] | None:
    """Returns the part of each node by ``"random"``, ``"range"`` or as given; None: by others.

    Raises:
        SmexTypeError: a dict by type is missing.
        SmexValueError: parts are not one for each node, or do not exist.
    """
    if not isinstance(method, str):
        given = _by_type(op, "part_method", method, sizes)
        for ntype, parts in given.items():
            if parts.numel() and not 0 <= int(parts.min()) <= int(parts.max()) < num_parts:
                raise SmexValueError(
                    f"{op}: expected parts from 0 to {num_parts - 1} of nodes of type {ntype!r}, "
                    f"found {int(parts.min())} to {int(parts.max())}"
                )
        return given
    if method == "random":
        return {t: torch.randint(num_parts, (size,)) for t, size in sizes.items()}
    if method == "range":
        return {t: torch.arange(size) * num_parts // max(size, 1) for t, size in sizes.items()}
    return None


def _by_type(op: str, name: str, given: Any, sizes: dict[str, int]) -> dict[str, Tensor]:
    if not isinstance(given, Mapping):
        if len(sizes) != 1:
            raise SmexTypeError(
                f"{op}: expected {name} as a dict from node type to vectors, since there are "
                f"several types, found {type(given).__name__}"
            )
        given = {next(iter(sizes)): given}
    result = {}
    for ntype, size in sizes.items():
        numbers = torch.as_tensor(given.get(ntype, torch.zeros(size, dtype=torch.int64)))
        if numbers.shape != (size,):
            raise SmexValueError(
                f"{op}: expected {name} with a number for each of {counted(size, 'node')} of type "
                f"{ntype!r}, found shape {list(numbers.shape)}"
            )
        result[ntype] = numbers.cpu().long()
    return result


def kinds_of(op: str, balance: Any, sizes: dict[str, int]) -> Tensor | None:
    """Returns the kind of each node of all types, counted from 0; None: all are alike."""
    if balance is None or balance is False:
        return None
    by_type: Any = {t: torch.zeros(n, dtype=torch.int64) for t, n in sizes.items()}
    if balance is not True:
        by_type = _by_type(op, "balance_ntypes", balance, sizes)
    pairs = [
        torch.stack([torch.full_like(kinds, number), kinds], 1)
        for number, kinds in enumerate(by_type.values())
    ]
    return torch.unique(torch.cat(pairs), dim=0, return_inverse=True)[1]


def _balanced(g: Graph, parts: Tensor, kinds: Tensor, num_parts: int) -> Tensor:
    """Moves nodes of the kinds that a part has too many of to parts that have too few.

    A greedy repair: METIS as pymetis calls it balances one weight for each node. Of the nodes that
    may move, those go first that have the most neighbours where they go, less those that they
    leave. Rounds end when each part has at most its even share and a bit of every kind.
    """
    parts = parts.clone()
    src, dst = (ids.long() for ids in g.edges())
    ends, others = torch.cat([src, dst]), torch.cat([dst, src])
    num_kinds = int(kinds.max()) + 1 if kinds.numel() else 0
    share = torch.bincount(kinds, minlength=num_kinds) / num_parts
    most = (share * (1 + _SLACK)).ceil().long()
    for _ in range(_ROUNDS):
        counts = torch.bincount(kinds * num_parts + parts, minlength=num_kinds * num_parts)
        counts = counts.view(num_kinds, num_parts)
        room = (most[:, None] - counts).clamp(min=0)
        excess = (counts - most[:, None]).clamp(min=0)
        if not bool(excess.any()):
            break
        for kind, part in excess.nonzero().tolist():
            movable = ((kinds == kind) & (parts == part)).nonzero().view(-1)
            number = torch.full_like(parts, -1)
            number[movable] = torch.arange(len(movable))
            near = number[ends] >= 0
            links = torch.zeros(len(movable), num_parts)
            links.index_put_(
                (number[ends[near]], parts[others[near]]), torch.ones(()), accumulate=True
            )
            gains = links - links[:, part : part + 1]
            gains[:, room[kind] <= 0] = -torch.inf
            best, to = gains.max(1)
            order = torch.argsort(best, descending=True, stable=True)[: int(excess[kind, part])]
            for node, goal in zip(movable[order].tolist(), to[order].tolist()):
                if room[kind, goal] > 0:
                    parts[node] = goal
                    room[kind, goal] -= 1
    return parts
