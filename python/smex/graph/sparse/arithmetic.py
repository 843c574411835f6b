"""Arithmetic entry by entry: of two matrices, of a matrix and a number or a vector."""

from __future__ import annotations

import operator
from numbers import Number
from typing import Any

import torch
from torch import Tensor

from smex.errors import SmexTypeError, SmexValueError
from smex.graph.sparse.core import Matrix, MatrixCore, check_matrix, merged, sum_of_groups
from smex.graph.structure.relation import Relation

Scalar = Number | Tensor
"""A number of Python, or a tensor without dimensions."""


def is_scalar(x: Any) -> bool:
    """Returns whether `x` is a number, or a tensor without dimensions."""
    return isinstance(x, Number) or (isinstance(x, Tensor) and x.dim() == 0)


# ---- two matrices ----


def spsp_add(A: Matrix, B: MatrixCore) -> Matrix:
    """Returns the sum of two matrices of one shape; see :func:`add`."""
    _check_pair("add", A, B)
    if A.is_diag() and B.is_diag():
        return A._like(A.val + B.val)
    both = _joined(A, B)
    relation, group = merged(both)
    val = torch.cat([A.val, B.val])
    return A._make(relation, sum_of_groups(val, group, relation.num_edges))


def spsp_mul(A: Matrix, B: MatrixCore) -> Matrix:
    """Returns the product, entry by entry, of two matrices of one shape; see :func:`mul`."""
    _check_pair("mul", A, B)
    if A.is_diag() and B.is_diag():
        return A._like(A.val * B.val)
    _check_single("mul", A, B)
    entry = B._relation.edge_ids(A.col, A.row, check=False)
    left, order = _in_order(A, entry >= 0)
    right = entry.index_select(0, left)
    val = A.val.index_select(0, left) * B.val.index_select(0, right)
    return A._make(order, val)


def _in_order(A: MatrixCore, kept: Tensor) -> tuple[Tensor, Relation]:
    """The entries of a choice, by row, then column, and their places."""
    chosen = kept.nonzero().view(-1)
    row, col = A.row.index_select(0, chosen), A.col.index_select(0, chosen)
    order = torch.argsort(row.long() * max(A.shape[1], 1) + col.long())
    places = Relation.from_coo(col[order], row[order], A.shape[1], A.shape[0], check=False)
    return chosen[order], places


def spsp_div(A: Matrix, B: MatrixCore) -> Matrix:
    """Returns the quotient of two matrices with entries at the same places; see :func:`div`."""
    _check_pair("div", A, B)
    if A._relation is B._relation or (A.is_diag() and B.is_diag()):
        return A._like(A.val / B.val)
    _check_single("div", A, B)
    entry = B._relation.edge_ids(A.col, A.row, check=False)
    missing = int((entry < 0).sum())
    if missing or A.nnz != B.nnz:
        raise SmexValueError(
            f"div: expected two matrices with entries at the same places, found {A.nnz} and "
            f"{B.nnz} entries, {missing} of the first without one of the second"
        )
    return A._like(A.val / B.val.index_select(0, entry))


def _joined(A: MatrixCore, B: MatrixCore) -> Relation:
    """The entries of both, one after another."""
    ends = [torch.cat([a.to(b.dtype), b]) if a.dtype != b.dtype else torch.cat([a, b]) for a, b in (
        (A.col, B.col), (A.row, B.row)
    )]  # fmt: skip
    return Relation.from_coo(ends[0], ends[1], A.shape[1], A.shape[0], check=False)


def _check_pair(op: str, A: MatrixCore, B: Any) -> None:
    check_matrix(op, "A", A)
    check_matrix(op, "B", B)
    if A.shape != B.shape:
        raise SmexValueError(
            f"{op}: expected two sparse matrices of one shape, found {A.shape} and {B.shape}"
        )
    if A.dtype != B.dtype:
        raise SmexTypeError(
            f"{op}: expected two sparse matrices of one dtype, found {A.dtype} and {B.dtype}"
        )
    if A.val.shape[1:] != B.val.shape[1:]:
        raise SmexValueError(
            f"{op}: expected values of one size, found {list(A.val.shape[1:])} and "
            f"{list(B.val.shape[1:])}"
        )


def _check_single(op: str, A: MatrixCore, B: MatrixCore) -> None:
    for name, matrix in (("A", A), ("B", B)):
        if matrix.has_duplicate():
            raise SmexValueError(
                f"{op}: expected one entry at each place, found several in {name}; call coalesce() "
                "first"
            )


# ---- operators ----


def sp_add(A: Matrix, B: Any) -> Matrix:
    """Returns ``A + B``; see :func:`add`."""
    if not isinstance(B, MatrixCore):
        return NotImplemented
    return spsp_add(A, B)


def sp_sub(A: Matrix, B: Any) -> Matrix:
    """Returns ``A - B``; see :func:`sub`."""
    if not isinstance(B, MatrixCore):
        return NotImplemented
    _check_pair("sub", A, B)
    return spsp_add(A, B._like(-B.val))


def sp_mul(A: Matrix, B: Any) -> Matrix:
    """Returns ``A * B``; see :func:`mul`."""
    if is_scalar(B):
        return A._like(A.val * B)
    return spsp_mul(A, _matrix_or_number("mul", B))


def sp_div(A: Matrix, B: Any) -> Matrix:
    """Returns ``A / B``; see :func:`div`."""
    if is_scalar(B):
        return A._like(A.val / B)
    return spsp_div(A, _matrix_or_number("div", B))


def sp_power(A: Matrix, scalar: Any) -> Matrix:
    """Returns ``A ** scalar``; see :func:`power`."""
    if not is_scalar(scalar):
        return NotImplemented
    return A._like(A.val**scalar)


def _matrix_or_number(op: str, B: Any) -> Any:
    if not isinstance(B, MatrixCore):
        found = f"a tensor of shape {list(B.shape)}" if isinstance(B, Tensor) else type(B).__name__
        raise SmexTypeError(
            f"{op}: expected a SparseMatrix or a number, found {found}; sp_broadcast_v "
            "takes vectors"
        )
    return B


def add(A: Matrix, B: MatrixCore) -> Matrix:
    """Returns ``A + B``.

    Entries at the same place are added up, and the result has them ordered by row, then column.
    Two diagonal matrices have a diagonal sum.

    Args:
        A: ``[L, M]``.
        B: ``[L, M]`` with values of the same dtype and size.

    Raises:
        SmexValueError: shapes differ.
        SmexTypeError: dtypes differ, or ``B`` is no sparse matrix.

    Example:
        >>> i = sg.sparse.identity((2, 2))
        >>> sg.sparse.add(i, sg.sparse.spmatrix(torch.tensor([[0, 1], [0, 1]]))).to_dense()
        tensor([[2., 0.],
                [0., 2.]])
    """
    return spsp_add(A, B)


def sub(A: Matrix, B: MatrixCore) -> Matrix:
    """Returns ``A - B``, as :func:`add`.

    Example:
        >>> i = sg.sparse.identity((2, 2))
        >>> sg.sparse.sub(i, i * 3).to_dense()
        tensor([[-2.,  0.],
                [ 0., -2.]])
    """
    check_matrix("sub", "A", A)
    check_matrix("sub", "B", B)
    return sp_sub(A, B)


def mul(A: Any, B: Any) -> Any:
    """Returns ``A * B``, entry by entry.

    The product of two matrices has the entries that both have, ordered by row, then column; it is
    diagonal where both are. Gradients flow into the values of both and into a tensor that is the
    number.

    Args:
        A: a sparse matrix, or a number.
        B: a sparse matrix of the same shape, or a number.

    Raises:
        SmexValueError: shapes differ, or a matrix has two entries at one place.
        SmexTypeError: an operand is neither, or dtypes differ.

    Example:
        >>> sg.sparse.mul(2, sg.sparse.identity((2, 2))).val
        tensor([2., 2.])
    """
    if isinstance(A, MatrixCore):
        return sp_mul(A, B)
    return sp_mul(_matrix_or_number("mul", B), A)


def div(A: Matrix, B: Any) -> Matrix:
    """Returns ``A / B``, entry by entry, with the entries in the order of ``A``.

    Args:
        A: a sparse matrix.
        B: a number, or a sparse matrix with entries at the same places.

    Raises:
        SmexValueError: shapes or places differ, or a matrix has two entries at one place.
        SmexTypeError: an operand is of another kind, or dtypes differ.

    Example:
        >>> sg.sparse.div(sg.sparse.identity((2, 2)), 4).val
        tensor([0.2500, 0.2500])
    """
    check_matrix("div", "A", A)
    return sp_div(A, B)


def power(A: Matrix, scalar: Any) -> Matrix:
    """Returns each value to the power of a number.

    Raises:
        SmexTypeError: the exponent is no number.

    Example:
        >>> sg.sparse.power(sg.sparse.diag(torch.tensor([2, 3])), 2).val
        tensor([4, 9])
    """
    check_matrix("power", "A", A)
    if not is_scalar(scalar):
        raise SmexTypeError(f"power: expected a number as exponent, found {type(scalar).__name__}")
    return sp_power(A, scalar)


def neg(A: Matrix) -> Matrix:
    """Returns ``-A``.

    Example:
        >>> sg.sparse.neg(sg.sparse.identity((2, 2))).val
        tensor([-1., -1.])
    """
    check_matrix("neg", "A", A)
    return A._like(-A.val)


def inv(A: Matrix) -> Matrix:
    """Returns the inverse of a square diagonal matrix of numbers.

    Raises:
        SmexValueError: the matrix is not diagonal or not square, or its values are vectors.

    Example:
        >>> sg.sparse.inv(sg.sparse.diag(torch.tensor([2.0, 4.0]))).val
        tensor([0.5000, 0.2500])
    """
    check_matrix("inv", "A", A)
    if not A.is_diag() or A.shape[0] != A.shape[1] or A.val.dim() != 1:
        kind = "a diagonal" if A.is_diag() else "a general"
        raise SmexValueError(
            f"inv: expected a square diagonal matrix with values of shape [N], found {kind} one of "
            f"shape {A.shape} with values of shape {list(A.val.shape)}"
        )
    return A._like(1.0 / A.val)


# ---- a matrix and a vector ----


def sp_broadcast_v(A: Matrix, v: Tensor, op: str) -> Matrix:
    """Returns the entries of ``A`` each combined with the element of a vector at its place.

    Args:
        A: ``[L, M]`` with values ``[nnz]`` or ``[nnz, D]``.
        v: ``[M]`` or ``[1, M]``, one element for each column, or ``[L, 1]``, one for each row.
        op: ``add``, ``sub``, ``mul`` or ``truediv``.

    Raises:
        SmexValueError: the vector does not fit, or the operation is unknown.

    Example:
        >>> A = sg.sparse.spmatrix(torch.tensor([[0, 1], [1, 0]]), torch.tensor([10, 20]))
        >>> sg.sparse.sp_broadcast_v(A, torch.tensor([1, 2]), "add").val
        tensor([12, 21])
    """
    check_matrix("sp_broadcast_v", "A", A)
    if op not in ("add", "sub", "mul", "truediv"):
        raise SmexValueError(
            f"sp_broadcast_v: unknown operation {op!r}; expected add, sub, mul or truediv"
        )
    rows, cols = A.shape
    size = tuple(v.shape) if v.dim() != 1 else (1, v.shape[0])
    # A matrix of one row takes what is of its shape as a vector of columns.
    if size == (1, cols):
        at = A.col
    elif size == (rows, 1):
        at = A.row
    else:
        raise SmexValueError(
            f"sp_broadcast_v: expected a vector of shape [{cols}], [1, {cols}] or [{rows}, 1], "
            f"found {list(v.shape)}"
        )
    element = v.reshape(-1).index_select(0, at)
    if A.val.dim() > 1:
        element = element.view(-1, 1)
    return A._like(getattr(operator, op)(A.val, element))


def sp_add_v(A: Matrix, v: Tensor) -> Matrix:
    """The same as ``sp_broadcast_v(A, v, "add")``."""
    return sp_broadcast_v(A, v, "add")


def sp_sub_v(A: Matrix, v: Tensor) -> Matrix:
    """The same as ``sp_broadcast_v(A, v, "sub")``."""
    return sp_broadcast_v(A, v, "sub")


def sp_mul_v(A: Matrix, v: Tensor) -> Matrix:
    """The same as ``sp_broadcast_v(A, v, "mul")``."""
    return sp_broadcast_v(A, v, "mul")


def sp_div_v(A: Matrix, v: Tensor) -> Matrix:
    """The same as ``sp_broadcast_v(A, v, "truediv")``."""
    return sp_broadcast_v(A, v, "truediv")
