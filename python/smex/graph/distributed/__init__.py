"""One graph on many processes, with DGL's names: ``import smex.graph.distributed``."""

from smex._module_names import also_named as _also_named
from smex.graph.aliases import DISTRIBUTED as _SECOND_NAMES
from smex.graph.distributed import optim
from smex.graph.distributed.book import (
    EdgePartitionPolicy,
    GraphPartitionBook,
    NodePartitionPolicy,
    PartitionPolicy,
    RangePartitionBook,
)
from smex.graph.distributed.context import exit_client, initialize, is_initialized
from smex.graph.distributed.dist_graph import DistGraph
from smex.graph.distributed.dist_tensor import DistTensor
from smex.graph.distributed.embedding import DistEmbedding
from smex.graph.distributed.from_files import partition_files
from smex.graph.distributed.loading import (
    DistDataLoader,
    DistEdgeDataLoader,
    DistNodeDataLoader,
)
from smex.graph.distributed.partition import (
    load_partition,
    load_partition_book,
    load_partition_feats,
    partition_graph,
)
from smex.graph.distributed.services import (
    find_edges,
    in_degrees,
    in_subgraph,
    out_degrees,
    sample_etype_neighbors,
    sample_neighbors,
)
from smex.graph.distributed.split import edge_split, node_split

__all__ = [
    "DistDataLoader",
    "DistEdgeDataLoader",
    "DistEmbedding",
    "DistGraph",
    "DistNodeDataLoader",
    "DistTensor",
    "EdgePartitionPolicy",
    "GraphPartitionBook",
    "NodePartitionPolicy",
    "PartitionPolicy",
    "RangePartitionBook",
    "edge_split",
    "exit_client",
    "find_edges",
    "in_degrees",
    "in_subgraph",
    "initialize",
    "is_initialized",
    "load_partition",
    "load_partition_book",
    "load_partition_feats",
    "node_split",
    "optim",
    "out_degrees",
    "partition_files",
    "partition_graph",
    "sample_etype_neighbors",
    "sample_neighbors",
]

_also_named(__name__, _SECOND_NAMES)
