"""Functions of every value in a dict or a list, as models of several types need them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

__all__ = ["apply_each"]


def apply_each(data: Any, fn: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """`fn` of each value of a dict, or of each element of a sequence, or of anything else itself.

    Args:
        data: the values.
        fn: called as ``fn(value, *args, **kwargs)``.
        args: passed on.
        kwargs: passed on.

    Returns:
        A dict for a mapping, a list for a sequence, else what `fn` returns.

    Example:
        >>> import smex.graph as sg
        >>> sg.apply_each({"user": 1, "game": 2}, lambda x, y: x + y, 10)
        {'user': 11, 'game': 12}
    """
    if isinstance(data, Mapping):
        return {key: fn(value, *args, **kwargs) for key, value in data.items()}
    if isinstance(data, Sequence) and not isinstance(data, str):
        return [fn(value, *args, **kwargs) for value in data]
    return fn(data, *args, **kwargs)
