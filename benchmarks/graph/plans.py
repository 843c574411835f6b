"""What the planner chooses for one graph on several processes, beside what is best as measured.

    python benchmarks/graph/plans.py [--quick] [--links 200mbit] [--ranks 2 4] [--rounds 9]

Ranks of one thread on emulated hosts (see `benchmarks/processes/emulate.py`), each with its part of
the two processors of this computer where there are more ranks than those. A step is forward and
backward of a network of two layers, whose loss is the sum of its outputs, on the whole graph; it
has ended when the last rank has. Plans cut all messages by vertices, by features, by edges, or, of
four ranks, by vertices in a first step and features in a second; "chosen" is the plan of
`objective="time"` for the machine that the ranks measure, `smex.Machine.calibrate(mesh=mesh)` and,
of the network's own calls, `smex.profile`. All are made in one run and take turns, round by round.

Cells are the median of the rounds in ms, and in brackets what the plan predicts. "best / chosen" is
the least of the medians of the rounds' ratios of the others to the one that is chosen: at least
1 / 1.05 where the choice is within 5 % of the best.
"""

from __future__ import annotations

import argparse
import json
import os
import pathlib
import statistics
import sys
import time
from typing import Any

import report
import torch
import torch.distributed as dist
from networks import NETWORKS
from torch.distributed.device_mesh import init_device_mesh

import distributed
import smex

sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "processes"))
from emulate import emulated, no_quotas

LINKS = {"loopback": None, "1gbit": "1gbit", "200mbit": "200mbit"}
PROCESSORS = 2
WARM_UP = 2
CHOSEN = "chosen"
BAR = "best / chosen"
BARS = {BAR: 1 / 1.05}
WIDTHS = {16: (16, 16, 8), 64: (64, 64, 16), 512: (512, 128, 16)}


def planners(ranks: int) -> dict[str, dict[str, Any]]:
    """By name what `smex.partition` is asked for."""
    found: dict[str, dict[str, Any]] = {
        name: {"planner": name} for name in ("vertices", "features", "edges")
    }
    if ranks == 4:
        found["grid"] = {"planner": "grid", "mesh": [2, 2]}
    return found


def graphs_of(small: int) -> dict[str, Any]:
    """Makers of graphs: with hubs, of near neighbours, and of any neighbours."""
    return {
        "R-MAT": lambda: distributed.r_mat(15 - small, 500_000 >> small, seed=0),
        "grid": lambda: distributed.grid(200 >> small, 200),
        "uniform": lambda: distributed.uniform(20_000 >> small, 400_000 >> small, seed=0),
    }


def worker(options: argparse.Namespace) -> None:
    """Measures one setting as one rank; rank 0 prints JSON."""
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    ranks = dist.get_world_size()
    mesh = init_device_mesh("cpu", (ranks,))
    machine = smex.Machine.calibrate(mesh=mesh)
    name, width = options.worker
    g = graphs_of(options.small)[name]()
    sizes = WIDTHS[int(width)]
    torch.manual_seed(0)
    x = torch.randn(g.num_nodes(), sizes[0])
    graph = smex.capture_graph(NETWORKS[options.network](sizes), (g, x))
    machine = smex.profile(graph, machine, mesh=mesh)
    nets = {}
    asked = {**planners(ranks), CHOSEN: {"objective": "time"}}
    for planner, words in asked.items():
        torch.manual_seed(0)
        model = NETWORKS[options.network](sizes)
        nets[planner] = smex.partition(
            model, mesh=words.pop("mesh", mesh), args=(g, x), machine=machine, **words
        )

    def step(net: smex.PartitionedModule) -> float:
        dist.barrier()
        started = time.perf_counter()
        net(g, x).sum().backward()
        seconds = time.perf_counter() - started
        for parameter in net.parameters():
            parameter.grad = None
        return seconds

    taken: dict[str, list[float]] = {planner: [] for planner in nets}
    for number in range(WARM_UP + options.rounds):
        order = list(nets)
        shift = number % len(order)
        for planner in order[shift:] + order[:shift]:
            seconds = step(nets[planner])
            if number >= WARM_UP:
                taken[planner].append(seconds)
    stats = {planner: net.stats() for planner, net in nets.items()}  # of all ranks together
    all_taken: list[Any] = [None] * ranks
    dist.all_gather_object(all_taken, taken)
    if dist.get_rank() == 0:
        found = {}
        for planner, net in nets.items():
            slowest = list(map(max, zip(*(each[planner] for each in all_taken), strict=True)))
            found[planner] = {
                "seconds": slowest,
                "predicted": net.plan.timeline().seconds,
                "moved": net.plan.total_bytes,
                "busy": stats[planner]["compute_seconds"],
                "fetches": stats[planner]["fetch_seconds"],
            }
        level = machine.levels[0]
        print(json.dumps({"plans": found, "link": [level.latency, level.bandwidth]}))
    dist.barrier()
    dist.destroy_process_group()
    sys.stdout.flush()
    os._exit(0)  # once in some fifty runs a thread of torch's aborts while Python ends


def measured(options: argparse.Namespace, ranks: int, graph: str, width: int, link: str) -> Any:
    """Returns what rank 0 printed."""
    flags = ["--rounds", str(options.rounds), "--network", options.network]
    flags += ["--quick"] * bool(options.small) + ["--worker", graph, str(width)]
    cpus = [PROCESSORS / ranks] * ranks if ranks > PROCESSORS else None
    with emulated(ranks, LINKS[link], cpus) as hosts:
        command = [sys.executable, __file__, *flags]
        said = hosts.run(command, timeout=3600, env={"OMP_NUM_THREADS": "1"})[0]
    return json.loads(said.splitlines()[-1])


def cell(plan: Any) -> str:
    """Returns what a plan took and was to take, in ms."""
    return f"{1e3 * statistics.median(plan['seconds']):.1f} [{1e3 * plan['predicted']:.1f}]"


def ratio(plans: dict[str, Any]) -> tuple[float, str]:
    """Returns how long the best of the others takes over the chosen one, and its name."""
    chosen = plans[CHOSEN]["seconds"]
    found = {
        name: statistics.median(s / c for s, c in zip(plan["seconds"], chosen, strict=True))
        for name, plan in plans.items()
        if name != CHOSEN
    }
    best = min(found, key=found.__getitem__)
    return found[best], best


def tell(options: argparse.Namespace, bars: report.Bars) -> None:
    """Prints a line for each setting."""
    names = [*planners(4), CHOSEN]
    columns = ["graph", "features", "ranks", "link", *names, "MB moved", "best of the four", BAR]
    print(report.header(columns), flush=True)
    within = total = 0
    for ranks in options.ranks:
        for link in options.links:
            for graph in graphs_of(options.small):
                for width in options.widths:
                    plans = measured(options, ranks, graph, width, link)["plans"]
                    found, best = ratio(plans)
                    cells = [cell(plans[name]) if name in plans else "" for name in names]
                    moved = f"{plans[CHOSEN]['moved'] / 1e6:.2f}"
                    row = [graph, width, ranks, link, *cells, moved, best, f"{found:.2f}"]
                    print(report.line(row), flush=True)
                    where = f"{graph}, {width} features, {ranks} ranks, {link}"
                    bars.add(BAR, where, found)
                    within += found >= BARS[BAR]
                    total += 1
    print(f"\nwithin 5 % of the best: {within} of {total} settings\n")


def add_options(parser: argparse.ArgumentParser) -> None:
    """Adds those of this part."""
    parser.add_argument("--links", nargs="*", choices=[*LINKS], default=[*LINKS])
    parser.add_argument("--ranks", nargs="*", type=int, default=[2, 4])
    parser.add_argument("--widths", nargs="*", type=int, default=[*WIDTHS])
    parser.add_argument("--network", choices=[*NETWORKS], default="GCN")


def main() -> None:
    """Prints the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    add_options(parser)
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--quick", action="store_true", help="graphs of an eighth")
    parser.add_argument("--worker", nargs=2, help=argparse.SUPPRESS)
    options = parser.parse_args()
    options.small = 3 if options.quick else 0
    if options.worker:
        worker(options)
        return
    if max(options.ranks) > PROCESSORS and no_quotas():
        raise SystemExit(f"{max(options.ranks)} ranks: {no_quotas()}")
    bars = report.Bars(BARS)
    tell(options, bars)
    print(bars.table())


if __name__ == "__main__":
    main()
