"""The collection of TU Dortmund: graphs with labels in text files (Morris et al. 2020).

``NAME_A.txt`` has an edge a line, ids from 1 across all graphs; ``NAME_graph_indicator.txt`` the
graph of each node; ``NAME_graph_labels.txt`` a label a graph. Labels and attributes of nodes and
edges are optional.
"""

from __future__ import annotations

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
    other_name,
)
from smex.graph.data.tu_legacy import ADDRESS, LegacyTUDataset, TUFilesMixin
from smex.graph.words import counted

__all__ = ["LegacyTUDataset", "TUDataset"]

_NODE_FILES = {"node_labels": "node_labels", "node_attributes": "node_attr"}
_EDGE_FILES = {"edge_labels": "edge_labels", "edge_attributes": "edge_attr"}


class TUDataset(LabelledGraphsMixin, TUFilesMixin, DGLBuiltinDataset):
    """Graphs of a TU data set, and a label int64 ``[1]`` for each.

    Node features ``node_labels`` (int64) and ``node_attr`` (float32), edge features ``edge_labels``
    and ``edge_attr``, ``[rows, columns]`` each, where the files are there. Labels are numbered from
    0 in the order of their values. Graphs and parallel edges stand as in the files. Where graphs
    have attributes and no labels, these are what is returned, float32 ``[columns]``.

    Args:
        name: such as ``"MUTAG"``, ``"PROTEINS"``, ``"ENZYMES"``.
        raw_dir: see :class:`DGLBuiltinDataset`; the files are in a folder of the data's name.
        force_reload: without effect, nothing is kept.
        verbose: whether to show progress.
        transform: applied to a graph each time it is asked for.

    Raises:
        SmexRuntimeError: the files are nowhere and cannot be downloaded.
        SmexValueError: they do not fit together.
    """

    def __init__(
        self,
        name: str,
        raw_dir: Folder = None,
        force_reload: bool = False,
        verbose: bool = False,
        transform: Transform = None,
    ):
        super().__init__(
            name,
            f"{ADDRESS}{name}.zip",
            raw_dir=raw_dir,
            hash_key=(name,),
            force_reload=force_reload,
            verbose=verbose,
            transform=transform,
        )

    def _files(self) -> tuple[str, ...]:
        return f"{self.name}_A.txt", f"{self.name}_graph_indicator.txt"

    def _folders(self) -> tuple[str, ...]:
        return (self.name, f"{self.name}/{self.name}")

    def process(self) -> None:
        """Reads the files."""
        edges, node_graph = self._read("A"), self._read("graph_indicator")
        if edges is None or node_graph is None:  # the files were found by their names
            raise SmexValueError(f"TUDataset: {self.raw_path} has changed meanwhile; try again")
        graph_of = torch.from_numpy(node_graph[:, 0].astype(np.int64)) - 1
        ends = torch.from_numpy(edges.astype(np.int64)) - 1
        order = torch.argsort(graph_of, stable=True)
        graph_of, place = graph_of[order], torch.argsort(order)
        num_nodes = torch.bincount(graph_of)
        if ends.numel() and not 0 <= int(ends.min()) <= int(ends.max()) < graph_of.shape[0]:
            raise SmexValueError(
                f"TUDataset: {self.raw_path} has an edge of node {int(ends.max()) + 1}, expected "
                f"ids from 1 to {graph_of.shape[0]}; download it again"
            )
        ends = place[ends]
        edge_order = torch.argsort(graph_of[ends[:, 0]], stable=True)
        ends = ends[edge_order]
        num_edges = torch.bincount(graph_of[ends[:, 0]], minlength=num_nodes.shape[0])
        self._make(ends, num_nodes.tolist(), num_edges.tolist())
        self._add_features(_NODE_FILES, order, num_nodes.tolist(), "ndata")
        self._add_features(_EDGE_FILES, edge_order, num_edges.tolist(), "edata")
        self._set_labels()

    def _make(self, ends: Tensor, num_nodes: list[int], num_edges: list[int]) -> None:
        starts = np.cumsum([0, *num_nodes]).tolist()
        self.graphs = []
        for part, size, start in zip(ends.split(num_edges), num_nodes, starts):
            src, dst = (part - start).unbind(1)
            self.graphs.append(graph((src.contiguous(), dst.contiguous()), num_nodes=size))

    def _add_features(
        self, files: dict[str, str], order: Tensor, sizes: list[int], where: str
    ) -> None:
        for file, name in files.items():
            values = self._read(file)
            if values is None:
                continue
            if values.shape[0] != order.shape[0]:
                raise SmexValueError(
                    f"TUDataset: {self.name}_{file}.txt in {self.raw_path} must have "
                    f"{counted(order.shape[0], 'line')}, found {values.shape[0]}; download it again"
                )
            rows = _numbered(values) if "labels" in file else torch.from_numpy(values).float()
            for g, part in zip(self.graphs, rows[order].split(sizes)):
                getattr(g, where)[name] = part

    def _set_labels(self) -> None:
        labels, attributes = self._read("graph_labels"), self._read("graph_attributes")
        if labels is not None:
            self.labels = _numbered(labels)
            self.num_classes = int(self.labels.max()) + 1
        elif attributes is not None:
            self.labels, self.num_classes = torch.from_numpy(attributes).float(), 0
        else:
            raise SmexValueError(
                f"TUDataset: expected {self.name}_graph_labels.txt or {self.name}_graph_attributes"
                f".txt in {self.raw_path}, found neither; download the data again"
            )

    graph_lists = other_name("graphs", "The graphs; elements and the list may be assigned.")
    graph_labels = other_name("labels", "The labels, int64 ``[num_graphs, 1]``; may be assigned.")
    num_labels = other_name("num_classes", "Former name of ``num_classes``.")

    @property
    def max_num_node(self) -> int:
        """Nodes of the largest graph."""
        return max(g.num_nodes() for g in self.graphs)

    def statistics(self) -> tuple[int, int, int]:
        """Numbers of a row of the first graph's ``feat``, ``num_classes`` and ``max_num_node``."""
        return self.graphs[0].ndata["feat"].shape[1], self.num_classes, self.max_num_node


def _numbered(labels: np.ndarray) -> Tensor:
    """Labels of each column as 0, 1, 2, ... in the order of their values."""
    columns = [np.unique(column, return_inverse=True)[1] for column in labels.T]
    return torch.from_numpy(np.stack(columns, 1)).long()
