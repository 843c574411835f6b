"""How much a worker holds while a plan's program runs, op by op, as `Plan.peak_bytes` counts."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

import torch

from smex._C import ComputeInstr, FetchInstr, FreeInstr, Program, WorkerProgram, held_bytes
from smex.errors import SmexError
from smex.planning.placed import PlacedGraph, view_targets

KINDS = ("parameters", "activations", "gradients", "communication")
"""What memory is for: parameters and buffers; inputs and results of forward; results of backward;
what is put together from tiles of others to be read by a call."""


def program_order(plan: PlacedGraph) -> list[int]:
    """Returns the ids of all ops in the order in which they run.

    What only gradients need is computed among them, wherever the model computes it.
    """
    ops = plan.graph.captured.ops
    return sorted(range(len(ops)), key=lambda number: ops[number].backward)


def fullest_worker(plan: PlacedGraph) -> int:
    """Returns the worker with the highest predicted peak."""
    peaks = plan.peak_bytes()
    return max(range(len(peaks)), key=peaks.__getitem__)


def live_bytes(plan: PlacedGraph, worker: int) -> list[int]:
    """Returns `Memory.live` of the plan's program."""
    return Memory(plan, plan.program()).live(worker)


def live_bytes_by_kind(plan: PlacedGraph, worker: int) -> dict[str, list[int]] | None:
    """Returns `Memory.live_by_kind` of the plan's program."""
    return Memory(plan, plan.program()).live_by_kind(worker)


class Memory:
    """What workers hold while a program runs.

    Args:
        plan: that the program was made from.
        program: one list for each worker.
    """

    def __init__(self, plan: PlacedGraph, program: Any):
        self._plan, self._program = plan, program
        self._views = view_targets(plan.graph)
        self._lists = [(own.forward, own.backward) for own in program.workers]

    def live(self, worker: int) -> list[int]:
        """By op what a worker holds at most while it runs, in the order of :func:`program_order`.

        Every storage once, inputs included, and tiles until peers have surely fetched them. The
        largest of them is the worker's predicted peak. A fused call counts for the last of its ops.
        """
        return [most for most, _ in self._by_op(worker, self.held(worker))]

    def live_by_kind(self, worker: int) -> dict[str, list[int]] | None:
        """Returns by kind, see `KINDS`, what `live` is made of; None as of `held_by_kind`."""
        kinds = self.held_by_kind(worker)
        if kinds is None:
            return None
        held = [sum(now) for now in zip(*kinds.values(), strict=True)]
        instants = [number for _, number in self._by_op(worker, held)]
        return {kind: [part[number] for number in instants] for kind, part in kinds.items()}

    def held(self, worker: int) -> list[int]:
        """Live bytes of a worker at first, and after each instruction."""
        return held_bytes(self._program, worker, self._views)

    def held_by_kind(self, worker: int) -> dict[str, list[int]] | None:
        """By kind the live bytes of a worker at first, and after each instruction.

        None where that is not told: the program keeps tiles on the host, or brings tensors along
        that no op makes.
        """
        try:
            held = self.held(worker)
            parts = {
                kind: held_bytes(program, worker, self._views)
                for kind, program in self._weighed.items()
            }
        except SmexError:
            return None
        return parts if [sum(now) for now in zip(*parts.values(), strict=True)] == held else None

    @functools.cached_property
    def _weighed(self) -> dict[str, Any]:
        """By kind the program in which elements of all others have no bytes."""
        slots = [self._slots(worker) for worker in range(len(self._lists))]
        bindings = (*self._program.inputs, *self._program.outputs)
        highest = max((slot for binding in bindings for slot in binding.slots), default=-1)
        counts = [1 + max(highest, *own) if own else 1 + highest for own in slots]
        found = {}
        for kind in KINDS:
            workers = []
            for (forward, backward), own, count in zip(self._lists, slots, counts, strict=True):
                sizes = [0] * count
                for slot, (each, itemsize) in own.items():
                    sizes[slot] = itemsize if each == kind else 0
                none, names = [0] * count, [""] * count
                workers.append(WorkerProgram(count, forward, backward, none, names, sizes))
            found[kind] = Program(workers, self._program.inputs, self._program.outputs)
        return found

    def _slots(self, worker: int) -> dict[int, tuple[str, int]]:
        """By slot of a worker what it is for, and the bytes of an element; 0 if not known."""
        values, ops = self._plan.graph.captured.values, self._plan.graph.captured.ops
        found: dict[int, tuple[str, int]] = {}
        for binding in self._program.inputs:
            value = values[binding.value]
            kept = value.role in ("parameter", "buffer")
            found[binding.slots[worker]] = KINDS[0 if kept else 1], value.dtype.itemsize
        sizes = [value.dtype.itemsize for value in values]
        of_dtype = {name: getattr(torch, name).itemsize for name in _dtypes(self._lists[worker])}
        for is_backward, instrs in enumerate(self._lists[worker]):
            for instr in instrs:
                if isinstance(instr, FetchInstr):
                    found[instr.dest] = KINDS[3], of_dtype[instr.dtype]
                elif isinstance(instr, ComputeInstr):
                    op = ops[instr.op] if instr.op >= 0 else None
                    outputs = op.outputs if op else []
                    made = [sizes[output] for output in outputs if output is not None] or [0]
                    backward = op.backward if op else bool(is_backward)
                    slots = instr.outputs
                    for number, slot in enumerate(slots):
                        size = made[number] if len(made) == len(slots) else made[0]
                        found[slot] = KINDS[2 if backward else 1], size
        self._name_results(worker, found)
        found.pop(-1, None)
        return found

    def _name_results(self, worker: int, found: dict[int, tuple[str, int]]) -> None:
        """What is received and a result is no buffer of communication."""
        received = [
            {instr.dest for instr in instrs if isinstance(instr, FetchInstr)}
            for instrs in self._lists[worker]
        ]
        for binding in self._program.outputs:
            slot = binding.slots[worker] if binding.slots else -1
            for dests, kind in zip(received, (KINDS[1], KINDS[2]), strict=True):
                if slot in dests:
                    found[slot] = kind, found[slot][1]

    def _by_op(self, worker: int, held: Sequence[int]) -> list[tuple[int, int]]:
        """By op the most that is held while it runs, and after which instruction that is."""
        place = {op: number for number, op in enumerate(program_order(self._plan))}
        found = [(-1, 0)] * len(place)
        forward, backward = self._lists[worker]
        first = held[0], 0
        current, most = 0, first
        for number, instr in enumerate([*forward, *backward], 1):
            if isinstance(instr, FreeInstr):
                continue
            if held[number] > most[0]:
                most = held[number], number
            if not isinstance(instr, ComputeInstr) or not found:
                continue  # what is fetched counts for the call that reads it
            current = place.get(instr.op, current)
            found[current], most = max(found[current], most, key=_bytes), (0, 0)
        if found:
            found[current] = max(found[current], most, key=_bytes)
        for number, (nbytes, _) in enumerate(found):
            if nbytes < 0:
                found[number] = found[number - 1] if number else first
        return found


def _dtypes(lists: Sequence[Sequence[Any]]) -> set[str]:
    return {instr.dtype for instrs in lists for instr in instrs if isinstance(instr, FetchInstr)}


def _bytes(each: tuple[int, int]) -> int:
    return each[0]
