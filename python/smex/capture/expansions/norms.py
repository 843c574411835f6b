"""Batch, group and layer norms as sums, statistics and element-wise calls."""

from __future__ import annotations

import math

import torch

from smex.capture.expansions.dtypes import compute_dtype

aten = torch.ops.aten


def native_layer_norm(x, normalized_shape, weight, bias, eps):
    """`y, mean, rstd` by rows: their mean, then the squares about it, which workers add up."""
    count = math.prod(normalized_shape)
    if count == 0 or not hasattr(torch.ops.smex, "row_mean"):
        return NotImplemented
    mean = torch.ops.smex.row_mean(x, len(normalized_shape), count)
    squares = torch.ops.smex.row_squares(x, mean)
    y, rstd = torch.ops.smex.row_normalize(x, mean, squares, weight, bias, count, eps)
    saved = torch.promote_types(x.dtype, _saved_dtype(x, weight, bias))
    return y, mean.to(saved), rstd.to(saved)


def native_layer_norm_backward(grad, x, normalized_shape, mean, rstd, weight, bias, mask):
    """`rstd (dy w - Σ dy w / n - x̂ Σ dy w x̂ / n)`; the sums over rows and over places at once."""
    count = math.prod(normalized_shape)
    if count == 0 or not hasattr(torch.ops.smex, "row_mean"):
        return NotImplemented
    row = torch.ops.smex
    rank = len(normalized_shape)
    sums, by_weight, by_bias = row.row_gradient_sums(grad, x, mean, rstd, rank, weight)
    grad_x = None
    if mask[0]:
        grad_x = row.row_gradient(grad, x, mean, rstd, weight, sums, count)
    if bias is not None:
        by_bias = by_bias.to(bias.dtype)
    return grad_x, by_weight if mask[1] else None, by_bias if mask[2] else None


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
    wide = x.to(compute_dtype(x))
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
    dtype = compute_dtype(x)
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


def _groups(x, groups):
    """`[N, C, ...]` as `[N, groups, C / groups, ...]`."""
    return x.view([x.shape[0], groups, x.shape[1] // groups, *x.shape[2:]])


def _per_group(statistic, x):
    return statistic.view([*statistic.shape, *[1] * (x.dim() - 1)])


def group_norm(x, weight, bias, batch, channels, area, groups, eps):
    """`y, mean, rstd` over the channels of a group and all places."""
    parts = _groups(x.to(compute_dtype(x)), groups)
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
    dtype = compute_dtype(x)
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
