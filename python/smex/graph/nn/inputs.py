"""What layers ask of their inputs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from smex.errors import SmexTypeError, SmexValueError
from smex.graph.graph import Graph
from smex.graph.utils import expand_as_pair
from smex.graph.words import check_range, counted, describe

if TYPE_CHECKING:
    from smex.graph.structure.relation import Relation


def check_graph(layer: str, graph: Any) -> None:
    """Raise unless the first argument of a layer is a graph; PyG's layers have features there."""
    if not isinstance(graph, Graph):
        raise SmexTypeError(
            f"{layer}: expected a graph as the first argument, found {describe(graph)}; layers "
            "are called with the graph, then the features"
        )


def source_and_destination(graph: Graph, feat: Any) -> tuple[Tensor, Tensor]:
    """Features of both ends, as :func:`expand_as_pair` has them."""
    return expand_as_pair(feat, graph)


def check_rows(layer: str, end: str, rows: Any, num_rows: int, width: int | None = None) -> None:
    """Raise unless there is a row for each of them, ``width`` wide where the layer has one.

    Rows of a layer with a width meet its parameters and must be floating point numbers.
    """
    plain = isinstance(rows, Tensor) and rows.dim() > (0 if width is None else 1)
    if not plain or rows.shape[0] != num_rows or (width is not None and rows.shape[-1] != width):
        wide = "" if width is None else f", {width} wide"
        raise SmexValueError(
            f"{layer}: expected features of {counted(num_rows, end)}{wide}, found "
            f"{describe(rows)}; the layer takes one row for each, of the width it was made for"
        )
    if width is not None:
        check_floats(layer, end, rows)


def check_floats(layer: str, end: str, rows: Any) -> None:
    """Raise where features are integers, which a layer's parameters do not multiply."""
    if isinstance(rows, Tensor) and not (rows.is_floating_point() or rows.is_complex()):
        raise SmexTypeError(
            f"{layer}: expected floating point features of {end}s, found {describe(rows)}; convert "
            "them with feat.float(), or ids to rows with torch.nn.Embedding"
        )


def check_two_dims(layer: str, end: str, rows: Tensor) -> None:
    """Raise if there are dimensions between nodes and features."""
    if rows.dim() != 2:
        raise SmexValueError(
            f"{layer}: expected features [{end}s, width] of two dimensions, found "
            f"{describe(rows)}; call the layer for each slice of the dimensions between"
        )


def check_types(layer: str, argument: str, types: Tensor, num_rows: int, num_types: int) -> None:
    """Raise unless there is one of the types for each row."""
    if types.shape != (num_rows,) or types.is_floating_point() or types.dtype == torch.bool:
        raise SmexValueError(
            f"{layer}: expected {argument} to have one integer for each of "
            f"{counted(num_rows, 'row')}, its type, found {describe(types)}"
        )
    check_range(types, num_types, f"{layer}: {argument}")


def edge_factor(layer: str, graph: Graph, edge_weight: Tensor, x: Tensor) -> Tensor:
    """A number for each edge, ``[num_edges]`` or ``[num_edges, 1]``, as a factor of rows of ``x``.

    Raises:
        SmexValueError: it is not that.
    """
    num_edges = graph.num_edges()
    if not isinstance(edge_weight, Tensor) or edge_weight.numel() != num_edges:
        raise SmexValueError(
            f"{layer}: expected a weight for each of {counted(num_edges, 'edge')}, found "
            f"{describe(edge_weight)}"
        )
    return edge_weight.reshape(-1, *[1] * (x.dim() - 1))


def degree_factor(relation: Relation, end: str, power: float, x: Tensor) -> Tensor:
    """Degrees of ``src`` or ``dst`` to a power as a factor of rows of ``x``."""
    return relation.degree_power(end, power, x.dtype).reshape(-1, *[1] * (x.dim() - 1))


def check_choice(layer: str, argument: str, value: Any, choices: Sequence[Any]) -> None:
    """Raise unless an argument is one of some values."""
    if value not in choices:
        raise SmexValueError(
            f"{layer}: {argument} must be one of {', '.join(map(str, choices))}, found {value!r}"
        )


def check_at_least_one(layer: str, argument: str, value: int) -> None:
    """Raise unless a number of things is at least 1."""
    if value < 1:
        raise SmexValueError(f"{layer}: expected {argument} of at least 1, found {value}")


def size_pair(size: int | tuple[int, int]) -> tuple[int, int]:
    """Sizes of rows of sources and of destinations, given as a pair or as one."""
    return size if isinstance(size, tuple) else (size, size)


class RefusesZeroInDegree:
    """A layer that refuses nodes without in-edges, unless it is told that they are fine."""

    _allow_zero_in_degree = False

    def set_allow_zero_in_degree(self, set_value: bool) -> None:
        """Sets whether nodes without in-edges are fine."""
        self._allow_zero_in_degree = set_value

    def _check_in_degrees(self, graph: Graph) -> None:
        check_graph(type(self).__name__, graph)
        if not self._allow_zero_in_degree:
            check_in_degrees(type(self).__name__, graph)


def check_in_degrees(layer: str, graph: Graph) -> None:
    """Nodes without in-edges get nothing from their neighbours, which is rarely meant."""
    if torch.compiler.is_compiling():
        return  # the answer is a number that a graph cannot branch on
    relation = graph.relation()
    lonely = relation.keep("without in-edges", lambda: int((relation.in_degrees() == 0).sum()))
    if lonely:
        raise SmexValueError(
            f"{layer}: {counted(lonely, 'node')} without in-edges would get 0; add self-loops with "
            "g = sg.add_self_loop(g), or pass allow_zero_in_degree=True"
        )
