"""Which ids are in which batch: a function of seed, epoch and place alone."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from typing import Any

import torch

from smex.errors import SmexValueError
from smex.graph.dataloading.loader import Seeds
from smex.graph.distributed.context import Context
from smex.graph.distributed.split import share_sizes
from smex.graph.sampling.arguments import check_count

_LARGEST_SEED = 2**62


class BatchOrder:
    """The batches of each epoch, on this rank.

    Where the ids are those of all ranks, they are put in one order, the same everywhere, and cut
    into batches; batch k is that of rank ``k mod size``. So a batch of some number has the same
    ids, and the same seed, whatever the number of ranks. Where they are a rank's share, it orders
    and cuts them itself.

    All ranks make as many steps: who has fewer batches begins again with its first.

    Args:
        op: the loader, for messages.
        here: the ranks.
        ids: a vector, or a dict of vectors by type.
        batch_size: number of ids in a batch.
        shuffle: whether the order is another one in each epoch.
        drop_last: whether a last batch of fewer ids is left out.
        seed: of orders and samples.
        use_ddp: whether the ids are those of all ranks; None: unless they are a share.

    Attributes:
        is_whole: whether the ids are those of all ranks.
    """

    def __init__(
        self,
        op: str,
        here: Context,
        ids: Any,
        batch_size: int,
        shuffle: bool,
        drop_last: bool,
        seed: int,
        use_ddp: bool | None,
    ):
        batch_size = check_count(op, "batch_size", batch_size, 1)
        self._op, self._here = op, here
        self._seeds = Seeds(ids)
        self._batch_size, self._shuffle, self._drop_last = batch_size, shuffle, drop_last
        self._seed = seed
        sizes = _sizes(ids)
        self.is_whole = use_ddp if use_ddp is not None else here.size > 1 and sizes is None
        # A rank that goes through all ids alone gets what one process does.
        is_share = not self.is_whole and sizes is not None and here.size > 1
        self._whose = str(here.rank) if is_share else ""
        self._steps = self._number_of_steps(sizes)
        if self.is_whole and here.size > 1:
            self._compare(ids)

    def _batches_of(self, count: int) -> int:
        return (count if self._drop_last else count + self._batch_size - 1) // self._batch_size

    def _number_of_steps(self, sizes: tuple[int, ...] | None) -> int:
        if self.is_whole:
            return -(-self._batches_of(len(self._seeds)) // self._here.size)
        mine = self._batches_of(len(self._seeds))
        if sizes is None or len(sizes) != self._here.size:
            return mine
        counts = [self._batches_of(size) for size in sizes]
        if max(counts) and not min(counts):
            raise SmexValueError(
                f"{self._op}: expected a batch on every rank, found none on rank "
                f"{counts.index(0)}, whose share has {sizes[counts.index(0)]} ids, and "
                f"{max(counts)} on another; split with force_even=True"
            )
        return max(counts)

    def _compare(self, ids: Any) -> None:
        """Raise where another rank has come to this loader with other ids; waits for nobody."""
        links = self._here.world.links
        assert links is not None
        store = links.store_of(f"loaders/{next(self._here.loaders)}")
        by_type = ids if isinstance(ids, Mapping) else {"": ids}
        told = hashlib.sha256()
        for key, of_type in by_type.items():
            told.update(f"{key} {self._batch_size} {self._seed} {self._shuffle}".encode())
            told.update(torch.as_tensor(of_type).long().contiguous().numpy().tobytes())
        store.set(str(self._here.rank), told.hexdigest())
        for rank in range(self._here.size):
            if store.check([str(rank)]) and store.get(str(rank)).decode() != told.hexdigest():
                raise SmexValueError(
                    f"{self._op}: expected the same ids, batch_size, shuffle and seed on all "
                    f"ranks, found others on rank {rank} than on rank {self._here.rank}; with ids "
                    "of this rank alone, which node_split did not make, pass use_ddp=False"
                )

    def __len__(self) -> int:
        """Number of steps, the same on all ranks."""
        return self._steps

    def of_epoch(self, epoch: int, first: int = 0) -> Iterator[tuple[int, Any]]:
        """Returns (seed, ids) of each batch of an epoch on this rank, from a step on."""
        rank, size = (self._here.rank, self._here.size) if self.is_whole else (0, 1)
        words = f"{self._seed}/{epoch}/{self._whose}"
        digest = hashlib.sha256(words.encode()).digest()
        generator = torch.Generator().manual_seed(int.from_bytes(digest[:7], "little"))
        begin = int(torch.randint(_LARGEST_SEED, (), generator=generator))
        count = len(self._seeds)
        order = torch.randperm(count, generator=generator) if self._shuffle else None
        batches = self._batches_of(count)
        for step in range(first, self._steps):
            number = (step * size + rank) % batches
            low = number * self._batch_size
            places = torch.arange(low, min(low + self._batch_size, count))
            yield begin + number, self._seeds.at(places if order is None else order[places])


def _sizes(ids: Any) -> tuple[int, ...] | None:
    """By rank the ids of its share, of all types; None: they are no share."""
    lists = list(ids.values()) if isinstance(ids, Mapping) else [ids]
    sizes = [share_sizes(of_type) for of_type in lists]
    known = [each for each in sizes if each is not None]
    if not known or len(known) < len(sizes):
        return None
    return tuple(map(sum, zip(*known)))
