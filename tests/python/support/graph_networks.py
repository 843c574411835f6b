"""Graph networks, each on a small graph with a hub, and their training in one process."""

import itertools

import torch
from torch import nn

import smex.graph as sg

TYPES = 3
"""Of edges."""


def graph(nodes=40, edges=170, seed=0):
    """A graph with a hub, and some nodes without edges."""
    torch.manual_seed(seed)
    src, dst = torch.randint(nodes, (edges,)), torch.randint(nodes, (edges,))
    dst[: edges // 5] = 3
    dst[dst == 7] = 8
    g = sg.graph((src, dst), num_nodes=nodes)
    g.edata["type"] = torch.arange(edges) % TYPES
    g.ndata["type"] = torch.arange(nodes) % 2
    return g


class GCN(nn.Module):
    def __init__(self, sizes=(6, 8, 4)):
        super().__init__()
        pairs = itertools.pairwise(sizes)
        self.layers = nn.ModuleList(
            sg.nn.GraphConv(a, b, allow_zero_in_degree=True) for a, b in pairs
        )

    def forward(self, g, x):
        for layer in self.layers[:-1]:
            x = torch.relu(layer(g, x))
        return self.layers[-1](g, x)


class SAGE(nn.Module):
    def __init__(self, aggregator="mean"):
        super().__init__()
        self.first = sg.nn.SAGEConv(6, 8, aggregator)
        self.second = sg.nn.SAGEConv(8, 4, aggregator)

    def forward(self, g, x):
        return self.second(g, torch.relu(self.first(g, x)))


class Extremes(nn.Module):
    """Greatest and least of products with numbers of edges, which are trained too."""

    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Linear(6, 8), nn.Linear(8, 4)
        self.of_types = nn.Parameter(torch.linspace(-1, 1, TYPES))

    def forward(self, g, x):
        with g.local_scope():
            g.edata["factor"] = self.of_types[g.edata["type"]].unsqueeze(-1)
            message = sg.function.u_mul_e("x", "factor", "m")
            for layer, reduce in ((self.first, "max"), (self.second, "min")):
                g.ndata["x"] = torch.relu(layer(x))
                g.update_all(message, getattr(sg.function, reduce)("m", "x"))
                x = g.ndata["x"]
            return x


class GIN(nn.Module):
    def __init__(self):
        super().__init__()
        mlp = nn.Sequential(nn.Linear(6, 8), nn.ReLU(), nn.Linear(8, 8))
        self.first = sg.nn.GINConv(mlp, "sum", learn_eps=True)
        self.second = sg.nn.GINConv(nn.Linear(8, 4), "sum")

    def forward(self, g, x):
        return self.second(g, torch.relu(self.first(g, x)))


class CommNet(nn.Module):
    """ROC, §7: x W plus the mean of the neighbours times V."""

    def __init__(self):
        super().__init__()
        self.own = nn.ModuleList([nn.Linear(6, 8), nn.Linear(8, 4)])
        self.others = nn.ModuleList([nn.Linear(6, 8), nn.Linear(8, 4)])

    def forward(self, g, x):
        for own, others in zip(self.own, self.others):
            with g.local_scope():
                g.ndata["x"] = x
                g.update_all(sg.function.copy_u("x", "m"), sg.function.mean("m", "n"))
                x = torch.tanh(own(x) + others(g.ndata["n"]))
        return x


class GAT(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = sg.nn.GATConv(6, 4, 2, allow_zero_in_degree=True)
        self.second = sg.nn.GATConv(8, 4, 1, allow_zero_in_degree=True)

    def forward(self, g, x):
        return self.second(g, torch.relu(self.first(g, x).flatten(1))).mean(1)


class RGCN(nn.Module):
    def __init__(self, regularizer=None):
        super().__init__()
        bases = None if regularizer is None else 2
        self.first = sg.nn.RelGraphConv(6, 8, TYPES, regularizer, bases)
        self.second = sg.nn.RelGraphConv(8, 4, TYPES, regularizer, bases)

    def forward(self, g, x):
        types = g.edata["type"]
        norm = (1 / g.in_degrees().clamp_min(1)).to(x)[g.edges()[1]]
        x = torch.relu(self.first(g, x, types, norm))
        return self.second(g, x, types)


class HGT(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = sg.nn.HGTConv(6, 4, 2, 2, TYPES, dropout=0)
        self.second = sg.nn.HGTConv(8, 4, 1, 2, TYPES, dropout=0)

    def forward(self, g, x):
        types = g.ndata["type"], g.edata["type"]
        return self.second(g, torch.relu(self.first(g, x, *types)), *types)


class Gated(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = sg.nn.GatedGraphConv(6, 8, n_steps=2, n_etypes=TYPES)
        self.out = nn.Linear(8, 4)

    def forward(self, g, x):
        return self.out(self.layer(g, x, g.edata["type"]))


NETWORKS = {
    "GAT": GAT,
    "GCN": GCN,
    "SAGE": SAGE,
    "SAGE of maxima": lambda: SAGE("pool"),
    "extremes": Extremes,
    "GIN": GIN,
    "CommNet": CommNet,
    "R-GCN": RGCN,
    "R-GCN of bases": lambda: RGCN("basis"),
    "R-GCN of blocks": lambda: RGCN("bdd"),
    "HGT": HGT,
    "gated": Gated,
}


def trained(name, g, x):
    """A network, what it makes of features, weights of that, and the gradients of their sum."""
    torch.manual_seed(2)
    model = NETWORKS[name]().double()
    out = model(g, x)
    weights = torch.randn_like(out)
    (out * weights).sum().backward()
    gradients = {name: p.grad.clone() for name, p in model.named_parameters()}
    model.zero_grad()
    return model, out.detach(), weights, gradients
