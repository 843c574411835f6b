"""How news spread on Twitter, true and false ones (Dou et al., SIGIR'21)."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch

from smex.errors import SmexValueError
from smex.graph.data.compressed import read_sparse
from smex.graph.data.dataset import DGLBuiltinDataset, Folder, LabelledGraphsMixin, Transform
from smex.graph.data.division import divided

__all__ = ["FakeNewsDataset"]

_ARCHIVES = {"gossipcop": "FakeNewsGOS", "politifact": "FakeNewsPOL"}
_FEATURES = ("bert", "content", "profile", "spacy")
_PARTS = ("train", "val", "test")


class FakeNewsDataset(LabelledGraphsMixin, DGLBuiltinDataset):
    """Trees of who passed a piece of news on, and whether it is fake, int64 (no dimension).

    Nodes have ``sg.NID``, their rows of :attr:`feature` ``[nodes of all graphs, columns]``.
    :attr:`train_mask`, :attr:`val_mask` and :attr:`test_mask` are bool ``[num_graphs]``.

    Args:
        name: ``"gossipcop"``, 5,464 graphs, or ``"politifact"``, 314.
        feature_name: ``"bert"``, ``"content"``, ``"profile"`` or ``"spacy"``.
        raw_dir: see :class:`DGLBuiltinDataset`; the files ``A.txt`` (ends of edges),
            ``node_graph_id.npy``, ``graph_labels.npy``, ``train_idx.npy``, ``val_idx.npy``,
            ``test_idx.npy`` and ``new_FEATURE_feature.npz``, a matrix of SciPy, are in the folder
            of the data's name.
        transform: applied to a graph each time it is asked for.

    Raises:
        SmexRuntimeError: the files are nowhere and cannot be downloaded.
        SmexValueError: another name.
    """

    num_classes = 2

    def __init__(
        self, name: str, feature_name: str, raw_dir: Folder = None, transform: Transform = None
    ):
        if name not in _ARCHIVES or feature_name not in _FEATURES:
            raise SmexValueError(
                'FakeNewsDataset: expected "gossipcop" or "politifact", and a feature among '
                f"{', '.join(_FEATURES)}, found {name!r} and {feature_name!r}"
            )
        self.feature_name = feature_name
        super().__init__(
            name,
            f"https://data.dgl.ai/dataset/{_ARCHIVES[name]}.zip",
            raw_dir=raw_dir,
            hash_key=(name, feature_name),
            transform=transform,
        )

    def _files(self) -> list[str]:
        arrays = ("node_graph_id", "graph_labels", *(f"{part}_idx" for part in _PARTS))
        return ["A.txt", *(f"{n}.npy" for n in arrays), f"new_{self.feature_name}_feature.npz"]

    def process(self) -> None:
        """Reads the files."""
        edges, *arrays, feature = (Path(self.raw_path) / file for file in self._files())
        graph_of, self.labels, *ids = (
            torch.from_numpy(np.load(path, allow_pickle=False)) for path in arrays
        )
        for part, rows in zip(_PARTS, ids):
            empty = torch.zeros(len(self.labels), dtype=torch.bool)
            setattr(self, f"{part}_mask", empty.index_fill(0, rows.long(), True))
        self.feature = read_sparse(feature).to_dense()
        pairs = np.loadtxt(edges, dtype=np.int64, delimiter=",", ndmin=2)
        self.graphs = divided(torch.from_numpy(pairs), graph_of.long())

    @property
    def num_graphs(self) -> int:
        """Number of graphs."""
        return len(self.labels)
