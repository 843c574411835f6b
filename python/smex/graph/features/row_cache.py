"""Rows that were read lately, kept on another device than the feature that they are of."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

__all__ = ["RowCache"]


class RowCache:
    """Some rows by their ids, those that were read last.

    Every step is an operation on tensors of its device, none waits for the CPU but to tell how many
    rows are missing.

    Args:
        capacity: how many rows it has room for.
        row_shape: of a row.
        dtype: of a row.
        device: where it is.

    Attributes:
        total_queries: how many rows were asked for.
        total_miss: how many of them were not there.

    Example:
        >>> cache = RowCache(2, (1,), torch.float32, torch.device("cpu"))
        >>> cache.replace(torch.tensor([7]), torch.tensor([[0.5]]))
        >>> values, missing_index, missing_keys = cache.query(torch.tensor([3, 7]))
        >>> values[1], missing_index, missing_keys
        (tensor([0.5000]), tensor([0]), tensor([3]))
    """

    def __init__(
        self, capacity: int, row_shape: Sequence[int], dtype: torch.dtype, device: torch.device
    ):
        self.capacity = capacity
        self.total_queries, self.total_miss = 0, 0
        self._rows = torch.empty(capacity, *row_shape, dtype=dtype, device=device)
        self._clock = 0
        self.clear()

    @property
    def miss_rate(self) -> float:
        """Returns the part of the rows asked for that were not there; 0 if none were."""
        return self.total_miss / self.total_queries if self.total_queries else 0.0

    def clear(self) -> None:
        """Forgets all rows."""
        device = self._rows.device
        self._keys = torch.full((self.capacity,), -1, dtype=torch.int64, device=device)
        self._used = torch.full((self.capacity,), -1, dtype=torch.int64, device=device)
        self._sort()

    def query(self, keys: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Returns the rows of some ids, and which are missing.

        Args:
            keys: ids ``[n]`` of at least 0.

        Returns:
            Rows ``[n, ...]`` of which those that are missing have any values; their places in
            `keys`; and their ids.
        """
        self._clock += 1
        keys = keys.to(self._rows.device)
        slots, is_there = self._slots(keys)
        missing = (~is_there).nonzero().view(-1)
        self._used[slots[is_there]] = self._clock
        self.total_queries += keys.shape[0]
        self.total_miss += missing.shape[0]
        return self._rows[slots] if self.capacity else self._empty(keys), missing, keys[missing]

    def replace(self, keys: Tensor, values: Tensor) -> None:
        """Stores rows, in the place of those that were not asked for the longest time.

        Of more rows than it has room for the first are kept; of an id that comes twice, the last.

        Args:
            keys: ids ``[n]``.
            values: rows ``[n, ...]``.
        """
        if not self.capacity or not keys.shape[0]:
            return
        self._clock += 1
        keys, values = keys.to(self._rows.device), values.to(self._rows)
        distinct, place = torch.unique(keys.long(), return_inverse=True)
        order = torch.arange(keys.shape[0], device=keys.device)
        last = torch.zeros_like(distinct).scatter_reduce(0, place, order, "amax")
        slots, is_there = self._slots(distinct)
        self._store(slots[is_there], distinct[is_there], values[last[is_there]])
        fresh, rows = distinct[~is_there], values[last[~is_there]]
        room = min(fresh.shape[0], self.capacity)
        self._store(self._used.argsort(stable=True)[:room], fresh[:room], rows[:room])
        self._sort()

    def read(self, column: Tensor, rows: Tensor) -> Tensor:
        """Returns rows of a feature, which are read from it where they are missing, and stored."""
        values, missing, keys = self.query(rows)
        found = column.index_select(0, keys.to(column.device)).to(self._rows.device)
        values[missing] = found
        self.replace(keys, found)
        return values

    def _slots(self, keys: Tensor) -> tuple[Tensor, Tensor]:
        """Returns where ids are, and whether they are there."""
        if not self.capacity:
            return torch.zeros_like(keys), torch.zeros_like(keys, dtype=torch.bool)
        place = torch.searchsorted(self._sorted, keys.long()).clamp_(max=self.capacity - 1)
        return self._order[place], self._sorted[place] == keys

    def _store(self, slots: Tensor, keys: Tensor, values: Tensor) -> None:
        self._rows[slots] = values
        self._keys[slots] = keys
        self._used[slots] = self._clock

    def _sort(self) -> None:
        self._sorted, self._order = self._keys.sort(stable=True)

    def _empty(self, keys: Tensor) -> Tensor:
        return self._rows.new_empty(keys.shape[0], *self._rows.shape[1:])
