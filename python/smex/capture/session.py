"""What a capture takes place in, and how it ends."""

from __future__ import annotations

import contextlib
import gc
import os
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import torch

from smex._logging import logger
from smex.capture.convert import Converter
from smex.capture.records import CapturedGraph
from smex.capture.repeats import NotRepeatedError
from smex.capture.trace import Trace, trace

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
    graph.name = name_of(model)
    graph.timings = {"trace": traced_at - started, "convert": time.perf_counter() - traced_at}
    return graph


def name_of(model: Callable) -> str:
    """Returns what a captured model is called."""
    return type(model).__name__ if isinstance(model, torch.nn.Module) else "function"


def may_repeat(asked: bool | None = None) -> bool:
    """Returns whether equal calls are copied: as asked, or as the environment says."""
    return os.environ.get("SMEX_REPEATS", "1") != "0" if asked is None else asked


def captured(
    model: Callable,
    args: tuple,
    kwargs: dict[str, Any],
    loss_fn: Callable | None,
    training: bool,
    repeats: bool | None = None,
) -> CapturedGraph:
    """Returns the graph of a call: with copies of equal calls, and where that fails without."""
    call = (model, args, kwargs, loss_fn, training)
    with tracing() as started:
        if may_repeat(repeats):
            try:
                return finish(trace(*call, repeats=True), model, started)
            except NotRepeatedError as error:
                logger.debug("capture: every call is traced: %s", error.__cause__ or error)
        return finish(trace(*call, repeats=False), model, started)
