"""Explaining networks on models whose predictions are known to depend on some edges only."""

import pytest
import torch
from torch import nn

import smex
import smex.graph as sg
import smex.graph.function as fn


class Model(nn.Module):
    """Class 1 where a neighbour's feature 0 is large; nodes are embedded by their features."""

    def __init__(self, graphs):
        super().__init__()
        self.graphs = graphs
        self.scale = nn.Parameter(torch.tensor(3.0))

    def forward(self, graph, feat, embed=False, edge_weight=None):
        if embed:
            return feat
        with graph.local_scope():
            graph.ndata["h"] = feat[:, :1]
            graph.edata["w"] = torch.ones(graph.num_edges()) if edge_weight is None else edge_weight
            graph.update_all(fn.u_mul_e("h", "w", "m"), fn.sum("m", "h"))
            total = sg.sum_nodes(graph, "h") if self.graphs else graph.ndata["h"]
            score = self.scale * (total - 2)
            return torch.cat([-score, score], 1)


def star(seed, both_ways=False):
    """Node 0 gets messages of 1 to 4, of which one has a large feature 0."""
    src, dst = torch.tensor([1, 2, 3, 4]), torch.zeros(4, dtype=torch.long)
    if both_ways:
        src, dst = torch.cat([src, dst]), torch.cat([dst, src])
    feat = torch.zeros(5, 3)
    feat[1 + seed % 4, 0] = 4.0
    return sg.graph((src, dst), num_nodes=5), feat


def large(g, feat):
    return feat[g.edges()[0], 0] > 0


def trained(explainer, step):
    before = [p.clone() for p in explainer.model.parameters()]
    optimizer = torch.optim.Adam(explainer.parameters(), lr=0.03)
    for epoch in range(60):
        optimizer.zero_grad()
        step(5.0 * 0.2 ** (epoch / 60)).backward()
        optimizer.step()
    for old, new in zip(before, explainer.model.parameters()):
        assert torch.equal(old, new) and new.grad is None


def test_graphs_are_explained():
    torch.manual_seed(0)
    explainer = sg.nn.PGExplainer(Model(graphs=True), 3, coff_budget=0.05)
    graphs, feats = zip(*(star(seed) for seed in range(4)))
    together, feat = sg.batch(graphs), torch.cat(feats)
    trained(explainer, lambda t: explainer.train_step(together, feat, t))
    for g, x in zip(graphs, feats):
        probabilities, weights = explainer.explain_graph(g, x)
        assert weights[large(g, x)].min() > 2 * weights[~large(g, x)].max()
        assert probabilities.shape == (1, 2) and probabilities.argmax() == 1


def test_nodes_are_explained():
    torch.manual_seed(0)
    explainer = sg.nn.PGExplainer(
        Model(graphs=False), 3, num_hops=1, explain_graph=False, coff_budget=0.05
    )
    g, feat = (
        sg.batch([star(seed)[0] for seed in range(4)]),
        torch.cat([star(s)[1] for s in range(4)]),
    )
    roots = torch.arange(0, 20, 5)
    trained(explainer, lambda t: explainer.train_step_node(roots, g, feat, t))
    probabilities, weights, parts, where = explainer.explain_node(roots, g, feat)
    assert parts.batch_size == 4 and where.tolist() == [0, 5, 10, 15]
    assert torch.equal(parts.ndata[sg.NID][where], roots)
    needed = feat[parts.ndata[sg.NID], 0][parts.edges()[0]] > 0
    assert weights[needed].min() > 2 * weights[~needed].max()
    assert probabilities.shape == (20, 2) and probabilities[where].argmax(1).all()
    assert explainer.explain_node(5, g, feat)[3].tolist() == [0]


def test_edges_and_their_reverses_weigh_the_same():
    torch.manual_seed(0)
    explainer = sg.nn.PGExplainer(Model(graphs=True), 3)
    g, feat = star(0, both_ways=True)
    _, weights = explainer.explain_graph(g, feat)
    src, dst = g.edges()
    alone = explainer.elayers(torch.cat([feat[src], feat[dst]], 1)).sigmoid().flatten()
    torch.testing.assert_close(weights, (alone + alone[[4, 5, 6, 7, 0, 1, 2, 3]]) / 2)


def test_the_loss_equals_its_formula():
    torch.manual_seed(0)
    explainer = sg.nn.PGExplainer(Model(graphs=True), 3, sample_bias=0.5)  # which draws nothing
    g, feat = star(2)
    for temperature in (1.0, 2.5):
        score = explainer.elayers(torch.cat([feat[g.edges()[0]], feat[g.edges()[1]]], 1))
        weight = (score.flatten() / temperature).sigmoid()
        chance = explainer.model(g, feat, edge_weight=weight).softmax(1)[0, 1]
        share = weight * 0.98 + 0.01
        entropy = -(share * share.log() + (1 - share) * (1 - share).log()).mean()
        expected = -(chance + 1e-6).log() + 0.01 * (weight.sum() - 0.01) + 5e-4 * entropy
        torch.testing.assert_close(explainer.train_step(g, feat, temperature), expected)


class TwoTypes(nn.Module):
    """As ``Model`` on items, which users of two kinds of relations bring features to."""

    def __init__(self, graphs):
        super().__init__()
        self.graphs = graphs

    def forward(self, graph, feat, embed=False, edge_weight=None):
        if embed:
            return feat
        with graph.local_scope():
            graph.nodes["user"].data["h"] = feat["user"][:, :1]
            for etype in graph.canonical_etypes:
                every = torch.ones(graph.num_edges(etype))
                graph.edges[etype].data["w"] = every if edge_weight is None else edge_weight[etype]
            step = (fn.u_mul_e("h", "w", "m"), fn.sum("m", "new"))
            graph.multi_update_all({"has": step, "seen": step}, "sum")
            rows = graph.nodes["item"].data["new"]
            score = 3 * ((rows.sum(0, keepdim=True) if self.graphs else rows) - 2)
            logits = torch.cat([-score, score], 1)
            return logits if self.graphs else {"item": logits}


def shop():
    """Items 0 and 1 are had by users 1 and 2, seen by users 0 and 3; users 1 and 3 are large."""
    g = sg.heterograph(
        {
            ("user", "has", "item"): ([0, 1, 2], [1, 0, 1]),
            ("user", "seen", "item"): ([3, 0], [1, 0]),
        }
    )
    feat = {"user": torch.zeros(4, 3), "item": torch.zeros(2, 3)}
    feat["user"][[1, 3], 0] = 4.0
    return g, feat


def check_shop(part, weights):
    user = part.nodes["user"].data.get(sg.NID, torch.arange(4))
    every, needed = [], []
    for etype in part.canonical_etypes:
        assert weights[etype].shape == (part.num_edges(etype),)
        every.append(weights[etype])
        source = user[part.edges(etype=etype)[0]]
        needed.append((source == 1) | (source == 3))
    every, needed = torch.cat(every), torch.cat(needed)
    assert every[needed].min() > 2 * every[~needed].max()


def test_nodes_of_several_types_are_explained():
    torch.manual_seed(0)
    g, feat = shop()
    explainer = sg.nn.HeteroPGExplainer(
        TwoTypes(graphs=False), 3, num_hops=1, explain_graph=False, coff_budget=0.05
    )
    items = {"item": [1, 0]}
    trained(explainer, lambda t: explainer.train_step_node(items, g, feat, t))
    probabilities, weights, parts, where = explainer.explain_node(items, g, feat)
    check_shop(parts, weights)
    assert parts.nodes["item"].data[sg.NID][where["item"]].tolist() == [1, 0]
    assert where["user"].tolist() == [] and probabilities["item"].argmax(1).all()


def test_graphs_of_several_types_are_explained():
    torch.manual_seed(0)
    g, feat = shop()
    explainer = sg.nn.HeteroPGExplainer(TwoTypes(graphs=True), 3, coff_budget=0.2)
    trained(explainer, lambda t: explainer.train_step(g, feat, t))
    probabilities, weights = explainer.explain_graph(g, feat)
    assert probabilities.shape == (1, 2) and set(weights) == set(g.canonical_etypes)
    check_shop(g, weights)


def test_each_edge_is_told_the_node_that_is_explained():
    torch.manual_seed(0)
    g, feat = shop()
    feat = {t: torch.rand_like(x) for t, x in feat.items()}
    explainer = sg.nn.HeteroPGExplainer(TwoTypes(False), 3, num_hops=1, explain_graph=False)
    _, weights, parts, _ = explainer.explain_node({"item": [1, 0]}, g, feat)
    for etype in parts.canonical_etypes:
        src, dst = parts.edges(etype=etype)
        user = parts.nodes["user"].data[sg.NID][src]
        item = parts.nodes["item"].data[sg.NID][dst]  # each item is in the part that explains it
        rows = torch.cat([feat["user"][user], feat["item"][item], feat["item"][item]], 1)
        torch.testing.assert_close(weights[etype], explainer.elayers(rows).sigmoid().flatten())


def test_mistakes():
    g, feat = star(0)
    graphs = sg.nn.PGExplainer(Model(graphs=True), 3)
    with pytest.raises(smex.SmexValueError, match="made to explain graphs, found a call that expl"):
        graphs.explain_node(0, g, feat)
    nodes = sg.nn.PGExplainer(Model(graphs=False), 3, explain_graph=False)
    with pytest.raises(smex.SmexValueError, match="made to explain nodes, found a call that expla"):
        nodes.explain_graph(g, feat)
    with pytest.raises(smex.SmexValueError, match="expected num_hops, which nodes are explained"):
        nodes.explain_node(0, g, feat)
    with pytest.raises(smex.SmexValueError, match="PGExplainer: expected features of 5 nodes"):
        graphs.explain_graph(g, feat[:4])
