"""Data sets of one graph in files of NumPy, SciPy, MATLAB and JSON."""

from __future__ import annotations

import json

import numpy as np

from support.published.drawn import (
    both_ways,
    drawn_edges,
    drawn_features,
    drawn_labels,
    drawn_parts,
    drawn_words,
    made,
    masks_of,
)


def _matrix(pairs, number):
    """A matrix of SciPy with a one for each pair."""
    import scipy.sparse

    return scipy.sparse.csr_matrix((np.ones(len(pairs)), pairs.T), (number, number))


def write_reddit(
    folder, rng, num_nodes=2000, num_pairs=40000, width=602, num_classes=41, self_loop=False
):
    """``reddit_data.npz`` and ``reddit_graph.npz``, a matrix of SciPy by entries."""
    import scipy.sparse

    name = "reddit_self_loop" if self_loop else "reddit"
    where = made(folder, name)
    labels = drawn_labels(rng, num_nodes, num_classes)
    kinds = np.zeros(num_nodes, np.int64)
    for kind, ids in enumerate(drawn_parts(rng, num_nodes, (0.66, 0.1, 0.24)), 1):
        kinds[ids] = kind
    np.savez(
        where / "reddit_data.npz",
        feature=drawn_features(rng, labels, width),
        label=labels,
        node_types=kinds,
        node_ids=np.arange(num_nodes),
    )
    pairs = both_ways(drawn_edges(rng, labels, num_pairs))
    if self_loop:
        pairs = np.concatenate([pairs, np.arange(num_nodes)[:, None].repeat(2, 1)])
    matrix = _matrix(pairs, num_nodes).tocoo()
    scipy.sparse.save_npz(where / f"{name}_graph.npz", matrix)
    return where


def write_saint(
    folder, rng, name="flickr", num_nodes=2000, num_pairs=10000, width=500, num_classes=7
):
    """GraphSAINT's files of ``flickr``, or of ``yelp`` with several labels a node."""
    import scipy.sparse

    where = made(folder, name)
    labels = drawn_labels(rng, num_nodes, num_classes)
    matrix = _matrix(both_ways(drawn_edges(rng, labels, num_pairs)), num_nodes)
    scipy.sparse.save_npz(where / "adj_full.npz", matrix)
    np.save(where / "feats.npy", drawn_features(rng, labels, width).astype(np.float64))
    values = labels
    if name == "yelp":
        values = (np.eye(num_classes)[labels] + rng.random((num_nodes, num_classes)) > 0.9).astype(
            int
        )
    classes = {str(node): value for node, value in enumerate(values.tolist())}
    (where / "class_map.json").write_text(json.dumps(classes))
    shares = (0.75, 0.1, 0.15) if name == "yelp" else (0.5, 0.25, 0.25)
    parts = zip(("tr", "va", "te"), drawn_parts(rng, num_nodes, shares))
    (where / "role.json").write_text(json.dumps({role: ids.tolist() for role, ids in parts}))
    return where


def write_wikics(
    folder, rng, num_nodes=1500, num_pairs=8000, width=300, num_classes=10, num_splits=20
):
    """``wiki_cs/data.json``, with 20 splits of few training nodes."""
    labels = drawn_labels(rng, num_nodes, num_classes)
    links = [[] for _ in range(num_nodes)]
    pairs = drawn_edges(rng, labels, num_pairs)
    if (num_nodes - 1) not in pairs:  # programs take the number of nodes from the links
        pairs = np.concatenate([pairs, [[0, num_nodes - 1]]])
    for u, v in pairs.tolist():
        links[u].append(v)
    test, rest = np.split(rng.permutation(num_nodes), [num_nodes // 2])
    kinds = {"train_masks": [], "val_masks": [], "stopping_masks": []}
    for _ in range(num_splits):
        parts = np.split(rng.permutation(rest), [len(rest) // 10, len(rest) // 2])
        for masks, mask in zip(kinds.values(), masks_of(parts, num_nodes)):
            masks.append(mask.tolist())
    data = {
        "features": drawn_features(rng, labels, width).round(4).tolist(),
        "labels": labels.tolist(),
        "links": links,
        **kinds,
        "test_mask": masks_of([test], num_nodes)[0].tolist(),
    }
    where = made(folder, "wiki_cs")
    (where / "data.json").write_text(json.dumps(data))
    return where


BENCHMARKS = {  # nodes, pairs, features, classes
    "amazon_co_buy_computer": (13752, 245861, 767, 10),
    "amazon_co_buy_photo": (7650, 119081, 745, 8),
    "coauthor_cs": (18333, 81894, 6805, 15),
    "coauthor_physics": (34493, 247962, 8415, 5),
    "cora_full": (19793, 63421, 8710, 70),
}


def write_gnn_benchmark(
    folder,
    rng,
    name="coauthor_cs",
    num_nodes=None,
    num_pairs=None,
    width=None,
    num_classes=None,
    compressed=True,
    adjacency=None,
):
    """``NAME.npz`` of Shchur et al.: each pair once, features in compressed rows or as a matrix."""
    import scipy.sparse

    nodes, pairs, columns, classes = BENCHMARKS[name]
    num_nodes, num_pairs = num_nodes or nodes, num_pairs or pairs
    labels = drawn_labels(rng, num_nodes, num_classes or classes)
    words = drawn_words(rng, labels, width or columns, per_node=min(18, width or columns))
    if adjacency is None:
        adjacency = _matrix(drawn_edges(rng, labels, num_pairs), num_nodes)
    rows = scipy.sparse.csr_matrix(words)
    parts = {f"adj_{n}": getattr(adjacency, n) for n in ("data", "indices", "indptr", "shape")}
    if compressed:
        parts |= {f"attr_{n}": getattr(rows, n) for n in ("data", "indices", "indptr", "shape")}
    else:
        parts["attr_matrix"] = words
    where = made(folder, name)
    names = np.array([f"n{n}" for n in range(num_nodes)], dtype=object)  # a pickle, not to be read
    np.savez(where / f"{name}.npz", labels=labels, node_names=names, **parts)
    return where


def write_heterophilous(
    folder, rng, name="minesweeper", num_nodes=1000, num_pairs=4000, width=7, num_classes=2
):
    """``NAME.npz`` of Platonov et al., with ten splits."""
    labels = drawn_labels(rng, num_nodes, num_classes)
    splits = [
        masks_of(drawn_parts(rng, num_nodes, (0.5, 0.25, 0.25)), num_nodes) for _ in range(10)
    ]
    kinds = zip(("train_masks", "val_masks", "test_masks"), zip(*splits))
    where = made(folder, name)
    np.savez(
        where / f"{name}.npz",
        edges=drawn_edges(rng, labels, num_pairs, alike=0.2),
        node_features=drawn_features(rng, labels, width),
        node_labels=labels,
        **{kind: np.stack(masks) for kind, masks in kinds},
    )
    return where


FRAUD = {
    "yelp": ("YelpChi.mat", ("net_rsr", "net_rtr", "net_rur"), 32),
    "amazon": ("Amazon.mat", ("net_upu", "net_usu", "net_uvu"), 25),
}


def write_fraud(folder, rng, name="yelp", num_nodes=5000, num_pairs=20000, share=0.145):
    """``YelpChi.mat`` or ``Amazon.mat``: sparse matrices by columns; a share of the nodes is 1."""
    import scipy.io
    import scipy.sparse

    file, relations, width = FRAUD[name]
    labels = (rng.random(num_nodes) < share).astype(np.int64)
    features = drawn_features(rng, labels, width).astype(np.float64)
    parts = {
        "features": scipy.sparse.csc_matrix(features),
        "label": labels[None].astype(np.float64),
    }
    for relation in relations:
        pairs = both_ways(drawn_edges(rng, labels, num_pairs))
        parts[relation] = _matrix(pairs, num_nodes).tocsc()
    parts["homo"] = sum(parts[relation] for relation in relations)
    where = made(folder, name)
    scipy.io.savemat(where / file, parts)
    return where


def write_geom_gcn(
    folder, rng, name="texas", num_nodes=183, num_pairs=300, width=1703, num_classes=5
):
    """``out1_*.txt`` and ten splits; of ``actor`` the features are numbers of columns."""
    labels = drawn_labels(rng, num_nodes, num_classes)
    words = drawn_words(rng, labels, width, per_node=min(18, width)).astype(int)
    words[0, -1] = 1  # programs take the width from the largest column
    lines = ["node_id\tfeature\tlabel"]
    for node, (row, label) in enumerate(zip(words, labels.tolist())):
        values = np.flatnonzero(row) if name == "actor" else row
        lines.append(f"{node}\t{','.join(map(str, values.tolist()))}\t{label}")
    where = made(folder, name)
    (where / "out1_node_feature_label.txt").write_text("\n".join(lines) + "\n")
    pairs = drawn_edges(rng, labels, num_pairs, alike=0.2).tolist()
    edges = ["node_id\tnode_id", *(f"{u}\t{v}" for u, v in pairs)]
    (where / "out1_graph_edges.txt").write_text("\n".join(edges) + "\n")
    for split in range(10):
        masks = masks_of(drawn_parts(rng, num_nodes), num_nodes, np.uint8)
        named = dict(zip(("train_mask", "val_mask", "test_mask"), masks))
        np.savez(where / f"{name}_split_0.6_0.2_{split}.npz", **named)
    return where
