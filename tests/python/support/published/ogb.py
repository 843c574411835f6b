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
):
    """One graph, of ``ogbn-arxiv`` with the years of papers."""
    labels = drawn_labels(rng, num_nodes, num_classes)
    pairs = drawn_edges(rng, labels, num_pairs)
    tables = {
        "node-feat": drawn_features(rng, labels, width).round(5),
        "node-label": labels,
    }
    parts = drawn_parts(rng, num_nodes, shares)
    if name == "ogbn-arxiv":
        years = np.empty(num_nodes, int)
        for year, ids in zip((2015, 2018, 2019), parts):
            years[ids] = year
        tables["node_year"] = years
    where = made(folder, name.replace("-", "_"))
    _write_raw(where, [num_nodes], pairs, [len(pairs)], tables)
    _write_split(where, split, parts)
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
    where = made(folder, name.replace("-", "_"))
    _write_raw(where, sizes, np.concatenate(pairs), edge_sizes, tables)
    _write_split(where, "scaffold", drawn_parts(rng, num_graphs, (0.8, 0.1, 0.1)))
    return where


def write_ogb_links(
    folder, rng, name="ogbl-collab", num_nodes=2000, num_pairs=10000, width=128, num_negative=1000
):
    """One graph of the training edges, and ``split/time/*.pt`` with edges to predict."""
    import torch

    labels = drawn_labels(rng, num_nodes, 20)
    pairs = rng.permutation(drawn_edges(rng, labels, num_pairs))
    train, valid, test = np.split(pairs, [int(0.9 * len(pairs)), int(0.95 * len(pairs))])
    where = made(folder, name.replace("-", "_"))
    features = {"node-feat": drawn_features(rng, labels, width).round(5)}
    _write_raw(where, [num_nodes], train, [len(train)], features)
    split = made(where, "split", "time")
    torch.save({"edge": torch.from_numpy(train)}, split / "train.pt")
    for part, edges in (("valid", valid), ("test", test)):
        negative = torch.from_numpy(rng.integers(num_nodes, size=(num_negative, 2)))
        torch.save({"edge": torch.from_numpy(edges), "edge_neg": negative}, split / f"{part}.pt")
    return where
