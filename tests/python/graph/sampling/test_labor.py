"""Layer-neighbour sampling."""

import pytest
import torch

import smex
import smex.graph as sg


def dense(sources=40, destinations=30, degree=20):
    torch.manual_seed(0)
    src = torch.cat([torch.randperm(sources)[:degree] for _ in range(destinations)])
    dst = torch.arange(destinations).repeat_interleave(degree) + sources
    g = sg.graph((src, dst))
    g.edata["p"] = torch.rand(g.num_edges()) + 0.1
    return g, torch.arange(destinations) + sources


def test_as_many_edges_as_neighbour_sampling_and_fewer_nodes():
    torch.manual_seed(0)
    hubs = (torch.rand(1500) ** 2 * 60).long()
    g = sg.add_edges(sg.rand_graph(60, 500), torch.randint(60, (1500,)), hubs)
    seeds = torch.arange(60)
    nodes = {"labor": 0, "star": 0, "neighbours": 0}
    edges = 0
    for _ in range(100):
        s, importances = sg.sampling.sample_labors(g, seeds, 5)
        eids = s.edata[sg.EID]
        assert torch.equal(torch.stack(g.find_edges(eids)), torch.stack(s.edges()))
        assert torch.equal(importances[0], torch.ones(s.num_edges()))
        nodes["labor"] += s.edges()[0].unique().numel()
        edges += s.num_edges()
        s, importances = sg.sampling.sample_labors(g, seeds, 5, importance_sampling=-1)
        assert importances[0].shape == (s.num_edges(),)
        nodes["star"] += s.edges()[0].unique().numel()
        s = sg.sampling.sample_neighbors(g, seeds, 5)
        nodes["neighbours"] += s.edges()[0].unique().numel()
    assert edges == pytest.approx(100 * int(g.in_degrees().clamp_max(5).sum()), rel=0.1)
    assert nodes["star"] < nodes["labor"] < nodes["neighbours"]


def test_importances_make_means_unbiased():
    g, seeds = dense(degree=15)
    x = torch.rand(g.num_nodes(), dtype=torch.float64)
    weights = g.edata["p"].double()
    src, dst = g.edges()
    totals = torch.zeros_like(x).index_add(0, dst, weights)
    expected = torch.zeros_like(x).index_add(0, dst, weights * x[src]) / totals
    mean = torch.zeros_like(x)
    for _ in range(3000):
        s, (importance,) = sg.sampling.sample_labors(g, seeds, 6, prob="p", importance_sampling=1)
        u, v = s.edges()
        summed = torch.zeros_like(x).index_add(0, v, importance.double() * x[u])
        count = torch.zeros_like(x).index_add(0, v, importance.double())
        mean += summed / count.clamp_min(1e-9) / 3000
    torch.testing.assert_close(mean[seeds], expected[seeds], atol=0.02, rtol=0)


def test_seeds():
    g, seeds = dense()
    one, two = torch.tensor([5]), torch.tensor([5, 6])

    def drawn(seed, share=0.0):
        s, _ = sg.sampling.sample_labors(g, seeds, 5, random_seed=seed, seed2_contribution=share)
        return s.edata[sg.EID].tolist()

    assert drawn(one) == drawn(one) == drawn(two) != drawn(torch.tensor([6]))
    assert drawn(two, 0.5) not in (drawn(one), drawn(torch.tensor([6])))
    sg.seed(0)
    first = drawn(None)
    sg.seed(0)
    assert drawn(None) == first


def test_every_neighbour_and_none():
    g, seeds = dense()
    assert sg.sampling.sample_labors(g, seeds, -1)[0].num_edges() == g.num_edges()
    assert sg.sampling.sample_labors(g, seeds, 100)[0].num_edges() == g.num_edges()
    s, importances = sg.sampling.sample_labors(g, seeds, 0)
    assert s.num_edges() == 0 and importances[0].shape == (0,)
    left_out = torch.arange(0, g.num_edges(), 2)
    s, _ = sg.sampling.sample_labors(g, seeds, -1, exclude_edges=left_out)
    assert (s.edata[sg.EID] % 2 == 1).all() and s.num_edges() == g.num_edges() // 2


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"importance_sampling": -2}, "importance_sampling of at least -1, found -2"),
        ({"seed2_contribution": 2.0}, r"seed2_contribution in \[0, 1\], found 2"),
        ({"random_seed": torch.tensor([1, 2, 3])}, "expected one random seed, or two"),
        ({"random_seed": torch.tensor([1]), "seed2_contribution": 0.5}, "expected one random seed"),
        ({"prob": "wrong"}, "the weight of edge 2"),
    ],
)
def test_errors(options, text):
    g, seeds = dense()
    g.edata["wrong"] = torch.where(torch.arange(g.num_edges()) == 2, -1.0, 1.0)
    with pytest.raises(smex.SmexValueError, match=text):
        sg.sampling.sample_labors(g, seeds, 3, **options)
