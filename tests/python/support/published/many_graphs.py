"""Data sets of many graphs with labels, of proteins, and of sentences."""

from __future__ import annotations

import json
import pickle

import numpy as np

from support.published.drawn import (
    both_ways,
    drawn_edges,
    drawn_features,
    drawn_labels,
    drawn_parts,
    made,
)


def _graphs(rng, labels, least, most):
    """For each label a ring whose chords are more often in graphs of larger labels: pairs, size."""
    for label in labels.tolist():
        size = int(rng.integers(least, most + 1))
        ring = np.stack([np.arange(size), (np.arange(size) + 1) % size], 1)
        chords = rng.integers(size, size=(label * size // 2, 2))
        pairs = np.sort(np.concatenate([ring, chords]), axis=1)
        pairs = np.unique(pairs[pairs[:, 0] != pairs[:, 1]], axis=0)
        yield pairs, size


def write_tu(
    folder,
    rng,
    name="PROTEINS",
    num_graphs=100,
    num_classes=2,
    least=4,
    most=20,
    node_labels=3,
    attributes=0,
    edge_labels=0,
):
    """``NAME_*.txt``; node labels, attributes and edge labels where their numbers are not 0."""
    labels = drawn_labels(rng, num_graphs, num_classes)
    rows, owner = [], []
    for n, (pairs, size) in enumerate(_graphs(rng, labels, least, most)):
        rows.append(both_ways(pairs) + len(owner) + 1)
        owner += [n + 1] * size
    edges = np.concatenate(rows)
    files = {"A": edges, "graph_indicator": owner, "graph_labels": labels + 1}
    degrees = np.bincount(edges[:, 0] - 1, minlength=len(owner))
    if node_labels:
        files["node_labels"] = degrees % node_labels + 1
    if attributes:
        files["node_attributes"] = drawn_features(rng, degrees % 3, attributes).round(4)
    if edge_labels:
        files["edge_labels"] = rng.integers(edge_labels, size=len(edges))
    where = made(folder, name, name)
    for file, values in files.items():
        np.savetxt(where / f"{name}_{file}.txt", np.asarray(values), "%g", delimiter=", ")
    return where


def write_gin(folder, rng, name="MUTAG", num_graphs=188, num_classes=2, least=10, most=28):
    """``GINDataset/dataset/NAME/NAME.txt``: node labels are degrees, at most 7."""
    labels = drawn_labels(rng, num_graphs, num_classes)
    lines = [str(num_graphs)]
    for label, (pairs, size) in zip(labels.tolist(), _graphs(rng, labels, least, most)):
        lines.append(f"{size} {label}")
        both = both_ways(pairs)
        for node in range(size):
            near = both[both[:, 0] == node, 1].tolist()
            lines.append(" ".join(map(str, [min(len(near), 7), len(near), *near])))
    where = made(folder, "GINDataset", "dataset", name)
    (where / f"{name}.txt").write_text("\n".join(lines) + "\n")
    return where


PPI_GRAPHS = {"train": range(1, 21), "valid": range(21, 23), "test": range(23, 25)}


def write_ppi(folder, rng, size=100, num_pairs=600, width=50, num_classes=121):
    """Graphs of proteins of all three modes in networkx's node-link format, with loops."""
    where = made(folder, "ppi")
    centres = rng.standard_normal((8, width))
    chances = rng.random((8, num_classes)) * 0.6
    for mode, numbers in PPI_GRAPHS.items():
        kinds = rng.integers(8, size=size * len(numbers))
        graph_id = np.repeat(np.array(numbers), size)
        links = [
            drawn_edges(rng, kinds[n * size : (n + 1) * size], num_pairs) + n * size
            for n in range(len(numbers))
        ]
        ends = both_ways(np.concatenate(links))
        data = {
            "directed": True,
            "multigraph": False,
            "graph": {},
            "nodes": [{"id": node} for node in range(len(kinds))],
            "links": [{"source": u, "target": v} for u, v in ends.tolist()],
        }
        (where / f"{mode}_graph.json").write_text(json.dumps(data))
        np.save(
            where / f"{mode}_feats.npy", centres[kinds] + rng.standard_normal((len(kinds), width))
        )
        labels = rng.random((len(kinds), num_classes)) < chances[kinds]
        np.save(where / f"{mode}_labels.npy", labels.astype(np.int64))
        np.save(where / f"{mode}_graph_id.npy", graph_id)
    return where


def write_fakenews(folder, rng, name="politifact", num_graphs=60, most=30, widths=None):
    """Trees of sharing; node 0 of each is the news."""
    import scipy.sparse

    labels = drawn_labels(rng, num_graphs, 2)
    sizes = rng.integers(2, most + 1, size=num_graphs)
    starts = np.cumsum(sizes) - sizes
    edges = [
        (start + int(rng.integers(node)), start + node)
        for start, size in zip(starts.tolist(), sizes.tolist())
        for node in range(1, size)
    ]
    where = made(folder, name)
    np.savetxt(where / "A.txt", np.array(edges), "%d", delimiter=", ")
    np.save(where / "node_graph_id.npy", np.repeat(np.arange(num_graphs), sizes))
    np.save(where / "graph_labels.npy", labels)
    for part, ids in zip(("train", "val", "test"), drawn_parts(rng, num_graphs, (0.2, 0.1, 0.7))):
        np.save(where / f"{part}_idx.npy", ids)
    kinds = np.repeat(labels, sizes)
    for feature, width in (widths or {"profile": 10, "bert": 768}).items():
        rows = scipy.sparse.csr_matrix(drawn_features(rng, kinds, width).astype(np.float64))
        scipy.sparse.save_npz(where / f"new_{feature}_feature.npz", rows)
    return where


def write_ba_2motif(folder, rng, num_graphs=100, size=25, width=10):
    """``BA-2motif.pkl``: adjacency matrices, features of 0.1, and labels."""
    labels = drawn_labels(rng, num_graphs, 2)
    matrices = np.zeros((num_graphs, size, size), np.float32)
    for matrix, label in zip(matrices, labels.tolist()):
        for node in range(1, size):
            other = int(rng.integers(node))
            matrix[node, other] = matrix[other, node] = 1
        ring = [(20, 21), (21, 22), (22, 23), (23, 24), (24, 20), (20, 22)][: 6 - label]
        for u, v in ring:
            matrix[u % size, v % size] = matrix[v % size, u % size] = 1
    features = np.full((num_graphs, size, width), 0.1, np.float32)
    where = made(folder, "BA-2motifs")
    (where / "BA-2motif.pkl").write_bytes(pickle.dumps((matrices, features, labels), protocol=2))
    return where


WORDS = ("dull", "weak", "plain", "good", "great")


def write_sst(folder, rng, sizes=(200, 30, 60), depth=4):
    """``train.txt``, ``dev.txt``, ``test.txt`` and ``vocab.txt``: words say the sentiment."""

    def tree(level):
        if level == 0 or rng.random() < 0.2:
            label = int(rng.integers(5))
            return label, f"({label} {WORDS[label]}{int(rng.integers(4))})"
        (left, first), (right, second) = tree(level - 1), tree(level - 1)
        label = (left + right + 1) // 2
        return label, f"({label} {first} {second})"

    where = made(folder, "sst")
    for mode, size in zip(("train", "dev", "test"), sizes):
        (where / f"{mode}.txt").write_text("".join(f"{tree(depth)[1]}\n" for _ in range(size)))
    (where / "vocab.txt").write_text("".join(f"{word}{n}\n" for word in WORDS for n in range(4)))
    return where


def write_superpixels(folder, rng, name="mnist", split="train", num_graphs=20, least=5, most=75):
    """``superpixels/*.pkl``: colours and places of superpixels, where a class is a bright corner."""
    labels = drawn_labels(rng, num_graphs, 10)
    width, size, prefix = (1, 28, "mnist_75sp") if name == "mnist" else (3, 32, "cifar10_150sp")
    samples = []
    for label in labels.tolist():
        number = int(rng.integers(least, most + 1))
        places = rng.random((number, 2)) * size
        bright = np.hypot(*(places - [label % 4 * size / 4, label // 4 * size / 4]).T) < size / 3
        colours = (bright[:, None] + rng.random((number, width))).astype(np.float32) / 2
        samples.append([colours, places.astype(np.float32), list(range(number)), []])
    where = made(folder, "Superpixel", "superpixels")
    (where / f"{prefix}_{split}.pkl").write_bytes(pickle.dumps((labels, samples), protocol=2))
    return where


def write_long_range(folder, rng, name="PascalVOC-SP", split="train", num_graphs=10, most=40):
    """``slic_compactness_30/edge_wt_region_boundary/SPLIT.pickle`` of torch's tensors."""
    import torch

    kinds = 21 if name == "PascalVOC-SP" else 10
    graphs = []
    for pairs, size in _graphs(rng, np.ones(num_graphs, int), 5, most):
        labels = rng.integers(kinds, size=size)
        edges = both_ways(pairs)
        parts = (drawn_features(rng, labels, 14), rng.random((len(edges), 2)), edges.T.copy())
        graphs.append((*map(torch.from_numpy, parts), torch.from_numpy(labels)))
    where = made(folder, name, "slic_compactness_30", "edge_wt_region_boundary")
    (where / f"{split}.pickle").write_bytes(pickle.dumps(graphs, protocol=4))
    return where
