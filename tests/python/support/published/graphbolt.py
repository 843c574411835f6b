"""Folders of GraphBolt's collection: ``metadata.yaml``, and arrays of NumPy."""

from __future__ import annotations

import numpy as np
import yaml

from support.published.drawn import (
    both_ways,
    drawn_edges,
    drawn_features,
    drawn_labels,
    drawn_parts,
    made,
)
from support.published.ogb import MAG_CLASSES, MAG_EDGES, MAG_NODES


def _saved(where, name, values, file):
    """Writes an array; what ``metadata.yaml`` says of it."""
    path = where / f"{file}.npy"
    path.parent.mkdir(exist_ok=True)
    np.save(path, values)
    return {"name": name, "format": "numpy", "in_memory": True, "path": f"{file}.npy"}


def _parts(rng, number):
    return zip(("train_set", "validation_set", "test_set"), drawn_parts(rng, number))


def write_graphbolt(
    folder, rng, name="cora", num_nodes=600, num_pairs=3000, width=128, num_classes=0, links=False
):
    """One type of nodes: a task of their classes, of links, or both."""
    where = made(folder, name)
    labels = drawn_labels(rng, num_nodes, num_classes or 10)
    edges = drawn_edges(rng, labels, num_pairs)
    np.savetxt(where / "edges.csv", both_ways(edges), delimiter=",", fmt="%d")
    features = drawn_features(rng, labels, width)
    tasks = []
    if num_classes:
        sets = {}
        for part, ids in _parts(rng, num_nodes):
            data = [
                _saved(where, "seed_nodes", ids, f"nodes/{part}_ids"),
                _saved(where, "labels", labels[ids], f"nodes/{part}_labels"),
            ]
            sets[part] = [{"data": data}]
        tasks.append({"name": "node_classification", "num_classes": num_classes, **sets})
    if links:
        sets = {}
        for part, ids in _parts(rng, len(edges)):
            data = [_saved(where, "node_pairs", edges[ids], f"links/{part}_pairs")]
            if part != "train_set":
                wrong = rng.integers(num_nodes, size=(len(ids), 20))
                data.append(_saved(where, "negative_dsts", wrong, f"links/{part}_negatives"))
            sets[part] = [{"data": data}]
        tasks.append({"name": "link_prediction", "num_classes": 2, **sets})
    graph = {"nodes": [{"num": num_nodes}], "edges": [{"format": "csv", "path": "edges.csv"}]}
    feature = {"domain": "node", **_saved(where, "feat", features, "features")}
    return _described(where, graph, [feature], tasks)


def write_graphbolt_mag(folder, rng, nodes=MAG_NODES, edges=MAG_EDGES, width=128):
    """``ogbn-mag``: each relation and its reverse, and the venues of papers."""
    where, files = made(folder, "ogbn-mag"), []
    for src, relation, dst, count in edges:
        for a, kind, b in ((src, relation, dst), (dst, f"rev_{relation}", src)):
            ends = [rng.integers(nodes[each], size=count) for each in (a, b)]
            np.savetxt(where / f"{kind}.csv", np.stack(ends, 1), delimiter=",", fmt="%d")
            files.append({"type": f"{a}:{kind}:{b}", "format": "csv", "path": f"{kind}.csv"})
    labels = drawn_labels(rng, nodes["paper"], MAG_CLASSES)
    features = drawn_features(rng, labels, width)
    sets = {}
    for part, ids in _parts(rng, nodes["paper"]):
        data = [
            _saved(where, "seed_nodes", ids, f"papers/{part}_ids"),
            _saved(where, "labels", labels[ids], f"papers/{part}_labels"),
        ]
        sets[part] = [{"type": "paper", "data": data}]
    kinds = [{"type": kind, "num": count} for kind, count in nodes.items()]
    feature = {"domain": "node", "type": "paper", **_saved(where, "feat", features, "features")}
    task = {"name": "node_classification", "num_classes": MAG_CLASSES, **sets}
    return _described(where, {"nodes": kinds, "edges": files}, [feature], [task])


def _described(where, graph, features, tasks):
    content = {
        "dataset_name": where.name,
        "graph": graph,
        "feature_data": features,
        "tasks": tasks,
    }
    (where / "metadata.yaml").write_text(yaml.safe_dump(content))
    return where
