"""Parts that explain a class: of models that depend on known nodes."""

import itertools
import math

import pytest
import torch

import smex
import smex.graph as sg
from smex.graph.nn.explain.subgraphx import _Search


def model(g, feat, weights):
    value = (feat[:, 0] * weights).sum()
    return torch.stack([value, -value])[None]


def path(number):
    return sg.to_bidirected(sg.graph((torch.arange(number - 1), torch.arange(1, number))))


@pytest.mark.parametrize("high2low", [False, True])
def test_the_part_with_the_nodes_that_count(high2low):
    torch.manual_seed(0)
    weights = torch.zeros(8)
    weights[[4, 5]] = 1.0
    explainer = sg.nn.SubgraphX(
        model, 2, high2low=high2low, num_rollouts=60, node_min=2, shapley_steps=8
    )
    found = explainer.explain_graph(path(8), torch.ones(8, 1), 0, weights=weights)
    assert found.tolist() == [4, 5]
    other = explainer.explain_graph(path(8), torch.ones(8, 1), 1, weights=weights)
    assert not {4, 5} & set(other.tolist())


def test_values_are_shapley_values():
    """Against the sum over all coalitions of the nodes around a part."""
    torch.manual_seed(0)
    g, weights = path(5), torch.tensor([0.5, -1.0, 1.5, 0.7, 9.0])
    explainer = sg.nn.SubgraphX(model, 2, shapley_steps=4000)
    search = _Search(explainer, g, {"_N": torch.ones(5, 1)}, 0, {"weights": weights})
    around, exact = [1, 3], 0.0  # of node 2
    for size in range(3):
        for chosen in itertools.combinations(around, size):
            on = 9.0 + float(weights[list(chosen)].sum()) - 9.0 + float(weights[[0, 4]].sum())
            gain = torch.sigmoid(torch.tensor(2 * (on + 1.5))) - torch.sigmoid(torch.tensor(2 * on))
            exact += float(gain) / math.comb(2, size) / 3
    assert search._value((2,)) == pytest.approx(exact, abs=0.01)


def test_types():
    torch.manual_seed(0)
    g = sg.heterograph({("u", "r", "v"): ([0, 1, 2, 3], [0, 0, 1, 1]), ("v", "s", "v"): ([0], [1])})

    def typed(g, feat):
        value = feat["u"][3, 0] + feat["v"][1, 0]
        return torch.stack([value, -value])[None]

    feat = {"u": torch.ones(4, 1), "v": torch.ones(2, 1)}
    explainer = sg.nn.HeteroSubgraphX(typed, 2, num_rollouts=40, node_min=2, shapley_steps=8)
    found = explainer.explain_graph(g, feat, 0)
    assert {ntype: ids.tolist() for ntype, ids in found.items()} == {"u": [3], "v": [1]}


def test_small_graphs_and_mistakes():
    explainer = sg.nn.SubgraphX(model, 1)
    whole = explainer.explain_graph(path(3), torch.ones(3, 1), 0, weights=torch.ones(3))
    assert whole.tolist() == [0, 1, 2]
    with pytest.raises(smex.SmexValueError, match="SubgraphX: expected node_min of at least 1"):
        sg.nn.SubgraphX(model, 1, node_min=0)
