"""Native graphs of calls that differ in sizes only, each made of one and the call's numbers."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from typing import Any

import torch

from smex._C import Graph
from smex._C import SizedGraph as NativeSizedGraph
from smex.capture import CapturedGraph, OpRecord
from smex.capture.filled import Place, Template, filled, has_places
from smex.specs import instantiate, signature, told


@dataclasses.dataclass(frozen=True)
class SpecQuestion:
    """What a Spec is instantiated from; see :func:`smex.specs.instantiate`."""

    target: str
    args: Sequence[Any]
    input_shapes: tuple[tuple[Any, ...], ...]
    output_shapes: tuple[tuple[Any, ...] | None, ...]
    dtypes: tuple[str, ...]

    @staticmethod
    def of(op: OpRecord, captured: CapturedGraph) -> SpecQuestion:
        """Returns that of a captured call."""
        values = captured.values
        inputs = [values[i] for i in op.inputs()]
        return SpecQuestion(
            op.target,
            op.args,
            tuple(tuple(value.shape) for value in inputs),
            tuple(None if i is None else tuple(values[i].shape) for i in op.outputs),
            tuple(str(value.dtype).removeprefix("torch.") for value in inputs),
        )

    def parts(self) -> tuple[Any, ...]:
        """Returns the arguments of `instantiate`."""
        return self.target, self.args, self.input_shapes, self.output_shapes, self.dtypes

    def at(self, numbers: Sequence[Any]) -> SpecQuestion:
        """Returns that of a call with these numbers."""
        return SpecQuestion(
            self.target,
            filled(self.args, numbers),
            filled(self.input_shapes, numbers),
            filled(self.output_shapes, numbers),
            self.dtypes,
        )


def contents(op: OpRecord, captured: CapturedGraph) -> list[torch.Tensor | None]:
    """Returns what is known of a call's operands before it runs: its constants."""
    values = [captured.values[i] for i in op.inputs()]
    return [value.tensor if value.role == "constant" else None for value in values]


class SizedGraph:
    """The native graphs of a template.

    Calls that are equal but for the values that they read, such as those of repeated layers, share
    one Spec; only what depends on a size is instantiated for each call of the model.

    Args:
        template: of the records.
        graph: the native graph of one call.
    """

    def __init__(self, template: Template, graph: Graph) -> None:
        records = template.records
        self._native = NativeSizedGraph(graph)
        # By meaning a call that has it, and what is known of its operands.
        self._asked: list[tuple[int, SpecQuestion, list[torch.Tensor | None]]] = []
        for value in records.values:
            for dim, number in _places(value.shape):
                self._native.place_size(value.id, dim, number)
        meanings: dict[Any, int] = {}
        calls = [*records.ops, *(fusion.fused for fusion in records.fusions)]
        for call, op in enumerate(calls):
            self._place_arguments(call, op)
            asked = SpecQuestion.of(op, records)
            if has_places([asked.args, asked.input_shapes, asked.output_shapes]):
                known = contents(op, records)
                key = (signature(*asked.parts()), tuple(map(id, known)))
                meaning = meanings.setdefault(key, len(meanings))
                if meaning == len(self._asked):
                    self._asked.append((call, asked, known))
                self._native.place_meaning(call, meaning)

    def _place_arguments(self, call: int, op: OpRecord) -> None:
        for position, arg in enumerate(op.args):
            if isinstance(arg, Place):
                self._native.place_argument(call, position, -1, arg.at)
            elif isinstance(arg, (list, tuple)):
                for element, number in _places(arg):
                    self._native.place_argument(call, position, element, number)

    def at(self, numbers: Sequence[Any]) -> Graph:
        """Returns the graph of a call."""
        meanings = [
            # Not kept: of the next call of the model they are others.
            (call, _meaning(asked.at(numbers), known))
            for call, asked, known in self._asked
        ]
        return self._native.at(numbers, meanings)


def _meaning(asked: SpecQuestion, known: Sequence[torch.Tensor | None]) -> Any:
    found = instantiate(*asked.parts(), kept=False)
    return found if found is None else (told(found[0], known), found[1])


def _places(numbers: Sequence[Any]) -> Iterator[tuple[int, int]]:
    """Yields the positions of places, each with its number."""
    for position, number in enumerate(numbers):
        if isinstance(number, Place):
            yield position, number.at
