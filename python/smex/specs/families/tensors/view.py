"""Operators that only rearrange elements."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from smex.specs.common import dims_of, element, replaced, specs
from smex.tdl import Opaque, and_, like, spec, where, whole


def _digit_groups(
    source: Sequence[int], target: Sequence[int]
) -> list[tuple[list[int], list[int]]]:
    """The finest pairs of runs of dimensions with equal products, without dimensions of size 1."""
    a = [dim for dim, size in enumerate(source) if size != 1]
    b = [dim for dim, size in enumerate(target) if size != 1]
    groups = []
    while a or b:
        left, right = [a.pop(0)], [b.pop(0)]
        size_left, size_right = source[left[0]], target[right[0]]
        while size_left != size_right:
            if size_left < size_right:
                left.append(a.pop(0))
                size_left *= source[left[-1]]
            else:
                right.append(b.pop(0))
                size_right *= target[right[-1]]
        groups.append((left, right))
    return groups


def reindexed(x, shape: Sequence[int]):
    """`x` read at the row-major position of the indices of `shape`, as quotients and remainders."""

    def body(*i):
        if math.prod(x.shape) == 0:
            return like(0, x[(0,) * x.ndim])
        index = [0] * x.ndim
        for left, right in _digit_groups(x.shape, shape):
            position = 0
            for dim in right:
                position = i[dim] + position * shape[dim] if dim != right[0] else i[dim]
            for dim in reversed(left):
                index[dim] = position if dim == left[0] else position % x.shape[dim]
                position = position if dim == left[0] else position // x.shape[dim]
        return x[tuple(index)]

    return body


def _target_shape(x, shape: Sequence[int]) -> list[int]:
    if -1 not in shape:
        return list(shape)
    rest = math.prod(size for size in shape if size != -1)
    return [math.prod(x.shape) // rest if size == -1 else size for size in shape]


@specs(
    "aten::_reshape_copy", "aten::_unsafe_view", "aten::reshape", "aten::view", "aten::view_copy",
    local={"size": "output_shape", "shape": "output_shape"},
)  # fmt: skip
def view(x, shape):
    return reindexed(x, _target_shape(x, shape))


@spec("aten::_reshape_alias", local={"size": "output_shape"})
def _reshape_alias(x, shape, stride):
    return None  # strides of a tile differ


@specs("aten::view.dtype", "aten::view_copy.dtype")
def view_dtype(x, dtype):
    return None


@specs("aten::cat", "aten::concat")
def cat(tensors, dim):
    parts = [x for x in tensors if x.shape != (0,)]
    empty = [x for x in tensors if x.shape == (0,)]
    if not parts:
        return lambda i: like(0, tensors[0][i])
    (dim,) = dims_of(dim, parts[0].ndim)

    def body(*i):
        start = sum(x.shape[dim] for x in parts)
        result = None
        for x in reversed(parts):
            start -= x.shape[dim]
            value = x[replaced(i, [dim], [whole(i[dim]) - start])]
            result = (
                value if result is None else where(i[dim] < start + x.shape[dim], value, result)
            )
        for x in empty:
            result = like(result, x.pad(0)[0])
        return result

    return body


@spec("aten::constant_pad_nd")
def constant_pad_nd(x, pad, value):
    def body(*i):
        index, first, last, crops = list(i), list(i), list(i), False
        for pair in range(len(pad) // 2):
            dim = x.ndim - 1 - pair
            before, after = pad[2 * pair : 2 * pair + 2]
            if before or after:
                index[dim] = first[dim] = last[dim] = whole(i[dim]) - before
            if before < 0 or after < 0:
                crops = True
                first[dim], last[dim] = whole(i[dim]), whole(i[dim]) - before - after
        result = x.pad(float(value or 0))[tuple(index)]
        if crops:  # what is cropped is passed as well: the call crops by itself
            result = like(like(result, x.pad(0)[tuple(first)]), x.pad(0)[tuple(last)])
        return result

    return body


@specs(
    "aten::broadcast_to", "aten::expand", "aten::expand_copy", local={"size": "output_shape"}
)  # fmt: skip
def expand(x, size, implicit=False):
    return lambda *i: element(x, i)


@spec("aten::flip")
def flip(x, dims):
    dims = dims_of(dims, x.ndim) if dims else []
    return lambda *i: x[replaced(i, dims, [x.shape[dim] - 1 - i[dim] for dim in dims])]


@specs("aten::permute", "aten::permute_copy")
def permute(x, dims):
    dims = dims_of(dims, x.ndim) if dims else []

    def body(*i):
        index = [None] * x.ndim
        for position, dim in enumerate(dims):
            index[dim] = i[position]
        return x[tuple(index)]

    return body


@specs("aten::select", "aten::select_copy", local={"index": "zero"})
def select(x, dim, index):
    (dim,) = dims_of(dim, x.ndim)
    at = index + x.shape[dim] if index < 0 else index
    return lambda *i: x[(*i[:dim], at, *i[dim:])]


@spec("aten::select_backward", local={"input_sizes": "output_shape"})
def select_backward(grad, sizes, dim, index):
    (dim,) = dims_of(dim, len(sizes))
    at = index + sizes[dim] if index < 0 else index
    return (
        None if sizes[dim] == 0 else _scattered(grad, dim, lambda *i: i[dim] == at, lambda *i: None)
    )


def _scattered(grad, dim, inside, place):
    def body(*i):
        position = place(*i)
        rest = (*i[:dim], *([] if position is None else [position]), *i[dim + 1 :])
        whole(i[dim])
        return where(inside(*i), grad[rest], 0)

    return body


def slice_bounds(size, start, end):
    """Returns the arguments of a slice counted from the front and within the size."""
    start = 0 if start is None else start
    end = size if end is None else end
    start = min(max(start + size if start < 0 else start, 0), size)
    end = min(max(end + size if end < 0 else end, start), size)
    return start, end


@specs("aten::slice", "aten::slice_copy", local={"start": "zero", "end": "max_int"})
def slice_(x, dim, start, end, step):
    (dim,) = dims_of(dim, x.ndim)
    start, _ = slice_bounds(x.shape[dim], start, end)
    return lambda *i: x[replaced(i, [dim], [i[dim] * step + start])]


@spec("aten::slice_backward", local={"input_sizes": "output_shape"})
def slice_backward(grad, sizes, dim, start, end, step):
    (dim,) = dims_of(dim, len(sizes))
    start, end = slice_bounds(sizes[dim], start, end)
    if start == 0 and grad.shape[dim] == sizes[dim] and step == 1:
        return lambda *i: grad[i]  # the bounds, of the whole, contain every tile's

    def inside(*i):
        return and_(i[dim] >= start, and_(i[dim] < end, (i[dim] - start) % step == 0))

    return _scattered(grad, dim, inside, lambda *i: (i[dim] - start) // step)


@specs("aten::squeeze", "aten::squeeze_copy")
def squeeze(x, dims=None):
    """`dims` is None for all of them, a number, or a list."""
    if dims is None or x.ndim == 0:
        candidates = list(range(x.ndim))
    else:
        candidates = dims_of(dims, x.ndim) if dims != [] else []
    gone = {dim for dim in candidates if x.shape[dim] == 1}

    def body(*i):
        rest = list(i)
        index: list[Any] = [0 if dim in gone else rest.pop(0) for dim in range(x.ndim)]
        for dim in candidates:  # a tile of size 1 would lose its dimension as well
            if dim not in gone:
                whole(index[dim])
        return x[tuple(index)]

    return body


@spec("aten::stack")
def stack(tensors, dim):
    (dim,) = dims_of(dim, tensors[0].ndim + 1)

    def body(*i):
        rest = (*i[:dim], *i[dim + 1 :])
        whole(i[dim])
        result = tensors[-1][rest]
        for position in reversed(range(len(tensors) - 1)):
            result = where(i[dim] == position, tensors[position][rest], result)
        return result

    return body


@specs("aten::t", "aten::t_copy")
def t(x):
    return lambda *i: x[tuple(reversed(i))]


@specs("aten::swapaxes", "aten::transpose", "aten::transpose_copy")
def transpose(x, dim0, dim1):
    if x.ndim == 0:
        return lambda: x[()]
    dim0, dim1 = dims_of([dim0, dim1], x.ndim)
    return lambda *i: x[replaced(i, [dim0, dim1], [i[dim1], i[dim0]])]


@specs("aten::unsqueeze", "aten::unsqueeze_copy")
def unsqueeze(x, dim):
    (dim,) = dims_of(dim, x.ndim + 1)
    return lambda *i: x[(*i[:dim], *i[dim + 1 :])]


@specs("aten::view_as_complex", "aten::view_as_complex_copy")
def view_as_complex(x):
    return lambda *i: Opaque("complex", x[(*i, slice(None))])


@specs("aten::view_as_real", "aten::view_as_real_copy")
def view_as_real(x):
    # The last index chooses the real or the imaginary part.
    return lambda *i: Opaque("part", x[i[:-1]])
