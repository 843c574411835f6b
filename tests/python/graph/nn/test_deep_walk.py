"""Embeddings by random walks."""

import itertools

import pytest
import torch
import torch.nn.functional as F

import smex
import smex.graph as sg


def test_walks_follow_edges():
    torch.manual_seed(0)
    g = sg.graph(([0, 0, 1, 2, 2, 3], [1, 2, 2, 0, 4, 3]), num_nodes=6)
    walks = sg.nn.DeepWalk(g, 4, walk_length=30, window_size=2).sample([0, 1, 2, 3, 5])
    assert walks[:, 0].tolist() == [0, 1, 2, 3, 5] and walks.shape == (5, 30)
    pairs = set(zip(*(ends.tolist() for ends in g.edges()))) | {(4, 4), (5, 5)}
    seen = {(a, b) for walk in walks.tolist() for a, b in itertools.pairwise(walk)}
    assert seen <= pairs and (0, 1) in seen and (0, 2) in seen
    empty = sg.graph(([], []), num_nodes=2)
    stays = sg.nn.DeepWalk(empty, 4, walk_length=3, window_size=1).sample(torch.tensor([1]))
    assert stays.tolist() == [[1, 1, 1]]


def test_walks_choose_among_neighbours_evenly():
    torch.manual_seed(0)
    g = sg.graph(([0, 0, 0, 0], [1, 2, 3, 4]))
    walks = sg.nn.DeepWalk(g, 2, walk_length=2, window_size=1).sample(torch.zeros(8000).long())
    counts = torch.bincount(walks[:, 1], minlength=5)[1:]
    assert (counts - 2000).abs().max() < 200


@pytest.mark.parametrize("fast_neg", [True, False])
@pytest.mark.parametrize("sparse", [True, False])
def test_loss_of_a_graph_whose_nodes_are_alike(fast_neg, sparse):
    """Where all nodes have one embedding and one context, random ones do not matter."""
    g = sg.graph(([0, 1, 2], [1, 2, 0]))
    model = sg.nn.DeepWalk(
        g, 4, 6, 2, neg_weight=0.5, negative_size=3, fast_neg=fast_neg, sparse=sparse
    )
    with torch.no_grad():
        model.node_embed.weight.fill_(0.5)
        model.context_embed.weight.fill_(0.3)
    score = torch.tensor(4 * 0.5 * 0.3)
    loss = model(model.sample([0, 1]))
    expected = -F.logsigmoid(score) - 0.5 * 3 * F.logsigmoid(-score)
    torch.testing.assert_close(loss, expected)
    loss.backward()
    assert model.node_embed.weight.grad.is_sparse == sparse


def test_pairs_of_a_window():
    g = sg.graph(([0, 1], [1, 0]))
    model = sg.nn.DeepWalk(g, 4, walk_length=5, window_size=2)
    pairs = set(zip(model.idx_list_src.tolist(), model.idx_list_dst.tolist()))
    assert pairs == {(a, b) for a in range(5) for b in range(5) if 0 < abs(a - b) <= 2}
    with pytest.raises(
        smex.SmexValueError, match="DeepWalk: expected walk_length above window_size, 5, found 5"
    ):
        sg.nn.DeepWalk(g, walk_length=5)


def test_nodes_of_one_cluster_become_alike():
    torch.manual_seed(0)
    a, b = torch.meshgrid(torch.arange(5), torch.arange(5), indexing="ij")
    src, dst = a[a != b], b[a != b]
    g = sg.graph((torch.cat([src, src + 5]), torch.cat([dst, dst + 5])))
    model = sg.nn.DeepWalk(g, 8, walk_length=10, window_size=3, fast_neg=False)
    optimizer = torch.optim.SparseAdam(model.parameters(), lr=0.05)
    for _ in range(60):
        optimizer.zero_grad()
        model(model.sample(torch.arange(10))).backward()
        optimizer.step()
    z = F.normalize(model.node_embed.weight.detach())
    alike = z @ z.T
    assert alike[:5, :5].mean() > alike[:5, 5:].mean() + 0.5
