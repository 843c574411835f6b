"""What events of a trace file say of a plan's program, in Chrome's trace event format."""

from __future__ import annotations

import functools
from collections import defaultdict, deque
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from smex._C import ComputeInstr, FetchInstr
from smex.planning.page.memory import Memory
from smex.planning.placed import PlacedGraph

Event = dict[str, Any]


class Ran(NamedTuple):
    """A span of a worker, and the instruction that it is.

    Attributes:
        position: of the instruction in the forward and the backward list; -1: not known.
        start: microseconds.
        end: likewise.
    """

    position: int
    start: float
    end: float


class Instructions:
    """A program's instructions, by what they are called in traces.

    Args:
        plan: that the program was made from.
        program: one list for each worker.
    """

    def __init__(self, plan: PlacedGraph, program: Any):
        self._plan, self._program = plan, program
        self._memory = Memory(plan, program)
        self._lists = [[*own.forward, *own.backward] for own in program.workers]
        self._forward = [len(own.forward) for own in program.workers]

    def positions(self, worker: int, spans: Iterable[tuple[int, int]]) -> list[int]:
        """Returns the instructions of spans, which are (op or -1, fetched slot or -1)."""
        calls: dict[int, deque[int]] = defaultdict(deque)
        fetches: dict[int, int] = {}
        for position, instr in enumerate(self._lists[worker]):
            if isinstance(instr, ComputeInstr):
                calls[instr.op].append(position)
            elif isinstance(instr, FetchInstr):
                fetches[instr.dest] = position
        return [
            calls[op].popleft() if op >= 0 and calls[op] else fetches.get(slot, -1)
            for op, slot in spans
        ]

    def args(self, worker: int, position: int) -> dict[str, Any]:
        """Returns the user's names of an instruction: values, module, line, pass."""
        if position < 0:
            return {}
        instr = self._lists[worker][position]
        graph = self._plan.graph.captured
        found = {"pass": "backward" if self.is_backward(worker, position) else "forward"}
        values: list[int] = []
        number = -1
        if isinstance(instr, ComputeInstr) and instr.op >= 0:
            number = instr.op
            values = [output for output in graph.ops[number].outputs if output is not None]
        elif isinstance(instr, FetchInstr) and instr.value >= 0:
            values, number = [instr.value], self._made_by.get(instr.value, -1)
        if values:
            found["value"] = ", ".join(graph.values[value].name for value in values)
            found["shape"] = ", ".join(graph.values[value].type_str() for value in values)
        if number >= 0:
            op = graph.ops[number]
            found |= {"module": op.module_path, "line": op.source}
        return found

    @functools.cached_property
    def _made_by(self) -> Mapping[int, int]:
        return {
            value: op.id
            for op in self._plan.graph.captured.ops
            for value in op.outputs
            if value is not None
        }

    def is_backward(self, worker: int, position: int) -> bool:
        """Returns whether an instruction is in the backward list."""
        return position >= self._forward[worker]

    def made(self, worker: int, position: int) -> Sequence[int]:
        """Returns the slots that an instruction fills."""
        instr = self._lists[worker][position]
        if isinstance(instr, FetchInstr):
            return (instr.dest,)
        return instr.outputs if isinstance(instr, ComputeInstr) else ()

    def read(self, worker: int, position: int) -> list[tuple[int, int]]:
        """Returns the (worker, slot) of others that an instruction fetches of."""
        instr = self._lists[worker][position]
        if not isinstance(instr, FetchInstr):
            return []
        parts = ((part.worker, part.slot) for part in instr.parts if part.worker != worker)
        return list(dict.fromkeys(parts))

    # ---- events ----

    def passes(self, pid: int, worker: int, ran: Sequence[Ran]) -> list[Event]:
        """Returns the spans of forward and of backward, which lie around a worker's others."""
        ends: dict[str, tuple[float, float]] = {}
        name = "forward"
        for position, start, end in ran:
            if position >= 0:
                name = "backward" if self.is_backward(worker, position) else "forward"
            first, last = ends.get(name, (start, end))
            ends[name] = min(first, start), max(last, end)
        return [
            {"name": name, "cat": "pass", "ph": "X", "ts": start, "dur": end - start, "pid": pid,
             "tid": worker, "args": {"bytes": 0}}
            for name, (start, end) in ends.items()
        ]  # fmt: skip

    def memory(self, pid: int, worker: int, ran: Sequence[Ran]) -> list[Event]:
        """Returns a counter of predicted live bytes, by kind where that is told."""
        kinds = self._memory.held_by_kind(worker)
        if kinds is None:
            kinds = {"live": self._memory.held(worker)}
        name = f"memory of worker {worker}, predicted"
        return [
            {"name": name, "ph": "C", "ts": end, "pid": pid, "tid": worker,
             "args": {kind: held[position + 1] for kind, held in kinds.items()}}
            for position, _, end in ran if position >= 0
        ]  # fmt: skip

    def arrows(self, pid: int, ran: Sequence[Sequence[Ran]], first: int) -> list[Event]:
        """Returns the arrows from what makes a tile to what fetches of it.

        Args:
            pid: the process whose threads are the workers.
            ran: by worker.
            first: of the arrows' ids, which are whole numbers.
        """
        makers = {
            (worker, slot): span
            for worker, own in enumerate(ran)
            for span in own
            if span.position >= 0
            for slot in self.made(worker, span.position)
        }
        events: list[Event] = []
        for worker, own in enumerate(ran):
            for span in own:
                if span.position < 0:
                    continue
                for source, slot in self.read(worker, span.position):
                    maker = makers.get((source, slot))
                    if maker is not None:
                        events += _arrow(pid, first + len(events), source, maker, worker, span)
        return events


def _arrow(pid: int, number: int, source: int, maker: Ran, dest: int, span: Ran) -> list[Event]:
    """Returns both ends, each inside of its span; what is fetched arrives last."""
    both = {"name": "tile", "cat": "tile", "id": number, "pid": pid}
    end = span.start + 0.99 * (span.end - span.start)
    # A tile is there before its maker's end is noted.
    begin = max(maker.start, min((maker.start + maker.end) / 2, end))
    end = max(begin, end)
    return [
        {**both, "ph": "s", "ts": begin, "tid": source},
        {**both, "ph": "f", "bp": "e", "ts": end, "tid": dest},
    ]


def named_track(what: str, pid: int, tid: int, name: str) -> Event:
    """Returns the event of Chrome's trace format that names a "process" or a "thread"."""
    return {"name": f"{what}_name", "ph": "M", "pid": pid, "tid": tid, "args": {"name": name}}


def sorted_track(pid: int, place: int) -> Event:
    """Returns the event that tells where a "process" is shown."""
    args = {"sort_index": place}
    return {"name": "process_sort_index", "ph": "M", "pid": pid, "tid": 0, "args": args}
