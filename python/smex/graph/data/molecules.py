"""Molecules with properties to predict: QM7b (Montavon et al. 2013) and QM9 (Wu et al. 2018)."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor

from smex.errors import SmexValueError
from smex.graph.creation.convert import graph
from smex.graph.data.dataset import (
    DGLBuiltinDataset,
    Folder,
    LabelledGraphsMixin,
    Transform,
    check_index,
    other_name,
)
from smex.graph.data.files import Source
from smex.graph.graph import Graph
from smex.graph.packages import optional

__all__ = ["QM9", "QM7b", "QM7bDataset", "QM9Dataset", "QM9Edge", "QM9EdgeDataset"]


class QM7bDataset(LabelledGraphsMixin, DGLBuiltinDataset):
    """7,211 molecules, and 14 properties of each, float32 ``[14]``.

    Edges are the entries of a molecule's Coulomb matrix that are not 0; edge feature ``h``, float32
    ``[num_edges, 1]``, are their values.

    Args:
        raw_dir: see :class:`DGLBuiltinDataset`; the file ``qm7b.mat`` is there or in the folder
            ``qm7b``: MATLAB's arrays ``X`` ``[molecules, atoms, atoms]`` and ``T``
            ``[molecules, 14]``.
        force_reload: without effect, nothing is kept.
        verbose: whether to show progress.
        transform: applied to a graph each time it is asked for.

    Raises:
        SmexImportError: SciPy is not installed.
        SmexRuntimeError: the file is nowhere and cannot be downloaded.
    """

    num_classes = num_labels = num_tasks = 14
    label = other_name("labels", "The properties, float32 ``[num_graphs, 14]``.")

    def __init__(
        self,
        raw_dir: Folder = None,
        force_reload: bool = False,
        verbose: bool = False,
        transform: Transform = None,
    ):
        super().__init__(
            "qm7b",
            "http://deepchem.io.s3-website-us-west-1.amazonaws.com/datasets/qm7b.mat",
            raw_dir=raw_dir,
            force_reload=force_reload,
            verbose=verbose,
            transform=transform,
        )

    def _files(self) -> tuple[str, ...]:
        return ("qm7b.mat",)

    def _folders(self) -> tuple[str, ...]:
        return (self.name, ".")

    def process(self) -> None:
        """Reads the file."""
        reader = optional("QM7bDataset", "scipy.io")
        parts = reader.loadmat(Path(self.raw_path) / "qm7b.mat")
        self.labels = torch.from_numpy(parts["T"].astype(np.float32))
        self.graphs = [_of_entries(torch.from_numpy(matrix)) for matrix in parts["X"]]


def _of_entries(matrix: Tensor) -> Graph:
    """Returns the graph of the entries that are not 0, without nodes after the last of these."""
    src, dst = matrix.nonzero().unbind(1)
    g = graph((src.contiguous(), dst.contiguous()))
    g.edata["h"] = matrix[src, dst].float().view(-1, 1)
    return g


class _MoleculesInArrays(DGLBuiltinDataset):
    """Molecules whose atoms follow one another in arrays; graphs are made when asked for."""

    _file: ClassVar[str]

    def __init__(
        self,
        name: str,
        key: Sequence[Any],
        raw_dir: Folder,
        force_reload: bool,
        verbose: bool,
        transform: Transform,
    ):
        super().__init__(
            name,
            f"https://data.dgl.ai/dataset/{self._file}",
            raw_dir=raw_dir,
            hash_key=key,
            force_reload=force_reload,
            verbose=verbose,
            transform=transform,
        )

    def _files(self) -> tuple[str, ...]:
        return (self._file,)

    def _folders(self) -> tuple[str, ...]:
        return (".", self.name)  # DGL's subclasses read the file from raw_dir itself

    def _sources(self) -> tuple[Source, ...]:
        return (Source(str(self.url), self._file),)

    def _arrays(self, names: Sequence[str]) -> list[np.ndarray]:
        path = Path(self.raw_path) / self._file
        with np.load(path, allow_pickle=False) as parts:
            missing = [name for name in names if name not in parts]
            if missing:
                raise SmexValueError(
                    f"{type(self).__name__}: {path} has no {', '.join(missing)}, expected names "
                    f"among {', '.join(sorted(parts))}"
                )
            return [parts[name] for name in names]


class QM9Dataset(_MoleculesInArrays):
    """130,831 molecules, with an edge between atoms that are near, and chosen properties of each.

    Node features: ``R``, float32 ``[num_nodes, 3]``, places; ``Z``, int64 ``[num_nodes]``, atomic
    numbers. Labels are float32 ``[len(label_keys)]``. Ids of nodes are int32.

    Args:
        label_keys: names among ``mu``, ``alpha``, ``homo``, ``lumo``, ``gap``, ``r2``, ``zpve``,
            ``U0``, ``U``, ``H``, ``G``, ``Cv``.
        cutoff: the distance in Angstrom up to which atoms have an edge in both directions.
        raw_dir: see :class:`DGLBuiltinDataset`; the file ``qm9_eV.npz`` is there or in the folder
            ``qm9``: arrays ``N`` ``[molecules]``, the number of atoms, ``R`` ``[atoms, 3]``, ``Z``
            ``[atoms]``, and one ``[molecules]`` for each property.
        force_reload: without effect, nothing is kept.
        verbose: whether to show progress.
        transform: applied to a graph each time it is asked for.

    Raises:
        SmexRuntimeError: the file is nowhere and cannot be downloaded.
        SmexValueError: it lacks a property.
    """

    _file = "qm9_eV.npz"

    def __init__(
        self,
        label_keys: Sequence[str],
        cutoff: float = 5.0,
        raw_dir: Folder = None,
        force_reload: bool = False,
        verbose: bool = False,
        transform: Transform = None,
    ):
        self.cutoff, self.label_keys = cutoff, label_keys
        super().__init__(
            "qm9", (cutoff, tuple(label_keys)), raw_dir, force_reload, verbose, transform
        )

    def process(self) -> None:
        """Reads the file."""
        self.N, self.R, self.Z, *labels = self._arrays(["N", "R", "Z", *self.label_keys])
        self.label = np.stack(labels, axis=1)
        self.N_cumsum = np.concatenate([[0], np.cumsum(self.N)])

    @property
    def num_tasks(self) -> int:
        """Number of properties that are predicted."""
        return self.label.shape[1]

    @property
    def num_labels(self) -> int:
        """Former name of :attr:`num_tasks`."""
        return self.num_tasks

    @property
    def num_classes(self) -> int:
        """Former name of :attr:`num_tasks`."""
        return self.num_tasks

    def __getitem__(self, idx: int) -> tuple[Graph, Tensor]:
        """Returns the graph at a position and its properties.

        Raises:
            GraphIndexError: there is none.
        """
        check_index("QM9Dataset", idx, len(self))
        idx = int(idx) % len(self)
        atoms = slice(self.N_cumsum[idx], self.N_cumsum[idx + 1])
        places = self.R[atoms]
        distances = np.linalg.norm(places[:, None] - places[None], axis=-1)
        near = torch.from_numpy(distances <= self.cutoff).fill_diagonal_(False)
        src, dst = near.nonzero().int().unbind(1)
        g = graph((src.contiguous(), dst.contiguous()), num_nodes=len(places))
        g.ndata["R"] = torch.from_numpy(places).float()
        g.ndata["Z"] = torch.from_numpy(self.Z[atoms]).long()
        return self._transformed(g), torch.from_numpy(self.label[idx]).float()

    def __len__(self) -> int:
        """Number of molecules."""
        return self.label.shape[0]


_QM9_PARTS = ("n_node", "n_edge", "node_attr", "node_pos", "edge_attr", "src", "dst", "targets")


class QM9EdgeDataset(_MoleculesInArrays):
    """130,831 molecules with their bonds, and chosen properties of each.

    Node features: ``pos``, float32 ``[num_nodes, 3]``; ``attr``, float32 ``[num_nodes, 11]``; edge
    feature ``edge_attr``, float32 ``[num_edges, 4]``. Labels are float32 ``[len(label_keys)]``, and
    without keys ``[1, 19]``, as DGL has it.

    Args:
        label_keys: names among :attr:`keys`; None: all of them.
        raw_dir: see :class:`DGLBuiltinDataset`; the file ``qm9_edge.npz`` is there or in the folder
            ``qm9Edge``: arrays ``n_node`` and ``n_edge`` ``[molecules]``, ``node_attr`` and
            ``node_pos`` ``[atoms, ...]``, ``src``, ``dst`` and ``edge_attr`` ``[bonds, ...]``,
            ``targets`` ``[molecules, 19]``.
        force_reload: without effect, nothing is kept.
        verbose: whether to show progress.
        transform: applied to a graph each time it is asked for.

    Raises:
        SmexRuntimeError: the file is nowhere and cannot be downloaded.
        SmexValueError: there is no property of a name.
    """

    _file = "qm9_edge.npz"
    keys: ClassVar[list[str]] = [
        *("mu", "alpha", "homo", "lumo", "gap", "r2", "zpve", "U0", "U", "H", "G", "Cv"),
        *("U0_atom", "U_atom", "H_atom", "G_atom", "A", "B", "C"),
    ]
    map_dict: ClassVar[dict[str, int]] = {name: n for n, name in enumerate(keys)}

    def __init__(
        self,
        label_keys: Sequence[str] | None = None,
        raw_dir: Folder = None,
        force_reload: bool = False,
        verbose: bool = True,
        transform: Transform = None,
    ):
        for name in label_keys or ():
            if name not in self.map_dict:
                raise SmexValueError(
                    f"QM9EdgeDataset: expected label_keys among {', '.join(self.keys)}, found "
                    f"{name!r}"
                )
        self.label_keys = None if label_keys is None else [self.map_dict[n] for n in label_keys]
        self.num_labels = len(self.keys) if label_keys is None else len(label_keys)
        key = (None if label_keys is None else tuple(label_keys),)
        super().__init__("qm9Edge", key, raw_dir, force_reload, verbose, transform)

    def process(self) -> None:
        """Reads the file."""
        for name, array in zip(_QM9_PARTS, self._arrays(_QM9_PARTS)):
            setattr(self, name, array)
        self.n_cumsum, self.ne_cumsum = (
            np.concatenate([[0], np.cumsum(sizes)]) for sizes in (self.n_node, self.n_edge)
        )

    n_node: np.ndarray
    n_edge: np.ndarray
    node_attr: np.ndarray
    node_pos: np.ndarray
    edge_attr: np.ndarray
    src: np.ndarray
    dst: np.ndarray
    targets: np.ndarray

    @property
    def num_tasks(self) -> int:
        """Number of properties that are predicted."""
        return self.num_labels

    def __getitem__(self, idx: int) -> tuple[Graph, Tensor]:
        """Returns the graph at a position and its properties.

        Raises:
            GraphIndexError: there is none.
        """
        check_index("QM9EdgeDataset", idx, len(self))
        idx = int(idx) % len(self)
        atoms = slice(self.n_cumsum[idx], self.n_cumsum[idx + 1])
        bonds = slice(self.ne_cumsum[idx], self.ne_cumsum[idx + 1])
        src, dst = (torch.from_numpy(ids[bonds].astype(np.int64)) for ids in (self.src, self.dst))
        g = graph((src, dst), num_nodes=int(self.n_node[idx]))
        g.ndata["pos"] = torch.from_numpy(self.node_pos[atoms]).float()
        g.ndata["attr"] = torch.from_numpy(self.node_attr[atoms]).float()
        g.edata["edge_attr"] = torch.from_numpy(self.edge_attr[bonds]).float()
        label = np.asarray(self.targets[idx][self.label_keys])
        return self._transformed(g), torch.from_numpy(label).float()

    def __len__(self) -> int:
        """Number of molecules."""
        return self.n_node.shape[0]


QM7b = QM7bDataset
QM9 = QM9Dataset
QM9Edge = QM9EdgeDataset
