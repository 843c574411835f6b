"""Operators whose indices along one dimension are data."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from smex.specs.common import dims_of, replaced
from smex.tdl import (
    Max,
    Min,
    Opaque,
    Prod,
    Sum,
    and_,
    like,
    maximum,
    minimum,
    spec,
    told,
    where,
    whole,
)


def _at(x: Any, i: Sequence[Any], dim: int, k: Any) -> Any:
    """Returns the element at `k` along a dimension; a tensor of no dimension has one."""
    return x[replaced(i, [dim], [k])] if x.ndim else x[()]


def _vector(index: Any, k: Any) -> Any:
    return index[k] if index.ndim else index[()]


def _length(index: Any, dim: int = 0) -> int:
    return index.shape[dim] if index.ndim else 1


def _place(i: Sequence[Any], dim: int) -> Any:
    return i[dim] if i else 0


def _dim(x: Any, dim: int) -> int:
    return dims_of(dim, max(x.ndim, 1))[0]


_REDUCTIONS: dict[str, tuple[Any, float, Callable[[Any, Any], Any]]] = {
    "add": (Sum, 0, lambda a, b: a + b),
    "amax": (Max, -math.inf, maximum),
    "amin": (Min, math.inf, minimum),
    "mean": (Sum, 0, lambda a, b: a + b),
    "multiply": (Prod, 1, lambda a, b: a * b),
    "prod": (Prod, 1, lambda a, b: a * b),
    "sum": (Sum, 0, lambda a, b: a + b),
}


def _reduced(own: Any, hits: Any, value: Any, size: int, reduce: str, include_self: bool) -> Any:
    """`own` and the `value(k)` of all k < size with `hits(k)`, reduced."""
    kind, neutral, combine = _REDUCTIONS[reduce]
    if include_self and kind in (Max, Min) and size > 0:  # `own` may count several times
        return kind(lambda k: combine(own, where(hits(k), value(k), neutral)), k=size)
    result = kind(lambda k: where(hits(k), value(k), neutral), k=size)
    result = combine(own, result) if include_self else result
    if reduce != "mean" and include_self:
        return result
    count = Sum(lambda k: where(hits(k), 1, 0), k=size) + int(include_self)
    if reduce == "mean":
        result = result / maximum(count, 1)
    return result if include_self else where(count > 0, result, own)


@spec("aten::gather")
def gather(x, dim, index, sparse_grad):
    dim = _dim(x, dim)
    if x.ndim == 0:
        return lambda *i: like(x[()], index[i])
    if 0 in index.shape and index.ndim != x.ndim:
        return None  # without elements it may have any rank
    return lambda *i: _at(x, i or (0,), dim, index[i])


@spec("aten::index_add")
def index_add(x, dim, index, source, alpha):
    dim = _dim(x, dim)

    def body(*i):
        def hits(k):
            return _vector(index, k) == _place(i, dim)

        def value(k):
            return _at(source, i or (0,), dim, k) * alpha

        return _reduced(x[i], hits, value, _length(index), "sum", include_self=True)

    return body


@spec("aten::index_copy")
def index_copy(x, dim, index, source):
    dim = _dim(x, dim)

    # Of equal indices one counts, which one is not specified.
    def body(*i):
        if i:
            whole(i[dim])
        every = slice(None)
        return Opaque("copy", x[i], _vector(index, every), _at(source, i or (0,), dim, every))

    return body


@spec("aten::index_fill")
def index_fill(x, dim, index, value):
    dim = _dim(x, dim)

    def body(*i):
        def hits(k):
            at = _vector(index, k)
            return where(where(at < 0, at + _length(x, dim), at) == _place(i, dim), 1, 0)

        filled = value[()] if hasattr(value, "shape") else value
        return where(Sum(hits, k=_length(index)) > 0, filled, x[i])

    return body


@spec("aten::index_reduce")
def index_reduce(x, dim, index, source, reduce, include_self):
    dim = _dim(x, dim)

    def body(*i):
        def hits(k):
            return _vector(index, k) == _place(i, dim)

        def value(k):
            return _at(source, i or (0,), dim, k)

        return _reduced(x[i], hits, value, _length(index), reduce, include_self)

    return body


@spec("aten::index_select")
def index_select(x, dim, index):
    dim = _dim(x, dim)
    if x.ndim == 0:
        return lambda: like(x[()], _vector(index, 0))
    return lambda *i: x[replaced(i, [dim], [_vector(index, i[dim])])]


def _scatter(x, dim, index, value, reduce, include_self=True):
    dim = _dim(x, dim)
    if 0 in index.shape:
        return lambda *i: x[i]
    shorter = [d for d in range(x.ndim) if d != dim and x.shape[d] != index.shape[d]]

    def body(*i):
        def hits(k):
            hit = _at(index, i or (0,), dim, k) == _place(i, dim)
            for d in shorter:
                hit = and_(whole(i[d]) < index.shape[d], hit)
            return hit

        def source(k):
            return _at(value, i or (0,), dim, k) if hasattr(value, "shape") else value

        size = _length(index, dim)
        if reduce is not None:
            return _reduced(x[i], hits, source, size, reduce, include_self)
        if hasattr(value, "shape"):
            return _overwritten(x, i, dim, index, value, shorter)
        return where(Sum(lambda k: where(hits(k), 1, 0), k=size) > 0, value, x[i])

    return body


def _overwritten(x, i, dim, index, value, shorter):
    # Duplicates keep one of the values, which one is not specified.
    for d in [dim, *shorter] if i else []:
        whole(i[d])
    at = replaced(i or (0,), [dim, *shorter], [slice(None)] * (1 + len(shorter)))
    return Opaque("scatter", x[i], *(t[at] if t.ndim else t[()] for t in (index, value)))


@spec("aten::scatter")
def scatter(x, dim, index, value, reduce=None):
    return _scatter(x, dim, index, value, reduce)


@spec("aten::scatter_add")
def scatter_add(x, dim, index, value):
    return _scatter(x, dim, index, value, "sum")


@spec("aten::scatter_reduce")
def scatter_reduce(x, dim, index, value, reduce, include_self):
    return _scatter(x, dim, index, value, reduce, include_self)


@spec("smex::scatter_sum", local={"shape": "output_shape", "offset": "offset"})
def scatter_sum(x, index, dim, shape, offset):
    def body(*i):
        def added(k):
            at = replaced(i, [dim], [k])
            return where(index[at] == told(i[dim]), x[at], 0)

        return Sum(added, k=x.shape[dim])

    return body


@spec("smex::class_index")
def class_index(target, classes, ignore_index):
    return lambda *i: target[i]
