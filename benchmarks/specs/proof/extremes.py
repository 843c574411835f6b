"""Calls drawn with a seed, whose shapes and windows OpInfo's samples do not have."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

Drawn = tuple[Callable[..., Any], tuple[Any, ...], dict[str, Any]]
"""A function with its arguments."""


class _Draw:
    """Random numbers, sizes and tensors."""

    def __init__(self, seed: int):
        self._generator = torch.Generator().manual_seed(seed)

    def integer(self, low: int, high: int) -> int:
        """From `low` to `high`, both possible."""
        return int(torch.randint(low, high + 1, (), generator=self._generator))

    def integers(self, count: int, low: int, high: int) -> list[int]:
        """Several."""
        return [self.integer(low, high) for _ in range(count)]

    def one_of(self, *choices: Any) -> Any:
        """Any of the arguments."""
        return choices[self.integer(0, len(choices) - 1)]

    def sizes(self, count: int) -> list[int]:
        """Nothing, one, and odd sizes."""
        return [self.one_of(0, 1, 1, 2, 3, 5, 7) for _ in range(count)]

    def tensor(self, *shape: int) -> Tensor:
        """Numbers of both signs."""
        numbers = torch.randn(shape, generator=self._generator, dtype=torch.float64)
        return numbers.requires_grad_()

    def indices(self, high: int, *shape: int) -> Tensor:
        """Indices below `high`."""
        return torch.randint(max(high, 1), shape, generator=self._generator)


def extremes(seed: int) -> Iterator[Drawn]:
    """Functions with arguments, one of each kind; some of them torch refuses."""
    draw = _Draw(seed)
    for dims in (1, 2, 3):
        yield _convolution(draw, dims)
        yield _transposed_convolution(draw, dims)
        yield _max_pool(draw, dims)
        yield _average_pool(draw, dims)
        yield _adaptive_pool(draw, dims)
        yield _pad(draw, dims)
    yield _im2col(draw)
    yield _col2im(draw)
    yield _unfold(draw)
    yield _slice(draw)
    yield from _plain(draw)


def _image(draw: _Draw, dims: int, channels: int, low: int = 1, high: int = 9) -> Tensor:
    return draw.tensor(draw.integer(1, 3), channels, *draw.integers(dims, low, high))


def _convolution(draw: _Draw, dims: int) -> Drawn:
    groups = draw.one_of(1, 1, 2, 3)
    channels, filters = groups * draw.integer(1, 2), groups * draw.integer(1, 2)
    kernel = draw.integers(dims, 1, 4)
    weight = draw.tensor(filters, channels // groups, *kernel)
    bias = draw.one_of(None, draw.tensor(filters))
    options = {
        "stride": draw.integers(dims, 1, 5),
        "padding": draw.integers(dims, 0, 5),
        "dilation": draw.integers(dims, 1, 3),
        "groups": groups,
    }
    convolution = (F.conv1d, F.conv2d, F.conv3d)[dims - 1]
    return convolution, (_image(draw, dims, channels), weight, bias), options


def _transposed_convolution(draw: _Draw, dims: int) -> Drawn:
    groups = draw.one_of(1, 1, 2)
    channels, filters = groups * draw.integer(1, 2), groups * draw.integer(1, 2)
    stride = draw.integers(dims, 1, 4)
    weight = draw.tensor(channels, filters // groups, *draw.integers(dims, 1, 4))
    options = {
        "stride": stride,
        "padding": draw.integers(dims, 0, 2),
        "output_padding": [draw.integer(0, step - 1) for step in stride],
        "dilation": draw.integers(dims, 1, 2),
        "groups": groups,
    }
    convolution = (F.conv_transpose1d, F.conv_transpose2d, F.conv_transpose3d)[dims - 1]
    return convolution, (_image(draw, dims, channels, high=5), weight), options


def _max_pool(draw: _Draw, dims: int) -> Drawn:
    kernel = draw.integers(dims, 1, 4)
    options = {
        "stride": draw.integers(dims, 1, 5),
        "padding": [draw.integer(0, size // 2) for size in kernel],
        "dilation": draw.integers(dims, 1, 2),
        "ceil_mode": draw.one_of(False, True),
    }
    pool = (F.max_pool1d, F.max_pool2d, F.max_pool3d)[dims - 1]
    return pool, (_image(draw, dims, 2), kernel), options


def _average_pool(draw: _Draw, dims: int) -> Drawn:
    kernel = draw.integers(dims, 1, 4)
    options: dict[str, Any] = {
        "stride": draw.integers(dims, 1, 5),
        "padding": [draw.integer(0, size // 2) for size in kernel],
        "ceil_mode": draw.one_of(False, True),
        "count_include_pad": draw.one_of(False, True),
    }
    if dims > 1:
        options["divisor_override"] = draw.one_of(None, 3)
    pool = (F.avg_pool1d, F.avg_pool2d, F.avg_pool3d)[dims - 1]
    return pool, (_image(draw, dims, 2), kernel), options


def _adaptive_pool(draw: _Draw, dims: int) -> Drawn:
    average = (F.adaptive_avg_pool1d, F.adaptive_avg_pool2d, F.adaptive_avg_pool3d)
    largest = (F.adaptive_max_pool1d, F.adaptive_max_pool2d, F.adaptive_max_pool3d)
    pool = draw.one_of(average, largest)[dims - 1]
    return pool, (_image(draw, dims, 2), draw.integers(dims, 1, 11)), {}


def _pad(draw: _Draw, dims: int) -> Drawn:
    mode = draw.one_of("constant", "constant", "reflect", "replicate", "circular")
    least = -2 if mode == "constant" else 0
    return F.pad, (_image(draw, dims, 2, low=3), draw.integers(2 * dims, least, 4), mode), {}


def _windows(draw: _Draw) -> dict[str, Any]:
    return {
        "dilation": draw.integers(2, 1, 3),
        "padding": draw.integers(2, 0, 3),
        "stride": draw.integers(2, 1, 4),
    }


def _im2col(draw: _Draw) -> Drawn:
    return F.unfold, (_image(draw, 2, 2), draw.integers(2, 1, 3)), _windows(draw)


def _col2im(draw: _Draw) -> Drawn:
    size, kernel, windows = draw.integers(2, 1, 7), draw.integers(2, 1, 3), _windows(draw)
    counts = [
        (n + 2 * pad - dilation * (k - 1) - 1) // stride + 1
        for n, k, dilation, pad, stride in zip(size, kernel, *windows.values())
    ]
    columns = draw.tensor(2, 3 * kernel[0] * kernel[1], max(counts[0], 0) * max(counts[1], 0))
    return F.fold, (columns, size, kernel), windows


def _unfold(draw: _Draw) -> Drawn:
    x = draw.tensor(3, draw.integer(1, 9), 2)
    return Tensor.unfold, (x, 1, draw.integer(1, 4), draw.integer(1, 5)), {}


def _slice(draw: _Draw) -> Drawn:
    x = draw.tensor(2, draw.integer(0, 11), 3)
    bounds = slice(draw.integer(-9, 9), draw.integer(-9, 9), draw.integer(1, 4))
    return lambda x: x[:, bounds].clone(), (x,), {}


def _plain(draw: _Draw) -> Iterator[Drawn]:
    """Operators without windows, on tensors with nothing in them and with sizes of 1."""
    a, b, c = draw.sizes(3)
    x, y = draw.tensor(a, b, c), draw.tensor(draw.one_of(1, a), b, draw.one_of(1, c))
    dim = draw.integer(-3, 2)
    keepdim = draw.one_of(False, True)
    yield torch.mul, (x, y), {}
    yield torch.where, (x > 0, x, y), {}
    for reduction in (torch.sum, torch.mean, torch.logsumexp, torch.prod, torch.amax):
        yield reduction, (x, dim), {"keepdim": keepdim}
    for along in (torch.softmax, torch.log_softmax, torch.cumsum, torch.sort, torch.flip):
        yield along, (x, [dim] if along is torch.flip else dim), {}
    yield torch.var, (x, dim), {"correction": draw.integer(0, 2), "keepdim": keepdim}
    yield torch.roll, (x, draw.integer(-9, 9), dim), {}
    yield torch.matmul, (x, draw.tensor(a, c, draw.one_of(0, 1, 4))), {}
    yield F.linear, (x, draw.tensor(draw.one_of(0, 1, 4), c), None), {}
    others = [x.shape[d] if d != dim % 3 else draw.integer(0, 4) for d in range(3)]
    yield torch.cat, ([x, draw.tensor(*others), x], dim), {}
    yield torch.tile, (x, draw.integers(3, 0, 3)), {}
    yield torch.gather, (x, dim, draw.indices(x.shape[dim], *others)), {}
    yield torch.index_select, (x, dim, draw.indices(x.shape[dim], draw.integer(0, 4))), {}
    yield F.embedding, (draw.indices(max(a, 1), b, c), draw.tensor(max(a, 1), 3)), {}
    yield F.layer_norm, (x, [c], draw.tensor(c), draw.tensor(c)), {}
    yield torch.tril, (x, draw.integer(-4, 4)), {}
    yield torch.reshape, (x, [a * b, c]), {}
    yield torch.permute, (x, draw.one_of([2, 0, 1], [1, 0, 2], [2, 1, 0])), {}
    yield torch.stack, ([x, x], dim), {}
    yield torch.topk, (x, min(1, x.shape[dim]), dim), {}
