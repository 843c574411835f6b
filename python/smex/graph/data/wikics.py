"""Articles of Wikipedia on computer science (Mernyei and Cangea, arXiv:2007.02901)."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from smex.graph.creation.convert import graph
from smex.graph.data.dataset import DGLBuiltinDataset, Folder, OneGraphMixin, Transform
from smex.graph.transforms import to_bidirected
from smex.graph.transforms.reorder import reorder_graph

__all__ = ["WikiCSDataset"]

_SPLITS = {"train_mask": "train_masks", "val_mask": "val_masks", "stopping_mask": "stopping_masks"}


class WikiCSDataset(OneGraphMixin, DGLBuiltinDataset):
    """One graph: 11,701 articles in 10 fields, and 431,726 edges in both directions of links.

    Node features: ``feat``, float32 ``[num_nodes, 300]``; ``label``, int64 ``[num_nodes]``;
    ``train_mask``, ``val_mask`` and ``stopping_mask``, bool ``[num_nodes, 20]``, a column for each
    split; ``test_mask``, bool ``[num_nodes]``. Nodes are numbered anew, so that neighbours have
    near numbers, as they are in DGL.

    Args:
        raw_dir: see :class:`DGLBuiltinDataset`; the file ``data.json`` is in the folder
            ``wiki_cs``: lists ``features``, ``labels``, ``links`` (of each node), ``train_masks``,
            ``val_masks`` and ``stopping_masks`` (of each split), and ``test_mask``.
        force_reload: without effect, nothing is kept.
        verbose: whether to show progress.
        transform: applied to the graph each time it is asked for.

    Raises:
        SmexImportError: SciPy is not installed.
        SmexRuntimeError: the file is nowhere and cannot be downloaded.
    """

    num_classes = 10

    def __init__(
        self,
        raw_dir: Folder = None,
        force_reload: bool = False,
        verbose: bool = False,
        transform: Transform = None,
    ):
        super().__init__(
            "wiki_cs",
            "https://data.dgl.ai/dataset/wiki_cs.zip",
            raw_dir=raw_dir,
            force_reload=force_reload,
            verbose=verbose,
            transform=transform,
        )

    def _files(self) -> tuple[str, ...]:
        return ("data.json",)

    def process(self) -> None:
        """Reads the file."""
        data = json.loads((Path(self.raw_path) / "data.json").read_text())
        links = [torch.tensor(row, dtype=torch.int64) for row in data["links"]]
        src = torch.repeat_interleave(torch.tensor([len(row) for row in links]))
        g = to_bidirected(graph((src, torch.cat(links)), num_nodes=len(data["labels"])))
        g.ndata["feat"] = torch.from_numpy(np.array(data["features"], dtype=np.float32))
        g.ndata["label"] = torch.tensor(data["labels"], dtype=torch.int64)
        for name, key in _SPLITS.items():
            g.ndata[name] = _mask(data[key]).T.contiguous()
        g.ndata["test_mask"] = _mask(data["test_mask"])
        self._g = reorder_graph(g, "rcmk", "dst", store_ids=False)


def _mask(rows: list) -> Tensor:
    return torch.from_numpy(np.array(rows, dtype=bool))
