"""Tasks on resources, and list schedules of them (HeteroG, §4.2)."""

from __future__ import annotations

import json
import pathlib
from collections.abc import Hashable, Iterable, Mapping, Sequence

import numpy as np

from smex._C import TaskGraph, TaskSchedule
from smex.errors import SmexKeyError, SmexTypeError, SmexValueError
from smex.planning.trace_file import named_track

ORDERS = ("rank", "shortest", "first come")
Names = Hashable | list[Hashable] | set[Hashable]
"""One name, also a tuple such as (0, 1), or several."""


class Tasks:
    """Work that takes time on resources, each of which does one thing at a time.

    A task begins when those that it waits for have ended, and occupies all of its resources until
    it ends: a device for an operator, a directed link for a transfer, all devices of a collective.

    Example:
        >>> import smex.cluster
        >>> tasks = smex.cluster.Tasks()
        >>> tasks.add("logs", 3, on="gpu 0")
        >>> tasks.add("layer 1", 1, on="gpu 0")
        >>> tasks.add("send", 2, on="gpu 0 -> gpu 1", after="layer 1")
        >>> tasks.add("layer 2", 4, on="gpu 1", after="send")
        >>> tasks.schedule().critical_path()
        ['layer 1', 'send', 'layer 2']
        >>> tasks.schedule("first come").makespan, tasks.schedule().makespan
        (10.0, 7.0)
    """

    def __init__(self) -> None:
        self._names: list[Hashable] = []
        self._numbers: dict[Hashable, int] = {}
        self._seconds: list[float] = []
        self._on: list[list[int]] = []
        self._after: list[list[int]] = []
        self._resources: dict[Hashable, int] = {}
        self._graph: TaskGraph | None = None

    def add(
        self,
        name: Hashable,
        seconds: float,
        on: Names = (),
        after: Names = (),
    ) -> None:
        """Adds a task.

        Args:
            name: what the task is called from then on.
            seconds: how long it takes.
            on: the resource, or several in a list, that it occupies; without any it waits for other
                tasks only. A resource is known by its name from the first task that names it.
            after: the task, or several in a list, that it waits for; they were added before.

        Raises:
            SmexValueError: the name is taken, or the time is negative or no number.
            SmexKeyError: a task that it waits for is not there.
        """
        if name in self._numbers:
            raise SmexValueError(f"tasks: there is a task {name!r} already")
        if not isinstance(seconds, (int, float, np.number)) or isinstance(seconds, bool):
            raise SmexTypeError(f"task {name!r}: expected seconds, found {seconds!r}")
        if not (np.isfinite(seconds) and seconds >= 0):
            raise SmexValueError(f"task {name!r}: expected seconds of at least 0, found {seconds}")
        waited = []
        for other in _listed(after):
            if other not in self._numbers:
                raise SmexKeyError(f"task {name!r}: there is no task {other!r} before it")
            waited.append(self._numbers[other])
        self._numbers[name] = len(self._names)
        self._names.append(name)
        self._seconds.append(float(seconds))
        occupied = _listed(on)
        self._on.append([self._resources.setdefault(r, len(self._resources)) for r in occupied])
        self._after.append(waited)
        self._graph = None

    def __len__(self) -> int:
        return len(self._names)

    def __repr__(self) -> str:
        return f"Tasks({len(self)} on {len(self._resources)} resources)"

    @property
    def resources(self) -> list[Hashable]:
        """The names of all resources, in the order in which tasks named them."""
        return list(self._resources)

    def ranks(self) -> dict[Hashable, float]:
        """Returns of each task the seconds from its beginning to the end of all, if nothing waits.

        HeteroG's rank of an operation: its own time and the largest rank of what waits for it.
        """
        return dict(zip(self._names, self._native().upward_ranks().tolist()))

    def least_makespan(self) -> float:
        """Returns the seconds that no schedule takes less than.

        The longest chain of tasks, or what the resource with the most to do has to do.
        """
        return float(self._native().least_makespan())

    def schedule(
        self, order: str | Sequence[Hashable] | Mapping[Hashable, float] = "rank"
    ) -> Schedule:
        """Returns when tasks run.

        Args:
            order: which task goes first where several wait for a resource: "rank", the one with the
                largest of `ranks` (HeteroG §4.2), "shortest", the shortest schedule of that and a
                few other list schedules, "first come", the one that has waited the longest, or a
                priority of each task. With a list of all tasks resources run theirs in that order,
                idle until the next one can begin, as workers do that run lists.

        Raises:
            SmexValueError: not one of these, not all tasks, or one before what it waits for.
        """
        graph = self._native()
        if isinstance(order, str):
            return Schedule(self, self._listed(order), order)
        if isinstance(order, Mapping):
            self._check_all(order, "priorities")
            priorities = [float(order[name]) for name in self._names]
            return Schedule(self, graph.by_priority(priorities), "by priority")
        names = list(order)
        self._check_all(names, "order")
        numbers = np.array([self._numbers[name] for name in names], dtype=np.int32)
        return Schedule(self, graph.in_order(numbers), "in order")

    def _listed(self, order: str) -> TaskSchedule:
        graph = self._native()
        if order == "rank":
            return graph.by_priority(graph.upward_ranks())
        if order == "shortest":
            return graph.shortest_of_lists()
        if order == "first come":
            return graph.first_come()
        raise SmexValueError(
            f"schedule: expected {', '.join(map(repr, ORDERS))}, priorities or a list of tasks, "
            f"found {order!r}"
        )

    def _check_all(self, names: Iterable[Hashable], what: str) -> None:
        given = list(names)
        missing = self._numbers.keys() - set(given)
        unknown = [name for name in given if name not in self._numbers]
        if unknown:
            raise SmexValueError(f"schedule: {what} have {unknown[0]!r}, which is no task")
        if missing:
            first = min(missing, key=lambda name: self._numbers[name])
            raise SmexValueError(
                f"schedule: {what} have {len(given)} of {len(self)} tasks, {first!r} is missing"
            )

    def _native(self) -> TaskGraph:
        if self._graph is None:
            graph = TaskGraph(len(self._resources))
            for seconds, on, after in zip(self._seconds, self._on, self._after):
                graph.add(seconds, on, after)
            self._graph = graph
        return self._graph


def _listed(names: Names) -> list[Hashable]:
    if isinstance(names, (list, set)):
        return list(names)
    return [] if names == () else [names]


class Schedule:
    """When tasks run, in seconds. What `Tasks.schedule` returns.

    Attributes:
        makespan: when the last one has ended.
        kind: how tasks were ordered.
    """

    def __init__(self, tasks: Tasks, native: TaskSchedule, kind: str) -> None:
        self._names = list(tasks._names)
        self._on = [list(on) for on in tasks._on]
        self._resources = tasks.resources
        self._native = native
        self._least = tasks.least_makespan()
        self.kind = kind
        self.makespan = float(native.makespan)

    def begins(self) -> dict[Hashable, float]:
        """Returns when each task begins."""
        return dict(zip(self._names, self._native.begins.tolist()))

    def ends(self) -> dict[Hashable, float]:
        """Returns when each task has ended."""
        return dict(zip(self._names, self._native.ends.tolist()))

    def order(self) -> list[Hashable]:
        """Returns all tasks by when they begin; in that order none begins later."""
        return [self._names[task] for task in self._native.order()]

    def critical_path(self) -> list[Hashable]:
        """Returns the tasks that follow each other without a gap up to the end of all.

        Each one waited for the one before it, or for a resource that that one had.
        """
        return [self._names[task] for task in self._native.critical_path()]

    def busy(self) -> dict[Hashable, float]:
        """Returns the seconds that each resource is occupied."""
        found = dict.fromkeys(self._resources, 0.0)
        seconds = self._native.ends - self._native.begins
        for own, on in zip(seconds.tolist(), self._on):
            for resource in dict.fromkeys(on):
                found[self._resources[resource]] += own
        return found

    def trace(self, path: str | pathlib.Path) -> None:
        """Writes a file for ui.perfetto.dev, with a track for each resource."""
        events = [named_track("process", 0, 0, self.kind)]
        for number, resource in enumerate(self._resources):
            events.append(named_track("thread", 0, number, str(resource)))
        begins, ends = self._native.begins.tolist(), self._native.ends.tolist()
        for name, on, begin, end in zip(self._names, self._on, begins, ends):
            span = {"name": str(name), "ph": "X", "ts": begin * 1e6, "dur": (end - begin) * 1e6}
            events += [{**span, "pid": 0, "tid": resource} for resource in on]
        pathlib.Path(path).write_text(json.dumps({"traceEvents": events}))

    def __repr__(self) -> str:
        above = f", {self.makespan / self._least:.2f} of the least" if self._least else ""
        lines = [f"Schedule({self.kind}: {len(self._names)} tasks, {self.makespan:.4g} s{above})"]
        for resource, seconds in self.busy().items():
            share = seconds / self.makespan if self.makespan else 0.0
            lines.append(f"  {resource}: busy {100 * share:.0f} %")
        return "\n".join(lines)
