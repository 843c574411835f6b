"""Pipelines of mini-batches, with the names of DGL's GraphBolt.

``import smex.graph.graphbolt as gb``: items are gone over in batches (:class:`ItemSampler`), and
stages change these one after another: ``sample_uniform_negative``, ``sample_neighbor``,
``sample_layer_neighbor``, ``transform``, ``fetch_feature``, ``copy_to``. :class:`DataLoader` runs
them. Sampling is by the kernels of ``smex.graph.sampling``, stages are torch's data pipes.
"""

from smex._module_names import also_named, falls_back
from smex.graph.aliases import GRAPHBOLT
from smex.graph.graphbolt.base import (
    CANONICAL_ETYPE_DELIMITER,
    ORIGINAL_EDGE_ID,
    CSCFormatBase,
    etype_str_to_tuple,
    etype_tuple_to_str,
    expand_indptr,
    index_select,
    isin,
    seed,
)
from smex.graph.graphbolt.compaction import (
    compact_csc_format,
    unique_and_compact,
    unique_and_compact_csc_formats,
)
from smex.graph.graphbolt.features import (
    BasicFeatureStore,
    Feature,
    FeatureFetcher,
    FeatureStore,
    GPUCachedFeature,
    TorchBasedFeature,
    TorchBasedFeatureStore,
)
from smex.graph.graphbolt.item_sampler import (
    DistributedItemSampler,
    ItemSampler,
    minibatcher_default,
)
from smex.graph.graphbolt.items import ItemSet, ItemSetDict
from smex.graph.graphbolt.loading import DataLoader
from smex.graph.graphbolt.metadata import (
    OnDiskFeatureData,
    OnDiskGraphTopology,
    OnDiskMetaData,
    OnDiskTaskData,
    OnDiskTVTSet,
    OnDiskTVTSetData,
)
from smex.graph.graphbolt.minibatch import MiniBatch
from smex.graph.graphbolt.negatives import (
    NegativeSampler,
    UniformNegativeSampler,
    exclude_seed_edges,
)
from smex.graph.graphbolt.ondisk import (
    BuiltinDataset,
    Dataset,
    OnDiskDataset,
    OnDiskTask,
    Task,
    preprocess_ondisk_dataset,
)
from smex.graph.graphbolt.samplers import (
    InSubgraphSampler,
    LayerNeighborSampler,
    NeighborSampler,
    SubgraphSampler,
    TemporalNeighborSampler,
)
from smex.graph.graphbolt.sampling_graph import (
    FusedCSCSamplingGraph,
    from_dglgraph,
    from_fused_csc,
    fused_csc_sampling_graph,
)
from smex.graph.graphbolt.stages import (
    Bufferer,
    CopyTo,
    EndMarker,
    FutureWaiter,
    MiniBatchTransformer,
    Waiter,
)
from smex.graph.graphbolt.subgraphs import (
    SampledSubgraph,
    SampledSubgraphImpl,
    add_reverse_edges,
    add_reverse_edges_2,
)

also_named("smex.graph.graphbolt", GRAPHBOLT)
falls_back("smex.graph.graphbolt", ["base"])

__all__ = [
    "CANONICAL_ETYPE_DELIMITER",
    "ORIGINAL_EDGE_ID",
    "BasicFeatureStore",
    "Bufferer",
    "BuiltinDataset",
    "CSCFormatBase",
    "CopyTo",
    "DataLoader",
    "Dataset",
    "DistributedItemSampler",
    "EndMarker",
    "Feature",
    "FeatureFetcher",
    "FeatureStore",
    "FusedCSCSamplingGraph",
    "FutureWaiter",
    "GPUCachedFeature",
    "InSubgraphSampler",
    "ItemSampler",
    "ItemSet",
    "ItemSetDict",
    "LayerNeighborSampler",
    "MiniBatch",
    "MiniBatchTransformer",
    "NegativeSampler",
    "NeighborSampler",
    "OnDiskDataset",
    "OnDiskFeatureData",
    "OnDiskGraphTopology",
    "OnDiskMetaData",
    "OnDiskTVTSet",
    "OnDiskTVTSetData",
    "OnDiskTask",
    "OnDiskTaskData",
    "SampledSubgraph",
    "SampledSubgraphImpl",
    "SubgraphSampler",
    "Task",
    "TemporalNeighborSampler",
    "TorchBasedFeature",
    "TorchBasedFeatureStore",
    "UniformNegativeSampler",
    "Waiter",
    "add_reverse_edges",
    "add_reverse_edges_2",
    "compact_csc_format",
    "etype_str_to_tuple",
    "etype_tuple_to_str",
    "exclude_seed_edges",
    "expand_indptr",
    "from_dglgraph",
    "from_fused_csc",
    "fused_csc_sampling_graph",
    "index_select",
    "isin",
    "minibatcher_default",
    "preprocess_ondisk_dataset",
    "seed",
    "unique_and_compact",
    "unique_and_compact_csc_formats",
]
