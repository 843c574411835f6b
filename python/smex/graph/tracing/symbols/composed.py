"""Functions in the place of which symbols compute others, that they know.

Each is written so that its gradient, too, is that of torch: also at the places where its pieces
meet, without an overflow in the piece that is not chosen, and for infinite gradients.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F

from smex.graph.tracing.symbols.symbols import COMPOSED, TRACER, RefusedError, Symbol
from smex.graph.tracing.symbols.values import binary, pair, refuse_in_place, unary


def _composed(*targets: Any) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    def register(function: Callable[..., Any]) -> Callable[..., Any]:
        COMPOSED.update(dict.fromkeys(targets, function))
        return function

    return register


@functools.cache
def _is_flat_on_bounds() -> bool:
    """Returns whether torch's clamp gives numbers on a bound the gradient 0.

    Older ones give them 1.
    """
    with torch._C.DisableTorchFunction(), torch.inference_mode(False), torch.enable_grad():
        x = torch.zeros(1, requires_grad=True)
        (grad,) = torch.autograd.grad(torch.clamp(x, min=0.0), x, torch.ones(1))
        return not grad.any()


def _clamped(input: Any, low: Any, high: Any, is_flat: bool | None = None) -> Any:
    """Between two numbers, of which one may be None; ``is_flat`` on them.

    What is no number stays so, with the gradient 0.
    """
    if any(x is not None and type(x) not in (int, float) for x in (low, high)):
        raise RefusedError("clamp between tensors")
    flat = _is_flat_on_bounds() if is_flat is None else is_flat
    result, is_inside = input, []
    if low is not None:
        result = _maximum(low, result)
        is_inside.append(input > low if flat else input >= low)
    if high is not None:
        result = _minimum(high, result)
        is_inside.append(input < high if flat else input <= high)
    if not is_inside:
        return input
    passing = torch.where(functools.reduce(torch.logical_and, is_inside), input, 0)
    return _straight_through(result, passing)


def _maximum(a: Any, b: Any) -> Any:
    """Of which one may be a number; the second where they are equal."""
    return binary("maximum")(TRACER, a, b)


def _minimum(a: Any, b: Any) -> Any:
    return binary("minimum")(TRACER, a, b)


def _straight_through(result: Any, passing: Any) -> Any:
    """Returns the one's value with the other's gradient."""
    return pair("straight_through", result.value, passing.value)


def _with_slope(result: Any, slope: Any, input: Any) -> Any:
    """Returns a function's value with its derivative as one factor.

    The sum of what the chain rule finds piece by piece is the same, but an infinite gradient times
    each piece is not always infinite where one of them is 0.
    """
    return _straight_through(result, pair("slope", slope.value, input.value))


@_composed(torch.clamp, torch.clip, ".clamp", ".clip")
def _clamp(input: Any, min: Any = None, max: Any = None) -> Any:
    return _clamped(input, min, max)


@_composed(torch.clamp_min, ".clamp_min")
def _clamp_min(input: Any, min: Any) -> Any:
    return _clamped(input, min, None)


@_composed(torch.clamp_max, ".clamp_max")
def _clamp_max(input: Any, max: Any) -> Any:
    return _clamped(input, None, max)


@_composed(F.elu)
def _elu(input: Any, alpha: float = 1.0, inplace: bool = False) -> Any:
    refuse_in_place(inplace)
    return _celu(input, alpha, scale=1.0)


def _celu(input: Any, alpha: float, scale: float) -> Any:
    """``alpha (e^(x / scale) - 1)`` for negative numbers."""
    negative = torch.where(input > 0, 0, input)
    return torch.where(input > 0, input, torch.expm1(negative / scale) * alpha)


@_composed(F.celu, torch.celu)
def _celu_of(input: Any, alpha: float = 1.0, inplace: bool = False) -> Any:
    refuse_in_place(inplace)
    return _celu(input, alpha, scale=alpha)


@_composed(F.selu, torch.selu)
def _selu(input: Any, inplace: bool = False) -> Any:
    alpha, scale = 1.6732632423543772848170429916717, 1.0507009873554804934193349852946
    return _elu(input, alpha, inplace) * scale


@_composed(F.gelu)
def _gelu(input: Any, approximate: str = "none") -> Any:
    if approximate == "tanh":
        scale, cubic = math.sqrt(2 / math.pi), 0.044715
        bent = torch.tanh(scale * (input + cubic * input**3))
        steep = (1 - bent * bent) * (scale * (1 + 3 * cubic * (input * input)))
        return _with_slope(0.5 * input * (1 + bent), 0.5 * (1 + bent) + 0.5 * input * steep, input)
    below = 0.5 * (1 + torch.erf(input * math.sqrt(0.5)))
    density = torch.exp(-0.5 * (input * input)) * (1 / math.sqrt(2 * math.pi))
    return _with_slope(input * below, below + input * density, input)


@_composed(F.hardtanh)
def _hardtanh(
    input: Any, min_val: float = -1.0, max_val: float = 1.0, inplace: bool = False
) -> Any:
    refuse_in_place(inplace)
    return _clamped(input, min_val, max_val, is_flat=True)


@_composed(F.relu6)
def _relu6(input: Any, inplace: bool = False) -> Any:
    return _hardtanh(input, 0.0, 6.0, inplace)


@_composed(F.hardsigmoid)
def _hardsigmoid(input: Any, inplace: bool = False) -> Any:
    return _relu6(input + 3.0, inplace) / 6.0


@_composed(F.silu)
def _silu(input: Any, inplace: bool = False) -> Any:
    refuse_in_place(inplace)
    share = torch.sigmoid(input)
    return _with_slope(input * share, share * (1 + input * (1 - share)), input)


@_composed(F.softplus)
def _softplus(input: Any, beta: float = 1.0, threshold: float = 20.0) -> Any:
    if beta == 1 and threshold == 20:
        return unary("softplus")(TRACER, input)
    scaled = input * beta
    is_straight = scaled > threshold
    power = torch.exp(_minimum(threshold, scaled))
    result = torch.where(is_straight, input, torch.log1p(power) / beta)
    return _with_slope(result, torch.where(is_straight, 1.0, power / (power + 1)), input)


@_composed(F.logsigmoid)
def _logsigmoid(input: Any) -> Any:
    is_negative = input < 0
    power = torch.exp(-abs(input))
    share = power / (1 + power)
    result = torch.where(is_negative, input, 0) - torch.log1p(power)
    return _with_slope(result, torch.where(is_negative, 1 - share, share), input)


@_composed(F.mish)
def _mish(input: Any, inplace: bool = False) -> Any:
    refuse_in_place(inplace)
    # From here on the hyperbolic tangent is 1, and no exponential overflows.
    share = torch.tanh(torch.log1p(torch.exp(_minimum(30.0, input))))
    slope = share + input * torch.sigmoid(input) * (1 - share * share)
    return _with_slope(input * share, slope, input)


@_composed(F.softsign)
def _softsign(input: Any) -> Any:
    return input / (1 + abs(input))


@_composed(F.threshold)
def _threshold(input: Any, threshold: float, value: float, inplace: bool = False) -> Any:
    refuse_in_place(inplace)
    return torch.where(input <= threshold, value, input)


@_composed(F.prelu, torch.prelu, ".prelu")
def _prelu(input: Any, weight: Any) -> Any:
    if isinstance(weight, Symbol) or (weight.numel() > 1 and input.ndim != 2):
        raise RefusedError("prelu with a weight that does not line up with the last dimension")
    return torch.where(input > 0, input, input * weight)


# ---- lengths of rows ----


@_composed(torch.norm, ".norm", torch.linalg.norm, torch.linalg.vector_norm)
def _norm(
    input: Any,
    p: Any = 2,
    dim: Any = None,
    keepdim: bool = False,
    out: Any = None,
    dtype: Any = None,
    ord: Any = None,
) -> Any:
    """Returns the length, whose gradient is 0 where it is 0."""
    options = (out, dtype)
    if (p if ord is None else ord) not in (2, "fro", None) or dim is None or options != (None,) * 2:
        raise RefusedError("a norm other than the Euclidean one over a dimension, or with options")
    length = torch.sqrt((input * input).sum(dim, keepdim=True))
    slope: Any = torch.where(length == 0, 0, input / length)
    passing: Any = pair("slope", slope.value, input.value)
    result = length if keepdim else torch.sqrt((input * input).sum(dim))
    return _straight_through(result, passing.sum(dim, keepdim))


@_composed(F.normalize)
def _normalize(
    input: Any, p: float = 2.0, dim: int = 1, eps: float = 1e-12, out: Any = None
) -> Any:
    if p != 2 or out is not None:
        raise RefusedError("normalize by a norm other than the Euclidean one")
    return input / _maximum(_norm(input, dim=dim, keepdim=True), eps)


@_composed(F.cosine_similarity)
def _cosine_similarity(x1: Any, x2: Any, dim: int = 1, eps: float = 1e-8) -> Any:
    a, b = (x / _at_least(_norm(x, dim=dim, keepdim=True), eps) for x in (x1, x2))
    return (a * b).sum(dim)


def _at_least(length: Any, least: float) -> Any:
    """Returns the larger of the two, with the gradient of the length throughout."""
    return _straight_through(_maximum(least, length), length)
