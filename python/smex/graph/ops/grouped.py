r"""Matrix products of groups of rows, each with a matrix of its own.

Two operators, each the other's derivative, so that they can be differentiated any number of times:
for rows in the groups :math:`s(i)`

.. math:: y_i = a_i B_{s(i)} \quad (``smex::segment_mm``), \qquad
          G_s = \sum_{i: s(i) = s} a_i^T g_i \quad (``smex::segment_outer``).

To ``torch.compile`` they are single calls: how many rows a group has is read while they run, and
may change from call to call.
"""

from __future__ import annotations

import torch
from torch import Tensor

from smex.errors import SmexValueError
from smex.graph.words import check_range, counted, describe


def segment_mm(a: Tensor, b: Tensor, seglen_a: Tensor) -> Tensor:
    """Multiplies each segment of rows of ``a`` by its own matrix of ``b``.

    Args:
        a: ``[num_rows, k]``.
        b: ``[num_segments, k, n]``.
        seglen_a: ``[num_segments]`` numbers of rows, which add up to ``num_rows``.

    Returns:
        ``[num_rows, n]``.

    Raises:
        SmexValueError: rows and matrices do not fit, there are not as many lengths as matrices, or
            they do not add up.

    Example:
        >>> a, b = torch.ones(3, 2), torch.tensor([[[1.0], [1.0]], [[2.0], [2.0]]])
        >>> sg.ops.segment_mm(a, b, torch.tensor([1, 2]))
        tensor([[2.],
                [4.],
                [4.]])
    """
    a, b = _autocast(a), _autocast(b)
    if a.dim() != 2 or b.dim() != 3 or a.shape[1] != b.shape[1] or a.dtype != b.dtype:
        raise SmexValueError(
            "segment_mm: expected rows [num_rows, k] and matrices [num_segments, k, n] of one "
            f"dtype, found {describe(a)} and {describe(b)}"
        )
    if is_traced(seglen_a):
        return torch.ops.smex.segment_mm.default(a, b, seglen_a)
    try:
        return torch.ops.smex.segment_mm.default(a, b, seglen_a)
    except ValueError as error:  # of the lengths, which it is the first to read
        raise SmexValueError(str(error)) from error


def gather_mm(a: Tensor, b: Tensor, *, idx_b: Tensor) -> Tensor:
    """Multiplies row ``i`` of ``a`` by the matrix ``b[idx_b[i]]``.

    Rows are sorted by matrix first, so no matrix is copied.

    Args:
        a: ``[num_rows, k]``.
        b: ``[num_matrices, k, n]``.
        idx_b: ``[num_rows]``.

    Returns:
        ``[num_rows, n]``.

    Raises:
        SmexValueError: ``idx_b`` is no vector of as many integers as ``a`` has rows, or names a
            matrix that does not exist.

    Example:
        >>> a, b = torch.ones(2, 2), torch.tensor([[[1.0], [1.0]], [[2.0], [2.0]]])
        >>> sg.ops.gather_mm(a, b, idx_b=torch.tensor([1, 0]))
        tensor([[4.],
                [2.]])
    """
    dtype = idx_b.dtype
    is_integer = not (dtype.is_floating_point or dtype.is_complex or dtype == torch.bool)
    if not is_integer or idx_b.shape != a.shape[:1]:
        raise SmexValueError(
            f"gather_mm: expected idx_b to be a vector of {counted(a.shape[0], 'integer')}, one "
            f"for each row of a, found {describe(idx_b)}"
        )
    if is_traced(idx_b):
        return torch.ops.smex.gather_mm.default(a, b, idx_b.long())
    check_range(idx_b, b.shape[0], "gather_mm: matrices in idx_b")
    order = torch.argsort(idx_b, stable=True)
    product = segment_mm(a.index_select(0, order), b, lengths_of(idx_b, b.shape[0]))
    return torch.zeros_like(product).index_copy(0, order, product)


def is_traced(index: Tensor) -> bool:
    """Whether an index stands for numbers that are not known yet."""
    return torch.compiler.is_compiling() or type(index) is not Tensor


def lengths_of(index: Tensor, size: int) -> Tensor:
    """Returns how often each number below ``size`` is in ``index``: ``[size]``.

    What ``torch.bincount`` counts, with a shape that does not depend on values.
    """
    index = index.long()
    return torch.zeros(size, dtype=torch.int64, device=index.device).scatter_add_(
        0, index, torch.ones_like(index)
    )


def _autocast(x: Tensor) -> Tensor:
    """Returns what autocast makes of an operand of a matrix product.

    It does not look into operators.
    """
    kind = x.device.type
    if torch.is_autocast_enabled(kind) and x.dtype in _NARROWED:
        return x.to(torch.get_autocast_dtype(kind))
    return x


_NARROWED = (torch.float32, torch.float16, torch.bfloat16)
