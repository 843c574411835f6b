"""Layers of graph neural networks, with DGL's names and arguments."""

from smex.graph.nn import functional as functional
from smex.graph.nn.appnp_conv import APPNPConv
from smex.graph.nn.cheb_conv import ChebConv
from smex.graph.nn.edge_weight_norm import EdgeWeightNorm
from smex.graph.nn.gat_conv import GATConv
from smex.graph.nn.gatv2_conv import GATv2Conv
from smex.graph.nn.gin_conv import GINConv, GINEConv
from smex.graph.nn.graph_conv import GraphConv
from smex.graph.nn.hetero import HeteroEmbedding, HeteroGraphConv, HeteroLinear
from smex.graph.nn.hgt_conv import HGTConv
from smex.graph.nn.rel_graph_conv import RelGraphConv
from smex.graph.nn.sage_conv import SAGEConv
from smex.graph.nn.sg_conv import SGConv
from smex.graph.nn.tag_conv import TAGConv
from smex.graph.nn.typed_linear import TypedLinear

__all__ = [
    "APPNPConv",
    "ChebConv",
    "EdgeWeightNorm",
    "GATConv",
    "GATv2Conv",
    "GINConv",
    "GINEConv",
    "GraphConv",
    "HGTConv",
    "HeteroEmbedding",
    "HeteroGraphConv",
    "HeteroLinear",
    "RelGraphConv",
    "SAGEConv",
    "SGConv",
    "TAGConv",
    "TypedLinear",
]

# Last: it has the names above.
from smex.graph.nn import pytorch as pytorch  # isort: skip
