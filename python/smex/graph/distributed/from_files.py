"""A graph written in parts from files, in memory for its nodes and some of its edges."""

from __future__ import annotations

import bisect
import contextlib
import itertools
import logging
import os
import pathlib
import shutil
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from smex.errors import SmexRuntimeError, SmexTypeError, SmexValueError
from smex.graph.creation.convert import heterograph
from smex.graph.distributed.assignment import (
    METHODS,
    assigned_parts,
    kinds_of,
    parts_without_edges,
)
from smex.graph.distributed.chunked import GraphFiles, open_graph
from smex.graph.distributed.files import ColumnWriter, FileEntry
from smex.graph.distributed.partition import check_names, starts_of
from smex.graph.distributed.sorting import RECORD_BYTES, Sizes, sorted_edges
from smex.graph.distributed.sources import Edges, Rows, open_rows, read_text
from smex.graph.distributed.stream_assignment import PASSES, STREAMS, streamed_parts
from smex.graph.distributed.writer import GraphWriter
from smex.graph.sampling.arguments import check_count
from smex.graph.words import CanonicalType

__all__ = ["partition_files"]

logger = logging.getLogger("smex.graph.distributed")

_OP = "partition_files"
_NODE_BYTES = 64
"""Of a node: its degree, part, old and new number, and a sort of these."""
_LEAST_ROOM = 16 << 20
_METIS_BYTES = 300
"""Of an edge while METIS works: both directions, sorted, and its coarser graphs."""
_WHOLE = 1 << 40
"""Edges of a block that has all of a file."""
_OPEN_FILES = 256
"""Parts whose files are written at once."""


def partition_files(
    edges: Any,
    graph_name: str,
    num_parts: int,
    out_path: str | os.PathLike,
    num_hops: int = 1,
    part_method: Any = "fennel",
    balance_ntypes: Any = None,
    balance_edges: bool = False,
    *,
    num_nodes: Any = None,
    ndata: Any = None,
    edata: Any = None,
    idtype: torch.dtype = torch.int64,
    passes: int = PASSES,
    memory_limit: float = 4 << 30,
    scratch: str | os.PathLike | None = None,
    verbose: bool = False,
) -> None:
    """Writes a graph that lies in files in parts, as :func:`partition_graph` does one in memory.

    The folder is the same, byte by byte, as that of :func:`partition_graph` for the same parts of
    nodes; an edge's id is its place in the files. Memory is needed for nodes, 64 bytes each, and
    for as many edges at a time as `memory_limit` leaves room for: edges are divided among buckets
    in a file, of which each is then sorted by itself (an external counting sort); rows of features
    go along with edges, or are read once, block by block, for nodes.

    `edges` may be

    * a pair of sources and destinations, or one array ``[n, 2]`` or ``[2, n]``: paths of .npy
      files, tensors, or arrays such as ``numpy.memmap`` of raw numbers;
    * the path of a text file (.csv, .tsv, .txt, .edges, .edgelist) with a source and a destination
      in each line, parted by a comma or blanks; empty lines, lines that begin with # or %, and a
      first line of names are left out;
    * the path of a .parquet file with two columns of integers, with pyarrow;
    * a list of such files, one after another;
    * a dict of these by ``(source type, type, destination type)``;
    * a ``metadata.json`` of DGL's chunked graph format, or its folder, with the features it names.

    Args:
        edges: as said.
        graph_name: names the files.
        num_parts: number of parts, usually one for each machine or rank.
        out_path: the folder, which is made.
        num_hops: as for :func:`partition_graph`.
        part_method: ``"fennel"`` or ``"ldg"``, streams of nodes that leave few edges between parts
            (Tsourakakis et al. 2014; Stanton and Kliot 2012), in several passes; ``"random"``,
            ``"range"``, or the part of each node, by type where there are several: a vector, a .npy
            file, or a folder of text files ``TYPE.txt`` with a line for each node, as DGL's tools
            write them; ``"metis"``, which has the whole graph in memory and is refused where it
            would not fit.
        balance_ntypes: a kind of each node, such as a training mask, by node type where there are
            several: parts get about as many of each. True: of each type. Not with ``"random"``,
            ``"range"`` and given parts.
        balance_edges: whether parts have about as many edges, not nodes.
        num_nodes: number of nodes, by type where edges are; by default as the features have rows,
            or 1 more than the greatest id.
        ndata: features of nodes by name, by type first where edges are: paths of .npy files, lists
            of these, tensors or arrays.
        edata: features of edges likewise.
        idtype: of the ids in the folder.
        passes: with streams, how often each node is assigned, at most.
        memory_limit: bytes that are used beyond what the process has now. Given arrays that are
            mapped count apart.
        scratch: a folder for what is removed at the end: 16 bytes for each edge and its features;
            by default in `out_path`.
        verbose: whether a bar shows how far it is (where tqdm is installed). ``SMEX_LOGS=info``
            tells the seconds of each step.

    Raises:
        SmexImportError: pyarrow or pymetis is not installed, and asked for.
        SmexTypeError: an argument is of another type, or ids are not integers.
        SmexValueError: a file is missing, cut off or something else, an edge joins nodes that do
            not exist, features have other numbers of rows, an argument is impossible, or the limit
            leaves no room.
        SmexRuntimeError: a file cannot be written, or the disk has no room. Nothing that loads is
            left behind then.

    Example:
        >>> import tempfile
        >>> import numpy
        >>> import smex.graph as sg
        >>> folder = tempfile.mkdtemp()
        >>> numpy.save(f"{folder}/edges.npy", [[0, 1], [1, 2], [2, 3], [3, 0]])
        >>> numpy.save(f"{folder}/x.npy", numpy.arange(4.0))
        >>> sg.distributed.partition_files(
        ...     f"{folder}/edges.npy", "ring", 2, folder, part_method="range",
        ...     ndata={"x": f"{folder}/x.npy"})
        >>> g = sg.distributed.DistGraph("ring", part_config=f"{folder}/ring.json")
        >>> g.num_edges(), g.ndata["x"][[3, 0]]
        (4, tensor([3., 0.], dtype=torch.float64))
    """
    num_parts, num_hops = check_names(_OP, graph_name, num_parts, num_hops)
    passes = check_count(_OP, "passes", passes, 1)
    if idtype not in (torch.int32, torch.int64):
        raise SmexTypeError(f"{_OP}: expected idtype torch.int32 or torch.int64, found {idtype}")
    if isinstance(part_method, str) and part_method not in (*METHODS, *STREAMS):
        raise SmexValueError(
            f"{_OP}: expected part_method {', '.join(map(repr, (*STREAMS, *METHODS)))}, or a part "
            f"for each node, found {part_method!r}"
        )
    folder = pathlib.Path(out_path)
    place = folder / f".{graph_name}.scratch"
    if scratch is not None:
        place = pathlib.Path(scratch) / f"{graph_name}.scratch"
    with _scratch(place):
        with _Step("files", 0, verbose):
            found = open_graph(_OP, edges, num_nodes, ndata, edata, place)
        run = _Run(found, num_parts, place, idtype, memory_limit, verbose)
        run.count()
        run.check_room(folder, isinstance(part_method, str) and part_method in STREAMS)
        run.assign(part_method, balance_ntypes, balance_edges, passes)
        with _written(folder, graph_name) as writer:
            run.write_edges(writer)
            run.write_nodes(writer)
            writer.finish(num_parts, num_hops, idtype, run.node_map, run.edge_map)


@contextlib.contextmanager
def _scratch(place: pathlib.Path) -> Iterator[None]:
    """Makes a folder for what is removed at the end, and removes it."""
    shutil.rmtree(place, ignore_errors=True)  # of a run that was killed
    try:
        place.mkdir(parents=True)
        yield
    except OSError as error:
        raise SmexRuntimeError(
            f"{error.filename or place}: cannot be written: {error.strerror}"
        ) from error
    finally:
        shutil.rmtree(place, ignore_errors=True)


@contextlib.contextmanager
def _written(folder: pathlib.Path, name: str) -> Iterator[GraphWriter]:
    """Begins to write a graph, and removes what was written if that fails."""
    writer = GraphWriter(folder, name)
    try:
        yield writer
    except BaseException:
        shutil.rmtree(folder / name, ignore_errors=True)
        raise


class _Step:
    """A step of the work: a bar while it goes on, its seconds when it is done."""

    def __init__(self, name: str, total: int, verbose: bool):
        self._name = name
        self._started = time.perf_counter()
        self._bar: Any = None
        if verbose and total:
            with contextlib.suppress(ImportError):
                from tqdm import tqdm

                self._bar = tqdm(total=total, desc=name, unit_scale=True)

    def advance(self, number: int) -> None:
        """Tells how much more is done."""
        if self._bar is not None:
            self._bar.update(number)

    def __enter__(self) -> _Step:
        return self

    def __exit__(self, *exception: object) -> None:
        if self._bar is not None:
            self._bar.close()
        seconds = time.perf_counter() - self._started
        logger.info("%s: %s took %.1f s", _OP, self._name, seconds)


class _Run:
    """The steps, and what one leaves for the next.

    Attributes:
        node_map: where the nodes of each part begin, by type.
        edge_map: the same of edges.
    """

    def __init__(
        self,
        found: GraphFiles,
        num_parts: int,
        scratch: pathlib.Path,
        idtype: torch.dtype,
        memory_limit: float,
        verbose: bool,
    ):
        self._found, self._num_parts = found, num_parts
        self._scratch, self._idtype, self._verbose = scratch, idtype, verbose
        self._limit = int(memory_limit)
        self._num_edges = sum(edges.num_edges for edges in found.edges.values())
        self._sizes: dict[str, int] = {}
        self._in_degrees: dict[CanonicalType, Tensor] = {}
        self._old: dict[str, Tensor] = {}  # the nodes of each type in their new order
        self._room = self._limit
        self.node_map: dict[str, list[int]] = {}
        self.edge_map: dict[CanonicalType, list[int]] = {}

    # ---- counting ----

    def count(self) -> None:
        """Counts nodes and the edges into each, and checks that ends exist."""
        known = {t: self._known_size(t) for t in self._found.num_nodes}
        self._check_sizes([size for size in known.values() if size is not None])
        most = dict.fromkeys(known, -1)
        block = Sizes(max(self._limit // 2, 1)).block
        with _Step("degrees", self._num_edges, self._verbose) as step:
            for canonical, edges in self._found.edges.items():
                size = known[canonical[2]]
                counts = torch.zeros(size or 0, dtype=torch.int64)
                for first, src, dst in edges.blocks(block):
                    limits = (known[canonical[0]], known[canonical[2]])
                    ends = _check_ids(canonical, edges, first, (src, dst), limits)
                    most[canonical[0]] = max(most[canonical[0]], ends[0])
                    most[canonical[2]] = max(most[canonical[2]], ends[1])
                    if counts.shape[0] <= ends[1]:
                        counts = _longer(counts, max(ends[1] + 1, 2 * counts.shape[0]))
                    torch.ops.smex.add_counts_(counts, dst)
                    step.advance(src.shape[0])
                self._in_degrees[canonical] = counts
        for ntype, told in known.items():
            self._sizes[ntype] = most[ntype] + 1 if told is None else told
        for canonical, counts in self._in_degrees.items():
            size = self._sizes[canonical[2]]
            self._in_degrees[canonical] = _longer(counts[:size], size)
        for canonical, columns in self._found.edata.items():
            for name, rows in columns.items():
                expected = self._found.edges[canonical].num_edges
                _check_rows("edge", name, canonical, rows, expected)

    def _known_size(self, ntype: str) -> int | None:
        size, columns = self._found.num_nodes[ntype], self._found.ndata[ntype]
        if size is not None:
            size = check_count(_OP, "num_nodes", size, 0)
        for name, rows in columns.items():
            size = rows.num_rows if size is None else size
            _check_rows("node", name, ntype, rows, size)
        return size

    def _check_sizes(self, sizes: list[int]) -> None:
        most = max([0, *sizes, *(edges.num_edges for edges in self._found.edges.values())])
        if most > torch.iinfo(self._idtype).max:
            raise SmexValueError(
                f"{_OP}: expected ids that fit {self._idtype}, found {most} of a type; pass "
                "idtype=torch.int64"
            )
        need = sum(sizes) * _NODE_BYTES + _LEAST_ROOM
        if self._limit < need:
            raise SmexValueError(
                f"{_OP}: expected memory_limit of {need} bytes at least, for {sum(sizes)} nodes, "
                f"found {self._limit}"
            )

    def check_room(self, folder: pathlib.Path, is_streamed: bool) -> None:
        """Raises unless memory and disk are enough, and says how much memory edges have."""
        self._check_sizes(list(self._sizes.values()))
        self._room = self._limit - sum(self._sizes.values()) * _NODE_BYTES
        # Streams sort each edge in both directions, and keep the neighbours.
        widest = 2 * self._num_edges * (RECORD_BYTES + 4) if is_streamed else 0
        files = 0
        for canonical, edges in self._found.edges.items():
            columns = self._found.edata[canonical].values()
            row = sum(rows.row_bytes for rows in columns)
            widest = max(widest, edges.num_edges * (RECORD_BYTES + row))
            files += edges.num_edges * (self._idtype.itemsize + 8 + row)
        for ntype, named in self._found.ndata.items():
            files += self._sizes[ntype] * (8 + sum(rows.row_bytes for rows in named.values()))
        for place, wanted in ((self._scratch, widest), (folder, files)):
            free = shutil.disk_usage(place).free
            if free < wanted:
                raise SmexRuntimeError(
                    f"{place}: expected {wanted} bytes of free disk, found {free}; give another "
                    "out_path, or scratch= on another disk"
                )

    # ---- assigning ----

    def assign(self, method: Any, balance: Any, balance_edges: bool, passes: int) -> None:
        """Finds each node's part, and the new order of nodes."""
        with _Step("parts", 0, self._verbose):
            parts = self._parts(method, balance, balance_edges, passes)
            for ntype in self._sizes:
                part = parts.pop(ntype)
                self.node_map[ntype] = starts_of(part, self._num_parts)
                self._old[ntype] = torch.argsort(part.int(), stable=True)

    def _parts(
        self, method: Any, balance: Any, balance_edges: bool, passes: int
    ) -> dict[str, Tensor]:
        given = self._read_parts(method)
        known = parts_without_edges(_OP, self._sizes, self._num_parts, given)
        if known is not None:
            return known
        if method == "metis":
            return self._by_metis(balance, balance_edges)
        kinds = kinds_of(_OP, balance, self._sizes)
        # Once divided, once sorted, and each pass.
        with _Step(method, (4 + 2 * passes) * self._num_edges, self._verbose) as step:
            return streamed_parts(
                self._found.edges,
                self._sizes,
                self._num_parts,
                method,
                None if kinds is None else kinds.int(),
                balance_edges,
                passes,
                self._scratch,
                Sizes(self._room, num_edges=2 * self._num_edges),
                step.advance,
            )

    def _read_parts(self, method: Any) -> Any:
        if isinstance(method, str):
            return method
        if isinstance(method, os.PathLike) and pathlib.Path(method).is_dir():
            folder = pathlib.Path(method)
            return {t: self._lines(folder / f"{t}.txt") for t, size in self._sizes.items() if size}
        if isinstance(method, os.PathLike):
            rows = open_rows(_OP, method)
            return rows.read(0, rows.num_rows)
        return method

    def _lines(self, path: pathlib.Path) -> Tensor:
        rows = read_text(_OP, path, self._scratch / "parts", 1)
        return rows.read(0, rows.num_rows).view(-1)

    def _by_metis(self, balance: Any, balance_edges: bool) -> dict[str, Tensor]:
        least = self._num_edges * _METIS_BYTES + self._limit - self._room
        if least > self._limit:
            raise SmexValueError(
                f"{_OP}: expected memory_limit of {least} bytes at least, which METIS needs for "
                f"{self._num_edges} edges, found {self._limit}; "
                'part_method="fennel" needs memory for nodes alone'
            )
        pairs = {}
        for canonical, edges in self._found.edges.items():
            ends = [(src.long(), dst.long()) for _, src, dst in edges.blocks(_WHOLE)]
            none = torch.empty(0, dtype=torch.int64)
            pairs[canonical] = tuple(torch.cat([none, *pieces]) for pieces in zip(*ends)) or (
                none,
                none,
            )
        whole = heterograph(pairs, num_nodes_dict=self._sizes)
        return assigned_parts(
            _OP, whole, self._num_parts, "metis", balance, balance_edges, objtype="cut"
        )

    # ---- writing ----

    def write_edges(self, writer: GraphWriter) -> None:
        """Sorts the edges of each type by their new destinations, and writes them."""
        with _Step("edges", 2 * self._num_edges, self._verbose) as step:
            for number, (canonical, edges) in enumerate(self._found.edges.items()):
                self._write_relation(writer, number, canonical, edges, step)

    def _write_relation(
        self,
        writer: GraphWriter,
        number: int,
        canonical: CanonicalType,
        edges: Edges,
        step: _Step,
    ) -> None:
        source, destination = canonical[0], canonical[2]
        columns = list(self._found.edata[canonical].values())
        indptr = torch.zeros(self._sizes[destination] + 1, dtype=torch.int64)
        degrees = self._in_degrees.pop(canonical)
        torch.cumsum(degrees[self._old[destination]], 0, out=indptr[1:])
        del degrees
        cuts = self.node_map[destination]
        starts = indptr[torch.tensor(cuts)].tolist()
        self.edge_map[canonical] = starts
        new = _inverse(self._old[destination])
        maps = (new, new if source == destination else _inverse(self._old[source]))
        widest = max((rows.row_bytes for rows in columns), default=0)
        pieces = sorted_edges(
            lambda size: ((n, dst, src) for n, src, dst in edges.blocks(size)),
            indptr,
            cuts,
            self._sizes[source],
            maps,
            columns,
            self._scratch / f"records{number}",
            Sizes(self._room, widest, edges.num_edges),
            step.advance,
        )
        indices = writer.column(writer.structure_path(number, "indices"), self._idtype)
        files = _EdgeFiles(writer, number, columns)
        for piece in pieces:
            indices.add(piece.columns.to(self._idtype))
            if piece.ids.shape[0]:
                files.add(_part_at(starts, piece.begin), piece.ids, piece.payload)
        whole = writer.column(writer.structure_path(number, "indptr"), self._idtype)
        whole.add(indptr.to(self._idtype))
        writer.tell_structure(whole.close(), indices.close())
        entries, ids = files.close(self._num_parts)
        writer.tell_rows("edge", dict(zip(self._found.edata[canonical], entries)), ids)

    def write_nodes(self, writer: GraphWriter) -> None:
        """Writes the features of nodes, which are read once for some parts."""
        total = sum(
            rows.num_rows for columns in self._found.ndata.values() for rows in columns.values()
        )
        with _Step("features", total, self._verbose) as step:
            for number, (ntype, columns) in enumerate(self._found.ndata.items()):
                self._write_type(writer, number, ntype, columns, step)

    def _write_type(
        self,
        writer: GraphWriter,
        number: int,
        ntype: str,
        columns: Mapping[str, Rows],
        step: _Step,
    ) -> None:
        owned = [self._old[ntype][b:e] for b, e in itertools.pairwise(self.node_map[ntype])]
        entries: list[list[FileEntry]] = [[] for _ in columns]
        for first in range(0, self._num_parts, _OPEN_FILES):
            some = range(first, min(first + _OPEN_FILES, self._num_parts))
            for place, rows in enumerate(columns.values()):
                files = [_node_file(writer, part, number, place, rows) for part in some]
                block = max(1, self._room // 4 // max(rows.row_bytes, 1))
                for begin in range(0, rows.num_rows, block):
                    end = min(begin + block, rows.num_rows)
                    held = rows.read(begin, end)
                    for part, file in zip(some, files):
                        low, high = torch.searchsorted(
                            owned[part], torch.tensor([begin, end])
                        ).tolist()
                        file.add(held[owned[part][low:high] - begin])
                    step.advance(end - begin if first == 0 else 0)
                entries[place] += [file.close() for file in files]
        ids = []
        for part, own in enumerate(owned):
            file = _node_file(writer, part, number, "old_ids")
            file.add(own)
            ids.append(file.close())
        writer.tell_rows("node", dict(zip(columns, entries)), ids)


def _node_file(
    writer: GraphWriter, part: int, number: int, what: object, rows: Rows | None = None
) -> ColumnWriter:
    path = writer.rows_path(part, "node", number, what)
    if rows is None:
        return writer.column(path, torch.int64)
    return writer.column(path, rows.dtype, rows.shape[1:])


class _EdgeFiles:
    """The files of one edge type's columns and old ids, part by part."""

    def __init__(self, writer: GraphWriter, number: int, columns: Sequence[Rows]):
        self._writer, self._number, self._columns = writer, number, columns
        self._files: list[ColumnWriter] = []
        self._entries: list[list[FileEntry]] = []

    def add(self, part: int, ids: Tensor, payload: Callable[[int], Tensor]) -> None:
        """Writes edges of a part behind all others; `payload` returns the rows of a column."""
        self._go_to(part)
        for place in range(len(self._columns)):
            self._files[place].add(payload(place))
        self._files[-1].add(ids)

    def _go_to(self, part: int) -> None:
        """Closes the files of the part before, and makes those of parts without edges."""
        while len(self._entries) + bool(self._files) <= part:
            self._close()
            self._files = self._made(len(self._entries))

    def _close(self) -> None:
        if self._files:
            self._entries.append([file.close() for file in self._files])
            self._files = []

    def _made(self, part: int) -> list[ColumnWriter]:
        made = []
        for place, rows in enumerate(self._columns):
            path = self._writer.rows_path(part, "edge", self._number, place)
            made.append(self._writer.column(path, rows.dtype, rows.shape[1:]))
        path = self._writer.rows_path(part, "edge", self._number, "old_ids")
        return [*made, self._writer.column(path, torch.int64)]

    def close(self, num_parts: int) -> tuple[list[list[FileEntry]], list[FileEntry]]:
        """Returns the files of each column, and the old ids, by part."""
        self._go_to(num_parts - 1)
        self._close()
        *columns, ids = (list(files) for files in zip(*self._entries))
        return columns, ids


def _check_ids(
    canonical: CanonicalType,
    edges: Edges,
    first: int,
    ends: tuple[Tensor, Tensor],
    limits: tuple[int | None, int | None],
) -> tuple[int, int]:
    """The greatest ids of both ends; raises where one is negative, or too great."""
    greatest = []
    for ids, limit, ntype in zip(ends, limits, (canonical[0], canonical[2])):
        if not ids.numel():
            greatest.append(-1)
            continue
        low, high = (int(bound) for bound in ids.aminmax())
        if low < 0 or (limit is not None and high >= limit):
            wrong = ids < 0 if limit is None else (ids < 0) | (ids >= limit)
            at = int(wrong.nonzero()[0])
            most = "" if limit is None else f" to {limit - 1}"
            raise SmexValueError(
                f"{_OP}: expected ids of nodes of type {ntype!r} from 0{most}, found "
                f"{int(ids[at])} at {edges.place_of(first + at)}"
            )
        greatest.append(high)
    return greatest[0], greatest[1]


def _check_rows(kind: str, name: str, of: object, rows: Rows, expected: int) -> None:
    if not rows.shape or rows.num_rows != expected:
        raise SmexValueError(
            f"{_OP}: expected {expected} rows of {kind} feature {name!r} of type {of!r} in "
            f"{rows.name}, found shape {list(rows.shape)}"
        )


def _longer(counts: Tensor, size: int) -> Tensor:
    result = torch.zeros(size, dtype=torch.int64)
    result[: counts.shape[0]] = counts
    return result


def _inverse(order: Tensor) -> Tensor:
    result = torch.empty_like(order)
    result[order] = torch.arange(order.shape[0])
    return result


def _part_at(starts: list[int], place: int) -> int:
    """The part that has the edge at a place."""
    return bisect.bisect_right(starts, place) - 1
