"""Plans: how every tensor is cut and every operator is run, and how to talk about them."""

from __future__ import annotations

import html
import json
import math
import pathlib
from typing import Any

from smex import _C
from smex.errors import PlanError
from smex.semantic import SemanticGraph

_FORMAT = "smex-plan-1"

DEFAULT_REPLICATE_BYTES = 64 * 1024
"""Gathering less than this costs a latency rather than bandwidth."""


def search(
    graph: SemanticGraph,
    workers: int,
    *,
    planner: str = "tofu",
    objective: str = "communication",
    replicate_bytes: int = DEFAULT_REPLICATE_BYTES,
    pinned: dict[str, list[int]] | None = None,
) -> Plan:
    """Finds the plan that moves the fewest bytes (Tofu §5).

    Args:
        graph: what `smex.capture_graph` returns.
        workers: number of workers; its prime factors are the recursive steps.
        planner: "tofu" cuts every tensor larger than `replicate_bytes`, so that memory per worker
            falls with their number; "data_parallel" replicates parameters and cuts the batch;
            "all_row" cuts dimension 0 of every tensor.
        objective: "communication", the bytes moved in one iteration.
        replicate_bytes: tensors up to this size may be held by every worker.
        pinned: placements that are given, by parameter, buffer or input name: per step the
            dimension that is cut, -1 to replicate.

    Raises:
        PlanError: unknown objective or name, or a placement that does not fit.
    """
    if objective != "communication":
        raise PlanError(f'search: unknown objective "{objective}"; known is "communication"')
    if not isinstance(workers, int) or workers < 1:
        raise PlanError(f"search: workers must be an int of at least 1, got {workers!r}")
    mesh = _C.factorise(workers)
    pins = {}
    for name, choices in (pinned or {}).items():
        pins[_checked_id(graph, name, choices, mesh)] = list(choices)
    native = _C.search(graph.native, mesh, planner, replicate_bytes, pins)
    return Plan(graph, native, replicate_bytes)


def _checked_id(graph: SemanticGraph, name: str, choices: list[int], mesh: list[int]) -> int:
    if name not in graph.value_by_name:
        raise PlanError(
            f'plan: the model has no parameter, buffer or input "{name}"; '
            f"it has {', '.join(sorted(graph.value_by_name)[:8])}…"
        )
    value = graph.captured.values[graph.value_by_name[name]]
    if len(choices) != len(mesh):
        raise PlanError(f'plan: "{name}" has {len(choices)} placements, expected {len(mesh)} steps')
    for dim in choices:
        if not -1 <= dim < len(value.shape):
            raise PlanError(
                f'plan: "{name}" of shape {tuple(value.shape)} cannot be cut along dimension {dim}'
            )
    return value.id


class Plan:
    """A placement for every tensor and a strategy for every op, step by step of the mesh.

    Prints as a table, renders as HTML in notebooks, saves and loads as JSON.
    """

    def __init__(self, graph: SemanticGraph, native: Any, replicate_bytes: int):
        self.graph = graph
        self.native = native
        self.replicate_bytes = replicate_bytes

    @property
    def mesh(self) -> tuple[int, ...]:
        """Worker counts of the recursive steps."""
        return tuple(self.native.mesh)

    @property
    def workers(self) -> int:
        """Number of workers."""
        return math.prod(self.mesh)

    @property
    def step_bytes(self) -> tuple[int, ...]:
        """Bytes that each recursive step adds to the communication of one iteration."""
        return tuple(self.native.step_bytes)

    @property
    def total_bytes(self) -> int:
        """Bytes that one iteration communicates."""
        return sum(self.native.step_bytes)

    @property
    def search_seconds(self) -> float:
        """How long the search took."""
        return self.native.search_seconds

    @property
    def exact(self) -> bool:
        """Whether each step is proven to be the cheapest given the steps before."""
        return self.native.exact

    @property
    def planner(self) -> str:
        """The planner that found the plan."""
        return self.native.planner

    def placement(self, name: str) -> list[int]:
        """Per step the dimension along which a named tensor is cut, -1 where it is replicated."""
        if name not in self.graph.value_by_name:
            raise PlanError(f'plan: there is no parameter, buffer or input "{name}"')
        return list(self.native.values[self.graph.value_by_name[name]])

    def tiles(self, name: str) -> list[tuple[bool, list[tuple[int, int]]]]:
        """Per worker whether it holds a tile of the tensor, and the tile's (lo, hi) by dim."""
        return _C.home_tiles(self.graph.native, self.native, [self.graph.value_by_name[name]])[0]

    def worker_bytes(self, name: str) -> int:
        """Bytes of the largest tile of a named tensor."""
        value = self.graph.captured.values[self.graph.value_by_name[name]]
        sizes = [
            math.prod(hi - lo for lo, hi in box) if held else 0 for held, box in self.tiles(name)
        ]
        return max(sizes) * value.dtype.itemsize

    def placements(self) -> dict[str, list[int]]:
        """Placements of all parameters, buffers and inputs by name."""
        return {name: self.placement(name) for name in self.graph.value_by_name}

    def explain(self, name: str) -> str:
        """What the tensor's placement costs, op by op, beside every other single cut.

        Alternatives are priced with the rest of the plan held fixed, so they bound from above what
        a search with that cut pinned would find.
        """
        chosen = self.placement(name)
        value_id = self.graph.value_by_name[name]
        value = self.graph.captured.values[value_id]
        users = self.graph.native.values[value_id].users
        costs = _C.op_bytes(self.graph.native, self.native)
        lines = [f"{name}: {tuple(value.shape)}, placed {self._words(value_id)}"]
        for op_id in users:
            op = self.graph.captured.ops[op_id]
            strategy = self._strategy_words(op_id)
            lines.append(f"  {op.target} {strategy}: {_size(costs[op_id])}  {op.module_path}")
        base = sum(costs)
        for dim in [*range(len(value.shape)), -1]:
            choices = [dim] * len(self.mesh)
            if choices == chosen:
                continue
            delta = self._cost_with(value_id, choices) - base
            word = "replicated" if dim < 0 else f"cut along {dim} in every step"
            lines.append(f"  rejected: {word}: {'+' if delta >= 0 else '-'}{_size(abs(delta))}")
        return "\n".join(lines)

    def _cost_with(self, value_id: int, choices: list[int]) -> int:
        other = _C.Plan()
        other.mesh, other.ops = self.native.mesh, self.native.ops
        values = list(self.native.values)
        values[value_id] = choices
        other.values = values
        return _C.plan_bytes(self.graph.native, other)

    def _strategy_words(self, op_id: int) -> str:
        spec = self.graph.native.ops[op_id].spec
        names = []
        for choice in self.native.ops[op_id]:
            names.append("repeat" if choice < 0 else spec.indices[choice].name)
        return "·".join(names) if names else "unsplit"

    def _words(self, value_id: int) -> str:
        choices = self.native.values[value_id]
        if not choices:
            return "whole"
        return " ".join(
            f"R/{k}" if dim < 0 else f"S{dim}/{k}"
            for dim, k in zip(choices, self.mesh, strict=True)
        )

    def diff(self, other: Plan) -> str:
        """The named tensors that two plans place differently, one line each."""
        lines = []
        mine, theirs = self.placements(), other.placements()
        for name in sorted(mine.keys() | theirs.keys()):
            if mine.get(name) != theirs.get(name):
                lines.append(f"{name}: {mine.get(name)} -> {theirs.get(name)}")
        lines.append(f"bytes: {_size(self.total_bytes)} -> {_size(other.total_bytes)}")
        return "\n".join(lines)

    def save(self, path: str | pathlib.Path) -> None:
        """Writes the placements of the named tensors as JSON; the rest follows from them."""
        content = {
            "format": _FORMAT,
            "workers": self.workers,
            "mesh": list(self.mesh),
            "planner": self.planner,
            "replicate_bytes": self.replicate_bytes,
            "total_bytes": self.total_bytes,
            "placements": self.placements(),
        }
        pathlib.Path(path).write_text(json.dumps(content, indent=1) + "\n")

    @staticmethod
    def load(path: str | pathlib.Path, graph: SemanticGraph) -> Plan:
        """Reads placements and finds the best plan of `graph` that has them."""
        try:
            content = json.loads(pathlib.Path(path).read_text())
        except json.JSONDecodeError as error:
            raise PlanError(f"plan: {path} is not JSON: {error}") from error
        if content.get("format") != _FORMAT:
            raise PlanError(
                f"plan: {path} has format {content.get('format')!r}, expected {_FORMAT!r}"
            )
        return search(
            graph,
            content["workers"],
            planner=content["planner"],
            replicate_bytes=content["replicate_bytes"],
            pinned=content["placements"],
        )

    def _rows(self) -> list[tuple[str, str, str, str]]:
        rows = []
        for name, value_id in self.graph.value_by_name.items():
            value = self.graph.captured.values[value_id]
            shape = "×".join(map(str, value.shape)) or "scalar"
            rows.append((name, shape, self._words(value_id), _size(self.worker_bytes(name))))
        return rows

    def _summary(self) -> str:
        steps = " + ".join(_size(b) for b in self.step_bytes) or "0 B"
        proof = "exact" if self.exact else f"gap {self.native.gap:.1%}"
        return (
            f"{self.workers} workers as {'×'.join(map(str, self.mesh)) or '1'}, "
            f"{self.planner}, moves {_size(self.total_bytes)} an iteration ({steps}), "
            f"searched in {self.search_seconds:.3f} s, {proof}"
        )

    def __repr__(self) -> str:
        return f"Plan({self._summary()})"

    def __str__(self) -> str:
        rows = [("tensor", "shape", "placement", "per worker"), *self._rows()]
        widths = [max(len(row[c]) for row in rows) for c in range(4)]
        lines = [
            "  ".join(cell.ljust(w) for cell, w in zip(row, widths, strict=True)).rstrip()
            for row in rows
        ]
        return "\n".join([self._summary(), *lines])

    def _repr_html_(self) -> str:
        rows = []
        for name, shape, words, size in self._rows():
            cells = "".join(f"<td>{html.escape(text)}</td>" for text in (name, shape, words, size))
            rows.append(f"<tr>{cells}<td>{self._picture(name)}</td></tr>")
        head = "".join(
            f"<th>{t}</th>" for t in ("tensor", "shape", "placement", "per worker", "cuts")
        )
        return f"<p>{html.escape(self._summary())}</p><table><tr>{head}</tr>{''.join(rows)}</table>"

    def _picture(self, name: str) -> str:
        """An SVG of the tensor's first two cut dimensions, one coloured box per worker's tile."""
        value = self.graph.captured.values[self.graph.value_by_name[name]]
        cut = sorted({dim for dim in self.placement(name) if dim >= 0})[:2]
        width, height = 90, 36
        boxes = []
        for worker, (held, box) in enumerate(self.tiles(name)):
            if not held:
                continue
            spans = [(0.0, 1.0), (0.0, 1.0)]
            for place, dim in enumerate(cut):
                size = value.shape[dim]
                axis = 1 if len(cut) == 2 and place == 0 else 0
                spans[axis] = (box[dim][0] / size, box[dim][1] / size)
            (x0, x1), (y0, y1) = spans
            hue = worker * 360 // self.workers
            label = f"worker {worker}: " + ", ".join(f"{lo}:{hi}" for lo, hi in box)
            boxes.append(
                f'<rect x="{x0 * width:.1f}" y="{y0 * height:.1f}" '
                f'width="{(x1 - x0) * width:.1f}" height="{(y1 - y0) * height:.1f}" '
                f'fill="hsl({hue} 60% 70%)" fill-opacity="0.6" stroke="#333">'
                f"<title>{html.escape(label)}</title></rect>"
            )
        return f'<svg width="{width}" height="{height}">{"".join(boxes)}</svg>'

    def save_html(self, path: str | pathlib.Path) -> None:
        """Writes the notebook view as one self-contained page."""
        style = "body{font:14px sans-serif}td,th{padding:2px 8px;text-align:left}"
        pathlib.Path(path).write_text(
            f'<!doctype html><meta charset="utf-8"><title>SMEX plan</title>'
            f"<style>{style}</style>{self._repr_html_()}\n"
        )


def _size(nbytes: float) -> str:
    """Bytes for people: 1.5 MiB."""
    for unit in ("B", "KiB", "MiB", "GiB"):
        if nbytes < 1024 or unit == "GiB":
            return f"{nbytes:.0f} {unit}" if unit == "B" else f"{nbytes:.1f} {unit}"
        nbytes /= 1024
    raise AssertionError
