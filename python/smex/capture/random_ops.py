"""Random operators as functions of numbers that are drawn by place.

ATen's kernels draw one number after another, so that a part of a tensor cannot be drawn alone. In a
captured graph numbers come from ``smex::uniform`` and ``smex::dropout_mask`` instead, of which an
element depends on the seed, the operator and its place in the whole tensor alone: results do not
depend on how the model is divided. Seeds and streams are filled in later: each iteration has a seed
of its own, and each operator a stream.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

aten = torch.ops.aten

NO_GENERATOR = (
    "a generator draws one number after another, a divided model by place: leave it out and set "
    "the seed with torch.manual_seed"
)

_BITS = {torch.float16: 11, torch.bfloat16: 8}
"""What fits the mantissa of a half; its numbers are computed in float32."""

_LEAST = {torch.float32: 2.0**-25, torch.float64: 2.0**-54}
"""Half of the distance of neighbouring draws."""


def random_table() -> dict[Any, Callable]:
    """By operator what it is replaced with; one that is given a generator is refused."""
    table: dict[Any, Callable] = {
        aten.bernoulli.default: _bernoulli,
        aten.bernoulli.p: _bernoulli_p,
        aten.bernoulli.Tensor: _bernoulli_tensor,
        aten.cauchy.default: _cauchy,
        aten.exponential.default: _exponential,
        aten.geometric.default: _geometric,
        aten.log_normal.default: _log_normal,
        aten.native_dropout.default: _native_dropout,
        aten.native_dropout_backward.default: _native_dropout_backward,
        aten.normal.Tensor_Tensor: _normal_of,
        aten.normal.Tensor_float: _normal_of,
        aten.normal.float_Tensor: _normal_of,
        aten.normal.float_float: _normal_shaped,
        aten.normal_functional.default: _normal_like,
        aten.rand.default: _rand,
        aten.rand_like.default: _rand_like,
        aten.randint.default: lambda high, *rest, **options: _randint(0, high, *rest, **options),
        aten.randint.low: _randint,
        aten.randint_like.default: lambda x, high, **options: _randint_like(x, 0, high, **options),
        aten.randint_like.low_dtype: _randint_like,
        aten.randn.default: _randn,
        aten.randn_like.default: _randn_like,
        aten.uniform.default: _uniform_like,
    }
    return {op: _without_generator(op, function) for op, function in table.items()}


def _without_generator(op: Any, function: Callable) -> Callable:
    def replacement(*args: Any, **kwargs: Any) -> Any:
        if kwargs.pop("generator", None) is not None:
            raise ValueError(f"{op.name()} is given a generator; {NO_GENERATOR}")
        return function(*args, **kwargs)

    return replacement


def _wide(dtype: torch.dtype) -> torch.dtype:
    return torch.float32 if dtype in _BITS else dtype


def _uniform(like: Tensor, dtype: torch.dtype) -> Tensor:
    """Numbers of [0, 1) that `dtype` can hold, in the type that they are computed in."""
    shape = list(like.shape)
    drawn = torch.ops.smex.uniform(like, 0, 0, [0] * len(shape), shape, dtype=_wide(dtype))
    if dtype not in _BITS:
        return drawn
    steps = 2.0 ** _BITS[dtype]
    return torch.floor(drawn * steps) / steps


def _inside(like: Tensor, dtype: torch.dtype) -> Tensor:
    """Numbers of (0, 1)."""
    wide = _wide(dtype)
    return torch.clamp(_uniform(like, wide), min=_LEAST[wide])


def _normal(like: Tensor, dtype: torch.dtype) -> Tensor:
    """Standard normal numbers: the inverse of their distribution, in the middle between draws."""
    if dtype.is_complex:  # of variance 1
        parts = [_normal(like, dtype.to_real()) for _ in range(2)]
        return torch.complex(*parts) * math.sqrt(0.5)
    wide = _wide(dtype)
    middle = _uniform(like, wide) * 2 - 1 + 2 * _LEAST[wide]
    return torch.erfinv(middle) * math.sqrt(2)


def _blank(size: Sequence[int], dtype: torch.dtype | None) -> Tensor:
    """Returns a tensor of that shape, of which nothing else matters."""
    return aten.full.default(list(size), 0, dtype=dtype or torch.get_default_dtype())


def _rand(size, dtype=None, **_):
    return _rand_like(_blank(size, dtype))


def _randn(size, dtype=None, **_):
    return _randn_like(_blank(size, dtype))


def _rand_like(x, dtype=None, **_):
    dtype = dtype or x.dtype
    if dtype.is_complex:
        return torch.complex(*[_rand_like(x, dtype.to_real()) for _ in range(2)])
    return _uniform(x, dtype).to(dtype)


def _randn_like(x, dtype=None, **_):
    dtype = dtype or x.dtype
    return _normal(x, dtype).to(dtype)


def _randint(low, high, size, dtype=torch.int64, **_):
    return _randint_like(_blank(size, torch.float64), low, high, dtype or torch.int64)


def _randint_like(x, low, high, dtype=None, **_):
    # 53 random bits: in wider ranges not every number is possible.
    steps = torch.floor(_uniform(x, torch.float64) * (high - low))
    return (torch.clamp(steps, max=high - low - 1) + low).to(dtype or x.dtype)


def _uniform_like(x, low=0.0, high=1.0):
    if low > high:
        raise ValueError(f"uniform_: expected from <= to, found from={low} and to={high}")
    return (_uniform(x, x.dtype) * (high - low) + low).to(x.dtype)


def _normal_like(x, mean=0.0, std=1.0):
    return (_normal(x, x.dtype) * std + mean).to(x.dtype)


def _normal_of(mean, std=1.0):
    if isinstance(std, Tensor):
        std = torch.ops.smex.bounded(std, 0, math.inf, "normal: expected no std below 0")
    shaped = mean + std if isinstance(mean, Tensor) and isinstance(std, Tensor) else mean
    shaped = shaped if isinstance(shaped, Tensor) else std
    return (_normal(shaped, shaped.dtype) * std + mean).to(shaped.dtype)


def _normal_shaped(mean, std, size, dtype=None, **_):
    return _normal_like(_blank(size, dtype), mean, std)


def _log_normal(x, mean=1.0, std=2.0):
    return torch.exp(_normal(x, x.dtype) * std + mean).to(x.dtype)


def _exponential(x, rate=1.0):
    return (-torch.log1p(-_inside(x, x.dtype)) / rate).to(x.dtype)


def _cauchy(x, median=0.0, sigma=1.0):
    return (torch.tan((_uniform(x, x.dtype) - 0.5) * math.pi) * sigma + median).to(x.dtype)


def _geometric(x, p):
    dtype = x.dtype if x.dtype.is_floating_point else torch.float64
    trials = torch.ceil(torch.log1p(-_inside(x, dtype)) / math.log1p(-p))
    return trials.to(x.dtype)


def _probability(p: Tensor) -> Tensor:
    return torch.ops.smex.bounded(p, 0, 1, "bernoulli: expected probabilities in [0, 1]")


def _bernoulli(x):
    return (_uniform(x, x.dtype) < _probability(x)).to(x.dtype)


def _bernoulli_tensor(x, p):
    dtype = p.dtype if p.dtype.is_floating_point else torch.float32
    return (_uniform(x, dtype) < _probability(p)).to(x.dtype)


def _mask(like: Tensor, p: float) -> Tensor:
    """Returns a keep mask, scaled by 1 / (1 - p)."""
    return torch.ops.smex.dropout_mask(like, p, 0, 0, [0] * like.dim(), list(like.shape))


def _bernoulli_p(x, p=0.5):
    if not 0 <= p <= 1:
        raise ValueError(f"bernoulli: expected p in [0, 1], found {p}")
    if not x.dtype.is_floating_point:
        return (_uniform(x, torch.float32) < p).to(x.dtype)
    return (_mask(x, 1 - p) != 0).to(x.dtype)


def _native_dropout(x, p, train):
    if not train or p == 0:
        return x.clone(), torch.ones_like(x)
    mask = _mask(x, p)
    return x * mask, mask


def _native_dropout_backward(grad, mask, scale):
    # The mask of `_native_dropout` is scaled already.
    return grad * mask
