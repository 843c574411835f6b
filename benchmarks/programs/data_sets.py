"""Random data in the published files of data sets, of the sizes that a short run needs."""

from __future__ import annotations

import functools
import pathlib
from collections.abc import Callable

import numpy as np

from support.published import (
    citations,
    graphbolt,
    knowledge,
    many_graphs,
    molecules,
    ogb,
    one_graph,
    rdf,
)

Writer = Callable[[pathlib.Path, np.random.Generator], object]


def _all(*writers: Writer) -> Writer:
    def write_all(folder: pathlib.Path, rng: np.random.Generator) -> None:
        for writer in writers:
            writer(folder, rng)

    return write_all


_some = functools.partial
_arxiv = _some(ogb.write_ogb_nodes, num_nodes=600, num_pairs=3000)
_collab = _some(ogb.write_ogb_links, num_nodes=600, num_pairs=3000)
WRITERS: dict[str, Writer] = {
    "aifb": rdf.write_aifb,
    "amazon": _all(
        _some(one_graph.write_gnn_benchmark, name="amazon_co_buy_photo", num_nodes=800),
        _some(one_graph.write_gnn_benchmark, name="amazon_co_buy_computer", num_nodes=800),
    ),
    "cora-binary": citations.write_cora_binary,
    "fb15k237": _some(
        knowledge.write_knowledge_graph,
        num_entities=400,
        num_relations=20,
        sizes=(4000, 300, 300),
    ),
    "fakenews": _all(
        _some(many_graphs.write_fakenews, name="politifact"),
        _some(many_graphs.write_fakenews, name="gossipcop"),
    ),
    "flickr": one_graph.write_saint,
    "fraud": _all(
        _some(one_graph.write_fraud, name="yelp", num_nodes=2000),
        _some(one_graph.write_fraud, name="amazon"),  # of which 3,305 nodes have no labels
    ),
    "gb-cora": _some(graphbolt.write_graphbolt, width=1433, num_classes=7, links=True),
    "gb-ogbn-arxiv": _some(graphbolt.write_graphbolt, name="ogbn-arxiv", width=128, num_classes=40),
    "gb-ogbl-citation2": _some(graphbolt.write_graphbolt, name="ogbl-citation2", links=True),
    "gb-ogbn-mag": graphbolt.write_graphbolt_mag,
    "gb-ogbn-products": _some(
        graphbolt.write_graphbolt, name="ogbn-products", width=100, num_classes=47
    ),
    "gin": _all(many_graphs.write_gin, _some(many_graphs.write_gin, name="PROTEINS")),
    "ogbg-molhiv": _some(ogb.write_ogb_graphs, num_graphs=60, least=6, share=0.5),
    "ogbg-molpcba": _some(
        ogb.write_ogb_graphs, name="ogbg-molpcba", num_graphs=60, num_tasks=128, least=6, share=0.5
    ),
    "ogbl-citation2": _some(_collab, name="ogbl-citation2"),
    "ogbl-collab": _collab,
    "ogbl-ddi": _some(_collab, name="ogbl-ddi", width=0, split="target"),
    "ogbl-vessel": _some(_collab, name="ogbl-vessel", width=3, split="spatial"),
    "ogbn-arxiv": _arxiv,
    "ogbn-mag": ogb.write_ogb_mag,
    "ogbn-products": _some(
        _arxiv, name="ogbn-products", width=100, num_classes=47, split="sales_ranking"
    ),
    "ogbn-proteins": _some(
        _arxiv,
        name="ogbn-proteins",
        width=0,
        split="species",
        num_tasks=112,
        edge_width=8,
    ),
    "planetoid": _all(
        *(
            _some(citations.write_planetoid, name=name, **sizes)
            for name, sizes in {
                "cora": {},
                "citeseer": {},
                "pubmed": {"num_nodes": 3000, "num_pairs": 30000},
            }.items()
        )
    ),
    "ppi": many_graphs.write_ppi,
    "qm9": molecules.write_qm9,
    "qm9edge": _some(molecules.write_qm9_edge, num_graphs=20_300),  # 20,000 are not trained on
    "reddit": _all(
        one_graph.write_reddit, functools.partial(one_graph.write_reddit, self_loop=True)
    ),
    "sst": many_graphs.write_sst,
    "tu-DD": _some(many_graphs.write_tu, name="DD", node_labels=20),
    "tu-ENZYMES": _some(many_graphs.write_tu, name="ENZYMES", num_classes=6, attributes=18),
    "tu-MUTAG": _some(many_graphs.write_tu, name="MUTAG", node_labels=7),
    "wikics": one_graph.write_wikics,
}


def write(name: str, root: pathlib.Path) -> None:
    """Writes the folders of data sets into `root`."""
    root.mkdir(parents=True)
    WRITERS[name](root, np.random.default_rng(sum(name.encode())))
