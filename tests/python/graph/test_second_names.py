"""Modules by the names that DGL has for them, and by those that saved objects name."""

import importlib
import pickle
import sys

import pytest
import torch

import smex.graph as sg
import smex.vertex
from smex.graph import aliases

DGL = [
    "base", "batch", "convert", "data", "dataloading", "frame", "function", "init", "nn",
    "nn.functional", "nn.pytorch", "nn.pytorch.conv", "ops", "partition", "propagate", "random",
    "readout", "sampling", "subgraph", "transforms", "traversal", "udf", "utils", "view",
]  # fmt: skip


@pytest.mark.parametrize("name", DGL)
def test_names_of_dgl(name):
    assert importlib.import_module(f"smex.graph.{name}") is sys.modules[f"smex.graph.{name}"]


def test_names_are_of_the_same_modules():
    assert importlib.import_module("smex.graph.convert").graph is sg.graph
    assert importlib.import_module("smex.graph.batch").batch is sg.batch
    assert sg.convert.graph is sg.graph and callable(sg.batch)
    assert importlib.import_module("smex.graph.nn.gat_conv").GATConv is sg.nn.GATConv
    assert importlib.import_module("smex.vertex.run").run is smex.vertex.run


def saved_before(thing, names):
    """A pickle in which classes are in modules of other names."""
    data = pickle.dumps(thing, protocol=0)
    for now, then in names.items():
        data = data.replace(f"c{now}\n".encode(), f"c{then}\n".encode())
        assert f"c{now}\n".encode() not in data
    return data


def renamed(package, names):
    return {f"{package}.{now}": f"{package}.{then}" for then, now in names.items()}


def test_graphs_that_were_saved_before():
    g = sg.batch([sg.graph(([0, 1], [1, 2])), sg.rand_graph(4, 5)])
    g.ndata["h"] = torch.rand(7, 2)
    g.in_degrees()
    names = {
        "smex.graph.features.frame": "smex.graph.frame",
        "smex.graph.features.column": "smex.graph.frame",
        "smex.graph.structure.relation": "smex.graph.relation",
        "smex.graph.structure.formats": "smex.graph.structure",
    }
    data = saved_before(g, names)
    assert all(f"c{then}\n".encode() in data for then in names.values())
    other = pickle.loads(data)
    assert repr(other) == repr(g) and torch.equal(other.ndata["h"], g.ndata["h"])
    assert torch.equal(torch.stack(other.edges()), torch.stack(g.edges()))


@pytest.mark.parametrize(
    "layer", [sg.nn.GATConv(2, 3, 1), sg.nn.HGTConv(4, 2, 2, 2, 2), sg.nn.Set2Set(3, 2, 1)]
)
def test_layers_that_were_saved_before(layer):
    other = pickle.loads(saved_before(layer, renamed("smex.graph.nn", aliases.NN)))
    assert type(other) is type(layer) and other.state_dict().keys() == layer.state_dict().keys()


def test_input_graphs_that_were_saved_before():
    batch = smex.vertex.batch([smex.vertex.chain(3)])
    data = saved_before(batch, {"smex.vertex.words.graphs": "smex.vertex.graphs"})
    assert pickle.loads(data).key == batch.key


def test_modules_of_many_processes():
    services = importlib.import_module("smex.graph.distributed.graph_services")
    assert services.sample_neighbors is sg.distributed.sample_neighbors
    book = importlib.import_module("smex.graph.distributed.graph_partition_book")
    assert book.RangePartitionBook is sg.distributed.RangePartitionBook
    assert sg.distributed.nn.DistEmbedding is sg.distributed.DistEmbedding
