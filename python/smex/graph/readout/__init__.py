"""Values of edges from those of nodes, and of the graphs of a batch from those of both."""

from smex.graph.readout.graphs import (
    broadcast_edges,
    broadcast_nodes,
    max_edges,
    max_nodes,
    mean_edges,
    mean_nodes,
    readout_edges,
    readout_nodes,
    softmax_edges,
    softmax_nodes,
    sum_edges,
    sum_nodes,
    topk_edges,
    topk_nodes,
)

__all__ = [
    "broadcast_edges",
    "broadcast_nodes",
    "max_edges",
    "max_nodes",
    "mean_edges",
    "mean_nodes",
    "readout_edges",
    "readout_nodes",
    "softmax_edges",
    "softmax_nodes",
    "sum_edges",
    "sum_nodes",
    "topk_edges",
    "topk_nodes",
]
