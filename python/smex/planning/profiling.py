"""`smex.profile`: what the calls of a captured model take on a processor or a GPU."""

from __future__ import annotations

import collections
import dataclasses
import itertools
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np
import torch
from torch.distributed.device_mesh import DeviceMesh

from smex._C import edge_walks, lower, measure_calls
from smex.capture.records import CapturedGraph
from smex.distributed.world import World, members_of
from smex.errors import SmexTypeError, SmexValueError
from smex.planning.call_costs import CallCost, Calls
from smex.planning.devices import device_of
from smex.planning.least_squares import relative_weights
from smex.planning.machine import Machine
from smex.planning.placed import view_targets
from smex.planning.rates import one_thread
from smex.planning.search import search
from smex.planning.semantic import SemanticGraph

_RIDGE = 1e-3
_PLANNERS = ("tofu", "data_parallel")
_OF_GRAPHS = ("vertices", "features", "edges")
_WORKERS = (1, 2, 4, 8)
_CALL_SECONDS = {"cpu": 0.02, "cuda": 0.006}
"""By type of device how long a call is repeated."""
_MOST_KEPT = 32
"""Of the calls of one kind: more take predictions longer and tell little."""
_TIMEOUT = 1800.0
_CPU = torch.device("cpu")


def profile(
    graph: SemanticGraph | CapturedGraph,
    machine: Machine,
    *,
    mesh: DeviceMesh | None = None,
    processes: int | None = None,
    verbose: bool = False,
    device: str | torch.device | None = None,
) -> Machine:
    """Measures what the calls of a captured model take on a processor or a GPU here.

    Each kind of call runs by itself, with tiles as 1, 2, 4 and 8 workers have, on random numbers,
    in one thread or queued on one GPU: the model need not fit, its largest call must. The seconds
    are told from what a call does by non-negative least squares (HeteroG §3.3, there by batch
    size), and between sizes that were measured by what these differ. Calls that were never measured
    stay the roofline's.

    Args:
        graph: what `smex.capture` or `smex.capture_graph` returns.
        machine: whose links the result has, `smex.Machine.calibrate()`.
        mesh: of processes, which all call this, as for `Machine.calibrate`; the slowest counts.
        processes: 1 for this process alone, also under `torchrun`.
        verbose: whether a bar shows how far it is (where tqdm is installed).
        device: that is measured, by default the current one of the mesh's type, else the CPU.

    Returns:
        The machine, which knows those calls: for `smex.partition(..., machine=)`, for searches and
        timelines. It also serves for other models of the same operators, less exactly.

    Raises:
        SmexTypeError: no graph or no machine.
        SmexValueError: `processes` is another number, or given beside a mesh, or there is no such
            device.
        SmexImportError: scipy is not installed.
        RankFailure: another process has failed.
    """
    if isinstance(graph, CapturedGraph):
        graph = SemanticGraph(graph)
    if not isinstance(graph, SemanticGraph):
        raise SmexTypeError(
            f"profile: expected what smex.capture returns, got {type(graph).__name__}"
        )
    if not isinstance(machine, Machine):
        raise SmexTypeError(f"profile: expected a smex.Machine, got {type(machine).__name__}")
    if processes not in (None, 1) or isinstance(processes, bool) or (processes and mesh):
        raise SmexValueError(
            "profile: processes must be 1, or None for those of the mesh or of torch's default "
            f"group, got {processes!r}{' beside a mesh' if mesh is not None else ''}"
        )
    members = [0] if processes == 1 else members_of(mesh)
    place = device_of(device, mesh, "profile")
    with one_thread():
        if len(members) == 1:
            found = measured(graph, verbose, place)
        else:
            world = World.of(members, len(members), place.type, _TIMEOUT)
            with world.during("smex.profile"):
                world.gather(None)  # all begin together
                everywhere = world.gather(measured(graph, verbose and world.rank == 0, place))
            found = _slowest(everywhere)
    return dataclasses.replace(machine, calls={**machine.calls, **fitted(found)})


@dataclasses.dataclass(frozen=True)
class Sample:
    """A call that was measured: its features (see `CallCost.weights`) and its seconds."""

    kind: str
    target: str
    itemsize: int
    features: tuple[float, ...]
    seconds: float


def measured(
    graph: SemanticGraph,
    verbose: bool,
    device: torch.device = _CPU,
    workers: Sequence[int] = _WORKERS,
) -> list[Sample]:
    """Returns what each kind of call took by itself on a device, with tiles of so many workers."""
    programs = programs_of(graph, workers)
    values = graph.captured.structure.values
    given = [value.tensor for value in values]
    # Calls that draw do so from torch's generators, which are the caller's too.
    drawing = [device.index] if device.type == "cuda" else []
    with _Bar(verbose) as progress, torch.random.fork_rng(devices=drawing):
        calls = measure_calls(
            programs, graph.native, 0, given, view_targets(graph),
            _CALL_SECONDS[device.type], progress, str(device),
        )  # fmt: skip
    return [
        Sample(call.kind, call.target, call.itemsize, tuple(call.features), call.seconds)
        for call in calls
    ]


def programs_of(graph: SemanticGraph, workers: Sequence[int] = _WORKERS) -> list[Any]:
    """Returns programs in which calls have tiles of several sizes and shapes."""
    planners = _PLANNERS + (_OF_GRAPHS if edge_walks(graph.native) else ())
    views = view_targets(graph)
    programs = []
    for count in workers:
        for planner in planners if count > 1 else planners[:1]:
            plan = search(graph, count, planner=planner, replicate_bytes=0)
            # Element-wise calls one by one too, as the search counts them.
            for join in (True, False):
                programs.append(lower(plan.graph.native, plan.native, views, join))
    return programs


def _slowest(everywhere: Sequence[Sequence[Sample]]) -> list[Sample]:
    """Returns each call as it went where it took longest."""
    found: dict[tuple[Any, ...], Sample] = {}
    for sample in itertools.chain(*everywhere):
        key = sample.kind, sample.itemsize, sample.features
        if key not in found or found[key].seconds < sample.seconds:
            found[key] = sample
    return list(found.values())


def fitted(found: Iterable[Sample]) -> Calls:
    """Returns the costs of what was measured, by kind of call and by operator.

    Weights are the non-negative least squares of relative errors (HeteroG §3.3 fits a line by
    operator and device). What they miss of a kind of call is kept, call by call.
    """
    groups = collections.defaultdict(list)
    kinds = set()
    for call in found:
        groups[call.kind, call.itemsize].append(call)
        kinds.add(call.kind)
        if call.target != call.kind:
            groups[call.target, call.itemsize].append(call)
    costs: Calls = {}
    for (name, itemsize), calls in groups.items():
        features = np.array([call.features for call in calls])
        seconds = np.array([max(call.seconds, 1e-9) for call in calls])
        weights = relative_weights("profile", features, seconds, _RIDGE)
        measured: tuple[tuple[float, ...], ...] = ()
        if name in kinds:
            factors = seconds / np.maximum(features @ weights, 1e-12)
            rows = sorted(np.column_stack([features[:, 1:4], factors]).tolist())
            chosen = np.linspace(0, len(rows) - 1, min(len(rows), _MOST_KEPT)).round().astype(int)
            measured = tuple(tuple(rows[n]) for n in chosen)
        cost = CallCost(tuple(map(float, weights)), measured)
        costs.setdefault(name, {})[itemsize] = cost
    return costs


class _Bar:
    """Shows the share that is done, where tqdm is installed."""

    def __init__(self, verbose: bool) -> None:
        self._bar: Any = None
        if verbose:
            try:
                from tqdm import tqdm
            except ImportError:
                return
            self._bar = tqdm(total=100, desc="calls", unit="%")

    def __enter__(self) -> Callable[[float], None] | None:
        return self._show if self._bar is not None else None

    def _show(self, share: float) -> None:
        self._bar.update(round(100 * share) - self._bar.n)

    def __exit__(self, *error: object) -> None:
        if self._bar is not None:
            self._bar.close()
