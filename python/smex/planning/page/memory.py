"""How much a worker holds while a plan's program runs, op by op, as `Plan.peak_bytes` counts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
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
    """By op what a worker holds at most while it runs; ops are those of :func:`program_order`.

    Every storage once, inputs included, and tiles until peers have surely fetched them. The largest
    of them is the worker's predicted peak. A fused call counts for the last of its ops.
    """
    held = held_bytes(plan.program(), worker, view_targets(plan.graph))
    return [most for most, _ in _by_op(plan, worker, held)]


def live_bytes_by_kind(plan: PlacedGraph, worker: int) -> dict[str, list[int]] | None:
    """Returns by kind, see `KINDS`, what :func:`live_bytes` are made of.

    None where that is not told: the program keeps tiles on the host, or brings tensors along that
    no op makes.
    """
    kinds = held_by_kind(plan, plan.program(), worker)
    if kinds is None:
        return None
    held = [sum(now) for now in zip(*kinds.values(), strict=True)]
    instants = [number for _, number in _by_op(plan, worker, held)]
    return {kind: [part[number] for number in instants] for kind, part in kinds.items()}


def held_by_kind(plan: PlacedGraph, program: Any, worker: int) -> dict[str, list[int]] | None:
    """By kind the live bytes of a worker at first, and after each instruction.

    None where that is not told, see :func:`live_bytes_by_kind`.
    """
    views = view_targets(plan.graph)
    kinds = [_slots(plan, program, number) for number in range(plan.workers)]
    lists = [(each.forward, each.backward) for each in program.workers]
    parts: dict[str, list[int]] = {}
    for kind in KINDS:
        sizes = [
            {slot: itemsize for slot, (own, itemsize) in slots.items() if own == kind}
            for slots in kinds
        ]
        try:
            parts[kind] = held_bytes(_weighed(program, lists, sizes), worker, views)
            held = held_bytes(program, worker, views)
        except SmexError:
            return None
    return parts if [sum(now) for now in zip(*parts.values(), strict=True)] == held else None


def _slots(plan: PlacedGraph, program: Any, worker: int) -> dict[int, tuple[str, int]]:
    """By slot of a worker what it is for, and the bytes of an element."""
    values, ops = plan.graph.captured.values, plan.graph.captured.ops
    found: dict[int, tuple[str, int]] = {}
    for binding in program.inputs:
        value = values[binding.value]
        kept = value.role in ("parameter", "buffer")
        found[binding.slots[worker]] = KINDS[0 if kept else 1], value.dtype.itemsize
    own = program.workers[worker]
    for instr in (*own.forward, *own.backward):
        if isinstance(instr, FetchInstr):
            found[instr.dest] = KINDS[3], getattr(torch, instr.dtype).itemsize
        elif isinstance(instr, ComputeInstr) and instr.op >= 0:
            op = ops[instr.op]
            made = [values[output].dtype for output in op.outputs if output is not None]
            for number, slot in enumerate(instr.outputs):
                if slot >= 0 and made:
                    dtype = made[number] if len(made) == len(instr.outputs) else made[0]
                    found[slot] = KINDS[2 if op.backward else 1], dtype.itemsize
    forward = {slot for instr in own.forward for slot in _made(instr)}
    for binding in program.outputs:
        slot = binding.slots[worker] if binding.slots else -1
        if found.get(slot, ("", 0))[0] == KINDS[3]:  # received, and a result
            found[slot] = KINDS[1 if slot in forward else 2], found[slot][1]
    found.pop(-1, None)
    return found


def _weighed(
    program: Any, lists: Sequence[tuple[Any, Any]], sizes: Sequence[Mapping[int, int]]
) -> Any:
    """Returns a program with other sizes of elements, 0 where none is given."""
    workers = []
    for (forward, backward), own in zip(lists, sizes, strict=True):
        slots = 1 + max(
            (slot for instr in (*forward, *backward) for slot in _made(instr)), default=-1
        )
        for binding in (*program.inputs, *program.outputs):
            slots = max(slots, 1 + max(binding.slots, default=-1))
        itemsizes = [own.get(slot, 0) for slot in range(slots)]
        workers.append(
            WorkerProgram(slots, forward, backward, [0] * slots, [""] * slots, itemsizes)
        )
    return Program(workers, program.inputs, program.outputs)


def _made(instr: Any) -> Sequence[int]:
    if isinstance(instr, FetchInstr):
        return (instr.dest,)
    return instr.outputs if isinstance(instr, ComputeInstr) else ()


def _by_op(plan: PlacedGraph, worker: int, held: Sequence[int]) -> list[tuple[int, int]]:
    """By op the most that is held while it runs, and after which instruction that is."""
    place = {op: number for number, op in enumerate(program_order(plan))}
    found = [(-1, 0)] * len(place)
    own = plan.program().workers[worker]
    first = held[0], 0
    current, most = 0, first
    for number, instr in enumerate([*own.forward, *own.backward], 1):
        if isinstance(instr, FreeInstr):
            continue
        if held[number] > most[0]:
            most = held[number], number
        if not isinstance(instr, ComputeInstr) or not found:
            continue  # what is fetched counts for the call that reads it
        current = place.get(instr.op, current)
        found[current], most = max(found[current], most, key=lambda each: each[0]), (0, 0)
    if found:
        found[current] = max(found[current], most, key=lambda each: each[0])
    for number, (nbytes, _) in enumerate(found):
        if nbytes < 0:
            found[number] = found[number - 1] if number else first
    return found
