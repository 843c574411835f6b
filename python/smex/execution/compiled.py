"""What a captured call is compiled into."""

from __future__ import annotations

import dataclasses
import functools
from typing import Any

import torch

from smex.capture import CapturedGraph
from smex.capture.memory import borrowed, read_back
from smex.capture.records import ValueRecord
from smex.errors import SmexTypeError
from smex.execution.calls import refuse_meta, refuse_overlaps
from smex.planning.plan import Plan
from smex.planning.semantic import SemanticGraph


@dataclasses.dataclass
class Compiled:
    """One captured call signature: its plan, program and what binds tensors to them.

    Attributes:
        binding_of: by value id its position among the program's inputs.
        regions: by binding and worker the tile that the worker holds.
        parameters: that the program reads.
        constants: tensors by value id.
        updated: the values that the forward program changes.
        read_back: the values whose memory the backward program reads.
        borrowed: the values that may lie in bound memory.
        tangents_of: by value that is a gradient the tangents that it is computed from.
        draws: whether a seed is needed.
    """

    graph: SemanticGraph
    plan: Plan
    program: Any
    executor: Any

    def __post_init__(self) -> None:
        captured, bindings = self.captured, list(self.program.inputs)
        self.binding_of: dict[int, int] = {each.value: n for n, each in enumerate(bindings)}
        self.regions: list[list[list[tuple[int, int]]]] = [list(each.regions) for each in bindings]
        self.parameters: list[ValueRecord] = captured.with_role("parameter")
        self.constants: dict[int, torch.Tensor] = {
            value.id: value.tensor for value in captured.values if value.tensor is not None
        }
        self.updated: set[int] = {
            out.target
            for out in captured.outputs
            if out.kind in ("buffer_update", "input_update") and out.target is not None
        }
        self.read_back = read_back(captured, self.plan.graph.native.runs_again())
        self.borrowed = borrowed(captured)
        self.tangents_of = tangents_of(captured)
        self.draws = captured.draws

    @functools.cached_property
    def state_names(self) -> set[str]:
        """The parameters and buffers that it reads."""
        return {v.name for v in self.captured.values if v.role in ("parameter", "buffer")}

    @property
    def captured(self) -> CapturedGraph:
        """The records that the graph was made from."""
        return self.graph.captured

    def refuse(self, inputs: list[torch.Tensor]) -> None:
        """Raises an error for inputs that the program cannot read, or change as the model does."""
        refs = self.captured.input_refs
        names = [self.captured.values[ref.id].name for ref in refs]
        refuse_meta(inputs, names)
        refuse_overlaps({n for n, ref in enumerate(refs) if ref.id in self.updated}, inputs, names)

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
