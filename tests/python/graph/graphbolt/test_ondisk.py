"""Data sets in folders: what their YAML files say is what is loaded, and loaded again."""

import os
import shutil

import numpy as np
import pytest
import torch

import smex
import smex.graph.graphbolt as gb

yaml = pytest.importorskip("yaml", reason="PyYAML is not installed")


def one_type(folder, kind="csv"):
    rng = np.random.default_rng(0)
    edges = rng.integers(20, size=(2, 70))
    for name in ("edges", "nodes", "sets"):
        (folder / name).mkdir(parents=True)
    if kind == "csv":
        np.savetxt(folder / "edges/e.csv", edges.T, delimiter=",", fmt="%d")
    else:
        np.save(folder / "edges/e.npy", edges)
    np.save(folder / "nodes/feat.npy", rng.normal(size=(20, 3)).astype(np.float32))
    torch.save(torch.rand(70, 1), folder / "edges/w.pt")
    np.save(folder / "edges/p.npy", rng.random(70))
    np.save(folder / "sets/nodes.npy", np.arange(12))
    torch.save(torch.arange(12) % 3, folder / "sets/labels.pt")
    content = {
        "dataset_name": "small",
        "graph": {
            "nodes": [{"num": 20}],
            "edges": [{"format": kind, "path": f"edges/e.{'csv' if kind == 'csv' else 'npy'}"}],
            "feature_data": [
                {"domain": "edge", "name": "p", "format": "numpy", "path": "edges/p.npy"}
            ],
        },
        "feature_data": [
            {"domain": "node", "name": "feat", "format": "numpy", "path": "nodes/feat.npy",
             "in_memory": False, "unit": "m"},
            {"domain": "edge", "name": "w", "format": "torch", "path": "edges/w.pt"},
        ],
        "tasks": [
            {
                "name": "node_classification",
                "num_classes": 3,
                "train_set": [
                    {"data": [
                        {"name": "seed_nodes", "format": "numpy", "path": "sets/nodes.npy"},
                        {"name": "labels", "format": "torch", "path": "sets/labels.pt"},
                    ]}
                ],
            },
            {"name": "other", "train_set": []},
        ],
    }  # fmt: skip
    (folder / "metadata.yaml").write_text(yaml.safe_dump(content))
    return edges


@pytest.mark.parametrize("small", [True, False])
@pytest.mark.parametrize("kind", ["csv", "numpy"])
def test_a_graph_of_one_type(tmp_path, kind, small):
    edges = one_type(tmp_path / "set", kind)
    options = {"include_original_edge_id": True, "auto_cast_to_optimal_dtype": small}
    for _ in range(2):  # prepared, then as it was prepared
        dataset = gb.OnDiskDataset(tmp_path / "set", **options).load()
        assert dataset.dataset_name == "small"
        graph = dataset.graph
        assert (graph.num_nodes, graph.num_edges) == (20, 70)
        assert graph.indices.dtype == (torch.int32 if small else torch.int64)
        ids = graph.edge_attributes[gb.ORIGINAL_EDGE_ID].long()
        dst = gb.expand_indptr(graph.csc_indptr, torch.int64)
        assert torch.equal(
            torch.stack([graph.indices.long(), dst]), torch.from_numpy(edges)[:, ids]
        )
        weights = torch.from_numpy(np.load(tmp_path / "set/edges/p.npy"))
        assert torch.equal(graph.edge_attributes["p"], weights[ids])
        feat = dataset.feature.read("node", None, "feat")
        assert np.array_equal(feat.numpy(), np.load(tmp_path / "set/nodes/feat.npy"))
        assert dataset.feature.metadata("node", None, "feat") == {"unit": "m"}
        w = torch.load(tmp_path / "set/edges/w.pt")
        assert torch.equal(dataset.feature.read("edge", None, "w"), w)
        task, other = dataset.tasks
        assert task.metadata == {"name": "node_classification", "num_classes": 3}
        assert task.train_set.names == ("seed_nodes", "labels")
        nodes, labels = task.train_set[:]
        assert nodes.dtype == graph.indices.dtype and nodes.tolist() == list(range(12))
        assert labels.tolist() == [n % 3 for n in range(12)]
        assert other.train_set is None and task.test_set is None
        assert len(dataset.all_nodes_set) == 20
    (chosen,) = gb.OnDiskDataset(tmp_path / "set", **options).load("other").tasks
    assert chosen.metadata["name"] == "other"
    pipe = gb.ItemSampler(task.train_set, 4).sample_neighbor(graph, [2, 2], prob_name="p")
    pipe = pipe.fetch_feature(dataset.feature, ["feat"], ["w"])
    for batch in gb.DataLoader(pipe):
        assert torch.equal(batch.node_features["feat"], feat[batch.input_nodes.long()])
        for layer, subgraph in zip(batch.edge_features, batch.sampled_subgraphs, strict=True):
            assert torch.equal(layer["w"], w[subgraph.original_edge_ids.long()])


def several_types(folder):
    rng = np.random.default_rng(1)
    folder.mkdir()
    ends = {
        "paper:cites:paper": rng.integers(10, size=(2, 30)),
        "author:writes:paper": np.stack([rng.integers(6, size=25), rng.integers(10, size=25)]),
    }
    for etype, edges in ends.items():
        np.savetxt(folder / f"{etype}.csv", edges.T, delimiter=",", fmt="%d")
        np.save(folder / f"{etype}.npy", np.arange(edges.shape[1], dtype=np.float32))
    np.save(folder / "paper.npy", np.arange(20.0).reshape(10, 2))
    np.save(folder / "papers.npy", np.arange(5))
    np.save(folder / "authors.npy", np.arange(3))
    np.save(folder / "pairs.npy", ends["author:writes:paper"].T)
    content = {
        "graph": {
            "nodes": [{"type": "paper", "num": 10}, {"type": "author", "num": 6}],
            "edges": [
                {"type": etype, "format": "csv", "path": f"{etype}.csv"} for etype in ends
            ],
            "feature_data": [
                {"domain": "edge", "type": etype, "name": "t", "format": "numpy",
                 "path": f"{etype}.npy"}
                for etype in ends
            ],
        },
        "feature_data": [
            {"domain": "node", "type": "paper", "name": "feat", "format": "numpy",
             "path": "paper.npy"}
        ],
        "tasks": [
            {
                "name": "nodes",
                "train_set": [
                    {"type": t, "data": [
                        {"name": "seed_nodes", "format": "numpy", "path": f"{t}s.npy"}]}
                    for t in ("paper", "author")
                ],
                "test_set": [
                    {"type": "author:writes:paper", "data": [
                        {"name": "node_pairs", "format": "numpy", "path": "pairs.npy"}]}
                ],
            }
        ],
    }  # fmt: skip
    (folder / "metadata.yaml").write_text(yaml.safe_dump(content))
    return ends


def test_a_graph_of_several_types(tmp_path):
    ends = several_types(tmp_path / "set")
    dataset = gb.OnDiskDataset(tmp_path / "set", include_original_edge_id=True).load()
    graph = dataset.graph
    assert graph.num_nodes == {"author": 6, "paper": 10}
    assert graph.num_edges == {"author:writes:paper": 25, "paper:cites:paper": 30}
    assert graph.type_per_edge.dtype == torch.uint8
    nodes = {"paper": torch.arange(10, dtype=torch.int32)}
    found = graph.sample_neighbors(nodes, torch.tensor([-1]))
    for etype, edges in ends.items():
        ids = found.original_edge_ids[etype].long()
        assert sorted(ids.tolist()) == list(range(edges.shape[1]))
        csc = found.sampled_csc[etype]
        dst = gb.expand_indptr(csc.indptr, torch.int64)
        assert np.array_equal(torch.stack([csc.indices.long(), dst]).numpy(), edges[:, ids])
    everything = graph.in_subgraph({**nodes, "author": torch.arange(6, dtype=torch.int32)})
    assert {t: len(csc.indices) for t, csc in everything.sampled_csc.items()} == graph.num_edges
    own = graph.edge_attributes[gb.ORIGINAL_EDGE_ID]
    assert torch.equal(graph.edge_attributes["t"], own.float())
    (task,) = dataset.tasks
    pipe = gb.ItemSampler(task.train_set, 3).sample_neighbor(graph, [2, 2])
    pipe = pipe.fetch_feature(dataset.feature, {"paper": ["feat"]})
    for batch in gb.DataLoader(pipe):
        ids = batch.input_nodes["paper"].long()
        wanted = torch.arange(20.0, dtype=torch.float64).view(10, 2)[ids]
        assert torch.equal(batch.node_features["paper", "feat"], wanted)
        assert batch.blocks[0].canonical_etypes == [
            ("author", "writes", "paper"), ("paper", "cites", "paper"),
        ]  # fmt: skip
    (pairs,) = gb.ItemSampler(task.test_set, 30)
    assert len(pairs.node_pairs["author:writes:paper"][0]) == 25
    assert len(dataset.all_nodes_set) == 16


def test_it_is_prepared_again_when_files_or_options_change(tmp_path, monkeypatch):
    folder = tmp_path / "set"
    one_type(folder)
    gb.OnDiskDataset(folder)
    made = []
    inner = gb.ondisk._graph_of
    monkeypatch.setattr(gb.ondisk, "_graph_of", lambda *a: made.append(1) or inner(*a))
    gb.OnDiskDataset(folder)
    assert not made
    gb.OnDiskDataset(folder, include_original_edge_id=True)
    gb.OnDiskDataset(folder, include_original_edge_id=True, force_preprocess=True)
    assert len(made) == 2
    np.savetxt(folder / "edges/e.csv", [[0, 1]], delimiter=",", fmt="%d")
    os.utime(folder / "edges/e.csv", ns=(1, 1))
    np.save(folder / "edges/p.npy", np.ones(1))
    gb.OnDiskDataset(folder, include_original_edge_id=True, force_preprocess=False)
    assert len(made) == 2
    assert gb.OnDiskDataset(folder).load().graph.num_edges == 1
    assert len(made) == 3


def test_a_preparation_that_fails_leaves_what_was_there(tmp_path):
    folder = tmp_path / "set"
    one_type(folder)
    gb.OnDiskDataset(folder)
    np.savetxt(folder / "edges/e.csv", [[0, 20]], delimiter=",", fmt="%d")
    with pytest.raises(smex.SmexValueError, match="ids from 0 to 19, found 20"):
        gb.OnDiskDataset(folder)
    assert gb.OnDiskDataset(folder, force_preprocess=False).load().graph.num_edges == 70


def test_the_collection_is_downloaded_once(tmp_path, monkeypatch):
    one_type(tmp_path / "cora")
    remote = tmp_path / "remote" / "dataset" / "graphbolt"
    shutil.make_archive(str(remote / "cora"), "zip", tmp_path, "cora")
    monkeypatch.setenv("DGL_REPO", (tmp_path / "remote").as_uri())
    root = tmp_path / "datasets"
    for _ in range(2):
        assert gb.BuiltinDataset("cora", root).load().graph.num_nodes == 20
        assert [path.name for path in root.iterdir()] == ["cora"]
        (remote / "cora.zip").unlink(missing_ok=True)
    with pytest.raises(smex.SmexRuntimeError, match="cannot be had"):
        gb.BuiltinDataset("ogbn-arxiv", root)
    assert [path.name for path in root.iterdir()] == ["cora"]


def test_other_folders_are_refused(tmp_path):
    with pytest.raises(smex.SmexRuntimeError, match=r"found none at .*metadata.yaml"):
        gb.OnDiskDataset(tmp_path / "none")
    with pytest.raises(smex.SmexRuntimeError, match=r'"corra" is none of cora, ogbn-arxiv'):
        gb.BuiltinDataset("corra", tmp_path)
    one_type(tmp_path / "set")
    dataset = gb.OnDiskDataset(tmp_path / "set")
    with pytest.raises(smex.SmexRuntimeError, match=r"call load\(\) before reading graph"):
        dataset.graph  # noqa: B018
    with pytest.raises(smex.SmexValueError, match="no task 'none'"):
        dataset.load(["none"])
    assert gb.BuiltinDataset("set", tmp_path).load().graph.num_nodes == 20
    path = tmp_path / "set/metadata.yaml"
    content = yaml.safe_load(path.read_text())

    def with_change(change):
        altered = yaml.safe_load(yaml.safe_dump(content))
        change(altered)
        path.write_text(yaml.safe_dump(altered))
        return gb.OnDiskDataset(tmp_path / "set").load()

    with pytest.raises(smex.SmexValueError, match="a field graph"):
        with_change(lambda c: c.pop("graph"))
    with pytest.raises(smex.SmexValueError, match='format "csv" or "numpy"'):
        with_change(lambda c: c["graph"]["edges"][0].update(format="parquet"))
    with pytest.raises(smex.SmexValueError, match="one of node, edge, graph"):
        with_change(lambda c: c["feature_data"][0].update(domain="vertex"))
    with pytest.raises(smex.SmexValueError, match="expected the fields name"):
        with_change(lambda c: c["feature_data"][0].pop("name"))
    with pytest.raises(smex.SmexValueError, match="must be there for all edge types"):
        with_change(lambda c: c["graph"]["feature_data"][0].update(type="a:b:c"))
    with pytest.raises(smex.SmexValueError, match="found none"):
        with_change(lambda c: c["graph"].update(nodes=[]))
    shutil.rmtree(tmp_path / "set")
