"""Pickles of graphs that DGL 2.1 wrote, read where its name is ours."""

import pathlib
import pickle
import subprocess
import sys

import pytest
import torch

import smex
import smex.graph as sg
from smex.graph.creation.dgl_pickles import HeteroGraphIndex, HeteroPickleStates
from support import dgl_pickled

RECORDED = pathlib.Path(__file__).parent / "dgl_2_1_pickles.gz"
READ = """
import gzip, io, pickle, sys
import torch
import smex.graph.alias
smex.graph.alias.install()
written = pickle.loads(gzip.open(sys.argv[1]).read())
found = pickle.loads(written[0]), torch.load(io.BytesIO(written[1]), weights_only=False)
sys.stdout.buffer.write(pickle.dumps(found))
"""


@pytest.fixture(scope="module")
def found():
    """By the way of reading, the graphs, read in a process that knows DGL's name."""
    command = [sys.executable, "-c", READ, str(RECORDED)]
    done = subprocess.run(command, capture_output=True, timeout=120)
    assert done.returncode == 0, done.stderr.decode()
    return dict(zip(("pickle", "torch"), pickle.loads(done.stdout)))


def described(g):
    """All that a graph consists of, in plain values."""
    nodes = {
        (side, t): (view(t).tolist(), {k: rows.tolist() for k, rows in view[t].data.items()})
        for side, view, types in (
            ("src", g.srcnodes, g.srctypes), ("dst", g.dstnodes, g.dsttypes)
        )
        for t in types
    }  # fmt: skip
    edges = {
        t: (
            [ids.tolist() for ids in g.edges(etype=t)],
            {k: (str(rows.dtype), rows.tolist()) for k, rows in g.edges[t].data.items()},
        )
        for t in g.canonical_etypes
    }
    batch = {t: g.batch_num_edges(t).tolist() for t in g.canonical_etypes}
    kind = (g.is_block, str(g.idtype), g.ntypes, g.etypes, g.batch_size)
    return kind, nodes, edges, batch


@pytest.mark.parametrize("way", ["pickle", "torch"])
@pytest.mark.parametrize("name", dgl_pickled.graphs(sg))
def test_graphs_are_those_that_were_written(found, way, name):
    graph, expected = found[way][name], dgl_pickled.graphs(sg)[name]
    assert type(graph) is sg.Graph and isinstance(graph, sg.DGLBlock) == ("block" in name)
    assert described(graph) == described(expected)
    again = pickle.loads(pickle.dumps(graph))
    assert described(again) == described(expected)
    if not graph.is_block and "empty" not in name:
        graph.add_nodes(2, ntype=graph.ntypes[0])  # it can be worked with
        assert graph.num_nodes(graph.ntypes[0]) == expected.num_nodes(expected.ntypes[0]) + 2


def test_other_versions_and_damaged_bytes():
    with pytest.raises(smex.SmexValueError, match="expected a graph of DGL 0.5 or later"):
        HeteroPickleStates().__setstate__(("metagraph", [3], []))
    with pytest.raises(smex.SmexValueError, match="expected a graph of DGL 0.5 or later"):
        HeteroGraphIndex().__setstate__(("metagraph", [3], []))
    states, index = HeteroPickleStates(), HeteroGraphIndex()
    states.__setstate__((2, bytearray(b"\xbfj\x04 \xfe_<\xdd and no more"), [torch.zeros(1)]))
    index.__setstate__(states)
    with pytest.raises(smex.SmexValueError, match="a graph of DGL's is damaged: "):
        sg.Graph.__new__(sg.Graph).__setstate__({"_graph": index})
