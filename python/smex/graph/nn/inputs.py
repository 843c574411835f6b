"""What layers ask of their inputs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from smex.errors import SmexValueError
from smex.graph.frame import counted, describe
from smex.graph.utils import expand_as_pair

if TYPE_CHECKING:
    from smex.graph.graph import Graph


def source_and_destination(graph: Graph, feat: Any) -> tuple[Tensor, Tensor]:
    """Features of both ends, as :func:`expand_as_pair` has them."""
    return expand_as_pair(feat, graph)


def check_rows(layer: str, end: str, rows: Any, num_rows: int, width: int) -> None:
    """Raise unless there are features of all nodes, as wide as the layer was made for."""
    plain = isinstance(rows, Tensor) and rows.dim() > 1
    if not plain or rows.shape[0] != num_rows or rows.shape[-1] != width:
        raise SmexValueError(
            f"{layer}: expected features of {counted(num_rows, end)}, {width} wide, found "
            f"{describe(rows)}; the width is what the layer was made for"
        )


def check_in_degrees(layer: str, graph: Graph) -> None:
    """Nodes without in-edges get nothing from their neighbours, which is rarely meant."""
    if torch.compiler.is_compiling():
        return  # the answer is a number that a graph cannot branch on
    lonely = int((graph.in_degrees() == 0).sum())
    if lonely:
        raise SmexValueError(
            f"{layer}: {counted(lonely, 'node')} without in-edges would get 0; add self-loops with "
            "g = sg.add_self_loop(g), or pass allow_zero_in_degree=True"
        )
