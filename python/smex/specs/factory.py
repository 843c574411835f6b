"""Tensors made from numbers, and triangles."""

from __future__ import annotations

from smex.specs.common import specs
from smex.tdl import like, spec, where


@spec("aten::arange")
def arange(end, *_):
    return lambda i: i * 1


@spec("aten::arange.start")
def arange_start(start, end, *_):
    return lambda i: i + start


@spec("aten::arange.start_step")
def arange_start_step(start, end, step, *_):
    return lambda i: i * step + start


@specs("aten::empty", "aten::zeros", local={"size": "output_shape"})
def zeros(size, *_):
    return lambda *i: 0


@spec("aten::full", local={"size": "output_shape"})
def full(size, value, *_):
    return lambda *i: float(value)


# A new_ operator reads only its first operand's dtype and device: any tile of it will do.
@specs("aten::new_empty", "aten::new_zeros", local={"size": "output_shape"})
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


@spec("aten::scalar_tensor")
def scalar_tensor(value, *_):
    return lambda: float(value)


@spec("aten::tril")
def tril(x, diagonal):
    return lambda *i: where(i[-1] - i[-2] <= diagonal, x[i], 0)


@spec("aten::triu")
def triu(x, diagonal):
    return lambda *i: where(i[-1] - i[-2] >= diagonal, x[i], 0)
