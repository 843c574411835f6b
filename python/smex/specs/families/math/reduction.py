"""Reductions over dimensions, and softmax."""

from __future__ import annotations

import math

import torch

from smex.specs.common import dims_of, element, replaced
from smex.tdl import (
    Max,
    Min,
    Opaque,
    Prod,
    Sum,
    abs_,
    exp,
    isnan,
    like,
    log,
    or_,
    spec,
    where,
    whole,
)


def source(x, dims, keepdim, i, k):
    """Returns the index of `x` for output index `i` and reduced indices `k`."""
    index = list(i)
    if not keepdim:
        for dim in sorted(dims):
            index.insert(dim, None)
    return replaced(index, dims, k)


def reduced(x, dims):
    """Returns the dimensions to reduce, counted from the front; a 0-dimensional tensor has none."""
    return dims_of(dims, x.ndim) if x.ndim else []


def sizes(x, dims, letter="k"):
    """Returns the extents of indices that run over dimensions of `x`."""
    return {f"{letter}{dim}": x.shape[dim] for dim in dims}


def count(x, dims):
    """Returns how many elements lie in the dimensions."""
    return math.prod(x.shape[dim] for dim in dims)


def over(x, dims, keepdim, kind, value=lambda element: element):
    """Returns the reduction of `value` of the elements over the dimensions."""
    dims = reduced(x, dims)
    extents = sizes(x, dims)
    return lambda *i: kind(lambda *k: value(x[source(x, dims, keepdim, i, k)]), **extents)


def is_nonzero(element):
    """Returns whether an element is not 0."""
    return element != 0


def _all(x, dims, keepdim):
    # Of nothing the product is 1; the minimum is not.
    kind = Min if count(x, reduced(x, dims)) else Prod
    return over(x, dims, keepdim, kind, is_nonzero)


def _any(x, dims, keepdim):
    kind = Max if count(x, reduced(x, dims)) else Sum
    return over(x, dims, keepdim, kind, is_nonzero)


@spec("aten::all")
def all_(x):
    return _all(x, None, False)


@spec("aten::all.dim")
def all_dim(x, dim, keepdim):
    return _all(x, dim, keepdim)


@spec("aten::all.dims")
def all_dims(x, dims, keepdim):
    return _each(x) if dims == [] else _all(x, dims, keepdim)


def _each(x):
    return lambda *i: x[i] != 0


@spec("aten::allclose")
def allclose(x, y, rtol, atol, equal_nan):
    """Returns a truth value of Python."""

    def near(*k):
        a, b = element(x, k), element(y, k)
        return or_(a == b, abs_(a - b) <= atol + rtol * abs_(b))

    return lambda: Min(near, **broadcast_extents(x, y))


def broadcast_extents(*tensors):
    """Returns the extents of indices that run over the broadcast of tensors.

    Absent ones are None.
    """
    shape = torch.broadcast_shapes(*(x.shape for x in tensors if x is not None))
    return {f"k{dim}": size for dim, size in enumerate(shape)}


@spec("aten::amax")
def amax(x, dims, keepdim):
    return over(x, dims, keepdim, Max)


@spec("aten::amin")
def amin(x, dims, keepdim):
    return over(x, dims, keepdim, Min)


@spec("aten::any")
def any_(x):
    return _any(x, None, False)


@spec("aten::any.dim")
def any_dim(x, dim, keepdim):
    return _any(x, dim, keepdim)


@spec("aten::any.dims")
def any_dims(x, dims, keepdim):
    return _each(x) if dims == [] else _any(x, dims, keepdim)


@spec("aten::equal")
def equal(x, y):
    """Returns a truth value of Python."""
    if x.shape != y.shape:
        return lambda: 0
    return lambda: Min(lambda *k: x[k] == y[k], **sizes(x, range(x.ndim)))


@spec("aten::hash_tensor")
def hash_tensor(x, dims, keepdim, mode):
    dims = reduced(x, dims)
    return lambda *i: Opaque("xor", x[source(x, dims, keepdim, i, [slice(None)] * len(dims))])


@spec("aten::max")
def max_(x):
    return over(x, None, False, Max)


@spec("aten::min")
def min_(x):
    return over(x, None, False, Min)


def mean_over(x, dims, keepdim):
    """Returns the mean over the dimensions."""
    total = over(x, dims, keepdim, Sum)
    return lambda *i: total(*i) / count(x, reduced(x, dims))


@spec("aten::mean")
def mean(x, dtype):
    return mean_over(x, None, False)


@spec("aten::mean.dim")
def mean_dim(x, dims, keepdim, dtype):
    return mean_over(x, dims, keepdim)


@spec("aten::nansum")
def nansum(x, dims, keepdim, dtype):
    return over(x, dims, keepdim, Sum, lambda element: where(isnan(element), 0, element))


@spec("aten::prod")
def prod(x, dtype):
    return over(x, None, False, Prod)


@spec("aten::prod.dim_int")
def prod_dim(x, dim, keepdim, dtype):
    return over(x, dim, keepdim, Prod)


@spec("aten::sum")
def sum_(x, dtype):
    return over(x, None, False, Sum)


@spec("aten::sum.dim_IntList")
def sum_dim(x, dims, keepdim, dtype):
    return over(x, dims, keepdim, Sum)


@spec("aten::trace")
def trace(x):
    return lambda: Sum(lambda k: x[k, k], k=min(x.shape))


def _along(x, dim):
    """Readers of `x` at `k` in place of dimension `dim`, and the extent of k."""
    (dim,) = dims_of(dim, x.ndim)
    return lambda i, k: replaced(i, [dim], [k]), x.shape[dim]


def _exp_over_sum(x, dim, guard_empty=False):
    if x.ndim == 0:
        return lambda: like(1, x[()])
    at, extent = _along(x, dim)

    def body(*i):
        top = Max(lambda m: x[at(i, m)], m=extent)
        value = exp(x[i] - top) / Sum(lambda k: exp(x[at(i, k)] - top), k=extent)
        return where(top == float("-inf"), 0, value) if guard_empty else value

    return body


@spec("aten::_log_softmax")
def _log_softmax(x, dim, half_to_float):
    if x.ndim == 0:
        return lambda: like(0, x[()])
    at, extent = _along(x, dim)

    def body(*i):
        top = Max(lambda m: x[at(i, m)], m=extent)
        return x[i] - top - log(Sum(lambda k: exp(x[at(i, k)] - top), k=extent))

    return body


@spec("aten::_log_softmax_backward_data")
def _log_softmax_backward_data(grad, y, dim, dtype):
    if y.ndim == 0:
        return lambda: grad[()] - exp(y[()]) * grad[()]
    at, extent = _along(y, dim)
    return lambda *i: grad[i] - exp(y[i]) * Sum(lambda k: grad[at(i, k)], k=extent)


@spec("aten::_safe_softmax")
def _safe_softmax(x, dim, dtype):
    return _exp_over_sum(x, dim, guard_empty=True)


@spec("aten::_softmax")
def _softmax(x, dim, half_to_float):
    return _exp_over_sum(x, dim)


@spec("aten::_softmax_backward_data")
def _softmax_backward_data(grad, y, dim, dtype):
    if y.ndim == 0:
        return lambda: y[()] * (grad[()] - grad[()] * y[()])
    at, extent = _along(y, dim)
    return lambda *i: y[i] * (grad[i] - Sum(lambda k: grad[at(i, k)] * y[at(i, k)], k=extent))


def _segments(axis, *tensors):
    """Returns what reads all of the segments, those of one line for each index but the axis."""

    def reads(i):
        lines = [tensor for tensor in tensors if tensor is not None]
        return [t[(*i[:axis], slice(None), *i[axis + 1 : t.ndim])] for t in lines]

    def body(*i):
        whole(i[axis])
        return Opaque("segment_reduce", *reads(i))

    return body


@spec("aten::segment_reduce")
def segment_reduce(x, reduce, lengths, indices, offsets, axis, unsafe, initial):
    """Reduces stretches of a line, whose lengths are data."""
    return _segments(axis, x, lengths, offsets)


@spec("aten::_segment_reduce_backward")
def _segment_reduce_backward(grad, output, x, reduce, lengths, offsets, axis, initial):
    """Spreads over stretches of a line, whose lengths are data."""
    return _segments(axis, grad, output, x, lengths, offsets)
