"""Capturing a model: one call of it as a functional graph of ATen operators."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from smex.capture.records import (
    CapturedGraph,
    FusionRecord,
    OpRecord,
    OutputRecord,
    ValueRecord,
    ValueRef,
)
from smex.capture.replay import replay
from smex.capture.session import captured
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


def as_arguments(args: Any) -> tuple[Any, ...]:
    """Returns a model's positional arguments; one that is no tuple stands for itself."""
    if isinstance(args, list):
        raise SmexTypeError(
            "capture: expected the model's arguments in a tuple, found a list; write (x, y), or "
            "([x, y],) for a model that takes a list"
        )
    return args if isinstance(args, tuple) else (args,)


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
    return captured(model, args, kwargs or {}, loss_fn, wants_grad, repeats)
