"""How much a worker holds while a plan's program runs, op by op, as `Plan.peak_bytes` counts."""

from __future__ import annotations

from smex._C import ComputeInstr, FreeInstr, held_bytes
from smex.planning.placed import PlacedGraph, view_targets


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
    place = {op: number for number, op in enumerate(program_order(plan))}
    found = [-1] * len(place)
    program = plan.program()
    first, *after = held_bytes(program, worker, view_targets(plan.graph))
    own = program.workers[worker]
    current, most = 0, first
    for instr, held in zip([*own.forward, *own.backward], after, strict=True):
        if isinstance(instr, FreeInstr):
            continue
        most = max(most, held)
        if not isinstance(instr, ComputeInstr) or not found:
            continue  # what is fetched counts for the call that reads it
        current = place.get(instr.op, current)
        found[current], most = max(found[current], most), 0
    if found:
        found[current] = max(found[current], most)
    for number, held in enumerate(found):
        if held < 0:
            found[number] = found[number - 1] if number else first
    return found
