"""Explanations of a model whose prediction is known to depend on one edge and one feature."""

import pytest
import torch
from torch import nn

import smex
import smex.graph as sg
import smex.graph.function as fn


class Model(nn.Module):
    """Class 1 where the neighbours' feature 0 is large."""

    def __init__(self):
        super().__init__()
        self.calls = []
        self.scale = nn.Parameter(torch.tensor(3.0))

    def forward(self, graph, feat, eweight=None, offset=None):
        self.calls.append((graph.num_nodes(), None if offset is None else offset.shape[0]))
        with graph.local_scope():
            graph.ndata["h"] = feat[:, :1]
            graph.edata["w"] = torch.ones(graph.num_edges()) if eweight is None else eweight
            graph.update_all(fn.u_mul_e("h", "w", "m"), fn.sum("m", "h"))
            score = self.scale * (graph.ndata["h"] - 2)
            return torch.cat([-score, score], 1)


def star():
    """Node 0 gets messages of 1 to 4, of which only 1 has a large feature 0."""
    g = sg.graph(([1, 2, 3, 4, 5], [0, 0, 0, 0, 4]))
    feat = torch.zeros(6, 3)
    feat[1, 0] = 4.0
    return g, feat


def test_a_node_is_explained():
    torch.manual_seed(0)
    g, feat = star()
    model = Model()
    explainer = sg.nn.GNNExplainer(
        model, num_hops=1, num_epochs=300, lr=0.05, alpha1=0.05, alpha2=0.1, log=False
    )
    node, part, features, edges = explainer.explain_node(0, g, feat, offset=torch.zeros(6))
    assert part.ndata[sg.NID].tolist() == [0, 1, 2, 3, 4] and node.tolist() == [0]
    assert set(model.calls) == {(5, 5)}
    source = part.ndata[sg.NID][part.edges()[0]]
    assert source[edges.argmax()] == 1 and features.argmax() == 0
    assert edges.min() < 0.3 < 0.6 < edges.max()
    assert model.scale.grad is None and model.training


def test_a_graph_is_explained(caplog):
    torch.manual_seed(0)
    g, feat = star()

    class Whole(Model):
        def forward(self, graph, feat, eweight=None):
            return super().forward(graph, feat, eweight)[:1]

    with caplog.at_level("INFO", logger="smex"):
        features, edges = sg.nn.GNNExplainer(Whole(), num_hops=1, num_epochs=5).explain_graph(
            g, feat
        )
    assert features.shape == (3,) and edges.shape == (5,)
    assert len(caplog.records) == 5
    with pytest.raises(
        smex.SmexValueError, match="GNNExplainer: expected features of 6 nodes, found"
    ):
        sg.nn.GNNExplainer(Whole(), 1).explain_graph(g, feat[:5])


class TwoTypes(nn.Module):
    """Class 1 of an item where the feature 0 of what ``has`` brings is large."""

    def __init__(self):
        super().__init__()
        self.scale = nn.Parameter(torch.tensor(3.0))

    def forward(self, graph, feat, eweight=None):
        with graph.local_scope():
            for ntype, rows in feat.items():
                graph.nodes[ntype].data["h"] = rows[:, :1]
            for etype in graph.canonical_etypes:
                every = torch.ones(graph.num_edges(etype))
                graph.edges[etype].data["w"] = every if eweight is None else eweight[etype]
            message = fn.u_mul_e("h", "w", "m")
            graph.multi_update_all(
                {e: (message, fn.sum("m", "new")) for e in ("has", "seen")}, "sum"
            )
            score = self.scale * (graph.nodes["item"].data["new"] - 2)
            return {"item": torch.cat([-score, score], 1)}


def shop():
    """Item 0 is had by users 0 and 1 and seen by 2; only user 1 has a large feature 0."""
    g = sg.heterograph(
        {
            ("user", "has", "item"): ([0, 1, 3], [0, 0, 1]),
            ("user", "seen", "item"): ([2], [0]),
            ("item", "sold to", "user"): ([1], [3]),
        }
    )
    feat = {"user": torch.zeros(4, 3), "item": torch.rand(2, 2)}
    feat["user"][1, 0] = 4.0
    return g, feat


def test_a_node_of_several_types_is_explained():
    torch.manual_seed(0)
    g, feat = shop()
    model = TwoTypes()
    explainer = sg.nn.HeteroGNNExplainer(
        model, num_hops=1, num_epochs=300, lr=0.05, alpha1=0.05, alpha2=0.1, log=False
    )
    node, part, features, edges = explainer.explain_node("item", 0, g, feat)
    assert node.tolist() == [0] and part.num_nodes("item") == 1 and part.num_nodes("user") == 3
    assert set(edges) == set(g.canonical_etypes) and set(features) == {"user", "item"}
    assert edges["item", "sold to", "user"].shape == (0,) and features["item"].shape == (2,)
    has = edges["user", "has", "item"]
    assert has.argmax() == 1 and features["user"].argmax() == 0
    assert has[0] < 0.3 and edges["user", "seen", "item"] < 0.3 and has[1] > 0.6
    assert model.scale.grad is None and model.training


def test_a_graph_of_several_types_is_explained():
    torch.manual_seed(0)
    g, feat = shop()

    class Whole(TwoTypes):
        def forward(self, graph, feat, eweight=None):
            return super().forward(graph, feat, eweight)["item"][:1]

    explainer = sg.nn.HeteroGNNExplainer(
        Whole(), num_hops=1, num_epochs=300, lr=0.05, alpha1=0.05, alpha2=0.1, log=False
    )
    features, edges = explainer.explain_graph(g, feat)
    assert features["user"].argmax() == 0 and edges["user", "has", "item"].argmax() == 1
    with pytest.raises(
        smex.SmexValueError, match="HeteroGNNExplainer: expected features of 4 'user' nodes, found"
    ):
        explainer.explain_graph(g, {"user": feat["user"][:2]})
