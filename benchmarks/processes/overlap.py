"""How much of what two processes send each other goes on while they compute.

    python benchmarks/processes/overlap.py [--rounds 5] [--only GPT] [--links 200mbit]

Two ranks of one thread on emulated hosts (see `emulate`). By planner and link a step with fetches
due where their results are read, and the same with each fetch waited for at once (SMEX_OVERLAP=0),
in turns in one run; both have the same predicted peak. A step is forward and backward.

"Could be hidden" is how much shorter a step would be if memory were no limit: both are simulated,
instruction by instruction, with the times that the instructions took, and the time of packets by
the link's measured latency and bandwidth. "Hidden" is the difference that was measured, and its
share of what could be. A bound of its own is that a step takes at least its computation.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
import time
from typing import Any

import torch
import torch.distributed as dist
from cases import CASES, SMALL, Case
from emulate import emulated
from steps import LINKS, RANKS, link_of
from torch.distributed.device_mesh import init_device_mesh

import smex
from smex._C import ComputeInstr, FetchInstr, FreeInstr
from smex.planning import placed

PLANNERS = ("data_parallel", "fsdp", "tofu")


def sent_by(instr: Any, worker: int, itemsizes: list[int]) -> dict[int, int]:
    """Bytes that a fetch takes from each other worker."""
    taken: dict[int, int] = {}
    for part in instr.parts:
        if part.worker != worker:
            box = [hi - lo for lo, hi in part.source]
            taken[part.worker] = taken.get(part.worker, 0) + itemsizes[instr.dest] * _product(box)
    return taken


def _product(numbers: list[int]) -> int:
    product = 1
    for number in numbers:
        product *= number
    return product


class Simulation:
    """A program of two workers, one per process; time advances by what was measured."""

    def __init__(self, program: Any, seconds: list[list[list[float]]], link: smex.Level) -> None:
        self.program, self.seconds, self.link = program, seconds, link

    def step_seconds(self, overlaps: bool) -> float:
        """Returns the seconds of both lists, one after the other."""
        return sum(self._list_seconds(backward, overlaps) for backward in (0, 1))

    def _list_seconds(self, backward: int, overlaps: bool) -> float:
        lists = [(w.backward if backward else w.forward) for w in self.program.workers]
        sizes = [w.slot_itemsizes for w in self.program.workers]
        written: list[dict[int, float]] = [{}, {}]
        made = [{s for i in part for s in outputs_of(i)} for part in lists]
        clock, nexts, link_free = [0.0, 0.0], [0, 0], [0.0, 0.0]
        pending: list[list[tuple[int, int, Any]]] = [[], []]  # due, position, fetch

        def try_finish(worker: int, position: int, fetch: Any) -> float | None:
            """When the fetch is finished at the earliest; None: a peer has not written yet."""
            ready = 0.0
            for peer, size in sent_by(fetch, worker, sizes[worker]).items():
                sources = {p.slot for p in fetch.parts if p.worker == peer}
                waits = [s for s in sources if s in made[peer] and s not in written[peer]]
                if waits:
                    return None
                start = max([link_free[worker], *(written[peer].get(s, 0.0) for s in sources)])
                link_free[worker] = start + size / self.link.bandwidth
                ready = max(ready, link_free[worker] + self.link.latency)
            return ready

        def settle(worker: int, upto: int | None) -> bool:
            """Finishes, in order, what is due; False: a peer has to go on first."""
            left = []
            blocked = False
            for due, position, fetch in pending[worker]:
                arrived = None if blocked else self._arrivals.get((worker, position))
                if arrived is None and not blocked:
                    arrived = try_finish(worker, position, fetch)
                    if arrived is not None:
                        self._arrivals[worker, position] = arrived
                if arrived is None:
                    blocked = True
                    if upto is not None and due <= upto:
                        return False
                    left.append((due, position, fetch))
                elif arrived <= clock[worker] or (upto is not None and due <= upto):
                    clock[worker] = max(clock[worker], arrived)
                    clock[worker] += self.seconds[worker][backward][position]
                    written[worker][fetch.dest] = clock[worker]
                else:
                    left.append((due, position, fetch))
            pending[worker][:] = left
            return True

        self._arrivals: dict[tuple[int, int], float] = {}
        while True:
            moved = False
            for worker in (0, 1):
                while True:
                    position = nexts[worker]
                    if not settle(worker, position):
                        break
                    if position == len(lists[worker]):
                        break
                    instr = lists[worker][position]
                    if isinstance(instr, FetchInstr) and sent_by(instr, worker, sizes[worker]):
                        due = instr.due if overlaps and instr.due >= 0 else position + 1
                        pending[worker].append((due, position, instr))
                    else:
                        clock[worker] += self.seconds[worker][backward][position]
                        for slot in outputs_of(instr):
                            written[worker][slot] = clock[worker]
                    nexts[worker] += 1
                    moved = True
            if not moved:
                break
        assert all(not part for part in pending), "the simulation stands still"
        return max(clock)


def outputs_of(instr: Any) -> list[int]:
    if isinstance(instr, ComputeInstr):
        return [slot for slot in instr.outputs if slot >= 0]
    return [] if isinstance(instr, FreeInstr) else [instr.dest]


def late(program: Any) -> Any:
    """Not bounded by memory."""
    return program
