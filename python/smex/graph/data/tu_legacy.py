"""The collection of TU Dortmund with one feature of nodes, as DGL's older programs take it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from smex.errors import SmexValueError
from smex.graph.constants import NID
from smex.graph.data.dataset import (
    DGLBuiltinDataset,
    Folder,
    LabelledGraphsMixin,
    Transform,
    other_name,
)
from smex.graph.data.division import divided

__all__ = ["LegacyTUDataset"]


ADDRESS = "https://www.chrsmrrs.com/graphkerneldatasets/"


class TUFilesMixin:
    """Files of a data set of the collection, and what DGL's programs take from its classes."""

    name: str
    raw_path: str

    def _file_path(self, category: str) -> str:
        return str(Path(self.raw_path) / f"{self.name}_{category}.txt")

    def _read(self, category: str) -> np.ndarray | None:
        path = Path(self._file_path(category))
        return np.loadtxt(path, delimiter=",", ndmin=2) if path.exists() else None

    @staticmethod
    def _idx_from_zero(ids: np.ndarray) -> np.ndarray:
        return ids - np.min(ids)

    @staticmethod
    def _to_onehot(labels: np.ndarray) -> np.ndarray:
        return np.eye(np.max(labels) + 1)[labels]


class LegacyTUDataset(LabelledGraphsMixin, TUFilesMixin, DGLBuiltinDataset):
    """Graphs of a TU data set with a node feature ``feat``, and a label int64 (no dimension) each.

    ``feat``, float32 ``[num_nodes, columns]``, are the nodes' attributes, where these are not there
    the labels one-hot, and without both ones in `hidden_size` columns; :attr:`data_mode` says
    which. Edges are ordered by source; ``sg.NID`` and ``sg.EID`` are ids in the files. Labels are
    the files' values from the least one on, which is 0. Where graphs have attributes and no labels,
    these are what is returned, float64.

    Args:
        name: such as ``"ENZYMES"``, ``"DD"``, ``"COLLAB"``.
        use_pandas: without effect, NumPy reads the files.
        hidden_size: columns of ones.
        max_allow_node: graphs with more nodes are left out.
        raw_dir: see :class:`DGLBuiltinDataset`; the files are in a folder of the data's name, see
            :class:`TUDataset`.
        force_reload: without effect, nothing is kept.
        verbose: whether to show progress.
        transform: applied to a graph each time it is asked for.

    Raises:
        SmexRuntimeError: the files are nowhere and cannot be downloaded.
        SmexValueError: they do not fit together.
    """

    graph_lists = other_name("graphs", "The graphs; elements and the list may be assigned.")
    graph_labels = other_name("labels", "The labels, ``[num_graphs]``; may be assigned.")

    def __init__(
        self,
        name: str,
        use_pandas: bool = False,
        hidden_size: int = 10,
        max_allow_node: int | None = None,
        raw_dir: Folder = None,
        force_reload: bool = False,
        verbose: bool = False,
        transform: Transform = None,
    ):
        self.use_pandas, self.hidden_size = use_pandas, hidden_size
        self.max_allow_node = max_allow_node
        super().__init__(
            name,
            f"{ADDRESS}{name}.zip",
            raw_dir=raw_dir,
            hash_key=(name, use_pandas, hidden_size, max_allow_node),
            force_reload=force_reload,
            verbose=verbose,
            transform=transform,
        )

    def _files(self) -> tuple[str, ...]:
        return f"{self.name}_A.txt", f"{self.name}_graph_indicator.txt"

    def _folders(self) -> tuple[str, ...]:
        return (f"{self.name}/{self.name}", self.name)

    def process(self) -> None:
        """Reads the files."""
        ends, graph_of = self._numbers("A"), self._numbers("graph_indicator")
        if ends is None or graph_of is None:  # the files were found by their names
            raise SmexValueError(f"LegacyTUDataset: {self.raw_path} has changed; try again")
        feat = self._features(graph_of.shape[0])
        self.graphs = divided(ends, graph_of[:, 0])
        for g in self.graphs:
            g.ndata["feat"] = feat[g.ndata[NID]]
        self._set_labels()
        self.max_num_node = max(g.num_nodes() for g in self.graphs)
        if self.max_allow_node:
            kept = [n for n, g in enumerate(self.graphs) if g.num_nodes() <= self.max_allow_node]
            self.graphs, self.labels = [self.graphs[n] for n in kept], self.labels[kept]
            self.max_num_node = self.max_allow_node

    def _features(self, number: int) -> Tensor:
        attributes, labels = self._read("node_attributes"), self._numbers("node_labels")
        if attributes is not None:
            self.data_mode, rows = "node_attr", torch.from_numpy(attributes).float()
        elif labels is not None:
            self.data_mode, ids = "node_label", labels[:, 0]
            rows = torch.zeros(len(ids), int(ids.max()) + 1).scatter_(1, ids[:, None], 1.0)
        else:
            self.data_mode, rows = "constant", torch.ones(number, self.hidden_size)
        if len(rows) != number:
            raise SmexValueError(
                f"LegacyTUDataset: the files in {self.raw_path} must have a line for each of "
                f"{number} nodes, found {len(rows)}; download them again"
            )
        return rows

    def _set_labels(self) -> None:
        labels, attributes = self._numbers("graph_labels"), self._read("graph_attributes")
        self.num_labels: int | None = None
        if labels is not None:
            self.labels = labels[:, 0].contiguous()
            self.num_labels = int(self.labels.max()) + 1
        elif attributes is not None:
            self.labels = torch.from_numpy(attributes).squeeze(1)
        else:
            raise SmexValueError(
                f"LegacyTUDataset: expected {self.name}_graph_labels.txt or {self.name}_graph_"
                f"attributes.txt in {self.raw_path}, found neither; download the data again"
            )

    def _numbers(self, part: str) -> Tensor | None:
        """Returns a file's whole numbers, from the least one on."""
        values = self._read(part)
        return None if values is None else torch.from_numpy(self._idx_from_zero(values)).long()

    def statistics(self) -> tuple[int, int | None, int]:
        """Columns of ``feat``, :attr:`num_labels`, and nodes of the largest graph."""
        return self.graphs[0].ndata["feat"].shape[1], self.num_labels, self.max_num_node

    @property
    def num_classes(self) -> int:
        """Number of classes; 0 of graphs that have attributes in the place of labels."""
        return int(self.num_labels or 0)
