"""`smex.cluster.compare`: plans measured in turns, and data parallelism where that is faster."""

from __future__ import annotations

import contextlib
import copy
import dataclasses
import itertools
import statistics
import time
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import torch
from torch.distributed.device_mesh import DeviceMesh
from torch.utils import _pytree as pytree

from smex.capture import as_arguments
from smex.capture.origin import user_stacklevel
from smex.capture.swap import all_slots
from smex.cluster.planners import Found, plan
from smex.cluster.strategies import BASELINES, peaks_with_states
from smex.distributed.world import World, members_of, synchronize
from smex.errors import SlowPlanWarning, SmexTypeError, SmexValueError
from smex.execution.differences import refuse_differences
from smex.execution.initialise import init
from smex.execution.module import PartitionedModule
from smex.execution.partition import partition
from smex.planning.cluster import Cluster
from smex.planning.devices import device_of
from smex.planning.plan import Plan
from smex.planning.search import search
from smex.planning.semantic import SemanticGraph
from smex.planning.simulation import simulate
from smex.text import aligned, duration_words, size_words

DATA_PARALLEL = (*BASELINES, "data_parallel", "homes")
"""Planners whose plans are data parallelism, and names of such plans."""
_OPTIONS = ("devices", "mesh", "processes", "inputs", "collectives", "deterministic", "timeout")
"""Of `smex.partition`."""
_TIMEOUT = 1800.0


@dataclasses.dataclass(frozen=True)
class Measured:
    """A plan that was measured.

    Attributes:
        name: of the plan.
        plan: itself.
        simulated_seconds: of a step; None where the plan has no machine.
        rounds: by round the seconds of each step, those of the slowest process.
        peak_bytes: of the worker with the most, predicted.
        is_data_parallel: whether it is data parallelism, which may be offered.
    """

    name: str
    plan: Plan
    simulated_seconds: float | None
    rounds: tuple[tuple[float, ...], ...]
    peak_bytes: int
    is_data_parallel: bool

    @property
    def seconds(self) -> float:
        """The median of all steps."""
        return statistics.median(itertools.chain(*self.rounds))

    @property
    def spread(self) -> float:
        """How far the medians of the rounds are apart, the slowest from the fastest."""
        medians = [statistics.median(seconds) for seconds in self.rounds]
        return max(medians) - min(medians)

    def __repr__(self) -> str:
        simulated = self.simulated_seconds
        told = "" if simulated is None else f", {duration_words(simulated)} simulated"
        return (
            f"Measured({self.name}: {duration_words(self.seconds)} a step, rounds within "
            f"{duration_words(self.spread)}{told}, peak {size_words(self.peak_bytes)} predicted)"
        )


@dataclasses.dataclass(frozen=True)
class Comparison:
    """What `smex.cluster.compare` has measured; prints as a table.

    Attributes:
        rows: by plan, in the order in which they were given.
    """

    rows: tuple[Measured, ...]

    def __getitem__(self, name: str) -> Measured:
        """Returns the row of a plan.

        Raises:
            SmexValueError: there is none of that name.
        """
        for row in self.rows:
            if row.name == name:
                return row
        names = ", ".join(row.name for row in self.rows)
        raise SmexValueError(f"comparison: expected one of {names}, found {name!r}")

    @property
    def fastest(self) -> Measured:
        """The plan with the least measured seconds, whatever the noise."""
        return min(self.rows, key=lambda row: row.seconds)

    @property
    def offered(self) -> Measured | None:
        """The row of `offer`."""
        first, *others = self.rows
        faster = [
            row
            for row in others
            if row.is_data_parallel and first.seconds - row.seconds > max(first.spread, row.spread)
        ]
        return min(faster, key=lambda row: row.seconds, default=None)

    @property
    def offer(self) -> Plan | None:
        """The fastest data parallel plan that is faster than the first plan, beyond the noise.

        Its median is below the first plan's by more than the larger of both spreads: by more than
        the rounds of either differ among themselves. None where there is no such plan.
        """
        return None if self.offered is None else self.offered.plan

    def __repr__(self) -> str:
        fastest = self.fastest
        words = f"{fastest.name} is the fastest with {duration_words(fastest.seconds)} a step"
        offer = "" if self.offered is None else f", {self.offered.name} is offered"
        return f"Comparison({len(self.rows)} plans: {words}{offer})"

    def __str__(self) -> str:
        head = ("plan", "simulated", "measured", "rounds within", "predicted peak", "")
        rows = [head]
        for row in self.rows:
            simulated = row.simulated_seconds
            rows.append(
                (
                    row.name,
                    "" if simulated is None else duration_words(simulated),
                    duration_words(row.seconds),
                    duration_words(row.spread),
                    size_words(row.peak_bytes),
                    "offered" if row is self.offered else "",
                )
            )
        return "\n".join([repr(self), *aligned(rows, right=(1, 2, 3, 4))])


def compare(
    model: torch.nn.Module,
    args: tuple | torch.Tensor,
    loss_fn: Callable | None,
    plans: Mapping[str, Plan | Found],
    *,
    steps: int = 5,
    rounds: int = 2,
    optimizer: Callable[[Iterable[torch.nn.Parameter]], torch.optim.Optimizer] | None = None,
    optimizer_states: float | None = None,
    init_fn: Callable[[torch.nn.Module], Any] | None = None,
    **options: Any,
) -> Comparison:
    """Measures a training step of each plan, and offers data parallelism where that is faster.

    In each round the model is divided by one plan after the other, takes a step that is not
    counted, and then `steps` more; one divided copy of the model is in memory at a time. Where no
    plan is data parallelism, the simulator's best of HeteroG's four that fits the devices is
    measured too, on the machine of the first plan: with a `smex.Cluster` that of "EV-PS", "EV-AR",
    "CP-PS" and "CP-AR", otherwise `planner="data_parallel"` of `smex.search`. Data parallelism is
    what these planners have found, and what has their names among `plans`.

    The model and torch's random numbers stay as they are. Of several processes all call this; they
    begin each step together, it takes as long as in the slowest one, and all return the same.

    Args:
        model: any module, also on the meta device: its values are those of `smex.init` then.
        args: the batch, with the target where there is a `loss_fn`.
        loss_fn: as of `smex.partition`; None where the model returns its loss.
        plans: by name what `smex.search` or `smex.cluster.plan` returned. The first is the one that
            others are compared with.
        steps: of each plan and round.
        rounds: 2 or more: what they differ by is the noise.
        optimizer: makes the optimiser, whose step is measured too. Without one a step is the loss
            and its gradients.
        optimizer_states: as of `smex.cluster.plan`, of data parallelism that is added and of plans
            that `smex.search` returned; by default those of the first plan.
        init_fn: of `smex.init`, of a model on the meta device.
        options: devices, mesh, processes, inputs, collectives, deterministic and timeout of
            `smex.partition`.

    Returns:
        The rows of all plans. Where `offer` is not None, a `smex.SlowPlanWarning` says so,
        in the first process.

    Raises:
        SmexTypeError: a plan or an option is none, or the net returns no loss.
        SmexValueError: no plans, fewer than 1 step or 2 rounds, or a plan's machine has too few
            workers.
        SmexRuntimeError: ranks were given other plans.
        PlanError: a plan does not fit the model.

    Example:
        >>> model = torch.nn.Linear(64, 64)
        >>> args, loss_fn = (torch.rand(256, 64), torch.rand(256, 64)), torch.nn.functional.mse_loss
        >>> graph = smex.capture_graph(model, args, loss_fn=loss_fn)
        >>> cluster = smex.cluster.heterog_testbed().first(2)
        >>> found = smex.cluster.plan(graph, cluster, "local", calls=8)
        >>> comparison = smex.cluster.compare(model, args, loss_fn, {"local": found}, steps=2)
        >>> len(comparison.rows), comparison["local"].seconds > 0
        (2, True)
    """
    _check(plans, steps, rounds, options)
    args = as_arguments(args)
    world = _world(options)
    with world.during("smex.cluster.compare"), _random_state_kept():
        told = {"plans": repr(list(plans)), "steps": str(steps), "rounds": str(rounds)}
        refuse_differences(world, "compare", told, "every rank must pass the same")
        first = _plan_of(next(iter(plans.values())))
        if optimizer_states is None:
            optimizer_states = first.options.optimizer_states
        every = dict(plans)
        if not any(_is_data_parallel(*item) for item in plans.items()):
            every |= _data_parallel(first, optimizer_states)
        bench = _Bench(model, args, loss_fn, optimizer, init_fn, options, world)
        taken: dict[str, list[tuple[float, ...]]] = {name: [] for name in every}
        for _ in range(rounds):
            for name, given in every.items():
                taken[name].append(bench.seconds(_plan_of(given), steps))
        comparison = Comparison(
            tuple(
                _row(name, given, tuple(taken[name]), optimizer_states)
                for name, given in every.items()
            )
        )
    if world.rank == 0:
        warn_of(comparison)
    return comparison


def warn_of(comparison: Comparison) -> None:
    """Warns where data parallelism measured faster than the first plan."""
    first, offered = comparison.rows[0], comparison.offered
    if offered is None:
        return
    noise = duration_words(max(first.spread, offered.spread))
    warnings.warn(
        f"compare: {first.name!r} takes {duration_words(first.seconds)} a step, and data "
        f"parallelism, {offered.name!r}, {duration_words(offered.seconds)}; rounds of either are "
        f"within {noise}. smex.partition(model, plan=comparison.offer) runs the latter, "
        "print(comparison) shows all plans",
        SlowPlanWarning,
        stacklevel=user_stacklevel(),
    )


def _check(plans: Any, steps: Any, rounds: Any, options: Mapping[str, Any]) -> None:
    if not isinstance(plans, Mapping) or not all(
        isinstance(name, str) and isinstance(given, (Plan, Found)) for name, given in plans.items()
    ):
        raise SmexTypeError(
            "compare: plans must be a dict of what smex.search or smex.cluster.plan returned, by "
            f"name, found {plans!r:.200}"
        )
    if not plans:
        raise SmexValueError("compare: expected 1 plan or more, found none")
    if type(steps) is not int or steps < 1:
        raise SmexValueError(f"compare: expected 1 step or more, found {steps!r}")
    if type(rounds) is not int or rounds < 2:
        raise SmexValueError(
            f"compare: expected 2 rounds or more, which tell the noise, found {rounds!r}"
        )
    for name in options:
        if name not in _OPTIONS:
            raise SmexTypeError(
                f"compare: expected options of smex.partition among {', '.join(_OPTIONS)}, found "
                f"{name!r}"
            )


def _plan_of(given: Plan | Found) -> Plan:
    return given.plan if isinstance(given, Found) else given


def _is_data_parallel(name: str, given: Plan | Found) -> bool:
    return name in DATA_PARALLEL or given.planner in DATA_PARALLEL


def _world(options: Mapping[str, Any]) -> World:
    """Returns the processes that take part, as `smex.partition` has them."""
    mesh = options.get("mesh")
    mesh = mesh if isinstance(mesh, DeviceMesh) else None
    members = [0]
    if options.get("processes") is None:
        members = members_of(mesh)
    if len(members) == 1:
        return World.alone(1)
    devices = options.get("devices")
    one = devices if devices is None or isinstance(devices, (str, torch.device)) else devices[0]
    place = device_of(one, mesh, "compare")
    return World.of(members, len(members), place.type, options.get("timeout", _TIMEOUT))


@contextlib.contextmanager
def _random_state_kept() -> Iterator[None]:
    used = torch.cuda.is_available() and torch.cuda.is_initialized()
    with torch.random.fork_rng(range(torch.cuda.device_count()) if used else []):
        yield


def _data_parallel(first: Plan, optimizer_states: float) -> dict[str, Plan | Found]:
    """Returns the best data parallelism by the simulator, by its name; nothing where none fits.

    Args:
        first: of which it has the graph, the workers and the machine.
        optimizer_states: see `compare`.
    """
    graph = SemanticGraph(first.graph.captured)
    if not isinstance(first.machine, Cluster):
        found = search(
            graph, first.workers, planner="data_parallel", machine=first.machine,
            objective="communication" if first.machine is None else "time",
            optimizer_states=optimizer_states,
        )  # fmt: skip
        return {"data_parallel": found}
    every = [
        plan(graph, first.machine, name, first.workers, optimizer_states=optimizer_states)
        for name in BASELINES
    ]
    fitting = [found for found in every if found.fits]
    if not fitting:
        return {}
    best = min(fitting, key=lambda found: found.seconds)
    return {best.planner: best}


def _row(
    name: str,
    given: Plan | Found,
    rounds: tuple[tuple[float, ...], ...],
    optimizer_states: float,
) -> Measured:
    simulated: float | None = None
    if isinstance(given, Found):
        simulated, peaks = given.seconds, given.peak_bytes
    else:
        peaks = peaks_with_states(given, optimizer_states)
        if given.machine is not None:
            simulated = simulate(given).seconds
    is_data_parallel = _is_data_parallel(name, given)
    return Measured(name, _plan_of(given), simulated, rounds, max(peaks), is_data_parallel)


@dataclasses.dataclass(frozen=True)
class _Bench:
    """Divides copies of a model by plans, and measures steps."""

    model: torch.nn.Module
    args: tuple
    loss_fn: Callable | None
    optimizer: Callable[[Iterable[torch.nn.Parameter]], torch.optim.Optimizer] | None
    init_fn: Callable[[torch.nn.Module], Any] | None
    options: Mapping[str, Any]
    world: World

    def seconds(self, plan: Plan, steps: int) -> tuple[float, ...]:
        """By step the seconds of the slowest process, after a step that binds the program."""
        model, loss_fn = copy.deepcopy((self.model, self.loss_fn))
        is_blank = any(slot.tensor.is_meta for slot in all_slots(model, loss_fn))
        args = pytree.tree_map_only(torch.Tensor, _copied, self.args)
        net = partition(
            model, loss_fn=loss_fn, args=args, plan=plan, keep_model=False, **self.options
        )
        if is_blank:
            init(net, init_fn=self.init_fn)
        optimizer = self.optimizer and self.optimizer(list(net.parameters()))
        taken = [self._step(net, args, optimizer) for _ in range(1 + steps)]
        return tuple(max(each) for each in zip(*self.world.gather(taken), strict=True))[1:]

    def _step(
        self, net: PartitionedModule, args: tuple, optimizer: torch.optim.Optimizer | None
    ) -> float:
        self.world.gather(None)  # all begin together
        started = time.perf_counter()
        net.zero_grad()
        loss = net(*args)
        if not isinstance(loss, torch.Tensor) or loss.numel() != 1:
            raise SmexTypeError(
                "compare: the net must return its loss, a tensor of one element; pass loss_fn, "
                "and the target as the last of args"
            )
        loss.backward()
        if optimizer is not None:
            optimizer.step()
        for device in set(net.devices):
            synchronize(device)
        return time.perf_counter() - started


def _copied(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.detach().clone().requires_grad_(tensor.requires_grad)
