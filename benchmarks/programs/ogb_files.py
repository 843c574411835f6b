"""Random data in the files of the Open Graph Benchmark, as its package downloads them.

A data set's folder has `raw`, `split` and an empty file that names its version; see
https://ogb.stanford.edu. Numbers of features, classes, tasks and kinds of nodes are the real ones,
numbers of nodes and edges are small.
"""

from __future__ import annotations

import pathlib
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch

NODES, EDGES = 600, 3000  # of a graph whose nodes or edges are predicted
GRAPHS = 60

# Labels' classes, columns of features, the kind of split, and further columns of nodes.
NODE_SETS: dict[str, dict[str, Any]] = {
    "ogbn-arxiv": {"classes": 40, "features": 128, "split": "time", "more": ("year",)},
    "ogbn-products": {"classes": 47, "features": 100, "split": "sales_ranking"},
    "ogbn-proteins": {"tasks": 112, "edge_features": 8, "split": "species", "more": ("species",)},
}
# Each column of a molecule's features is a class of that many kinds, the real numbers.
ATOM_KINDS = (119, 4, 12, 12, 10, 6, 6, 2, 2)
BOND_KINDS = (5, 6, 2)
GRAPH_SETS = {"ogbg-molhiv": 1, "ogbg-molpcba": 128}  # tasks
LINK_SETS: dict[str, dict[str, Any]] = {
    "ogbl-collab": {"features": 128, "split": "time", "years": True},
    "ogbl-ddi": {"features": 0, "split": "target"},
    "ogbl-ppa": {"features": 58, "split": "throughput"},
    "ogbl-citation2": {"features": 128, "split": "time", "sources": True},
    "ogbl-vessel": {"features": 3, "split": "spatial", "binary": True},
}
MAG_NODES = {"author": 300, "field_of_study": 80, "institution": 30, "paper": 400}
MAG_EDGES = (
    ("author", "affiliated_with", "institution", 300),
    ("author", "writes", "paper", 1200),
    ("paper", "cites", "paper", 1500),
    ("paper", "has_topic", "field_of_study", 1500),
)
VERSIONS = {"ogbn-mag": 2, "ogbl-citation2": 1}


def write(name: str, root: pathlib.Path) -> None:
    """Writes the folder of a data set into `root`."""
    folder = root / name.replace("-", "_")
    rng = np.random.default_rng(sum(name.encode()))
    (folder / "raw").mkdir(parents=True)
    (folder / "mapping").mkdir()
    (folder / f"RELEASE_v{VERSIONS.get(name, 1)}.txt").write_text("")
    if name == "ogbn-mag":
        _write_mag(folder, rng)
    elif name in NODE_SETS:
        _write_nodes(folder, rng, **NODE_SETS[name])
    elif name in GRAPH_SETS:
        _write_graphs(folder, rng, GRAPH_SETS[name])
    else:
        _write_links(folder, rng, **LINK_SETS[name])


def _table(path: pathlib.Path, values: Any, **options: Any) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    values = np.asarray(values)
    form = "%d" if values.dtype.kind in "ib" else "%.4f"
    np.savetxt(path.with_name(f"{path.name}.csv.gz"), values, delimiter=",", fmt=form, **options)


def _random_edges(rng: np.random.Generator, nodes: int, edges: int) -> np.ndarray:
    """Pairs of ids, each once, no loops; every node has one, some many."""
    ring = np.stack([np.arange(nodes), np.roll(np.arange(nodes), 1)], 1)
    drawn = np.stack([rng.random(edges) ** 2 * nodes, rng.random(edges) * nodes], 1).astype(int)
    pairs = np.unique(np.r_[ring, drawn], axis=0)
    return rng.permutation(pairs[pairs[:, 0] != pairs[:, 1]])


def _split(folder: pathlib.Path, rng: np.random.Generator, kind: str, number: int) -> None:
    order = rng.permutation(number)
    bounds = (number * 6 // 10, number * 8 // 10)
    for part, ids in zip(("train", "valid", "test"), np.split(order, bounds)):
        _table(folder / "split" / kind / part, ids)


def _write_nodes(
    folder: pathlib.Path,
    rng: np.random.Generator,
    split: str,
    classes: int = 0,
    tasks: int = 0,
    features: int = 0,
    edge_features: int = 0,
    more: Sequence[str] = (),
) -> None:
    raw = folder / "raw"
    edges = _random_edges(rng, NODES, EDGES)
    _table(raw / "edge", edges)
    _table(raw / "num-node-list", [NODES])
    _table(raw / "num-edge-list", [len(edges)])
    if classes:
        labels = np.r_[np.arange(classes), rng.integers(classes, size=NODES - classes)][:, None]
        _table(raw / "node-label", labels)
    else:
        _table(raw / "node-label", rng.integers(2, size=(NODES, tasks)))
    if features:
        _table(raw / "node-feat", rng.normal(size=(NODES, features)))
    if edge_features:
        _table(raw / "edge-feat", rng.random((len(edges), edge_features)))
    for column in more:
        first = {"year": 2010, "species": 3702}[column]
        _table(raw / f"node_{column}", first + rng.integers(8, size=(NODES, 1)))
    _split(folder, rng, split, NODES)


def _write_graphs(folder: pathlib.Path, rng: np.random.Generator, tasks: int) -> None:
    raw = folder / "raw"
    nodes = rng.integers(6, 20, GRAPHS)
    chains = [np.stack([np.arange(n - 1), np.arange(1, n)], 1) for n in nodes]
    rings = [np.r_[chain, [[0, len(chain) - 1]]] for chain in chains]
    _table(raw / "edge", np.concatenate(rings))
    _table(raw / "num-node-list", nodes)
    _table(raw / "num-edge-list", [len(ring) for ring in rings])
    total = sum(map(len, rings))
    atoms = np.stack([rng.integers(kinds, size=nodes.sum()) for kinds in ATOM_KINDS], 1)
    _table(raw / "node-feat", atoms)
    _table(raw / "edge-feat", np.stack([rng.integers(k, size=total) for k in BOND_KINDS], 1))
    labels = rng.integers(2, size=(GRAPHS, tasks))
    labels[: GRAPHS // 2] = np.arange(GRAPHS // 2)[:, None] % 2  # both in every part
    _table(raw / "graph-label", labels)
    _split(folder, rng, "scaffold", GRAPHS)


def _write_links(
    folder: pathlib.Path,
    rng: np.random.Generator,
    split: str,
    features: int = 0,
    years: bool = False,
    sources: bool = False,
    binary: bool = False,
) -> None:
    raw = folder / "raw"
    edges = _random_edges(rng, NODES, EDGES)
    bounds = (len(edges) * 8 // 10, len(edges) * 9 // 10)
    train, valid, test = np.split(edges, bounds)
    if binary:  # this set comes as arrays of NumPy
        np.savez_compressed(
            raw / "data.npz",
            edge_index=train.T,
            node_feat=rng.normal(size=(NODES, features)).astype(np.float32),
            num_nodes_list=np.array([NODES]),
            num_edges_list=np.array([len(train)]),
        )
    else:
        _table(raw / "edge", train)
        _table(raw / "num-node-list", [NODES])
        _table(raw / "num-edge-list", [len(train)])
        if features:
            _table(raw / "node-feat", rng.normal(size=(NODES, features)))
        if years:
            _table(raw / "edge_year", 2000 + rng.integers(17, size=(len(train), 1)))
            _table(raw / "edge_weight", 1 + rng.integers(4, size=(len(train), 1)))
        if sources:
            _table(raw / "node_year", 2000 + rng.integers(17, size=(NODES, 1)))
    kind = folder / "split" / split
    kind.mkdir(parents=True)
    for part, pairs in (("train", train), ("valid", valid), ("test", test)):
        wrong = _random_edges(rng, NODES, len(pairs))[: len(pairs)]
        content: Mapping[str, Any]
        if sources:
            content = {"source_node": pairs[:, 0], "target_node": pairs[:, 1]}
            if part != "train":
                content["target_node_neg"] = rng.integers(NODES, size=(len(pairs), 1000))
        else:
            content = {"edge": pairs}
            if years:
                content |= {
                    "weight": 1 + rng.integers(4, size=len(pairs)),
                    "year": 2000 + rng.integers(17, size=len(pairs)),
                }
            if part != "train" or binary:
                content["edge_neg"] = wrong
        if binary:
            content = {key: torch.from_numpy(value) for key, value in content.items()}
        torch.save(content, kind / f"{part}.pt")


def _write_mag(folder: pathlib.Path, rng: np.random.Generator) -> None:
    raw = folder / "raw"
    types = list(MAG_NODES)

    def named(path: pathlib.Path, values: Sequence[int | str]) -> None:
        """A file whose columns are types of nodes."""
        path.parent.mkdir(parents=True, exist_ok=True)
        lines = [",".join(types), ",".join(map(str, values))]
        _text(path, lines)

    named(raw / "num-node-dict", list(MAG_NODES.values()))
    named(raw / "nodetype-has-feat", [name == "paper" for name in types])
    named(raw / "nodetype-has-label", [name == "paper" for name in types])
    _text(raw / "triplet-type-list", [",".join(edge[:3]) for edge in MAG_EDGES])
    for number, (src, relation, dst, edges) in enumerate(MAG_EDGES):
        place = raw / "relations" / f"{src}___{relation}___{dst}"
        ends = np.stack(
            [rng.integers(MAG_NODES[src], size=edges), rng.integers(MAG_NODES[dst], size=edges)], 1
        )
        _table(place / "edge", ends)
        _table(place / "num-edge-list", [edges])
        _table(place / "edge_reltype", np.full((edges, 1), number))
    papers = MAG_NODES["paper"]
    _table(raw / "node-feat" / "paper" / "node-feat", rng.normal(size=(papers, 128)))
    for name, number in MAG_NODES.items():
        path = raw / "node-feat" / name / "node_year"
        if name == "paper":
            _table(path, 2010 + rng.integers(10, size=(number, 1)))
    labels = np.r_[np.arange(349), rng.integers(349, size=papers - 349)][:, None]
    _table(raw / "node-label" / "paper" / "node-label", labels)
    named(folder / "split" / "time" / "nodetype-has-split", [name == "paper" for name in types])
    order = rng.permutation(papers)
    for part, ids in zip(("train", "valid", "test"), np.split(order, (240, 320))):
        _table(folder / "split" / "time" / "paper" / part, ids)


def _text(path: pathlib.Path, lines: Sequence[str]) -> None:
    import gzip

    path.parent.mkdir(parents=True, exist_ok=True)
    with gzip.open(path.with_name(f"{path.name}.csv.gz"), "wt") as file:
        file.write("\n".join(lines) + "\n")
