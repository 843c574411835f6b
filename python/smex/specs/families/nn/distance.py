"""Distances between rows: (… i k) and (… j k) to (… i j), or of all pairs of (i k) in one row."""

from __future__ import annotations

import math

from smex.specs.common import element
from smex.tdl import Max, Sum, abs_, and_, like, maximum, minimum, pow_, sign, spec, where


def _distance(difference, p, k):
    """The p-norm of `difference`, a function of the index of a coordinate, of which there are k."""
    if p == 0:
        return Sum(lambda k: difference(k) != 0, k=k)
    if p == 1:
        return Sum(lambda k: abs_(difference(k)), k=k)
    if p == math.inf:
        return Max(lambda k: abs_(difference(k)), k=k) if k else 0
    return pow_(Sum(lambda k: pow_(abs_(difference(k)), p), k=k), 1 / p)


def _slope(difference, distance, p):
    """Returns the derivative of the distance in one coordinate's difference.

    0 where there is none.
    """
    if p == 0:
        return like(0, difference)
    if p == 1:
        return sign(difference)
    if p == math.inf:
        return where(abs_(difference) == distance, sign(difference), 0)
    size = abs_(difference)
    value = sign(difference) * pow_(size / distance, p - 1)
    vanishes = size == 0 if p < 2 else distance == 0
    return where(vanishes, 0, value)


@spec("aten::_cdist_backward")
def cdist_backward(grad, a, b, p, distances):
    if 0 in (*grad.shape, a.shape[-1]):
        return lambda *i: like(0, a[i])

    def body(*i):
        *n, i_, k_ = i

        def term(j):
            at = (*n, i_, j)
            difference = element(a, i) - element(b, (*n, j, k_))
            slope = _slope(difference, element(distances, at), p)
            return like(element(grad, at) * slope, element(distances, at))

        return Sum(term, j=b.shape[-2])

    return body


@spec("aten::_cdist_forward")
def cdist_forward(a, b, p, mode):
    def body(*i):
        *n, i_, j_ = i
        return _distance(
            lambda k: element(a, (*n, i_, k)) - element(b, (*n, j_, k)), p, a.shape[-1]
        )

    return body


@spec("aten::_euclidean_dist")
def euclidean_dist(a, b):
    return cdist_forward(a, b, 2.0, None)


def _pair(i, j, n):
    """Returns the place of the pair of rows i < j of n."""
    return i * n - i * (i + 1) / 2 + j - i - 1


@spec("aten::_pdist_backward")
def pdist_backward(grad, x, p, distances):
    n = x.shape[0]

    def body(i, k):
        def term(j, q):
            pair = _pair(minimum(i, j), maximum(i, j), n)
            slope = _slope(x[i, k] - x[j, k], distances[q], p)
            return where(and_(i != j, pair == q), grad[q] * slope, 0)

        return Sum(term, j=n, q=grad.shape[0])

    return body


@spec("aten::_pdist_forward")
def pdist_forward(x, p):
    rows, columns = x.shape

    def body(q):
        def of_pair(value):
            def term(i, j, *k):
                return where(and_(i < j, _pair(i, j, rows) == q), value(i, j, *k), 0)

            return term

        if p in (1, math.inf) and columns:
            reduce = Sum if p == 1 else Max
            term = of_pair(lambda i, j, k: abs_(x[i, k] - x[j, k]))
            return reduce(term, i=rows, j=rows, k=columns)
        distance = of_pair(lambda i, j: _distance(lambda k: x[i, k] - x[j, k], p, columns))
        return Sum(distance, i=rows, j=rows)

    return body
