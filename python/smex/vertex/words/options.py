"""What `smex.vertex.run` may do to be fast."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, fields, replace
from typing import Any

import torch

from smex.errors import SmexTypeError, SmexValueError

__all__ = ["Options", "options"]

POLICIES = ("readiness", "depth")


@dataclass(frozen=True)
class Options:
    """The optimisations of Cavs, each of which changes time and memory, and no result.

    Attributes:
        trace: look into the vertex function; without it the three below are off.
        hoist: compute what does not depend on children once for all vertices before the
            recursion, and what no parent gathers once after it (Cavs's eager and lazy operators).
        lazy: compute the gradients of parameters and inputs once for all vertices (lazy batching).
        fuse: make element-wise calls of one shape together, and run :func:`smex.vertex.lstm` and
            :func:`smex.vertex.tree_lstm` as one kernel.
        beside: run sets of vertices of different types that do not wait for one another beside
            each other, on the threads of a CPU, where they are too small to keep all of them busy.
        policy: which vertices are put together: ``"depth"``, all of one level and type, or
            ``"readiness"``, all of one type that are ready.
    """

    trace: bool = True
    hoist: bool = True
    lazy: bool = True
    fuse: bool = True
    beside: bool = True
    policy: str = "readiness"

    def __post_init__(self) -> None:
        for field in fields(self)[:-1]:
            value = getattr(self, field.name)
            if not isinstance(value, bool):
                raise SmexTypeError(f"Options: expected a bool as {field.name}, found {value!r}")
        if self.policy not in POLICIES:
            raise SmexValueError(
                f"Options: expected one of {', '.join(POLICIES)} as policy, found {self.policy!r}"
            )


_CURRENT: ContextVar[Options | None] = ContextVar("smex_vertex_options", default=None)


def current() -> Options:
    """Returns the options that hold here."""
    return _CURRENT.get() or Options()


def is_autocast(device_type: str) -> bool:
    """Returns whether autocast holds here on devices of a type."""
    return torch.amp.is_autocast_available(device_type) and torch.is_autocast_enabled(device_type)


@contextmanager
def options(**changes: Any) -> Iterator[Options]:
    """Changes the options of the runs within.

    Args:
        changes: fields of :class:`Options`.

    Raises:
        SmexTypeError: there is no such option, or its value has the wrong type.
        SmexValueError: there is no such policy.

    Example:
        >>> with smex.vertex.options(lazy=False) as chosen:
        ...     print(chosen.lazy, chosen.hoist)
        False True
    """
    known = [field.name for field in fields(Options)]
    for name in changes:
        if name not in known:
            raise SmexTypeError(
                f"smex.vertex.options: expected one of {', '.join(known)}, found {name!r}"
            )
    token = _CURRENT.set(replace(current(), **changes))
    try:
        yield current()
    finally:
        _CURRENT.reset(token)
