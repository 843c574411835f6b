"""Who sides with whom? Two graph convolutions on Zachary's karate club, in a few seconds.

    pip install networkx
    python examples/graph/hello_graph.py

A program that was written for DGL starts with ``import smex.graph as dgl`` instead.
"""

import networkx
import torch
import torch.nn.functional as F
from torch import nn

import smex.graph as sg
import smex.graph.function as fn


class GraphConv(nn.Module):
    """A linear map of the mean of each node's neighbours, itself among them."""

    def __init__(self, in_features, out_features):
        super().__init__()
        self.linear = nn.Linear(in_features, out_features)

    def forward(self, g, h):
        with g.local_scope():  # features that are set here are gone afterwards
            g.ndata["h"] = self.linear(h)
            g.update_all(fn.copy_u("h", "m"), fn.mean("m", "out"))
            return g.ndata["out"]


class Net(nn.Module):
    """Two convolutions that turn node ids into a score for either side."""

    def __init__(self, num_nodes):
        super().__init__()
        self.embedding = nn.Embedding(num_nodes, 16)
        self.first = GraphConv(16, 16)
        self.second = GraphConv(16, 2)

    def forward(self, g):
        h = torch.relu(self.first(g, self.embedding.weight))
        return self.second(g, h)


def club():
    """The graph of 34 members, and the side that each of them took."""
    friends = networkx.karate_club_graph()
    g = sg.add_self_loop(sg.from_networkx(friends))
    sides = [int(data["club"] == "Officer") for _, data in friends.nodes(data=True)]
    return g, torch.tensor(sides)


def train(steps=60):
    """Learns the sides from those of the two leaders alone; returns the share that is right."""
    torch.manual_seed(0)
    g, sides = club()
    net = Net(g.num_nodes())
    optimizer = torch.optim.Adam(net.parameters(), lr=0.02)
    known = torch.tensor([0, 33])  # the instructor and the officer
    for _ in range(steps):
        loss = F.cross_entropy(net(g)[known], sides[known])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return float((net(g).argmax(1) == sides).float().mean())


if __name__ == "__main__":
    g, _ = club()
    print(g)
    print(f"{train():.0%} of the members are on the side that the graph tells")
