"""Writers of data sets in the formats that these are published in, with drawn contents.

``write_NAME(folder, rng, ...)`` writes into a folder of the data's name in `folder`, which is then
the ``raw_dir`` of the data set, or ``$SMEX_DATA``; `rng` is a ``numpy.random.Generator``. Sizes are
arguments, whose defaults are the published ones where these are small, and labels can be learned:
neighbours and features tell of them. Each returns the folder that it wrote.
"""

from support.published.citations import write_cora_binary, write_planetoid
from support.published.dgl_files import graph, write_dgl_graphs
from support.published.graphbolt import write_graphbolt, write_graphbolt_mag
from support.published.knowledge import (
    write_bitcoinotc,
    write_events,
    write_knowledge_graph,
    write_movielens,
)
from support.published.many_graphs import (
    write_ba_2motif,
    write_fakenews,
    write_gin,
    write_long_range,
    write_ppi,
    write_sst,
    write_superpixels,
    write_tu,
)
from support.published.molecules import (
    chain_of_smiles,
    write_peptides,
    write_qm7b,
    write_qm9,
    write_qm9_edge,
)
from support.published.ogb import (
    write_ogb_graphs,
    write_ogb_links,
    write_ogb_mag,
    write_ogb_nodes,
)
from support.published.one_graph import (
    write_fraud,
    write_geom_gcn,
    write_gnn_benchmark,
    write_heterophilous,
    write_reddit,
    write_saint,
    write_wikics,
)
from support.published.rdf import write_aifb, write_am, write_bgs, write_mutag

__all__ = [
    "chain_of_smiles",
    "graph",
    "write_aifb",
    "write_am",
    "write_ba_2motif",
    "write_bgs",
    "write_bitcoinotc",
    "write_cora_binary",
    "write_dgl_graphs",
    "write_events",
    "write_fakenews",
    "write_fraud",
    "write_geom_gcn",
    "write_gin",
    "write_gnn_benchmark",
    "write_graphbolt",
    "write_graphbolt_mag",
    "write_heterophilous",
    "write_knowledge_graph",
    "write_long_range",
    "write_movielens",
    "write_mutag",
    "write_ogb_graphs",
    "write_ogb_links",
    "write_ogb_mag",
    "write_ogb_nodes",
    "write_peptides",
    "write_planetoid",
    "write_ppi",
    "write_qm7b",
    "write_qm9",
    "write_qm9_edge",
    "write_reddit",
    "write_saint",
    "write_sst",
    "write_superpixels",
    "write_tu",
    "write_wikics",
]
