"""Sparse matrices: the places of non-zeros, in the formats of a graph's edges, and values."""

from __future__ import annotations

import builtins
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from smex.errors import SmexTypeError, SmexValueError
from smex.graph.creation.random import draw_seed
from smex.graph.structure.formats import Compressed
from smex.graph.structure.relation import Relation

__all__ = [
    "SparseMatrix",
    "diag",
    "from_coo",
    "from_csc",
    "from_csr",
    "from_torch_sparse",
    "identity",
    "spmatrix",
    "to_torch_sparse_coo",
    "to_torch_sparse_csc",
    "to_torch_sparse_csr",
    "val_like",
]


class SparseMatrix:
    """A matrix whose non-zero elements have values: numbers, or vectors of one length.

    It is made by :func:`spmatrix` and its siblings. Non-zeros are the edges of a bipartite graph
    from columns to rows, so that products are the kernels of message passing, and formats are made
    once, when something needs them. Values may require gradients; where non-zeros are is fixed.

    Args:
        relation: element ``i`` is edge ``i``, from its column to its row.
        val: ``[nnz]`` or ``[nnz, d]``.
        is_diagonal: whether it was made as a diagonal matrix.
    """

    def __init__(self, relation: Relation, val: Tensor, is_diagonal: bool = False):
        self.relation = relation
        self._val = val
        self._is_diagonal = is_diagonal

    # ---- what it is ----

    @property
    def val(self) -> Tensor:
        """The values ``[nnz]`` or ``[nnz, d]``."""
        return self._val

    @property
    def shape(self) -> tuple[builtins.int, builtins.int]:
        """Numbers of rows and columns."""
        return self.relation.num_dst, self.relation.num_src

    @property
    def nnz(self) -> builtins.int:
        """The number of non-zeros; equal places count as often as they are there."""
        return self.relation.num_edges

    @property
    def dtype(self) -> torch.dtype:
        """The dtype of the values."""
        return self._val.dtype

    @property
    def device(self) -> torch.device:
        """Where it is."""
        return self._val.device

    @property
    def row(self) -> Tensor:
        """The row of each non-zero ``[nnz]``."""
        return self.relation.coo()[1]

    @property
    def col(self) -> Tensor:
        """The column of each non-zero ``[nnz]``."""
        return self.relation.coo()[0]

    def coo(self) -> tuple[Tensor, Tensor]:
        """Rows and columns of the non-zeros."""
        return self.row, self.col

    def indices(self) -> Tensor:
        """Rows and columns as one tensor ``[2, nnz]``."""
        return torch.stack(self.coo())

    def csr(self) -> tuple[Tensor, Tensor, Tensor | None]:
        """By row: where each one's columns begin, the columns, and which value each is.

        The last is None where that is the order of the values.

        Example:
            >>> import smex.graph.sparse as sp
            >>> A = sp.from_coo(torch.tensor([1, 2, 1]), torch.tensor([2, 4, 3]))
            >>> A.csr()
            (tensor([0, 0, 2, 3]), tensor([2, 3, 4]), tensor([0, 2, 1]))
        """
        return tuple(self.relation.csc())  # type: ignore[return-value]

    def csc(self) -> tuple[Tensor, Tensor, Tensor | None]:
        """By column, likewise."""
        return tuple(self.relation.csr())  # type: ignore[return-value]

    def to_dense(self) -> Tensor:
        """Returns ``[rows, columns]`` or ``[rows, columns, d]``; of equal places the sum."""
        rows, columns = self.shape
        flat = torch.zeros(
            (rows * columns, *self._val.shape[1:]), dtype=self.dtype, device=self.device
        )
        place = self.row.long() * columns + self.col.long()
        return flat.index_add(0, place, self._val).view(rows, columns, *self._val.shape[1:])

    def has_duplicate(self) -> bool:
        """Whether several non-zeros are at one place."""
        return not self._is_diagonal and self.relation.is_multigraph()

    def is_diag(self) -> bool:
        """Whether it was made as a diagonal matrix, by :func:`diag` or of such ones."""
        return self._is_diagonal

    def __repr__(self) -> str:
        indent = " " * len("SparseMatrix(")

        def told(name: str, value: Any) -> str:
            lines = f"{name}={value}".split("\n")
            return f"\n{indent}{' ' * (len(name) + 1)}".join(lines)

        meta = f"shape={self.shape}, nnz={self.nnz}"
        if self._val.dim() > 1:
            meta += f", val_size={tuple(self._val.shape[1:])}"
        parts = [told("indices", self.indices()), told("values", self._val), meta]
        return f"SparseMatrix({f',{chr(10)}{indent}'.join(parts)})"

    # ---- others of the same non-zeros ----

    def t(self) -> SparseMatrix:
        """Returns the transpose, which shares formats and values."""
        return self.transpose()

    @property
    def T(self) -> SparseMatrix:  # noqa: N802  (as torch's)
        """The transpose."""
        return self.transpose()

    def transpose(self) -> SparseMatrix:
        """Returns the transpose, which shares formats and values."""
        return SparseMatrix(self.relation.reverse(), self._val, self._is_diagonal)

    def to(
        self, device: torch.device | str | None = None, dtype: torch.dtype | None = None
    ) -> SparseMatrix:
        """Returns it on a device and with values of a dtype; itself where it is that already."""
        relation = self.relation if device is None else self.relation.to(device)
        val = self._val.to(device=device or self.device, dtype=dtype or self.dtype)
        if relation is self.relation and val is self._val:
            return self
        return SparseMatrix(relation, val, self._is_diagonal)

    def cuda(self) -> SparseMatrix:
        """Returns it on the current GPU."""
        return self.to(device="cuda")

    def cpu(self) -> SparseMatrix:
        """Returns it on the CPU."""
        return self.to(device="cpu")

    def float(self) -> SparseMatrix:
        """Returns it with float32 values."""
        return self.to(dtype=torch.float32)

    def double(self) -> SparseMatrix:
        """Returns it with float64 values."""
        return self.to(dtype=torch.float64)

    def int(self) -> SparseMatrix:
        """Returns it with int32 values."""
        return self.to(dtype=torch.int32)

    def long(self) -> SparseMatrix:
        """Returns it with int64 values."""
        return self.to(dtype=torch.int64)

    def coalesce(self) -> SparseMatrix:
        """Returns it with one non-zero at each place, the sum, in the order of rows and columns.

        Example:
            >>> import smex.graph.sparse as sp
            >>> A = sp.from_coo(torch.tensor([1, 0, 1]), torch.tensor([0, 2, 0]))
            >>> A.coalesce().val
            tensor([1., 2.])
        """
        if self._is_diagonal:
            return self
        return summed(self.row, self.col, self._val, self.shape)

    # ---- parts ----

    def index_select(self, dim: builtins.int, index: Tensor) -> SparseMatrix:
        """Returns some rows (dim 0) or columns (dim 1), in the order of `index`.

        Args:
            dim: 0 or 1.
            index: ids, which may come several times.

        Raises:
            SmexTypeError: `index` is no tensor.
            SmexValueError: `dim` is another one, or an id is out of range.
        """
        along = self._along("index_select", dim)
        if not isinstance(index, Tensor):
            raise SmexTypeError(
                f"index_select: expected a tensor of ids, found a {type(index).__name__}"
            )
        ids = index.to(self.relation.idtype)
        other, _, eids = along.in_edges_of(ids)
        counts = along.in_degrees(ids, check=False)
        own = torch.arange(len(ids), dtype=ids.dtype, device=ids.device)
        return self._of_part(dim, own.repeat_interleave(counts.long()), other, eids, len(ids))

    def range_select(self, dim: builtins.int, index: slice) -> SparseMatrix:
        """Returns rows (dim 0) or columns (dim 1) of a slice.

        Raises:
            SmexTypeError: `index` is no slice.
            SmexValueError: its step is not 1.
        """
        self._along("range_select", dim)
        if not isinstance(index, slice):
            raise SmexTypeError(
                f"range_select: expected a slice, found a {type(index).__name__}; index_select "
                "takes ids"
            )
        start, stop, step = index.indices(self.shape[dim])
        if step != 1:
            raise SmexValueError(f"range_select: expected a slice of step 1, found {index}")
        ids = torch.arange(start, max(start, stop), device=self.device)
        return self.index_select(dim, ids)

    def sample(
        self,
        dim: builtins.int,
        fanout: builtins.int,
        ids: Tensor | None = None,
        replace: bool = False,
        bias: bool = False,
    ) -> SparseMatrix:
        """Returns some rows (dim 0) or columns (dim 1) with a few of their non-zeros, drawn.

        Args:
            dim: 0 or 1.
            fanout: how many of each; those that have fewer keep all, unless `replace`.
            ids: which rows or columns; all by default.
            replace: whether one may be drawn several times.
            bias: whether values are weights to draw by.

        Raises:
            SmexValueError: `dim` is another one, an id is out of range, or a weight negative.
        """
        along = self._along("sample", dim)
        if ids is None:
            ids = torch.arange(self.shape[dim], device=self.device)
        ids = ids.to(along.idtype)
        weights = None
        if bias:
            weights = self._val.detach()
            if weights.dtype not in (torch.bool, torch.float32, torch.float64):
                weights = weights.float()
        offsets, other, eids = torch.ops.smex.sample_neighbors(
            *along.csc(), ids, fanout, replace, weights, None, draw_seed()
        )
        own = torch.arange(len(ids), dtype=ids.dtype, device=ids.device)
        own = own.repeat_interleave(offsets.diff().long())
        return self._of_part(dim, own, other, eids, len(ids))

    def compact(
        self, dim: builtins.int, leading_indices: Tensor | None = None
    ) -> tuple[SparseMatrix, Tensor]:
        """Returns it without the rows (dim 0) or columns (dim 1) that have no non-zeros.

        Args:
            dim: 0 or 1.
            leading_indices: distinct ids that come first, with or without non-zeros.

        Returns:
            The matrix, and the ids of what is left: the leading ones, then others ascending.

        Example:
            >>> import smex.graph.sparse as sp
            >>> A = sp.from_coo(torch.tensor([0, 2]), torch.tensor([1, 2]), shape=(3, 3))
            >>> A.compact(0, torch.tensor([1, 2]))[1]
            tensor([1, 2, 0])
        """
        along = self._along("compact", dim)
        other, own = along.coo()
        first = own[:0] if leading_indices is None else leading_indices.to(own)
        ids = torch.cat([first, own.unique()])
        kept, (_, numbers) = torch.ops.smex.relabel_ids([ids.cpu(), own.cpu()])
        eids = torch.arange(self.nnz, device=self.device)
        made = self._of_part(dim, numbers.to(own.device), other, eids, len(kept))
        return made, kept.to(own.device)

    def _along(self, op: str, dim: builtins.int) -> Relation:
        """Returns the relation whose destinations are rows or columns."""
        if dim not in (0, 1):
            raise SmexValueError(f"{op}: expected dim 0 (rows) or 1 (columns), found {dim}")
        return self.relation if dim == 0 else self.relation.reverse()

    def _of_part(
        self, dim: builtins.int, own: Tensor, other: Tensor, eids: Tensor, count: builtins.int
    ) -> SparseMatrix:
        shape = (count, self.shape[1]) if dim == 0 else (self.shape[0], count)
        row, col = (own, other) if dim == 0 else (other, own)
        return from_coo(row.to(other), col.to(other), self._val[eids.long()], shape)


def summed(row: Tensor, col: Tensor, val: Tensor, shape: tuple[int, int]) -> SparseMatrix:
    """Returns the matrix with the sums of the values at each place, sorted by place."""
    places, which = torch.unique(row.long() * shape[1] + col.long(), return_inverse=True)
    total = val.new_zeros((len(places), *val.shape[1:])).index_add(0, which, val)
    return from_coo((places // shape[1]).to(row), (places % shape[1]).to(col), total, shape)


# ---- making one ----


def _values(op: str, val: Tensor | None, count: int, like: Tensor) -> Tensor:
    if val is None:
        return torch.ones(count, device=like.device)
    if not isinstance(val, Tensor):
        raise SmexTypeError(f"{op}: val must be a tensor, found a {type(val).__name__}")
    if val.dim() not in (1, 2) or len(val) != count:
        raise SmexValueError(
            f"{op}: val must have shape [{count}] or [{count}, d] for {count} non-zeros, found "
            f"{list(val.shape)}"
        )
    if val.device != like.device:
        raise SmexValueError(f"{op}: val is on {val.device}, indices on {like.device}; move one")
    return val


def _size(ids: Tensor) -> int:
    return int(ids.max()) + 1 if len(ids) else 0


def spmatrix(
    indices: Tensor, val: Tensor | None = None, shape: Sequence[int] | None = None
) -> SparseMatrix:
    """Returns the matrix with values at some places.

    Args:
        indices: ``[2, nnz]``, rows and columns, int32 or int64.
        val: ``[nnz]`` or ``[nnz, d]``; ones by default.
        shape: numbers of rows and columns; by default what the largest ids ask for.

    Raises:
        SmexValueError: shapes do not fit, or an id is out of range.

    Example:
        >>> import smex.graph.sparse as sp
        >>> A = sp.spmatrix(torch.tensor([[0, 1], [2, 0]]), torch.tensor([3.0, 4.0]))
        >>> A.to_dense()
        tensor([[0., 0., 3.],
                [4., 0., 0.]])
    """
    if isinstance(indices, Tensor) and (indices.dim() != 2 or len(indices) != 2):
        raise SmexValueError(
            f"spmatrix: expected indices of shape [2, nnz], found {list(indices.shape)}"
        )
    row, col = indices
    return from_coo(row, col, val, shape)


def from_coo(
    row: Tensor, col: Tensor, val: Tensor | None = None, shape: Sequence[int] | None = None
) -> SparseMatrix:
    """Returns the matrix of rows and columns; see :func:`spmatrix`."""
    rows, columns = (_size(row), _size(col)) if shape is None else shape
    relation = Relation.from_coo(col, row, int(columns), int(rows))
    return SparseMatrix(relation, _values("from_coo", val, len(row), row))


def from_csr(
    indptr: Tensor, indices: Tensor, val: Tensor | None = None, shape: Sequence[int] | None = None
) -> SparseMatrix:
    """Returns the matrix whose row ``i`` has the columns ``indices[indptr[i]:indptr[i + 1]]``.

    Args:
        indptr: ``[rows + 1]``.
        indices: ``[nnz]``.
        val: as for :func:`spmatrix`.
        shape: as for :func:`spmatrix`.
    """
    rows, columns = (len(indptr) - 1, _size(indices)) if shape is None else shape
    relation = Relation.from_csc(indptr, indices, None, int(columns), int(rows))
    return SparseMatrix(relation, _values("from_csr", val, len(indices), indices))


def from_csc(
    indptr: Tensor, indices: Tensor, val: Tensor | None = None, shape: Sequence[int] | None = None
) -> SparseMatrix:
    """Returns the matrix whose column ``i`` has the rows ``indices[indptr[i]:indptr[i + 1]]``.

    Args:
        indptr: ``[columns + 1]``.
        indices: ``[nnz]``.
        val: as for :func:`spmatrix`.
        shape: as for :func:`spmatrix`.
    """
    rows, columns = (_size(indices), len(indptr) - 1) if shape is None else shape
    relation = Relation.from_csr(indptr, indices, None, int(columns), int(rows))
    return SparseMatrix(relation, _values("from_csc", val, len(indices), indices))


def val_like(mat: SparseMatrix, val: Tensor) -> SparseMatrix:
    """Returns a matrix with the non-zeros of another, and other values.

    Raises:
        SmexValueError: there are not as many.

    Example:
        >>> import smex.graph.sparse as sp
        >>> sp.val_like(sp.identity((2, 2)), torch.tensor([5.0, 6.0])).to_dense()
        tensor([[5., 0.],
                [0., 6.]])
    """
    return SparseMatrix(mat.relation, _values("val_like", val, mat.nnz, mat.val), mat.is_diag())


def diag(val: Tensor, shape: Sequence[int] | None = None) -> SparseMatrix:
    """Returns the diagonal matrix.

    Args:
        val: ``[n]`` or ``[n, d]``, from above.
        shape: numbers of rows and columns, of which `n` is the smaller; ``(n, n)`` by default.

    Raises:
        SmexValueError: it is not.

    Example:
        >>> import smex.graph.sparse as sp
        >>> sp.diag(torch.tensor([1.0, 2.0]), (2, 3)).to_dense()
        tensor([[1., 0., 0.],
                [0., 2., 0.]])
    """
    n = len(val)
    rows, columns = (n, n) if shape is None else shape
    if n != min(rows, columns):
        raise SmexValueError(
            f"diag: expected {min(rows, columns)} values for shape {(rows, columns)}, found {n}"
        )
    ids = torch.arange(n, device=val.device)
    relation = Relation.from_coo(ids, ids, int(columns), int(rows), check=False)
    return SparseMatrix(relation, _values("diag", val, n, val), is_diagonal=True)


def identity(
    shape: Sequence[int],
    d: int | None = None,
    dtype: torch.dtype | None = None,
    device: torch.device | str | None = None,
) -> SparseMatrix:
    """Returns the diagonal matrix of ones.

    Args:
        shape: numbers of rows and columns.
        d: length of the values; numbers by default.
        dtype: of the values.
        device: where it is.
    """
    n = min(shape)
    size = (n,) if d is None else (n, d)
    return diag(torch.ones(size, dtype=dtype, device=device), shape)


def from_torch_sparse(torch_sparse_tensor: Tensor) -> SparseMatrix:
    """Returns the matrix that a sparse tensor of torch is, of layout COO, CSR or CSC.

    Raises:
        SmexTypeError: it is of another layout.

    Example:
        >>> import smex.graph.sparse as sp
        >>> sp.from_torch_sparse(torch.eye(2).to_sparse_coo()).nnz
        2
    """
    given = torch_sparse_tensor
    shape = given.shape[:2]
    if given.layout == torch.sparse_coo:
        return spmatrix(given._indices(), given._values(), shape)
    if given.layout == torch.sparse_csr:
        return from_csr(given.crow_indices(), given.col_indices(), given.values(), shape)
    if given.layout == torch.sparse_csc:
        return from_csc(given.ccol_indices(), given.row_indices(), given.values(), shape)
    raise SmexTypeError(
        f"from_torch_sparse: expected a tensor of layout COO, CSR or CSC, found {given.layout}"
    )


def to_torch_sparse_coo(spmat: SparseMatrix) -> Tensor:
    """Returns a sparse tensor of torch, of layout COO."""
    size = (*spmat.shape, *spmat.val.shape[1:])
    return torch.sparse_coo_tensor(spmat.indices(), spmat.val, size, check_invariants=False)


def to_torch_sparse_csr(spmat: SparseMatrix) -> Tensor:
    """Returns a sparse tensor of torch, of layout CSR; columns of a row keep their order."""
    form = Compressed(*spmat.csr())
    size = (*spmat.shape, *spmat.val.shape[1:])
    return torch.sparse_csr_tensor(
        form.indptr, form.indices, _ordered(spmat, form), size, check_invariants=False
    )


def to_torch_sparse_csc(spmat: SparseMatrix) -> Tensor:
    """Returns a sparse tensor of torch, of layout CSC; rows of a column keep their order."""
    form = Compressed(*spmat.csc())
    size = (*spmat.shape, *spmat.val.shape[1:])
    return torch.sparse_csc_tensor(
        form.indptr, form.indices, _ordered(spmat, form), size, check_invariants=False
    )


def _ordered(spmat: SparseMatrix, form: Compressed) -> Tensor:
    return spmat.val if form.eids is None else spmat.val[form.eids.long()]
