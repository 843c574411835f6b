"""Data sets made ready for one kind of prediction: labels, and elements to train and test with."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from smex.errors import SmexValueError
from smex.graph.creation.convert import graph
from smex.graph.data.dataset import DGLDataset, OneGraphMixin, other_name
from smex.graph.data.utils import permutation, set_masks, split_sizes
from smex.graph.graph import Graph

__all__ = ["AsGraphPredDataset", "AsLinkPredDataset", "AsNodePredDataset"]

_MASKS = ("train_mask", "val_mask", "test_mask")
_SEED = 0  # of draws: the same split each time


class _Adapter(DGLDataset):
    def __init__(self, dataset: Any, split_ratio: Sequence[float] | None, suffix: str):
        self.dataset, self.split_ratio = dataset, split_ratio
        name = getattr(dataset, "name", type(dataset).__name__)
        super().__init__(f"{name}-as-{suffix}", hash_key=(split_ratio, name, suffix))

    def _download(self) -> None:
        pass


class AsNodePredDataset(OneGraphMixin, _Adapter):
    """The first graph of a data set, to predict labels of its nodes.

    Node features: ``label``; ``train_mask``, ``val_mask`` and ``test_mask``, bool, of which
    ``train_idx``, ``val_idx`` and ``test_idx`` are the ids, int64. An element of OGB's, a graph and
    labels, gets the labels as a feature, and the masks of its own split.

    Args:
        dataset: its element 0 is a graph with node feature ``label``, or a graph and labels.
        split_ratio: fractions of nodes for training, validation and test; None: the masks that
            the graph has.
        target_ntype: the node type, of several.
        kwargs: taken for compatibility.

    Raises:
        SmexValueError: there are neither masks nor fractions, or no labels.

    Example:
        >>> d = sg.data.AsNodePredDataset(sg.data.KarateClubDataset(), [0.5, 0.25, 0.25])
        >>> d.num_classes, d.train_idx.shape
        (2, torch.Size([17]))
    """

    def __init__(
        self,
        dataset: Any,
        split_ratio: Sequence[float] | None = None,
        target_ntype: str | None = None,
        **kwargs: Any,
    ):
        self.target_ntype = target_ntype
        super().__init__(dataset, split_ratio, "nodepred")

    def process(self) -> None:
        """Adds what is missing to a copy of the graph."""
        element = self.dataset[0]
        labels = None if isinstance(element, Graph) else element[1]
        self._g = (element if labels is None else element[0]).clone()
        if labels is not None:
            self._data["label"] = labels.squeeze(-1) if labels.dim() == 2 else labels
        if "label" not in self._data:
            raise SmexValueError(
                f'AsNodePredDataset: {self.name} has no node feature "label"; set it, or pass '
                "target_ntype of the nodes that have it"
            )
        self._set_split()
        self.train_idx, self.val_idx, self.test_idx = (self._ids(name) for name in _MASKS)
        found, label = getattr(self.dataset, "num_classes", None), self._data["label"]
        if found is None:
            found = int(label.max()) + 1 if label.numel() else 0
        self._num_classes = int(found)

    g = other_name("_g", "The graph, which is the element of the data set.")

    @property
    def _data(self) -> Any:
        ntype = self.target_ntype
        return self._g.ndata if ntype is None else self._g.nodes[ntype].data

    def _set_split(self) -> None:
        if self.split_ratio is not None:
            set_masks(self._g, self.split_ratio, self.target_ntype, _SEED)
        elif hasattr(self.dataset, "get_idx_split"):
            for name, ids in zip(_MASKS, self.dataset.get_idx_split().values()):
                empty = torch.zeros(self._g.num_nodes(self.target_ntype), dtype=torch.bool)
                self._data[name] = empty.index_fill(0, ids, True)
        elif not all(name in self._data for name in _MASKS):
            raise SmexValueError(
                f"AsNodePredDataset: {self.name} has no masks of training, validation and test "
                "nodes; pass split_ratio=[0.8, 0.1, 0.1]"
            )

    def _ids(self, mask: str) -> Tensor:
        return self._data[mask].nonzero().view(-1)

    @property
    def num_classes(self) -> int:
        """Number of classes; by the largest label where the data set does not say."""
        return self._num_classes


class AsLinkPredDataset(OneGraphMixin, _Adapter):
    """The first graph of a data set, to predict edges: some are held back.

    Element 0 is the graph without the edges for validation and test. :attr:`val_edges` and
    :attr:`test_edges` are ``((src, dst), (negative src, negative dst))``, int64 each; the negative
    pairs are drawn, and are no edges and no self loops.

    Args:
        dataset: its element 0 is a graph of one type.
        split_ratio: fractions of edges for training, validation and test.
        neg_ratio: number of negative pairs for each edge held back.
        kwargs: taken for compatibility.

    Raises:
        SmexValueError: there are no fractions, or they do not sum to 1; or nearly all pairs are
            edges, and no negative ones are found.

    Example:
        >>> d = sg.data.AsLinkPredDataset(sg.data.KarateClubDataset(), [0.8, 0.1, 0.1])
        >>> (src, dst), (negative_src, negative_dst) = d.val_edges
        >>> d[0].num_edges(), src.shape, negative_src.shape
        (124, torch.Size([15]), torch.Size([45]))
    """

    def __init__(
        self,
        dataset: Any,
        split_ratio: Sequence[float] | None = None,
        neg_ratio: int = 3,
        **kwargs: Any,
    ):
        if split_ratio is None:
            raise SmexValueError(
                "AsLinkPredDataset: expected split_ratio, found None; pass [0.8, 0.1, 0.1]"
            )
        self.neg_ratio = neg_ratio
        super().__init__(dataset, split_ratio, "linkpred")

    def process(self) -> None:
        """Divides the edges."""
        g = self.dataset[0]
        sizes = split_sizes("AsLinkPredDataset", g.num_edges(), self.split_ratio or ())
        train, *held_back = permutation(g.num_edges(), _SEED).split(sizes)
        generator = torch.Generator().manual_seed(_SEED)
        src, dst = g.edges()
        self.val_edges, self.test_edges = (
            (
                (src[part], dst[part]),
                negative_pairs(g, part.shape[0] * self.neg_ratio, generator),
            )
            for part in held_back
        )
        train = train.sort().values
        self._g = graph((src[train], dst[train]), num_nodes=g.num_nodes())
        for name, rows in g.ndata.items():
            self._g.ndata[name] = rows
        for name, rows in g.edata.items():
            self._g.edata[name] = rows[train]
        self._feat_size = _columns(g.ndata)

    train_graph = other_name(
        "_g", "The graph of the edges to train with, which is the element of the data set."
    )

    @property
    def feat_size(self) -> int:
        """Numbers of a row of the node feature ``feat``."""
        return self._g.ndata["feat"].shape[-1] if self._feat_size is None else self._feat_size


def negative_pairs(g: Graph, number: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    """Drawn pairs of nodes that are no edges and no self loops."""
    src = torch.empty(0, dtype=torch.int64)
    dst = src
    for _ in range(100):  # of sparse graphs the first draw nearly suffices
        if src.shape[0] >= number:
            return src[:number].to(g.idtype), dst[:number].to(g.idtype)
        u, v = torch.randint(
            g.num_nodes(), (2, 2 * (number - src.shape[0]) + 8), generator=generator
        )
        keep = (u != v) & ~g.has_edges_between(u.to(g.idtype), v.to(g.idtype))
        src, dst = torch.cat([src, u[keep]]), torch.cat([dst, v[keep]])
    raise SmexValueError(
        f"AsLinkPredDataset: expected {number} pairs of nodes that are no edges, found "
        f"{src.shape[0]}; the graph has nearly all edges, take fewer with neg_ratio"
    )


def _columns(data: Any) -> int | None:
    """Numbers of a row of the feature ``feat``, or None."""
    feat = data.get("feat")
    return feat.shape[-1] if isinstance(feat, Tensor) else None


class AsGraphPredDataset(_Adapter):
    """A data set of graphs with labels, to predict the labels.

    Args:
        dataset: its elements are graphs and labels.
        split_ratio: fractions of graphs for training, validation and test; None: the data set's
            own split, of ``get_idx_split`` or of its masks.
        kwargs: taken for compatibility.

    Raises:
        SmexValueError: there are no fractions and the data set has no split, or they do not sum
            to 1.

    Example:
        >>> shapes = sg.data.MiniGCDataset(10, 8, 12)
        >>> d = sg.data.AsGraphPredDataset(shapes, [0.8, 0.1, 0.1])
        >>> d.num_classes, len(d.train_idx)
        (8, 8)
    """

    def __init__(self, dataset: Any, split_ratio: Sequence[float] | None = None, **kwargs: Any):
        super().__init__(dataset, split_ratio, "graphpred")

    def process(self) -> None:
        """Divides the graphs."""
        if self.split_ratio is None:
            parts = self._own_split()
        else:
            number = len(self.dataset)
            sizes = split_sizes("AsGraphPredDataset", number, self.split_ratio)
            parts = permutation(number, _SEED).split(sizes)
        self.train_idx, self.val_idx, self.test_idx = parts
        first = self.dataset[0][0] if len(self.dataset) else None
        self._node_feat_size = None if first is None else _columns(first.ndata)
        self._edge_feat_size = None if first is None else _columns(first.edata)

    def _own_split(self) -> Sequence[Tensor]:
        if hasattr(self.dataset, "get_idx_split"):
            return list(self.dataset.get_idx_split().values())
        if all(hasattr(self.dataset, name) for name in _MASKS):
            return [getattr(self.dataset, name).nonzero().view(-1) for name in _MASKS]
        raise SmexValueError(
            f"AsGraphPredDataset: {self.name} has no split of its own; pass "
            "split_ratio=[0.8, 0.1, 0.1]"
        )

    @property
    def num_classes(self) -> int:
        """Number of classes; by the largest label where the data set does not say."""
        found = getattr(self.dataset, "num_classes", None)
        if found is not None:
            return int(found)
        return max(int(torch.as_tensor(label).max()) for _, label in self.dataset) + 1

    @property
    def num_tasks(self) -> int:
        """Numbers that are predicted of a graph; 1 where the data set does not say."""
        return int(getattr(self.dataset, "num_tasks", 1))

    @property
    def node_feat_size(self) -> int | None:
        """Columns of node feature ``feat``, or None."""
        return self._node_feat_size

    @property
    def edge_feat_size(self) -> int | None:
        """Columns of edge feature ``feat``, or None."""
        return self._edge_feat_size

    def __getitem__(self, idx: int) -> Any:
        """Returns the graph at a position and its label."""
        return self.dataset[idx]

    def __len__(self) -> int:
        """Number of graphs."""
        return len(self.dataset)
