"""Programs that import dgl, as they stand."""

import os
import subprocess
import sys
import textwrap

import pytest

PROGRAM = """
import argparse
import multiprocessing
import os

import dgl
import dgl.function as fn
import dgl.nn.pytorch as dglnn
import torch
from dgl.data.utils import save_graphs
from dgl.dataloading import DataLoader, NeighborSampler
from dgl.nn import SAGEConv
from dgl.nn.pytorch.glob import SumPooling


def count(edges, answers):
    import dgl.nn.pytorch as again

    g = dgl.graph(edges)
    answers.put((g.num_edges(), dgl.__name__, again.GraphConv.__module__))


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--nodes", type=int)
    n = parser.parse_args().nodes
    assert os.path.samefile(os.path.dirname(__file__), os.getcwd()) and os.path.isabs(__file__)
    g = dgl.graph((torch.arange(n), (torch.arange(n) + 1) % n))
    g.ndata["h"] = torch.ones(n, 2)
    g.update_all(fn.copy_u("h", "m"), fn.sum("m", "s"))
    assert dglnn.SAGEConv is SAGEConv and dgl.nn.SAGEConv is SAGEConv
    assert SumPooling is dgl.nn.SumPooling
    loader = DataLoader(g, torch.arange(n), NeighborSampler([1]), batch_size=4)
    assert len(list(loader)) == -(-n // 4)
    answers = multiprocessing.get_context(METHOD).Queue()
    process = multiprocessing.get_context(METHOD).Process(
        target=count, args=(([0, 1], [1, 2]), answers)
    )
    process.start()
    print(g.ndata["s"].sum().item(), *answers.get(timeout=60))
    process.join()
"""


def run(*command, **variables):
    done = subprocess.run(
        [sys.executable, *map(str, command)], capture_output=True, text=True, timeout=120,
        env={**os.environ, **variables},
    )  # fmt: skip
    return done.returncode, done.stdout, done.stderr


@pytest.mark.costly(cases=1)
@pytest.mark.parametrize(
    ("method", "as_module"), [("fork", True), ("spawn", False)], ids=["fork", "spawn"]
)
def test_a_program_runs_as_it_stands(tmp_path, monkeypatch, method, as_module):
    program = tmp_path / "program.py"
    program.write_text(f"METHOD = {method!r}\n" + PROGRAM)
    monkeypatch.chdir(tmp_path)
    what = ["-m", "program"] if as_module else [program]
    code, out, err = run("-m", "smex.graph.run", *what, "--nodes", 9)
    assert code == 0, err
    assert out.split() == ["18.0", "2", "smex.graph", "smex.graph.nn.conv.graph_conv"]


def test_its_errors_and_exit_codes_are_the_programs(tmp_path):
    program = tmp_path / "program.py"
    program.write_text("import dgl, sys\nsys.exit(3)\n")
    assert run("-m", "smex.graph.run", program)[0] == 3
    program.write_text("import dgl\nraise ValueError('its own')\n")
    code, _, err = run("-m", "smex.graph.run", program)
    assert code == 1 and "ValueError: its own" in err and "program.py" in err
    program.write_text("import dgl.nothing_of_that_name\n")
    code, _, err = run("-m", "smex.graph.run", program)
    assert code == 1 and "has nothing in place of the module dgl.nothing_of_that_name" in err
    code, _, err = run("-m", "smex.graph.run", tmp_path / "none.py")
    assert code == 2 and "there is no file" in err


def in_process(text):
    return run("-c", textwrap.dedent(text))


def test_the_modules_are_the_same():
    code, out, err = in_process("""
        import importlib, pickle
        import smex.graph as sg
        import smex.graph.alias
        smex.graph.alias.install()
        smex.graph.alias.install()
        import dgl, dgl.sampling, dgl.distributed, dgl.dataloading.negative_sampler as ns
        assert dgl is sg and dgl.sampling is sg.sampling and dgl.distributed is sg.distributed
        assert sg.__spec__.name == "smex.graph" and sg.nn.__spec__.name == "smex.graph.nn"
        assert ns is sg.dataloading.negative_sampler
        g = pickle.loads(pickle.dumps(dgl.graph(([0], [1]))))
        assert type(g) is sg.Graph and importlib.import_module("dgl.nn") is sg.nn
        try:
            import dgl.nothing
        except ModuleNotFoundError as error:
            print(error.name)
    """)
    assert code == 0, err
    assert out.strip() == "dgl.nothing"


def test_modules_whose_names_a_package_has():
    code, out, err = in_process("""
        import smex.graph.alias
        smex.graph.alias.install()
        from dgl.heterograph import DGLBlock, DGLGraph
        from dgl.nn.pytorch.conv.graphconv import GraphConv
        import dgl.nn.pytorch.conv.sageconv as sageconv
        from dgl.nn.pytorch.gt.biased_mha import BiasedMHA
        from dgl.dataloading.base import as_edge_prediction_sampler
        from dgl.dataloading.dataloader import GraphDataLoader
        from dgl.convert import to_networkx
        from dgl.data.graph_serialize import load_graphs
        from dgl.function.message import copy_u
        from dgl.ops.sddmm import u_dot_v
        from dgl.sampling.randomwalks import random_walk
        from dgl.sparse.matmul import spmm
        from dgl.graphbolt.impl.ondisk_dataset import OnDiskDataset
        from dgl.graphbolt.base import isin
        import dgl.merge, dgl.transforms.to_block
        import dgl
        assert sageconv.SAGEConv is dgl.nn.SAGEConv and DGLGraph is dgl.DGLGraph
        for function in (dgl.merge, dgl.sparse.matmul, dgl.ops.gather_mm, dgl.transforms.to_block):
            assert callable(function), function
        g = dgl.graph(([0], [1]))
        assert isinstance(dgl.to_block(g), DGLBlock) and not isinstance(g, DGLBlock)
        for text in ("import dgl.nn.pytorch.conv.none", "from dgl.ops.sddmm import none"):
            try:
                exec(text)
            except ImportError as error:
                print(error.name)
    """)
    assert code == 0, err
    assert out.split() == ["dgl.nn.pytorch.conv.none", "smex.graph.ops.sddmm"]


def test_dgl_itself_is_not_replaced(tmp_path):
    (tmp_path / "dgl.py").write_text("theirs = True\n")
    code, out, err = in_process(f"""
        import sys
        sys.path.insert(0, {str(tmp_path)!r})
        import dgl
        import smex, smex.graph.alias
        try:
            smex.graph.alias.install()
        except smex.SmexRuntimeError as error:
            print(error)
        assert dgl.theirs and sys.modules["dgl"] is dgl
    """)
    assert code == 0, err
    assert "dgl has been imported already, from " in out
