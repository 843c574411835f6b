"""Which of eight shapes a graph has: GIN on batches of small graphs.

    pip install networkx
    python examples/graph/train_gin_shapes.py [--epochs 15] [--graphs 320]

Nodes know their degrees only. Each batch is one graph whose parts do not touch; the sum over the
nodes of each part is what is told about it (Xu et al., ICLR'19).
"""

import argparse

import torch
import torch.nn.functional as F
from torch import nn

import smex.graph as sg

LARGEST_DEGREE = 40


def mlp(inputs, hidden):
    return nn.Sequential(nn.Linear(inputs, hidden), nn.ReLU(), nn.Linear(hidden, hidden))


class GIN(nn.Module):
    """Layers of sums over neighbours; every layer's sum over the nodes has a say."""

    def __init__(self, hidden, num_classes, layers=3):
        super().__init__()
        self.degrees = nn.Embedding(LARGEST_DEGREE + 1, hidden)
        self.convs = nn.ModuleList(sg.nn.GINConv(mlp(hidden, hidden)) for _ in range(layers))
        self.norms = nn.ModuleList(nn.BatchNorm1d(hidden) for _ in range(layers))
        self.pool = sg.nn.SumPooling()
        self.heads = nn.ModuleList(nn.Linear(hidden, num_classes) for _ in range(layers))

    def forward(self, g):
        h = self.degrees(g.in_degrees().clamp(max=LARGEST_DEGREE))
        scores = 0
        for conv, norm, head in zip(self.convs, self.norms, self.heads, strict=True):
            h = torch.relu(norm(conv(g, h)))
            scores = scores + head(self.pool(g, h))
        return scores


def accuracy(net, loader):
    """The part of the graphs whose shape is told right."""
    net.eval()
    with torch.no_grad():
        right = [(net(g).argmax(1) == labels).float() for g, labels in loader]
    return float(torch.cat(right).mean())


def main(arguments=None):
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--epochs", type=int, default=15)
    parser.add_argument("--graphs", type=int, default=320)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args(arguments)
    torch.manual_seed(options.seed)
    data = [
        sg.data.MiniGCDataset(options.graphs // part, 10, 20, seed=part) for part in (1, 4)
    ]  # for training, and a fourth as many to test
    train, test = (
        sg.dataloading.GraphDataLoader(graphs, batch_size=32, shuffle=graphs is data[0])
        for graphs in data
    )
    net = GIN(32, data[0].num_classes)
    optimizer = torch.optim.Adam(net.parameters(), lr=0.01)
    right = 0.0
    for epoch in range(options.epochs):
        net.train()
        total = 0.0
        for g, labels in train:
            loss = F.cross_entropy(net(g), labels)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            total += loss.item() * len(labels)
        right = accuracy(net, test)
        print(f"epoch {epoch:2}: loss {total / len(data[0]):.4f}, {right:.0%} of the test graphs")
    return right


if __name__ == "__main__":
    main()
