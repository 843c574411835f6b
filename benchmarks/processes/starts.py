"""Seconds of a short program under torchrun, again and again, and where they go.

    python benchmarks/processes/starts.py [--runs 20] [--ranks 4]

The program imports, starts torch's group, partitions an MLP, trains three steps and ends. Seconds
are from the start of torchrun to when the last rank has come so far. A rank that takes longer than
`--limit` prints where all its threads are.
"""

from __future__ import annotations

import argparse
import faulthandler
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time

STAGES = ("imported", "connected", "partitioned", "trained", "ended")


def worker(folder: str, limit: float) -> None:
    faulthandler.dump_traceback_later(limit)
    import torch
    from cases import mlp

    import smex

    times = {"imported": time.time()}
    torch.set_num_threads(1)
    smex.init_processes()
    times["connected"] = time.time()
    case = mlp(64, 4, 32)
    model, batch = case.make()
    net = smex.partition(model, args=batch, loss_fn=case.loss_fn, replicate_bytes=0)
    times["partitioned"] = time.time()
    opt = torch.optim.SGD(net.parameters(), lr=0.1)
    for _ in range(3):
        net(*batch).backward()
        opt.step()
        opt.zero_grad()
    times["trained"] = time.time()
    with open(f"{folder}/{os.environ['RANK']}.json", "w") as file:
        json.dump(times, file)


def main() -> None:
    """Prints a table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=20)
    parser.add_argument("--ranks", type=int, default=4)
    parser.add_argument("--limit", type=float, default=60.0)
    parser.add_argument("--worker", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.worker:
        worker(options.worker, options.limit)
        return
    runs: list[dict[str, float]] = []
    for _ in range(options.runs):
        with tempfile.TemporaryDirectory() as folder:
            launcher = ["-m", "torch.distributed.run", "--standalone"]
            launcher += [f"--nproc-per-node={options.ranks}", __file__]
            command = [sys.executable, *launcher, "--worker", folder, "--limit", str(options.limit)]
            started = time.time()
            subprocess.run(command, check=True, env={**os.environ, "OMP_NUM_THREADS": "1"})
            ended = time.time()
            ranks = []
            for rank in range(options.ranks):
                with open(f"{folder}/{rank}.json") as file:
                    ranks.append(json.load(file))
        runs.append({name: max(rank[name] for rank in ranks) - started for name in STAGES[:-1]})
        runs[-1]["ended"] = ended - started
        shown = ", ".join(f"{name} {runs[-1][name]:.1f}" for name in STAGES)
        print(f"{len(runs)}/{options.runs}: {shown}", file=sys.stderr, flush=True)
    print("| until | median | most |\n| --- | ---: | ---: |")
    for name in STAGES:
        those = [run[name] for run in runs]
        print(f"| {name} | {statistics.median(those):.1f} s | {max(those):.1f} s |")


if __name__ == "__main__":
    main()
