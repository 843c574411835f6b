"""Pickles from elsewhere, read without running what they name.

A pickle names functions and calls them, so one from the net can run anything. This reader resolves
a fixed list of names and refuses all others. Matrices of SciPy become :class:`CompressedRows`
and :class:`Coordinates`: their attributes are read as plain data, whatever SciPy is installed.
"""

from __future__ import annotations

import collections
import io
import os
import pickle
from typing import IO, Any

import numpy as np
import torch
from torch import Tensor

from smex.errors import SmexValueError

__all__ = ["CompressedRows", "Coordinates", "load_pickle"]


class CompressedRows:
    """A sparse matrix by rows, as ``scipy.sparse.csr_matrix`` writes itself."""

    data: np.ndarray
    indices: np.ndarray
    indptr: np.ndarray

    @property
    def shape(self) -> tuple[int, int]:
        """Number of rows and columns."""
        rows, columns = self.__dict__["_shape"]
        return int(rows), int(columns)

    def to_dense(self) -> Tensor:
        """Returns the matrix ``[rows, columns]`` in its own dtype; entries given twice add up.

        Raises:
            SmexValueError: the arrays are no matrix of that shape.
        """
        rows, columns = self.shape
        bounds, where = (
            torch.from_numpy(np.asarray(a)).long() for a in (self.indptr, self.indices)
        )
        values = torch.from_numpy(np.asarray(self.data))
        lengths = bounds.diff()
        fits = bounds.shape == (rows + 1,) and int(bounds[0]) == 0 and bool((lengths >= 0).all())
        if not fits or int(bounds[-1]) != where.numel() or where.shape != values.shape:
            raise SmexValueError(
                f"CompressedRows: the arrays are no matrix of {rows} rows; the file is damaged, "
                "download it again"
            )
        place = torch.arange(rows).repeat_interleave(lengths) * columns + where
        if bool(((where < 0) | (where >= columns)).any()):
            raise SmexValueError(
                f"CompressedRows: a column is outside of {columns}; the file is damaged, download "
                "it again"
            )
        return values.new_zeros(rows * columns).index_add_(0, place, values).view(rows, columns)


class Coordinates:
    """A sparse matrix by entries, as ``scipy.sparse.coo_matrix`` writes itself."""

    data: np.ndarray

    @property
    def shape(self) -> tuple[int, int]:
        """Number of rows and columns."""
        rows, columns = self.__dict__["_shape"]
        return int(rows), int(columns)

    @property
    def ends(self) -> tuple[np.ndarray, np.ndarray]:
        """The row and the column of each entry."""
        parts = self.__dict__  # SciPy keeps both in one attribute from 1.13 on
        row, column = parts["coords"] if "coords" in parts else (parts["row"], parts["col"])
        return row, column


def _storage(data: bytes) -> Any:
    """Returns the storage of a tensor, in ``torch.save``'s format, without running anything."""
    return torch.load(io.BytesIO(data), map_location="cpu", weights_only=True)


def _tensor(storage: Any, offset: int, size: Any, stride: Any, *unused: Any) -> Tensor:
    """Returns a tensor of a storage; torch checks that it is within."""
    empty = torch.empty(0, dtype=storage.dtype)
    return empty.set_(storage._untyped_storage, offset, tuple(size), tuple(stride)).clone()


def _encode(text: str, encoding: str) -> bytes:
    """Returns the bytes of a string, as pickles of old protocols spell them."""
    if encoding != "latin1":
        raise pickle.UnpicklingError(f"bytes encoded as {encoding!r}")
    return text.encode("latin1")


# numpy's functions that make an array, and a number, of their bytes.
_ARRAY_FUNCTIONS: dict[str, Any] = {
    "_reconstruct": np.zeros(0).__reduce__()[0],
    "scalar": np.float64(0).__reduce__()[0],
}
_NAMES: dict[tuple[str, str], Any] = {
    ("collections", "OrderedDict"): collections.OrderedDict,
    ("collections", "defaultdict"): collections.defaultdict,
    ("numpy", "dtype"): np.dtype,
    ("numpy", "ndarray"): np.ndarray,
    **{
        (f"numpy.{core}.multiarray", name): function
        for core in ("core", "_core")
        for name, function in _ARRAY_FUNCTIONS.items()
    },
    **{
        (module, kind.__name__): kind
        for module in ("__builtin__", "builtins")
        for kind in (dict, list, set)
    },
}


class _Unpickler(pickle.Unpickler):
    """Reads one pickle. What is written in Python is made anew: a pickle can set attributes."""

    def __init__(self, file: IO[bytes]):
        super().__init__(file, encoding="latin1")
        matrix = type("CompressedRows", (CompressedRows,), {})
        entries = type("Coordinates", (Coordinates,), {})
        self._names = {
            **_NAMES,
            ("_codecs", "encode"): lambda text, encoding: _encode(text, encoding),
            ("scipy.sparse.csr", "csr_matrix"): matrix,
            ("scipy.sparse._csr", "csr_matrix"): matrix,
            ("scipy.sparse.coo", "coo_matrix"): entries,
            ("scipy.sparse._coo", "coo_matrix"): entries,
            ("torch._utils", "_rebuild_tensor_v2"): lambda *parts: _tensor(*parts),
            ("torch.storage", "_load_from_bytes"): lambda data: _storage(data),
        }

    def find_class(self, module: str, name: str) -> Any:
        if (module, name) not in self._names:
            raise pickle.UnpicklingError(f"it names {module}.{name}")
        return self._names[module, name]


def load_pickle(path: str | os.PathLike[str] | IO[bytes]) -> Any:
    """Returns the arrays, tensors, numbers, strings, lists and dicts in a pickle, of Python 2 too.

    Args:
        path: a file's name, or an open file.

    Returns:
        What was pickled, with :class:`CompressedRows` in the place of SciPy's ``csr_matrix`` and
        :class:`Coordinates` of its ``coo_matrix``.

    Raises:
        SmexValueError: the file names anything else, or is damaged. Nothing that it names is run.

    Example:
        >>> import io, pickle
        >>> sg.data.load_pickle(io.BytesIO(pickle.dumps({"a": [1, 2]})))
        {'a': [1, 2]}
    """
    if isinstance(path, (str, os.PathLike)):
        with open(path, "rb") as file:
            return load_pickle(file)
    try:
        return _Unpickler(path).load()
    except Exception as error:  # damaged bytes fail in any way
        name = getattr(path, "name", "the file")
        raise SmexValueError(
            f"load_pickle: {name} is not read, expected arrays, "
            f"matrices, lists and dicts: {error}; download it again from a source that you trust"
        ) from error
