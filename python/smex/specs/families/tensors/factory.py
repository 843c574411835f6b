"""Tensors made from numbers, and triangles."""

from __future__ import annotations

from smex.specs.common import element, specs
from smex.tdl import Opaque, like, pow_, spec, told, where


@spec("aten::arange")
def arange(end, *_):
    """Numbers elements from the first that the kernel makes, wherever a tile begins."""
    return lambda i: i * 1


@spec("aten::arange.start")
def arange_start(start, end, *_):
    """Numbers elements from the first that the kernel makes, wherever a tile begins."""
    return lambda i: i + start


@spec("aten::arange.start_step")
def arange_start_step(start, end, step, *_):
    """Numbers elements from the first that the kernel makes, wherever a tile begins."""
    return lambda i: i * step + start


@specs(
    "aten::_efficientzerotensor", "aten::empty", "aten::empty_permuted", "aten::empty_strided",
    "aten::zeros", local={"size": "output_shape"},
)  # fmt: skip
def zeros(size, *_):
    return lambda *i: 0


@spec("aten::eye")
def eye(n, *_):
    """Numbers elements from the first that the kernel makes, wherever a tile begins."""
    return lambda i, j: where(i == j, 1, 0)


@spec("aten::eye.m")
def eye_m(n, m, *_):
    return lambda i, j: where(i == j, 1, 0)


@spec("aten::full", local={"size": "output_shape"})
def full(size, value, *_):
    return lambda *i: float(value)


def _is_integral(dtype):
    return dtype is not None and not (dtype.is_floating_point or dtype.is_complex)


@spec("aten::linspace")
def linspace(start, end, steps, dtype, *_):
    """Numbers elements from the first that the kernel makes, wherever a tile begins."""
    if _is_integral(dtype):
        return lambda i: Opaque("linspace", element(start, ()), element(end, ()))
    first, last = element(start, ()), element(end, ())
    return lambda i: first + i * ((last - first) / max(steps - 1, 1))


@spec("aten::logspace")
def logspace(start, end, steps, base, dtype, *_):
    """Numbers elements from the first that the kernel makes, wherever a tile begins."""
    exponent = linspace(start, end, steps, dtype)
    if _is_integral(dtype):
        return exponent
    return lambda i: pow_(base, exponent(i))


# A new_ operator reads only its first operand's dtype and device: any tile of it will do.
@specs(
    "aten::new_empty", "aten::new_empty_strided", "aten::new_zeros",
    local={"size": "output_shape"},
)  # fmt: skip
def new_zeros(x, size, *_):
    return lambda *i: like(0, x[(0,) * x.ndim])


@spec("aten::new_full", local={"size": "output_shape"})
def new_full(x, size, value, *_):
    return lambda *i: like(float(value), x[(0,) * x.ndim])


@spec("aten::new_ones", local={"size": "output_shape"})
def new_ones(x, size, *_):
    return lambda *i: like(1, x[(0,) * x.ndim])


@spec("aten::ones", local={"size": "output_shape"})
def ones(size, *_):
    return lambda *i: 1


@spec("aten::range")
def range_(start, end, *_):
    return lambda i: i + start


@spec("aten::range.step")
def range_step(start, end, step, *_):
    return lambda i: i * step + start


@spec("aten::scalar_tensor")
def scalar_tensor(value, *_):
    """Returns one number."""
    return lambda: float(value)


@spec("aten::tril", local={"diagonal": "diagonal"})
def tril(x, diagonal):
    return lambda *i: where(told(i[-1]) - told(i[-2]) <= diagonal, x[i], 0)


@specs("aten::tril_indices", "aten::triu_indices")
def triangle_indices(rows, columns, offset, *_):
    return lambda i, j: Opaque("triangle_indices")


@spec("aten::triu", local={"diagonal": "diagonal"})
def triu(x, diagonal):
    return lambda *i: where(told(i[-1]) - told(i[-2]) >= diagonal, x[i], 0)
