"""Plans: how every tensor is cut and every operator is run, and how to talk about them."""

from __future__ import annotations

import dataclasses
import html
import itertools
import json
import math
import pathlib
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from smex import _C
from smex.capture import CapturedGraph
from smex.capture.records import returns_view
from smex.errors import PlanError, SmexTypeError
from smex.machine import Machine
from smex.semantic import SemanticGraph
from smex.text import aligned

if TYPE_CHECKING:
    from smex.search import Request

_FORMAT = "smex-plan-1"
_FILE_KEYS: dict[str, type] = {
    "workers": int,
    "mesh": list,
    "planner": str,
    "replicate_bytes": int,
    "placements": dict,
}


def read_plan_file(path: str | pathlib.Path) -> dict[str, Any]:
    """The content of a file that `Plan.save` wrote.

    Raises:
        PlanError: it is not such a file, or a key is missing or of the wrong type.
    """
    try:
        content = json.loads(pathlib.Path(path).read_text())
    except ValueError as error:
        raise PlanError(f"plan: {path} is not JSON: {error}") from error
    if not isinstance(content, dict):
        raise PlanError(f"plan: {path} holds a {type(content).__name__}, expected an object")
    if content.get("format") != _FORMAT:
        raise PlanError(f"plan: {path} has format {content.get('format')!r}, expected {_FORMAT!r}")
    for key, kind in _FILE_KEYS.items():
        if key not in content:
            raise PlanError(f'plan: {path} has no key "{key}"')
        if type(content[key]) is not kind:
            raise PlanError(
                f'plan: "{key}" in {path} must be {kind.__name__}, got {content[key]!r}'
            )
    workers, mesh = content["workers"], content["mesh"]
    if workers < 1:
        raise PlanError(f'plan: "workers" in {path} must be at least 1, got {workers}')
    if any(type(parts) is not int or parts < 2 for parts in mesh) or math.prod(mesh) != workers:
        raise PlanError(
            f'plan: "mesh" in {path} is {mesh}, expected numbers above 1 whose product is {workers}'
        )
    return content


def _predicted_peak_bytes(graph: SemanticGraph, program: Any) -> list[int]:
    """Peak bytes of live tensors per worker in one iteration, from the program alone.

    Operators whose schema says that they return a view share their operand's memory. Kernels'
    workspaces are not counted.
    """
    records = [*graph.captured.ops, *(fusion.fused for fusion in graph.captured.fusions)]
    views = {op.target for op in records if returns_view(op)}
    return _C.peak_bytes(program, views)


class Plan:
    """A placement for every tensor and a strategy for every op, step by step of the mesh.

    Prints as a table, renders as HTML in notebooks, saves and loads as JSON. A placement such as
    `S0/2 R/2` reads: cut along dimension 0 by 2, then held by both halves of 2.
    """

    def __init__(
        self,
        graph: SemanticGraph,
        native: Any,
        request: Request,
        pinned: Mapping[str, list[int]] | None = None,
    ):
        self.graph = graph
        self.native = native
        self.pinned = dict(pinned or {})
        self._request = request
        self._program: Any = None
        self._peak_bytes: list[int] | None = None

    @property
    def replicate_bytes(self) -> int:
        """Tensors up to this size might be held by every worker."""
        return self._request.replicate_bytes

    @property
    def objective(self) -> str:
        """What the search minimised: "communication" or "time"."""
        return self._request.objective

    @property
    def machine(self) -> Machine | None:
        """What times are predicted for."""
        return self._request.machine

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
    def step_seconds(self) -> tuple[float, ...]:
        """Predicted seconds of the communication that each step adds; empty without a machine."""
        return tuple(self.native.step_seconds)

    @property
    def compute_seconds(self) -> float:
        """Predicted seconds of all ops in one iteration; nan without a machine."""
        return self.native.compute_seconds if self.machine else math.nan

    @property
    def seconds(self) -> float:
        """Predicted seconds of one iteration; nan without a machine."""
        return self.compute_seconds + sum(self.step_seconds)

    def on(self, machine: Machine) -> Plan:
        """The same plan with the times that it takes on a machine."""
        if not isinstance(machine, Machine):
            raise SmexTypeError(f"plan: expected a smex.Machine, found {machine!r}")
        request = dataclasses.replace(self._request, machine=machine)
        native = _C.price(self.graph.native, self.native, request.native_machine)
        return Plan(self.graph, native, request, self.pinned)

    def of_same(self, graph: SemanticGraph) -> Plan | None:
        """The same plan for another capture of the same calls; None where the calls differ."""
        if graph is not self.graph and _described(graph) != _described(self.graph):
            return None
        return Plan(graph, self.native, self._request, self.pinned)

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

    def program(self) -> Any:
        """What every worker runs; made at the first call."""
        if self._program is None:
            self._program = _C.lower(self.graph.native, self.native)
        return self._program

    def peak_bytes(self) -> list[int]:
        """Predicted peak bytes of live tensors per worker in one iteration.

        Kernels' workspaces are not counted. The first call lowers the plan.
        """
        if self._peak_bytes is None:
            self._peak_bytes = _predicted_peak_bytes(self.graph, self.program())
        return list(self._peak_bytes)

    def peak(self) -> float:
        """Predicted peak bytes of the fullest worker, the optimiser's states included."""
        states = self._request.optimizer_states
        return max(self.peak_bytes()) + (states * self.parameter_bytes() if states else 0)

    def parameter_bytes(self) -> int:
        """Bytes of the largest tiles of all parameters."""
        values = [v for v in self.graph.captured.values if v.role == "parameter"]
        tiles = _C.home_tiles(self.graph.native, self.native, [value.id for value in values])
        return sum(
            _largest_numel(held) * value.dtype.itemsize
            for value, held in zip(values, tiles, strict=True)
        )

    def _id(self, name: str) -> int:
        if name not in self.graph.value_by_name:
            raise PlanError(f'plan: there is no parameter, buffer or input "{name}"')
        return self.graph.value_by_name[name]

    def placement(self, name: str) -> list[int]:
        """Per step the dimension along which a named tensor is cut, -1 where it is replicated."""
        return list(self.native.values[self._id(name)])

    def words(self, name: str) -> str:
        """The placement as text: `S0/2 R/2`."""
        return placement_words(self.placement(name), self.mesh)

    def tiles(self, name: str) -> list[tuple[bool, list[tuple[int, int]]]]:
        """Per worker whether it holds a tile of the tensor, and the tile's (lo, hi) by dim."""
        return _C.home_tiles(self.graph.native, self.native, [self._id(name)])[0]

    def worker_bytes(self, name: str) -> int:
        """Bytes of the largest tile of a named tensor."""
        value = self.graph.captured.values[self._id(name)]
        return _largest_numel(self.tiles(name)) * value.dtype.itemsize

    def placements(self) -> dict[str, list[int]]:
        """Placements of all parameters, buffers and inputs by name."""
        return {name: self.placement(name) for name in self.graph.value_by_name}

    def explain(self, name: str) -> str:
        """What a tensor's placement costs, op by op, and why the others were rejected.

        The alternatives are one cut in all steps, and the chosen placement with another cut in one
        step. Each is priced exactly: the rest of the plan is searched again with it pinned.
        """
        chosen, value_id = self.placement(name), self._id(name)
        value = self.graph.captured.values[value_id]
        costs = _C.op_bytes(self.graph.native, self.native)
        alike: dict[tuple[str, ...], int] = {}  # unrolled steps use a tensor in the same way
        for op_id in self.graph.native.values[value_id].users:
            op = self.graph.captured.ops[op_id]
            row = (op.target, self._strategy_words(op_id), size_words(costs[op_id]), op.module_path)
            alike[row] = alike.get(row, 0) + 1
        users: list[tuple[str, ...]] = [("", "op", "split", "each moves", "module")]
        users += [(f"{count} ×", *row) for row, count in alike.items()]
        timed = self.machine is not None
        choices: list[tuple[str, ...]] = [
            ("", "placement", "per worker", "moves", *["takes"] * timed, "against the plan")
        ]
        choices.append(
            (
                "chosen",
                self.words(name),
                size_words(self.worker_bytes(name)),
                size_words(self.total_bytes),
                *[_duration(self.seconds)] * timed,
                "pinned" if name in self.pinned else "",
            )
        )
        for pin in self._alternatives(chosen, len(value.shape)):
            choices.append(self._priced(name, pin))
        return "\n".join(
            [
                f"{name}: {value.type_str()}, {value.role}",
                *aligned(users, right=(0, 3)),
                *aligned(choices, right=(2, 3, 4) if timed else (2, 3)),
            ]
        )

    def _alternatives(self, chosen: list[int], ndim: int) -> list[list[int]]:
        dims = [*range(ndim), -1]
        found = [[dim] * len(chosen) for dim in dims]
        for step, dim in itertools.product(range(len(chosen)), dims):
            found.append([*chosen[:step], dim, *chosen[step + 1 :]])
        unique = dict.fromkeys(map(tuple, found))
        return [list(pin) for pin in unique if list(pin) != chosen]

    def _priced(self, name: str, pin: list[int]) -> tuple[str, ...]:
        """A row of `explain`: the plan that has this placement, against this plan."""
        words = placement_words(pin, self.mesh)
        impossible = ("impossible", words, "", "", *([""] if self.machine else []))
        try:
            other = self._request.find(self.graph, {**self.pinned, name: pin})
        except PlanError as error:
            return *impossible, str(error).rpartition(": ")[2]
        held = other.worker_bytes(name)
        delta = other.total_bytes - self.total_bytes
        reason = f"{'-' if delta < 0 else '+'}{size_words(abs(delta))}"
        if -1 in pin and held > self.replicate_bytes and held > self.worker_bytes(name):
            reason += f", replicas above replicate_bytes={self.replicate_bytes}"
        seconds = [_duration(other.seconds)] if self.machine else []
        return "rejected", words, size_words(held), size_words(other.total_bytes), *seconds, reason

    def _strategy_words(self, op_id: int) -> str:
        spec = self.graph.native.ops[op_id].spec
        names = []
        for choice in self.native.ops[op_id]:
            names.append("repeat" if choice < 0 else spec.indices[choice].name)
        return "·".join(names) if names else "unsplit"

    def diff(self, other: Plan) -> str:
        """The named tensors that two plans place differently, and what both plans move."""
        rows = [("tensor", "here", "there", "per worker here", "there")]
        names = dict.fromkeys([*self.graph.value_by_name, *other.graph.value_by_name])
        for name in names:
            cells = [
                (plan.words(name), size_words(plan.worker_bytes(name)))
                if name in plan.graph.value_by_name
                else ("absent", "")
                for plan in (self, other)
            ]
            if cells[0] != cells[1]:
                rows.append((name, cells[0][0], cells[1][0], cells[0][1], cells[1][1]))
        if len(rows) == 1:
            rows = [("no tensor is placed differently", "", "", "", "")]
        totals = [
            ("workers", str(self.workers), str(other.workers)),
            ("moves", size_words(self.total_bytes), size_words(other.total_bytes)),
            *(
                [("takes", _duration(self.seconds), _duration(other.seconds))]
                if self.machine and other.machine
                else []
            ),
            (
                "peak per worker",
                size_words(max(self.peak_bytes())),
                size_words(max(other.peak_bytes())),
            ),
        ]
        lines = aligned(rows, right=(3, 4))
        lines += [f"{what}: {here} -> {there}" for what, here, there in totals]
        return "\n".join(lines)

    def contents(self) -> dict[str, Any]:
        """What `save` writes: the placements of the named tensors; the rest follows from them."""
        return {
            "format": _FORMAT,
            "workers": self.workers,
            "mesh": list(self.mesh),
            "planner": self.planner,
            "objective": self.objective,
            "machine": self.machine and self.machine.contents(),
            "memory_limit": self._request.memory_limit,
            "optimizer_states": self._request.optimizer_states,
            "replicate_bytes": self.replicate_bytes,
            "total_bytes": self.total_bytes,
            "placements": self.placements(),
        }

    def save(self, path: str | pathlib.Path) -> None:
        """Writes the plan as JSON."""
        pathlib.Path(path).write_text(json.dumps(self.contents(), indent=1) + "\n")

    @staticmethod
    def load(path: str | pathlib.Path, graph: SemanticGraph | CapturedGraph) -> Plan:
        """Reads placements and finds the best plan of `graph` that has them.

        Raises:
            PlanError: the file is not a plan, or does not fit the model.
        """
        return Plan.from_contents(read_plan_file(path), graph)

    @staticmethod
    def from_contents(content: dict[str, Any], graph: SemanticGraph | CapturedGraph) -> Plan:
        """The best plan of `graph` that has the placements which `contents` gave."""
        from smex.search import search

        machine = content.get("machine")
        return search(
            graph,
            content["workers"],
            planner=content["planner"],
            objective=content.get("objective", "communication"),
            machine=machine and Machine.from_contents(machine),
            memory_limit=content.get("memory_limit"),
            optimizer_states=content.get("optimizer_states", 0),
            replicate_bytes=content["replicate_bytes"],
            pinned=content["placements"],
            mesh=content["mesh"],
        )

    def _rows(self) -> list[tuple[str, str, str, str]]:
        rows = []
        for name, value_id in self.graph.value_by_name.items():
            value = self.graph.captured.values[value_id]
            shape = "×".join(map(str, value.shape)) or "scalar"
            rows.append((name, shape, self.words(name), size_words(self.worker_bytes(name))))
        return rows

    def _summary(self) -> str:
        steps = " + ".join(size_words(b) for b in self.step_bytes) or "0 B"
        proof = "exact" if self.exact else f"gap {self.native.gap:.1%}"
        if self.planner in ("random", "spartan"):
            proof = "a heuristic"
        moves = f"moves {size_words(self.total_bytes)} an iteration ({steps})"
        if self.machine:
            parts = [self.compute_seconds, *self.step_seconds]
            moves += f" in {_duration(self.seconds)} ({' + '.join(map(_duration, parts))})"
        return (
            f"{self.workers} workers as {mesh_words(self.mesh)}, "
            f"{self.planner}, {moves}, "
            f"peak {size_words(max(self.peak_bytes()))} per worker, "
            f"searched in {self.search_seconds:.3f} s, {proof}"
        )

    def __repr__(self) -> str:
        return f"Plan({self._summary()})"

    def __str__(self) -> str:
        rows = [("tensor", "shape", "placement", "per worker"), *self._rows()]
        return "\n".join([self._summary(), *aligned(rows, right=(1, 3), indent="")])

    def _repr_html_(self) -> str:
        rows = []
        for name, shape, words, size in self._rows():
            cells = "".join(
                f"<td{_RIGHT if right else ''}>{html.escape(text)}</td>"
                for text, right in ((name, 0), (shape, 1), (words, 0), (size, 1))
            )
            rows.append(f"<tr>{cells}<td>{self._picture(name)}</td></tr>")
        head = "".join(
            f"<th>{t}</th>" for t in ("tensor", "shape", "placement", "per worker", "tiles")
        )
        legend = " ".join(
            f'<span style="background:{self._colour(worker)};padding:1px 6px">{worker}</span>'
            for worker in range(self.workers)
        )
        return (
            f"<p>{html.escape(self._summary())}</p><p>workers: {legend}</p>"
            f"<table><tr>{head}</tr>{''.join(rows)}</table>"
        )

    def _colour(self, worker: int) -> str:
        return f"hsl({worker * 360 // self.workers} 60% 70%)"

    def _picture(self, name: str) -> str:
        """An SVG of the tensor: its two dimensions that are cut first, down and to the right.

        A box that several workers hold, because they are replicas or differ in a third dimension,
        is striped in their colours.
        """
        shape = self.graph.captured.values[self._id(name)].shape
        down, right = _axes(len(shape), self.placement(name))
        holders: dict[tuple[float, ...], list[tuple[int, str]]] = {}
        for worker, (held, box) in enumerate(self.tiles(name)):
            if held:
                drawn = (*_span(box, shape, right), *_span(box, shape, down))
                label = ", ".join(f"{lo}:{hi}" for lo, hi in box)
                holders.setdefault(drawn, []).append((worker, f"worker {worker}: {label}"))
        boxes = []
        for (x0, x1, y0, y1), workers in holders.items():
            stripe = (x1 - x0) / len(workers)
            for position, (worker, label) in enumerate(workers):
                boxes.append(
                    f'<rect x="{(x0 + position * stripe) * _WIDTH:.1f}" y="{y0 * _HEIGHT:.1f}" '
                    f'width="{stripe * _WIDTH:.1f}" height="{(y1 - y0) * _HEIGHT:.1f}" '
                    f'fill="{self._colour(worker)}"><title>{label}</title></rect>'
                )
            boxes.append(
                f'<rect x="{x0 * _WIDTH:.1f}" y="{y0 * _HEIGHT:.1f}" '
                f'width="{(x1 - x0) * _WIDTH:.1f}" height="{(y1 - y0) * _HEIGHT:.1f}" '
                'fill="none" stroke="#333" pointer-events="none"/>'
            )
        axes = [f"{arrow} dim {dim}" for arrow, dim in (("↓", down), ("→", right)) if dim >= 0]
        return (
            f'<svg width="{_WIDTH}" height="{_HEIGHT}">{"".join(boxes)}</svg> '
            f"<small>{' '.join(axes)}</small>"
        )

    def save_html(self, path: str | pathlib.Path) -> None:
        """Writes the notebook view as one self-contained page."""
        style = "body{font:14px sans-serif}td,th{padding:2px 8px;text-align:left}"
        pathlib.Path(path).write_text(
            f'<!doctype html><meta charset="utf-8"><title>SMEX plan</title>'
            f"<style>{style}</style>{self._repr_html_()}\n"
        )


_WIDTH, _HEIGHT = 90, 36  # of a picture, in pixels
_RIGHT = ' style="text-align:right"'


def _described(graph: SemanticGraph) -> tuple[Any, ...]:
    """All that a plan depends on: the values, the calls and what becomes of them."""
    values = [(v.name, v.role, tuple(v.shape), v.dtype) for v in graph.captured.values]
    outputs = [(out.kind, out.value, out.target) for out in graph.captured.outputs]
    return values, outputs, str(graph)


def _largest_numel(tiles: Iterable[tuple[bool, list[tuple[int, int]]]]) -> int:
    """Elements of the largest of the workers' tiles."""
    return max(math.prod(hi - lo for lo, hi in box) if held else 0 for held, box in tiles)


def _axes(ndim: int, placement: list[int]) -> tuple[int, int]:
    """The dimensions that a picture shows downwards and to the right; -1 for none."""
    if ndim < 2:
        return -1, ndim - 1
    cut = sorted({dim for dim in placement if dim >= 0})[:2]
    if len(cut) == 2:
        return cut[0], cut[1]
    return 0, max(1, *cut, 1)


def _span(box: list[tuple[int, int]], shape: Sequence[int], dim: int) -> tuple[float, float]:
    """A box's extent along a dimension as fractions of the tensor's."""
    if dim < 0 or shape[dim] == 0:
        return 0.0, 1.0
    lo, hi = box[dim]
    return lo / shape[dim], hi / shape[dim]


def mesh_words(mesh: Iterable[int]) -> str:
    """The steps as text: `2×2`."""
    return "×".join(map(str, mesh)) or "1"


def placement_words(placement: Sequence[int], mesh: Sequence[int]) -> str:
    """`S0/2 R/2`: cut along dimension 0 by 2, then replicated by 2."""
    return (
        " ".join(
            f"R/{k}" if dim < 0 else f"S{dim}/{k}" for dim, k in zip(placement, mesh, strict=True)
        )
        or "whole"
    )


def _duration(seconds: float) -> str:
    """Seconds for people: 1.5 ms."""
    for unit in ("s", "ms"):
        if seconds >= 1:
            return f"{seconds:.3g} {unit}"
        seconds *= 1000
    return f"{seconds:.3g} µs"


def size_words(nbytes: float) -> str:
    """Bytes for people: 1.5 MiB."""
    if nbytes < 1024:
        return f"{nbytes:.0f} B"
    for unit in ("KiB", "MiB"):
        nbytes /= 1024
        if nbytes < 1024:
            return f"{nbytes:.1f} {unit}"
    return f"{nbytes / 1024:.1f} GiB"
