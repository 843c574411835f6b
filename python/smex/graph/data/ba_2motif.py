"""Graphs with one of two motifs (Luo et al., NeurIPS'20, BA-2motifs)."""

from __future__ import annotations

from pathlib import Path

import torch

from smex.errors import SmexValueError
from smex.graph.creation.convert import graph
from smex.graph.data.dataset import DGLBuiltinDataset, Folder, LabelledGraphsMixin, Transform
from smex.graph.data.files import Source
from smex.graph.data.unpickle import load_pickle

__all__ = ["BA2MotifDataset"]

_FILE = "BA-2motif.pkl"


class BA2MotifDataset(LabelledGraphsMixin, DGLBuiltinDataset):
    """1,000 Barabási-Albert graphs of 25 nodes with a house or a cycle, and which one, int64.

    Node feature ``feat``, ``[25, 10]`` in the file's dtype. Edges are the entries of the adjacency
    matrix that are not 0.

    Args:
        raw_dir: see :class:`DGLBuiltinDataset`; the file ``BA-2motif.pkl`` is there or in the
            folder ``BA-2motifs``: arrays of the adjacency matrices ``[graphs, 25, 25]``, the
            features ``[graphs, 25, 10]`` and the labels.
        force_reload: without effect, nothing is kept.
        verbose: whether to show progress.
        transform: applied to a graph each time it is asked for.

    Raises:
        SmexRuntimeError: the file is nowhere and cannot be downloaded.
        SmexValueError: it holds something else.
    """

    num_classes = 2

    def __init__(
        self,
        raw_dir: Folder = None,
        force_reload: bool = False,
        verbose: bool = True,
        transform: Transform = None,
    ):
        super().__init__(
            "BA-2motifs",
            f"https://data.dgl.ai/dataset/{_FILE}",
            raw_dir=raw_dir,
            force_reload=force_reload,
            verbose=verbose,
            transform=transform,
        )

    def _files(self) -> tuple[str, ...]:
        return (_FILE,)

    def _folders(self) -> tuple[str, ...]:
        return (self.name, ".")

    def _sources(self) -> tuple[Source, ...]:
        return (Source(str(self.url), _FILE),)

    def process(self) -> None:
        """Reads the file."""
        parts = load_pickle(Path(self.raw_path) / _FILE)
        if not isinstance(parts, (tuple, list)) or len(parts) != 3:
            raise SmexValueError(
                f"BA2MotifDataset: expected matrices, features and labels in {self.raw_path}, "
                f"found {type(parts).__name__}; download it again"
            )
        matrices, features, labels = parts
        self.graphs = []
        for matrix, rows in zip(matrices, features):
            src, dst = torch.from_numpy(matrix).nonzero().unbind(1)
            g = graph((src.contiguous(), dst.contiguous()))
            g.ndata["feat"] = torch.from_numpy(rows)
            self.graphs.append(g)
        self.labels = torch.as_tensor(labels).long()
