"""Activations and their derivatives, element by element."""

from __future__ import annotations

import math

from smex import tdl
from smex.specs.common import dims_of, element, replaced
from smex.specs.families.math.pointwise import elementwise
from smex.tdl import Opaque, and_, like, or_, spec, where, whole
from smex.tdl.expressions import current

_SQRT_HALF = math.sqrt(0.5)
_GELU_TANH = math.sqrt(2 / math.pi)
_SIXTH = 0.1666666716337204  # ATen's 1/6 is a float32 in its derivative of hardsigmoid


@elementwise("aten::_prelu_kernel")
def _prelu_kernel(x, weight):
    return where(x > 0, x, weight * x)


@spec("aten::_prelu_kernel_backward")
def _prelu_kernel_backward(grad, x, weight):
    def of_input(*i):
        return element(grad, i) * where(element(x, i) > 0, 1, element(weight, i))

    def of_weight(*i):
        return element(grad, i) * where(element(x, i) > 0, 0, element(x, i))

    return of_input, of_weight


@elementwise("aten::celu")
def celu(x, alpha):
    return where(x > 0, x, alpha * tdl.expm1(x / alpha))


@elementwise("aten::elu")
def elu(x, alpha, scale, input_scale):
    return scale * where(x > 0, x, alpha * tdl.expm1(input_scale * x))


@elementwise("aten::elu_backward")
def elu_backward(grad, alpha, scale, input_scale, is_result, x):
    curve = x + alpha * scale if is_result else alpha * scale * tdl.exp(input_scale * x)
    return grad * where(x > 0, scale, input_scale * curve)


def _normal_cdf(x):
    return 0.5 * (1 + tdl.erf(x * _SQRT_HALF))


def _gelu_inner(x):
    return tdl.tanh(_GELU_TANH * (x + 0.044715 * x * x * x))


@elementwise("aten::gelu")
def gelu(x, approximate):
    return 0.5 * x * (1 + _gelu_inner(x)) if approximate == "tanh" else x * _normal_cdf(x)


@elementwise("aten::gelu_backward")
def gelu_backward(grad, x, approximate):
    if approximate == "tanh":
        inner = _gelu_inner(x)
        slope = _GELU_TANH * (1 + 3 * 0.044715 * x * x)
        return grad * (0.5 * (1 + inner) + 0.5 * x * (1 - inner * inner) * slope)
    density = tdl.exp(-0.5 * x * x) / math.sqrt(2 * math.pi)
    return grad * (_normal_cdf(x) + x * density)


@spec("aten::glu")
def glu(x, dim):
    (dim,) = dims_of(dim, x.ndim)
    half = x.shape[dim] // 2

    def body(*i):  # the kernel halves its tile
        gate = x[replaced(i, [dim], [whole(i[dim]) + half])]
        return x[i] * tdl.sigmoid(gate)

    return body


@spec("aten::glu_backward")
def glu_backward(grad, x, dim):
    (dim,) = dims_of(dim, x.ndim)
    half = x.shape[dim] // 2

    def body(*i):
        def at(tensor, position):
            return tensor[replaced(i, [dim], [position])]

        j = whole(i[dim])
        value, gate = j - half, tdl.sigmoid(at(x, j))
        return where(
            j < half,
            at(grad, j) * tdl.sigmoid(at(x, j + half)),
            at(grad, value) * at(x, value) * gate * (1 - gate),
        )

    return body


@elementwise("aten::hardshrink")
def hardshrink(x, bound):
    return where(and_(x >= -bound, x <= bound), 0, x)


@elementwise("aten::hardshrink_backward", "aten::softshrink_backward")
def hardshrink_backward(grad, x, bound):
    return where(or_(x < -bound, x > bound), grad, 0)


def _relu6(x):
    return tdl.minimum(tdl.maximum(x, 0), 6)


@elementwise("aten::hardsigmoid")
def hardsigmoid(x):
    return _relu6(x + 3) / 6


@elementwise("aten::hardsigmoid_backward")
def hardsigmoid_backward(grad, x):
    return where(and_(x > -3, x < 3), grad * _SIXTH, 0)


@elementwise("aten::hardswish")
def hardswish(x):
    return x * _relu6(x + 3) / 6


@elementwise("aten::hardswish_backward")
def hardswish_backward(grad, x):
    return where(x <= -3, 0, where(x < 3, grad * (x / 3 + 0.5), grad))


@elementwise("aten::hardtanh")
def hardtanh(x, low, high):
    return tdl.minimum(tdl.maximum(x, low), high)


@elementwise("aten::hardtanh_backward")
def hardtanh_backward(grad, x, low, high):
    return where(and_(x > low, x < high), grad, 0)


@elementwise("aten::leaky_relu")
def leaky_relu(x, slope):
    return where(x > 0, x, slope * x)


@elementwise("aten::leaky_relu_backward")
def leaky_relu_backward(grad, x, slope, _):
    return where(x > 0, grad, slope * grad)


@spec("aten::log_sigmoid_backward")
def log_sigmoid_backward(grad, x, buffer):
    """On the CPU the buffer is exp(-|x|), on CUDA empty."""
    absent = buffer.shape == (0,) != x.shape

    def body(*i):
        y = element(x, i)
        small = tdl.exp(-tdl.abs_(y)) if absent else element(buffer, i)
        return element(grad, i) * where(y < 0, 1, small) / (1 + small)

    return body


@spec("aten::log_sigmoid_forward")
def log_sigmoid_forward(x):
    def buffer(*i):
        extents = tuple(current().extents[index.name] for index in i)
        return tdl.exp(-tdl.abs_(x[i])) if extents == x.shape else 0

    return lambda *i: tdl.minimum(x[i], 0) - tdl.log1p(tdl.exp(-tdl.abs_(x[i]))), buffer


def _softplus(x):
    return tdl.log1p(tdl.exp(x))


@elementwise("aten::mish")
def mish(x):
    return x * tdl.tanh(_softplus(x))


@elementwise("aten::mish_backward")
def mish_backward(grad, x):
    y = tdl.tanh(_softplus(x))
    return grad * (y + x * tdl.sigmoid(x) * (1 - y * y))


@elementwise("aten::relu")
def relu(x):
    return tdl.relu(x)


@spec("aten::rrelu_with_noise")
def rrelu_with_noise(x, noise, lower, upper, training, _):
    if training:
        return lambda *i: Opaque("random", *(whole(index) for index in i))
    return lambda *i: where(x[i] > 0, x[i], like((lower + upper) / 2, noise[i]) * x[i])


@elementwise("aten::rrelu_with_noise_backward")
def rrelu_with_noise_backward(grad, x, noise, lower, upper, training, _):
    if training and upper - lower > 1e-6:
        return like(grad * noise, x)
    return where(x > 0, grad, like((lower + upper) / 2, noise) * grad)


@elementwise("aten::sigmoid")
def sigmoid(x):
    return tdl.sigmoid(x)


@elementwise("aten::sigmoid_backward")
def sigmoid_backward(grad, y):
    return grad * y * (1 - y)


@elementwise("aten::silu")
def silu(x):
    return x * tdl.sigmoid(x)


@elementwise("aten::silu_backward")
def silu_backward(grad, x):
    s = tdl.sigmoid(x)
    return grad * s * (1 + x * (1 - s))


@elementwise("aten::softplus")
def softplus(x, beta, threshold):
    return where(x * beta > threshold, x, _softplus(x * beta) / beta)


@elementwise("aten::softplus_backward")
def softplus_backward(grad, x, beta, threshold):
    return where(x * beta > threshold, grad, grad * tdl.sigmoid(x * beta))


@elementwise("aten::softshrink")
def softshrink(x, bound):
    return where(x > bound, x - bound, where(x < -bound, x + bound, x * 0))


@elementwise("aten::threshold")
def threshold(x, bound, value):
    return where(x <= bound, value, x)


@elementwise("aten::threshold_backward")
def threshold_backward(grad, x, bound):
    return where(x <= bound, 0, grad)
