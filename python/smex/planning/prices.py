"""What every operator of a plan moves and takes."""

from __future__ import annotations

import dataclasses

from smex._C import op_prices as native_op_prices
from smex.planning.placed import PlacedGraph


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


def op_prices(plan: PlacedGraph) -> list[OpPrice]:
    """Returns the price of each op, in the order of the graph; together they are the plan's."""
    machine = None if plan.machine is None else plan.machine.native(plan.mesh)
    found = native_op_prices(plan.graph.native, plan.native, machine)
    return [
        OpPrice(tuple(nbytes), tuple(seconds) if machine else (), compute)
        for nbytes, seconds, compute in found
    ]
