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
h = g.to("cpu").shared_memory("x")
g.update_all(fn.copy_u("h", "m"), fn.sum("m", "h"))
d.sparse.spmatrix(g)
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
    for name in ("dgl.sparse.spmatrix", "dgl.DGLGraph.shared_memory"):
        assert name.rpartition(".")[2] in lines[missing[name] - 1]
    assert {"dgl.DGLGraph.no_such_method", "dgl.DGLGraph.sample_nothing"} <= set(missing)
    assert not any("other" in name or name == "os" for _, name in uses)


def test_what_to_use():
    assert migrate.counterpart("dgl.DGLGraph.update_all") == (True, "smex.graph.Graph.update_all")
    assert migrate.counterpart("dgl.AddSelfLoop") == (True, "smex.graph.AddSelfLoop")
    assert migrate.counterpart("dgl.function.sum") == (True, "smex.graph.function.sum")
    assert migrate.counterpart("dgl.multiprocessing.Process") == (False, "torch.multiprocessing")
    assert migrate.counterpart("dgl.unheard_of") == (False, "see docs/from_dgl.md")
    assert migrate.counterpart("dgl.frame._private")[0] is False
    assert found("from dgl import *")[1, "dgl.*"].found


PUBLIC = json.loads((Path(__file__).parent / "dgl_2_1_names.json").read_text())


def test_every_public_name_of_dgl_is_there_or_has_something_instead():
    page = (Path(__file__).parents[3] / "docs" / "from_dgl.md").read_text()
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


def test_names_of_modules_within_modules():
    for name in ("dgl.nn.WeightBasis", "dgl.nn.pytorch.utils.WeightBasis"):
        assert "TypedLinear" in migrate.counterpart(name)[1]
    assert migrate.counterpart("dgl.data.utils.save_tensors")[0]
    assert migrate.counterpart("dgl.data.utils.loadtxt") == (False, "numpy.loadtxt")
    assert "u_dot_v" in migrate.counterpart("dgl.sparse.sddmm")[1]


@pytest.mark.parametrize(
    ("name", "use"),
    [
        ("dgl.nn.pytorch.conv.sageconv", "smex.graph.nn.SAGEConv"),
        ("dgl.nn.pytorch.conv.sageconv.SAGEConv", "smex.graph.nn.SAGEConv"),
        ("dgl.data.citation_graph.CoraGraphDataset", "smex.graph.data.CoraGraphDataset"),
        ("dgl.heterograph.DGLGraph", "smex.graph.DGLGraph"),
    ],
)
def test_names_in_modules_of_their_own(name, use):
    assert migrate.counterpart(name) == (False, use)


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
    assert "MISSING" in text and "nothing: leave it out" in text and "3 uses of DGL, 1 of" in text
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
    path.write_text("from dgl.graphbolt import ItemSet\n")
    command = [sys.executable, "-m", "smex.graph.migrate", str(path)]
    result = subprocess.run(command, capture_output=True, text=True)
    assert result.returncode == 1 and "dataloading" in result.stdout and not result.stderr
