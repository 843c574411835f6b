"""Traversals against networkx, and against DGL's order where networkx has none."""

import networkx as nx
import pytest
import torch

import smex
import smex.graph as sg


def known():
    return sg.graph(([0, 0, 1, 1, 2, 3, 3], [1, 2, 3, 4, 3, 5, 1]), num_nodes=7)


def random_digraph(seed, acyclic=False):
    g = nx.gnp_random_graph(12, 0.2, seed=seed, directed=True)
    if acyclic:
        g = nx.DiGraph([(u, v) for u, v in g.edges if u < v])
        g.add_nodes_from(range(12))
    edges = sorted(g.edges)
    src, dst = [u for u, _ in edges], [v for _, v in edges]
    return g, sg.graph((src, dst), num_nodes=12)


def lists(steps):
    return [x.tolist() for x in steps]


def test_breadth_first():
    g = known()
    assert lists(sg.bfs_nodes_generator(g, 0)) == [[0], [1, 2], [3, 4], [5]]
    assert lists(sg.bfs_nodes_generator(g, [0, 6])) == [[0, 6], [1, 2], [3, 4], [5]]
    assert lists(sg.bfs_nodes_generator(g, 5, reverse=True)) == [[5], [3], [1, 2], [0]]
    assert lists(sg.bfs_edges_generator(g, 0)) == [[0, 1], [2, 3], [5]]
    assert lists(sg.bfs_edges_generator(g, torch.tensor([0, 3]))) == [[0, 1, 5], [3]]
    assert lists(sg.bfs_edges_generator(g, [5], reverse=True)) == [[5], [2, 4], [0]]


@pytest.mark.parametrize("seed", range(5))
def test_breadth_first_by_networkx(seed):
    oracle, g = random_digraph(seed)
    expected = [sorted(layer) for layer in nx.bfs_layers(oracle, 0)]
    assert [sorted(x) for x in lists(sg.bfs_nodes_generator(g, 0))] == expected
    edges = torch.cat([*sg.bfs_edges_generator(g, 0), torch.empty(0, dtype=torch.int64)])
    assert list(zip(*lists(g.find_edges(edges)))) == list(nx.bfs_edges(oracle, 0))


def test_depth_first():
    g = known()
    assert lists(sg.dfs_edges_generator(g, 0)) == [[0], [2], [5], [3], [1]]
    assert lists(sg.dfs_edges_generator(g, [0, 2])) == [[0, 4], [2, 5], [5, 6], [3, 3], [1]]
    assert lists(sg.dfs_edges_generator(g, 5, reverse=True)) == [[5], [2], [0], [4]]


def test_labels():
    both = {"has_reverse_edge": True, "has_nontree_edge": True}
    edges, labels = sg.dfs_labeled_edges_generator(known(), 0, **both)
    assert [x.item() for x in edges] == [0, 2, 5, 5, 6, 2, 3, 3, 0, 1, 4, 1]
    assert [x.item() for x in labels] == [0, 0, 0, 1, 2, 1, 0, 1, 1, 0, 2, 1]
    only = sg.dfs_labeled_edges_generator(known(), 0, **both, return_labels=False)
    assert lists(only) == lists(edges)


@pytest.mark.parametrize("seed", range(5))
def test_depth_first_by_networkx(seed):
    oracle, g = random_digraph(seed)
    edges = torch.cat([*sg.dfs_edges_generator(g, 0), torch.empty(0, dtype=torch.int64)])
    assert list(zip(*lists(g.find_edges(edges)))) == list(nx.dfs_edges(oracle, 0))


@pytest.mark.parametrize("idtype", [torch.int32, torch.int64])
@pytest.mark.parametrize("seed", range(5))
def test_topological(seed, idtype):
    oracle, g = random_digraph(seed, acyclic=True)
    g = g.astype(idtype)
    for reverse in (False, True):
        expected = nx.topological_generations(oracle.reverse() if reverse else oracle)
        steps = list(sg.topological_nodes_generator(g, reverse))
        assert [sorted(x) for x in lists(steps)] == [sorted(x) for x in expected]
        assert all(x.dtype == idtype for x in steps)


def test_order_within_a_step():
    g = sg.graph(([0, 0, 1, 1, 2, 3], [1, 2, 3, 4, 3, 5]), num_nodes=7)
    assert lists(sg.topological_nodes_generator(g)) == [[0, 6], [1, 2], [4, 3], [5]]
    assert lists(sg.topological_nodes_generator(sg.graph(([], []), num_nodes=0))) == []


def test_mistakes():
    with pytest.raises(
        smex.SmexValueError, match="topological_nodes_generator: the graph has a cycle"
    ):
        sg.topological_nodes_generator(known())
    with pytest.raises(smex.SmexValueError, match="bfs_nodes_generator: .* found 7"):
        sg.bfs_nodes_generator(known(), 7)
    with pytest.raises(smex.SmexValueError, match="edges lead from a node type to itself"):
        sg.dfs_edges_generator(sg.heterograph({("a", "x", "b"): ([0], [0])}), 0)
