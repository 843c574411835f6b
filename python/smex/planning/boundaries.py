"""Where the vertices of a graph are cut (Jia et al., "ROC", §4)."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

from smex._C import FEATURES, edge_walks, min_max_ranges, seconds_before
from smex.errors import PlanError, SmexTypeError
from smex.planning.semantic import SemanticGraph
from smex.planning.vertex_costs import VertexCosts, features_of

_POLICIES = ("equal", "edges", "learned")


@dataclasses.dataclass(frozen=True)
class Boundaries:
    """Where vertices are cut, by their number, and how ends are found for other numbers of them.

    Attributes:
        policy: "equal", "edges", "learned", which begins as "edges", or the costs by which ranges
            take as long.
        ends: by number of vertices 0, then the ends of as many ranges as there are workers.
        fitted: whether a graph had vertices for given ends; later ones without are cut evenly.
    """

    policy: str | VertexCosts = "equal"
    ends: Mapping[int, Sequence[int]] = dataclasses.field(default_factory=dict)
    fitted: bool = dataclasses.field(default=False, compare=False)

    @staticmethod
    def of(asked: Any, workers: int) -> Boundaries:
        """Returns what a user asks for.

        Raises:
            SmexTypeError: it is none of what `smex.search` takes.
            PlanError: ends that do not ascend from 0, or are not one for each worker.
        """
        if isinstance(asked, Boundaries):
            return asked
        if asked is None:
            return Boundaries()
        if isinstance(asked, VertexCosts) or (isinstance(asked, str) and asked in _POLICIES):
            return Boundaries(asked)
        lists = list(asked.values()) if isinstance(asked, Mapping) else [asked]
        if not lists or isinstance(asked, str) or not all(map(_is_list, lists)):
            raise SmexTypeError(
                'search: boundaries must be "equal", "edges", "learned", a smex.VertexCosts, '
                "a list of ends [0, …, number of vertices], or several lists by number, got "
                f"{asked!r}"
            )
        ends = {}
        for given in lists:
            numbers = [int(end) for end in given]
            if len(numbers) != workers + 1 or numbers[0] != 0 or numbers != sorted(numbers):
                raise PlanError(
                    f"search: boundaries of {workers} workers are {workers + 1} numbers that "
                    f"ascend from 0 to the number of vertices, got {_shortened(numbers)}"
                )
            ends[numbers[-1]] = tuple(numbers)
        return Boundaries("equal", ends)

    def for_graph(self, graph: SemanticGraph, workers: int) -> Boundaries:
        """Returns them with ends for all numbers of vertices that a graph has.

        Raises:
            PlanError: ends are given, and no operator on messages of this graph or one before has
                so many vertices.
        """
        if self.policy == "equal" and (self.fitted or not self.ends):
            return self
        walks = edge_walks(graph.native)
        sizes = dict.fromkeys(walk.rows for walk in walks)
        if self.policy == "equal":
            for size in self.ends:
                if not sizes or all(size != rows for rows in sizes):
                    known = ", ".join(map(str, sizes)) or "no"
                    raise PlanError(
                        f"search: boundaries end at {size}, but the calls along edges are of "
                        f"{known} vertices"
                    )
            return dataclasses.replace(self, fitted=True)
        ends = dict(self.ends)
        for size in sizes:
            if size not in ends:
                found = self._before(graph, size, [walk for walk in walks if walk.rows == size])
                ends[size], _ = min_max_ranges(found, [1.0] * workers, [0.0] * workers)
        return dataclasses.replace(self, ends=ends)

    def _before(self, graph: SemanticGraph, size: int, walks: Sequence[Any]) -> Any:
        """By vertex and one more the cost of all before it."""
        if isinstance(self.policy, VertexCosts):
            return self.policy.before(graph, size, walks)
        edges = (0.0, 1.0, *[0.0] * (FEATURES - 2))
        return seconds_before(size, 0.0, [(features_of(graph, walk), edges) for walk in walks])

    def contents(self) -> dict[str, Any]:
        """Returns what a plan's file says; costs are not kept, but the ends that they gave."""
        policy = self.policy if isinstance(self.policy, str) else "edges"
        return {"policy": policy, "ends": [list(ends) for ends in self.ends.values()]}

    @staticmethod
    def from_contents(content: Any) -> Boundaries:
        """From what `contents` returns."""
        if content is None:
            return Boundaries()
        return Boundaries(content["policy"], {ends[-1]: tuple(ends) for ends in content["ends"]})


def _is_list(given: Any) -> bool:
    try:
        numbers = list(given)
    except TypeError:
        return False
    return all(not isinstance(end, (bool, str)) and int(end) == end for end in numbers)


def _shortened(numbers: Sequence[int]) -> str:
    shown = list(map(str, numbers[:8])) + ["…"] * (len(numbers) > 8)
    return f"[{', '.join(shown)}]"
