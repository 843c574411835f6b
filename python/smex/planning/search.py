"""What users call to find plans."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from smex._C import plan_for_other_sizes
from smex._logging import logger
from smex.capture import CapturedGraph
from smex.errors import PlanError, SmexTypeError
from smex.planning.cluster import Cluster
from smex.planning.machine import Machine
from smex.planning.options import SearchOptions, Shards
from smex.planning.pins import Pins
from smex.planning.plan import Plan
from smex.planning.portfolio import best, cut_vertices
from smex.planning.semantic import SemanticGraph


def search(
    graph: SemanticGraph | CapturedGraph,
    workers: int,
    *,
    planner: str = "tofu",
    objective: str = "communication",
    machine: Machine | Cluster | None = None,
    memory_limit: float | str | None = None,
    optimizer_states: float = 0,
    replicate_bytes: int | None = None,
    pinned: Pins | None = None,
    mesh: Sequence[int] | None = None,
    refine: bool | None = None,
    joint: int = 1,
    seed: int = 0,
    recompute: str = "auto",
    device_memory: float | None = None,
    boundaries: Any = None,
    weights: Any = None,
) -> Plan:
    """Finds the plan that moves the fewest bytes, or takes the least time (Tofu §5).

    Args:
        graph: what `smex.capture` or `smex.capture_graph` returns.
        workers: number of workers.
        planner: "tofu" cuts every tensor larger than `replicate_bytes`, so that memory per worker
            falls with their number. The others are what it is compared with (Tofu §7.3):
            "data_parallel" replicates parameters and cuts the batch; "fsdp" does too, and keeps
            parameters cut between their uses; "homes" is "data_parallel" with each parameter held
            by one worker, as parameter servers do; "all_row" cuts dimension 0 of every tensor;
            "spartan" decides tensor by tensor, the largest first; "equal_chop" cuts every tensor
            along one dimension only; "icml18" never lets workers make partial results; "random"
            draws the cuts; "vertices", "features", "edges" and "grid" are "data_parallel", and cut
            all messages along a graph's edges by vertices, as ROC does, by features, as NeutronTP
            does (Ai et al. 2024), by edges, or by vertices in the first step of the mesh and by
            features in the others, as CAGNET's grids do (Tripathy et al. 2020). With each, tensors
            up to `replicate_bytes` may be replicated.
        objective: "communication", the bytes moved in one iteration, or "time", the seconds of one
            iteration on `machine`.
        machine: what "time" is counted by; with "communication" the plan tells its time on it. A
            `smex.Cluster` has workers that differ: a call takes as long as its slowest worker.
        memory_limit: bytes of a worker that the plan's predicted peak keeps to, as
            `Plan.peak_bytes` counts it, with the optimiser's states; "devices" for what each
            device of a cluster has.
        optimizer_states: so many tensors of each parameter's size the optimiser keeps: 1 for SGD
            with momentum, 2 for Adam.
        replicate_bytes: tensors up to this size may be held by every worker; by default 64 KiB for
            "communication", and all for "time" and with a `memory_limit`.
        pinned: placements that are given: a list of `smex.pin(name, placement)`, or a dictionary of
            placements by parameter, buffer or input name.
        mesh: the workers of the recursive steps; by default one step for "data_parallel", "fsdp"
            and "equal_chop", otherwise the prime factors of `workers`, the largest first, or others
            where those are cheaper: one step of all workers, for "time" one for each of the
            machine's levels, and for small graphs products of `workers` in all orders.
        refine: whether "tofu", when it has chosen all steps, chooses each anew given all others
            until none gains; by default for up to 3 steps. Without, it is the paper's recursion.
        joint: so many steps are chosen together instead of one after the other: 2 finds what the
            recursion of two steps may miss, for tables that are squared.
        seed: of "random".
        recompute: "auto" lets the backward pass run calls again where nothing keeps to the
            `memory_limit` otherwise, and for "time" where that is faster than other cuts: cheap
            ones between products, then repeated modules (numbered ones, such as the layers of an
            `nn.ModuleList`), as few of them as are as cheap.
            With "checkpoints" only regions of `torch.utils.checkpoint` run again, as always.
        device_memory: bytes that tiles take of each worker's device at once: the others are on the
            host meanwhile, moved by the fewest bytes (ROC §5). The search chooses as without.
        boundaries: where the vertices of a graph are cut: "equal", into as many each, the default;
            "edges", so that each part has about as many edges; a `smex.VertexCosts`, so that each
            takes as long (ROC §4.2); "learned", as "edges" at first, and as the costs of the net's
            own calls where cutting anew pays; a list of 0 and the ends of the workers' parts, or
            several of them for graphs of other numbers of vertices, in a dictionary by number.
        weights: in which proportions workers get what is cut: "even"; "speed", the default for
            "time" on a cluster of unlike devices, so that the graph's calls take about as long on
            all of them; or a number for each worker, 0 for who gets nothing. Means, losses and
            batch norm are those of the whole batch all the same.

    Raises:
        PlanError: unknown objective or name, a number out of range, a placement or mesh that does
            not fit, or no plan within the limit. The first use of the plan's program raises it for
            an operator that `device_memory` is too small for.
        SmexValueError: unknown planner, or more workers than the machine has.
        SmexTypeError: no graph, no machine, or another argument of the wrong type.
    """
    if isinstance(graph, CapturedGraph):
        graph = SemanticGraph(graph)
    if not isinstance(graph, SemanticGraph):
        raise SmexTypeError(
            f"search: expected what smex.capture returns, got {type(graph).__name__}"
        )
    asked = SearchOptions.checked(
        workers, planner=planner, objective=objective, machine=machine, memory_limit=memory_limit,
        optimizer_states=optimizer_states, replicate_bytes=replicate_bytes, mesh=mesh,
        refine=refine, joint=joint, seed=seed, recompute=recompute, device_memory=device_memory,
        boundaries=boundaries, weights=weights,
    )  # fmt: skip
    pins = {} if pinned is None else list(pinned) if isinstance(pinned, Iterator) else pinned
    return Plan.of(best(graph, asked, pins, any_mesh=mesh is None))


_NEAR = 2
"""Inputs of up to so many times the elements, or as many times fewer, keep a plan's choices."""


def for_other_sizes(graph: SemanticGraph, known: Plan) -> Plan | None:
    """Returns a plan's choices for another capture of the same calls, of inputs of near sizes.

    They are not searched, but priced anew. None where a search may find much better ones: the calls
    differ, sizes are far from those that the choices were found for, or a limit is passed.
    """
    before, now = known.graph.native.num_input_elements, graph.native.num_input_elements
    if not 1 / _NEAR <= now / max(before, 1) <= _NEAR:
        return None
    regions = known.graph.regions
    if len(regions) != len(graph.captured.structure.ops):
        return None
    if regions != graph.regions:
        graph = graph.with_regions(regions)
    graph, options = cut_vertices(graph, known.options)
    native = plan_for_other_sizes(
        graph.native, known.graph.native, known.native, options.native_machine
    )
    if native is None:
        return None
    plan = Plan(graph, native, options, known.pinned)
    limits = options.memory_limits
    fits = not limits or all(
        peak <= limit for peak, limit in zip(plan.peak_bytes(), limits, strict=True)
    )
    return plan if fits else None


def search_again(
    graph: SemanticGraph, first: Plan, shards: Mapping[str, Shards], pinned: Pins
) -> Plan:
    """Plans another capture of the model that `first` is a plan of, whose shards exist.

    They stay as they are; what an operator needs otherwise is fetched when it runs. Pins that this
    capture has no place for, such as one of an input that is smaller now, are left out.
    """
    asked = dataclasses.replace(first.options, mesh=list(first.mesh), shards=shards)
    try:
        return Plan.of(best(graph, asked, pinned, any_mesh=False))
    except PlanError as error:
        if not pinned:
            raise
        logger.info("pins are left out of the plan of another capture: %s", error)
        return Plan.of(best(graph, asked, {}, any_mesh=False))
