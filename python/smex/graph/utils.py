"""Helpers that layers written for DGL import."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from smex.errors import SmexTypeError, SmexValueError
from smex.graph.core.graph_core import GraphCore
from smex.graph.words import is_dict

__all__ = [
    "Index",
    "apply_each",
    "check_eq_shape",
    "context_of",
    "dtype_of",
    "expand_as_pair",
    "get_num_threads",
    "is_iterable",
    "is_listlike",
    "recursive_apply",
    "recursive_apply_pair",
    "set_num_threads",
    "toindex",
    "zero_index",
]


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


def is_listlike(data: Any) -> bool:
    """Returns whether something is a sequence, and no string."""
    return isinstance(data, Sequence) and not isinstance(data, str)


def recursive_apply(data: Any, fn: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """`fn` of each value that dicts, tuples and lists have, however deep, in the same structure.

    Args:
        data: the values.
        fn: called as ``fn(value, *args, **kwargs)``.
        args: passed on.
        kwargs: passed on.

    Example:
        >>> sg.utils.recursive_apply({"a": [1, (2, 3)]}, lambda x, y: x * y, 10)
        {'a': [10, (20, 30)]}
    """

    def inside(value: Any) -> Any:
        return recursive_apply(value, fn, *args, **kwargs)

    if isinstance(data, Mapping):
        return {key: inside(value) for key, value in data.items()}
    if isinstance(data, tuple):
        return tuple(inside(value) for value in data)
    return [inside(value) for value in data] if is_listlike(data) else fn(data, *args, **kwargs)


def recursive_apply_pair(
    data1: Any, data2: Any, fn: Callable[..., Any], *args: Any, **kwargs: Any
) -> Any:
    """As :func:`recursive_apply`, with a function of values at the same places of two structures.

    Example:
        >>> sg.utils.recursive_apply_pair({"a": [1, 2]}, {"a": [3, 4]}, lambda x, y: x + y)
        {'a': [4, 6]}
    """

    def inside(one: Any, other: Any) -> Any:
        return recursive_apply_pair(one, other, fn, *args, **kwargs)

    if isinstance(data1, Mapping) and isinstance(data2, Mapping):
        return {key: inside(value, data2[key]) for key, value in data1.items()}
    if isinstance(data1, tuple) and isinstance(data2, tuple):
        return tuple(inside(one, other) for one, other in zip(data1, data2))
    if is_listlike(data1) and is_listlike(data2):
        return [inside(one, other) for one, other in zip(data1, data2)]
    return fn(data1, data2, *args, **kwargs)


def _first(data: Any) -> Any:
    if isinstance(data, Mapping):
        return next(iter(data.values()))
    return data[0] if is_listlike(data) else data


def context_of(data: Any) -> Any:
    """Returns the device of a tensor, or of the first one of a dict or list."""
    return _first(data).device


def dtype_of(data: Any) -> Any:
    """Returns the dtype of a tensor, or of the first one of a dict or list."""
    return _first(data).dtype


def expand_as_pair(input_: Any, g: GraphCore | None = None) -> tuple[Any, Any]:
    """Features of sources and of destinations, given as a pair or as one.

    Args:
        input_: a pair, which is returned as it is; or the features ``[num_src, ...]`` of both ends,
            as one tensor or by node type.
        g: the graph. The destinations of a block are its first sources; of other graphs, and
            without one, both ends are the same nodes.

    Example:
        >>> b = sg.create_block(([0, 1, 2], [0, 0, 1]))
        >>> sg.utils.expand_as_pair(torch.tensor([5, 6, 7]), b)
        (tensor([5, 6, 7]), tensor([5, 6]))
    """
    if isinstance(input_, tuple):
        return input_
    if g is None or not g.is_block:
        return input_, input_
    if is_dict(input_):
        return input_, {ntype: rows[: g.num_dst_nodes(ntype)] for ntype, rows in input_.items()}
    return input_, input_[: g.num_dst_nodes()]


def check_eq_shape(input_: Any) -> None:
    """Raise unless rows of sources and of destinations have one shape.

    Args:
        input_: a pair of features ``[num_src, *f]`` and ``[num_dst, *f]``, or one tensor of both.

    Raises:
        SmexValueError: they have not.

    Example:
        >>> sg.utils.check_eq_shape((torch.zeros(3, 4), torch.zeros(2, 4)))
    """
    source, destination = (list(rows.shape[1:]) for rows in expand_as_pair(input_))
    if source != destination:
        raise SmexValueError(
            f"check_eq_shape: expected rows of one shape, found {source} of sources and "
            f"{destination} of destinations; project one of them first"
        )


def is_iterable(obj: Any) -> bool:
    """Returns whether one can go through something."""
    return isinstance(obj, Iterable)


def set_num_threads(num_threads: int) -> None:
    """Sets how many threads the kernels of this process run on; ``torch.set_num_threads``."""
    torch.set_num_threads(num_threads)


def get_num_threads() -> int:
    """Returns how many threads the kernels of this process run on."""
    return torch.get_num_threads()


class Index:
    """A vector of ids, as a tensor, an array or one after another.

    Args:
        data: a tensor, an array, a slice with an end, a number, or anything that has numbers.
        dtype: ``"int64"`` or ``"int32"``.

    Raises:
        SmexTypeError: the numbers are no integers, or no vector.
    """

    def __init__(self, data: Any, dtype: str = "int64"):
        self.dtype = dtype
        if isinstance(data, slice):
            data = range(data.start or 0, data.stop, data.step or 1)
        if isinstance(data, Iterable) and not isinstance(data, (Tensor, np.ndarray)):
            data = list(data)
        found = torch.as_tensor(data)
        if found.numel() == 0:
            found = found.long()
        if found.dim() > 1 or found.is_floating_point() or found.is_complex():
            raise SmexTypeError(
                f"toindex: expected a vector of integers, found {found.dtype} of shape "
                f"{list(found.shape)}"
            )
        self._ids = found.reshape(-1).to(getattr(torch, dtype))

    def tousertensor(self, ctx: Any = None) -> Tensor:
        """Returns a tensor, on a device if that is given."""
        return self._ids if ctx is None else self._ids.to(ctx)

    def tonumpy(self) -> np.ndarray:
        """Returns an array."""
        return self._ids.cpu().numpy()

    def __len__(self) -> int:
        return self._ids.shape[0]

    def __iter__(self) -> Iterator[int]:
        return iter(self._ids.tolist())

    def __getitem__(self, i: int) -> int:
        return int(self._ids[i])


def toindex(data: Any, dtype: str = "int64") -> Index:
    """Returns ids as an :class:`Index`, the same if they are one.

    Example:
        >>> sg.utils.toindex([3, 1]).tousertensor()
        tensor([3, 1])
    """
    return data if isinstance(data, Index) else Index(data, dtype)


def zero_index(size: int, dtype: str = "int64") -> Index:
    """Returns zeros as an :class:`Index`."""
    return Index(torch.zeros(size, dtype=torch.int64), dtype)
