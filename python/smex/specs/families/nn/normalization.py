"""Layer, group and weight normalization as fused calls."""

from __future__ import annotations

import math

from smex.specs.common import all_of, named, replaced
from smex.tdl import Opaque, Sum, like, rsqrt, spec, sqrt, where, whole


def _rows(x, normalized_shape):
    """Rank of the rows' index, and the extents of one row."""
    outer = x.ndim - len(normalized_shape)
    return outer, {f"k{d}": size for d, size in enumerate(normalized_shape)}


@spec("aten::native_layer_norm")
def native_layer_norm(x, normalized_shape, weight, bias, eps):
    outer, extents = _rows(x, normalized_shape)
    count = math.prod(normalized_shape)
    if count == 0:
        return None

    def mean(row):
        return Sum(lambda *k: x[(*row, *k)], **extents) / count

    def rstd(row):
        squares = {f"q{name}": size for name, size in extents.items()}
        center = mean(row)

        def square(*q):
            return (x[(*row, *q)] - center) * (x[(*row, *q)] - center)

        return rsqrt(Sum(square, **squares) / count + eps)

    def value(*i):
        row, k = i[:outer], i[outer:]
        y = (x[i] - mean(row)) * rstd(row)
        y = y if weight is None else y * weight[k]
        return y if bias is None else y + bias[k]

    return value, lambda *i: mean(i[:outer]), lambda *i: rstd(i[:outer])


@spec("aten::native_layer_norm_backward")
def native_layer_norm_backward(grad, x, normalized_shape, mean, rstd, weight, bias, mask):
    outer, extents = _rows(x, normalized_shape)
    count = math.prod(normalized_shape)
    ones = (0,) * len(normalized_shape)
    rows = {f"i{d}": size for d, size in enumerate(x.shape[:outer])}

    def shapes_only(value, k):
        """Weight and bias decide by their presence and shape, not content."""
        for tensor in (weight, bias):
            value = value if tensor is None else like(value, tensor[k])
        return value

    def scaled(row, k):
        return grad[(*row, *k)] if weight is None else grad[(*row, *k)] * weight[k]

    def normalized(row, k):
        return (x[(*row, *k)] - mean[(*row, *ones)]) * rstd[(*row, *ones)]

    def grad_input(*i):
        row, k = i[:outer], i[outer:]
        first = Sum(lambda *k: scaled(row, k), **extents)
        second = {f"q{name}": size for name, size in extents.items()}
        dot = Sum(lambda *q: scaled(row, q) * normalized(row, q), **second)
        value = scaled(row, k) - first / count - normalized(row, k) * dot / count
        return shapes_only(value * rstd[(*row, *ones)], k)

    def grad_weight(*k):
        k = tuple(whole(index) for index in k)
        return Sum(lambda *r: shapes_only(grad[(*r, *k)] * normalized(r, k), k), **rows)

    def grad_bias(*k):
        k = tuple(whole(index) for index in k)

        def value(*r):
            # Reads nothing of x but its shape, nor of the statistics.
            result = like(like(grad[(*r, *k)], x[(*r, *k)]), mean[(*r, *ones)])
            return shapes_only(like(result, rstd[(*r, *ones)]), k)

        return Sum(value, **rows)

    # Names of the outputs' indices: a row's i0, i1, … and an element's place e0, e1, ….
    return tuple(
        output if used else None
        for output, used in zip(
            (
                named(grad_input, [*rows, *(f"e{d}" for d in range(len(normalized_shape)))]),
                named(grad_weight, [f"e{d}" for d in range(len(normalized_shape))]),
                named(grad_bias, [f"e{d}" for d in range(len(normalized_shape))]),
            ),
            mask,
        )
    )


def _row_names(x, rank):
    """Names of the indices of rows, of places in a row, and of a statistic's sizes of 1."""
    outer = x.ndim - rank
    rows = [f"i{d}" for d in range(outer)]
    return outer, rows, [f"e{d}" for d in range(rank)], [f"u{d}" for d in range(rank)]


def _row_of(statistic, i):
    """Returns a statistic's element for the element of a row: it has size 1 along the row."""
    return statistic[tuple(0 if statistic.shape[d] == 1 else k for d, k in enumerate(i))]


@spec("smex::row_mean")
def row_mean(x, rank, count):
    outer, rows, _, ones = _row_names(x, rank)
    extents = {f"k{d}": size for d, size in enumerate(x.shape[outer:])}

    def mean(*i):
        return Sum(lambda *k: x[(*i[:outer], *k)] / count, **extents)

    return named(mean, [*rows, *ones])


@spec("smex::row_squares")
def row_squares(x, mean):
    along = [d for d, size in enumerate(mean.shape) if size == 1]
    if not along:
        return lambda *i: (x[i] - mean[i]) * (x[i] - mean[i])

    def squares(*i):
        def square(*k):
            at = replaced(i, along, k)
            return (x[at] - _row_of(mean, i)) * (x[at] - _row_of(mean, i))

        return Sum(square, **{f"k{d}": x.shape[d] for d in along})

    return squares


def _of_vector(vector, i):
    """Returns the element of a vector over the places of a row."""
    return vector[i[len(i) - vector.ndim :]]


@spec("smex::row_normalize")
def row_normalize(x, mean, squares, weight, bias, count, eps):
    def rstd(i):
        return rsqrt(_row_of(squares, i) / count + eps)

    def value(*i):
        y = (x[i] - _row_of(mean, i)) * rstd(i)
        y = y if weight is None else y * _of_vector(weight, i)
        return y if bias is None else y + _of_vector(bias, i)

    along = [squares.shape[d] == 1 for d in range(x.ndim)]
    names = [f"i{d}" for d in range(x.ndim)]
    ones = [f"u{d}" if one else f"i{d}" for d, one in enumerate(along)]
    return named(value, names), named(lambda *i: rstd(i), ones)


@spec("smex::row_gradient_sums")
def row_gradient_sums(grad, x, mean, rstd, rank, weight):
    outer, rows, places, ones = _row_names(x, rank)
    whole_row = dict(zip(places, x.shape[outer:], strict=True))
    all_rows = dict(zip(rows, x.shape[:outer], strict=True))

    def normalized(i):
        return (x[i] - _row_of(mean, i)) * _row_of(rstd, i)

    def scaled(i):
        return grad[i] if weight is None else grad[i] * _of_vector(weight, i)

    def shapes_only(value, i):
        """The kernel makes all four, of tensors of one size."""
        value = like(like(like(value, x[i]), _row_of(mean, i)), _row_of(rstd, i))
        return value if weight is None else like(value, _of_vector(weight, i))

    def of_row(*i):
        which = whole(i[-1])  # of the two sums

        def term(*k):
            at = (*i[:outer], *k)
            both = where(which == 0, scaled(at), scaled(at) * normalized(at))
            return shapes_only(both, at)

        return Sum(term, **whole_row)

    def of_place(term):
        def body(*k):
            if not outer:
                return term(k)
            return Sum(lambda *r: term((*r, *k)), **all_rows)

        return named(body, places)

    return (
        named(of_row, [*rows, *ones]),
        of_place(lambda i: shapes_only(grad[i] * normalized(i), i)),
        of_place(lambda i: shapes_only(grad[i], i)),
    )


@spec("smex::row_gradient")
def row_gradient(grad, x, mean, rstd, weight, sums, count):
    def value(*i):
        normalized = (x[i] - _row_of(mean, i)) * _row_of(rstd, i)
        scaled = grad[i] if weight is None else grad[i] * _of_vector(weight, i)
        row = [0 if mean.shape[d] == 1 else k for d, k in enumerate(i)][:-1]
        along = (sums[(*row, 0)] + normalized * sums[(*row, 1)]) / count
        return (scaled - along) * _row_of(rstd, i)

    return value


@spec("aten::native_group_norm", local={"N": "rows"})
def native_group_norm(x, weight, bias, batch, channels, area, groups, eps):
    per_group = channels // groups
    if per_group == 0 or area == 0:
        return None

    # Channels and places are sizes in the call: it takes all of them.
    def mean(n, g):
        return _group_sum(x, n, g, per_group, "k", lambda value: value) / (per_group * area)

    def rstd(n, g):
        center = mean(n, g)
        squares = _group_sum(x, n, g, per_group, "q", lambda v: (v - center) * (v - center))
        return rsqrt(squares / (per_group * area) + eps)

    def value(n, c, *s):
        g = whole(c) // per_group
        s = tuple(whole(index) for index in s)
        y = (x[(n, c, *s)] - mean(n, g)) * rstd(n, g)
        y = y if weight is None else y * weight[c]
        return y if bias is None else y + bias[c]

    return value, lambda n, g: mean(n, whole(g)), lambda n, g: rstd(n, whole(g))


def _group_sum(x, n, g, per_group, name, function):
    extents = {f"{name}{d}": size for d, size in enumerate(x.shape[2:])}

    def value(*k):
        return function(x[(n, g * per_group + k[0], *k[1:])])

    return Sum(value, **{f"{name}c": per_group}, **extents)


@spec("aten::native_group_norm_backward", local={"N": "rows"})
def native_group_norm_backward(grad, x, mean, rstd, weight, batch, channels, area, groups, mask):
    def sample(n):
        reads = [all_of(tensor, n) for tensor in (grad, x, mean, rstd)]
        reads += [] if weight is None else [all_of(weight)]
        return Opaque("group_norm_backward", *reads)

    def per_channel(c):
        return Sum(sample, n=batch)

    outputs = (lambda n, *i: sample(n), per_channel, per_channel)
    return tuple(output if used else None for output, used in zip(outputs, mask))


def _slices(v, dim):
    """Returns what sums over the elements of one slice of a weight, which has a norm of its own."""
    dim %= v.ndim
    extents = {f"k{d}": size for d, size in enumerate(v.shape) if d != dim}

    def total(i, function):
        return Sum(lambda *k: function((*k[:dim], i, *k[dim:])), **extents)

    return dim, total, lambda tensor, i: tensor[tuple(i if d == dim else 0 for d in range(v.ndim))]


@spec("aten::_weight_norm_interface")
def _weight_norm_interface(v, g, dim):
    dim, total, of_slice = _slices(v, dim)

    def norm(i):
        return sqrt(total(i, lambda at: v[at] * v[at]))

    return lambda *i: v[i] * of_slice(g, i[dim]) / norm(i[dim]), lambda *i: norm(i[dim])


@spec("aten::_weight_norm_interface_backward")
def _weight_norm_interface_backward(grad, v, g, norms, dim):
    dim, total, of_slice = _slices(v, dim)

    def dot(i):
        return total(i, lambda at: grad[at] * v[at])

    def grad_v(*i):
        norm = of_slice(norms, i[dim])
        away = grad[i] - v[i] * dot(i[dim]) / (norm * norm)
        return away * of_slice(g, i[dim]) / norm

    def grad_g(*i):
        # Of the scale only the shape is read.
        return like(dot(i[dim]), of_slice(g, i[dim])) / of_slice(norms, i[dim])

    return grad_v, grad_g
