"""Special functions, element by element; those without a formula in the language are unknown."""

from __future__ import annotations

import math

from smex import tdl
from smex.specs.families.math.pointwise import elementwise, unknown
from smex.tdl import where
from smex.tdl.expressions import as_expr

unknown(
    "aten::digamma",
    "aten::erfinv",
    "aten::i0",
    "aten::igamma",
    "aten::igammac",
    "aten::polygamma",
    "aten::special_airy_ai",
    "aten::special_bessel_j0",
    "aten::special_bessel_j1",
    "aten::special_bessel_y0",
    "aten::special_bessel_y1",
    "aten::special_chebyshev_polynomial_t",
    "aten::special_chebyshev_polynomial_u",
    "aten::special_chebyshev_polynomial_v",
    "aten::special_chebyshev_polynomial_w",
    "aten::special_erfcx",
    "aten::special_hermite_polynomial_h",
    "aten::special_hermite_polynomial_he",
    "aten::special_i0e",
    "aten::special_i1",
    "aten::special_i1e",
    "aten::special_laguerre_polynomial_l",
    "aten::special_legendre_polynomial_p",
    "aten::special_modified_bessel_i0",
    "aten::special_modified_bessel_i1",
    "aten::special_modified_bessel_k0",
    "aten::special_modified_bessel_k1",
    "aten::special_ndtri",
    "aten::special_scaled_modified_bessel_k0",
    "aten::special_scaled_modified_bessel_k1",
    "aten::special_shifted_chebyshev_polynomial_t",
    "aten::special_shifted_chebyshev_polynomial_u",
    "aten::special_shifted_chebyshev_polynomial_v",
    "aten::special_shifted_chebyshev_polynomial_w",
    "aten::special_zeta",
)


def _clamped(x, eps):
    return where(x < eps, eps, where(x > 1 - eps, 1 - eps, x))


@elementwise("aten::lgamma")
def lgamma(x):
    return tdl.lgamma(x)


@elementwise("aten::logit")
def logit(x, eps):
    x = x if eps is None or eps < 0 else _clamped(x, eps)
    return tdl.log(x / (1 - x))


@elementwise("aten::logit_backward")
def logit_backward(grad, x, eps):
    inside = grad / (x * (1 - x))
    if eps is None or eps < 0:
        return where(x < 0, math.nan, where(x > 1, math.nan, inside))
    return where(x < eps, 0, where(x > 1 - eps, 0, inside))


@elementwise("aten::mvlgamma")
def mvlgamma(x, p):
    result = p * (p - 1) / 4 * math.log(math.pi) + tdl.lgamma(x)
    for j in range(1, p):
        result = result + tdl.lgamma(x - j / 2)
    return result


@elementwise("aten::sinc")
def sinc(x):
    return where(x == 0, 1, tdl.sin(math.pi * x) / (math.pi * x))


@elementwise("aten::special_entr")
def special_entr(x):
    return where(tdl.isnan(x), x, where(x > 0, -x * tdl.log(x), where(x == 0, 0, -math.inf)))


@elementwise("aten::special_log_ndtr")
def special_log_ndtr(x):
    return tdl.log(0.5 * tdl.erfc(-x * math.sqrt(0.5)))


@elementwise("aten::special_spherical_bessel_j0")
def special_spherical_bessel_j0(x):
    return where(tdl.abs_(x) == math.inf, 0, where(x == 0, 1, tdl.sin(x) / x))


@elementwise("aten::special_xlog1py")
def special_xlog1py(x, y):
    x, y = as_expr(x), as_expr(y)
    return where(tdl.isnan(y), y, where(x == 0, 0, x * tdl.log1p(y)))
