"""What calls were measured to take."""

from __future__ import annotations

import dataclasses
import math
from typing import Any

from smex._C import call_seconds
from smex.errors import SmexTypeError

FEATURES = 5
"""1, operations, bytes, gathered bytes, fresh bytes."""
_MEASURED = 4
"""Operations, bytes, gathered bytes, factor."""


@dataclasses.dataclass(frozen=True)
class CallCost:
    """What calls of one kind, or of one operator, take on one worker.

    Attributes:
        weights: seconds of a call, of an operation, of a byte of operands and results, of one of
            rows that are read one by one, and of one of large results, whose memory is new.
        measured: calls that were measured: operations, bytes, gathered bytes, and how many times
            as long as by the weights they took. Calls between take factors between these.
    """

    weights: tuple[float, ...]
    measured: tuple[tuple[float, ...], ...] = ()

    def __post_init__(self) -> None:
        rows = ((self.weights, FEATURES), *((row, _MEASURED) for row in self.measured))
        for row, length in rows:
            good = [type(x) in (int, float) and math.isfinite(x) and x >= 0 for x in row]
            if len(good) != length or not all(good):
                raise SmexTypeError(
                    f"CallCost: expected {length} numbers that are not negative, found {row!r}"
                )

    def scaled(self, factor: float) -> CallCost:
        """Returns what calls take that take `factor` times as long."""
        return CallCost(tuple(factor * weight for weight in self.weights), self.measured)

    def seconds(
        self, operations: float, nbytes: float, gathered: float = 0.0, fresh: float = 0.0
    ) -> float:
        """Returns what a call takes.

        Args:
            operations: of its arithmetic.
            nbytes: of operands and results.
            gathered: bytes of rows that are read one by one.
            fresh: bytes of large results, whose memory is new.
        """
        return call_seconds(self.native(), operations, nbytes, gathered, fresh)

    def without(self, number: int) -> CallCost:
        """Returns what is known without one of the calls that were measured."""
        others = (*self.measured[:number], *self.measured[number + 1 :])
        return CallCost(self.weights, others)

    def native(self) -> tuple[tuple[float, ...], tuple[tuple[float, ...], ...]]:
        """Returns it as the native library reads it."""
        return self.weights, self.measured


Calls = dict[str, dict[int, CallCost]]
"""By kind of call, or by operator for all others, and by the bytes of an element of the result."""


def calls_of(content: Any) -> Calls:
    """Returns the costs that a machine's `contents` have.

    Raises:
        SmexTypeError: they are no such ones.
    """
    try:
        return {
            str(kind): {
                int(size): CallCost(tuple(cost["weights"]), tuple(map(tuple, cost["measured"])))
                for size, cost in costs.items()
            }
            for kind, costs in content.items()
        }
    except SmexTypeError:  # of one of them
        raise
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise SmexTypeError(
            f"Machine: expected calls by kind and item size, found {content!r:.200}"
        ) from error
