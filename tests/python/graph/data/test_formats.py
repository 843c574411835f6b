"""Formats of data sets: files written here are read back."""

import json

import numpy as np
import pytest
import torch

import smex
import smex.graph as sg
from support.published.ogb import write_table

rng = np.random.default_rng(0)


@pytest.fixture(autouse=True)
def no_other_folders(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.delenv("SMEX_DATA", raising=False)


def pairs(g):
    return list(zip(*(ids.tolist() for ids in g.edges())))


def write(folder, files):
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in files.items():
        (folder / name).write_text(text)


TU = {
    "T_A.txt": "1, 2\n2, 1\n4, 5\n3, 2\n",
    "T_graph_indicator.txt": "1\n1\n1\n2\n2\n",
    "T_graph_labels.txt": "1\n-1\n",
    "T_node_labels.txt": "5\n7\n5\n9\n7\n",
    "T_node_attributes.txt": "0.5, 1\n1, 2\n2, 3\n3, 4\n4, 5\n",
    "T_edge_labels.txt": "3\n4\n4\n3\n",
}


@pytest.mark.parametrize("folder", ["T", "T/T"])
def test_tu(tmp_path, folder):
    write(tmp_path / folder, TU)
    data = sg.data.TUDataset("T", raw_dir=tmp_path)
    data[0][0].ndata["feat"] = torch.zeros(data[0][0].num_nodes(), 5)
    assert data.statistics() == (5, data.num_classes, data.max_num_node)
    del data[0][0].ndata["feat"]
    (first, label), (second, other) = data
    assert pairs(first) == [(0, 1), (1, 0), (2, 1)] and pairs(second) == [(0, 1)]
    assert label.tolist() == [1] and other.tolist() == [0] and data.num_classes == 2
    assert first.ndata["node_labels"].tolist() == [[0], [1], [0]]
    assert second.ndata["node_attr"].tolist() == [[3, 4], [4, 5]]
    assert first.edata["edge_labels"].tolist() == [[0], [1], [0]]
    assert data.max_num_node == 3 and len(data.graph_lists) == 2 and data.num_labels == 2
    assert data.graph_labels.shape == (2, 1)
    subset = data[torch.tensor([1])]
    assert len(subset) == 1 and pairs(subset[0][0]) == [(0, 1)]
    data.graph_lists[0] = sg.graph(([0], [0]))
    assert pairs(data[0][0]) == [(0, 0)] and data.max_num_node == 2
    data.graph_lists = [second]
    data.graph_labels = torch.tensor([[4]])
    data.num_labels = 5
    assert len(data) == 1 and data[0][0] is second and data[0][1].tolist() == [4]
    assert data.graphs is data.graph_lists and data.num_classes == 5
    with pytest.raises(IndexError, match="TUDataset: expected a position from 0 to 0, found 2"):
        data[2]


def test_tu_of_numbers_and_damaged(tmp_path):
    files = {name: text for name, text in TU.items() if "graph_labels" not in name}
    write(tmp_path / "T", {**files, "T_graph_attributes.txt": "0.5\n1.5\n"})
    assert sg.data.TUDataset("T", raw_dir=tmp_path)[1][1].tolist() == [1.5]
    (tmp_path / "T" / "T_graph_attributes.txt").unlink()
    with pytest.raises(smex.SmexValueError, match="found neither"):
        sg.data.TUDataset("T", raw_dir=tmp_path)
    write(tmp_path / "T", {"T_node_labels.txt": "1\n2\n"})
    with pytest.raises(smex.SmexValueError, match="must have 5 lines, found 2"):
        sg.data.TUDataset("T", raw_dir=tmp_path)
    write(tmp_path / "T", {"T_A.txt": "1, 9\n"})
    with pytest.raises(smex.SmexValueError, match="an edge of node 9, expected ids from 1 to 5"):
        sg.data.TUDataset("T", raw_dir=tmp_path)


def test_gin(tmp_path):
    write(tmp_path / "M", {"M.txt": "2\n3 7\n4 1 1\n6 2 0 2\n4 0\n2 5\n6 1 1\n9 1 0\n"})
    data = sg.data.GINDataset("M", self_loop=False, raw_dir=tmp_path)
    (first, label), (second, other) = data
    assert pairs(first) == [(0, 1), (1, 0), (1, 2)] and pairs(second) == [(0, 1), (1, 0)]
    assert (int(label), int(other), data.gclasses, data.dim_nfeats) == (1, 0, 2, 3)
    assert first.ndata["label"].tolist() == [0, 1, 0] and second.ndata["label"].tolist() == [1, 2]
    assert torch.equal(second.ndata["attr"], torch.eye(3)[[1, 2]])
    degrees = sg.data.GINDataset("M", self_loop=True, degree_as_nlabel=True, raw_dir=tmp_path)
    assert torch.equal(degrees[0][0].ndata["label"], torch.zeros(3, dtype=torch.int64))
    assert degrees[0][0].num_edges() == 6
    write(tmp_path / "M", {"M.txt": "1\n1 0\n0 0 0.5 1.5\n"})
    attributes = sg.data.GINDataset("M", False, raw_dir=tmp_path)[0][0].ndata["attr"]
    assert attributes.tolist() == [[0.5, 1.5]]
    for text in ("2\n1 0\n0 0\n", "1\n1 0\n0 3 1\n", "none"):
        write(tmp_path / "M", {"M.txt": text})
        with pytest.raises(smex.SmexValueError, match="not in the format of GIN's data sets"):
            sg.data.GINDataset("M", False, raw_dir=tmp_path)


@pytest.mark.parametrize("directed", [False, True])
def test_ppi(tmp_path, directed):
    folder = tmp_path / "ppi"
    links = [(0, 1), (1, 2), (3, 4)]
    text = json.dumps(
        {
            "directed": directed,
            "nodes": [{"id": n} for n in range(5)],
            "links": [{"source": u, "target": v} for u, v in links],
        }
    )
    write(folder, {"valid_graph.json": text})
    feats, labels = rng.random((5, 50)), rng.integers(0, 2, (5, 121))
    for part, array in (
        ("feats", feats),
        ("labels", labels),
        ("graph_id", np.array([7, 7, 7, 9, 9])),
    ):
        np.save(folder / f"valid_{part}.npy", array)
    data = sg.data.PPIDataset("valid", raw_dir=tmp_path)
    assert len(data) == 2 and data.num_classes == data.num_labels == 121
    expected = [(0, 1), (1, 2)] if directed else [(0, 1), (1, 0), (1, 2), (2, 1)]
    assert sorted(pairs(data[0])) == expected
    torch.testing.assert_close(data[1].ndata["feat"], torch.from_numpy(feats[3:]).float())
    assert data[1].ndata["label"].dtype == torch.float32
    assert data[1].ndata[sg.NID].tolist() == [3, 4]
    assert data.mode == "valid" and data.graph.num_nodes() == 5
    for g in data:
        g.ndata.clear()
    data.graphs[0] = sg.graph(([0], [0]))
    assert data.num_classes == data.num_labels == 121 and pairs(data[0]) == [(0, 0)]
    data.graphs = data.graphs[1:]
    assert len(data) == 1
    with pytest.raises(smex.SmexValueError, match="expected mode 'train', 'valid' or 'test'"):
        sg.data.PPIDataset("dev", raw_dir=tmp_path)


def test_reddit(tmp_path):
    folder = tmp_path / "reddit"
    folder.mkdir()
    feature = rng.random((4, 6))
    kinds = np.array([1, 2, 3, 1])
    np.savez(folder / "reddit_data.npz", feature=feature, label=np.arange(4), node_types=kinds)
    np.savez(folder / "reddit_graph.npz", row=np.array([0, 3]), col=np.array([1, 2]))
    data = sg.data.RedditDataset(raw_dir=tmp_path)
    g = data[0]
    assert pairs(g) == [(0, 1), (3, 2)] and data.num_classes == 4
    assert g.ndata["train_mask"].tolist() == [True, False, False, True]
    assert int(g.ndata["val_mask"].sum()) == int(g.ndata["test_mask"].sum()) == 1
    torch.testing.assert_close(g.ndata["feat"], torch.from_numpy(feature).float())
    g.ndata.pop("label")
    assert data.num_classes == 4


BENCHMARKS = {
    "amazon_co_buy_computer": ("AmazonCoBuyComputerDataset", 10),
    "amazon_co_buy_photo": ("AmazonCoBuyPhotoDataset", 8),
    "coauthor_cs": ("CoauthorCSDataset", 15),
    "coauthor_physics": ("CoauthorPhysicsDataset", 5),
    "cora_full": ("CoraFullDataset", 70),
}


@pytest.mark.parametrize("name", BENCHMARKS)
@pytest.mark.parametrize("compressed", [False, True])
def test_graphs_of_the_gnn_benchmark(tmp_path, name, compressed):
    sparse = pytest.importorskip("scipy.sparse")
    adjacency = sparse.csr_matrix(([1.0, 1.0, 1.0], ([0, 1, 3], [1, 0, 2])), (5, 5))
    feature = rng.random((5, 4)) * (rng.random((5, 4)) < 0.5)
    rows = sparse.csr_matrix(feature)
    parts = {f"adj_{n}": getattr(adjacency, n) for n in ("data", "indices", "indptr", "shape")}
    if compressed:
        parts |= {f"attr_{n}": getattr(rows, n) for n in ("data", "indices", "indptr", "shape")}
    else:
        parts["attr_matrix"] = feature
    (tmp_path / name).mkdir()
    names = np.array(["a", "b", "c", "d", "e"], dtype=object)  # a pickle, which is not read
    np.savez(tmp_path / name / f"{name}.npz", labels=np.arange(5), node_names=names, **parts)
    kind, classes = BENCHMARKS[name]
    data = getattr(sg.data, kind)(raw_dir=tmp_path)
    g = data[0]
    assert pairs(g) == [(0, 1), (1, 0), (2, 3), (3, 2)] and g.num_nodes() == 5
    assert len(data) == 1 and data.num_classes == classes
    assert g.ndata["label"].tolist() == [0, 1, 2, 3, 4]
    torch.testing.assert_close(g.ndata["feat"], torch.from_numpy(feature).float())


HETEROPHILOUS = {
    "amazon_ratings": "AmazonRatingsDataset",
    "minesweeper": "MinesweeperDataset",
    "questions": "QuestionsDataset",
    "roman_empire": "RomanEmpireDataset",
    "tolokers": "TolokersDataset",
}


@pytest.mark.parametrize("name", HETEROPHILOUS)
def test_heterophilous_graphs(tmp_path, name):
    feature, masks = rng.random((4, 3)), rng.random((3, 10, 4)) < 0.5
    parts = {f"{part}_masks": mask for part, mask in zip(("train", "val", "test"), masks)}
    (tmp_path / name).mkdir()
    np.savez(
        tmp_path / name / f"{name}.npz",
        edges=np.array([[0, 1], [2, 3]]),
        node_features=feature,
        node_labels=np.array([0, 2, 2, 1]),
        **parts,
    )
    data = getattr(sg.data, HETEROPHILOUS[name])(raw_dir=tmp_path, verbose=False)
    g = data[0]
    assert pairs(g) == [(0, 1), (1, 0), (2, 3), (3, 2)] and data.num_classes == 3
    assert g.ndata["label"].tolist() == [0, 2, 2, 1]
    torch.testing.assert_close(g.ndata["feat"], torch.from_numpy(feature).float())
    for part, mask in zip(("train", "val", "test"), masks):
        assert torch.equal(g.ndata[f"{part}_mask"], torch.from_numpy(mask).T)
    g.ndata.clear()
    assert data.num_classes == 3


TREE = "(3 (2 It) (4 (2 Works) (2 .)))"


def test_trees(tmp_path):
    dev = "(1 (2 No) (2 way))"
    write(
        tmp_path / "sst",
        {"train.txt": f"{TREE}\n{dev}\n", "dev.txt": f"{dev}\n", "test.txt": "(0 no)"},
    )
    data = sg.data.SSTDataset(raw_dir=tmp_path)
    tree = data[0]
    assert len(data) == 1 and pairs(tree) == [(1, 0), (2, 0), (3, 2), (4, 2)]
    assert tree.ndata["y"].tolist() == [3, 2, 4, 2, 2]
    assert tree.ndata["x"].tolist() == [-1, 0, -1, 1, 2]
    assert tree.ndata["mask"].tolist() == [0, 1, 0, 1, 1]
    assert list(data.vocab) == ["it", "works", ".", "no", "way"] and data.num_classes == 5
    one = sg.data.SSTDataset("test", raw_dir=tmp_path)[0]
    assert one.num_nodes() == 1 and one.ndata["x"].tolist() == [3]
    write(tmp_path, {"words.txt": "way\n"})
    some = sg.data.SSTDataset("dev", vocab_file=tmp_path / "words.txt", raw_dir=tmp_path)[0]
    assert some.ndata["x"].tolist() == [-1, -1, 0]

    write(tmp_path / "sst", {"vocab.txt": "no\nworks\n"})
    write(tmp_path, {"glove.txt": "the 0 0\nworks 1.5 2.5\n"})
    data = sg.data.SSTDataset("test", tmp_path / "glove.txt", raw_dir=tmp_path)
    assert data.vocab_size == data.num_vocabs == 2 and data[0].ndata["x"].tolist() == [0]
    assert data.pretrained_emb[1].tolist() == [1.5, 2.5]
    assert (data.pretrained_emb[0].abs() <= 0.05).all()
    write(tmp_path, {"glove.txt": "the 0 0\n"})
    with pytest.raises(smex.SmexValueError, match="has none of the vocabulary's words"):
        sg.data.SSTDataset("test", tmp_path / "glove.txt", raw_dir=tmp_path)
    few = sg.data.SSTDataset("tiny", raw_dir=tmp_path)
    assert len(few) == min(5, len(sg.data.SSTDataset(raw_dir=tmp_path)))
    folder = next(tmp_path.rglob("dev.txt")).parent
    (folder / "tiny.txt").write_text((folder / "test.txt").read_text())
    assert len(sg.data.SSTDataset("tiny", raw_dir=tmp_path)) == len(
        sg.data.SSTDataset("test", raw_dir=tmp_path)
    )
    with pytest.raises(smex.SmexValueError, match="expected mode 'train', 'dev', 'test' or 'tiny'"):
        sg.data.SSTDataset("valid", raw_dir=tmp_path)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "(",
        "(3",
        "3",
        "(3 a",
        "(3 a))",
        "(a b)",
        "(3 a b)",
        "(3 a) (2 b)",
        "()",
        "(3 (2 a) b",
        "((3 a))",
    ],
)
def test_what_is_no_tree(text):
    from smex.graph.data.sst import parse_tree

    with pytest.raises(smex.SmexValueError, match="line 1: expected a tree such as"):
        parse_tree("line 1", text)


def test_ogb_nodes(tmp_path):
    raw = tmp_path / "ogbn_arxiv" / "raw"
    for name, rows in {
        "edge": [(0, 1), (2, 0)],
        "num-node-list": [(3,)],
        "num-edge-list": [(2,)],
        "node-feat": [(0.0, 1.0), (2.0, 3.0), (4.0, 5.0)],
        "node_year": [(2001,), (2002,), (2003,)],
        "node-label": [(4,), (0,), (1,)],
    }.items():
        write_table(raw / name, rows)
    for part, rows in {"train": [(2,)], "valid": [(0,)], "test": [(1,)]}.items():
        write_table(tmp_path / "ogbn_arxiv" / "split" / "time" / part, rows)
    data = sg.data.DglNodePropPredDataset("ogbn-arxiv", tmp_path)
    g, labels = data[0]
    assert pairs(g) == [(0, 1), (2, 0)] and labels.tolist() == [[4], [0], [1]]
    assert g.ndata["feat"].dtype == torch.float32 and g.ndata["year"].tolist() == [
        [2001],
        [2002],
        [2003],
    ]
    assert data.num_classes == 5 and data.num_tasks == 1 and len(data) == 1
    assert {part: ids.tolist() for part, ids in data.get_idx_split().items()} == {
        "train": [2],
        "valid": [0],
        "test": [1],
    }
    with pytest.raises(smex.SmexValueError, match="expected one of time in .*, found random"):
        data.get_idx_split("random")
    ready = sg.data.AsNodePredDataset(data)
    assert ready.train_idx.tolist() == [2] and ready[0].ndata["label"].tolist() == [4, 0, 1]
    ready[0].ndata.clear()
    assert ready.num_classes == 5 and ready.train_idx.tolist() == [2]
    data.graph[0], data.labels = sg.graph(([0], [1])), torch.tensor([[0], [8]])
    assert pairs(data[0][0]) == [(0, 1)] and data[0][1].tolist() == [[0], [8]]
    write_table(raw / "num-edge-list", [(3,)])
    with pytest.raises(smex.SmexValueError, match="must have 3 edges, found 2"):
        sg.data.DglNodePropPredDataset("ogbn-arxiv", tmp_path)


def test_ogb_graphs(tmp_path):
    folder = tmp_path / "ogbg_molhiv" / "hiv"
    for name, rows in {
        "edge": [(0, 1), (1, 2), (0, 1)],
        "num-node-list": [(3,), (2,)],
        "num-edge-list": [(2,), (1,)],
        "node-feat": [(6, n) for n in range(5)],
        "edge-feat": [(0,), (1,), (2,)],
        "graph-label": [(1, ""), (0, 1)],
    }.items():
        write_table(folder / "raw" / name, rows)
    for part, rows in {"train": [(1,)], "valid": [(0,)], "test": [(0,)]}.items():
        write_table(folder / "split" / "scaffold" / part, rows)
    data = sg.data.DglGraphPropPredDataset("ogbg-molhiv", tmp_path)
    (first, label), (second, other) = data
    assert pairs(first) == [(0, 1), (1, 0), (1, 2), (2, 1)] and pairs(second) == [(0, 1), (1, 0)]
    assert first.edata["feat"].tolist() == [[0], [0], [1], [1]]
    assert second.ndata["feat"].tolist() == [[6, 3], [6, 4]] and data.num_tasks == 2
    assert label[0] == 1 and label[1].isnan() and other.tolist() == [0, 1] and data.num_classes == 2
    ready = sg.data.AsGraphPredDataset(data)
    assert ready.train_idx.tolist() == [1] and ready.test_idx.tolist() == [0]
    assert ready.node_feat_size == 2 and ready.edge_feat_size == 1 and len(ready) == 2
    assert ready[0][1] is not None
    data[0][0].ndata.clear()
    assert ready.node_feat_size == 2
    data.graphs[0], data.labels = second, torch.zeros(2, 3)
    assert data[0][0] is second and data.num_tasks == 3
    one_way = sg.data.DglGraphPropPredDataset("ogbg-molhiv", tmp_path, add_inverse_edge=False)
    assert pairs(one_way[0][0]) == [(0, 1), (1, 2)]
