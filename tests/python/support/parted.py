"""Graphs that are written in parts, for tests of one graph on many ranks."""

import torch

import smex.graph as sg


def small_graph(num_nodes=300, num_edges=1500, seed=0):
    """A graph with features that tell the ids of its nodes and edges."""
    torch.manual_seed(seed)
    g = sg.rand_graph(num_nodes, num_edges)
    g.ndata["x"] = torch.randn(num_nodes, 6)
    g.ndata["label"] = torch.randint(3, (num_nodes,))
    g.ndata["train"] = torch.rand(num_nodes) < 0.4
    g.edata["w"] = torch.rand(num_edges, dtype=torch.float64)
    return g


def typed_graph(seed=0):
    """Two node types and three edge types, one of them without edges."""
    torch.manual_seed(seed)
    pairs = {
        ("user", "follows", "user"): (torch.randint(40, (150,)), torch.randint(40, (150,))),
        ("user", "plays", "game"): (torch.randint(40, (200,)), torch.randint(25, (200,))),
        ("game", "played", "user"): ([], []),
    }
    g = sg.heterograph(pairs, num_nodes_dict={"user": 40, "game": 25})
    g.nodes["user"].data["x"] = torch.randn(40, 3)
    g.nodes["game"].data["x"] = torch.randn(25, 3)
    g.nodes["game"].data["kind"] = torch.randint(4, (25,), dtype=torch.int32)
    g.edges["plays"].data["hours"] = torch.rand(200).bfloat16()
    return g


class SAGE(torch.nn.Module):
    """Two layers of GraphSAGE."""

    def __init__(self, inputs=6, hidden=8, outputs=3):
        super().__init__()
        self.first = sg.nn.SAGEConv(inputs, hidden, "mean")
        self.second = sg.nn.SAGEConv(hidden, outputs, "mean")

    def forward(self, blocks, x):
        return self.second(blocks[1], torch.relu(self.first(blocks[0], x)))
