"""Questions about the edges of a :class:`DistGraph`, as functions; each rank answers its own."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from smex.graph.constants import ALL
from smex.graph.distributed.dist_graph import DistGraph, drawn
from smex.graph.graph import Graph
from smex.graph.parts.subgraph import in_subgraph as whole_in_subgraph

__all__ = [
    "find_edges",
    "in_degrees",
    "in_subgraph",
    "out_degrees",
    "sample_etype_neighbors",
    "sample_neighbors",
]


def _whole(g: DistGraph | Graph) -> Graph:
    return g.graph if isinstance(g, DistGraph) else g


def sample_neighbors(
    g: DistGraph | Graph,
    nodes: Any,
    fanout: Any,
    edge_dir: str = "in",
    prob: str | None = None,
    replace: bool = False,
    use_graphbolt: bool = False,
    exclude_edges: Any = None,
    output_device: torch.device | str | None = None,
) -> Graph:
    """Returns the graph of edges drawn for some nodes, on this rank.

    As :func:`smex.graph.sampling.sample_neighbors`, without features.

    Args:
        g: the graph, of any types.
        nodes: ids, or a dict of them by node type.
        fanout: edges of each type for a node, -1 for all; or a dict of these by edge type.
        edge_dir: ``"in"`` or ``"out"``.
        prob: name of an edge feature with weights to draw by.
        replace: whether an edge may be drawn more than once.
        use_graphbolt: taken for compatibility.
        exclude_edges: ids of edges that are not drawn, or a dict by edge type.
        output_device: device of the result.

    Returns:
        A graph with all nodes and the drawn edges, whose ids are the feature ``EID``.

    Raises:
        SmexTypeError: ids are not integers.
        SmexValueError: an id or type does not exist, or a fanout or weight is impossible.
    """
    return drawn(_whole(g), nodes, fanout, edge_dir, prob, exclude_edges, replace, output_device)


def sample_etype_neighbors(
    g: DistGraph | Graph,
    nodes: Any,
    fanout: Any,
    edge_dir: str = "in",
    prob: str | None = None,
    replace: bool = False,
    etype_sorted: bool = True,
    use_graphbolt: bool = False,
    exclude_edges: Any = None,
) -> Graph:
    """Returns the graph of edges drawn for some nodes, some of each type; :func:`sample_neighbors`.

    `etype_sorted` is taken for compatibility.
    """
    return sample_neighbors(g, nodes, fanout, edge_dir, prob, replace, exclude_edges=exclude_edges)


def in_subgraph(g: DistGraph | Graph, nodes: Any) -> Graph:
    """Returns the graph of all edges into some nodes, with ``EID`` and all nodes.

    Args:
        g: the graph.
        nodes: ids, or a dict of them by node type.

    Raises:
        SmexValueError: an id or type does not exist.
    """
    return whole_in_subgraph(_whole(g), nodes)


def find_edges(g: DistGraph | Graph, edge_ids: Any) -> tuple[Tensor, Tensor]:
    """Returns the sources and destinations of some edges; ids, or a dict with those of one type."""
    if isinstance(edge_ids, dict):
        ((etype, ids),) = edge_ids.items()
        return _whole(g).find_edges(ids, etype=etype)
    return _whole(g).find_edges(edge_ids)


def in_degrees(g: DistGraph | Graph, v: Any = ALL) -> Tensor:
    """Returns the in-degrees of some nodes."""
    return _whole(g).in_degrees(v)


def out_degrees(g: DistGraph, u: Any = ALL) -> Tensor:
    """Returns the out-degrees of some nodes."""
    return g.out_degrees(u)
