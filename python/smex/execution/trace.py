"""The file of `PartitionedModule.trace`, in Chrome's trace event format."""

from __future__ import annotations

import math
from typing import Any

import torch

from smex._C import FetchInstr
from smex.planning.trace_file import Instructions, Ran, named_track, sorted_track

_WORKERS, _LINKS = 0, 1  # the processes of a trace file


def trace_json(plan: Any, program: Any, events: list[tuple[Any, ...]]) -> list[dict[str, Any]]:
    """Chrome trace events: what every worker did, and what every link carried.

    What a link carried while its receiver computed is a span of its own kind ("b" and "e"), as
    several of them may be on their way at once. Around a worker's spans are those of forward and
    backward, arrows go from what makes a tile to what fetches it, and predicted memory is a
    counter.
    """
    instructions = Instructions(plan, program)
    positions = _positions(instructions, program.num_workers, events)
    fetches = [_fetches(worker) for worker in program.workers]
    spans: list[dict[str, Any]] = []
    links = set()
    ran: list[list[Ran]] = [[] for _ in program.workers]
    for number, (event, position) in enumerate(zip(events, positions, strict=True)):
        worker, name, category, start, duration, nbytes, slot, since, *_ = event
        ran[worker].append(Ran(position, start, start + duration))
        span = {"name": name, "cat": category, "ph": "X", "ts": start, "dur": duration}
        told = {"bytes": nbytes, **instructions.args(worker, position)}
        spans.append({**span, "pid": _WORKERS, "tid": worker, "args": told})
        if slot < 0 or nbytes == 0:
            continue  # no fetch, or nobody reads the content
        for source, part in _sources(fetches[worker][slot], worker).items():
            links.add((source, worker))
            tid = source * program.num_workers + worker
            place = {"pid": _LINKS, "tid": tid, "args": {**told, "bytes": part}}
            if since == start:
                spans.append({**span, **place})
                continue
            for phase, when in (("b", since), ("e", start + duration)):
                beside = {"name": name, "cat": category, "ph": phase, "ts": when}
                spans.append({**beside, "id": f"{number}.{source}", **place})
    around: list[dict[str, Any]] = []
    more = instructions.arrows(_WORKERS, ran, 0)
    for worker, own in enumerate(ran):
        around += instructions.passes(_WORKERS, worker, own)
        more += instructions.memory(_WORKERS, worker, own)
    names = [
        named_track("process", _WORKERS, 0, "workers"),
        named_track("process", _LINKS, 0, "links"),
        sorted_track(_WORKERS, 0),
        sorted_track(_LINKS, 2),
    ]
    for worker in range(program.num_workers):
        names.append(named_track("thread", _WORKERS, worker, f"worker {worker}"))
    for source, dest in sorted(links):
        tid = source * program.num_workers + dest
        names.append(named_track("thread", _LINKS, tid, f"worker {source} -> worker {dest}"))
    return names + around + spans + more


def _positions(
    instructions: Instructions, workers: int, events: list[tuple[Any, ...]]
) -> list[int]:
    """By event the instruction of its worker; -1 for none."""
    found = [-1] * len(events)
    for worker in range(workers):
        own = [number for number, event in enumerate(events) if event[0] == worker]
        told = instructions.positions(worker, [(events[n][8], events[n][6]) for n in own])
        for number, position in zip(own, told, strict=True):
            found[number] = position
    return found


def _fetches(worker: Any) -> dict[int, Any]:
    """Returns a worker's fetches by the slot that they fill."""
    instrs = (*worker.forward, *worker.backward)
    return {instr.dest: instr for instr in instrs if isinstance(instr, FetchInstr)}


def _sources(fetch: Any, worker: int) -> dict[int, int]:
    """Bytes that a fetch takes from every other worker."""
    itemsize = getattr(torch, fetch.dtype).itemsize
    taken: dict[int, int] = {}
    for part in fetch.parts:
        if part.worker != worker:
            nbytes = math.prod(hi - lo for lo, hi in part.source) * itemsize
            taken[part.worker] = taken.get(part.worker, 0) + nbytes
    return taken
