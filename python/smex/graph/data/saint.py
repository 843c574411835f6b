"""Graphs of GraphSAINT (Zeng et al., ICLR'20): pictures of Flickr, and users of Yelp.

``adj_full.npz`` is a matrix of SciPy, ``feats.npy`` has a row for each node, ``class_map.json``
the labels of each node by its id, ``role.json`` the lists of ids ``tr``, ``va`` and ``te``.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import ClassVar

import numpy as np
import torch

from smex.graph.creation.convert import graph
from smex.graph.data.compressed import read_sparse
from smex.graph.data.dataset import DGLBuiltinDataset, Folder, OneGraphMixin, Transform
from smex.graph.transforms.reorder import reorder_graph

__all__ = ["FlickrDataset", "YelpDataset"]

_ROLES = {"train_mask": "tr", "val_mask": "va", "test_mask": "te"}


class _SaintDataset(OneGraphMixin, DGLBuiltinDataset):
    """One graph with an edge for each entry of the matrix, from its row to its column.

    Node features: ``feat``, float32 ``[num_nodes, features]``; ``label``, int64; ``train_mask``,
    ``val_mask`` and ``test_mask``, bool ``[num_nodes]``.
    """

    _published: ClassVar[str]
    _classes: ClassVar[int]

    def __init__(
        self,
        raw_dir: Folder = None,
        force_reload: bool = False,
        verbose: bool = False,
        transform: Transform = None,
        reorder: bool = False,
    ):
        self._reorder = reorder
        super().__init__(
            self._published,
            f"https://data.dgl.ai/dataset/{self._published}.zip",
            raw_dir=raw_dir,
            hash_key=(self._published, reorder),
            force_reload=force_reload,
            verbose=verbose,
            transform=transform,
        )

    def _files(self) -> tuple[str, ...]:
        return "adj_full.npz", "feats.npy", "class_map.json", "role.json"

    def process(self) -> None:
        """Reads the files."""
        adjacency, feats, classes, roles = (Path(self.raw_path) / file for file in self._files())
        matrix = read_sparse(adjacency)
        g = graph((matrix.row, matrix.column), num_nodes=matrix.shape[0])
        g.ndata["feat"] = torch.from_numpy(np.load(feats, allow_pickle=False)).float()
        labels = json.loads(classes.read_text())
        rows = [labels.get(str(node), -1) for node in range(g.num_nodes())]
        g.ndata["label"] = torch.tensor(rows, dtype=torch.int64)
        parts = json.loads(roles.read_text())
        for mask, role in _ROLES.items():
            ids = torch.tensor(parts[role], dtype=torch.int64)
            empty = torch.zeros(g.num_nodes(), dtype=torch.bool)
            g.ndata[mask] = empty.index_fill(0, ids, True)
        self._g = reorder_graph(g, "rcmk", "dst", store_ids=False) if self._reorder else g

    @property
    def num_classes(self) -> int:
        """Number of classes."""
        return self._classes


class FlickrDataset(_SaintDataset):
    """89,250 pictures that have a property in common, in 7 classes, and 899,756 edges.

    Node features: ``feat``, float32 ``[num_nodes, 500]``; ``label``, int64 ``[num_nodes]``;
    ``train_mask``, ``val_mask`` and ``test_mask``, bool ``[num_nodes]``. The files are those of
    GraphSAINT: a matrix of SciPy, features of NumPy, labels and parts in JSON.

    Args:
        raw_dir: see :class:`DGLBuiltinDataset`; the files ``adj_full.npz``, ``feats.npy``,
            ``class_map.json`` and ``role.json`` are in the folder ``flickr``.
        force_reload: without effect, nothing is kept.
        verbose: whether to show progress.
        transform: applied to the graph each time it is asked for.
        reorder: whether nodes are numbered anew, so that neighbours have near numbers.

    Raises:
        SmexRuntimeError: the files are nowhere and cannot be downloaded.
    """

    _published, _classes = "flickr", 7


class YelpDataset(_SaintDataset):
    """716,847 users who are friends, of 100 kinds of business, and 13,954,819 edges.

    As :class:`FlickrDataset`, but ``feat`` has 300 columns and ``label`` is int64
    ``[num_nodes, 100]``, each column yes or no; the folder is ``yelp``.
    """

    _published, _classes = "yelp", 100
