"""Rows of numbers that lie in files of others: .npy, text and Parquet, read a block at a time."""

from __future__ import annotations

import os
import pathlib
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from smex.errors import SmexImportError, SmexRuntimeError, SmexTypeError, SmexValueError

_TEXT = (".csv", ".edgelist", ".edges", ".tsv", ".txt")
_TEXT_BLOCK = 32 << 20
"""Bytes of text that are parsed at once."""
_BATCH = 1 << 20
"""Rows of Parquet that are read at once."""


class Rows:
    """Rows of numbers ``[num_rows, *row_shape]``, wherever they lie.

    Attributes:
        name: for messages: the file's.
        dtype: of the numbers.
        shape: of all rows.
    """

    name: str
    dtype: torch.dtype
    shape: tuple[int, ...]

    @property
    def num_rows(self) -> int:
        """How many there are."""
        return self.shape[0]

    @property
    def row_bytes(self) -> int:
        """Bytes of one."""
        count = self.dtype.itemsize
        for extent in self.shape[1:]:
            count *= extent
        return count

    def read(self, begin: int, end: int) -> Tensor:
        """Returns rows `begin` to `end`, in memory of their own or the holder's."""
        raise NotImplementedError


class FileRows(Rows):
    """Rows that lie one after another in a file.

    Args:
        path: of the file.
        dtype: of the numbers.
        shape: of all rows.
        offset: bytes before the first one.
    """

    def __init__(
        self, path: pathlib.Path, dtype: torch.dtype, shape: Sequence[int], offset: int = 0
    ):
        self.name, self.dtype, self.shape = str(path), dtype, tuple(shape)
        self._offset = offset

    def read(self, begin: int, end: int) -> Tensor:
        """Reads them from the file, so that its pages are not this process's.

        Raises:
            SmexRuntimeError: the file became shorter.
        """
        rows = torch.empty((end - begin, *self.shape[1:]), dtype=self.dtype)
        if rows.numel():
            with open(self.name, "rb", buffering=0) as file:
                read_into(file.fileno(), rows, self._offset + begin * self.row_bytes, self.name)
        return rows

    def halves(self) -> tuple[FileRows, FileRows]:
        """Of shape ``[2, n]``: each row's numbers as rows."""
        path, size = pathlib.Path(self.name), self.shape[1]
        second = self._offset + size * self.dtype.itemsize
        return (
            FileRows(path, self.dtype, (size,), self._offset),
            FileRows(path, self.dtype, (size,), second),
        )


class HeldRows(Rows):
    """Rows that the caller holds: a tensor, or an array that may be mapped."""

    def __init__(self, rows: Tensor | np.ndarray):
        self.name = f"the given {type(rows).__name__}"
        self.shape = tuple(rows.shape)
        self.dtype = rows.dtype if isinstance(rows, Tensor) else _dtype_of(rows.dtype, self.name)
        self._rows = rows

    def read(self, begin: int, end: int) -> Tensor:
        """Returns them."""
        if isinstance(self._rows, Tensor):
            return self._rows[begin:end].detach().cpu()
        return torch.from_numpy(np.array(self._rows[begin:end]))


class JoinedRows(Rows):
    """Rows of several files, one after another."""

    def __init__(self, op: str, pieces: Sequence[Rows]):
        first = pieces[0]
        for piece in pieces:
            if piece.dtype != first.dtype or piece.shape[1:] != first.shape[1:]:
                raise SmexValueError(
                    f"{op}: expected rows of {first.dtype} {list(first.shape[1:])} in {piece.name} "
                    f"as in {first.name}, found {piece.dtype} {list(piece.shape[1:])}"
                )
        self.name = f"{first.name} and {len(pieces) - 1} more" if len(pieces) > 1 else first.name
        self.dtype = first.dtype
        self.shape = (sum(piece.num_rows for piece in pieces), *first.shape[1:])
        self._pieces = pieces

    def read(self, begin: int, end: int) -> Tensor:
        """Reads them from each file."""
        found, start = [], 0
        for piece in self._pieces:
            low, high = max(begin - start, 0), min(end - start, piece.num_rows)
            if low < high:
                found.append(piece.read(low, high))
            start += piece.num_rows
        if len(found) == 1:
            return found[0]
        return torch.cat([torch.empty((0, *self.shape[1:]), dtype=self.dtype), *found])


def read_into(file: int, rows: Tensor, offset: int, name: str) -> None:
    """Fills a tensor from a file's bytes.

    Raises:
        SmexRuntimeError: the file ends before, or cannot be read.
    """
    data: Any = rows.view(-1).view(torch.uint8).numpy()
    view = memoryview(data)
    while view:
        try:
            done = os.preadv(file, [view], offset)
        except OSError as error:
            raise SmexRuntimeError(f"{name}: cannot be read: {error.strerror}") from error
        if done == 0:
            raise SmexRuntimeError(
                f"{name}: expected {len(view)} more bytes from {offset} on, found its end; it was "
                "changed while it was read, run again"
            )
        view, offset = view[done:], offset + done


def _dtype_of(dtype: np.dtype, name: str) -> torch.dtype:
    try:
        return torch.from_numpy(np.empty(0, dtype)).dtype
    except (TypeError, ValueError) as error:
        raise SmexTypeError(
            f"{name}: expected numbers of a type that torch has, found {dtype}; convert them first"
        ) from error


def _in_npy(path: pathlib.Path) -> FileRows:
    try:
        mapped = np.load(path, mmap_mode="r", allow_pickle=False)
    except OSError as error:
        if error.errno is None:
            raise _no_npy(path, error) from error
        raise SmexValueError(
            f"{path}: expected a file, found none that can be read ({error.strerror}); the path is "
            "wrong, or it was not copied"
        ) from error
    except (ValueError, EOFError) as error:
        raise _no_npy(path, error) from error
    if not isinstance(mapped, np.memmap):
        raise SmexValueError(
            f"{path}: expected one array, as numpy.save writes it, found several; save each as .npy"
        )
    if mapped.ndim == 0:
        raise SmexValueError(f"{path}: expected rows, found a single number")
    if not mapped.flags.c_contiguous:
        raise SmexValueError(
            f"{path}: expected rows one after another, found columns (Fortran's order); save "
            "numpy.ascontiguousarray of it"
        )
    dtype = _dtype_of(mapped.dtype, str(path))
    return FileRows(path, dtype, mapped.shape, mapped.offset)


def _no_npy(path: pathlib.Path, error: Exception) -> SmexValueError:
    size = path.stat().st_size
    return SmexValueError(
        f"{path}: expected a whole .npy file, found {size} bytes that are none ({error}); it is "
        "cut off or something else, copy it again"
    )


def open_rows(op: str, given: Any) -> Rows:
    """Returns rows of numbers: a tensor, an array, the path of a .npy, or a list of these.

    Raises:
        SmexTypeError: it is something else.
        SmexValueError: a file is missing, cut off, or something else.
    """
    if isinstance(given, Rows):
        return given
    if isinstance(given, (Tensor, np.ndarray)):
        return HeldRows(given)
    if isinstance(given, (list, tuple)) and given:
        return JoinedRows(op, [open_rows(op, each) for each in given])
    if not isinstance(given, (str, os.PathLike)):
        raise SmexTypeError(
            f"{op}: expected a tensor, an array, the path of a .npy file, or a list of these, "
            f"found {type(given).__name__}"
        )
    path = pathlib.Path(given)
    if path.suffix != ".npy":
        raise SmexValueError(
            f"{op}: expected a .npy file of rows, found {path}; give numpy.memmap of raw numbers"
        )
    return _in_npy(path)


class Edges:
    """The two ends of each edge, read a block at a time.

    Args:
        pieces: pairs of sources and destinations, or both as ``[n, 2]``.
    """

    def __init__(self, pieces: Sequence[Rows | tuple[Rows, Rows]]):
        self._pieces = pieces
        self.names = [(p[0] if isinstance(p, tuple) else p).name for p in pieces]
        self._sizes = [(p[0] if isinstance(p, tuple) else p).num_rows for p in pieces]
        self.num_edges = sum(self._sizes)

    def blocks(self, size: int) -> Iterator[tuple[int, Tensor, Tensor]]:
        """Yields at most `size` edges at a time: the number of the first, sources, destinations."""
        first = 0
        for piece, rows in zip(self._pieces, self._sizes):
            for begin in range(0, rows, size):
                end = min(begin + size, rows)
                if isinstance(piece, tuple):
                    src, dst = (_ids(ends.read(begin, end)) for ends in piece)
                    if src.dtype != dst.dtype:
                        src, dst = src.long(), dst.long()
                else:
                    src, dst = _ids(piece.read(begin, end)).unbind(1)
                yield first + begin, src.contiguous(), dst.contiguous()
            first += rows

    def place_of(self, edge: int) -> str:
        """Where an edge stands, for messages: its number and its file's name."""
        for name, rows in zip(self.names, self._sizes):
            if edge < rows:
                return f"edge {edge} of {name}"
            edge -= rows
        return f"edge {edge}"


def _ids(numbers: Tensor) -> Tensor:
    return numbers if numbers.dtype in (torch.int32, torch.int64) else numbers.long()


def open_edges(
    op: str, given: Any, spool: pathlib.Path, delimiter: str = ",", chunks: bool = False
) -> Edges:
    """Returns the edges of files.

    Args:
        op: the operation, for messages.
        given: a pair of sources and destinations, ``[n, 2]``, ``[2, n]``, the path of a .npy, text
            or Parquet file, or a list of these.
        spool: a file for the numbers of text and Parquet.
        delimiter: between the numbers of text, beside blanks.
        chunks: whether two files are two pieces, not a pair.

    Raises:
        SmexImportError: pyarrow is not installed, and a file is Parquet.
        SmexTypeError: these are no edges, or their ids no integers.
        SmexValueError: a file is missing, cut off, or something else.
    """
    if isinstance(given, tuple) and len(given) == 2 and not chunks:
        return Edges([_pair(op, *(open_rows(op, each) for each in given))])
    pieces: list[Rows | tuple[Rows, Rows]] = []
    for number, each in enumerate(given if isinstance(given, (list, tuple)) else [given]):
        if isinstance(each, (list, tuple)):
            pieces.append(_pair(op, *(open_rows(op, end) for end in each)))
            continue
        path = pathlib.Path(each) if isinstance(each, (str, os.PathLike)) else None
        place = spool.with_name(f"{spool.name}.{number}")
        if path is not None and path.suffix in (".parquet", ".pq"):
            pieces.append(_from_parquet(op, path, place))
        elif path is not None and path.suffix != ".npy":
            pieces.append(read_text(op, path, place, 2, delimiter))
        else:
            pieces.append(_both_ends(op, open_rows(op, each)))
    return Edges(pieces)


def _pair(op: str, *ends: Rows) -> tuple[Rows, Rows]:
    if len(ends) != 2 or any(len(rows.shape) != 1 for rows in ends):
        raise SmexValueError(
            f"{op}: expected a pair of vectors, sources and destinations, found shapes "
            f"{[list(rows.shape) for rows in ends]} of {', '.join(rows.name for rows in ends)}"
        )
    src, dst = ends
    if src.num_rows != dst.num_rows:
        raise SmexValueError(
            f"{op}: expected as many destinations as the {src.num_rows} sources of {src.name}, "
            f"found {dst.num_rows} in {dst.name}"
        )
    for rows in ends:
        _check_integers(op, rows)
    return src, dst


def _both_ends(op: str, rows: Rows) -> Rows | tuple[Rows, Rows]:
    _check_integers(op, rows)
    if len(rows.shape) == 2 and rows.shape[1] == 2 and rows.shape[0] != 2:
        return rows
    if len(rows.shape) == 2 and rows.shape[0] == 2 and rows.shape[1] != 2:
        if isinstance(rows, FileRows):
            return rows.halves()
        both = rows.read(0, 2)
        return HeldRows(both[0]), HeldRows(both[1])
    raise SmexValueError(
        f"{op}: expected edges of shape [n, 2] or [2, n] in {rows.name}, found {list(rows.shape)}; "
        "give a pair (sources, destinations)"
    )


def _check_integers(op: str, rows: Rows) -> None:
    if rows.dtype.is_floating_point or rows.dtype.is_complex or rows.dtype == torch.bool:
        raise SmexTypeError(
            f"{op}: expected ids that are integers in {rows.name}, found {rows.dtype}"
        )


# ---- text and Parquet, whose numbers are written down once ----


class _Spool:
    """Writes int64 numbers to a file that is read again."""

    def __init__(self, path: pathlib.Path, columns: int):
        self._path, self._columns, self._rows = path, columns, 0
        self._file = open(path, "wb")  # noqa: SIM115

    def add(self, numbers: Tensor) -> None:
        self._rows += numbers.shape[0]
        self._file.write(numbers.contiguous().numpy().data)

    def rows(self, name: str) -> FileRows:
        self._file.close()
        rows = FileRows(self._path, torch.int64, (self._rows, self._columns))
        return _Named(rows, name)


class _Named(FileRows):
    """Rows that were read from another file, whose name messages have."""

    def __init__(self, rows: FileRows, name: str):
        super().__init__(pathlib.Path(rows.name), rows.dtype, rows.shape)
        self._path, self.name = rows.name, name

    def read(self, begin: int, end: int) -> Tensor:
        return FileRows(pathlib.Path(self._path), self.dtype, self.shape).read(begin, end)


def read_text(
    op: str, path: pathlib.Path, spool: pathlib.Path, columns: int, delimiter: str = ","
) -> FileRows:
    """Reads lines of whole numbers and writes them to `spool`.

    Numbers are parted by `delimiter` or blanks. Lines that are empty or begin with # or % are left
    out, and a first line that begins with a letter or a quotation mark: the columns' names.

    Raises:
        SmexValueError: the file is missing, of no kind that is known, or a line is something else.
    """
    if columns > 1 and path.suffix not in _TEXT:
        raise SmexValueError(
            f"{op}: expected edges in a file whose name ends with .npy, .parquet, "
            f"{', '.join(_TEXT)}, found {path}; give numpy.memmap of raw numbers"
        )
    found, line = _Spool(spool, columns), 1
    try:
        with open(path, "rb") as file:
            rest = b""
            while block := file.read(_TEXT_BLOCK):
                if line == 1 and (block[:1].isalpha() or block[:1] in (b'"', b"'")):
                    _, newline, block = block.partition(b"\n")
                    line += len(newline)
                block = rest + block
                end = block.rfind(b"\n") + 1
                block, rest = block[:end], block[end:]
                line = _parse(op, path, line, block, columns, delimiter, found)
            _parse(op, path, line, rest, columns, delimiter, found)
    except OSError as error:
        raise SmexValueError(
            f"{path}: expected a file, found none that can be read ({error.strerror}); the path is "
            "wrong, or it was not copied"
        ) from error
    return found.rows(str(path))


def _parse(
    op: str,
    path: pathlib.Path,
    line: int,
    block: bytes,
    columns: int,
    delimiter: str,
    found: _Spool,
) -> int:
    if not block:
        return line
    text = torch.frombuffer(bytearray(block), dtype=torch.uint8)
    numbers, bad = torch.ops.smex.parse_numbers(text, columns, delimiter)
    if bad >= 0:
        wrong = block[bad : bad + 60].split(b"\n")[0].decode(errors="replace").strip()
        number = line + block[:bad].count(b"\n")
        raise SmexValueError(
            f"{op}: expected {columns} whole numbers in line {number} of {path}, found {wrong!r}"
        )
    found.add(numbers)
    return line + block.count(b"\n")


def _from_parquet(op: str, path: pathlib.Path, spool: pathlib.Path) -> FileRows:
    try:
        import pyarrow
        from pyarrow import parquet
    except ImportError as error:
        raise SmexImportError(
            f"{op}: the package pyarrow, which reads {path}, is not installed; pip install pyarrow"
        ) from error
    found = _Spool(spool, 2)
    try:
        file = parquet.ParquetFile(path)
        names = [str(name) for name in file.schema_arrow.names]
        kinds = [str(kind) for kind in file.schema_arrow.types[:2]]
        if len(names) != 2 or not all("int" in kind for kind in kinds):
            raise SmexValueError(
                f"{op}: expected two columns of integers in {path}, sources and destinations, "
                f"found {len(names)}: {', '.join(names)} ({', '.join(kinds)})"
            )
        for batch in file.iter_batches(_BATCH):
            ends = [np.asarray(batch.column(n), dtype=np.int64) for n in range(2)]
            found.add(torch.from_numpy(np.stack(ends, 1)))
    except (pyarrow.ArrowException, OSError) as error:
        raise SmexValueError(
            f"{path}: expected a whole Parquet file, found something else ({error}); it is cut off "
            "or missing, copy it again"
        ) from error
    return found.rows(str(path))
