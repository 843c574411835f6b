"""Losses by class as calls that can be cut along the classes."""

from __future__ import annotations

import torch

aten = torch.ops.aten

_NONE, _MEAN = 0, 1  # at::Reduction


def _number(value, dtype):
    return aten.full.default([], value, dtype=dtype)


def _one_hot(x, target, ignore_index):
    """`[..., C, ...] == target` at the class dimension; all false where the target is ignored."""
    dim = 0 if x.dim() == 1 else 1
    classes = x.shape[dim]
    index = torch.arange(classes, device=x.device).view(
        [classes if d == dim else 1 for d in range(x.dim())]
    )
    if hasattr(torch.ops.smex, "class_index"):
        target = torch.ops.smex.class_index(target, classes, ignore_index)
    hot = index == target.unsqueeze(dim)
    if 0 <= ignore_index < classes:
        hot = hot & (target != ignore_index).unsqueeze(dim)
    return hot, dim


def _class_weight(x, target, weight, ignore_index):
    """Returns the weight of each target, 0 where it is ignored."""
    valid = target != ignore_index
    if weight is None:
        return valid.to(x.dtype)
    picked = aten.index_select.default(
        weight, 0, torch.where(valid, target, _number(0, target.dtype)).reshape(-1)
    )
    return torch.where(valid, picked.view(target.shape), _number(0.0, weight.dtype))


def nll_loss_forward(x, target, weight, reduction, ignore_index):
    """Returns the loss and the sum of the weights."""
    # Compared class by class instead of gathered, so that the class dimension can be split.
    hot, dim = _one_hot(x, target, ignore_index)
    picked = torch.where(hot, x, _number(0.0, x.dtype)).sum(dim)
    target_weight = _class_weight(x, target, weight, ignore_index)
    loss = -picked if weight is None else -picked * target_weight
    if reduction == _NONE:
        return loss, _number(0.0, x.dtype)
    total_weight = target_weight.sum()
    total = loss.sum()
    return (total / total_weight if reduction == _MEAN else total), total_weight


def nll_loss_backward(grad, x, target, weight, reduction, ignore_index, total_weight):
    """Returns the gradient of the scores."""
    hot, dim = _one_hot(x, target, ignore_index)
    scaled = -(grad / total_weight) if reduction == _MEAN else -grad
    if weight is not None:
        scaled = scaled * _class_weight(x, target, weight, ignore_index)
    if scaled.dim() == target.dim() and target.dim() > 0:
        scaled = scaled.unsqueeze(dim)
    return torch.where(hot, scaled, _number(0.0, x.dtype))
