"""Plans: how to talk about them, to save them and to look at them."""

from __future__ import annotations

import dataclasses
import itertools
import json
import math
import os
import pathlib
from typing import Any

from smex._C import list_order, predicted_seconds, price, weighted, with_order
from smex.capture import CapturedGraph
from smex.errors import PlanError, SmexTypeError, SmexValueError
from smex.planning.boundaries import Boundaries
from smex.planning.carried import Carried
from smex.planning.cluster import Cluster
from smex.planning.machine import Machine
from smex.planning.options import SearchOptions
from smex.planning.page.comparison import PlanComparison
from smex.planning.page.names import collapse
from smex.planning.page.plan_page import plan_fragment, plan_overview, plan_page
from smex.planning.placed import PlacedGraph, view_targets
from smex.planning.plan_file import (
    FORMAT,
    choices_text,
    described,
    digest,
    machine_of,
    native_of,
    read_plan_file,
    structures,
)
from smex.planning.portfolio import alone, best, cut_vertices
from smex.planning.semantic import SemanticGraph
from smex.planning.showing import show
from smex.planning.weights import Weights
from smex.text import (
    aligned,
    duration_words,
    placement_words,
    shape_words,
    size_words,
)

_SEARCHED_AS = {"heterog": "homes"}
"""Planners of plans that no search here finds, and which one fills in what a file leaves open."""


class Plan(PlacedGraph):
    """A placement for every tensor and a strategy for every op, step by step of the mesh.

    Prints as a table, renders as HTML in notebooks, saves and loads as JSON. A placement such as
    `S0/2 R/2` reads: cut along dimension 0 by 2, then held by both halves of 2.

    Attributes:
        carried: how the processes of the net that runs it send each other tiles; None where it is
            not run, or by one process.
    """

    carried: Carried | None = None

    @classmethod
    def of(cls, placed: PlacedGraph) -> Plan:
        """Returns what a search has found, as users talk about it."""
        return cls(
            placed.graph, placed.native, placed.options, placed.pinned, placed._program,
            placed._peak_bytes,
        )  # fmt: skip

    def on(self, machine: Machine | Cluster) -> Plan:
        """Returns the same plan with the times that it takes on a machine or cluster."""
        if not isinstance(machine, (Machine, Cluster)):
            raise SmexTypeError(
                f"plan: expected a smex.Machine or a smex.Cluster, found {machine!r}"
            )
        options = dataclasses.replace(self.options, machine=machine)
        native = price(self.graph.native, self.native, options.native_machine)
        return Plan(self.graph, native, options, self.pinned)

    def ordered(self, machine: Machine | Cluster | None = None) -> Plan:
        """Returns the same plan with its ops in the order of a list schedule (HeteroG, §4.2).

        Of the calls and messages that could begin, the one of the highest upward rank goes first:
        with the longest way of seconds through what waits for it. Workers keep to the order, as
        each runs its list. Values do not change, nor what is moved. Where an iteration would not
        become shorter by the simulation, or a worker's peak pass the memory limit, it is this plan.

        Args:
            machine: by whose times; by default the plan's own.

        Raises:
            SmexValueError: there is no machine, or it has fewer workers than the plan.
        """
        machine = self.machine if machine is None else machine
        if machine is None:
            raise SmexValueError(
                "ordered: the plan has no machine that tells times; pass a smex.Cluster or a "
                "smex.Machine"
            )
        native, program = machine.native(self.mesh), self.program()
        seconds = predicted_seconds(program, native, view_targets(self.graph))
        order = list_order(self.graph.native, program, seconds, list(self.mesh), native)[0]
        other = Plan(self.graph, with_order(self.native, order), self.options, self.pinned)
        limits = self.options.memory_limits
        fits = not limits or all(
            peak <= max(limit, own)
            for peak, own, limit in zip(other.peaks(), self.peaks(), limits, strict=True)
        )
        if not fits or other.timeline_on(machine).seconds >= self.timeline_on(machine).seconds:
            return self
        return other

    def cut_at(self, boundaries: Boundaries) -> Plan:
        """Returns the same plan with other boundaries of vertices."""
        graph = self.graph.with_boundaries(boundaries.ends)
        options = dataclasses.replace(self.options, boundaries=boundaries)
        native = price(graph.native, self.native, options.native_machine)
        return Plan(graph, native, options, self.pinned)

    def in_device_memory(self, nbytes: float | None) -> Plan:
        """Returns the same plan with so many bytes of each worker's device, see `smex.search`."""
        options = dataclasses.replace(self.options, device_memory=nbytes)
        return Plan(self.graph, self.native, options, self.pinned)

    def of_same(self, graph: SemanticGraph) -> Plan | None:
        """Returns the same plan for another capture of the same calls.

        None where the calls differ.
        """
        if graph is not self.graph and described(graph) != described(self.graph):
            return None
        return Plan(graph.like(self.graph), self.native, self.options, self.pinned)

    def explain(self, name: str) -> str:
        """Returns what a tensor's placement costs, op by op, and why the others were rejected.

        The alternatives are one cut in all steps, and the chosen placement with another cut in one
        step. Each is priced exactly: the rest of the plan is searched again with it pinned. Of a
        rejected one it says which calls move the most more than in this plan, with their module and
        line; other calls may move less.
        """
        chosen, value_id = self.placement(name), self._id(name)
        value = self.graph.captured.values[value_id]
        costs = self.op_bytes
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
        number = self.options.weights.number
        dims = [*(weighted(dim, number) for dim in range(ndim)), -1]
        found = [[dim] * len(chosen) for dim in dims]
        for step, dim in itertools.product(range(len(chosen)), dims):
            found.append([*chosen[:step], dim, *chosen[step + 1 :]])
        unique = dict.fromkeys(map(tuple, found))
        return [list(pin) for pin in unique if list(pin) != chosen]

    def _priced(self, name: str, pin: list[int]) -> tuple[str, ...]:
        """Returns a row of `explain`: the plan that has this placement, against this plan."""
        words = placement_words(pin, self.mesh, self.graph.weighting_names)
        ids = self.graph.value_by_name  # a tied tensor may be pinned under another name
        others = {each: dims for each, dims in self.pinned.items() if ids[each] != ids[name]}
        impossible = ("impossible", words, "", "", *([""] if self.machine else []))
        try:
            other = alone(self.graph, self.options, {**others, name: pin})
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

    def _dearest(self, other: PlacedGraph) -> str:
        """Returns the calls of one operator and line that move the most more in another plan.

        "" if none.

        Backward calls are told from forward ones, unrolled steps are one.
        """
        more: dict[tuple[str, str, str, bool], list[int]] = {}
        for op, here, there in zip(
            self.graph.captured.ops, self.op_bytes, other.op_bytes, strict=True
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
        """Returns the named tensors that two plans place differently, and what both plans move."""
        if not isinstance(other, Plan):
            held = isinstance(getattr(other, "plan", None), Plan)
            got = f"a {type(other).__name__}: give its .plan" if held else repr(other)
            raise SmexTypeError(f"plan: expected a plan to compare with, got {got}")
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

    def compare(self, other: Plan) -> PlanComparison:
        """Returns both plans side by side; `show` draws them on a page.

        Totals, timelines on one scale, bytes by link, the calls whose costs differ, and the tensors
        that are placed differently. Printed it is `diff`.

        Args:
            other: a plan of the same model, or of another one.

        Raises:
            SmexTypeError: it is no plan.

        Example:
            >>> graph = smex.capture_graph(torch.nn.Linear(64, 64), (torch.rand(256, 64),))
            >>> here, there = smex.search(graph, 2), smex.search(graph, 4)
            >>> here.compare(there)
            PlanComparison(tofu on 2 workers, tofu on 4 workers as 2×2)
        """
        return PlanComparison(self, other, self.diff(other))

    def contents(self) -> dict[str, Any]:
        """Returns what `save` writes: the placements of the named tensors, and all that was chosen.

        The choices hold for the same calls and the same placements only, which the digest tells;
        otherwise they are searched anew from the placements.
        """
        content = {
            "format": FORMAT,
            "workers": self.workers,
            "mesh": list(self.mesh),
            "planner": self.planner,
            "objective": self.objective,
            "machine": self.machine and self.machine.contents(),
            "memory_limit": self.options.memory_limit,
            "device_memory": self.options.device_memory,
            "spilled_bytes": self.spilled_bytes() or None,
            "optimizer_states": self.options.optimizer_states,
            "recompute": self.options.recompute,
            "replicate_bytes": self.replicate_bytes,
            "boundaries": self.options.boundaries.contents(),
            "weights": self.options.weights.contents(),
            "structures": structures(self.graph) or None,
            "total_bytes": self.total_bytes,
            "placements": self.placements(),
            "choices": {
                "values": choices_text(self.native.values),
                "ops": choices_text(self.native.ops),
                "regions": self.graph.regions if any(self.graph.native.runs_again()) else None,
                "exact": self.exact,
                "gap": self.native.gap,
                **({"by_peer": True} if self.native.by_peer else {}),
                **({"order": list(self.native.order)} if self.native.order else {}),
            },
        }
        return content | {"digest": digest(self.graph, content)}

    def save(self, path: str | pathlib.Path) -> None:
        """Writes the plan as JSON."""
        pathlib.Path(path).write_text(json.dumps(self.contents(), indent=1) + "\n")

    @staticmethod
    def load(path: str | pathlib.Path, graph: SemanticGraph | CapturedGraph) -> Plan:
        """Reads placements and finds the best plan of `graph` that has them.

        Raises:
            PlanError: the file is not a plan, does not fit the model, or cuts the vertices of a
                graph with other edges.
        """
        return Plan.from_contents(read_plan_file(path), graph)

    @staticmethod
    def from_contents(content: dict[str, Any], graph: SemanticGraph | CapturedGraph) -> Plan:
        """Returns the plan whose `contents` these are.

        Of another graph the best with its placements.
        """
        if isinstance(graph, CapturedGraph):
            graph = SemanticGraph(graph)
        machine = content.get("machine")
        asked = SearchOptions.checked(
            content["workers"],
            mesh=content["mesh"],
            planner=_SEARCHED_AS.get(content["planner"], content["planner"]),
            objective=content.get("objective", "communication"),
            machine=None if machine is None else machine_of(machine),
            memory_limit=content.get("memory_limit"),
            optimizer_states=content.get("optimizer_states", 0),
            replicate_bytes=content["replicate_bytes"],
            recompute=content.get("recompute", "auto"),
            device_memory=content.get("device_memory"),
            boundaries=Boundaries.from_contents(content.get("boundaries")),
            weights=Weights.from_contents(content.get("weights")),
        )
        native = native_of(content, graph)
        if native is None:
            return Plan.of(best(graph, asked, content["placements"], any_mesh=False))
        graph, asked = cut_vertices(graph, asked)
        regions = content["choices"].get("regions")
        if regions is not None:
            graph = graph.with_regions(regions)
        return Plan(graph, price(graph.native, native, asked.native_machine), asked)

    def _rows(self) -> list[tuple[str, str, str, str]]:
        """By tensor, or by all that repeated blocks have alike, if these are three or more."""
        cells = {}
        for name, value_id in self.graph.value_by_name.items():
            shape = shape_words(self.graph.captured.values[value_id].shape)
            cells[name] = shape, self.words(name), size_words(self.worker_bytes(name))
        patterns: dict[str, str] = {}
        folded: set[str] = set()
        for pattern, _, names in collapse(cells.items()):
            if len(names) > 2:
                patterns[names[0]] = pattern
                folded.update(names[1:])
        return [(patterns.get(n, n), *own) for n, own in cells.items() if n not in folded]

    def _is_small(self) -> bool:
        """Whether nothing is cut, for no tensor is as large as one that has to be."""
        values = self.graph.captured.values
        sizes = [
            math.prod(values[value].shape) * values[value].dtype.itemsize
            for value in self.graph.value_by_name.values()
        ]
        held = [self.worker_bytes(name) for name in self.graph.value_by_name]
        return self.workers > 1 and held == sizes and max(sizes, default=0) <= self.replicate_bytes

    def __repr__(self) -> str:
        return f"Plan({self.summary()})"

    def __str__(self) -> str:
        rows = [("tensor", "shape", "placement", "per worker"), *self._rows()]
        lines = [self.summary(), *aligned(rows, right=(1, 3), indent="")]
        if self._is_small():
            size = size_words(self.replicate_bytes)
            told = (
                f"each worker has it whole: only tensors above {size} are cut, and smaller ones "
                "where that moves less; replicate_bytes=0 cuts them all"
            )
            lines += ["", told]
        if self.carried is not None:
            lines += ["", str(self.carried)]
        return "\n".join(lines)

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
        return show("plan", lambda: plan_fragment(self), lambda: plan_page(self), path)
