"""Microseconds of a relayout as packets from each to each, and as a collective of torch.

    python benchmarks/processes/collectives.py [--rounds 9] [--links loopback 1gbit]

Programs of one relayout (`sample_collective`) between the groups of 2 and of 4 processes of one
thread, in turns; the median of the slowest rank's rounds. A size is what each process has of each
other one in the end: of an all_gather a process's tile, of sums the result. On "loopback" packets
lie in shared memory, on "Gloo, loopback" and over links (see `emulate`) they are messages.
`smex.partition(..., collectives="auto")` measures the same, with fewer sizes.
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
import time

import torch
import torch.distributed as dist
from emulate import emulated

from smex import _C
from smex.distributed.world import World

KINDS = ("all_gather", "all_to_all", "reduce_scatter", "all_reduce")
SIZES = (4 << 10, 64 << 10, 1 << 20, 4 << 20)
GROUPS = {2: ("0 1",), 4: ("0 1 2 3", "0 1, 2 3", "0 2, 1 3")}
LINKS = {"loopback": None, "Gloo, loopback": None, "1gbit": "1gbit", "200mbit": "200mbit"}


def seconds(world: World, kind: str, groups: list[tuple[int, ...]], size: int, rounds: int):
    """Returns the medians of packets and of the collective, of the slowest rank."""
    program = _C.sample_collective(kind, groups, world.ranks, size)
    found = _C.find_collectives(program, world.ranks, True)
    binding = program.inputs[0]
    boxes = binding.regions
    tiles = [
        torch.ones([hi - lo for lo, hi in box]) if binding.slots[worker] >= 0 else None
        for worker, box in enumerate(boxes)
    ]
    executors = [
        _C.Executor(program, threads_per_worker=1, collectives=used, **world.executor_options())
        for used in ([], found)
    ]
    taken: list[list[float]] = [[], []]
    for _ in range(rounds + 2):
        for executor, times in zip(executors, taken, strict=True):
            session = executor.start([tiles])
            dist.barrier()
            started = time.perf_counter()
            session.run_forward()
            times.append(time.perf_counter() - started)
    own = [statistics.median(times[2:]) for times in taken]
    return [max(times) for times in zip(*world.gather(own), strict=True)]


def worker(options: argparse.Namespace) -> None:
    """Measures as one of the ranks; rank 0 prints."""
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    size = dist.get_world_size()
    world = World.of(range(size), size, "cpu", 300.0)
    for words in GROUPS[size]:
        groups = [tuple(map(int, group.split())) for group in words.split(", ")]
        assert world.links is not None
        world.links.connect(groups, torch.device("cpu"))
        for kind in KINDS:
            cells = []
            for nbytes in SIZES[: len(SIZES) - (options.worker != "loopback")]:
                packets, collective = seconds(world, kind, groups, nbytes, options.rounds)
                cells.append(f"{packets * 1e6:,.0f} / {collective * 1e6:,.0f}")
            cells += ["not measured"] * (len(SIZES) - len(cells))
            if world.rank == 0:
                row = " | ".join([options.worker, words, kind, *cells])
                print(f"| {row} |", flush=True)
    dist.barrier()
    dist.destroy_process_group()


def main() -> None:
    """Prints a table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--links", nargs="+", choices=LINKS, default=list(LINKS))
    parser.add_argument("--ranks", nargs="+", type=int, choices=GROUPS, default=list(GROUPS))
    parser.add_argument("--worker", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.worker:
        worker(options)
        return
    print(f"torch {torch.__version__}, one thread a process; µs of packets / of the collective\n")
    print("| link | groups | relayout | " + " | ".join(f"{s >> 10} KiB" for s in SIZES) + " |")
    print("| --- | --- | --- |" + " ---: |" * len(SIZES), flush=True)
    for ranks in options.ranks:
        for link in options.links:
            with emulated(ranks, LINKS[link]) as hosts:
                flags = ["--rounds", str(options.rounds), "--worker", link]
                variables = {"OMP_NUM_THREADS": "1", "PYTHONPATH": os.environ.get("PYTHONPATH", "")}
                variables["SMEX_SHARED_MEMORY"] = "1" if link == "loopback" else "0"
                said = hosts.run([sys.executable, __file__, *flags], env=variables)
                print(said[0], end="", flush=True)


if __name__ == "__main__":
    main()
