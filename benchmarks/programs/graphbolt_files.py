"""Random data in the folders of GraphBolt's collection: metadata.yaml and arrays of NumPy."""

from __future__ import annotations

import pathlib
from typing import Any

import numpy as np
import ogb_files
import yaml

CLASSES = {"cora": 7, "ogbn-arxiv": 40, "ogbn-products": 47}
FEATURES = {"cora": 1433, "ogbn-arxiv": 128, "ogbn-products": 100, "ogbl-citation2": 128}


def write(name: str, root: pathlib.Path) -> None:
    """Writes the folder of a data set into `root`."""
    folder = root / name
    folder.mkdir(parents=True)
    rng = np.random.default_rng(sum(name.encode()))
    content = _mag(folder, rng) if name == "ogbn-mag" else _one_type(folder, rng, name)
    (folder / "metadata.yaml").write_text(yaml.safe_dump(content))


class _Arrays:
    """Writes arrays into a folder, and describes them as metadata.yaml does."""

    def __init__(self, folder: pathlib.Path):
        self._folder = folder

    def __call__(self, name: str, values: np.ndarray, file: str) -> dict[str, Any]:
        path = self._folder / f"{file}.npy"
        path.parent.mkdir(parents=True, exist_ok=True)
        np.save(path, values)
        return {"name": name, "format": "numpy", "in_memory": True, "path": f"{file}.npy"}


def _one_type(folder: pathlib.Path, rng: np.random.Generator, name: str) -> dict[str, Any]:
    arrays, nodes = _Arrays(folder), ogb_files.NODES
    edges = ogb_files._random_edges(rng, nodes, ogb_files.EDGES)
    pairs = np.unique(np.r_[edges, edges[:, ::-1]], axis=0)
    np.savetxt(folder / "edges.csv", pairs, delimiter=",", fmt="%d")
    features = rng.normal(size=(nodes, FEATURES[name])).astype(np.float32)
    tasks = []
    if name in CLASSES:
        labels = rng.integers(CLASSES[name], size=nodes)
        sets = {}
        for part, ids in _parts(rng.permutation(nodes)).items():
            data = [
                arrays("seed_nodes", ids, f"nodes/{part}_ids"),
                arrays("labels", labels[ids], f"nodes/{part}_labels"),
            ]
            sets[part] = [{"data": data}]
        tasks.append({"name": "node_classification", "num_classes": CLASSES[name], **sets})
    if name in ("cora", "ogbl-citation2"):
        sets = {}
        for part, chosen in _parts(rng.permutation(edges)).items():
            data = [arrays("node_pairs", chosen, f"links/{part}_pairs")]
            if part != "train_set":
                wrong = rng.integers(nodes, size=(len(chosen), 20))
                data.append(arrays("negative_dsts", wrong, f"links/{part}_negatives"))
            sets[part] = [{"data": data}]
        tasks.append({"name": "link_prediction", "num_classes": 2, **sets})
    return {
        "dataset_name": name,
        "graph": {"nodes": [{"num": nodes}], "edges": [{"format": "csv", "path": "edges.csv"}]},
        "feature_data": [{"domain": "node", **arrays("feat", features, "features")}],
        "tasks": tasks,
    }


def _mag(folder: pathlib.Path, rng: np.random.Generator) -> dict[str, Any]:
    arrays, edges = _Arrays(folder), []
    for src, relation, dst, number in ogb_files.MAG_EDGES:
        for a, kind, b in ((src, relation, dst), (dst, f"rev_{relation}", src)):
            ends = [rng.integers(ogb_files.MAG_NODES[each], size=number) for each in (a, b)]
            path = f"{kind}.csv"
            np.savetxt(folder / path, np.stack(ends, 1), delimiter=",", fmt="%d")
            edges.append({"type": f"{a}:{kind}:{b}", "format": "csv", "path": path})
    papers = ogb_files.MAG_NODES["paper"]
    features = rng.normal(size=(papers, 128)).astype(np.float32)
    labels = rng.integers(349, size=papers)
    sets = {}
    for part, ids in _parts(rng.permutation(papers)).items():
        data = [
            arrays("seed_nodes", ids, f"papers/{part}_ids"),
            arrays("labels", labels[ids], f"papers/{part}_labels"),
        ]
        sets[part] = [{"type": "paper", "data": data}]
    nodes = [{"type": kind, "num": number} for kind, number in ogb_files.MAG_NODES.items()]
    return {
        "dataset_name": "ogbn-mag",
        "graph": {"nodes": nodes, "edges": edges},
        "feature_data": [
            {"domain": "node", "type": "paper", **arrays("feat", features, "features")}
        ],
        "tasks": [{"name": "node_classification", "num_classes": 349, **sets}],
    }


def _parts(ids: np.ndarray) -> dict[str, np.ndarray]:
    bounds = (len(ids) * 6 // 10, len(ids) * 8 // 10)
    return dict(zip(("train_set", "validation_set", "test_set"), np.split(ids, bounds)))
