"""What the same nodes get through several edge types, reduced to one."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from smex.errors import SmexValueError
from smex.graph.core.graph_core import GraphCore
from smex.graph.ops.spmm import merge_relations
from smex.graph.words import CanonicalType, describe, named

CROSS_REDUCERS = ("sum", "min", "max", "mean", "stack")
"""How multi_update_all reduces what a node gets through several edge types."""


def merge_types(
    graph: GraphCore, parts: list[tuple[CanonicalType, Mapping[str, Tensor]]], reducer: Any
) -> dict[str, Tensor]:
    """Returns the columns of one type of destinations.

    Edge types without edges take no part, unless all are.

    Args:
        graph: the graph.
        parts: what came through each edge type; built-in ``max`` or ``min`` of the cross reducer's
            own name is -inf or inf without messages, and becomes 0 where no type brought any.
        reducer: one of ``CROSS_REDUCERS``, or a function of a list of tensors.

    Raises:
        SmexValueError: shapes of what came through the edge types differ.
    """
    parts = [part for part in parts if graph._relations[part[0]].num_edges] or parts
    if reducer == "stack":
        order = list(graph._relations)
        parts = sorted(parts, key=lambda part: order.index(part[0]))
    result = {}
    for name in dict.fromkeys(name for _, columns in parts for name in columns):
        own = [(canonical, columns[name]) for canonical, columns in parts if name in columns]
        try:
            merged = _merge([x for _, x in own], reducer)
        except RuntimeError:
            if not callable(reducer):  # a function's errors are its own
                _check_shapes(name, own)
            raise
        if reducer in ("min", "max"):
            merged = _zero_where_empty(graph, merged, [canonical for canonical, _ in own])
        result[name] = merged
    return result


def _check_shapes(name: str, parts: list[tuple[CanonicalType, Tensor]]) -> None:
    """Raise if what came through the edge types cannot be stacked."""
    (first, x), *others = parts
    for canonical, y in others:
        if x.shape != y.shape:
            raise SmexValueError(
                f"message passing: expected {named(name)} of one shape from all edge types, found "
                f"{describe(x)} from {first!r} and {describe(y)} from {canonical!r}; make them "
                "alike, or use multi_update_all with a function as cross_reducer"
            )


def _merge(parts: list[Tensor], reducer: Any) -> Tensor:
    if reducer == "stack":
        return torch.stack(parts, 1)
    if len(parts) == 1:
        return parts[0]
    if callable(reducer):
        return reducer(parts)
    if reducer == "mean":
        return torch.stack(parts).mean(0)
    return merge_relations(parts, reducer)


def _zero_where_empty(graph: GraphCore, x: Tensor, etypes: list[CanonicalType]) -> Tensor:
    """0 in the rows of nodes that no edge of these types ends in."""
    degrees = [graph._relations[canonical].in_degrees() for canonical in etypes]
    empty = torch.stack(degrees).sum(0) == 0
    return x.masked_fill(empty.view(-1, *(1,) * (x.dim() - 1)), 0)
