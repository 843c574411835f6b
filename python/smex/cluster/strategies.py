"""HeteroG's strategies of a captured graph on a cluster, and what they take (§4.1.2, §3.3).

A strategy is an action for each group of operators. Of M workers' M + 4 actions the first M let one
worker run the group alone; the others cut the batch, into even parts (EV) or in proportion to how
fast workers are (CP), with parameters that one worker holds each, as a parameter server does (PS),
or all workers hold (AR: gradients are summed by AllReduce).

    T(actions) = simulated seconds of the program that `compose -> lower` makes of them
                 -> `Strategies.evaluate`, csrc/partition/search/strategies.h
    fits       = on every worker, peak bytes of that program <= the memory of its device
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Sequence

from smex._C import Evaluation as NativeEvaluation
from smex._C import Plan as NativePlan
from smex._C import Strategies as NativeStrategies
from smex._C import op_prices, parameter_bytes_by_worker, price
from smex.capture import CapturedGraph
from smex.cluster.grouping import edges_of, nearest_groups, neighbours_of
from smex.errors import SmexTypeError, SmexValueError
from smex.planning.cluster import Cluster, Device, Link
from smex.planning.options import REPLICATE_BYTES
from smex.planning.placed import view_targets
from smex.planning.plan import Plan
from smex.planning.search import search
from smex.planning.semantic import SemanticGraph

BASELINES = ("EV-PS", "EV-AR", "CP-PS", "CP-AR")
"""The data-parallel actions, in the paper's order: action M + n is number n."""
MOST_GROUPS = 2000
"""HeteroG's N (§5)."""
_REPEATED = 1.1
"""So many times the work of the workers means that they repeat each other's."""

Actions = tuple[int, ...]
"""By group the number of an action."""


@dataclasses.dataclass(frozen=True)
class Evaluation:
    """What a strategy takes.

    Attributes:
        seconds: of an iteration.
        peak_bytes: by worker, the optimiser's states included.
        excess_bytes: how many bytes the workers are short of, all together; 0 where it fits.
        critical: by group its seconds on the critical path of the iteration; those of a message or
            a fetch are in equal parts its maker's and its readers'.
    """

    seconds: float
    peak_bytes: tuple[int, ...]
    excess_bytes: float
    critical: tuple[float, ...] = dataclasses.field(repr=False)

    @property
    def fits(self) -> bool:
        """Whether no device is out of memory."""
        return self.excess_bytes == 0

    @property
    def key(self) -> tuple[float, float]:
        """Orders evaluations: what is short of fewer bytes is better, then what is faster."""
        return self.excess_bytes, self.seconds


class Strategies:
    """All strategies of a graph on a cluster.

    Args:
        graph: what `smex.capture_graph` or `smex.capture` returns.
        cluster: what runs it; each device's own `memory` is what has to suffice.
        workers: use the first so many only; by default all.
        groups: N, the most groups of ops.
        optimizer_states: so many tensors of each parameter's size are kept beside it.

    Attributes:
        cluster: of the workers that are used.
        group_of: by op its group.
        neighbours: by group the groups that read its results or make what it reads.
        modules: by group the path of its longest op's module, "" where it is of none.
        names: of the actions: "G0", ..., then those of `BASELINES`.
        calls: of the simulator so far. A strategy that was evaluated before costs none.

    Raises:
        SmexTypeError: no graph or no cluster.
        SmexValueError: more workers than the cluster has, or numbers that are below their least.

    Example:
        >>> graph = smex.capture_graph(torch.nn.Linear(64, 64), (torch.rand(256, 64),))
        >>> strategies = smex.cluster.Strategies(graph, smex.cluster.heterog_testbed(), groups=8)
        >>> found = strategies.evaluate(strategies.uniform("CP-AR"))
        >>> found.fits, strategies.calls
        (True, 1)
    """

    def __init__(
        self,
        graph: SemanticGraph | CapturedGraph,
        cluster: Cluster,
        workers: int | None = None,
        *,
        groups: int = MOST_GROUPS,
        optimizer_states: float = 0,
    ):
        graph = SemanticGraph(graph) if isinstance(graph, CapturedGraph) else graph
        if not isinstance(graph, SemanticGraph):
            raise SmexTypeError(
                "strategies: expected what smex.capture_graph returns, found "
                f"{type(graph).__name__}"
            )
        if not isinstance(cluster, Cluster):
            raise SmexTypeError(f"strategies: expected a smex.Cluster, found {cluster!r}")
        if type(groups) is not int or groups < 1:
            raise SmexValueError(f"strategies: expected 1 group or more, found {groups!r}")
        if not isinstance(optimizer_states, (int, float)) or not optimizer_states >= 0:
            raise SmexValueError(
                f"strategies: expected optimizer_states from 0 on, found {optimizer_states!r}"
            )
        self.cluster = cluster if workers is None else cluster.first(workers)
        self.optimizer_states = optimizer_states
        even, self._speed = _bases(graph, self.cluster)
        self.graph = self._speed.graph
        self._machine = self.cluster.native(list(self.mesh))
        self.edges = edges_of(self.graph.native)
        self.group_of = nearest_groups(self.mean_seconds, self.edges, groups)
        self.groups = max(self.group_of, default=-1) + 1
        self.neighbours = neighbours_of(
            self.groups,
            ((a, b) for a, b in self._group_edges() if a != b),
        )
        self.modules = self._modules()
        self._inside: dict[str, list[int]] = {}
        for group, path in enumerate(self.modules):
            for outer in _outer_modules(path):
                self._inside.setdefault(outer, []).append(group)
        self.names = [f"G{worker}" for worker in range(self.workers)] + list(BASELINES)
        self.calls = 0
        self._known: dict[Actions, Evaluation] = {}
        by_number = [(worker, 0, False) for worker in range(self.workers)]
        by_number += [(-1, base, homes) for base in (0, 1) for homes in (True, False)]
        self._native = NativeStrategies(
            self.graph.native, [even.native, self._speed.native], by_number, self.group_of,
            self._machine, view_targets(self.graph),
        )  # fmt: skip

    @property
    def workers(self) -> int:
        """M, how many there are."""
        return self.cluster.workers

    @property
    def mesh(self) -> tuple[int, ...]:
        """Of all plans: one step."""
        return self._speed.mesh

    def _modules(self) -> list[str]:
        leaders = [-1] * self.groups
        for op, group in enumerate(self.group_of):
            leader = leaders[group]
            if leader < 0 or self.mean_seconds[op] > self.mean_seconds[leader]:
                leaders[group] = op
        ops = list(self.graph.native.ops)
        return [ops[leader].module_path for leader in leaders]

    def family(self, group: int, outwards: int = 0) -> list[int]:
        """Returns the groups of the same module, forward and backward, itself among them.

        Args:
            group: whose module it is.
            outwards: of the module around that, and so on; of one that has more than half of all
                groups it is the one inside of it.
        """
        found = [group]
        for outer in _outer_modules(self.modules[group])[: outwards + 1]:
            inside = self._inside[outer]
            if 2 * len(inside) > self.groups:
                break
            found = inside
        return found

    def _group_edges(self) -> list[tuple[int, int]]:
        return [(self.group_of[a], self.group_of[b]) for a, b in self.edges]

    @functools.cached_property
    def seconds_by_kind(self) -> dict[str, list[float]]:
        """By kind of device the seconds that each op takes on one that runs it alone."""
        kinds = {device.name: device for device in self.cluster.devices}
        return {name: _alone_seconds(self.graph, device) for name, device in kinds.items()}

    @functools.cached_property
    def mean_seconds(self) -> list[float]:
        """By op the average of the devices."""
        found = [0.0] * len(self.graph.native.ops)
        for device in self.cluster.devices:
            own = self.seconds_by_kind[device.name]
            found = [a + b for a, b in zip(found, own)]
        return [total / self.workers for total in found]

    def uniform(self, name: str) -> Actions:
        """Returns the same action for all groups: "G0", or one of `BASELINES`.

        Raises:
            SmexValueError: there is no such action.
        """
        if name not in self.names:
            raise SmexValueError(
                f"strategies: expected one of {', '.join(self.names)}, found {name!r}"
            )
        return (self.names.index(name),) * self.groups

    def _checked(self, actions: Sequence[int]) -> Actions:
        found = tuple(int(action) for action in actions)
        if len(found) != self.groups or not all(0 <= a < len(self.names) for a in found):
            raise SmexValueError(
                f"strategies: expected for each of {self.groups} groups an action from 0 to "
                f"{len(self.names) - 1}, found {len(found)}: {list(actions)[:8]}"
            )
        return found

    def knows(self, actions: Actions) -> bool:
        """Returns whether a strategy was evaluated before."""
        return actions in self._known

    def evaluate(self, actions: Sequence[int]) -> Evaluation:
        """Simulates an iteration of a strategy; one call, none where it was evaluated before.

        Args:
            actions: by group a number of `names`.

        Raises:
            SmexValueError: it is not one action for each group.
        """
        return self.evaluate_all([actions])[0]

    def evaluate_all(self, strategies: Sequence[Sequence[int]]) -> list[Evaluation]:
        """The same for some strategies, of which several are simulated at once.

        Raises:
            SmexValueError: one is not one action for each group.
        """
        asked = [self._checked(actions) for actions in strategies]
        new = [actions for actions in dict.fromkeys(asked) if actions not in self._known]
        for actions, found in zip(new, self._native.evaluate(new), strict=True):
            self._known[actions] = self._evaluation(found)
        self.calls += len(new)
        return [self._known[actions] for actions in asked]

    def _evaluation(self, found: NativeEvaluation) -> Evaluation:
        peaks = _with_states(found.peak_bytes, found.parameter_bytes, self.optimizer_states)
        return Evaluation(found.seconds, peaks, excess(peaks, self.cluster), tuple(found.critical))

    def plan(self, actions: Sequence[int]) -> Plan:
        """Returns a strategy as a plan that runs; its planner is "heterog"."""
        native = self._native.plan(self._checked(actions))
        priced = price(self.graph.native, native, self._machine)
        return Plan(self.graph, priced, self._speed.options)

    def shares(self, actions: Sequence[int]) -> dict[str, float]:
        """Returns by action the share of ops that take it, those of none left out (Tables 2, 3)."""
        actions = self._checked(actions)
        counts = [0] * len(self.names)
        for group in self.group_of:
            counts[actions[group]] += 1
        total = max(len(self.group_of), 1)
        return {name: n / total for name, n in zip(self.names, counts, strict=True) if n}

    def __repr__(self) -> str:
        return (
            f"Strategies({self.graph.captured.name}: {len(self.group_of)} ops in {self.groups} "
            f"groups, {len(self.names)} actions each, on {self.cluster!r})"
        )


def _outer_modules(path: str) -> list[str]:
    """Returns a path and those of the modules around it, from inside out: a.b.c, a.b and a."""
    parts = path.split(".") if path else []
    return [".".join(parts[:count]) for count in range(len(parts), 0, -1)]


def excess(peaks: Sequence[int], cluster: Cluster) -> float:
    """Returns the bytes that a cluster's devices are short of for these peaks, all together."""
    pairs = zip(peaks, cluster.devices, strict=True)
    return sum(max(0.0, peak - device.memory) for peak, device in pairs)


def peaks_with_states(plan: Plan, optimizer_states: float) -> tuple[int, ...]:
    """Returns by worker the peak bytes of a plan, with the optimiser's states of what it holds."""
    held = parameter_bytes_by_worker(plan.graph.native, plan.native)
    return _with_states(plan.peak_bytes(), held, optimizer_states)


def _with_states(peaks: Sequence[int], held: Sequence[int], states: float) -> tuple[int, ...]:
    return tuple(int(peak + states * own) for peak, own in zip(peaks, held, strict=True))


def _alone_seconds(graph: SemanticGraph, device: Device) -> list[float]:
    """By op the seconds of a device that runs it whole."""
    link = Link(0.0, 1e12)
    alone = Cluster(device.name, (device,), (0,), link, (link,))
    whole = NativePlan()
    whole.mesh = []
    whole.values = [[] for _ in graph.native.values]
    whole.ops = [[] for _ in graph.native.ops]
    return [seconds for _, _, seconds in op_prices(graph.native, whole, alone.native([]))]


def _bases(graph: SemanticGraph, cluster: Cluster) -> tuple[Plan, Plan]:
    """Returns the plans that cut the batch evenly and by speed, parameters being one worker's each.

    Tensors that every worker may hold are those up to 64 KiB, or, where the batch would be held
    whole then, as of small models, those up to the largest vector among the parameters: what a
    batch normalisation makes of all rows.
    """

    def base(weights: str, most: int) -> Plan:
        return search(
            graph, cluster.workers, planner="homes", machine=cluster, weights=weights,
            replicate_bytes=most, recompute="checkpoints",
        )  # fmt: skip

    at_once = dataclasses.replace(
        cluster, devices=tuple(dataclasses.replace(each, launch=0.0) for each in cluster.devices)
    )
    vectors = [
        value.dtype.itemsize * value.shape[0]
        for value in graph.captured.values
        if value.role in ("parameter", "buffer") and len(value.shape) == 1
    ]
    even = base("even", REPLICATE_BYTES)
    cut = base("even", min(REPLICATE_BYTES, max(vectors, default=0)))
    work, least = (each.on(at_once).compute_seconds for each in (even, cut))
    if work > _REPEATED * least:
        even = cut
    return even, base("speed", even.replicate_bytes)
