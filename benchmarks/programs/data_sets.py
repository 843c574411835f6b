"""Random data in the published files of DGL's data sets, of the sizes that a short run needs."""

from __future__ import annotations

import functools
import pathlib
from collections.abc import Callable

import numpy as np

from support.published import citations, knowledge, many_graphs, molecules, one_graph, rdf

Writer = Callable[[pathlib.Path, np.random.Generator], object]


def _all(*writers: Writer) -> Writer:
    def write_all(folder: pathlib.Path, rng: np.random.Generator) -> None:
        for writer in writers:
            writer(folder, rng)

    return write_all


_some = functools.partial
WRITERS: dict[str, Writer] = {
    "aifb": rdf.write_aifb,
    "amazon": _all(
        _some(one_graph.write_gnn_benchmark, name="amazon_co_buy_photo", num_nodes=800),
        _some(one_graph.write_gnn_benchmark, name="amazon_co_buy_computer", num_nodes=800),
    ),
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
    "gin": many_graphs.write_gin,
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
    "qm9edge": _some(molecules.write_qm9_edge, num_graphs=600),
    "reddit": _all(
        one_graph.write_reddit, functools.partial(one_graph.write_reddit, self_loop=True)
    ),
    "sst": many_graphs.write_sst,
    "tu-DD": _some(many_graphs.write_tu, name="DD", node_labels=20),
    "tu-ENZYMES": _some(many_graphs.write_tu, name="ENZYMES", num_classes=6, attributes=18),
    "wikics": one_graph.write_wikics,
}


def write(name: str, root: pathlib.Path) -> None:
    """Writes the folders of data sets into `root`."""
    root.mkdir(parents=True)
    WRITERS[name](root, np.random.default_rng(sum(name.encode())))
