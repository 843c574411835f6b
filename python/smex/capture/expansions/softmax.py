"""Softmax and what is like it, as maxima, sums and element-wise calls.

Cut along their own dimension, a row's maximum and the sum of its exponentials are what workers
exchange; with the class-wise loss of `class_loss.py` that is the vocabulary-parallel cross
entropy of Megatron-LM (Shoeybi et al., 2019, §3).
"""

from __future__ import annotations

import math

import torch

from smex.capture.expansions.dtypes import compute_dtype

aten = torch.ops.aten


def _shifted(x, dims):
    """Returns `x` less its maximum, so that exponentials do not overflow."""
    return x - aten.amax.default(x, dims, True)


def softmax(x, dim, half_to_float):
    """`exp(x - max) / Σ exp(x - max)`."""
    if x.numel() == 0:
        return NotImplemented
    weight = torch.exp(_shifted(x.to(compute_dtype(x)), [dim]))
    y = weight / aten.sum.dim_IntList(weight, [dim], True)
    return (y if half_to_float else y.to(x.dtype),)


def safe_softmax(x, dim, dtype):
    """The same, and 0 in rows of which all is -inf."""
    if x.numel() == 0:
        return NotImplemented
    wide = x.to(compute_dtype(x))
    top = aten.amax.default(wide, [dim], True)
    hidden = top == -math.inf
    weight = torch.exp(wide - torch.where(hidden, 0.0, top))
    total = torch.where(hidden, 1.0, aten.sum.dim_IntList(weight, [dim], True))
    return ((weight / total).to(dtype or x.dtype),)


def log_softmax(x, dim, half_to_float):
    """`x - max - log Σ exp(x - max)`."""
    if x.numel() == 0:
        return NotImplemented
    shifted = _shifted(x.to(compute_dtype(x)), [dim])
    y = shifted - torch.log(aten.sum.dim_IntList(torch.exp(shifted), [dim], True))
    return (y if half_to_float else y.to(x.dtype),)


def softmax_backward(grad, y, dim, dtype):
    """`y (grad - Σ grad y)`."""
    wide, dy = y.to(compute_dtype(y)), grad.to(compute_dtype(grad))
    product = dy * wide
    return ((product - wide * aten.sum.dim_IntList(product, [dim], True)).to(dtype),)


def log_softmax_backward(grad, y, dim, dtype):
    """`grad - exp(y) Σ grad`."""
    wide, dy = y.to(compute_dtype(y)), grad.to(compute_dtype(grad))
    return ((dy - torch.exp(wide) * aten.sum.dim_IntList(dy, [dim], True)).to(dtype),)


def logsumexp(x, dims, keepdim):
    """`max + log Σ exp(x - max)`, where the maximum is finite."""
    if x.numel() == 0 or not dims or not x.is_floating_point():
        return NotImplemented
    wide = x.to(compute_dtype(x))
    top = aten.amax.default(wide, dims, True)
    top = torch.where(torch.isinf(top), 0.0, top)
    total = aten.sum.dim_IntList(torch.exp(wide - top), dims, True)
    y = (torch.log(total) + top).to(x.dtype)
    return (y if keepdim else _without(y, dims),)


def _without(y, dims):
    """Returns `y` without dimensions, which have size 1."""
    gone = {d % y.dim() for d in dims} if y.dim() else set()
    return y.reshape([size for d, size in enumerate(y.shape) if d not in gone])
