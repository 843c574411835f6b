"""Records of calls that differ in sizes only: a template, and what a call's numbers make of it."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Sequence
from typing import Any

from smex.capture.records import CapturedGraph, FusionRecord, OpRecord, ValueRecord


@dataclasses.dataclass(frozen=True)
class Place:
    """Stands for a number in records: its position among those of a call."""

    at: int


def filled(places: Any, numbers: Sequence[Any]) -> Any:
    """Returns `places` with numbers in it."""
    if isinstance(places, Place):
        return numbers[places.at]
    if isinstance(places, (list, tuple)):
        kind = list if isinstance(places, list) else tuple
        return kind([filled(place, numbers) for place in places])
    return places


def has_places(places: Any) -> bool:
    """Returns whether a number, or one of a nested list, is still to be filled in."""
    if isinstance(places, (list, tuple)):
        return any(map(has_places, places))
    return isinstance(places, Place)


class Template:
    """The records of a model in which shapes and arguments may have places in them.

    Attributes:
        records: of all calls.
        known: what others have made of the records, once for all calls.
    """

    def __init__(self, records: CapturedGraph) -> None:
        self.records = records
        self.known: dict[Any, Any] = {}


class FilledGraph(CapturedGraph):
    """The records of one call. Those that have numbers are made when they are asked for.

    Args:
        template: of calls that differ in sizes.
        numbers: of this call, by place.
    """

    def __init__(self, template: Template, numbers: Sequence[Any]) -> None:
        lazy = ("values", "ops", "fusions")
        records = vars(template.records)
        vars(self).update({name: held for name, held in records.items() if name not in lazy})
        self.template = template
        self.numbers = numbers
        self.flat_outputs = filled(template.records.flat_outputs, numbers)

    @property
    def structure(self) -> CapturedGraph:
        """The template's records."""
        return self.template.records

    def shape(self, value: int) -> tuple[int, ...]:
        """Returns the shape of a value, without making all records."""
        return filled(self.template.records.values[value].shape, self.numbers)

    @functools.cached_property
    def values(self) -> list[ValueRecord]:  # type: ignore[override]
        """The template's, with shapes of this call."""
        return [
            dataclasses.replace(value, shape=filled(value.shape, self.numbers))
            for value in self.template.records.values
        ]

    @functools.cached_property
    def ops(self) -> list[OpRecord]:  # type: ignore[override]
        """The template's, with arguments of this call."""
        return [self._op(op) for op in self.template.records.ops]

    @functools.cached_property
    def fusions(self) -> list[FusionRecord]:  # type: ignore[override]
        """The template's, with arguments of this call."""
        return [
            FusionRecord(self._op(fusion.fused), fusion.members)
            for fusion in self.template.records.fusions
        ]

    def _op(self, op: OpRecord) -> OpRecord:
        return dataclasses.replace(op, args=filled(op.args, self.numbers))
