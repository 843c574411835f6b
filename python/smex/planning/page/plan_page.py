"""A plan as a page: what it costs, how everything is cut, and its predicted course."""

from __future__ import annotations

from smex.planning import markup
from smex.planning.page.layers import layers_section
from smex.planning.page.tables import ops_section, steps_section, tensors_section
from smex.planning.page.timeline import timeline_section
from smex.planning.placed import PlacedGraph
from smex.planning.prices import op_prices


def plan_overview(plan: PlacedGraph) -> str:
    """Returns the summary and the tensors, as a notebook shows a plan."""
    return markup.fragment(_summary(plan), tensors_section(plan))


def plan_fragment(plan: PlacedGraph) -> str:
    """Returns all sections, to be shown inside of another page."""
    return markup.fragment(*_sections(plan))


def plan_page(plan: PlacedGraph) -> str:
    """Returns all sections as a page of its own, which refers to nothing outside of it."""
    return markup.page(f"{plan.graph.captured.name} on {plan.workers} workers", *_sections(plan))


def _summary(plan: PlacedGraph) -> str:
    return f"<p>{markup.escape(plan.summary())}</p>"


def _sections(plan: PlacedGraph) -> list[str]:
    prices = op_prices(plan)
    return [
        _summary(plan),
        timeline_section(plan, prices),
        steps_section(plan),
        ops_section(plan, prices),
        layers_section(plan),
        tensors_section(plan),
    ]
