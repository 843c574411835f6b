"""The native search in users' words: the pins that it is given, and why it finds no plan."""

from __future__ import annotations

import dataclasses
import math
from typing import Any

from smex._C import IdlePin, Request, TooLarge, best_plan, candidates
from smex.errors import PlanError
from smex.planning.options import SearchOptions
from smex.planning.pins import Pins, resolve
from smex.planning.placed import PlacedGraph, view_targets
from smex.planning.semantic import SemanticGraph
from smex.text import placement_words, size_words


def best(graph: SemanticGraph, asked: SearchOptions, pins: Pins, any_mesh: bool) -> PlacedGraph:
    """Returns the cheapest of what is asked for and of what may do better.

    Args:
        graph: to be placed.
        asked: for what.
        pins: placements that are given; they are read for each mesh that is tried.
        any_mesh: whether the mesh was not given.
    """
    graph, asked = cut_vertices(graph, asked)
    native = asked.native(view_targets(graph))
    return _found(graph, asked, pins, candidates(graph.native, asked.mesh, native, any_mesh))


def alone(graph: SemanticGraph, asked: SearchOptions, pins: Pins) -> PlacedGraph:
    """Returns what is asked for, compared with nothing else."""
    graph, asked = cut_vertices(graph, asked)
    alone = dataclasses.replace(asked, recompute="checkpoints")  # runs again what the graph says
    return _found(graph, asked, pins, [Request(asked.mesh, alone.native(view_targets(graph)))])


def cut_vertices(graph: SemanticGraph, asked: SearchOptions) -> tuple[SemanticGraph, SearchOptions]:
    """Returns the graph with boundaries and weightings, and what is asked for with its own."""
    boundaries = asked.boundaries.for_graph(graph, math.prod(asked.mesh))
    weights = asked.weights.for_graph(graph, asked.machine, asked.mesh)
    asked = dataclasses.replace(asked, boundaries=boundaries, weights=weights)
    return graph.with_boundaries(boundaries.ends).with_weightings(weights.known), asked


def _found(
    graph: SemanticGraph, asked: SearchOptions, pins: Pins, requests: list[Any]
) -> PlacedGraph:
    """Returns the first of the cheapest plans.

    Where none has a plan the error is that of the first, as pins may fit the meshes of some.
    """
    ids = graph.value_by_name
    shards = {
        ids[name]: (kept.placement, kept.tiles)
        for name, kept in asked.shards.items()
        if name in ids
    }
    fitting: list[tuple[Any, dict[str, list[int]]]] = []
    misfit: PlanError | None = None  # of the first request
    for request in requests:
        try:
            placements = resolve(pins, graph, request.mesh)
        except PlanError as error:
            if not fitting and misfit is None:
                misfit = error
            continue
        request.place([(ids[name], placement) for name, placement in placements.items()], shards)
        fitting.append((request, placements))
    if misfit and not fitting:
        raise misfit
    number, result, regions = best_plan(graph.native, [request for request, _ in fitting])
    request, placements = fitting[number]
    if isinstance(result, IdlePin):
        raise misfit or PlanError(_idle_words(placements, result, request.mesh))
    if isinstance(result, TooLarge):
        raise PlanError(_too_large_words(graph, asked, placements, result, request.mesh))
    if regions:
        graph = graph.with_regions(regions)
    # What explains the plan, or searches it again with pins, compares all that is allowed: the
    # planner stays the one that was asked for.
    options = dataclasses.replace(
        asked, mesh=list(request.mesh), joint=request.joint, replicate_bytes=result.replicate_bytes
    )
    return PlacedGraph(
        graph, result.plan, options, placements, result.take_program(), result.peak_bytes or None
    )


def _idle_words(placements: dict[str, list[int]], idle: Any, mesh: list[int]) -> str:
    """Says which pin leaves a worker without a tile, and why."""
    return (
        f'plan: "{list(placements)[idle.pin]}" pinned as {placement_words(idle.placement, mesh)} '
        f"leaves worker {idle.worker} without a tile: it is cut in larger units than elements, "
        "because a view joins dimensions"
    )


def _too_large_words(
    graph: SemanticGraph,
    asked: SearchOptions,
    placements: dict[str, list[int]],
    found: Any,
    mesh: list[int],
) -> str:
    """Says how much is missing, where, and what would help."""
    limit = asked.least_limit
    assert limit is not None
    if found.conflict:
        names = list(placements)
        words = ", ".join(
            f'"{names[n]}" as {placement_words(placements[names[n]], mesh)}' for n in found.conflict
        )
        return (
            f"search: no plan for {found.workers} workers with {words} fits {size_words(limit)} "
            f"each: the smallest found takes {size_words(found.peak)}; without one of these pins "
            "there is one"
        )
    op, more = graph.captured.ops[found.op], found.enough_workers
    where = f"{op.target}{f' at {op.source}' if op.source else ''}"
    return (
        f"search: no plan for {found.workers} workers fits {size_words(limit)} each: the smallest "
        f"found takes {size_words(found.peak)}, {size_words(found.peak - limit)} too many, at "
        f"{where}, of which {size_words(found.kept)} are parameters and the optimiser's states; "
        f"take {f'{more} workers or ' if more else ''}a smaller batch"
        f"{', more workers alone did not help' if more == 0 else ''}"
    )
