"""Extremes with their positions, and the largest of a row, from those of parts of it."""

from __future__ import annotations

import math

import torch

aten = torch.ops.aten


def _extreme(reduction, x, dim, keepdim):
    """Returns the extreme along a dimension, and the first position that it stands at."""
    if x.numel() == 0 or x.dim() == 0 or not hasattr(torch.ops.smex, "first_position"):
        return NotImplemented
    dim %= x.dim()
    value = reduction.default(x, [dim], True)
    position = torch.ops.smex.first_position(x, value, dim, [])
    if keepdim:
        return value, position
    shape = [size for d, size in enumerate(x.shape) if d != dim]
    return value.reshape(shape), position.reshape(shape)


def max_dim(x, dim, keepdim):
    """The maximum and where it is."""
    return _extreme(aten.amax, x, dim, keepdim)


def min_dim(x, dim, keepdim):
    """The minimum and where it is."""
    return _extreme(aten.amin, x, dim, keepdim)


def _argument(reduction, x, dim, keepdim):
    if x.dim() == 0:
        return NotImplemented
    if dim is not None:
        found = _extreme(reduction, x, dim, keepdim)
        return found if found is NotImplemented else found[1:]
    found = _extreme(reduction, x.reshape([x.numel()]), 0, False)
    if found is NotImplemented or not keepdim:
        return found if found is NotImplemented else found[1:]
    return (found[1].reshape([1] * x.dim()),)


def argmax(x, dim, keepdim):
    """The first position of the maximum."""
    return _argument(aten.amax, x, dim, keepdim)


def argmin(x, dim, keepdim):
    """The first position of the minimum."""
    return _argument(aten.amin, x, dim, keepdim)


_BLOCKS = 8


def topk(x, k, dim, largest, is_sorted):
    """The largest of blocks of a row, and of these the largest.

    Within blocks they need no order; such a call is not divided again.
    """
    if x.dim() == 0 or not is_sorted:
        return NotImplemented
    dim %= x.dim()
    size = x.shape[dim]
    blocks = math.gcd(size, _BLOCKS)
    if blocks == 1 or k == 0 or size // blocks <= k:
        return NotImplemented
    before, after = list(x.shape[:dim]), list(x.shape[dim + 1 :])
    rows = x.reshape([*before, blocks, size // blocks, *after])
    values, positions = aten.topk.default(rows, k, dim + 1, largest, False)
    starts = torch.arange(0, size, size // blocks, device=x.device)
    positions = positions + starts.view([blocks] + [1] * (1 + len(after)))
    flat = [*before, blocks * k, *after]
    found, at = aten.topk.default(values.reshape(flat), k, dim, largest, True)
    return found, aten.gather.default(positions.reshape(flat), dim, at)
