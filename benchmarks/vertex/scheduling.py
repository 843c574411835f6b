"""Seconds to check and schedule a million vertices.

python benchmarks/vertex/scheduling.py [--cpu-time]
"""

from __future__ import annotations

import argparse
import statistics
import time

import numpy as np
import samples

import smex.vertex as sv
from smex._C import vertex_schedule

VERTICES = 1_000_000
ROUNDS = 7


def batches() -> dict[str, tuple[sv.GraphBatch, int]]:
    """Batches, and how many children are gathered one by one."""
    tree = sv.from_children(samples.complete(256)["children"])
    large = sv.from_parents([-1, *((np.arange(1, VERTICES) - 1) // 2).tolist()])
    return {
        "complete trees of 511 vertices": (sv.batch([tree] * (VERTICES // 511)), 2),
        "chains of 100": (sv.batch([sv.chain(100)] * (VERTICES // 100)), 1),
        "one chain": (sv.batch([sv.chain(VERTICES)]), 1),
        "one complete tree": (sv.batch([large]), 2),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--cpu-time", action="store_true", help="processor time, on busy machines")
    now = time.process_time if parser.parse_args().cpu_time else time.perf_counter
    print("| graphs | vertices | ms | spread |\n|---|---:|---:|---:|")
    for name, (batch, slots) in batches().items():
        seconds = []
        for _ in range(ROUNDS):
            start = now()
            vertex_schedule(
                batch.sample_offsets, batch.child_offsets, batch.children, batch.types,
                [(0, -1, False, "F")], [slots], "readiness",
            )  # fmt: skip
            seconds.append(now() - start)
        spread = f"{min(seconds) * 1e3:.0f} to {max(seconds) * 1e3:.0f}"
        median = statistics.median(seconds)
        print(f"| {name} | {batch.num_vertices} | {median * 1e3:.0f} | {spread} |")


if __name__ == "__main__":
    main()
