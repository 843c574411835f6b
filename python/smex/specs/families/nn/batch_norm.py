"""Batch normalization: its statistics are by channel, which is what can always be divided."""

from __future__ import annotations

import math

from smex.specs.common import specs
from smex.tdl import Opaque, Sum, like, rsqrt, spec, where


def _scaled(x, weight, bias, mean, invstd):
    """Returns the normalized elements; the statistics are functions of the channel."""

    def body(n, c, *s):
        y = (x[(n, c, *s)] - mean(c)) * invstd(c)
        y = y if weight is None else y * weight[c]
        return y if bias is None else y + bias[c]

    return body


def _channel_sum(x, name, term):
    """`term` of the places of `x` without the channel, summed; i is what an output calls them."""
    places = {f"{name}{d}": size for d, size in enumerate(x.shape) if d != 1}
    if name == "i":
        places = {"n" if key == "i0" else key: size for key, size in places.items()}
    return Sum(lambda *p: term(p[0], p[1:]), **places)


def _count(x):
    return math.prod(x.shape[:1] + x.shape[2:])


def _batch_statistics(x, eps):
    """Functions of the channel: a batch's mean, squared deviations, 1/standard deviation."""

    def mean(c):
        return _channel_sum(x, "k", lambda n, s: x[(n, c, *s)]) / _count(x)

    def squares(c):
        center = mean(c)

        def square(n, s):
            return (x[(n, c, *s)] - center) * (x[(n, c, *s)] - center)

        return _channel_sum(x, "q", square)

    return mean, squares, lambda c: rsqrt(squares(c) / _count(x) + eps)


@spec("aten::_native_batch_norm_legit_functional")
def _native_batch_norm_legit_functional(x, weight, bias, mean, var, training, momentum, eps):
    if x.ndim < 2 or _count(x) == 0:
        return None
    if not training:  # nothing is saved then
        value = _with_running_statistics(x, weight, bias, mean, var, eps)
        return value, None, None, lambda c: mean[c], lambda c: var[c]
    batch_mean, squares, invstd = _batch_statistics(x, eps)

    def running_mean(c):
        return momentum * batch_mean(c) + (1 - momentum) * mean[c]

    def running_var(c):
        return momentum * squares(c) / (_count(x) - 1) + (1 - momentum) * var[c]

    value = _scaled(x, weight, bias, batch_mean, invstd)
    return value, batch_mean, invstd, running_mean, running_var


@spec("aten::_batch_norm_with_update_functional")
def _batch_norm_with_update_functional(x, weight, bias, mean, var, momentum, eps):
    found = _native_batch_norm_legit_functional(x, weight, bias, mean, var, True, momentum, eps)
    return found and (*found[:3], None, *found[3:])


@specs("aten::_native_batch_norm_legit", "aten::native_batch_norm")
def native_batch_norm(x, weight, bias, running_mean, running_var, training, momentum, eps):
    if x.ndim < 2 or _count(x) == 0:
        return None
    if not training:  # nothing is saved then
        return _with_running_statistics(x, weight, bias, running_mean, running_var, eps), None, None
    mean, _, invstd = _batch_statistics(x, eps)
    value = _scaled(x, weight, bias, mean, invstd)

    # The running statistics are read and written to, though no output depends on them.
    def value_and_update(n, c, *s):
        result = value(n, c, *s)
        for vector in (running_mean, running_var):
            result = result if vector is None else where(True, result, vector[c])
        return result

    return value_and_update, mean, invstd


@spec("aten::_native_batch_norm_legit.no_stats")
def _native_batch_norm_legit_no_stats(x, weight, bias, training, momentum, eps):
    return native_batch_norm(x, weight, bias, None, None, True, momentum, eps)


@spec("aten::_batch_norm_with_update")
def _batch_norm_with_update(x, weight, bias, running_mean, running_var, momentum, eps):
    found = native_batch_norm(x, weight, bias, running_mean, running_var, True, momentum, eps)
    return found and (*found, None)


@spec("aten::_batch_norm_no_update")
def _batch_norm_no_update(x, weight, bias, running_mean, running_var, momentum, eps):
    value = _with_running_statistics(x, weight, bias, running_mean, running_var, eps)
    return value, None, None, None


def _with_running_statistics(x, weight, bias, running_mean, running_var, eps):
    def invstd(c):
        return rsqrt(running_var[c] + eps)

    return _scaled(x, weight, bias, lambda c: running_mean[c], invstd)


@spec("aten::_native_batch_norm_legit_no_training")
def _native_batch_norm_legit_no_training(x, weight, bias, mean, var, momentum, eps):
    return _with_running_statistics(x, weight, bias, mean, var, eps), None, None


def _over_channel(x, term):
    """`term` of `[n, c, *s]` summed over all but c."""
    places = {f"s{d}": size for d, size in enumerate(x.shape[2:])}

    def body(c):
        return Sum(lambda n, *s: term(n, c, s), n=x.shape[0], **places)

    return body


@spec("smex::centered_square_sum")
def centered_square_sum(x, mean):
    def square(n, c, s):
        return (x[(n, c, *s)] - mean[c]) * (x[(n, c, *s)] - mean[c])

    return _over_channel(x, square)


@spec("smex::channel_sums")
def channel_sums(grad, x, mean):
    def alone(n, c, s):  # the kernel checks the others' shapes, also where the second is not asked
        return like(like(grad[(n, c, *s)], x[(n, c, *s)]), mean[c])

    return (
        _over_channel(x, alone),
        _over_channel(x, lambda n, c, s: grad[(n, c, *s)] * (x[(n, c, *s)] - mean[c])),
    )


@spec("smex::channel_combine")
def channel_combine(grad, x, mean, scale, shift, slope):
    def body(n, c, *s):
        centered = x[(n, c, *s)] - mean[c]
        return scale[c] * (grad[(n, c, *s)] - shift[c] - centered * slope[c])

    return body


@spec("aten::native_batch_norm_backward")
def native_batch_norm_backward(
    grad, x, weight, mean, var, save_mean, save_invstd, train, eps, mask
):
    count = _count(x)
    if x.ndim < 2 or count == 0 or (save_mean if train else mean) is None:
        return None
    used = [save_mean, save_invstd] if train else [mean, var]
    shapes = [mean, var] if train else [save_mean, save_invstd]

    def shapes_only(value, c):
        """Returns what the kernel is given and does not need; empty vectors among them."""
        for v in (*used, *shapes, weight):
            if v is not None:
                value = like(value, v[c] if v.shape == x.shape[1:2] else Opaque("shape", v[:]))
        return value

    def invstd(c):
        return save_invstd[c] if train else rsqrt(var[c] + eps)

    def product(n, c, s):
        return grad[(n, c, *s)] * (x[(n, c, *s)] - used[0][c])

    def grad_x(n, c, *s):
        value = grad[(n, c, *s)]
        if train:
            mean_grad = _channel_sum(x, "k", lambda n, s: grad[(n, c, *s)]) / count
            slope = _channel_sum(x, "q", lambda n, s: product(n, c, s)) / count
            centered = x[(n, c, *s)] - used[0][c]
            value = value - mean_grad - centered * slope * invstd(c) * invstd(c)
        value = value * invstd(c) if weight is None else value * invstd(c) * weight[c]
        return like(shapes_only(value, c), x[(n, c, *s)])

    # The sums' indices have the names that they have in the input's gradient.
    def grad_weight(c):
        return _channel_sum(x, "i", lambda n, s: shapes_only(product(n, c, s) * invstd(c), c))

    def grad_bias(c):
        def value(n, s):
            return shapes_only(like(grad[(n, c, *s)], x[(n, c, *s)]), c)

        return _channel_sum(x, "i", value)

    return tuple(
        output if used else None for output, used in zip((grad_x, grad_weight, grad_bias), mask)
    )


@spec("aten::batch_norm_backward")
def batch_norm_backward(
    grad, x, weight, mean, var, save_mean, save_invstd, update, eps, mask, reserve
):
    vectors = (weight, mean, var, save_mean, save_invstd)
    return native_batch_norm_backward(grad, x, *vectors, update, eps, mask)
