"""Random operators, by what draws their numbers by place, and the streams that these come from."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from smex.capture.random_ops import random_table
from smex.execution.initialise.boxes import Box, shape_of
from smex.execution.initialise.nodes import SIZE, Like

aten = torch.ops.aten

_TABLE = random_table()

_IN_PLACE = {
    aten.bernoulli_.Tensor: aten.bernoulli.Tensor,
    aten.bernoulli_.float: aten.bernoulli.p,
    aten.cauchy_.default: aten.cauchy.default,
    aten.exponential_.default: aten.exponential.default,
    aten.geometric_.default: aten.geometric.default,
    aten.log_normal_.default: aten.log_normal.default,
    aten.normal_.default: aten.normal_functional.default,
    aten.uniform_.default: aten.uniform.default,
}
_OF_SHAPE = {
    *_IN_PLACE.values(),
    aten.rand_like.default,
    aten.randn_like.default,
    aten.randint_like.default,
    aten.randint_like.low_dtype,
}
"""Of whose first operand nothing but the shape and the dtype matters."""

_SIZES = {
    aten.rand.default: 0,
    aten.randn.default: 0,
    aten.randint.default: 1,
    aten.randint.low: 2,
    aten.normal.float_float: 2,
}
"""The position of the sizes."""

_OF_VALUES = {
    aten.bernoulli.default,
    aten.normal.Tensor_Tensor,
    aten.normal.Tensor_float,
    aten.normal.float_Tensor,
}

_MANTISSAS = {torch.float16: 11, torch.bfloat16: 8, torch.float32: 24, torch.float64: 53}


def _integers(low: int, high: int) -> Callable:
    return lambda x: _TABLE[aten.randint_like.low_dtype](x, low, high)


def _range_of(dtype: torch.dtype) -> int:
    """The integers that `random_()` draws are below this."""
    if dtype in _MANTISSAS:
        return 2 ** _MANTISSAS[dtype] + 1
    return 2 if dtype is torch.bool else torch.iinfo(dtype).max + 1


def _permutation(like: torch.Tensor) -> torch.Tensor:
    drawn = torch.ops.smex.uniform(like, 0, 0, [0], list(like.shape), dtype=torch.float64)
    return torch.argsort(drawn, stable=True).to(like.dtype)


def drawing(
    op: Any, args: tuple, kwargs: dict[str, Any], dtype: torch.dtype
) -> tuple[Callable, tuple, dict[str, Any], bool] | None:
    """Returns what draws by place in the stead of a call, its arguments, and whether by element.

    Args:
        op: of ATen, one that draws.
        args: of the call, with anything for tensors.
        kwargs: likewise.
        dtype: of the result.

    Returns:
        None where nothing is known that does.
    """
    like = Like(dtype)
    if op in (aten.random_.default, aten.random_.to, getattr(aten.random_, "from")):
        low, high = (0, _range_of(dtype)) if len(args) == 1 else (0, *args[1:])[-2:]
        high = _range_of(dtype) if high is None else high
        return _integers(low, high), (like,), {}, True
    if op in (aten.randperm.default, aten.randperm.generator):
        return _permutation, (like,), {}, False
    op = _IN_PLACE.get(op, op)
    if op in _OF_SHAPE:
        return _TABLE[op], (like, *args[1:]), _options(kwargs, dtype), True
    if op in _SIZES:
        at = _SIZES[op]
        rest = (*args[:at], SIZE, *args[at + 1 :])
        return _TABLE[op], rest, _options(kwargs, dtype), True
    if op in _OF_VALUES:
        return _TABLE[op], args, {}, True
    return None


def _options(kwargs: dict[str, Any], dtype: torch.dtype) -> dict[str, Any]:
    """Returns keyword arguments, of those that say where and how a tensor lies the dtype alone."""
    tensor = ("layout", "device", "pin_memory", "memory_format", "dtype", "generator")
    found = {name: value for name, value in kwargs.items() if name not in tensor}
    return {**found, "dtype": dtype} if "dtype" in kwargs else found


def stream_of(name: str, number: int, part: int) -> int:
    """Returns the stream of a tensor's draw: 63 bits of a hash, the same everywhere."""
    text = f"{name}\0{number}\0{part}".encode()
    return int.from_bytes(hashlib.blake2b(text, digest_size=8).digest(), "little") >> 1


class Placed(TorchDispatchMode):
    """Draws a box of a tensor where operators ask for numbers by place, flat and padded.

    Args:
        seed: of all streams.
        key: of the stream.
        shape: of the whole tensor.
        box: the part.
        padded: so many numbers are returned; those after the box's are like its first.
    """

    def __init__(
        self, seed: int, key: tuple[str, int], shape: Sequence[int], box: Box, padded: int
    ) -> None:
        super().__init__()
        self._seed = seed
        self._key = key
        self._shape = shape
        self._box = box
        self._padded = padded
        self._parts = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        if func is torch.ops.smex.uniform.default:
            return self._drawn(func, (), kwargs or {}, args[0])
        if func is torch.ops.smex.dropout_mask.default:
            return self._drawn(func, (args[1],), kwargs or {}, args[0])
        return func(*args, **(kwargs or {}))

    def _drawn(self, func: Any, options: tuple, kwargs: Any, like: torch.Tensor) -> torch.Tensor:
        stream = stream_of(*self._key, self._parts)
        self._parts += 1
        blank = like.new_empty(()).expand(shape_of(self._box))
        offset = [lo for lo, _ in self._box]
        place = (self._seed, stream, offset, list(self._shape))
        return padded_flat(func(blank, *options, *place, **kwargs), self._padded)


def padded_flat(x: torch.Tensor, padded: int) -> torch.Tensor:
    """Returns the elements in one row, followed by copies of the first up to that number."""
    flat = x.reshape(-1)
    more = padded - math.prod(x.shape)
    return torch.cat([flat, flat[:1].expand(more)]) if more else flat.contiguous()
