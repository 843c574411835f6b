"""Zachary's karate club, sides from the two leaders' alone: a layer of one's own and a ready one.

    pip install networkx
    python examples/graph/train_karate.py --model own

``gcn`` is the layer ``sg.nn.GraphConv``; ``own`` is written with message passing, and its message
and reduce functions run as one kernel.
"""

import argparse

import torch
import torch.nn.functional as F
from torch import nn

import smex.graph as sg


class Mean(nn.Module):
    """A linear map of the mean of what the neighbours have, itself among them."""

    def __init__(self, in_feats, out_feats):
        super().__init__()
        self.linear = nn.Linear(in_feats, out_feats)

    def forward(self, g, h):
        with g.local_scope():
            g.ndata["h"] = self.linear(h)
            g.update_all(
                lambda edges: {"m": edges.src["h"]},
                lambda nodes: {"mean": nodes.mailbox["m"].mean(1)},
            )
            return g.ndata["mean"]


class Net(nn.Module):
    """Two layers on what is learned about each member."""

    def __init__(self, kind, num_nodes):
        super().__init__()
        self.embedding = nn.Embedding(num_nodes, 16)
        if kind == "gcn":
            layers = sg.nn.GraphConv(16, 16), sg.nn.GraphConv(16, 2)
        else:
            layers = Mean(16, 16), Mean(16, 2)
        self.first, self.second = layers

    def forward(self, g):
        h = torch.relu(self.first(g, self.embedding.weight))
        return self.second(g, h)


def main(arguments=None):
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--model", choices=["gcn", "own"], default="gcn")
    parser.add_argument("--epochs", type=int, default=60)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args(arguments)
    torch.manual_seed(options.seed)
    g = sg.data.KarateClubDataset(transform=sg.AddSelfLoop())[0]
    sides = g.ndata["label"]
    known = torch.tensor([0, 33])  # the instructor and the officer
    net = Net(options.model, g.num_nodes())
    optimizer = torch.optim.Adam(net.parameters(), lr=0.02)
    for epoch in range(options.epochs):
        scores = net(g)
        loss = F.cross_entropy(scores[known], sides[known])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        right = float((scores.argmax(1) == sides).float().mean())
        if epoch % 10 == 0 or epoch + 1 == options.epochs:
            print(f"epoch {epoch:3}: loss {loss:.4f}, {right:.0%} of the members are right")
    return right


if __name__ == "__main__":
    main()
