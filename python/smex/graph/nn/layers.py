"""The layers of :mod:`smex.graph.nn`, all in one place."""

from smex.graph.nn.agnn_conv import AGNNConv
from smex.graph.nn.appnp_conv import APPNPConv
from smex.graph.nn.atomic_conv import AtomicConv
from smex.graph.nn.cf_conv import CFConv
from smex.graph.nn.cheb_conv import ChebConv
from smex.graph.nn.deep_walk import DeepWalk
from smex.graph.nn.dense_conv import DenseChebConv, DenseGraphConv, DenseSAGEConv
from smex.graph.nn.dot_gat_conv import DotGatConv
from smex.graph.nn.edge_conv import EdgeConv
from smex.graph.nn.edge_weight_norm import EdgeWeightNorm
from smex.graph.nn.egat_conv import EdgeGATConv, EGATConv
from smex.graph.nn.egnn_conv import EGNNConv
from smex.graph.nn.egt_layer import EGTLayer
from smex.graph.nn.gat_conv import GATConv
from smex.graph.nn.gated_gcn_conv import GatedGCNConv
from smex.graph.nn.gated_graph_conv import GatedGraphConv
from smex.graph.nn.gatv2_conv import GATv2Conv
from smex.graph.nn.gcn2_conv import GCN2Conv
from smex.graph.nn.gin_conv import GINConv, GINEConv
from smex.graph.nn.gmm_conv import GMMConv
from smex.graph.nn.gnn_explainer import GNNExplainer, HeteroGNNExplainer
from smex.graph.nn.graph_conv import GraphConv
from smex.graph.nn.graph_encoders import (
    DegreeEncoder,
    LapPosEncoder,
    PathEncoder,
    SpatialEncoder,
    SpatialEncoder3d,
)
from smex.graph.nn.graphormer import BiasedMHA, GraphormerLayer
from smex.graph.nn.graphs_of_points import KNNGraph, RadiusGraph, SegmentedKNNGraph
from smex.graph.nn.hetero import HeteroEmbedding, HeteroGraphConv, HeteroLinear
from smex.graph.nn.hgt_conv import HGTConv
from smex.graph.nn.jumping_knowledge import JumpingKnowledge
from smex.graph.nn.label_propagation import LabelPropagation
from smex.graph.nn.link import EdgePredictor, TransE, TransR
from smex.graph.nn.metapath2vec import MetaPath2Vec
from smex.graph.nn.nn_conv import NNConv
from smex.graph.nn.pg_explainer import HeteroPGExplainer, PGExplainer
from smex.graph.nn.pna_conv import DGNConv, PNAConv
from smex.graph.nn.pooling import (
    AvgPooling,
    GlobalAttentionPooling,
    MaxPooling,
    Set2Set,
    SortPooling,
    SumPooling,
    WeightAndSum,
)
from smex.graph.nn.rel_graph_conv import RelGraphConv
from smex.graph.nn.sage_conv import SAGEConv
from smex.graph.nn.sequential import Sequential
from smex.graph.nn.set_transformer import SetTransformerDecoder, SetTransformerEncoder
from smex.graph.nn.sg_conv import SGConv
from smex.graph.nn.tag_conv import TAGConv
from smex.graph.nn.twirls_conv import TWIRLSConv, TWIRLSUnfoldingAndAttention
from smex.graph.nn.typed_linear import TypedLinear

__all__ = [
    "AGNNConv",
    "APPNPConv",
    "AtomicConv",
    "AvgPooling",
    "BiasedMHA",
    "CFConv",
    "ChebConv",
    "DGNConv",
    "DeepWalk",
    "DegreeEncoder",
    "DenseChebConv",
    "DenseGraphConv",
    "DenseSAGEConv",
    "DotGatConv",
    "EGATConv",
    "EGNNConv",
    "EGTLayer",
    "EdgeConv",
    "EdgeGATConv",
    "EdgePredictor",
    "EdgeWeightNorm",
    "GATConv",
    "GATv2Conv",
    "GCN2Conv",
    "GINConv",
    "GINEConv",
    "GMMConv",
    "GNNExplainer",
    "GatedGCNConv",
    "GatedGraphConv",
    "GlobalAttentionPooling",
    "GraphConv",
    "GraphormerLayer",
    "HGTConv",
    "HeteroEmbedding",
    "HeteroGNNExplainer",
    "HeteroGraphConv",
    "HeteroLinear",
    "HeteroPGExplainer",
    "JumpingKnowledge",
    "KNNGraph",
    "LabelPropagation",
    "LapPosEncoder",
    "MaxPooling",
    "MetaPath2Vec",
    "NNConv",
    "PGExplainer",
    "PNAConv",
    "PathEncoder",
    "RadiusGraph",
    "RelGraphConv",
    "SAGEConv",
    "SGConv",
    "SegmentedKNNGraph",
    "Sequential",
    "Set2Set",
    "SetTransformerDecoder",
    "SetTransformerEncoder",
    "SortPooling",
    "SpatialEncoder",
    "SpatialEncoder3d",
    "SumPooling",
    "TAGConv",
    "TWIRLSConv",
    "TWIRLSUnfoldingAndAttention",
    "TransE",
    "TransR",
    "TypedLinear",
    "WeightAndSum",
]
