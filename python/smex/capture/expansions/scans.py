"""Running sums, products and their like in two steps: within blocks, then from block to block.

A worker has whole blocks; what workers exchange are the blocks' totals (Blelloch, 1990, §1.3).
"""

from __future__ import annotations

import math

import torch

from smex.capture.expansions.dtypes import compute_dtype

aten = torch.ops.aten

_MOST_BLOCKS = 16


def _blocks(size):
    """Returns how many equal blocks of several elements a line has, 1 where there are none."""
    return max(n for n in range(1, _MOST_BLOCKS + 1) if size % n == 0 and (n == 1 or size > n))


def _scan(x, dim, neutral, scan, combine):
    """`combine` of the scan within blocks, and of the totals of the blocks before."""
    if x.dim() == 0 or x.numel() == 0:
        return NotImplemented
    dim %= x.dim()
    blocks = _blocks(x.shape[dim])
    if blocks == 1:
        return NotImplemented
    shape = [*x.shape[:dim], blocks, x.shape[dim] // blocks, *x.shape[dim + 1 :]]
    within = scan(x.reshape(shape), dim + 1)
    totals = aten.slice.Tensor(within, dim + 1, shape[dim + 1] - 1, shape[dim + 1])
    one_later = [0, 0] * (len(shape) - dim - 1) + [1, -1]
    before = scan(aten.constant_pad_nd.default(totals, one_later, neutral), dim)
    return combine(within, before).reshape(x.shape)


def cumsum(x, dim, dtype):
    """The sum of what lies at or before a place."""

    def scan(part, along):
        return aten.cumsum.default(part, along, dtype=_wide(x, dtype))

    y = _scan(x, dim, 0, scan, torch.add)
    return y if y is NotImplemented else (_narrow(y, x, dtype),)


def cumprod(x, dim, dtype):
    """The product of what lies at or before a place."""

    def scan(part, along):
        return aten.cumprod.default(part, along, dtype=_wide(x, dtype))

    y = _scan(x, dim, 1, scan, torch.mul)
    return y if y is NotImplemented else (_narrow(y, x, dtype),)


def logcumsumexp(x, dim):
    """The logarithm of the sum of the exponentials of what lies at or before a place."""
    if not x.is_floating_point():
        return NotImplemented
    wide = x.to(compute_dtype(x))
    y = _scan(wide, dim, -math.inf, aten.logcumsumexp.default, torch.logaddexp)
    return y if y is NotImplemented else (y.to(x.dtype),)


def _wide(x, dtype):
    """Returns the type to add up in; None where ATen's own choice is."""
    halves = (torch.float16, torch.bfloat16)
    return torch.float32 if (dtype or x.dtype) in halves else dtype


def _narrow(y, x, dtype):
    """Returns the result in the type that the call makes."""
    made = dtype or (x.dtype if x.is_floating_point() or x.is_complex() else y.dtype)
    return y.to(made)
