"""Layers of graph neural networks, with DGL's names and arguments."""

from smex.graph.nn import functional as functional
from smex.graph.nn.gat_conv import GATConv
from smex.graph.nn.graph_conv import GraphConv

__all__ = ["GATConv", "GraphConv"]

# Last: it has the names above.
from smex.graph.nn import pytorch as pytorch  # isort: skip
