"""Answers schedules.py in the environment that has ortools and anrg-saga."""

from __future__ import annotations

import json
import logging
import sys

import numpy as np
from ortools.sat.python import cp_model


def optimum(tasks: list, seconds: float) -> dict:
    """The least makespan of tasks, and whether that is proven."""
    model = cp_model.CpModel()
    horizon = sum(task[0] for task in tasks)
    ends, on = [], {}
    makespan = model.new_int_var(0, horizon, "makespan")
    for number, (duration, resources, after) in enumerate(tasks):
        begin = model.new_int_var(0, horizon, f"begin {number}")
        end = model.new_int_var(0, horizon, f"end {number}")
        interval = model.new_interval_var(begin, duration, end, str(number))
        for resource in resources:
            on.setdefault(resource, []).append(interval)
        for earlier in after:
            model.add(begin >= ends[earlier])
        model.add(makespan >= end)
        ends.append(end)
    for intervals in on.values():
        model.add_no_overlap(intervals)
    model.minimize(makespan)
    solver = cp_model.CpSolver()
    solver.parameters.max_time_in_seconds = seconds
    solver.parameters.num_workers = 1
    status = solver.solve(model)
    return {"makespan": solver.objective_value, "proven": status == cp_model.OPTIMAL}


def ranks(costs: list, edges: list) -> dict:
    """Saga's upward ranks on three unlike nodes, and its mean factors of costs and sizes."""
    from saga import Network, TaskGraph
    from saga.schedulers.cpop import upward_rank

    nodes = [("a", 1.0), ("b", 2.0), ("c", 4.0)]
    network = Network.create(nodes, [("a", "b", 3.0), ("b", "c", 5.0), ("a", "c", 7.0)])
    named = [(str(v), cost) for v, cost in enumerate(costs)]
    found = upward_rank(
        network, TaskGraph.create(named, [(str(u), str(v), size) for u, v, size in edges])
    )
    return {
        "ranks": [found[name] for name, _ in named],
        "of_cost": float(np.mean([1 / node.speed for node in network.nodes])),
        "of_size": float(np.mean([1 / edge.speed for edge in network.edges])),
    }


def main() -> None:
    logging.disable(logging.WARNING)  # saga tells of each source that it adds
    given = json.load(sys.stdin)
    if sys.argv[1] == "optima":
        answer = [optimum(tasks, given["seconds"]) for tasks in given["graphs"]]
    else:
        answer = [ranks(**graph) for graph in given]
    json.dump(answer, sys.stdout)


if __name__ == "__main__":
    main()
