"""Pairs of nodes that no edge joins."""

from collections import Counter

import pytest
import torch

import smex
import smex.graph as sg


@pytest.mark.parametrize("replace", [False, True])
def test_pairs_are_uniform_among_those_that_are_no_edges(replace):
    torch.manual_seed(0)
    g = sg.graph(([0, 1, 2, 2], [1, 2, 0, 0]))
    counts = Counter()
    for _ in range(3000):
        src, dst = sg.sampling.global_uniform_negative_sampling(g, 2, replace=replace)
        drawn = list(zip(src.tolist(), dst.tolist()))
        assert replace or len(set(drawn)) == len(drawn)
        counts.update(drawn)
    assert set(counts) == {(0, 2), (1, 0), (2, 1)}
    assert max(counts.values()) < 1.1 * min(counts.values())


def test_loops_and_types():
    g = sg.graph(([0], [1]))
    torch.manual_seed(0)
    src, dst = sg.sampling.global_uniform_negative_sampling(g, 3, exclude_self_loops=False)
    assert set(zip(src.tolist(), dst.tolist())) <= {(0, 0), (1, 0), (1, 1)}
    h = sg.heterograph({("u", "r", "v"): ([0, 1], [0, 0])}, {"u": 3, "v": 4}, torch.int32)
    src, dst = sg.sampling.global_uniform_negative_sampling(h, 1000, etype="r", redundancy=5)
    assert src.dtype == torch.int32 and src.shape[0] == 10
    assert not h.has_edges_between(src, dst).any()


def test_many_of_a_large_graph():
    torch.manual_seed(0)
    g = sg.rand_graph(1000, 5000)
    src, dst = sg.sampling.global_uniform_negative_sampling(g, 20000)
    assert src.shape[0] == 20000 and not g.has_edges_between(src, dst).any()
    assert torch.unique(src * 1000 + dst).shape[0] == 20000


def test_none():
    empty = sg.graph(([], []), num_nodes=0)
    assert sg.sampling.global_uniform_negative_sampling(empty, 3)[0].shape == (0,)
    full = sg.graph(([0, 0, 1, 1], [0, 1, 0, 1]))
    assert sg.sampling.global_uniform_negative_sampling(full, 3)[0].shape == (0,)
    assert sg.sampling.global_uniform_negative_sampling(full, 0)[0].shape == (0,)


def test_errors():
    g = sg.graph(([0], [1]))
    with pytest.raises(smex.SmexValueError, match="num_samples of at least 0, found -1"):
        sg.sampling.global_uniform_negative_sampling(g, -1)
    with pytest.raises(smex.SmexValueError, match="redundancy of at least 0, found -1"):
        sg.sampling.global_uniform_negative_sampling(g, 1, redundancy=-1)


def test_the_method_is_the_function():
    g = sg.rand_graph(30, 100)
    drawn = []
    for draw in (g.global_uniform_negative_sampling, None):
        sg.seed(0)
        drawn.append(draw(5) if draw else sg.sampling.global_uniform_negative_sampling(g, 5))
    assert torch.equal(torch.stack(drawn[0]), torch.stack(drawn[1]))
