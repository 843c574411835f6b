"""Graphs of tables, as DGL's CSVDataset reads them."""

import pytest
import torch

import smex
import smex.graph as sg

pytest.importorskip("yaml", reason="PyYAML is not installed")

META = """\
dataset_name: pairs
edge_data:
- file_name: edges.csv
node_data:
- file_name: nodes.csv
graph_data:
  file_name: graphs.csv
"""
FILES = {
    "meta.yaml": META,
    "nodes.csv": 'graph_id,node_id,feat,x\n0,b,"0.5, 1",1\n0,a,"2, 3",2\n1,c,"4, 5",3\n',
    "edges.csv": "graph_id,src_id,dst_id,w\n0,a,b,0.5\n0,b,b,1.5\n1,c,c,2\n",
    "graphs.csv": "graph_id,label\n1,7\n0,8\n2,9\n",
}


def write(folder, **changes):
    changes = {name.replace("_", "."): text for name, text in changes.items()}
    for name, text in {**FILES, **changes}.items():
        (folder / name).write_text(text)
    return folder


def pairs(g, etype=None):
    return list(zip(*(ids.tolist() for ids in g.edges(etype=etype))))


def test_many_graphs(tmp_path):
    data = sg.data.CSVDataset(write(tmp_path), verbose=False)
    (first, label), (second, other), (third, _) = data
    assert pairs(first) == [(0, 0)] and pairs(second) == [(0, 1), (1, 1)]
    assert (third.num_nodes(), third.num_edges()) == (0, 0)
    assert label.tolist() == [7] and other.tolist() == [8] and data.labels.shape == (3, 1)
    assert second.ndata["feat"].tolist() == [[2, 3], [0.5, 1]]
    assert second.ndata["x"].tolist() == [2, 1] and second.ndata["x"].dtype == torch.int64
    assert second.edata["w"].tolist() == [0.5, 1.5] and second.edata["w"].dtype == torch.float32
    assert len(data[torch.tensor([2, 0])]) == 2 and data.name == "pairs"
    write(tmp_path, graphs_csv="graph_id,label,more\n0,1,2\n1,3,4\n")
    assert sg.data.CSVDataset(tmp_path)[1][1]["more"].tolist() == [4]


TYPED = """\
version: 1.0.0
dataset_name: one
separator: ;
node_data:
- {file_name: u.csv, ntype: user, node_id_field: name}
- {file_name: i.csv, ntype: item}
edge_data:
- {file_name: e.csv, etype: [user, buys, item], src_id_field: who}
"""


def test_types(tmp_path):
    texts = {"u": "name;age\n5;20\n3;30\n", "i": "node_id\n1\n2\n", "e": "who;dst_id\n5;2\n3;1\n"}
    for name, text in texts.items():
        (tmp_path / f"{name}.csv").write_text(text)
    (tmp_path / "meta.yaml").write_text(TYPED)
    g = sg.data.CSVDataset(tmp_path)[0]
    assert pairs(g, "buys") == [(1, 1), (0, 0)] and g.nodes["user"].data["age"].tolist() == [30, 20]


def test_parsers(tmp_path):
    pandas = pytest.importorskip("pandas", reason="pandas is not installed")

    def parse(frame):
        assert isinstance(frame, pandas.DataFrame) and "node_id" not in frame
        return {"double": 2 * frame["x"].to_numpy()}

    for parser in (parse, {"_V": parse}):
        g = sg.data.CSVDataset(write(tmp_path), ndata_parser=parser)[1][0]
        assert g.ndata["double"].tolist() == [4, 2] and "feat" not in g.ndata


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"meta_yaml": "dataset_name: a\n"}, "without node_data, edge_data"),
        ({"meta_yaml": "version: 2\n" + META}, "found version 2 without none of them"),
        ({"nodes_csv": "id\n1\n"}, "expected a column node_id in nodes.csv, found id"),
        ({"graphs_csv": "id\n1\n"}, "expected a column graph_id in graphs.csv, found id"),
        ({"graphs_csv": "graph_id\n1\n"}, r"the graphs \[0\] of the tables of nodes and edges"),
        ({"nodes_csv": "graph_id,node_id\n0,a\n0,a\n"}, "each node id once a graph in nodes.csv"),
        ({"edges_csv": "src_id,dst_id\na,z\n"}, "type .* ends at z, expected ids of the tables"),
    ],
)
def test_tables_that_do_not_fit(tmp_path, changes, text):
    with pytest.raises(smex.SmexValueError, match=text):
        sg.data.CSVDataset(write(tmp_path, **changes))


def test_rows_that_a_parser_loses(tmp_path, monkeypatch):
    class Frame(dict):
        DataFrame = staticmethod(lambda table: table)

    monkeypatch.setitem(__import__("sys").modules, "pandas", Frame())
    with pytest.raises(smex.SmexValueError, match="expected 3 rows of x in nodes.csv, found 1"):
        sg.data.CSVDataset(write(tmp_path), ndata_parser=lambda frame: {"x": frame["x"][:1]})
    with pytest.raises(smex.SmexValueError, match="expected .*meta.yaml, found no such file"):
        sg.data.CSVDataset(tmp_path / "nowhere")
