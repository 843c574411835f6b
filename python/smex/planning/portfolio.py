"""The searches of which the cheapest plan counts: other meshes, orders of steps and planners."""

from __future__ import annotations

import concurrent.futures
import dataclasses
import itertools
import math
import os
from collections.abc import Iterator

from smex._C import factorise, planners
from smex.errors import PlanError
from smex.planning.options import ALL_BYTES, SearchOptions
from smex.planning.pins import Pins
from smex.planning.placed import PlacedGraph
from smex.planning.semantic import SemanticGraph
from smex.planning.solver import REFINED, NothingFitsError, Solver, cost

_COMPARED = 1000  # calls of a graph for which other planners are tried too
_ORDERED = 2000  # calls of all graphs that are searched for other orders of the steps


def best(graph: SemanticGraph, asked: SearchOptions, pins: Pins, any_mesh: bool) -> PlacedGraph:
    """The cheapest of what is asked for and of what may do better.

    Args:
        graph: to be placed.
        asked: for what.
        pins: placements that are given; each search reads them, for its own mesh.
        any_mesh: whether the mesh was not given.
    """
    some, others = [asked], list[SearchOptions]()
    if asked.planner == "tofu" and any_mesh:
        some += [dataclasses.replace(asked, mesh=other) for other in _longer_steps(asked)]
        orders = _other_orders(graph, asked, [known.mesh for known in some])
        others = [dataclasses.replace(asked, mesh=other) for other in orders]
    if asked.planner == "tofu" and asked.memory_limit is None:
        some += [rival for own in list(some) for rival in _rivals(graph, own)]
    some += others
    if asked.joint > 1:  # which may need tensors to be merged that single steps keep apart
        some.append(dataclasses.replace(asked, joint=1))
    return _cheapest([Solver(graph, each) for each in some], pins)


def _cheapest(solvers: list[Solver], pins: Pins) -> PlacedGraph:
    """The first of the cheapest plans; the searches run at the same time.

    Where none has a plan the error is that of the first, as pins may fit the meshes of some.
    """
    if len(solvers) == 1:
        return solvers[0].find(pins)
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        searches = [pool.submit(solver.attempt, pins) for solver in solvers]
    plans, too_large, errors = [], [], []
    for solver, search in zip(solvers, searches, strict=True):
        try:
            plans.append(search.result())
        except NothingFitsError as error:
            too_large.append((solver, error.least))
        except PlanError as error:
            errors.append(error)
    if not plans and too_large:
        solver, least = too_large[0]
        raise solver.explained(pins, least)
    if not plans:
        raise errors[0]
    plan = min(plans, key=cost)
    # What explains the plan, or searches it again with pins, compares all that is allowed.
    plan.options = dataclasses.replace(plan.options, planner=solvers[0].options.planner)
    return plan


def _rivals(graph: SemanticGraph, asked: SearchOptions) -> list[SearchOptions]:
    """The other planners, of which a recursion of several steps might be the worse one.

    A single step is never worse; many steps and large graphs take too long to be searched so
    often.
    """
    if not 2 <= len(asked.mesh) <= REFINED or len(graph.captured.ops) > _COMPARED:
        return []
    # These replicate tensors that a recursion for the fewest bytes has to cut.
    replicating = ["data_parallel", "fsdp"] if asked.replicate_bytes < ALL_BYTES else []
    names = [name for name in planners() if name not in ["random", "tofu", *replicating]]
    return [dataclasses.replace(asked, planner=name) for name in names]


def _longer_steps(asked: SearchOptions) -> list[list[int]]:
    """Meshes of fewer steps, which have fewer ways to cut but pay a latency less often."""
    steps, machine = asked.mesh, asked.machine
    meshes = [[math.prod(steps)]] if len(steps) > 1 else []
    if meshes and machine and asked.objective == "time":
        meshes.append(machine.mesh(math.prod(steps)) or steps)
    return [mesh for n, mesh in enumerate(meshes) if mesh not in [steps, *meshes[:n]]]


def _other_orders(
    graph: SemanticGraph, asked: SearchOptions, known: list[list[int]]
) -> list[list[int]]:
    """Ways to write the workers as a product that are not known, where graphs are small enough.

    Early steps decide for later ones, so that their sizes and their order count.
    """
    calls = len(graph.captured.ops)
    is_small = asked.memory_limit is None and calls <= _COMPARED
    most = _ORDERED // max(1, calls) if is_small else 0
    products = (mesh for mesh in _products(math.prod(asked.mesh)) if mesh not in known)
    return list(itertools.islice(products, most))


def _products(number: int) -> Iterator[list[int]]:
    """Factors above 1 in all orders, those that differ least from the prime ones first."""
    for count in range(len(factorise(number)), 0, -1):
        yield from _products_of(number, count)


def _products_of(number: int, count: int) -> Iterator[list[int]]:
    """`count` factors above 1 in all orders, the largest first."""
    if count == 1:
        yield [number]
        return
    divisors = {1}
    for prime in factorise(number):
        divisors |= {prime * divisor for divisor in divisors}
    for first in sorted(divisors - {1, number}, reverse=True):
        if len(factorise(number // first)) >= count - 1:
            yield from ([first, *rest] for rest in _products_of(number // first, count - 1))
