"""The search for plans, and the pins, meshes and limits that it is given."""

from __future__ import annotations

import concurrent.futures
import dataclasses
import itertools
import math
import os
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from smex._C import factorise, heaviest_point, home_tiles, live_bytes, planners, price, with_shards
from smex._C import search as native_search
from smex._logging import logger
from smex.capture import CapturedGraph
from smex.errors import PlanError, SmexTypeError, SmexValueError
from smex.machine import Machine
from smex.pins import Pins, resolve
from smex.plan import Plan, view_targets
from smex.semantic import SemanticGraph
from smex.text import placement_words, size_words

REPLICATE_BYTES = 64 * 1024
"""Gathering less than this costs a latency rather than bandwidth."""

_ALL_BYTES = 2**62
_MOST_STATES = 1_000_000
_MOST_WORKERS = 2**31 - 1  # the native library numbers workers by 32 bits
_REFINED = 3  # so many steps are refined by default, and compared
_COMPARED = 1000  # calls of a graph for which other planners are tried too
_ORDERED = 2000  # calls of all graphs that are searched for other orders of the steps
_ATTEMPTS = 12  # to keep to a memory limit
_TRIED_WORKERS, _TRIED_CALLS = 512, 500_000  # of all workers, to advise how many would do
_SUBSETS = 50  # of pins of one size that are searched for the fewest that conflict
_SHARES = (0.85, 0.7, 0.55, 0.4)  # of a limit that may be better for the first steps


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
    pinned: Pins | None = None,
    mesh: Sequence[int] | None = None,
    refine: bool | None = None,
    joint: int = 1,
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
            `Plan.peak_bytes` counts it, with the optimiser's states.
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

    Raises:
        PlanError: unknown objective or name, a number out of range, a placement or mesh that does
            not fit, or no plan within the limit.
        SmexValueError: unknown planner, or more workers than the machine has.
        SmexTypeError: no graph, no machine, or another argument of the wrong type.
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
    if not isinstance(planner, str):
        raise SmexTypeError(f'search: planner must be text, such as "tofu", got {planner!r}')
    if not isinstance(workers, int) or isinstance(workers, bool) or workers < 1:
        raise PlanError(f"search: workers must be an int of at least 1, got {workers!r}")
    if workers > _MOST_WORKERS:
        raise PlanError(f"search: workers must be at most {_MOST_WORKERS}, got {workers!r}")
    if memory_limit is not None and not _is_number(memory_limit, least=1):
        raise PlanError(
            f"search: memory_limit must be a finite number of at least 1 byte, got {memory_limit!r}"
        )
    if not _is_number(optimizer_states, least=0, most=_MOST_STATES):
        raise PlanError(
            f"search: optimizer_states must be a number from 0 to {_MOST_STATES}, "
            f"got {optimizer_states!r}"
        )
    if replicate_bytes is None:
        cut_all = objective == "communication" and memory_limit is None
        replicate_bytes = REPLICATE_BYTES if cut_all else _ALL_BYTES
    if type(replicate_bytes) is not int or replicate_bytes < 0:
        raise PlanError(
            f"search: replicate_bytes must be an int of at least 0, got {replicate_bytes!r}"
        )
    replicate_bytes = min(replicate_bytes, _ALL_BYTES)
    if refine is not None and not isinstance(refine, bool):
        raise SmexTypeError(f"search: refine must be True, False or None, got {refine!r}")
    if type(seed) is not int or not 0 <= seed < 2**64:
        raise PlanError(f"search: seed must be an int from 0 to 2**64 - 1, got {seed!r}")
    if type(joint) is not int or joint not in (1, 2):
        raise PlanError(f"search: expected 1 or 2 steps to choose together (joint), got {joint!r}")
    steps = _steps(workers, mesh, planner)
    request = Request(
        steps, planner, objective, machine, memory_limit, optimizer_states, replicate_bytes,
        refine=refine, joint=joint, seed=seed,
    )  # fmt: skip
    # Each request reads the pins, for its own mesh.
    pins = {} if pinned is None else list(pinned) if isinstance(pinned, Iterator) else pinned
    requests, others = [request], list[Request]()
    if planner == "tofu" and mesh is None:
        requests += [dataclasses.replace(request, mesh=other) for other in _longer_steps(request)]
        orders = _other_orders(graph, request, [known.mesh for known in requests])
        others = [dataclasses.replace(request, mesh=other) for other in orders]
    if planner == "tofu" and memory_limit is None:
        requests += [rival for own in list(requests) for rival in _rivals(graph, own)]
    requests += others
    if joint > 1:  # which may need tensors to be merged that single steps keep apart
        requests.append(dataclasses.replace(request, joint=1))
    return _cheapest(graph, requests, pins)


@dataclasses.dataclass(frozen=True)
class Shards:
    """What a tensor was cut into: its placement, and by worker whether it holds a tile and which.

    Another capture of the same model may see the tensor through other views, whose granules differ:
    the placement alone would cut it elsewhere.
    """

    placement: list[int]
    tiles: list[tuple[bool, list[tuple[int, int]]]]


def search_again(
    graph: SemanticGraph, first: Plan, shards: Mapping[str, Shards], pinned: Pins
) -> Plan:
    """Plans another capture of the model that `first` is a plan of, whose shards exist.

    They stay as they are; what an operator needs otherwise is fetched when it runs. Pins that this
    capture has no place for, such as one of an input that is smaller now, are left out.
    """
    request = dataclasses.replace(first.request, mesh=list(first.mesh), shards=shards)
    requests = [request]
    if request.planner == "tofu" and request.memory_limit is None:
        requests += _rivals(graph, request)
    try:
        return _cheapest(graph, requests, pinned)
    except PlanError as error:
        if not pinned:
            raise
        logger.info("pins are left out of the plan of another capture: %s", error)
        return _cheapest(graph, requests, {})


def _cheapest(graph: SemanticGraph, requests: list[Request], pins: Pins) -> Plan:
    """The first of the cheapest plans; the searches run at the same time.

    Where no request has a plan the error is that of the first, as pins may fit the meshes of some.
    """
    if len(requests) == 1:
        return requests[0].find(graph, pins)
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        searches = [pool.submit(request.attempt, graph, pins) for request in requests]
    plans, too_large, errors = [], [], []
    for request, search in zip(requests, searches, strict=True):
        try:
            plans.append(search.result())
        except NothingFitsError as error:
            too_large.append((request, error.least))
        except PlanError as error:
            errors.append(error)
    if not plans and too_large:
        request, least = too_large[0]
        raise request.explained(graph, pins, least)
    if not plans:
        raise errors[0]
    plan = min(plans, key=_cost)
    # What explains the plan, or searches it again with pins, compares all that is allowed.
    asked = dataclasses.replace(plan.request, planner=requests[0].planner)
    return Plan(graph, plan.native, asked, plan.pinned)


def _rivals(graph: SemanticGraph, request: Request) -> list[Request]:
    """The other planners, of which a recursion of several steps might be the worse one.

    A single step is never worse; many steps and large graphs take too long to be searched so
    often.
    """
    if not 2 <= len(request.mesh) <= _REFINED or len(graph.captured.ops) > _COMPARED:
        return []
    # These replicate tensors that a recursion for the fewest bytes has to cut.
    replicating = ["data_parallel", "fsdp"] if request.replicate_bytes < _ALL_BYTES else []
    names = [name for name in planners() if name not in ["random", "tofu", *replicating]]
    return [dataclasses.replace(request, planner=name) for name in names]


def _longer_steps(request: Request) -> list[list[int]]:
    """Meshes of fewer steps, which have fewer ways to cut but pay a latency less often."""
    steps, machine = request.mesh, request.machine
    meshes = [[math.prod(steps)]] if len(steps) > 1 else []
    if meshes and machine and request.objective == "time":
        meshes.append(machine.mesh(math.prod(steps)) or steps)
    return [mesh for n, mesh in enumerate(meshes) if mesh not in [steps, *meshes[:n]]]


def _other_orders(
    graph: SemanticGraph, request: Request, known: list[list[int]]
) -> list[list[int]]:
    """Ways to write the workers as a product that are not known, where graphs are small enough.

    Early steps decide for later ones, so that their sizes and their order count.
    """
    calls = len(graph.captured.ops)
    is_small = request.memory_limit is None and calls <= _COMPARED
    most = _ORDERED // max(1, calls) if is_small else 0
    products = (mesh for mesh in _products(math.prod(request.mesh)) if mesh not in known)
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


def _is_number(x: Any, least: float, most: float = sys.float_info.max) -> bool:
    return isinstance(x, (int, float)) and not isinstance(x, bool) and least <= x <= most


def _steps(workers: int, mesh: Sequence[int] | None, planner: str) -> list[int]:
    """The workers of the recursive steps."""
    if mesh is None:
        one_step = planner in ("data_parallel", "equal_chop", "fsdp") and workers > 1
        return [workers] if one_step else factorise(workers)
    if not isinstance(mesh, Iterable):
        raise SmexTypeError(f"search: mesh must list the workers of each step, got {mesh!r}")
    steps = list(mesh)
    fits = all(type(parts) is int and parts > 1 for parts in steps)
    if not fits or math.prod(steps) != workers:
        raise PlanError(
            f"search: expected a mesh of ints above 1 whose product is {workers}, found {mesh!r}"
        )
    return steps


class NothingFitsError(Exception):
    """No plan keeps to the memory limit; `least` is the one found that exceeds it least."""

    def __init__(self, least: Plan):
        super().__init__()
        self.least = least


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
    refine: bool | None
    joint: int
    seed: int
    shards: Mapping[str, Shards] = dataclasses.field(default_factory=dict)

    def find(self, graph: SemanticGraph, pinned: Pins) -> Plan:
        """The plan with these placements."""
        try:
            return self.attempt(graph, pinned)
        except NothingFitsError as error:
            raise self.explained(graph, pinned, error.least) from None

    def attempt(self, graph: SemanticGraph, pinned: Pins) -> Plan:
        """The same; where nothing keeps to the memory limit, what is needed to explain it."""
        pins = resolve(pinned, graph, self.mesh)
        plan = self._search(graph, pins)
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
        limit = self.memory_limit
        return (
            plan if limit is None or self._keeps(plan) else self._within_memory(graph, pins, plan)
        )

    def explained(self, graph: SemanticGraph, pinned: Pins, least: Plan) -> PlanError:
        """The error that tells a caller that nothing fits."""
        return PlanError(self._too_large(graph, resolve(pinned, graph, self.mesh), least))

    @property
    def native_machine(self) -> Any:
        """The machine for this mesh, or None."""
        return self.machine and self.machine.native(self.mesh)

    def _search(
        self,
        graph: SemanticGraph,
        pins: Mapping[str, list[int]],
        memory_limit: float | None = None,
    ) -> Plan:
        """A plan with the pins; of tensors' homes within the limit."""
        ids = {graph.value_by_name[name]: pin for name, pin in pins.items()}
        existing = {
            graph.value_by_name[name]: shards
            for name, shards in self.shards.items()
            if name in graph.value_by_name
        }
        ids |= {value: shards.placement for value, shards in existing.items()}
        machine = self.native_machine
        found = native_search(
            graph.native, self.mesh, self.planner, self.replicate_bytes, ids,
            machine=machine if self.objective == "time" else None, seed=self.seed,
            refine=len(self.mesh) <= _REFINED if self.refine is None else self.refine,
            memory_limit=memory_limit, joint=self.joint,
            optimizer_states=self.optimizer_states, views=view_targets(graph),
        )  # fmt: skip
        if machine is not None and self.objective != "time":
            found = price(graph.native, found, machine)
        if existing:
            tiles = {value: shards.tiles for value, shards in existing.items()}
            found = with_shards(graph.native, found, tiles)
        return Plan(graph, found, self, pins)

    # ---- memory ----

    def _keeps(self, plan: Plan) -> bool:
        """Whether the predicted peak keeps to the limit. Far above it the homes tell, sooner."""
        assert self.memory_limit is not None
        return _homes(plan) <= 1.1 * self.memory_limit and plan.peak() <= self.memory_limit

    def _within_memory(
        self, graph: SemanticGraph, pins: Mapping[str, list[int]], free: Plan
    ) -> Plan:
        """The cheapest plan whose predicted peak keeps to the limit, which `free` does not.

        The search counts the homes of tensors. Where what a plan fetches beside them exceeds the
        limit, it is searched again with so much less. The recursion spends memory step by step,
        and may do better, or fit at all, with less in the first ones or with fewer replicas.
        """
        assert self.memory_limit is not None
        several = len(self.mesh) > 1
        limit, best, tried = self.memory_limit, None, list[Plan]()
        while best is None and limit > 0 and len(tried) < _ATTEMPTS:
            tried.append(self._search(graph, pins, limit))
            if not tried[-1].native.fits:
                break
            excess = tried[-1].peak() - self.memory_limit
            if excess <= 0:
                best = tried[-1]
            else:
                limit -= max(excess, self.memory_limit / 256)
        exact = best is not None and len(tried) == 1 and best.exact and not several

        def consider(plan: Plan) -> None:
            nonlocal best
            tried.append(plan)
            if (best is None or _cost(plan) < _cost(best)) and self._keeps(plan):
                best = plan

        for share in _SHARES if several else ():
            consider(self._search(graph, pins, limit * share))
        for most in (REPLICATE_BYTES, 0) if several else ():
            if most < self.replicate_bytes:
                consider(dataclasses.replace(self, replicate_bytes=most)._search(graph, pins))
        if best is None:
            raise NothingFitsError(min(tried, key=_homes))
        if not exact:
            best.native.exact = False
            best.native.gap = max(0.0, 1 - _cost(free) / _cost(best)) if _cost(best) else 0.0
        return best

    def _too_large(self, graph: SemanticGraph, pins: Mapping[str, list[int]], least: Plan) -> str:
        """Says how much is missing, where, and what would help."""
        assert self.memory_limit is not None
        named = self._to_leave_out(graph, pins)
        if named:
            words = ", ".join(
                f'"{name}" as {placement_words(pins[name], self.mesh)}' for name in named
            )
            return (
                f"search: no plan for {least.workers} workers with {words} fits "
                f"{size_words(self.memory_limit)} each: the smallest found takes "
                f"{size_words(least.peak())}; without one of these pins there is one"
            )
        op_id, _, _ = heaviest_point(graph.native, least.native, view_targets(graph))
        op = graph.captured.ops[op_id]
        where = f"{op.target}{f' at {op.source}' if op.source else ''}"
        kept = least.parameter_bytes() * (1 + self.optimizer_states)
        more = self._enough_workers(graph, least)
        return (
            f"search: no plan for {least.workers} workers fits {size_words(self.memory_limit)} "
            f"each: the smallest found takes {size_words(least.peak())}, "
            f"{size_words(least.peak() - self.memory_limit)} too many, at {where}, of which "
            f"{size_words(kept)} are parameters and the optimiser's states; take "
            f"{f'{more} workers or ' if more else ''}a smaller batch"
            f"{', more workers alone did not help' if more == 0 else ''}"
        )

    def _enough_workers(self, graph: SemanticGraph, least: Plan) -> int | None:
        """More workers, with which something fits; 0: not even with four times what should do.

        None: the machine has not so many, or they are too many to try.
        """
        assert self.memory_limit is not None
        workers = least.workers * 2 ** math.ceil(math.log2(least.peak() / self.memory_limit))
        for more in (workers, 2 * workers, 4 * workers):
            if more > _TRIED_WORKERS or more * len(graph.captured.ops) > _TRIED_CALLS:
                return None
            request = dataclasses.replace(self, mesh=factorise(more), replicate_bytes=0)
            try:
                if request._keeps(request._search(graph, {})):
                    return more
            except (PlanError, SmexValueError):
                return None
        return 0

    def _to_leave_out(self, graph: SemanticGraph, pins: Mapping[str, list[int]]) -> list[str]:
        """Pins with which nothing fits, while without any one of them something does.

        They are the fewest where there are not too many ways to choose so few.
        """
        limit = self.memory_limit
        assert limit is not None

        def fits(some: Mapping[str, list[int]]) -> bool:
            free = self._search(graph, some)
            try:
                return self._keeps(free) or bool(self._within_memory(graph, some, free))
            except NothingFitsError:
                return False

        if not pins or not fits({}):
            return []
        for size in range(1, len(pins)):
            if math.comb(len(pins), size) > _SUBSETS:
                break
            for names in itertools.combinations(pins, size):
                if not fits({name: pins[name] for name in names}):
                    return list(names)
        kept = dict(pins)
        for name in pins:
            fewer = {other: pin for other, pin in kept.items() if other != name}
            if not fits(fewer):
                kept = fewer
        return list(kept)


def _homes(plan: Plan) -> int:
    """The most bytes that are live in tensors' homes, by the largest tile of each.

    Sooner known than the peak, which is at least about as much.
    """
    return max(live_bytes(plan.graph.native, plan.native, view_targets(plan.graph)), default=0)


def _cost(plan: Plan) -> float:
    """What the search minimised."""
    return plan.seconds if plan.objective == "time" else float(plan.total_bytes)
