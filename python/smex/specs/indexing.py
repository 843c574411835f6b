"""Operators whose indices are data."""

from __future__ import annotations

from smex.specs.common import dims_of, element, replaced
from smex.tdl import Opaque, Sum, spec, where, whole


def _wrapped(index, size):
    return where(index < 0, index + size, index)


@spec("aten::gather")
def gather(x, dim, index, sparse_grad):
    if x.ndim == 0:
        return None
    (dim,) = dims_of(dim, x.ndim)

    def body(*i):
        for d, k in enumerate(i):
            if d != dim and x.shape[d] != index.shape[d]:
                whole(k)
        return x[replaced(i, [dim], [index[i]])]

    return body


@spec("aten::index")
def index(x, indices):
    given = [(dim, t) for dim, t in enumerate(indices) if t is not None]
    dims = [dim for dim, _ in given]
    if not dims or dims != list(range(dims[0], dims[-1] + 1)):
        return None
    rank = max(t.ndim for _, t in given)
    first = dims[0]

    def body(*i):
        middle = i[first : first + rank]
        at = [_wrapped(element(t, middle), x.shape[dim]) for dim, t in given]
        return x[(*i[:first], *at, *i[first + rank :])]

    return body


@spec("aten::index_select")
def index_select(x, dim, index):
    if x.ndim == 0:
        return None
    (dim,) = dims_of(dim, x.ndim)
    return lambda *i: x[replaced(i, [dim], [index[i[dim]]])]


def _scatter(x, dim, index, value, add):
    if x.ndim == 0:
        return None
    (dim,) = dims_of(dim, x.ndim)
    same = all(x.shape[d] == index.shape[d] for d in range(x.ndim) if d != dim)
    if (hasattr(value, "shape") and value.shape != index.shape) or not same:
        return None

    def body(*i):
        def at(k):
            return replaced(i, [dim], [k])

        def source(k):
            return value[at(k)] if hasattr(value, "shape") else value

        hits = Sum(lambda k: where(index[at(k)] == i[dim], source(k), 0), k=index.shape[dim])
        if add:
            return x[i] + hits
        if hasattr(value, "shape"):  # duplicates keep one of the values, which one is not specified
            reads = (
                x[i],
                index[replaced(i, [dim], [slice(None)])],
                value[replaced(i, [dim], [slice(None)])],
            )
            whole(i[dim])
            return Opaque("scatter", *reads)
        found = Sum(lambda h: where(index[at(h)] == i[dim], 1, 0), h=index.shape[dim])
        return where(found > 0, value, x[i])

    return body


@spec("aten::scatter")
def scatter(x, dim, index, value):
    return _scatter(x, dim, index, value, add=False)


@spec("aten::scatter_add")
def scatter_add(x, dim, index, value):
    return _scatter(x, dim, index, value, add=True)


@spec("smex::class_index")
def class_index(target, classes, ignore_index):
    return lambda *i: target[i]
