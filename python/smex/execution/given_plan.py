"""The plan that a user gives to `smex.partition`."""

from __future__ import annotations

import dataclasses
import os
import pathlib
from typing import Any

from smex.errors import SmexTypeError
from smex.planning.plan import Plan
from smex.planning.plan_file import has_same_edges, read_plan_file
from smex.planning.semantic import SemanticGraph


@dataclasses.dataclass(frozen=True)
class GivenPlan:
    """The plan that the user has given: what its file says, and itself where it is at hand."""

    content: dict[str, Any]
    plan: Plan | None

    @staticmethod
    def of(plan: Plan | str | pathlib.Path) -> GivenPlan:
        """From what `smex.partition` takes."""
        if isinstance(plan, Plan):
            return GivenPlan(plan.contents(), plan)
        if not isinstance(plan, (str, os.PathLike)):
            raise SmexTypeError(
                "partition: plan must be what smex.search returns or the path of a plan's file, "
                f"got {plan!r}"
            )
        return GivenPlan(read_plan_file(plan), None)

    def on(self, graph: SemanticGraph) -> Plan:
        """Returns the plan of a newly captured graph.

        Raises:
            PlanError: it cuts the vertices of a graph with other edges, or does not fit the model.
        """
        same = None
        if self.plan is not None and has_same_edges(self.content, graph):
            same = self.plan.of_same(graph)
        return Plan.from_contents(self.content, graph) if same is None else same

    def __deepcopy__(self, memo: dict[int, Any]) -> GivenPlan:
        return self  # nothing here changes

    def __reduce__(self) -> Any:
        return GivenPlan, (self.content, None)
