"""The folders of the Open Graph Benchmark (Hu et al., NeurIPS'20), read without its package.

``raw`` holds files without headers: ``edge.csv.gz`` with a pair of ids a line, ``num-node-list``
and ``num-edge-list`` with a number for each graph, ``node-feat``, ``edge-feat`` and labels with a
row for each node, edge or graph; and ``split/KIND`` the ids of each part.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from smex.errors import SmexValueError
from smex.graph.creation.convert import graph
from smex.graph.data.dataset import (
    DGLBuiltinDataset,
    Folder,
    LabelledGraphsMixin,
    Transform,
    check_index,
)
from smex.graph.graph import Graph
from smex.graph.words import counted

__all__ = ["DglGraphPropPredDataset", "DglNodePropPredDataset"]

_ADDRESS = "https://snap.stanford.edu/ogb/data/"
_ADDRESSES = {
    "ogbg-molhiv": "graphproppred/csv_mol_download/hiv.zip",
    "ogbg-molpcba": "graphproppred/csv_mol_download/pcba.zip",
    "ogbn-arxiv": "nodeproppred/arxiv.zip",
    "ogbn-products": "nodeproppred/products.zip",
    "ogbn-proteins": "nodeproppred/proteins.zip",
}
_ONE_WAY = ("ogbg-code2", "ogbn-arxiv")  # in all others files name each edge in one direction only


class _OgbDataset(DGLBuiltinDataset):
    """A folder of OGB; a subclass says what its labels belong to."""

    _label_file = ""
    _has_whole_features = False

    def __init__(
        self,
        name: str,
        root: Folder = None,
        add_inverse_edge: bool | None = None,
        verbose: bool = False,
        transform: Transform = None,
    ):
        self._add_inverse_edge = add_inverse_edge
        if add_inverse_edge is None:
            self._add_inverse_edge = name not in _ONE_WAY
        address = _ADDRESSES.get(name)
        super().__init__(
            name,
            address and _ADDRESS + address,
            raw_dir=root,
            hash_key=(name, self._add_inverse_edge),
            verbose=verbose,
            transform=transform,
        )

    def _files(self) -> list[str]:
        raw = ("edge", "num-node-list", "num-edge-list", self._label_file)
        return [*(f"raw/{file}.csv.gz" for file in raw), "split"]

    def _folders(self) -> list[str]:
        folder = self.name.replace("-", "_")
        inside = Path(self.url or "").stem
        return [folder, self.name, *([f"{folder}/{inside}", inside] if inside else [])]

    def process(self) -> None:
        """Reads the files."""
        num_nodes, num_edges = (
            self._ids(f"raw/num-{kind}-list").tolist() for kind in ("node", "edge")
        )
        ends = self._ids("raw/edge").view(-1, 2)
        if ends.shape[0] != sum(num_edges):
            raise SmexValueError(
                f"{type(self).__name__}: {self.raw_path} must have "
                f"{counted(sum(num_edges), 'edge')}, found {ends.shape[0]}; download it again"
            )
        if self._add_inverse_edge:  # each edge is followed by its reverse
            ends = torch.stack([ends, ends.flip(1)], 1).view(-1, 2)
            num_edges = [2 * number for number in num_edges]
        self._graphs = []
        for part, number in zip(ends.split(num_edges), num_nodes):
            src, dst = part.unbind(1)
            self._graphs.append(graph((src.contiguous(), dst.contiguous()), num_nodes=number))
        self._set_features(num_nodes, num_edges)
        self.labels = self._table(f"raw/{self._label_file}")

    def _set_features(self, num_nodes: list[int], num_edges: list[int]) -> None:
        for path in sorted((Path(self.raw_path) / "raw").glob("*.csv.gz")):
            file = path.name.removesuffix(".csv.gz")
            kind, name = file[:4], file[5:]
            if kind not in ("node", "edge") or not name or name == "label":
                continue
            rows = self._table(f"raw/{file}")
            if kind == "edge" and self._add_inverse_edge:
                rows = rows.repeat_interleave(2, 0)
            sizes = num_nodes if kind == "node" else num_edges
            for g, part in zip(self._graphs, rows.split(sizes)):
                (g.ndata if kind == "node" else g.edata)[name] = part

    def _table(self, file: str) -> Tensor:
        """The rows of a file: int64 if all are whole numbers, otherwise float32, NaN if missing."""
        path = Path(self.raw_path) / f"{file}.csv.gz"
        try:
            values = np.loadtxt(path, delimiter=",", ndmin=2)
        except ValueError:  # a field is empty
            values = np.atleast_2d(np.genfromtxt(path, delimiter=","))
        rows = torch.from_numpy(values)
        may_be_whole = self._has_whole_features or not file.endswith("-feat")
        return rows.long() if may_be_whole and bool((rows == rows.trunc()).all()) else rows.float()

    def _ids(self, file: str) -> Tensor:
        path = Path(self.raw_path) / f"{file}.csv.gz"
        return torch.from_numpy(np.loadtxt(path, delimiter=",", dtype=np.int64, ndmin=1))

    def get_idx_split(self, split_type: str | None = None) -> dict[str, Tensor]:
        """Returns the ids ``train``, ``valid`` and ``test``, int64.

        Args:
            split_type: a folder in ``split``; by default the only one, or the first by name.

        Raises:
            SmexValueError: there is none of this name.
        """
        folder = Path(self.raw_path) / "split"
        kinds = sorted(path.name for path in folder.iterdir() if path.is_dir())
        kind = kinds[0] if split_type is None and kinds else split_type
        if kind not in kinds:
            raise SmexValueError(
                f"get_idx_split: expected one of {', '.join(kinds)} in {folder}, found {kind}"
            )
        return {part: self._ids(f"split/{kind}/{part}") for part in ("train", "valid", "test")}

    @property
    def num_tasks(self) -> int:
        """Columns of the labels."""
        return self.labels.shape[1]

    @property
    def num_classes(self) -> int:
        """1 + the largest label, of integer labels."""
        return int(torch.nan_to_num(self.labels).max()) + 1


class DglNodePropPredDataset(_OgbDataset):
    """One graph and labels of its nodes, ``[num_nodes, num_tasks]``.

    They are kept as ``graph``, a list of one, and ``labels``, which may be assigned.

    ``node-feat`` and ``edge-feat`` are features ``feat`` (float32); further files such as
    ``node_year`` are features of that name (``year``). Labels of whole numbers are int64, others
    float32 with NaN where there is none.

    Args:
        name: such as ``"ogbn-arxiv"``, ``"ogbn-products"``, ``"ogbn-proteins"``.
        root: see :class:`DGLBuiltinDataset`; the folder is ``ogbn_arxiv`` or ``arxiv``.
        add_inverse_edge: whether each edge is followed by its reverse; by default what OGB says.
        verbose: whether to show progress.
        transform: applied to the graph each time it is asked for.

    Raises:
        SmexRuntimeError: the folder is nowhere and cannot be downloaded.
        SmexValueError: the files do not fit together.
    """

    _label_file = "node-label"

    def __getitem__(self, idx: int) -> tuple[Graph, Tensor]:
        """Returns the graph and its nodes' labels; `idx` must be 0.

        Raises:
            GraphIndexError: it is not.
        """
        check_index(type(self).__name__, idx, 1)
        return self._transformed(self.graph[0]), self.labels

    def process(self) -> None:
        """Reads the files."""
        super().process()
        self.graph = self._graphs

    def __len__(self) -> int:
        """1."""
        return 1


class DglGraphPropPredDataset(LabelledGraphsMixin, _OgbDataset):
    """Graphs, each with its labels ``[num_tasks]``.

    Features as for :class:`DglNodePropPredDataset`; ``feat`` is int64 where all of it is whole, as
    it is for molecules.

    Args:
        name: such as ``"ogbg-molhiv"``, ``"ogbg-molpcba"``, ``"ogbg-ppa"``.
        root: see :class:`DGLBuiltinDataset`; the folder is ``ogbg_molhiv`` or ``hiv``.
        add_inverse_edge: whether each edge is followed by its reverse; by default what OGB says.
        verbose: whether to show progress.
        transform: applied to a graph each time it is asked for.

    Raises:
        SmexRuntimeError: the folder is nowhere and cannot be downloaded.
        SmexValueError: the files do not fit together.
    """

    _label_file = "graph-label"
    _has_whole_features = True

    def process(self) -> None:
        """Reads the files."""
        super().process()
        self.graphs = self._graphs
