r"""Matrix products of groups of rows, each with a matrix of its own.

Two operators, each the other's derivative, so that they can be differentiated any number of times:
for rows in the groups :math:`s(i)`

.. math:: y_i = a_i B_{s(i)} \quad (``smex::segment_mm``), \qquad
          G_s = \sum_{i: s(i) = s} a_i^T g_i \quad (``smex::segment_outer``).

To ``torch.compile`` they are single calls: how many rows a group has is read while they run, and
may change from call to call.
"""

from __future__ import annotations

from typing import Any

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
    return torch.ops.smex.segment_mm.default(a, b, seglen_a)


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


def _segment_mm(a: Tensor, b: Tensor, lengths: Tensor) -> Tensor:
    out = a.new_empty(a.shape[0], b.shape[2])
    for rows, matrix, result in _groups(a, b, out, lengths):
        torch.mm(rows, matrix, out=result)
    return out


def _segment_outer(a: Tensor, g: Tensor, lengths: Tensor) -> Tensor:
    out = a.new_empty(lengths.shape[0], a.shape[1], g.shape[1])
    for rows, result, other in _groups(a, out, g, lengths):
        torch.mm(rows.t(), other, out=result)
    return out


def _groups(a: Tensor, b: Tensor, out: Tensor, lengths: Tensor) -> Any:
    """Returns the rows of ``a``, the matrix of ``b`` and the rows of ``out`` of each group."""
    sizes = lengths.tolist()
    if len(sizes) != b.shape[0] or sum(sizes) != a.shape[0]:
        raise SmexValueError(
            f"segment_mm: expected as many lengths as matrices, {b.shape[0]}, whose sum is the "
            f"number of rows, {a.shape[0]}, found {len(sizes)} whose sum is {sum(sizes)}"
        )
    return zip(a.split(sizes), b.unbind(), out.split(sizes))


def _segment_mm_shape(a: Tensor, b: Tensor, lengths: Tensor) -> Tensor:
    return a.new_empty(a.shape[0], b.shape[2])


def _segment_outer_shape(a: Tensor, g: Tensor, lengths: Tensor) -> Tensor:
    return a.new_empty(lengths.shape[0], a.shape[1], g.shape[1])


def _save(ctx: Any, inputs: tuple[Tensor, ...], output: Tensor) -> None:
    ctx.save_for_backward(*inputs)


def _segment_mm_backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, Tensor | None, None]:
    a, b, lengths = ctx.saved_tensors
    ops = torch.ops.smex
    need_a, need_b, _ = ctx.needs_input_grad
    return (
        ops.segment_mm.default(grad, b.transpose(1, 2), lengths) if need_a else None,
        ops.segment_outer.default(a, grad, lengths) if need_b else None,
        None,
    )


def _segment_outer_backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, Tensor | None, None]:
    a, g, lengths = ctx.saved_tensors
    ops = torch.ops.smex
    need_a, need_g, _ = ctx.needs_input_grad
    return (
        ops.segment_mm.default(g, grad.transpose(1, 2), lengths) if need_a else None,
        ops.segment_mm.default(a, grad, lengths) if need_g else None,
        None,
    )


# Not by torch.library.custom_op, which looks through all modules for the line it is called from.
_LIBRARY = torch.library.Library("smex", "FRAGMENT")
for _name, _kernel, _shape, _backward in (
    ("segment_mm", _segment_mm, _segment_mm_shape, _segment_mm_backward),
    ("segment_outer", _segment_outer, _segment_outer_shape, _segment_outer_backward),
):
    _second = "b" if _name == "segment_mm" else "g"
    _schema = f"{_name}(Tensor a, Tensor {_second}, Tensor lengths) -> Tensor"
    _LIBRARY.define(_schema, tags=(torch.Tag.pt2_compliant_tag,))
    _LIBRARY.impl(_name, _kernel, "CompositeExplicitAutograd")
    _LIBRARY.impl(_name, _shape, "Meta")
    torch.library.register_autograd(f"smex::{_name}", _backward, setup_context=_save, lib=_LIBRARY)
