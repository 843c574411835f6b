"""The names of DGL in programs, and whether they are there."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from smex.graph import migrate

PROGRAM = """
import dgl as d
import dgl.function as fn, os
from dgl.nn import GraphConv as Conv, SAGEConv
from dgl.nn.pytorch.glob import SumPooling
from dgl.data import CoraGraphDataset
import dgl.nn.pytorch as dglnn
from . import dgl as other

g = d.graph(([0], [1]))
g = d.add_self_loop(g)
h = g.to("cpu").to_cugraph()
g.update_all(fn.copy_u("h", "m"), fn.sum("m", "h"))
d.optim.SparseAdam(g)
cora = CoraGraphDataset()[0]
cora.no_such_method()

class Net:
    def __init__(self, graph: d.DGLGraph):
        self.graph = graph
        self.conv = dglnn.GraphConv(2, 3)
        self.gone = dglnn.GroupRevRes(2, 3)

    def forward(self, x):
        return self.graph.sample_nothing(x), other.thing, os.path.sep
"""


def found(source):
    return {(use.line, use.name): use for use in migrate.uses(source)}


def test_names_and_lines():
    uses = found(PROGRAM)
    lines = PROGRAM.splitlines()
    there = {name for (_, name), use in uses.items() if use.found}
    assert {"dgl.function.copy_u", "dgl.nn.GraphConv", "dgl.nn.pytorch.GraphConv"} <= there
    assert {"dgl.DGLGraph.to", "dgl.DGLGraph.update_all", "dgl.data.CoraGraphDataset"} <= there
    missing = {name: line for (line, name), use in uses.items() if not use.found}
    for name in ("dgl.optim.SparseAdam", "dgl.DGLGraph.to_cugraph"):
        assert name.rpartition(".")[2] in lines[missing[name] - 1]
    assert {"dgl.DGLGraph.no_such_method", "dgl.DGLGraph.sample_nothing"} <= set(missing)
    assert not any("other" in name or name == "os" for _, name in uses)


def test_what_to_use():
    assert migrate.counterpart("dgl.DGLGraph.update_all") == (True, "smex.graph.Graph.update_all")
    assert migrate.counterpart("dgl.AddSelfLoop") == (True, "smex.graph.AddSelfLoop")
    assert migrate.counterpart("dgl.function.sum") == (True, "smex.graph.function.sum")
    assert migrate.counterpart("dgl.cuda.synchronize") == (False, "torch.cuda")
    assert migrate.counterpart("dgl.multiprocessing.Process")[0]
    assert migrate.counterpart("dgl.unheard_of") == (False, "see docs/from_dgl.md")
    assert migrate.counterpart("dgl.frame._private")[0] is False
    assert migrate.counterpart("dgl.data.utils._get_dgl_url")[0]
    assert found("from dgl import *")[1, "dgl.*"].found


PUBLIC = json.loads((Path(__file__).parent / "dgl_2_1_names.json").read_text())


def test_every_public_name_of_dgl_is_there_or_has_something_instead():
    page = (Path(__file__).parents[4] / "docs" / "from_dgl.md").read_text()
    silent = [
        f"{module}.{name}"
        for module, names in PUBLIC.items()
        for name in names
        if migrate.counterpart(f"{module}.{name}") == (False, "see docs/from_dgl.md")
    ]
    assert sum(map(len, PUBLIC.values())) > 700 and not silent
    for module, names in PUBLIC.items():
        for name in names:
            if migrate.counterpart(f"{module}.{name}")[0] or f"`{module}`" in page:
                continue
            parent = module.rpartition(".")[0]
            assert f"`{module}.{name}`" in page or f"`{parent}.{name}`" in page, name


def test_stages_of_pipelines():
    assert migrate.counterpart("dgl.graphbolt.ItemSampler.sample_neighbor")[0]
    assert migrate.counterpart("dgl.graphbolt.ItemSampler.map")[0]
    assert not migrate.counterpart("dgl.graphbolt.ItemSampler.sample_nothing")[0]


def test_names_of_modules_within_modules():
    for name in ("dgl.nn.NodeEmbedding", "dgl.nn.pytorch.sparse_emb.NodeEmbedding"):
        assert "torch.optim.SparseAdam" in migrate.counterpart(name)[1]
    assert migrate.counterpart("dgl.data.utils.save_tensors")[0]
    assert migrate.counterpart("dgl.data.utils.loadtxt")[0]
    assert migrate.counterpart("dgl.data.citation_graph.load_cora")[0]
    assert migrate.counterpart("dgl.sparse.sddmm") == (True, "smex.graph.sparse.sddmm")


@pytest.mark.parametrize(
    "name",
    [
        "nn.pytorch.conv.sageconv",
        "nn.pytorch.conv.sageconv.SAGEConv",
        "heterograph.DGLBlock",
        "merge.merge",
        "sparse.matmul.spmm",
        "dataloading.dataloader.GraphDataLoader",
    ],
)
def test_names_in_modules_of_their_own(name):
    assert migrate.counterpart(f"dgl.{name}") == (True, f"smex.graph.{name}")
    assert not migrate.counterpart(f"dgl.{name}.nothing")[0]


def test_names_that_are_elsewhere():
    assert migrate.counterpart("dgl.merge.nothing")[0] is False
    found = migrate.counterpart("dgl.data.csv_dataset_base.CSVDataset")
    assert found == (False, "smex.graph.data.CSVDataset")


def test_a_program_without_dgl():
    assert migrate.uses("import torch\ng = torch.zeros(3)\ng.update_all()") == []


def test_table_and_exit_code(tmp_path, capsys):
    good, bad = tmp_path / "good.py", tmp_path / "sub" / "bad.py"
    bad.parent.mkdir()
    good.write_text("import dgl\n\nprint(dgl.graph)\n")
    bad.write_text("import dgl\ndgl.use_libxsmm(True)\ndgl.NID\n")
    assert migrate.main([str(good)]) == 0
    text = capsys.readouterr().out
    assert "good.py:3" in text and "smex.graph.graph" in text and "0 of names" in text
    assert migrate.main([str(tmp_path)]) == 1
    text = capsys.readouterr().out
    assert "MISSING" in text and "nothing: leave it out" in text
    assert "2 programs: 3 uses of DGL, 1 of" in text
    assert migrate.main(["--json", "--missing", str(tmp_path)]) == 1
    (use,) = json.loads(capsys.readouterr().out)
    assert use["line"] == 2 and use["name"] == "dgl.use_libxsmm" and use["found"] is False


@pytest.mark.parametrize("text", [None, "def f(:", "a\0b"])
def test_what_cannot_be_read(tmp_path, capsys, text):
    path = tmp_path / "p.py"
    if text is not None:
        path.write_text(text)
    assert migrate.main([str(path)]) == 2
    assert "p.py cannot be read as Python" in capsys.readouterr().err
    (tmp_path / "q.py").write_text("import dgl\nprint(dgl.graph)\n")
    assert migrate.main([str(path), str(tmp_path / "q.py")]) == 2
    out, err = capsys.readouterr()
    assert "q.py:2" in out and "smex.graph.graph" in out and "cannot be read as Python" in err


def test_as_a_command(tmp_path):
    path = tmp_path / "p.py"
    path.write_text("from dgl.optim import SparseAdam\n")
    command = [sys.executable, "-m", "smex.graph.migrate", str(path)]
    result = subprocess.run(command, capture_output=True, text=True)
    assert (
        result.returncode == 1 and "torch.optim.SparseAdam" in result.stdout and not result.stderr
    )


# ---- attributes, methods and keywords ----

OBJECTS = """
import dgl
from dgl.data import PPIDataset, TUDataset, GINDataset
from dgl.dataloading import DataLoader, GraphDataLoader, NeighborSampler
from dgl.data.utils import download
from dgl.nn import GraphConv

train = PPIDataset(mode="train")
train.graphs
train.graph_list_path
tu = TUDataset("MUTAG")
tu.graph_lists[0].no_method_of_graphs()
tu.attr_dict
for first, label in tu:
    first.gone()
    label.gone()
data = dgl.data.CoraGraphDataset(no_such_option=1)
data.num_labels, data._g, data.save_name
data = data[0]
data.gone_too()
loader = DataLoader(data, [0], NeighborSampler([2], no_fanout=3), use_uva=True, num_workers=2)
plain = DataLoader(data, [0], NeighborSampler([2]), use_uva=False, batch_sise=4)
with loader.enable_cpu_affinity(loader_cores=[0], cores=3):
    for _, _, blocks in loader:
        blocks[0].gone_of_blocks()
for graphs, labels in GraphDataLoader(tu, batch_size=3):
    graphs.gone_of_graphs()
download("x", verify_ssl=False, verrify=True)
conv = GraphConv(2, 3, bias=False, allow_zero_in_degree=True).to("cuda")
conv(data, None, edge_weight=None, weigth=None)
conv.parameters(), conv.fc_of_dgl, conv.weight
data.update_all(None, None, etype=None, no_type=1)
data.mark = 3
data.mark
{n: g.gone_in_comprehension() for n, g in zip("a", train)}
[g.gone_in_list() for g in train]


class Model:
    def __init__(self, g):
        self.data, self.other = TUDataset("A"), dgl.graph(([], []))
        self.other = 3

    def forward(self, train, x=lambda data: data.of_an_argument):
        train.of_an_argument, self.data.attr_dict, self.other.unknown
        graph = train
        graph.of_a_variable


def later(data, DataLoader):
    data.of_an_argument
    DataLoader.of_an_argument
    return train.graph_list_path
"""


def test_attributes_methods_and_keywords():
    uses = migrate.uses(OBJECTS)
    missing = sorted(use.name for use in uses if not use.found)
    assert missing == sorted(
        [
            "dgl.DGLGraph.gone",
            "dgl.DGLGraph.gone_in_list",
            "dgl.DGLGraph.gone_of_blocks",
            "dgl.DGLGraph.gone_of_graphs",
            "dgl.DGLGraph.gone_too",
            "dgl.DGLGraph.no_method_of_graphs",
            "dgl.DGLGraph.update_all(no_type=)",
            "dgl.data.CoraGraphDataset(no_such_option=)",
            "dgl.data.CoraGraphDataset.save_name",
            "dgl.data.PPIDataset.graph_list_path",
            "dgl.data.PPIDataset.graph_list_path",
            "dgl.data.TUDataset.attr_dict",
            "dgl.data.TUDataset.attr_dict",
            "dgl.data.utils.download(verrify=)",
            "dgl.dataloading.DataLoader(batch_sise=)",
            "dgl.dataloading.DataLoader.enable_cpu_affinity(cores=)",
            "dgl.dataloading.NeighborSampler(no_fanout=)",
            "dgl.nn.GraphConv.fc_of_dgl",
            "dgl.nn.GraphConv.forward(weigth=)",
        ]
    )
    there = {use.name: use.use for use in uses if use.found}
    for name in (
        "data.PPIDataset.graphs",
        "data.TUDataset.graph_lists",
        "data.CoraGraphDataset.num_labels",
        "dataloading.DataLoader.enable_cpu_affinity",
    ):
        assert there[f"dgl.{name}"] == f"smex.graph.{name}"
    assert "dgl.nn.GraphConv.parameters" not in there
    (path,) = {use.use for use in uses if use.name.endswith("graph_list_path")}
    assert "processed data is not kept" in path
    line = next(use.line for use in uses if "verrify" in use.name)
    assert OBJECTS.splitlines()[line - 1].startswith("download")


def test_names_of_all_of_a_module():
    uses = found("from dgl import *\nfrom dgl.nn import *\nGraphConv\nNodeEmbedding\nprint(x)\n")
    assert uses[3, "dgl.nn.GraphConv"].found and not uses[4, "dgl.nn.NodeEmbedding"].found
    assert set(uses) == {
        (1, "dgl.*"),
        (2, "dgl.nn.*"),
        (3, "dgl.nn.GraphConv"),
        (4, "dgl.nn.NodeEmbedding"),
    }


# ---- notebooks ----


def notebook(cells, **metadata):
    listed = [
        {"cell_type": kind, "source": source, "metadata": {}, "outputs": []}
        for kind, source in cells
    ]
    return json.dumps({"cells": listed, "metadata": metadata, "nbformat": 4, "nbformat_minor": 5})


CELLS = [
    ("markdown", "# dgl.nothing"),
    ("code", ["%matplotlib inline\n", "!pip install \\\n", "  dgl\n", "import dgl"]),
    ("code", "%%bash\ndgl.this is no Python"),
    ("code", "%%time\ng = dgl.graph(([0], [1]))\n%timeit g.no_method()\nfiles = !ls\ng?\n?dgl"),
    ("code", "if g:\n    %time g.other_method()\n    !echo {g}\nawait g\nx = '''\n%d\n'''"),
]


def test_notebooks(tmp_path, capsys):
    path = tmp_path / "n.ipynb"
    path.write_text(notebook(CELLS))
    assert migrate.main(["--json", str(path)]) == 1
    out, err = capsys.readouterr()
    uses = {(use["file"], use["line"], use["name"]) for use in json.loads(out)}
    assert not err and uses == {
        (f"{path}, cell 4", 2, "dgl.graph"),
        (f"{path}, cell 4", 3, "dgl.DGLGraph.no_method"),
        (f"{path}, cell 5", 2, "dgl.DGLGraph.other_method"),
    }
    (tmp_path / ".ipynb_checkpoints").mkdir()
    (tmp_path / ".ipynb_checkpoints" / "n.ipynb").write_text("{")
    (tmp_path / "p.py").write_text("import dgl\ndgl.graph\n")
    assert migrate.main([str(tmp_path)]) == 1
    assert "2 programs: 4 uses of DGL, 2 of" in capsys.readouterr().out


def test_cells_that_cannot_be_read(tmp_path, capsys):
    path = tmp_path / "n.ipynb"
    path.write_text(notebook([("code", "import dgl"), ("code", "def f(:"), ("code", "dgl.graph")]))
    assert migrate.main([str(path)]) == 2
    out, err = capsys.readouterr()
    assert "cell 2 cannot be read as Python" in err and "its names are not listed" in err
    assert "dgl.graph" in out and "not read, and not counted: 1 part" in out


@pytest.mark.parametrize(
    ("name", "content", "reason"),
    [
        ("a.ipynb", b"{", "cannot be read as Python"),
        ("a.ipynb", b"[]", "it has no cells"),
        ("a.ipynb", notebook([], kernelspec={"language": "julia"}).encode(), "are in julia"),
        ("a.py", b"# \xff\nimport dgl\n", "cannot be read as Python"),
        ("a.py", b"# coding: nonsense\nimport dgl\n", "cannot be read as Python"),
    ],
)
def test_files_that_cannot_be_read(tmp_path, capsys, name, content, reason):
    (tmp_path / name).write_bytes(content)
    for path in (tmp_path, tmp_path / name):
        assert migrate.main([str(path)]) == 2
        out, err = capsys.readouterr()
        assert reason in err and "not read, and not counted: 1 part" in out


def test_other_encodings_are_read(tmp_path, capsys):
    path = tmp_path / "p.py"
    path.write_bytes("# coding: latin-1\n# \xe9\nimport dgl\ndgl.graph\n".encode("latin-1"))
    assert migrate.main([str(path)]) == 0
    path.write_bytes(b"\xef\xbb\xbfimport dgl\ndgl.graph\n")
    assert migrate.main([str(path)]) == 0
    assert capsys.readouterr().out.count("1 use of DGL") == 2


def test_a_folder_without_programs(tmp_path, capsys):
    (tmp_path / "README.md").write_text("dgl")
    assert migrate.main([str(tmp_path)]) == 2
    out, err = capsys.readouterr()
    assert "has no programs (*.py) and no notebooks (*.ipynb)" in err and "0 programs" in out


def test_names_with_an_underscore_that_are_here():
    source = (
        "from dgl._ffi.base import DGLError\nfrom dgl.data.utils import _get_dgl_url\nimport dgl\n"
    )
    uses = found(source + "dgl._sparse_ops._gspmm\n")
    assert [use.found for use in uses.values()].count(False) == 1
    assert not uses[4, "dgl._sparse_ops._gspmm"].found


def test_stages_that_a_program_adds():
    source = """
import dgl.graphbolt as gb
from dgl.graphbolt.subgraph_sampler import SubgraphSampler
from torch.utils.data import functional_datapipe

@functional_datapipe("sample_mine")
class Mine(SubgraphSampler):
    pass

pipe = gb.ItemSampler(None, 3)
pipe.sample_mine()
pipe.sample_yours()
"""
    missing = [name for (_, name), use in found(source).items() if not use.found]
    assert missing == ["dgl.graphbolt.ItemSampler.sample_yours"]
