"""Variances and norms of vectors as sums, maxima and element-wise calls."""

from __future__ import annotations

import math

import torch

from smex.capture.expansions.dtypes import compute_dtype

aten = torch.ops.aten


def _reduced(x, dims):
    """The dimensions that a call reduces: all where it names none."""
    return [d % x.dim() for d in dims] if dims else list(range(x.dim()))


def _moments(x, dims, correction, keepdim):
    """Returns the variance and the mean, or nothing where the formula does not hold."""
    dims = _reduced(x, dims)
    count = math.prod(x.shape[d] for d in dims)
    free = count - (1 if correction is None else correction)
    if not x.is_floating_point() or count == 0 or free <= 0:
        return None
    wide = x.to(compute_dtype(x))
    mean = aten.sum.dim_IntList(wide, dims, True) / count
    centered = wide - mean
    variance = aten.sum.dim_IntList(centered * centered, dims, keepdim) / free
    if not keepdim:
        mean = mean.reshape(variance.shape)
    return variance, mean


def var(x, dims, correction, keepdim):
    """The sum of squares about the mean, divided by their number less the correction."""
    moments = _moments(x, dims, correction, keepdim)
    return NotImplemented if moments is None else (moments[0].to(x.dtype),)


def std(x, dims, correction, keepdim):
    """The root of the variance."""
    moments = _moments(x, dims, correction, keepdim)
    return NotImplemented if moments is None else (torch.sqrt(moments[0]).to(x.dtype),)


def var_mean(x, dims, correction, keepdim):
    """Returns the variance and the mean."""
    moments = _moments(x, dims, correction, keepdim)
    return NotImplemented if moments is None else tuple(m.to(x.dtype) for m in moments)


def std_mean(x, dims, correction, keepdim):
    """Returns the root of the variance and the mean."""
    moments = _moments(x, dims, correction, keepdim)
    if moments is None:
        return NotImplemented
    return torch.sqrt(moments[0]).to(x.dtype), moments[1].to(x.dtype)


def vector_norm(x, order, dims, keepdim, dtype):
    """`(Σ |x|^p)^(1/p)`, and its limits."""
    if x.numel() == 0 or not x.is_floating_point() or (dtype and not dtype.is_floating_point):
        return NotImplemented
    dims = _reduced(x, dims)
    made = dtype or x.dtype
    wide = x.to(made).to(torch.promote_types(made, compute_dtype(x)))
    if order == 2:
        return (torch.sqrt(aten.sum.dim_IntList(wide * wide, dims, keepdim)).to(made),)
    size = torch.abs(wide)
    if order in (math.inf, -math.inf):
        extreme = aten.amax if order > 0 else aten.amin
        return (extreme.default(size, dims, keepdim).to(made),)
    if order == 0:
        size = (size != 0).to(size.dtype)
    elif order != 1:
        size = size**order
    total = aten.sum.dim_IntList(size, dims, keepdim)
    return ((total if order in (0, 1) else total.pow(1 / order)).to(made),)
