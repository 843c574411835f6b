"""The layers of :mod:`smex.graph.nn`, all in one place."""

from smex.graph.nn.attention.agnn_conv import AGNNConv
from smex.graph.nn.attention.dot_gat_conv import DotGatConv
from smex.graph.nn.attention.egat_conv import EdgeGATConv, EGATConv
from smex.graph.nn.attention.gat_conv import GATConv
from smex.graph.nn.attention.gatv2_conv import GATv2Conv
from smex.graph.nn.conv.appnp_conv import APPNPConv
from smex.graph.nn.conv.cheb_conv import ChebConv
from smex.graph.nn.conv.dense_conv import DenseChebConv, DenseGraphConv, DenseSAGEConv
from smex.graph.nn.conv.edge_conv import EdgeConv
from smex.graph.nn.conv.edge_weight_norm import EdgeWeightNorm
from smex.graph.nn.conv.gated_gcn_conv import GatedGCNConv
from smex.graph.nn.conv.gated_graph_conv import GatedGraphConv
from smex.graph.nn.conv.gcn2_conv import GCN2Conv
from smex.graph.nn.conv.gin_conv import GINConv, GINEConv
from smex.graph.nn.conv.gmm_conv import GMMConv
from smex.graph.nn.conv.graph_conv import GraphConv
from smex.graph.nn.conv.label_propagation import LabelPropagation
from smex.graph.nn.conv.nn_conv import NNConv
from smex.graph.nn.conv.pna_conv import DGNConv, PNAConv
from smex.graph.nn.conv.sage_conv import SAGEConv
from smex.graph.nn.conv.sg_conv import SGConv
from smex.graph.nn.conv.tag_conv import TAGConv
from smex.graph.nn.conv.twirls_conv import TWIRLSConv, TWIRLSUnfoldingAndAttention
from smex.graph.nn.cugraph_convs import CuGraphGATConv, CuGraphRelGraphConv, CuGraphSAGEConv
from smex.graph.nn.embedding.deep_walk import DeepWalk
from smex.graph.nn.embedding.link import EdgePredictor, TransE, TransR
from smex.graph.nn.embedding.metapath2vec import MetaPath2Vec
from smex.graph.nn.explain.gnn_explainer import GNNExplainer, HeteroGNNExplainer
from smex.graph.nn.explain.pg_explainer import HeteroPGExplainer, PGExplainer
from smex.graph.nn.explain.subgraphx import HeteroSubgraphX, SubgraphX
from smex.graph.nn.group_rev_res import GroupRevRes
from smex.graph.nn.jumping_knowledge import JumpingKnowledge
from smex.graph.nn.points.atomic_conv import AtomicConv
from smex.graph.nn.points.cf_conv import CFConv
from smex.graph.nn.points.egnn_conv import EGNNConv
from smex.graph.nn.points.graphs_of_points import KNNGraph, RadiusGraph, SegmentedKNNGraph
from smex.graph.nn.readout.pooling import (
    AvgPooling,
    GlobalAttentionPooling,
    MaxPooling,
    Set2Set,
    SortPooling,
    SumPooling,
    WeightAndSum,
)
from smex.graph.nn.readout.set_transformer import SetTransformerDecoder, SetTransformerEncoder
from smex.graph.nn.sequential import Sequential
from smex.graph.nn.transformer.egt_layer import EGTLayer
from smex.graph.nn.transformer.graph_encoders import (
    DegreeEncoder,
    LapPosEncoder,
    PathEncoder,
    SpatialEncoder,
    SpatialEncoder3d,
)
from smex.graph.nn.transformer.graphormer import BiasedMHA, GraphormerLayer
from smex.graph.nn.typed.hetero import HeteroEmbedding, HeteroGraphConv, HeteroLinear
from smex.graph.nn.typed.hgt_conv import HGTConv
from smex.graph.nn.typed.rel_graph_conv import RelGraphConv
from smex.graph.nn.typed.typed_linear import TypedLinear, WeightBasis

__all__ = [
    "AGNNConv",
    "APPNPConv",
    "AtomicConv",
    "AvgPooling",
    "BiasedMHA",
    "CFConv",
    "ChebConv",
    "CuGraphGATConv",
    "CuGraphRelGraphConv",
    "CuGraphSAGEConv",
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
    "GroupRevRes",
    "HGTConv",
    "HeteroEmbedding",
    "HeteroGNNExplainer",
    "HeteroGraphConv",
    "HeteroLinear",
    "HeteroPGExplainer",
    "HeteroSubgraphX",
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
    "SubgraphX",
    "SumPooling",
    "TAGConv",
    "TWIRLSConv",
    "TWIRLSUnfoldingAndAttention",
    "TransE",
    "TransR",
    "TypedLinear",
    "WeightAndSum",
    "WeightBasis",
]
