"""Schedules of batches of input graphs, kept by structure, with their indices as tensors."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from smex._C import vertex_schedule
from smex.vertex.graphs import GraphBatch

KEPT = 64
"""How many schedules are kept."""


PARTS, PART_ROWS = 8, 2048
"""Rows that are computed at once are in at most so many parts, of at least so many rows."""


class RowPart(NamedTuple):
    """Contiguous rows of a kind, first and behind the last, and their edges."""

    rows: tuple[int, int]
    edges: tuple[int, int]


@dataclass
class TaskRows:
    """A task's place: rows and edges are counted within its kind of vertices.

    Attributes:
        begin: the first row; ``end`` is behind the last.
        first_row: the first row among those of all kinds.
        slots: for each argument position the children's rows: the first of contiguous ones, or an
            index tensor.
        edges: int64, the rows of all children, edge by edge.
        parents: int64, for each edge the row of its parent within the task.
    """

    begin: int
    end: int
    edge_begin: int
    edge_end: int
    first_row: int
    slots: list[int | Tensor]
    edges: Tensor
    all_parents: Tensor

    @property
    def size(self) -> int:
        """The number of rows."""
        return self.end - self.begin

    @cached_property
    def parents(self) -> Tensor:
        """For each edge of the task the row of its parent."""
        return self.all_parents[self.edge_begin : self.edge_end] - self.begin


@dataclass
class KindRows:
    """The rows of a kind: the vertices of one type, with children or without.

    Attributes:
        type: the type's number.
        is_leaf: none of them has a child.
        begin: the first row among those of all kinds; ``end`` is behind the last.
        tasks: in the order to run them in.
        vertices: int64, the vertex of each row.
        counts: int64, the number of children of each row.
        edges: int64, the rows of all children.
        parents: int64, for each edge the row of its parent within the kind.
        absent: the row that stands for no child.
        sample_offsets: the first vertex of each sample.
        parts: the rows, divided for what can be computed part by part.
        degree: how many children each row has, if all have as many.
    """

    type: int
    is_leaf: bool
    begin: int
    end: int
    tasks: list[TaskRows]
    vertices: Tensor
    counts: Tensor
    edges: Tensor
    parents: Tensor
    absent: int
    sample_offsets: Any
    parts: list[RowPart]
    degree: int | None

    @cached_property
    def whole(self) -> RowPart:
        """All rows and edges."""
        return RowPart((0, self.size), (0, len(self.edges)))

    @property
    def size(self) -> int:
        """The number of rows."""
        return self.end - self.begin

    @cached_property
    def sizes(self) -> list[int]:
        """The numbers of rows of the tasks."""
        return [task.size for task in self.tasks]

    @cached_property
    def edge_sizes(self) -> list[int]:
        """The numbers of edges of the tasks."""
        return [task.edge_end - task.edge_begin for task in self.tasks]

    def place(self, row: int) -> str:
        """The vertex of a row, as users number it."""
        vertex = int(self.vertices[row])
        sample = int(np.searchsorted(self.sample_offsets, vertex, side="right")) - 1
        return f"vertex {vertex - int(self.sample_offsets[sample])} of sample {sample}"

    def slot(self, slot: int) -> Tensor:
        """The rows of all children at an argument position."""
        if slot in self._slots:
            return self._slots[slot]
        parts = []
        for task in self.tasks:
            place = task.slots[slot] if slot < len(task.slots) else None
            if place is None:
                parts.append(self.vertices.new_full((task.size,), self.absent))
            elif isinstance(place, int):
                device = self.vertices.device
                parts.append(torch.arange(place, place + task.size, device=device))
            else:
                parts.append(place)
        self._slots[slot] = torch.cat(parts) if parts else self.vertices.new_zeros(0)
        return self._slots[slot]

    @cached_property
    def _slots(self) -> dict[int, Tensor]:
        return {}


@dataclass
class Schedule:
    """What is computed together, and where it lies: `csrc/vertex/schedule.h` as tensors.

    Attributes:
        kinds: of vertices, each with contiguous rows.
        order: (kind, task of the kind) in the order to run them in.
        rows: int64, the row of each vertex.
        vertices: int64, the vertex of each row.
        roots: int64, the rows of the vertices without parents, by vertex.
    """

    kinds: list[KindRows]
    order: list[tuple[int, int]]
    rows: Tensor
    vertices: Tensor
    roots: Tensor
    root_vertices: Tensor

    @property
    def num_vertices(self) -> int:
        """The number of vertices."""
        return len(self.rows)


_cache: OrderedDict[Any, Schedule] = OrderedDict()


def schedule(
    batch: GraphBatch,
    arities: Sequence[tuple[int, int, bool]],
    slots: Sequence[int],
    labels: Sequence[str],
    types: Mapping[str, int] | None,
    policy: str,
    device: torch.device,
) -> Schedule:
    """The schedule of a batch; that of an equal one is used again.

    Args:
        batch: the input graphs.
        arities: for each type (fewest, most, or none too) children.
        slots: for each type the argument positions it gathers one by one.
        labels: what errors call each type.
        types: the number of each type's name, or None for one type.
        policy: see :class:`smex.vertex.Options`.
        device: where the indices shall be.

    Raises:
        SmexValueError: a cycle, a missing child, a wrong number of children.
    """
    settings = (
        tuple(arities),
        tuple(slots),
        tuple(labels),
        policy,
        device,
        tuple(sorted((types or {}).items())),
    )
    if settings in batch.schedules:
        return batch.schedules[settings]
    key = (batch.key, settings)
    found = _cache.pop(key, None)
    if found is None:
        found = _made(batch, arities, slots, labels, types, policy, device)
    _cache[key] = found
    if len(_cache) > KEPT:
        _cache.popitem(last=False)
    batch.schedules[settings] = found
    return found


def _made(
    batch: GraphBatch,
    arities: Sequence[tuple[int, int, bool]],
    slots: Sequence[int],
    labels: Sequence[str],
    types: Mapping[str, int] | None,
    policy: str,
    device: torch.device,
) -> Schedule:
    counts = np.diff(batch.child_offsets)
    number = np.zeros(batch.num_vertices, np.int64)
    if types is not None and len(batch.types):
        number = np.array([types[name] for name in batch.type_names], np.int64)[batch.types]
    # Vertices without children are a kind of their own: their function is a simpler one.
    native = vertex_schedule(
        batch.sample_offsets,
        batch.child_offsets,
        batch.children,
        2 * number + (counts > 0),
        [(*a, label) for a, label in zip(arities, labels) for _ in range(2)],
        [s for s in slots for _ in range(2)],
        policy,
    )
    vertices = torch.from_numpy(native.vertices.copy()).to(device)
    edge_offsets = native.edge_offsets
    edge_rows = torch.from_numpy(native.edge_rows.copy()).to(device)
    slot_rows = torch.from_numpy(native.slot_rows.copy()).to(device)
    row_counts = torch.from_numpy(np.diff(edge_offsets)).to(device)
    kinds: list[KindRows] = []
    type_rows = native.type_rows
    for kind in range(2 * len(arities)):
        begin, end = int(type_rows[kind]), int(type_rows[kind + 1])
        edges = slice(int(edge_offsets[begin]), int(edge_offsets[end]))
        here = row_counts[begin:end]
        parents = torch.arange(end - begin, device=device).repeat_interleave(here)
        kinds.append(
            KindRows(
                kind // 2,
                kind % 2 == 0,
                begin,
                end,
                [],
                vertices[begin:end],
                here,
                edge_rows[edges],
                parents,
                batch.num_vertices,
                batch.sample_offsets,
                _parts(edge_offsets[begin : end + 1]),
                _degree(edge_offsets[begin : end + 1]),
            )
        )
    order, place = [], 0
    slot_first = native.slot_first.tolist()
    for task in native.tasks:
        kind = kinds[task.type]
        first_edge = int(edge_offsets[kind.begin])
        size = task.end - task.begin
        places: list[int | Tensor] = []
        for slot in range(task.slots):
            at = task.slot_begin + slot * size
            first = slot_first[place]
            places.append(first if first >= 0 else slot_rows[at : at + size])
            place += 1
        order.append((task.type, len(kind.tasks)))
        kind.tasks.append(
            TaskRows(
                task.begin - kind.begin,
                task.end - kind.begin,
                task.edge_begin - first_edge,
                task.edge_end - first_edge,
                task.begin,
                places,
                edge_rows[task.edge_begin : task.edge_end],
                kind.parents,
            )
        )
    roots = torch.from_numpy(native.roots.copy()).to(device)
    rows = torch.from_numpy(native.rows.copy()).to(device)
    return Schedule(kinds, order, rows, vertices, roots, vertices[roots])


def _degree(edge_offsets: Any) -> int | None:
    counts = np.diff(edge_offsets)
    return int(counts[0]) if len(counts) and (counts == counts[0]).all() else None


def _parts(edge_offsets: Any) -> list[RowPart]:
    """Parts of about equally many rows, given the first edge of each and behind the last."""
    size = len(edge_offsets) - 1
    count = max(1, min(PARTS, size // PART_ROWS))
    bounds = [size * i // count for i in range(count + 1)]
    edges = [int(edge_offsets[b] - edge_offsets[0]) for b in bounds]
    return [RowPart((bounds[i], bounds[i + 1]), (edges[i], edges[i + 1])) for i in range(count)]
