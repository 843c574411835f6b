"""An iteration of a plan in time, without tensors (HeteroG, §3.3: the strategy's simulator)."""

from __future__ import annotations

import functools
import json
import os
import pathlib
from typing import Any, NamedTuple

from smex._C import Timeline
from smex.errors import SmexTypeError, SmexValueError
from smex.planning.cluster import Cluster
from smex.planning.machine import Machine
from smex.planning.plan import Plan
from smex.planning.trace_file import Instructions, Ran, named_track, sorted_track
from smex.text import aligned, duration_words, size_words

_WORKERS, _LINKS = 10, 11
"""Processes of a trace file, other ones than of a trace of what ran."""


class Span(NamedTuple):
    """What a worker or a link does for some time.

    Attributes:
        name: the operator, the tensor that is fetched, or the message.
        kind: "compute", the kind of fetch, or "message".
        where: the worker, or "0 -> 1" for a message.
        begin: seconds from the iteration's start.
        end: likewise.
    """

    name: str
    kind: str
    where: str
    begin: float
    end: float

    @property
    def seconds(self) -> float:
        """How long it takes."""
        return self.end - self.begin


class Simulation:
    """How an iteration of a plan goes by on a cluster; see `smex.simulate`.

    Attributes:
        plan: what ran, on paper.
        machine: on what.
        seconds: of an iteration.
        least: what no order of messages takes less than, with instructions in theirs.
        busy: by worker the seconds in which it computes and copies.
        waiting: by worker the seconds in which it waits for tiles of others.
        transferred: by worker the seconds in which what it receives is on its way.
    """

    def __init__(self, plan: Plan, machine: Machine | Cluster, timeline: Timeline):
        self.plan = plan
        self.machine = machine
        self._timeline = timeline
        self.seconds: float = timeline.seconds
        self.least: float = timeline.least
        self.busy: list[float] = list(timeline.busy)
        self.waiting: list[float] = list(timeline.waiting)
        self.transferred: list[float] = list(timeline.transferred)

    @property
    def peak_bytes(self) -> list[int]:
        """By worker the predicted peak, see `Plan.peak_bytes`."""
        return self.plan.peak_bytes()

    @property
    def idle(self) -> list[float]:
        """By worker the share of the iteration in which it computes nothing."""
        return [1 - busy / self.seconds if self.seconds else 0.0 for busy in self.busy]

    @functools.cached_property
    def workers(self) -> list[list[Span]]:
        """By worker what it does, in the order in which it does."""
        rows = self._timeline.instructions(self.plan.program())
        return [
            [Span(name, kind, str(worker), begin, end) for name, kind, begin, end in own]
            for worker, own in enumerate(rows)
        ]

    @functools.cached_property
    def messages(self) -> list[Span]:
        """What goes from worker to worker, in the order in which it sets out."""
        return [
            Span(f"message {number}: {size_words(nbytes)}", "message", f"{source} -> {to}", begin,
                 arrives)
            for number, source, to, begin, arrives, nbytes in self._timeline.transfers()
        ]  # fmt: skip

    def critical_path(self) -> list[Span]:
        """Returns what led to the end, each what the next waited for, without what takes no time.

        To make an iteration shorter one of these has to become shorter, or not be waited for.
        """
        path = []
        for is_message, worker, number in self._timeline.critical_path():
            span = self.messages[number] if is_message else self.workers[worker][number]
            if span.seconds > 0:
                path.append(span)
        return path

    def trace(
        self, path: str | os.PathLike[str], *, beside: str | os.PathLike[str] | None = None
    ) -> None:
        """Writes a file for ui.perfetto.dev: a track per worker and per link.

        Spans tell module, line and value; around them are spans of forward and backward, arrows go
        from what makes a tile to what fetches it, and the memory of each worker is a counter.

        Args:
            path: the JSON file, in Chrome's trace event format.
            beside: a file that `net.trace` wrote, whose tracks are taken over: what was predicted
                and what ran lie above each other and begin at once.

        Raises:
            SmexValueError: `beside` is no such file.
        """
        events = _events_of(beside) if beside is not None else []
        pathlib.Path(path).write_text(
            json.dumps({"traceEvents": events + self._events(_beginning(events))})
        )

    def _events(self, shift: float) -> list[dict[str, Any]]:
        """Returns the events, so many microseconds later."""
        program = self.plan.program()
        instructions = Instructions(self.plan, program)
        events = [named_track("process", _WORKERS, 0, "workers, simulated")]
        events.append(named_track("process", _LINKS, 0, "links, simulated"))
        events += [sorted_track(_WORKERS, 1), sorted_track(_LINKS, 3)]
        positions = self._timeline.positions(program)
        ran = [self._ran(worker, own, shift) for worker, own in enumerate(positions)]
        for worker, (spans, own) in enumerate(zip(self.workers, ran, strict=True)):
            events.append(named_track("thread", _WORKERS, worker, f"worker {worker}"))
            events += instructions.passes(_WORKERS, worker, own)
            for span, each in zip(spans, own, strict=True):
                if span.seconds > 0:
                    told = instructions.args(worker, each.position)
                    events.append({**_event(span, _WORKERS, worker, shift), "args": told})
            events += instructions.memory(_WORKERS, worker, own)
        links = {
            where: number for number, where in enumerate(sorted({m.where for m in self.messages}))
        }
        for where, number in links.items():
            words = " -> ".join(f"worker {end}" for end in where.split(" -> "))
            events.append(named_track("thread", _LINKS, number, words))
        events += [_event(span, _LINKS, links[span.where], shift) for span in self.messages]
        lasting = [[each for each in own if each.end > each.start] for own in ran]
        return events + instructions.arrows(_WORKERS, lasting, 1 << 32)

    def _ran(self, worker: int, positions: list[int], shift: float) -> list[Ran]:
        """By span its instruction, and when it is on its way."""
        return [
            Ran(position, span.begin * 1e6 + shift, span.end * 1e6 + shift)
            for position, span in zip(positions, self.workers[worker], strict=True)
        ]

    def __repr__(self) -> str:
        return (
            f"Simulation({duration_words(self.seconds)} an iteration on {self.machine!r}, workers "
            f"idle {min(self.idle):.0%} to {max(self.idle):.0%}, peak "
            f"{size_words(max(self.peak_bytes))})"
        )

    def __str__(self) -> str:
        devices = self.machine.devices if isinstance(self.machine, Cluster) else None
        rows = [("worker", "device", "busy", "waiting", "idle", "receives", "peak")]
        for worker in range(self.plan.workers):
            rows.append(
                (
                    str(worker),
                    devices[worker].name if devices else "",
                    duration_words(self.busy[worker]),
                    duration_words(self.waiting[worker]),
                    f"{self.idle[worker]:.0%}",
                    duration_words(self.transferred[worker]),
                    size_words(self.peak_bytes[worker]),
                )
            )
        longest = sorted(self.critical_path(), key=lambda span: -span.seconds)[:5]
        path = [
            (f"{span.seconds / self.seconds:.0%}", span.name, f"on {span.where}")
            for span in longest
        ]
        lines = [repr(self), *aligned(rows, right=(0, 2, 3, 4, 5, 6), indent="")]
        if path:
            lines += ["the longest on the critical path:", *aligned(path, right=(0,))]
        return "\n".join(lines)


def simulate(plan: Plan, machine: Machine | Cluster | None = None) -> Simulation:
    """Simulates an iteration of a plan: the program that runs, instruction by instruction.

    Workers run their lists in order; a fetch begins where it stands, goes on while its worker
    computes as far as the link's `overlap` allows, and is waited for when it is due. Messages wait
    for the ports that they need, those between nodes of a `smex.Cluster` also for the ports that
    the workers of a node share.

    Args:
        plan: what `smex.search` returned, or `net.plan`.
        machine: a cluster, or a machine; by default what the plan was searched for.

    Raises:
        SmexTypeError: no plan, or neither a machine nor a cluster.
        SmexValueError: no machine at all, or one with fewer workers than the plan.

    Example:
        >>> graph = smex.capture_graph(torch.nn.Linear(64, 64), (torch.rand(256, 64),))
        >>> cluster = smex.cluster.heterog_testbed()
        >>> plan = smex.search(graph, 8, objective="time", machine=cluster)
        >>> simulation = smex.simulate(plan, cluster)
        >>> len(simulation.busy)
        8
    """
    if not isinstance(plan, Plan):
        raise SmexTypeError(f"simulate: expected a plan of smex.search, found {plan!r}")
    machine = plan.machine if machine is None else machine
    if machine is None:
        raise SmexValueError(
            "simulate: the plan has no machine that tells times; pass a smex.Cluster or a "
            "smex.Machine"
        )
    if not isinstance(machine, (Machine, Cluster)):
        raise SmexTypeError(
            f"simulate: expected a smex.Cluster or a smex.Machine, found {machine!r}"
        )
    return Simulation(plan, machine, plan.timeline_on(machine))


def _beginning(events: list[dict[str, Any]]) -> float:
    """When what ran has begun; 0 where nothing did."""
    return min((event["ts"] for event in events if event.get("ph") == "X"), default=0.0)


def _event(span: Span, pid: int, tid: int, shift: float) -> dict[str, Any]:
    return {
        "name": span.name, "cat": span.kind, "ph": "X", "ts": span.begin * 1e6 + shift,
        "dur": span.seconds * 1e6, "pid": pid, "tid": tid,
    }  # fmt: skip


def _events_of(path: str | os.PathLike[str]) -> list[dict[str, Any]]:
    """Returns the events of a trace file."""
    try:
        events = json.loads(pathlib.Path(path).read_text())["traceEvents"]
    except (ValueError, KeyError, TypeError) as error:
        raise SmexValueError(f"trace: {path} is no trace that net.trace wrote: {error}") from error
    return list(events)
