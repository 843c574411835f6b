"""Layers of points in space."""

import pytest
import torch

import smex
import smex.graph as sg


def rotation(size):
    matrix, _ = torch.linalg.qr(torch.randn(size, size, dtype=torch.double))
    return matrix


def test_egnn_turns_with_its_coordinates():
    torch.manual_seed(0)
    g = sg.rand_graph(9, 30)
    layer = sg.nn.EGNNConv(4, 5, 3, 2).double()
    h, x, e = (torch.randn(n, k, dtype=torch.double) for n, k in ((9, 4), (9, 3), (30, 2)))
    turn, move = rotation(3), torch.randn(3, dtype=torch.double)
    rows, places = layer(g, h, x, e)
    turned_rows, turned_places = layer(g, h, x @ turn + move, e)
    torch.testing.assert_close(turned_rows, rows)
    torch.testing.assert_close(turned_places, places @ turn + move)
    assert not torch.allclose(places, x)


def test_egnn_has_gradients_at_points_in_one_place():
    g = sg.add_self_loop(sg.graph(([0, 1], [1, 0])))
    x = torch.zeros(2, 3, requires_grad=True)
    h, places = sg.nn.EGNNConv(4, 5, 3)(g, torch.rand(2, 4), x)
    (h.sum() + places.square().sum()).backward()
    assert x.grad.isfinite().all()


@pytest.mark.parametrize("missing", ["edges", "places"])
def test_egnn_names_what_is_missing(missing):
    g = sg.graph(([0, 1], [1, 0]))
    places = torch.rand(2, 3) if missing == "edges" else torch.rand(3, 3)
    layer = sg.nn.EGNNConv(4, 5, 3, 2 if missing == "edges" else 0)
    with pytest.raises(
        smex.SmexValueError, match=r"EGNNConv: expected features of 2 (edges|nodes)"
    ):
        layer(g, torch.rand(2, 4), places)


def test_graphs_of_points_are_those_of_the_functions():
    x = torch.rand(12, 2)

    def edges(g):
        return torch.stack(g.edges())

    found = sg.nn.KNNGraph(3)(x, algorithm="bruteforce", dist="cosine", exclude_self=True)
    expected = sg.knn_graph(x, 3, algorithm="bruteforce", dist="cosine", exclude_self=True)
    assert torch.equal(edges(found), edges(expected))
    found = sg.nn.SegmentedKNNGraph(2)(x, [5, 7], exclude_self=True)
    assert torch.equal(edges(found), edges(sg.segmented_knn_graph(x, 2, [5, 7], exclude_self=True)))
    found, distances = sg.nn.RadiusGraph(0.4, p=1, self_loop=True)(x, get_distances=True)
    expected, lengths = sg.radius_graph(x, 0.4, p=1, self_loop=True, get_distances=True)
    assert torch.equal(edges(found), edges(expected)) and torch.equal(distances, lengths)
