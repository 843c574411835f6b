"""Vertices that are cut anew where their ranges take unlike long (Jia et al., "ROC", §4)."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from smex._C import edge_walks, min_max_ranges
from smex._logging import logger
from smex.planning.boundaries import Boundaries
from smex.planning.plan import Plan
from smex.planning.vertex_costs import VertexCosts

_FIRST = 5
"""The call before which the first cut is thought over; then after twice as many each."""
_TIMED = 3
"""So many calls before that are timed."""
_LEAST_GAIN = 0.02
"""Of a call's predicted seconds: less is noise."""


class TimedCall(NamedTuple):
    """What a call's operators took.

    Attributes:
        plan: that was run.
        seconds: by worker and operator, the last where several are one. The processor's, where
            one computes it: workers may be more than there are.
    """

    plan: Plan
    seconds: Mapping[tuple[int, int], float]


def timed_call(plan: Plan, events: Iterable[tuple[Any, ...]]) -> TimedCall:
    """Returns what the operators of a traced call took, by the events of all workers."""
    seconds: dict[tuple[int, int], float] = {}
    for worker, _, category, *_, op, busy in events:
        if category == "compute":
            seconds[worker, op] = seconds.get((worker, op), 0.0) + busy * 1e-6
    return TimedCall(plan, seconds)


class Recuts:
    """Thinks over where vertices are cut, from what calls took.

    After 5, 10, 20 … calls ranges are searched again; they are taken if as many calls as there were
    gain more than it takes to make a program.

    Attributes:
        costs: what was learned.
        was_timed: whether the last call was.
    """

    def __init__(self) -> None:
        self.costs = VertexCosts()
        self.was_timed = False
        self._calls = 0
        self._next = _FIRST
        self._timed: list[TimedCall] = []

    def is_due(self) -> bool:
        """Returns whether the cut is to be thought over before the next call."""
        return self._calls + 1 >= self._next

    def count(self) -> bool:
        """A call begins; returns whether it is to be timed."""
        self._calls += 1
        self.was_timed = self._next - _TIMED <= self._calls < self._next
        return self.was_timed

    def add(self, timed: TimedCall) -> None:
        """Learns from a call."""
        if self._timed and self._timed[0].plan is not timed.plan:
            self._timed = []  # other calls were between them
        self._timed.append(timed)

    def think(self, seconds: float) -> Boundaries | None:
        """Returns where vertices are cut better than they are; None where it does not pay.

        Args:
            seconds: that it takes to make a program.
        """
        horizon, self._next = self._calls, 2 * self._next
        timed, self._timed = self._timed, []
        if not timed:
            return None
        plan = timed[0].plan
        self.costs.add(plan.graph, plan.native, [call.seconds for call in timed])
        now, then, boundaries = self._best(plan)
        gain = now - then
        pays = gain > _LEAST_GAIN * now and gain * horizon > seconds
        logger.info(
            "vertices: calls %.2f ms as they are cut, %.2f ms at best, %.2f s to cut: %s",
            1e3 * now, 1e3 * then, seconds, "cut anew" if pays else "left",
        )  # fmt: skip
        return boundaries if pays else None

    def _best(self, plan: Plan) -> tuple[float, float, Boundaries]:
        """Returns the predicted seconds of a call as it is and at best, and how it is cut then."""
        now = then = 0.0
        found = plan.options.boundaries
        ends: dict[int, Any] = dict(found.ends)
        walks = edge_walks(plan.graph.native)
        known = self.costs.layers
        for size, given in found.ends.items():
            own = [walk for walk in walks if walk.rows == size]
            if not any(self.costs.layer(plan.graph, walk) in known for walk in own):
                continue  # cut by features
            before = self.costs.before(plan.graph, size, own)
            now += max(before[hi] - before[lo] for lo, hi in itertools.pairwise(given))
            ends[size], best = min_max_ranges(before, [1.0] * plan.workers, [0.0] * plan.workers)
            then += best
        return now, then, dataclasses.replace(found, ends=ends)
