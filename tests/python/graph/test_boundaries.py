"""Where the vertices of a graph are cut: given, by edges, and by what calls took."""

import itertools
import json
import os
import pathlib
import subprocess
import sys

import pytest
import torch
from torch.testing import assert_close

import smex
import smex.graph as sg
from smex._C import edge_walks, min_max_ranges, walked_rows
from smex.execution.recut import Recuts
from smex.planning.vertex_costs import _others, features_of
from support.graph_networks import NETWORKS, graph, trained

pytestmark = pytest.mark.costly

CLOSE = {"rtol": 1e-10, "atol": 1e-10}


def hub_graph(nodes=400, hubs=10, edges=6000):
    """Edges of which half go into the first nodes."""
    generator = torch.Generator().manual_seed(5)
    src = torch.randint(nodes, (edges,), generator=generator)
    dst = torch.randint(nodes, (edges,), generator=generator)
    dst[: edges // 2] %= hubs
    return sg.graph((src, dst), num_nodes=nodes)


def by_vertices(g, **options):
    torch.manual_seed(0)
    model = sg.nn.SAGEConv(6, 5, "mean").double()
    x = torch.randn(g.num_nodes(), 6, dtype=torch.float64)
    return (
        model,
        x,
        smex.partition(
            model,
            2,
            args=(g, x),
            replicate_bytes=0,
            pins={"feat": 0},
            **options,
        ),
    )


@pytest.mark.parametrize("kind", ["edges", "uneven", "empty"])
@pytest.mark.parametrize("name", NETWORKS)
def test_training_equals_one_process(name, kind):
    g = graph()
    x = torch.randn(g.num_nodes(), 6, dtype=torch.float64)
    size = g.num_nodes()
    given = {"edges": "edges", "uneven": [0, 1, 2, size // 2, size], "empty": [0, 3, 3, size, size]}
    model, expected, weights, gradients = trained(name, g, x)
    for options in ({"pins": {"x": 0}}, {"planner": "data_parallel"}, {"mesh": [4]}):
        net = smex.partition(
            model, args=(g, x), workers=4, replicate_bytes=0, boundaries=given[kind], **options
        )
        found = net(g, x)
        (found * weights).sum().backward()
        assert_close(found.detach(), expected, **CLOSE)
        grads = net.full_grads()
        for key, wanted in gradients.items():
            assert_close(grads[key], wanted, **CLOSE)
        stats = net.stats()
        assert stats["bytes_moved"] == stats["predicted_bytes_moved"]


def test_a_mean_walks_its_edges_once():
    _, _, net = by_vertices(hub_graph())
    walks = edge_walks(net.plan.graph.native)
    assert len({walk.op for walk in walks}) == len(walks)


def test_edges_balance_hubs():
    g = hub_graph()
    with torch.no_grad():  # backward passes walk the edges the other way too
        _, _, net = by_vertices(g, boundaries="edges")
    _, middle, _ = net.plan.options.boundaries.ends[400]
    degrees = g.in_degrees()
    assert degrees[:middle].sum() < 0.55 * 6000
    assert degrees[middle:].sum() < 0.55 * 6000


def test_a_plans_file_has_the_boundaries(tmp_path):
    g = hub_graph()
    model, x, net = by_vertices(g, boundaries=[0, 7, 400])
    net.plan.save(tmp_path / "plan.json")
    again = smex.partition(model, args=(g, x), plan=tmp_path / "plan.json")
    assert again.plan.options.boundaries.ends == {400: (0, 7, 400)}
    assert_close(again(g, x), model(g, x), **CLOSE)


_RUN_A_PLAN = """
import sys, torch, smex
from graph.test_boundaries import hub_graph, by_vertices
g = hub_graph()
model, x, _ = by_vertices(g)
net = smex.partition(model, args=(g, x), plan=sys.argv[1])
assert net.plan.options.boundaries.ends == {400: (0, 7, 400)}
torch.save((net(g, x).detach(), net.stats()["bytes_moved"]), sys.argv[2])
"""


def test_another_process_runs_a_saved_plan(tmp_path):
    g = hub_graph()
    torch.manual_seed(0)
    _, x, net = by_vertices(g, boundaries=[0, 7, 400])
    net.plan.save(tmp_path / "plan.json")
    python = [*sys.path, str(pathlib.Path(__file__).parents[1])]
    subprocess.run(
        [sys.executable, "-c", _RUN_A_PLAN, tmp_path / "plan.json", tmp_path / "results.pt"],
        check=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, python))},
    )
    found, moved = torch.load(tmp_path / "results.pt")
    assert torch.equal(found, net(g, x))
    assert moved == net.stats()["bytes_moved"]


@pytest.mark.parametrize("as_file", [True, False])
def test_a_plan_with_boundaries_is_of_one_graphs_edges(tmp_path, as_file):
    model, x, net = by_vertices(hub_graph(), boundaries=[0, 7, 400])
    net(hub_graph(), x).sum().backward()
    plan = net.plan
    if as_file:
        plan = tmp_path / "plan.json"
        net.plan.save(plan)
    with torch.no_grad():  # without the walks of the backward pass
        smex.partition(model, args=(hub_graph(), x), plan=plan)
    other = hub_graph(hubs=9)
    with pytest.raises(smex.PlanError, match="another graph of 400 vertices than SAGEConv"):
        smex.partition(model, args=(other, x), plan=plan)


def test_a_plan_without_boundaries_is_searched_for_other_edges(tmp_path):
    model, x, net = by_vertices(hub_graph())
    net.plan.save(tmp_path / "plan.json")
    other = hub_graph(hubs=9)
    again = smex.partition(model, args=(other, x), plan=tmp_path / "plan.json")
    assert_close(again(other, x), model(other, x), **CLOSE)
    stats = again.stats()
    assert stats["bytes_moved"] == stats["predicted_bytes_moved"]


def test_files_of_plans_without_hashes_are_read(tmp_path):
    model, x, net = by_vertices(hub_graph(), boundaries=[0, 7, 400])
    content = net.plan.contents()
    del content["structures"]
    (tmp_path / "plan.json").write_text(json.dumps(content))
    other = hub_graph(hubs=9)
    again = smex.partition(model, args=(other, x), plan=tmp_path / "plan.json")
    assert_close(again(other, x), model(other, x), **CLOSE)


def test_other_calls_are_cut_there_too():
    g = hub_graph()
    model, x, net = by_vertices(g, boundaries=[0, 7, 400])
    net(g, x).sum().backward()
    net.eval()
    with torch.no_grad():
        assert_close(net(g, x), model(g, x), **CLOSE)
    assert net._last.compiled.plan.options.boundaries.ends == {400: (0, 7, 400)}


def test_graphs_of_other_sizes_are_cut_evenly():
    model, x, net = by_vertices(hub_graph(), boundaries=[0, 7, 400])
    net(hub_graph(), x)
    for nodes in (300, 500):
        g = hub_graph(nodes)
        other = torch.randn(nodes, 6, dtype=torch.float64)
        assert_close(net(g, other), model(g, other), **CLOSE)
        plan = net._last.compiled.plan
        [walk] = {walk.rows: walk for walk in edge_walks(plan.graph.native)}.values()
        [ranges] = walked_rows(plan.graph.native, plan.native, [walk])
        assert ranges == [(0, nodes // 2), (nodes // 2, nodes)]
    assert_close(net(hub_graph(), x), model(hub_graph(), x), **CLOSE)
    assert net._last.compiled.plan.options.boundaries.ends == {400: (0, 7, 400)}


def test_costs_are_learned_saved_and_used(tmp_path):
    pytest.importorskip("scipy")
    g = hub_graph()
    model, x, net = by_vertices(g, boundaries="edges")
    costs = smex.VertexCosts()
    costs.measure(net, g, x)
    assert len(costs.layers) >= 2
    assert all(weight >= 0 for weights in costs.layers.values() for weight in weights)
    costs.save(tmp_path / "costs.json")
    loaded = smex.VertexCosts.load(tmp_path / "costs.json")
    assert loaded.layers == costs.layers
    other = smex.partition(
        model, 2, args=(g, x), replicate_bytes=0, pins={"feat": 0}, boundaries=loaded
    )
    ends = other.plan.options.boundaries.ends[400]
    took = loaded.predict(other.plan.graph, ends)
    assert max(took) < 0.7 * sum(took)
    assert_close(other(g, x), model(g, x), **CLOSE)


def test_costs_tell_vertices_from_edges():
    """What calls take is made up here: a graph's sizes change, the seconds of each do not."""
    pytest.importorskip("scipy")
    vertex, edge = 3e-7, 2e-8
    costs = smex.VertexCosts()

    def net_of(g, boundaries):
        x = torch.randn(g.num_nodes(), 6, dtype=torch.float64)
        model = sg.nn.GATConv(6, 4, 2, allow_zero_in_degree=True).double()
        net = smex.partition(
            model, 4, args=(g, x), planner="vertices", replicate_bytes=0, boundaries=boundaries
        )
        return net.plan

    for nodes, edges, hubs in ((200, 3000, 5), (300, 9000, 40), (500, 2000, 100)):
        plan = net_of(hub_graph(nodes, hubs, edges), "edges")
        walks = edge_walks(plan.graph.native)
        ranges = itertools.pairwise(plan.options.boundaries.ends[nodes])
        took = {}
        for worker, (lo, hi) in enumerate(ranges):
            for walk in walks:
                of_walk = features_of(plan.graph, walk).of(lo, hi)
                took[worker, walk.op] = vertex * of_walk[0] + edge * of_walk[1]
        costs.add(plan.graph, plan.native, [took])
    g = hub_graph(400, 10, 6000)
    plan = net_of(g, costs)
    ends = plan.options.boundaries.ends[400]
    walks = edge_walks(plan.graph.native)
    expected = [
        sum(
            vertex * of_walk[0] + edge * of_walk[1]
            for of_walk in (features_of(plan.graph, walk).of(lo, hi) for walk in walks)
        )
        for lo, hi in itertools.pairwise(ends)
    ]
    assert costs.predict(plan.graph, ends) == pytest.approx(expected, rel=0.05)
    assert max(expected) < 1.1 * sum(expected) / 4


def test_other_calls_have_names_without_a_graphs_sizes():
    names = []
    for nodes, edges in ((200, 3000), (300, 5000)):
        _, _, net = by_vertices(hub_graph(nodes, 5, edges), boundaries="edges")
        names.append(set(_others(net.plan.graph).values()))
    assert names[0] == names[1]
    assert any(name.startswith("aten::mm(V x 6") for name in names[0])


def test_a_net_that_learns_is_cut_anew_and_stays_the_same(monkeypatch):
    pytest.importorskip("scipy")
    monkeypatch.setattr(Recuts, "think", lambda self, _: self._always(_), raising=True)

    def always(self, _):
        self._next *= 2
        plan = self._timed[0].plan
        self._timed = []
        return type(plan.options.boundaries)("learned", {400: (0, 100 + self._next, 400)})

    monkeypatch.setattr(Recuts, "_always", always, raising=False)
    g = hub_graph()
    model, x, net = by_vertices(g, boundaries="learned")
    optimizer = torch.optim.SGD(net.parameters(), 0.1)
    reference = sg.nn.SAGEConv(6, 5, "mean").double()
    reference.load_state_dict(model.state_dict())
    expected = torch.optim.SGD(reference.parameters(), 0.1)
    cuts = set()
    for step in range(12):
        for module, steps in ((net, optimizer), (reference, expected)):
            steps.zero_grad()
            module(g, x).square().mean().backward()
            steps.step()
        cuts.add(tuple(net.plan.options.boundaries.ends[400]))
        if step == 8:
            net.eval()
            with torch.no_grad():
                assert_close(net(g, x), reference(g, x), **CLOSE)
            net.train()
    assert len(cuts) == 3
    for key, value in net.state_dict().items():
        assert_close(value, reference.state_dict()[key], **CLOSE)


def test_a_net_that_does_not_learn_has_no_costs():
    _, _, net = by_vertices(hub_graph())
    with pytest.raises(smex.SmexRuntimeError, match='without boundaries="learned"'):
        _ = net.vertex_costs


def test_wrong_boundaries_are_refused():
    g = hub_graph()
    with pytest.raises(smex.PlanError, match=r"3 numbers that ascend from 0.*got \[0, 400\]"):
        by_vertices(g, boundaries=[0, 400])
    with pytest.raises(smex.PlanError, match="ascend"):
        by_vertices(g, boundaries=[0, 500, 400])
    with pytest.raises(smex.PlanError, match="end at 300.*of 400 vertices"):
        by_vertices(g, boundaries=[0, 100, 300])
    with pytest.raises(smex.SmexTypeError, match="got 'vertices'"):
        by_vertices(g, boundaries="vertices")
    with pytest.raises(smex.PlanError, match=r"no costs are known of smex::spmm.*but of none"):
        by_vertices(g, boundaries=smex.VertexCosts())


def test_files_of_costs_that_are_none_are_refused(tmp_path):
    path = tmp_path / "costs.json"
    path.write_text("{")
    with pytest.raises(smex.PlanError, match="is not JSON"):
        smex.VertexCosts.load(path)
    for text in ("[]", '{"format": "other", "samples": {}}',
                 '{"format": "smex-vertex-costs-1", "samples": {"a": [[1, 2]]}}'):  # fmt: skip
        path.write_text(text)
        with pytest.raises(smex.PlanError, match="expected what VertexCosts.save writes"):
            smex.VertexCosts.load(path)


def test_the_native_ranges_are_checked():
    assert min_max_ranges([0, 5, 6, 7, 8], [1, 1], [0, 0]) == ([0, 1, 4], 5)
    with pytest.raises(smex.SmexValueError):
        min_max_ranges([0, 2, 1], [1], [0])
