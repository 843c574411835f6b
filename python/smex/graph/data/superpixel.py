"""Pictures as graphs of superpixels: MNIST and CIFAR-10 (Dwivedi et al., JMLR'23)."""

from __future__ import annotations

from pathlib import Path
from typing import ClassVar

import numpy as np
import torch

from smex.errors import SmexValueError
from smex.graph.creation.convert import graph
from smex.graph.data.dataset import (
    DGLBuiltinDataset,
    Folder,
    LabelledGraphsMixin,
    Transform,
)
from smex.graph.data.unpickle import load_pickle
from smex.graph.graph import Graph

__all__ = ["CIFAR10SuperPixelDataset", "MNISTSuperPixelDataset"]

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
