"""Reviews and users, some of them fraudulent (Dou et al., CIKM'20), in MATLAB's files.

A file has sparse matrices, one for each relation, ``features`` ``[num_nodes, features]``, sparse,
and ``label`` ``[1, num_nodes]``.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch

from smex.errors import SmexValueError
from smex.graph.creation.convert import heterograph
from smex.graph.data.dataset import DGLBuiltinDataset, Folder, OneGraphMixin, Transform, other_name
from smex.graph.packages import optional

__all__ = ["FraudAmazonDataset", "FraudDataset", "FraudYelpDataset"]


class _Source(NamedTuple):
    archive: str
    file: str
    node_type: str
    relations: tuple[str, ...]
    first: int  # node that may be drawn; those before are without a label


_SOURCES = {
    "yelp": _Source("FraudYelp", "YelpChi.mat", "review", ("net_rsr", "net_rtr", "net_rur"), 0),
    "amazon": _Source("FraudAmazon", "Amazon.mat", "user", ("net_upu", "net_usu", "net_uvu"), 3305),
}


class FraudDataset(OneGraphMixin, DGLBuiltinDataset):
    """One graph of one node type and three relations between its nodes.

    Node features: ``feature``, float32 ``[num_nodes, features]``; ``label``, int64
    ``[num_nodes]``, 1 for fraud; ``train_mask``, ``val_mask`` and ``test_mask``, bool
    ``[num_nodes]``, drawn as DGL draws them. Edges of a relation are ordered by destination, as the
    matrices are by columns.

    Args:
        name: ``"yelp"``, reviews that have a user (``net_rur``), a star rating (``net_rsr``) or a
            month (``net_rtr``) of a product in common; or ``"amazon"``, users who review a product
            (``net_upu``), rate alike within a week (``net_usu``) or write alike (``net_uvu``), of
            whom the first 3,305 have no label and are in no part.
        raw_dir: see :class:`DGLBuiltinDataset`; the file ``YelpChi.mat`` or ``Amazon.mat`` is in
            the folder ``yelp`` or ``amazon``.
        random_seed: of the draw.
        train_size: fraction of the nodes for training.
        val_size: fraction for validation; the test has the rest.
        force_reload: without effect, nothing is kept.
        verbose: whether to show progress.
        transform: applied to the graph each time it is asked for.

    Raises:
        SmexImportError: SciPy is not installed.
        SmexRuntimeError: the file is nowhere and cannot be downloaded.
        SmexValueError: another name, or fractions that sum to more than 1.
    """

    num_classes = 2

    def __init__(
        self,
        name: str,
        raw_dir: Folder = None,
        random_seed: int = 717,
        train_size: float = 0.7,
        val_size: float = 0.1,
        force_reload: bool = False,
        verbose: bool = True,
        transform: Transform = None,
    ):
        if name not in _SOURCES:
            raise SmexValueError(f'FraudDataset: expected "yelp" or "amazon", found {name!r}')
        if not 0 <= train_size + val_size <= 1:
            raise SmexValueError(
                "FraudDataset: expected train_size and val_size that sum to at most 1, found "
                f"{train_size} and {val_size}"
            )
        self.seed, self.train_size, self.val_size = random_seed, train_size, val_size
        self._source = _SOURCES[name]
        super().__init__(
            name,
            f"https://data.dgl.ai/dataset/{self._source.archive}.zip",
            raw_dir=raw_dir,
            hash_key=(random_seed, train_size, val_size),
            force_reload=force_reload,
            verbose=verbose,
            transform=transform,
        )

    def _files(self) -> tuple[str, ...]:
        return (self._source.file,)

    def process(self) -> None:
        """Reads the file."""
        reader = optional(type(self).__name__, "scipy.io")
        parts = reader.loadmat(Path(self.raw_path) / self._source.file)
        label = torch.from_numpy(parts["label"].astype(np.int64)).view(-1)
        node = self._source.node_type
        edges = {(node, r, node): _ends(parts[r].tocoo()) for r in self._source.relations}
        self._g = heterograph(edges, {node: label.shape[0]})
        features = parts["features"]
        rows = features.toarray() if hasattr(features, "toarray") else features
        self._g.ndata["feature"] = torch.from_numpy(np.asarray(rows, dtype=np.float32))
        self._g.ndata["label"] = label
        self._set_masks(label.shape[0])

    def _set_masks(self, number: int) -> None:
        state = np.random.RandomState(self.seed)
        order = torch.from_numpy(state.permutation(np.arange(self._source.first, number)))
        train, val = (int(size * len(order)) for size in (self.train_size, self.val_size))
        parts = order.split([train, len(order) - train - val, val])
        for mask, ids in zip(("train_mask", "test_mask", "val_mask"), parts):
            empty = torch.zeros(number, dtype=torch.bool)
            self._g.ndata[mask] = empty.index_fill(0, ids, True)

    graph = other_name("_g", "The graph, which is the element of the data set.")


class _NamedFraud(FraudDataset):
    _published: str

    def __init__(
        self,
        raw_dir: Folder = None,
        random_seed: int = 717,
        train_size: float = 0.7,
        val_size: float = 0.1,
        force_reload: bool = False,
        verbose: bool = True,
        transform: Transform = None,
    ):
        super().__init__(
            self._published,
            raw_dir,
            random_seed,
            train_size,
            val_size,
            force_reload,
            verbose,
            transform,
        )


class FraudYelpDataset(_NamedFraud):
    """45,954 reviews of Yelp with 32 features, see :class:`FraudDataset`."""

    _published = "yelp"


class FraudAmazonDataset(_NamedFraud):
    """11,944 users of Amazon with 25 features, see :class:`FraudDataset`."""

    _published = "amazon"


def _ends(matrix: Any) -> tuple[torch.Tensor, torch.Tensor]:
    row, column = (torch.from_numpy(ids.astype(np.int64)) for ids in (matrix.row, matrix.col))
    return row, column
