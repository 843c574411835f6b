"""Runs a pipeline."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from torch.utils.data import IterDataPipe

from smex.graph.graphbolt.features import FeatureFetcher
from smex.graph.graphbolt.item_sampler import ItemSampler

__all__ = ["DataLoader"]


class _InProcesses(IterDataPipe):
    """The stages before, in worker processes."""

    def __init__(self, datapipe: Any, num_workers: int, persistent_workers: bool):
        super().__init__()
        self.datapipe = datapipe
        self._first = [each for each in _chain(datapipe) if isinstance(each, ItemSampler)]
        self._loader = torch.utils.data.DataLoader(
            datapipe, batch_size=None, num_workers=num_workers,
            persistent_workers=persistent_workers,
        )  # fmt: skip

    def __iter__(self) -> Iterator[Any]:
        batches = iter(self._loader)
        for sampler in self._first:  # theirs have begun with it
            sampler.epoch += 1
        yield from batches


class DataLoader(torch.utils.data.DataLoader):
    """Iterates over the batches of a pipeline.

    Args:
        datapipe: the last stage. With workers it is changed: what comes before features are read
            runs in these, the rest here.
        num_workers: worker processes. Batches and their order do not depend on it.
        persistent_workers: whether workers go on to live between epochs.
        overlap_feature_fetch: taken for compatibility.
        overlap_graph_fetch: taken for compatibility.
        max_uva_threads: taken for compatibility.

    Example:
        >>> import smex.graph.graphbolt as gb
        >>> items = gb.ItemSet(torch.arange(4), names="seed_nodes")
        >>> loader = gb.DataLoader(gb.ItemSampler(items, batch_size=2))
        >>> [batch.seed_nodes.tolist() for batch in loader]
        [[0, 1], [2, 3]]
    """

    def __init__(
        self,
        datapipe: Any,
        num_workers: int = 0,
        persistent_workers: bool = True,
        overlap_feature_fetch: bool = True,
        overlap_graph_fetch: bool = False,
        max_uva_threads: int = 6144,
    ):
        if num_workers > 0:
            datapipe = _divided(datapipe, num_workers, persistent_workers)
        super().__init__(datapipe, batch_size=None, num_workers=0)


def _chain(datapipe: Any) -> list[Any]:
    """Returns the stages from the last to the first."""
    found = []
    while datapipe is not None:
        found.append(datapipe)
        datapipe = getattr(datapipe, "datapipe", None)
    return found


def _divided(datapipe: Any, num_workers: int, persistent_workers: bool) -> Any:
    """Puts the stages before the first that reads features, or all, into processes."""
    fetchers = [each for each in _chain(datapipe) if isinstance(each, FeatureFetcher)]
    if not fetchers:
        return _InProcesses(datapipe, num_workers, persistent_workers)
    first = fetchers[-1]
    first.datapipe = _InProcesses(first.datapipe, num_workers, persistent_workers)
    return datapipe
