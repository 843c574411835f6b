"""Operators that are replaced while a model is traced."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch
from torch._decomp import get_decompositions

from smex.capture.expansions.class_loss import nll_loss_backward, nll_loss_forward
from smex.capture.random_ops import random_table

aten = torch.ops.aten

_MEAN = 1  # at::Reduction


def decomposition_table() -> dict[Any, Callable]:
    """Returns the decompositions under which every model is traced."""
    import torch._dynamo._trace_wrapped_higher_order_op  # which has operators of flex_attention

    table: dict[Any, Callable] = dict(
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
    table.update(_creation_table())
    table.update(random_table())
    table.update(
        {
            aten._convolution.default: _convolution,
            aten._convolution.deprecated: _convolution,
            aten.allclose.default: _allclose,
            aten.mean.default: _mean,
            aten.mean.dim: _mean_dim,
            aten.nll_loss2d_backward.default: _nll_loss_backward,
            aten.nll_loss2d_forward.default: _nll_loss_forward,
            aten.nll_loss_backward.default: _nll_loss_backward,
            aten.nll_loss_forward.default: _nll_loss_forward,
            aten.split.Tensor: _split,
            aten.split_with_sizes.default: _split_with_sizes,
            aten.unbind.int: _unbind,
        }
    )
    if hasattr(torch.ops.flex_lib, "zeros_and_scatter"):
        table[torch.ops.flex_lib.zeros_and_scatter.default] = _zeros_and_scatter
    if hasattr(torch.ops.smex, "max_pool2d_backward"):  # the native library is loaded
        table[aten._scaled_dot_product_flash_attention_for_cpu.default] = _attention
        table[aten._scaled_dot_product_flash_attention_for_cpu_backward.default] = (
            _attention_backward
        )
        # The gradient finds the maxima again: positions in the plane mean nothing in a tile of it.
        table[aten.max_pool2d_with_indices_backward.default] = _max_pool2d_backward
    return table


def _creation_table() -> dict[Any, Callable]:
    """Every filled tensor as one `aten::full`, which depends on no other tensor."""

    def full(shape, value, dtype):
        return aten.full.default(shape, value, dtype=dtype or torch.get_default_dtype())

    def fresh(value):
        return lambda shape, dtype=None, **_: full(shape, value, dtype)

    def like(value):
        return lambda x, dtype=None, **_: full(list(x.shape), value, dtype or x.dtype)

    def new(value):
        return lambda x, shape, dtype=None, **_: full(shape, value, dtype or x.dtype)

    return {
        aten.empty.memory_format: fresh(0),
        aten.empty_like.default: like(0),
        aten.full_like.default: lambda x, value, dtype=None, **_: full(
            list(x.shape), value, dtype or x.dtype
        ),
        aten.new_empty.default: new(0),
        aten.new_full.default: lambda x, shape, value, dtype=None, **_: full(
            shape, value, dtype or x.dtype
        ),
        aten.new_ones.default: new(1),
        aten.new_zeros.default: new(0),
        aten.ones.default: fresh(1),
        aten.ones_like.default: like(1),
        aten.scalar_tensor.default: lambda value, dtype=None, **_: full([], value, dtype),
        aten.zeros.default: fresh(0),
        aten.zeros_like.default: like(0),
    }


def _zeros_and_scatter(shape, indices, values):
    """The gradient of what functions given to `flex_attention` read at their indices."""
    zeros = aten.full.default(list(shape), 0, dtype=values.dtype)
    return aten.index_put.default(zeros, indices, values, True)


def _allclose(*args, **kwargs):
    """True in gradients: formulas ask whether they are well-defined, which no graph can answer."""
    if torch._C._current_autograd_node() is None:
        return NotImplemented
    return True


def _mean(x, dtype=None):
    return aten.sum.default(x, dtype=dtype) / x.numel()


def _mean_dim(x, dim, keepdim=False, dtype=None):
    dims = list(range(x.dim())) if not dim else list(dim)
    count = math.prod(x.shape[d] for d in dims)
    return aten.sum.dim_IntList(x, dims, keepdim, dtype=dtype) / count


def _convolution(x, weight, bias, *geometry, **_):
    # Traced modules call this form, with flags about backends after the nine arguments.
    return aten.convolution.default(x, weight, bias, *geometry[:6])


def _max_pool2d_backward(grad, x, kernel, stride, padding, dilation, ceil_mode, indices):
    return torch.ops.smex.max_pool2d_backward(grad, x, kernel, stride, padding, dilation, ceil_mode)


def _by_key_head(x, key):
    """Returns rows of queries with a dimension for the heads that share one of the keys."""
    return x if x.shape[1] == key.shape[1] else x.unflatten(1, (key.shape[1], -1))


def _mask_by_key_head(mask, query, key):
    if mask is None or mask.dim() < 3 or query.shape[1] == key.shape[1]:
        return mask
    if mask.shape[-3] == 1:
        return mask.unsqueeze(-3)
    return mask.unflatten(-3, (key.shape[1], -1))


def _attention(query, key, value, dropout=0.0, causal=False, attn_mask=None, scale=None):
    if dropout:
        return NotImplemented
    output, logsumexp = torch.ops.smex.scaled_dot_product(
        _by_key_head(query, key),
        key,
        value,
        _mask_by_key_head(attn_mask, query, key),
        causal,
        scale,
        [],
        [],
    )
    return output.reshape(query.shape), logsumexp.reshape(query.shape[:3])


def _attention_backward(
    grad, query, key, value, output, logsumexp, dropout, causal, attn_mask=None, scale=None
):
    grad_query, grad_key, grad_value, _ = torch.ops.smex.scaled_dot_product_backward(
        _by_key_head(grad, key),
        _by_key_head(query, key),
        key,
        value,
        _by_key_head(output, key),
        _by_key_head(logsumexp, key),
        _mask_by_key_head(attn_mask, query, key),
        causal,
        scale,
        [],
        [],
    )
    return grad_query.reshape(query.shape), grad_key, grad_value


def _nll_loss_forward(x, target, weight, reduction, ignore_index):
    if reduction == _MEAN:  # an expansion, so that the call itself may run
        return NotImplemented
    return nll_loss_forward(x, target, weight, reduction, ignore_index)


def _nll_loss_backward(grad, x, target, weight, reduction, ignore_index, total_weight):
    if reduction == _MEAN:
        return NotImplemented
    return nll_loss_backward(grad, x, target, weight, reduction, ignore_index, total_weight)


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
