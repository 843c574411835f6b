"""Reductions over dimensions, and softmax."""

from __future__ import annotations

from smex.specs.common import dims_of, replaced
from smex.tdl import Max, Min, Prod, Sum, exp, like, log, spec, where


def _source(x, dims, keepdim, i, k):
    """The index of `x` for output index `i` and reduced indices `k`."""
    index = list(i)
    if not keepdim:
        for dim in sorted(dims):
            index.insert(dim, None)
    return replaced(index, dims, k)


def _over(x, dims, keepdim, kind, value=lambda element: element):
    dims = dims_of(dims, x.ndim)
    extents = {f"k{dim}": x.shape[dim] for dim in dims}
    return lambda *i: kind(lambda *k: value(x[_source(x, dims, keepdim, i, k)]), **extents)


@spec("aten::amax")
def amax(x, dims, keepdim):
    return _over(x, dims, keepdim, Max)


@spec("aten::amin")
def amin(x, dims, keepdim):
    return _over(x, dims, keepdim, Min)


@spec("aten::any")
def any_(x):
    return _over(x, None, False, Max, lambda element: element != 0)


@spec("aten::max")
def max_(x):
    return _over(x, None, False, Max)


@spec("aten::max.dim")
def max_dim(x, dim, keepdim):
    return None


@spec("aten::min")
def min_(x):
    return _over(x, None, False, Min)


@spec("aten::min.dim")
def min_dim(x, dim, keepdim):
    return None


def _mean(x, dims, keepdim):
    total = _over(x, dims, keepdim, Sum)
    count = 1
    for dim in dims_of(dims, x.ndim):
        count *= x.shape[dim]
    return lambda *i: total(*i) / count


@spec("aten::mean")
def mean(x, dtype):
    return _mean(x, None, False)


@spec("aten::mean.dim")
def mean_dim(x, dims, keepdim, dtype):
    return _mean(x, dims, keepdim)


@spec("aten::prod")
def prod(x, dtype):
    return _over(x, None, False, Prod)


@spec("aten::prod.dim_int")
def prod_dim(x, dim, keepdim, dtype):
    return _over(x, dim, keepdim, Prod)


@spec("aten::sum")
def sum_(x, dtype):
    return _over(x, None, False, Sum)


@spec("aten::sum.dim_IntList")
def sum_dim(x, dims, keepdim, dtype):
    return _over(x, dims, keepdim, Sum)


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
