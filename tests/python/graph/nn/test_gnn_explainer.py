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
        model, num_hops=1, num_epochs=300, lr=0.05, alpha1=0.05, log=False
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
