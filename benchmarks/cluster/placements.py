"""Placements of DOPPLER's six graphs in its simulator, beside its critical path and random search.

    python benchmarks/cluster/placements.py [--calls 20000 200000] [--data ../shared/data/doppler]

The critical path is DOPPLER's baseline as the data's own check.py computes it, the best of 50 runs
as it is described and 50 as it is coded. Random search makes as many calls of the simulator as
annealing. The bound is the larger of all work over the devices and the longest chain of operators.
Times are in the unit of the published simulator.
"""

from __future__ import annotations

import argparse
import importlib.util
import os
import pathlib
import random
import time

from smex.cluster import Dataflow

ROOT = pathlib.Path(__file__).parents[2]
DATA = pathlib.Path(os.environ.get("SMEX_DATA") or ROOT.parent / "shared" / "data") / "doppler"
RUNS = 50


def rules(folder: pathlib.Path):
    """The module that comes with the data."""
    spec = importlib.util.spec_from_file_location("check", folder / "check.py")
    if spec is None or spec.loader is None or not (folder / "check.py").exists():
        raise SystemExit(f"there is no {folder / 'check.py'}; pass --data")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def bound(graph: dict) -> float:
    chain = [0.0] * graph["nodes"]
    for v in reversed(range(graph["nodes"])):
        after = max((chain[w] for w in graph["after"][v]), default=0.0)
        chain[v] = graph["compute"][v] + after
    return max(sum(graph["compute"]) / graph["devices"], *chain)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--calls", type=int, nargs="*", default=[20_000, 200_000])
    parser.add_argument("--data", type=pathlib.Path, default=DATA)
    options = parser.parse_args()
    check = rules(options.data)
    columns = ["bound", "critical path"]
    for calls in options.calls:
        columns += [f"random, {calls:,} calls", f"annealing, {calls:,}", "of critical path", "s"]
    print(f"| | {' | '.join(columns)} |\n|---|{'---:|' * len(columns)}")
    for name in check.GRAPHS:
        graph = check.load(name)
        paths = []
        for described in (True, False):
            chance = random.Random(0)
            paths += [check.critical_path(graph, chance, described) for _ in range(RUNS)]
        critical = min(check.makespan(graph, placement) for placement in paths)
        ours = Dataflow(graph["compute"], graph["transfer"], graph["edges"], graph["devices"])
        start = check.earliest_finish(graph)
        cells = [f"{bound(graph) / check.UNIT:.2f}", f"{critical:.2f}"]
        for calls in options.calls:
            drawn = ours.place(calls, search="random")
            started = time.perf_counter()
            found = ours.place(calls, start=start)
            seconds = time.perf_counter() - started
            exact = check.makespan(graph, found.devices)
            assert abs(exact - found.makespan / check.UNIT) < 1e-6 * exact
            cells += [f"{drawn.makespan / check.UNIT:.2f}", f"{exact:.2f}"]
            cells += [f"{exact / critical:.2f}", f"{seconds:.1f}"]
        print(f"| {name} | {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()
