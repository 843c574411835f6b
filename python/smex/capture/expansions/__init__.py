"""Fused operators written as several calls, each the mathematics only.

`expand(target, args)` gives a function of the op's operands that returns the op's outputs, or
NotImplemented where these shapes do not allow it; None when the call stays as it is. The original
call is kept beside its members as a fusion, and runs wherever the plan does not divide within it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from smex.capture.expansions import (
    class_loss,
    extremes,
    messages,
    norms,
    products,
    scans,
    softmax,
    statistics,
)

Expansion = Callable[..., Any]


def _is_plain_addmm(args):
    return args[3] == 1 and args[4] == 1


def _has_bias(args):
    return args[2] is not None


def _several_masked(args):
    return sum(bool(wanted) for wanted in args[-1]) > 1 or bool(args[-1][2])


def _always(args):
    return True


def _has_elements(args):
    batch, channels, area, groups = (arg for arg in args if type(arg) in (int, torch.SymInt))
    return batch * channels * area * groups > 0


def _trains(args):
    return bool(args[3])


def _nll_loss_gradient(*args):
    return (class_loss.nll_loss_backward(*args),)


_TABLE: dict[str, tuple[Callable[[list[Any]], bool], Expansion]] = {
    "aten::_native_batch_norm_legit.no_stats": (_trains, norms.batch_norm_no_stats),
    "aten::_native_batch_norm_legit_functional": (_always, norms.batch_norm),
    "aten::addmm": (_is_plain_addmm, products.addmm),
    "aten::convolution": (_has_bias, products.convolution),
    "aten::convolution_backward": (_several_masked, products.convolution_backward),
    "aten::native_batch_norm_backward": (_always, norms.native_batch_norm_backward),
    "aten::native_group_norm": (_has_elements, norms.group_norm),
    "aten::native_group_norm_backward": (_has_elements, norms.group_norm_backward),
    "aten::nll_loss2d_backward": (_always, _nll_loss_gradient),
    "aten::nll_loss2d_forward": (_always, class_loss.nll_loss_forward),
    "aten::nll_loss_backward": (_always, _nll_loss_gradient),
    "aten::nll_loss_forward": (_always, class_loss.nll_loss_forward),
    "smex::attention": (_always, messages.attention),
    "smex::edge_softmax": (_always, messages.edge_softmax),
    "smex::edge_softmax_backward": (_always, messages.edge_softmax_backward),
    "smex::gat_attention": (_always, messages.gat_attention),
    "smex::gat_attention_backward": (_always, messages.gat_attention_backward),
    "smex::gat_gradient_by_destination": (_always, messages.gat_gradient_by_destination),
    "smex::gat_gradient_by_source": (_always, messages.gat_gradient_by_source),
    "smex::recurrent_product": (_has_bias, products.recurrent_product),
    "smex::segment_mm": (_always, products.segment_mm),
    "smex::segment_outer": (_always, products.segment_outer),
}

_WHOLE_ROWS: dict[str, Expansion] = {
    "aten::_log_softmax": softmax.log_softmax,
    "aten::_log_softmax_backward_data": softmax.log_softmax_backward,
    "aten::_safe_softmax": softmax.safe_softmax,
    "aten::_softmax": softmax.softmax,
    "aten::_softmax_backward_data": softmax.softmax_backward,
    "aten::argmax": extremes.argmax,
    "aten::argmin": extremes.argmin,
    "aten::cumprod": scans.cumprod,
    "aten::cumsum": scans.cumsum,
    "aten::linalg_vector_norm": statistics.vector_norm,
    "aten::logcumsumexp": scans.logcumsumexp,
    "aten::logsumexp": softmax.logsumexp,
    "aten::max.dim": extremes.max_dim,
    "aten::min.dim": extremes.min_dim,
    "aten::native_layer_norm": norms.native_layer_norm,
    "aten::native_layer_norm_backward": norms.native_layer_norm_backward,
    "aten::std.correction": statistics.std,
    "aten::std_mean.correction": statistics.std_mean,
    "aten::topk": extremes.topk,
    "aten::var.correction": statistics.var,
    "aten::var_mean.correction": statistics.var_mean,
}
"""Operators of whole rows: their members can be cut along the rows too."""

_TABLE.update((target, (_always, expansion)) for target, expansion in _WHOLE_ROWS.items())


def expand(target: str, args: list[Any]) -> Expansion | None:
    """Returns the expansion of a call, or None when it stays one op."""
    entry = _TABLE.get(target)
    return entry[1] if entry and entry[0](args) else None
