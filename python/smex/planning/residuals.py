"""How well measured calls are told by the others of their kind."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence

import numpy as np

from smex.planning.call_costs import CallCost, Calls


@dataclasses.dataclass(frozen=True)
class Residual:
    """A call that was measured, beside what is predicted where its measurement is left out.

    Attributes:
        kind: of the call.
        itemsize: bytes of an element of its result.
        measured: seconds, without those of memory that is new, of which the cost keeps no bytes.
        predicted: likewise.
    """

    kind: str
    itemsize: int
    measured: float
    predicted: float

    @property
    def error(self) -> float:
        """Of the prediction, relative to what was measured."""
        return self.predicted / self.measured - 1


def residuals(calls: Calls) -> list[Residual]:
    """Returns the residuals of all kinds of which two calls or more were measured.

    The weights of a kind were fitted to all of its calls; what is left out is the factor by which
    the call differs from them.
    """
    return [
        residual
        for kind, costs in calls.items()
        for itemsize, cost in costs.items()
        for residual in _of_kind(kind, itemsize, cost)
    ]


def measured_once(calls: Calls) -> int:
    """Returns of how many kinds one call was measured, which no other tells."""
    return sum(len(cost.measured) == 1 for costs in calls.values() for cost in costs.values())


def _of_kind(kind: str, itemsize: int, cost: CallCost) -> list[Residual]:
    if len(cost.measured) < 2:
        return []
    by_weights = CallCost(cost.weights)
    found = []
    for number, (operations, nbytes, gathered, factor) in enumerate(cost.measured):
        measured = factor * by_weights.seconds(operations, nbytes, gathered)
        predicted = cost.without(number).seconds(operations, nbytes, gathered)
        if measured > 0 and predicted > 0:
            found.append(Residual(kind, itemsize, measured, predicted))
    return found


def percentile(errors: Sequence[float], share: float) -> float:
    """Returns the size that such a share of errors keeps to: 0.5 is the median.

    Between two errors it is on the line that connects them; of none it is not a number.
    """
    return float(np.quantile(np.abs(errors), share)) if errors else math.nan
