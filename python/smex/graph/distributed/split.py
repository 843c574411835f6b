"""The share of nodes or edges that each rank works on."""

from __future__ import annotations

import itertools
from typing import Any

import torch
from torch import Tensor

from smex.errors import SmexValueError
from smex.graph.constants import DEFAULT_ETYPE, DEFAULT_NTYPE
from smex.graph.distributed.book import GraphPartitionBook, rank_bounds
from smex.graph.distributed.context import context
from smex.graph.distributed.dist_tensor import DistTensor
from smex.graph.words import describe

__all__ = ["edge_split", "node_split"]

_BLOCK = 1 << 20
"""Rows of a mask that are read at once."""


def share_sizes(ids: Any) -> tuple[int, ...] | None:
    """Returns by rank how many ids its share has, if ids are a share that was split here."""
    return getattr(ids, "smex_share_sizes", None)


def node_split(
    nodes: Any,
    partition_book: GraphPartitionBook | None = None,
    ntype: str = DEFAULT_NTYPE,
    rank: int | None = None,
    force_even: bool = True,
    node_trainer_ids: Any = None,
) -> Tensor:
    """Returns the nodes that a rank works on, of those that all ranks work on.

    Every rank knows how many the others have, so that loaders (:class:`DistNodeDataLoader`) make
    as many steps on all of them.

    Args:
        nodes: a mask ``[num_nodes]``, a tensor or a :class:`DistTensor`, bool or of numbers that
            are not 0 where a node is meant; or different ids.
        partition_book: of the graph; that of a :class:`DistTensor` by default.
        ntype: type of the nodes.
        rank: whose share it is; by default this one's.
        force_even: whether shares are of equal size (or one more): as many in the order of their
            ids, so that most are the rank's own where parts are similar. False: the nodes whose
            rows the rank has, however many they are.
        node_trainer_ids: taken for compatibility.

    Returns:
        int64, ascending.

    Raises:
        SmexValueError: there is no book, the mask has another length, or an id does not exist.
        RankFailure: another rank, whose part of the mask is read, has failed.

    Example:
        >>> import smex.graph.distributed as sgd
        >>> book = sgd.GraphPartitionBook(0, 2, {"_N": [0, 3, 5]}, {("_N", "_E", "_N"): [0, 4, 9]})
        >>> sgd.node_split(torch.tensor([True, False, True, True, True]), book)
        tensor([0, 2, 3, 4])
    """
    book = _book("node_split", nodes, partition_book)
    starts = book.node_map[book._ntype(ntype)]
    return _split("node_split", nodes, starts, rank, force_even)


def edge_split(
    edges: Any,
    partition_book: GraphPartitionBook | None = None,
    etype: Any = DEFAULT_ETYPE,
    rank: int | None = None,
    force_even: bool = True,
    edge_trainer_ids: Any = None,
) -> Tensor:
    """Returns the edges that a rank works on; see :func:`node_split`.

    Args:
        edges: a mask ``[num_edges]``, or ids.
        partition_book: of the graph.
        etype: type of the edges.
        rank: whose share it is.
        force_even: whether shares are of equal size.
        edge_trainer_ids: taken for compatibility.

    Raises:
        SmexValueError: as for :func:`node_split`.
        RankFailure: as for :func:`node_split`.
    """
    book = _book("edge_split", edges, partition_book)
    starts = book.edge_map[book.to_canonical_etype(etype)]
    return _split("edge_split", edges, starts, rank, force_even)


def _book(op: str, chosen: Any, book: GraphPartitionBook | None) -> GraphPartitionBook:
    if book is None and isinstance(chosen, DistTensor):
        book = chosen.part_policy.partition_book
    if book is None:
        raise SmexValueError(
            f"{op}: expected partition_book with a mask that is no DistTensor, found None; "
            "g.get_partition_book() is it"
        )
    return book


def _split(op: str, chosen: Any, starts: list[int], rank: int | None, even: bool) -> Tensor:
    here = context()
    whose = here.rank if rank is None else rank
    if not 0 <= whose < here.size:
        raise SmexValueError(f"{op}: expected a rank from 0 to {here.size - 1}, found {whose}")
    ids = _chosen(op, chosen, starts[-1])
    if even:
        count = ids.shape[0]
        cuts = [number * count // here.size for number in range(here.size + 1)]
    else:
        bounds = torch.tensor(rank_bounds(starts, here.size))
        cuts = torch.searchsorted(ids, bounds).tolist()
    share = ids[cuts[whose] : cuts[whose + 1]].clone()
    sizes = tuple(end - begin for begin, end in itertools.pairwise(cuts))
    share.smex_share_sizes = sizes  # type: ignore[attr-defined]
    return share


def _chosen(op: str, chosen: Any, size: int) -> Tensor:
    """The ids that a mask selects, or those given, ascending."""
    if isinstance(chosen, DistTensor):
        _check_mask(op, tuple(chosen.shape), size)
        blocks = range(0, size, _BLOCK)
        found = [chosen[begin : begin + _BLOCK].nonzero().view(-1) + begin for begin in blocks]
        return torch.cat(found) if found else torch.empty(0, dtype=torch.int64)
    given = torch.as_tensor(chosen).cpu()
    if given.dtype in (torch.int32, torch.int64):
        ids = torch.unique(given)
        if ids.shape == given.shape:
            if ids.numel() and not 0 <= int(ids[0]) <= int(ids[-1]) < size:
                raise SmexValueError(
                    f"{op}: expected ids from 0 to {size - 1}, found {int(ids[0])} to "
                    f"{int(ids[-1])}"
                )
            return ids.long()
        if tuple(given.shape) == (size,) and set(ids.tolist()) <= {0, 1}:
            return given.nonzero().view(-1)
        raise SmexValueError(
            f"{op}: expected a mask of {size} numbers 0 and 1, or different ids, found "
            f"{describe(given)} with {given.numel() - ids.numel()} repetitions"
        )
    _check_mask(op, tuple(given.shape), size)
    return given.nonzero().view(-1)


def _check_mask(op: str, shape: tuple[int, ...], size: int) -> None:
    if shape != (size,):
        raise SmexValueError(f"{op}: expected a mask of shape [{size}], found shape {list(shape)}")
