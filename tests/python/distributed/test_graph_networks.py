"""One graph on several processes: what ranks compute of their vertices, and what they send."""

import pytest
import torch
from torch.testing import assert_close

import smex
from support.graph_networks import graph, trained

GROUP = {"SMEX_SHARED_MEMORY": "0"}


def train(rank, name, workers):
    torch.set_num_threads(1)
    g = graph()
    x = torch.randn(g.num_nodes(), 6, dtype=torch.float64)
    model, expected, weights, gradients = trained(name, g, x)
    net = smex.partition(model, args=(g, x), workers=workers, replicate_bytes=0, pins={"x": 0})
    found = []
    for _ in range(2):
        out = net(g, x)
        (out * weights).sum().backward()
        found.append((out.detach(), net.full_grads()))
        net.zero_grad()
    stats = net.stats()
    moved = (stats["bytes_moved"], stats["predicted_bytes_moved"])
    return {"found": found, "moved": moved, "expected": (expected, gradients)}


@pytest.mark.parametrize("variables", [{}, GROUP], ids=["memory", "group"])
@pytest.mark.parametrize("name", ["GCN", "GAT", "GIN"])
def test_ranks_equal_threads_and_one_process(processes, name, variables):
    threads = train(0, name, 3)
    for ranks in processes.run(train, 3, name, 3, variables=variables):
        expected, gradients = ranks["expected"]
        moved, predicted = ranks["moved"]  # of a result that each rank has whole, more than threads
        assert moved == predicted
        for (out, grads), (wanted, wanted_grads) in zip(ranks["found"], threads["found"]):
            assert torch.equal(out, wanted)
            assert_close(out, expected, rtol=1e-10, atol=1e-10)
            for key, grad in grads.items():
                assert torch.equal(grad, wanted_grads[key]), key
                assert_close(grad, gradients[key], rtol=1e-10, atol=1e-10)


def train_by_peer(rank, workers):
    torch.set_num_threads(1)
    g = graph(nodes=60, edges=900)
    x = torch.randn(g.num_nodes(), 6, dtype=torch.float64)
    model, expected, weights, gradients = trained("SAGE", g, x)
    options = {"replicate_bytes": 0, "planner": "vertices", "pins": {"x": 0}}
    plan = smex.partition(model, args=(g, x), workers=workers, **options).plan
    plan.native.by_peer = True  # as a memory limit may have it
    plan.forget_program()
    net = smex.partition(model, args=(g, x), plan=plan)
    out = net(g, x)
    (out * weights).sum().backward()
    stats = net.stats()
    moved = (stats["bytes_moved"], stats["predicted_bytes_moved"])
    found = (out.detach(), net.full_grads())
    return {
        "by_peer": net.plan.program().sums_by_peer,
        "found": found,
        "moved": moved,
        "expected": (expected, gradients),
    }


@pytest.mark.parametrize("variables", [{}, GROUP], ids=["memory", "group"])
def test_ranks_add_up_by_peer(processes, variables):
    for ranks in processes.run(train_by_peer, 2, 4, variables=variables):
        assert ranks["by_peer"] > 0
        assert ranks["moved"][0] == ranks["moved"][1]
        out, grads = ranks["found"]
        expected, gradients = ranks["expected"]
        assert_close(out, expected, rtol=1e-10, atol=1e-10)
        for key, grad in grads.items():
            assert_close(grad, gradients[key], rtol=1e-10, atol=1e-10)
