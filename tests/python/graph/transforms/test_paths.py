"""Metapaths against products of matrices, distances and labels against networkx."""

import pytest
import torch
from hypothesis import given, settings

import smex
import smex.graph as sg
from support.graphs import graphs, heterographs, pairs

nx = pytest.importorskip("networkx", reason="networkx is not installed")
pytest.importorskip("scipy", reason="scipy is not installed")
MANY = settings(max_examples=30, deadline=None)


def dense(g, etype):
    source, _, destination = g.to_canonical_etype(etype)
    matrix = torch.zeros(g.num_nodes(source), g.num_nodes(destination))
    for u, v in pairs(g, etype):
        matrix[u, v] += 1
    return matrix


@MANY
@given(heterographs())
def test_metapaths(g):
    path = [("u", "p", "v"), ("v", "q", "u"), ("u", "f", "u")]
    for length in (1, 2, 3):
        walks = dense(g, path[0])
        for etype in path[1:length]:
            walks = walks @ dense(g, etype)
        found = sg.metapath_reachable_graph(g, path[:length])
        assert pairs(found) == [tuple(pair) for pair in walks.nonzero().tolist()]
        assert found.idtype == g.idtype
        assert torch.equal(found.nodes["u"].data["h"], g.nodes["u"].data["h"])


def test_metapaths_must_follow_one_another():
    g = sg.heterograph({("a", "x", "b"): ([0], [0]), ("a", "y", "c"): ([0], [0])})
    for metapath in (["x", "y"], []):
        with pytest.raises(smex.SmexValueError, match="edge types that follow one another"):
            sg.metapath_reachable_graph(g, metapath)


@MANY
@given(graphs())
def test_distances(g):
    lengths = dict(nx.all_pairs_shortest_path_length(nx.DiGraph(sg.to_networkx(g))))
    number = g.num_nodes()
    expected = [[lengths[u].get(v, -1) for v in range(number)] for u in range(number)]
    dist, paths = sg.shortest_dist(g, return_paths=True)
    assert dist.tolist() == expected and torch.equal(sg.shortest_dist(g), dist)
    edges = pairs(g)
    for u in range(number):
        one, its_paths = sg.shortest_dist(g, u, return_paths=True)
        assert one.tolist() == expected[u]
        for v in range(number):
            for path in (paths[u, v], its_paths[v]):
                steps = [edges[e] for e in path.tolist() if e >= 0]
                assert len(steps) == max(expected[u][v], 0)
                ends = [u, *(d for _, d in steps)]
                assert [s for s, _ in steps] == ends[:-1] and (not steps or ends[-1] == v)


@MANY
@given(graphs(min_nodes=2))
def test_labels_around_two_nodes(g):
    both = nx.Graph(sg.to_networkx(g))
    labels = sg.double_radius_node_labeling(g, 1, 0)
    for v in range(g.num_nodes()):
        found = []
        for start, without in ((1, 0), (0, 1)):
            rest = both.subgraph(set(both) - {without})
            there = v in rest and nx.has_path(rest, start, v)
            found.append(nx.shortest_path_length(rest, start, v) if there else None)
        if v in (0, 1):
            expected = 1
        elif None in found:
            expected = 0
        else:
            half, odd = divmod(sum(found), 2)
            expected = 1 + min(found) + half * (half + odd - 1)
        assert labels[v] == expected


def test_mistakes():
    g = sg.graph(([0, 1], [1, 2]))
    with pytest.raises(smex.SmexValueError, match="two different nodes from 0 to 2, found 1 and 1"):
        sg.double_radius_node_labeling(g, 1, 1)
    with pytest.raises(smex.SmexValueError, match="expected a root from 0 to 2, found 3"):
        sg.shortest_dist(g, 3)
