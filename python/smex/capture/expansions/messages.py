"""Attention along the edges of graphs, as values of edges and sums of them.

Cut by vertices, each of these calls needs the rows of what its edges come from only, and so does
graph attention, which then runs in their place. The one call that stands for its gradient would
need rows of sources and of destinations at once; it is one call by sources and one by destinations.
"""

from __future__ import annotations

import torch

ops = torch.ops.smex


def _values(edges, message, operands):
    return ops.sddmm.default(edges, [], message, operands)


def _sums(edges, message, operands):
    return ops.spmm.default(edges, [], message, "sum", operands)


def _weights(edges, score):
    """Returns the exponentials of scores, less their rows' greatest, and these."""
    top = ops.spmm_extremum.default(edges, [], "e0", "max", [score], True, False)[0]
    return _values(edges, "exp(e0 - v1)", [score, top]), top


def _like_rows(x):
    """Returns numbers of edges or vertices as a column beside features."""
    return x.unsqueeze(-1)


def _mean(edges, score, value):
    """The mean of the sources' values, and the logarithm of the sum of its weights."""
    weight, top = _weights(edges, score)
    total = _sums(edges, "e0", [weight])
    out = _sums(edges, "u0 * e1", [value, _like_rows(weight)])
    # The greatest of a row weighs 1: less than that only rows without edges have.
    return out / _like_rows(total.clamp_min(1)), total.log() + top


def edge_softmax(edges, score):
    """`exp(score - max) / Σ exp(score - max)` over the edges of each row."""
    weight, _ = _weights(edges, score)
    return (_values(edges, "e0 / v1", [weight, _sums(edges, "e0", [weight])]),)


def edge_softmax_backward(edges, out, grad):
    """`out (grad - Σ grad out)`."""
    total = _sums(edges, "e0 * e1", [out, grad])
    return (_values(edges, "e0 * (e1 - v2)", [out, grad, total]),)


def gat_attention(in_edges, out_edges, left, right, value, slope):
    """The mean of the sources' values, weighted by the softmax of `leaky_relu(left + right)`."""
    score = _values(in_edges, f"leaky_relu(u0 + v1, {slope!r})", [left, right])
    return _mean(in_edges, score, value)


def gat_attention_backward(in_edges, out_edges, left, right, value, out, log_sum, grad, slope):
    """Gradients of `left`, `right` and `value`; what edges have is computed again, on both ends."""
    numbers = (left, right, value, log_sum, (out * grad).sum(-1), grad)
    of_left, of_value = ops.gat_gradient_by_source.default(out_edges, *numbers, slope)
    return of_left, ops.gat_gradient_by_destination.default(in_edges, *numbers, slope), of_value


def gat_gradient_by_source(out_edges, left, right, value, log_sum, change, grad, slope):
    """Gradients of `left` and `value`."""
    numbers = (left, right, value, log_sum, change, grad, slope)
    share, of_left = _of_edges(out_edges, "v", "u", *numbers)
    of_value = _sums(out_edges, "u0 * e1", [grad, _like_rows(share)])
    return _sums(out_edges, "e0", [of_left]), of_value


def gat_gradient_by_destination(in_edges, left, right, value, log_sum, change, grad, slope):
    """The gradient of `right`."""
    numbers = (left, right, value, log_sum, change, grad, slope)
    _, of_right = _of_edges(in_edges, "u", "v", *numbers)
    return (_sums(in_edges, "e0", [of_right]),)


def _of_edges(edges, source, row, left, right, value, log_sum, change, grad, slope):
    """Weights, and gradients of the scores, of edges whose ends go by these letters."""
    score = f"leaky_relu({source}0 + {row}1, {slope!r})"
    dtype = left.dtype
    share = _values(edges, f"exp({score} - {row}2)", [left, right, log_sum.to(dtype)])
    product = _values(edges, f"sum_last({source}0 * {row}1)", [value, grad]).squeeze(-1)
    step = f"leaky_step({source}3 + {row}4, {slope!r})"
    operands = [share, product, change.to(dtype), left, right]
    return share, _values(edges, f"e0 * (e1 - {row}2) * {step}", operands)


def attention(in_edges, out_edges, score, operands, value):
    """The mean of the sources' values, weighted by the softmax of a formula."""
    scores = _values(in_edges, score, operands)
    if scores.dim() == 3:
        scores = scores.squeeze(-1)
    return (_mean(in_edges, scores, value)[0],)
