"""Citations, co-authors and purchases of Shchur et al., arXiv:1811.05868."""

from __future__ import annotations

from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor

from smex.errors import SmexValueError
from smex.graph.creation.convert import graph
from smex.graph.data.dataset import DGLBuiltinDataset, Folder, OneGraphMixin, Transform
from smex.graph.transforms import to_bidirected

__all__ = [
    "AmazonCoBuy",
    "AmazonCoBuyComputerDataset",
    "AmazonCoBuyPhotoDataset",
    "Coauthor",
    "CoauthorCSDataset",
    "CoauthorPhysicsDataset",
    "CoraFull",
    "CoraFullDataset",
    "GNNBenchmarkDataset",
]


class GNNBenchmarkDataset(OneGraphMixin, DGLBuiltinDataset):
    """One graph with an edge in both directions for each pair that the file joins.

    Node features: ``feat``, float32 ``[num_nodes, features]``; ``label``, int64 ``[num_nodes]``.
    Nodes have the file's order, where DGL's are reordered. There is no split;
    :class:`AsNodePredDataset` and :func:`utils.add_nodepred_split` make one.

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
    _classes: ClassVar[int]

    def __init__(
        self,
        raw_dir: Folder = None,
        force_reload: bool = False,
        verbose: bool = False,
        transform: Transform = None,
    ):
        super().__init__(
            self._file,
            f"https://data.dgl.ai/dataset/{self._file}.zip",
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
            indptr, indices = (_ids(parts[f"adj_{name}"]) for name in ("indptr", "indices"))
            src = torch.repeat_interleave(indptr.diff())
            g = graph((src, indices), num_nodes=int(parts["adj_shape"][0]))
            self._g = to_bidirected(g)
            self._g.ndata["feat"] = _matrix(parts, "attr", "attr_matrix").float()
            label = _matrix(parts, "labels", "labels")
            self._g.ndata["label"] = label.long()

    @property
    def num_classes(self) -> int:
        """Number of classes."""
        return self._classes


class CoraFullDataset(GNNBenchmarkDataset):
    """All of Cora: 19,793 papers in 70 fields, see :class:`GNNBenchmarkDataset`."""

    _file, _classes = "cora_full", 70


class CoauthorCSDataset(GNNBenchmarkDataset):
    """18,333 authors in 15 fields of computer science, see :class:`GNNBenchmarkDataset`."""

    _file, _classes = "coauthor_cs", 15


class CoauthorPhysicsDataset(GNNBenchmarkDataset):
    """34,493 authors in 5 fields of physics, see :class:`GNNBenchmarkDataset`."""

    _file, _classes = "coauthor_physics", 5


class AmazonCoBuyComputerDataset(GNNBenchmarkDataset):
    """13,752 computers and parts in 10 categories, see :class:`GNNBenchmarkDataset`."""

    _file, _classes = "amazon_co_buy_computer", 10


class AmazonCoBuyPhotoDataset(GNNBenchmarkDataset):
    """7,650 cameras and parts in 8 categories, see :class:`GNNBenchmarkDataset`."""

    _file, _classes = "amazon_co_buy_photo", 8


def _named(op: str, name: str, kinds: dict[str, type[GNNBenchmarkDataset]]) -> GNNBenchmarkDataset:
    if name not in kinds:
        names = " or ".join(f'"{each}"' for each in kinds)
        raise SmexValueError(f"{op}: expected the name {names}, found {name!r}")
    return kinds[name]()


def AmazonCoBuy(name: str) -> GNNBenchmarkDataset:  # noqa: N802  (DGL's name)
    """Returns purchases at Amazon, ``"computers"`` or ``"photo"``.

    Raises:
        SmexValueError: another name.
    """
    kinds = {"computers": AmazonCoBuyComputerDataset, "photo": AmazonCoBuyPhotoDataset}
    return _named("AmazonCoBuy", name, kinds)


def Coauthor(name: str) -> GNNBenchmarkDataset:  # noqa: N802  (DGL's name)
    """Returns authors who write together, of ``"cs"`` or ``"physics"``.

    Raises:
        SmexValueError: another name.
    """
    return _named("Coauthor", name, {"cs": CoauthorCSDataset, "physics": CoauthorPhysicsDataset})


CoraFull = CoraFullDataset


def _ids(array: np.ndarray) -> Tensor:
    return torch.from_numpy(array.astype(np.int64))


def _matrix(parts: Any, compressed: str, plain: str) -> Tensor:
    """Returns a matrix of the file, of compressed rows or as it is."""
    if f"{compressed}_data" not in parts:
        return torch.from_numpy(parts[plain])
    indptr, indices = (_ids(parts[f"{compressed}_{name}"]) for name in ("indptr", "indices"))
    values = torch.from_numpy(parts[f"{compressed}_data"]).float()
    dense = torch.zeros(*(int(size) for size in parts[f"{compressed}_shape"]))
    # A place that the file has twice has the sum.
    return dense.index_put_((torch.repeat_interleave(indptr.diff()), indices), values, True)
