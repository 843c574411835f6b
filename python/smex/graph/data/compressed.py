"""Sparse matrices in NumPy's files, as ``scipy.sparse.save_npz`` writes them, without SciPy."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from smex.errors import SmexValueError

__all__ = ["SparseFile", "read_sparse"]


class SparseFile(NamedTuple):
    """Entries of a matrix: where they are, int64 ``[entries]`` each, and their values."""

    row: Tensor
    column: Tensor
    values: Tensor
    shape: tuple[int, int]

    def to_dense(self) -> Tensor:
        """Returns the matrix in its own dtype; entries given twice add up."""
        dense = self.values.new_zeros(self.shape)
        return dense.index_put_((self.row, self.column), self.values, accumulate=True)


def read_sparse(path: Path) -> SparseFile:
    """Returns the entries of a matrix in compressed rows or columns or as coordinates, in order.

    Raises:
        SmexValueError: the file holds something else.
    """
    with np.load(path, allow_pickle=False) as parts:
        kind = parts["format"].item() if "format" in parts else b"coo" if "row" in parts else b""
        kind = kind.decode() if isinstance(kind, bytes) else kind
        if kind not in ("csr", "csc", "coo"):
            raise SmexValueError(
                f"{path} is no sparse matrix: expected csr, csc or coo as its format, found "
                f"{kind!r}; download it again"
            )
        first, second = int(parts["shape"][0]), int(parts["shape"][1])
        values = torch.from_numpy(np.asarray(parts["data"]))
        if kind == "coo":
            row, column = (_ids(parts[name]) for name in ("row", "col"))
        else:
            bounds, column = _ids(parts["indptr"]), _ids(parts["indices"])
            row = torch.repeat_interleave(bounds.diff())
            row, column = (row, column) if kind == "csr" else (column, row)
        return SparseFile(row, column, values, (first, second))


def _ids(array: np.ndarray) -> Tensor:
    return torch.from_numpy(array.astype(np.int64))
