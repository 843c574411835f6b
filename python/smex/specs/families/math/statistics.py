"""Variances, norms, counts, histograms and draws."""

from __future__ import annotations

import functools
import math

from smex.specs.common import element, made_of_all, specs
from smex.specs.families.math.reduction import (
    broadcast_extents,
    count,
    is_nonzero,
    mean_over,
    over,
    reduced,
    sizes,
    source,
)
from smex.tdl import (
    Max,
    Min,
    Sum,
    abs_,
    and_,
    exp,
    floor,
    log,
    minimum,
    or_,
    spec,
    sqrt,
    where,
    whole,
)


def _variance(x, dims, correction, keepdim):
    dims = reduced(x, dims)
    degrees = max(0, count(x, dims) - (1 if correction is None else correction))
    if count(x, dims) == 0:
        degrees = 0  # a negative correction makes nothing into something

    def body(*i):
        def square(*k):
            mean = Sum(lambda *m: x[source(x, dims, keepdim, i, m)], **sizes(x, dims, "m"))
            return (x[source(x, dims, keepdim, i, k)] - mean / count(x, dims)) ** 2

        return Sum(square, **sizes(x, dims)) / degrees

    return body


def _deviation(x, dims, correction, keepdim):
    variance = _variance(x, dims, correction, keepdim)
    return lambda *i: sqrt(variance(*i))


@spec("aten::std.correction")
def std(x, dims, correction, keepdim):
    return _deviation(x, dims, correction, keepdim)


@spec("aten::std_mean.correction")
def std_mean(x, dims, correction, keepdim):
    return _deviation(x, dims, correction, keepdim), mean_over(x, dims, keepdim)


@spec("aten::var.correction")
def var(x, dims, correction, keepdim):
    return _variance(x, dims, correction, keepdim)


@spec("aten::var.dim")
def var_dim(x, dims, unbiased, keepdim):
    return _variance(x, dims, int(unbiased), keepdim)


@spec("aten::var_mean.correction")
def var_mean(x, dims, correction, keepdim):
    return _variance(x, dims, correction, keepdim), mean_over(x, dims, keepdim)


def _norm(p):
    """Returns the norm of order `p`: of a reduction's lambda and extents."""

    def norm(function, **extents):
        if p == 0:
            return Sum(lambda *k: function(*k) != 0, **extents)
        if abs(p) == math.inf:
            kind = Max if p > 0 else Min
            return kind(lambda *k: abs_(function(*k)), **extents)
        if p == 1:
            return Sum(lambda *k: abs_(function(*k)), **extents)
        return Sum(lambda *k: abs_(function(*k)) ** p, **extents) ** (1 / p)

    return norm


@spec("aten::dist")
def dist(x, y, p):
    """Returns a root follows the sum."""
    return lambda: _norm(p)(lambda *k: element(x, k) - element(y, k), **broadcast_extents(x, y))


@spec("aten::linalg_vector_norm")
def linalg_vector_norm(x, order, dims, keepdim, dtype):
    return over(x, dims, keepdim, _norm(order))


@spec("aten::norm.Scalar")
def norm(x, p):
    return over(x, None, False, _norm(p))


@spec("aten::norm.ScalarOpt_dim")
def norm_dim(x, p, dims, keepdim):
    return over(x, dims, keepdim, _norm(2 if p is None else p))


@spec("aten::norm.ScalarOpt_dim_dtype")
def norm_dim_dtype(x, p, dims, keepdim, dtype):
    return over(x, dims, keepdim, _norm(2 if p is None else p))


@spec("aten::norm.ScalarOpt_dtype")
def norm_dtype(x, p, dtype):
    return over(x, None, False, _norm(2 if p is None else p))


@spec("aten::renorm")
def renorm(x, p, dim, max_norm):
    (dim,) = reduced(x, dim)
    others = [d for d in range(x.ndim) if d != dim]

    def body(*i):
        size = over(x, others, False, _norm(p))(i[dim])
        return x[i] * where(size > max_norm, max_norm / (size + 1e-7), 1)

    return body


@specs("aten::count_nonzero", "aten::count_nonzero.dim_IntList")
def count_nonzero(x, dims):
    return over(x, dims, False, Sum, is_nonzero)


@spec("aten::logsumexp")
def logsumexp(x, dims, keepdim):
    dims = reduced(x, dims)

    def body(*i):
        def at(k):
            return x[source(x, dims, keepdim, i, k)]

        peak = Max(lambda *m: at(m), **sizes(x, dims, "m"))
        top = where(abs_(peak) == float("inf"), 0, peak)
        return top + log(Sum(lambda *k: exp(at(k) - top), **sizes(x, dims)))

    return body


# Histograms


def _bin(value, low, high, bins):
    """Returns the bin of a value within [low, high]; the highest one is in the last."""
    return minimum(floor((value - low) * bins / (high - low)), bins - 1)


@spec("aten::histc")
def histc(x, bins, low, high):
    if low == high:  # the range of the data
        return made_of_all("histogram", x)

    def body(i):
        def hit(*k):
            inside = and_(x[k] >= low, x[k] <= high)
            return where(inside, _bin(x[k], low, high, bins) == i, 0)

        return Sum(hit, **sizes(x, range(x.ndim)))

    return body


def _weighted(x, weight, hit):
    """For each bin the weights of the places of `x` that hit it."""

    def body(*i):
        for index in i:
            whole(index)  # the last bin of a kernel includes its upper edge

        def counted(*k):
            return where(hit(i, k), 1 if weight is None else weight[k], 0)

        return counted

    return body


def _between(value, edges, i):
    """Returns whether a value lies in bin `i`; the last bin includes its upper edge."""
    upper = edges[i + 1]
    is_last = i == edges.shape[0] - 2
    below = or_(value < upper, and_(is_last, value == upper))
    return and_(value >= edges[i], below)


@spec("aten::histogram.bin_ct")
def histogram(x, bins, limits, weight, density):
    """Lays bins between the least and the greatest of all values."""
    return made_of_all("histogram", x, weight), made_of_all("edges", x)


@spec("aten::histogram.bins_tensor")
def histogram_edges(x, edges, weight, density):
    def copied(e):
        return edges[e]

    if density:
        return made_of_all("histogram", x, edges, weight), copied
    hits = _weighted(x, weight, lambda i, k: _between(x[k], edges, i[0]))
    return lambda i: Sum(hits(i), **sizes(x, range(x.ndim))), copied


def _rows(x):
    """Returns the extents of all dimensions of points but the last, their coordinates."""
    return sizes(x, range(x.ndim - 1))


@spec("aten::_histogramdd_bin_edges")
def _histogramdd_bin_edges(x, bins, limits, weight, density):
    """Lays bins between the least and the greatest of all values."""
    return tuple(made_of_all("edges", x) for _ in bins)


@spec("aten::_histogramdd_from_bin_cts")
def _histogramdd_from_bin_cts(x, bins, limits, weight, density):
    """Lays bins between the least and the greatest of all values."""
    if density or limits is None:
        return made_of_all("histogram", x, weight)

    def hit(i, k):
        def hit_along(d):
            value, (low, high) = x[(*k, d)], limits[2 * d : 2 * d + 2]
            inside = and_(value >= low, value <= high)
            return and_(inside, _bin(value, low, high, bins[d]) == i[d])

        return functools.reduce(and_, [hit_along(d) for d in range(len(i))])

    return lambda *i: Sum(_weighted(x, weight, hit)(*i), **_rows(x))


@spec("aten::_histogramdd_from_bin_tensors")
def _histogramdd_from_bin_tensors(x, edges, weight, density):
    if density:
        return made_of_all("histogram", x, weight, *edges)

    def hit(i, k):
        return functools.reduce(and_, [_between(x[(*k, d)], edges[d], i[d]) for d in range(len(i))])

    return lambda *i: Sum(_weighted(x, weight, hit)(*i), **_rows(x))


# Draws: each takes its turn from one generator.


@spec("aten::multinomial")
def multinomial(x, samples, replacement, generator):
    return made_of_all("random", x)
