"""Capturing a model: one call of it as a functional graph of ATen operators."""

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
from smex.capture.records import (
    CapturedGraph,
    FusionRecord,
    OpRecord,
    OutputRecord,
    ValueRecord,
    ValueRef,
)
from smex.capture.repeats import NotRepeatedError
from smex.capture.replay import replay
from smex.capture.trace import trace
from smex.errors import SmexTypeError

__all__ = [
    "CapturedGraph",
    "FusionRecord",
    "OpRecord",
    "OutputRecord",
    "ValueRecord",
    "ValueRef",
    "capture",
    "replay",
]


_LOCK = threading.RLock()
"""Torch traces in one thread at a time."""


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


def as_arguments(args: Any) -> tuple[Any, ...]:
    """Returns a model's positional arguments; one that is no tuple stands for itself."""
    if isinstance(args, list):
        raise SmexTypeError(
            "capture: expected the model's arguments in a tuple, found a list; write (x, y), or "
            "([x, y],) for a model that takes a list"
        )
    return args if isinstance(args, tuple) else (args,)


def _captured(
    model: Callable,
    args: tuple,
    kwargs: dict,
    loss_fn: Callable | None,
    training: bool,
    repeats: bool | None,
) -> tuple[CapturedGraph, float]:
    """Returns the graph and when it was traced: with copies, and where that fails without."""
    if repeats is None:
        repeats = os.environ.get("SMEX_REPEATS", "1") != "0"
    if repeats:
        try:
            traced = trace(model, args, kwargs, loss_fn, training, repeats=True)
            traced_at = time.perf_counter()
            return Converter(traced).convert(), traced_at
        except NotRepeatedError as error:
            logger.debug("capture: every call is traced: %s", error.__cause__ or error)
    traced = trace(model, args, kwargs, loss_fn, training, repeats=False)
    traced_at = time.perf_counter()
    return Converter(traced).convert(), traced_at


def capture(
    model: Callable,
    args: tuple | torch.Tensor = (),
    *,
    kwargs: dict[str, Any] | None = None,
    loss_fn: Callable | None = None,
    training: bool | None = None,
    repeats: bool | None = None,
) -> CapturedGraph:
    """Captures one call of a model without computing it.

    Tensors may be on any device, the meta device included: only shapes and dtypes are read, nothing
    is allocated, and the model is left as it was. `model.training` is respected as it stands.

    Args:
        model: a module (scripted and traced ones too) or a function of tensors.
        args: positional arguments, nested as the model takes them. Other leaves than tensors become
            constants of the graph.
        kwargs: keyword arguments of the model.
        loss_fn: with it, the graph computes `loss_fn(model(*args[:-1], **kwargs), args[-1])`.
        training: whether to append the backward graph. By default, when gradients are enabled and
            a parameter or an input requires one.
        repeats: whether equal calls of modules, such as those of the layers of a deep model, are
            traced once and copied (`smex.capture.repeats`), which changes nothing but the seconds.
            By default they are, unless the environment says `SMEX_REPEATS=0`.

    Returns:
        The graph. Its gradients are those of the sum of outputs weighted by the tangents.

    Raises:
        SmexTypeError: the model or the loss cannot be called, or `args` is a list.
        CaptureError: the model fails, or its shapes or control flow depend on a tensor's values.
            The message names the source line.

    Example:
        >>> graph = capture(torch.nn.Linear(3, 2), (torch.randn(5, 3),))
        >>> [op.target for op in graph.ops if not op.backward]
        ['aten::t', 'aten::mm', 'aten::add.Tensor']
    """
    for what, function in (("model", model), ("loss_fn", loss_fn)):
        if not callable(function) and (what == "model" or function is not None):
            raise SmexTypeError(
                f"capture: expected a module or a function as {what}, found {function!r}"
            )
    args = as_arguments(args)
    wants_grad = torch.is_grad_enabled() if training is None else training
    started = time.perf_counter()
    with _LOCK, _collector_paused():
        graph, traced_at = _captured(model, args, kwargs or {}, loss_fn, wants_grad, repeats)
    graph.name = type(model).__name__ if isinstance(model, torch.nn.Module) else "function"
    graph.timings = {"trace": traced_at - started, "convert": time.perf_counter() - traced_at}
    return graph
