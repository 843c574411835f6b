"""A sparse matrix as data: the places of its entries, which many share, and their values."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

import torch
from torch import Tensor

from smex.errors import SmexTypeError, SmexValueError
from smex.graph.structure.relation import Relation

if TYPE_CHECKING:
    from typing_extensions import Self

INDICES = "indices of the matrix"
"""Where a relation keeps the places of entries as one tensor."""

Matrix = TypeVar("Matrix", bound="MatrixCore")


class MatrixCore:
    """Entries of a matrix ``[num_rows, num_cols]``, their places in a relation.

    Column ``c`` of the matrix is source ``c`` of the relation and row ``r`` is destination ``r``:
    entry ``i``, at ``(r, c)``, is edge ``i``. Matrices of the same places share the relation, and
    with it the formats that any of them has made.
    """

    def __init__(self, relation: Relation, val: Tensor, diagonal: bool = False):
        self._relation = relation
        self._val = val
        self._diagonal = diagonal

    def _make(self, relation: Relation, val: Tensor, diagonal: bool = False) -> Self:
        return type(self)(relation, val, diagonal)

    def _like(self, val: Tensor) -> Self:
        """Returns these places with other values, of the right number."""
        return self._make(self._relation, val, self._diagonal)

    # ---- facts ----

    @property
    def val(self) -> Tensor:
        """Values of the entries, ``[nnz]`` or ``[nnz, D]``, in the order in which they stand."""
        return self._val

    @property
    def shape(self) -> tuple[int, int]:
        """(number of rows, number of columns)."""
        return self._relation.num_dst, self._relation.num_src

    @property
    def nnz(self) -> int:
        """Number of entries, those with the value 0 and repeated ones among them."""
        return self._relation.num_edges

    @property
    def dtype(self) -> torch.dtype:
        """The dtype of the values."""
        return self._val.dtype

    @property
    def device(self) -> torch.device:
        """Where the matrix is."""
        return self._relation.device

    @property
    def row(self) -> Tensor:
        """Row of each entry, ``[nnz]``."""
        return self._relation.coo()[1]

    @property
    def col(self) -> Tensor:
        """Column of each entry, ``[nnz]``."""
        return self._relation.coo()[0]

    def coo(self) -> tuple[Tensor, Tensor]:
        """Returns (rows, columns) of the entries, each ``[nnz]``.

        Example:
            >>> sg.sparse.spmatrix(torch.tensor([[0, 1], [2, 0]])).coo()
            (tensor([0, 1]), tensor([2, 0]))
        """
        return self.row, self.col

    def indices(self) -> Tensor:
        """Returns rows and columns of the entries as one tensor ``[2, nnz]``."""
        return self._relation.keep(INDICES, lambda: torch.stack(self.coo()))

    def csr(self) -> tuple[Tensor, Tensor, Tensor | None]:
        """Returns the entries grouped by row: (indptr, columns, positions of the values).

        The tensors are kept for later calls and must not be changed.

        Returns:
            ``indptr [num_rows + 1]``, ``columns [nnz]`` and ``positions [nnz]``: the value of the
            entry at place ``p`` is ``val[positions[p]]``; None where it is ``val[p]``.

        Example:
            >>> sg.sparse.spmatrix(torch.tensor([[1, 0], [0, 2]])).csr()
            (tensor([0, 1, 2]), tensor([2, 0]), tensor([1, 0]))
        """
        return tuple(self._relation.csc())  # type: ignore[return-value]

    def csc(self) -> tuple[Tensor, Tensor, Tensor | None]:
        """Returns the entries grouped by column: (indptr, rows, positions of the values).

        As :meth:`csr`, with ``indptr [num_cols + 1]``.
        """
        return tuple(self._relation.csr())  # type: ignore[return-value]

    def is_diag(self) -> bool:
        """Returns whether the matrix was made as a diagonal one and has stayed so.

        It was where it comes from :func:`diag` or :func:`identity`; sums, products and quotients
        of diagonal matrices are diagonal too. The places of entries are not looked at.
        """
        return self._diagonal

    def has_duplicate(self) -> bool:
        """Returns whether two entries are at the same place.

        Example:
            >>> sg.sparse.spmatrix(torch.tensor([[1, 1], [0, 0]])).has_duplicate()
            True
        """
        return not self._diagonal and self._relation.is_multigraph()

    def __repr__(self) -> str:
        """Returns the text of entries, values and facts, as DGL prints it."""
        facts = f"shape={self.shape}, nnz={self.nnz}"
        if self._val.dim() > 1:
            facts += f", val_size={tuple(self._val.shape[1:])}"
        margin = " " * (len(type(self).__name__) + 1)
        parts = [_part("indices", self.indices(), margin), _part("values", self._val, margin)]
        return f"{type(self).__name__}(" + f",\n{margin}".join([*parts, facts]) + ")"

    # ---- other forms ----

    def to_dense(self) -> Tensor:
        """Returns the matrix as a dense tensor ``[num_rows, num_cols]``, or ``[..., D]``.

        Entries at the same place are added up.

        Example:
            >>> sg.sparse.spmatrix(torch.tensor([[0, 0], [1, 1]])).to_dense()
            tensor([[0., 2.]])
        """
        dense = self._val.new_zeros((*self.shape, *self._val.shape[1:]))
        return dense.index_put((self.row.long(), self.col.long()), self._val, accumulate=True)

    def transpose(self) -> Self:
        """Returns the transpose ``[num_cols, num_rows]``, which shares everything.

        Example:
            >>> sg.sparse.from_coo(torch.tensor([0]), torch.tensor([2])).transpose().shape
            (3, 1)
        """
        return self._make(self._relation.reverse(), self._val, self._diagonal)

    def t(self) -> Self:
        """The same as :meth:`transpose`."""
        return self.transpose()

    @property
    def T(self) -> Self:  # noqa: N802  (DGL's name)
        """The same as :meth:`transpose`."""
        return self.transpose()

    def coalesce(self) -> Self:
        """Returns the matrix with its entries ordered by row, then column, one at each place.

        Values of entries at the same place are added up; gradients flow through the sum.

        Example:
            >>> sg.sparse.spmatrix(torch.tensor([[1, 0, 1], [0, 1, 0]])).coalesce()
            SparseMatrix(indices=tensor([[0, 1],
                                         [1, 0]]),
                         values=tensor([1., 2.]),
                         shape=(2, 2), nnz=2)
        """
        relation, group = merged(self._relation)
        return self._make(relation, sum_of_groups(self._val, group, relation.num_edges))

    def to(
        self, device: torch.device | str | None = None, dtype: torch.dtype | None = None
    ) -> Self:
        """Returns the matrix on a device, with values of a dtype; itself where both are so.

        Args:
            device: the device; None leaves the matrix where it is.
            dtype: of the values; None leaves it as it is.
        """
        relation = self._relation if device is None else self._relation.to(device)
        val = self._val.to(device=relation.device, dtype=dtype or self._val.dtype)
        if val is self._val and relation is self._relation:
            return self
        return self._make(relation, val, self._diagonal)


def _part(name: str, tensor: Tensor, margin: str) -> str:
    """``name=`` and the tensor's text, its lines one below the other."""
    return f"{name}=" + str(tensor).replace("\n", "\n" + margin + " " * (len(name) + 1))


# ---- entries at the same place ----


def merged(relation: Relation) -> tuple[Relation, Tensor]:
    """Returns each place once, by row, then column, and the place of every entry ``[nnz]``."""
    simple, _, place = relation.reverse().to_simple()
    return simple.reverse(), place


def sum_of_groups(val: Tensor, group: Tensor, size: int) -> Tensor:
    """Returns the sums ``[size, ...]`` of the values of each group, in the values' dtype."""
    return val.new_zeros((size, *val.shape[1:])).index_add(0, group.long(), val)


# ---- checks ----


def check_matrix(op: str, name: str, matrix: Any) -> None:
    """Raises where what should be a sparse matrix is none."""
    if not isinstance(matrix, MatrixCore):
        raise SmexTypeError(
            f"{op}: expected {name} to be a SparseMatrix, found {type(matrix).__name__}"
        )


def check_values(op: str, val: Tensor, nnz: int, device: torch.device) -> None:
    """Raises where values are not ``[nnz]`` or ``[nnz, D]`` beside the matrix."""
    if val.dim() not in (1, 2) or val.shape[0] != nnz:
        raise SmexValueError(
            f"{op}: expected values of shape [{nnz}] or [{nnz}, D], one row for each entry, found "
            f"{list(val.shape)}"
        )
    if val.device != device:
        raise SmexValueError(
            f"{op}: expected values on {device}, where the entries are, found {val.device}"
        )
