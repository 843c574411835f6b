"""Values for each edge, computed from values of the nodes that it joins."""

from __future__ import annotations

from torch import Tensor

from smex.graph import ops
from smex.graph.graph import Graph
from smex.graph.words import EdgeType

__all__ = ["copy_u", "copy_v", "u_add_v", "u_div_v", "u_dot_v", "u_mul_v", "u_sub_v"]


def copy_u(g: Graph, x_node: Tensor, etype: EdgeType = None) -> Tensor:
    """Returns the source's value for each edge: ``[num_src, ...]`` to ``[num_edges, ...]``.

    Args:
        g: the graph.
        x_node: values of the sources.
        etype: the edge type, where there are several.

    Example:
        >>> import smex.graph as sg
        >>> sg.copy_u(sg.graph(([0, 1], [2, 2])), torch.tensor([3.0, 4.0, 5.0]))
        tensor([3., 4.])
    """
    return ops.copy_u(_only(g, etype), x_node)


def copy_v(g: Graph, x_node: Tensor, etype: EdgeType = None) -> Tensor:
    """Returns the destination's value for each edge, see :func:`copy_u`."""
    return ops.copy_v(_only(g, etype), x_node)


def u_add_v(g: Graph, x_node: Tensor, y_node: Tensor, etype: EdgeType = None) -> Tensor:
    """Returns the source's value plus the destination's, ``[num_edges, ...]``.

    Args:
        g: the graph.
        x_node: values of the sources ``[num_src, ...]``.
        y_node: values of the destinations ``[num_dst, ...]``; features broadcast.
        etype: the edge type, where there are several.

    Example:
        >>> import smex.graph as sg
        >>> x = torch.tensor([3.0, 4.0, 5.0])
        >>> sg.u_add_v(sg.graph(([0, 1], [2, 2])), x, x)
        tensor([8., 9.])
    """
    return ops.u_add_v(_only(g, etype), x_node, y_node)


def u_sub_v(g: Graph, x_node: Tensor, y_node: Tensor, etype: EdgeType = None) -> Tensor:
    """Returns the source's value minus the destination's, see :func:`u_add_v`."""
    return ops.u_sub_v(_only(g, etype), x_node, y_node)


def u_mul_v(g: Graph, x_node: Tensor, y_node: Tensor, etype: EdgeType = None) -> Tensor:
    """Returns the source's value times the destination's, see :func:`u_add_v`."""
    return ops.u_mul_v(_only(g, etype), x_node, y_node)


def u_div_v(g: Graph, x_node: Tensor, y_node: Tensor, etype: EdgeType = None) -> Tensor:
    """Returns the source's value over the destination's, see :func:`u_add_v`."""
    return ops.u_div_v(_only(g, etype), x_node, y_node)


def u_dot_v(g: Graph, x_node: Tensor, y_node: Tensor, etype: EdgeType = None) -> Tensor:
    """The dot product of both values' last dimensions, kept as size 1, see :func:`u_add_v`."""
    return ops.u_dot_v(_only(g, etype), x_node, y_node)


def _only(g: Graph, etype: EdgeType) -> Graph:
    return g if etype is None else g[etype]
