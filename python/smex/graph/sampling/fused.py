"""Edges drawn for nodes, as the block of these nodes."""

from __future__ import annotations

from typing import Any

from smex.graph.constants import EID
from smex.graph.graph import Graph
from smex.graph.parts.compact import to_block
from smex.graph.sampling.neighbor import sample_neighbors
from smex.graph.transforms.edits import reverse

__all__ = ["sample_neighbors_fused"]


def sample_neighbors_fused(
    g: Graph,
    nodes: Any,
    fanout: Any,
    edge_dir: str = "in",
    prob: Any = None,
    replace: bool = False,
    copy_ndata: bool = True,
    copy_edata: bool = True,
    exclude_edges: Any = None,
    mapping: Any = None,
) -> Graph:
    """Returns the block of some nodes with edges drawn for each of them.

    Args:
        g: as of :func:`sample_neighbors`, as are the next ones.
        nodes: different ids.
        fanout: how many edges of each type are drawn for a node.
        edge_dir: ``"in"``: the nodes are the destinations; ``"out"``: of the graph with
            edges turned round.
        prob: weights of the edges.
        replace: whether an edge may be drawn more than once.
        copy_ndata: whether the block has node features.
        copy_edata: whether the block has edge features.
        exclude_edges: edges that are not drawn.
        mapping: taken for compatibility.

    Returns:
        A block whose destinations are the nodes, and its sources these and then those that they
        have edges with. ``NID`` and ``EID`` have the ids in `g`.

    Raises:
        SmexTypeError: as of :func:`sample_neighbors`.
        SmexValueError: as there, or a node is given twice.

    Example:
        >>> import smex.graph as sg
        >>> g = sg.graph(([0, 1, 2, 3, 4], [5, 5, 5, 5, 0]))
        >>> block = sg.sampling.sample_neighbors_fused(g, torch.tensor([5, 0]), 2)
        >>> block.dstdata[sg.NID], block.in_degrees()
        (tensor([5, 0]), tensor([2, 1]))
    """
    drawn = sample_neighbors(
        g, nodes, fanout, edge_dir, prob, replace, copy_ndata, copy_edata, False, exclude_edges
    )
    if edge_dir == "out":
        drawn = reverse(drawn, copy_ndata=True, copy_edata=True)
    block = to_block(drawn, nodes)
    for canonical in block.canonical_etypes:
        of_drawn = drawn.edges[canonical].data[EID]
        block.edges[canonical].data[EID] = of_drawn[block.edges[canonical].data[EID].long()]
    return block
