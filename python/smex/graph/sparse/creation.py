"""Sparse matrices from tensors, and back into sparse tensors of torch."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from smex.errors import SmexTypeError, SmexValueError
from smex.graph.sparse.core import INDICES, check_matrix, check_values
from smex.graph.sparse.matrix import SparseMatrix
from smex.graph.structure.relation import Relation

Shape = Sequence[int] | None


def spmatrix(indices: Tensor, val: Tensor | None = None, shape: Shape = None) -> SparseMatrix:
    """Returns the matrix with entries at ``(indices[0, i], indices[1, i])``.

    Args:
        indices: ``[2, nnz]`` rows and columns, int32 or int64; the same place may come twice.
        val: ``[nnz]`` or ``[nnz, D]`` values; ones if left out. Gradients flow into them.
        shape: (rows, columns); if left out, one more than the largest ids.

    Raises:
        SmexTypeError: ids are not int32 or int64.
        SmexValueError: shapes or devices do not fit, an id is outside of the shape, or there are
            no entries to tell the shape by.

    Example:
        >>> sg.sparse.spmatrix(torch.tensor([[1, 0], [0, 2]]), torch.tensor([3.0, 4.0]))
        SparseMatrix(indices=tensor([[1, 0],
                                     [0, 2]]),
                     values=tensor([3., 4.]),
                     shape=(2, 3), nnz=2)
    """
    if indices.dim() != 2 or indices.shape[0] != 2:
        raise SmexValueError(
            f"spmatrix: expected indices of shape [2, nnz], rows and columns, found "
            f"{list(indices.shape)}"
        )
    made = _from_coo("spmatrix", indices[0], indices[1], val, shape)
    made._relation.kept[INDICES] = indices
    return made


def from_coo(
    row: Tensor, col: Tensor, val: Tensor | None = None, shape: Shape = None
) -> SparseMatrix:
    """Returns the matrix with entries at ``(row[i], col[i])``; see :func:`spmatrix`.

    Args:
        row: ``[nnz]`` rows, int32 or int64.
        col: ``[nnz]`` columns.
        val: ``[nnz]`` or ``[nnz, D]`` values; ones if left out.
        shape: (rows, columns); if left out, one more than the largest ids.

    Raises:
        SmexTypeError: as for :func:`spmatrix`.
        SmexValueError: as for :func:`spmatrix`.

    Example:
        >>> sg.sparse.from_coo(torch.tensor([1, 0]), torch.tensor([0, 2])).to_dense()
        tensor([[0., 0., 1.],
                [1., 0., 0.]])
    """
    return _from_coo("from_coo", row, col, val, shape)


def _from_coo(op: str, row: Tensor, col: Tensor, val: Tensor | None, shape: Shape) -> SparseMatrix:
    if row.dtype != col.dtype:
        row, col = row.long(), col.long()
    num_rows, num_cols = _shape(op, shape) or (_bound(op, row), _bound(op, col))
    return _matrix(op, Relation.from_coo(col, row, num_cols, num_rows), val)


def from_csr(
    indptr: Tensor, indices: Tensor, val: Tensor | None = None, shape: Shape = None
) -> SparseMatrix:
    """Returns the matrix whose row ``r`` has columns ``indices[indptr[r]:indptr[r + 1]]``.

    Args:
        indptr: ``[num_rows + 1]``, ascending from 0 to the number of entries.
        indices: ``[nnz]`` columns.
        val: ``[nnz]`` or ``[nnz, D]`` values; ones if left out.
        shape: (rows, columns); if left out, as many rows as ``indptr`` has, and one column more
            than the largest of ``indices``.

    Raises:
        SmexTypeError: ids are not int32 or int64.
        SmexValueError: shapes or devices do not fit, or an id is outside of the shape.

    Example:
        >>> sg.sparse.from_csr(torch.tensor([0, 0, 2]), torch.tensor([1, 0])).to_dense()
        tensor([[0., 0.],
                [1., 1.]])
    """
    num_rows, num_cols = _shape("from_csr", shape) or (len(indptr) - 1, _bound("from_csr", indices))
    return _matrix("from_csr", Relation.from_csc(indptr, indices, None, num_cols, num_rows), val)


def from_csc(
    indptr: Tensor, indices: Tensor, val: Tensor | None = None, shape: Shape = None
) -> SparseMatrix:
    """Returns the matrix whose column ``c`` has rows ``indices[indptr[c]:indptr[c + 1]]``.

    Args:
        indptr: ``[num_cols + 1]``, ascending from 0 to the number of entries.
        indices: ``[nnz]`` rows.
        val: ``[nnz]`` or ``[nnz, D]`` values; ones if left out.
        shape: (rows, columns); if left out, as many columns as ``indptr`` has, and one row more
            than the largest of ``indices``.

    Raises:
        SmexTypeError: ids are not int32 or int64.
        SmexValueError: shapes or devices do not fit, or an id is outside of the shape.

    Example:
        >>> sg.sparse.from_csc(torch.tensor([0, 0, 2]), torch.tensor([1, 0])).to_dense()
        tensor([[0., 1.],
                [0., 1.]])
    """
    num_rows, num_cols = _shape("from_csc", shape) or (_bound("from_csc", indices), len(indptr) - 1)
    return _matrix("from_csc", Relation.from_csr(indptr, indices, None, num_cols, num_rows), val)


def _shape(op: str, shape: Shape) -> tuple[int, int] | None:
    if shape is None:
        return None
    if len(shape) != 2 or min(shape) < 0:
        raise SmexValueError(
            f"{op}: expected a shape of two numbers, rows and columns, found {tuple(shape)}"
        )
    return int(shape[0]), int(shape[1])


def _bound(op: str, ids: Tensor) -> int:
    if ids.numel() == 0:
        raise SmexValueError(
            f"{op}: expected a shape, since a matrix without entries does not tell it, found None; "
            "pass shape=(rows, columns)"
        )
    return int(ids.max()) + 1


def _matrix(op: str, relation: Relation, val: Tensor | None) -> SparseMatrix:
    if val is None:
        val = torch.ones(relation.num_edges, device=relation.device)
    check_values(op, val, relation.num_edges, relation.device)
    return SparseMatrix(relation, val)


def val_like(mat: SparseMatrix, val: Tensor) -> SparseMatrix:
    """Returns a matrix with the places of another and other values; it shares all formats.

    Args:
        mat: a matrix.
        val: ``[nnz]`` or ``[nnz, D]``.

    Raises:
        SmexTypeError: ``mat`` is not a sparse matrix.
        SmexValueError: the number of values is not that of the entries, or devices differ.

    Example:
        >>> sg.sparse.val_like(sg.sparse.identity((2, 2)), torch.tensor([5, 6])).to_dense()
        tensor([[5, 0],
                [0, 6]])
    """
    check_matrix("val_like", "mat", mat)
    check_values("val_like", val, mat.nnz, mat.device)
    return mat._like(val)


def diag(val: Tensor, shape: Shape = None) -> SparseMatrix:
    """Returns the diagonal matrix of these values.

    Args:
        val: ``[N]`` or ``[N, D]``.
        shape: (rows, columns), the lesser of which is ``N``; ``(N, N)`` if left out.

    Raises:
        SmexValueError: ``val`` has another number of dimensions, or the shape does not fit.

    Example:
        >>> sg.sparse.diag(torch.tensor([1.0, 2.0]), (2, 3)).to_dense()
        tensor([[1., 0., 0.],
                [0., 2., 0.]])
    """
    if val.dim() not in (1, 2):
        raise SmexValueError(
            f"diag: expected values of shape [N] or [N, D], found {list(val.shape)}"
        )
    rows, cols = _shape("diag", shape) or (val.shape[0], val.shape[0])
    if min(rows, cols) != val.shape[0]:
        raise SmexValueError(
            f"diag: expected as many values as the diagonal of shape {(rows, cols)} has, "
            f"{min(rows, cols)}, found {val.shape[0]}"
        )
    place = torch.arange(val.shape[0], device=val.device)
    return SparseMatrix(Relation.from_coo(place, place, cols, rows, check=False), val, True)


def identity(
    shape: Sequence[int],
    d: int | None = None,
    dtype: torch.dtype | None = None,
    device: torch.device | str | None = None,
) -> SparseMatrix:
    """Returns the matrix with ones on its diagonal.

    Args:
        shape: (rows, columns).
        d: the length of the values' vectors; None for numbers.
        dtype: of the values.
        device: of the matrix.

    Raises:
        SmexValueError: the shape is not two numbers.

    Example:
        >>> sg.sparse.identity((2, 2)).to_dense()
        tensor([[1., 0.],
                [0., 1.]])
    """
    rows, cols = _shape("identity", shape) or (0, 0)
    size = (min(rows, cols),) if d is None else (min(rows, cols), d)
    return diag(torch.ones(size, dtype=dtype, device=device), (rows, cols))


def from_torch_sparse(torch_sparse_tensor: Tensor) -> SparseMatrix:
    """Returns the matrix of a sparse tensor ``[rows, columns]`` or ``[rows, columns, D]``.

    The layout may be COO, coalesced or not, CSR or CSC.

    Raises:
        SmexTypeError: the tensor has another layout.

    Example:
        >>> sg.sparse.from_torch_sparse(torch.eye(2).to_sparse()).nnz
        2
    """
    x, shape = torch_sparse_tensor, torch_sparse_tensor.shape[:2]
    if x.layout == torch.sparse_coo:
        return spmatrix(x._indices(), x._values(), shape)
    if x.layout == torch.sparse_csr:
        return from_csr(x.crow_indices(), x.col_indices(), x.values(), shape)
    if x.layout == torch.sparse_csc:
        return from_csc(x.ccol_indices(), x.row_indices(), x.values(), shape)
    raise SmexTypeError(
        f"from_torch_sparse: expected a tensor of layout sparse_coo, sparse_csr or sparse_csc, "
        f"found {x.layout}"
    )


def to_torch_sparse_coo(spmat: SparseMatrix) -> Tensor:
    """Returns the matrix as a COO tensor of torch, the entries in their order, not coalesced.

    Example:
        >>> sg.sparse.to_torch_sparse_coo(sg.sparse.identity((2, 2))).layout
        torch.sparse_coo
    """
    check_matrix("to_torch_sparse_coo", "spmat", spmat)
    size = (*spmat.shape, *spmat.val.shape[1:])
    return torch.sparse_coo_tensor(spmat.indices(), spmat.val, size, check_invariants=False)


def to_torch_sparse_csr(spmat: SparseMatrix) -> Tensor:
    """Returns the matrix as a CSR tensor of torch; values are in the order of rows.

    Example:
        >>> sg.sparse.to_torch_sparse_csr(sg.sparse.identity((2, 2))).crow_indices()
        tensor([0, 1, 2])
    """
    check_matrix("to_torch_sparse_csr", "spmat", spmat)
    indptr, indices, position = spmat.csr()
    return torch.sparse_csr_tensor(
        indptr, indices, *_ordered(spmat, position), check_invariants=False
    )


def to_torch_sparse_csc(spmat: SparseMatrix) -> Tensor:
    """Returns the matrix as a CSC tensor of torch; values are in the order of columns.

    Example:
        >>> sg.sparse.to_torch_sparse_csc(sg.sparse.identity((2, 2))).ccol_indices()
        tensor([0, 1, 2])
    """
    check_matrix("to_torch_sparse_csc", "spmat", spmat)
    indptr, indices, position = spmat.csc()
    return torch.sparse_csc_tensor(
        indptr, indices, *_ordered(spmat, position), check_invariants=False
    )


def _ordered(spmat: SparseMatrix, position: Tensor | None) -> tuple[Tensor, tuple[int, ...]]:
    """The values in an order, and the size of the tensor."""
    val = spmat.val if position is None else spmat.val.index_select(0, position)
    return val, (*spmat.shape, *val.shape[1:])
