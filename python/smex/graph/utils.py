"""Helpers that layers written for DGL import."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from smex.errors import SmexValueError
from smex.graph.containers import apply_each

if TYPE_CHECKING:
    from smex.graph.graph import Graph

__all__ = ["apply_each", "check_eq_shape", "expand_as_pair"]


def expand_as_pair(input_: Any, g: Graph | None = None) -> tuple[Any, Any]:
    """Features of sources and of destinations, given as a pair or as one.

    Args:
        input_: a pair, which is returned as it is; or the features ``[num_src, ...]`` of both ends,
            as one tensor or by node type.
        g: the graph. The destinations of a block are its first sources; of other graphs, and
            without one, both ends are the same nodes.

    Example:
        >>> b = sg.create_block(([0, 1, 2], [0, 0, 1]))
        >>> sg.utils.expand_as_pair(torch.tensor([5, 6, 7]), b)
        (tensor([5, 6, 7]), tensor([5, 6]))
    """
    if isinstance(input_, tuple):
        return input_
    if g is None or not g.is_block:
        return input_, input_
    if isinstance(input_, Mapping):
        return input_, {ntype: rows[: g.num_dst_nodes(ntype)] for ntype, rows in input_.items()}
    return input_, input_[: g.num_dst_nodes()]


def check_eq_shape(input_: Any) -> None:
    """Raise unless rows of sources and of destinations have one shape.

    Args:
        input_: a pair of features ``[num_src, *f]`` and ``[num_dst, *f]``, or one tensor of both.

    Raises:
        SmexValueError: they have not.

    Example:
        >>> sg.utils.check_eq_shape((torch.zeros(3, 4), torch.zeros(2, 4)))
    """
    source, destination = (list(rows.shape[1:]) for rows in expand_as_pair(input_))
    if source != destination:
        raise SmexValueError(
            f"check_eq_shape: expected rows of one shape, found {source} of sources and "
            f"{destination} of destinations; project one of them first"
        )
