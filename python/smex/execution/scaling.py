"""Optimisers of what is divided: under torch's scalers of gradients, and of whole parameters."""

from __future__ import annotations

import functools
import sys
import warnings
from typing import Any, NoReturn

import torch
from torch.optim.optimizer import register_optimizer_step_pre_hook
from torch.utils.weak import WeakIdKeyDictionary

from smex.capture.origin import user_stacklevel
from smex.errors import SmexRuntimeError

_SHARDS = WeakIdKeyDictionary()
"""The parameters of which other processes have other tiles."""
_TILES = WeakIdKeyDictionary()
"""By shard that is a part of its parameter the name of this."""
_OF_WHOLES = (torch.optim.Adafactor, torch.optim.Muon)
"""Those of torch that look at a parameter as a whole: its rows and columns, its singular values."""
_MOST_NAMES = 4
_TOLD = WeakIdKeyDictionary()
"""The optimisers that were looked at."""
_SCALER = torch.amp.GradScaler.__module__
_FRAMES_OF_STEP = 8


def expect_shared_scale(shard: torch.nn.Parameter) -> None:
    """Has a step that a scaler makes of a parameter refused where it would be this process's own.

    A `torch.amp.GradScaler` skips steps whose gradients are not finite, and looks at those of its
    own process: others would go on, with another scale.
    """
    _watch_steps()
    _SHARDS[shard] = None


def expect_elementwise(shard: torch.nn.Parameter, name: str) -> None:
    """Has a step of an optimiser that looks at a parameter as a whole warn that it has a tile."""
    _watch_steps()
    _TILES[shard] = name


@functools.cache
def _watch_steps() -> None:
    register_optimizer_step_pre_hook(_refuse_own_scale)
    register_optimizer_step_pre_hook(_refuse_wholes)


def _refuse_wholes(optimizer: Any, args: Any, kwargs: Any) -> None:
    """Raises SmexRuntimeError for LBFGS over processes; warns once of what sees tiles as wholes."""
    if isinstance(optimizer, torch.optim.LBFGS) and _has_shards(optimizer):
        refuse_lbfgs()
    if not isinstance(optimizer, _OF_WHOLES) or optimizer in _TOLD:
        return
    _TOLD[optimizer] = None
    names = list(dict.fromkeys(
        _TILES[param] for group in optimizer.param_groups for param in group["params"]
        if param in _TILES
    ))  # fmt: skip
    if not names:
        return
    more = f" and {len(names) - _MOST_NAMES} more" if len(names) > _MOST_NAMES else ""
    warnings.warn(
        f"{type(optimizer).__name__} takes each tile of {', '.join(names[:_MOST_NAMES])}{more} for "
        "a parameter of its own, and computes something else than of the whole: take an optimiser "
        "that updates each element by itself, such as AdamW, or keep these parameters whole, "
        'pins=[smex.pin(name, "R")]',
        stacklevel=user_stacklevel(),
    )


def refuse_lbfgs() -> NoReturn:
    """Raises the SmexRuntimeError of an optimiser that takes dot products of all parameters."""
    raise SmexRuntimeError(
        "torch.optim.LBFGS takes dot products of this process's shards alone, and as many "
        "steps as these say: take an optimiser that updates each element by itself, such "
        "as AdamW, or processes=1"
    )


def _refuse_own_scale(optimizer: Any, args: Any, kwargs: Any) -> None:
    """Raises SmexRuntimeError where a scaler has not asked the other processes."""
    scaler = _calling_scaler()
    if scaler is None or not _has_shards(optimizer):
        return
    if type(scaler).unscale_ is torch.amp.GradScaler.unscale_:
        raise SmexRuntimeError(
            f"{type(scaler).__name__} would look for infinities in this process's shards alone, "
            "and other ranks would go on where this one skips a step: use torch.distributed.fsdp."
            f'sharded_grad_scaler.ShardedGradScaler("{scaler._device}"), which asks all'
        )
    # Scalers divide gradients before a step, but for optimisers that do it themselves.
    if getattr(optimizer, "grad_scale", None) is not None:
        raise SmexRuntimeError(
            f"{type(scaler).__name__} does not ask other ranks for infinities before a step of a "
            f"fused {type(optimizer).__name__}: make the optimizer with foreach=True"
        )


def _calling_scaler() -> Any:
    """Returns the enabled scaler whose `step` has called an optimiser's, or None."""
    frame: Any = sys._getframe(2)
    for _ in range(_FRAMES_OF_STEP):
        if frame is None:
            return None
        if frame.f_globals.get("__name__") == _SCALER:
            scaler = frame.f_locals.get("self")
            return scaler if isinstance(scaler, torch.amp.GradScaler) and scaler._enabled else None
        frame = frame.f_back
    return None


def _has_shards(optimizer: Any) -> bool:
    return any(param in _SHARDS for group in optimizer.param_groups for param in group["params"])
