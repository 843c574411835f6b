"""The rows of a tensor that is divided among ranks: who has them, and how each reaches them."""

from __future__ import annotations

import threading
import weakref
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from smex.graph.distributed.context import Context
from smex.graph.distributed.messages import Order


class RowCounts:
    """How many rows were read, and where they came from.

    Attributes:
        asked: rows that were asked for.
        memory: of these, those that lie in memory or files of this machine.
        cached: those that were kept from an earlier time.
        repeated: those that were asked for several times at once, but for the first of each.
        fetched: those that another process has sent.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.asked = self.memory = self.cached = self.repeated = self.fetched = 0

    def add(self, **numbers: int) -> None:
        """Adds to some of them."""
        with self._lock:
            for name, number in numbers.items():
                setattr(self, name, getattr(self, name) + number)

    def told(self) -> dict[str, int]:
        """Returns all of them by name."""
        names = ("asked", "memory", "cached", "repeated", "fetched")
        return {name: getattr(self, name) for name in names}


class SharedRows:
    """Rows in pieces, each of which a rank owns.

    Args:
        context: of the ranks.
        number: of the tensor, the same on all ranks.
        starts: where each piece's rows begin, and where the last one's end.
        pieces: the rows as far as they are reached through memory; no rows elsewhere.
        owners: by piece the rank that has it.
        read_only: whether rows never change.

    Attributes:
        is_whole: whether all rows are reached through memory.
    """

    def __init__(
        self,
        context: Context,
        number: int,
        starts: Sequence[int],
        pieces: list[Tensor],
        owners: list[int],
        read_only: bool,
    ):
        self.context = context
        self.number = number
        self.pieces = pieces
        self.owners = owners
        self.read_only = read_only
        self.counts = RowCounts()
        self.size = starts[-1]
        self.like = pieces[0][:0]
        self._starts = torch.tensor(starts)
        self._owners = torch.tensor(owners)
        self.is_whole = all(
            piece.shape[0] == end - begin for piece, begin, end in zip(pieces, starts, starts[1:])
        )
        self._cached_ids = torch.empty(0, dtype=torch.int64)
        self._cached_rows = self.like
        weakref.finalize(self, context.drop, number)

    def own(self) -> Tensor:
        """Returns the rows of this rank, themselves where they are one piece."""
        rank = self.context.rank
        mine = [p for p, owner in zip(self.pieces, self.owners) if owner == rank and p.shape[0]]
        if len(mine) == 1:
            return mine[0]
        return torch.cat(mine) if mine else self.like

    def is_here(self, ids: Tensor) -> Tensor:
        """Returns whether each row is reached through memory: bool ``[n]``."""
        here = torch.tensor([piece.shape[0] > 0 for piece in self.pieces])
        return here[self._piece_of(ids)]

    def _piece_of(self, ids: Tensor) -> Tensor:
        return torch.searchsorted(self._starts, ids, right=True) - 1

    def read(self, ids: Tensor, also: RowCounts | None = None) -> Tensor:
        """Returns some rows ``[n, ...]``: those of other machines are sent, each once.

        Args:
            ids: int64, in any order.
            also: counts that are added to, beside those of the tensor.

        Raises:
            ValueError: an id is out of range.
            RankFailure: a rank whose rows are wanted has failed.
        """
        rows, missing = torch.ops.smex.gather_rows(self.pieces, self._starts, ids)
        places = missing.nonzero().view(-1) if not self.is_whole else ids[:0]
        count = ids.shape[0]
        told = {"asked": count, "memory": count - places.shape[0]}
        if places.shape[0]:
            rows[places] = self._remote(ids[places], told)
        self.counts.add(**told)
        if also is not None:
            also.add(**told)
        return rows

    def _remote(self, ids: Tensor, told: dict[str, int]) -> Tensor:
        wanted, inverse = torch.unique(ids, return_inverse=True)
        table = self.like.new_empty((wanted.shape[0], *self.like.shape[1:]))
        absent = torch.ones(wanted.shape[0], dtype=torch.bool)
        if self._cached_ids.shape[0]:
            place = torch.searchsorted(self._cached_ids, wanted)
            place.clamp_(max=self._cached_ids.shape[0] - 1)
            found = self._cached_ids[place] == wanted
            table[found] = self._cached_rows[place[found]]
            absent = ~found
        asked = wanted[absent]
        if asked.shape[0]:
            table[absent] = self._fetched(asked)
        told["repeated"] = ids.shape[0] - wanted.shape[0]
        told["cached"] = wanted.shape[0] - asked.shape[0]
        told["fetched"] = asked.shape[0]
        return table[inverse]

    def _fetched(self, ids: Tensor) -> Tensor:
        """Rows of other machines; `ids` ascend, so that those of a rank stand together."""
        owners, counts = torch.unique_consecutive(
            self._owners[self._piece_of(ids)], return_counts=True
        )
        parts = ids.split(counts.tolist())
        orders = [Order(rank, self.number, part) for rank, part in zip(owners.tolist(), parts)]
        answers: Any = self.context.asker.ask(orders, self.like)
        return torch.cat(answers)

    def write(self, ids: Tensor, rows: Tensor) -> None:
        """Writes some rows; of an id that is given twice the last one stays.

        Raises:
            RankFailure: a rank whose rows are written has failed.
        """
        piece = self._piece_of(ids)
        orders: dict[int, list[Tensor]] = {}
        for number in torch.unique(piece).tolist():
            mine = (piece == number).nonzero().view(-1)
            target = self.pieces[number]
            if target.shape[0]:
                target.index_copy_(0, ids[mine] - self._starts[number], rows[mine])
            else:
                orders.setdefault(self.owners[number], []).append(mine)
        if orders:
            places = {rank: torch.cat(lists) for rank, lists in orders.items()}
            sent = [
                Order(rank, self.number, ids[place], rows[place]) for rank, place in places.items()
            ]
            self.context.asker.ask(sent, self.like)

    def keep(self, ids: Tensor) -> int:
        """Fetches rows of other machines that are to be kept, and returns how many they are.

        Only for rows that never change.
        """
        if self.is_whole or not self.read_only:
            return 0
        wanted = torch.unique(ids[~self.is_here(ids)])
        if wanted.shape[0]:
            rows = self._fetched(wanted)
            self.counts.add(fetched=wanted.shape[0])
            self._cached_rows, self._cached_ids = rows, wanted
        return wanted.shape[0]

    def forget_kept(self) -> None:
        """Keeps no rows of other machines any longer."""
        self._cached_ids = torch.empty(0, dtype=torch.int64)
        self._cached_rows = self.like
