"""Products of sparse matrices with dense and sparse ones."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from smex.errors import SmexTypeError, SmexValueError
from smex.graph.function import binary_message
from smex.graph.ops.kernels import aggregate, per_edge
from smex.graph.sparse.matrix import SparseMatrix, diag, summed, val_like

__all__ = ["bsddmm", "bspmm", "matmul", "sddmm", "spmm", "spspmm"]


def _check_sparse(op: str, **given: Any) -> None:
    for name, value in given.items():
        if not isinstance(value, SparseMatrix):
            raise SmexTypeError(
                f"{op}: {name} must be a SparseMatrix, found a {type(value).__name__}"
            )


def _check_dense(op: str, **given: Any) -> None:
    for name, value in given.items():
        if not isinstance(value, Tensor):
            raise SmexTypeError(f"{op}: {name} must be a tensor, found a {type(value).__name__}")


def spmm(A: SparseMatrix, X: Tensor) -> Tensor:
    """Returns ``A @ X``; gradients go to the values of A and to X.

    Args:
        A: ``[n, m]`` with numbers as values, or with vectors ``[b]``.
        X: ``[m, k]`` or ``[m]``; ``[m, k, b]`` for vectors, one product for each of their elements.

    Returns:
        ``[n, k]``, ``[n]`` or ``[n, k, b]``.

    Raises:
        SmexTypeError: they are something else, or of several dtypes.
        SmexValueError: shapes do not fit.

    Example:
        >>> import smex.graph.sparse as sp
        >>> A = sp.spmatrix(torch.tensor([[0, 1, 1], [1, 0, 2]]), torch.tensor([1.0, 2.0, 3.0]))
        >>> sp.spmm(A, torch.tensor([10.0, 20.0, 30.0]))
        tensor([ 20., 110.])
    """
    _check_sparse("spmm", A=A)
    _check_dense("spmm", X=X)
    val = A.val
    fits = X.dim() in (1, 2) if val.dim() == 1 else X.dim() == 3 and X.shape[2] == val.shape[1]
    if not fits or A.shape[1] != len(X):
        raise SmexValueError(
            f"spmm: expected A [n, m] with X [m] or [m, k], or values [nnz, b] with X [m, k, b], "
            f"found A {list(A.shape)} with values {list(val.shape)} and X {list(X.shape)}"
        )
    if val.dtype != X.dtype and not torch.is_autocast_enabled(X.device.type):
        raise SmexTypeError(
            f"spmm: expected values and X of one dtype, found {val.dtype} and {X.dtype}"
        )
    if val.dim() == 2:
        return aggregate(A.relation, "u0 * e1", "sum", [X, val.unsqueeze(1)])
    if X.dim() == 1:
        return aggregate(A.relation, "u0 * e1", "sum", [X, val])
    return aggregate(A.relation, "u0 * e1", "sum", [X, val.unsqueeze(1)])


def bspmm(A: SparseMatrix, X: Tensor) -> Tensor:
    """Returns one product for each element of the values: :func:`spmm` of ``[m, k, b]``."""
    return spmm(A, X)


def spspmm(A: SparseMatrix, B: SparseMatrix) -> SparseMatrix:
    """Returns ``A @ B``, sparse, in the order of rows and columns; gradients go to both.

    Diagonal matrices scale the other's values, and two of them make a diagonal one. Takes time and
    memory for each pair of non-zeros that meet.

    Raises:
        SmexTypeError: one is no sparse matrix, or dtypes differ.
        SmexValueError: shapes do not fit, values are vectors, or places come several times.

    Example:
        >>> import smex.graph.sparse as sp
        >>> A = sp.spmatrix(torch.tensor([[0, 1], [1, 0]]), torch.tensor([2.0, 3.0]))
        >>> sp.spspmm(A, A).to_dense()
        tensor([[6., 0.],
                [0., 6.]])
    """
    _check_sparse("spspmm", A=A, B=B)
    if A.shape[1] != B.shape[0] or A.val.dim() != 1 or B.val.dim() != 1:
        raise SmexValueError(
            f"spspmm: expected A [n, m] and B [m, p] with numbers as values, found "
            f"{list(A.shape)} with values {list(A.val.shape)} and {list(B.shape)} with "
            f"{list(B.val.shape)}"
        )
    if A.dtype != B.dtype:
        raise SmexTypeError(f"spspmm: expected values of one dtype, found {A.dtype} and {B.dtype}")
    if A.has_duplicate() or B.has_duplicate():
        raise SmexValueError(
            "spspmm: several non-zeros are at one place; A.coalesce() adds them up"
        )
    shape = (A.shape[0], B.shape[1])
    if A.is_diag() and B.is_diag():
        common, count = min(A.nnz, B.nnz), min(shape)
        val = A.val[:common] * B.val[:common]
        return diag(torch.nn.functional.pad(val[:count], (0, max(0, count - common))), shape)
    if A.is_diag() and A.shape[0] == A.shape[1]:
        return val_like(B, A.val[B.row.long()] * B.val)
    if B.is_diag() and B.shape[0] == B.shape[1]:
        return val_like(A, A.val * B.val[A.col.long()])
    indptr, columns, eids = B.csr()
    begin, counts = indptr[A.col.long()].long(), indptr.diff()[A.col.long()].long()
    left = torch.arange(A.nnz, device=A.device).repeat_interleave(counts)
    first = counts.cumsum(0) - counts
    right = torch.arange(len(left), device=A.device) - first[left] + begin[left]
    of_right = right if eids is None else eids[right].long()
    product = A.val[left] * B.val[of_right]
    return summed(A.row[left], columns[right].to(A.row), product, shape)


def matmul(A: Any, B: Any) -> Any:
    """Returns the product of two tensors, of a sparse matrix and a tensor, or of two sparse ones.

    Raises:
        SmexTypeError: A is a tensor and B a sparse matrix, or one is something else.
    """
    if isinstance(A, Tensor) and isinstance(B, Tensor):
        return torch.matmul(A, B)
    if isinstance(A, Tensor):
        raise SmexTypeError(
            "matmul: expected a SparseMatrix on the left, found a tensor and a "
            f"{type(B).__name__}; (B.T @ A.T).T is A @ B"
        )
    return spmm(A, B) if isinstance(B, Tensor) else spspmm(A, B)


def sddmm(A: SparseMatrix, X1: Tensor, X2: Tensor) -> SparseMatrix:
    """Returns ``A * (X1 @ X2)``, computed where A has non-zeros.

    Args:
        A: ``[n, m]``, values numbers or vectors ``[b]``.
        X1: ``[n, k]``, ``[n]`` or ``[n, k, b]``.
        X2: ``[k, m]``, ``[m]`` or ``[k, m, b]``.

    Returns:
        A matrix with A's non-zeros, and with values of vectors where X1 and X2 have three
        dimensions. Gradients go to all three.

    Raises:
        SmexTypeError: they are something else, or dtypes differ.
        SmexValueError: shapes do not fit.

    Example:
        >>> import smex.graph.sparse as sp
        >>> A = sp.spmatrix(torch.tensor([[0, 1], [1, 0]]), torch.tensor([1.0, 2.0]))
        >>> sp.sddmm(A, torch.ones(2, 3), torch.ones(3, 2)).val
        tensor([3., 6.])
    """
    _check_sparse("sddmm", A=A)
    _check_dense("sddmm", X1=X1, X2=X2)
    x, y = (X1.unsqueeze(1), X2.unsqueeze(0)) if X1.dim() == X2.dim() == 1 else (X1, X2)
    n, m = A.shape
    fits = (
        x.dim() == y.dim() in (2, 3)
        and (len(x), y.shape[1]) == (n, m)
        and x.shape[1] == len(y)
        and x.shape[2:] == y.shape[2:]
        and (A.val.dim() == 1 or A.val.shape[1:] == x.shape[2:])
    )
    if not fits:
        raise SmexValueError(
            f"sddmm: expected A [n, m] with X1 [n, k] and X2 [k, m], or [n] and [m], or "
            f"[n, k, b] and [k, m, b], found A {list(A.shape)} with values {list(A.val.shape)}, "
            f"{list(X1.shape)} and {list(X2.shape)}"
        )
    if x.dtype != y.dtype:
        raise SmexTypeError(f"sddmm: expected X1 and X2 of one dtype, found {x.dtype}, {y.dtype}")
    if x.dim() == 2:
        of_rows, of_columns = x, y.t()
    else:
        of_rows, of_columns = x.transpose(1, 2), y.permute(1, 2, 0)
    dots = per_edge(
        A.relation, binary_message("dot", "u", "v"), [of_columns.contiguous(), of_rows.contiguous()]
    )
    dots = dots.squeeze(-1)
    val = A.val.unsqueeze(-1) if A.val.dim() < dots.dim() else A.val
    return val_like(A, dots * val)


def bsddmm(A: SparseMatrix, X1: Tensor, X2: Tensor) -> SparseMatrix:
    """Returns one product for each of the last dimension: :func:`sddmm` of three dimensions."""
    return sddmm(A, X1, X2)
