"""Several pieces at once, windows, diagonals, and pieces written into a tensor."""

from __future__ import annotations

from smex.specs.common import dims_of, named, replaced, specs
from smex.specs.families.tensors.view import slice_bounds
from smex.tdl import Opaque, Sum, and_, like, spec, where, whole


def _with_ends(value, x, i, dim, last):
    """`value`; all of the dimension is passed."""
    value = like(value, x[replaced(i, [dim], [0])])
    return like(value, x[replaced(i, [dim], [last])])


@specs("aten::chunk", "aten::unsafe_chunk")
def chunk(x, chunks, dim):
    (at,) = dims_of(dim, x.ndim)
    return split(x, max(-(-x.shape[at] // chunks), 1), dim)


@spec("aten::col2im")
def col2im(x, size, kernel, dilation, padding, stride):
    columns = (size[1] + 2 * padding[1] - dilation[1] * (kernel[1] - 1) - 1) // stride[1] + 1
    rows = x.shape[-1] // columns
    extents = {"o0": rows, "o1": columns, "k0": kernel[0], "k1": kernel[1]}

    def body(*i):
        *outer, channel, row, column = i
        whole(row), whole(column)

        def arrived(o0, o1, k0, k1):
            at0 = o0 * stride[0] + whole(k0) * dilation[0] - padding[0]
            at1 = o1 * stride[1] + whole(k1) * dilation[1] - padding[1]
            block = (channel * kernel[0] + k0) * kernel[1] + k1
            value = x[(*outer, block, o0 * columns + o1)]
            return where(and_(at0 == row, at1 == column), value, 0)

        return Sum(arrived, **extents)

    return body


def _on_diagonal(grad, offset, dim1, dim2, ndim, other):
    """Elements on a diagonal of the output come from `grad`, others from `other(*i)`."""
    dim1, dim2 = dims_of([dim1, dim2], ndim)

    def body(*i):
        row, column = whole(i[dim1]), whole(i[dim2])
        rest = [i[dim] for dim in range(ndim) if dim not in (dim1, dim2)]
        value = grad[(*rest, row - max(-offset, 0))]
        return where(column - row == offset, value, other(*i))

    return body


@spec("aten::diag_embed")
def diag_embed(x, offset, dim1, dim2):
    return _on_diagonal(x, offset, dim1, dim2, x.ndim + 1, lambda *i: 0)


@specs("aten::diagonal", "aten::diagonal_copy", local={"offset": "zero"})
def diagonal(x, offset, dim1, dim2):
    dim1, dim2 = dims_of([dim1, dim2], x.ndim)

    def body(*i):
        index = list(i[:-1])
        for dim, start in sorted([(dim1, max(-offset, 0)), (dim2, max(offset, 0))]):
            index.insert(dim, i[-1] + start)
        return x[tuple(index)]

    return body


@spec("aten::diagonal_backward", local={"input_sizes": "output_shape"})
def diagonal_backward(grad, sizes, offset, dim1, dim2):
    return _on_diagonal(grad, offset, dim1, dim2, len(sizes), lambda *i: 0)


@spec("aten::diagonal_scatter")
def diagonal_scatter(x, src, offset, dim1, dim2):
    return _on_diagonal(src, offset, dim1, dim2, x.ndim, lambda *i: x[i])


@spec("aten::im2col", local={"padding": "window"})
def im2col(x, kernel, dilation, padding, stride):
    size = x.shape[-1] + 2 * padding[1]
    columns = (size - dilation[1] * (kernel[1] - 1) - 1) // stride[1] + 1
    extents = {"k0": kernel[0], "k1": kernel[1], "o1": columns}

    # Which of a window's elements it is depends on the channel, and does not hinder its division.
    def body(*i):
        *outer, channel, place = i

        def reachable(k0, k1, o1):
            row = place // columns * stride[0] + whole(k0) * dilation[0] - padding[0]
            column = whole(o1) * stride[1] + whole(k1) * dilation[1] - padding[1]
            value = x.pad(0)[(*outer, channel // (kernel[0] * kernel[1]), row, column)]
            return Opaque("im2col", value)

        return Sum(reachable, **extents)

    return body


@specs("aten::narrow", "aten::narrow_copy")
def narrow(x, dim, start, length):
    (dim,) = dims_of(dim, x.ndim)
    start = start + x.shape[dim] if start < 0 else start
    # The arguments are the whole's: so is what the kernel gets of that dimension.
    last = max(x.shape[dim] - 1, 0)

    def body(*i):
        value = x[replaced(i, [dim], [whole(i[dim]) + start])]
        return _with_ends(value, x, i, dim, last)

    return body


@spec("aten::select_scatter")
def select_scatter(x, src, dim, index):
    (dim,) = dims_of(dim, x.ndim)
    at = index + x.shape[dim] if index < 0 else index
    return lambda *i: where(whole(i[dim]) == at, src[(*i[:dim], *i[dim + 1 :])], x[i])


@spec("aten::slice_scatter")
def slice_scatter(x, src, dim, start, end, step):
    (dim,) = dims_of(dim, x.ndim)
    size = x.shape[dim]
    start, end = slice_bounds(size, start, end)
    if step == 1 and start == 0 and end == size:  # so it is in every tile
        return lambda *i: like(src[i], x[i])

    def body(*i):
        at = whole(i[dim])
        inside = and_(at >= start, and_(at < end, (at - start) % step == 0))
        return where(inside, src[replaced(i, [dim], [(at - start) // step])], x[i])

    return body


def _part(x, dim, start, name):
    last = max(x.shape[dim] - 1, 0)

    def body(*i):
        value = x[replaced(i, [dim], [whole(i[dim]) + start])]
        return _with_ends(value, x, i, dim, last)

    return named(body, replaced([f"i{d}" for d in range(x.ndim)], [dim], [name]))


@specs("aten::split", "aten::split_copy", "aten::unsafe_split")
def split(x, size, dim):
    if isinstance(size, list):
        return split_with_sizes(x, size, dim)
    (dim,) = dims_of(dim, x.ndim)
    if size >= x.shape[dim]:  # so it is in every tile
        return lambda *i: x[i]
    starts = range(0, x.shape[dim], size)
    return [_part(x, dim, start, f"s{n}") for n, start in enumerate(starts)]


@specs(
    "aten::split_with_sizes", "aten::split_with_sizes_copy", "aten::unsafe_split_with_sizes"
)  # fmt: skip
def split_with_sizes(x, sizes, dim):
    (dim,) = dims_of(dim, x.ndim)
    starts = [sum(sizes[:n]) for n in range(len(sizes))]
    return [_part(x, dim, start, f"s{n}") for n, start in enumerate(starts)]


@specs("aten::unbind", "aten::unbind_copy")
def unbind(x, dim):
    (dim,) = dims_of(dim, x.ndim)
    last = x.shape[dim] - 1

    def one(n):
        def body(*i):
            index = (*i[:dim], 0, *i[dim:])
            return _with_ends(x[replaced(index, [dim], [n])], x, index, dim, last)

        return body

    return [one(n) for n in range(x.shape[dim])]


@specs("aten::unfold", "aten::unfold_copy")
def unfold(x, dim, size, step):
    if x.ndim == 0:
        return lambda k: like(x[()], whole(k))
    (dim,) = dims_of(dim, x.ndim)
    return lambda *i: x[replaced(i[:-1], [dim], [i[dim] * step + whole(i[-1])])]


@spec("aten::unfold_backward", local={"input_sizes": "output_shape"})
def unfold_backward(grad, sizes, dim, size, step):
    if not sizes:
        return lambda: Sum(lambda k: grad[whole(k)])
    (dim,) = dims_of(dim, len(sizes))

    def body(*i):
        def arrived(o, k):
            value = grad[(*replaced(i, [dim], [o]), k)]
            return where(o * step + k == whole(i[dim]), value, 0)

        return Sum(arrived, o=grad.shape[dim], k=size)

    return body
