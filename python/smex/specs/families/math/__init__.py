"""Element-wise functions, reductions, sorts, products of matrices and transforms."""

from smex.specs.families.math import (
    fft,
    linalg,
    matmul,
    pointwise,
    reduction,
    sorting,
    special,
    statistics,
)

__all__ = [
    "fft",
    "linalg",
    "matmul",
    "pointwise",
    "reduction",
    "sorting",
    "special",
    "statistics",
]
