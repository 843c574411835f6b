"""Files of safetensors, written block by block and read through the page cache.

The format: eight bytes with the header's length, a header of JSON with each tensor's type, shape
and place, and the tensors' bytes without holes. Sums are those of zlib's CRC-32, one for each block
of a file, so that who reads a part of it checks that part.
"""

from __future__ import annotations

import json
import mmap
import os
import zlib
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

import torch

from smex.errors import CheckpointError, SmexValueError

BLOCK = 1 << 20
"""Bytes that one sum is of."""

_WRITE = 8 * BLOCK  # bytes given to the file system at once
_LONGEST_HEADER = 100_000_000  # what the library of safetensors reads

TYPES = {
    "BOOL": torch.bool,
    "U8": torch.uint8,
    "I8": torch.int8,
    "F8_E4M3": torch.float8_e4m3fn,
    "F8_E5M2": torch.float8_e5m2,
    "I16": torch.int16,
    "U16": torch.uint16,
    "F16": torch.float16,
    "BF16": torch.bfloat16,
    "I32": torch.int32,
    "U32": torch.uint32,
    "F32": torch.float32,
    "F64": torch.float64,
    "I64": torch.int64,
    "U64": torch.uint64,
    "C64": torch.complex64,
}
_NAMES = {dtype: name for name, dtype in TYPES.items()}


class Piece(NamedTuple):
    """A tensor of a file: its key, type and shape."""

    key: str
    dtype: torch.dtype
    shape: tuple[int, ...]

    @property
    def bytes(self) -> int:
        """Of its elements."""
        return numel(self.shape) * self.dtype.itemsize


def numel(shape: Sequence[int]) -> int:
    """Returns the number of elements of a shape."""
    count = 1
    for size in shape:
        count *= size
    return count


def type_name(name: str, dtype: torch.dtype) -> str:
    """Returns how safetensors calls a type.

    Raises:
        SmexValueError: it does not have it.
    """
    if dtype not in _NAMES:
        raise SmexValueError(
            f'save: "{name}" is {dtype}, which safetensors has no type for; convert it before it '
            "is saved"
        )
    return _NAMES[dtype]


def aligned(pieces: Iterable[Piece]) -> list[Piece]:
    """Returns tensors in an order in which each lies at a multiple of its elements' size."""
    return sorted(pieces, key=lambda piece: -piece.dtype.itemsize)


def header(pieces: Sequence[Piece], metadata: dict[str, str]) -> tuple[bytes, list[int]]:
    """Returns what a file of these tensors begins with, and where in the file each begins."""
    entries: dict[str, Any] = {"__metadata__": metadata}
    place = 0
    for piece in pieces:
        entries[piece.key] = {
            "dtype": type_name(piece.key, piece.dtype),
            "shape": list(piece.shape),
            "data_offsets": [place, place + piece.bytes],
        }
        place += piece.bytes
    text = json.dumps(entries, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    begin = 8 + len(text)
    places = [begin + entries[piece.key]["data_offsets"][0] for piece in pieces]
    return len(text).to_bytes(8, "little") + text, places


def bytes_of(tensor: torch.Tensor) -> memoryview:
    """Returns the bytes of a tensor in the order of its elements; its own where they lie so."""
    plain = tensor.detach().resolve_conj().resolve_neg().cpu().contiguous().reshape(-1)
    data: Any = plain.view(torch.uint8).numpy()
    return memoryview(data)


class _Sums:
    """The sums of a file's blocks, as it is written."""

    def __init__(self) -> None:
        self.done: list[int] = []
        self._sum = 0
        self._left = BLOCK

    def add(self, data: memoryview) -> None:
        while data:
            part, data = data[: self._left], data[self._left :]
            self._sum = zlib.crc32(part, self._sum)
            self._left -= len(part)
            if not self._left:
                self.done.append(self._sum)
                self._sum, self._left = 0, BLOCK

    def all(self) -> list[int]:
        return self.done if self._left == BLOCK else [*self.done, self._sum]


class Written(NamedTuple):
    """A file as it was written: its size and the sums of its blocks."""

    name: str
    size: int
    sums: list[int]


def write(
    path: str,
    begin: bytes,
    pieces: Iterable[Callable[[], torch.Tensor]],
    progress: Callable[[int], None],
) -> Written:
    """Writes a file, and waits until the disk has it.

    Args:
        path: of a new file.
        begin: the header.
        pieces: give the tensors, in the header's order; one at a time is asked for.
        progress: is told the bytes that were written since it was last called.

    Raises:
        OSError: what the file system says.
    """
    sums, size = _Sums(), 0
    with open(path, "xb", buffering=0) as file:
        waiting = bytearray(begin)
        for give in pieces:
            data = bytes_of(give())
            if len(waiting) + len(data) <= _WRITE:
                waiting += data  # small ones go together
                continue
            size += _write(file, memoryview(waiting), sums, progress)
            waiting = bytearray()
            size += _write(file, data, sums, progress)
        size += _write(file, memoryview(waiting), sums, progress)
        os.fsync(file.fileno())
    return Written(os.path.basename(path), size, sums.all())


def _write(file: Any, data: memoryview, sums: _Sums, progress: Callable[[int], None]) -> int:
    """Writes bytes, each few while they are still in the cache from being summed up."""
    size = len(data)
    while data:
        part, data = data[:_WRITE], data[_WRITE:]
        sums.add(part)
        left = part
        while left:
            left = left[file.write(left) :]
        progress(len(part))
    return size


def sync_folder(path: str) -> None:
    """Waits until the disk has a folder's entries."""
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


class File:
    """A file that parts are read of.

    What is read stays in the page cache and is no memory of the process.

    Args:
        path: of the file.
        size: what it has to have; None for any.

    Raises:
        CheckpointError: it cannot be read, or has another size.
    """

    def __init__(self, path: str, size: int | None = None):
        self.path = path
        self._map: mmap.mmap | None = None
        try:
            self._file = open(path, "rb", buffering=0)  # noqa: SIM115  (closed by `close`)
        except OSError as error:
            raise CheckpointError(f"load: {path} cannot be read: {error.strerror}") from error
        self.size = os.fstat(self._file.fileno()).st_size
        if size is not None and self.size != size:
            self.close()
            raise CheckpointError(
                f"load: {path} has {self.size} bytes and was saved with {size}: it was cut short "
                "or replaced; load another checkpoint (smex.latest passes over this one)"
            )

    def close(self) -> None:
        """Lets go of the file, whose memory goes with the last tensor of it."""
        self._map = None
        self._file.close()

    def read(self, place: int, count: int) -> bytes:
        """Returns some bytes."""
        return os.pread(self._file.fileno(), count, place)

    def check(self, blocks: Iterable[int], sums: Sequence[int]) -> None:
        """Compares blocks with their sums.

        Raises:
            CheckpointError: one has other bytes.
        """
        buffer = memoryview(bytearray(BLOCK))
        for block in blocks:
            try:
                count = os.preadv(self._file.fileno(), [buffer], block * BLOCK)
            except OSError as error:
                raise CheckpointError(
                    f"load: {self.path} cannot be read: {error.strerror}"
                ) from error
            if zlib.crc32(buffer[:count]) != sums[block]:
                raise CheckpointError(
                    f"load: {self.path} has other bytes between {block * BLOCK} and "
                    f"{block * BLOCK + count} than were saved; load another checkpoint"
                )

    def tensor(self, place: int, dtype: torch.dtype, shape: Sequence[int]) -> torch.Tensor:
        """Returns a tensor of the file, whose bytes are read where it is looked at."""
        if not numel(shape):
            return torch.empty(list(shape), dtype=dtype)
        if self._map is None:
            # Private, so that torch may take it for writable, and counted by no limit of memory.
            flags = mmap.MAP_PRIVATE | getattr(mmap, "MAP_NORESERVE", 0x4000)
            both = mmap.PROT_READ | mmap.PROT_WRITE
            self._map = mmap.mmap(self._file.fileno(), self.size, flags=flags, prot=both)
        return torch.frombuffer(self._map, dtype=dtype, count=numel(shape), offset=place).view(
            list(shape)
        )


class Place(NamedTuple):
    """Where in a file a tensor lies."""

    dtype: torch.dtype
    shape: tuple[int, ...]
    begin: int


def read_header(file: File) -> tuple[dict[str, Place], dict[str, str]]:
    """Returns the tensors of a file by their keys, and its metadata.

    Raises:
        CheckpointError: it is not of safetensors, or not whole.
    """

    def refuse(why: str) -> CheckpointError:
        return CheckpointError(f"load: {file.path} is no safetensors file: {why}")

    length = int.from_bytes(file.read(0, 8), "little")
    if file.size < 8 or length > min(file.size - 8, _LONGEST_HEADER):
        raise refuse(f"a header of {length} bytes in a file of {file.size}")
    try:
        entries = json.loads(file.read(8, length))
    except ValueError as error:
        raise refuse(f"its header is not JSON ({error})") from error
    if not isinstance(entries, dict):
        raise refuse("its header is no object")
    metadata = entries.pop("__metadata__", {})
    found = {}
    for key, entry in entries.items():
        try:
            dtype, shape = TYPES.get(entry["dtype"]), tuple(map(int, entry["shape"]))
            begin, end = map(int, entry["data_offsets"])
        except (KeyError, TypeError, ValueError) as error:
            raise refuse(f'"{key}" has no type, shape or place') from error
        if dtype is None:
            continue  # of a type that torch does not have; who asks for it is told that it is not
        if end - begin != numel(shape) * dtype.itemsize or begin < 0:
            raise refuse(f'"{key}" has {end - begin} bytes for {list(shape)} of {dtype}')
        if 8 + length + end > file.size:
            raise refuse(f'"{key}" ends at {8 + length + end}, the file at {file.size}')
        found[key] = Place(dtype, shape, 8 + length + begin)
    return found, metadata
