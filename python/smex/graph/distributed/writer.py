"""The files of a graph that is written in parts, and what its manifest tells of them."""

from __future__ import annotations

import itertools
import pathlib
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from smex.graph.constants import EID, NID
from smex.graph.distributed.files import ColumnWriter, FileEntry, write_column, write_manifest
from smex.graph.features.frame import Frame
from smex.graph.words import CanonicalType

KIND = "graph"


class GraphWriter:
    """Writes the files of one graph, and keeps what the manifest tells of them.

    Of each node type, and of each edge type, :meth:`rows` or :meth:`tell_rows` is called once, in
    the order of the types, and so is :meth:`structure` or :meth:`tell_structure` of edge types.

    Args:
        folder: of the manifest, which is removed: what it told of is overwritten.
        name: of the graph.
    """

    def __init__(self, folder: pathlib.Path, name: str):
        self.folder = folder
        self.name = name
        self.manifest = folder / f"{name}.json"
        self.manifest.unlink(missing_ok=True)
        self._told: dict[str, list[Any]] = {"structure": [], "node": [], "edge": []}

    def column(self, path: str, dtype: torch.dtype, row_shape: Sequence[int] = ()) -> ColumnWriter:
        """Returns what writes a file block by block."""
        return ColumnWriter(self.folder, f"{self.name}/{path}", dtype, row_shape)

    @staticmethod
    def structure_path(number: int, what: str) -> str:
        """Where ``"indptr"`` or ``"indices"`` of an edge type lie."""
        return f"structure/{number}.{what}.bin"

    @staticmethod
    def rows_path(part: int, kind: str, number: int, what: object) -> str:
        """Where a part's rows of a column lie: its number, or ``"old_ids"``."""
        return f"part{part}/{kind}{number}.{what}.bin"

    def tell_structure(self, indptr: FileEntry, indices: FileEntry) -> None:
        """Keeps what there is of the edges of the next type."""
        self._told["structure"].append({"indptr": indptr._asdict(), "indices": indices._asdict()})

    def tell_rows(
        self, kind: str, columns: Mapping[str, list[FileEntry]], old_ids: list[FileEntry]
    ) -> None:
        """Keeps what there is of the rows of the next type, by part."""
        told = {name: [entry._asdict() for entry in files] for name, files in columns.items()}
        ids = [entry._asdict() for entry in old_ids]
        self._told[kind].append({"columns": told, "old_ids": ids})

    def structure(self, number: int, indptr: Tensor, indices: Tensor) -> None:
        """Writes the edges of the next type."""
        self.tell_structure(
            self._write(self.structure_path(number, "indptr"), indptr),
            self._write(self.structure_path(number, "indices"), indices),
        )

    def rows(
        self, kind: str, number: int, starts: Sequence[int], frame: Frame, old: Tensor
    ) -> None:
        """Writes the features of the next type, part by part, and the rows' old ids."""
        parts = list(enumerate(itertools.pairwise(starts)))

        def written(what: object, rows: Tensor | None) -> list[FileEntry]:
            return [
                self._write(
                    self.rows_path(part, kind, number, what),
                    old[begin:end] if rows is None else rows[old[begin:end]],
                )
                for part, (begin, end) in parts
            ]

        names = [name for name in frame if name not in (NID, EID)]
        columns = {name: written(place, frame[name]) for place, name in enumerate(names)}
        self.tell_rows(kind, columns, written("old_ids", None))

    def _write(self, path: str, tensor: Tensor) -> FileEntry:
        return write_column(self.folder, f"{self.name}/{path}", tensor)

    def finish(
        self,
        num_parts: int,
        num_hops: int,
        idtype: torch.dtype,
        node_map: Mapping[str, list[int]],
        edge_map: Mapping[CanonicalType, list[int]],
    ) -> None:
        """Writes the manifest.

        Raises:
            SmexRuntimeError: it cannot be written.
        """
        told = {
            "graph_name": self.name,
            "num_parts": num_parts,
            "num_hops": num_hops,
            "idtype": str(idtype).removeprefix("torch."),
            "ntypes": list(node_map),
            "etypes": [list(canonical) for canonical in edge_map],
            "node_map": list(node_map.values()),
            "edge_map": list(edge_map.values()),
        }
        write_manifest(self.manifest, KIND, {**told, **self._told})
