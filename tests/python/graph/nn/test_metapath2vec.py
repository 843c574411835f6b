"""Embeddings by walks along metapaths."""

import pytest
import torch
import torch.nn.functional as F

import smex
import smex.graph as sg


def shops():
    """Users 0 and 1 buy item 0, user 2 buys item 1, user 3 buys nothing; shops come first."""
    buys = (torch.tensor([0, 1, 2]), torch.tensor([0, 0, 1]))
    edges = {("user", "buys", "item"): buys, ("item", "of", "user"): buys[::-1]}
    edges["a shop", "sells", "item"] = ([0], [0])
    return sg.heterograph(edges, {"a shop": 2, "item": 2, "user": 4})


def test_pairs_follow_the_metapath():
    torch.manual_seed(0)
    model = sg.nn.MetaPath2Vec(shops(), ["buys", "of"], window_size=1, negative_size=3)
    item, user = (model.local_to_global_nid[t].tolist() for t in ("item", "user"))
    assert item == [2, 3] and user == [4, 5, 6, 7]
    u, v, negative = model.sample([0, 1, 2, 3])
    bought = {(user[0], item[0]), (user[1], item[0]), (user[2], item[1])}
    assert set(zip(u.tolist(), v.tolist())) == bought | {(b, a) for a, b in bought}
    assert len(u) == 3 * 4  # three walks of two steps, each pair in both directions
    assert negative.shape == (12, 3)
    assert not set(negative.flatten().tolist()) & {0, 1}  # no walk visits a shop
    wide = sg.nn.MetaPath2Vec(shops(), ["buys", "of"], window_size=2)
    assert len(wide.sample([0])[0]) == 6


def test_nothing_to_walk():
    model = sg.nn.MetaPath2Vec(shops(), ["buys"], window_size=1)
    u, v, negative = model.sample([3])
    assert u.shape == v.shape == (0,) and negative.shape == (0, 5)


@pytest.mark.parametrize("sparse", [False, True])
def test_loss_of_embeddings_that_are_alike(sparse):
    model = sg.nn.MetaPath2Vec(shops(), ["buys", "of"], 1, 4, negative_size=3, sparse=sparse)
    with torch.no_grad():
        model.node_embed.weight.fill_(0.5)
        model.context_embed.weight.fill_(0.3)
    score = torch.tensor(4 * 0.5 * 0.3)
    loss = model(*model.sample([0, 1]))
    torch.testing.assert_close(loss, -F.logsigmoid(score) - 3 * F.logsigmoid(-score))
    loss.backward()
    assert model.node_embed.weight.grad.is_sparse == sparse


def test_what_is_bought_together_becomes_alike():
    torch.manual_seed(0)
    model = sg.nn.MetaPath2Vec(shops(), ["buys", "of"], window_size=2, emb_dim=8)
    loader = torch.utils.data.DataLoader(range(3), batch_size=3, collate_fn=model.sample)
    optimizer = torch.optim.SparseAdam(model.parameters(), lr=0.05)
    for _ in range(80):
        for pairs in loader:
            optimizer.zero_grad()
            model(*pairs).backward()
            optimizer.step()
    z = F.normalize(model.node_embed(model.local_to_global_nid["user"]).detach())
    assert z[0] @ z[1] > z[0] @ z[2] + 0.5


@pytest.mark.parametrize(("path", "window"), [(["buys", "buys"], 1), (["buys"], 3)])
def test_paths_have_to_join(path, window):
    with pytest.raises(smex.SmexValueError, match="MetaPath2Vec: expected edge types that join"):
        sg.nn.MetaPath2Vec(shops(), path, window)
