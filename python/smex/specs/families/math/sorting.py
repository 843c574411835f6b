"""Positions of extremes, running reductions, sorts, and searches in sorted sequences."""

from __future__ import annotations

import math

from smex.specs.common import made_of_all, replaced, specs
from smex.specs.families.math.reduction import over, reduced, sizes, source
from smex.tdl import (
    Max,
    Min,
    Opaque,
    Prod,
    Sum,
    SymbolicTensor,
    and_,
    exp,
    isnan,
    like,
    log,
    or_,
    spec,
    told,
    where,
    whole,
)


def _value(x, i):
    return x[i] if isinstance(x, SymbolicTensor) else x


def _selected(name, x, dim, keepdim):
    """Values of `x` and their positions, each made of a whole line."""
    dims = reduced(x, dim)

    def body(*i):
        return Opaque(name, x[source(x, dims, keepdim, i, [slice(None)] * len(dims))])

    return body, body


def _first_place(x, dims, keepdim, kind):
    """Returns the first position of the extreme; it counts over all the dimensions."""
    dims = reduced(x, dims)
    strides = [math.prod(x.shape[d] for d in dims[n + 1 :]) for n in range(len(dims))]

    def body(*i):
        def at(k):
            return x[source(x, dims, keepdim, i, k)]

        extreme = kind(lambda *m: at(m), **sizes(x, dims, "m"))

        def place(*k):
            is_extreme = or_(at(k) == extreme, isnan(at(k)))
            return where(is_extreme, sum(p * s for p, s in zip(k, strides)), float("inf"))

        return Min(place, **sizes(x, dims))

    return body


def _extreme(x, dim, keepdim, kind):
    if x.ndim == 0:
        return lambda: x[()], lambda: like(0, x[()])
    return over(x, dim, keepdim, kind), _first_place(x, dim, keepdim, kind)


def _argument(x, dim, keepdim, kind):
    if x.ndim == 0:
        return lambda: like(0, x[()])
    return _first_place(x, dim, keepdim, kind)


@spec("aten::aminmax")
def aminmax(x, dim, keepdim):
    return over(x, dim, keepdim, Min), over(x, dim, keepdim, Max)


@spec("smex::first_position", local={"offset": "begin:k"})
def first_position(x, value, dim, offset):
    def body(*i):
        def place(k):
            here = x[replaced(i, [dim], [k])]
            wanted = value[i]
            is_there = or_(here == wanted, and_(isnan(here), isnan(wanted)))
            return where(is_there, told(k), float("inf"))

        return Min(place, k=x.shape[dim])

    return body


@spec("aten::argmax")
def argmax(x, dim, keepdim):
    return _argument(x, dim, keepdim, Max)


@spec("aten::argmin")
def argmin(x, dim, keepdim):
    return _argument(x, dim, keepdim, Min)


@spec("aten::max.dim")
def max_dim(x, dim, keepdim):
    return _extreme(x, dim, keepdim, Max)


@spec("aten::min.dim")
def min_dim(x, dim, keepdim):
    return _extreme(x, dim, keepdim, Min)


def _running(x, dim, kind, start):
    """Returns the reduction of what lies at or before a position; `start` stands for the rest."""
    if x.ndim == 0:
        return lambda: x[()]
    (dim,) = reduced(x, dim)

    def body(*i):
        def before(k):
            return where(k <= i[dim], x[replaced(i, [dim], [k])], start)

        return kind(before, k=x.shape[dim])

    return body


@spec("aten::cummax")
def cummax(x, dim):
    values = _running(x, dim, Max, float("-inf"))
    return values, _selected("argmax", x, dim, keepdim=True)[1]


@spec("aten::cummin")
def cummin(x, dim):
    values = _running(x, dim, Min, float("inf"))
    return values, _selected("argmin", x, dim, keepdim=True)[1]


@spec("aten::cumprod")
def cumprod(x, dim, dtype):
    return _running(x, dim, Prod, 1)


@spec("aten::cumsum")
def cumsum(x, dim, dtype):
    return _running(x, dim, Sum, 0)


@specs("aten::_logcumsumexp", "aten::logcumsumexp")
def logcumsumexp(x, dim):
    if x.ndim == 0:
        return lambda: x[()]
    (dim,) = reduced(x, dim)

    def body(*i):
        def at(k):
            return x[replaced(i, [dim], [k])]

        top = Max(lambda m: where(m <= i[dim], at(m), float("-inf")), m=x.shape[dim])
        total = Sum(lambda k: where(k <= i[dim], exp(at(k) - top), 0), k=x.shape[dim])
        return where(top == float("-inf"), top, top + log(total))

    return body


@spec("aten::argsort")
def argsort(x, dim, descending):
    return _selected("argsort", x, dim, keepdim=True)[1]


@spec("aten::argsort.stable")
def argsort_stable(x, stable, dim, descending):
    return _selected("argsort", x, dim, keepdim=True)[1]


@spec("aten::kthvalue")
def kthvalue(x, k, dim, keepdim):
    return _selected("kthvalue", x, dim, keepdim)


@specs("aten::median", "aten::nanmedian")
def median(x):
    """Looks for the middle of all elements."""
    return made_of_all("median", x)


@specs("aten::median.dim", "aten::nanmedian.dim")
def median_dim(x, dim, keepdim):
    return _selected("median", x, dim, keepdim)


@spec("aten::mode")
def mode(x, dim, keepdim):
    return _selected("mode", x, dim, keepdim)


@spec("aten::sort")
def sort(x, dim, descending):
    return _selected("sort", x, dim, keepdim=True)


@spec("aten::sort.stable")
def sort_stable(x, stable, dim, descending):
    return _selected("sort", x, dim, keepdim=True)


@spec("aten::topk")
def topk(x, k, dim, largest, sorted):
    return _selected("topk", x, dim, keepdim=True)


# How many distinct values there are depends on all of them, and with it where each one lies.


def _distinct(x, outputs):
    return (made_of_all("unique", x),) * outputs


@spec("aten::_unique")
def _unique(x, sorted, return_inverse):
    return _distinct(x, 2)


@spec("aten::_unique2")
def _unique2(x, sorted, return_inverse, return_counts):
    return _distinct(x, 3)


@spec("aten::unique_consecutive")
def unique_consecutive(x, return_inverse, return_counts, dim):
    return _distinct(x, 3)


@spec("aten::unique_dim")
def unique_dim(x, dim, sorted, return_inverse, return_counts):
    return _distinct(x, 3)


@specs("aten::isin.Scalar_Tensor", "aten::isin.Tensor_Scalar", "aten::isin.Tensor_Tensor")
def isin(x, tests, assume_unique, invert):
    if not isinstance(tests, SymbolicTensor):
        return lambda *i: (_value(x, i) != tests) if invert else (_value(x, i) == tests)
    extents = sizes(tests, range(tests.ndim))
    if invert:
        none_equal = Min if math.prod(tests.shape) else Prod
        return lambda *i: none_equal(lambda *k: _value(x, i) != tests[k], **extents)
    one_equal = Max if math.prod(tests.shape) else Sum
    return lambda *i: one_equal(lambda *k: _value(x, i) == tests[k], **extents)


def _places(sequence, value, right, sorter=None):
    """How many of a sorted sequence lie before a value: their counts in its parts add up."""
    extent = sequence.shape[-1]

    def body(*i):
        line = i[:-1] if sequence.ndim > 1 else ()

        def before(k):
            at = k if sorter is None else sorter[(*line, whole(k))]
            element = sequence[(*line, at)]
            return where(element > value(i) if right else element >= value(i), 0, 1)

        return Sum(before, k=extent)

    return body


@specs("aten::bucketize.Scalar", "aten::bucketize.Tensor")
def bucketize(x, boundaries, out_int32, right):
    return _places(boundaries, lambda i: _value(x, i), right)


@specs("aten::searchsorted.Scalar", "aten::searchsorted.Tensor")
def searchsorted(sequence, x, out_int32, right, side, sorter):
    return _places(sequence, lambda i: _value(x, i), right or side == "right", sorter)
