"""How much a worker holds while a plan's program runs, op by op, as `Plan.peak_bytes` counts."""

from __future__ import annotations

import bisect
import heapq
import math
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from smex._C import ComputeInstr, FetchInstr, FreeInstr

if TYPE_CHECKING:
    from smex.plan import Plan

_NEVER = math.inf


def program_order(plan: Plan) -> list[int]:
    """The ids of all ops in the order in which they run.

    What only gradients need is computed among them, wherever the model computes it.
    """
    ops = plan.graph.captured.ops
    return sorted(range(len(ops)), key=lambda number: ops[number].backward)


def fullest_worker(plan: Plan) -> int:
    """The worker with the highest predicted peak."""
    peaks = plan.peak_bytes()
    return max(range(len(peaks)), key=peaks.__getitem__)


def live_bytes(plan: Plan, worker: int) -> list[int]:
    """By op what a worker holds at most while it runs; ops are those of :func:`program_order`.

    Every storage once, inputs included, and tiles until peers have surely fetched them. The largest
    of them is the worker's predicted peak. A fused call counts for the first of its ops; those that
    follow hold as much.
    """
    from smex.plan import view_targets  # which draws pages itself

    place = {op: number for number, op in enumerate(program_order(plan))}
    found = [-1] * len(place)
    walk = _Walk(plan.program(), worker, view_targets(plan.graph))
    current, most = 0, walk.held
    for instr, held in walk.steps():
        if isinstance(instr, FreeInstr):
            continue
        most = max(most, held)
        if not isinstance(instr, ComputeInstr) or not found:
            continue  # what is fetched counts for the call that reads it
        current = place[instr.op] if instr.op >= 0 else min(current + 1, len(found) - 1)
        found[current], most = max(found[current], most), 0
    if found:
        found[current] = max(found[current], most)
    for number, held in enumerate(found):
        if held < 0:
            found[number] = found[number - 1] if number else walk.first
    return found


class _Walk:
    """The live storages of one worker while its instructions are walked (`csrc/partition`)."""

    def __init__(self, program: Any, worker: int, views: set[str]):
        self._program = program.workers[worker]
        self._views = views
        self._sizes = self._program.slot_itemsizes
        self._instrs = [*self._program.forward, *self._program.backward]
        self._done = _read_at(program, worker)
        self._kept = {output.slots[worker] for output in program.outputs if output.slots}
        self._storage: dict[int, int] = {}  # by slot
        self._bytes: list[int] = []
        self._references: list[int] = []
        self.held = 0
        for binding in program.inputs:
            if binding.slots[worker] >= 0:
                shape = [hi - lo for lo, hi in binding.regions[worker]]
                self._allocate(binding.slots[worker], shape)
        self.first = self.held

    def steps(self) -> Iterator[tuple[Any, int]]:
        """Each instruction, and what is held when it has made its results."""
        freed: list[tuple[float, int]] = []
        for position, instr in enumerate(self._instrs):
            if isinstance(instr, FreeInstr):
                if instr.slot not in self._kept:
                    heapq.heappush(freed, (self._done.get(instr.slot, -1), instr.slot))
            elif isinstance(instr, FetchInstr):
                if instr.view:
                    self._alias(instr.dest, instr.parts[0].slot)
                else:
                    self._allocate(instr.dest, instr.shape)
            else:
                self._compute(instr)
            held = self.held
            while freed and freed[0][0] <= position:
                self._release(heapq.heappop(freed)[1])
            yield instr, held

    def _compute(self, instr: Any) -> None:
        base = instr.first_operand if instr.target in self._views else -1
        shapes = instr.made_shapes
        for number, slot in enumerate(instr.outputs):
            if slot < 0:
                continue
            if base >= 0:
                self._alias(slot, base)
            else:
                self._allocate(slot, shapes[number if len(shapes) > 1 else 0])

    def _allocate(self, slot: int, shape: Sequence[int]) -> None:
        self._storage[slot] = len(self._bytes)
        self._bytes.append(math.prod(shape) * self._sizes[slot])
        self._references.append(1)
        self.held += self._bytes[-1]

    def _alias(self, slot: int, base: int) -> None:
        self._storage[slot] = self._storage[base]
        self._references[self._storage[base]] += 1

    def _release(self, slot: int) -> None:
        storage = self._storage[slot]
        self._references[storage] -= 1
        if self._references[storage] == 0:
            self.held -= self._bytes[storage]


def _read_at(program: Any, owner: int) -> dict[int, float]:
    """By slot of the owner its instruction after which no other worker reads it.

    That is known once the owner has fetched what the reader made later, or all have finished the
    forward.
    """
    own = program.workers[owner]
    last = len(own.forward) - 1
    written: dict[int, list[int]] = {}
    known: dict[int, list[tuple[int, int]]] = {}  # by reader: how far it had come, and when
    for position, reader, slot in own.remote_parts(owner):
        if reader not in written:
            written[reader] = program.workers[reader].written_at()
        progress = known.setdefault(reader, [])
        reached = written[reader][slot]
        if not progress or reached > progress[-1][0]:
            progress.append((reached, position))
    done: dict[int, float] = {}
    for reader, worker in enumerate(program.workers):
        if reader == owner:
            continue
        in_forward = len(worker.forward)
        progress = known.get(reader, [])
        for position, source, slot in worker.remote_parts(reader):
            if source != owner:
                continue
            after = bisect.bisect_left(progress, (position, -1))
            later = progress[after][1] if after < len(progress) else _NEVER
            at = min(later, last if position < in_forward else _NEVER)
            done[slot] = max(done.get(slot, -1), at)
    return done
