"""Graph networks on several workers: what they compute, and what they move."""

import math
import re

import pytest
import torch
from torch.testing import assert_close

import smex
import smex.graph as sg
from smex._C import edge_walks, walked_rows
from support.graph_networks import NETWORKS, graph, trained

pytestmark = pytest.mark.costly

CLOSE = {"rtol": 1e-10, "atol": 1e-10}


def features(g, width=6):
    return torch.randn(g.num_nodes(), width, dtype=torch.float64)


class CopiedSums(torch.nn.Module):
    def forward(self, g, x):
        with g.local_scope():
            g.ndata["x"] = x
            g.update_all(sg.function.copy_u("x", "m"), sg.function.sum("m", "sum"))
            return g.ndata["sum"]


@pytest.mark.parametrize("workers", [1, 2, 3, 4, 8])
@pytest.mark.parametrize("name", NETWORKS)
def test_training_equals_one_process(name, workers):
    g = graph()
    x = features(g)
    model, expected, weights, gradients = trained(name, g, x)
    names = ("data_parallel", "vertices", "features", "edges", "grid")
    planners = ({"planner": planner} for planner in names)
    for options in ({"pins": {"x": 0}}, *planners, {}):
        net = smex.partition(model, args=(g, x), workers=workers, replicate_bytes=0, **options)
        found = net(g, x)
        (found * weights).sum().backward()
        assert_close(found.detach(), expected, **CLOSE)
        grads = net.full_grads()
        for key, wanted in gradients.items():
            assert_close(grads[key], wanted, **CLOSE)
        stats = net.stats()
        assert stats["bytes_moved"] == stats["predicted_bytes_moved"]


@pytest.mark.parametrize("mesh", [[2, 2], [3, 2], [2, 2, 2]])
def test_vertices_and_features_are_cut_together(mesh):
    g = graph()
    x = features(g)
    model, expected, weights, gradients = trained("GCN", g, x)
    workers = torch.tensor(mesh).prod().item()
    for cuts in ("random", "equal_chop", "grid", "tofu"):
        net = smex.partition(
            model, args=(g, x), workers=workers, mesh=mesh, planner=cuts, replicate_bytes=0
        )
        found = net(g, x)
        (found * weights).sum().backward()
        assert_close(found.detach(), expected, **CLOSE)
        for key, wanted in gradients.items():
            assert_close(net.full_grads()[key], wanted, **CLOSE)


@pytest.mark.parametrize("name", ["GCN", "SAGE", "GAT", "GIN"])
@pytest.mark.parametrize("mesh", [[2], [4], [2, 2]])
def test_planners_cut_messages_by_vertices_and_by_features(name, mesh):
    g = graph(nodes=64, edges=400)
    x = features(g)
    model = NETWORKS[name]().double()
    for planner in ("vertices", "features"):
        net = smex.partition(
            model, math.prod(mesh), args=(g, x), mesh=mesh, planner=planner, replicate_bytes=0
        )
        plan = net.plan
        ops = plan.graph.captured.structure.ops
        walks = [  # a dot product of one head has no features that could be cut
            walk
            for walk in edge_walks(plan.graph.native)
            if walk.width >= 4 and ops[walk.op].target == "smex::spmm"
        ]
        rows = walked_rows(plan.graph.native, plan.native, walks)
        whole = [
            any(hi - lo == walk.rows for lo, hi in ranges)
            for walk, ranges in zip(walks, rows, strict=True)
        ]
        assert walks and (not any(whole) if planner == "vertices" else all(whole))


def test_attention_cut_by_vertices_runs_as_one_call():
    g = graph(nodes=64, edges=400)
    x = features(g)
    net = smex.partition(
        NETWORKS["GAT"]().double(), 2, args=(g, x), planner="vertices", replicate_bytes=0
    )
    text = str(net.plan.program())
    layers = text.count("smex::gat_attention")
    assert layers >= 2 and layers % 2 == 0
    for name in ("gat_gradient_by_source", "gat_gradient_by_destination"):
        assert text.count(f"smex::{name} ") == layers
    assert "smex::sddmm" not in text  # no edge has a value


def test_rows_of_ones_own_are_not_copied():
    g = graph(nodes=64, edges=400)
    net = smex.partition(
        NETWORKS["GAT"]().double(), 2, args=(g, features(g)), planner="vertices", replicate_bytes=0
    )
    program = str(net.plan.program())
    # Values are written where those of all workers come together,
    assert re.search(r"aten::mm  # op \d+, inside \d+$", program, re.M)
    # and a worker that has all of them reads them there, with no copy of the rows that it needs.
    for worker in (0, 1):
        _, _, forward = program.partition(f"worker {worker} forward:")
        forward, _, _ = forward.partition("backward:")
        assert "smex::gat_attention" in forward and not re.search(r" = fetch\(.* of ", forward)


class Segments(torch.nn.Module):
    """Rows of three types, one after another; their numbers are given or a buffer."""

    def __init__(self):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.randn(3, 6, 4, dtype=torch.float64))
        self.register_buffer("lengths", torch.tensor([5, 20, 7]))

    def forward(self, x, lengths=None):
        lengths = self.lengths if lengths is None else lengths
        return sg.ops.segment_mm(torch.tanh(x), self.weight, lengths)


@pytest.mark.parametrize("workers", [1, 2, 3, 4])
@pytest.mark.parametrize("lengths", [None, [5, 20, 7], [0, 32, 0]])
def test_products_of_segments_are_cut_by_rows(lengths, workers):
    model = Segments()
    x = torch.randn(32, 6, dtype=torch.float64, requires_grad=True)
    args = (x,) if lengths is None else (x, torch.tensor(lengths))
    net = smex.partition(model, workers, args=args, replicate_bytes=0)
    expected = model(*args)
    expected.square().sum().backward()
    wanted, x.grad = x.grad, None
    found = net(*args)
    found.square().sum().backward()
    assert_close(found, expected, **CLOSE)
    assert_close(x.grad, wanted, **CLOSE)
    assert_close(net.full_grads()["weight"], model.weight.grad, **CLOSE)
    captured = net.plan.graph.captured
    targets = [op.target for op in captured.structure.ops]
    assert targets.count("smex::gather_mm") == 2 and targets.count("smex::gather_outer") == 1
    if workers > 1:
        words = [net.plan.split_words(n) for n in range(len(targets))]
        assert all("n" in word for word, t in zip(words, targets) if t.startswith("smex::gather"))
    if lengths:  # of another call with other segments
        other = (x.detach(), torch.tensor([30, 1, 1]))
        assert_close(net(*other), model(*other), **CLOSE)
        with pytest.raises((RuntimeError, ValueError), match="repeat_interleave|whose sum is"):
            net(x.detach(), torch.tensor([30, 1, 3]))


@pytest.mark.parametrize("workers", [2, 3, 5])
def test_vertex_cuts_move_the_unique_remote_rows(workers):
    g = graph(nodes=60, edges=50)
    x = features(g, width=1)  # there are no features to cut instead
    net = smex.partition(
        CopiedSums(), args=(g, x), workers=workers, pins={"x": 0}, replicate_bytes=0
    )
    with torch.no_grad():
        assert_close(net(g, x), CopiedSums()(g, x), **CLOSE)
    src, dst = g.edges()
    rows = 0
    for worker in range(workers):
        lo, hi = 60 * worker // workers, 60 * (worker + 1) // workers
        mine = src[(lo <= dst) & (dst < hi)].unique()
        rows += int(((mine < lo) | (mine >= hi)).sum())
    stats = net.stats()
    assert stats["bytes_moved"] == stats["predicted_bytes_moved"] == rows * 8


def test_graphs_of_one_structure_share_a_plan_and_others_get_their_own():
    g, other = graph(seed=0), graph(seed=1)
    x = features(g)
    model, expected, _, _ = trained("GCN", g, x)
    net = smex.partition(model, args=(g, x), workers=3, replicate_bytes=0, pins={"x": 0})
    for _ in range(2):
        with torch.no_grad():
            assert_close(net(g, x), expected, **CLOSE)
            assert_close(net(other, x), model(other, x), **CLOSE)


def test_training_goes_on_after_evaluation():
    g = graph()
    x = features(g)
    y = torch.randint(4, (g.num_nodes(),))
    losses = []
    for workers in (None, 3):
        model, *_ = trained("GAT", g, x)
        net = model if workers is None else smex.partition(
            model, args=(g, x), workers=workers, replicate_bytes=0, pins={"x": 0}
        )  # fmt: skip
        optimizer = torch.optim.AdamW(net.parameters(), lr=1e-2)
        losses.append([])
        for _ in range(3):
            net.train()
            loss = torch.nn.functional.cross_entropy(net(g, x), y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            net.eval()
            with torch.no_grad():
                losses[-1] += [loss.item(), net(g, x).sum().item()]
    assert_close(losses[0], losses[1], rtol=1e-9, atol=1e-9)
