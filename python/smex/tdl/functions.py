"""Functions of elements, as they are called in formulas."""

from __future__ import annotations

from collections.abc import Callable

from smex.errors import SpecError
from smex.tdl.expressions import Expr, Operand, call


def _function(name: str, arity: int, doc: str) -> Callable[..., Expr]:
    def function(*args: Operand) -> Expr:
        if len(args) != arity:
            raise SpecError(f"smex.tdl: {name}: expected {arity} arguments, found {len(args)}")
        return call(name, *args)

    function.__name__ = name
    function.__doc__ = doc
    return function


abs_ = _function("abs", 1, "x without its sign.")
acos = _function("acos", 1, "Arc cosine.")
acosh = _function("acosh", 1, "Inverse of cosh.")
and_ = _function(
    "and", 2, "1 if both are non-zero, else 0; the second is not evaluated if the first is 0."
)
asin = _function("asin", 1, "Arc sine.")
asinh = _function("asinh", 1, "Inverse of sinh.")
atan = _function("atan", 1, "Arc tangent.")
atan2 = _function("atan2", 2, "The angle of the point (y, x) given as atan2(y, x).")
atanh = _function("atanh", 1, "Inverse of tanh.")
ceil = _function("ceil", 1, "The least integer not below x.")
copysign = _function("copysign", 2, "x with the sign of y.")
cos = _function("cos", 1, "Cosine.")
cosh = _function("cosh", 1, "Hyperbolic cosine.")
erf = _function("erf", 1, "The error function.")
erfc = _function("erfc", 1, "1 - erf(x).")
exp = _function("exp", 1, "e to the x.")
exp2 = _function("exp2", 1, "2 to the x.")
expm1 = _function("expm1", 1, "e to the x, less 1.")
floor = _function("floor", 1, "The greatest integer not above x.")
fmod = _function("fmod", 2, "The remainder of x/y, with the sign of x.")
hypot = _function("hypot", 2, "√(x² + y²).")
in_row = _function(
    "in_row", 3,
    "1 if the place is one of the row's, of which bounds[row] and bounds[row + 1] are given.",
)  # fmt: skip
isnan = _function("isnan", 1, "1 if x is not a number, else 0.")
lands = _function(
    "lands", 2,
    "1 if the index is the position, else 0; a tile of it then needs the places that reach it.",
)  # fmt: skip
lgamma = _function("lgamma", 1, "Logarithm of the gamma function's size.")
like = _function(
    "like", 2, "The first operand; of the second only the shape matters to the kernel."
)
log = _function("log", 1, "Natural logarithm.")
log10 = _function("log10", 1, "Logarithm to base 10.")
log1p = _function("log1p", 1, "log(1 + x).")
log2 = _function("log2", 1, "Logarithm to base 2.")
maximum = _function("max", 2, "The greater of two.")
minimum = _function("min", 2, "The lesser of two.")
nextafter = _function("nextafter", 2, "The double after x in the direction of y.")
not_ = _function("not", 1, "1 if x is 0, else 0.")
or_ = _function(
    "or", 2, "1 if one is non-zero, else 0; the second is not evaluated if the first is not 0."
)
pow_ = _function("pow", 2, "x to the y.")
reciprocal = _function("reciprocal", 1, "1/x.")
relu = _function("relu", 1, "x where positive, else 0.")
round_ = _function("round", 1, "The nearest integer, halves to even.")
rsqrt = _function("rsqrt", 1, "1/√x.")
sigmoid = _function("sigmoid", 1, "1/(1 + exp(-x)).")
sign = _function("sign", 1, "-1, 0 or 1.")
signbit = _function("signbit", 1, "1 if the sign bit of x is set, else 0.")
sin = _function("sin", 1, "Sine.")
sinh = _function("sinh", 1, "Hyperbolic sine.")
sqrt = _function("sqrt", 1, "Square root.")
tan = _function("tan", 1, "Tangent.")
tanh = _function("tanh", 1, "Hyperbolic tangent.")
tgamma = _function("tgamma", 1, "Γ(x).")
told = _function(
    "told", 1, "The index as a number, of which a local rule tells the kernel where it begins."
)
trunc = _function("trunc", 1, "x without its fraction.")
where = _function("where", 3, "The second operand where the first is non-zero, else the third.")
xor_ = _function("xor", 2, "1 if exactly one is non-zero.")
