"""Padding by reflection and replication; padding by a constant is a view."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from smex.specs.common import replaced, specs
from smex.tdl import Sum, abs_, like, maximum, minimum, where


def _reflected(at: Any, size: int) -> Any:
    """0 1 2 1 0 … for sizes of 3: a position outside, mirrored at the last one inside."""
    return (size - 1) - abs_((size - 1) - abs_(at))


def _replicated(at: Any, size: int) -> Any:
    return minimum(maximum(at, 0), size - 1)


def _padded_dims(ndim: int, padding: Any) -> dict[int, int]:
    """By padded dimension what is added before it; negative where it is cropped."""
    pairs = [padding[n : n + 2] for n in range(0, len(padding), 2)]
    return {ndim - 1 - n: pair[0] for n, pair in enumerate(pairs) if any(pair)}


def _pad(source: Callable[[Any, int], Any]) -> Any:
    def pad(x, padding):
        befores = _padded_dims(x.ndim, padding)

        def body(*i):
            places = [source(i[dim] - before, x.shape[dim]) for dim, before in befores.items()]
            return x[replaced(i, list(befores), places)]

        return body

    return pad


def _pad_backward(source: Callable[[Any, int], Any]) -> Any:
    def pad_backward(grad, x, padding):
        befores = _padded_dims(x.ndim, padding)
        dims = list(befores)
        extents = {f"o{dim}": grad.shape[dim] for dim in dims}

        def body(*i):
            def arrived(*o):
                value = grad[replaced(i, dims, o)]
                for dim, place in zip(dims, o):
                    arrives = source(place - befores[dim], x.shape[dim])
                    value = where(arrives == i[dim], value, 0)
                return value

            return like(Sum(arrived, **extents) if dims else grad[i], x[i])

        return body

    return pad_backward


def _names(kind: str, suffix: str) -> list[str]:
    return [f"aten::{kind}_pad{spatial}d{suffix}" for spatial in (1, 2, 3)]


specs(*_names("reflection", ""))(_pad(_reflected))
specs(*_names("reflection", "_backward"))(_pad_backward(_reflected))
specs(*_names("replication", ""))(_pad(_replicated))
specs(*_names("replication", "_backward"))(_pad_backward(_replicated))
