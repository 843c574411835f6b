"""What layers of edge types keep of a graph, and when it no longer holds."""

import pickle

import pytest
import torch

import smex.graph as sg
from smex.graph import nn
from smex.graph.nn.typed.typed_sources import typed_sources

NUM_TYPES = 3


@pytest.fixture
def graph():
    torch.manual_seed(1)
    return sg.graph((torch.randint(20, (90,)), torch.randint(15, (90,))), num_nodes=20)


@pytest.fixture
def types():
    torch.manual_seed(0)
    return torch.randint(NUM_TYPES, (90,))


def check(graph, types):
    """The edges of the pairs are those of the graph, in its order."""
    found = typed_sources(graph, types)
    pair, destination = found.relation.coo()
    source, expected = graph.edges()
    assert torch.equal(destination, expected)
    assert torch.equal(found.nodes[pair], source)
    assert torch.equal(found.types[pair], types)
    assert found.types.diff().ge(0).all()
    return found


def test_the_same_types_are_sorted_once(graph, types):
    found = check(graph, types)
    assert check(graph, types) is found
    assert check(graph, types.clone()) is found
    assert found.relation is typed_sources(graph.local_var(), types).relation


def test_types_that_changed_are_sorted_again(graph, types):
    found = check(graph, types)
    types[:10] = (types[:10] + 1) % NUM_TYPES
    assert check(graph, types) is not found
    types.numpy()[:] = 0  # which torch's version counter does not tell
    check(graph, types)
    check(graph, torch.full_like(types, 2))


def test_layers_follow_types_that_change(graph, types):
    torch.manual_seed(0)
    x, layer = torch.rand(20, 4), nn.RelGraphConv(4, 5, NUM_TYPES)
    for _ in range(2):
        messages = torch.einsum("ei,eio->eo", x[graph.edges()[0]], layer.linear_r.W[types])
        expected = torch.zeros(20, 5).index_add(0, graph.edges()[1], messages)
        expected = expected + x @ layer.loop_weight + layer.h_bias
        torch.testing.assert_close(layer(graph, x, types), expected)
        types.copy_(types.flip(0))


def test_what_inference_kept_serves_training(graph, types):
    x, layer = torch.rand(20, 4), nn.RelGraphConv(4, 5, NUM_TYPES)
    with torch.inference_mode():
        layer(graph, x, types)
    layer(graph, x, types).sum().backward()
    assert layer.linear_r.W.grad is not None


@pytest.mark.parametrize("form", ["coo", "csc"])
def test_graphs_of_inference_serve_training(form):
    g = sg.graph((torch.tensor([0, 1, 2]), torch.tensor([1, 2, 0]))).formats(form)
    g = g.formats(["coo", "csr", "csc"])
    x, layer = torch.rand(3, 4), nn.GATConv(4, 5, 2)
    with torch.inference_mode():
        layer(g, x)
    layer(g, x).sum().backward()
    assert layer.fc.weight.grad is not None


def test_what_is_kept_is_not_pickled(graph, types):
    before = len(pickle.dumps(graph))
    typed_sources(graph, types)
    assert len(pickle.dumps(graph)) == before


def test_a_tracers_types_are_not_counted(graph, types):
    x, layer = torch.rand(20, 4), nn.RelGraphConv(4, 5, NUM_TYPES)
    layer(graph, x, types)
    kept = dict(graph.relation().kept)
    with torch._subclasses.FakeTensorMode(allow_non_fake_inputs=True) as mode:
        found = torch.ops.smex.typed_spmm(
            graph.relation().in_edges(),
            [],
            mode.from_tensor(x).unsqueeze(1),
            mode.from_tensor(layer.linear_r.W.detach()).unsqueeze(1),
            mode.from_tensor(types),
        )
    assert found.shape == (20, 1, 5)
    assert dict(graph.relation().kept) == kept
