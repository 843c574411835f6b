"""Fused operators written as several calls, each the mathematics only.

`expand(target, args)` gives a function of the op's tensor operands that returns the op's outputs,
or None when the call stays as it is. The original call is kept beside its members as a fusion.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch

from smex.capture.class_loss import nll_loss_backward, nll_loss_forward

aten = torch.ops.aten

Expansion = Callable[..., tuple]


def addmm(bias, a, b, beta, alpha):
    """`a @ b`, then the broadcast bias."""
    return (torch.mm(a, b) + bias,)


def convolution(x, weight, bias, *geometry):
    """Returns the convolution without bias, then the bias as `[1, C, 1, 1]`."""
    y = aten.convolution.default(x, weight, None, *geometry)
    return (y + bias.view([1, bias.shape[0]] + [1] * (y.dim() - 2)),)


def convolution_backward(grad, x, weight, bias_sizes, *rest):
    """Returns one call for each wanted gradient; the bias's is a plain sum."""
    *geometry, mask = rest
    results: list[torch.Tensor | None] = [None, None, None]
    for i in range(2):
        if mask[i]:
            one_hot = [i == 0, i == 1, False]
            results[i] = aten.convolution_backward.default(
                grad, x, weight, None, *geometry, one_hot
            )[i]
    if mask[2]:
        results[2] = grad.sum([0, *range(2, grad.dim())])
    return tuple(results)


def native_layer_norm_backward(grad, x, normalized_shape, mean, rstd, weight, bias, mask):
    """The input's gradient and the affine ones apart: they reduce over different dimensions."""
    args = (grad, x, normalized_shape, mean, rstd, weight, bias)
    results: list[torch.Tensor | None] = [None, None, None]
    if mask[0]:
        results[0] = aten.native_layer_norm_backward.default(*args, [True, False, False])[0]
    if mask[1] or mask[2]:
        affine = aten.native_layer_norm_backward.default(*args, [False, mask[1], mask[2]])
        results[1:] = affine[1:]
    return tuple(r if wanted else None for r, wanted in zip(results, mask, strict=True))


def _compute_dtype(x):
    return torch.float32 if x.dtype in (torch.float16, torch.bfloat16) else x.dtype


def _saved_dtype(x, weight, running_mean):
    """Returns the dtype in which ATen keeps the batch's statistics."""
    affine = weight if weight is not None else running_mean
    return x.dtype if affine is None else affine.dtype


def _per_channel(vector, x):
    return vector.view([1, x.shape[1]] + [1] * (x.dim() - 2)) if x.dim() != 2 else vector


def _centered_square_sum(x, mean):
    if hasattr(torch.ops.smex, "centered_square_sum"):
        return torch.ops.smex.centered_square_sum(x, mean)
    centered = x - _per_channel(mean, x)
    return (centered * centered).sum([0, *range(2, x.dim())])


def _channel_sums(grad, x, mean):
    if hasattr(torch.ops.smex, "channel_sums"):
        return torch.ops.smex.channel_sums(grad, x, mean)
    dims = [0, *range(2, x.dim())]
    return grad.sum(dims), (grad * (x - _per_channel(mean, x))).sum(dims)


def _channel_combine(grad, x, mean, scale, shift, slope):
    if hasattr(torch.ops.smex, "channel_combine"):
        return torch.ops.smex.channel_combine(grad, x, mean, scale, shift, slope)
    centered = x - _per_channel(mean, x)
    shifted = grad - _per_channel(shift, x) - centered * _per_channel(slope, x)
    return shifted * _per_channel(scale, x)


def batch_norm(x, weight, bias, running_mean, running_var, training, momentum, eps):
    """`y, mean, rstd, new running mean, new running variance` over all dimensions but 1."""
    wide = x.to(_compute_dtype(x))
    dims = [0, *range(2, x.dim())]
    count = math.prod(x.shape[d] for d in dims)
    new_mean, new_var = running_mean, running_var
    saved: tuple[torch.Tensor | None, torch.Tensor | None]
    if training:
        mean = wide.sum(dims) / count
        var = _centered_square_sum(wide, mean) / count
        if running_mean is not None:
            new_mean = running_mean * (1 - momentum) + mean.to(running_mean.dtype) * momentum
            unbiased = var * (count / max(count - 1, 1))
            new_var = running_var * (1 - momentum) + unbiased.to(running_var.dtype) * momentum
        saved_dtype = _saved_dtype(x, weight, running_mean)
        saved = (mean.to(saved_dtype), torch.rsqrt(var + eps).to(saved_dtype))
    else:
        mean, var = running_mean.to(wide.dtype), running_var.to(wide.dtype)
        saved = (None, None)
    affine = [None if v is None else v.to(wide.dtype) for v in (weight, bias)]
    with_statistics = aten._native_batch_norm_legit_no_training.default
    y = with_statistics(wide, *affine, mean, var, 0.0, eps)[0]
    return (y.to(x.dtype), *saved, new_mean, new_var)


def batch_norm_no_stats(x, weight, bias, training, momentum, eps):
    """Without running statistics."""
    return batch_norm(x, weight, bias, None, None, training, momentum, eps)[:3]


def native_batch_norm_backward(
    grad, x, weight, running_mean, running_var, save_mean, save_rstd, training, eps, mask
):
    """`dx = w rstd (dy - Σdy/n - (x - mean) rstd² Σdy(x - mean)/n)`; the means only if training."""
    dtype = _compute_dtype(x)
    wide, dy = x.to(dtype), grad.to(dtype)
    dims = [0, *range(2, x.dim())]
    count = math.prod(x.shape[d] for d in dims)
    if training:
        mean, rstd = save_mean.to(dtype), save_rstd.to(dtype)
    else:
        mean, rstd = running_mean.to(dtype), torch.rsqrt(running_var.to(dtype) + eps)
    sum_dy, sum_dy_centered = _channel_sums(dy, wide, mean)
    grad_x = None
    if mask[0]:
        scale = rstd if weight is None else rstd * weight.to(dtype)
        if training:
            slope = sum_dy_centered * rstd * rstd / count
            grad_x = _channel_combine(dy, wide, mean, scale, sum_dy / count, slope)
        else:
            grad_x = dy * _per_channel(scale, x)
        grad_x = grad_x.to(x.dtype)
    affine_dtype = x.dtype if weight is None else weight.dtype
    grad_weight = (sum_dy_centered * rstd).to(affine_dtype) if mask[1] else None
    grad_bias = sum_dy.to(affine_dtype) if mask[2] else None
    return grad_x, grad_weight, grad_bias


def nll_loss_gradient(*args):
    """Returns the gradient of the scores."""
    return (nll_loss_backward(*args),)


def _groups(x, groups):
    """`[N, C, ...]` as `[N, groups, C / groups, ...]`."""
    return x.view([x.shape[0], groups, x.shape[1] // groups, *x.shape[2:]])


def _per_group(statistic, x):
    return statistic.view([*statistic.shape, *[1] * (x.dim() - 1)])


def group_norm(x, weight, bias, batch, channels, area, groups, eps):
    """`y, mean, rstd` over the channels of a group and all places."""
    parts = _groups(x.to(_compute_dtype(x)), groups)
    dims = list(range(2, parts.dim()))
    count = math.prod(parts.shape[d] for d in dims)
    mean = parts.sum(dims) / count
    centered = parts - _per_group(mean, x)
    rstd = torch.rsqrt((centered * centered).sum(dims) / count + eps)
    y = (centered * _per_group(rstd, x)).view(x.shape)
    if weight is not None:
        y = y * _per_channel(weight.to(y.dtype), x)
    if bias is not None:
        y = y + _per_channel(bias.to(y.dtype), x)
    saved = _saved_dtype(x, weight, None)
    return y.to(x.dtype), mean.to(saved), rstd.to(saved)


def group_norm_backward(grad, x, mean, rstd, weight, batch, channels, area, groups, mask):
    """Returns the input's gradient and the affine ones apart, and then each alone."""
    args = (grad, x, mean, rstd, weight, batch, channels, area, groups)
    if mask[0] and (mask[1] or mask[2]):
        call = aten.native_group_norm_backward.default
        affine = call(*args, [False, mask[1], mask[2]])
        return (call(*args, [True, False, False])[0], *affine[1:])
    dtype = _compute_dtype(x)
    dy = grad.to(dtype)
    per_group_mean, per_group_rstd = _per_group(mean.to(dtype), x), _per_group(rstd.to(dtype), x)
    normalized = (_groups(x.to(dtype), groups) - per_group_mean) * per_group_rstd
    if mask[0]:
        scaled = dy if weight is None else dy * _per_channel(weight.to(dtype), x)
        scaled = _groups(scaled, groups)
        dims = list(range(2, scaled.dim()))
        count = math.prod(scaled.shape[d] for d in dims)
        total = _per_group(scaled.sum(dims) / count, x)
        projection = _per_group((scaled * normalized).sum(dims) / count, x)
        grad_x = per_group_rstd * (scaled - total - normalized * projection)
        return grad_x.view(x.shape).to(x.dtype), None, None
    affine_dtype = x.dtype if weight is None else weight.dtype
    dims = [0, *range(2, x.dim())]
    grad_weight = (dy * normalized.view(x.shape)).sum(dims).to(affine_dtype) if mask[1] else None
    return None, grad_weight, dy.sum(dims).to(affine_dtype) if mask[2] else None


def _is_plain_addmm(args):
    return args[3] == 1 and args[4] == 1


def _has_bias(args):
    return args[2] is not None


def _several_masked(args):
    return sum(bool(wanted) for wanted in args[-1]) > 1 or bool(args[-1][2])


def _input_and_affine(args):
    return bool(args[-1][0]) and (bool(args[-1][1]) or bool(args[-1][2]))


def _always(args):
    return True


def _has_elements(args):
    batch, channels, area, groups = (arg for arg in args if type(arg) is int)
    return batch * channels * area * groups > 0


def _trains(args):
    return bool(args[3])


_EXPANSIONS: dict[str, tuple[Callable[[list[Any]], bool], Expansion]] = {
    "aten::_native_batch_norm_legit.no_stats": (_trains, batch_norm_no_stats),
    "aten::_native_batch_norm_legit_functional": (_always, batch_norm),
    "aten::addmm": (_is_plain_addmm, addmm),
    "aten::convolution": (_has_bias, convolution),
    "aten::convolution_backward": (_several_masked, convolution_backward),
    "aten::native_batch_norm_backward": (_always, native_batch_norm_backward),
    "aten::native_group_norm": (_has_elements, group_norm),
    "aten::native_group_norm_backward": (_has_elements, group_norm_backward),
    "aten::native_layer_norm_backward": (_input_and_affine, native_layer_norm_backward),
    "aten::nll_loss2d_backward": (_always, nll_loss_gradient),
    "aten::nll_loss2d_forward": (_always, nll_loss_forward),
    "aten::nll_loss_backward": (_always, nll_loss_gradient),
    "aten::nll_loss_forward": (_always, nll_loss_forward),
}


def expand(target: str, args: list[Any]) -> Expansion | None:
    """Returns the expansion of a call, or None when it stays one op."""
    entry = _EXPANSIONS.get(target)
    return entry[1] if entry and entry[0](args) else None
