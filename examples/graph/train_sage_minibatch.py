"""Mini-batches on a large graph: GraphSAGE on sampled neighbours, for nodes or for links.

    python examples/graph/train_sage_minibatch.py [--task nodes|links] [--nodes 20000] [--epochs 8]

The graph is drawn: nodes of five groups, most edges within a group, features that tell little. A
batch has 512 nodes (or edges) and up to 10 neighbours of each in each of two layers (Hamilton et
al., NeurIPS'17); ``links`` learns to tell edges from pairs that are none, without labels.
"""

import argparse

import torch
import torch.nn.functional as F
from torch import nn

import smex.graph as sg

GROUPS, FEATURES = 5, 16


def drawn_graph(num_nodes, degree=8):
    """Nodes of groups, four of five edges within a group, features with a hint of it."""
    group = torch.randint(GROUPS, (num_nodes,))
    order = torch.argsort(group)
    start = torch.searchsorted(group[order], torch.arange(GROUPS))
    size = torch.bincount(group, minlength=GROUPS)
    src = torch.randint(num_nodes, (num_nodes * degree,))
    inside = order[start[group[src]] + (torch.rand(len(src)) * size[group[src]]).long()]
    anywhere = torch.randint(num_nodes, (len(src),))
    dst = torch.where(torch.rand(len(src)) < 0.8, inside, anywhere)
    g = sg.to_bidirected(sg.graph((src, dst), num_nodes=num_nodes))
    hint = 0.5 * F.one_hot(group, FEATURES).float()
    g.ndata["x"] = torch.randn(num_nodes, FEATURES) + hint
    g.ndata["group"] = group
    return g


class SAGE(nn.Module):
    """Two layers, from the outermost neighbours inwards."""

    def __init__(self, outputs, hidden=64):
        super().__init__()
        self.layers = nn.ModuleList(
            [sg.nn.SAGEConv(FEATURES, hidden, "mean"), sg.nn.SAGEConv(hidden, outputs, "mean")]
        )

    def forward(self, blocks, h):
        for n, (block, layer) in enumerate(zip(blocks, self.layers, strict=True)):
            h = layer(block, h)
            h = torch.relu(h) if n + 1 < len(self.layers) else h
        return h


def classify(g, sampler, options):
    """Trains on a tenth of the nodes; returns the part of the others that are right."""
    order = torch.randperm(g.num_nodes())
    known, unknown = order[: g.num_nodes() // 10], order[g.num_nodes() // 10 :]
    net = SAGE(GROUPS)
    optimizer = torch.optim.Adam(net.parameters(), lr=0.01)

    def batches(nodes, shuffle=False):
        loader = sg.dataloading.DataLoader(g, nodes, sampler, batch_size=512, shuffle=shuffle)
        for _, _, blocks in loader:
            yield net(blocks, blocks[0].srcdata["x"]), blocks[-1].dstdata["group"]

    right = 0.0
    for epoch in range(options.epochs):
        for scores, group in batches(known, shuffle=True):
            loss = F.cross_entropy(scores, group)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        with torch.no_grad():
            right = float(torch.cat([y.argmax(1) == c for y, c in batches(unknown)]).float().mean())
        print(f"epoch {epoch}: loss {loss:.4f}, {right:.1%} of the other nodes are right")
    return right


def link(g, sampler, options):
    """Trains on all edges; returns the part of edges whose score exceeds that of a pair."""
    net = SAGE(32)
    optimizer = torch.optim.Adam(net.parameters(), lr=0.01)
    pairs = sg.dataloading.as_edge_prediction_sampler(
        sampler, negative_sampler=sg.dataloading.negative_sampler.Uniform(1)
    )
    edges = torch.randperm(g.num_edges())[: 512 * 40]
    loader = sg.dataloading.DataLoader(g, edges, pairs, batch_size=512, shuffle=True)
    dot = sg.function.u_dot_v("h", "h", "score")
    above = 0.0
    for epoch in range(options.epochs):
        found = []
        for _, positive, negative, blocks in loader:
            h = net(blocks, blocks[0].srcdata["x"])
            scores = []
            for part in (positive, negative):
                part.ndata["h"] = h
                part.apply_edges(dot)
                scores.append(part.edata["score"].view(-1))
            loss = -(F.logsigmoid(scores[0]).mean() + F.logsigmoid(-scores[1]).mean())
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            found.append((scores[0] > scores[1]).float())
        above = float(torch.cat(found).mean())
        print(f"epoch {epoch}: loss {loss:.4f}, {above:.1%} of the edges are above a pair")
    return above


def main(arguments=None):
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--task", choices=["nodes", "links"], default="nodes")
    parser.add_argument("--nodes", type=int, default=20000)
    parser.add_argument("--epochs", type=int, default=8)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args(arguments)
    torch.manual_seed(options.seed)
    g = drawn_graph(options.nodes)
    print(f"{g.num_nodes()} nodes, {g.num_edges()} edges")
    sampler = sg.dataloading.NeighborSampler(
        [10, 10], prefetch_node_feats=["x"], prefetch_labels=["group"]
    )
    return (classify if options.task == "nodes" else link)(g, sampler, options)


if __name__ == "__main__":
    main()
