"""Protein interactions in human tissues (Zitnik and Leskovec 2017), as GraphSAGE has them."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from smex.errors import SmexValueError
from smex.graph.creation.convert import graph
from smex.graph.data.dataset import DGLBuiltinDataset, Folder, Transform, check_index
from smex.graph.graph import Graph
from smex.graph.parts.subgraph import node_subgraph

__all__ = ["LegacyPPIDataset", "PPIDataset"]

_MODES = ("train", "valid", "test")


class PPIDataset(DGLBuiltinDataset):
    """Graphs of proteins: 20 for training, 2 for validation, 2 for the test.

    Node features: ``feat``, float32 ``[num_nodes, 50]``; ``label``, float32 ``[num_nodes, 121]``,
    each column yes or no; ``sg.NID``, ids in the files. ``graphs`` is the list of the graphs, whose
    elements may be assigned, and ``graph`` all of them as one.

    Args:
        mode: ``"train"``, ``"valid"`` or ``"test"``.
        raw_dir: see :class:`DGLBuiltinDataset`; the files ``MODE_graph.json``, ``MODE_feats.npy``,
            ``MODE_labels.npy`` and ``MODE_graph_id.npy`` are in the folder ``ppi``.
        force_reload: without effect, nothing is kept.
        verbose: whether to show progress.
        transform: applied to a graph each time it is asked for.

    Raises:
        SmexRuntimeError: the files are nowhere and cannot be downloaded.
        SmexValueError: another mode.
    """

    def __init__(
        self,
        mode: str = "train",
        raw_dir: Folder = None,
        force_reload: bool = False,
        verbose: bool = False,
        transform: Transform = None,
    ):
        if mode not in _MODES:
            raise SmexValueError(
                f"PPIDataset: expected mode 'train', 'valid' or 'test', found {mode!r}"
            )
        self.mode = mode
        super().__init__(
            "ppi",
            "https://data.dgl.ai/dataset/ppi.zip",
            raw_dir=raw_dir,
            hash_key=(mode,),
            force_reload=force_reload,
            verbose=verbose,
            transform=transform,
        )

    def _files(self) -> list[str]:
        parts = ("graph.json", "feats.npy", "labels.npy", "graph_id.npy")
        return [f"{self.mode}_{part}" for part in parts]

    def process(self) -> None:
        """Reads the files."""
        links, *arrays = (Path(self.raw_path) / file for file in self._files())
        feats, labels, graph_ids = (
            torch.from_numpy(np.load(path, allow_pickle=False)) for path in arrays
        )
        everything = _linked(json.loads(links.read_text()))
        everything.ndata["feat"], everything.ndata["label"] = feats.float(), labels.float()
        self.graph = everything
        self.graphs = [
            node_subgraph(everything, (graph_ids == number).nonzero().view(-1))
            for number in torch.unique(graph_ids).tolist()
        ]
        self._num_classes = labels.shape[1]

    @property
    def num_classes(self) -> int:
        """Number of labels of a node, 121."""
        return self._num_classes

    @property
    def num_labels(self) -> int:
        """Former name of :attr:`num_classes`."""
        return self.num_classes

    def __getitem__(self, item: int) -> Graph:
        """Returns the graph at a position.

        Raises:
            GraphIndexError: there is none.
        """
        check_index("PPIDataset", item, len(self))
        return self._transformed(self.graphs[item])

    def __len__(self) -> int:
        """Number of graphs."""
        return len(self.graphs)


class LegacyPPIDataset(PPIDataset):
    """As :class:`PPIDataset`; an element is (graph, its ``feat``, its ``label``)."""

    def __getitem__(self, item: int) -> tuple[Graph, Tensor, Tensor]:  # type: ignore[override]
        """Returns the graph at a position, its features and its labels.

        Raises:
            GraphIndexError: there is none.
        """
        g = super().__getitem__(item)
        return g, g.ndata["feat"], g.ndata["label"]


def _linked(data: dict) -> Graph:
    """Returns the graph of networkx's node-link format.

    An undirected one with edges in both directions.
    """
    names = {node["id"]: n for n, node in enumerate(data["nodes"])}
    pairs = [(names[link["source"]], names[link["target"]]) for link in data["links"]]
    ends = torch.tensor(pairs, dtype=torch.int64).view(-1, 2)
    if not data.get("directed", False):
        ends = torch.cat([ends, ends.flip(1)])
    src, dst = torch.unique(ends, dim=0).unbind(1)
    return graph((src.contiguous(), dst.contiguous()), num_nodes=len(names))
