"""Data sets read from files in their published formats, which tests/python/support writes."""

import gzip
import os
import pathlib
import pickle
import sys

import numpy as np
import pytest
import torch

import smex
import smex.graph as sg
import smex.graph.graphbolt as gb
from smex.graph.data import fakenews, knowledge_graph, rdf, sbm
from support import published


@pytest.fixture(autouse=True)
def no_other_folders(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.delenv("SMEX_DATA", raising=False)


@pytest.fixture
def rng():
    return np.random.default_rng(0)


def pairs(g, etype=None):
    return list(zip(*(ids.tolist() for ids in g.edges(etype=etype))))


# ---- the Semantic Web ----


@pytest.fixture
def rdflib():
    return pytest.importorskip("rdflib", reason="rdflib is not installed")


AIFB = "http://www.aifb.uni-karlsruhe.de"
TRIPLES = f"""\
<{AIFB}/Personen/x/p2> <http://swrc.ontoware.org/ontology#knows> <{AIFB}/Personen/x/p1> .
<{AIFB}/Personen/x/p1> <http://swrc.ontoware.org/ontology#wrote> <{AIFB}/Paper/x/a> .
<{AIFB}/Personen/x/p1> <http://swrc.ontoware.org/ontology#affiliation> <{AIFB}/Group/x/g> .
<{AIFB}/Personen/x/p2> <http://www.w3.org/ns/type> "text" .
_:blank <http://swrc.ontoware.org/ontology#wrote> <{AIFB}/Paper/x/a> .
<http://elsewhere.org/q> <http://swrc.ontoware.org/ontology#wrote> <{AIFB}/Paper/x/a> .
"""


def write_aifb_by_hand(folder):
    where = folder / "aifb-hetero"
    where.mkdir()
    (where / "a.nt").write_text(TRIPLES)
    header = "person\tid\tlabel_affiliation\n"
    rows = [f"{AIFB}/Personen/x/p{n}\t{n}\t{label}\n" for n, label in ((2, "b"), (9, "c"))]
    (where / "trainingSet.tsv").write_text(header + "".join(rows))
    (where / "testSet.tsv").write_text(header + f"{AIFB}/Personen/x/p1\t1\ta\n")
    return where


def test_aifb_by_hand(tmp_path, rdflib, caplog):
    write_aifb_by_hand(tmp_path)
    data = sg.data.AIFBDataset(raw_dir=tmp_path, verbose=False)
    g = data[0]
    assert g.ntypes == ["Paper", "Personen", "_Literal"] and len(data) == 1
    assert sorted(g.canonical_etypes) == [
        ("Paper", "rev-ontology#wrote", "Personen"),
        ("Personen", "ontology#knows", "Personen"),
        ("Personen", "ontology#wrote", "Paper"),
        ("Personen", "rdftype", "_Literal"),
        ("Personen", "rev-ontology#knows", "Personen"),
        ("_Literal", "rev-rdftype", "Personen"),
    ]
    assert pairs(g, "ontology#knows") == [(1, 0)] and pairs(g, "rev-ontology#knows") == [(0, 1)]
    people = g.nodes["Personen"].data
    assert people["label"].tolist() == people["labels"].tolist() == [1, 0]
    assert people["train_mask"].tolist() == [False, True]
    assert people["test_mask"].tolist() == [True, False]
    assert data.num_classes == 2 and data.predict_category == "Personen"
    assert "Personen/p9 has no edges and is left out" in caplog.text
    one_way = sg.data.AIFBDataset(insert_reverse=False, raw_dir=tmp_path, verbose=False)[0]
    assert len(one_way.etypes) == 3


def test_graphs_of_rdf_are_kept(tmp_path, rdflib, monkeypatch):
    where = write_aifb_by_hand(tmp_path)
    first = sg.data.AIFBDataset(raw_dir=tmp_path, verbose=False)
    monkeypatch.setattr(rdf.AIFBDataset, "load_raw_tuples", lambda *_: 1 / 0)
    second = sg.data.AIFBDataset(raw_dir=tmp_path, verbose=False)
    assert second[0].canonical_etypes == first[0].canonical_etypes
    assert second.num_classes == first.num_classes == 2
    with pytest.raises(ZeroDivisionError):
        sg.data.AIFBDataset(raw_dir=tmp_path, verbose=False, force_reload=True)
    (where / "a.nt").write_text(TRIPLES)  # newer than what was kept
    (kept,) = where.glob("*.bin")
    os.utime(kept, (1, 1))
    with pytest.raises(ZeroDivisionError):
        sg.data.AIFBDataset(raw_dir=tmp_path, verbose=False)


@pytest.mark.parametrize(
    ("kind", "write", "category", "classes"),
    [
        ("AIFB", published.write_aifb, "Personen", 4),
        ("MUTAG", published.write_mutag, "d", 2),
        ("BGS", published.write_bgs, "Lexicon/NamedRockUnit", 2),
        ("AM", published.write_am, "proxy", 11),
    ],
)
def test_tables_of_the_semantic_web(tmp_path, rng, rdflib, kind, write, category, classes):
    write(tmp_path, rng, 40, 12)
    data = getattr(sg.data, f"{kind}Dataset")(raw_dir=tmp_path, verbose=False)
    nodes = data[0].nodes[category].data
    train, test = nodes["train_mask"], nodes["test_mask"]
    assert (int(train.sum()), int(test.sum()), int((train & test).sum())) == (40, 12, 0)
    assert ((nodes["label"] >= 0) == (train | test)).all() and data.num_classes == classes
    assert nodes["label"][train].unique().tolist() == list(range(classes))
    assert data.predict_category == category
    for source, name, target in data[0].canonical_etypes:
        if not name.startswith("rev-"):
            back = (target, f"rev-{name}".replace("rev-type", "rev-rdftype"), source)
            assert pairs(data[0], back) == [
                (v, u) for u, v in pairs(data[0], (source, name, target))
            ]


def test_names_that_are_none_of_the_museum(tmp_path, rdflib, rng):
    where = published.write_am(tmp_path, rng, 12, 3, 20)
    own = "http://purl.org/collections/nl/am/"
    with open(where / "am_stripped.nt", "a") as file:
        file.write(f"<{own}proxy-1> <{own}a/b> <{own}proxy-2> .\n")
    with pytest.raises(smex.SmexValueError, match="AMDataset: expected names of 7 parts between"):
        sg.data.AMDataset(raw_dir=tmp_path, verbose=False)
    where = published.write_mutag(tmp_path, rng, 12, 3)
    own = "http://dl-learner.org/carcinogenesis#"
    with open(where / "mutag_stripped.nt", "a") as file:
        file.write(f"<{own}x> <{own}y> <{own}d1> .\n")
    with pytest.raises(smex.SmexValueError, match="a molecule or a bond as subject of y, found x"):
        sg.data.MUTAGDataset(raw_dir=tmp_path, verbose=False)


def test_rdflib_that_is_not_installed(tmp_path, monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "rdflib", None)
    with pytest.raises(smex.SmexImportError, match="AIFBDataset: the package rdflib is not inst"):
        sg.data.AIFBDataset(raw_dir=tmp_path)
    assert str(rdf.Entity(3, "a")) == "a/3" and str(rdf.Relation("r")) == "r"


# ---- knowledge graphs ----


def write_words(folder, name, train, valid="", test=""):
    where = folder / name
    where.mkdir()
    (where / "entities.dict").write_text("0\ta\n1\tb\n2\tc\n")
    (where / "relations.dict").write_text("0\tr\n1\ts\n")
    for part, text in (("train", train), ("valid", valid), ("test", test)):
        (where / f"{part}.txt").write_text(text)


def test_knowledge_by_hand(tmp_path):
    write_words(tmp_path, "wn18", "a\ts\tb\nb\tr\tc\n", "c\ts\ta\n", "a\tr\tc\n")
    data = sg.data.WN18Dataset(raw_dir=tmp_path, verbose=False)
    g = data[0]
    assert (data.num_nodes, data.num_rels, len(data)) == (3, 2, 1)
    forward = [(0, 1), (2, 0), (1, 2), (0, 2)]
    assert pairs(g) == [*forward, *((v, u) for u, v in forward)]
    assert g.edata["etype"].tolist() == [1, 1, 0, 0, 3, 3, 2, 2]
    for name, edge_name, part in (
        ("train", "train", [1, 0, 1, 0]),
        ("val", "valid", [0, 1, 0, 0]),
        ("test", "test", [0, 0, 0, 1]),
    ):
        assert g.edata[f"{name}_mask"].int().tolist() == part * 2
        assert g.edata[f"{edge_name}_edge_mask"].int().tolist() == part + [0] * 4
    assert g.ndata["ntype"].tolist() == [0, 0, 0]
    one_way = sg.data.WN18Dataset(False, raw_dir=tmp_path, verbose=False)[0]
    assert pairs(one_way) == forward


def test_knowledge_that_is_damaged(tmp_path, rng, monkeypatch):
    write_words(tmp_path, "FB15k", "a\ts\tb\nb\tr\n")
    with pytest.raises(smex.SmexValueError, match="line 2 of .*train.txt: expected three names"):
        sg.data.FB15kDataset(raw_dir=tmp_path)
    with pytest.raises(smex.SmexValueError, match='load_data: expected "FB15k-237", .*found \'fb'):
        knowledge_graph.load_data("fb")
    published.write_knowledge_graph(tmp_path / "all", rng, "FB15k-237", 20, 4, (30, 5, 6))
    monkeypatch.setenv("SMEX_DATA", str(tmp_path / "all"))
    g = knowledge_graph.load_data("FB15k-237")[0]
    assert g.num_edges() == 82 and int(g.edata["test_edge_mask"].sum()) == 6


# ---- ratings ----


@pytest.mark.parametrize(
    ("name", "test_ratio"), [("ml-100k", None), ("ml-1m", 0.2), ("ml-10m", 0.3)]
)
def test_ratings(tmp_path, rng, name, test_ratio):
    where = published.write_movielens(tmp_path, rng, name, 15, 30, 80, 4)
    data = sg.data.MovieLensDataset(name, 0.25, test_ratio, raw_dir=tmp_path)
    g = data[0]
    text = "".join((where / file).read_text() for file in data._source.ratings)
    rows = [tuple(map(int, line.replace("::", "\t").split("\t"))) for line in text.splitlines()]
    users, films = (sorted({row[side] for row in rows}) for side in (0, 1))
    found = pairs(g, "user-movie")
    stars = g.edges["user-movie"].data["rate"].tolist()
    assert sorted((users[u], films[f], s) for (u, f), s in zip(found, stars)) == sorted(
        row[:3] for row in rows
    )
    assert pairs(g, "movie-user") == [(v, u) for u, v in found]
    parts = [g.edges["movie-user"].data[f"{p}_mask"].int() for p in ("train", "valid", "test")]
    assert sum(parts).max() == 1 and all(part.sum() > 0 for part in parts)
    assert g.nodes["movie"].data["feat"].dtype == torch.float32 and data.graph is g
    people = g.nodes["user"].data["feat"]
    if name == "ml-10m":
        assert people.tolist() == [[0.0]] * len(users)
    else:
        assert people[:, 2:].sum(1).tolist() == [1.0] * len(users) and len(data.genres) > 17


def test_ratings_that_do_not_exist(tmp_path):
    with pytest.raises(smex.SmexValueError, match="a name among ml-100k, ml-1m, ml-10m, found"):
        sg.data.MovieLensDataset("ml-5k", 0.1)
    for shares in ((0.0,), (1.0,)):
        with pytest.raises(smex.SmexValueError, match="above 0 that sum to less than 1, found"):
            sg.data.MovieLensDataset("ml-100k", *shares)
    for shares in ((0.5, None), (0.5, 0.5)):
        with pytest.raises(smex.SmexValueError, match="above 0 that sum to less than 1, found"):
            sg.data.MovieLensDataset("ml-1m", *shares)


# ---- one graph ----


@pytest.mark.parametrize(("name", "nodes", "first"), [("yelp", 90, 0), ("amazon", 3400, 3305)])
def test_fraud(tmp_path, rng, name, nodes, first):
    io = pytest.importorskip("scipy.io", reason="scipy is not installed")
    where = published.write_fraud(tmp_path, rng, name, nodes, 300)
    data = sg.data.FraudDataset(name, raw_dir=tmp_path, train_size=0.5, val_size=0.3)
    g = data[0]
    (file,) = where.glob("*.mat")
    parts = io.loadmat(file)
    for source, relation, target in g.canonical_etypes:
        assert source == target == {"yelp": "review", "amazon": "user"}[name]
        assert set(pairs(g, relation)) == set(zip(*(e.tolist() for e in parts[relation].nonzero())))
    features = torch.from_numpy(parts["features"].toarray()).float()
    torch.testing.assert_close(g.ndata["feature"], features)
    assert g.ndata["label"].tolist() == parts["label"][0].astype(int).tolist()
    masks = torch.stack([g.ndata[f"{part}_mask"] for part in ("train", "val", "test")]).int()
    assert masks.sum(0).tolist() == [0] * first + [1] * (nodes - first)
    size = nodes - first
    assert masks.sum(1)[:2].tolist() == [int(0.5 * size), int(0.3 * size)]
    assert data.graph is g and data.num_classes == 2 and len(data) == 1


def test_fraud_that_does_not_exist(tmp_path):
    with pytest.raises(smex.SmexValueError, match='expected "yelp" or "amazon", found'):
        sg.data.FraudDataset("ebay")
    with pytest.raises(smex.SmexValueError, match="sum to at most 1, found 0.7 and 0.4"):
        sg.data.FraudYelpDataset(val_size=0.4)


@pytest.mark.parametrize("kind", ["coo", "csr", "csc"])
def test_graphs_of_saint(tmp_path, rng, kind):
    sparse = pytest.importorskip("scipy.sparse", reason="scipy is not installed")
    where = published.write_saint(tmp_path, rng, "flickr", 50, 100, 6, 7)
    matrix = sparse.load_npz(where / "adj_full.npz").asformat(kind)
    sparse.save_npz(where / "adj_full.npz", matrix)
    data = sg.data.FlickrDataset(raw_dir=tmp_path)
    g = data[0]
    assert sorted(pairs(g)) == sorted(zip(*(e.tolist() for e in matrix.nonzero())))
    assert g.ndata["feat"].shape == (50, 6) and data.num_classes == 7
    masks = torch.stack([g.ndata[f"{part}_mask"] for part in ("train", "val", "test")]).int()
    assert masks.sum(0).tolist() == [1] * 50 and masks.sum(1).tolist() == [25, 12, 13]
    again = sg.data.FlickrDataset(raw_dir=tmp_path, reorder=True)[0]
    assert again.num_edges() == g.num_edges() and again.ndata["label"].shape == (50,)
    published.write_saint(tmp_path, rng, "yelp", 50, 100, 6, 100)
    yelp = sg.data.YelpDataset(raw_dir=tmp_path)
    assert yelp[0].ndata["label"].shape == (50, 100) and yelp.num_classes == 100
    np.savez(where / "adj_full.npz", format=b"bsr", data=np.zeros(1), shape=(1, 1))
    with pytest.raises(smex.SmexValueError, match="is no sparse matrix: expected csr, csc or coo"):
        sg.data.FlickrDataset(raw_dir=tmp_path)


def test_wikics(tmp_path, rng):
    pytest.importorskip("scipy", reason="scipy is not installed")
    published.write_wikics(tmp_path, rng, 40, 90, 5, 4, 3)
    data = sg.data.WikiCSDataset(raw_dir=tmp_path)
    g = data[0]
    edges = pairs(g)
    assert set(edges) == {(v, u) for u, v in edges} and data.num_classes == 10
    assert g.ndata["train_mask"].shape == g.ndata["stopping_mask"].shape == (40, 3)
    assert g.ndata["test_mask"].sum() == 20 and g.ndata["feat"].shape == (40, 5)
    assert not (g.ndata["train_mask"] & g.ndata["test_mask"][:, None]).any()


@pytest.mark.parametrize(
    "name", ["Texas", "Cornell", "Wisconsin", "Chameleon", "Squirrel", "Actor"]
)
def test_geom_gcn(tmp_path, rng, name):
    where = published.write_geom_gcn(tmp_path, rng, name.lower(), 30, 50, 12)
    data = getattr(sg.data, f"{name}Dataset")(raw_dir=tmp_path)
    g = data[0]
    lines = (where / "out1_graph_edges.txt").read_text().split()[2:]
    assert pairs(g) == list(zip(map(int, lines[1::2]), map(int, lines[::2])))
    assert g.ndata["feat"].shape == (30, 12) and set(g.ndata["feat"].unique().tolist()) == {0, 1}
    rows = [line.split("\t") for line in (where / "out1_node_feature_label.txt").open()][1:]
    assert g.ndata["label"].tolist() == [int(row[2]) for row in rows] and data.num_classes == 5
    masks = [g.ndata[f"{part}_mask"].int() for part in ("train", "val", "test")]
    assert torch.equal(sum(masks), torch.ones(30, 10, dtype=torch.int32))


# ---- molecules ----


def test_qm7b(tmp_path, rng):
    io = pytest.importorskip("scipy.io", reason="scipy is not installed")
    published.write_qm7b(tmp_path, rng, 4, 9)
    parts = io.loadmat(tmp_path / "qm7b.mat")
    data = sg.data.QM7bDataset(raw_dir=tmp_path)
    for n, (g, label) in enumerate(data):
        matrix = torch.from_numpy(parts["X"][n])
        src, dst = g.edges()
        assert torch.equal(g.edata["h"][:, 0], matrix[src, dst])
        assert g.num_edges() == int((matrix != 0).sum()) and label.shape == (14,)
    assert len(data) == 4 and data.num_tasks == data.num_labels == data.num_classes == 14
    assert torch.equal(data.label, torch.from_numpy(parts["T"]))


def test_qm9(tmp_path, rng):
    published.write_qm9(tmp_path, rng, 5, 8)
    data = sg.data.QM9Dataset(["U0", "mu"], cutoff=2.0, raw_dir=tmp_path)
    with np.load(tmp_path / "qm9_eV.npz") as parts:
        parts = dict(parts)
    start = 0
    for n, (g, label) in enumerate(data):
        size = int(parts["N"][n])
        places = torch.from_numpy(parts["R"][start : start + size])
        near = (torch.cdist(places, places) <= 2.0).fill_diagonal_(False)
        assert g.num_nodes() == size and g.idtype == torch.int32
        assert pairs(g) == list(map(tuple, near.nonzero().tolist()))
        assert g.ndata["Z"].tolist() == parts["Z"][start : start + size].tolist()
        torch.testing.assert_close(label, torch.tensor([parts["U0"][n], parts["mu"][n]]).float())
        start += size
    assert data.num_tasks == data.num_labels == data.num_classes == 2 and len(data) == 5
    assert data[-1][0].num_nodes() == data[4][0].num_nodes()
    with pytest.raises(smex.SmexValueError, match="has no fly, expected names among Cv, G"):
        sg.data.QM9Dataset(["fly"], raw_dir=tmp_path)
    with pytest.raises(IndexError, match="from 0 to 4, found 5"):
        data[5]


def test_qm9_is_downloaded_to_where_subclasses_read_it(tmp_path, rng, monkeypatch):
    (tmp_path / "server").mkdir()
    published.write_qm9(tmp_path / "server", rng, 5, 8)
    address = (tmp_path / "server" / "qm9_eV.npz").as_uri()
    monkeypatch.setattr(sg.data.QM9Dataset, "url", address)
    data = sg.data.QM9Dataset(["U0"], raw_dir=tmp_path / "raw")
    assert len(np.load(f"{data.raw_dir}/qm9_eV.npz")["N"]) == len(data) == 5


def test_qm9_edge(tmp_path, rng):
    published.write_qm9_edge(tmp_path, rng, 5, 8)
    data = sg.data.QM9EdgeDataset(["C", "mu"], raw_dir=tmp_path)
    with np.load(tmp_path / "qm9_edge.npz") as parts:
        parts = dict(parts)
    assert [g.num_nodes() for g, _ in data] == parts["n_node"].tolist()
    assert torch.equal(
        torch.cat([g.edata["edge_attr"] for g, _ in data]), torch.from_numpy(parts["edge_attr"])
    )
    assert [v for g, _ in data for v in g.edges()[1].tolist()] == parts["dst"].tolist()
    assert torch.equal(
        torch.cat([g.ndata["attr"] for g, _ in data]), torch.from_numpy(parts["node_attr"])
    )
    labels = torch.stack([label for _, label in data])
    torch.testing.assert_close(labels, torch.from_numpy(parts["targets"][:, [18, 0]]).float())
    assert data.num_tasks == data.num_labels == 2
    every = sg.data.QM9EdgeDataset(raw_dir=tmp_path)
    assert every[0][1].shape == (1, 19) and every.num_tasks == 19
    with pytest.raises(smex.SmexValueError, match="expected label_keys among mu, .*found 'fly'"):
        sg.data.QM9EdgeDataset(["fly"], raw_dir=tmp_path)


# ---- many graphs ----


@pytest.mark.parametrize("mode", ["node_label", "node_attr", "constant"])
def test_legacy_tu(tmp_path, rng, mode):
    options = {"node_labels": 3 * (mode == "node_label"), "attributes": 4 * (mode == "node_attr")}
    published.write_tu(tmp_path, rng, "T", 9, 3, **options)
    data = sg.data.LegacyTUDataset("T", hidden_size=5, raw_dir=tmp_path)
    modern = sg.data.TUDataset("T", raw_dir=tmp_path)
    width = {"node_label": 3, "node_attr": 4, "constant": 5}[mode]
    for (g, label), (h, other) in zip(data, modern):
        assert sorted(pairs(g)) == sorted(pairs(h)) and label == other[0] and label.dim() == 0
        assert g.ndata["feat"].shape == (h.num_nodes(), width) and sg.NID in g.ndata
        if mode == "node_label":
            assert torch.equal(g.ndata["feat"].argmax(1), h.ndata["node_labels"][:, 0])
        if mode == "node_attr":
            assert torch.equal(g.ndata["feat"], h.ndata["node_attr"])
    assert data.data_mode == mode and data.num_labels == data.num_classes == 3
    assert data.statistics() == (width, 3, data.max_num_node)
    small = sg.data.LegacyTUDataset("T", max_allow_node=12, raw_dir=tmp_path)
    kept = [n for n, (g, _) in enumerate(modern) if g.num_nodes() <= 12]
    assert small.graph_labels.tolist() == data.graph_labels[kept].tolist()
    assert len(small) == len(kept) and small.max_num_node == 12


def test_tu_files_as_programs_read_them(tmp_path, rng):
    published.write_tu(tmp_path, rng, "T", 4, node_labels=3)
    for kind in (sg.data.LegacyTUDataset, sg.data.TUDataset):
        data = kind("T", raw_dir=tmp_path)
        labels = data._idx_from_zero(np.loadtxt(data._file_path("node_labels"), dtype=int))
        rows = data._to_onehot(labels)
        assert rows.shape == (sum(g.num_nodes() for g in data.graph_lists), 3)
        assert (rows.argmax(1) == labels).all() and (rows.sum(1) == 1).all()


def test_a_folder_for_what_programs_make(tmp_path, rng, monkeypatch):
    published.write_tu(tmp_path / "kept", rng, "T", 5)
    monkeypatch.setenv("SMEX_DATA", str(tmp_path / "kept"))
    for _ in range(2):
        data = sg.data.LegacyTUDataset("T", raw_dir=tmp_path / "own")
        assert data.raw_path.startswith(str(tmp_path / "kept")) and len(data) == 5
        (pathlib.Path(data.save_path) / "mark.json").write_text("{}")


def test_legacy_tu_that_is_damaged(tmp_path, rng):
    where = published.write_tu(tmp_path, rng, "T", 5)
    labels = where / "T_graph_labels.txt"
    labels.rename(where / "T_graph_attributes.txt")
    data = sg.data.LegacyTUDataset("T", raw_dir=tmp_path)
    assert data.graph_labels.dtype == torch.float64 and data.num_classes == 0
    (where / "T_graph_attributes.txt").unlink()
    with pytest.raises(smex.SmexValueError, match=r"LegacyTUDataset: expected .*found neither"):
        sg.data.LegacyTUDataset("T", raw_dir=tmp_path)
    (where / "T_node_labels.txt").write_text("1\n2\n")
    with pytest.raises(smex.SmexValueError, match="a line for each of .* nodes, found 2"):
        sg.data.LegacyTUDataset("T", raw_dir=tmp_path)


def test_fake_news(tmp_path, rng):
    pytest.importorskip("scipy", reason="scipy is not installed")
    where = published.write_fakenews(tmp_path, rng, num_graphs=12, most=7, widths={"spacy": 3})
    data = sg.data.FakeNewsDataset("politifact", "spacy", raw_dir=tmp_path)
    sizes = np.bincount(np.load(where / "node_graph_id.npy"))
    assert [g.num_nodes() for g in data.graphs] == sizes.tolist() and data.num_graphs == 12
    assert all(g.num_edges() == g.num_nodes() - 1 for g in data.graphs)
    nodes = torch.cat([g.ndata[sg.NID] for g in data.graphs])
    assert nodes.tolist() == list(range(len(nodes))) and data.feature.shape == (len(nodes), 3)
    ready = sg.data.AsGraphPredDataset(data)
    assert ready.val_idx.tolist() == sorted(np.load(where / "val_idx.npy").tolist())
    assert ready.num_tasks == 1 and ready.num_classes == 2
    for names in (("snopes", "bert"), ("gossipcop", "face")):
        with pytest.raises(smex.SmexValueError, match='"gossipcop" or "politifact", and a feature'):
            fakenews.FakeNewsDataset(*names)


def test_motifs_in_a_file(tmp_path, rng):
    where = published.write_ba_2motif(tmp_path, rng, 6)
    data = sg.data.BA2MotifDataset(raw_dir=tmp_path)
    matrices, features, labels = sg.data.load_pickle(where / "BA-2motif.pkl")
    for n, (g, label) in enumerate(data):
        assert pairs(g) == list(map(tuple, np.argwhere(matrices[n]).tolist()))
        assert torch.equal(g.ndata["feat"], torch.from_numpy(features[n])) and label == labels[n]
    assert len(data) == 6 and data.num_classes == 2
    (where / "BA-2motif.pkl").write_bytes(pickle.dumps([1]))
    with pytest.raises(smex.SmexValueError, match="expected matrices, features and labels in"):
        sg.data.BA2MotifDataset(raw_dir=tmp_path)


def test_pairs_of_fields(tmp_path, rng):
    sparse = pytest.importorskip("scipy.sparse", reason="scipy is not installed")
    where = published.write_cora_binary(tmp_path, rng, 3, 8, 12)
    data = sg.data.CoraBinary(raw_dir=tmp_path)
    for g, matrix, labels in data:
        assert isinstance(matrix, sparse.coo_matrix) and labels.shape == (8,)
        assert matrix.toarray().argmax(0).tolist() == g.edges()[0].tolist()
    g, matrix, labels = data.collate_fn([data[0], data[1]])
    assert g.batch_size == 2 and matrix.shape == (g.num_nodes(), g.num_edges())
    assert labels.tolist() == [*data.labels[0], *data.labels[1]]
    (where / "labels.txt").write_text("graph 0\n1\n")
    with pytest.raises(smex.SmexValueError, match="found 3, 3 and 1"):
        sg.data.CoraBinary(raw_dir=tmp_path)


@pytest.mark.parametrize(
    ("kind", "file", "classes"),
    [
        ("CLUSTER", "cluster/CLUSTER", 6),
        ("PATTERN", "pattern/SBM_PATTERN", 2),
        ("ZINC", "zinc/ZincDGL", 0),
    ],
)
def test_graphs_that_dgl_wrote(tmp_path, rng, kind, file, classes):
    ids = np.array([0, 1, 2]), np.array([1, 2, 0])
    ndata = {"_N": {"feat": np.array([1, 0, 5]), "label": np.array([0, 1, 1])}}
    content = published.graph({("_N", "_E", "_N"): ids}, {"_N": 3}, ndata, {})
    labels = {"g_label": rng.random(2, np.float32)}
    published.write_dgl_graphs(tmp_path / f"{file}_valid.bin", [content, content], labels)
    data = getattr(sg.data, f"{kind}Dataset")("valid", raw_dir=tmp_path)
    g = data[1] if classes else data[1][0]
    assert len(data) == 2 and pairs(g) == [(0, 1), (1, 2), (2, 0)] and data.mode == "valid"
    assert g.ndata["feat"].tolist() == [1, 0, 5]
    if classes:
        assert data.num_classes == classes
    else:
        assert data[1][1] == labels["g_label"][1] and data.num_atom_types == 28
    with pytest.raises(smex.SmexValueError, match="expected mode 'train', 'valid' or 'test'"):
        getattr(sg.data, f"{kind}Dataset")("dev", raw_dir=tmp_path)


@pytest.mark.parametrize("use_feature", [False, True])
@pytest.mark.parametrize(
    ("name", "kind", "width"), [("mnist", "MNIST", 3), ("cifar10", "CIFAR10", 5)]
)
def test_superpixels(tmp_path, rng, name, kind, width, use_feature):
    published.write_superpixels(tmp_path, rng, name, "test", 12, 1, 30)
    data = getattr(sg.data, f"{kind}SuperPixelDataset")(tmp_path, "test", use_feature)
    for g, label in data:
        number = g.num_nodes()
        assert g.ndata["feat"].shape == (number, width) and label.dim() == 0
        degree = 8 if number > 9 else max(number - 1, 1)
        assert g.out_degrees().tolist() == [degree] * number
        src, dst = g.edges()
        assert number == 1 or (src != dst).all()
        if number > 20 and not use_feature:  # the nearest ones but for their different units
            places = g.ndata["feat"][:, -2:]
            far = torch.cdist(places, places)
            assert far[src, dst].mean() < far.mean()
        assert ((g.edata["feat"] >= 0) & (g.edata["feat"] <= 1)).all()
    assert len(data) == 12 and data.split == "test"
    with pytest.raises(smex.SmexValueError, match="expected split 'train' or 'test', found 'dev'"):
        getattr(sg.data, f"{kind}SuperPixelDataset")(tmp_path, "dev")


@pytest.mark.parametrize(
    ("name", "kind", "classes"), [("PascalVOC-SP", "VOC", 21), ("COCO-SP", "COCO", 81)]
)
def test_pictures_of_the_long_range_benchmark(tmp_path, rng, name, kind, classes):
    where = published.write_long_range(tmp_path, rng, name, "val", 4)
    data = getattr(sg.data, f"{kind}SuperpixelsDataset")(tmp_path, "val")
    found = pickle.loads((where / "val.pickle").read_bytes())
    for g, (x, edge_attr, edges, y) in zip(data, found):
        assert pairs(g) == list(zip(*edges.tolist())) and torch.equal(g.ndata["label"], y)
        assert torch.equal(g.ndata["feat"], x) and torch.equal(g.edata["feat"], edge_attr.float())
    assert len(data) == 4 and data.num_classes == classes and len(data[torch.tensor([1])]) == 1
    with pytest.raises(smex.SmexValueError, match="found 'val', 20 and 'edge_wt_region_boundary'"):
        getattr(sg.data, f"{kind}SuperpixelsDataset")(tmp_path, "val", slic_compactness=20)


@pytest.mark.parametrize(("kind", "name"), [("func", "Functional"), ("struc", "Structural")])
def test_peptides(tmp_path, rng, kind, name, monkeypatch):
    where = published.write_peptides(tmp_path, rng, kind)
    make, calls = getattr(sg.data, f"Peptides{name}Dataset"), []

    def chain(smiles):
        calls.append(smiles)
        return published.chain_of_smiles(smiles)

    data = make(raw_dir=tmp_path, smiles2graph=chain)
    with gzip.open(data.raw_data_path, "rt") as file:
        assert [line.split(",")[1] for line in list(file)[1:]] == calls and len(calls) == 20
    for smiles, (g, label) in zip(calls, data, strict=True):
        assert g.num_nodes() == len(smiles) and g.ndata["feat"].shape[1] == data.num_atom_types
        assert g.edata["feat"].shape == (2 * len(smiles) - 2, data.num_bond_types)
        assert label.shape == (10 if kind == "func" else 11,) and label.dtype == torch.float32
    again = make(raw_dir=tmp_path, smiles2graph=chain)
    assert len(calls) == 20 and torch.equal(again.labels, data.labels)
    assert sorted(torch.cat(list(again.get_idx_split().values())).tolist()) == list(range(20))
    make(raw_dir=tmp_path, smiles2graph=chain, force_reload=True)
    assert len(calls) == 40
    monkeypatch.setitem(sys.modules, "ogb.utils", None)
    with pytest.raises(smex.SmexImportError, match="the package ogb is not installed"):
        make(raw_dir=tmp_path, force_reload=True)
    with gzip.open(where / data._files()[0], "wt") as file:
        file.write("smiles,other\nCC,1\n")
    with pytest.raises(smex.SmexValueError, match="expected the columns smiles, .* found smiles, "):
        make(raw_dir=tmp_path, force_reload=True)


def test_kinds_of_coco_are_numbered_without_gaps():
    kinds = torch.tensor([0, 11, 13, 25, 27, 28, 31, 90])
    found = sg.data.COCOSuperpixelsDataset._labels(None, kinds)
    assert found.tolist() == [0, 11, 12, 24, 25, 26, 27, 80]


# ---- graphs in time ----


def test_trust(tmp_path, rng):
    where = published.write_bitcoinotc(tmp_path, rng, 20, 80, 100)
    data = sg.data.BitcoinOTCDataset(raw_dir=tmp_path)
    rows = np.loadtxt(where / "bitcoinotc.csv", delimiter=",").astype(np.int64)
    step = np.round((rows[:, 3] - rows[0, 3]) / (14 * 86400))
    assert len(data) == step.max() and data.is_temporal
    for n, g in enumerate(data):
        kept = rows[step <= n]
        assert pairs(g) == list(map(tuple, (kept[:, :2] - 1).tolist()))
        assert g.edata["h"].tolist() == kept[:, 2:3].tolist()
    assert data.graphs[0].num_edges() == data[0].num_edges()


@pytest.mark.parametrize(("name", "step"), [("ICEWS18", 24), ("GDELT", 15)])
def test_events(tmp_path, rng, name, step):
    where = published.write_events(tmp_path, rng, name, 20, (40, 10, 10), (5, 2, 2))
    for mode, steps in (("train", range(5)), ("valid", range(5, 7)), ("TEST", range(7, 9))):
        data = getattr(sg.data, name)(mode, raw_dir=tmp_path)
        rows = np.loadtxt(where / f"{mode.lower()}.txt", dtype=np.int64)
        assert data.start_time == steps[0] and data.end_time == rows[:, 3].max() // step
        for n, g in enumerate(data):
            kept = rows[rows[:, 3] // step <= steps[n]]
            assert pairs(g) == list(map(tuple, kept[:, [0, 2]].tolist()))
            assert g.edata["rel_type"].tolist() == kept[:, 1:2].tolist()
    assert data.is_temporal and data.mode == "test"
    with pytest.raises(smex.SmexValueError, match="expected mode 'train', 'valid' or 'test'"):
        getattr(sg.data, name)("dev", raw_dir=tmp_path)


# ---- names of earlier times ----


def test_citations_by_their_former_names(tmp_path, rng):
    pytest.importorskip("scipy", reason="scipy is not installed")
    networkx = pytest.importorskip("networkx", reason="networkx is not installed")
    published.write_planetoid(tmp_path, rng, "cora", 600, 900, 30, 4, 5, 20)
    data = sg.data.citation_graph.load_cora(tmp_path, verbose=False)
    g = data[0]
    assert isinstance(data.graph, networkx.DiGraph) and data.graph.number_of_nodes() == 600
    for name, feature in (("features", "feat"), ("labels", "label"), ("train_mask", "train_mask")):
        assert torch.equal(getattr(data, name), g.ndata[feature])
    masks = torch.stack([data.train_mask, data.val_mask, data.test_mask])
    assert masks.sum(1).tolist() == [20, 500, 20]
    assert torch.bincount(data.labels[data.train_mask]).tolist() == [5] * 4


def test_functions_that_name_data_sets(tmp_path, rng, monkeypatch):
    monkeypatch.setenv("SMEX_DATA", str(tmp_path))
    pytest.importorskip("scipy", reason="scipy is not installed")
    published.write_gnn_benchmark(tmp_path, rng, "coauthor_cs", 50, 90, 12, 15)
    published.write_gnn_benchmark(tmp_path, rng, "amazon_co_buy_photo", 50, 90, 12, 8, False)
    assert sg.data.Coauthor("cs")[0].num_nodes() == 50
    assert sg.data.AmazonCoBuy("photo").num_classes == 8
    with pytest.raises(
        smex.SmexValueError, match='Coauthor: expected the name "cs" or "physics", found'
    ):
        sg.data.Coauthor("maths")
    assert sg.data.CoraFull is sg.data.CoraFullDataset and sg.data.citegrh is sg.data.planetoid
    published.write_ppi(tmp_path, rng, 10, 20)
    g, feat, label = sg.data.LegacyPPIDataset("valid")[0]
    assert torch.equal(feat, g.ndata["feat"]) and label.shape == (10, 121)


# ---- what else is written ----


def test_files_of_data_sets_that_were_there_before(tmp_path, rng):
    pytest.importorskip("scipy", reason="scipy is not installed")
    published.write_reddit(tmp_path, rng, 60, 200, 8, 5)
    published.write_reddit(tmp_path, rng, 60, 200, 8, 5, self_loop=True)
    loops = sg.data.RedditDataset(self_loop=True, raw_dir=tmp_path)[0]
    assert loops.has_edges_between(torch.arange(60), torch.arange(60)).all()
    assert sg.data.RedditDataset(raw_dir=tmp_path).num_classes == 5
    published.write_heterophilous(tmp_path, rng, num_nodes=40, num_pairs=90)
    assert sg.data.MinesweeperDataset(raw_dir=tmp_path, verbose=False).num_classes == 2
    published.write_gin(tmp_path, rng, num_graphs=10)
    assert len(sg.data.GINDataset("MUTAG", False, raw_dir=tmp_path)) == 10
    published.write_ppi(tmp_path, rng, 10, 20)
    assert [len(sg.data.PPIDataset(m, raw_dir=tmp_path)) for m in ("train", "test")] == [20, 2]
    published.write_sst(tmp_path, rng, (10, 4, 3))
    trees = sg.data.SSTDataset("train", raw_dir=tmp_path)
    assert len(trees) == 10 and trees.vocab_size == 20 and (trees[0].ndata["x"] >= 0).any()
    published.write_ogb_nodes(tmp_path, rng, num_nodes=50, num_pairs=90, width=4, num_classes=5)
    arxiv = sg.data.DglNodePropPredDataset("ogbn-arxiv", tmp_path)
    assert arxiv.num_classes == 5 and arxiv[0][0].ndata["year"].shape == (50, 1)
    published.write_ogb_graphs(tmp_path, rng, num_graphs=10, num_tasks=3)
    assert sg.data.DglGraphPropPredDataset("ogbg-molhiv", tmp_path).num_tasks == 3
    where = published.write_ogb_links(tmp_path, rng, num_nodes=50, num_pairs=90, width=4)
    assert torch.load(where / "split" / "time" / "test.pt")["edge_neg"].shape == (1000, 2)


def test_files_of_ogb_with_columns_of_their_own(tmp_path, rng):
    small = {"num_nodes": 60, "num_pairs": 200}
    published.write_ogb_nodes(
        tmp_path, rng, "ogbn-proteins", **small, width=0, split="species", num_tasks=5, edge_width=8
    )
    g, labels = sg.data.DglNodePropPredDataset("ogbn-proteins", tmp_path)[0]
    assert labels.shape == (60, 5) and g.ndata["species"].shape == (60, 1)
    assert g.edata["feat"].shape == (g.num_edges(), 8) and "feat" not in g.ndata
    where = published.write_ogb_links(tmp_path, rng, "ogbl-citation2", **small, num_negative=7)
    valid = torch.load(where / "split" / "time" / "valid.pt")
    assert valid["target_node_neg"].shape == (len(valid["source_node"]), 7)
    where = published.write_ogb_links(tmp_path, rng, "ogbl-vessel", **small, width=3, split="near")
    assert np.load(where / "raw" / "data.npz")["node_feat"].shape == (60, 3)
    assert "edge_neg" in torch.load(where / "split" / "near" / "train.pt")
    raw = published.write_ogb_mag(tmp_path, rng, width=4) / "raw"
    writes = np.loadtxt(
        raw / "relations" / "author___writes___paper" / "edge.csv.gz", delimiter=","
    )
    assert writes.shape == (1200, 2) and (writes.max(0) < [300, 400]).all()
    assert np.loadtxt(raw / "node-label" / "paper" / "node-label.csv.gz").max() == 348


def test_files_of_graphbolt(tmp_path, rng):
    pytest.importorskip("yaml", reason="yaml is not installed")
    small = {"num_nodes": 60, "num_pairs": 200, "width": 4}
    where = published.write_graphbolt(tmp_path, rng, **small, num_classes=3, links=True)
    data = gb.OnDiskDataset(str(where)).load()
    assert data.graph.total_num_nodes == 60
    assert [task.metadata["name"] for task in data.tasks] == [
        "node_classification",
        "link_prediction",
    ]
    assert data.feature.read("node", None, "feat").shape == (60, 4)
    where = published.write_graphbolt_mag(tmp_path, rng, width=4)
    data = gb.OnDiskDataset(str(where)).load()
    assert data.graph.num_nodes["paper"] == 400 and len(data.graph.num_edges) == 8
    assert data.feature.read("node", "paper", "feat").shape == (400, 4)


# ---- communities ----


def test_sets_of_pairs_are_equally_likely():
    rng = np.random.default_rng(0)
    counts = np.zeros((6, 6))
    for _ in range(4000):
        drawn = sbm._drawn(rng, 6, 0.4)
        assert (np.diff(drawn) > 0).all()
        counts[drawn[:, None], drawn] += 1
    assert np.allclose(np.diag(counts) / 4000, 0.4, atol=0.03)
    assert np.allclose(counts[~np.eye(6, dtype=bool)] / 4000, 0.16, atol=0.03)
    assert sbm._drawn(rng, 5, 2.0).tolist() == list(range(5)) and not len(sbm._drawn(rng, 0, 0.5))


@pytest.mark.parametrize(("communities", "size"), [(1, 6), (3, 1), (4, 5)])
def test_every_pair_has_a_place(communities, size):
    nodes = communities * size
    within = sbm._within(np.arange(communities * sbm._pairs(size)), size)
    across = sbm._across(np.arange(sbm._pairs(communities) * size**2), size)
    assert (within[:, 0] // size == within[:, 1] // size).all()
    assert (across[:, 0] // size != across[:, 1] // size).all()
    every = np.concatenate([within, across])
    assert (every[:, 0] > every[:, 1]).all()
    assert sorted(map(tuple, every.tolist())) == [(u, v) for u in range(nodes) for v in range(u)]


def test_places_of_large_triangles():
    first = np.array([2**31, 2**31 + 1, 3_000_000_017])
    position = np.concatenate([first * (first - 1) // 2 + offset for offset in (-1, 0, 1)])
    row, column = sbm._triangle(position)
    assert (column >= 0).all() and (column < row).all()
    assert (row * (row - 1) // 2 + column == position).all()


def test_memory_of_sparse_communities():
    """100,000 nodes, of which a dense matrix would have 10 GB."""
    data = sg.data.SBMMixtureDataset(1, 100_000, 4, pq=[(3.0, 1.0)], rng=0)
    assert 140_000 < data[0][0].num_edges() < 160_000


def test_planetoid_that_dgl_has_downloaded(tmp_path, monkeypatch):
    published.write_planetoid(
        tmp_path / "new", np.random.default_rng(0), "cora", 600, 900, 30, 4, 5, 20
    )
    found = sg.data.CoraGraphDataset(raw_dir=tmp_path / "new", verbose=False)[0]
    (tmp_path / "cora_v2_d697a464").mkdir()
    for path in (tmp_path / "new" / "planetoid").iterdir():
        path.rename(tmp_path / "cora_v2_d697a464" / path.name.replace("cora", "cora_v2"))
    monkeypatch.setenv("DGL_DOWNLOAD_DIR", str(tmp_path))
    monkeypatch.delenv("SMEX_DATA", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    again = sg.data.CoraGraphDataset(raw_dir=tmp_path / "none", verbose=False)[0]
    assert torch.equal(again.ndata["feat"], found.ndata["feat"])
