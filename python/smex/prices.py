"""What every operator of a plan moves and takes, and what is live along the program."""

from __future__ import annotations

import dataclasses
import itertools
import math
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import torch

from smex._C import Graph, Role, ValueRef, home_tiles, op_bytes, price
from smex._C import Plan as NativePlan

if TYPE_CHECKING:
    from smex.plan import Plan
    from smex.semantic import SemanticGraph


_MOST_TILES = 200_000  # of which memory is counted, which takes a second


@dataclasses.dataclass(frozen=True)
class OpPrice:
    """What one operator call adds to an iteration.

    Attributes:
        step_bytes: bytes that it moves, by step of the mesh.
        step_seconds: predicted seconds of that; empty where seconds are not known.
        compute_seconds: predicted seconds of its largest tile; 0 where they are not known.
    """

    step_bytes: tuple[int, ...]
    step_seconds: tuple[float, ...]
    compute_seconds: float

    @property
    def nbytes(self) -> int:
        """Bytes that it moves."""
        return sum(self.step_bytes)

    @property
    def communication_seconds(self) -> float:
        """Predicted seconds of what it moves."""
        return sum(self.step_seconds)

    @property
    def seconds(self) -> float:
        """Predicted seconds of the call."""
        return self.compute_seconds + self.communication_seconds


def op_prices(plan: Plan) -> list[OpPrice]:
    """The price of each op, in the order of the graph; the bytes add up to `plan.step_bytes`.

    Seconds are those of a graph of the op alone. Where these do not add up to the plan's, because
    a view joins a dimension that is cut and rounds the tiles of other ops to its units, they are
    not told: all prices are without seconds then.
    """
    steps = _step_bytes(plan)
    if plan.machine is not None:
        alone = _OneOpGraphs(plan)
        prices = [OpPrice(step, *alone.seconds(op_id)) for op_id, step in enumerate(steps)]
        if math.isclose(sum(each.seconds for each in prices), plan.seconds, rel_tol=1e-6):
            return prices
    return [OpPrice(step, (), 0.0) for step in steps]


def _step_bytes(plan: Plan) -> list[tuple[int, ...]]:
    """By op what each step adds: what the plan moves up to it, less that up to the step before."""
    totals = [[0] * len(plan.graph.captured.ops)]
    for count in range(1, len(plan.mesh) + 1):
        first = NativePlan()
        first.mesh = list(plan.mesh[:count])
        first.values = [choices[:count] for choices in plan.native.values]
        first.ops = [choices[:count] for choices in plan.native.ops]
        totals.append(op_bytes(plan.graph.native, first))
    return [
        tuple(after - before for before, after in itertools.pairwise(sums))
        for sums in zip(*totals, strict=True)
    ]


class _OneOpGraphs:
    """Prices ops one at a time; those that are alike share a price."""

    def __init__(self, plan: Plan):
        self._graph = plan.graph
        self._native = plan.graph.native.ops
        self._value_choices = plan.native.values
        self._op_choices = plan.native.ops
        self._mesh = list(plan.mesh)
        self._machine = plan.machine and plan.machine.native(self._mesh)
        self._prices: dict[tuple[Any, ...], tuple[tuple[float, ...], float]] = {}
        self._specs: list[Any] = []  # keeps them alive, so that ids stay theirs

    def seconds(self, op_id: int) -> tuple[tuple[float, ...], float]:
        """Seconds of what each step moves, and of the arithmetic."""
        op, spec = self._native[op_id], self._native[op_id].spec
        values = self._graph.captured.values
        held = [
            (values[i].shape, values[i].dtype, tuple(self._value_choices[i])) if i >= 0 else None
            for i in (*op.inputs, *op.outputs)
        ]
        key = (id(spec), self._random(op_id), *self._op_choices[op_id], len(op.inputs), *held)
        if key not in self._prices:
            self._specs.append(spec)
            self._prices[key] = self._price(op_id, op, spec)
        return self._prices[key]

    def _random(self, op_id: int) -> bool:
        tags = self._graph.captured.ops[op_id].dispatch.tags
        return torch.Tag.nondeterministic_seeded in tags

    def _price(self, op_id: int, op: Any, spec: Any) -> tuple[tuple[float, ...], float]:
        graph, plan, local = Graph(), NativePlan(), {-1: -1}
        choices = []
        for position, i in enumerate((*op.inputs, *op.outputs)):
            if i in local:
                continue
            value = self._graph.captured.values[i]
            role = "input" if position < len(op.inputs) else "intermediate"
            local[i] = graph.add_value(
                value.name, list(value.shape), str(value.dtype).removeprefix("torch."),
                value.dtype.itemsize, getattr(Role, role),
            )  # fmt: skip
            choices.append(self._value_choices[i])
        graph.add_op(
            op.target, [ValueRef(local[i]) for i in op.inputs], [local[i] for i in op.outputs],
            spec, [], "", "", False, self._random(op_id),
        )  # fmt: skip
        plan.mesh, plan.values, plan.ops = self._mesh, choices, [self._op_choices[op_id]]
        priced = price(graph, plan, self._machine)
        return tuple(priced.step_seconds), priced.compute_seconds


def live_bytes(plan: Plan) -> list[int]:
    """By op the bytes of a worker's largest tiles of all values that are live while it runs.

    Parameters, buffers and constants are live all the time, others from the op that makes them to
    the last that reads them, an input from the start. Copies of what other workers hold are not
    counted. Empty where there are too many tiles to look at.
    """
    tiles = _tile_bytes(plan)
    if tiles is None:
        return []
    count = len(plan.graph.captured.ops)
    first, last = _lifetimes(plan.graph)
    change = [0] * (count + 1)
    for value_id, nbytes in enumerate(tiles):
        change[first[value_id]] += nbytes
        change[last[value_id] + 1] -= nbytes
    return list(itertools.accumulate(change))[:count]


def _lifetimes(graph: SemanticGraph) -> tuple[list[int], list[int]]:
    """By value the op that makes it, or 0, and the last op that needs it."""
    captured = graph.captured
    end = len(captured.ops) - 1
    first = [0] * len(captured.values)
    for op in captured.ops:
        for output in op.outputs:
            if output is not None:
                first[output] = op.id
    last = [
        end if value.role in ("parameter", "buffer", "constant") else first[value.id]
        for value in captured.values
    ]
    for op in captured.ops:
        for i in op.inputs():
            last[i] = max(last[i], op.id)
    for left in captured.outputs:
        if left.value is not None:
            last[left.value] = end
    return first, last


def _tile_bytes(plan: Plan) -> list[int] | None:
    """By value the bytes of its largest tile; None beyond `_MOST_TILES`."""
    values, placed = plan.graph.captured.values, plan.native.values
    numel = [math.prod(value.shape) for value in values]
    cut = [value.id for value in values if any(dim >= 0 for dim in placed[value.id])]
    if len(cut) * plan.workers > _MOST_TILES:
        return None
    for value_id, tiles in zip(cut, home_tiles(plan.graph.native, plan.native, cut), strict=True):
        numel[value_id] = largest_numel(tiles)
    return [n * value.dtype.itemsize for n, value in zip(numel, values, strict=True)]


def largest_numel(tiles: Iterable[tuple[bool, list[tuple[int, int]]]]) -> int:
    """Elements of the largest of the workers' tiles."""
    return max(math.prod(hi - lo for lo, hi in box) if held else 0 for held, box in tiles)
