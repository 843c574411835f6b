"""Sums over edges by the peers that their sources come from, where memory is limited."""

import pytest
import torch
from torch.testing import assert_close

import smex
import smex.graph as sg
from support.graph_networks import NETWORKS

CLOSE = {"rtol": 1e-10, "atol": 1e-10}
WIDE = 64
NODES = 1024


class GCN(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = torch.nn.ModuleList(
            sg.nn.GraphConv(WIDE, WIDE, allow_zero_in_degree=True) for _ in range(2)
        )

    def forward(self, g, x):
        return self.layers[1](g, torch.relu(self.layers[0](g, x)))


class SAGE(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = torch.nn.ModuleList(sg.nn.SAGEConv(WIDE, WIDE, "mean") for _ in range(2))

    def forward(self, g, x):
        return self.layers[1](g, torch.relu(self.layers[0](g, x)))


MODELS = {"GCN": GCN, "SAGE": SAGE}


def dense_graph(degree=32):
    torch.manual_seed(0)
    src, dst = torch.randint(NODES, (2, NODES * degree))
    dst[dst == 5] = 6  # a node without edges
    return sg.graph((src, dst), num_nodes=NODES)


def trained(model, call):
    out = model(*call)
    weights = torch.randn_like(out)
    (out * weights).sum().backward()
    gradients = {name: p.grad.clone() for name, p in model.named_parameters()}
    model.zero_grad()
    return out.detach(), weights, gradients


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("workers", [4, 8])
def test_training_keeps_to_a_limit_that_nothing_else_keeps_to(name, workers):
    g = dense_graph()
    torch.manual_seed(1)
    x = torch.randn(NODES, WIDE, dtype=torch.float64)
    model = MODELS[name]().double()
    expected, weights, gradients = trained(model, (g, x))
    options = {
        "args": (g, x),
        "workers": workers,
        "planner": "vertices",
        "recompute": "checkpoints",
    }
    roomy = smex.partition(model, **options)
    assert not roomy.plan.native.by_peer and "by peer" not in str(roomy.plan)
    most = max(roomy.plan.peak_bytes())
    limit = 0.87 * most
    net = smex.partition(model, **options, memory_limit=limit)
    assert net.plan.native.by_peer and "sums by peer: " in str(net.plan)
    assert max(net.plan.peak_bytes()) <= limit
    assert net.plan.total_bytes == roomy.plan.total_bytes
    out = net(g, x)
    (out * weights).sum().backward()
    assert_close(out.detach(), expected, **CLOSE)
    grads = net.full_grads()
    for key, wanted in gradients.items():
        assert_close(grads[key], wanted, **CLOSE)
    stats = net.stats()
    assert max(stats["peak_bytes"]) <= limit
    assert stats["bytes_moved"] == stats["predicted_bytes_moved"]


def test_a_file_of_a_plan_says_so(tmp_path):
    g, x = dense_graph(), torch.randn(NODES, WIDE)
    options = {"args": (g, x), "workers": 4, "planner": "vertices"}
    roomy = smex.partition(GCN(), **options)
    limit = 0.9 * max(roomy.plan.peak_bytes())
    plan = smex.partition(GCN(), **options, memory_limit=limit).plan
    plan.save(tmp_path / "plan.json")
    loaded = smex.Plan.load(tmp_path / "plan.json", plan.graph)
    assert loaded.native.by_peer == plan.native.by_peer
    assert loaded.peak_bytes() == plan.peak_bytes()


@pytest.mark.parametrize("name", ["GCN", "SAGE", "GIN", "CommNet"])
def test_all_sums_by_peer_equal_one_process(name):
    """Also where no limit asks for it."""
    from support.graph_networks import graph
    from support.graph_networks import trained as trained_network

    g = graph(nodes=60, edges=900)
    x = torch.randn(60, 6, dtype=torch.float64)
    model, expected, weights, gradients = trained_network(name, g, x)
    assert name in NETWORKS
    found = smex.partition(
        model, args=(g, x), workers=5, planner="vertices", replicate_bytes=0, pins={"x": 0}
    ).plan
    found.native.by_peer = True
    found.forget_program()
    net = smex.partition(model, args=(g, x), plan=found)
    assert net.plan.program().sums_by_peer > 0
    out = net(g, x)
    (out * weights).sum().backward()
    assert_close(out.detach(), expected, **CLOSE)
    for key, grad in net.full_grads().items():
        assert_close(grad, gradients[key], **CLOSE)
    stats = net.stats()
    assert stats["bytes_moved"] == stats["predicted_bytes_moved"]


class GAT(torch.nn.Module):
    """Two layers: the rows that the second adds up are made where the first one's are."""

    def __init__(self):
        super().__init__()
        self.first = sg.nn.GATConv(WIDE, WIDE // 2, 2, allow_zero_in_degree=True)
        self.second = sg.nn.GATConv(WIDE, WIDE // 2, 2, allow_zero_in_degree=True)

    def forward(self, g, x):
        return self.second(g, self.first(g, x).flatten(1)).flatten(1)


def test_sums_with_values_of_edges_equal_one_process():
    g = dense_graph(degree=4)  # few edges: by part, their values are copied beside the rows
    x = torch.randn(NODES, WIDE, dtype=torch.float64)
    model = GAT().double()
    expected, weights, gradients = trained(model, (g, x))
    options = {"args": (g, x), "workers": 8, "planner": "vertices"}
    found = smex.partition(model, **options).plan
    found.native.by_peer = True
    found.forget_program()
    net = smex.partition(model, args=(g, x), plan=found)
    assert "smex::spmm" in str(net.plan.graph)
    assert net.plan.program().sums_by_peer > 0
    out = net(g, x)
    (out * weights).sum().backward()
    assert_close(out.detach(), expected, **CLOSE)
    for key, grad in net.full_grads().items():
        assert_close(grad, gradients[key], **CLOSE)
    stats = net.stats()
    assert stats["bytes_moved"] == stats["predicted_bytes_moved"]
