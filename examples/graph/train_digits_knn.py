"""Digits from ten labelled ones of each kind: a graph convolution on a graph of nearest neighbours.

    pip install scikit-learn
    python examples/graph/train_digits_knn.py

The 1,797 pictures of scikit-learn's digits are joined to those most similar to them. The same
network without the graph is trained beside it, for comparison.
"""

import argparse

import torch
import torch.nn.functional as F
from sklearn.datasets import load_digits
from torch import nn

import smex.graph as sg


class Net(nn.Module):
    """Two graph convolutions."""

    def __init__(self, num_pixels, num_classes):
        super().__init__()
        self.first = sg.nn.GraphConv(num_pixels, 64, activation=torch.relu)
        self.second = sg.nn.GraphConv(64, num_classes)

    def forward(self, g, h):
        h = F.dropout(self.first(g, h), 0.5, self.training)
        return self.second(g, h)


def digits(neighbours, labelled, seed):
    """The graph of similar pictures; ``known`` are the nodes whose label is known."""
    pixels, labels = (torch.from_numpy(part) for part in load_digits(return_X_y=True))
    pixels = pixels.float() / 16
    g = sg.knn_graph(pixels, neighbours, algorithm="kd-tree", exclude_self=True)
    g = sg.add_self_loop(sg.to_bidirected(g))
    g.ndata["pixels"], g.ndata["label"] = pixels, labels
    generator = torch.Generator().manual_seed(seed)
    order = torch.randperm(len(labels), generator=generator)
    known = torch.cat([order[labels[order] == digit][:labelled] for digit in range(10)])
    g.ndata["known"] = torch.zeros(len(labels), dtype=torch.bool).index_fill(0, known, True)
    return g


def train(g, epochs, seed):
    """The share of the other nodes whose label is found, on g's edges and features."""
    torch.manual_seed(seed)
    pixels, labels, known = g.ndata["pixels"], g.ndata["label"], g.ndata["known"]
    net = Net(pixels.shape[1], 10)
    optimizer = torch.optim.Adam(net.parameters(), lr=0.01, weight_decay=5e-4)
    for _ in range(epochs):
        loss = F.cross_entropy(net(g, pixels)[known], labels[known])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    net.eval()
    with torch.no_grad():
        return float((net(g, pixels).argmax(1) == labels)[~known].float().mean())


def main(arguments=None):
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--epochs", type=int, default=200)
    parser.add_argument("--neighbours", type=int, default=8)
    parser.add_argument("--labelled", type=int, default=10, help="pictures of each digit")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args(arguments)
    g = digits(options.neighbours, options.labelled, options.seed)
    alone = sg.add_self_loop(sg.remove_edges(g, torch.arange(g.num_edges())))
    print(f"{g.num_nodes()} pictures, {g.num_edges()} edges")
    results = [train(graph, options.epochs, options.seed) for graph in (g, alone)]
    print("{:.1%} of the other pictures with the graph, {:.1%} without".format(*results))
    return results


if __name__ == "__main__":
    main()
