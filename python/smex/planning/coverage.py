"""Which operators of a model have a Spec, and along what each can be divided."""

from __future__ import annotations

import html
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import torch

from smex.capture import CapturedGraph, capture
from smex.planning.semantic import find_spec
from smex.text import aligned


@dataclass
class Row:
    """One operator of a model.

    Attributes:
        target: its name, such as ``aten::mm``.
        calls: how often the model calls it.
        described: how many of these calls have a Spec.
        splits: of the described calls, how many can be divided along each index, by its name.
        whole: how many output dimensions larger than 1 cannot be divided, over all these calls.
        source: the first of the user's lines that calls it without a Spec.
    """

    target: str
    calls: int = 0
    described: int = 0
    splits: dict[str, int] = field(default_factory=dict)
    whole: int = 0
    source: str = ""

    def add(self, spec: Any, source: str) -> None:
        """Counts a call."""
        self.calls += 1
        if spec is None:
            self.source = self.source or source
            return
        self.described += 1
        splits = {split.index: split for split in spec.splits()}
        for index, split in splits.items():
            name = spec.indices[index].name + (" (reduced)" if split.reduction else "")
            self.splits[name] = self.splits.get(name, 0) + 1
        self.whole += sum(
            index not in splits and spec.indices[index].extent > 1
            for index in dict.fromkeys(axis for axes in spec.output_axes for axis in axes)
        )


class Coverage:
    """The operators of a model's joint forward and backward graph, and their Specs.

    Prints as a table and renders as HTML in notebooks.
    """

    def __init__(self, captured: CapturedGraph):
        rows: dict[str, Row] = {}
        for op in captured.ops:
            spec, _ = find_spec(op, captured) or (None, [])
            rows.setdefault(op.target, Row(op.target)).add(spec, op.source)
        self._rows = sorted(rows.values(), key=lambda row: (row.described, -row.calls, row.target))
        self._name = captured.name

    @property
    def fraction(self) -> float:
        """Calls with a Spec, of all calls."""
        calls = sum(row.calls for row in self)
        return sum(row.described for row in self) / calls if calls else 1.0

    @property
    def missing(self) -> list[str]:
        """Operators of which some call has no Spec and runs unsplit."""
        return [row.target for row in self if row.described < row.calls]

    def __iter__(self) -> Iterator[Row]:
        return iter(self._rows)

    def __len__(self) -> int:
        return len(self._rows)

    def __getitem__(self, target: str) -> Row:
        for row in self:
            if row.target == target:
                return row
        raise KeyError(f"{target} is not called; there are {', '.join(r.target for r in self)}")

    def __repr__(self) -> str:
        calls = sum(row.calls for row in self)
        return (
            f"Coverage({self._name}: {self.fraction:.1%} of {calls} calls of {len(self)} operators)"
        )

    def __str__(self) -> str:
        return "\n".join([repr(self), *aligned([_HEAD, *self._cells()], right=(1, 2, 4))])

    def _repr_html_(self) -> str:
        rows = "".join(
            "<tr>" + "".join(f"<td>{html.escape(cell)}</td>" for cell in cells) + "</tr>"
            for cells in self._cells()
        )
        head = "".join(f"<th>{title}</th>" for title in _HEAD)
        return f"<p>{html.escape(repr(self))}</p><table><tr>{head}</tr>{rows}</table>"

    def _cells(self) -> list[tuple[str, ...]]:
        return [
            (
                row.target,
                str(row.calls),
                str(row.described),
                ", ".join(row.splits) or ("nothing" if row.described else f"missing {row.source}"),
                str(row.whole),
            )
            for row in self
        ]


_HEAD = ("operator", "calls", "described", "can be divided along", "whole dimensions")


def coverage(
    model: Callable,
    args: tuple | torch.Tensor = (),
    loss_fn: Callable | None = None,
    *,
    kwargs: dict[str, Any] | None = None,
    training: bool | None = None,
) -> Coverage:
    """Tells which operators of a model are described, before it is partitioned.

    Args:
        model: what :func:`smex.partition` takes; meta tensors will do.
        args: its arguments.
        loss_fn: a loss that belongs to the graph.
        kwargs: its keyword arguments.
        training: whether the backward graph belongs to it; see :func:`smex.capture`.

    Returns:
        A :class:`Coverage`.

    Raises:
        CaptureError: the model cannot be captured.
        SmexTypeError: the model or the loss cannot be called.

    Example:
        >>> found = smex.coverage(torch.nn.Linear(3, 4), torch.ones(2, 3))
        >>> found
        Coverage(Linear: 100.0% of 7 calls of 5 operators)
        >>> found.missing
        []
    """
    return Coverage(capture(model, args, loss_fn=loss_fn, kwargs=kwargs, training=training))
