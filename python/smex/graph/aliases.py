"""Second names of modules: DGL's, and those that objects in files were saved with."""

from smex._module_names import also_named, falls_back

GRAPH = {
    "batch": "parts.batch",
    "compact": "parts.compact",
    "convert": "creation.convert",
    "derived": "parts.derived",
    "edgewise": "readout.edges",
    "frame": "features.frame",
    "fusion": "tracing.fuse",
    "heterograph_index": "creation.dgl_pickles",
    "homogeneous": "parts.homogeneous",
    "interop": "creation.interop",
    "measures": "transforms.measures",
    "networkx_io": "creation.networkx_io",
    "partition": "transforms.partition",
    "propagate": "messages.propagate",
    "random": "creation.random",
    "relation": "structure.relation",
    "reorder": "transforms.reorder",
    "serialization": "creation.files",
    "subgraph": "parts.subgraph",
    "traversal": "core.traversal",
    "view": "core.views",
}
"""Modules of :mod:`smex.graph`."""

NN = {
    "agnn_conv": "attention.agnn_conv",
    "appnp_conv": "conv.appnp_conv",
    "atomic_conv": "points.atomic_conv",
    "cf_conv": "points.cf_conv",
    "cheb_conv": "conv.cheb_conv",
    "deep_walk": "embedding.deep_walk",
    "dense_conv": "conv.dense_conv",
    "dot_gat_conv": "attention.dot_gat_conv",
    "edge_conv": "conv.edge_conv",
    "edge_weight_norm": "conv.edge_weight_norm",
    "egat_conv": "attention.egat_conv",
    "egnn_conv": "points.egnn_conv",
    "egt_layer": "transformer.egt_layer",
    "gat_conv": "attention.gat_conv",
    "gated_gcn_conv": "conv.gated_gcn_conv",
    "gated_graph_conv": "conv.gated_graph_conv",
    "gatv2_conv": "attention.gatv2_conv",
    "gcn2_conv": "conv.gcn2_conv",
    "gin_conv": "conv.gin_conv",
    "gmm_conv": "conv.gmm_conv",
    "gnn_explainer": "explain.gnn_explainer",
    "graph_conv": "conv.graph_conv",
    "graph_encoders": "transformer.graph_encoders",
    "graphormer": "transformer.graphormer",
    "graphs_of_points": "points.graphs_of_points",
    "hetero": "typed.hetero",
    "hgt_conv": "typed.hgt_conv",
    "label_propagation": "conv.label_propagation",
    "link": "embedding.link",
    "metapath2vec": "embedding.metapath2vec",
    "nn_conv": "conv.nn_conv",
    "pg_explainer": "explain.pg_explainer",
    "pna_conv": "conv.pna_conv",
    "pooling": "readout.pooling",
    "rel_graph_conv": "typed.rel_graph_conv",
    "sage_conv": "conv.sage_conv",
    "set_transformer": "readout.set_transformer",
    "sg_conv": "conv.sg_conv",
    "tag_conv": "conv.tag_conv",
    "twirls_conv": "conv.twirls_conv",
    "typed_linear": "typed.typed_linear",
    "typed_sources": "typed.typed_sources",
}
"""Modules of :mod:`smex.graph.nn`, which pickled layers name."""


DATA = {
    "actor": "geom_gcn",
    "adapter": "adapters",
    "bitcoinotc": "temporal",
    "citation_graph": "planetoid",
    "cluster": "stored",
    "dgl_dataset": "dataset",
    "flickr": "saint",
    "gdelt": "temporal",
    "gindt": "gin",
    "graph_serialize": "utils",
    "heterophilous_graphs": "heterophilous",
    "icews18": "temporal",
    "pattern": "stored",
    "qm7b": "molecules",
    "qm9": "molecules",
    "qm9_edge": "molecules",
    "tensor_serialize": "utils",
    "tree": "sst",
    "yelp": "saint",
    "zinc": "stored",
}
"""Modules of :mod:`smex.graph.data`, which registers them when it is imported."""


DISTRIBUTED = {
    "dist_context": "context",
    "dist_dataloader": "loading",
    "graph_partition_book": "book",
    "graph_services": "services",
    "nn": "embedding",
}
"""Modules of :mod:`smex.graph.distributed`, which registers them when it is imported."""


_IMPLEMENTED = """
    impl impl.basic_feature_store impl.fused_csc_sampling_graph impl.gpu_cached_feature
    impl.in_subgraph_sampler impl.neighbor_sampler impl.ondisk_dataset impl.ondisk_metadata
    impl.sampled_subgraph_impl impl.temporal_neighbor_sampler impl.torch_based_feature_store
    impl.uniform_negative_sampler internal internal.sample_utils utils
"""

GRAPHBOLT = {
    "dataloader": "loading",
    "dataset": "ondisk",
    "feature_fetcher": "features",
    "feature_store": "features",
    "itemset": "items",
    "minibatch_transformer": "stages",
    "negative_sampler": "negatives",
    "sampled_subgraph": "subgraphs",
    "subgraph_sampler": "samplers",
    **dict.fromkeys(_IMPLEMENTED.split(), ""),
}
"""Modules of :mod:`smex.graph.graphbolt`, which registers them when it is imported."""


PACKAGES = {
    "smex.graph": """
        generators heterograph homophily label_informativeness merge mpops mpops.edgewise
        mpops.nodewise
    """,
    "smex.graph.dataloading": "dataloader dist_dataloader graphsaint spot_target",
    "smex.graph.function": "base message reducer",
    "smex.graph.geometry": "edge_coarsening fps",
    "smex.graph.multiprocessing": "pytorch",
    "smex.graph.nn.pytorch": """
        conv.agnnconv conv.appnpconv conv.atomicconv conv.cfconv conv.chebconv conv.cugraph_gatconv
        conv.cugraph_relgraphconv conv.cugraph_sageconv conv.densechebconv conv.densegraphconv
        conv.densesageconv conv.dgnconv conv.dotgatconv conv.edgeconv conv.edgegatconv conv.egatconv
        conv.egnnconv conv.gatconv conv.gatedgcnconv conv.gatedgraphconv conv.gatv2conv
        conv.gcn2conv conv.ginconv conv.gineconv conv.gmmconv conv.graphconv conv.grouprevres
        conv.hgtconv conv.nnconv conv.pnaconv conv.relgraphconv conv.sageconv conv.sgconv
        conv.tagconv conv.twirlsconv explain.gnnexplainer explain.pgexplainer explain.subgraphx
        gt.biased_mha gt.degree_encoder gt.egt gt.graphormer gt.lap_pos_encoder gt.path_encoder
        gt.spatial_encoder link.edgepred link.transe link.transr
    """,
    "smex.graph.ops": "gather_mm",
    "smex.graph.sampling": "node2vec_randomwalk randomwalks",
    "smex.graph.sparse": """
        broadcast elementwise_op elementwise_op_sp matmul reduction sddmm softmax sparse_matrix
        unary_op utils
    """,
    "smex.graph.transforms": "to_block",
    "smex.graph.utils": "internal",
}
"""Modules of DGL whose names are those of a whole package or module here."""

PARTS = {
    "smex.graph": ["convert"],
    "smex.graph.dataloading": ["base"],
    "smex.graph.ops": ["sddmm", "segment", "spmm"],
    "smex.graph.sampling": ["neighbor"],
}
"""Modules that have more names in DGL, which are their package's here."""


def register() -> None:
    """Lets the modules be imported by these names."""
    also_named("smex.graph", GRAPH)
    also_named("smex.graph.nn", NN)
    for package, modules in PACKAGES.items():
        also_named(package, dict.fromkeys(modules.split(), ""))
    for package, parts in PARTS.items():
        falls_back(package, parts)
