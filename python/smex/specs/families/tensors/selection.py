"""Operators whose indices along several dimensions, or whose choice of elements, are data."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

from smex.specs.common import all_of, element, made_of_all, specs
from smex.specs.families.tensors.view import reindexed
from smex.tdl import Opaque, Sum, like, maximum, minimum, spec, where, whole


class _Layout(NamedTuple):
    """How tensors of indices meet the dimensions of a tensor."""

    given: list[tuple[int, Any]]  # (dimension, its indices)
    first: int  # the result's dimension where those of the indices begin
    rank: int  # how many dimensions these are, together

    def split(self, i: Any) -> tuple[list[Any], list[Any]]:
        """Returns the result's indices: those of the tensors of indices, and the others."""
        end = self.first + self.rank
        return list(i[self.first : end]), [*i[: self.first], *i[end:]]

    def dims(self) -> list[int]:
        """Returns the dimensions that are indexed."""
        return [dim for dim, _ in self.given]


def _layout(indices: Any) -> _Layout:
    given = [(dim, t) for dim, t in enumerate(indices) if t is not None]
    dims = [dim for dim, _ in given]
    adjacent = not dims or dims == list(range(dims[0], dims[0] + len(dims)))
    first = dims[0] if dims and adjacent else 0
    return _Layout(given, first, max((t.ndim for _, t in given), default=0))


def _masks(x: Any, layout: _Layout) -> list[tuple[int, Any]]:
    """Those that may be masks: tensors of the shape of the dimensions they replace."""
    return [
        (dim, t)
        for dim, t in layout.given
        if t.dtype in (None, "bool", "uint8") and t.shape == x.shape[dim : dim + t.ndim]
    ]


def _read(x: Any, layout: _Layout, i: Any, at: Any) -> Any:
    """Returns the element of `x` at `at(dim, indices, place)`.

    Other dimensions follow the result.
    """
    middle, rest = layout.split(i)
    chosen = {dim: at(dim, t, middle) for dim, t in layout.given}
    remaining = iter(rest)
    return x[tuple(chosen[dim] if dim in chosen else next(remaining) for dim in range(x.ndim))]


def _wrapped(index: Any, size: int) -> Any:
    return where(index < 0, index + size, index)


@specs("aten::index", "aten::_unsafe_index")
def index(x, indices):
    layout = _layout(indices)
    masks = _masks(x, layout)

    def known(*i):
        return _read(
            x, layout, i, lambda dim, t, at: _wrapped(element(t, at), x.shape[dim])
        )  # fmt: skip

    def chosen(*i):
        for place in layout.split(i)[0]:
            whole(place)
        value = _read(x, layout, i, lambda dim, t, at: slice(None))
        return Opaque("index", value, *(all_of(t) for _, t in layout.given))

    def body(*i):
        if len(i) != x.ndim - len(layout.given) + layout.rank:
            return _masked(x, layout.given, i)
        return chosen(*i) if any(t.ndim == 1 for _, t in masks) else known(*i)

    return body


def _masked(x, given, i):
    """Elements that masks choose."""
    dim, t = given[0]
    if len(given) > 1 or len(i) != x.ndim - t.ndim + 1:
        return made_of_all("index", x, *(t for _, t in given))(*i)
    whole(i[dim])
    covered = [slice(None)] * t.ndim
    return Opaque("index", x[(*i[:dim], *covered, *i[dim + 1 :])], all_of(t))


def _put(x, indices, accumulate, values, mask=None):
    """Elements written where indices say; with `mask`, clamped indices and zeros outside of it."""
    layout = _layout(indices)
    if any(0 in t.shape for _, t in layout.given):
        return lambda *i: x[i]
    masks = [t for _, t in _masks(x, layout)] if mask is None else []
    if any(t.ndim != 1 for t in masks):
        if len(layout.given) > 1:
            return made_of_all("put", x, *(t for _, t in layout.given), values)
        return _put_at_mask(x, layout.first, masks[0], values)
    if not accumulate or masks:
        return _overwritten(x, layout, [values] if mask is None else [mask, values])

    def target(dim, t, k):
        at = element(t, k)
        if mask is None:
            return _wrapped(at, x.shape[dim])
        return minimum(maximum(at, 0), x.shape[dim] - 1)

    return _accumulated(x, layout, target, values, mask)


def _accumulated(x, layout, target, values, mask):
    dims = layout.dims()
    shape = [max(sizes) for sizes in zip(*(_aligned(t, layout.rank) for _, t in layout.given))]
    extents = {f"k{n}": size for n, size in enumerate(shape)}

    def body(*i):
        rest = [index for dim, index in enumerate(i) if dim not in dims]

        def added(*k):
            at = [*rest[: layout.first], *k, *rest[layout.first :]]
            value = element(values, at)
            if mask is not None:
                value = where(element(mask, at), value, 0)
            for dim, t in layout.given:
                value = where(target(dim, t, k) == whole(i[dim]), value, 0)
            return value

        return x[i] + Sum(added, **extents)

    return body


def _aligned(t, rank):
    return [1] * (rank - t.ndim) + list(t.shape)


def _overwritten(x, layout, values):
    """Of elements written to one place one counts, which one is not specified."""
    dims = layout.dims()

    def body(*i):
        for dim in dims:
            whole(i[dim])
        rest: list[Any] = [k for dim, k in enumerate(i) if dim not in dims]
        at = [*rest[: layout.first], *[slice(None)] * layout.rank, *rest[layout.first :]]
        reads = [x[tuple(slice(None) if dim in dims else k for dim, k in enumerate(i))]]
        reads += [all_of(t) for _, t in layout.given]
        return Opaque("put", *reads, *(element(value, at) for value in values))

    return body


def _put_at_mask(x, first, t, values):
    """`t` may be a mask of its own rank, or numbers along one dimension."""
    last = first + max(t.ndim, 1)
    trailing = x.ndim - last
    leads = values.ndim <= trailing + min(t.ndim, 1)

    def body(*i):
        for dim in range(first if leads else 0, last):
            whole(i[dim])
        at = [*[slice(None)] * x.ndim, *i[last:]]
        leading = i[:first] if leads else [slice(None)] * first
        covered = [slice(None)] * (last - first)
        chosen = x[(*leading, *covered, *i[last:])]
        return Opaque("put", chosen, all_of(t), element(values, at))

    return body


@specs("aten::_index_put_impl_", "aten::_unsafe_index_put", "aten::index_put")
def index_put(x, indices, values, accumulate, unsafe=False):
    masks = [(dim, t) for dim, t in enumerate(indices) if t is not None]
    if len(masks) == 1 and masks[0][1].dtype == "bool":
        return _put_where(x, *masks[0], values, accumulate)
    return _put(x, indices, accumulate, values)


def _put_where(x, first, mask, values, accumulate):
    """Written where a mask says; the same value everywhere if there is but one."""
    last = first + mask.ndim
    trailing = x.ndim - last

    def one(*i):
        place: list[Any] = [*i[:first], 0, *i[last:]]
        value = element(values, place)
        value = x[i] + value if accumulate else value
        return where(mask[i[first:last]], value, x[i])

    def several(*i):
        for place in i[first:last]:
            whole(place)
        chosen = x[(*i[:first], *[slice(None)] * mask.ndim, *i[last:])]
        value = element(values, [*i[:first], slice(None), *i[last:]])  # type: ignore[list-item]
        return Opaque("put", chosen, all_of(mask), value)

    same = values.ndim <= trailing or values.shape[values.ndim - trailing - 1] == 1
    return one if same else several


@spec("aten::masked_scatter")
def masked_scatter(x, mask, source):
    # How far into the source an element reaches depends on the mask, unless that is one number.
    sizes = math.prod(source.shape), math.prod(x.shape)
    if mask.ndim <= x.ndim and math.prod(mask.shape) == 1 and sizes[0] == sizes[1]:
        return lambda *i: where(element(mask, i), reindexed(source, x.shape)(*i), x[i])
    return made_of_all("masked_scatter", x, mask, source)


@spec("aten::masked_scatter_backward")
def masked_scatter_backward(grad, mask, sizes):
    """Counts the set elements before an element, which tell its place."""
    return made_of_all("masked_scatter_backward", grad, mask)


@spec("aten::masked_select")
def masked_select(x, mask):
    return made_of_all("masked_select", x, mask)


@spec("aten::nonzero")
def nonzero(x):
    return made_of_all("nonzero", x)


@spec("aten::nonzero_static")
def nonzero_static(x, size, fill_value):
    """Counts the set elements before an element, which tell its place."""
    return made_of_all("nonzero", x)


@spec("aten::put")
def put(x, index, source, accumulate):
    if 0 in index.shape:
        return lambda *i: x[i]
    return made_of_all("put", x, index, source)


@spec("aten::repeat_interleave.Tensor")
def repeat_interleave(repeats, output_size):
    return made_of_all("repeat_interleave", repeats)


@spec("aten::take")
def take(x, index):
    if x.ndim == 0:
        return lambda *i: like(x[()], index[i])

    def body(*i):
        position = _wrapped(index[i], math.prod(x.shape))
        place: list[Any] = []
        for size in reversed(x.shape):
            place.insert(0, position % max(size, 1))
            position = position // max(size, 1)
        return x[tuple(place)]

    return body


@spec("aten::_unsafe_masked_index")
def _unsafe_masked_index(x, mask, indices, fill):
    layout = _layout(indices)

    def body(*i):
        def at(dim, t, place):
            return minimum(maximum(element(t, place), 0), x.shape[dim] - 1)

        return where(element(mask, i), _read(x, layout, i, at), float(fill))

    return body


@spec("aten::_unsafe_masked_index_put_accumulate")
def _unsafe_masked_index_put_accumulate(x, mask, indices, values):
    """Indices say where elements land, several in one place."""
    return _put(x, indices, True, values, mask)
