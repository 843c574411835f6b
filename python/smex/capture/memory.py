"""Which values of a captured graph may share memory when it runs."""

from __future__ import annotations

from smex.capture.records import CapturedGraph, OpRecord, returns_view

_PERHAPS_VIEWS = ("aten::contiguous", "aten::reshape")


def _may_return_view(op: OpRecord) -> bool:
    return returns_view(op) or op.target in _PERHAPS_VIEWS


def bases(captured: CapturedGraph) -> dict[int, set[int]]:
    """By value that may be a view the values that it may be a view of."""
    found: dict[int, set[int]] = {}
    for op in captured.ops:
        operands = op.inputs()
        if operands and _may_return_view(op):
            base = {operands[0], *found.get(operands[0], ())}
            found |= {output: base for output in op.outputs if output is not None}
    return found


def read_back(captured: CapturedGraph) -> set[int]:
    """The values that backward operators read, themselves or through a view of them."""
    base_of = bases(captured)
    found: set[int] = set()
    for op in captured.ops:
        for operand in op.inputs() if op.backward else ():
            found |= {operand, *base_of.get(operand, ())}
    return found


def borrowed(captured: CapturedGraph) -> set[int]:
    """The values whose memory may be that of state, an input or a constant."""
    given = {value.id for value in captured.values if value.role != "intermediate"}
    views = bases(captured)
    return given | {value for value, base in views.items() if not given.isdisjoint(base)}
