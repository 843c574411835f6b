"""Message passing on graphs, with DGL's names and semantics: ``import smex.graph as dgl``."""

from __future__ import annotations

from smex._version import __version__
from smex.graph import base, data, function, init, nn, ops, udf, utils
from smex.graph.batch import batch, slice_batch, unbatch
from smex.graph.compact import compact_graphs, to_block
from smex.graph.constants import ALL, EID, ETYPE, NID, NTYPE, DGLError
from smex.graph.containers import apply_each
from smex.graph.derived import (
    khop_adj,
    khop_graph,
    line_graph,
    norm_by_dst,
    to_bfloat16,
    to_double,
    to_float,
    to_half,
)
from smex.graph.edgewise import copy_u, copy_v, u_add_v, u_div_v, u_dot_v, u_mul_v, u_sub_v
from smex.graph.fusion import explain
from smex.graph.graph import Graph
from smex.graph.homogeneous import to_heterogeneous, to_homogeneous
from smex.graph.interop import (
    bipartite_from_torch_sparse,
    from_pyg,
    from_torch_sparse,
    to_pyg,
    to_torch_sparse,
)
from smex.graph.networkx_io import bipartite_from_networkx, from_networkx, to_networkx
from smex.graph.partition import (
    metis_partition,
    metis_partition_assignment,
    partition_graph_with_halo,
)
from smex.graph.propagate import (
    prop_edges,
    prop_edges_dfs,
    prop_nodes,
    prop_nodes_bfs,
    prop_nodes_topo,
)
from smex.graph.random import rand_bipartite, rand_graph, seed
from smex.graph.readout import (
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
from smex.graph.reorder import reorder_graph
from smex.graph.serialization import load_graphs, load_labels, save_graphs
from smex.graph.subgraph import (
    edge_subgraph,
    edge_type_subgraph,
    in_subgraph,
    khop_in_subgraph,
    khop_out_subgraph,
    node_subgraph,
    node_type_subgraph,
    out_subgraph,
)
from smex.graph.transforms import (
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
from smex.graph.traversal import (
    bfs_edges_generator,
    bfs_nodes_generator,
    dfs_edges_generator,
    dfs_labeled_edges_generator,
    topological_nodes_generator,
)

# Last: the function replaces the module of the same name among this package's attributes.
from smex.graph.convert import (  # isort: skip
    bipartite_from_scipy,
    block_to_graph,
    create_block,
    from_scipy,
    graph,
    heterograph,
)

DGLGraph = Graph
DGLHeteroGraph = Graph

__all__ = [
    "ALL",
    "EID",
    "ETYPE",
    "NID",
    "NTYPE",
    "DGLError",
    "DGLGraph",
    "DGLHeteroGraph",
    "Graph",
    "__version__",
    "add_edges",
    "add_nodes",
    "add_reverse_edges",
    "add_self_loop",
    "apply_each",
    "base",
    "batch",
    "bfs_edges_generator",
    "bfs_nodes_generator",
    "bipartite_from_networkx",
    "bipartite_from_scipy",
    "bipartite_from_torch_sparse",
    "block_to_graph",
    "broadcast_edges",
    "broadcast_nodes",
    "compact_graphs",
    "copy_u",
    "copy_v",
    "create_block",
    "data",
    "dfs_edges_generator",
    "dfs_labeled_edges_generator",
    "edge_subgraph",
    "edge_type_subgraph",
    "explain",
    "from_networkx",
    "from_pyg",
    "from_scipy",
    "from_torch_sparse",
    "function",
    "graph",
    "heterograph",
    "in_subgraph",
    "init",
    "khop_adj",
    "khop_graph",
    "khop_in_subgraph",
    "khop_out_subgraph",
    "line_graph",
    "load_graphs",
    "load_labels",
    "max_edges",
    "max_nodes",
    "mean_edges",
    "mean_nodes",
    "merge",
    "metis_partition",
    "metis_partition_assignment",
    "nn",
    "node_subgraph",
    "node_type_subgraph",
    "norm_by_dst",
    "ops",
    "out_subgraph",
    "partition_graph_with_halo",
    "prop_edges",
    "prop_edges_dfs",
    "prop_nodes",
    "prop_nodes_bfs",
    "prop_nodes_topo",
    "rand_bipartite",
    "rand_graph",
    "readout_edges",
    "readout_nodes",
    "remove_edges",
    "remove_nodes",
    "remove_self_loop",
    "reorder_graph",
    "reverse",
    "save_graphs",
    "seed",
    "slice_batch",
    "softmax_edges",
    "softmax_nodes",
    "sum_edges",
    "sum_nodes",
    "to_bfloat16",
    "to_bidirected",
    "to_block",
    "to_double",
    "to_float",
    "to_half",
    "to_heterogeneous",
    "to_homogeneous",
    "to_networkx",
    "to_pyg",
    "to_simple",
    "to_simple_graph",
    "to_torch_sparse",
    "topk_edges",
    "topk_nodes",
    "topological_nodes_generator",
    "u_add_v",
    "u_div_v",
    "u_dot_v",
    "u_mul_v",
    "u_sub_v",
    "udf",
    "unbatch",
    "utils",
]
