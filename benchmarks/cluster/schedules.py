"""List schedules beside the optimum of CP-SAT, and upward ranks beside those of anrg-saga.

    python benchmarks/peers/environments.py schedulers
    python benchmarks/cluster/schedules.py [--graphs 120] [--seconds 6]

Graphs have operators in layers on 2 to 4 devices, and a transfer on the directed link between two
devices for each edge between them; a transfer takes a tenth to twice what an operator takes. Each
schedule is compared with the optimum of its graph, and with the bound (HeteroG, Theorem 1) on the
resources in use. Ranks are compared on 1,000 graphs whose edges have sizes, of which saga takes
means over the network's links.
"""

from __future__ import annotations

import argparse
import json
import pathlib
import random
import statistics
import subprocess
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "peers"))

import environments

from smex._C import TaskGraph

OPS = (10, 60)
RANKED = 1000
LARGE = (1_000, 10_000, 100_000)


def layered(rng: random.Random, ops: int) -> tuple[list[tuple[int, list[int], list[int]]], int]:
    """Seconds, resources and what is waited for of tasks, and the number of resources."""
    devices, moving = rng.choice([2, 3, 4]), rng.choice([0.1, 0.5, 1, 2])
    pairs = [(a, b) for a in range(devices) for b in range(devices) if a != b]
    link = {pair: devices + number for number, pair in enumerate(pairs)}
    place = [rng.randrange(devices) for _ in range(ops)]
    width = rng.choice([2, 4, 8])
    tasks: list[tuple[int, list[int], list[int]]] = []
    task_of = {}
    for v in range(ops):
        count = rng.choice([1, 1, 2, 3]) if v >= width else 0
        after = []
        for u in sorted({rng.randrange(max(0, v - 2 * width), v) for _ in range(count)}):
            if place[u] == place[v]:
                after.append(task_of[u])
                continue
            seconds = 1 + round(10 * moving * rng.lognormvariate(0, 0.7))
            tasks.append((seconds, [link[place[u], place[v]]], [task_of[u]]))
            after.append(len(tasks) - 1)
        tasks.append((1 + round(10 * rng.lognormvariate(0, 0.8)), [place[v]], after))
        task_of[v] = len(tasks) - 1
    return tasks, devices + len(link)


def graph_of(tasks: list[tuple[int, list[int], list[int]]], resources: int) -> TaskGraph:
    graph = TaskGraph(resources)
    for seconds, on, after in tasks:
        graph.add(seconds, on, after)
    return graph


KINDS = {
    "by rank (HeteroG)": lambda graph: graph.by_priority(graph.upward_ranks()),
    "the shortest of some": TaskGraph.shortest_of_lists,
    "first come": TaskGraph.first_come,
}


def ask(what: str, given: object) -> object:
    """What the peers' environment answers."""
    python = environments.interpreter("schedulers")
    if python is None:
        raise SystemExit("first: python benchmarks/peers/environments.py schedulers")
    script = pathlib.Path(__file__).with_name("schedules_peer.py")
    command = [python, script, what]
    text = json.dumps(given)
    found = subprocess.run(command, input=text, stdout=subprocess.PIPE, text=True, check=True)
    return json.loads(found.stdout)


def beside_the_optimum(count: int, seconds: float) -> None:
    rng = random.Random(0)
    made = [layered(rng, rng.randrange(*OPS)) for _ in range(count)]
    graphs = [graph_of(*each) for each in made]
    answers = ask("optima", {"seconds": seconds, "graphs": [tasks for tasks, _ in made]})
    proven = sum(answer["proven"] for answer in answers)
    print(f"{count} graphs, the optimum is proven for {proven}; makespan over it:\n")
    print("| | mean | 90th percentile | worst |\n|---|---:|---:|---:|")
    for name, schedule in KINDS.items():
        ratios = []
        for graph, answer in zip(graphs, answers):
            makespan = schedule(graph).makespan
            assert makespan <= graph.num_used_resources * answer["makespan"], "the bound"
            ratios.append(makespan / answer["makespan"])
        ninth = sorted(ratios)[int(0.9 * len(ratios))]
        print(f"| {name} | {statistics.mean(ratios):.3f} | {ninth:.3f} | {max(ratios):.3f} |")


def ranks_beside_saga() -> None:
    rng = random.Random(1)
    given = []
    for _ in range(RANKED):
        ops = rng.randrange(2, 40)
        edges = sorted({tuple(sorted(rng.sample(range(ops), 2))) for _ in range(2 * ops)})
        costs = [rng.uniform(1, 10) for _ in range(ops)]
        given.append({"costs": costs, "edges": [(u, v, rng.uniform(0.1, 20)) for u, v in edges]})
    largest = 0.0
    for graph, answer in zip(given, ask("ranks", given)):
        tasks, number = TaskGraph(0), {}
        for v, cost in enumerate(graph["costs"]):
            into = [(u, size) for u, w, size in graph["edges"] if w == v]
            sent = [tasks.add(size * answer["of_size"], [], [number[u]]) for u, size in into]
            number[v] = tasks.add(cost * answer["of_cost"], [], sent)
        ranks = tasks.upward_ranks()
        for v, wanted in enumerate(answer["ranks"]):
            largest = max(largest, abs(ranks[number[v]] / wanted - 1))
    print(f"\nUpward ranks of {RANKED} graphs: the largest relative difference is {largest:.1e}.")


def times() -> None:
    print("\n| tasks | " + " | ".join(f"{name}, ms" for name in KINDS) + " |")
    print("|---:|" + "---:|" * len(KINDS))
    for ops in LARGE:
        graph = graph_of(*layered(random.Random(2), ops))
        cells = []
        for schedule in KINDS.values():
            best = float("inf")
            for _ in range(max(3, 20_000 // ops)):
                started = time.perf_counter()
                schedule(graph)
                best = min(best, time.perf_counter() - started)
            cells.append(f"{1e3 * best:.2f}")
        print(f"| {len(graph):,} | {' | '.join(cells)} |")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--graphs", type=int, default=120)
    parser.add_argument("--seconds", type=float, default=6, help="of CP-SAT for a graph, at most")
    options = parser.parse_args()
    beside_the_optimum(options.graphs, options.seconds)
    ranks_beside_saga()
    times()


if __name__ == "__main__":
    main()
