"""Graphs that grow in time: trust (Kumar et al., ICDM'16) and events (Jin et al., EMNLP'20)."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import ClassVar

import numpy as np
import torch
from torch import Tensor

from smex.errors import SmexValueError
from smex.graph.creation.convert import graph
from smex.graph.data.dataset import DGLBuiltinDataset, Folder, Transform, check_index
from smex.graph.data.files import Source
from smex.graph.graph import Graph

__all__ = [
    "GDELT",
    "ICEWS18",
    "BitcoinOTC",
    "BitcoinOTCDataset",
    "GDELTDataset",
    "ICEWS18Dataset",
]

_FORTNIGHT = 14 * 24 * 3600  # seconds
_MODES = ("train", "valid", "test")


class _GrowingDataset(DGLBuiltinDataset):
    """Graph t has the edges of the first t + 1 steps, in the file's order."""

    is_temporal = True
    _feature: ClassVar[str]

    def _set(self, src: Tensor, dst: Tensor, values: Tensor, steps: Tensor) -> None:
        self._ends, self._values, self._steps = (src, dst), values.view(-1, 1), steps

    def _until(self, step: int) -> Graph:
        rows = self._steps <= step
        g = graph(tuple(ids[rows] for ids in self._ends))
        g.edata[self._feature] = self._values[rows]
        return g

    def __getitem__(self, idx: int) -> Graph:
        """Returns the graph at a position.

        Raises:
            GraphIndexError: there is none.
        """
        check_index(type(self).__name__, idx, len(self))
        return self._transformed(self._graph_at(int(idx) % len(self)))

    def _graph_at(self, idx: int) -> Graph:
        raise NotImplementedError


class BitcoinOTCDataset(_GrowingDataset):
    """136 graphs: who trusts whom on Bitcoin OTC, each with the ratings of 14 days more.

    Edge feature ``h``, int64 ``[num_edges, 1]``: ratings from -10 to 10. Edges are in the order of
    the file.

    Args:
        raw_dir: see :class:`DGLBuiltinDataset`; the file ``bitcoinotc.csv`` is in the folder
            ``bitcoinotc``: source, target, rating and seconds in each line.
        force_reload: without effect, nothing is kept.
        verbose: whether to show progress.
        transform: applied to a graph each time it is asked for.

    Raises:
        SmexRuntimeError: the file is nowhere and cannot be downloaded.
    """

    _feature = "h"

    def __init__(
        self,
        raw_dir: Folder = None,
        force_reload: bool = False,
        verbose: bool = False,
        transform: Transform = None,
    ):
        super().__init__(
            "bitcoinotc",
            "https://snap.stanford.edu/data/soc-sign-bitcoinotc.csv.gz",
            raw_dir=raw_dir,
            force_reload=force_reload,
            verbose=verbose,
            transform=transform,
        )

    def _files(self) -> tuple[str, ...]:
        return ("bitcoinotc.csv",)

    def _sources(self) -> tuple[Source, ...]:
        return (Source(str(self.url), "bitcoinotc.csv.gz"),)

    def process(self) -> None:
        """Reads the file."""
        path = Path(self.raw_path) / "bitcoinotc.csv"
        table = np.loadtxt(path, delimiter=",", ndmin=2).astype(np.int64)
        ends = torch.from_numpy(table[:, :2] - table[:, :2].min())
        steps = np.around((table[:, 3] - table[:, 3].min()) / _FORTNIGHT).astype(np.int64)
        src, dst = (side.contiguous() for side in ends.unbind(1))
        self._set(src, dst, torch.from_numpy(table[:, 2].copy()), torch.from_numpy(steps))
        self._graphs = [self._until(step) for step in range(int(steps.max()))]

    @property
    def graphs(self) -> Sequence[Graph]:
        """All graphs."""
        return self._graphs

    def _graph_at(self, idx: int) -> Graph:
        return self._graphs[idx]

    def __len__(self) -> int:
        """Number of graphs."""
        return len(self._graphs)


class _EventDataset(_GrowingDataset):
    """Graphs of events: lines of subject, relation, object and time, separated by tabs."""

    _feature = "rel_type"
    _published: ClassVar[str]
    _step: ClassVar[int]  # how much time there is between graphs

    def __init__(
        self,
        mode: str = "train",
        raw_dir: Folder = None,
        force_reload: bool = False,
        verbose: bool = False,
        transform: Transform = None,
    ):
        self.mode = mode.lower()
        if self.mode not in _MODES:
            raise SmexValueError(
                f"{type(self).__name__}: expected mode 'train', 'valid' or 'test', found {mode!r}"
            )
        super().__init__(
            self._published,
            f"https://data.dgl.ai/dataset/{self._published.lower()}.zip",
            raw_dir=raw_dir,
            hash_key=(self.mode,),
            force_reload=force_reload,
            verbose=verbose,
            transform=transform,
        )

    def _files(self) -> tuple[str, ...]:
        return (f"{self.mode}.txt",)

    def process(self) -> None:
        """Reads the file."""
        path = Path(self.raw_path) / f"{self.mode}.txt"
        table = np.loadtxt(path, delimiter="\t", ndmin=2, usecols=range(4)).astype(np.int64)
        src, relation, dst, time = (column.contiguous() for column in torch.from_numpy(table).T)
        steps = time.div(self._step, rounding_mode="floor")
        self._set(src, dst, relation, steps)
        self._start_time, self._end_time = int(steps[steps != -1].min()), int(steps.max())

    @property
    def start_time(self) -> int:
        """Number of the first step."""
        return self._start_time

    @property
    def end_time(self) -> int:
        """Number of the last step."""
        return self._end_time

    def _graph_at(self, idx: int) -> Graph:
        return self._until(self._start_time + idx)

    def __len__(self) -> int:
        """Number of steps."""
        return self._end_time - self._start_time + 1


class ICEWS18Dataset(_EventDataset):
    """Events of 2018 among 23,033 political actors: graph t has those of the first t + 1 days.

    Edge feature ``rel_type``, int64 ``[num_edges, 1]``: 256 kinds. There are 240 graphs for
    training, 30 for validation, 34 for the test, made when they are asked for.

    Args:
        mode: ``"train"``, ``"valid"`` or ``"test"``.
        raw_dir: see :class:`DGLBuiltinDataset`; the files ``MODE.txt`` are in the folder
            ``ICEWS18``: subject, relation, object and hours in each line, separated by tabs.
        force_reload: without effect, nothing is kept.
        verbose: whether to show progress.
        transform: applied to a graph each time it is asked for.

    Raises:
        SmexRuntimeError: the files are nowhere and cannot be downloaded.
        SmexValueError: another mode.
    """

    _published, _step = "ICEWS18", 24


class GDELTDataset(_EventDataset):
    """Events of January 2018 in the news: graph t has those of the first t + 1 quarters of an hour.

    As :class:`ICEWS18Dataset`, with 240 kinds of events, and minutes in the files, which are in the
    folder ``GDELT``. There are 2,304, 288 and 384 graphs.
    """

    _published, _step = "GDELT", 15
    num_nodes = 23033


BitcoinOTC = BitcoinOTCDataset
ICEWS18 = ICEWS18Dataset
GDELT = GDELTDataset
