"""What plans are compared with that cut no tensors: estimates of Tofu's baselines (Tofu §7.1).

Each function takes a captured graph and a `smex.Machine` and returns an `Estimate`. An iteration is
forward, backward and the update of the parameters. Its calls run in the captured order, fused where
one device would run them fused, and take the roofline of `smex.Machine`. An update reads the
parameter, its gradient and the optimiser's states and writes the first and the last of these.
"""

from __future__ import annotations

import dataclasses
import functools
import heapq
import math
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from smex._C import Plan as _NativePlan
from smex._C import op_prices as _op_prices
from smex.capture.records import OpRecord, returns_view
from smex.errors import SmexTypeError, SmexValueError
from smex.planning.machine import GB, Machine
from smex.planning.plan import Plan
from smex.planning.search import search
from smex.planning.semantic import SemanticGraph
from smex.text import size_words

HOST_BANDWIDTH = 10 * GB
"""Bytes a second between the host's memory and all GPUs of Tofu's testbed together (§7.1)."""

COLUMN_PARALLEL = (
    *("query", "key", "value", "qkv", "q_proj", "k_proj", "v_proj"),
    *("up", "gate", "up_proj", "gate_proj", "fc1"),
)
"""Modules whose outputs Megatron divides."""

ROW_PARALLEL = ("proj", "o_proj", "out_proj", "down", "down_proj", "fc2")
"""Modules whose inputs Megatron divides."""

VOCABULARY_PARALLEL = ("tokens", "embed_tokens", "wte", "head", "lm_head")
"""Embeddings and output layers whose vocabulary Megatron divides."""


@dataclasses.dataclass(frozen=True)
class Estimate:
    """What one iteration takes.

    Attributes:
        name: of the baseline.
        seconds: of one iteration.
        samples: what all workers together have trained on after it.
        peak_bytes: of the fullest worker, the optimiser's states included.
        moved_bytes: between workers, or to and from the host, of all workers together.
        memory: bytes that a worker has.
    """

    name: str
    seconds: float
    samples: int
    peak_bytes: float
    moved_bytes: float
    memory: float

    @property
    def samples_per_second(self) -> float:
        """The throughput of all workers."""
        return self.samples / self.seconds if self.seconds else math.inf

    @property
    def fits(self) -> bool:
        """Whether a worker has the memory."""
        return self.peak_bytes <= self.memory

    def __repr__(self) -> str:
        peak = size_words(self.peak_bytes)
        if not self.fits:
            peak += f" does not fit {size_words(self.memory)}"
        return (
            f"Estimate({self.name}: {self.samples_per_second:.4g} samples/s, {self.samples} in "
            f"{self.seconds:.4g} s, peak {peak}, moves {size_words(self.moved_bytes)})"
        )


def ideal(graph: SemanticGraph, machine: Machine, *, optimizer_states: float = 0) -> Estimate:
    """Every worker runs the graph's whole batch, communicates nothing and has infinite memory.

    Tofu's Ideal: the throughput of one GPU, at a batch that saturates it, times their number.

    Args:
        graph: what `smex.capture_graph` returns, with the batch of one worker; its samples are the
            first dimension of the first input.
        machine: what it runs on.
        optimizer_states: tensors of each parameter's size that the optimiser keeps, as for
            `smex.search`.

    Raises:
        SmexTypeError: no graph or no machine.
        SmexValueError: a graph without an input of at least one dimension.
    """
    found = _small_batch(graph, machine, optimizer_states)
    return dataclasses.replace(found, name="ideal", memory=math.inf)


def small_batch(graph: SemanticGraph, machine: Machine, *, optimizer_states: float = 0) -> Estimate:
    """Every worker runs the graph's whole batch in its own memory and communicates nothing.

    Tofu's SmallBatch, an upper bound of data parallelism; `largest_fitting` finds its batch.
    Arguments and errors are those of `ideal`.
    """
    return _small_batch(graph, machine, optimizer_states)


def planned(plan: Plan, *, optimizer_states: float = 0) -> Estimate:
    """What a plan that was searched with a machine takes, the update of the parameters included.

    Args:
        plan: with a machine.
        optimizer_states: as for `ideal`; the plan's own are not counted again.

    Raises:
        SmexTypeError: a plan without a machine.
    """
    if plan.machine is None:
        raise SmexTypeError("planned: the plan has no machine; give one to smex.search or plan.on")
    parameters = plan.parameter_bytes()
    return Estimate(
        plan.planner,
        plan.seconds + _update_seconds(parameters, plan.machine, optimizer_states),
        _samples(plan.graph),
        max(plan.peak_bytes()) + optimizer_states * parameters,
        plan.total_bytes,
        plan.machine.memory,
    )


def swapping(
    graph: SemanticGraph,
    machine: Machine,
    *,
    optimizer_states: float = 0,
    host_bandwidth: float = HOST_BANDWIDTH,
    policy: str = "belady",
) -> Estimate:
    """Every worker runs the graph's whole batch and keeps in the host's memory what has no room.

    Tofu's Swapping: any tensor may be swapped; one whose copy on the host is still right is dropped
    rather than copied again; copies are prefetched, so that an iteration takes the longer of its
    calls and of its copies. Copies in and copies out run at the same time. The host's bandwidth is
    shared by all workers. A parameter is updated as soon as its gradient is complete and the
    gradient is dropped then, which asks for the fewest copies. Counted is an iteration that follows
    another.

    Args:
        graph: as for `ideal`.
        machine: as for `ideal`.
        optimizer_states: as for `ideal`.
        host_bandwidth: bytes a second between the host and all workers, each way.
        policy: what goes first when room is needed: "lru", the tensor whose last use is the longest
            ago, or "belady", the one whose next use is the farthest ahead. Tofu's swaps by last use
            but for tensors needed soon, which lies between the two.

    Returns:
        The estimate; its peak is what was resident at most. Where the tensors of a single call
        exceed a worker's memory it is their bytes, so that the estimate does not fit.

    Raises:
        SmexTypeError: no graph or no machine.
        SmexValueError: unknown policy, or a bandwidth that is not above 0.
    """
    if policy not in ("belady", "lru"):
        raise SmexValueError(f'swapping: unknown policy "{policy}"; known are "belady" and "lru"')
    if not host_bandwidth > 0:
        raise SmexValueError(
            f"swapping: expected a host_bandwidth of more than 0, found {host_bandwidth!r}"
        )
    iteration = _Iteration(graph, machine, optimizer_states)
    steps = iteration.with_updates()
    needed = max(
        (sum(iteration.nbytes[s] for s in iteration.storages(step)) for step in steps), default=0
    )
    swap = _Swap(iteration, steps, max(machine.memory, needed), policy)
    swap.run()
    swap.brought = swap.written = 0
    swap.run()
    copying = max(swap.brought, swap.written) * machine.workers / host_bandwidth
    return Estimate(
        "swapping",
        max(sum(step.seconds for step in steps), copying),
        _samples(graph) * machine.workers,
        swap.peak,
        (swap.brought + swap.written) * machine.workers,
        machine.memory,
    )


def op_placement(
    graph: SemanticGraph,
    machine: Machine,
    layers: Sequence[str],
    *,
    devices: int | None = None,
    optimizer_states: float = 0,
) -> Estimate:
    """Every layer runs on one device; layers on different devices overlap where data allows it.

    Tofu's Operator Placement: layers go to the devices in turn. A device runs the first call, in
    the captured order, whose operands have arrived; a tensor is sent once to each device that reads
    it and takes the latency and bandwidth of the slowest link among the devices, whatever else is
    sent. Calls outside of the layers run where the first of their operands was made, else on the
    first device. Inputs are everywhere. Gradients are kept to the end of the iteration.

    Args:
        graph: with the batch of all devices together.
        machine: as for `ideal`.
        layers: module paths in order, as `["cells.0", "cells.1"]`.
        devices: how many; by default the machine's workers.
        optimizer_states: as for `ideal`.

    Raises:
        SmexTypeError: no graph or no machine.
        SmexValueError: a layer without a call, or a number of devices that the machine has not.
    """
    iteration = _Iteration(graph, machine, optimizer_states)
    devices = machine.workers if devices is None else devices
    if type(devices) is not int or not 1 <= devices <= machine.workers:
        raise SmexValueError(
            f"op_placement: expected 1 to {machine.workers} devices, found {devices!r}"
        )
    paths = {step.op.module_path for step in iteration.steps if step.op}
    for layer in layers:
        if not any(_within(path, layer) for path in paths):
            raise SmexValueError(f'op_placement: no call belongs to a module "{layer}"')
    schedule = _Schedule(iteration, layers, devices)
    schedule.run()
    return Estimate(
        "op_placement", max(schedule.free), _samples(graph), schedule.peak(),
        schedule.moved_bytes, machine.memory,
    )  # fmt: skip


def largest_fitting(
    estimate: Callable[[int], Estimate], batches: Iterable[int]
) -> tuple[int, Estimate] | None:
    """The largest of some batches whose estimate fits, as Tofu chooses them; None if none does.

    Example:
        >>> largest_fitting(lambda n: small_batch(capture(n), machine), [1, 2, 4])  # doctest: +SKIP
        (2, Estimate(small_batch: 31.2 samples/s, 16 in 0.5128 s, peak 9.1 GiB, moves 0 B))
    """
    for batch in sorted(batches, reverse=True):
        found = estimate(batch)
        if found.fits:
            return batch, found
    return None


def megatron(
    graph: SemanticGraph,
    mesh: Sequence[int],
    *,
    data_parallel_steps: int = 0,
    column: Sequence[str] = COLUMN_PARALLEL,
    row: Sequence[str] = ROW_PARALLEL,
    vocabulary: Sequence[str] = VOCABULARY_PARALLEL,
) -> dict[str, list[int]]:
    """The placements that Megatron-LM gives a transformer (Shoeybi et al., 2019, §3), as pins.

    Matrices that begin a block are cut by outputs, their biases too; those that end it by inputs,
    and each worker has their biases; the vocabulary is cut; all other parameters are replicated.
    Inputs are cut along the batch in the data-parallel steps and replicated in the others.

    Args:
        graph: of a transformer, each matrix the `weight` of a module, outputs by inputs.
        mesh: the workers of the steps, as `smex.search` takes them.
        data_parallel_steps: how many of the first steps divide the batch.
        column: last parts of the paths of modules that are cut by outputs.
        row: of those that are cut by inputs.
        vocabulary: of those that are cut along the vocabulary.

    Returns:
        Pins by name, for `smex.search(graph, workers, mesh=mesh, pinned=...)`. Intermediate results
        are left to the search; with `replicate_bytes` above the activations' size it may hold them
        whole as Megatron does.

    Raises:
        SmexValueError: no module has one of the names, or more data-parallel steps than steps.
    """
    if not 0 <= data_parallel_steps <= len(mesh):
        raise SmexValueError(
            f"megatron: expected 0 to {len(mesh)} data_parallel_steps, found {data_parallel_steps}"
        )
    tensor_steps = len(mesh) - data_parallel_steps
    pins = {}
    divided = 0
    for name, value_id in graph.value_by_name.items():
        value = graph.captured.values[value_id]
        replicas = [-1] * data_parallel_steps
        module, _, kind = name.rpartition(".")
        module = module.rpartition(".")[2]
        cut = -1
        if value.role == "input":
            replicas = [0 if value.shape else -1] * data_parallel_steps
        elif value.role == "parameter" and module in (*column, *vocabulary):
            cut = 0
        elif value.role == "parameter" and module in row and kind == "weight":
            cut = 1
        divided += cut >= 0
        pins[name] = replicas + [cut] * tensor_steps
    if tensor_steps and not divided:
        known = ", ".join((*column, *row, *vocabulary))
        raise SmexValueError(f"megatron: no module of the model is called one of {known}")
    return pins


# ---- one iteration on one device ----


def _samples(graph: SemanticGraph) -> int:
    """The first dimension of the first input."""
    inputs = [graph.captured.values[i] for i in graph.captured.inputs]
    if not inputs or not inputs[0].shape:
        raise SmexValueError(
            "baselines: the model's first input has no dimension whose size is the batch's"
        )
    return inputs[0].shape[0]


def _checked(graph: Any, machine: Any) -> None:
    if not isinstance(graph, SemanticGraph):
        raise SmexTypeError(f"baselines: expected a smex.SemanticGraph, found {graph!r}")
    if not isinstance(machine, Machine):
        raise SmexTypeError(f"baselines: expected a smex.Machine, found {machine!r}")


def _update_seconds(parameter_bytes: float, machine: Machine, states: float) -> float:
    """Parameter, gradient and states are read, parameter and states are written."""
    return parameter_bytes * (3 + 2 * states) / machine.memory_bandwidth


def _small_batch(graph: SemanticGraph, machine: Machine, optimizer_states: float) -> Estimate:
    _checked(graph, machine)
    plan = search(graph, 1, machine=machine)
    found = planned(plan, optimizer_states=optimizer_states)
    return dataclasses.replace(
        found, name="small_batch", samples=found.samples * machine.workers, moved_bytes=0
    )


def _within(path: str, layer: str) -> bool:
    """Whether a module's path is a layer's or lies below it."""
    return path == layer or path.startswith(f"{layer}.")


@dataclasses.dataclass
class _Step:
    """A call, or the update of a parameter, which has no op."""

    op: OpRecord | None
    seconds: float
    inputs: list[int]
    outputs: list[int]


def op_seconds(graph: SemanticGraph, machine: Machine) -> list[float]:
    """Seconds of every op of the graph on one worker."""
    plan = _NativePlan()
    plan.values = [[] for _ in graph.native.values]
    plan.ops = [[] for _ in graph.native.ops]
    return [compute for _, _, compute in _op_prices(graph.native, plan, machine.native([]))]


class _Iteration:
    """The steps of an iteration on one device, and the storages that they read and write.

    Attributes:
        steps: the calls in order.
        storage: by value the storage that holds it; views share their operand's.
        nbytes: by storage; those of the optimiser's states follow those of the graph's values.
        stays: storages of parameters, their states, buffers and constants.
        kept: storages of results.
    """

    def __init__(self, graph: SemanticGraph, machine: Machine, optimizer_states: float) -> None:
        _checked(graph, machine)
        self.graph, self.machine, self.states = graph, machine, optimizer_states
        captured = graph.captured
        self.steps = self._fused(op_seconds(graph, machine))
        self.storage = list(range(len(captured.values)))
        for step in self.steps:
            if step.op and returns_view(step.op):
                for output in step.outputs:
                    self.storage[output] = self.storage[step.inputs[0]]
        self.nbytes: list[float] = [
            math.prod(value.shape) * value.dtype.itemsize for value in captured.values
        ]
        self.stays = {
            value.id
            for value in captured.values
            if value.role in ("parameter", "buffer", "constant")
        }
        self.kept = {
            self.storage[output.value] for output in captured.outputs if output.value is not None
        }
        self._add_states()

    def storages(self, step: _Step) -> set[int]:
        """What a step reads and writes."""
        return {self.storage[value] for value in (*step.inputs, *step.outputs)}

    def last_uses(self, steps: Sequence[_Step]) -> dict[int, int]:
        """By storage the last step that touches it; for results it is the last of all."""
        last = {}
        for position, step in enumerate(steps):
            for storage in self.storages(step):
                last[storage] = position
        return last

    def peak_bytes(self) -> float:
        """What is alive at most, without updates and states, as `Plan.peak_bytes` counts it."""
        last = self.last_uses(self.steps)
        values = self.graph.captured.values
        alive = {value.id for value in values if value.role != "intermediate"}
        live = peak = sum(self.nbytes[storage] for storage in alive)
        for position, step in enumerate(self.steps):
            for storage in {self.storage[value] for value in step.outputs} - alive:
                alive.add(storage)
                live += self.nbytes[storage]
            peak = max(peak, live)
            for storage in self.storages(step) - self.stays - self.kept:
                if last[storage] == position:
                    live -= self.nbytes[storage]
        return peak

    @functools.cached_property
    def updates(self) -> list[tuple[_Step, int]]:
        """The update of every parameter that has a gradient, and the parameter."""
        found = []
        for output in self.graph.captured.outputs:
            if output.kind != "gradient" or output.value is None or output.target is None:
                continue
            if output.target not in self._state_of:
                continue
            seconds = _update_seconds(self.nbytes[output.target], self.machine, self.states)
            state = self._state_of[output.target]
            written = [output.target, state]
            found.append((_Step(None, seconds, [output.value, *written], written), output.target))
        return found

    def with_updates(self) -> list[_Step]:
        """The steps, and after the last use of a parameter and its gradient their update."""
        last = self.last_uses(self.steps)
        placed = [
            (position, 0, n, step) for position, (n, step) in enumerate(enumerate(self.steps))
        ]
        for n, (update, _) in enumerate(self.updates):
            position = max(last.get(storage, -1) for storage in self.storages(update))
            placed.append((position, 1, n, update))
        return [step for *_, step in sorted(placed, key=lambda entry: entry[:3])]

    def _add_states(self) -> None:
        """A storage for what the optimiser keeps of each parameter."""
        self._state_of: dict[int, int] = {}
        for value in self.graph.captured.with_role("parameter"):
            self._state_of[value.id] = len(self.nbytes)
            self.stays.add(len(self.nbytes))
            self.storage.append(len(self.nbytes))
            self.nbytes.append(self.states * self.nbytes[value.id])

    def _fused(self, seconds: list[float]) -> list[_Step]:
        """The calls that one device runs, a fused one in the place of its first member.

        A fused call runs where nobody else reads what its members pass to each other; of those
        that overlap the one with the most members does. It takes what its members take.
        """
        captured = self.graph.captured
        readers: dict[int, set[int]] = {}
        for op in captured.ops:
            for value in op.inputs():
                readers.setdefault(value, set()).add(op.id)
        results = {output.value for output in captured.outputs}
        taken: set[int] = set()
        first: dict[int, Any] = {}
        for fusion in sorted(captured.fusions, key=lambda f: -len(f.members)):
            members = set(fusion.members)
            inner = {v for m in members for v in captured.ops[m].outputs if v is not None}
            inner -= set(fusion.fused.outputs)
            alone = all(readers.get(v, set()) <= members for v in inner) and not inner & results
            if alone and not members & taken:
                taken |= members
                first[min(members)] = fusion
        steps = []
        for op in captured.ops:
            if op.id in first:
                fusion = first[op.id]
                steps.append(_step(fusion.fused, sum(seconds[m] for m in fusion.members)))
            elif op.id not in taken:
                steps.append(_step(op, seconds[op.id]))
        return steps


def _step(op: OpRecord, seconds: float) -> _Step:
    return _Step(op, seconds, op.inputs(), [i for i in op.outputs if i is not None])


class _Swap:
    """A device's memory while the steps of an iteration run, one iteration after the other.

    Attributes:
        brought: bytes copied from the host.
        written: bytes copied to the host.
        peak: bytes resident at most.
    """

    def __init__(
        self, iteration: _Iteration, steps: list[_Step], capacity: float, policy: str
    ) -> None:
        self._iteration, self._steps = iteration, steps
        self._capacity, self._belady = capacity, policy == "belady"
        self._nbytes = iteration.nbytes
        self._touched = [sorted(iteration.storages(step)) for step in steps]
        self._last = iteration.last_uses(steps)
        self._resident: dict[int, float] = {}  # storage: its key, the smallest goes first
        self._queue: list[tuple[float, int]] = []
        self._host: set[int] = set()  # storages whose copy on the host is right
        self._used = self.peak = self.brought = self.written = 0.0
        self._clock = 0
        gradients = {iteration.storage[update.inputs[0]] for update, _ in iteration.updates}
        self._until_end = iteration.kept - gradients - iteration.stays
        self._lasting = self._until_end | iteration.stays
        self._next = self._next_uses()

    def run(self) -> None:
        """One iteration; what stays is where the one before has left it."""
        for position, step in enumerate(self._steps):
            touched = self._touched[position]
            for storage in touched:
                if storage not in self._resident:
                    self._bring(storage, set(touched))
            self.peak = max(self.peak, self._used)
            written = {self._iteration.storage[value] for value in step.outputs}
            self._host -= written
            for storage, following in zip(touched, self._next[position], strict=True):
                key = -(self._clock + following) if self._belady else self._clock
                self._resident[storage] = key
                heapq.heappush(self._queue, (key, storage))
            self._clock += 1
            for storage in touched:
                if self._last[storage] == position and storage not in self._lasting:
                    self._drop(storage)
        for storage in self._until_end:
            self._drop(storage)

    def _bring(self, storage: int, pinned: set[int]) -> None:
        aside = []
        while self._used + self._nbytes[storage] > self._capacity and self._queue:
            entry = heapq.heappop(self._queue)
            key, victim = entry
            if self._resident.get(victim) != key:
                continue  # dropped, or touched again since
            if victim in pinned:
                aside.append(entry)
                continue
            if victim not in self._host:
                self.written += self._nbytes[victim]
                self._host.add(victim)
            self._used -= self._nbytes[victim]
            del self._resident[victim]
        for entry in aside:
            heapq.heappush(self._queue, entry)
        if storage in self._host:
            self.brought += self._nbytes[storage]
        self._used += self._nbytes[storage]
        self._resident[storage] = -math.inf

    def _drop(self, storage: int) -> None:
        self._host.discard(storage)
        if storage in self._resident:
            del self._resident[storage]
            self._used -= self._nbytes[storage]

    def _next_uses(self) -> list[list[int]]:
        """By step and touched storage in how many steps it is touched again."""
        count = len(self._steps)
        upcoming: dict[int, int] = {}
        for position in reversed(range(count)):
            for storage in self._touched[position]:
                if storage in self._iteration.stays:
                    upcoming[storage] = position + count  # in the next iteration
        found: list[list[int]] = [[] for _ in range(count)]
        for position in reversed(range(count)):
            for storage in self._touched[position]:
                found[position].append(upcoming.get(storage, 2 * count) - position)
                upcoming[storage] = position
        return found


# ---- layers on devices ----


class _Schedule:
    """Steps on several devices, each of which runs one at a time.

    Attributes:
        free: by device when it has finished.
        moved_bytes: between devices.
    """

    def __init__(self, iteration: _Iteration, layers: Sequence[str], devices: int) -> None:
        self._iteration = iteration
        self._devices = devices
        self._steps = [*iteration.steps, *(update for update, _ in iteration.updates)]
        slowest = iteration.machine.links([devices] if devices > 1 else [])
        self._latency = max((link.latency for link in slowest), default=0.0)
        self._bandwidth = min((link.bandwidth for link in slowest), default=math.inf)
        self._producer = {
            value: n for n, step in enumerate(self._steps) if step.op for value in step.outputs
        }
        self.device = self._place(layers)
        self._home = self._homes()
        self.free = [0.0] * devices
        self.moved_bytes = 0.0
        self.finish = [0.0] * len(self._steps)
        self._start = [0.0] * len(self._steps)
        self._arrived: dict[tuple[int, int], float] = {}  # of a value on a device

    def run(self) -> None:
        """Runs all steps; a device takes the first in order that is ready."""
        readers: dict[int, list[int]] = {}
        missing = []
        for n, step in enumerate(self._steps):
            made = {self._producer[v] for v in step.inputs if v in self._producer}
            missing.append(len(made))
            for producer in made:
                readers.setdefault(producer, []).append(n)
        coming: list[list[tuple[float, int]]] = [[] for _ in self.free]
        ready: list[list[int]] = [[] for _ in self.free]
        for n, count in enumerate(missing):
            if count == 0:
                heapq.heappush(coming[self.device[n]], (self._operands_at(n), n))
        for _ in self._steps:
            starts = [
                self.free[d] if ready[d] else max(self.free[d], coming[d][0][0])
                for d in range(self._devices)
                if ready[d] or coming[d]
            ]
            owners = [d for d in range(self._devices) if ready[d] or coming[d]]
            now, d = min(zip(starts, owners, strict=True))
            while coming[d] and coming[d][0][0] <= now:
                heapq.heappush(ready[d], heapq.heappop(coming[d])[1])
            n = heapq.heappop(ready[d])
            self._start[n], self.finish[n] = now, now + self._steps[n].seconds
            self.free[d] = self.finish[n]
            for reader in readers.get(n, []):
                missing[reader] -= 1
                if missing[reader] == 0:
                    arrival = self._operands_at(reader)
                    heapq.heappush(coming[self.device[reader]], (arrival, reader))

    def peak(self) -> float:
        """Bytes of the fullest device over time."""
        return max(self._peak_of(d) for d in range(self._devices))

    def _place(self, layers: Sequence[str]) -> list[int]:
        device: list[int] = []
        for n, step in enumerate(self._steps):
            path = step.op.module_path if step.op else ""
            layer = next((i for i, name in enumerate(layers) if _within(path, name)), None)
            made = [self._producer[v] for v in step.inputs if self._producer.get(v, n) < n]
            if layer is not None:
                device.append(layer % self._devices)
            else:
                device.append(device[made[0]] if made else 0)
        return device

    def _homes(self) -> dict[int, int]:
        """By value that no step makes the device of its first reader."""
        homes: dict[int, int] = {}
        for n, step in enumerate(self._steps):
            for value in step.inputs:
                if value not in self._producer:
                    homes.setdefault(value, self.device[n])
        return homes

    def _operands_at(self, n: int) -> float:
        """When all operands of a step are on its device; those elsewhere are sent."""
        latest = 0.0
        values = self._iteration.graph.captured.values
        for value in self._steps[n].inputs:
            made = self._producer.get(value)
            source = self._home[value] if made is None else self.device[made]
            at = 0.0 if made is None else self.finish[made]
            is_input = value < len(values) and values[value].role in ("input", "tangent")
            if source != self.device[n] and not is_input:
                key = (value, self.device[n])
                if key not in self._arrived:
                    nbytes = self._bytes(value)
                    self.moved_bytes += nbytes
                    self._arrived[key] = at + self._latency + nbytes / self._bandwidth
                at = self._arrived[key]
            latest = max(latest, at)
        return latest

    def _bytes(self, value: int) -> float:
        """Of the value itself, which of a view may be less than its storage's."""
        return self._iteration.nbytes[value]

    def _peak_of(self, device: int) -> float:
        """Bytes over time: what was made here, what was sent here, and what stays here."""
        iteration, end = self._iteration, max(self.free)
        born: dict[tuple[str, int], float] = {}
        dead: dict[tuple[str, int], float] = {}

        def alive(key: tuple[str, int], since: float, until: float) -> None:
            born[key] = min(born.get(key, since), since)
            dead[key] = max(dead.get(key, until), until)

        for n, step in enumerate(self._steps):
            for value in step.outputs if step.op else ():
                if self.device[n] == device:
                    storage = iteration.storage[value]
                    until = end if storage in iteration.kept else self.finish[n]
                    alive(("made", storage), self._start[n], until)
            for value in step.inputs:
                made = self._producer.get(value)
                source = self._home[value] if made is None else self.device[made]
                arrived = self._arrived.get((value, self.device[n]))
                if source == device and iteration.storage[value] not in iteration.stays:
                    sent = arrived is not None and self.device[n] != device
                    until = arrived if sent and arrived is not None else self.finish[n]
                    since = 0.0 if made is None else self._start[made]
                    alive(("made", iteration.storage[value]), since, until)
                elif self.device[n] == device and arrived is not None:
                    alive(("sent", value), arrived, self.finish[n])
        changes = []
        for key, since in born.items():
            if key[0] == "made" and key[1] in iteration.stays:
                continue  # a view of what stays
            changes += [(since, 1, iteration.nbytes[key[1]])]
            changes += [(dead[key], 0, -iteration.nbytes[key[1]])]
        peak = live = sum(
            iteration.nbytes[s] for s in iteration.stays if self._home.get(s) == device
        )
        for _, _, change in sorted(changes):
            live += change
            peak = max(peak, live)
        return peak
