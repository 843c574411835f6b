"""What the parts of a graph say in common: types of edges, kinds of ids, and words of messages."""

from __future__ import annotations

import operator
from collections.abc import Iterable, Mapping
from typing import Any, TypeAlias

import torch
from torch import Tensor

from smex.errors import SmexValueError
from smex.graph.constants import ALL

CanonicalType: TypeAlias = tuple[str, str, str]
EdgeType: TypeAlias = "str | CanonicalType | None"


def is_all(ids: Any) -> bool:
    """Returns whether an argument means all nodes or edges."""
    return isinstance(ids, str) and ids == ALL


def is_scalar(value: Any) -> bool:
    """Returns whether a query's argument is a single id, so that its result is a Python value."""
    return (
        not isinstance(value, Tensor)
        and getattr(value, "ndim", None) in (None, 0)
        and not (isinstance(value, (list, tuple, range)))
    )


def is_dict(value: Any) -> bool:
    """Returns whether a value has others by name: a mapping, or a dict of torch's modules."""
    return isinstance(value, (Mapping, torch.nn.ParameterDict, torch.nn.ModuleDict))


def integer(value: Any) -> int | None:
    """An integer of Python, of NumPy or in a tensor of one element, as one of Python; else None."""
    if isinstance(value, bool) or (isinstance(value, Tensor) and value.dtype == torch.bool):
        return None
    try:
        return operator.index(value)
    except (TypeError, ValueError, RuntimeError):
        return None


def number_of(value: Any) -> int:
    """Returns a number of nodes as one of Python; one that torch.export leaves open stays open."""
    return value if isinstance(value, torch.SymInt) else int(value)  # type: ignore[return-value]


def check_range(ids: Tensor, size: int, what: str) -> None:
    """Raise unless all ids are at least 0 and below ``size``; not under torch.compile."""
    if torch.compiler.is_compiling() or ids.numel() == 0:
        return
    low, high = (int(x) for x in torch.aminmax(ids))
    if low < 0 or high >= size:
        wrong = low if low < 0 else high
        raise SmexValueError(f"{what}: expected ids from 0 to {size - 1}, found {wrong}")


def describe(value: object) -> str:
    """Returns a value in an error message: a tensor's shape and dtype, anything else's type."""
    if isinstance(value, Tensor):
        return f"{value.dtype} {list(value.shape)}"
    return type(value).__name__


def named(name: object) -> str:
    """Returns a name in an error message; names need not be strings."""
    return f'"{name}"' if isinstance(name, str) else repr(name)


def counted(number: int, noun: str) -> str:
    """Returns a number of things in an error message."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def quoted(names: Iterable[object]) -> str:
    """Names in an error message."""
    return ", ".join(named(n) for n in names) or "none"
