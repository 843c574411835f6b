"""What every operator of a plan moves and takes."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterable
from typing import TYPE_CHECKING

from smex._C import op_prices as native_op_prices

if TYPE_CHECKING:
    from smex.plan import Plan


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
    """The price of each op, in the order of the graph; together they are the plan's."""
    machine = plan.machine and plan.machine.native(plan.mesh)
    found = native_op_prices(plan.graph.native, plan.native, machine)
    return [
        OpPrice(tuple(nbytes), tuple(seconds) if machine else (), compute)
        for nbytes, seconds, compute in found
    ]


def largest_numel(tiles: Iterable[tuple[bool, list[tuple[int, int]]]]) -> int:
    """Elements of the largest of the workers' tiles."""
    return max(math.prod(hi - lo for lo, hi in box) if held else 0 for held, box in tiles)
