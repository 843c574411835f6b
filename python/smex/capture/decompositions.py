"""Operators that are replaced while a model is traced."""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch._decomp import get_decompositions

from smex.capture.random_ops import ensure_dropout_mask

aten = torch.ops.aten


def _mask(like: torch.Tensor, p: float) -> torch.Tensor:
    """A scaled keep mask; seed and stream are filled in once the graph is complete."""
    return ensure_dropout_mask()(like, p, 0, 0, [0] * like.dim(), list(like.shape))


def decomposition_table() -> dict[torch._ops.OpOverload, Callable]:
    """The decompositions under which every model is traced."""
    table = dict(
        get_decompositions(
            [
                aten.binary_cross_entropy_with_logits,
                aten.huber_loss,
                aten.huber_loss_backward,
                aten.mse_loss,
                aten.mse_loss_backward,
                aten.smooth_l1_loss,
                aten.smooth_l1_loss_backward,
            ]
        )
    )
    table.update(
        {
            aten.bernoulli.p: _bernoulli_p,
            aten.mean.default: _mean,
            aten.mean.dim: _mean_dim,
            aten.native_dropout.default: _native_dropout,
            aten.native_dropout_backward.default: _native_dropout_backward,
            aten.nll_loss2d_backward.default: _nll_loss_backward,
            aten.nll_loss2d_forward.default: _nll_loss_forward,
            aten.nll_loss_backward.default: _nll_loss_backward,
            aten.nll_loss_forward.default: _nll_loss_forward,
            aten.split.Tensor: _split,
            aten.split_with_sizes.default: _split_with_sizes,
            aten.unbind.int: _unbind,
        }
    )
    return table


def _mean(x, dtype=None):
    return aten.sum.default(x, dtype=dtype) / x.numel()


def _mean_dim(x, dim, keepdim=False, dtype=None):
    dims = list(range(x.dim())) if not dim else list(dim)
    count = math.prod(x.shape[d] for d in dims)
    return aten.sum.dim_IntList(x, dims, keepdim, dtype=dtype) / count


def _native_dropout(x, p, train):
    if not train or p == 0:
        return x.clone(), torch.ones_like(x)
    mask = _mask(x, p)
    return x * mask, mask


def _bernoulli_p(x, p=0.5, generator=None):
    return (_mask(x, 1 - p) != 0).to(x.dtype)


def _native_dropout_backward(grad, mask, scale):
    # The mask of `_native_dropout` is scaled already.
    return grad * mask


def _one_hot(x, target, ignore_index):
    """`[..., C, ...] == target` at the class dimension; all false where the target is ignored."""
    dim = 0 if x.dim() == 1 else 1
    classes = x.shape[dim]
    index = torch.arange(classes, device=x.device).view(
        [classes if d == dim else 1 for d in range(x.dim())]
    )
    hot = index == target.unsqueeze(dim)
    if 0 <= ignore_index < classes:
        hot = hot & (target != ignore_index).unsqueeze(dim)
    return hot, dim


def _class_weight(x, target, weight, ignore_index):
    """The weight of each target, 0 where it is ignored."""
    valid = target != ignore_index
    if weight is None:
        return valid.to(x.dtype)
    picked = aten.index_select.default(weight, 0, torch.where(valid, target, 0).reshape(-1))
    return torch.where(valid, picked.view(target.shape), 0.0)


def _nll_loss_forward(x, target, weight, reduction, ignore_index):
    # Compared class by class instead of gathered, so that the class dimension can be split.
    hot, dim = _one_hot(x, target, ignore_index)
    picked = torch.where(hot, x, 0.0).sum(dim)
    target_weight = _class_weight(x, target, weight, ignore_index)
    loss = -picked if weight is None else -picked * target_weight
    if reduction == 0 and x.dim() > 1:
        return loss, x.new_zeros(())
    total_weight = target_weight.sum()
    if reduction == 2 or x.dim() == 1:
        return loss.sum(), total_weight
    return loss.sum() / total_weight, total_weight


def _nll_loss_backward(grad, x, target, weight, reduction, ignore_index, total_weight):
    hot, dim = _one_hot(x, target, ignore_index)
    scaled = -(grad / total_weight) if reduction == 1 else -grad
    if weight is not None:
        scaled = scaled * _class_weight(x, target, weight, ignore_index)
    if scaled.dim() == target.dim() and target.dim() > 0:
        scaled = scaled.unsqueeze(dim)
    return torch.where(hot, scaled, 0.0)


def _split(x, split_size, dim=0):
    size = x.shape[dim]
    if size == 0:
        return [x.clone()]
    return [
        aten.slice.Tensor(x, dim, start, min(start + split_size, size))
        for start in range(0, size, split_size)
    ]


def _split_with_sizes(x, split_sizes, dim=0):
    pieces, start = [], 0
    for size in split_sizes:
        pieces.append(aten.slice.Tensor(x, dim, start, start + size))
        start += size
    return pieces


def _unbind(x, dim=0):
    return [aten.select.int(x, dim, i) for i in range(x.shape[dim])]
