"""Random graphs."""

import pytest
import torch

import smex
import smex.graph as sg


@pytest.mark.parametrize(
    ("nodes", "edges"), [(0, 0), (1, 1), (5, 0), (5, 25), (50, 10), (50, 600), (1000, 3000)]
)
@pytest.mark.parametrize("idtype", [torch.int32, torch.int64])
def test_no_edge_twice(nodes, edges, idtype):
    g = sg.rand_graph(nodes, edges, idtype=idtype)
    src, dst = g.edges()
    assert g.num_nodes() == nodes and g.num_edges() == edges and g.idtype == idtype
    assert len(set(zip(src.tolist(), dst.tolist()))) == edges
    assert not edges or (int(src.max()) < nodes and int(dst.max()) < nodes)


def test_follows_the_generator():
    def draw():
        return torch.stack(sg.rand_graph(100, 300).edges())

    sg.seed(7)
    first, second = draw(), draw()
    torch.manual_seed(7)
    assert torch.equal(draw(), first) and not torch.equal(first, second)


def test_uniform():
    """Every pair is drawn about equally often, by both ways of drawing."""
    for edges, rounds in ((3, 3000), (1, 9000)):
        counts = torch.zeros(5, 5)
        for _ in range(rounds):
            counts[sg.rand_graph(5, edges).edges()] += 1
        expected = edges * rounds / 25
        assert float((counts - expected).abs().max()) < 5 * expected**0.5


def test_bipartite():
    g = sg.rand_bipartite("z", "e", "a", 3, 40, 12, idtype=torch.int32)
    assert g.canonical_etypes == [("z", "e", "a")] and g.idtype == torch.int32
    assert (g.num_nodes("z"), g.num_nodes("a"), g.num_edges()) == (3, 40, 12)
    assert sg.rand_bipartite("u", "e", "v", 0, 5, 0).num_nodes("v") == 5


@pytest.mark.parametrize(
    ("make", "text"),
    [
        (lambda: sg.rand_graph(3, 10), "3 × 3 = 9 edges, found 10"),
        (lambda: sg.rand_graph(3, -1), "found -1"),
        (lambda: sg.rand_bipartite("u", "e", "u", 3, 4, 1), "found 3 and 4"),
    ],
)
def test_errors(make, text):
    with pytest.raises(smex.SmexValueError, match=text):
        make()


def test_choices_follow_their_weights():
    torch.manual_seed(0)
    weights = torch.tensor([1.0, 0.0, 3.0, 4.0])
    counts = torch.bincount(sg.random.choice(4, 8000, prob=weights), minlength=4)
    expected = 1000 * weights
    statistic = ((counts - expected)[[0, 2, 3]] ** 2 / expected[[0, 2, 3]]).sum()
    assert (
        counts[1] == 0 and statistic < 18.4
    )  # exceeded once in 10,000 times, 2 degrees of freedom
    firsts = torch.stack([sg.random.choice(4, 2, False, weights)[0] for _ in range(4000)])
    counts = torch.bincount(firsts, minlength=4)
    assert ((counts - expected / 2)[[0, 2, 3]] ** 2 / (expected / 2)[[0, 2, 3]]).sum() < 18.4
    equal = torch.bincount(sg.random.choice(4, 4000), minlength=4)
    assert ((equal - 1000) ** 2 / 1000).sum() < 21.1  # 3 degrees of freedom


def test_choices_without_replacement_and_shapes():
    torch.manual_seed(0)
    rows = torch.arange(20).view(10, 2)
    found = sg.random.choice(rows, (2, 3), replace=False)
    assert found.shape == (2, 3, 2) and found.reshape(-1, 2)[:, 0].unique().shape == (6,)
    assert sg.random.choice(5, 5, replace=False).sort().values.tolist() == [0, 1, 2, 3, 4]
    with_weights = sg.random.choice(3, 2, False, torch.tensor([0.0, 1e-3, 5.0]))
    assert with_weights.sort().values.tolist() == [1, 2]
    assert sg.random.choice(3, 0).shape == (0,) and sg.random.choice(0, 0).shape == (0,)
    with pytest.raises(smex.SmexValueError, match="at most as many as there are .* 2, found 3"):
        sg.random.choice(3, 3, False, torch.tensor([0.0, 1, 1]))
    with pytest.raises(smex.SmexValueError, match="choice: expected a weight for each of 3 elem"):
        sg.random.choice(3, 3, prob=torch.ones(2))
