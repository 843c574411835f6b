"""Tasks on resources: what a user sees of their schedules."""

import doctest
import json
import random

import networkx as nx
import pytest

import smex
import smex.cluster
from smex.cluster import Tasks
from smex.cluster import tasks as module


def random_tasks(rng, count, devices=3):
    """Operators on devices, and transfers on links between them, in a chain of layers."""
    tasks = Tasks()
    place = [rng.randrange(devices) for _ in range(count)]
    for v in range(count):
        after = []
        for u in {rng.randrange(max(0, v - 6), v) for _ in range(rng.randrange(3))} if v else ():
            if place[u] == place[v]:
                after.append(u)
                continue
            link = (place[u], place[v])
            tasks.add((u, v), rng.randrange(1, 8), on=link, after=u)
            after.append((u, v))
        tasks.add(v, rng.randrange(10), on=f"device {place[v]}", after=after)
    return tasks


def as_networkx(tasks):
    """The tasks as a graph whose edges weigh what the task that they leave takes."""
    graph = nx.DiGraph()
    for name, seconds, after in zip(tasks._names, tasks._seconds, tasks._after):
        graph.add_node(name, seconds=seconds)
        graph.add_edges_from((tasks._names[u], name) for u in after)
    return graph


def test_the_example():
    assert doctest.testmod(module).failed == 0
    assert doctest.testmod(module).attempted > 5


def test_ranks_are_the_longest_ways():
    rng = random.Random(0)
    for _ in range(50):
        tasks = random_tasks(rng, 40)
        graph = as_networkx(tasks)
        for name, rank in tasks.ranks().items():
            below = graph.subgraph({name, *nx.descendants(graph, name)}).copy()
            for u, v in below.edges:
                below.edges[u, v]["weight"] = below.nodes[v]["seconds"]
            longest = nx.dag_longest_path_length(below)
            assert rank == below.nodes[name]["seconds"] + longest


@pytest.mark.parametrize("order", module.ORDERS)
def test_schedules_hold_what_they_promise(order):
    rng = random.Random(1)
    for _ in range(30):
        tasks = random_tasks(rng, 60)
        schedule = tasks.schedule(order)
        begins, ends = schedule.begins(), schedule.ends()
        graph = as_networkx(tasks)
        assert all(begins[v] >= ends[u] for u, v in graph.edges)
        assert schedule.makespan == max(ends.values()) >= tasks.least_makespan()
        path = schedule.critical_path()
        assert [begins[name] for name in path] == [0, *(ends[name] for name in path[:-1])]
        assert ends[path[-1]] == schedule.makespan
        assert all(0 <= seconds <= schedule.makespan for seconds in schedule.busy().values())
        again = tasks.schedule(schedule.order())
        assert again.makespan == schedule.makespan
        assert all(begin <= begins[name] for name, begin in again.begins().items())


def test_the_shortest_is_no_longer_than_that_of_ranks():
    rng = random.Random(2)
    pairs = []
    for _ in range(40):
        tasks = random_tasks(rng, 60)
        pairs.append((tasks.schedule("shortest").makespan, tasks.schedule("rank").makespan))
    assert all(shortest <= rank for shortest, rank in pairs)
    assert any(shortest < rank for shortest, rank in pairs)


def test_priorities_of_ones_own():
    tasks = Tasks()
    for name in ("a", "b", "c"):
        tasks.add(name, 1, on="gpu")
    assert tasks.schedule({"a": 1, "b": 3, "c": 2}).order() == ["b", "c", "a"]
    assert tasks.schedule(["c", "a", "b"]).begins() == {"c": 0, "a": 1, "b": 2}


def test_tasks_that_are_added_later_count():
    tasks = Tasks()
    tasks.add("a", 2, on="gpu")
    first = tasks.schedule()
    tasks.add("b", 3, on="gpu", after="a")
    assert (first.makespan, tasks.schedule().makespan) == (2, 5)
    assert first.critical_path() == ["a"]
    assert len(tasks) == 2


def test_nothing_to_do():
    schedule = Tasks().schedule("shortest")
    assert (schedule.makespan, schedule.order(), schedule.critical_path()) == (0, [], [])
    assert repr(schedule) == "Schedule(shortest: 0 tasks, 0 s)"


def test_a_picture_in_words_and_a_trace(tmp_path):
    tasks = Tasks()
    tasks.add("a", 3, on="gpu 0")
    tasks.add("b", 1, on=["gpu 0", "gpu 1"])
    assert repr(tasks) == "Tasks(2 on 2 resources)"
    schedule = tasks.schedule()
    assert repr(schedule).splitlines() == [
        "Schedule(rank: 2 tasks, 4 s, 1.00 of the least)",
        "  gpu 0: busy 100 %",
        "  gpu 1: busy 25 %",
    ]
    schedule.trace(tmp_path / "trace.json")
    events = json.loads((tmp_path / "trace.json").read_text())["traceEvents"]
    spans = [(e["name"], e["tid"], e["ts"], e["dur"]) for e in events if e["ph"] == "X"]
    assert spans == [("a", 0, 0, 3e6), ("b", 0, 3e6, 1e6), ("b", 1, 3e6, 1e6)]


def test_bad_input_is_named():
    tasks = Tasks()
    tasks.add("a", 1)
    with pytest.raises(smex.SmexValueError, match="there is a task 'a' already"):
        tasks.add("a", 2)
    with pytest.raises(smex.SmexValueError, match="'b': expected seconds of at least 0, found -1"):
        tasks.add("b", -1)
    with pytest.raises(smex.SmexTypeError, match="'b': expected seconds, found 'long'"):
        tasks.add("b", "long")
    with pytest.raises(smex.SmexKeyError, match="'b': there is no task 'c' before it"):
        tasks.add("b", 1, on="gpu", after="c")
    assert (len(tasks), tasks.resources) == (1, [])
    tasks.add("b", 1)
    with pytest.raises(smex.SmexValueError, match="expected 'rank', 'shortest', 'first come'"):
        tasks.schedule("fast")
    with pytest.raises(smex.SmexValueError, match="order have 1 of 2 tasks, 'b' is missing"):
        tasks.schedule(["a"])
    with pytest.raises(smex.SmexValueError, match="priorities have 'c', which is no task"):
        tasks.schedule({"a": 1, "b": 1, "c": 1})
    with pytest.raises(smex.SmexValueError, match="order: expected the 2 tasks, found 3"):
        tasks.schedule(["a", "b", "a"])
