"""Cora's fields in pairs: graphs of two fields, to tell these apart (Chen et al., ICLR'19).

``graphs.txt`` and ``labels.txt`` have a line that begins with ``graph`` before each graph's lines,
the ends of an edge, or a node's label; ``pmpds.pkl`` is a list of SciPy's matrices.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from smex.errors import SmexValueError
from smex.graph.creation.convert import graph
from smex.graph.data.dataset import DGLBuiltinDataset, Folder, Transform, check_index
from smex.graph.data.unpickle import Coordinates, load_pickle
from smex.graph.graph import Graph
from smex.graph.packages import optional
from smex.graph.parts.batch import batch

__all__ = ["CoraBinary"]


class CoraBinary(DGLBuiltinDataset):
    """Graphs; an element is (graph, matrix ``[num_edges, num_nodes]``, labels ``[num_nodes]``).

    The matrix is a ``scipy.sparse.coo_matrix`` that sums edges up at nodes, the labels are NumPy's,
    int64; all of them are kept as :attr:`graphs`, :attr:`pmpds` and :attr:`labels`.

    Args:
        raw_dir: see :class:`DGLBuiltinDataset`; the files are in the folder ``cora_binary``.
        force_reload: without effect, nothing is kept.
        verbose: whether to show progress.
        transform: applied to a graph each time it is asked for.

    Raises:
        SmexImportError: SciPy is not installed.
        SmexRuntimeError: the files are nowhere and cannot be downloaded.
        SmexValueError: they do not fit together.
    """

    def __init__(
        self,
        raw_dir: Folder = None,
        force_reload: bool = False,
        verbose: bool = True,
        transform: Transform = None,
    ):
        super().__init__(
            "cora_binary",
            "https://data.dgl.ai/dataset/cora_binary.zip",
            raw_dir=raw_dir,
            force_reload=force_reload,
            verbose=verbose,
            transform=transform,
        )

    def _files(self) -> tuple[str, ...]:
        return "graphs.txt", "pmpds.pkl", "labels.txt"

    def process(self) -> None:
        """Reads the files."""
        graphs, matrices, labels = (Path(self.raw_path) / file for file in self._files())
        sparse = optional("CoraBinary", "scipy.sparse")
        self.pmpds = [_matrix(sparse, each) for each in load_pickle(matrices)]
        self.graphs: list[Graph] = []
        for rows in _groups(graphs):
            pairs = np.array([row.split(" ") for row in rows], dtype=np.int64)
            self.graphs.append(graph((pairs[:, 0].copy(), pairs[:, 1].copy())))
        self.labels = [np.array(rows, dtype=np.int64) for rows in _groups(labels)]
        if not len(self.graphs) == len(self.pmpds) == len(self.labels):
            raise SmexValueError(
                f"CoraBinary: expected as many graphs as matrices and lists of labels in "
                f"{self.raw_path}, found {len(self.graphs)}, {len(self.pmpds)} and "
                f"{len(self.labels)}; download them again"
            )

    def __getitem__(self, idx: int) -> tuple[Graph, Any, np.ndarray]:
        """Returns the graph at a position, its matrix and its labels.

        Raises:
            GraphIndexError: there is none.
        """
        check_index("CoraBinary", idx, len(self))
        return self._transformed(self.graphs[idx]), self.pmpds[idx], self.labels[idx]

    def __len__(self) -> int:
        """Number of graphs."""
        return len(self.graphs)

    @staticmethod
    def collate_fn(cur: Sequence[tuple[Graph, Any, np.ndarray]]) -> tuple[Graph, Any, np.ndarray]:
        """Elements as one: graphs batched, matrices along a diagonal, labels joined."""
        graphs, matrices, labels = zip(*cur)
        joined = optional("CoraBinary", "scipy.sparse").block_diag(matrices)
        return batch(list(graphs)), joined, np.concatenate(labels)


def _groups(path: Path) -> list[list[str]]:
    """Returns the lines of each graph; graphs without a line are left out."""
    groups: list[list[str]] = [[]]
    for line in filter(None, map(str.strip, path.read_text().split("\n"))):
        if line.startswith("graph"):
            groups.append([])
        else:
            groups[-1].append(line)
    return [group for group in groups if group]


def _matrix(sparse: Any, found: Any) -> Any:
    if not isinstance(found, Coordinates):
        return sparse.coo_matrix(found.to_dense().numpy())
    return sparse.coo_matrix((found.data, found.ends), shape=found.shape)
