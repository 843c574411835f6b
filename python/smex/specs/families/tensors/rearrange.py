"""Operators that repeat, reorder, cut up or overwrite elements; views are in `view`."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from smex.specs.common import dims_of, made_of_all, replaced, specs
from smex.tdl import Opaque, Sum, and_, lands, like, spec, where, whole


# The position in memory decides, and that depends on the operand's strides.
@specs("aten::as_strided", "aten::as_strided_copy")
def as_strided(x, size, stride, offset):
    """Looks at memory, not at dimensions."""
    return made_of_all("as_strided", x)


@spec("aten::as_strided_scatter")
def as_strided_scatter(x, src, size, stride, offset):
    """Looks at memory, not at dimensions."""
    return made_of_all("as_strided_scatter", x, src)


@spec("aten::block_diag")
def block_diag(tensors):
    """Numbers elements from the first that the kernel makes, wherever a tile begins."""

    def body(i, j):
        result: Any = 0
        row, column = 0, 0
        for x in tensors:
            rows, columns = (1, 1, *x.shape)[-2:]
            at = (whole(i) - row, whole(j) - column)
            inside = and_(and_(i >= row, i < row + rows), and_(j >= column, j < column + columns))
            result = where(inside, x[at[2 - x.ndim :]], result)
            row, column = row + rows, column + columns
        return result

    return body


@spec("aten::channel_shuffle")
def channel_shuffle(x, groups):
    per_group = x.shape[1] // groups

    def body(*i):
        channel = whole(i[1])
        return x[(i[0], channel % groups * per_group + channel // groups, *i[2:])]

    return body


@spec("aten::_chunk_cat")
def _chunk_cat(tensors, dim, chunks):
    (dim,) = dims_of(dim, tensors[0].ndim)

    def element_of(x, outer, chunk, position):
        rows = -(-x.shape[dim] // chunks)
        index: list[Any] = []
        for size in reversed(x.shape[dim + 1 :]):
            index.insert(0, position % size)
            position = position // size
        return x.pad(0)[(*outer, chunk * rows + position, *index)]

    def body(*i):
        outer, chunk, position = i[:dim], whole(i[dim]), whole(i[dim + 1])
        result: Any = 0
        start = 0
        for x in tensors:
            width = -(-x.shape[dim] // chunks) * math.prod(x.shape[dim + 1 :])
            inside = and_(position >= start, position < start + width)
            result = where(inside, element_of(x, outer, chunk, position - start), result)
            start += width
        return result

    return body


@spec("aten::pixel_shuffle", local={"upscale_factor": "window"})
def pixel_shuffle(x, factor):
    # Pixels are blocks of the output; the number itself stays, the rule is for the crop.
    places = {"p0": x.shape[-2], "p1": x.shape[-1], "k0": factor, "k1": factor}

    def body(*i):
        *outer, channel, row, column = i

        def landed(p0, p1, k0, k1):
            block = (channel * factor + whole(k0)) * factor + whole(k1)
            hit = and_(lands(row, p0 * factor + k0), lands(column, p1 * factor + k1))
            return where(hit, x[(*outer, block, p0, p1)], 0)

        return Sum(landed, **places)

    return body


@spec("aten::pixel_unshuffle")
def pixel_unshuffle(x, factor):
    # The channel chooses one of a block's elements, which does not hinder its division.
    def body(*i):
        *outer, channel, row, column = i

        def reachable(k0, k1):
            at = (row * factor + whole(k0), column * factor + whole(k1))
            return Opaque("pixel_unshuffle", x[(*outer, channel // factor**2, *at)])

        return Sum(reachable, k0=factor, k1=factor)

    return body


@spec("aten::repeat")
def repeat(x, repeats):
    first = len(repeats) - x.ndim

    def body(*i):
        for index, count in zip(i, repeats):
            if count != 1:
                whole(index)
        return x[tuple(
            index if count == 1 else index % max(size, 1)
            for index, count, size in zip(i[first:], repeats[first:], x.shape)
        )]  # fmt: skip

    return body


@spec("aten::resize_", local={"size": "output_shape"})
def resize_(x, size, memory_format=None):
    """Looks at memory, not at dimensions."""
    return _resized(x, size, x)


@spec("aten::resize_as_")
def resize_as_(x, template, memory_format=None):
    return _resized(x, template.shape, x, template)


def _resized(x: Any, size: Sequence[int], *tensors: Any) -> Any:
    # Another shape reads the memory, whatever the strides; more of it is undefined.
    if tuple(size) != x.shape:
        return made_of_all("resize", *tensors)

    def body(*i):
        value = x[i]
        for other in tensors[1:]:
            value = like(value, other[i])
        return value

    return body


@spec("aten::roll")
def roll(x, shifts, dims):
    if not dims:
        return _rolled_flat(x, shifts[0]) if shifts else lambda *i: x[i]
    total = dict.fromkeys(dims_of(dims, x.ndim), 0)
    for dim, shift in zip(dims_of(dims, x.ndim), shifts):
        total[dim] += shift

    def body(*i):
        places = [
            (whole(i[dim]) - shift) % max(x.shape[dim], 1) if shift else i[dim]
            for dim, shift in total.items()
        ]
        return x[replaced(i, list(total), places)]

    return body


def _rolled_flat(x, shift):
    def body(*i):
        position: Any = 0
        for index, size in zip(i, x.shape):
            position = position * size + whole(index)
        position = (position - shift) % max(math.prod(x.shape), 1)
        index = []
        for size in reversed(x.shape):
            index.insert(0, position % max(size, 1))
            position = position // max(size, 1)
        return x[tuple(index)]

    return body


@spec("aten::rot90")
def rot90(x, k, dims):
    a, b = dims_of(dims, x.ndim)

    def body(*i):
        row, column = i[a], i[b]
        last_a, last_b = x.shape[a] - 1, x.shape[b] - 1
        place = [
            (row, column),
            (column, last_b - row),
            (last_a - row, last_b - column),
            (last_a - column, row),
        ][k % 4]
        return x[replaced(i, [a, b], place)]

    return body
