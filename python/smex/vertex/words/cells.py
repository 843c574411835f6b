"""The element-wise parts of LSTM cells, as one kernel each (Cavs: fused operators)."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from smex.vertex.words.options import current, is_autocast

__all__ = ["lstm", "tree_lstm"]

TORCH_ORDER = (0, 3, 2, 1)
"""Where i, o, u and f lie among the gates of ``torch.nn.LSTM``, which are i, f, g, o."""


def lstm(gates: Tensor, cell: Tensor) -> tuple[Tensor, Tensor]:
    """Returns an LSTM cell without its matrix products.

    ``c = sigmoid(f) * cell + sigmoid(i) * tanh(g)`` and ``h = sigmoid(o) * tanh(c)``.

    Args:
        gates: ``[rows, 4 * width]``, the blocks i, f, g, o in the order of ``torch.nn.LSTM``.
        cell: ``[rows, width]``.

    Returns:
        h and c, ``[rows, width]`` each; in float32 under autocast. Differentiable once.

    Raises:
        ValueError: the shapes do not fit.
        TypeError: the types differ or are not floating point.

    Example:
        >>> h, c = smex.vertex.lstm(torch.zeros(2, 12), torch.ones(2, 3))
        >>> c[0]
        tensor([0.5000, 0.5000, 0.5000])
    """
    return _cell(gates, [cell], TORCH_ORDER)


def tree_lstm(gates: Tensor, cells: Sequence[Tensor] = ()) -> tuple[Tensor, Tensor]:
    """Returns an N-ary Tree-LSTM cell without its matrix products (Tai et al. 2015, §3.2).

    ``c = sigmoid(i) * tanh(u) + sum over j of sigmoid(f_j) * cells[j]`` and
    ``h = sigmoid(o) * tanh(c)``.

    Args:
        gates: ``[rows, (3 + len(cells)) * width]``, the blocks i, o, u, f_0, f_1, ...
        cells: of the children, ``[rows, width]`` each.

    Returns:
        h and c, ``[rows, width]`` each; in float32 under autocast. Differentiable once.

    Raises:
        ValueError: the shapes do not fit.
        TypeError: the types differ or are not floating point.

    Example:
        >>> h, c = smex.vertex.tree_lstm(torch.zeros(1, 10), [torch.ones(1, 2), torch.ones(1, 2)])
        >>> c
        tensor([[1., 1.]])
    """
    return _cell(gates, list(cells), tuple(range(3 + len(cells))))


def _cell(gates: Tensor, cells: list[Tensor], places: Sequence[int]) -> tuple[Tensor, Tensor]:
    kind = gates.device.type
    # As sums of many terms, in float32; meta tensors have no autocast.
    if is_autocast(kind):
        gates, cells = gates.float(), [cell.float() for cell in cells]
    if current().fuse:
        return torch.ops.smex.tree_lstm(gates, cells, list(places))
    chunks = gates.chunk(len(places), 1)
    i, o, u, *forget = (chunks[place] for place in places)
    c = torch.sigmoid(i) * torch.tanh(u)
    for f, cell in zip(forget, cells):
        c = c + torch.sigmoid(f) * cell
    return torch.sigmoid(o) * torch.tanh(c), c
