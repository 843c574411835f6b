"""Mini-batches of graphs, with DGL's names."""

from typing import TYPE_CHECKING

from smex._module_names import loads_later as _loads_later
from smex.graph.dataloading import base, negative_sampler
from smex.graph.dataloading.base import BlockSampler, Sampler
from smex.graph.dataloading.cluster_gcn import ClusterGCNSampler
from smex.graph.dataloading.collators import Collator, EdgeCollator, GraphCollator, NodeCollator
from smex.graph.dataloading.edge_prediction import (
    EdgePredictionSampler,
    SpotTarget,
    as_edge_prediction_sampler,
    find_exclude_eids,
)
from smex.graph.dataloading.graph_loader import GraphDataLoader
from smex.graph.dataloading.labor_sampler import LaborSampler
from smex.graph.dataloading.lazy_features import (
    set_dst_lazy_features,
    set_edge_lazy_features,
    set_node_lazy_features,
    set_src_lazy_features,
)
from smex.graph.dataloading.loader import DataLoader
from smex.graph.dataloading.neighbor_sampler import (
    MultiLayerFullNeighborSampler,
    MultiLayerNeighborSampler,
    NeighborSampler,
)
from smex.graph.dataloading.saint import SAINTSampler
from smex.graph.dataloading.shadow import ShaDowKHopSampler

if not TYPE_CHECKING:  # DGL has these loaders here; they stand on this package
    __getattr__, __dir__ = _loads_later(
        __name__,
        {"smex.graph.distributed": "DistDataLoader DistEdgeDataLoader DistNodeDataLoader"},
    )

__all__ = [
    "BlockSampler",
    "ClusterGCNSampler",
    "Collator",
    "DataLoader",
    "EdgeCollator",
    "EdgePredictionSampler",
    "GraphCollator",
    "GraphDataLoader",
    "LaborSampler",
    "MultiLayerFullNeighborSampler",
    "MultiLayerNeighborSampler",
    "NeighborSampler",
    "NodeCollator",
    "SAINTSampler",
    "Sampler",
    "ShaDowKHopSampler",
    "SpotTarget",
    "as_edge_prediction_sampler",
    "base",
    "find_exclude_eids",
    "negative_sampler",
    "set_dst_lazy_features",
    "set_edge_lazy_features",
    "set_node_lazy_features",
    "set_src_lazy_features",
]
