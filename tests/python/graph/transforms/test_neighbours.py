"""Graphs of points against scikit-learn and distances computed one by one."""

import numpy as np
import pytest
import torch

import smex
import smex.graph as sg

neighbors = pytest.importorskip("sklearn.neighbors", reason="scikit-learn is not installed")


def sources(g):
    """The set of sources of each node."""
    found = [set() for _ in range(g.num_nodes())]
    for u, v in zip(*(ids.tolist() for ids in g.edges())):
        found[v].add(u)
    return found


@pytest.mark.parametrize("algorithm", ["bruteforce-blas", "kd-tree", "nn-descent"])
@pytest.mark.parametrize("dist", ["euclidean", "cosine"])
@pytest.mark.parametrize("exclude_self", [False, True])
def test_nearest(algorithm, dist, exclude_self):
    points = torch.randn(23, 4)
    search = neighbors.NearestNeighbors(metric=dist).fit(points.numpy())
    k = 5
    near = search.kneighbors(None if exclude_self else points.numpy(), k, return_distance=False)
    g = sg.knn_graph(points, k, algorithm, dist, exclude_self)
    assert sources(g) == [set(row) for row in near.tolist()]
    assert g.in_degrees().tolist() == [k] * 23


@pytest.mark.parametrize("algorithm", ["bruteforce", "kd-tree"])
def test_sets_of_points(algorithm):
    points = torch.randn(12, 3)
    g = sg.segmented_knn_graph(points, 2, [5, 3, 4], algorithm)
    parts = [sources(sg.knn_graph(part, 2)) for part in points.split([5, 3, 4])]
    expected = [{u + start for u in row} for part, start in zip(parts, [0, 5, 8]) for row in part]
    assert sources(g) == expected
    assert g.batch_num_nodes().tolist() == [5, 3, 4]
    assert g.batch_num_edges().tolist() == [10, 6, 8]
    assert sg.nn.SegmentedKNNGraph(2)(points, [5, 3, 4]).batch_num_nodes().tolist() == [5, 3, 4]
    assert sg.nn.KNNGraph(2)(points.view(2, 6, 3)).batch_num_edges().tolist() == [12, 12]
    assert [part.num_nodes() for part in sg.unbatch(g)] == [5, 3, 4]
    equal = sg.segmented_knn_graph(points, 2, torch.tensor([6, 6]))
    assert sources(sg.knn_graph(points.view(2, 6, 3), 2)) == sources(equal)


@pytest.mark.parametrize("algorithm", ["bruteforce", "kd-tree"])
def test_equal_points(algorithm):
    g = sg.knn_graph(torch.zeros(6, 2), 3, algorithm, exclude_self=True)
    assert g.in_degrees().tolist() == [3] * 6 and sg.remove_self_loop(g).num_edges() == 18


def test_blocks_of_rows(monkeypatch):
    points = torch.randn(10, 2)
    whole = sg.knn_graph(points, 3), sg.radius_graph(points, 1.0)
    monkeypatch.setattr("smex.graph.transforms.neighbours._BLOCK", 30)
    parts = sg.knn_graph(points, 3), sg.radius_graph(points, 1.0)
    for a, b in zip(whole, parts):
        assert torch.equal(torch.stack(a.edges()), torch.stack(b.edges()))


@pytest.mark.parametrize("p", [1, 2, float("inf")])
@pytest.mark.parametrize("self_loop", [False, True])
def test_radius(p, self_loop):
    points = torch.randn(17, 3)
    distance = torch.cdist(points, points, p)
    expected = [
        (u, v)
        for u in range(17)
        for v in range(17)
        if (distance[u, v] <= 1.2 if u != v else self_loop)
    ]
    g, along = sg.radius_graph(points, 1.2, p, self_loop, get_distances=True)
    assert list(zip(*(ids.tolist() for ids in g.edges()))) == expected
    src, dst = g.edges()
    torch.testing.assert_close(along, distance[src, dst][:, None])
    assert sg.radius_graph(points[:0], 1.0).num_nodes() == 0


def test_many_neighbours_and_mistakes():
    points = torch.randn(3, 2)
    with pytest.warns(UserWarning, match="a set of 3 points has less than 9 neighbours"):
        assert sg.knn_graph(points, 9).num_edges() == 9
    with pytest.raises(smex.SmexValueError, match="expected an algorithm among"):
        sg.knn_graph(points, 1, "fast")
    with pytest.raises(smex.SmexValueError, match="sets of more than 0 points"):
        sg.knn_graph(points[:0], 1)
    with pytest.raises(
        smex.SmexValueError, match="expected points .num_points, size. or .num_sets"
    ):
        sg.knn_graph(points[:, 0], 1)
    with pytest.raises(smex.SmexValueError, match="the sum 2"):
        sg.segmented_knn_graph(points, 1, np.array([1, 1]))
    with pytest.raises(smex.SmexValueError, match="compute_mode of torch.cdist"):
        sg.radius_graph(points, 1, compute_mode="fast")


def test_points_of_other_types():
    points = torch.randint(5, (9, 2))
    expected = sg.knn_graph(points.double(), 3).edges(), sg.radius_graph(points.double(), 2).edges()
    for given in (points, points.numpy(), points.tolist(), points.half(), points.bfloat16()):
        found = sg.knn_graph(given, 3).edges(), sg.radius_graph(given, 2).edges()
        for ours, theirs in zip(found, expected):
            assert torch.equal(torch.stack(ours), torch.stack(theirs))
    sets = points[:8].numpy()
    parts = sg.segmented_knn_graph(sets, 2, [3, 5]), sg.segmented_knn_graph(points[:8], 2, [3, 5])
    assert torch.equal(torch.stack(parts[0].edges()), torch.stack(parts[1].edges()))
    for call in (
        lambda x: sg.knn_graph(x, 1),
        lambda x: sg.segmented_knn_graph(x, 1, [2]),
        lambda x: sg.radius_graph(x, 1.0),
    ):
        for wrong in (points[:, 0], points[0, 0], "points", [[0.0], [1.0, 2.0]], points.cfloat()):
            with pytest.raises(smex.SmexValueError, match="graph: expected points .num_points, si"):
                call(wrong)
