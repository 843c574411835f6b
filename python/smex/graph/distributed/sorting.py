"""Edges sorted by row through a file: a counting sort whose buckets do not lie in memory."""

from __future__ import annotations

import itertools
import os
import pathlib
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch
from torch import Tensor

from smex.errors import SmexRuntimeError
from smex.graph.distributed.files import numbers_of
from smex.graph.distributed.sources import Rows, read_into

RECORD_BYTES = 16
"""Of an edge in a file: its row within the bucket, its column and its id."""
_MOST_ROWS = 1 << 24
"""Rows of a bucket, of which a record has so many bits."""
_SORTED_BYTES = 56
"""Of an edge while its bucket is sorted: the record, column, id and order, and a copy of two."""
_BLOCK_BYTES = 96
"""Of an edge while its block is divided: ends as read, as int64 and renumbered, record, order."""
_MOST_BLOCK = 1 << 22
_FITTING = 1 << 19
"""Edges of a bucket that is sorted within the last caches; no fewer of a bucket help."""
_MOST_BUCKETS = 1 << 11
"""Unless edges are more than so many such buckets, since each is a write in each block."""

Blocks = Callable[[int], Iterator[tuple[int, Tensor, Tensor]]]
"""What yields, of at most so many edges at a time, the first's id, rows and columns."""


class Sizes:
    """How many edges are read and sorted at a time, so that both keep to some bytes.

    Args:
        room: the bytes.
        payload: bytes of an edge's widest feature.
        num_edges: how many there are.
    """

    def __init__(self, room: int, payload: int = 0, num_edges: int = 0):
        self.block = max(1, min(_MOST_BLOCK, room // (_BLOCK_BYTES + 2 * payload)))
        wanted = max(_FITTING, num_edges // _MOST_BUCKETS)
        self.bucket = max(1, min(wanted, room // (_SORTED_BYTES + 2 * payload)))


class Piece:
    """Edges of neighbouring rows, sorted.

    Attributes:
        begin: the place of the first among all.
        columns: int64.
        ids: of the edges, int64.
    """

    def __init__(self, begin: int, columns: Tensor, ids: Tensor, payload: Callable[[int], Tensor]):
        self.begin, self.columns, self.ids = begin, columns, ids
        self.payload = payload
        """Returns the rows of a column, by its number, in the order of the edges."""


def sorted_edges(
    blocks: Blocks,
    indptr: Tensor,
    cuts: Sequence[int],
    num_columns: int,
    maps: tuple[Tensor | None, Tensor | None],
    payload: Sequence[Rows],
    scratch: pathlib.Path,
    sizes: Sizes,
    advance: Callable[[int], None],
) -> Iterator[Piece]:
    """Yields the edges by row, those of a row in their order.

    Args:
        blocks: the edges.
        indptr: ``[num_rows + 1]`` where the edges of each new row will be, int64.
        cuts: ascending row numbers from 0 to ``num_rows`` that no piece lies across.
        num_columns: how many there are.
        maps: the new number of each row, and of each column; None: as they are.
        payload: columns with a row for each edge, by id, which go along.
        scratch: a file for records; others beside it for columns.
        sizes: edges at a time.
        advance: told how many edges were read, and later how many sorted.

    Raises:
        SmexRuntimeError: a file cannot be written or read.
    """
    bounds = _bucket_bounds(indptr, cuts, sizes.bucket)
    starts = indptr[torch.tensor(bounds)].tolist()
    files = [scratch, *(scratch.with_name(f"{scratch.name}.{n}") for n in range(len(payload)))]
    try:
        _divide(blocks, bounds, starts, num_columns, maps, payload, files, sizes, advance)
        with open(scratch, "rb", buffering=0) as file:
            for bucket, (begin, end) in enumerate(itertools.pairwise(starts)):
                rows = indptr[bounds[bucket] : bounds[bucket + 1] + 1]
                is_one_row = rows.shape[0] == 2
                step = sizes.bucket if is_one_row else max(end - begin, 1)
                for first in range(begin, end, step):
                    last = min(first + step, end)
                    part = torch.tensor([first, last]) if is_one_row else rows.contiguous()
                    yield _sorted(file.fileno(), first, last, part, payload, files)
                    advance(last - first)
    finally:
        for path in files:
            path.unlink(missing_ok=True)


def _bucket_bounds(indptr: Tensor, cuts: Sequence[int], most: int) -> list[int]:
    """Rows at which buckets begin: as many rows as have at most so many edges, one at least."""
    bounds = [0]
    for end in cuts[1:]:
        while bounds[-1] < end:
            start = bounds[-1]
            limit = indptr[start] + most
            after = int(torch.searchsorted(indptr, limit, right=True)) - 1
            bounds.append(min(max(after, start + 1), start + _MOST_ROWS, end))
    if len(bounds) == 1:
        bounds.append(0)
    return bounds


def _divide(
    blocks: Blocks,
    bounds: list[int],
    starts: list[int],
    num_columns: int,
    maps: tuple[Tensor | None, Tensor | None],
    payload: Sequence[Rows],
    paths: Sequence[pathlib.Path],
    sizes: Sizes,
    advance: Callable[[int], None],
) -> None:
    """Writes each edge's record, and its rows of columns, to its bucket's place in the files."""
    # A row with more edges than a bucket holds is alone in one: its edges come in their order.
    files = [open(path, "wb", buffering=0) for path in paths]  # noqa: SIM115
    try:
        _reserve(files[0], starts[-1] * RECORD_BYTES, paths[0])
        next_place = list(starts[:-1])
        edges = torch.tensor(bounds)
        for first, rows, columns in blocks(sizes.block):
            records, order, counts = torch.ops.smex.bucket_edges(
                rows, columns, *maps, bounds[-1], num_columns, edges, first
            )
            size = rows.shape[0]
            _put(files[0], paths[0], numbers_of(records), RECORD_BYTES, counts, next_place)
            for number, source in enumerate(payload, 1):
                taken = source.read(first, first + size)[order]
                if source.row_bytes:
                    data = numbers_of(taken)
                    _put(files[number], paths[number], data, source.row_bytes, counts, next_place)
            next_place = [n + c for n, c in zip(next_place, counts.tolist())]
            advance(size)
    finally:
        for file in files:
            file.close()


def _reserve(file: Any, size: int, path: pathlib.Path) -> None:
    try:
        if size:
            os.posix_fallocate(file.fileno(), 0, size)
    except OSError as error:
        raise SmexRuntimeError(f"{path}: cannot be written: {error.strerror}") from error


def _put(
    file: Any,
    path: pathlib.Path,
    data: memoryview,
    row_bytes: int,
    counts: Tensor,
    places: Sequence[int],
) -> None:
    begin = 0
    try:
        for count, place in zip(counts.tolist(), places):
            rest, offset = data[begin : begin + count * row_bytes], place * row_bytes
            begin += count * row_bytes
            while rest:
                done = os.pwrite(file.fileno(), rest, offset)
                rest, offset = rest[done:], offset + done
    except OSError as error:
        raise SmexRuntimeError(f"{path}: cannot be written: {error.strerror}") from error


def _sorted(
    file: int,
    begin: int,
    end: int,
    indptr: Tensor,
    payload: Sequence[Rows],
    paths: Sequence[pathlib.Path],
) -> Piece:
    records = torch.empty((end - begin, 2), dtype=torch.int64)
    read_into(file, records, begin * RECORD_BYTES, str(paths[0]))
    columns, ids, order = torch.ops.smex.order_bucket(records, indptr, bool(payload))

    def rows(number: int) -> Tensor:
        source = payload[number]
        found = torch.empty((end - begin, *source.shape[1:]), dtype=source.dtype)
        if found.numel():
            with open(paths[number + 1], "rb", buffering=0) as held:
                offset = begin * source.row_bytes
                read_into(held.fileno(), found, offset, str(paths[number + 1]))
        return found[order]

    return Piece(begin, columns, ids, rows)
