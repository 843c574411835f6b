"""Options of layers that their formulas leave out: ids, stored attention, dropout, caches."""

import pytest
import torch

import smex.graph as sg

nn = sg.nn


@pytest.fixture
def graph():
    torch.manual_seed(0)
    return sg.add_self_loop(sg.remove_self_loop(sg.rand_graph(20, 60)))


@pytest.mark.parametrize(
    "make", [lambda: nn.GATv2Conv(6, 4, 2, attn_drop=0.5), lambda: nn.DotGatConv(6, 4, 2)]
)
def test_attention_is_the_same_where_it_is_stored(graph, make):
    layer, x = make().eval(), torch.rand(20, 6)
    found, weight = layer(graph, x, get_attention=True)
    torch.testing.assert_close(found, layer(graph, x))
    sums = sg.ops.copy_e_sum(graph, weight)
    torch.testing.assert_close(sums, torch.ones_like(sums))
    torch.testing.assert_close(layer(graph.int(), x), layer(graph, x))


def test_types_in_any_form(graph):
    x, types = torch.rand(20, 6), torch.arange(graph.num_edges()) % 3
    for regularizer in (None, "basis", "bdd"):
        layer = nn.RelGraphConv(6, 4, 3, regularizer, 2)
        expected = layer(graph, x, types)
        torch.testing.assert_close(layer(graph.int(), x, types.int()), expected)
        torch.testing.assert_close(layer(graph, x, types.tolist(), presorted=True), expected)
    layer, ntypes = nn.HGTConv(6, 4, 2, 2, 3, dropout=0.0), torch.arange(20) // 10
    expected = layer(graph, x, ntypes, types)
    torch.testing.assert_close(layer(graph.int(), x, ntypes.int(), types.int()), expected)
    torch.testing.assert_close(layer(graph, x, ntypes, types, presorted=True), expected)


@pytest.mark.parametrize(
    "make",
    [
        lambda: nn.APPNPConv(3, 0.1, edge_drop=0.5),
        lambda: nn.GATv2Conv(6, 4, 2, attn_drop=0.5),
        lambda: nn.SAGEConv(6, 4, "mean", feat_drop=0.5),
    ],
)
def test_dropout_is_for_training_only(graph, make):
    layer, x = make(), torch.rand(20, 6)
    assert not torch.equal(layer(graph, x), layer(graph, x))
    layer.eval()
    assert torch.equal(layer(graph, x), layer(graph, x))


def test_a_cache_keeps_the_first_features(graph):
    layer, x = nn.SGConv(6, 4, 2, cached=True), torch.rand(20, 6)
    assert torch.equal(layer(graph, x), layer(graph, 2 * x))
