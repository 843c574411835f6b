"""Graphs from graphs: functions, and the same as modules that can be composed."""

import sys

from smex.graph.parts.compact import compact_graphs, to_block
from smex.graph.parts.derived import (
    khop_adj,
    khop_graph,
    line_graph,
    norm_by_dst,
    to_bfloat16,
    to_double,
    to_float,
    to_half,
)
from smex.graph.transforms.diffusion import (
    GDC,
    PPR,
    HeatKernel,
)
from smex.graph.transforms.edits import (
    add_edges,
    add_nodes,
    add_reverse_edges,
    add_self_loop,
    merge,
    remove_edges,
    remove_nodes,
    remove_self_loop,
    reverse,
    to_bidirected,
    to_simple,
    to_simple_graph,
)
from smex.graph.transforms.encodings import (
    lap_pe,
    laplacian_lambda_max,
    laplacian_pe,
    random_walk_pe,
    svd_pe,
)
from smex.graph.transforms.features import (
    SVDPE,
    FeatMask,
    GCNNorm,
    LaplacianPE,
    LapPE,
    RandomWalkPE,
    RowFeatNormalizer,
    SIGNDiffusion,
)
from smex.graph.transforms.modules import (
    AddEdge,
    AddMetaPaths,
    AddReverse,
    AddSelfLoop,
    BaseTransform,
    Compose,
    DropEdge,
    DropNode,
    KHopGraph,
    LineGraph,
    NodeShuffle,
    RemoveSelfLoop,
    ToLevi,
    ToSimple,
)
from smex.graph.transforms.neighbours import (
    knn_graph,
    radius_graph,
    segmented_knn_graph,
)
from smex.graph.transforms.partition import (
    metis_partition,
    metis_partition_assignment,
    partition_graph_with_halo,
)
from smex.graph.transforms.paths import (
    double_radius_node_labeling,
    metapath_reachable_graph,
    shortest_dist,
)
from smex.graph.transforms.reorder import reorder_graph
from smex.graph.transforms.tags import sort_csc_by_tag, sort_csr_by_tag

__all__ = [
    "GDC",
    "PPR",
    "SVDPE",
    "AddEdge",
    "AddMetaPaths",
    "AddReverse",
    "AddSelfLoop",
    "BaseTransform",
    "Compose",
    "DropEdge",
    "DropNode",
    "FeatMask",
    "GCNNorm",
    "HeatKernel",
    "KHopGraph",
    "LapPE",
    "LaplacianPE",
    "LineGraph",
    "NodeShuffle",
    "RandomWalkPE",
    "RemoveSelfLoop",
    "RowFeatNormalizer",
    "SIGNDiffusion",
    "ToLevi",
    "ToSimple",
    "add_edges",
    "add_nodes",
    "add_reverse_edges",
    "add_self_loop",
    "compact_graphs",
    "double_radius_node_labeling",
    "khop_adj",
    "khop_graph",
    "knn_graph",
    "lap_pe",
    "laplacian_lambda_max",
    "laplacian_pe",
    "line_graph",
    "merge",
    "metapath_reachable_graph",
    "metis_partition",
    "metis_partition_assignment",
    "norm_by_dst",
    "partition_graph_with_halo",
    "radius_graph",
    "random_walk_pe",
    "remove_edges",
    "remove_nodes",
    "remove_self_loop",
    "reorder_graph",
    "reverse",
    "segmented_knn_graph",
    "shortest_dist",
    "sort_csc_by_tag",
    "sort_csr_by_tag",
    "svd_pe",
    "to_bfloat16",
    "to_bidirected",
    "to_block",
    "to_double",
    "to_float",
    "to_half",
    "to_simple",
    "to_simple_graph",
]

for _name in ("functional", "module"):  # as which DGL's programs import this module
    sys.modules[f"{__name__}.{_name}"] = globals()[_name] = sys.modules[__name__]
