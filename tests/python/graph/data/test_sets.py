"""Data sets that are drawn, and those whose files this machine has."""

import os
import sys
from pathlib import Path

import pytest
import torch

import smex
import smex.graph as sg

nx = pytest.importorskip("networkx", reason="networkx is not installed")
ROOT = Path(__file__).parents[4]
DATA = Path(os.environ.get("SMEX_DATA") or ROOT.parent / "shared" / "data")


def folder_with(name):
    """The folder of data; skips where it lacks one."""
    if not (DATA / name).is_dir():
        pytest.skip(f"no folder {name} in $SMEX_DATA or {DATA}")
    return DATA


@pytest.mark.parametrize(
    ("kind", "nodes", "edges", "words", "classes", "train"),
    [
        (sg.data.CoraGraphDataset, 2708, 10556, 1433, 7, 140),
        (sg.data.CiteseerGraphDataset, 3327, 9228, 3703, 6, 120),
    ],
)
def test_planetoid(kind, nodes, edges, words, classes, train):
    data = kind(raw_dir=folder_with("planetoid"), verbose=False)
    g = data[0]
    assert (g.num_nodes(), g.num_edges(), data.num_classes, len(data)) == (nodes, edges, classes, 1)
    masks = torch.stack([g.ndata[f"{m}_mask"] for m in ("train", "val", "test")])
    assert masks.sum(1).tolist() == [train, 500, 1000] and masks.sum(0).max() == 1
    counts = torch.bincount(g.ndata["label"][g.ndata["train_mask"]])
    assert counts.tolist() == [20] * classes
    feat = g.ndata["feat"]
    assert feat.shape == (nodes, words) and feat.dtype == torch.float32
    sums = feat.sum(1)
    assert ((sums - 1).abs() < 1e-5).logical_or(sums == 0).all()
    matrix = torch.zeros(nodes, nodes).index_put(g.edges(), torch.ones(()), accumulate=True)
    assert matrix.max() == 1 and torch.equal(matrix, matrix.T)


def test_planetoid_against_its_files():
    """Of Cora, by networkx and SciPy, as the authors' program reads it."""
    sparse = pytest.importorskip("scipy.sparse", reason="scipy is not installed")
    folder = folder_with("planetoid") / "planetoid"
    parts = {
        p: sg.data.load_pickle(folder / f"ind.cora.{p}")
        for p in ("allx", "tx", "ally", "ty", "graph")
    }
    test = [int(line) for line in (folder / "ind.cora.test.index").read_text().split()]
    matrix = sparse.vstack(
        [sparse.csr_matrix(parts[p].to_dense().numpy()) for p in ("allx", "tx")]
    ).toarray()
    labels = torch.cat([torch.from_numpy(parts[p]) for p in ("ally", "ty")])
    matrix[test], labels[test] = matrix[sorted(test)], labels[sorted(test)]
    g = sg.data.CoraGraphDataset(raw_dir=folder.parent, verbose=False)[0]
    assert torch.equal(g.ndata["feat"] > 0, torch.from_numpy(matrix > 0))
    assert torch.equal(g.ndata["label"], labels.argmax(1))
    expected = nx.from_dict_of_lists(parts["graph"])
    found = nx.Graph(sg.to_networkx(g))
    assert set(map(frozenset, found.edges)) == set(map(frozenset, expected.edges))
    once = sg.data.CoraGraphDataset(raw_dir=folder.parent, verbose=False, reverse_edge=False)[0]
    assert once.num_edges() == expected.number_of_edges()


def test_planetoid_reordered():
    pytest.importorskip("scipy", reason="scipy is not installed")
    folder = folder_with("planetoid")
    plain = sg.data.CoraGraphDataset(raw_dir=folder, verbose=False)[0]
    g = sg.data.CoraGraphDataset(raw_dir=folder, verbose=False, reorder=True)[0]
    distance = [float((h.edges()[0] - h.edges()[1]).abs().float().mean()) for h in (g, plain)]
    assert distance[0] < distance[1] / 2
    assert torch.equal(*(torch.bincount(h.ndata["label"]) for h in (g, plain)))


def test_planetoid_that_does_not_fit(tmp_path):
    folder = folder_with("planetoid") / "planetoid"
    for file in folder.glob("ind.cora.*"):
        (tmp_path / file.name).write_bytes(file.read_bytes())
    (tmp_path / "ind.cora.test.index").write_text("1708\n1\n")
    with pytest.raises(
        smex.SmexValueError, match="expected 1000 test nodes with ids from 1708 on, found 2"
    ):
        sg.data.CoraGraphDataset(raw_dir=tmp_path, verbose=False)
    with pytest.raises(smex.SmexValueError, match='expected "cora", "citeseer" or "pubmed"'):
        sg.data.CitationGraphDataset("coral")


def test_treebank():
    folder = folder_with("sst")
    for mode, size in (("dev", 1101), ("test", 2210), ("train", 8544)):
        data = sg.data.SSTDataset(mode, raw_dir=folder)
        assert len(data) == size
    tree = data[0]
    assert int(tree.out_degrees().max()) == 1 and tree.out_degrees()[0] == 0
    assert torch.equal(tree.ndata["mask"] == 1, tree.in_degrees() == 0)
    assert tree.ndata["y"].max() <= 4 and (tree.ndata["x"] >= 0).sum() == tree.ndata["mask"].sum()


def test_karate_club():
    data = sg.data.KarateClubDataset()
    g = data[0]
    assert (g.num_nodes(), g.num_edges(), data.num_classes) == (34, 156, 2)
    assert torch.bincount(g.ndata["label"]).tolist() == [17, 17]
    with pytest.raises(IndexError, match="KarateClubDataset: expected a position from 0 to 0"):
        data[1]
    assert sg.data.KarateClubDataset(sg.AddSelfLoop())[0].num_edges() == 190


def test_shapes():
    data = sg.data.MiniGCDataset(40, 9, 33, seed=5)
    assert torch.bincount(data.labels).tolist() == [5] * 8 and data.num_classes == 8
    for g, label in data:
        number, edges = g.num_nodes(), (g.num_edges() - g.num_nodes()) // 2
        assert number >= 8
        expected = {
            0: number,
            1: number - 1,
            2: 2 * (number - 1),
            4: number * (number.bit_length() - 1) // 2,
            6: number * (number - 1) // 2,
            7: 3 * number // 2,
        }
        assert edges == expected.get(int(label), edges)
        assert nx.is_connected(nx.Graph(sg.to_networkx(g)))
    again = sg.data.MiniGCDataset(40, 9, 33, seed=5)
    assert [g.num_nodes() for g, _ in data] == [g.num_nodes() for g, _ in again]
    with pytest.raises(smex.SmexValueError, match="expected 8 <= min_num_v <= max_num_v"):
        sg.data.MiniGCDataset(8, 4, 9)


@pytest.mark.parametrize(
    ("kind", "labels"),
    [
        (sg.data.BAShapeDataset, [300, 160, 160, 80]),
        (sg.data.BACommunityDataset, [300, 160, 160, 80] * 2),
        (sg.data.TreeCycleDataset, [511, 360]),
        (sg.data.TreeGridDataset, [511, 720]),
    ],
)
def test_motifs(kind, labels):
    data = kind(seed=3, verbose=False)
    g = data[0]
    assert torch.bincount(g.ndata["label"]).tolist() == labels and data.num_classes == len(labels)
    found = nx.DiGraph(sg.to_networkx(g))
    assert found.number_of_edges() == g.num_edges() and nx.number_of_selfloops(found) == 0
    assert all(found.has_edge(v, u) for u, v in found.edges) and nx.is_weakly_connected(found)
    assert torch.equal(g.edges()[0], kind(seed=3)[0].edges()[0])


def test_houses():
    g = sg.data.BAShapeDataset(20, 3, 4, perturb_ratio=0.0, seed=0)[0]
    assert g.num_edges() == 2 * (3 * 17 + 4 * 7)
    for house in range(4):
        part = sg.node_subgraph(g, list(range(20 + 5 * house, 25 + 5 * house)))
        shape = nx.house_graph()
        assert nx.is_isomorphic(nx.Graph(sg.to_networkx(part)), shape)
        assert part.in_degrees().tolist() == [3, 3, 2, 2, 2]
        assert part.ndata["label"].tolist() == [1, 1, 2, 2, 3]
    community = sg.data.BACommunityDataset(seed=0)[0]
    means = [community.ndata["feat"][community.ndata["label"] // 4 == n].mean(0) for n in (0, 1)]
    for mean, sign in zip(means, (-1, 1)):
        expected = torch.tensor([sign] * 2 + [0] * 8, dtype=torch.float32)
        torch.testing.assert_close(mean, expected, atol=0.15, rtol=0)


def test_communities():
    data = sg.data.SBMMixtureDataset(3, 200, 4, pq=[(60.0, 4.0)] * 3, rng=0)
    within, across = 0, 0
    for g, line, degrees, line_degrees, sources in data:
        src, dst = g.edges()
        assert torch.equal(sources, src) and torch.equal(degrees, g.in_degrees().float())
        assert line.num_nodes() == g.num_edges() and line_degrees.shape == src.shape
        assert not (src == dst).any()
        within += int((src // 50 == dst // 50).sum())
        across += int((src // 50 != dst // 50).sum())
    assert 0.27 < within / (3 * 4 * 50 * 49) < 0.33 and 0.016 < across / (3 * 200 * 150) < 0.024
    g, line, degrees, _, sources = data.collate_fn([data[0], data[1]])
    assert g.batch_size == line.batch_size == 2 and degrees.shape == (400,)
    assert torch.equal(sources, g.edges()[0])
    drawn = sg.data.SBMMixtureDataset(4, 40, 2, rng=1)
    assert len(drawn) == 4 and all(0 <= p + q <= 6.0001 for p, q in drawn._pairs)
    with pytest.raises(smex.SmexValueError, match="multiple of 3 communities, found 10"):
        sg.data.SBMMixtureDataset(1, 10, 3)
    with pytest.raises(smex.SmexValueError, match='pq="Appendix_C" or 2 pairs'):
        sg.data.SBMMixtureDataset(2, 10, 2, pq=[(1, 1)])


def test_nodes_to_predict():
    club = sg.data.KarateClubDataset()
    ready = sg.data.AsNodePredDataset(club, [0.5, 0.25, 0.25])
    parts = [ready.train_idx, ready.val_idx, ready.test_idx]
    assert (
        torch.cat(parts).sort().values.tolist() == list(range(34))
        and "train_mask" not in club[0].ndata
    )
    assert torch.equal(
        sg.data.AsNodePredDataset(club, [0.5, 0.25, 0.25]).train_idx, ready.train_idx
    )
    with pytest.raises(smex.SmexValueError, match="has no masks of training, validation and test"):
        sg.data.AsNodePredDataset(club)
    with pytest.raises(smex.SmexValueError, match='has no node feature "label"'):
        sg.data.AsNodePredDataset([sg.graph(([0], [1]))])
    ready[0].ndata.clear()
    assert ready.num_classes == 2 and ready.train_idx.shape == (17,)
    ready.g = sg.graph(([0], [1]))
    assert ready[0].num_nodes() == 2


def test_links_to_predict():
    club = sg.data.KarateClubDataset()
    ready = sg.data.AsLinkPredDataset(club, [0.8, 0.1, 0.1], neg_ratio=2)
    whole, rest = club[0], ready[0]
    edges = set(zip(*(ids.tolist() for ids in rest.edges())))
    for (src, dst), (u, v) in (ready.val_edges, ready.test_edges):
        assert u.shape == (2 * src.shape[0],) and whole.has_edges_between(src, dst).all()
        assert not whole.has_edges_between(u, v).any() and (u != v).all()
        edges |= set(zip(src.tolist(), dst.tolist()))
    assert len(edges) == 156 and torch.equal(rest.ndata["label"], whole.ndata["label"])
    with pytest.raises(smex.SmexValueError, match="expected split_ratio, found None"):
        sg.data.AsLinkPredDataset(club)
    full = [sg.graph(([0, 1], [1, 0]))]
    with pytest.raises(smex.SmexValueError, match="expected 3 pairs of nodes that are no edges"):
        sg.data.AsLinkPredDataset(full, [0.5, 0.5, 0.0])


def test_graphs_to_predict():
    shapes = sg.data.MiniGCDataset(20, 8, 12)
    ready = sg.data.AsGraphPredDataset(shapes, [0.5, 0.25, 0.25])
    parts = torch.cat([ready.train_idx, ready.val_idx, ready.test_idx])
    assert parts.sort().values.tolist() == list(range(20)) and ready.node_feat_size is None
    with pytest.raises(smex.SmexValueError, match="has no split of its own"):
        sg.data.AsGraphPredDataset(shapes)


@pytest.mark.parametrize(
    ("data", "settings"),
    [
        (
            lambda: sg.data.MiniGCDataset(3, 8, 9, 5),
            {"num_graphs": 3, "min_num_v": 8, "max_num_v": 9, "seed": 5},
        ),
        (
            lambda: sg.data.BAShapeDataset(20, 2, 3, 0.1, 5, verbose=False),
            {"num_base_nodes": 20, "num_base_edges_per_node": 2, "num_motifs": 3, "seed": 5},
        ),
        (
            lambda: sg.data.TreeCycleDataset(3, 2, 4, seed=5, verbose=False),
            {"tree_height": 3, "num_motifs": 2, "cycle_size": 4, "perturb_ratio": 0.01},
        ),
        (
            lambda: sg.data.TreeGridDataset(3, 2, 2, seed=5, verbose=False),
            {"tree_height": 3, "num_motifs": 2, "grid_size": 2, "perturb_ratio": 0.1},
        ),
    ],
)
def test_settings_of_drawn_data(data, settings):
    made = data()
    assert {name: getattr(made, name) for name in settings} == settings
    number = made.num_classes
    (made[0][0] if hasattr(made, "labels") else made[0]).ndata.clear()
    assert made.num_classes == number


def test_a_package_that_is_not_installed(monkeypatch):
    monkeypatch.setitem(sys.modules, "networkx", None)
    with pytest.raises(smex.SmexImportError, match="the package networkx is not installed; pip"):
        sg.data.KarateClubDataset()
    monkeypatch.setitem(sys.modules, "scipy.spatial", None)
    with pytest.raises(ImportError, match="knn_graph: the package scipy is not installed"):
        sg.knn_graph(torch.zeros(3, 2), 1, "kd-tree")


def test_the_training_graph_of_link_prediction():
    g = sg.rand_graph(20, 200)
    g.ndata["feat"] = torch.rand(20, 3)
    data = sg.data.AsLinkPredDataset([g], [0.8, 0.1, 0.1])
    assert data.train_graph is data[0] and data.train_graph.num_edges() == 160
    data[0].ndata.pop("feat")
    assert data.feat_size == 3


def test_nodes_by_a_property():
    values, ratios = torch.randperm(50).numpy(), [0.3, 0.1, 0.1, 0.3, 0.2]
    masks = sg.data.utils.mask_nodes_by_property(values, ratios, 0)
    assert [int(mask.sum()) for mask in masks.values()] == [15, 5, 5, 15, 10]
    assert torch.equal(sum(mask.int() for mask in masks.values()), torch.ones(50).int())
    parts = [sorted(values[mask.numpy()].tolist()) for mask in masks.values()]
    assert sorted(value for part in parts[:3] for value in part) == list(range(25))
    assert parts[3] == list(range(25, 40)) and parts[4] == list(range(40, 50))
    again = sg.data.utils.mask_nodes_by_property(values, ratios, 0)
    assert all(torch.equal(mask, again[name]) for name, mask in masks.items())
    with pytest.raises(smex.SmexValueError, match="mask_nodes_by_property: expected five fractio"):
        sg.data.utils.mask_nodes_by_property(values, [0.5, 0.5])


@pytest.mark.parametrize("name", ["popularity", "locality", "density"])
def test_splits_by_a_property(name):
    networkx = pytest.importorskip("networkx", reason="networkx is not installed")
    pytest.importorskip("scipy", reason="scipy is not installed")  # for PageRank
    g = sg.to_bidirected(sg.data.KarateClubDataset()[0])
    ratios = [0.3, 0.1, 0.1, 0.3, 0.2]
    sg.data.utils.add_node_property_split([g], ratios, name, random_seed=1)
    simple = networkx.Graph(g.to_networkx())
    rank = networkx.pagerank(simple)
    values = {
        "popularity": lambda: rank,
        "locality": lambda: networkx.pagerank(simple, personalization={max(rank, key=rank.get): 1}),
        "density": lambda: networkx.clustering(simple),
    }[name]()
    values = torch.tensor([values[node] for node in range(34)])
    within = g.ndata["in_train_mask"] | g.ndata["in_valid_mask"] | g.ndata["in_test_mask"]
    outside = g.ndata["out_valid_mask"] | g.ndata["out_test_mask"]
    assert torch.equal(within, ~outside) and values[within].min() >= values[outside].max()
    with pytest.raises(smex.SmexValueError, match="expected property_name among"):
        sg.data.utils.add_node_property_split([g], ratios, "age")


def test_tensors_in_a_file(tmp_path):
    tensors = {"x": torch.rand(3, 2), "y": torch.arange(4)}
    assert sg.data.utils.save_tensors(tmp_path / "t.bin", tensors)
    torch.testing.assert_close(sg.data.utils.load_tensors(tmp_path / "t.bin"), tensors)
    with pytest.raises(smex.SmexTypeError, match="save_tensors: expected tensors by name"):
        sg.data.utils.save_tensors(tmp_path / "t.bin", {"x": [1]})
