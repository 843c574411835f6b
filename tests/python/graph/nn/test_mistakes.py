"""What layers say about arguments that do not fit."""

import pytest
import torch

import smex
import smex.graph as sg

nn = sg.nn


def ring():
    return sg.graph(([0, 1, 2], [1, 2, 0]))


def call(layer, *extra, width=4):
    return lambda: layer()(ring(), torch.ones(3, width), *extra)


MISTAKES = [
    (lambda: nn.SAGEConv(4, 2, "median"), "SAGEConv: aggregator_type must be one of mean, gcn, pool, lstm, found 'median'"),
    (call(lambda: nn.SAGEConv(5, 2, "mean")), "SAGEConv: expected features of 3 source nodes, 5 wide, found"),
    (call(lambda: nn.SAGEConv(4, 2, "mean"), torch.ones(2)), "SAGEConv: expected a weight for each of 3 edges, found torch.float32 [2]"),
    (call(lambda: nn.GATv2Conv(5, 2, 1)), "GATv2Conv: expected features of 3 source nodes, 5 wide"),
    (lambda: nn.GINConv(None, "median"), "GINConv: aggregator_type must be one of sum, max, mean, found 'median'"),
    (call(lambda: nn.GINEConv(), torch.ones(2, 4)), "GINEConv: expected features of 3 edges, found torch.float32 [2, 4]; the layer takes one row for each"),
    (lambda: nn.EdgeWeightNorm("left"), "EdgeWeightNorm: norm must be one of none, both, right, found 'left'"),
    (lambda: nn.EdgeWeightNorm()(ring(), torch.ones(3, 2)), "EdgeWeightNorm: expected one weight for each of 3 edges, found torch.float32 [3, 2]"),
    (lambda: nn.EdgeWeightNorm()(ring(), torch.tensor([1.0, -2.0, 3.0])), "EdgeWeightNorm: norm='both' expects positive weights, found -2.0"),
    (lambda: nn.TypedLinear(4, 2, 3, "l2"), "TypedLinear: regularizer must be None, 'basis' or 'bdd', found 'l2'"),
    (lambda: nn.TypedLinear(4, 2, 3, "basis"), "TypedLinear: regularizer 'basis' needs num_bases, found None"),
    (lambda: nn.TypedLinear(4, 3, 3, "bdd", 2), "TypedLinear: num_bases must divide both sizes, found sizes 4 and 3 and num_bases=2"),
    (call(lambda: nn.RelGraphConv(4, 2, 2), torch.tensor([0, 1])), "RelGraphConv: expected one integer for each of 3 edges, its type, found torch.int64 [2]"),
    (call(lambda: nn.RelGraphConv(4, 2, 2), torch.tensor([0, 1, 2])), "RelGraphConv: edge types"),
    (call(lambda: nn.SGConv(5, 2)), "SGConv: expected features of 3 nodes, 5 wide"),
    (call(lambda: nn.TAGConv(5, 2)), "TAGConv: expected features of 3 nodes, 5 wide"),
    (call(lambda: nn.ChebConv(5, 2, 2)), "ChebConv: expected features of 3 nodes, 5 wide"),
    (call(lambda: nn.HGTConv(5, 2, 2, 1, 1), torch.zeros(3).long(), torch.zeros(3).long()), "HGTConv: expected features of 3 source nodes, 5 wide"),
]  # fmt: skip


@pytest.mark.parametrize(("action", "text"), MISTAKES, ids=[text[:60] for _, text in MISTAKES])
def test_mistakes(action, text):
    with pytest.raises(smex.SmexValueError) as error:
        action()
    assert text in str(error.value)
