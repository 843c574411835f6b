"""Schedules of batches of input graphs, kept by structure, with their indices as tensors.

`csrc/vertex/schedule.h` makes them, and `csrc/runtime/vertex/tasks.h` runs their tasks.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from smex._C import TaskPlan, VertexSchedule, vertex_schedule
from smex.errors import SmexRuntimeError
from smex.vertex.words.graphs import Array, GraphBatch

KEPT = 64
"""How many schedules are kept."""


IN_SERIES = {"cpu"}
"""Devices that add gradients to children one row after the other, and need no order for that."""

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
        most_children: of a row.
        slots: for each argument position the children's rows: the first of contiguous ones, or an
            index tensor.
        edges: int64, the rows of all children, edge by edge.
        parents: int64, for each edge the row of its parent within the task.
        slot_orders: for each argument position an order in which the children's rows ascend, on
            devices where gradients are added in that order; none on the CPU.
        edge_order: the same for `edges`.
    """

    begin: int
    end: int
    edge_begin: int
    edge_end: int
    first_row: int
    most_children: int
    slots: list[int | Tensor]
    edges: Tensor
    parents: Tensor
    slot_orders: list[Tensor | None]
    edge_order: Tensor | None

    @property
    def size(self) -> int:
        """The number of rows."""
        return self.end - self.begin


@dataclass
class KindRows:
    """The rows of a kind: the vertices of one type, with children or without.

    Attributes:
        type: the type's number.
        is_leaf: none of them has a child.
        begin: the first row among those of all kinds; ``end`` is behind the last.
        numbers: of its tasks among all, in the order to run them in.
        most_rows: of a task.
        most_edges: likewise.
        vertices: int64, the vertex of each row.
        counts: int64, the number of children of each row.
        edges: int64, the rows of all children.
        parents: int64, for each edge the row of its parent within the kind.
        absent: the row that stands for no child.
        sample_offsets: the first vertex of each sample.
        parts: the rows, divided for what can be computed part by part.
        degree: how many children each row has; -1 where they differ.
        index: the memory of the index tensors.
        native: the schedule.
    """

    type: int
    is_leaf: bool
    begin: int
    end: int
    numbers: Array
    most_rows: int
    most_edges: int
    vertices: Tensor
    counts: Tensor
    edges: Tensor
    parents: Tensor
    absent: int
    sample_offsets: Any
    parts: list[RowPart]
    degree: int
    index: DeviceIndex
    native: VertexSchedule

    @cached_property
    def tasks(self) -> list[TaskRows]:
        """In the order to run them in, for what runs them one by one in Python."""
        native, index = self.native, self.index
        offsets, counts = native.edge_offsets, native.counts
        slot_first = native.slot_first
        first_slots = np.concatenate([[0], np.cumsum([task.slots for task in native.tasks])])
        first_edge = int(offsets[self.begin])
        found = []
        for number in self.numbers.tolist():
            task = native.tasks[number]
            size, edges = task.end - task.begin, slice(task.edge_begin, task.edge_end)
            places: list[int | Tensor] = []
            slot_orders: list[Tensor | None] = []
            for slot in range(task.slots):
                rows = slice(task.slot_begin + slot * size, task.slot_begin + (slot + 1) * size)
                first = int(slot_first[first_slots[number] + slot])
                places.append(first if first >= 0 else index["slot_rows"][rows])
                slot_orders.append(index.part("slot_orders", rows))
            found.append(
                TaskRows(
                    task.begin - self.begin, task.end - self.begin,
                    task.edge_begin - first_edge, task.edge_end - first_edge, task.begin,
                    int(counts[task.begin : task.end].max(initial=0)), places,
                    index["edge_rows"][edges], index["task_parents"][edges], slot_orders,
                    index.part("edge_orders", edges),
                )
            )  # fmt: skip
        return found

    @cached_property
    def whole(self) -> RowPart:
        """All rows and edges."""
        return RowPart((0, self.size), (0, len(self.edges)))

    @property
    def size(self) -> int:
        """The number of rows."""
        return self.end - self.begin

    def place(self, row: int) -> str:
        """Returns the vertex of a row, as users number it."""
        vertex = int(self.vertices[row])
        sample = int(np.searchsorted(self.sample_offsets, vertex, side="right")) - 1
        return f"vertex {vertex - int(self.sample_offsets[sample])} of sample {sample}"

    def slot(self, slot: int) -> Tensor:
        """Returns the rows of all children at an argument position."""
        return self.index.kept(
            f"slot {slot}, type {self.type}, leaf {self.is_leaf}", lambda: self._slot(slot)
        )

    def _slot(self, slot: int) -> Tensor:
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
        return torch.cat(parts) if parts else self.vertices.new_zeros(0)


@dataclass
class Schedule:
    """What is computed together, and where it lies: `csrc/vertex/schedule.h` as tensors.

    Attributes:
        kinds: of vertices, each with contiguous rows.
        kind_of_task: by task, in the order to run them in, the kind.
        task_plan: the same for csrc/runtime.
        rows: int64, the row of each vertex.
        vertices: int64, the vertex of each row.
        roots: int64, the rows of the vertices without parents, by vertex.
        root_vertices: int64, which these are.
        index: the memory of all index tensors.
    """

    kinds: list[KindRows]
    kind_of_task: list[int]
    task_plan: TaskPlan
    rows: Tensor
    vertices: Tensor
    roots: Tensor
    root_vertices: Tensor
    index: DeviceIndex

    @property
    def num_vertices(self) -> int:
        """The number of vertices."""
        return len(self.rows)

    @property
    def num_tasks(self) -> int:
        """The number of tasks."""
        return len(self.kind_of_task)

    @cached_property
    def order(self) -> list[tuple[int, int]]:
        """(kind, task of the kind) in the order to run them in."""
        found, counts = [], [0] * len(self.kinds)
        for kind in self.kind_of_task:
            found.append((kind, counts[kind]))
            counts[kind] += 1
        return found


class DeviceIndex:
    """Index arrays on a device, by one copy that does not wait for the device.

    On CUDA what there is belongs to the stream that made it last, and `use` makes it known to
    others.

    Args:
        arrays: of int64, by name.
        device: where they shall be.

    Raises:
        SmexRuntimeError: a CUDA graph is being captured, of which a copy cannot be part.
    """

    def __init__(self, arrays: Mapping[str, Array], device: torch.device):
        self._is_cuda = device.type == "cuda"
        if self._is_capturing():
            raise SmexRuntimeError(
                "smex.vertex.run: the batch has no schedule on the device yet, and none can be "
                "copied there while a CUDA graph is captured; run the same batch once before"
            )
        whole = torch.from_numpy(np.concatenate(list(arrays.values())))
        if self._is_cuda:
            whole = whole.pin_memory()
        if device.type != "cpu":
            whole = whole.to(device, non_blocking=True)
        self._memory: list[Tensor] = []
        self._hold(whole)
        self._parts = dict(zip(arrays, whole.split([len(a) for a in arrays.values()])))

    def __getitem__(self, name: str) -> Tensor:
        return self._parts[name]

    def part(self, name: str, where: slice) -> Tensor | None:
        """Returns a part of an array, or None where there is no such array."""
        return self._parts[name][where] if name in self._parts else None

    def kept(self, name: str, make: Callable[[], Tensor]) -> Tensor:
        """Returns what `make` computes from the others, once."""
        if name not in self._parts:
            value = make()
            if self._is_capturing():
                return value  # whose memory is the graph's, and which is computed when it replays
            self._hold(value)
            self._parts[name] = value
        return self._parts[name]

    def use(self) -> None:
        """To be called before the tensors are used on the current stream, which may be another."""
        # A capture can wait only for what it holds; before it began, torch waited for the device.
        if not self._is_cuda or self._is_capturing():
            return
        stream = torch.cuda.current_stream(self._memory[0].device)
        if stream == self._stream:
            return
        stream.wait_event(self._made)
        for tensor in self._memory:
            tensor.record_stream(stream)

    def _hold(self, value: Tensor) -> None:
        self._memory.append(value)
        if self._is_cuda:
            self._stream = torch.cuda.current_stream(value.device)
            self._made = self._stream.record_event()

    def _is_capturing(self) -> bool:
        return self._is_cuda and torch.cuda.is_current_stream_capturing()


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
    """Returns the schedule of a batch; that of an equal one is used again.

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
        batch.schedules[settings].index.use()
        return batch.schedules[settings]
    key = (batch.key, settings)
    found = _cache.pop(key, None)
    if found is None:
        # A tensor made in inference mode could not be part of a gradient later on.
        with torch.inference_mode(False):
            found = _made(batch, arities, slots, labels, types, policy, device)
    found.index.use()
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
    index = _index(native, device)
    offsets = native.edge_offsets
    kind_of_task, task_rows, task_edges = native.task_rows().reshape(-1, 3).T
    whole = slice(None)
    task_plan = TaskPlan(
        native, index["edge_rows"], index["task_parents"], index["slot_rows"],
        index.part("edge_orders", whole), index.part("slot_orders", whole),
    )  # fmt: skip
    kinds: list[KindRows] = []
    type_rows = native.type_rows
    for kind in range(2 * len(arities)):
        begin, end = int(type_rows[kind]), int(type_rows[kind + 1])
        edges = slice(int(offsets[begin]), int(offsets[end]))
        numbers = np.nonzero(kind_of_task == kind)[0]
        kinds.append(
            KindRows(
                kind // 2, kind % 2 == 0, begin, end, numbers,
                int(task_rows[numbers].max(initial=0)), int(task_edges[numbers].max(initial=0)),
                index["vertices"][begin:end], index["counts"][begin:end],
                index["edge_rows"][edges], index["parents"][edges], batch.num_vertices,
                batch.sample_offsets, _parts(offsets[begin : end + 1]),
                task_plan.degrees[kind], index, native,
            )
        )  # fmt: skip
    return Schedule(
        kinds, kind_of_task.tolist(), task_plan, index["rows"], index["vertices"], index["roots"],
        index["root_vertices"], index,
    )  # fmt: skip


def _index(native: VertexSchedule, device: torch.device) -> DeviceIndex:
    """Returns all index arrays of a schedule on the device."""
    arrays = {
        "vertices": native.vertices,
        "rows": native.rows,
        "roots": native.roots,
        "root_vertices": native.vertices[native.roots],
        "counts": native.counts,
        "edge_rows": native.edge_rows,
        "parents": native.parents,
        "task_parents": native.task_parents,
        "slot_rows": native.slot_rows,
    }
    if device.type in IN_SERIES:
        return DeviceIndex(arrays, device)
    begins = {"edge_begins": native.edge_begins(), "slot_begins": native.slot_begins()}
    index = DeviceIndex({**arrays, **begins}, device)
    for of in ("edge", "slot"):
        rows, begins_of = index[f"{of}_rows"], index[f"{of}_begins"]
        bound = len(native.vertices) + 1
        index.kept(f"{of}_orders", partial(ascending, rows, begins_of, bound))
    return index


def ascending(numbers: Tensor, begins: Tensor, bound: int) -> Tensor:
    """For each segment of numbers the stable order in which they ascend, counted from its begin.

    Args:
        numbers: int64 ``[n]``, from 0.
        begins: int64 ``[n]``, the place at which the number's segment begins.
        bound: is above all numbers; its product with n is below 2^63.
    """
    return torch.argsort(begins * bound + numbers, stable=True) - begins


def _parts(edge_offsets: Any) -> list[RowPart]:
    """Parts of about equally many rows, given the first edge of each and behind the last."""
    size = len(edge_offsets) - 1
    count = max(1, min(PARTS, size // PART_ROWS))
    bounds = [size * i // count for i in range(count + 1)]
    edges = [int(edge_offsets[b] - edge_offsets[0]) for b in bounds]
    return [RowPart((bounds[i], bounds[i + 1]), (edges[i], edges[i + 1])) for i in range(count)]
