"""Products of vectors, matrices and batches of them."""

from __future__ import annotations

from smex.specs.common import dims_of, element, replaced
from smex.tdl import Sum, like, spec, whole


def _added(bias, index, beta, product):
    """Returns the product plus beta times the bias, which is not read where beta is 0."""
    if beta == 0:
        return like(product, element(bias, index))
    return beta * element(bias, index) + product


@spec("aten::addbmm")
def addbmm(bias, a, b, beta, alpha):
    return lambda i, j: _added(
        bias, (i, j), beta, Sum(lambda n, k: alpha * (a[n, i, k] * b[n, k, j]))
    )


@spec("aten::addmm")
def addmm(bias, a, b, beta, alpha):
    return lambda i, j: _added(bias, (i, j), beta, Sum(lambda k: alpha * (a[i, k] * b[k, j])))


@spec("aten::addmv")
def addmv(bias, a, x, beta, alpha):
    if bias.ndim == 0 and 0 in a.shape:
        return None  # the kernel returns a number then
    return lambda i: _added(bias, (i,), beta, Sum(lambda k: alpha * (a[i, k] * x[k])))


@spec("aten::addr")
def addr(bias, x, y, beta, alpha):
    return lambda i, j: _added(bias, (i, j), beta, alpha * (x[i] * y[j]))


@spec("aten::baddbmm")
def baddbmm(bias, a, b, beta, alpha):
    return lambda n, i, j: _added(
        bias, (n, i, j), beta, Sum(lambda k: alpha * (a[n, i, k] * b[n, k, j]))
    )


@spec("aten::bmm")
def bmm(a, b):
    return lambda n, i, j: Sum(lambda k: a[n, i, k] * b[n, k, j])


@spec("aten::dot")
def dot(a, b):
    return lambda: Sum(lambda k: a[k] * b[k])


@spec("aten::linalg_cross")
def linalg_cross(a, b, dim):
    (dim,) = dims_of(dim, max(a.ndim, b.ndim))

    def body(*i):
        first = replaced(i, [dim], [(whole(i[dim]) + 1) % 3])
        second = replaced(i, [dim], [(i[dim] + 2) % 3])
        return element(a, first) * element(b, second) - element(a, second) * element(b, first)

    return body


@spec("aten::mm")
def mm(a, b):
    return lambda i, j: Sum(lambda k: a[i, k] * b[k, j])


@spec("aten::mv")
def mv(a, x):
    return lambda i: Sum(lambda k: a[i, k] * x[k])


@spec("aten::_trilinear")
def _trilinear(a, b, c, expand1, expand2, expand3, sums, unroll=1):
    """The product of three tensors, each with dimensions inserted, summed over some dimensions."""
    ndim = a.ndim + len(expand1)
    summed = [dim % ndim for dim in sums]
    kept = [dim for dim in range(ndim) if dim not in summed]
    sizes = [1] * ndim
    factors = []
    for x, expand in ((a, expand1), (b, expand2), (c, expand3)):
        inserted = [dim % ndim for dim in expand]
        dims = [dim for dim in range(ndim) if dim not in inserted]
        factors.append((x, dims))
        for dim, size in zip(dims, x.shape):
            sizes[dim] = size if size != 1 else sizes[dim]

    def body(*i):
        def product(*k):
            at = dict(zip([*kept, *summed], [*i, *k]))
            value = 1.0
            for x, dims in factors:
                value = value * element(x, [at[dim] for dim in dims])
            return value

        return Sum(product, **{f"k{dim}": sizes[dim] for dim in summed})

    return body


@spec("aten::vdot")
def vdot(a, b):
    return lambda: Sum(lambda k: a[k] * b[k])
