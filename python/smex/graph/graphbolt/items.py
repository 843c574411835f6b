"""What a training goes over: nodes, pairs of nodes, graphs, with their labels."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Mapping, Sized
from typing import Any

import torch
from torch import Tensor

from smex.errors import SmexIndexError, SmexTypeError, SmexValueError

__all__ = ["ItemSet", "ItemSetDict"]


class ItemSet:
    """Items of one kind, each of one or several parts.

    Args:
        items: an int or a tensor of no dimensions, for the numbers below it; anything that can be
            iterated over, for its elements; or a tuple of such, for tuples of theirs.
        names: of the parts, as :class:`MiniBatch` calls them, such as ``"seed_nodes"`` or
            ``("node_pairs", "labels")``.

    Raises:
        SmexValueError: there are not as many names as parts.

    Example:
        >>> import smex.graph.graphbolt as gb
        >>> items = gb.ItemSet((torch.arange(3), torch.tensor([7, 8, 9])), ("seed_nodes", "labels"))
        >>> len(items), items[1:]
        (3, (tensor([1, 2]), tensor([8, 9])))
    """

    def __init__(self, items: Any, names: str | tuple[str, ...] | None = None):
        self._count = None
        self._dtype = torch.int64
        if isinstance(items, Tensor) and items.dim() == 0:
            self._count, self._dtype = int(items), items.dtype
        elif isinstance(items, int):
            self._count = items
        self._is_typed = isinstance(items, Tensor)
        self._items = items if isinstance(items, tuple) else (items,)
        self._names = names if isinstance(names, tuple) or names is None else (names,)
        if self._names is not None and len(self._names) != len(self._items):
            raise SmexValueError(
                f"ItemSet: expected a name for each of {len(self._items)} parts, found "
                f"{len(self._names)}: {self._names}"
            )

    @property
    def names(self) -> tuple[str, ...] | None:
        """What the parts are called."""
        return self._names

    def __len__(self) -> int:
        if self._count is not None:
            return self._count
        if not isinstance(self._items[0], Sized):
            raise SmexTypeError(
                f"ItemSet: a {type(self._items[0]).__name__} has no length; iterate over the items"
            )
        return len(self._items[0])

    def __iter__(self) -> Iterator[Any]:
        if self._count is not None:
            yield from torch.arange(self._count, dtype=self._dtype)
        elif len(self._items) == 1:
            yield from self._items[0]
        elif isinstance(self._items[0], Sized):
            for n in range(len(self)):
                yield tuple(part[n] for part in self._items)
        else:
            yield from zip(*self._items, strict=False)

    def __getitem__(self, idx: Any) -> Any:
        total = len(self)
        if self._count is None:
            found = tuple(part[idx] for part in self._items)
            return found[0] if len(found) == 1 else found
        if isinstance(idx, slice):
            return torch.arange(*idx.indices(total), dtype=self._dtype)
        if isinstance(idx, Tensor) and idx.dim() == 1:
            return idx.to(self._dtype)
        number = int(idx)
        if not -total <= number < total:
            raise SmexIndexError(f"ItemSet: expected an index of {total} items, found {number}")
        number %= total
        return torch.tensor(number, dtype=self._dtype) if self._is_typed else number

    def __repr__(self) -> str:
        items = self._items[0] if self._count is not None else self._items
        return f"ItemSet(\n    items={items},\n    names={self._names},\n)"


class ItemSetDict:
    """Items of several types of nodes or edges, those of the first type first.

    Args:
        itemsets: by type, with the same names.

    Raises:
        SmexValueError: they have different names, or there are none.

    Example:
        >>> import smex.graph.graphbolt as gb
        >>> items = gb.ItemSetDict({
        ...     "user": gb.ItemSet(2, "seed_nodes"), "item": gb.ItemSet(torch.tensor([5, 6, 7]),
        ...     "seed_nodes")})
        >>> len(items), items[1:4]
        (5, {'user': tensor([1]), 'item': tensor([5, 6])})
    """

    def __init__(self, itemsets: Mapping[str, ItemSet]):
        self._itemsets = dict(itemsets)
        names = {itemset.names for itemset in self._itemsets.values()}
        if len(names) != 1:
            raise SmexValueError(
                "ItemSetDict: expected item sets with the same names, found "
                f"{sorted(map(str, names))}"
            )
        (self._names,) = names

    @property
    def names(self) -> tuple[str, ...] | None:
        """What the parts of each item are called."""
        return self._names

    def __len__(self) -> int:
        return sum(map(len, self._itemsets.values()))

    def __iter__(self) -> Iterator[dict[str, Any]]:
        for key, itemset in self._itemsets.items():
            for item in itemset:
                yield {key: item}

    def __getitem__(self, idx: int | slice) -> dict[str, Any]:
        total = len(self)
        if isinstance(idx, slice):
            start, stop, step = idx.indices(total)
            if step != 1 or start >= stop:
                raise SmexValueError(
                    f"ItemSetDict: expected a slice of some items in a row, found {idx}"
                )
        else:
            start = int(idx)
            if not -total <= start < total:
                raise SmexIndexError(
                    f"ItemSetDict: expected an index of {total} items, found {start}"
                )
            start %= total
            stop = start + 1
        found = {}
        begin = 0
        for key, itemset in self._itemsets.items():
            end = begin + len(itemset)
            low, high = max(start, begin) - begin, min(stop, end) - begin
            if low < high:
                found[key] = itemset[low:high] if isinstance(idx, slice) else itemset[low]
            begin = end
        return found

    def __repr__(self) -> str:
        inner = textwrap.indent(repr(self._itemsets), " " * len("    itemsets=")).strip()
        return f"ItemSetDict(\n    itemsets={inner},\n    names={self._names},\n)"
