"""Losses and their gradients.

A mean divides by the number of elements that the kernel sees, so its gradient cannot be divided.
"""

from __future__ import annotations

import math

from smex.specs.common import element
from smex.specs.families.math.reduction import broadcast_extents
from smex.tdl import (
    Sum,
    abs_,
    exp,
    log,
    log1p,
    maximum,
    relu,
    sigmoid,
    sign,
    spec,
    where,
    whole,
)

NONE, MEAN, SUM = 0, 1, 2

EPSILON = 9.999999960041972e-13
"""1e-12 as a float32, which is how the kernel has it."""


def _loss(tensors, reduction, value):
    """`value` of the elements of tensors that broadcast, each, summed or averaged."""

    def at(*i):
        return value(*(None if x is None else element(x, i) for x in tensors))

    if reduction == NONE:
        return at
    extents = broadcast_extents(*tensors)
    if reduction == SUM:
        return lambda: Sum(at, **extents)
    return lambda: Sum(at, **extents) / math.prod(extents.values())


def _gradient(grad, tensors, reduction, slope):
    """Returns the gradient of a loss whose derivative is `slope` of the elements."""

    def body(*i):
        value = element(grad, i) * slope(*(None if x is None else element(x, i) for x in tensors))
        if reduction != MEAN:
            return value
        for index in i:
            whole(index)
        return value / math.prod(broadcast_extents(*tensors).values())

    return body


def _clamped_log(x):
    return maximum(log(x), -100)


def _times(value, weight):
    return value if weight is None else value * weight


@spec("aten::binary_cross_entropy")
def binary_cross_entropy(x, target, weight, reduction):
    def value(x, t, w):
        return _times((t - 1) * maximum(log1p(-x), -100) - t * _clamped_log(x), w)

    return _loss((x, target, weight), reduction, value)


@spec("aten::binary_cross_entropy_backward")
def binary_cross_entropy_backward(grad, x, target, weight, reduction):
    def slope(x, t, w):
        return _times((x - t) / maximum((1 - x) * x, EPSILON), w)

    return _gradient(grad, (x, target, weight), reduction, slope)


@spec("aten::binary_cross_entropy_with_logits")
def binary_cross_entropy_with_logits(x, target, weight, positive_weight, reduction):
    def value(x, t, w, p):
        positive = 1 if p is None else (p - 1) * t + 1
        softplus = log1p(exp(-abs_(x))) + relu(-x)
        return _times((1 - t) * x + positive * softplus, w)

    return _loss((x, target, weight, positive_weight), reduction, value)


@spec("aten::huber_loss")
def huber_loss(x, target, reduction, delta):
    def value(x, t):
        distance = abs_(x - t)
        return where(distance <= delta, 0.5 * distance**2, delta * (distance - 0.5 * delta))

    return _loss((x, target), reduction, value)


@spec("aten::huber_loss_backward")
def huber_loss_backward(grad, x, target, reduction, delta):
    def slope(x, t):
        return where(abs_(x - t) <= delta, x - t, delta * sign(x - t))

    return _gradient(grad, (x, target), reduction, slope)


@spec("aten::mse_loss")
def mse_loss(x, target, reduction):
    return _loss((x, target), reduction, lambda x, t: (x - t) ** 2)


@spec("aten::mse_loss_backward")
def mse_loss_backward(grad, x, target, reduction):
    return _gradient(grad, (x, target), reduction, lambda x, t: 2 * (x - t))


@spec("aten::smooth_l1_loss")
def smooth_l1_loss(x, target, reduction, beta):
    def value(x, t):
        distance = abs_(x - t)
        if beta == 0:
            return distance
        return where(distance < beta, 0.5 * distance**2 / beta, distance - 0.5 * beta)

    return _loss((x, target), reduction, value)


@spec("aten::smooth_l1_loss_backward")
def smooth_l1_loss_backward(grad, x, target, reduction, beta):
    def slope(x, t):
        straight = where(x - t <= -beta, -1, 1)
        if beta == 0:
            return straight
        return where(abs_(x - t) >= beta, straight, (x - t) / beta)

    return _gradient(grad, (x, target), reduction, slope)


@spec("aten::soft_margin_loss")
def soft_margin_loss(x, target, reduction):
    def value(x, t):
        return log1p(exp(-abs_(t * x))) + relu(-(t * x))

    return _loss((x, target), reduction, value)


@spec("aten::soft_margin_loss_backward")
def soft_margin_loss_backward(grad, x, target, reduction):
    return _gradient(grad, (x, target), reduction, lambda x, t: -t * sigmoid(-(t * x)))
