"""Message passing along an order of nodes or edges (thesis §4.5.2)."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from smex.graph.core.traversal import bfs_nodes_generator, dfs_labeled_edges_generator
from smex.graph.messages.message_passing import MessagePassingMixin

Apply = Callable[..., Any] | None


def prop_nodes(
    graph: MessagePassingMixin,
    nodes_generator: Iterable[Any],
    message_func: Any,
    reduce_func: Any,
    apply_node_func: Apply = None,
) -> None:
    """Calls ``graph.pull`` for each set of nodes, one after another.

    Args:
        graph: the graph.
        nodes_generator: sets of node ids.
        message_func: what edges send.
        reduce_func: what a node makes of the messages it gets.
        apply_node_func: what becomes of the results.
    """
    graph.prop_nodes(nodes_generator, message_func, reduce_func, apply_node_func)


def prop_edges(
    graph: MessagePassingMixin,
    edges_generator: Iterable[Any],
    message_func: Any,
    reduce_func: Any,
    apply_node_func: Apply = None,
) -> None:
    """Calls ``graph.send_and_recv`` for each set of edges, one after another."""
    graph.prop_edges(edges_generator, message_func, reduce_func, apply_node_func)


def prop_nodes_bfs(
    graph: MessagePassingMixin,
    source: Any,
    message_func: Any,
    reduce_func: Any,
    reverse: bool = False,
    apply_node_func: Apply = None,
) -> None:
    """Updates nodes by their distance from the sources, which come first.

    Example:
        >>> import smex.graph.function as fn
        >>> g = sg.graph(([0, 1], [1, 2]))
        >>> g.ndata["h"] = torch.tensor([1.0, 0.0, 0.0])
        >>> sg.prop_nodes(g, [[1], [2]], fn.copy_u("h", "m"), fn.sum("m", "h"))
        >>> g.ndata["h"]
        tensor([1., 1., 1.])
    """
    steps = bfs_nodes_generator(graph, source, reverse)
    prop_nodes(graph, steps, message_func, reduce_func, apply_node_func)


def prop_nodes_topo(
    graph: MessagePassingMixin,
    message_func: Any,
    reduce_func: Any,
    reverse: bool = False,
    apply_node_func: Apply = None,
) -> None:
    """Updates nodes in topological order; see :meth:`smex.graph.Graph.prop_nodes_topo`."""
    graph.prop_nodes_topo(message_func, reduce_func, reverse, apply_node_func)


def prop_edges_dfs(
    graph: MessagePassingMixin,
    source: Any,
    message_func: Any,
    reduce_func: Any,
    reverse: bool = False,
    has_reverse_edge: bool = False,
    has_nontree_edge: bool = False,
    apply_node_func: Apply = None,
) -> None:
    """Sends messages along edges in the order of a depth-first search."""
    steps = dfs_labeled_edges_generator(
        graph, source, reverse, has_reverse_edge, has_nontree_edge, return_labels=False
    )
    prop_edges(graph, steps, message_func, reduce_func, apply_node_func)
