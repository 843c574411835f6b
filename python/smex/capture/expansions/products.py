"""Matrix products and convolutions apart from their biases, and each gradient alone."""

from __future__ import annotations

import torch

aten = torch.ops.aten


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


def recurrent_product(a, b, bias):
    """Returns the product, then the bias in every row."""
    return (torch.ops.smex.recurrent_product(a, b, None) + bias,)


def segment_mm(a, b, lengths):
    """Returns the product of each row with the matrix of its segment, whose number it is given."""
    return (torch.ops.smex.gather_mm.default(a, b, _segments(a, lengths)),)


def segment_outer(a, g, lengths):
    """Returns the sums over the rows of each segment, whose numbers rows are given."""
    size = lengths.shape[0]
    return (torch.ops.smex.gather_outer.default(a, g, _segments(a, lengths), size),)


def _segments(rows, lengths):
    """Returns the number of each row's segment."""
    return aten.repeat_interleave.Tensor(lengths.long(), output_size=rows.shape[0])
