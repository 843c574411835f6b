"""Pages and actors whose neighbours mostly differ (Pei et al., ICLR'20, Geom-GCN).

``out1_node_feature_label.txt`` has a node, its features and its label a line,
``out1_graph_edges.txt`` the ends of an edge, with headers and tabs; ``NAME_split_0.6_0.2_N.npz``
the masks of ten splits.
"""

from __future__ import annotations

from pathlib import Path
from typing import ClassVar

import numpy as np
import torch
from torch import Tensor

from smex.graph.creation.convert import graph
from smex.graph.data.dataset import DGLBuiltinDataset, Folder, OneGraphMixin, Transform

__all__ = [
    "ActorDataset",
    "ChameleonDataset",
    "CornellDataset",
    "GeomGCNDataset",
    "SquirrelDataset",
    "TexasDataset",
    "WisconsinDataset",
]

_SPLITS = 10


class GeomGCNDataset(OneGraphMixin, DGLBuiltinDataset):
    """One graph with an edge for each line, from the second id to the first.

    Node features: ``feat``, float32 ``[num_nodes, features]``; ``label``, int64 ``[num_nodes]``;
    ``train_mask``, ``val_mask`` and ``test_mask``, bool ``[num_nodes, 10]``, a column for each
    split.

    Args:
        raw_dir: see :class:`DGLBuiltinDataset`; the files are in the folder of the data's name.
        force_reload: without effect, nothing is kept.
        verbose: whether to show progress.
        transform: applied to the graph each time it is asked for.

    Raises:
        SmexRuntimeError: the files are nowhere and cannot be downloaded.
    """

    _published: ClassVar[str]

    def __init__(
        self,
        raw_dir: Folder = None,
        force_reload: bool = False,
        verbose: bool = True,
        transform: Transform = None,
    ):
        super().__init__(
            self._published,
            f"https://data.dgl.ai/dataset/{self._published}.zip",
            raw_dir=raw_dir,
            force_reload=force_reload,
            verbose=verbose,
            transform=transform,
        )

    def _files(self) -> list[str]:
        splits = [f"{self.name}_split_0.6_0.2_{n}.npz" for n in range(_SPLITS)]
        return ["out1_node_feature_label.txt", "out1_graph_edges.txt", *splits]

    def process(self) -> None:
        """Reads the files."""
        nodes, edges, *splits = (Path(self.raw_path) / file for file in self._files())
        rows = [line.split("\t") for line in nodes.read_text().split("\n")[1:] if line]
        feat, label = self._nodes(rows)
        pairs = np.loadtxt(edges, dtype=np.int64, delimiter="\t", skiprows=1, ndmin=2)
        dst, src = (torch.from_numpy(ids.copy()) for ids in pairs.T)
        self._g = graph((src, dst), num_nodes=len(rows))
        self._g.ndata["feat"], self._g.ndata["label"] = feat, label
        self._num_classes = int(label.max()) + 1
        masks = [np.load(path, allow_pickle=False) for path in splits]
        for name in ("train_mask", "val_mask", "test_mask"):
            columns = [torch.from_numpy(mask[name]).bool() for mask in masks]
            self._g.ndata[name] = torch.stack(columns, 1)

    def _nodes(self, rows: list[list[str]]) -> tuple[Tensor, Tensor]:
        """Returns features and labels of lines, which are in the nodes' order."""
        feat = [[float(x) for x in features.split(",")] for _, features, _ in rows]
        return torch.tensor(feat), torch.tensor([int(label) for *_, label in rows])

    @property
    def num_classes(self) -> int:
        """1 + the largest label."""
        return self._num_classes


class ChameleonDataset(GeomGCNDataset):
    """2,277 pages of Wikipedia on chameleons in 5 classes of traffic, see :class:`GeomGCNDataset`.

    36,101 edges, 2,325 features.
    """

    _published = "chameleon"


class SquirrelDataset(GeomGCNDataset):
    """5,201 pages of Wikipedia on squirrels in 5 classes of traffic, see :class:`GeomGCNDataset`.

    217,073 edges, 2,089 features.
    """

    _published = "squirrel"


class CornellDataset(GeomGCNDataset):
    """183 pages of Cornell University in 5 classes, see :class:`GeomGCNDataset`."""

    _published = "cornell"


class TexasDataset(GeomGCNDataset):
    """183 pages of the University of Texas in 5 classes, see :class:`GeomGCNDataset`."""

    _published = "texas"


class WisconsinDataset(GeomGCNDataset):
    """251 pages of the University of Wisconsin in 5 classes, see :class:`GeomGCNDataset`."""

    _published = "wisconsin"


class ActorDataset(GeomGCNDataset):
    """7,600 actors on pages of Wikipedia in 5 classes, see :class:`GeomGCNDataset`.

    33,391 edges; features of a line are the numbers of the columns that are 1, of 932.
    """

    _published = "actor"

    def _nodes(self, rows: list[list[str]]) -> tuple[Tensor, Tensor]:
        columns = [[int(x) for x in features.split(",")] for _, features, _ in rows]
        nodes = torch.tensor([int(node) for node, *_ in rows])
        row = nodes.repeat_interleave(torch.tensor([len(each) for each in columns]))
        column = torch.tensor([x for each in columns for x in each])
        feat = torch.zeros(len(rows), int(column.max()) + 1)
        label = torch.empty(len(rows), dtype=torch.int64)
        label[nodes] = torch.tensor([int(text) for *_, text in rows])
        return feat.index_put_((row, column), torch.ones(())), label
