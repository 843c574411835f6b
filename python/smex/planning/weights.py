"""In which proportions workers get what is cut."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterable, Sequence
from typing import Any

from smex.errors import PlanError, SmexTypeError
from smex.planning.cluster import Cluster
from smex.planning.machine import Machine
from smex.planning.semantic import SemanticGraph

EVEN, SPEED = "even", "speed"


@dataclasses.dataclass(frozen=True)
class Weights:
    """What a search cuts by.

    Attributes:
        policy: "even"; "speed", by the seconds that the workers' devices take for all calls of a
            graph (HeteroG, §4.1: proportional); or the name of shares that are given.
        known: by name the shares, once they are known.
    """

    policy: str = EVEN
    known: tuple[tuple[str, tuple[float, ...]], ...] = ()

    @staticmethod
    def of(asked: Any, workers: int, machine: Machine | Cluster | None, objective: str) -> Weights:
        """Returns what a user asks for.

        Raises:
            SmexTypeError: it is none of what `smex.search` takes.
            PlanError: shares that are not one for each worker, or "speed" without a cluster.
        """
        if isinstance(asked, Weights):
            return asked
        differ = isinstance(machine, Cluster) and machine.is_unlike
        if asked is None:
            return Weights(SPEED if differ and objective == "time" else EVEN)
        if asked == EVEN:
            return Weights()
        if asked == SPEED:
            if machine is None:
                raise PlanError(
                    'search: weights="speed" needs machine=, a smex.Cluster that tells how fast '
                    "each worker is"
                )
            return Weights(SPEED if differ else EVEN)
        return _given(asked, workers)

    @property
    def number(self) -> int:
        """Of the graph's weightings the one that the search cuts by; 0: evenly."""
        return 0 if self.policy == EVEN else 1 + [n for n, _ in self.known].index(self.policy)

    def for_graph(
        self, graph: SemanticGraph, machine: Machine | Cluster | None, mesh: Sequence[int]
    ) -> Weights:
        """Returns them with the shares by which a graph's calls take as long on all workers.

        Shares that are known stay: other captures of a model are cut as the first one was.
        """
        if self.policy != SPEED or self.known or not isinstance(machine, Cluster):
            return self
        seconds = machine.native(mesh).whole_seconds(graph.native, math.prod(mesh))
        shares = [1 / took if took > 0 else 1.0 for took in seconds]
        return Weights(SPEED, ((SPEED, tuple(share / max(shares) for share in shares)),))

    def contents(self) -> dict[str, Any]:
        """Returns what a plan's file says."""
        return {"policy": self.policy, "known": [[n, list(shares)] for n, shares in self.known]}

    @staticmethod
    def from_contents(content: Any) -> Weights:
        """From what `contents` returns."""
        if content is None:
            return Weights()
        return Weights(content["policy"], tuple((n, tuple(s)) for n, s in content["known"]))


def _given(asked: Any, workers: int) -> Weights:
    """Returns shares that a user lists."""
    if isinstance(asked, str) or not isinstance(asked, Iterable):
        raise SmexTypeError(
            f'search: weights must be "even", "speed" or a number for each worker, got {asked!r}'
        )
    shares = list(asked)
    is_right = all(
        isinstance(share, (int, float))
        and not isinstance(share, bool)
        and math.isfinite(share)
        and share >= 0
        for share in shares
    )
    if len(shares) != workers or not is_right or sum(shares) <= 0:
        raise PlanError(
            f"search: weights of {workers} workers are as many numbers from 0 on, not all 0, got "
            f"{asked!r}"
        )
    name = ":".join(f"{share:g}" for share in shares)
    return Weights(name, ((name, tuple(float(share) for share in shares)),))
