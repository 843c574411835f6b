"""Columns of numbers in files that are mapped into memory, and the manifest that tells of them.

A file is the numbers of one tensor, row after row, without a header: its type, shape, size and sums
stand in the manifest, which is written last, under another name first. Sums are those of zlib's
CRC-32, one for each block of a file, so that several processes share the reading.
"""

from __future__ import annotations

import json
import os
import pathlib
import zlib
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from smex.errors import SmexRuntimeError, SmexTypeError, SmexValueError

BLOCK = 16 << 20
"""Bytes that one sum is of."""
FORMAT = "smex.graph.distributed"
VERSION = 1

_TYPES = {
    str(dtype).removeprefix("torch."): dtype
    for dtype in (
        torch.bool,
        torch.uint8,
        torch.int8,
        torch.int16,
        torch.int32,
        torch.int64,
        torch.float16,
        torch.bfloat16,
        torch.float32,
        torch.float64,
        torch.complex64,
        torch.complex128,
    )
}


class FileEntry(NamedTuple):
    """What a manifest tells of one file.

    Attributes:
        path: of the file, from the manifest's folder.
        dtype: of its numbers.
        shape: of the tensor.
        sums: of its blocks.
    """

    path: str
    dtype: str
    shape: list[int]
    sums: list[int]

    @property
    def size(self) -> int:
        """Bytes of the file."""
        count = _TYPES[self.dtype].itemsize
        for extent in self.shape:
            count *= extent
        return count

    @property
    def num_blocks(self) -> int:
        """How many blocks have a sum."""
        return -(-self.size // BLOCK)


def numbers_of(tensor: Tensor) -> memoryview:
    """Returns the bytes of a tensor in the order of its elements; its own where they lie so."""
    plain = tensor.detach().resolve_conj().resolve_neg().cpu().contiguous().reshape(-1)
    data: Any = plain.view(torch.uint8).numpy()
    return memoryview(data)


class ColumnWriter:
    """Writes a tensor row by row, as :func:`write_column` does one that is in memory.

    Args:
        folder: of the manifest.
        path: of the file, from there.
        dtype: of the numbers.
        row_shape: of a row.

    Raises:
        SmexTypeError: the type has no name in such files.
        SmexRuntimeError: the file cannot be written.
    """

    def __init__(
        self, folder: pathlib.Path, path: str, dtype: torch.dtype, row_shape: Sequence[int] = ()
    ):
        self._name = str(dtype).removeprefix("torch.")
        if self._name not in _TYPES:
            raise SmexTypeError(
                f"partition_graph: {path} would have numbers of {dtype}; expected one of "
                f"{', '.join(_TYPES)}"
            )
        self._target, self._path, self._row_shape = folder / path, path, list(row_shape)
        self._rows = self._bytes = 0
        self._sums: list[int] = []
        try:
            self._target.parent.mkdir(parents=True, exist_ok=True)
            self._file = open(self._target, "wb")  # noqa: SIM115
        except OSError as error:
            raise _cannot_write(self._target, error) from error

    def add(self, rows: Tensor) -> None:
        """Writes rows behind those that are there.

        Raises:
            SmexRuntimeError: the file cannot be written.
        """
        self._rows += rows.shape[0]
        data = numbers_of(rows) if rows.numel() else memoryview(b"")
        while data:
            rest = BLOCK - self._bytes % BLOCK
            if rest == BLOCK:
                self._sums.append(0)
            block, data = data[:rest], data[rest:]
            self._sums[-1] = zlib.crc32(block, self._sums[-1])
            self._bytes += len(block)
            try:
                self._file.write(block)
            except OSError as error:
                raise _cannot_write(self._target, error) from error

    def close(self) -> FileEntry:
        """Waits until the disk has the file, and returns what a manifest tells of it.

        Raises:
            SmexRuntimeError: the file cannot be written.
        """
        try:
            with self._file as file:
                file.flush()
                os.fsync(file.fileno())
        except OSError as error:
            raise _cannot_write(self._target, error) from error
        return FileEntry(self._path, self._name, [self._rows, *self._row_shape], self._sums)


def _cannot_write(path: pathlib.Path, error: OSError) -> SmexRuntimeError:
    return SmexRuntimeError(f"{path}: cannot be written: {error.strerror}")


def write_column(folder: pathlib.Path, path: str, tensor: Tensor) -> FileEntry:
    """Writes a tensor and waits until the disk has it.

    Raises:
        SmexTypeError: its type has no name in such files.
        SmexRuntimeError: the file cannot be written.
    """
    writer = ColumnWriter(folder, path, tensor.dtype, tensor.shape[1:])
    writer.add(tensor)
    return writer.close()


def check_column(folder: pathlib.Path, entry: FileEntry, blocks: Sequence[int] = ()) -> None:
    """Compares a file's size, and some of its blocks' sums, with what the manifest tells.

    Raises:
        SmexRuntimeError: the file is missing, or is not what was written.
    """
    path = folder / entry.path
    try:
        found = path.stat().st_size
    except OSError as error:
        raise SmexRuntimeError(
            f"{path}: expected a file of {entry.size} bytes, found none ({error.strerror}); copy "
            "the whole folder, or partition again"
        ) from error
    if found != entry.size:
        raise SmexRuntimeError(
            f"{path}: expected {entry.size} bytes ({entry.dtype} {entry.shape}), found {found}; "
            "it is cut off or of another graph, copy it again"
        )
    with open(path, "rb") as file:
        for block in blocks:
            file.seek(block * BLOCK)
            now = zlib.crc32(file.read(BLOCK))
            if now != entry.sums[block]:
                raise SmexRuntimeError(
                    f"{path}: expected sum {entry.sums[block]} of its bytes from {block * BLOCK} "
                    f"on, found {now}; it was changed after it was written, copy it again"
                )


def map_column(folder: pathlib.Path, entry: FileEntry) -> Tensor:
    """Returns the tensor of a file, whose pages are read when they are used and shared by all.

    What is written to it stays in this process.

    Raises:
        SmexRuntimeError: the file is missing or has another size.
    """
    check_column(folder, entry)
    dtype = _TYPES[entry.dtype]
    if entry.size == 0:
        return torch.empty(entry.shape, dtype=dtype)
    count = entry.size // dtype.itemsize
    return torch.from_file(str(folder / entry.path), shared=False, size=count, dtype=dtype).view(
        entry.shape
    )


def write_manifest(path: pathlib.Path, kind: str, content: Mapping[str, Any]) -> None:
    """Writes a manifest: complete, or not there.

    Raises:
        SmexRuntimeError: it cannot be written.
    """
    told = {"format": FORMAT, "version": VERSION, "kind": kind, **content}
    draft = path.with_name(path.name + ".tmp")
    try:
        with open(draft, "w") as file:
            json.dump(told, file, indent=1)
            file.flush()
            os.fsync(file.fileno())
        os.replace(draft, path)
    except OSError as error:
        raise _cannot_write(path, error) from error


def read_manifest(path: str | os.PathLike, kind: str, op: str) -> tuple[pathlib.Path, Any]:
    """Returns the folder of a manifest, and what it tells.

    Args:
        path: of the manifest, or of a folder that has one of the kind.
        kind: what it is to tell of.
        op: the operation, for messages.

    Raises:
        SmexValueError: there is none, or it is another program's, another version's or of another
            kind.
    """
    place = pathlib.Path(path)
    if place.is_dir():
        found = sorted(place.glob("*.json"))
        if len(found) != 1:
            raise SmexValueError(
                f"{op}: expected one manifest (*.json) in the folder {place}, found {len(found)}; "
                "give the path of the file"
            )
        place = found[0]
    try:
        told = json.loads(place.read_bytes())
    except OSError as error:
        raise SmexValueError(
            f"{op}: expected a manifest at {place}, found none ({error.strerror}); partition_graph "
            "writes it last, as OUT_PATH/GRAPH_NAME.json"
        ) from error
    except ValueError as error:
        raise SmexValueError(
            f"{op}: expected the JSON of a manifest in {place}, found something else ({error}); "
            "copy it again"
        ) from error
    if not isinstance(told, dict) or told.get("format") != FORMAT:
        raise SmexValueError(
            f'{op}: expected a manifest with "format": "{FORMAT}" in {place}, found another '
            "program's; write the graph anew with smex.graph.distributed.partition_graph"
        )
    found_kind = told.get("version"), told.get("kind")
    if found_kind != (VERSION, kind):
        raise SmexValueError(
            f"{op}: expected version {VERSION} of kind {kind!r} in {place}, found version "
            f"{found_kind[0]} of kind {found_kind[1]!r}"
        )
    return place.parent, told


def entry_of(told: Any, path: pathlib.Path) -> FileEntry:
    """Returns what a manifest tells of a file.

    Raises:
        SmexValueError: it tells something else.
    """
    try:
        entry = FileEntry(*(told[name] for name in FileEntry._fields))
        if entry.num_blocks != len(entry.sums) or pathlib.Path(entry.path).is_absolute():
            raise ValueError(f"{len(entry.sums)} sums of {entry.num_blocks} blocks")
    except (KeyError, TypeError, ValueError) as error:
        raise SmexValueError(
            f"{path}: expected the path, dtype, shape and sums of each file, found {told!r} "
            f"({type(error).__name__}: {error}); the manifest was changed, copy it again"
        ) from error
    return entry
