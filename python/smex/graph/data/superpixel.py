"""Pictures as graphs of superpixels: MNIST and CIFAR-10 (Dwivedi et al., JMLR'23), VOC and COCO.

The latter two are of the Long Range Graph Benchmark (Dwivedi et al., NeurIPS'22).
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import torch

from smex.errors import SmexValueError
from smex.graph.creation.convert import graph
from smex.graph.data.dataset import (
    DGLBuiltinDataset,
    Folder,
    LabelledGraphsMixin,
    Transform,
    check_index,
)
from smex.graph.data.files import Source, obtain
from smex.graph.data.unpickle import load_pickle
from smex.graph.graph import Graph

__all__ = [
    "CIFAR10SuperPixelDataset",
    "COCOSuperpixelsDataset",
    "MNISTSuperPixelDataset",
    "VOCSuperpixelsDataset",
]

_NEAREST = 8  # superpixels that one has edges to
_EPSILON = 1e-8


class _SuperPixelDataset(LabelledGraphsMixin, DGLBuiltinDataset):
    """Graphs of one part, made of the colours and places of superpixels."""

    _prefix: ClassVar[str]
    img_size: ClassVar[int]

    def __init__(
        self,
        raw_dir: Folder = None,
        split: str = "train",
        use_feature: bool = False,
        force_reload: bool = False,
        verbose: bool = False,
        transform: Transform = None,
    ):
        if split not in ("train", "test"):
            raise SmexValueError(
                f"{type(self).__name__}: expected split 'train' or 'test', found {split!r}"
            )
        self.split, self.use_feature = split, use_feature
        super().__init__(
            "Superpixel",
            "https://www.dropbox.com/s/y2qwa77a0fxem47/superpixels.zip?dl=1",
            raw_dir=raw_dir,
            hash_key=(self._prefix, split, use_feature),
            force_reload=force_reload,
            verbose=verbose,
            transform=transform,
        )

    def _files(self) -> tuple[str, ...]:
        return (f"superpixels/{self._prefix}_{self.split}.pkl",)

    def process(self) -> None:
        """Reads the file."""
        labels, samples = load_pickle(Path(self.raw_path) / self._files()[0])
        self.labels = torch.as_tensor(labels)
        self.graphs = [self._made(np.asarray(s[0]), np.asarray(s[1])) for s in samples]

    def _made(self, colours: np.ndarray, places: np.ndarray) -> Graph:
        number = len(colours)
        colours, places = colours.reshape(number, -1), places.reshape(number, 2) / self.img_size
        alike = _alike([places, colours] if self.use_feature else [places])
        dst, values = _nearest(alike)
        src = torch.arange(number).repeat_interleave(dst.shape[1])
        g = graph((src, torch.from_numpy(dst.reshape(-1))), num_nodes=number)
        g.ndata["feat"] = torch.from_numpy(np.concatenate([colours, places], 1)).float()
        g.edata["feat"] = torch.from_numpy(values.reshape(-1, 1)).float()
        return g


def _alike(features: list[np.ndarray]) -> np.ndarray:
    """Returns how much alike superpixels are, by distances in units of those that are near."""
    total = np.zeros((len(features[0]),) * 2)
    for rows in features:
        far = np.sqrt(((rows[:, None] - rows[None]) ** 2).sum(-1))
        unit = np.ones((len(far), 1))
        if len(far) >= _NEAREST:
            near = np.partition(far, min(_NEAREST, len(far) - 1), axis=-1)[:, : _NEAREST + 1]
            unit = near.sum(1, keepdims=True) / _NEAREST
        total -= (far / (unit + _EPSILON)) ** 2
    weights = np.exp(total)
    weights = 0.5 * (weights + weights.T)
    np.fill_diagonal(weights, 0)
    return weights


def _nearest(alike: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Returns the superpixels that each one has edges to, and how much alike they are.

    Of many, eight: those that a partition by the ninth largest leaves above it but the last.
    """
    number, first = len(alike), len(alike) - _NEAREST - 1
    if first > 0:
        chosen = np.argpartition(alike, first - 1, axis=-1)[:, first:-1]
        return chosen, np.partition(alike, first - 1, axis=-1)[:, first:-1]
    every = np.tile(np.arange(number), (number, 1))
    if number > 1:
        every = every[every != np.arange(number)[:, None]].reshape(number, -1)
    return every, np.take_along_axis(alike, every, 1)


class MNISTSuperPixelDataset(_SuperPixelDataset):
    """70,000 digits in at most 75 superpixels, and which digit each is.

    Node feature ``feat``, float32 ``[num_nodes, 3]``: brightness and place; edge feature ``feat``,
    float32 ``[num_edges, 1]``: how near the two are. Each superpixel has edges to eight others.

    Args:
        raw_dir: see :class:`DGLBuiltinDataset`; the files ``mnist_75sp_train.pkl`` and
            ``mnist_75sp_test.pkl`` are in the folder ``Superpixel/superpixels``: labels, and for
            each picture the colours, the places and more.
        split: ``"train"`` or ``"test"``.
        use_feature: whether colours count too for how near superpixels are.
        force_reload: without effect, nothing is kept.
        verbose: whether to show progress.
        transform: applied to a graph each time it is asked for.

    Raises:
        SmexRuntimeError: the files are nowhere and cannot be downloaded.
        SmexValueError: another split.
    """

    _prefix, img_size = "mnist_75sp", 28


class CIFAR10SuperPixelDataset(_SuperPixelDataset):
    """60,000 pictures in at most 150 superpixels, in 10 classes.

    As :class:`MNISTSuperPixelDataset`, with three numbers for the colour; the files are
    ``cifar10_150sp_train.pkl`` and ``cifar10_150sp_test.pkl``.
    """

    _prefix, img_size = "cifar10_150sp", 32


class _LongRangeDataset(DGLBuiltinDataset):
    """Graphs of one part, which are in the file."""

    _url: str
    _published: ClassVar[str]
    _archives: ClassVar[dict[tuple[int, str], str]]

    def __init__(
        self,
        raw_dir: Folder = None,
        split: str = "train",
        construct_format: str = "edge_wt_region_boundary",
        slic_compactness: int = 30,
        force_reload: bool | None = None,
        verbose: bool | None = None,
        transform: Transform = None,
    ):
        archive = self._archives.get((slic_compactness, construct_format))
        if split not in ("train", "val", "test") or archive is None:
            kinds = ", ".join(f"{size} {name}" for size, name in self._archives)
            raise SmexValueError(
                f"{type(self).__name__}: expected split 'train', 'val' or 'test', and "
                f"slic_compactness and construct_format among {kinds}, found {split!r}, "
                f"{slic_compactness} and {construct_format!r}"
            )
        self.split, self.construct_format = split, construct_format
        self.slic_compactness = slic_compactness
        super().__init__(
            self._published,
            f"https://www.dropbox.com/s/{archive}/{self._zip}?dl=1",
            raw_dir=raw_dir,
            hash_key=(split, construct_format, slic_compactness),
            force_reload=bool(force_reload),
            verbose=bool(verbose),
            transform=transform,
        )

    @property
    def _zip(self) -> str:
        word = self._published.split("-")[0].removeprefix("Pascal").lower()
        return f"{word}_superpixels_{self.construct_format}.zip"

    def _files(self) -> tuple[str, ...]:
        return (f"{self.split}.pickle",)

    def _folders(self) -> tuple[str, ...]:
        size = f"slic_compactness_{self.slic_compactness}"
        unpacked = f"{self._published}/{size}/{self._zip.removesuffix('.zip')}"
        return (f"{self._published}/{size}/{self.construct_format}", unpacked)

    def download(self) -> None:
        """Downloads and unpacks the files."""
        size = f"slic_compactness_{self.slic_compactness}"
        target, source = (
            Path(self.raw_dir) / self._published / size,
            Source(str(self.url), self._zip),
        )
        obtain(type(self).__name__, target, [source], self._files(), self.verbose)

    def process(self) -> None:
        """Reads the file."""
        found = load_pickle(Path(self.raw_path) / self._files()[0])
        self.graphs = [self._made(*each) for each in found]

    def _made(self, x: Any, edge_attr: Any, edge_index: Any, y: Any) -> Graph:
        src, dst = (ids.contiguous() for ids in torch.as_tensor(edge_index).long())
        g = graph((src, dst), num_nodes=len(y))
        g.ndata["feat"], g.edata["feat"] = (torch.as_tensor(t).float() for t in (x, edge_attr))
        g.ndata["label"] = self._labels(torch.as_tensor(y))
        return g

    def _labels(self, y: torch.Tensor) -> torch.Tensor:
        return y

    def __getitem__(self, idx: Any) -> Any:
        """Returns the graph at a position, or for a tensor of positions a :class:`Subset`.

        Raises:
            GraphIndexError: there is none.
        """
        if isinstance(idx, torch.Tensor) and idx.dim() == 1:
            from smex.graph.data.utils import Subset

            return Subset(self, idx.cpu())
        check_index(type(self).__name__, idx, len(self))
        return self._transformed(self.graphs[idx])

    def __len__(self) -> int:
        """Number of graphs."""
        return len(self.graphs)


class VOCSuperpixelsDataset(_LongRangeDataset):
    """11,355 pictures of Pascal VOC whose superpixels are of 21 kinds.

    Node features: ``feat``, float32 ``[num_nodes, 14]``: colours and place; ``label``, int64
    ``[num_nodes]``; edge feature ``feat``, float32, of 1 or 2 columns.

    Args:
        raw_dir: see :class:`DGLBuiltinDataset`; the files ``train.pickle``, ``val.pickle`` and
            ``test.pickle`` are in the folder ``PascalVOC-SP/slic_compactness_30/FORMAT``: a list of
            features, edge features, edges ``[2, num_edges]`` and labels of each picture.
        split: ``"train"``, ``"val"`` or ``"test"``.
        construct_format: ``"edge_wt_only_coord"``, ``"edge_wt_coord_feat"`` or
            ``"edge_wt_region_boundary"``: what edges join, and by what they are weighed.
        slic_compactness: 10 or 30: how even the superpixels are.
        force_reload: without effect, nothing is kept.
        verbose: whether to show progress.
        transform: applied to a graph each time it is asked for.

    Raises:
        SmexRuntimeError: the files are nowhere and cannot be downloaded.
        SmexValueError: another split, format or compactness.
    """

    _published = "PascalVOC-SP"
    num_classes = 21
    _archives: ClassVar[dict[tuple[int, str], str]] = {
        (10, "edge_wt_only_coord"): "rk6pfnuh7tq3t37",
        (10, "edge_wt_coord_feat"): "2a53nmfp6llqg8y",
        (10, "edge_wt_region_boundary"): "6pfz2mccfbkj7r3",
        (30, "edge_wt_only_coord"): "toqulkdpb1jrswk",
        (30, "edge_wt_coord_feat"): "xywki8ysj63584d",
        (30, "edge_wt_region_boundary"): "8x722ai272wqwl4",
    }


_COCO_LEFT_OUT = (12, 26, 29, 30, 45, 66, 68, 69, 71, 83)  # numbers that no thing has


class COCOSuperpixelsDataset(_LongRangeDataset):
    """123,286 pictures of COCO whose superpixels are of 81 kinds, numbered without gaps.

    As :class:`VOCSuperpixelsDataset`, in the folder ``COCO-SP``.
    """

    _published = "COCO-SP"
    num_classes = 81
    _archives: ClassVar[dict[tuple[int, str], str]] = {
        (10, "edge_wt_only_coord"): "prqizdep8gk0ndk",
        (10, "edge_wt_coord_feat"): "zftoyln1pkcshcg",
        (10, "edge_wt_region_boundary"): "fhihfcyx2y978u8",
        (30, "edge_wt_only_coord"): "hrbfkxmc5z9lsaz",
        (30, "edge_wt_coord_feat"): "4rfa2d5ij1gfu9b",
        (30, "edge_wt_region_boundary"): "r6ihg1f4pmyjjy0",
    }

    def _labels(self, y: torch.Tensor) -> torch.Tensor:
        return y - torch.searchsorted(torch.tensor(_COCO_LEFT_OUT), y.long()).to(y.dtype)
