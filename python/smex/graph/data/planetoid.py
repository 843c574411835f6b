"""Citation networks with the split of Planetoid (Yang, Cohen and Salakhutdinov, ICML'16).

Files ``ind.NAME.PART``: features and labels of the nodes with known labels (``x``, ``y``), of the
test nodes (``tx``, ``ty``) and of all but the test nodes (``allx``, ``ally``), the neighbours of
each node (``graph``), and the test nodes' ids (``test.index``).
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from smex.errors import SmexValueError
from smex.graph.creation.convert import graph
from smex.graph.creation.networkx_io import to_networkx
from smex.graph.data.cora_binary import CoraBinary
from smex.graph.data.dataset import DGLBuiltinDataset, Folder, OneGraphMixin, Transform
from smex.graph.data.files import Source
from smex.graph.data.unpickle import load_pickle
from smex.graph.graph import Graph
from smex.graph.transforms.reorder import reorder_graph
from smex.graph.words import counted

__all__ = [
    "CitationGraphDataset",
    "CiteseerGraphDataset",
    "CoraBinary",
    "CoraGraphDataset",
    "PubmedGraphDataset",
]

_ADDRESS = "https://raw.githubusercontent.com/kimiyoung/planetoid/master/data/"
_PARTS = ("x", "y", "tx", "ty", "allx", "ally", "graph", "test.index")
_NUM_VALIDATION = 500
_SHA256 = {
    "ind.citeseer.allx": "2ac30345d95c9ec933a817ee0bdd6a5f077f8c184a20e696910192d534414668",
    "ind.citeseer.ally": "f704b2d986dde6c2669934de1f3ae5696a6cf9455c0f6b2646a2d135ea0a1c95",
    "ind.citeseer.graph": "d79a4ef9d3e7169aee8946145f6b7306e35bc79bffad26346cfb94e10e9912a7",
    "ind.citeseer.test.index": "2af990671580b6b2df5d158d1038f8292e30c9cd821b5453f399659b25b723d4",
    "ind.citeseer.tx": "539a8906a2da97628d212f2fdd668c109a8b3f0d36574b59e5d3fd5b5303da21",
    "ind.citeseer.ty": "55e5bd1ba1e733a04598753ad1a8d57957f4b8f89e74519f41f4f4938767e4ce",
    "ind.citeseer.x": "d20de19150741e555de0ed037195630fc194114ebc7fd72ced62810148aa22f6",
    "ind.citeseer.y": "8ba87e515d8e3ee3cf52f6d2c5b86aa73f11ecad825a808455209ec26cd54924",
    "ind.cora.allx": "9419ba2f26f5c35243db64aba110e0f35a04851609e0dc5433450676ca6b8543",
    "ind.cora.ally": "2b998f5cc7fedc86e7f97ca2498f47a1ffc1462c29e2d578b23bf3f62b6e7d71",
    "ind.cora.graph": "58f13302f39dde8852dad6fe6d15b89b077b6d7f837626bce671ef80344b383d",
    "ind.cora.test.index": "297ce89af2b51a6a194181c7dbe1796c6a1cf9cd9349a88383b1b1e227867875",
    "ind.cora.tx": "b9afbaa4a400df991f6f02ef677e1e44da55ffc04801fd02f9e673987829226a",
    "ind.cora.ty": "41f5ac76596a1699cc33f53084a2419e92961c42bb75f36fc38e616d348532ad",
    "ind.cora.x": "23cfa55d91c6f624233f5eb7b6e3f141f1bd2b2ae39608a63cf5d084bb27baab",
    "ind.cora.y": "94465c14eb53e04ca262198dcbb2521ee8af60fb3f3d546cd6ca24a511b0e7d1",
}


def _feature(name: str, doc: str) -> Any:
    """Returns a property: a feature of the nodes."""
    return property(lambda self: self._g.ndata[name], doc=doc)


class CitationGraphDataset(OneGraphMixin, DGLBuiltinDataset):
    """One graph: papers that cite each other, words in them, and their fields.

    Node features: ``feat``, float32 ``[num_nodes, num_words]``, rows that sum to 1 (or are 0);
    ``label``, int64 ``[num_nodes]``; ``train_mask``, ``val_mask`` (the 500 nodes after the
    training nodes) and ``test_mask``, bool ``[num_nodes]``. Papers that CiteSeer's files say
    nothing about have zero features and label 0. Edges are ordered by source, then
    destination; self loops stay.

    Args:
        name: ``"cora"``, ``"citeseer"`` or ``"pubmed"``.
        raw_dir: see :class:`DGLBuiltinDataset`; the files are in the folder ``planetoid`` or one
            of the data's name.
        force_reload: without effect, nothing is kept.
        verbose: whether to show progress.
        reverse_edge: whether there is an edge in both directions for each citation.
        transform: applied to the graph each time it is asked for.
        reorder: whether nodes are numbered anew, so that neighbours have near numbers.

    Raises:
        SmexRuntimeError: the files are nowhere and cannot be downloaded.
        SmexValueError: another name; or a file is damaged.
    """

    def __init__(
        self,
        name: str,
        raw_dir: Folder = None,
        force_reload: bool = False,
        verbose: bool = True,
        reverse_edge: bool = True,
        transform: Transform = None,
        reorder: bool = False,
    ):
        if name not in ("cora", "citeseer", "pubmed"):
            raise SmexValueError(
                f'CitationGraphDataset: expected "cora", "citeseer" or "pubmed", found "{name}"'
            )
        self.reverse_edge, self._reorder, self._stem = reverse_edge, reorder, name
        super().__init__(
            name,
            _ADDRESS,
            raw_dir=raw_dir,
            hash_key=(name, reverse_edge, reorder),
            force_reload=force_reload,
            verbose=verbose,
            transform=transform,
        )

    def _files(self) -> list[str]:
        return [f"ind.{self._stem}.{part}" for part in _PARTS]

    def _folders(self) -> tuple[str, ...]:
        return ("planetoid", self._stem, ".")

    def _find(self) -> Path | None:
        for stem in (self.name, f"{self.name}_v2"):  # DGL's files of Cora have the second name
            self._stem = stem
            found = super()._find()
            if found is not None:
                return found
        self._stem = self.name
        return None

    def _sources(self) -> list[Source]:
        return [Source(_ADDRESS + file, file, _SHA256.get(file)) for file in self._files()]

    def process(self) -> None:
        """Reads the files."""
        folder = Path(self.raw_path)
        tx, allx, y, ty, ally, neighbours = (
            load_pickle(folder / f"ind.{self._stem}.{part}")
            for part in ("tx", "allx", "y", "ty", "ally", "graph")
        )
        test = torch.from_numpy(np.loadtxt(folder / f"ind.{self._stem}.test.index", dtype=np.int64))
        first = allx.shape[0]
        num_nodes = max(int(test.max()) + 1, first)
        if tx.shape[0] != test.shape[0] or bool((test < first).any()):
            raise SmexValueError(
                f"{type(self).__name__}: the files in {folder} do not fit together, expected "
                f"{counted(tx.shape[0], 'test node')} with ids from {first} on, found "
                f"{test.shape[0]}, the least of them {int(test.min())}"
            )
        features = torch.zeros(num_nodes, allx.shape[1])
        features[:first], features[test] = allx.to_dense().float(), tx.to_dense().float()
        one_hot = torch.zeros(num_nodes, ally.shape[1])
        one_hot[:first], one_hot[test] = (
            torch.from_numpy(ally).float(),
            torch.from_numpy(ty).float(),
        )

        g = _graph_of(neighbours, num_nodes, self.reverse_edge)
        ids = torch.arange(num_nodes)
        g.ndata["train_mask"] = ids < y.shape[0]
        g.ndata["val_mask"] = (ids >= y.shape[0]) & (ids < y.shape[0] + _NUM_VALIDATION)
        g.ndata["test_mask"] = torch.zeros(num_nodes, dtype=torch.bool).index_fill(0, test, True)
        g.ndata["label"] = one_hot.argmax(1)
        g.ndata["feat"] = _normalized(features)
        if self._reorder:
            g = reorder_graph(g, "rcmk", "dst", store_ids=False)
        self._num_classes = ally.shape[1]
        self._g = g

    @property
    def num_classes(self) -> int:
        """Number of fields."""
        return self._num_classes

    @property
    def num_labels(self) -> int:
        """Former name of :attr:`num_classes`."""
        return self.num_classes

    @property
    def graph(self) -> Any:
        """The edges as a directed graph of networkx, as DGL had it before its release 1.0."""
        return to_networkx(self._g)

    features = _feature("feat", "The node feature ``feat``, as DGL had it before its release 1.0.")
    labels = _feature("label", "The node feature ``label``, likewise.")
    train_mask = _feature("train_mask", "The node feature ``train_mask``, likewise.")
    val_mask = _feature("val_mask", "The node feature ``val_mask``, likewise.")
    test_mask = _feature("test_mask", "The node feature ``test_mask``, likewise.")


class CoraGraphDataset(CitationGraphDataset):
    """Cora: 2,708 papers, 10,556 edges, 1,433 words, 7 fields, see :class:`CitationGraphDataset`.

    140, 500 and 1,000 nodes for training, validation and test.
    """

    def __init__(
        self,
        raw_dir: Folder = None,
        force_reload: bool = False,
        verbose: bool = True,
        reverse_edge: bool = True,
        transform: Transform = None,
        reorder: bool = False,
    ):
        super().__init__("cora", raw_dir, force_reload, verbose, reverse_edge, transform, reorder)


class CiteseerGraphDataset(CitationGraphDataset):
    """CiteSeer: 3,327 papers, 9,228 edges, 3,703 words, 6 fields.

    See :class:`CitationGraphDataset`. 120, 500 and 1,000 nodes for training, validation and test;
    15 nodes are not in the files of features, and 48 have no edges but to themselves.
    """

    def __init__(
        self,
        raw_dir: Folder = None,
        force_reload: bool = False,
        verbose: bool = True,
        reverse_edge: bool = True,
        transform: Transform = None,
        reorder: bool = False,
    ):
        super().__init__(
            "citeseer", raw_dir, force_reload, verbose, reverse_edge, transform, reorder
        )


class PubmedGraphDataset(CitationGraphDataset):
    """PubMed: 19,717 papers, 88,651 edges, 500 words, 3 fields, see :class:`CitationGraphDataset`.

    60, 500 and 1,000 nodes for training, validation and test. The SHA-256 of its files are not
    known here and not checked.
    """

    def __init__(
        self,
        raw_dir: Folder = None,
        force_reload: bool = False,
        verbose: bool = True,
        reverse_edge: bool = True,
        transform: Transform = None,
        reorder: bool = False,
    ):
        super().__init__("pubmed", raw_dir, force_reload, verbose, reverse_edge, transform, reorder)


def load_cora(
    raw_dir: Folder = None,
    force_reload: bool = False,
    verbose: bool = True,
    reverse_edge: bool = True,
    transform: Transform = None,
) -> CoraGraphDataset:
    """Returns Cora, see :class:`CoraGraphDataset`."""
    return CoraGraphDataset(raw_dir, force_reload, verbose, reverse_edge, transform)


def load_citeseer(
    raw_dir: Folder = None,
    force_reload: bool = False,
    verbose: bool = True,
    reverse_edge: bool = True,
    transform: Transform = None,
) -> CiteseerGraphDataset:
    """Returns CiteSeer, see :class:`CiteseerGraphDataset`."""
    return CiteseerGraphDataset(raw_dir, force_reload, verbose, reverse_edge, transform)


def load_pubmed(
    raw_dir: Folder = None,
    force_reload: bool = False,
    verbose: bool = True,
    reverse_edge: bool = True,
    transform: Transform = None,
) -> PubmedGraphDataset:
    """Returns PubMed, see :class:`PubmedGraphDataset`."""
    return PubmedGraphDataset(raw_dir, force_reload, verbose, reverse_edge, transform)


def _graph_of(neighbours: Any, num_nodes: int, both_ways: bool) -> Graph:
    """Each pair of neighbours once, or once in each direction."""
    pairs = [(u, v) for u, row in neighbours.items() for v in row]
    ends = torch.tensor(pairs, dtype=torch.int64).view(-1, 2).sort(dim=1).values
    if both_ways:
        ends = torch.cat([ends, ends.flip(1)])
    ends = torch.unique(ends, dim=0)
    return graph((ends[:, 0].contiguous(), ends[:, 1].contiguous()), num_nodes=num_nodes)


def _normalized(features: Tensor) -> Tensor:
    """Rows divided by their sums; zero rows stay."""
    sums = features.sum(1, keepdim=True)
    return torch.where(sums == 0, features, features / sums)
