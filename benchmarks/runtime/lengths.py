"""Seconds and memory of calls of new sizes: a Llama that is given one length after the other.

    python benchmarks/runtime/lengths.py [--layers 2 8] [--lengths 100]

A step is a call and its backward pass, batch 2, 2 workers of one thread each. The first length is
captured; at the second the model is traced with symbols in place of the sizes that changed; of the
others the time beyond that of the same call a second time is what a new length costs, and the
processor's seconds of `net.prepare` are most of it, on a machine that others use as well. Memory is
the growth of the process from the third length to the last.
"""

from __future__ import annotations

import argparse
import pathlib
import statistics
import sys
import time

import torch
from torch.nn import functional as F

import smex

sys.path.insert(0, str(pathlib.Path(__file__).parents[2] / "examples"))
import models


def resident() -> float:
    """MiB of the process."""
    pages = int(pathlib.Path("/proc/self/statm").read_text().split()[1])
    return pages * 4096 / 2**20


def spread(seconds: list[float]) -> str:
    """Milliseconds, as median [min, max]."""
    median, least, most = statistics.median(seconds), min(seconds), max(seconds)
    return f"{median * 1e3:.0f} [{least * 1e3:.0f}, {most * 1e3:.0f}]"


def loss_fn(y: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
    return F.cross_entropy(y.flatten(0, 1), target.flatten())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--layers", type=int, nargs="+", default=[2, 8])
    parser.add_argument("--lengths", type=int, default=100)
    options = parser.parse_args()
    torch.manual_seed(0)
    print(f"torch {torch.__version__}, CPU, {torch.get_num_threads()} threads")
    for layers in options.layers:
        model = models.Llama(layers, embed=128, heads=4, kv_heads=2, hidden=344, vocab=1000)
        net = smex.partition(model, workers=2, loss_fn=loss_fn)

        def step(length: int, net=net) -> float:
            x, target = torch.randint(0, 1000, (2, 2, length))
            started = time.perf_counter()
            net(x, target).backward()
            return time.perf_counter() - started

        first, again, symbols = step(64), min(step(64) for _ in range(5)), step(65)
        step(66)
        before = resident()
        extra, prepared = [], []
        for length in range(67, 65 + options.lengths):
            started, processor = time.perf_counter(), time.process_time()
            net.prepare(tuple(torch.zeros(2, 2, length, dtype=torch.int64)))
            prepared.append(time.process_time() - processor)
            new = time.perf_counter() - started + step(length)
            extra.append(new - min(step(length) for _ in range(2)))
        times = f"{spread(prepared)} | {spread(extra)}"
        print(
            f"| {layers} | {len(net._programs)} | {first:.2f} | {symbols:.2f} | {times}"
            f" | {again * 1e3:.1f} | {resident() - before:.0f} |",
            flush=True,
        )


if __name__ == "__main__":
    main()
