"""Random walks, and neighbours by them."""

import pytest
import torch

import smex
import smex.graph as sg


def users():
    return sg.heterograph(
        {
            ("user", "follow", "user"): ([0, 1, 1, 2, 3], [1, 2, 3, 0, 0]),
            ("user", "view", "item"): ([0, 0, 1, 2, 3, 3], [0, 1, 1, 2, 2, 1]),
            ("item", "viewed-by", "user"): ([0, 1, 1, 2, 2, 1], [0, 0, 1, 2, 3, 3]),
        }
    )


def test_walks_follow_the_metapath():
    h = users()
    path = ["follow", "view", "viewed-by"] * 2
    nodes = torch.arange(4).repeat(50)
    traces, eids, types = sg.sampling.random_walk(h, nodes, metapath=path, return_eids=True)
    assert traces.shape == (200, 7) and types.tolist() == [1, 1, 0, 1, 1, 0, 1]
    for k, etype in enumerate(path):
        src, dst = h.find_edges(eids[:, k], etype=etype)
        assert torch.equal(src, traces[:, k]) and torch.equal(dst, traces[:, k + 1])


def test_walks_end():
    g = sg.graph(([0, 1], [1, 2]))
    traces, _ = sg.sampling.random_walk(g, [0, 2], length=4)
    assert traces.tolist() == [[0, 1, 2, -1, -1], [2, -1, -1, -1, -1]]
    assert sg.sampling.random_walk(g, [0], length=0)[0].tolist() == [[0]]
    assert sg.sampling.random_walk(g, [], length=3)[0].shape == (0, 4)
    ring = sg.graph((torch.arange(5), torch.arange(1, 6) % 5))
    torch.manual_seed(0)
    traces, _ = sg.sampling.random_walk(ring, [0] * 20000, length=2, restart_prob=0.3)
    assert (traces[:, 1] == 1).all()
    assert float((traces[:, 2] < 0).double().mean()) == pytest.approx(0.3, abs=0.02)
    stepwise = torch.tensor([0.0, 1.0, 0.0])
    traces, _ = sg.sampling.random_walk(ring, [0, 1], length=3, restart_prob=stepwise)
    assert traces.tolist() == [[0, 1, 2, -1], [1, 2, 3, -1]]


def test_walks_follow_weights_and_seeds():
    g = sg.graph(([0, 0, 0, 1, 2, 3], [1, 2, 3, 0, 0, 0]))
    g.edata["p"] = torch.tensor([1.0, 0.0, 3.0, 1.0, 1.0, 1.0])
    g.edata["m"] = g.edata["p"] > 2
    sg.seed(0)
    traces, _ = sg.sampling.random_walk(g, [0] * 20000, length=1, prob="p")
    shares = torch.bincount(traces[:, 1], minlength=4) / 20000
    assert shares[2] == 0 and float(shares[3]) == pytest.approx(0.75, abs=0.02)
    assert (sg.sampling.random_walk(g, [0] * 10, length=1, prob="m")[0][:, 1] == 3).all()
    before = torch.get_num_threads()
    walks = []
    try:
        for threads, seed in ((1, 0), (2, 0), (2, 1)):
            torch.set_num_threads(threads)
            sg.seed(seed)
            walks.append(sg.sampling.random_walk(g, [0] * 1000, length=9)[0])
    finally:
        torch.set_num_threads(before)
    assert torch.equal(walks[0], walks[1]) and not torch.equal(walks[1], walks[2])


def test_node2vec():
    g = sg.to_bidirected(sg.graph(([0, 0, 1, 1], [1, 2, 2, 3])))
    g.edata["p"] = torch.ones(g.num_edges())
    torch.manual_seed(0)
    for prob in (None, "p"):
        traces, eids = sg.sampling.node2vec_random_walk(
            g, [0] * 20000, 0.5, 4.0, 2, prob, return_eids=True
        )
        assert torch.equal(torch.stack(g.find_edges(eids[:, 1])), traces[:, 1:].T)
        over = traces[traces[:, 1] == 1][:, 2]
        shares = torch.bincount(over, minlength=4) / over.shape[0]
        expected = torch.tensor([2.0, 0.0, 1.0, 0.25]) / 3.25
        torch.testing.assert_close(shares, expected, atol=0.02, rtol=0)
    assert sg.sampling.node2vec_random_walk(g.int(), [0], 1, 1, 3).dtype == torch.int32


def test_pack_traces():
    h = users()
    traces, types = sg.sampling.random_walk(h, [0, 1, 2], metapath=["follow", "view"])
    traces[1, 2:] = -1
    nodes, kinds, lengths, offsets = sg.sampling.pack_traces(traces, types)
    assert lengths.tolist() == [3, 2, 3] and offsets.tolist() == [0, 3, 5]
    for i in range(3):
        mine = slice(int(offsets[i]), int(offsets[i] + lengths[i]))
        assert nodes[mine].tolist() == traces[i, : int(lengths[i])].tolist()
        assert kinds[mine].tolist() == types[: int(lengths[i])].tolist()


def test_pinsage():
    h = users()
    torch.manual_seed(0)
    sampler = sg.sampling.PinSAGESampler(h, "item", "user", 2, 0.5, 200, 2)
    found = sampler(torch.tensor([1, 2]))
    assert found.canonical_etypes == [("item", "_E", "item")]
    assert found.num_nodes() == 3 and found.edges()[1].tolist() == [1, 1, 2, 2]
    visits = found.edata["weights"].view(2, 2)
    assert (visits[:, 0] >= visits[:, 1]).all() and (visits.sum(1) <= 400).all()
    # Item 0 is seen by user 0 only, who sees items 0 and 1.
    once = sg.sampling.RandomWalkNeighborSampler(
        h, 1, 0.0, 100, 5, ["viewed-by", "view"], weight_column="visits"
    )([0])
    assert sorted(once.edges()[0].tolist()) == [0, 1] and int(once.edata["visits"].sum()) == 100
    # Always ending after the first time visits once for each walk.
    ended = sg.sampling.PinSAGESampler(h, "item", "user", 5, 1.0, 100, 5)([0])
    assert int(ended.edata["weights"].sum()) == 100


walk = sg.sampling.random_walk


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (lambda: walk(users(), [0]), "either metapath or length, found both or none"),
        (lambda: walk(users(), [0], length=2), "the graph has 3 of them"),
        (lambda: walk(users(), [9], metapath=["view"]), "expected ids from 0 to 3, found 9"),
        (
            lambda: walk(users(), [0], metapath=["view", "follow"]),
            'step 1 must start from the type where the one before ends, "item"',
        ),
        (
            lambda: walk(users(), [0], metapath=["follow"], restart_prob=1.5),
            r"restart_prob must be in \[0, 1\]",
        ),
        (
            lambda: walk(users(), [0], metapath=["follow"], restart_prob=torch.zeros(3)),
            "have one for each of 1 steps",
        ),
        (lambda: walk(sg.graph(([0], [1])), [0], length=-1), "length of at least 0, found -1"),
        (
            lambda: sg.sampling.node2vec_random_walk(sg.graph(([0], [1])), [0], 0, 1, 2),
            "expected p above 0, found 0",
        ),
        (
            lambda: sg.sampling.node2vec_random_walk(users()["view"], [0], 1, 1, 2),
            "expected edges from a node type to itself",
        ),
        (
            lambda: sg.sampling.pack_traces(torch.zeros(2, 3).long(), torch.zeros(2).long()),
            r"expected traces \[num_walks, n\] and types \[n\]",
        ),
        (
            lambda: sg.sampling.PinSAGESampler(users(), "user", "user", 1, 0.5, 2, 2).__class__(
                users(), "item", "item", 1, 0.5, 2, 2
            ),
            'one edge type from "item" to "item", found 0',
        ),
        (
            lambda: sg.sampling.RandomWalkNeighborSampler(users(), 1, 2.0, 2, 2, ["follow"]),
            r"termination_prob in \[0, 1\]",
        ),
        (
            lambda: sg.sampling.RandomWalkNeighborSampler(users(), 1, 0.5, 2, 2, ["view"]),
            "must lead from a node type to itself",
        ),
    ],
)
def test_errors(call, text):
    with pytest.raises(smex.SmexValueError, match=text):
        call()


def test_errors_of_weights_and_types():
    g = sg.graph(([0, 0], [1, 2]))
    g.edata["p"] = torch.tensor([1.0, float("inf")])
    with pytest.raises(smex.SmexValueError, match="the weight of edge 1"):
        walk(g, [0], length=1, prob="p")
    with pytest.raises(smex.SmexTypeError, match="integer as length, found str"):
        walk(g, [0], length="3")
    with pytest.raises(smex.SmexTypeError, match="types must be a tensor of int32 or int64"):
        sg.sampling.pack_traces(torch.zeros(2, 3).long(), torch.zeros(3))
