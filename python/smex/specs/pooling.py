"""Pooling over windows of the last two dimensions."""

from __future__ import annotations

from smex.specs.common import geometry
from smex.tdl import Max, Opaque, Sum, and_, lands, like, spec, where, whole


def _window(kernel, stride, padding, dilation=1):
    kernel = geometry(kernel, 2)
    return kernel, geometry(stride or kernel, 2), geometry(padding, 2), geometry(dilation, 2)


def _at(o, k, stride, padding, dilation):
    return [o[d] * stride[d] + whole(k[d]) * dilation[d] - padding[d] for d in range(2)]


def _places(x):
    return (slice(None),) * 2


@spec("aten::_adaptive_avg_pool2d")
def _adaptive_avg_pool2d(x, size):
    return lambda *i: Opaque("mean", x[(*i[:-2], *_places(x))])


@spec("aten::_adaptive_avg_pool2d_backward")
def _adaptive_avg_pool2d_backward(grad, x):
    def body(*i):
        value = Opaque("mean", grad[(*i[:-2], *_places(x))])
        return like(value, Opaque("shape", x[(*i[:-2], *_places(x))]))

    return body


@spec("aten::avg_pool2d", local={"padding": "window"})
def avg_pool2d(x, kernel, stride, padding, ceil_mode, count_include_pad, divisor):
    kernel, stride, padding, dilation = _window(kernel, stride, padding)
    if ceil_mode or (any(padding) and not count_include_pad and divisor is None):
        return lambda *i: Opaque("mean", x[(*i[:-2], *_places(x))])
    count = divisor or kernel[0] * kernel[1]

    def body(*i):
        def value(*k):
            return x.pad(0)[(*i[:-2], *_at(i[-2:], k, stride, padding, dilation))]

        return Sum(value, k0=kernel[0], k1=kernel[1]) / count

    return body


def _landing(y, at):
    """Whether a window's element at `at` is the place `y`, in two dimensions."""
    return and_(lands(y[0], at[0]), lands(y[1], at[1]))


@spec("aten::avg_pool2d_backward", local={"padding": "window"})
def avg_pool2d_backward(grad, x, kernel, stride, padding, ceil_mode, count_include_pad, divisor):
    kernel, stride, padding, dilation = _window(kernel, stride, padding)
    uneven = any(padding) and not count_include_pad and divisor is None
    if ceil_mode or uneven:

        def whole_planes(*i):
            value = Opaque("mean", grad[(*i[:-2], *_places(x))])
            return like(value, Opaque("shape", x[(*i[:-2], *_places(x))]))

        return whole_planes
    places = {f"o{d}": grad.shape[d - 2] for d in range(2)}
    elements = {f"k{d}": kernel[d] for d in range(2)}
    count = divisor or kernel[0] * kernel[1]

    def body(*i):
        def landed(*inner):
            o, k = inner[:2], inner[2:]
            hit = _landing(i[-2:], _at(o, k, stride, padding, dilation))
            return where(hit, grad[(*i[:-2], *o)] / count, 0)

        return like(Sum(landed, **places, **elements), x[i])

    return body


@spec("aten::max_pool2d_with_indices", local={"padding": "window"})
def max_pool2d_with_indices(x, kernel, stride, padding, dilation, ceil_mode):
    kernel, stride, padding, dilation = _window(kernel, stride, padding, dilation)

    def values(*i):
        def value(*k):
            return x.pad(float("-inf"))[(*i[:-2], *_at(i[-2:], k, stride, padding, dilation))]

        if ceil_mode:
            for k in i[-2:]:
                whole(k)
        return Max(value, k0=kernel[0], k1=kernel[1])

    def positions(*i):
        return Opaque("argmax", x[(*i[:-2], *_places(x))])

    return values, positions


@spec("aten::max_pool2d_with_indices_backward")
def max_pool2d_with_indices_backward(
    grad, x, kernel, stride, padding, dilation, ceil_mode, indices
):
    def body(*i):
        at = (*i[:-2], *_places(x))
        value = Opaque("scatter", grad[at], indices[at])
        return like(value, Opaque("shape", x[at]))

    return body


@spec("smex::max_pool2d_backward", local={"padding": "window"})
def max_pool2d_backward(grad, x, kernel, stride, padding, dilation, ceil_mode):
    kernel, stride, padding, dilation = _window(kernel, stride, padding, dilation)
    low = x.pad(float("-inf"))
    places = {f"o{d}": grad.shape[d - 2] for d in range(2)}
    elements = {f"k{d}": kernel[d] for d in range(2)}
    others = {f"q{d}": kernel[d] for d in range(2)}

    # Of equal maxima the first counts; the text below would count each.
    def body(*i):
        outer, y = i[:-2], i[-2:]
        spans = [(kernel[d] - 1) * dilation[d] + 1 for d in range(2)]
        rests = [(x.shape[d - 2] + 2 * padding[d] - spans[d]) % stride[d] for d in range(2)]
        if ceil_mode or any(rests) or any(spans[d] < stride[d] for d in range(2)):
            for index in y:
                whole(index)  # some elements lie in no window, or windows leave the padding

        def landed(*inner):
            o, k = inner[:2], inner[2:]
            at = _at(o, k, stride, padding, dilation)

            def value(*q):
                return low[(*outer, *_at(o, q, stride, padding, dilation))]

            is_largest = low[(*outer, *at)] == Max(value, **others)
            hit = _landing(y, at)
            return where(hit, where(is_largest, grad[(*outer, *o)], 0), 0)

        return Sum(landed, **places, **elements)

    return body


@spec("aten::upsample_nearest2d")
def upsample_nearest2d(x, size, scale_h=None, scale_w=None):
    return lambda n, c, h, w: Opaque("resize", x[n, c, :, :])


@spec("aten::upsample_bilinear2d")
def upsample_bilinear2d(x, size, align_corners, scale_h=None, scale_w=None):
    return lambda n, c, h, w: Opaque("resize", x[n, c, :, :])
