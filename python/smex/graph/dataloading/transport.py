"""Batches on their way from a worker process: features stay behind, and are gathered on arrival."""

from __future__ import annotations

from typing import Any, NamedTuple

from torch import Tensor
from torch.utils import _pytree as pytree

from smex.graph.features.column import Pending
from smex.graph.features.frame import Frame
from smex.graph.graph import Graph

__all__ = ["FeatureSource", "Parcel", "map_graphs"]


class _Column(NamedTuple):
    """A feature that was not read: rows of a feature of the graph that the batch was cut from."""

    source: tuple[int, str]
    rows: Tensor | None
    prefetch: bool


class Parcel(NamedTuple):
    """A graph without the features that were not read, and where each of them comes from."""

    graph: Graph
    columns: list[dict[str, _Column | None]]  # of each frame, in order; None: it is with the graph


def map_graphs(kind: type | tuple[type, ...], change: Any, batch: Any) -> Any:
    """`change` applied to everything of a kind in tuples, lists and dicts."""
    return pytree.tree_map(
        lambda leaf: change(leaf) if isinstance(leaf, kind) else leaf,
        batch,
        is_leaf=lambda leaf: isinstance(leaf, kind),
    )


class FeatureSource:
    """The features of the graph that batches are cut from, in every process that has it."""

    def __init__(self, graph: Graph):
        self._frames: list[Frame] = list(graph._all_frames())
        self._columns = {
            id(column): (n, name)
            for n, frame in enumerate(self._frames)
            for name, column in frame._columns.items()
        }

    def pack(self, batch: Any) -> Any:
        """Returns the batch without features that were not read."""
        return map_graphs(Graph, self._pack, batch)

    def unpack(self, batch: Any) -> Any:
        """Returns the batch with them."""
        return map_graphs(Parcel, self._unpack, batch)

    def _pack(self, graph: Graph) -> Parcel:
        return Parcel(graph, [self._take(frame) for frame in graph._all_frames()])

    def _take(self, frame: Frame) -> dict[str, _Column | None]:
        taken: dict[str, _Column | None] = {}
        for name, column in list(frame._columns.items()):
            taken[name] = None
            if isinstance(column, Pending) and id(column.source) in self._columns:
                source = self._columns[id(column.source)]
                taken[name] = _Column(source, column.rows, column.prefetch)
                del frame._columns[name]
        return taken

    def _unpack(self, parcel: Parcel) -> Graph:
        for frame, taken in zip(parcel.graph._all_frames(), parcel.columns):
            columns: dict[str, Tensor | Pending] = {}
            for name, column in taken.items():
                if column is None:
                    columns[name] = frame._columns[name]
                    continue
                (number, source_name), rows, prefetch = column
                source = self._frames[number][source_name]
                columns[name] = Pending(source, rows, parcel.graph.device, prefetch)
            frame._columns = columns
        return parcel.graph
