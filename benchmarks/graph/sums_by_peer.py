"""Sums over edges by peer (Sequential Aggregation) beside all rows at once: memory and seconds.

    python benchmarks/graph/sums_by_peer.py [--nodes 16384] [--edges 1000000] [--width 256]

A GCN and GraphSAGE of two layers on an R-MAT graph (``rmat.py``) are cut by vertices over 8 workers
and trained, in turns: without a limit, and with the least one of those tried, in steps of 5 % of
the peak without one, that some plan keeps to. Peaks are those of the fullest worker; seconds are
medians of steps, and their ratio that of the same rounds.
"""

from __future__ import annotations

import argparse
import statistics
import time

import report
import torch
from networks import GCN, SAGE
from rmat import pair_table, rmat_block

import smex
import smex.graph as sg

WORKERS = 8
STEP = 0.05
COLUMNS = (
    "network",
    "sums",
    "predicted peak, MB",
    "counted peak, MB",
    "moved, MB",
    "seconds",
    "ratio",
)


def least_limit(make, most: float):
    """The net of the least limit that a plan keeps to."""
    net, share = None, 1 - STEP
    while share > 0:
        try:
            net = make(memory_limit=share * most)
        except smex.SmexError:
            break
        share -= STEP
    return net


def step(net, g, x, weights) -> float:
    begin = time.perf_counter()
    (net(g, x) * weights).sum().backward()
    net.zero_grad()
    return time.perf_counter() - begin


def tell(name: str, model, g, width: int, rounds: int) -> None:
    x, weights = torch.randn(g.num_nodes(), width), torch.randn(g.num_nodes(), width)

    def make(**limit):
        options = {"planner": "vertices", "recompute": "checkpoints"}
        return smex.partition(model, workers=WORKERS, args=(g, x), **options, **limit)

    free = make()
    limited = least_limit(make, max(free.plan.peak_bytes()))
    nets = {"at once": free}
    if limited is not None:
        nets["by peer" if limited.plan.native.by_peer else "at once, other cuts"] = limited
    seconds: dict[str, list[float]] = {sums: [] for sums in nets}
    for net in nets.values():
        step(net, g, x, weights)
    for _ in range(rounds):
        for sums, net in nets.items():
            seconds[sums].append(step(net, g, x, weights))
    for sums, net in nets.items():
        stats = net.stats()
        ratio = statistics.median(
            own / other for own, other in zip(seconds[sums], seconds["at once"], strict=True)
        )
        peaks = (max(net.plan.peak_bytes()), max(stats["peak_bytes"]))
        cells = [f"{peak / 1e6:.1f}" for peak in (*peaks, net.plan.total_bytes)]
        took = f"{statistics.median(seconds[sums]):.3f}"
        print(report.line([name, sums, *cells, took, f"{ratio:.2f}"]), flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--nodes", type=int, default=16384)
    parser.add_argument("--edges", type=int, default=1_000_000)
    parser.add_argument("--width", type=int, default=256)
    parser.add_argument("--rounds", type=int, default=7)
    options = parser.parse_args()
    torch.manual_seed(0)
    src, dst = rmat_block(0, options.edges, options.nodes, 0, pair_table())
    g = sg.graph((src, dst), num_nodes=options.nodes)
    print(report.header(COLUMNS))
    for name, kind in (("GCN", GCN), ("GraphSAGE", SAGE)):
        tell(name, kind((options.width,) * 3), g, options.width, options.rounds)


if __name__ == "__main__":
    main()
