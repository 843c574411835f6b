"""The loader of batches of small graphs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch.utils.data import DistributedSampler
from torch.utils.data._utils.collate import collate, default_collate_fn_map

from smex.errors import SmexValueError
from smex.graph.dataloading.epochs import EpochSeedMixin
from smex.graph.graph import Graph
from smex.graph.parts.batch import batch

__all__ = ["GraphDataLoader"]


def collated(items: list[Any], graph_collate: Callable[[list[Graph]], Any] | None = None) -> Any:
    """Items as one: graphs by a function, by default :func:`batch`, the rest as torch does."""

    def batched(graphs: list[Graph], *, collate_fn_map: Any = None) -> Any:
        return (graph_collate or batch)(graphs)

    return collate(items, collate_fn_map={Graph: batched, **default_collate_fn_map})


class GraphDataLoader(EpochSeedMixin, torch.utils.data.DataLoader):
    """``torch.utils.data.DataLoader`` for data sets with graphs in their items.

    Graphs of a mini-batch become one by :func:`smex.graph.batch`; everything else is collated as
    torch does.

    Args:
        dataset: items are graphs, or tuples, lists or dicts with graphs and tensors.
        collate_fn: makes a batch of a list of items in another way.
        use_ddp: whether each process of the distributed group gets its own part of the items; call
            :meth:`set_epoch` before each epoch to shuffle anew.
        ddp_seed: seed of that shuffling, the same in all processes.
        kwargs: as for ``torch.utils.data.DataLoader``.

    Raises:
        SmexValueError: `use_ddp` and a `sampler` are given.

    Example:
        >>> import smex.graph as sg
        >>> items = [(sg.graph(([0], [1])), n) for n in range(3)]
        >>> for graphs, labels in sg.dataloading.GraphDataLoader(items, batch_size=2):
        ...     print(graphs.batch_size, labels)
        2 tensor([0, 1])
        1 tensor([2])
    """

    def __init__(
        self,
        dataset: Any,
        collate_fn: Callable[[list[Any]], Any] | None = None,
        use_ddp: bool = False,
        ddp_seed: int = 0,
        **kwargs: Any,
    ):
        self._shared: DistributedSampler | None = None
        if use_ddp:
            given = [name for name in ("sampler", "batch_sampler") if kwargs.get(name) is not None]
            if given:
                raise SmexValueError(
                    f"GraphDataLoader: use_ddp=True has a sampler of its own, found {given[0]}; "
                    "leave one of them out"
                )
            self._shared = DistributedSampler(
                dataset,
                shuffle=kwargs.pop("shuffle", False),
                seed=ddp_seed,
                drop_last=kwargs.get("drop_last", False),
            )
            kwargs["sampler"] = self._shared
        super().__init__(dataset, collate_fn=collate_fn or collated, **kwargs)

    def set_epoch(self, epoch: int) -> None:
        """Choose the order of an epoch, where `use_ddp`."""
        if self._shared is not None:
            self._shared.set_epoch(epoch)
