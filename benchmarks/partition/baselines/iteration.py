"""One iteration on one device: its calls, the updates of the parameters, and what they touch."""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Sequence
from typing import Any

from smex._C import Plan as _NativePlan
from smex._C import op_prices as _op_prices
from smex.capture.records import OpRecord, returns_view
from smex.errors import SmexTypeError
from smex.planning.machine import Machine
from smex.planning.semantic import SemanticGraph


@dataclasses.dataclass
class Step:
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


def update_seconds(parameter_bytes: float, machine: Machine, states: float) -> float:
    """Parameter, gradient and states are read, parameter and states are written."""
    return parameter_bytes * (3 + 2 * states) / machine.memory_bandwidth


class Iteration:
    """The steps of an iteration on one device, and the storages that they read and write.

    Attributes:
        steps: the calls in order.
        storage: by value the storage that holds it; views share their operand's.
        nbytes: by storage; those of the optimiser's states follow those of the graph's values.
        stays: storages of parameters, their states, buffers and constants.
        kept: storages of results.
    """

    def __init__(self, graph: SemanticGraph, machine: Machine, optimizer_states: float) -> None:
        check(graph, machine)
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

    def storages(self, step: Step) -> set[int]:
        """What a step reads and writes."""
        return {self.storage[value] for value in (*step.inputs, *step.outputs)}

    def last_uses(self, steps: Sequence[Step]) -> dict[int, int]:
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
    def updates(self) -> list[tuple[Step, int]]:
        """The update of every parameter that has a gradient, and the parameter."""
        found = []
        for output in self.graph.captured.outputs:
            if output.kind != "gradient" or output.value is None or output.target is None:
                continue
            if output.target not in self._state_of:
                continue
            seconds = update_seconds(self.nbytes[output.target], self.machine, self.states)
            state = self._state_of[output.target]
            written = [output.target, state]
            found.append((Step(None, seconds, [output.value, *written], written), output.target))
        return found

    def with_updates(self) -> list[Step]:
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

    def _fused(self, seconds: list[float]) -> list[Step]:
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
                steps.append(step_of(fusion.fused, sum(seconds[m] for m in fusion.members)))
            elif op.id not in taken:
                steps.append(step_of(op, seconds[op.id]))
        return steps


def step_of(op: OpRecord, seconds: float) -> Step:
    return Step(op, seconds, op.inputs(), [i for i in op.outputs if i is not None])


def check(graph: Any, machine: Any) -> None:
    if not isinstance(graph, SemanticGraph):
        raise SmexTypeError(f"baselines: expected a smex.SemanticGraph, found {graph!r}")
    if not isinstance(machine, Machine):
        raise SmexTypeError(f"baselines: expected a smex.Machine, found {machine!r}")
