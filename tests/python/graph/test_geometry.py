"""Farthest points by their definition, and matchings by theirs."""

import pytest
import torch

import smex
import smex.graph as sg
from smex.graph import geometry


def test_each_point_is_the_farthest_from_those_before():
    torch.manual_seed(0)
    x = torch.rand(4, 33, 3)
    found = geometry.farthest_point_sampler(x, 9)
    assert found.shape == (4, 9) and found.dtype == torch.int64
    for points, chosen in zip(x, found):
        for n in range(1, 9):
            distance = torch.cdist(points, points[chosen[:n]]).amin(1)
            assert distance[chosen[n]] == distance.max()
    firsts = geometry.farthest_point_sampler(x.repeat(25, 1, 1), 1)
    assert firsts.min() == 0 and firsts.max() == 32  # every point may be the first


def test_numbers_of_points():
    x = torch.rand(2, 3, 2)
    assert sorted(geometry.farthest_point_sampler(x, 3, 1)[0].tolist()) == [0, 1, 2]
    assert geometry.farthest_point_sampler(x[:0], 2).shape == (0, 2)
    with pytest.raises(smex.SmexValueError, match="expected points .num_sets, num_points, size."):
        geometry.farthest_point_sampler(x[0], 2)
    with pytest.raises(smex.SmexValueError, match="expected npoints of at least 1, found 0"):
        geometry.farthest_point_sampler(x, 0)
    with pytest.raises(smex.SmexValueError, match="expected start_idx from 0 to 2, found 3"):
        geometry.farthest_point_sampler(x, 2, 3)


@pytest.mark.parametrize("number", [0, 1, 2, 7, 50])
@pytest.mark.parametrize("weighted", [False, True])
def test_matchings(number, weighted):
    """Every label is of one or two nodes, two are neighbours, and none is left with a free one."""
    torch.manual_seed(number)
    ends = torch.randint(max(number, 1), (2, 2 * number))
    g = sg.to_bidirected(sg.graph(tuple(ends), num_nodes=number))
    weights = torch.rand(g.num_edges(), 1) if weighted else None
    label = geometry.neighbor_matching(g, weights, relabel_idx=False)
    assert label.shape == (number,)
    alone = torch.ones(number, dtype=torch.bool)
    for node, other in enumerate(label.tolist()):
        if other != node:
            assert label[other] == other and g.has_edges_between(node, other)
            assert alone[node] and alone[other]
            alone[node] = alone[other] = False
    src, dst = g.edges()
    assert not (alone[src] & alone[dst] & (src != dst)).any()
    numbers = geometry.neighbor_matching(g, weights)
    assert numbers.unique().tolist() == list(range(int(numbers.max()) + 1 if number else 0))


def test_heavy_edges_are_matched():
    """Against the greedy matching that takes the heaviest edge first."""
    torch.manual_seed(1)
    g = sg.to_bidirected(sg.rand_graph(40, 150))
    src, dst = g.edges()
    weights = torch.rand(40, 40)
    weights = (weights + weights.T)[src, dst]
    expected = torch.arange(40)
    free = set(range(40))
    for edge in weights.argsort(descending=True).tolist():
        u, v = sorted((int(src[edge]), int(dst[edge])))
        if u != v and {u, v} <= free:
            expected[v] = u
            free -= {u, v}
    assert torch.equal(geometry.neighbor_matching(g, weights, relabel_idx=False), expected)
    none = geometry.neighbor_matching(g, -weights, relabel_idx=False)
    assert torch.equal(none, torch.arange(40))
    with pytest.raises(smex.SmexValueError, match="expected a weight for each of"):
        geometry.neighbor_matching(g, weights[:-1])
    assert geometry.neighbor_matching(g.int(), relabel_idx=False).dtype == torch.int32
