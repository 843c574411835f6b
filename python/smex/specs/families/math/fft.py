"""Fourier transforms: along their dimensions each element depends on all, elsewhere on its own."""

from __future__ import annotations

from smex.specs.common import dims_of, replaced, specs
from smex.tdl import Opaque


@specs("aten::_fft_c2c", "aten::_fft_c2r", "aten::_fft_r2c")
def fft(x, dims, *_):
    dims = dims_of(dims, x.ndim) if dims else []
    return lambda *i: Opaque("fft", x[replaced(i, dims, [slice(None)] * len(dims))])
