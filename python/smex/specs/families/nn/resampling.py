"""Resizing, as weighted sums whose weights are products over the dimensions, and grid sampling."""

from __future__ import annotations

from smex.specs.common import all_of, named
from smex.tdl import Opaque, Sum, abs_, floor, like, maximum, minimum, spec, where, whole

CUBIC, CUBIC_ANTIALIASED = -0.75, -0.5
"""Parameters of the cubic kernels."""


def _ratio(size, places, align_corners, scale):
    """Returns how far the input moves for one step of the output."""
    if align_corners:
        return (size - 1) / (places - 1) if places > 1 else 0.0
    return 1 / scale if scale else size / max(places, 1)


def _hat(t):
    return maximum(0, 1 - abs_(t))


def _cubic(t, a):
    """Returns the cubic convolution kernel at a distance of at most 2."""
    t = abs_(t)
    near = ((a + 2) * t - (a + 3)) * t * t + 1
    far = ((t - 5) * t + 8) * t * a - 4 * a
    return where(t <= 1, near, where(t < 2, far, 0))


def _cubic_antialiased(t):
    return _cubic(t, CUBIC_ANTIALIASED)


def _linear(o, k, size, ratio, align_corners):
    at = o * ratio if align_corners else (o + 0.5) * ratio - 0.5
    return _hat(minimum(maximum(at, 0), size - 1) - k)


def _bicubic(o, k, size, ratio, align_corners):
    """Places beyond the border count for the border's."""
    at = o * ratio if align_corners else (o + 0.5) * ratio - 0.5
    first = floor(at)

    def tap(step):
        place = minimum(maximum(first + step, 0), size - 1)
        return where(place == k, _cubic(at - first - step, CUBIC), 0)

    return tap(-1) + tap(0) + tap(1) + tap(2)


def _nearest(o, k, size, ratio, align_corners):
    return where(minimum(floor(o * ratio), size - 1) == k, 1, 0)


def _nearest_exact(o, k, size, ratio, align_corners):
    return where(minimum(floor((o + 0.5) * ratio), size - 1) == k, 1, 0)


def _antialiased(kernel):
    """Returns the weights of a kernel as wide as a step, made to sum to one by what is inside."""

    def weight_of(o, k, size, ratio, align_corners):
        def weight(place):
            return kernel((place + 0.5 - (o + 0.5) * ratio) / max(ratio, 1.0))

        return weight(k) / Sum(weight, place=size)

    return weight_of


class _Resize:
    """One call's geometry."""

    def __init__(self, weight, sizes, places, options, has_corners):
        self.weight, self.sizes, self.places = weight, sizes, places
        self.align_corners = options[0] if has_corners else False
        scales = [*options[int(has_corners) :], *[None] * len(sizes)]
        self.ratios = [
            _ratio(size, n, self.align_corners, scale)
            for size, n, scale in zip(sizes, places, scales)
        ]

    def apply(self, x, adjoint):
        """The resized tensor, or of a gradient the adjoint: the weights the other way around."""

        def body(n, c, *i):
            def value(*inner):
                for index in (*i, *inner):
                    whole(index)  # the kernels derive their steps from the sizes
                o, k = (inner, i) if adjoint else (i, inner)
                result = x[(n, c, *inner)]
                for d, size in enumerate(self.sizes):
                    factor = self.weight(o[d], k[d], size, self.ratios[d], self.align_corners)
                    result = result * factor
                return result

            extents = self.places if adjoint else self.sizes
            return Sum(value, **{f"k{d}": size for d, size in enumerate(extents)})

        return body


def _register(name, weight, has_corners):
    """Returns the operator and its gradient."""

    def forward(x, size, *options):
        return _Resize(weight, x.shape[2:], size, options, has_corners).apply(x, adjoint=False)

    def backward(grad, size, input_size, *options):
        resize = _Resize(weight, input_size[2:], size, options, has_corners)
        return resize.apply(grad, adjoint=True)

    def from_factors(x, size, *options):
        *corners, factors = options
        factors = factors or []
        sizes = size or [int(n * factor) for n, factor in zip(x.shape[2:], factors)]
        return forward(x, sizes, *corners, *factors)

    spec(f"aten::{name}")(forward)
    spec(f"aten::{name}.vec")(from_factors)
    spec(f"aten::{name}_backward", local={"input_size": "output_shape"})(backward)


for _spatial in (1, 2, 3):
    _register(f"_upsample_nearest_exact{_spatial}d", _nearest_exact, has_corners=False)
    _register(f"upsample_nearest{_spatial}d", _nearest, has_corners=False)
_register("_upsample_bicubic2d_aa", _antialiased(_cubic_antialiased), has_corners=True)
_register("_upsample_bilinear2d_aa", _antialiased(_hat), has_corners=True)
_register("upsample_bicubic2d", _bicubic, has_corners=True)
_register("upsample_bilinear2d", _linear, has_corners=True)
_register("upsample_linear1d", _linear, has_corners=True)
_register("upsample_trilinear3d", _linear, has_corners=True)


def grid_sampler(x, grid, interpolation, padding, align_corners):
    """Looks where the grid points to, in all of a channel's image."""
    return lambda n, c, *o: Opaque("sample", all_of(x, n, c), grid[(n, *o, slice(None))])


def grid_sampler_backward(grad, x, grid, interpolation, padding, align_corners, mask):
    """Gradients of the image and of the grid."""
    places = {f"o{d}": size for d, size in enumerate(grad.shape[2:])}

    def grad_x(n, c, *y):
        def value(*o):
            return Opaque("spread", grad[(n, c, *o)], grid[(n, *o, slice(None))])

        shape = Opaque("shape", all_of(x, n, c))
        return like(Sum(value, **places), shape)

    def grad_grid(*i):
        n, *o, _ = i

        def value(c):
            return Opaque("slope", grad[(n, c, *o)], all_of(x, n, c), grid[(n, *o, slice(None))])

        return Sum(value, c=x.shape[1])

    return grad_x if mask[0] else None, named(grad_grid, ["n", *places, "axis"])


for _target in ("aten::grid_sampler_2d", "aten::grid_sampler_3d"):
    spec(_target)(grid_sampler)
    spec(_target + "_backward")(grid_sampler_backward)
