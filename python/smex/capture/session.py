"""What a capture takes place in, and how it ends."""

from __future__ import annotations

import contextlib
import gc
import threading
import time
from collections.abc import Callable, Iterator

import torch

from smex.capture.convert import Converter
from smex.capture.records import CapturedGraph
from smex.capture.trace import Trace

_LOCK = threading.RLock()
"""Torch traces in one thread at a time."""


@contextlib.contextmanager
def tracing() -> Iterator[float]:
    """Gives the time at which it began; no other thread traces meanwhile."""
    with _LOCK, _collector_paused():
        yield time.perf_counter()


@contextlib.contextmanager
def _collector_paused() -> Iterator[None]:
    """Without the cyclic collector: a trace keeps nearly all it makes, and searching it is slow."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


def finish(traced: Trace, model: Callable, started: float) -> CapturedGraph:
    """Returns the records of a trace."""
    traced_at = time.perf_counter()
    graph = Converter(traced).convert()
    graph.name = type(model).__name__ if isinstance(model, torch.nn.Module) else "function"
    graph.timings = {"trace": traced_at - started, "convert": time.perf_counter() - traced_at}
    return graph
