"""Processors of their own for the workers of a loader, and for the process that computes."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch

from smex.errors import SmexRuntimeError, SmexValueError

logger = logging.getLogger("smex.graph.dataloading")


class _Pinned:
    """What a worker begins with: it moves to its processor."""

    def __init__(self, cores: Sequence[int], begin: Callable[[int], Any] | None):
        self._cores = cores
        self._begin = begin

    def __call__(self, worker_id: int) -> None:
        os.sched_setaffinity(0, {self._cores[worker_id]})
        if self._begin is not None:
            self._begin(worker_id)


@contextmanager
def own_cores(
    loader: Any, loader_cores: Sequence[int] | None, compute_cores: Sequence[int] | None
) -> Iterator[None]:
    """Within the context, see :meth:`DataLoader.enable_cpu_affinity`."""
    workers = loader.num_workers
    if not hasattr(os, "sched_setaffinity"):
        raise SmexRuntimeError(
            "enable_cpu_affinity: expected a system that assigns processors, such as Linux; leave "
            "it out"
        )
    cores = sorted(os.sched_getaffinity(0))
    chosen = list(loader_cores or [c for c in cores if c not in (compute_cores or ())][:workers])
    if workers < 1 or len(chosen) != workers or not {*chosen, *(compute_cores or ())} <= {*cores}:
        raise SmexValueError(
            f"enable_cpu_affinity: expected a core of {cores} for each of at least 1 worker, found "
            f"{chosen} for num_workers={workers}, and compute_cores={compute_cores}"
        )
    rest = set(compute_cores or [c for c in cores if c not in chosen] or cores)
    threads, begin = torch.get_num_threads(), loader.worker_init_fn
    logger.info("workers on cores %s, this process on %s", chosen, sorted(rest))
    try:
        os.sched_setaffinity(0, rest)
        torch.set_num_threads(len(rest))
        loader.worker_init_fn = _Pinned(chosen, begin)
        yield
    finally:
        os.sched_setaffinity(0, set(cores))
        torch.set_num_threads(threads)
        loader.worker_init_fn = begin
