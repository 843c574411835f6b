"""Benchmarks of Dwivedi et al. (JMLR'23), in files that DGL's ``save_graphs`` wrote."""

from __future__ import annotations

from pathlib import Path
from typing import Any, ClassVar

from smex.errors import SmexValueError
from smex.graph.creation.files import load_graphs
from smex.graph.data.dataset import DGLBuiltinDataset, Folder, Transform, check_index
from smex.graph.graph import Graph

__all__ = ["CLUSTERDataset", "PATTERNDataset", "ZINCDataset"]

_MODES = ("train", "valid", "test")


class _StoredDataset(DGLBuiltinDataset):
    """Graphs of one mode, which are in one file."""

    _published: ClassVar[str]
    _archive: ClassVar[str]
    _prefix: ClassVar[str]

    def __init__(
        self,
        mode: str = "train",
        raw_dir: Folder = None,
        force_reload: bool = False,
        verbose: bool = False,
        transform: Transform = None,
    ):
        if mode not in _MODES:
            raise SmexValueError(
                f"{type(self).__name__}: expected mode 'train', 'valid' or 'test', found {mode!r}"
            )
        self.mode = mode
        super().__init__(
            self._published,
            f"https://data.dgl.ai/dataset/{self._archive}.zip",
            raw_dir=raw_dir,
            hash_key=(mode,),
            force_reload=force_reload,
            verbose=verbose,
            transform=transform,
        )

    def _files(self) -> tuple[str, ...]:
        return (f"{self._prefix}_{self.mode}.bin",)

    def process(self) -> None:
        """Reads the file."""
        self._graphs, self._labels = load_graphs(Path(self.raw_path) / self._files()[0])

    def __getitem__(self, idx: int) -> Any:
        """Returns the graph at a position.

        Raises:
            GraphIndexError: there is none.
        """
        check_index(type(self).__name__, idx, len(self))
        return self._transformed(self._graphs[idx])

    def __len__(self) -> int:
        """Number of graphs."""
        return len(self._graphs)


class CLUSTERDataset(_StoredDataset):
    """Graphs of 6 communities, one node of each of which is known.

    Node features: ``feat``, int64 ``[num_nodes]``, the community of known nodes and 0 of others;
    ``label``, int64 ``[num_nodes]``; edge feature ``feat``. 10,000, 1,000 and 1,000 graphs.

    Args:
        mode: ``"train"``, ``"valid"`` or ``"test"``.
        raw_dir: see :class:`DGLBuiltinDataset`; the files ``CLUSTER_MODE.bin`` are in the folder
            ``cluster``, as DGL's ``save_graphs`` wrote them, or that of :mod:`smex.graph`.
        force_reload: without effect, nothing else is kept.
        verbose: whether to show progress.
        transform: applied to a graph each time it is asked for.

    Raises:
        SmexRuntimeError: the files are nowhere and cannot be downloaded.
        SmexValueError: another mode, or a file is damaged.
    """

    _published, _archive, _prefix = "cluster", "SBM_CLUSTER", "CLUSTER"
    num_classes = 6


class PATTERNDataset(_StoredDataset):
    """Graphs of communities with a pattern to find: ``label``, int64 ``[num_nodes]``, is 1 in it.

    As :class:`CLUSTERDataset`, ``feat`` being one of 3 drawn values; the files
    ``SBM_PATTERN_MODE.bin`` are in the folder ``pattern``. 10,000, 2,000 and 2,000 graphs.
    """

    _published, _archive, _prefix = "pattern", "SBM_PATTERN", "SBM_PATTERN"
    num_classes = 2


class ZINCDataset(_StoredDataset):
    """Molecules, and how soluble each is, float32 (no dimension).

    Node feature ``feat``, int64 ``[num_nodes]``, is one of 28 kinds of atoms, edge feature
    ``feat``, int64 ``[num_edges]``, one of 4 kinds of bonds. As :class:`CLUSTERDataset`; the files
    ``ZincDGL_MODE.bin``, with label ``g_label``, are in the folder ``zinc``. 10,000, 1,000 and
    1,000 graphs.
    """

    _published, _archive, _prefix = "zinc", "ZINC12k", "ZincDGL"
    num_atom_types, num_bond_types = 28, 4

    def __getitem__(self, idx: int) -> tuple[Graph, Any]:
        """Returns the graph at a position and its label.

        Raises:
            GraphIndexError: there is none.
        """
        return super().__getitem__(idx), self._labels["g_label"][idx]
