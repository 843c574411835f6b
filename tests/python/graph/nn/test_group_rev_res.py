"""Reversible layers beside the same computation that keeps everything."""

import pytest
import torch

import smex
import smex.graph as sg


class Layer(torch.nn.Module):
    def __init__(self, size, dropout=0.0):
        super().__init__()
        self.conv = sg.nn.SAGEConv(size, size, "mean")
        self.dropout = torch.nn.Dropout(dropout)

    def forward(self, g, x):
        return self.dropout(self.conv(g, x).tanh())


def kept(layer, g, x):
    parts = x.chunk(layer.groups, -1)
    y, results = sum(parts[1:]), []
    for module, part in zip(layer.gnn_modules, parts):
        y = part + module(g, y)
        results.append(y)
    return torch.cat(results, -1)


@pytest.mark.parametrize("groups", [2, 3, 4])
@pytest.mark.parametrize("dropout", [0.0, 0.5])
def test_gradients(groups, dropout):
    torch.manual_seed(groups)
    g = sg.rand_graph(20, 60)
    layers = torch.nn.ModuleList(sg.nn.GroupRevRes(Layer(4, dropout), groups) for _ in range(3))
    layers = layers.double()
    x = torch.rand(20, 4 * groups, dtype=torch.float64, requires_grad=True)
    wanted = [x, *layers.parameters()]
    target = torch.rand_like(x)
    found = []
    for run in (lambda layer, y: layer(g, y), lambda layer, y: kept(layer, g, y)):
        torch.manual_seed(7)
        y = x
        for layer in layers:
            y = run(layer, y)
        found.append((y, *torch.autograd.grad((y * target).sum(), wanted)))
    for a, b in zip(*found):
        torch.testing.assert_close(a, b)


def test_mistakes():
    with pytest.raises(smex.SmexValueError, match="expected groups of at least 2, found 1"):
        sg.nn.GroupRevRes(Layer(4), 1)
    with pytest.raises(
        smex.SmexValueError, match="whose number 2 groups divide, found shape .3, 5"
    ):
        sg.nn.GroupRevRes(Layer(4), 2)(sg.rand_graph(3, 3), torch.rand(3, 5))
