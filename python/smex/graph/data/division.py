"""Many graphs in one list of edges: each gets its own nodes and edges."""

from __future__ import annotations

import torch
from torch import Tensor

from smex.graph.constants import EID, NID
from smex.graph.creation.convert import graph
from smex.graph.graph import Graph

__all__ = ["divided"]


def divided(ends: Tensor, graph_of: Tensor) -> list[Graph]:
    """Returns graphs with ``NID`` and ``EID``, the ids of their nodes and edges in the lists.

    Nodes are in the list's order, edges ordered by source and then by their place in the list,
    whatever their destinations' graphs are: these are taken to be their sources'.

    Args:
        ends: int64 ``[num_edges, 2]``, sources and destinations.
        graph_of: int64 ``[num_nodes]``, the graph of each node, from 0 on.
    """
    sizes = torch.bincount(graph_of)
    nodes = torch.argsort(graph_of, stable=True)
    place = torch.empty_like(nodes).index_copy_(0, nodes, torch.arange(nodes.shape[0]))
    order = torch.argsort(place[ends[:, 0]], stable=True)
    sources = graph_of[ends[order, 0]]
    num_edges = torch.bincount(sources, minlength=len(sizes))
    local = place[ends[order]] - (sizes.cumsum(0) - sizes)[sources][:, None]
    graphs = []
    parts = (nodes.split(sizes.tolist()), *(t.split(num_edges.tolist()) for t in (local, order)))
    for ids, pairs, edge_ids in zip(*parts):
        src, dst = pairs.unbind(1)
        g = graph((src.contiguous(), dst.contiguous()), num_nodes=len(ids))
        g.ndata[NID], g.edata[EID] = ids, edge_ids
        graphs.append(g)
    return graphs
