"""Fields of papers from who wrote them, where, and what they cite: R-GCN and HGT on a heterograph.

    python examples/graph/train_hetero.py --model rgcn

The graph is drawn: authors mostly write in one field and venues mostly print one, but papers cite
at random, and their own features tell little. A model has to learn which relations count.

* ``rgcn``: ``sg.nn.RelGraphConv`` (Schlichtkrull et al., ESWC'18) on one graph of all types,
* ``hgt``: ``sg.nn.HGTConv`` (Hu et al., WWW'20) on the same,
* ``sage``: ``sg.nn.HeteroGraphConv``, a layer for each relation, on sampled mini-batches.
"""

import argparse

import torch
import torch.nn.functional as F
from torch import nn

import smex.graph as sg

FIELDS = 5
TYPES = {"author": 4, "paper": 16, "venue": 4}  # and their numbers of features


def papers(num_papers, seed=0):
    """A heterograph of papers, authors and venues; papers have features, labels and masks."""
    sg.seed(seed)
    num_authors, num_venues = num_papers // 2, num_papers // 40

    def mostly_of(fields, candidates, loyal):
        """For each field a candidate, of the same field with probability ``loyal``."""
        order = torch.argsort(candidates)
        starts = F.pad(torch.bincount(candidates, minlength=FIELDS).cumsum(0), (1, 0))
        wanted = torch.where(
            torch.rand(len(fields)) < loyal, fields, torch.randint(FIELDS, fields.shape)
        )
        low, high = starts[wanted], starts[wanted + 1]
        return order[low + (torch.rand(len(fields)) * (high - low)).long()]

    field = torch.randint(FIELDS, (num_papers,))
    author_field, venue_field = (torch.arange(n) % FIELDS for n in (num_authors, num_venues))
    written = torch.arange(num_papers).repeat_interleave(3)
    author = mostly_of(field[written], author_field, 0.6)
    venue = mostly_of(field, venue_field, 0.5)
    cites = torch.randint(num_papers, (2, 6 * num_papers))
    paper = torch.arange(num_papers)
    g = sg.heterograph(
        {
            ("author", "writes", "paper"): (author, written),
            ("paper", "written by", "author"): (written, author),
            ("paper", "appears in", "venue"): (paper, venue),
            ("venue", "prints", "paper"): (venue, paper),
            ("paper", "cites", "paper"): (cites[0], cites[1]),
            ("paper", "cited by", "paper"): (cites[1], cites[0]),
        },
        {"author": num_authors, "paper": num_papers, "venue": num_venues},
    )
    for ntype, width in TYPES.items():
        g.nodes[ntype].data["feat"] = torch.randn(g.num_nodes(ntype), width)
    g.nodes["paper"].data["feat"][:, :FIELDS] += F.one_hot(field, FIELDS)
    g.nodes["paper"].data["label"] = field
    chance = torch.rand(num_papers)
    g.nodes["paper"].data["train"] = chance < 0.3
    g.nodes["paper"].data["test"] = chance > 0.5
    return g


class Homogeneous(nn.Module):
    """Two layers on one graph whose nodes and edges know their types."""

    def __init__(self, kind, g, hidden=32):
        super().__init__()
        num_ntypes, num_etypes = len(g.ntypes), len(g.etypes)
        sizes = {ntype: feat.shape[1] for ntype, feat in g.ndata["feat"].items()}
        self.project = sg.nn.HeteroLinear(sizes, hidden)
        self.kind = kind

        def layer():
            if kind == "hgt":
                size = hidden // 4
                return sg.nn.HGTConv(hidden, size, 4, num_ntypes, num_etypes, use_norm=True)
            return sg.nn.RelGraphConv(hidden, hidden, num_etypes)

        self.first, self.second = layer(), layer()
        self.out = nn.Linear(hidden, FIELDS)

    def forward(self, g, feat):
        rows = self.project(feat)
        h = torch.cat([rows[ntype] for ntype in TYPES])  # to_homogeneous has types in this order
        for layer in (self.first, self.second):
            if self.kind == "hgt":
                h = layer(g, h, g.ndata[sg.NTYPE], g.edata[sg.ETYPE], presorted=True)
            else:  # the mean for each relation
                h = layer(g, h, g.edata[sg.ETYPE], g.edata["norm"])
            h = F.dropout(F.relu(h), 0.2, self.training)
        return self.out(h)


class Sage(nn.Module):
    """Two layers, each of one layer for each relation, whose results are added."""

    def __init__(self, g, hidden=32):
        super().__init__()
        sizes = {ntype: feat.shape[1] for ntype, feat in g.ndata["feat"].items()}
        self.project = sg.nn.HeteroLinear(sizes, hidden)

        def layer():
            kinds = {etype: sg.nn.SAGEConv(hidden, hidden, "mean") for etype in g.etypes}
            return sg.nn.HeteroGraphConv(kinds)

        self.layers = nn.ModuleList([layer(), layer()])
        self.out = nn.Linear(hidden, FIELDS)

    def forward(self, blocks, feat):
        h = self.project(feat)
        for layer, block in zip(self.layers, blocks, strict=True):
            h = {t: F.dropout(F.relu(x), 0.2, self.training) for t, x in layer(block, h).items()}
        return self.out(h["paper"])


def homogeneous(g):
    """The graph of all types, with the share of each edge in the mean of its relation."""
    flat = sg.to_homogeneous(g)
    _, dst = flat.edges()
    group = dst * len(g.etypes) + flat.edata[sg.ETYPE]
    flat.edata["norm"] = 1 / torch.bincount(group)[group].float()
    return flat


def train_whole(g, kind, epochs):
    """The share of test papers whose field is told right, trained on the whole graph."""
    flat, feat = homogeneous(g), {ntype: g.nodes[ntype].data["feat"] for ntype in TYPES}
    is_paper = flat.ndata[sg.NTYPE] == g.get_ntype_id("paper")
    known, label, test = (g.nodes["paper"].data[name] for name in ("train", "label", "test"))
    net = Homogeneous(kind, g)
    optimizer = torch.optim.Adam(net.parameters(), lr=0.01, weight_decay=5e-4)
    for epoch in range(epochs):
        net.train()
        loss = F.cross_entropy(net(flat, feat)[is_paper][known], label[known])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if epoch % 10 == 9:
            print(f"epoch {epoch:3}: loss {loss.item():.4f}")
    net.eval()
    with torch.no_grad():
        return float((net(flat, feat)[is_paper].argmax(1) == label)[test].float().mean())


def train_batches(g, epochs):
    """The same, trained on sampled neighbours."""
    data = g.nodes["paper"].data
    sampler = sg.dataloading.NeighborSampler(
        [8, 8], prefetch_node_feats={t: ["feat"] for t in TYPES}
    )

    def loader(mask, shuffle):
        seeds = {"paper": data[mask].nonzero().view(-1)}
        return sg.dataloading.DataLoader(g, seeds, sampler, batch_size=256, shuffle=shuffle)

    net = Sage(g)
    optimizer = torch.optim.Adam(net.parameters(), lr=0.01, weight_decay=5e-4)
    for epoch in range(epochs):
        net.train()
        total = 0.0
        for _, seeds, blocks in loader("train", shuffle=True):
            scores = net(blocks, blocks[0].srcdata["feat"])
            loss = F.cross_entropy(scores, data["label"][seeds["paper"]])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            total += loss.item() * len(scores)
        print(f"epoch {epoch:3}: loss {total / int(data['train'].sum()):.4f}")
    net.eval()
    with torch.no_grad():
        right = [
            net(blocks, blocks[0].srcdata["feat"]).argmax(1) == data["label"][seeds["paper"]]
            for _, seeds, blocks in loader("test", shuffle=False)
        ]
    return float(torch.cat(right).float().mean())


def main(arguments=None):
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--model", choices=["rgcn", "hgt", "sage"], default="rgcn")
    parser.add_argument("--epochs", type=int, help="50 of the whole graph, 20 of mini-batches")
    parser.add_argument("--papers", type=int, default=4000)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args(arguments)
    g = papers(options.papers, options.seed)
    print(g)
    torch.manual_seed(options.seed)
    if options.model == "sage":
        right = train_batches(g, options.epochs or 20)
    else:
        right = train_whole(g, options.model, options.epochs or 50)
    print(f"{options.model}: {right:.1%} of the test papers")
    return right


if __name__ == "__main__":
    main()
