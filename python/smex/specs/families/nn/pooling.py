"""Pooling over windows of the last dimensions, two or three of them."""

from __future__ import annotations

import functools
import math

from smex.specs.common import all_of, geometry, replaced
from smex.tdl import Max, Opaque, Sum, and_, lands, like, spec, where, whole

LOWEST = float("-inf")


class _Windows:
    """Index arithmetic of the windows of one call; `spatial` dimensions are pooled."""

    def __init__(self, x, spatial, kernel, stride, padding, dilation=1, ceil_mode=False):
        self.spatial = spatial
        self.kernel = geometry(kernel, spatial)
        self.stride = geometry(stride or kernel, spatial)
        self.padding = geometry(padding, spatial)
        self.dilation = geometry(dilation, spatial)
        self.spans = [(k - 1) * d + 1 for k, d in zip(self.kernel, self.dilation)]
        self.rests = [
            (x.shape[d - spatial] + 2 * self.padding[d] - self.spans[d]) % self.stride[d]
            for d in range(spatial)
        ]
        self.leave = bool(ceil_mode) and any(self.rests)  # windows that leave the padding

    def at(self, o, k):
        """Returns the input place of element `k` of window `o`."""
        return [
            o[d] * self.stride[d] + whole(k[d]) * self.dilation[d] - self.padding[d]
            for d in range(self.spatial)
        ]

    def elements(self, name):
        """Extents of a window's indices."""
        return {f"{name}{d}": size for d, size in enumerate(self.kernel)}

    def uneven(self, count_include_pad, divisor):
        """Returns whether the means are not all over equally many elements."""
        return self.leave or (any(self.padding) and not count_include_pad and divisor is None)

    def count(self, divisor):
        """Returns how many elements a mean is over."""
        return divisor or math.prod(self.kernel)


def _for_each(*targets, **keywords):
    """Registers one function of (spatial, *arguments) for targets of 2 or 3 dimensions."""

    def register(function):
        for target in targets:
            spatial = 3 if "3d" in target else 2
            spec(target, **keywords)(functools.partial(function, spatial))
        return function

    return register


def _plane(x, i, spatial):
    """Returns all places of `x` in the plane of index `i`."""
    return all_of(x, *i[: x.ndim - spatial])


def _places(x, spatial, name):
    """Extents of the last dimensions' indices."""
    return {f"{name}{d}": x.shape[d - spatial] for d in range(spatial)}


def _all(conditions):
    """Returns whether every condition holds."""
    result = conditions[0] if conditions else 1
    for condition in conditions[1:]:
        result = and_(result, condition)
    return result


def _flat(y, sizes):
    """Returns the number of a place in its plane."""
    result = 0
    for index, size in zip(y, sizes):
        result = result * size + index
    return result


def _bounds(o, size, places):
    """Returns where adaptive window `o` of `places` begins and ends in a dimension of `size`."""
    return o * size // places, ((o + 1) * size + places - 1) // places


def _adaptive_inside(o, k, sizes, places):
    """Returns whether place `k` is in adaptive window `o`, and the window's size."""
    conditions, count = [], 1
    for d, index in enumerate(k):
        begin, end = _bounds(o[d], sizes[d], places[d])
        conditions += [index >= begin, index < end]
        count = (end - begin) * count
    return _all(conditions), count


@_for_each("aten::_adaptive_avg_pool2d", "aten::_adaptive_avg_pool3d")
def _adaptive_avg_pool(spatial, x, size):
    sizes = x.shape[-spatial:]

    def body(*i):
        def value(*k):
            inside, count = _adaptive_inside(i[-spatial:], k, sizes, size)
            return where(inside, x[(*i[:-spatial], *k)] / count, 0)

        for index in i[-spatial:]:
            whole(index)
        return Sum(lambda *k: value(*map(whole, k)), **_places(x, spatial, "k"))

    return body


@spec("aten::adaptive_avg_pool1d")
def adaptive_avg_pool1d(x, size):
    return _adaptive_avg_pool(1, x, size)


@_for_each("aten::_adaptive_avg_pool2d_backward", "aten::_adaptive_avg_pool3d_backward")
def _adaptive_avg_pool_backward(spatial, grad, x):
    sizes, places = x.shape[-spatial:], grad.shape[-spatial:]
    # Where windows do not overlap they are blocks of equal size, and each place is in one.
    block = [size // n if n and size % n == 0 else 0 for size, n in zip(sizes, places)]
    uneven = [d for d in range(spatial) if not block[d]]
    blocks = math.prod(step for step in block if step)

    def body(*i):
        y = i[-spatial:]
        for d in range(spatial):
            if d in uneven or places[d] == 1:  # a tile would be a block of its own
                whole(y[d])

        def value(*o):
            blocks_at = [index // step if step else None for index, step in zip(y, block)]
            at = replaced(blocks_at, uneven, [whole(index) for index in o])
            inside, count = _adaptive_inside(
                o, [y[d] for d in uneven], [sizes[d] for d in uneven], [places[d] for d in uneven]
            )
            return where(inside, grad[(*i[:-spatial], *at)] / (count * blocks), 0)

        return like(Sum(value, **{f"o{d}": places[d] for d in uneven}), x[i])

    return body


@_for_each("aten::adaptive_max_pool2d", "aten::adaptive_max_pool3d")
def adaptive_max_pool(spatial, x, size):
    sizes = x.shape[-spatial:]

    def values(*i):
        def value(*k):
            inside, _ = _adaptive_inside(i[-spatial:], k, sizes, size)
            return where(inside, x[(*i[:-spatial], *k)], LOWEST)

        for index in i[-spatial:]:
            whole(index)
        return Max(lambda *k: value(*map(whole, k)), **_places(x, spatial, "k"))

    return values, lambda *i: Opaque("argmax", _plane(x, i, spatial))


def _scattered(spatial, grad, x, indices, divisible):
    """`grad` at the places in `indices`; a kernel may insist on all of a plane's windows."""

    def body(*i):
        place = _flat(i[-spatial:], x.shape[-spatial:])

        def value(*o):
            at = (*i[:-spatial], *(o if divisible else map(whole, o)))
            return where(indices[at] == place, grad[at], 0)

        return like(Sum(value, **_places(grad, spatial, "o")), x[i])

    return body


@_for_each("aten::adaptive_max_pool2d_backward", "aten::adaptive_max_pool3d_backward")
def adaptive_max_pool_backward(spatial, grad, x, indices):
    return _scattered(spatial, grad, x, indices, divisible=True)


@_for_each("aten::avg_pool2d", "aten::avg_pool3d", local={"padding": "window"})
def avg_pool(spatial, x, kernel, stride, padding, ceil_mode, count_include_pad, divisor):
    windows = _Windows(x, spatial, kernel, stride, padding, ceil_mode=ceil_mode)
    if windows.uneven(count_include_pad, divisor):
        return lambda *i: Opaque("mean", _plane(x, i, spatial))

    def body(*i):
        def value(*k):
            return x.pad(0)[(*i[:-spatial], *windows.at(i[-spatial:], k))]

        return Sum(value, **windows.elements("k")) / windows.count(divisor)

    return body


@spec("aten::avg_pool1d", local={"padding": "window"})
def avg_pool1d(x, kernel, stride, padding, ceil_mode, count_include_pad):
    return avg_pool(1, x, kernel, stride, padding, ceil_mode, count_include_pad, None)


def _landing(y, at):
    """Returns whether a window's element at `at` is the place `y`."""
    return _all([lands(wanted, position) for wanted, position in zip(y, at)])


@_for_each("aten::avg_pool2d_backward", "aten::avg_pool3d_backward", local={"padding": "window"})
def avg_pool_backward(
    spatial, grad, x, kernel, stride, padding, ceil_mode, count_include_pad, divisor
):
    windows = _Windows(x, spatial, kernel, stride, padding, ceil_mode=ceil_mode)
    if windows.uneven(count_include_pad, divisor):

        def whole_planes(*i):
            value = Opaque("mean", _plane(grad, i, spatial))
            return like(value, Opaque("shape", _plane(x, i, spatial)))

        return whole_planes

    def body(*i):
        def landed(*inner):
            o, k = inner[:spatial], inner[spatial:]
            value = grad[(*i[:-spatial], *o)] / windows.count(divisor)
            return where(_landing(i[-spatial:], windows.at(o, k)), value, 0)

        total = Sum(landed, **_places(grad, spatial, "o"), **windows.elements("k"))
        return like(total, x[i])

    return body


@_for_each("aten::fractional_max_pool2d", "aten::fractional_max_pool3d")
def fractional_max_pool(spatial, x, kernel, size, samples):
    batched = x.ndim == spatial + 2

    def body(*i):
        n, c = i[:2] if batched else (0, i[0])
        return Opaque("random_windows", _plane(x, i, spatial), samples[n, c, :])

    return body, body


@_for_each("aten::fractional_max_pool2d_backward", "aten::fractional_max_pool3d_backward")
def fractional_max_pool_backward(spatial, grad, x, kernel, size, indices):
    return _scattered(spatial, grad, x, indices, divisible=False)


@_for_each(
    "aten::max_pool2d_with_indices", "aten::max_pool3d_with_indices", local={"padding": "window"}
)
def max_pool_with_indices(spatial, x, kernel, stride, padding, dilation, ceil_mode):
    windows = _Windows(x, spatial, kernel, stride, padding, dilation, ceil_mode)

    def values(*i):
        def value(*k):
            return x.pad(LOWEST)[(*i[:-spatial], *windows.at(i[-spatial:], k))]

        if windows.leave:
            for index in i[-spatial:]:
                whole(index)
        return Max(value, **windows.elements("k"))

    return values, lambda *i: Opaque("argmax", _plane(x, i, spatial))


@_for_each("aten::max_pool2d_with_indices_backward", "aten::max_pool3d_with_indices_backward")
def max_pool_with_indices_backward(
    spatial, grad, x, kernel, stride, padding, dilation, ceil_mode, indices
):
    # The kernel in two dimensions compares the places with the call's geometry.
    return _scattered(spatial, grad, x, indices, divisible=spatial == 3)


@spec("aten::max_unpool2d")
def max_unpool2d(x, indices, size):
    return _unpooled(2, x, indices)


@spec("aten::max_unpool3d")
def max_unpool3d(x, indices, size, stride, padding):
    return _unpooled(3, x, indices)


def _unpooled(spatial, x, indices):
    """Returns the last of the elements that belong to a place.

    Which one that is only the kernel knows.
    """
    return lambda *i: Opaque("place", _plane(x, i, spatial), _plane(indices, i, spatial))


@_for_each("smex::max_pool2d_backward", local={"padding": "window"})
def max_pool_backward(spatial, grad, x, kernel, stride, padding, dilation, ceil_mode):
    windows = _Windows(x, spatial, kernel, stride, padding, dilation, ceil_mode)
    low = x.pad(LOWEST)
    gaps = any(span < step for span, step in zip(windows.spans, windows.stride))

    # Of equal maxima the first counts; the text below would count each.
    def body(*i):
        outer, y = i[:-spatial], i[-spatial:]
        if ceil_mode or any(windows.rests) or gaps:
            for index in y:
                whole(index)  # some elements lie in no window, or windows leave the padding

        def landed(*inner):
            o, k = inner[:spatial], inner[spatial:]
            at = windows.at(o, k)
            largest = Max(lambda *q: low[(*outer, *windows.at(o, q))], **windows.elements("q"))
            value = where(low[(*outer, *at)] == largest, grad[(*outer, *o)], 0)
            return where(_landing(y, at), value, 0)

        return Sum(landed, **_places(grad, spatial, "o"), **windows.elements("k"))

    return body
