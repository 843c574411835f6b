"""Graphs whose neighbours mostly differ (Platonov et al., ICLR'23, arXiv:2302.11640)."""

from __future__ import annotations

from pathlib import Path
from typing import ClassVar

import numpy as np
import torch

from smex.graph.creation.convert import graph
from smex.graph.data.dataset import DGLBuiltinDataset, Folder, OneGraphMixin, Transform
from smex.graph.transforms import to_bidirected

__all__ = [
    "AmazonRatingsDataset",
    "HeterophilousGraphDataset",
    "MinesweeperDataset",
    "QuestionsDataset",
    "RomanEmpireDataset",
    "TolokersDataset",
]

_URL = "https://github.com/yandex-research/heterophilous-graphs/raw/main/data"


class HeterophilousGraphDataset(OneGraphMixin, DGLBuiltinDataset):
    """One graph with an edge in both directions for each pair that the file joins.

    Node features: ``feat``, float32 ``[num_nodes, features]``; ``label``, int64 ``[num_nodes]``;
    ``train_mask``, ``val_mask`` and ``test_mask``, bool ``[num_nodes, 10]``, a column for each
    split.

    Args:
        raw_dir: see :class:`DGLBuiltinDataset`; the file is ``name.npz`` in the folder of the
            data's name.
        force_reload: without effect, nothing is kept.
        verbose: whether to show progress.
        transform: applied to the graph each time it is asked for.

    Raises:
        SmexRuntimeError: the file is nowhere and cannot be downloaded.
    """

    _file: ClassVar[str]

    def __init__(
        self,
        raw_dir: Folder = None,
        force_reload: bool = False,
        verbose: bool = True,
        transform: Transform = None,
    ):
        super().__init__(
            self._file,
            f"{_URL}/{self._file}.npz",
            raw_dir=raw_dir,
            force_reload=force_reload,
            verbose=verbose,
            transform=transform,
        )

    def _files(self) -> tuple[str, ...]:
        return (f"{self.name}.npz",)

    def process(self) -> None:
        """Reads the file."""
        with np.load(Path(self.raw_path) / self._files()[0], allow_pickle=False) as parts:
            label = torch.from_numpy(parts["node_labels"]).long()
            src, dst = torch.from_numpy(parts["edges"].astype(np.int64)).unbind(1)
            self._g = to_bidirected(graph((src, dst), num_nodes=len(label)))
            self._g.ndata["feat"] = torch.from_numpy(parts["node_features"]).float()
            self._g.ndata["label"] = label
            self._num_classes = len(label.unique())
            for split in ("train", "val", "test"):
                mask = torch.from_numpy(parts[f"{split}_masks"])
                self._g.ndata[f"{split}_mask"] = mask.bool().T.contiguous()

    @property
    def num_classes(self) -> int:
        """Number of classes that occur."""
        return self._num_classes


class RomanEmpireDataset(HeterophilousGraphDataset):
    """The words of an article and their syntactic roles, see :class:`HeterophilousGraphDataset`."""

    _file = "roman_empire"


class AmazonRatingsDataset(HeterophilousGraphDataset):
    """Products and the class of their rating, see :class:`HeterophilousGraphDataset`."""

    _file = "amazon_ratings"


class MinesweeperDataset(HeterophilousGraphDataset):
    """Cells of a grid, some of them mines, see :class:`HeterophilousGraphDataset`."""

    _file = "minesweeper"


class TolokersDataset(HeterophilousGraphDataset):
    """Workers, some of them banned, see :class:`HeterophilousGraphDataset`."""

    _file = "tolokers"


class QuestionsDataset(HeterophilousGraphDataset):
    """Users of a forum, some of them still there, see :class:`HeterophilousGraphDataset`."""

    _file = "questions"
