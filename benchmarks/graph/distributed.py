"""One graph on several workers: where its vertices are cut, and what that costs.

    python benchmarks/graph/distributed.py [--quick] [--parts ranges balance costs]

"ranges": contiguous ranges beside the best of all, by dynamic programming, for random seconds of
vertices and workers of different speeds.

"balance": the seconds of a training step's calls by worker, of the processor, the least of the
rounds, in which cuts take turns. Vertices are cut into ranges of as many vertices, of as many
edges, and as `boundaries="learned"` does: by what calls took as vertices were cut before, begun by
edges, `--recuts` times. Each of these in the graph's own order, in a random one, and in that of
METIS (parts of as many vertices lie one after another).

"costs": `smex.VertexCosts` learn from some graphs and predict the seconds of workers on others, of
other sizes and kinds. The error is the mean over workers, cuts and networks of |predicted -
measured| / measured; beside it is how much a second net of the same cut differs from the first.

Workers are threads of one process with one thread each. Networks have features of 64
numbers, a hidden layer of 64 and 16 classes; the loss is their sum. Memory that is freed is kept by
malloc (the program starts itself again with MALLOC_* set), as torch keeps that of devices: else
what a call takes depends on whether the pages of its result are new.
"""

from __future__ import annotations

import argparse
import itertools
import os
import random
import statistics
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import graphs
import numpy as np
import report
import torch
from networks import NETWORKS

import smex
import smex.graph as sg
from smex._C import min_max_ranges

WIDTHS = (64, 64, 16)
BARS = {
    "optimal ranges": 1.0,
    "mean / max of workers, learned": 1 / 1.10,
    "equal vertices / learned, power law": 1.2,
    "best static cut / learned": 1 / 1.03,
    "accuracy on unseen graphs": 0.90,
}
KEPT = {
    "MALLOC_ARENA_MAX": "1",
    "MALLOC_MMAP_THRESHOLD_": str(1 << 33),
    "MALLOC_TRIM_THRESHOLD_": str(1 << 40),
    "MALLOC_TOP_PAD_": str(1 << 28),
}
SKEWED = ("R-MAT", "attached")
"""Graphs whose first vertices have most of the edges."""


# ---- graphs ----


def r_mat(scale: int, num_edges: int, seed: int):
    """Chakrabarti, Zhan and Faloutsos 2004: small numbers have most of the edges."""
    generator = np.random.default_rng(seed)
    ends = np.zeros((2, num_edges), dtype=np.int64)
    for _ in range(scale):
        quadrant = generator.choice(4, size=num_edges, p=(0.57, 0.19, 0.19, 0.05))
        ends = 2 * ends + np.stack([quadrant // 2, quadrant % 2])
    return sg.graph((ends[0], ends[1]), num_nodes=2**scale)


def attached(num_nodes: int, degree: int, seed: int):
    """Barabasi and Albert 1999: a new node is joined to ends of earlier edges, both ways."""
    generator = np.random.default_rng(seed)
    ends = generator.integers(degree, size=2 * degree * degree)
    found = []
    step = max(1, num_nodes // 200)
    for first in range(degree, num_nodes, step):
        new = np.arange(first, min(first + step, num_nodes)).repeat(degree)
        old = ends[generator.integers(len(ends), size=len(new))]
        found.append(np.stack([new, old]))
        ends = np.concatenate([ends, new, old])
    src, dst = np.concatenate(found, axis=1)
    return sg.graph((np.r_[src, dst], np.r_[dst, src]), num_nodes=num_nodes)


def grid(rows: int, columns: int):
    """A torus: neighbours have near numbers."""
    place = np.arange(rows * columns).reshape(rows, columns)
    found = [np.roll(place, shift, axis).ravel() for shift in (1, -1) for axis in (0, 1)]
    return sg.graph((np.concatenate(found), np.tile(place.ravel(), 4)))


def from_file(name: str):
    edges = graphs.load(name)
    return sg.graph((edges.src, edges.dst), num_nodes=edges.num_nodes)


def uniform(num_nodes: int, num_edges: int, seed: int):
    generator = np.random.default_rng(seed)
    ends = graphs.uniform(generator, num_nodes, num_edges)
    return sg.graph(ends, num_nodes=num_nodes)


def balance_graphs(small: int) -> dict[str, Callable[[], Any]]:
    return {
        "R-MAT": lambda: r_mat(17 - small, 2_000_000 >> small, seed=0),
        "attached": lambda: attached(100_000 >> small, 10, seed=0),
        "uniform": lambda: uniform(100_000 >> small, 2_000_000 >> small, seed=0),
    }


def known_graphs(small: int) -> dict[str, Callable[[], Any]]:
    return {
        "R-MAT of 65,536": lambda: r_mat(16 - small, 600_000 >> small, seed=1),
        "R-MAT of 131,072": lambda: r_mat(17 - small, 1_000_000 >> small, seed=2),
        "attached, 50,000": lambda: attached(50_000 >> small, 8, seed=1),
        "uniform, 50,000": lambda: uniform(50_000 >> small, 1_000_000 >> small, seed=1),
        "uniform, 200,000": lambda: uniform(200_000 >> small, 1_000_000 >> small, seed=2),
        "grid of 200 x 200": lambda: grid(200 >> small, 200),
    }


def unseen_graphs(small: int) -> dict[str, Callable[[], Any]]:
    found = {
        "R-MAT of 131,072, denser": lambda: r_mat(17 - small, 2_000_000 >> small, seed=0),
        "attached, 100,000": lambda: attached(100_000 >> small, 10, seed=0),
        "uniform, 100,000": lambda: uniform(100_000 >> small, 2_000_000 >> small, seed=0),
        "grid of 400 x 300": lambda: grid(400 >> small, 300),
    }
    files = {name: lambda name=name: from_file(name) for name in graphs.names() if "-" in name}
    return found | {name: made for name, made in files.items() if name not in graphs.POWER_LAWS}


# ---- ranges ----


def fewest_seconds(
    sums: Sequence[float], speeds: Sequence[float], offsets: Sequence[float]
) -> float:
    """The last worker's end by the best ranges, by dynamic programming over where each ends."""
    best = [0.0, *[float("inf")] * (len(sums) - 1)]
    for speed, offset in zip(speeds, offsets, strict=True):
        following = list(best)  # an empty range
        for begin, end in itertools.combinations(range(len(sums)), 2):
            own = (sums[end] - sums[begin]) / speed + offset
            following[end] = min(following[end], max(best[begin], own))
        best = following
    return best[-1]


def tell_ranges(count: int, bars: report.Bars) -> None:
    """Prints how often the ranges are the best of all."""
    optimal = 0
    for seed in range(count):
        draws = random.Random(seed)
        seconds = [draws.choice((0.0, 1.0, draws.random(), 20 * draws.random())) for _ in range(24)]
        sums = [0.0, *itertools.accumulate(seconds[: draws.randint(1, 24)])]
        workers = draws.randint(1, 6)
        speeds = [draws.choice((1.0, 1.0, 0.25 + draws.random())) for _ in range(workers)]
        offsets = [draws.choice((0.0, 0.0, draws.random())) for _ in range(workers)]
        _, found = min_max_ranges(sums, speeds, offsets)
        optimal += found <= fewest_seconds(sums, speeds, offsets) * (1 + 1e-12)
    print(f"ranges: as early as any, {optimal} of {count}\n")
    bars.add("optimal ranges", "random seconds", optimal / count)


# ---- seconds of workers ----


class Cut:
    """A network on a graph whose vertices are cut in one way, with what its calls took."""

    def __init__(self, network: str, g, workers: int, boundaries: Any):
        torch.manual_seed(0)
        self.graph = g
        self.features = torch.randn(g.num_nodes(), WIDTHS[0])
        self.net = smex.partition(
            NETWORKS[network](WIDTHS),
            workers,
            args=(g, self.features),
            planner="vertices",
            boundaries=boundaries,
        )
        self.runs: list[Mapping[tuple[int, int], float]] = []

    def run(self) -> None:
        self.runs.append(self.net.timed_call((self.graph, self.features), {}, True).seconds)

    def seconds(self) -> list[float]:
        """By worker, each operator's least of all rounds."""
        least = {key: min(run.get(key, 0.0) for run in self.runs) for key in self.runs[0]}
        found = [0.0] * self.net.plan.workers
        for (worker, _), seconds in least.items():
            found[worker] += seconds
        return found

    def ends(self) -> Sequence[int]:
        return self.net.plan.options.boundaries.ends[self.graph.num_nodes()]


def learned(network: str, g, workers: int, options: argparse.Namespace) -> Cut:
    """As a net with `boundaries="learned"` is cut in the end."""
    costs = smex.VertexCosts()
    cut = Cut(network, g, workers, "edges")
    for _ in range(options.recuts):
        costs.measure(cut.net, g, cut.features, repeats=3)
        cut = Cut(network, g, workers, costs)
    return cut


def in_orders(g, workers: int) -> Iterator[tuple[str, Any, list[int]]]:
    """Names, graphs whose vertices have other numbers, and ends of as many vertices each."""
    size = g.num_nodes()
    equal = [size * n // workers for n in range(workers + 1)]
    yield "own", g, equal
    generator = torch.Generator().manual_seed(0)
    order = torch.randperm(size, generator=generator)
    config = {"nodes_perm": order}
    yield "random", sg.reorder_graph(g, "custom", "dst", permute_config=config), equal
    parts = sg.metis_partition_assignment(g, workers)
    config = {"nodes_perm": torch.argsort(parts, stable=True)}
    ends = [0, *torch.bincount(parts, minlength=workers).cumsum(0).tolist()]
    yield "METIS", sg.reorder_graph(g, "custom", "dst", permute_config=config), ends


def tell_balance(options: argparse.Namespace, bars: report.Bars) -> None:
    """Prints how evenly workers are busy by each cut."""
    columns = [
        "graph",
        "network",
        "workers",
        "order",
        "cut",
        "slowest, ms",
        "max / mean",
        "/ learned",
    ]
    print(report.header([*columns, "MB moved"]))
    for graph, make in balance_graphs(options.small).items():
        whole = make()
        for workers, network in itertools.product(options.workers, options.networks):
            cuts: dict[tuple[str, str], Cut] = {}
            for order, g, ends in in_orders(whole, workers):
                for name, given in (("vertices", ends), ("edges", "edges")):
                    cuts[order, name] = Cut(network, g, workers, given)
                cuts[order, "learned"] = learned(network, g, workers, options)
            for _ in range(options.rounds):
                for cut in cuts.values():
                    cut.run()
            took = {key: cut.seconds() for key, cut in cuts.items()}
            last = {key: max(seconds) for key, seconds in took.items()}
            for (order, name), cut in cuts.items():
                seconds = took[order, name]
                against = last[order, name] / last[order, "learned"]
                cells = [
                    f"{1e3 * max(seconds):.2f}",
                    f"{max(seconds) / statistics.mean(seconds):.3f}",
                ]
                moved = cut.net.plan.total_bytes / 1e6
                cells += [f"{against:.3f}", f"{moved:.1f}"]
                print(report.line([graph, network, workers, order, name, *cells]), flush=True)
            for order in ("own", "random", "METIS"):
                where = f"{graph}, {network}, {workers} workers, {order} order"
                own = took[order, "learned"]
                bars.add("mean / max of workers, learned", where, statistics.mean(own) / max(own))
                static = min(last[order, name] for name in ("vertices", "edges"))
                bars.add("best static cut / learned", where, static / max(own))
            if graph in SKEWED:
                ratio = last["own", "vertices"] / last["own", "learned"]
                bars.add(
                    "equal vertices / learned, power law", f"{graph}, {network}, {workers}", ratio
                )
    print()


# ---- costs on unseen graphs ----


def tell_costs(options: argparse.Namespace, bars: report.Bars) -> None:
    """Prints how well costs predict workers of graphs that they have not seen."""
    costs = smex.VertexCosts()
    for make in known_graphs(options.small).values():
        g = make()
        for network, workers in itertools.product(options.networks, (2, 4, 8)):
            cut = Cut(network, g, workers, "edges")
            costs.measure(cut.net, g, cut.features, repeats=options.rounds)
    print(f"{costs} of {len(known_graphs(options.small))} graphs\n")
    heads = ["unseen graph", "network", "workers", "mean error", "largest", "slowest"]
    print(report.header([*heads, "measured twice"]))
    means, again = [], []
    for graph, make in unseen_graphs(options.small).items():
        g = make()
        for network, workers in itertools.product(options.networks, options.workers):
            errors, between = [], []
            for boundaries in ("edges", [g.num_nodes() * n // workers for n in range(workers + 1)]):
                cuts = [Cut(network, g, workers, boundaries) for _ in range(2)]
                for cut in cuts:
                    for _ in range(options.rounds):
                        cut.run()
                found, other = (cut.seconds() for cut in cuts)
                predicted = costs.predict(cut.net.plan.graph, cut.ends())
                errors += [abs(p - f) / f for p, f in zip(predicted, found, strict=True)]
                between += [abs(o - f) / f for o, f in zip(other, found, strict=True)]
            of_last = abs(max(predicted) - max(found)) / max(found)
            mean = statistics.mean(errors)
            means.append(mean)
            again.append(statistics.mean(between))
            cells = [f"{mean:.1%}", f"{max(errors):.1%}", f"{of_last:.1%}", f"{again[-1]:.1%}"]
            print(report.line([graph, network, workers, *cells]), flush=True)
            bars.add(
                "accuracy on unseen graphs", f"{graph}, {network}, {workers} workers", 1 - mean
            )
    print(
        f"\nmean of all: {statistics.mean(means):.1%} where a second net of the same cut differs "
        f"by {statistics.mean(again):.1%}\n"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--parts", nargs="*", default=["ranges", "balance", "costs"])
    parser.add_argument("--networks", nargs="*", default=list(NETWORKS), choices=NETWORKS)
    parser.add_argument("--workers", nargs="*", type=int, default=[2, 8])
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--recuts", type=int, default=3)
    parser.add_argument("--quick", action="store_true", help="graphs of an eighth")
    options = parser.parse_args()
    options.small = 3 if options.quick else 0
    if any(os.environ.get(name) != value for name, value in KEPT.items()):
        os.execve(sys.executable, [sys.executable, *sys.argv], {**os.environ, **KEPT})
    torch.set_num_threads(1)
    bars = report.Bars(BARS)
    print(f"torch {torch.__version__}, {torch.get_num_threads()} thread a worker\n")
    if "ranges" in options.parts:
        tell_ranges(500, bars)
    if "balance" in options.parts:
        tell_balance(options, bars)
    if "costs" in options.parts:
        tell_costs(options, bars)
    print(bars.table())


if __name__ == "__main__":
    main()
