"""Which tensors share memory, and which values of a captured graph may when it runs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import torch

from smex.capture.in_shards import is_in_shards
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


def read_back(captured: CapturedGraph, again: Sequence[bool]) -> set[int]:
    """Returns the values that backward operators read, themselves or through a view of them.

    Args:
        captured: the graph.
        again: by operator whether the backward pass runs it once more.
    """
    base_of = bases(captured)
    found: set[int] = set()
    for op in captured.ops:
        for operand in op.inputs() if op.backward or again[op.id] else ():
            found |= {operand, *base_of.get(operand, ())}
    return found


def borrowed(captured: CapturedGraph) -> set[int]:
    """Returns the values whose memory may be that of state, an input or a constant."""
    given = {value.id for value in captured.values if value.role != "intermediate"}
    views = bases(captured)
    return given | {value for value, base in views.items() if not given.isdisjoint(base)}


def overlapping(tensors: Sequence[torch.Tensor]) -> Iterator[tuple[int, int]]:
    """Yields the pairs of tensors of which an element of one is one of the other in memory.

    Positions.
    """
    of_storage: dict[int, list[int]] = {}
    for n, tensor in enumerate(tensors):
        if not (tensor.is_meta or is_in_shards(tensor)) and tensor.numel():
            of_storage.setdefault(tensor.untyped_storage()._cdata, []).append(n)
    for group in of_storage.values():
        if len(group) > 1:
            yield from _overlapping([(*_span(tensors[n]), n) for n in group], tensors)


def _overlapping(
    spans: list[tuple[int, int, int]], tensors: Sequence[torch.Tensor]
) -> Iterator[tuple[int, int]]:
    """Of tensors of one storage, each with its span."""
    near: list[tuple[int, int, int]] = []
    for first, last, n in sorted(spans):
        near = [span for span in near if span[1] > first]
        for other in near:
            if _share_an_element(tensors[other[2]], tensors[n]):
                yield min(other[2], n), max(other[2], n)
        near.append((first, last, n))


def _span(tensor: torch.Tensor) -> tuple[int, int]:
    """Returns where in its storage a tensor begins and ends, in bytes."""
    steps = zip(tensor.shape, tensor.stride(), strict=True)
    first = tensor.storage_offset()
    last = first + 1 + sum((size - 1) * stride for size, stride in steps)
    return int(first) * tensor.element_size(), int(last) * tensor.element_size()


def _share_an_element(a: torch.Tensor, b: torch.Tensor) -> bool:
    """For two tensors of one storage whose spans overlap."""
    if a.element_size() != b.element_size():
        return True
    base = min(a.storage_offset(), b.storage_offset())
    end = max(_span(a)[1], _span(b)[1]) // a.element_size()
    cells = torch.zeros(end - base, dtype=torch.bool)
    cells.as_strided(a.shape, a.stride(), a.storage_offset() - base).fill_(True)
    return bool(cells.as_strided(b.shape, b.stride(), b.storage_offset() - base).any())
