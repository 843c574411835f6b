"""Matrix products: sparse by dense, sparse by sparse, and dense by dense at some places."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from smex.errors import SmexTypeError, SmexValueError
from smex.graph.function import binary_message
from smex.graph.ops.kernels import aggregate, for_operands, per_edge
from smex.graph.sparse.core import Matrix, MatrixCore, check_matrix
from smex.graph.structure.relation import Relation


def spmm(A: MatrixCore, X: Tensor) -> Tensor:
    r"""Returns the dense product ``A @ X``.

    .. math:: out_{r} = \sum_{(r, c)} a_{rc} X_c

    Args:
        A: ``[L, M]`` with values ``[nnz]``, or ``[nnz, K]`` for a batch of K matrices.
        X: ``[M]`` or ``[M, N]``; ``[M, N, K]`` for a batch.

    Returns:
        ``[L]``, ``[L, N]`` or ``[L, N, K]``. Gradients flow into the values and into ``X``.

    Raises:
        SmexTypeError: an operand is of another kind, or dtypes differ.
        SmexValueError: shapes or devices do not fit.

    Example:
        >>> A = sg.sparse.spmatrix(torch.tensor([[0, 0], [0, 1]]), torch.tensor([2.0, 3.0]))
        >>> sg.sparse.spmm(A, torch.tensor([[1.0], [10.0]]))
        tensor([[32.]])
    """
    check_matrix("spmm", "A", A)
    _check_tensor("spmm", "X", X)
    wanted = (1, 2) if A.val.dim() == 1 else (3,)
    fits = X.dim() in wanted and X.shape[0] == A.shape[1]
    if not fits or (X.dim() == 3 and X.shape[2] != A.val.shape[1]):
        expected = f"[{A.shape[1]}] or [{A.shape[1]}, N]"
        if A.val.dim() == 2:
            expected = f"[{A.shape[1]}, N, {A.val.shape[1]}]"
        raise SmexValueError(
            f"spmm: expected a dense matrix of shape {expected} for a sparse one of shape "
            f"{A.shape} with values of shape {list(A.val.shape)}, found {list(X.shape)}"
        )
    _check_devices("spmm", A, X)
    if A.is_diag() and A.shape[0] == A.shape[1] and X.dtype == A.dtype:
        return X * (A.val if X.dim() == 1 else A.val.unsqueeze(1))
    message = for_operands(binary_message("mul", "u", "e"), X, A.val)
    out = aggregate(A._relation, message, "sum", [X, A.val])
    return out if X.dtype.is_floating_point else out.to(X.dtype)


def bspmm(A: MatrixCore, X: Tensor) -> Tensor:
    """Returns the products of a batch: the same as :func:`spmm`.

    Args:
        A: ``[L, M]`` with values ``[nnz, K]``.
        X: ``[M, N, K]``.

    Returns:
        ``[L, N, K]``.

    Example:
        >>> A = sg.sparse.identity((2, 2), d=3)
        >>> sg.sparse.bspmm(A, torch.ones(2, 4, 3)).shape
        torch.Size([2, 4, 3])
    """
    return spmm(A, X)


def spspmm(A: Matrix, B: Matrix) -> Matrix:
    r"""Returns the sparse product ``A @ B``.

    The result has an entry wherever a row of ``A`` and a column of ``B`` have entries that meet,
    also where the sum is 0, ordered by row, then column. The product of diagonal matrices is
    diagonal, and a square diagonal one leaves the other's entries in their order. Memory is taken
    for each pair of entries that meet.

    Args:
        A: ``[L, M]`` with values ``[nnz]``.
        B: ``[M, N]`` with values ``[nnz]``.

    Returns:
        ``[L, N]``. Gradients flow into the values of both.

    Raises:
        SmexTypeError: an operand is of another kind, or dtypes differ.
        SmexValueError: shapes or devices do not fit, or values are vectors.

    Example:
        >>> A = sg.sparse.spmatrix(torch.tensor([[0, 0], [0, 1]]), torch.tensor([2.0, 3.0]))
        >>> sg.sparse.spspmm(A, sg.sparse.diag(torch.tensor([1.0, 10.0]))).to_dense()
        tensor([[ 2., 30.]])
    """
    check_matrix("spspmm", "A", A)
    check_matrix("spspmm", "B", B)
    _check_product(A, B)
    if A.is_diag() and B.is_diag():
        return _product_of_diagonals(A, B)
    if A.is_diag() and A.shape[0] == A.shape[1]:
        return B._like(A.val.index_select(0, B.row) * B.val)
    if B.is_diag() and B.shape[0] == B.shape[1]:
        return A._like(A.val * B.val.index_select(0, A.col))
    return _product(A, B)


def _product_of_diagonals(A: Matrix, B: Matrix) -> Matrix:
    """Values where both have them, and 0 on the rest of the diagonal."""
    rows, cols = A.shape[0], B.shape[1]
    size = min(rows, cols)
    common = min(A.nnz, B.nnz)
    val = A.val[:common] * B.val[:common]
    val = torch.nn.functional.pad(val, (0, size - common)) if size > common else val[:size]
    place = torch.arange(size, device=A.device)
    return A._make(Relation.from_coo(place, place, cols, rows, check=False), val, True)


def _product(A: Matrix, B: Matrix) -> Matrix:
    """Each pair of entries that meet is an edge from the entry of ``A`` to one of the result."""
    form = B._relation.csc()  # the entries of B by row
    met = A.col.long()
    first = form.indptr[met].long()
    count = form.indptr[met + 1].long() - first
    left = torch.repeat_interleave(count)
    start = torch.cumsum(count, 0) - count
    at = torch.arange(left.shape[0], device=left.device) + (first - start).index_select(0, left)
    rows, cols = A.row.long().index_select(0, left), form.indices.long().index_select(0, at)
    right = at if form.eids is None else form.eids.long().index_select(0, at)
    # Pairs as edges from rows to columns; those between the same two are one entry.
    pairs = Relation.from_coo(rows, cols, A.shape[0], B.shape[1], check=False)
    simple, _, place = pairs.to_simple()
    meeting = Relation.from_coo(left, place, A.nnz, simple.num_edges, check=False)
    operands = [A.val, B.val.index_select(0, right)]
    val = aggregate(meeting, binary_message("mul", "u", "e"), "sum", operands).to(A.dtype)
    return A._make(simple.reverse(), val)


def sddmm(A: Matrix, X1: Tensor, X2: Tensor) -> Matrix:
    r"""Returns ``(X1 @ X2) * A``, the dense product computed at the entries of ``A`` alone.

    Args:
        A: ``[L, N]`` with values ``[nnz]``, or ``[nnz, K]`` for a batch.
        X1: ``[L, M]`` or ``[L]``; ``[L, M, K]`` for a batch.
        X2: ``[M, N]`` or ``[N]``; ``[M, N, K]`` for a batch.

    Returns:
        ``[L, N]`` with the entries of ``A``; values are ``[nnz]``, or ``[nnz, K]`` for a batch,
        for which numbers of ``A`` are repeated. Gradients flow into all three.

    Raises:
        SmexTypeError: an operand is of another kind, or the dtypes of the dense ones differ.
        SmexValueError: shapes or devices do not fit.

    Example:
        >>> A = sg.sparse.spmatrix(torch.tensor([[0, 1], [1, 0]]))
        >>> sg.sparse.sddmm(A, torch.tensor([1.0, 2.0]), torch.tensor([3.0, 4.0])).val
        tensor([4., 6.])
    """
    check_matrix("sddmm", "A", A)
    _check_tensor("sddmm", "X1", X1)
    _check_tensor("sddmm", "X2", X2)
    left = X1.unsqueeze(1) if X1.dim() == 1 else X1
    right = X2.unsqueeze(0) if X2.dim() == 1 else X2
    _check_sampled(A, left, right)
    # The kernel wants rows of each side, and adds up products over the last dimension.
    if left.dim() == 3:
        left, right = left.transpose(1, 2), right.permute(1, 2, 0)
    else:
        right = right.t()
    message = for_operands(binary_message("dot", "u", "v"), right, left)
    found = per_edge(A._relation, message, [right.contiguous(), left.contiguous()]).squeeze(-1)
    val = A.val if A.val.dim() == found.dim() else A.val.unsqueeze(-1)
    if val.dim() > found.dim():
        found = found.unsqueeze(-1)
    return A._like(found * val)


def bsddmm(A: Matrix, X1: Tensor, X2: Tensor) -> Matrix:
    """Returns the products of a batch at the entries of ``A``: the same as :func:`sddmm`.

    Args:
        A: ``[L, N]`` with values ``[nnz]`` or ``[nnz, K]``.
        X1: ``[L, M, K]``.
        X2: ``[M, N, K]``.

    Returns:
        ``[L, N]`` with values ``[nnz, K]``.

    Example:
        >>> A = sg.sparse.identity((2, 2))
        >>> sg.sparse.bsddmm(A, torch.ones(2, 5, 3), torch.ones(5, 2, 3)).val
        tensor([[5., 5., 5.],
                [5., 5., 5.]])
    """
    return sddmm(A, X1, X2)


def matmul(A: Any, B: Any) -> Any:
    """Returns ``A @ B``: :func:`spmm`, :func:`spspmm`, or torch's product of dense matrices.

    Args:
        A: a sparse matrix, or a tensor if ``B`` is one.
        B: a sparse matrix or a tensor.

    Raises:
        SmexTypeError: another kind of operand, or a tensor times a sparse matrix.

    Example:
        >>> sg.sparse.matmul(sg.sparse.identity((2, 2)), torch.ones(2))
        tensor([1., 1.])
    """
    if isinstance(A, Tensor) and isinstance(B, Tensor):
        return torch.matmul(A, B)
    if isinstance(A, Tensor) and isinstance(B, MatrixCore):
        raise SmexTypeError(
            "matmul: expected a tensor after a tensor, found a SparseMatrix; (B.T @ A.T).T is the "
            "product"
        )
    check_matrix("matmul", "A", A)
    if isinstance(B, Tensor):
        return spmm(A, B)
    check_matrix("matmul", "B", B)
    return spspmm(A, B)


# ---- checks ----


def _check_tensor(op: str, name: str, x: Any) -> None:
    if not isinstance(x, Tensor):
        raise SmexTypeError(f"{op}: expected {name} to be a tensor, found {type(x).__name__}")


def _check_devices(op: str, A: MatrixCore, *others: Any) -> None:
    for other in others:
        if other.device != A.device:
            raise SmexValueError(
                f"{op}: expected operands on one device, found {A.device} and {other.device}"
            )


def _check_product(A: MatrixCore, B: MatrixCore) -> None:
    if A.shape[1] != B.shape[0]:
        raise SmexValueError(
            f"spspmm: expected as many columns of A as rows of B, found shapes {A.shape} and "
            f"{B.shape}"
        )
    for name, matrix in (("A", A), ("B", B)):
        if matrix.val.dim() != 1:
            raise SmexValueError(
                f"spspmm: expected values of shape [nnz], found {list(matrix.val.shape)} of {name}"
            )
    if A.dtype != B.dtype:
        raise SmexTypeError(f"spspmm: expected one dtype, found {A.dtype} and {B.dtype}")
    _check_devices("spspmm", A, B)


def _check_sampled(A: MatrixCore, left: Tensor, right: Tensor) -> None:
    fits = left.dim() == right.dim() and left.dim() in (2, 3)
    fits = fits and left.shape[0] == A.shape[0] and right.shape[1] == A.shape[1]
    fits = fits and left.shape[1] == right.shape[0] and left.shape[2:] == right.shape[2:]
    if fits and left.dim() == 3 and A.val.dim() == 2:
        fits = A.val.shape[1] == left.shape[2]
    if not fits:
        rows, cols = A.shape
        raise SmexValueError(
            f"sddmm: expected dense matrices of shapes [{rows}, M] and [M, {cols}], or [{rows}, M, "
            f"K] and [M, {cols}, K], for values of shape {list(A.val.shape)}, found "
            f"{list(left.shape)} and {list(right.shape)}"
        )
    _check_devices("sddmm", A, left, right)
