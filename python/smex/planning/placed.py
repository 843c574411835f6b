"""A captured graph with a placement for every tensor, and what follows from it."""

from __future__ import annotations

import functools
import math
from collections.abc import Iterable, Mapping
from typing import Any

import torch

from smex._C import (
    Timeline,
    home_tiles,
    largest_instr,
    lower,
    merge_inputs,
    parameter_bytes_by_worker,
    peak_of_calls,
    predicted_seconds,
    simulate,
)
from smex._C import op_bytes as native_op_bytes
from smex._C import op_prices as native_op_prices
from smex._C import parameter_bytes as native_parameter_bytes
from smex._C import peak_bytes as native_peak_bytes
from smex._C import spill as spill_program
from smex.capture.records import ValueRef, returns_view
from smex.errors import PlanError, SmexTypeError, SmexValueError
from smex.planning.cluster import Cluster
from smex.planning.machine import Machine
from smex.planning.options import SearchOptions
from smex.planning.semantic import SemanticGraph
from smex.text import (
    duration_words,
    mesh_words,
    near_words,
    placement_words,
    size_words,
    strategy_words,
)

_MESSAGES = ("smex::spmm", "smex::spmm_extremum", "smex::sddmm")
"""Operators whose first argument is the structure of a graph."""
_LOWERED_CALLS = 2**20  # of all workers, that are lowered to tell the peak


def _predicted_peak_bytes(graph: SemanticGraph, program: Any) -> list[int]:
    """Peak bytes of live tensors per worker in one iteration, from the program alone.

    Kernels' workspaces are not counted.
    """
    return native_peak_bytes(program, view_targets(graph))


def view_targets(graph: SemanticGraph) -> set[str]:
    """The operators whose schema says that they return a view: they share an operand's memory."""
    records = [*graph.captured.ops, *(fusion.fused for fusion in graph.captured.fusions)]
    return {op.target for op in records if returns_view(op)}


def _structures(graph: SemanticGraph) -> set[int]:
    """The constants that are structures of graphs, which nobody changes, by value id."""
    found: set[int] = set()
    for op in graph.captured.ops:
        if op.target in _MESSAGES and isinstance(op.args[0], (list, tuple)):
            found.update(ref.id for ref in op.args[0] if isinstance(ref, ValueRef))
    return found


def _same_constants(graph: SemanticGraph) -> list[list[int]]:
    """Groups of several constants that are the same elements in memory, by value id.

    Structures are the same too where their elements are equal: a graph whose edges go both ways,
    sorted, has one for both directions.
    """
    structures = _structures(graph)
    groups: dict[tuple[Any, ...], list[int]] = {}
    alike: dict[tuple[Any, ...], list[tuple[torch.Tensor, list[int]]]] = {}  # structures, by shape
    for value in graph.captured.values:
        tensor = value.tensor
        if value.role != "constant" or tensor is None or tensor.layout != torch.strided:
            continue
        if tensor.numel() == 0 or tensor.is_meta:
            continue
        shape = tuple(tensor.shape), tensor.stride(), tensor.dtype, tensor.device
        group = groups.setdefault((tensor.data_ptr(), *shape), [])
        if not group and value.id in structures:
            others = alike.setdefault(shape, [])
            for other, known in others:
                if torch.equal(other, tensor):
                    groups[(tensor.data_ptr(), *shape)] = group = known
                    break
            else:
                others.append((tensor, group))
        group.append(value.id)
    found = {id(group): group for group in groups.values() if len(group) > 1}
    return list(found.values())


class PlacedGraph:
    """What a search finds: a placement for every tensor and a strategy for every op.

    Attributes:
        graph: what is placed.
        native: the choices, as the native library has them.
        options: of the search that found them.
        pinned: the placements that were given to it.

    What the search knows already of the program and its peak is handed in too.
    """

    def __init__(
        self,
        graph: SemanticGraph,
        native: Any,
        options: SearchOptions,
        pinned: Mapping[str, list[int]] | None = None,
        program: Any = None,
        peak_bytes: list[int] | None = None,
    ):
        self.graph = graph
        self.native = native
        self.pinned = dict(pinned or {})
        self.options = options
        self._program = program
        self._peak_bytes = peak_bytes
        self._spilled: list[tuple[int, int, int]] = []  # by worker: to the host, back, the least

    @property
    def replicate_bytes(self) -> int:
        """Tensors up to this size might be held by every worker."""
        return self.options.replicate_bytes

    @property
    def objective(self) -> str:
        """What the search minimised: "communication" or "time"."""
        return self.options.objective

    @property
    def machine(self) -> Machine | Cluster | None:
        """What times are predicted for."""
        return self.options.machine

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

    def timeline(self, *, overlap: bool = True) -> Timeline:
        """Simulates the program of the plan on its machine, instruction by instruction.

        Other than `seconds`, which adds up what the search minimises, this counts that tiles are on
        their way while workers compute, and that workers wait for each other. The first call lowers
        the plan.

        Args:
            overlap: without it each fetch is waited for at once.

        Returns:
            `seconds` of an iteration, and what no order of messages could take less than, with
            instructions in theirs (`least`); by worker how many it is `busy` computing and copying,
            how many it is `waiting`, and for how many its tiles of others were on their way
            (`transferred`), all lists of floats.

        Raises:
            SmexValueError: the plan was made without a machine.
        """
        if self.machine is None:
            raise SmexValueError(
                "timeline: the plan has no machine that tells times; search with machine="
            )
        return self.timeline_on(self.machine, overlap=overlap)

    def timeline_on(self, machine: Machine | Cluster, *, overlap: bool = True) -> Timeline:
        """Returns the `timeline` on any machine or cluster.

        Raises:
            SmexValueError: it has fewer workers than the plan.
        """
        native = machine.native(self.mesh)
        seconds = predicted_seconds(self.program(), native, view_targets(self.graph))
        return simulate(self.program(), seconds, list(self.mesh), native, overlap)

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

    def forget_program(self) -> None:
        """Lets the program go, which takes more memory than the plan; `program` makes it again."""
        self._program = None

    def program(self) -> Any:
        """Returns what every worker runs; made at the first call."""
        if self._program is None:
            self._program = lower(self.graph.native, self.native, view_targets(self.graph))
        if self.options.device_memory is not None and not self._program.device_memory:
            self._spill(int(self.options.device_memory))
        return self._program

    def _spill(self, capacity: int) -> None:
        """Lets the program run in so many bytes of each device, by moves to the host and back."""
        views = view_targets(self.graph)
        merge_inputs(self._program, _same_constants(self.graph))
        largest = largest_instr(self._program, views)
        if largest.bytes > capacity:
            raise PlanError(
                f"device_memory: {largest.text} on worker {largest.worker} needs "
                f"{size_words(largest.bytes)} at once, for its operands and results, and "
                f"{size_words(capacity)} are given: device_memory={largest.bytes} is the least "
                "that works; a smaller batch or more workers need less"
            )
        self._spilled = spill_program(self._program, capacity, views)
        self._peak_bytes = native_peak_bytes(self._program, views)

    def spilled_bytes(self) -> dict[str, int]:
        """Predicted bytes that an iteration moves between devices and the host.

        Returns:
            Those that are written, "spill", and come back, "restore", and those of both that no
            order of moves for these instructions is below, "least". Empty without `device_memory`.
        """
        if self.options.device_memory is None:
            return {}
        if not self._spilled:
            self.program()
        spilled, restored, least = (sum(column) for column in zip(*self._spilled, strict=True))
        return {"spill": spilled, "restore": restored, "least": least}

    def peak_bytes(self) -> list[int]:
        """Predicted peak bytes of live tensors per worker in one iteration.

        Kernels' workspaces are not counted. The first call lowers the plan. For more than a million
        calls of all workers it is the fullest worker's, of tensors' tiles and of what each call
        fetches and makes beside them.
        """
        if self.options.device_memory is not None and not self._spilled:
            self.program()
        if self._peak_bytes is None and self._is_long():
            views = view_targets(self.graph)
            peak = peak_of_calls(self.graph.native, self.native, views)
            self._peak_bytes = [peak] * self.workers
        elif self._peak_bytes is None:
            self._peak_bytes = _predicted_peak_bytes(self.graph, self.program())
        return list(self._peak_bytes)

    def _is_long(self) -> bool:
        """Returns whether lowering the plan takes too long to be done for its peak."""
        return self.workers * len(self.graph.captured.ops) > _LOWERED_CALLS

    def peak(self) -> float:
        """Predicted peak bytes of the fullest worker, the optimiser's states included."""
        states = self.options.optimizer_states
        return max(self.peak_bytes()) + (states * self.parameter_bytes() if states else 0)

    def peaks(self) -> list[float]:
        """By worker the predicted peak bytes, the optimiser's states included."""
        states = self.options.optimizer_states
        if not states:
            return [float(nbytes) for nbytes in self.peak_bytes()]
        parameters = parameter_bytes_by_worker(self.graph.native, self.native)
        return [
            nbytes + states * own for nbytes, own in zip(self.peak_bytes(), parameters, strict=True)
        ]

    def parameter_bytes(self) -> int:
        """Bytes of the largest tiles of all parameters."""
        found: int = native_parameter_bytes(self.graph.native, self.native)
        return found

    def _id(self, name: str) -> int:
        if not isinstance(name, str):
            raise SmexTypeError(f'plan: a name must be text, such as "fc.weight", got {name!r}')
        if name not in self.graph.value_by_name:
            near = near_words(name, self.graph.value_by_name)
            raise PlanError(f'plan: there is no parameter, buffer or input "{name}"{near}')
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
        """Per step the dimension along which a named tensor is cut, -1 where it is replicated.

        Cuts that are not even, and tensors of one worker, have numbers of their own, which
        `words` tells.
        """
        return list(self.value_choices[self._id(name)])

    def words(self, name: str) -> str:
        """Returns the placement as text: `S0/2 R/2`."""
        return placement_words(self.placement(name), self.mesh, self.graph.weighting_names)

    def split_words(self, op_id: int) -> str:
        """Returns the index along which each step splits an op, as text: `i·k`."""
        return strategy_words(self.graph.native.ops[op_id].spec, self.op_choices[op_id])

    def tiles(self, name: str) -> list[tuple[bool, list[tuple[int, int]]]]:
        """Per worker whether it holds a tile of the tensor, and the tile's (lo, hi) by dim."""
        self._id(name)
        return self.named_tiles()[name]

    def named_tiles(self) -> dict[str, list[tuple[bool, list[tuple[int, int]]]]]:
        """Returns the tiles of all parameters, buffers and inputs by name."""
        return self._named_tiles

    @functools.cached_property
    def _named_tiles(self) -> dict[str, list[tuple[bool, list[tuple[int, int]]]]]:
        ids = self.graph.value_by_name
        tiles = home_tiles(self.graph.native, self.native, list(ids.values()))
        return dict(zip(ids, tiles, strict=True))

    def worker_bytes(self, name: str) -> int:
        """Bytes of the largest tile of a named tensor."""
        value = self.graph.captured.values[self._id(name)]
        return largest_numel(self.tiles(name)) * value.dtype.itemsize

    def placements(self) -> dict[str, list[int]]:
        """Placements of all parameters, buffers and inputs by name."""
        return {name: self.placement(name) for name in self.graph.value_by_name}

    @functools.cached_property
    def op_bytes(self) -> list[int]:
        """By op the bytes that it moves."""
        return list(native_op_bytes(self.graph.native, self.native))

    def summary(self) -> str:
        """One line: workers, what an iteration moves and takes, the predicted peak, the proof.

        The peak is "about" for more than 2**20 calls of all workers, see `peak_bytes`.
        """
        several = len(self.mesh) > 1
        steps = f" ({' + '.join(map(size_words, self.step_bytes))})" if several else ""
        proof = "exact" if self.exact else f"gap {self.native.gap:.1%}"
        if self.planner in ("heterog", "random", "spartan"):
            proof = "a heuristic"
        moves = f"moves {size_words(self.total_bytes)} an iteration{steps}"
        if self.machine:
            sent = " + ".join(map(duration_words, self.step_seconds)) or "0 s"
            moves += (
                f" in {duration_words(self.seconds)} ({duration_words(self.compute_seconds)} "
                f"compute + {sent} communication)"
            )
        return (
            f"{self.workers} worker{'s' * (self.workers != 1)}"
            f"{f' as {mesh_words(self.mesh)}' if several else ''}, "
            f"{self.planner}, {moves}, "
            f"{'in the order of a list schedule, ' if self.native.order else ''}"
            f"{self._peak_words()}{self._spill_words()}{self._again_words()}{self._peer_words()}"
            f"searched in {self.search_seconds:.3f} s, {proof}"
        )

    def _again_words(self) -> str:
        """What the backward pass runs again, as the summary has it."""
        count = sum(self.graph.native.runs_again())
        if not count:
            return ""
        seconds = self.again_seconds()
        took = f" in {duration_words(seconds)}" if self.machine else ""
        return f"{count} {'call runs' if count == 1 else 'calls run'} again{took}, "

    def _peer_words(self) -> str:
        """Which sums over edges are added up by peer, as the summary has it."""
        if not self.native.by_peer:
            return ""
        count = self.program().sums_by_peer
        return f"sums by peer: {count} {'call' if count == 1 else 'calls'}, "

    def _spill_words(self) -> str:
        """What moves between devices and the host, as the summary has it."""
        moved = self.spilled_bytes()
        if not moved:
            return ""
        return (
            f"spills {size_words(moved['spill'])} to the host and restores "
            f"{size_words(moved['restore'])}, "
        )

    def again_seconds(self) -> float:
        """Predicted seconds of what the backward pass runs again; 0 without a machine."""
        if self.machine is None:
            return 0.0
        prices = native_op_prices(
            self.graph.native, self.native, self.machine.native(self.native.mesh)
        )
        again = self.graph.native.runs_again()
        # Prices are of both runs.
        return sum(
            (sum(seconds) + compute) / 2
            for (_, seconds, compute), twice in zip(prices, again, strict=True)
            if twice
        )

    def _peak_words(self) -> str:
        """The peak as the summary has it, and whether the machine's memory is too small for it."""
        about = "about " if self._program is None and self._is_long() else ""
        words = f"peak {about}{size_words(max(self.peak_bytes()))} per worker"
        if self.machine and self.peak() > self.machine.memory:
            if self.options.optimizer_states:
                words += f", {size_words(self.peak())} with the optimiser's states,"
            words += f" does not fit {size_words(self.machine.memory)}"
        return f"{words}, "


def largest_numel(tiles: Iterable[tuple[bool, list[tuple[int, int]]]]) -> int:
    """Elements of the largest of the workers' tiles."""
    return max(math.prod(hi - lo for lo, hi in box) if held else 0 for held, box in tiles)
