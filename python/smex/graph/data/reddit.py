"""Posts of Reddit that the same users comment on (Hamilton, Ying and Leskovec, NeurIPS'17)."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch

from smex.graph.creation.convert import graph
from smex.graph.data.dataset import DGLBuiltinDataset, Folder, OneGraphMixin, Transform

__all__ = ["RedditDataset"]

_SPLITS = {"train_mask": 1, "val_mask": 2, "test_mask": 3}  # in the file's node_types


class RedditDataset(OneGraphMixin, DGLBuiltinDataset):
    """One graph: 232,965 posts in 41 communities, and 114,615,892 edges between them.

    Node features: ``feat``, float32 ``[num_nodes, 602]``; ``label``, int64 ``[num_nodes]``;
    ``train_mask``, ``val_mask`` and ``test_mask``, bool ``[num_nodes]``.

    Args:
        self_loop: whether each node has a self loop.
        raw_dir: see :class:`DGLBuiltinDataset`; the files ``reddit_data.npz`` and
            ``reddit_graph.npz`` (with self loops ``reddit_self_loop_graph.npz``) are in the folder
            ``reddit`` (``reddit_self_loop``).
        force_reload: without effect, nothing is kept.
        verbose: whether to show progress.
        transform: applied to the graph each time it is asked for.

    Raises:
        SmexRuntimeError: the files are nowhere and cannot be downloaded.
    """

    def __init__(
        self,
        self_loop: bool = False,
        raw_dir: Folder = None,
        force_reload: bool = False,
        verbose: bool = False,
        transform: Transform = None,
    ):
        name = "reddit_self_loop" if self_loop else "reddit"
        super().__init__(
            name,
            f"https://data.dgl.ai/dataset/{name}.zip",
            raw_dir=raw_dir,
            hash_key=(self_loop,),
            force_reload=force_reload,
            verbose=verbose,
            transform=transform,
        )

    def _files(self) -> tuple[str, ...]:
        return "reddit_data.npz", f"{self.name}_graph.npz"

    def process(self) -> None:
        """Reads the files."""
        nodes, edges = (
            np.load(Path(self.raw_path) / file, allow_pickle=False) for file in self._files()
        )
        ends = (torch.from_numpy(edges[side].astype(np.int64)) for side in ("row", "col"))
        self._g = graph(tuple(ends), num_nodes=nodes["feature"].shape[0])
        self._g.ndata["feat"] = torch.from_numpy(nodes["feature"]).float()
        self._g.ndata["label"] = torch.from_numpy(nodes["label"]).long()
        self._num_classes = int(self._g.ndata["label"].max()) + 1
        kinds = torch.from_numpy(nodes["node_types"])
        for mask, kind in _SPLITS.items():
            self._g.ndata[mask] = kinds == kind

    @property
    def num_classes(self) -> int:
        """Number of communities."""
        return self._num_classes
