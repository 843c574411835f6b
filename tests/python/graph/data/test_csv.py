"""Graphs in files of comma-separated values, and what is said of wrong ones."""

import importlib.util

import numpy as np
import pytest
import torch

import smex
import smex.graph as sg
from smex.graph.data import csv_files

pytest.importorskip("yaml", reason="pyyaml is not installed")

META = """
version: 1.0.0
dataset_name: games
node_data:
- {file_name: users.csv, ntype: user}
- {file_name: games.csv, ntype: game, node_id_field: title}
edge_data:
- {file_name: plays.csv, etype: [user, plays, game]}
- {file_name: follows.csv, etype: [user, follows, user]}
graph_data: {file_name: graphs.csv}
"""
FILES = {
    "meta.yaml": META,
    "users.csv": "graph_id,node_id,age,feat\n"
    '0,30,5,"1,2"\n0,10,6,"3,4"\n1,10,7,"5,6"\n0,20,8,"7,8"\n',
    "games.csv": "graph_id,title,fun\n0,go,0.5\n1,go,1.5\n0,chess,\n",
    "plays.csv": "graph_id,src_id,dst_id,hours\n0,20,go,1\n1,10,go,2\n0,30,chess,3\n",
    "follows.csv": "graph_id,src_id,dst_id\n0,10,20\n",
    "graphs.csv": 'graph_id,label,feat\n1,True,"1,2,3"\n0,False,"4,5,6"\n7,True,"0,0,0"\n',
}


def folder(path, **changed):
    for name, text in {**FILES, **changed}.items():
        (path / name.replace("_csv", ".csv").replace("_yaml", ".yaml")).write_text(text)
    return path


def test_graphs_of_several_types(tmp_path):
    data = sg.data.CSVDataset(folder(tmp_path), verbose=False)
    assert len(data) == 3 and data.name == "games" and list(data.data) == ["label", "feat"]
    g, found = data[1]
    assert found["label"].tolist() == [False] and found["feat"].tolist() == [4, 5, 6]
    assert g.num_nodes("user") == 3 and g.num_nodes("game") == 2  # by id: 10, 20, 30; chess, go
    assert g.nodes["user"].data["age"].tolist() == [6, 8, 5]
    assert g.nodes["user"].data["feat"].tolist() == [[3, 4], [7, 8], [1, 2]]
    assert g.nodes["game"].data["fun"].dtype == torch.float32
    assert g.nodes["game"].data["fun"].isnan().tolist() == [True, False]
    assert [e.tolist() for e in g.edges(etype="plays")] == [[1, 2], [1, 0]]
    assert [e.tolist() for e in g.edges(etype="follows")] == [[0], [1]]
    assert g.edges["plays"].data["hours"].tolist() == [1, 3]
    other = data[0][0]
    assert other.canonical_etypes == [("user", "plays", "game")]
    assert data[2][0].canonical_etypes == [("_V", "_E", "_V")] and data[2][0].num_nodes() == 0
    assert len(data[torch.tensor([2, 0])]) == 2
    with pytest.raises(IndexError):
        data[3]


def one_graph(path, **changed):
    meta = "dataset_name: one\nnode_data: [{file_name: n.csv}]\nedge_data: [{file_name: e.csv}]\n"
    files = {"meta.yaml": meta, "n.csv": "node_id,x\nb,1\na,2\n", "e.csv": "src_id,dst_id\na,b\n"}
    for name, text in {**files, **changed}.items():
        (path / name).write_text(text)
    return path


def test_one_graph_with_a_label_and_a_transform(tmp_path):
    calls = []
    data = sg.data.CSVDataset(one_graph(tmp_path), transform=lambda g: calls.append(g) or g)
    g = data[0]
    assert isinstance(g, sg.Graph) and calls and g.ndata["x"].tolist() == [2, 1]
    assert [e.tolist() for e in g.edges()] == [[0], [1]] and not hasattr(data, "labels")
    meta = (tmp_path / "meta.yaml").read_text() + "graph_data: {file_name: g.csv}\n"
    one_graph(tmp_path, **{"meta.yaml": meta, "g.csv": "graph_id,y\n0,4\n"})
    labelled = sg.data.CSVDataset(tmp_path)
    assert labelled.labels.tolist() == [[4]] and labelled[0][1].tolist() == [4]


def test_nodes_without_edges(tmp_path):
    g = sg.data.CSVDataset(one_graph(tmp_path, **{"e.csv": "src_id,dst_id\n"}))[0]
    assert g.num_nodes() == 2 and g.num_edges() == 0
    one = {"n.csv": "node_id,x\n5,1\n", "e.csv": "src_id,dst_id\n5,5\n"}
    assert sg.data.CSVDataset(one_graph(tmp_path, **one))[0].ndata["x"].tolist() == [1]


def test_parsers_of_ones_own(tmp_path):
    seen = []

    def parse(table):
        seen.append(sorted(table))
        return {"y": table["x"].to_numpy().squeeze() * 10, "n": np.arange(len(table))}

    data = sg.data.CSVDataset(one_graph(tmp_path), ndata_parser={"_V": parse}, edata_parser={})
    assert seen == [["x"]] and data[0].ndata["y"].tolist() == [20, 10]
    every = sg.data.CSVDataset(tmp_path, ndata_parser=parse, edata_parser=lambda table: {})
    assert every[0].ndata["n"].tolist() == [1, 0]


def test_other_separators_and_fields_without_names(tmp_path):
    meta = "dataset_name: x\nseparator: ;\nnode_data: [{file_name: n.csv}]\nedge_data: [{file_name: e.csv}]"
    files = {"n.csv": "node_id;;x\n1;9;'a'\n0;8;'b'\n", "e.csv": "src_id;dst_id\n0;1\n"}
    with pytest.raises(smex.SmexValueError, match='expected numbers as "x"'):
        sg.data.CSVDataset(one_graph(tmp_path, **{"meta.yaml": meta, **files}))
    files["n.csv"] = 'node_id;;x\n1;9;"[1,2]"\n0;8;(3,4)\n'
    g = sg.data.CSVDataset(one_graph(tmp_path, **{"meta.yaml": meta, **files}))[0]
    assert list(g.ndata) == ["x"] and g.ndata["x"].tolist() == [[3, 4], [1, 2]]


def test_nodes_are_predicted(tmp_path):
    masks = (
        "node_id,label,train_mask,val_mask,test_mask\n0,1,True,False,False\n1,0,False,True,True\n"
    )
    edges = {"e.csv": "src_id,dst_id\n0,1\n"}
    data = sg.data.CSVDataset(one_graph(tmp_path, **{"n.csv": masks}, **edges))
    assert data[0].ndata["train_mask"].dtype == torch.bool
    assert sg.data.AsNodePredDataset(data)[0].ndata["train_mask"].tolist() == [True, False]


@pytest.mark.skipif(importlib.util.find_spec("pandas") is None, reason="pandas is not installed")
def test_the_same_as_with_pandas(tmp_path, monkeypatch):
    theirs = sg.data.CSVDataset(folder(tmp_path))
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    ours = sg.data.CSVDataset(tmp_path)
    for (g, _), (h, _) in zip(ours, theirs):
        for ntype in g.ntypes:
            for name, rows in g.nodes[ntype].data.items():
                torch.testing.assert_close(rows, h.nodes[ntype].data[name], equal_nan=True)


def test_the_table():
    table = csv_files._Table({"x": np.arange(2), "y": np.zeros(2)}, 2)
    assert table.columns == ["x", "y"] and "x" in table and len(table) == 2
    assert table.pop("x").values.tolist() == [0, 1] and list(table) == ["y"]
    assert csv_files._typed(["1_0"]).dtype == object and csv_files._typed(["1e3"])[0] == 1000


def meta_with(old, new):
    return {"meta_yaml": META.replace(old, new)}


@pytest.mark.parametrize(
    ("changed", "text"),
    [
        (meta_with("dataset_name: games", ""), "expected dataset_name to be a str, found None"),
        (meta_with("1.0.0", "2.0"), "expected version 1.0.0, found 2.0"),
        (meta_with("file_name: plays.csv, ", ""), "expected file_name to be a str for each file"),
        (meta_with("ntype: game", "ntype: user"), 'expected one file for each node type, found two of "user"'),
        (meta_with("[user, plays, game]", "[user, plays, gem]"), "of ['game', 'user'], found ['user', 'plays', 'gem']"),
        (meta_with("plays.csv", "played.csv"), "which does not exist"),
        (meta_with(", node_id_field: title", ""), 'expected a field "node_id", found [\'graph_id\', \'title\', \'fun\']; meta.yaml'),
        ({"users_csv": "graph_id,node_id\n0,1,2\n"}, "line 2: expected 2 fields, found 3; put a field"),
        ({"games_csv": "title,fun\ngo,yes\n"}, "as \"fun\", found 'yes'; pass a parser"),
        ({"graphs_csv": "graph_id\n0\n"}, '"users.csv" has graph 1, which the file of graphs has not'),
        ({"users_csv": "graph_id,node_id\n1,1\n1,1\n"}, '"users.csv": expected each node once, found 1 twice'),
        ({"plays_csv": "src_id,dst_id\n10,go\n40,go\n"}, 'src_id of nodes of type "user" in the same graph, found 40'),
        ({"plays_csv": "src_id,dst_id\nten,go\n"}, 'src_id of nodes of type "user" in the same graph, found \'ten\''),
        ({"plays_csv": "src_id,dst_id\n10,go\n10,zo\n"}, 'dst_id of nodes of type "game" in the same graph, found \'zo\''),
    ],
)  # fmt: skip
def test_errors(tmp_path, changed, text):
    with pytest.raises(smex.SmexValueError) as error:
        sg.data.CSVDataset(folder(tmp_path, **changed))
    assert str(error.value).startswith("CSVDataset: ") and text in str(error.value)


def test_errors_of_folders_and_parsers(tmp_path):
    with pytest.raises(smex.SmexValueError, match="expected a file meta.yaml in"):
        sg.data.CSVDataset(tmp_path)
    with pytest.raises(smex.SmexValueError, match=r'a row of "x" for each of 2 lines, found shape'):
        sg.data.CSVDataset(one_graph(tmp_path), ndata_parser=lambda table: {"x": [1]})
