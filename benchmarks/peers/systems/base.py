"""What a measured system offers: one function per operation, over inputs in its best layout."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch
from edge_list import Edges
from torch import Tensor, nn

Move = Callable[[Tensor], Tensor]


class Unsupported(Exception):  # noqa: N818
    """The system has no such operation; the text says what is missing."""


@dataclass(frozen=True)
class Case:
    """One operation: what is computed, on what type, with how many heads, with gradients or not.

    Node features are `[V, width]`, or `[V, heads, width / heads]` with heads; edge scalars are
    `[E, 1]` or `[E, heads, 1]`. A model has features `[V, features]`, hidden ones of `width`, and a
    score for each of the `classes`.
    """

    op: str
    width: int = 1
    heads: int = 0
    dtype: str = "float32"
    backward: bool = False
    features: int = 0
    classes: int = 0


@dataclass
class Operator:
    """An operation that is ready to be timed.

    Attributes:
        function: from the inputs, by role, to the output.
        enter: per role, how an input (and under "out" the output's gradient) comes into the layout
            that the system likes best; not timed.
        leave: the way back, for the comparison of results; not timed.
        parameters: of a model that is trained, by role; they get the inputs of their roles.
    """

    function: Callable[..., Any]
    enter: dict[str, Move] = field(default_factory=dict)
    leave: dict[str, Move] = field(default_factory=dict)
    parameters: dict[str, nn.Parameter] = field(default_factory=dict)


class System:
    """A way to compute; subclasses define a method per operation, `op_NAME(case, edges)`."""

    name = ""

    def operator(self, case: Case, edges: Edges) -> Operator:
        method = getattr(self, f"op_{case.op}", None)
        if method is None:
            raise Unsupported(f"{self.name} has no {case.op}")
        return method(case, edges)


def in_csc_order(edges: Edges, *, edge_output: bool = False) -> dict[str, dict[str, Move]]:
    """Layouts of a system that wants edge features in the order of `edges.csc()`."""
    eids = edges.csc().eids.long()

    def leave(tensor: Tensor) -> Tensor:
        return torch.empty_like(tensor).index_copy_(0, eids, tensor)

    roles = ("e", "out") if edge_output else ("e",)
    return {
        "enter": dict.fromkeys(roles, lambda tensor: tensor.index_select(0, eids)),
        "leave": dict.fromkeys(roles, leave),
    }
