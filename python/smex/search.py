"""The search for plans, and the pins, meshes and limits that it is given."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping, Sequence
from typing import Any

from smex._C import factorise, heaviest_point, home_tiles, price
from smex._C import search as native_search
from smex.capture import CapturedGraph
from smex.errors import PlanError, SmexTypeError
from smex.machine import Machine
from smex.plan import Plan, mesh_words, placement_words, size_words
from smex.semantic import SemanticGraph

REPLICATE_BYTES = 64 * 1024
"""Gathering less than this costs a latency rather than bandwidth."""

_ALL_BYTES = 2**62


def search(
    graph: SemanticGraph | CapturedGraph,
    workers: int,
    *,
    planner: str = "tofu",
    objective: str = "communication",
    machine: Machine | None = None,
    memory_limit: float | None = None,
    optimizer_states: float = 0,
    replicate_bytes: int | None = None,
    pinned: dict[str, list[int]] | None = None,
    mesh: Sequence[int] | None = None,
    refine: bool | None = None,
    seed: int = 0,
) -> Plan:
    """Finds the plan that moves the fewest bytes, or takes the least time (Tofu §5).

    Args:
        graph: what `smex.capture` or `smex.capture_graph` returns.
        workers: number of workers.
        planner: "tofu" cuts every tensor larger than `replicate_bytes`, so that memory per worker
            falls with their number. The others are what it is compared with (Tofu §7.3):
            "data_parallel" replicates parameters and cuts the batch; "fsdp" does too, and keeps
            parameters cut between their uses; "all_row" cuts dimension 0 of every tensor;
            "spartan" decides tensor by tensor, the largest first; "equal_chop" cuts every tensor
            along one dimension only; "icml18" never lets workers make partial results; "random"
            draws the cuts. With each, tensors up to `replicate_bytes` may be replicated.
        objective: "communication", the bytes moved in one iteration, or "time", the seconds of one
            iteration on `machine`.
        machine: what "time" is counted by; with "communication" the plan tells its time on it.
        memory_limit: bytes of a worker that the plan's predicted peak keeps to, as
            `Plan.peak_bytes` counts it, with the optimiser's states. Memory is given a price, the
            lowest at which the plan fits.
        optimizer_states: so many tensors of each parameter's size the optimiser keeps: 1 for SGD
            with momentum, 2 for Adam.
        replicate_bytes: tensors up to this size may be held by every worker; by default 64 KiB for
            "communication", and all for "time" and with a `memory_limit`.
        pinned: placements that are given, by parameter, buffer or input name: per step the
            dimension that is cut, -1 to replicate.
        mesh: the workers of the recursive steps; by default the prime factors of `workers`, the
            largest first, or for "time" all workers in one step, or a step for each of the
            machine's levels, where that is faster.
        refine: whether "tofu", when it has chosen all steps, chooses each anew given all others
            until none gains; by default for up to 3 steps. Without, it is the paper's recursion.
        seed: of "random".

    Raises:
        PlanError: unknown objective or name, a placement or mesh that does not fit, or no plan
            within the limit.
        SmexValueError: unknown planner, or more workers than the machine has.
        SmexTypeError: no graph, or no machine.
    """
    if isinstance(graph, CapturedGraph):
        graph = SemanticGraph(graph)
    if not isinstance(graph, SemanticGraph):
        raise SmexTypeError(
            f"search: expected what smex.capture returns, got {type(graph).__name__}"
        )
    if objective not in ("communication", "time"):
        raise PlanError(
            f'search: unknown objective "{objective}"; known are "communication" and "time"'
        )
    if machine is not None and not isinstance(machine, Machine):
        raise SmexTypeError(f"search: expected a smex.Machine, found {machine!r}")
    if objective == "time" and machine is None:
        raise SmexTypeError(
            'search: the objective "time" needs a machine, such as smex.Machine.h100_nvlink()'
        )
    if not isinstance(workers, int) or isinstance(workers, bool) or workers < 1:
        raise PlanError(f"search: workers must be an int of at least 1, got {workers!r}")
    if memory_limit is not None and not _is_number(memory_limit, above=0):
        raise PlanError(f"search: memory_limit must be a number of bytes, got {memory_limit!r}")
    if not _is_number(optimizer_states, above=-1e-9):
        raise PlanError(f"search: optimizer_states must be at least 0, got {optimizer_states!r}")
    if replicate_bytes is None:
        cut_all = objective == "communication" and memory_limit is None
        replicate_bytes = REPLICATE_BYTES if cut_all else _ALL_BYTES
    if not isinstance(replicate_bytes, int) or replicate_bytes < 0:
        raise PlanError(
            f"search: replicate_bytes must be an int of at least 0, got {replicate_bytes!r}"
        )
    steps = _steps(workers, mesh, planner)
    request = Request(
        steps, planner, objective, machine, memory_limit, optimizer_states, replicate_bytes,
        refine=len(steps) <= 3 if refine is None else refine, seed=seed,
    )  # fmt: skip
    plan = request.find(graph, dict(pinned or {}))
    if machine and objective == "time" and planner == "tofu" and mesh is None and not pinned:
        for other in _longer_steps(machine, workers, steps):
            found = dataclasses.replace(request, mesh=other).find(graph, {})
            plan = min(plan, found, key=_cost)
    return plan


def _longer_steps(machine: Machine, workers: int, steps: list[int]) -> list[list[int]]:
    """Meshes of fewer steps, which have fewer ways to cut but pay the latency less often."""
    meshes = [[workers], machine.mesh(workers) or steps] if len(steps) > 1 else []
    return [mesh for n, mesh in enumerate(meshes) if mesh != steps and mesh not in meshes[:n]]


def _is_number(x: Any, above: float) -> bool:
    return isinstance(x, (int, float)) and not isinstance(x, bool) and x > above


def _steps(workers: int, mesh: Sequence[int] | None, planner: str) -> list[int]:
    """The workers of the recursive steps."""
    if mesh is None:
        return [workers] if planner == "equal_chop" and workers > 1 else factorise(workers)
    steps = list(mesh)
    fits = all(type(parts) is int and parts > 1 for parts in steps)
    if not fits or math.prod(steps) != workers:
        raise PlanError(
            f"search: expected a mesh of numbers above 1 whose product is {workers}, found {mesh!r}"
        )
    return steps


@dataclasses.dataclass(frozen=True)
class Request:
    """What a search is asked for, but for the graph and the pins; it can be asked again."""

    mesh: list[int]
    planner: str
    objective: str
    machine: Machine | None
    memory_limit: float | None
    optimizer_states: float
    replicate_bytes: int
    refine: bool
    seed: int

    def find(self, graph: SemanticGraph, pinned: dict[str, list[int]]) -> Plan:
        """The plan with these placements."""
        pins = {name: _checked(graph, name, pin, self.mesh) for name, pin in pinned.items()}
        plan, unmet = self._search(graph, pins)
        if unmet:
            raise PlanError(self._conflict(graph, pins))
        ids = [graph.value_by_name[name] for name in pins]
        tiles = home_tiles(graph.native, plan.native, ids)
        for name, held_by in zip(pins, tiles, strict=True):
            idle = [worker for worker, (held, _) in enumerate(held_by) if not held]
            if idle:
                raise PlanError(
                    f'plan: "{name}" pinned as {plan.words(name)} leaves worker {idle[0]} without '
                    "a tile: it is cut in larger units than elements, because a view joins "
                    "dimensions"
                )
        if self.memory_limit is not None and plan.peak() > self.memory_limit:
            return self._within_memory(graph, pins, plan)
        return plan

    @property
    def native_machine(self) -> Any:
        """The machine for this mesh, or None."""
        return self.machine and self.machine.native(self.mesh)

    def _search(
        self,
        graph: SemanticGraph,
        pins: Mapping[str, list[int]],
        memory_price: Sequence[float] = (),
    ) -> tuple[Plan, list[str]]:
        """A plan, and the pins that it does not have."""
        ids = {graph.value_by_name[name]: pin for name, pin in pins.items()}
        machine = self.native_machine
        found = native_search(
            graph.native, self.mesh, self.planner, self.replicate_bytes, ids,
            machine=machine if self.objective == "time" else None, seed=self.seed,
            refine=self.refine, memory_price=list(memory_price),
        )  # fmt: skip
        if machine is not None and self.objective != "time":
            found = price(graph.native, found, machine)
        placed = found.values
        # What element-wise operators tie together is cut alike: the first pin wins there.
        unmet = [name for name, pin in pins.items() if placed[graph.value_by_name[name]] != pin]
        return Plan(graph, found, self, pins), unmet

    def _conflict(self, graph: SemanticGraph, pins: dict[str, list[int]]) -> str:
        """Names pins that exclude each other and of which none can be left out."""
        kept = dict(pins)
        for name in pins:
            fewer = {other: pin for other, pin in kept.items() if other != name}
            if self._search(graph, fewer)[1]:
                kept = fewer
        words = ", ".join(
            f'"{name}" as {placement_words(pin, self.mesh)}' for name, pin in kept.items()
        )
        return f"plan: no plan has all of {words}; they exclude each other, leave one out"

    # ---- memory ----

    def _within_memory(
        self, graph: SemanticGraph, pins: Mapping[str, list[int]], free: Plan
    ) -> Plan:
        """The cheapest plan found within the limit, by giving memory a price.

        The price is for what lives where the plan without a limit takes the most; it is raised
        until the plan fits, and then lowered again as far as it still does.
        """
        assert self.memory_limit is not None
        weights = self._weights(graph, free)
        cost = _cost(free)
        unit = cost / free.peak() or 1e-3  # the whole peak costs what the plan does
        best: Plan | None = None
        least = free

        def priced(each: float) -> Plan:
            plan, _ = self._search(graph, pins, [each * weight for weight in weights])
            return plan

        low, high = 0.0, unit / 64
        for _ in range(20):
            plan = priced(high)
            least = min(plan, least, key=Plan.peak)
            if plan.peak() <= self.memory_limit:
                best = plan
                break
            low, high = high, high * 4
        if best is None:
            raise PlanError(self._too_large(graph, least))
        for _ in range(8):
            middle = math.sqrt(max(low, high / 1024) * high)
            plan = priced(middle)
            if plan.peak() <= self.memory_limit:
                high = middle
                best = min(plan, best, key=_cost)
            else:
                low = middle
        best.native.exact = False  # no more is known than what the plan without a limit costs
        best.native.gap = max(0.0, 1 - cost / _cost(best)) if _cost(best) else 0.0
        return best

    def _weights(self, graph: SemanticGraph, plan: Plan) -> list[float]:
        """By value how often its tile counts at the point where the plan takes the most memory."""
        _, _, live = heaviest_point(graph.native, plan.native)
        weights = [0.0] * len(graph.native.values)
        for value in live:
            weights[value] = 1.0
        for value in graph.captured.values:
            if value.role == "parameter":
                weights[value.id] += self.optimizer_states
        return weights

    def _too_large(self, graph: SemanticGraph, least: Plan) -> str:
        """Says how much is missing, where, and what would help."""
        assert self.memory_limit is not None
        op_id, _, _ = heaviest_point(graph.native, least.native)
        op = graph.captured.ops[op_id]
        where = f"{op.target}{f' at {op.source}' if op.source else ''}"
        kept = least.parameter_bytes() * (1 + self.optimizer_states)
        needed = math.ceil(least.peak() / self.memory_limit) * least.workers
        return (
            f"search: no plan for {least.workers} workers fits {size_words(self.memory_limit)} "
            f"each: the smallest found takes {size_words(least.peak())}, "
            f"{size_words(least.peak() - self.memory_limit)} too many, at {where}, of which "
            f"{size_words(kept)} are parameters and the optimiser's states; take {needed} workers, "
            "a smaller batch, or let larger tensors be cut (replicate_bytes)"
        )


def _cost(plan: Plan) -> float:
    """What the search minimised."""
    return plan.seconds if plan.objective == "time" else float(plan.total_bytes)


def _checked(graph: SemanticGraph, name: str, pin: Any, mesh: list[int]) -> list[int]:
    """A pin whose name, steps, dimensions and sizes fit the model."""
    if name not in graph.value_by_name:
        known = sorted(graph.value_by_name)
        raise PlanError(
            f'plan: the model has no parameter, buffer or input "{name}"; '
            f"it has {', '.join(known[:8])}{'…' if len(known) > 8 else ''}"
        )
    if not isinstance(pin, (list, tuple)) or any(type(dim) is not int for dim in pin):
        raise PlanError(
            f'plan: the placement of "{name}" must be a list of dimensions, one for each step, '
            f"-1 to replicate; got {pin!r}"
        )
    shape = graph.captured.values[graph.value_by_name[name]].shape
    if len(pin) != len(mesh):
        raise PlanError(
            f'plan: "{name}" has {len(pin)} placements, expected {len(mesh)}, one for each step of '
            f"{mesh_words(mesh)}"
        )
    for dim in pin:
        if not -1 <= dim < len(shape):
            raise PlanError(
                f'plan: "{name}" of shape {tuple(shape)} cannot be cut along dimension {dim}; '
                f"it has {len(shape)} dimensions, -1 replicates"
            )
    for dim, size in enumerate(shape):
        parts = math.prod(k for k, cut in zip(mesh, pin, strict=True) if cut == dim)
        if parts > size:
            raise PlanError(
                f'plan: "{name}" of shape {tuple(shape)} cannot be cut along dimension {dim} by '
                f"{parts} workers: it has only {size} elements there"
            )
    return list(pin)
