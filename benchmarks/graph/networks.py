"""Networks that are given a graph and features of its nodes."""

from __future__ import annotations

import itertools

import torch
from torch import nn
from torch.nn import functional

import smex.graph as sg


class GCN(nn.Module):
    """Kipf and Welling's network, with dropout before each layer."""

    def __init__(self, sizes: tuple[int, ...], dropout: float = 0.0):
        super().__init__()
        self.dropout = dropout
        self.layers = nn.ModuleList(
            sg.nn.GraphConv(a, b, allow_zero_in_degree=True) for a, b in itertools.pairwise(sizes)
        )

    def forward(self, g, x):
        for layer in self.layers[:-1]:
            x = torch.relu(layer(g, functional.dropout(x, self.dropout, self.training)))
        return self.layers[-1](g, functional.dropout(x, self.dropout, self.training))


class SAGE(nn.Module):
    """GraphSAGE with means of neighbours."""

    def __init__(self, sizes: tuple[int, ...]):
        super().__init__()
        self.layers = nn.ModuleList(
            sg.nn.SAGEConv(a, b, "mean") for a, b in itertools.pairwise(sizes)
        )

    def forward(self, g, x):
        for layer in self.layers[:-1]:
            x = torch.relu(layer(g, x))
        return self.layers[-1](g, x)


class GAT(nn.Module):
    """Graph attention of 4 heads, joined after each layer but the last, whose mean is taken."""

    HEADS = 4

    def __init__(self, sizes: tuple[int, ...]):
        super().__init__()
        *hidden, out = sizes[1:]
        layers = []
        width = sizes[0]
        for each in hidden:
            layers.append(sg.nn.GATConv(width, each // self.HEADS, self.HEADS))
            width = each
        layers.append(sg.nn.GATConv(width, out, self.HEADS))
        for layer in layers:
            layer.set_allow_zero_in_degree(True)
        self.layers = nn.ModuleList(layers)

    def forward(self, g, x):
        for layer in self.layers[:-1]:
            x = functional.elu(layer(g, x).flatten(1))
        return self.layers[-1](g, x).mean(1)


NETWORKS = {"GCN": GCN, "GraphSAGE": SAGE, "GAT": GAT}
