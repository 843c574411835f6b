"""The class :class:`SparseMatrix`: data, and the functions on it as methods and operators."""

from __future__ import annotations

import builtins
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from smex.graph.sparse import arithmetic, products, reductions, selection
from smex.graph.sparse.core import MatrixCore


class SparseMatrix(MatrixCore):
    """A matrix of which only entries are stored; made by :func:`spmatrix` and its like.

    Values are numbers ``[nnz]`` or vectors ``[nnz, D]``, and may have gradients. An entry stays at
    its position: what is computed from the values by itself lines up with ``row`` and ``col``.
    Places of entries are immutable, and compressed forms of them, made once on demand, are shared
    by all matrices that are made of one by arithmetic.

    ``+ - * / ** @`` and the unary ``-`` are :func:`add`, :func:`sub`, :func:`mul`, :func:`div`,
    :func:`power`, :func:`matmul` and :func:`neg`.

    Example:
        >>> A = sg.sparse.spmatrix(torch.tensor([[0, 0, 1], [0, 2, 1]]))
        >>> A.shape, A.nnz
        ((2, 3), 3)
        >>> A @ torch.ones(3)
        tensor([2., 1.])
    """

    def __add__(self, other: Any) -> SparseMatrix:
        return arithmetic.sp_add(self, other)

    def __sub__(self, other: Any) -> SparseMatrix:
        return arithmetic.sp_sub(self, other)

    def __mul__(self, other: Any) -> SparseMatrix:
        return arithmetic.sp_mul(self, other)

    __rmul__ = __mul__

    def __truediv__(self, other: Any) -> SparseMatrix:
        return arithmetic.sp_div(self, other)

    def __pow__(self, other: Any) -> SparseMatrix:
        return arithmetic.sp_power(self, other)

    def __neg__(self) -> SparseMatrix:
        return arithmetic.neg(self)

    def __matmul__(self, other: Any) -> Any:
        return products.matmul(self, other)

    def __rmatmul__(self, other: Any) -> Any:
        return products.matmul(other, self)

    def neg(self) -> SparseMatrix:
        """Returns ``-self``."""
        return arithmetic.neg(self)

    def inv(self) -> SparseMatrix:
        """Returns the inverse of a square diagonal matrix, see :func:`inv`."""
        return arithmetic.inv(self)

    def softmax(self, dim: builtins.int = 1) -> SparseMatrix:
        """Softmax over the entries of each row (1) or column (0), see :func:`softmax`."""
        return reductions.softmax(self, dim)

    def reduce(self, dim: builtins.int | None = None, rtype: str = "sum") -> Tensor:
        """Reduces entries over rows (0), columns (1) or both (None), see :func:`reduce`."""
        return reductions.reduce(self, dim, rtype)

    def sum(self, dim: builtins.int | None = None) -> Tensor:
        """The sums of entries, see :func:`reduce`."""
        return reductions.sum(self, dim)

    def smax(self, dim: builtins.int | None = None) -> Tensor:
        """The largest entries, see :func:`reduce`."""
        return reductions.smax(self, dim)

    def smin(self, dim: builtins.int | None = None) -> Tensor:
        """The least entries, see :func:`reduce`."""
        return reductions.smin(self, dim)

    def smean(self, dim: builtins.int | None = None) -> Tensor:
        """The means of entries, see :func:`reduce`."""
        return reductions.smean(self, dim)

    def sprod(self, dim: builtins.int | None = None) -> Tensor:
        """The products of entries, see :func:`reduce`."""
        return reductions.sprod(self, dim)

    def index_select(self, dim: builtins.int, index: Tensor) -> SparseMatrix:
        """Returns chosen rows or columns, one after another; gradients flow into the values.

        Args:
            dim: 0 for rows, 1 for columns.
            index: ``[n]`` ids; one may come twice.

        Returns:
            ``[n, num_cols]`` or ``[num_rows, n]``.

        Raises:
            SmexTypeError: ``index`` is no vector of int32 or int64.
            SmexValueError: ``dim`` is another, or an id is out of range.

        Example:
            >>> sg.sparse.identity((3, 3)).index_select(0, torch.tensor([2, 0])).to_dense()
            tensor([[0., 0., 1.],
                    [1., 0., 0.]])
        """
        return selection.index_select(self, dim, index)

    def range_select(self, dim: builtins.int, index: slice) -> SparseMatrix:
        """Returns a range of rows or columns; gradients flow into the values.

        Args:
            dim: 0 for rows, 1 for columns.
            index: a slice without a step; its bounds may be negative or left out.

        Raises:
            SmexTypeError: ``index`` is no slice.
            SmexValueError: ``dim`` is another, or the slice has a step.

        Example:
            >>> sg.sparse.identity((3, 3)).range_select(1, slice(1, 3)).shape
            (3, 2)
        """
        return selection.range_select(self, dim, index)

    def sample(
        self,
        dim: builtins.int,
        fanout: builtins.int,
        ids: Tensor | None = None,
        replace: bool = False,
        bias: bool = False,
    ) -> SparseMatrix:
        """Returns up to ``fanout`` random entries of each chosen row or column.

        Draws from torch's generator (``torch.manual_seed``).

        Args:
            dim: 0 for rows, 1 for columns.
            fanout: how many entries of each are drawn.
            ids: ``[n]`` rows or columns; all if left out.
            replace: whether an entry may be drawn twice; otherwise a row with fewer than
                ``fanout`` entries has all of them drawn.
            bias: whether entries are drawn in proportion to their values.

        Returns:
            ``[n, num_cols]`` or ``[num_rows, n]``, with the values of the entries.

        Raises:
            SmexTypeError: ids are no vector of int32 or int64.
            SmexValueError: ``dim`` is another, an id is out of range, ``fanout`` is negative, or
                values that are weights are vectors.

        Example:
            >>> sg.sparse.identity((3, 3)).sample(0, 2, torch.tensor([1])).to_dense()
            tensor([[0., 1., 0.]])
        """
        return selection.sample(self, dim, fanout, ids, replace, bias)

    def compact(
        self, dim: builtins.int, leading_indices: Tensor | Sequence[builtins.int] | None = None
    ) -> tuple[SparseMatrix, Tensor]:
        """Returns the matrix without its empty rows or columns, and the ids of those that stay.

        Args:
            dim: 0 for rows, 1 for columns.
            leading_indices: ids that come first, empty or not; the others follow in their order.

        Returns:
            The matrix, with its entries in their order, and ``[n]`` the old id of each new one.

        Raises:
            SmexTypeError: ids are no vector of int32 or int64.
            SmexValueError: ``dim`` is another, or an id is out of range or given twice.

        Example:
            >>> A = sg.sparse.spmatrix(torch.tensor([[0, 2], [1, 2]]))
            >>> B, rows = A.compact(0, torch.tensor([1, 2]))
            >>> B.shape, rows
            ((3, 3), tensor([1, 2, 0]))
        """
        return selection.compact(self, dim, leading_indices)

    # ---- devices and dtypes ----

    def cuda(self) -> SparseMatrix:
        """Returns the matrix on the current CUDA device."""
        return self.to(device="cuda")

    def cpu(self) -> SparseMatrix:
        """Returns the matrix on the CPU."""
        return self.to(device="cpu")

    def float(self) -> SparseMatrix:
        """Returns the matrix with values of float32."""
        return self.to(dtype=torch.float32)

    def double(self) -> SparseMatrix:
        """Returns the matrix with values of float64."""
        return self.to(dtype=torch.float64)

    def int(self) -> SparseMatrix:
        """Returns the matrix with values of int32."""
        return self.to(dtype=torch.int32)

    def long(self) -> SparseMatrix:
        """Returns the matrix with values of int64."""
        return self.to(dtype=torch.int64)
