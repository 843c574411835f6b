"""A plan as a page: what it costs, how everything is cut, and its predicted course."""

from __future__ import annotations

import datetime

from smex.planning import markup
from smex.planning.page.critical_path import critical_path_section
from smex.planning.page.layers import layers_section
from smex.planning.page.links import links_section
from smex.planning.page.names import machine_words
from smex.planning.page.script import SCRIPT
from smex.planning.page.tables import ops_section, steps_section, tensors_section
from smex.planning.page.timeline import timeline_section
from smex.planning.placed import PlacedGraph
from smex.planning.prices import op_prices
from smex.text import mesh_words, shape_words

SIGNS = (
    ("S0", "cut along dimension 0"),
    ("S0@speed", "cut in unequal parts, by how fast the workers are"),
    ("R", "held whole by each"),
    ("W1", "held by number 1 alone"),
    ("S0/2 R/2", "cut in two in the first step of the mesh, held by both in the second"),
    ("2×2", "the mesh: two steps, each of two parts"),
    (
        "i·k",
        "an operator is divided along its index i in the first step and along k in the second; "
        "where k is summed over, parts of the sum are added up afterwards",
    ),
    ("repeat", "each part does all of an operator"),
    ("0 → 1", "a message from worker 0 to worker 1"),
    ("12 ×", "so many calls or tensors in one row"),
    ("{0..5}", "repeated modules that are cut alike, in one row"),
    ("exact", "no other choice of cuts is better; a gap is by how much one might be"),
)
"""What stands in tables, and what it means."""


def plan_overview(plan: PlacedGraph) -> str:
    """Returns title, summary and tensors, as a notebook shows a plan."""
    return markup.fragment(_title(plan), _summary(plan), _signs(), tensors_section(plan))


def plan_fragment(plan: PlacedGraph) -> str:
    """Returns all sections, to be shown inside of another page."""
    return markup.fragment(*_sections(plan))


def plan_page(plan: PlacedGraph) -> str:
    """Returns all sections as a page of its own, which refers to nothing outside of it."""
    return markup.page(_name(plan), *_sections(plan))


def _name(plan: PlacedGraph) -> str:
    mesh = f" as {mesh_words(plan.mesh)}" if len(plan.mesh) > 1 else ""
    return f"{plan.graph.captured.name} on {plan.workers} workers{mesh}"


def _title(plan: PlacedGraph) -> str:
    """Of what this is the plan: model, inputs, machine and day."""
    values = plan.graph.captured.values
    inputs = [
        f"{name} {values[number].type_str().partition('[')[0]} {shape_words(values[number].shape)}"
        for name, number in plan.graph.value_by_name.items()
        if values[number].role == "input"
    ]
    machine = "" if plan.machine is None else f", on {machine_words(plan.machine)}"
    facts = f"{', '.join(inputs)}{machine}; {datetime.date.today().isoformat()}"
    return f"<h1>{markup.escape(_name(plan))}</h1>\n<p>{markup.escape(facts)}</p>"


def _summary(plan: PlacedGraph) -> str:
    return f"<p>{markup.escape(plan.summary())}</p>"


def _signs() -> str:
    rows = [(markup.code(sign), markup.escape(meaning)) for sign, meaning in SIGNS]
    return f"<details><summary>Signs</summary>\n{markup.table(('', ''), rows)}\n</details>"


def _sections(plan: PlacedGraph) -> list[str]:
    prices = op_prices(plan)
    ops, places = ops_section(plan, prices)
    return [
        _title(plan),
        _summary(plan),
        _signs(),
        timeline_section(plan, prices),
        critical_path_section(plan, places),
        links_section(plan),
        steps_section(plan),
        ops,
        layers_section(plan),
        tensors_section(plan),
        SCRIPT,
    ]
