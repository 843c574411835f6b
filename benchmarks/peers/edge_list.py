"""A graph as the workers hold it: unsorted edges, and sorted forms made once, outside timing."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch import Tensor


class Compressed(NamedTuple):
    """Rows of neighbours: `indices[indptr[r]:indptr[r + 1]]`, and the edges' ids in that order."""

    indptr: Tensor
    indices: Tensor
    eids: Tensor

    def long(self) -> Compressed:
        return Compressed(*(tensor.long() for tensor in self))


class Edges:
    """The edges `src[i] -> dst[i]` of `num_nodes` nodes, with ids of one type on one device."""

    def __init__(self, src: Tensor, dst: Tensor, num_nodes: int) -> None:
        self.src, self.dst, self.num_nodes = src, dst, num_nodes
        self._kept: dict[Any, Any] = {}

    @property
    def num_edges(self) -> int:
        return self.src.numel()

    def keep(self, key: Any, make: Callable[[], Any]) -> Any:
        """What `make` returned the first time that this key was asked for."""
        if key not in self._kept:
            self._kept[key] = make()
        return self._kept[key]

    def csc(self, *, by_id: bool = False) -> Compressed:
        """The rows are destinations; within a row by source, or by edge id."""
        make = lambda: _compress(self.dst, self.src, self.num_nodes, by_id)  # noqa: E731
        return self.keep(("csc", by_id), make)

    def csr(self, *, by_id: bool = False) -> Compressed:
        """The rows are sources; within a row by destination, or by edge id."""
        make = lambda: _compress(self.src, self.dst, self.num_nodes, by_id)  # noqa: E731
        return self.keep(("csr", by_id), make)

    def sorted_edges(self) -> tuple[Tensor, Tensor]:
        """Sources and destinations as int64, sorted by destination: the order of `csc()`."""
        eids = self.csc().eids.long()
        return self.keep("sorted", lambda: (self.src.long()[eids], self.dst.long()[eids]))

    def in_degrees(self) -> Tensor:
        return self.csc().indptr.diff()

    def out_degrees(self) -> Tensor:
        return self.csr().indptr.diff()


def _compress(rows: Tensor, columns: Tensor, num_rows: int, by_id: bool) -> Compressed:
    keys = rows.long() if by_id else rows.long() * num_rows + columns
    order = torch.sort(keys, stable=True).indices
    indptr = rows.new_zeros(num_rows + 1)
    indptr[1:] = torch.bincount(rows.long(), minlength=num_rows).cumsum(0)
    return Compressed(indptr, columns[order].contiguous(), order.to(rows.dtype))
