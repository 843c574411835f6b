"""What a captured call is compiled into."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Sequence
from typing import Any

import torch

from smex._C import Call, Given, Made, Source, Use
from smex.capture import CapturedGraph, ValueRef
from smex.capture.filled import FilledGraph
from smex.capture.memory import borrowed, read_back
from smex.capture.records import OutputRecord
from smex.errors import SmexTypeError
from smex.execution.calls import refuse_meta, refuse_overlaps
from smex.execution.shards import ShardedState
from smex.planning.plan import Plan
from smex.planning.semantic import SemanticGraph


class Structure:
    """What a capture tells of a program that does not depend on sizes.

    Args:
        records: of which shapes and arguments are not read.

    Attributes:
        parameters: that the program reads.
        held: parameters and buffers.
        constants: tensors by value id.
        updated: the values that the forward program changes.
        borrowed: the values that may lie in bound memory.
        tangents_of: by value that is a gradient the tangents that it is computed from.
        draws: whether a seed is needed.
    """

    def __init__(self, records: CapturedGraph) -> None:
        self.records = records
        self.parameters = records.with_role("parameter")
        self.held = [value for value in records.values if value.role in ("parameter", "buffer")]
        self.constants: dict[int, torch.Tensor] = {
            value.id: value.tensor for value in records.values if value.tensor is not None
        }
        self.updated: set[int] = {
            out.target
            for out in records.outputs
            if out.kind in ("buffer_update", "input_update") and out.target is not None
        }
        self.borrowed = borrowed(records)
        self.tangents_of = tangents_of(records)
        self.draws = records.draws
        self._read_back: dict[tuple[bool, ...], set[int]] = {}

    @staticmethod
    def of(captured: CapturedGraph) -> Structure:
        """Returns that of a capture, once for calls of all sizes."""
        if not isinstance(captured, FilledGraph):
            return Structure(captured)
        known = captured.template.known
        if Structure not in known:
            known[Structure] = Structure(captured.structure)
        return known[Structure]

    def read_back(self, again: Sequence[bool]) -> set[int]:
        """Returns the values whose memory the backward program reads.

        Args:
            again: by operator whether the backward pass runs it once more.
        """
        key = tuple(again)
        if key not in self._read_back:
            self._read_back[key] = read_back(self.records, again)
        return self._read_back[key]


@dataclasses.dataclass
class Compiled:
    """One captured call signature: its plan, program and what binds tensors to them.

    Attributes:
        parameters: that the program reads.
        constants: tensors by value id.
        updated: the values that the forward program changes.
        read_back: the values whose memory the backward program reads.
        borrowed: the values that may lie in bound memory.
        tangents_of: by value that is a gradient the tangents that it is computed from.
        draws: whether a seed is needed.
        local_inputs: whether each process passes its own rows of the inputs.
    """

    graph: SemanticGraph
    plan: Plan
    program: Any
    executor: Any
    local_inputs: bool = False

    def __post_init__(self) -> None:
        captured = self.captured
        structure = self._structure = Structure.of(captured)
        self.parameters = structure.parameters
        self.constants = dict(structure.constants)
        self.updated = structure.updated
        self.read_back = structure.read_back(self.plan.graph.native.runs_again())
        self.borrowed = structure.borrowed
        self.tangents_of = structure.tangents_of
        self.draws = structure.draws
        self.names = [structure.records.values[ref.id].name for ref in captured.input_refs]
        self.changed_inputs = {
            n for n, ref in enumerate(captured.input_refs) if ref.id in self.updated
        }
        self.returns_one_tensor = (
            captured.out_spec.is_leaf()
            and not captured.changes_spec.num_leaves
            and isinstance(captured.flat_outputs[0], ValueRef)
        )
        self._call: Any = None
        self._bound_to: tuple[ShardedState, int] | None = None

    @functools.cached_property
    def state_names(self) -> set[str]:
        """The parameters and buffers that it reads."""
        return {value.name for value in self._structure.held}

    @property
    def captured(self) -> CapturedGraph:
        """The records that the graph was made from."""
        return self.graph.captured

    def refuse(self, inputs: list[torch.Tensor]) -> None:
        """Raises an error for inputs that the program cannot read, or change as the model does."""
        refuse_meta(inputs, self.names)
        refuse_overlaps(self.changed_inputs, inputs, self.names)

    # ---- calls ----

    def call(self, state: ShardedState) -> Any:
        """Returns the program bound to the shards."""
        bound = self._bound_to
        if bound is None or bound[0] is not state or bound[1] != state.version:
            self._call = self._bind(state)
            self._bound_to = state, state.version
        return self._call

    def _bind(self, state: ShardedState) -> Any:
        captured, values, held = self.captured, self._structure.records.values, self._structure.held
        place = {value.id: n for n, value in enumerate(held)}
        input_place = {ref.id: n for n, ref in enumerate(captured.input_refs)}
        constants = {value: n for n, value in enumerate(self.constants)}
        tangents = {
            tangent: n for n, tangent in enumerate(captured.tensor_tangents) if tangent is not None
        }
        given = []
        for binding in self.program.inputs:
            value = binding.value
            changes = value in self.read_back and value in self.updated
            if value in tangents:
                given.append(Given(Source.TANGENT, tangents[value]))
            elif value in place:
                given.append(Given(Source.STATE, place[value], changes))
            elif values[value].role == "constant":
                given.append(Given(Source.CONSTANT, constants[value], changes))
            else:
                given.append(
                    Given(Source.INPUT, input_place[value], changes, self._is_local(value))
                )
        names = {value.name: n for n, value in enumerate(held)}
        results = 0
        made = []
        for output in captured.outputs:
            use, index = self._use(output, results, names, place, input_place)
            results += output.kind == "output"
            shape = [] if output.value is None else list(captured.shape(output.value))
            read = self.tangents_of.get(output.value, set()) if output.value is not None else set()
            is_gradient = output.kind == "gradient" and output.value is not None
            of = sorted(tangents[tangent] for tangent in read) if is_gradient else []
            is_of_input = use in (Use.INPUT_GRADIENT, Use.INPUT_UPDATE)
            local = is_of_input and self._is_local(output.target)
            made.append(Made(use, index, output.value in self.borrowed, shape, of, local))
        tiles = [state.cuts[value.name].tiles for value in held]
        shards, tensors, owners = [], [], []
        for value in self.parameters:
            for tile, worker in state.cuts[value.name].unique:
                tensors.append(tile)
                shards.append((place[value.id], worker))
                owners.append(value.id)
        return Call(
            executor=self.executor,
            given=given,
            made=made,
            constants=list(self.constants.values()),
            differentiable=captured.differentiable,
            draws=self.draws,
            state=tiles,
            shard_tensors=tensors,
            shards=shards,
            watched=self._watched(owners),
            net=state.net_number,
        )

    def _is_local(self, value: int | None) -> bool:
        """Whether this process passes its rows of an input alone; scalars are everybody's."""
        return self.local_inputs and value is not None and len(self.captured.shape(value)) > 0

    def _use(
        self,
        output: OutputRecord,
        results: int,
        names: dict[str, int],
        place: dict[int, int],
        input_place: dict[int, int],
    ) -> tuple[Any, int]:
        """Returns what an output is to the call, and of which tensor."""
        if output.kind == "output":
            return Use.RESULT, results
        if output.value is None or output.target is None:
            return Use.NOTHING, 0
        if output.kind == "buffer_update":
            return Use.STATE_UPDATE, names[output.name]
        if output.kind == "input_update":
            return Use.INPUT_UPDATE, input_place[output.target]
        if output.target in place:
            return Use.STATE_GRADIENT, place[output.target]
        return Use.INPUT_GRADIENT, input_place[output.target]

    def _watched(self, owners: list[int]) -> list[int]:
        """Of inputs, shards and results those whose memory backward reads: torch sees changes."""
        captured = self.captured
        ids = [ref.id for ref in captured.input_refs]
        ids += owners
        ids += [leaf.id for leaf in captured.flat_outputs if isinstance(leaf, ValueRef)]
        return [
            n
            for n, owner in enumerate(ids)
            if owner in self.read_back and owner not in self.updated  # backward has a copy
        ]

    def __deepcopy__(self, memo: dict[int, Any]) -> Compiled:
        """Returns the same, with the plain tensors of the model's copy."""
        copied = dataclasses.replace(self)
        copied.constants = {i: memo.get(id(held), held) for i, held in self.constants.items()}
        return copied

    def __reduce__(self) -> Any:
        raise SmexTypeError(
            "partition: a net that was captured cannot be pickled; save net.state_dict() and "
            "net.plan.save(path), and partition the model again"
        )


def tangents_of(captured: CapturedGraph) -> dict[int, set[int]]:
    """By gradient the tangents that it is computed from; all where it is computed from none."""
    every = {tangent for tangent in captured.tangents if tangent is not None}
    number = {tangent: 1 << n for n, tangent in enumerate(sorted(every))}
    mask = dict(number)  # by value
    for op in captured.ops:
        read = 0
        for operand in op.inputs():
            read |= mask.get(operand, 0)
        for output in op.outputs if read else []:
            if output is not None:
                mask[output] = read
    found = {}
    for result in captured.outputs:
        if result.kind == "gradient" and result.value is not None:
            read = mask.get(result.value, 0)
            found[result.value] = {t for t in every if read & number[t]} or every
    return found
