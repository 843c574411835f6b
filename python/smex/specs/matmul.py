"""Matrix products."""

from __future__ import annotations

from smex.specs.common import element
from smex.tdl import Sum, spec


@spec("aten::addmm")
def addmm(bias, a, b, beta, alpha):
    return lambda i, j: beta * element(bias, (i, j)) + alpha * Sum(lambda k: a[i, k] * b[k, j])


@spec("aten::baddbmm")
def baddbmm(bias, a, b, beta, alpha):
    return lambda n, i, j: (
        beta * element(bias, (n, i, j)) + alpha * Sum(lambda k: a[n, i, k] * b[n, k, j])
    )


@spec("aten::bmm")
def bmm(a, b):
    return lambda n, i, j: Sum(lambda k: a[n, i, k] * b[n, k, j])


@spec("aten::dot")
def dot(a, b):
    return lambda: Sum(lambda k: a[k] * b[k])


@spec("aten::mm")
def mm(a, b):
    return lambda i, j: Sum(lambda k: a[i, k] * b[k, j])


@spec("aten::mv")
def mv(a, x):
    return lambda i: Sum(lambda k: a[i, k] * x[k])
