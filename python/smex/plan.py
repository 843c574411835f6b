"""Plans: how every tensor is cut and every operator is run, and how to talk about them."""

from __future__ import annotations

import dataclasses
import functools
import hashlib
import itertools
import json
import math
import os
import pathlib
import sys
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from smex import _C
from smex.capture import CapturedGraph
from smex.capture.records import returns_view
from smex.errors import PlanError, SmexError, SmexTypeError
from smex.machine import Machine
from smex.prices import largest_numel
from smex.semantic import SemanticGraph
from smex.text import (
    aligned,
    duration_words,
    mesh_words,
    placement_words,
    shape_words,
    size_words,
    strategy_words,
)
from smex.viz.plan_page import plan_fragment, plan_overview, plan_page

if TYPE_CHECKING:
    from smex.search import Request

_FORMAT = "smex-plan-1"
_LOWERED_CALLS = 2**20  # of all workers, that a summary lowers to tell the peak
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
        OSError: it cannot be read.
        SmexTypeError: it is no path.
    """
    if not isinstance(path, (str, os.PathLike)):
        raise SmexTypeError(f"plan: expected the path of a file, got {path!r}")
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
    if content.get("machine") is not None:
        try:
            Machine.from_contents(content["machine"])
        except SmexError as error:
            raise PlanError(f'plan: "machine" in {path} is none: {error}') from error
    return content


def _predicted_peak_bytes(graph: SemanticGraph, program: Any) -> list[int]:
    """Peak bytes of live tensors per worker in one iteration, from the program alone.

    Kernels' workspaces are not counted.
    """
    return _C.peak_bytes(program, view_targets(graph))


def view_targets(graph: SemanticGraph) -> set[str]:
    """The operators whose schema says that they return a view: they share an operand's memory."""
    records = [*graph.captured.ops, *(fusion.fused for fusion in graph.captured.fusions)]
    return {op.target for op in records if returns_view(op)}


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
        self.request = request
        self._program: Any = None
        self._peak_bytes: list[int] | None = None

    @property
    def replicate_bytes(self) -> int:
        """Tensors up to this size might be held by every worker."""
        return self.request.replicate_bytes

    @property
    def objective(self) -> str:
        """What the search minimised: "communication" or "time"."""
        return self.request.objective

    @property
    def machine(self) -> Machine | None:
        """What times are predicted for."""
        return self.request.machine

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
        request = dataclasses.replace(self.request, machine=machine)
        native = _C.price(self.graph.native, self.native, request.native_machine)
        return Plan(self.graph, native, request, self.pinned)

    def of_same(self, graph: SemanticGraph) -> Plan | None:
        """The same plan for another capture of the same calls; None where the calls differ."""
        if graph is not self.graph and _described(graph) != _described(self.graph):
            return None
        return Plan(graph, self.native, self.request, self.pinned)

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
        states = self.request.optimizer_states
        return max(self.peak_bytes()) + (states * self.parameter_bytes() if states else 0)

    def parameter_bytes(self) -> int:
        """Bytes of the largest tiles of all parameters."""
        values = [v for v in self.graph.captured.values if v.role == "parameter"]
        tiles = _C.home_tiles(self.graph.native, self.native, [value.id for value in values])
        return sum(
            largest_numel(held) * value.dtype.itemsize
            for value, held in zip(values, tiles, strict=True)
        )

    def _id(self, name: str) -> int:
        if not isinstance(name, str):
            raise SmexTypeError(f'plan: a name must be text, such as "fc.weight", got {name!r}')
        if name not in self.graph.value_by_name:
            raise PlanError(f'plan: there is no parameter, buffer or input "{name}"')
        return self.graph.value_by_name[name]

    @functools.cached_property
    def value_choices(self) -> list[list[int]]:
        """By value id the dimension that each step cuts, -1 where it replicates."""
        return list(self.native.values)

    @functools.cached_property
    def op_choices(self) -> list[list[int]]:
        """By op id the index of its Spec along which each step splits it, -1 where it repeats."""
        return list(self.native.ops)

    def placement(self, name: str) -> list[int]:
        """Per step the dimension along which a named tensor is cut, -1 where it is replicated."""
        return list(self.value_choices[self._id(name)])

    def words(self, name: str) -> str:
        """The placement as text: `S0/2 R/2`."""
        return placement_words(self.placement(name), self.mesh)

    def split_words(self, op_id: int) -> str:
        """The index along which each step splits an op, as text: `i·k`."""
        return strategy_words(self.graph.native.ops[op_id].spec, self.op_choices[op_id])

    def tiles(self, name: str) -> list[tuple[bool, list[tuple[int, int]]]]:
        """Per worker whether it holds a tile of the tensor, and the tile's (lo, hi) by dim."""
        self._id(name)
        return self.named_tiles()[name]

    def named_tiles(self) -> dict[str, list[tuple[bool, list[tuple[int, int]]]]]:
        """The tiles of all parameters, buffers and inputs by name."""
        return self._named_tiles

    @functools.cached_property
    def _named_tiles(self) -> dict[str, list[tuple[bool, list[tuple[int, int]]]]]:
        ids = self.graph.value_by_name
        tiles = _C.home_tiles(self.graph.native, self.native, list(ids.values()))
        return dict(zip(ids, tiles, strict=True))

    def worker_bytes(self, name: str) -> int:
        """Bytes of the largest tile of a named tensor."""
        value = self.graph.captured.values[self._id(name)]
        return largest_numel(self.tiles(name)) * value.dtype.itemsize

    def placements(self) -> dict[str, list[int]]:
        """Placements of all parameters, buffers and inputs by name."""
        return {name: self.placement(name) for name in self.graph.value_by_name}

    def explain(self, name: str) -> str:
        """What a tensor's placement costs, op by op, and why the others were rejected.

        The alternatives are one cut in all steps, and the chosen placement with another cut in one
        step. Each is priced exactly: the rest of the plan is searched again with it pinned. Of a
        rejected one it says which calls move the most more than in this plan, with their module and
        line; other calls may move less.
        """
        chosen, value_id = self.placement(name), self._id(name)
        value = self.graph.captured.values[value_id]
        costs = self._op_bytes
        alike: dict[tuple[str, ...], int] = {}  # unrolled steps use a tensor in the same way
        for op_id in self.graph.native.values[value_id].users:
            op = self.graph.captured.ops[op_id]
            split = self.split_words(op_id)
            row = (op.target, split, size_words(costs[op_id]), op.module_path)
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
                *[duration_words(self.seconds)] * timed,
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
        ids = self.graph.value_by_name  # a tied tensor may be pinned under another name
        others = {each: dims for each, dims in self.pinned.items() if ids[each] != ids[name]}
        impossible = ("impossible", words, "", "", *([""] if self.machine else []))
        try:
            other = self.request.find(self.graph, {**others, name: pin})
        except PlanError as error:
            return *impossible, str(error).rpartition(": ")[2]
        held = other.worker_bytes(name)
        delta = other.total_bytes - self.total_bytes
        reason = f"{'-' if delta < 0 else '+'}{size_words(abs(delta))}"
        if -1 in pin and held > self.replicate_bytes and held > self.worker_bytes(name):
            reason += f", replicas above replicate_bytes={self.replicate_bytes}"
        reason += self._dearest(other)
        seconds = [duration_words(other.seconds)] if self.machine else []
        return "rejected", words, size_words(held), size_words(other.total_bytes), *seconds, reason

    @functools.cached_property
    def _op_bytes(self) -> list[int]:
        """By op the bytes that it moves."""
        return list(_C.op_bytes(self.graph.native, self.native))

    def _dearest(self, other: Plan) -> str:
        """The calls of one operator and line that move the most more in another plan; "" if none.

        Backward calls are told from forward ones, unrolled steps are one.
        """
        more: dict[tuple[str, str, str, bool], list[int]] = {}
        for op, here, there in zip(
            self.graph.captured.ops, self._op_bytes, other._op_bytes, strict=True
        ):
            key = (op.target, op.module_path, op.source, op.backward)
            sums = more.setdefault(key, [0, 0])
            sums[0] += here
            sums[1] += there
        if not more:
            return ""
        key, (here, there) = max(more.items(), key=lambda item: item[1][1] - item[1][0])
        if there <= here:
            return ""
        target, module, source, backward = key
        at = ", ".join(filter(None, (module and f"module {module}", source, "backward" * backward)))
        where = f"{target} ({at})" if at else target
        return f", most by {where}: {size_words(here)} -> {size_words(there)}"

    def diff(self, other: Plan) -> str:
        """The named tensors that two plans place differently, and what both plans move."""
        if not isinstance(other, Plan):
            raise SmexTypeError(f"plan: expected a plan to compare with, got {other!r}")
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
                [("takes", duration_words(self.seconds), duration_words(other.seconds))]
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
        """What `save` writes: the placements of the named tensors, and all that was chosen.

        The choices hold for the same calls and the same placements only, which the digest tells;
        otherwise they are searched anew from the placements.
        """
        content = {
            "format": _FORMAT,
            "workers": self.workers,
            "mesh": list(self.mesh),
            "planner": self.planner,
            "objective": self.objective,
            "machine": self.machine and self.machine.contents(),
            "memory_limit": self.request.memory_limit,
            "optimizer_states": self.request.optimizer_states,
            "replicate_bytes": self.replicate_bytes,
            "total_bytes": self.total_bytes,
            "placements": self.placements(),
            "choices": {
                "values": _choices_text(self.native.values),
                "ops": _choices_text(self.native.ops),
                "exact": self.exact,
                "gap": self.native.gap,
            },
        }
        return content | {"digest": _digest(self.graph, content)}

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
        """The plan whose `contents` these are; of another graph the best with its placements."""
        from smex.search import Request, search

        if isinstance(graph, CapturedGraph):
            graph = SemanticGraph(graph)
        machine = content.get("machine")
        asked = {
            "mesh": content["mesh"],
            "planner": content["planner"],
            "objective": content.get("objective", "communication"),
            "machine": None if machine is None else Machine.from_contents(machine),
            "memory_limit": content.get("memory_limit"),
            "optimizer_states": content.get("optimizer_states", 0),
            "replicate_bytes": content["replicate_bytes"],
        }
        native = _native_of(content, graph)
        if native is None:
            return search(graph, content["workers"], pinned=content["placements"], **asked)
        request = Request(**asked, refine=None, joint=1, seed=0)
        return Plan(graph, _C.price(graph.native, native, request.native_machine), request)

    def _rows(self) -> list[tuple[str, str, str, str]]:
        rows = []
        for name, value_id in self.graph.value_by_name.items():
            value = self.graph.captured.values[value_id]
            each = size_words(self.worker_bytes(name))
            rows.append((name, shape_words(value.shape), self.words(name), each))
        return rows

    def summary(self) -> str:
        """One line: workers, what an iteration moves and takes, the predicted peak, the proof.

        The peak is left out where lowering the plan would take long and it is not known yet: for
        more than 2**20 calls of all workers. `peak_bytes` counts it.
        """
        steps = " + ".join(size_words(b) for b in self.step_bytes) or "0 B"
        proof = "exact" if self.exact else f"gap {self.native.gap:.1%}"
        if self.planner in ("random", "spartan"):
            proof = "a heuristic"
        moves = f"moves {size_words(self.total_bytes)} an iteration ({steps})"
        if self.machine:
            parts = [self.compute_seconds, *self.step_seconds]
            moves += (
                f" in {duration_words(self.seconds)} ({' + '.join(map(duration_words, parts))})"
            )
        return (
            f"{self.workers} workers as {mesh_words(self.mesh)}, "
            f"{self.planner}, {moves}, "
            f"{self._peak_words()}"
            f"searched in {self.search_seconds:.3f} s, {proof}"
        )

    def _peak_words(self) -> str:
        """The peak as the summary has it, and whether the machine's memory is too small for it."""
        calls = self.workers * len(self.graph.captured.ops)
        if self._peak_bytes is None and self._program is None and calls > _LOWERED_CALLS:
            return ""
        words = f"peak {size_words(max(self.peak_bytes()))} per worker"
        if self.machine and self.peak() > self.machine.memory:
            if self.request.optimizer_states:
                words += f", {size_words(self.peak())} with the optimiser's states,"
            words += f" does not fit {size_words(self.machine.memory)}"
        return f"{words}, "

    def __repr__(self) -> str:
        return f"Plan({self.summary()})"

    def __str__(self) -> str:
        rows = [("tensor", "shape", "placement", "per worker"), *self._rows()]
        return "\n".join([self.summary(), *aligned(rows, right=(1, 3), indent="")])

    def _repr_html_(self) -> str:
        return plan_overview(self)

    def show(self, path: str | os.PathLike[str] | None = None) -> pathlib.Path | None:
        """Draws the plan: tensors, steps, the costliest ops, layers and a predicted timeline.

        Args:
            path: of the page to write, a single file that needs no network. Without one a notebook
                shows the plan, and elsewhere a temporary file is written and its path printed.

        Returns:
            The path that was written, None in a notebook.
        """
        if path is None and _in_notebook():
            from IPython.display import HTML, display

            display(HTML(plan_fragment(self)))
            return None
        if path is None:
            handle, name = tempfile.mkstemp(prefix="smex-plan-", suffix=".html")
            os.close(handle)
            print(name)
        written = pathlib.Path(name if path is None else path)
        written.write_text(plan_page(self), encoding="utf-8")
        return written


def _described(graph: SemanticGraph) -> tuple[Any, ...]:
    """All that a plan depends on: the values, the calls and what becomes of them."""
    values = [(v.name, v.role, tuple(v.shape), v.dtype) for v in graph.captured.values]
    outputs = [(out.kind, out.value, out.target) for out in graph.captured.outputs]
    return values, outputs, str(graph)


def _choices_text(choices: Iterable[Sequence[int]]) -> list[str]:
    """By value or op the choices of all steps, as text."""
    return [" ".join(map(str, steps)) for steps in choices]


def _digest(graph: SemanticGraph, content: dict[str, Any]) -> str:
    """Of the calls and of all that a file says; no signature."""
    said = {key: content[key] for key in content if key != "digest"}
    text = json.dumps([repr(_described(graph)), said], sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()


def _native_of(content: dict[str, Any], graph: SemanticGraph) -> Any:
    """The native plan that a file holds, None where it is of other calls or was edited."""
    if content.get("digest") != _digest(graph, content):
        return None
    choices = content["choices"]
    native = _C.Plan()
    native.mesh = content["mesh"]
    native.values, native.ops = (
        [list(map(int, steps.split())) for steps in choices[key]] for key in ("values", "ops")
    )
    native.planner = content["planner"]
    native.exact, native.gap = choices["exact"], choices["gap"]
    return native


def _in_notebook() -> bool:
    """Whether IPython runs with a front end that shows HTML."""
    ipython = sys.modules.get("IPython")
    shell = ipython and ipython.get_ipython()
    return hasattr(shell, "kernel")
