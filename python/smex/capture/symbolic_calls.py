"""Calls that torch makes with a number of its own where they are given a symbol, made otherwise.

An index ``x[n]`` and ``torch.tensor(n)`` ask a symbol for its value, on which the trace then
depends; ``x.select(dim, n)`` and ``torch.full((), n)`` do not.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

_NUMBERS = (torch.SymInt, torch.SymFloat, torch.SymBool)
_DTYPES = {torch.SymInt: torch.int64, torch.SymBool: torch.bool}


def keeping_symbols(func: Callable, args: tuple, kwargs: dict[str, Any]) -> Callable:
    """Returns a function that computes what `func` does of these arguments, and asks no symbol."""
    if func is torch.Tensor.__getitem__ and _has_symbols(args[1]):
        return _get
    if func is torch.Tensor.__setitem__ and _has_symbols(args[1]):
        return _set
    if func is torch.tensor and args and _has_symbols(args[0]):
        return _tensor
    return func


def _has_symbols(item: Any) -> bool:
    if isinstance(item, (list, tuple)):
        return any(map(_has_symbols, item))
    return isinstance(item, _NUMBERS)


def _get(x: torch.Tensor, index: Any) -> torch.Tensor:
    selected, rest = _selected(x, index)
    return selected[rest] if rest else selected


def _set(x: torch.Tensor, index: Any, value: Any) -> None:
    selected, rest = _selected(x, index)
    selected[rest if rest else ...] = value


def _selected(x: torch.Tensor, index: Any) -> tuple[torch.Tensor, tuple[Any, ...]]:
    """Returns `x` at those indices that are symbols, and the other indices."""
    items = index if isinstance(index, tuple) else (index,)
    skipped = x.dim() - sum(map(_consumed, items))  # by an ellipsis
    dim, rest = 0, []
    for item in items:
        if isinstance(item, torch.SymInt):
            x = x.select(dim, item)
            continue
        rest.append(_plain(item))
        dim += skipped if item is Ellipsis else _consumed(item)
    return x, tuple(rest)


def _consumed(item: Any) -> int:
    """Returns how many dimensions an index is for."""
    if item is None or item is Ellipsis or isinstance(item, bool):
        return 0
    if isinstance(item, torch.Tensor) and item.dtype in (torch.bool, torch.uint8):
        return item.dim()
    return 1


def _plain(item: Any) -> Any:
    """Returns an index, a list of numbers as a tensor."""
    return _tensor(item) if isinstance(item, list) and _has_symbols(item) else item


def _tensor(data: Any, *, dtype: torch.dtype | None = None, **options: Any) -> torch.Tensor:
    requires_grad = options.pop("requires_grad", False)
    options.pop("pin_memory", None)
    made = _filled(data, options)
    made = made if dtype is None else made.to(dtype)
    return made.requires_grad_() if requires_grad else made


def _filled(data: Any, options: dict[str, Any]) -> torch.Tensor:
    if isinstance(data, (list, tuple)):
        parts = [_filled(item, options) for item in data]
        kind = parts[0].dtype
        for part in parts:
            kind = torch.promote_types(kind, part.dtype)
        return torch.stack([part.to(kind) for part in parts])
    if isinstance(data, _NUMBERS):
        dtype = _DTYPES.get(type(data), torch.get_default_dtype())
        return torch.full((), data, dtype=dtype, **options)
    return torch.tensor(data, **options)
