"""Parts of a matrix: chosen, sampled and renumbered rows or columns."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from smex.errors import SmexTypeError, SmexValueError
from smex.graph.creation.random import draw_seed
from smex.graph.sparse.core import Matrix, MatrixCore
from smex.graph.structure.formats import Compressed, take_rows
from smex.graph.structure.relation import Relation


def _by(A: MatrixCore, dim: int) -> Compressed:
    """The entries by row, or by column."""
    return A._relation.csc() if dim == 0 else A._relation.csr()


def _of_compressed(A: Matrix, dim: int, indptr: Tensor, others: Tensor, val: Tensor) -> Matrix:
    """The matrix of entries that stand by row, or by column."""
    lines = indptr.shape[0] - 1
    if dim == 0:
        return A._make(Relation.from_csc(indptr, others, None, A.shape[1], lines), val)
    return A._make(Relation.from_csr(indptr, others, None, lines, A.shape[0]), val)


def index_select(A: Matrix, dim: int, index: Any) -> Matrix:
    """Returns chosen rows or columns; see :meth:`SparseMatrix.index_select`."""
    _check_dim("index_select", dim)
    if not isinstance(index, Tensor):
        raise SmexTypeError(f"index_select: expected a tensor of ids, found {type(index).__name__}")
    form = _by(A, dim)
    index = _ids("index_select", index, A.shape[dim], form)
    others, _, entries = take_rows(form, index)
    sizes = form.indptr[index + 1] - form.indptr[index]
    indptr = torch.nn.functional.pad(torch.cumsum(sizes, 0).to(index.dtype), (1, 0))
    return _of_compressed(A, dim, indptr, others, A.val.index_select(0, entries))


def range_select(A: Matrix, dim: int, index: Any) -> Matrix:
    """Returns a range of rows or columns; see :meth:`SparseMatrix.range_select`."""
    _check_dim("range_select", dim)
    if not isinstance(index, slice):
        raise SmexTypeError(f"range_select: expected a slice, found {type(index).__name__}")
    begin, end, step = index.indices(A.shape[dim])
    if step != 1:
        raise SmexValueError(
            f"range_select: expected a slice with step 1, found step {step}; use index_select"
        )
    form, end = _by(A, dim), max(begin, end)
    first, last = (int(form.indptr[line]) for line in (begin, end))
    indptr = form.indptr[begin : end + 1] - first
    val = A.val[first:last]
    if form.eids is not None:
        val = A.val.index_select(0, form.eids[first:last])
    return _of_compressed(A, dim, indptr, form.indices[first:last], val)


def sample(
    A: Matrix, dim: int, fanout: int, ids: Any = None, replace: bool = False, bias: bool = False
) -> Matrix:
    """Returns sampled entries of rows or columns; see :meth:`SparseMatrix.sample`."""
    _check_dim("sample", dim)
    if fanout < 0:
        raise SmexValueError(f"sample: expected a fanout of 0 or more, found {fanout}")
    form = _by(A, dim)
    if ids is None:
        ids = torch.arange(A.shape[dim], device=A.device)
    lines = _ids("sample", torch.as_tensor(ids, device=A.device), A.shape[dim], form)
    weights = None
    if bias:
        if A.val.dim() != 1:
            raise SmexValueError(
                f"sample: expected values of shape [nnz] as weights, found {list(A.val.shape)}"
            )
        weights = A.val.detach().float() if not A.dtype.is_floating_point else A.val.detach()
    drawn = torch.ops.smex.sample_neighbors(
        *form, lines, fanout, replace, weights, None, draw_seed()
    )
    offsets, others, entries = drawn
    val = A.val.index_select(0, entries)
    return _of_compressed(A, dim, offsets.to(others.dtype), others, val)


def compact(
    A: Matrix, dim: int, leading_indices: Tensor | Sequence[int] | None = None
) -> tuple[Matrix, Tensor]:
    """Returns the matrix without empty rows or columns; see :meth:`SparseMatrix.compact`."""
    _check_dim("compact", dim)
    ids, other = (A.row, A.col) if dim == 0 else (A.col, A.row)
    used = torch.zeros(A.shape[dim], dtype=torch.bool, device=A.device)
    used[ids.long()] = True
    leading = ids.new_empty(0)
    if leading_indices is not None:
        given = torch.as_tensor(leading_indices, device=A.device)
        leading = _in_range("compact", given, A.shape[dim]).to(ids.dtype)
        used[leading.long()] = False
    rest = used.nonzero().view(-1).to(ids.dtype)
    order = torch.cat([leading, rest])
    number = ids.new_zeros(A.shape[dim])
    number[order.long()] = torch.arange(order.shape[0], dtype=ids.dtype, device=A.device)
    if leading.shape[0] and not bool((number[leading.long()].diff() == 1).all()):
        raise SmexValueError(
            "compact: expected leading_indices without repetition, found one twice"
        )
    new, size = number.index_select(0, ids), order.shape[0]
    if dim == 0:
        relation = Relation.from_coo(other, new, A.shape[1], size, check=False)
    else:
        relation = Relation.from_coo(new, other, size, A.shape[0], check=False)
    return A._make(relation, A.val), order


# ---- checks ----


def _check_dim(op: str, dim: int) -> None:
    if dim not in (0, 1):
        raise SmexValueError(f"{op}: expected dim 0, rows, or 1, columns, found {dim!r}")


def _in_range(op: str, ids: Tensor, size: int) -> Tensor:
    """`ids`, all in ``[0, size)``."""
    if ids.dim() != 1 or (ids.numel() and ids.dtype not in (torch.int32, torch.int64)):
        raise SmexTypeError(
            f"{op}: expected ids as a vector of int32 or int64, found {ids.dtype} of shape "
            f"{list(ids.shape)}"
        )
    if ids.numel() and (int(ids.min()) < 0 or int(ids.max()) >= size):
        wrong = int(ids[(ids < 0) | (ids >= size)][0])
        raise SmexValueError(f"{op}: expected ids in [0, {size}), found {wrong}")
    return ids


def _ids(op: str, ids: Tensor, size: int, form: Compressed) -> Tensor:
    return _in_range(op, ids, size).to(form.indptr.dtype)
