"""Planetoid's files, and the pairs of Cora's fields."""

from __future__ import annotations

import collections
import pickle

import numpy as np

from support.published.drawn import drawn_edges, drawn_labels, drawn_words, made

SIZES = {  # nodes, pairs, words, classes
    "cora": (2708, 5278, 1433, 7),
    "citeseer": (3327, 4614, 3703, 6),
    "pubmed": (19717, 44325, 500, 3),
}


def write_planetoid(
    folder,
    rng,
    name="cora",
    num_nodes=None,
    num_pairs=None,
    num_words=None,
    num_classes=None,
    train_per_class=20,
    num_test=1000,
    place=None,
):
    """``ind.NAME.*``; `place` is the folder's name, by default ``planetoid``.

    Node ids are those of the files: training nodes, others, then test nodes, whose rows are in the
    order of ``test.index``.
    """
    import scipy.sparse

    nodes, pairs, words, classes = SIZES.get(name.removesuffix("_v2"), SIZES["cora"])
    num_nodes, num_pairs = num_nodes or nodes, num_pairs or pairs
    num_words, num_classes = num_words or words, num_classes or classes
    num_train = train_per_class * num_classes
    labels = drawn_labels(rng, num_nodes, num_classes)
    labels[:num_train] = rng.permutation(np.repeat(np.arange(num_classes), train_per_class))
    features = drawn_words(rng, labels, num_words, per_node=min(18, num_words))
    one_hot = np.eye(num_classes, dtype=np.int32)[labels]
    first = num_nodes - num_test
    order = first + rng.permutation(num_test)
    neighbours = collections.defaultdict(list)
    for node in range(num_nodes):
        neighbours[node] = []
    for u, v in drawn_edges(rng, labels, int(num_pairs * 1.05)).tolist()[:num_pairs]:
        neighbours[u].append(v)
        neighbours[v].append(u)
    parts = {
        "x": scipy.sparse.csr_matrix(features[:num_train]),
        "y": one_hot[:num_train],
        "tx": scipy.sparse.csr_matrix(features[order]),
        "ty": one_hot[order],
        "allx": scipy.sparse.csr_matrix(features[:first]),
        "ally": one_hot[:first],
        "graph": neighbours,
    }
    where = made(folder, place or "planetoid")
    for part, value in parts.items():
        (where / f"ind.{name}.{part}").write_bytes(pickle.dumps(value, protocol=2))
    (where / f"ind.{name}.test.index").write_text("".join(f"{node}\n" for node in order.tolist()))
    return where


def write_cora_binary(folder, rng, num_graphs=10, num_nodes=20, num_pairs=40):
    """Graphs of two classes, both of whose nodes have edges; matrices have a column for each edge."""
    import scipy.sparse

    graphs, labels, matrices = [], [], []
    for n in range(num_graphs):
        label = drawn_labels(rng, num_nodes, 2)
        pairs = drawn_edges(rng, label, num_pairs)
        pairs = np.concatenate([pairs, [[num_nodes - 2, num_nodes - 1]]])
        ends = np.concatenate([pairs, pairs[:, ::-1]])
        ones, numbers = np.ones(len(ends)), np.arange(len(ends))
        matrices.append(
            scipy.sparse.coo_matrix((ones, (ends[:, 0], numbers)), (num_nodes, len(ends)))
        )
        graphs += [f"graph {n}", *(f"{u} {v}" for u, v in ends.tolist())]
        labels += [f"graph {n}", *map(str, label.tolist())]
    where = made(folder, "cora_binary")
    (where / "graphs.txt").write_text("\n".join(graphs) + "\n")
    (where / "labels.txt").write_text("\n".join(labels) + "\n")
    (where / "pmpds.pkl").write_bytes(pickle.dumps(matrices, protocol=2))
    return where
