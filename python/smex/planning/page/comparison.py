"""Two plans side by side: totals, course, links, and where they differ."""

from __future__ import annotations

import os
import pathlib
from collections import defaultdict
from collections.abc import Callable, Sequence
from typing import Any

from smex.planning import markup
from smex.planning.markup import code, escape, section, table
from smex.planning.page.links import links_matrix
from smex.planning.page.names import collapse, machine_words
from smex.planning.page.script import SCRIPT
from smex.planning.page.tiles import legend, tensor_picture
from smex.planning.page.timeline import memory_legend, timeline_drawing
from smex.planning.placed import PlacedGraph
from smex.planning.prices import op_prices
from smex.planning.showing import show
from smex.text import duration_words, mesh_words, shape_words, size_words

_MOST_OPS = 100  # rows


class PlanComparison:
    """Two plans side by side, see `Plan.compare`; renders as HTML in notebooks.

    Attributes:
        here: the plan that was asked.
        there: the other one.
    """

    def __init__(self, here: PlacedGraph, there: PlacedGraph, text: str):
        self.here = here
        self.there = there
        self._text = text

    def __repr__(self) -> str:
        return f"PlanComparison({_name(self.here)}, {_name(self.there)})"

    def __str__(self) -> str:
        return self._text

    def _repr_html_(self) -> str:
        return markup.fragment(_totals(self.here, self.there), _tensors(self.here, self.there))

    def show(self, path: str | os.PathLike[str] | None = None) -> pathlib.Path | None:
        """Draws both plans beside each other, and lists what differs.

        Args:
            path: of the page to write, a single file that needs no network. Without one a notebook
                shows the comparison, and elsewhere a temporary file is written and its path
                printed.

        Returns:
            The path that was written, None in a notebook.
        """

        def page() -> str:
            return markup.page(self._title, *self._sections())

        return show("plans", lambda: markup.fragment(*self._sections()), page, path)

    @property
    def _title(self) -> str:
        model = self.here.graph.captured.name
        return f"{model}: {_name(self.here)} beside {_name(self.there)}"

    def _sections(self) -> list[str]:
        here, there = self.here, self.there
        return [
            f"<h1>{escape(self._title)}</h1>",
            _totals(here, there),
            _courses(here, there),
            _sides(here, there, "Links", links_matrix),
            _ops(here, there),
            _tensors(here, there),
            SCRIPT,
        ]


def _name(plan: PlacedGraph) -> str:
    mesh = f" as {mesh_words(plan.mesh)}" if len(plan.mesh) > 1 else ""
    return f"{plan.planner} on {plan.workers} workers{mesh}"


def _names(here: PlacedGraph, there: PlacedGraph) -> tuple[str, str]:
    """Returns what tells the plans apart, in short."""
    for words in (lambda plan: plan.planner, lambda plan: mesh_words(plan.mesh)):
        if words(here) != words(there):
            return words(here), words(there)
    return "this plan", "the other"


def _totals(here: PlacedGraph, there: PlacedGraph) -> str:
    rows = [
        ("planner", escape(here.planner), escape(there.planner), ""),
        ("workers", mesh_words(here.mesh), mesh_words(there.mesh), ""),
        _row("moves", here.total_bytes, there.total_bytes, size_words),
        _row("peak per worker", max(here.peak_bytes()), max(there.peak_bytes()), size_words),
    ]
    words = ""
    if here.machine and there.machine:
        same = str(here.machine) == str(there.machine)
        names = zip(_names(here, there), (here, there), strict=True)
        both = f"{', '.join(f'{n} on {machine_words(plan.machine)}' for n, plan in names)}."
        words = f"<p>{escape(f'Both on {machine_words(here.machine)}.' if same else both)}</p>\n"
        rows.append(_row("takes", here.seconds, there.seconds, duration_words))
        arithmetic = here.compute_seconds, there.compute_seconds
        rows.append(_row("of that compute", *arithmetic, duration_words))
        overlapped = here.timeline().seconds, there.timeline().seconds
        rows.append(_row("simulated, with overlap", *overlapped, duration_words))
    return words + table(("", *map(escape, _names(here, there)), "change"), rows, right=(1, 2, 3))


def _row(
    what: str, here: float, there: float, words: Callable[[float], str]
) -> tuple[str, str, str, str]:
    change = f"{there / here - 1:+.1%}" if here else "" if there == here else "more"
    return what, words(here), words(there), change


def _courses(here: PlacedGraph, there: PlacedGraph) -> str:
    """Returns both timelines on one scale."""
    prices = [op_prices(plan) for plan in (here, there)]
    timed = here.machine is not None and there.machine is not None
    both = [sum(price.seconds for price in each) for each in prices]
    longest = max(both) if timed else None
    highest = max(*here.peak_bytes(), *there.peak_bytes())
    drawn = [
        timeline_drawing(plan, each, longest, highest, narrow=True)
        for plan, each in zip((here, there), prices, strict=True)
    ]
    scale = "seconds and bytes have one scale" if timed else "bytes that are live have one scale"
    return section(
        "Timelines", f"<p>Of both plans, {scale}.</p>", memory_legend(), _beside(here, there, drawn)
    )


def _sides(
    here: PlacedGraph, there: PlacedGraph, title: str, part: Callable[[PlacedGraph], str]
) -> str:
    drawn = [part(here), part(there)]
    return section(title, _beside(here, there, drawn)) if any(drawn) else ""


def _beside(here: PlacedGraph, there: PlacedGraph, drawn: Sequence[str]) -> str:
    sides = zip(_names(here, there), drawn, strict=True)
    columns = "\n".join(f"<div><h3>{escape(name)}</h3>\n{part}</div>" for name, part in sides)
    return f'<div class="sides">{columns}</div>'


def _ops(here: PlacedGraph, there: PlacedGraph) -> str:
    """Returns the calls whose costs differ the most, where both plans are of the same calls."""
    ops = here.graph.captured.ops
    if [op.target for op in ops] != [op.target for op in there.graph.captured.ops]:
        return section("Ops", "<p>The plans are of other calls.</p>")
    timed = here.machine is not None and there.machine is not None
    prices = [op_prices(plan) for plan in (here, there)]
    sums: dict[tuple[str, tuple[str, bool]], list[float]] = defaultdict(lambda: [0.0] * 4)
    splits: dict[tuple[str, tuple[str, bool]], list[str]] = {}
    for op, first, second in zip(ops, *prices, strict=True):
        key = op.module_path, (op.target, op.backward)
        costs = first.nbytes, second.nbytes, first.seconds, second.seconds
        sums[key] = [a + b for a, b in zip(sums[key], costs, strict=True)]
        splits.setdefault(key, [plan.split_words(op.id) for plan in (here, there)])
    alike: Any = collapse(
        (path, (*key, *splits[path, key], *sums[path, key])) for path, key in sums
    )
    found = []
    for module, (target, backward, split, other, *each), paths in alike:
        a, b, c, d = (cost * len(paths) for cost in each)
        if (a, c) != (b, d):
            found.append((abs(d - c) if timed else abs(b - a), module, str(target), bool(backward),
                          str(split), str(other), a, b, c, d))  # fmt: skip
    found.sort(key=lambda row: -row[0])
    if not found:
        return section("Ops", "<p>All calls cost the same.</p>")
    rows = []
    for _, module, target, backward, split, other, a, b, c, d in found[:_MOST_OPS]:
        row = [code(target), markup.module(module), "backward" if backward else "forward"]
        row += [escape(split), escape(other), size_words(a), size_words(b)]
        rows.append([*row, *([duration_words(c), duration_words(d)] if timed else [])])
    head = ["op", "module", "pass"]
    for what in ("split", "moves", "takes") if timed else ("split", "moves"):
        head += [f"{what}, {escape(name)}" for name in _names(here, there)]
    ids = [f"smex-both-{number}" for number in range(len(rows))]
    which = "All" if len(rows) == len(found) else f"The first {len(rows):,} of"
    words = f"{which} {len(found):,} kinds of call whose costs differ."
    drawn = table(head, rows, right=range(5, len(head)), ids=ids)
    return section("Ops that differ most", f"<p>{words}</p>", drawn)


def _tensors(here: PlacedGraph, there: PlacedGraph) -> str:
    """Returns the named tensors that are placed differently."""
    cells = {}
    for name in dict.fromkeys([*here.graph.value_by_name, *there.graph.value_by_name]):
        both = tuple(
            (plan.words(name), plan.worker_bytes(name)) if name in plan.graph.value_by_name else ()
            for plan in (here, there)
        )
        if both[0] != both[1]:
            cells[name] = both, _shape(here, name) or _shape(there, name)
    if not cells:
        return section("Tensors", "<p>No tensor is placed differently.</p>")
    rows = []
    for pattern, (both, shape), names in collapse(cells.items()):
        row = [code(pattern), f"{len(names)} ×" if len(names) > 1 else "", shape]
        for plan, cell in zip((here, there), both, strict=True):
            row += [escape(cell[0]), size_words(cell[1])] if cell else ["absent", ""]
            row.append(_picture(plan, names[0]) if cell else "")
        rows.append(row)
    head = ["tensor", "", "shape"]
    for name in _names(here, there):
        head += [escape(name), "per worker", "tiles"]
    keys = legend(max(here.workers, there.workers)) if here.workers == there.workers else ""
    return section(
        "Tensors that are placed differently", keys, table(head, rows, right=(1, 2, 4, 7))
    )


def _shape(plan: PlacedGraph, name: str) -> str:
    number = plan.graph.value_by_name.get(name)
    return "" if number is None else shape_words(plan.graph.captured.values[number].shape)


def _picture(plan: PlacedGraph, name: str) -> str:
    shape = plan.graph.captured.values[plan.graph.value_by_name[name]].shape
    return tensor_picture(shape, plan.placement(name), plan.tiles(name))
