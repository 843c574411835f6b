"""What a captured call is compiled into."""

from __future__ import annotations

import dataclasses
import functools
from typing import Any

import torch

from smex.capture import CapturedGraph
from smex.capture.memory import borrowed
from smex.errors import SmexTypeError
from smex.execution.calls import refuse_meta, refuse_overlaps
from smex.planning.plan import Plan
from smex.planning.semantic import SemanticGraph


@dataclasses.dataclass
class Compiled:
    """One captured call signature: its plan, program and what binds tensors to them."""

    graph: SemanticGraph
    plan: Plan
    program: Any
    executor: Any
    binding_of: dict[int, int]  # value id -> position among the program's inputs
    regions: list[list[list[tuple[int, int]]]]  # [binding][worker]
    read_back: set[int]  # values whose memory the backward program reads
    tangents_of: dict[int, set[int]]  # by value with a gradient the outputs that it depends on

    constants: dict[int, torch.Tensor]  # by value id

    borrowed: set[int] = dataclasses.field(init=False)  # values that may lie in bound memory
    draws: bool = dataclasses.field(init=False)  # whether a seed is needed
    updated: set[int] = dataclasses.field(init=False)  # inputs that the forward program changes

    def __post_init__(self) -> None:
        outputs = self.graph.captured.outputs
        self.updated = {
            out.target
            for out in outputs
            if out.kind in ("buffer_update", "input_update") and out.target is not None
        }
        self.borrowed = borrowed(self.captured)
        self.draws = self.captured.draws

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
        """The same, with the plain tensors of the model's copy."""
        constants = {i: memo.get(id(tensor), tensor) for i, tensor in self.constants.items()}
        return dataclasses.replace(self, constants=constants)

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
