"""What is done element by element."""

from __future__ import annotations

import operator
from typing import Any

import torch
from torch import Tensor

from smex.errors import SmexTypeError, SmexValueError
from smex.graph.sparse.matrix import SparseMatrix, diag, from_coo, summed, val_like

__all__ = [
    "add",
    "div",
    "inv",
    "is_scalar",
    "mul",
    "neg",
    "power",
    "sp_add",
    "sp_add_v",
    "sp_broadcast_v",
    "sp_div",
    "sp_div_v",
    "sp_mul",
    "sp_mul_v",
    "sp_power",
    "sp_sub",
    "sp_sub_v",
    "spsp_add",
    "spsp_div",
    "spsp_mul",
    "sub",
]


def is_scalar(x: Any) -> bool:
    """Returns whether something is a number, or a tensor of one."""
    return isinstance(x, (int, float)) or (isinstance(x, Tensor) and x.dim() == 0)


def _check_alike(op: str, A: SparseMatrix, B: Any) -> None:
    if not isinstance(A, SparseMatrix) or not isinstance(B, SparseMatrix):
        raise SmexTypeError(
            f"{op}: expected two sparse matrices, or for mul and div one and a number, found a "
            f"{type(A).__name__} and a {type(B).__name__}"
        )
    if A.shape != B.shape or A.val.shape[1:] != B.val.shape[1:]:
        raise SmexValueError(
            f"{op}: expected matrices of one shape with values of one shape, found "
            f"{list(A.shape)} with {list(A.val.shape)} and {list(B.shape)} with {list(B.val.shape)}"
        )


def add(A: SparseMatrix, B: SparseMatrix) -> SparseMatrix:
    """Returns the sum, with the places of both, in the order of rows and columns.

    Raises:
        SmexTypeError: one is no sparse matrix.
        SmexValueError: shapes differ.

    Example:
        >>> import smex.graph.sparse as sp
        >>> (sp.identity((2, 2)) + sp.diag(torch.tensor([1.0, 2.0]))).val
        tensor([2., 3.])
    """
    _check_alike("add", A, B)
    if A.is_diag() and B.is_diag():
        return val_like(A, A.val + B.val)
    row, col = (torch.cat([a, b.to(a)]) for a, b in zip(A.coo(), B.coo(), strict=True))
    dtype = torch.promote_types(A.dtype, B.dtype)
    return summed(row, col, torch.cat([A.val.to(dtype), B.val.to(dtype)]), A.shape)


def sub(A: SparseMatrix, B: SparseMatrix) -> SparseMatrix:
    """Returns the difference; see :func:`add`."""
    _check_alike("sub", A, B)
    return add(A, neg(B))


def mul(A: Any, B: Any) -> SparseMatrix:
    """Returns the product of a matrix and a number, or of two matrices place by place.

    The latter has the places that both have, in the order of rows and columns.

    Raises:
        SmexTypeError: they are something else.
        SmexValueError: shapes differ, or several non-zeros are at one place.
    """
    if is_scalar(A) and isinstance(B, SparseMatrix):
        return val_like(B, B.val * A)
    if isinstance(A, SparseMatrix) and is_scalar(B):
        return val_like(A, A.val * B)
    _check_alike("mul", A, B)
    if A.is_diag() and B.is_diag():
        return val_like(A, A.val * B.val)
    _check_distinct("mul", A, B)
    a, b = _keys(A), _keys(B)
    keys, order = torch.sort(b)
    at = torch.searchsorted(keys, a).clamp(max=max(len(keys) - 1, 0))
    own = (keys[at] == a).nonzero().view(-1) if len(keys) else a[:0]
    own = own[a[own].argsort()]
    other = order[at[own]]
    row, col = A.coo()
    return from_coo(row[own], col[own], A.val[own] * B.val[other], A.shape)


def div(A: SparseMatrix, B: Any) -> SparseMatrix:
    """Returns a matrix divided by a number, or by another with non-zeros at the same places.

    Raises:
        SmexTypeError: they are something else.
        SmexValueError: shapes or places differ, or several non-zeros are at one place.
    """
    if isinstance(A, SparseMatrix) and is_scalar(B):
        return val_like(A, A.val / B)
    _check_alike("div", A, B)
    if A.is_diag() and B.is_diag():
        return val_like(A, A.val / B.val)
    _check_distinct("div", A, B)
    a, b = _keys(A), _keys(B)
    keys, order = torch.sort(b)
    if not torch.equal(a.sort().values, keys):
        raise SmexValueError(
            "div: the matrices have non-zeros at different places; only where B has them is there "
            "something to divide by"
        )
    return val_like(A, A.val / B.val[order[torch.searchsorted(keys, a)]])


def power(A: SparseMatrix, scalar: Any) -> SparseMatrix:
    """Returns the matrix with the power of each value.

    Raises:
        SmexTypeError: the exponent is no number.
    """
    if not is_scalar(scalar):
        raise SmexTypeError(
            f"power: expected a number as exponent, found a {type(scalar).__name__}"
        )
    return val_like(A, A.val**scalar)


def _check_distinct(op: str, *matrices: SparseMatrix) -> None:
    if any(each.has_duplicate() for each in matrices):
        raise SmexValueError(f"{op}: several non-zeros are at one place; A.coalesce() adds them up")


def _keys(A: SparseMatrix) -> Tensor:
    return A.row.long() * A.shape[1] + A.col.long()


def neg(A: SparseMatrix) -> SparseMatrix:
    """Returns the matrix with negative values."""
    return val_like(A, -A.val)


def inv(A: SparseMatrix) -> SparseMatrix:
    """Returns the inverse of a diagonal matrix.

    Raises:
        SmexValueError: it is no square diagonal matrix with numbers as values.

    Example:
        >>> import smex.graph.sparse as sp
        >>> sp.inv(sp.diag(torch.tensor([2.0, 4.0]))).val
        tensor([0.5000, 0.2500])
    """
    if not A.is_diag() or A.shape[0] != A.shape[1] or A.val.dim() != 1:
        raise SmexValueError(
            f"inv: expected a square diagonal matrix with numbers as values, found "
            f"{'one' if A.is_diag() else 'another matrix'} of shape {A.shape} with values "
            f"{list(A.val.shape)}"
        )
    return diag(1.0 / A.val, A.shape)


def sp_broadcast_v(A: SparseMatrix, v: Tensor, op: str) -> SparseMatrix:
    """Returns the matrix with each value and the element of a vector for its row or column.

    Args:
        A: ``[n, m]``.
        v: ``[m]`` or ``[1, m]``, by column, or ``[n, 1]``, by row.
        op: name of a function of Python's `operator`: add, sub, mul, truediv.

    Raises:
        SmexValueError: the vector's shape is another one.

    Example:
        >>> import smex.graph.sparse as sp
        >>> A = sp.spmatrix(torch.tensor([[1, 0], [0, 1]]), torch.tensor([10.0, 20.0]))
        >>> sp.sp_mul_v(A, torch.tensor([[2.0], [3.0]])).val
        tensor([30., 40.])
    """
    shape = (1, len(v)) if v.dim() == 1 else tuple(v.shape)
    rows, columns = A.shape
    if shape == (1, columns):
        of_each = v.reshape(-1)[A.col.long()]
    elif shape == (rows, 1):
        of_each = v.reshape(-1)[A.row.long()]
    else:
        raise SmexValueError(
            f"sp_broadcast_v: expected a vector [{columns}], [1, {columns}] or [{rows}, 1] for a "
            f"matrix {[rows, columns]}, found {list(v.shape)}"
        )
    if A.val.dim() > 1:
        of_each = of_each.unsqueeze(1)
    return val_like(A, getattr(operator, op)(A.val, of_each))


def sp_add_v(A: SparseMatrix, v: Tensor) -> SparseMatrix:
    """Returns A with a vector added to its non-zeros; see :func:`sp_broadcast_v`."""
    return sp_broadcast_v(A, v, "add")


def sp_sub_v(A: SparseMatrix, v: Tensor) -> SparseMatrix:
    """Returns A with a vector subtracted from its non-zeros; see :func:`sp_broadcast_v`."""
    return sp_broadcast_v(A, v, "sub")


def sp_mul_v(A: SparseMatrix, v: Tensor) -> SparseMatrix:
    """Returns A with its non-zeros times a vector; see :func:`sp_broadcast_v`."""
    return sp_broadcast_v(A, v, "mul")


def sp_div_v(A: SparseMatrix, v: Tensor) -> SparseMatrix:
    """Returns A with its non-zeros divided by a vector; see :func:`sp_broadcast_v`."""
    return sp_broadcast_v(A, v, "truediv")


sp_add, sp_sub, sp_mul, sp_div, sp_power = add, sub, mul, div, power
spsp_add, spsp_mul, spsp_div = add, mul, div
