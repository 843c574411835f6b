"""Batches of items: the first stage."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np
import torch
import torch.distributed as dist
from torch import Tensor
from torch.utils.data import IterDataPipe, get_worker_info

from smex.errors import SmexRuntimeError, SmexTypeError, SmexValueError
from smex.graph.creation.random import draw_seed, drawing_from
from smex.graph.graph import Graph
from smex.graph.graphbolt.items import ItemSet, ItemSetDict
from smex.graph.graphbolt.minibatch import MiniBatch
from smex.graph.parts.batch import batch as batch_graphs

__all__ = ["DistributedItemSampler", "ItemSampler", "minibatcher_default"]

_AHEAD = 10  # batches that are looked at together of items that come one by one


def minibatcher_default(batch: Any, names: tuple[str, ...] | None) -> Any:
    """Makes a :class:`MiniBatch` of items with names; without names they stay as they are."""
    if names is None:
        warnings.warn(
            "ItemSampler: the items have no names, and are passed on as they are; give "
            'ItemSet(..., names="seed_nodes"), or a minibatcher',
            stacklevel=2,
        )
        return batch
    minibatch = MiniBatch()
    for n, name in enumerate(names):
        if not hasattr(minibatch, name):
            warnings.warn(
                f'ItemSampler: "{name}" is no attribute of a MiniBatch and is added to it; a '
                "minibatcher may do something else",
                stacklevel=2,
            )
        if len(names) == 1:
            part = batch
        elif isinstance(batch, Mapping):
            part = {key: each[n] for key, each in batch.items()}
        else:
            part = batch[n]
        if name == "node_pairs":
            if isinstance(part, Mapping):
                part = {key: (each[:, 0], each[:, 1]) for key, each in part.items()}
            else:
                part = (part[:, 0], part[:, 1])
        setattr(minibatch, name, part)
    return minibatch


class ItemSampler(IterDataPipe):
    """Goes over items in batches.

    Worker processes of a :class:`DataLoader` make every k-th batch each, so that the batches and
    their order do not depend on how many there are.

    Args:
        item_set: what to go over.
        batch_size: items in a batch.
        minibatcher: is called with the items of a batch, tensors [batch_size, ...] of their parts,
            and their names, and makes the batch.
        drop_last: whether to leave out a smaller last batch.
        shuffle: whether to go over the items in another order each time. The order is drawn from
            torch's generator when the sampler is made.
        use_indexing: taken for compatibility.
        buffer_size: so many items are shuffled together; all by default, ten batches of items that
            come one by one.

    Raises:
        SmexValueError: `batch_size` is less than 1.

    Example:
        >>> import smex.graph.graphbolt as gb
        >>> items = gb.ItemSet(torch.arange(5), names="seed_nodes")
        >>> [batch.seed_nodes.tolist() for batch in gb.ItemSampler(items, batch_size=2)]
        [[0, 1], [2, 3], [4]]
    """

    def __init__(
        self,
        item_set: ItemSet | ItemSetDict,
        batch_size: int,
        minibatcher: Callable[[Any, Any], Any] = minibatcher_default,
        drop_last: bool = False,
        shuffle: bool = False,
        use_indexing: bool = True,
        buffer_size: int = -1,
    ):
        super().__init__()
        if batch_size < 1:
            raise SmexValueError(
                f"ItemSampler: expected a batch_size of at least 1, found {batch_size}"
            )
        self._items = item_set
        self._batch_size = int(batch_size)
        self._minibatcher = minibatcher
        self._drop_last = drop_last
        self._shuffle = shuffle
        self._buffer_size = buffer_size
        self._seed = draw_seed()
        self.epoch = 0
        """How often the items were gone over."""

    def __iter__(self) -> Iterator[Any]:
        epoch, self.epoch = self.epoch, self.epoch + 1
        worker = get_worker_info()
        for number, batch in enumerate(self._batches(np.random.default_rng([self._seed, epoch]))):
            if worker is None:
                yield self._minibatcher(batch, self._items.names)
            elif number % worker.num_workers == worker.id:
                # Processes that were forked alike would draw alike.
                with drawing_from(hash((self._seed, epoch, number)) % 2**62):
                    yield self._minibatcher(batch, self._items.names)

    def _batches(self, rng: np.random.Generator) -> Iterator[Any]:
        try:
            total = len(self._items)
        except (TypeError, SmexTypeError):
            yield from self._batches_of_stream(rng)
            return
        begin, end = self._range(total)
        buffer = self._buffer(end - begin)
        for start in range(begin, end, buffer):
            stop = min(start + buffer, end)
            places = torch.arange(stop - start)
            if self._shuffle:
                places = torch.from_numpy(rng.permutation(stop - start))
            part = self._items[start:stop]
            for batch in places.split(self._batch_size):
                if len(batch) == self._batch_size or not self._drop_last:
                    yield _taken(part, batch)

    def _batches_of_stream(self, rng: np.random.Generator) -> Iterator[Any]:
        kept: list[Any] = []
        most = self._buffer(_AHEAD * self._batch_size)

        def emptied() -> Iterator[Any]:
            order = rng.permutation(len(kept)) if self._shuffle else range(len(kept))
            for at in range(0, len(kept), self._batch_size):
                chosen = [kept[n] for n in order[at : at + self._batch_size]]
                if len(chosen) == self._batch_size or not self._drop_last:
                    yield _collated(chosen)
            kept.clear()

        for item in self._items:
            kept.append(item)
            if len(kept) == most:
                yield from emptied()
        yield from emptied()

    def _buffer(self, default: int) -> int:
        """Returns how many items are shuffled together: a number of whole batches."""
        size = self._buffer_size if self._buffer_size > 0 else max(default, 1)
        return -(-size // self._batch_size) * self._batch_size

    def _range(self, total: int) -> tuple[int, int]:
        """Returns which of the items are this process's."""
        return 0, total


class DistributedItemSampler(ItemSampler):
    """As :class:`ItemSampler`, with a part of the items for each process of torch's default group.

    Whole batches in a row are a process's; the first ones have one more where they are not as many.

    Args:
        item_set: what to go over.
        batch_size: items in a batch.
        minibatcher: as for :class:`ItemSampler`.
        drop_last: as for :class:`ItemSampler`.
        shuffle: as for :class:`ItemSampler`; within a process's part.
        drop_uneven_inputs: whether to leave out batches so that all processes have as many.
        buffer_size: as for :class:`ItemSampler`.

    Raises:
        SmexRuntimeError: there is no process group.
    """

    def __init__(
        self,
        item_set: ItemSet | ItemSetDict,
        batch_size: int,
        minibatcher: Callable[[Any, Any], Any] = minibatcher_default,
        drop_last: bool = False,
        shuffle: bool = False,
        drop_uneven_inputs: bool = False,
        buffer_size: int = -1,
    ):
        super().__init__(
            item_set, batch_size, minibatcher, drop_last, shuffle, buffer_size=buffer_size
        )
        if not (dist.is_available() and dist.is_initialized()):
            raise SmexRuntimeError(
                "DistributedItemSampler: torch has no process group; call "
                "torch.distributed.init_process_group before, or use ItemSampler"
            )
        self._drop_uneven_inputs = drop_uneven_inputs
        self._rank, self._world_size = dist.get_rank(), dist.get_world_size()

    def _range(self, total: int) -> tuple[int, int]:
        size = self._batch_size
        count = total // size if self._drop_last else -(-total // size)
        each, more = divmod(count, self._world_size)
        first = self._rank * each + min(self._rank, more)
        own = each + (self._rank < more and not self._drop_uneven_inputs)
        return min(first * size, total), min((first + own) * size, total)


def _taken(part: Any, places: Tensor) -> Any:
    """Returns the items at some places, of tensors, lists, tuples of them and dicts by type."""
    if isinstance(part, Mapping):
        found = {}
        begin = 0
        for key, each in part.items():
            end = begin + len(each[0] if isinstance(each, tuple) else each)
            own = places[(places >= begin) & (places < end)] - begin
            if len(own):
                found[key] = _taken(each, own)
            begin = end
        return found
    if isinstance(part, tuple):
        return tuple(_taken(each, places) for each in part)
    if isinstance(part, Tensor):
        return part[places]
    if isinstance(part, np.ndarray):
        return torch.as_tensor(part[places.numpy()])
    return _collated([part[n] for n in places.tolist()])


def _collated(items: list[Any]) -> Any:
    """Returns items that came one by one as a batch."""
    first = items[0]
    if isinstance(first, Graph):
        return batch_graphs(items)
    if isinstance(first, Mapping):
        by_type: dict[Any, list[Any]] = {}
        for item in items:
            for key, each in item.items():
                by_type.setdefault(key, []).append(each)
        return {key: _collated(each) for key, each in by_type.items()}
    if isinstance(first, tuple):
        return tuple(_collated(list(part)) for part in zip(*items, strict=True))
    if isinstance(first, Tensor):
        return torch.stack(items)
    return torch.as_tensor(np.stack([np.asarray(item) for item in items]))
