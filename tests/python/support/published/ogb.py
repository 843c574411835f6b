"""Folders of the Open Graph Benchmark, as its archives have them."""

from __future__ import annotations

import gzip

import numpy as np

from support.published.drawn import drawn_edges, drawn_features, drawn_labels, drawn_parts, made
from support.published.many_graphs import _graphs


def write_table(path, rows):
    """``path.csv.gz``, a line for each row."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with gzip.open(path.with_name(path.name + ".csv.gz"), "wt") as file:
        file.write("".join(",".join(map(str, row)) + "\n" for row in rows))


def _rows(values):
    return np.asarray(values).reshape(len(values), -1).tolist()


def _made(folder, name, version=1):
    """A data set's folder, with the empty file that names its version."""
    where = made(folder, name.replace("-", "_"))
    made(where, "mapping")
    (where / f"RELEASE_v{version}.txt").touch()
    return where


def _write_raw(where, sizes, edges, edge_sizes, tables):
    tables = {"num-node-list": sizes, "num-edge-list": edge_sizes, "edge": edges, **tables}
    for name, values in tables.items():
        write_table(where / "raw" / name, _rows(values))


def _write_split(where, kind, parts):
    for part, ids in zip(("train", "valid", "test"), parts):
        write_table(where / "split" / kind / part, _rows(np.sort(ids)))


def write_ogb_nodes(
    folder,
    rng,
    name="ogbn-arxiv",
    num_nodes=3000,
    num_pairs=20000,
    width=128,
    num_classes=40,
    shares=(0.54, 0.18, 0.28),
    split="time",
    num_tasks=0,
    edge_width=0,
):
    """One graph: classes of nodes, or `num_tasks` questions about each.

    ``ogbn-arxiv`` has the years of papers, and ``ogbn-proteins`` the species.
    """
    labels = drawn_labels(rng, num_nodes, num_classes)
    pairs = drawn_edges(rng, labels, num_pairs)
    tables = {"node-label": labels}
    if width:
        tables["node-feat"] = drawn_features(rng, labels, width).round(5)
    if num_tasks:
        tables["node-label"] = rng.integers(2, size=(num_nodes, num_tasks))
    if edge_width:
        tables["edge-feat"] = rng.random((len(pairs), edge_width)).round(5)
    parts = drawn_parts(rng, num_nodes, shares)
    if name == "ogbn-arxiv":
        years = np.empty(num_nodes, int)
        for year, ids in zip((2015, 2018, 2019), parts):
            years[ids] = year
        tables["node_year"] = years
    elif name == "ogbn-proteins":
        tables["node_species"] = 3702 + rng.integers(8, size=num_nodes)
    where = _made(folder, name)
    _write_raw(where, [num_nodes], pairs, [len(pairs)], tables)
    _write_split(where, split, parts)
    return where


MAG_NODES = {"author": 300, "field_of_study": 80, "institution": 30, "paper": 400}
MAG_EDGES = (
    ("author", "affiliated_with", "institution", 300),
    ("author", "writes", "paper", 1200),
    ("paper", "cites", "paper", 1500),
    ("paper", "has_topic", "field_of_study", 1500),
)
MAG_CLASSES = 349


def write_ogb_mag(folder, rng, nodes=MAG_NODES, edges=MAG_EDGES, width=128):
    """``ogbn-mag``: nodes and edges of types, of which papers have features and venues."""
    where = _made(folder, "ogbn-mag", version=2)
    raw, types, papers = where / "raw", list(nodes), nodes["paper"]

    def by_type(path, values):
        write_table(path, [types, values])

    is_paper = [kind == "paper" for kind in types]
    by_type(raw / "num-node-dict", list(nodes.values()))
    by_type(raw / "nodetype-has-feat", is_paper)
    by_type(raw / "nodetype-has-label", is_paper)
    write_table(raw / "triplet-type-list", [edge[:3] for edge in edges])
    for number, (src, relation, dst, count) in enumerate(edges):
        place = raw / "relations" / f"{src}___{relation}___{dst}"
        ends = [rng.integers(nodes[kind], size=count) for kind in (src, dst)]
        write_table(place / "edge", _rows(np.stack(ends, 1)))
        write_table(place / "num-edge-list", [[count]])
        write_table(place / "edge_reltype", [[number]] * count)
    labels = drawn_labels(rng, papers, MAG_CLASSES)
    features = raw / "node-feat" / "paper"
    write_table(features / "node-feat", _rows(drawn_features(rng, labels, width).round(5)))
    write_table(features / "node_year", _rows(2010 + rng.integers(10, size=papers)))
    write_table(raw / "node-label" / "paper" / "node-label", _rows(labels))
    by_type(where / "split" / "time" / "nodetype-has-split", is_paper)
    for part, ids in zip(("train", "valid", "test"), drawn_parts(rng, papers)):
        write_table(where / "split" / "time" / "paper" / part, _rows(np.sort(ids)))
    return where


def write_ogb_graphs(
    folder, rng, name="ogbg-molhiv", num_graphs=200, num_tasks=1, least=8, most=30, share=0.3
):
    """Molecules with nine columns of whole numbers for atoms and three for bonds."""
    kinds = (rng.random(num_graphs) < share).astype(int)
    pairs, sizes = zip(*_graphs(rng, kinds, least, most))
    edge_sizes = [len(each) for each in pairs]
    labels = np.repeat(kinds[:, None], num_tasks, 1)
    labels[:, 1:] ^= rng.random((num_graphs, num_tasks - 1)) < 0.1
    tables = {
        "node-feat": rng.integers(0, [119, 4, 12, 12, 10, 6, 6, 2, 2], (sum(sizes), 9)),
        "edge-feat": rng.integers(0, [5, 6, 2], (sum(edge_sizes), 3)),
        "graph-label": labels,
    }
    where = _made(folder, name)
    _write_raw(where, sizes, np.concatenate(pairs), edge_sizes, tables)
    _write_split(where, "scaffold", drawn_parts(rng, num_graphs, (0.8, 0.1, 0.1)))
    return where


def write_ogb_links(
    folder,
    rng,
    name="ogbl-collab",
    num_nodes=2000,
    num_pairs=10000,
    width=128,
    num_negative=1000,
    split="time",
):
    """One graph of the training edges, and ``split/SPLIT/*.pt`` with edges to predict.

    ``ogbl-collab`` has years and weights of edges, ``ogbl-citation2`` years of nodes and wrong ends
    for each source, and ``ogbl-vessel`` comes as arrays of NumPy and tensors.
    """
    import torch

    labels = drawn_labels(rng, num_nodes, 20)
    pairs = rng.permutation(drawn_edges(rng, labels, num_pairs))
    ends = [int(0.9 * len(pairs)), int(0.95 * len(pairs))]
    parts = dict(zip(("train", "valid", "test"), np.split(pairs, ends)))
    train = parts["train"]
    where = _made(folder, name)
    features = drawn_features(rng, labels, width).round(5)
    tables = {"node-feat": features} if width else {}
    if name == "ogbl-collab":
        tables["edge_year"] = 2000 + rng.integers(17, size=len(train))
        tables["edge_weight"] = 1 + rng.integers(4, size=len(train))
    if name == "ogbl-citation2":
        tables["node_year"] = 2000 + rng.integers(17, size=num_nodes)
    if name == "ogbl-vessel":
        np.savez_compressed(
            made(where, "raw") / "data.npz",
            edge_index=train.T,
            node_feat=features,
            num_nodes_list=np.array([num_nodes]),
            num_edges_list=np.array([len(train)]),
        )
    else:
        _write_raw(where, [num_nodes], train, [len(train)], tables)
    for part, edges in parts.items():
        content = {"edge": edges}
        negatives = part != "train" or name == "ogbl-vessel"
        if name == "ogbl-citation2":
            content = {"source_node": edges[:, 0], "target_node": edges[:, 1]}
            if negatives:
                wrong = rng.integers(num_nodes, size=(len(edges), num_negative))
                content["target_node_neg"] = wrong
        elif negatives:
            content["edge_neg"] = rng.integers(num_nodes, size=(num_negative, 2))
        if name == "ogbl-collab":
            content["year"] = 2000 + rng.integers(17, size=len(edges))
            content["weight"] = 1 + rng.integers(4, size=len(edges))
        tensors = {key: torch.from_numpy(values) for key, values in content.items()}
        torch.save(tensors, made(where, "split", split) / f"{part}.pt")
    return where
