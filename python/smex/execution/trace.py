"""The file of `PartitionedModule.trace`, in Chrome's trace event format."""

from __future__ import annotations

import math
from typing import Any

import torch

from smex._C import FetchInstr
from smex.planning.simulation import named_track

_WORKERS, _LINKS = 0, 1  # the processes of a trace file


def trace_json(program: Any, events: list[tuple[Any, ...]]) -> list[dict[str, Any]]:
    """Chrome trace events: what every worker did, and what every link carried.

    What a link carried while its receiver computed is a span of its own kind ("b" and "e"), as
    several of them may be on their way at once.
    """
    fetches = [_fetches(worker) for worker in program.workers]
    spans = []
    links = set()
    for number, event in enumerate(events):
        worker, name, category, start, duration, nbytes, slot, since, *_ = event
        span = {"name": name, "cat": category, "ph": "X", "ts": start, "dur": duration}
        spans.append({**span, "pid": _WORKERS, "tid": worker, "args": {"bytes": nbytes}})
        if slot < 0 or nbytes == 0:
            continue  # no fetch, or nobody reads the content
        for source, part in _sources(fetches[worker][slot], worker).items():
            links.add((source, worker))
            tid = source * program.num_workers + worker
            place = {"pid": _LINKS, "tid": tid, "args": {"bytes": part}}
            if since == start:
                spans.append({**span, **place})
                continue
            for phase, when in (("b", since), ("e", start + duration)):
                beside = {"name": name, "cat": category, "ph": phase, "ts": when}
                spans.append({**beside, "id": f"{number}.{source}", **place})
    names = [
        named_track("process", _WORKERS, 0, "workers"),
        named_track("process", _LINKS, 0, "links"),
    ]
    for worker in range(program.num_workers):
        names.append(named_track("thread", _WORKERS, worker, f"worker {worker}"))
    for source, dest in sorted(links):
        tid = source * program.num_workers + dest
        names.append(named_track("thread", _LINKS, tid, f"worker {source} -> worker {dest}"))
    return names + spans


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
