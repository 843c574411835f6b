"""The Long Range Graph Benchmark (Dwivedi et al., NeurIPS'22): pictures and peptides."""

from __future__ import annotations

import ast
import csv
import gzip
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor

from smex.errors import SmexValueError
from smex.graph.creation.convert import graph
from smex.graph.creation.files import load_graphs, save_graphs
from smex.graph.data.dataset import (
    DGLBuiltinDataset,
    Folder,
    GraphsMixin,
    LabelledGraphsMixin,
    Transform,
)
from smex.graph.data.files import Source, logger, obtain
from smex.graph.data.unpickle import load_pickle
from smex.graph.graph import Graph
from smex.graph.packages import optional

__all__ = [
    "COCOSuperpixelsDataset",
    "PeptidesFunctionalDataset",
    "PeptidesStructuralDataset",
    "VOCSuperpixelsDataset",
]

# ---- pictures ----


class _PicturesDataset(GraphsMixin, DGLBuiltinDataset):
    """Graphs of one part, which are in the file."""

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


class VOCSuperpixelsDataset(_PicturesDataset):
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


class COCOSuperpixelsDataset(_PicturesDataset):
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


# ---- peptides ----


class _PeptidesDataset(LabelledGraphsMixin, DGLBuiltinDataset):
    """Graphs of molecules that a table has as SMILES."""

    _published: ClassVar[str]
    _table: ClassVar[tuple[str, str]]  # the file and where it is
    _split: ClassVar[tuple[str, str]]
    num_atom_types, num_bond_types = 9, 3

    def __init__(
        self,
        raw_dir: Folder = None,
        force_reload: bool | None = None,
        verbose: bool | None = None,
        transform: Transform = None,
        smiles2graph: Callable[[str], Mapping[str, Any]] | None = None,
    ):
        self.smiles2graph = smiles2graph
        super().__init__(
            self._published,
            self._address(self._table),
            raw_dir=raw_dir,
            force_reload=bool(force_reload),
            verbose=bool(verbose),
            transform=transform,
        )

    @staticmethod
    def _address(file: tuple[str, str]) -> str:
        name, place = file
        return f"https://www.dropbox.com/s/{place}/{name}?dl=1"

    def _files(self) -> tuple[str, ...]:
        return self._table[0], self._split[0]

    def _sources(self) -> tuple[Source, ...]:
        return tuple(Source(self._address(file), file[0]) for file in (self._table, self._split))

    @property
    def raw_data_path(self) -> str:
        """The table: a column ``smiles`` and those of the labels."""
        return str(Path(self.raw_path) / self._table[0])

    @property
    def split_data_path(self) -> str:
        """The positions of each part."""
        return str(Path(self.raw_path) / self._split[0])

    @property
    def graph_path(self) -> str:
        """The file in which graphs are kept once they are made."""
        return str(Path(self.save_path) / f"{self._published}.bin")

    def process(self) -> None:
        """Makes the graphs of the table."""
        rows = self._rows()
        if self.smiles2graph is None:
            self.smiles2graph = optional(type(self).__name__, "ogb.utils").smiles2graph
        if self.verbose:
            logger.info("%s: making the graphs of %d molecules", type(self).__name__, len(rows))
        self.labels = self._targets(rows)
        self.graphs = [self._made(row["smiles"]) for row in rows]

    def _rows(self) -> list[dict[str, str]]:
        with gzip.open(self.raw_data_path, "rt", newline="") as file:
            reader = csv.DictReader(file)
            missing = {"smiles", *self._columns()} - set(reader.fieldnames or ())
            if missing:
                raise SmexValueError(
                    f"{type(self).__name__}: {self.raw_data_path}: expected the columns smiles, "
                    f"{', '.join(self._columns())}, found {', '.join(reader.fieldnames or ())}; "
                    "download it again"
                )
            return list(reader)

    def _made(self, smiles: str) -> Graph:
        assert self.smiles2graph is not None
        made = self.smiles2graph(smiles)
        src, dst = torch.as_tensor(np.asarray(made["edge_index"])).long()
        g = graph((src.contiguous(), dst.contiguous()), num_nodes=int(made["num_nodes"]))
        g.ndata["feat"] = torch.as_tensor(np.asarray(made["node_feat"])).long()
        g.edata["feat"] = torch.as_tensor(np.asarray(made["edge_feat"])).long()
        return g

    def _columns(self) -> Sequence[str]:
        """Of the table, with labels."""
        raise NotImplementedError

    def _targets(self, rows: Sequence[Mapping[str, str]]) -> Tensor:
        """Labels, float32 ``[num_graphs, number]``."""
        raise NotImplementedError

    def has_cache(self) -> bool:
        """Returns whether graphs were kept."""
        return Path(self.graph_path).exists()

    def save(self) -> None:
        """Keeps the graphs, which take long to make, where the folder can be written to."""
        try:
            Path(self.save_path).mkdir(parents=True, exist_ok=True)
            save_graphs(self.graph_path, list(self.graphs), {"labels": self.labels})
        except OSError as error:
            logger.info("%s is not kept: %s", self.graph_path, error)

    def load(self) -> None:
        """Reads the graphs that were kept."""
        self._found = self._find()
        self.graphs, found = load_graphs(self.graph_path)
        self.labels = found["labels"]

    def get_idx_split(self) -> dict[str, Tensor]:
        """Returns the positions of the parts ``"train"``, ``"val"`` and ``"test"``.

        Raises:
            SmexValueError: the file is damaged.
        """
        parts = load_pickle(self.split_data_path)
        return {name: torch.as_tensor(np.asarray(ids)) for name, ids in parts.items()}


class PeptidesFunctionalDataset(_PeptidesDataset):
    """15,535 peptides, and which of 10 functions each has, float32 ``[10]`` of 0 and 1.

    Node feature ``feat``, int64 ``[num_nodes, 9]``; edge feature ``feat``, int64
    ``[num_edges, 3]``, as `ogb.utils.smiles2graph` makes them of atoms and bonds.

    Args:
        raw_dir: see :class:`DGLBuiltinDataset`; the files ``peptide_multi_class_dataset.csv.gz``
            and ``splits_random_stratified_peptide.pickle`` are in the folder ``Peptides-func``.
        force_reload: whether graphs are made again that are kept from an earlier time.
        verbose: whether to show progress.
        transform: applied to a graph each time it is asked for.
        smiles2graph: makes a dict of ``edge_index``, ``[2, num_edges]``, ``edge_feat``,
            ``node_feat`` and ``num_nodes`` of a SMILES string; by default that of the package ogb,
            which needs rdkit.

    Raises:
        SmexRuntimeError: the files are nowhere and cannot be downloaded.
        SmexImportError: ogb is not installed.
        SmexValueError: a file is damaged.
    """

    _published = "Peptides-func"
    _table = ("peptide_multi_class_dataset.csv.gz", "ol2v01usvaxbsr8")
    _split = ("splits_random_stratified_peptide.pickle", "j4zcnx2eipuo0xz")
    num_classes = 10

    def _columns(self) -> tuple[str, ...]:
        return ("labels",)

    def _targets(self, rows: Sequence[Mapping[str, str]]) -> Tensor:
        return torch.tensor([ast.literal_eval(row["labels"]) for row in rows]).float()


class PeptidesStructuralDataset(_PeptidesDataset):
    """15,535 peptides, and 11 numbers of each one's shape, float32 ``[11]``.

    Over all peptides each of these has the mean 0 and the standard deviation 1. As
    :class:`PeptidesFunctionalDataset`; the files ``peptide_structure_dataset.csv.gz`` and
    ``splits_random_stratified_peptide_structure.pickle`` are in the folder ``Peptides-struc``.
    """

    _published = "Peptides-struc"
    _table = ("peptide_structure_dataset.csv.gz", "464u3303eu2u4zp")
    _split = ("splits_random_stratified_peptide_structure.pickle", "9dfifzft1hqgow6")

    def _columns(self) -> tuple[str, ...]:
        of_axes = (f"{word}_{axis}" for word in ("Inertia_mass", "Inertia_valence", "length")
                   for axis in "abc")  # fmt: skip
        return (*of_axes, "Spherocity", "Plane_best_fit")

    def _targets(self, rows: Sequence[Mapping[str, str]]) -> Tensor:
        columns = self._columns()
        found = torch.tensor([[float(row[name]) for name in columns] for row in rows]).double()
        return ((found - found.mean(0)) / found.std(0)).float()
