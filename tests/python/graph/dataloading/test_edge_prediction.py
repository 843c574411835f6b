"""Mini-batches of edges."""

import pytest
import torch

import smex
import smex.graph as sg

dl = sg.dataloading


def both_ways(n=40, m=200):
    """Edges i and i + m are each other's reverse."""
    torch.manual_seed(0)
    src, dst = sg.rand_graph(n, m).edges()
    g = sg.graph((torch.cat([src, dst]), torch.cat([dst, src])), num_nodes=n)
    g.edata["y"] = torch.arange(2 * m)
    return g, torch.cat([torch.arange(m) + m, torch.arange(m)])


def two_types():
    torch.manual_seed(0)
    src, dst = torch.randint(20, (100,)), torch.randint(15, (100,))
    return sg.heterograph({("u", "buys", "v"): (src, dst), ("v", "sold", "u"): (dst, src)})


def ends(g, ids, part, etype=None):
    """(source, destination) of a part's edges as ids of the graph."""
    s, _, d = part.to_canonical_etype(etype)
    src, dst = part.edges(etype=etype)
    return torch.stack([part.nodes[s].data[sg.NID][src], part.nodes[d].data[sg.NID][dst]])


@pytest.mark.parametrize("num_workers", [0, 2])
@pytest.mark.parametrize("negative", [None, "per source", "global"])
def test_pairs_and_blocks(negative, num_workers):
    g, reverse = both_ways()
    negatives = {
        None: None,
        "per source": dl.negative_sampler.Uniform(3),
        "global": dl.negative_sampler.GlobalUniform(3),
    }[negative]
    sampler = dl.as_edge_prediction_sampler(
        dl.NeighborSampler([-1, -1]),
        exclude="reverse_id",
        reverse_eids=reverse,
        negative_sampler=negatives,
        prefetch_labels=["y"],
    )
    seen = []
    loader = dl.DataLoader(
        g, torch.arange(50), sampler, batch_size=16, shuffle=True, num_workers=num_workers
    )
    for input_nodes, pairs, *others, blocks in loader:
        eids = pairs.edata[sg.EID]
        seen += eids.tolist()
        assert torch.equal(pairs.edata["y"], eids)
        assert torch.equal(ends(g, eids, pairs), torch.stack(g.find_edges(eids)))
        assert torch.equal(blocks[-1].dstdata[sg.NID], pairs.ndata[sg.NID])
        assert torch.equal(blocks[0].srcdata[sg.NID], input_nodes)
        left_out = set(eids.tolist()) | set(reverse[eids].tolist())
        for block in blocks:
            assert not left_out & set(block.edata[sg.EID].tolist())
            expected = [
                n
                for n in range(g.num_edges())
                if n not in left_out and int(g.edges()[1][n]) in set(block.dstdata[sg.NID].tolist())
            ]
            assert sorted(block.edata[sg.EID].tolist()) == expected
        assert len(others) == (negative is not None)
        for none in others:
            assert torch.equal(none.ndata[sg.NID], pairs.ndata[sg.NID])
            src, dst = ends(g, None, none)
            assert src.shape[0] == 3 * eids.shape[0]
            if negative == "per source":
                assert torch.equal(src, g.find_edges(eids)[0].repeat_interleave(3))
            else:
                assert not g.has_edges_between(src, dst).any() and (src != dst).all()
    assert sorted(seen) == list(range(50))


def test_several_types():
    h = two_types()
    sampler = dl.as_edge_prediction_sampler(
        dl.NeighborSampler([-1]),
        exclude="reverse_types",
        reverse_etypes={"buys": "sold", "sold": "buys"},
        negative_sampler=dl.negative_sampler.PerSourceUniform(2),
    )
    loader = dl.DataLoader(h, {"buys": torch.arange(30)}, sampler, batch_size=8)
    for input_nodes, pairs, none, (block,) in loader:
        eids = pairs.edges["buys"].data[sg.EID]
        found = ends(h, eids, pairs, "buys")
        assert torch.equal(found, torch.stack(h.find_edges(eids, etype="buys")))
        assert pairs.num_edges("sold") == none.num_edges("sold") == 0
        assert none.num_edges("buys") == 2 * eids.shape[0]
        for etype in ("buys", "sold"):
            drawn = block.edges[etype].data[sg.EID].tolist()
            assert not set(drawn) & set(eids.tolist())
        assert set(input_nodes) == {"u", "v"}


def test_excluded_edges():
    g, reverse = both_ways(10, 20)
    seeds = torch.tensor([1, 25])
    find = dl.find_exclude_eids
    assert find(g, seeds, "self").tolist() == [1, 25]
    assert find(g, seeds, "reverse_id", reverse).tolist() == [1, 25, 21, 5]
    assert find(g, seeds, "reverse_id", reverse.tolist()).tolist() == [1, 25, 21, 5]
    (kept,) = find(g, {"_E": seeds}, "self").values()
    assert kept.tolist() == [1, 25]
    assert find(g, seeds, None) is None and find(g, seeds, lambda eids: eids + 1).tolist() == [
        2,
        26,
    ]
    h = two_types()
    kept = find(h, {"buys": seeds}, "reverse_types", reverse_etypes={"buys": "sold"})
    assert {c[1]: ids.tolist() for c, ids in kept.items()} == {"buys": [1, 25], "sold": [1, 25]}
    kept = find(h, {"buys": seeds}, "reverse_id", {"buys": torch.arange(100)})
    assert {c[1]: ids.tolist() for c, ids in kept.items()} == {"buys": [1, 25, 1, 25]}


def test_edges_at_nodes_of_few_edges_are_excluded():
    torch.manual_seed(0)
    g = sg.remove_self_loop(sg.rand_graph(30, 90))
    both = sg.add_reverse_edges(g)
    number = both.num_edges()
    reverse = torch.arange(number).roll(number // 2)
    spot = dl.SpotTarget(both, "reverse_id", 6, reverse_eids=reverse)
    seeds = torch.randperm(number)[:50]
    degree = torch.bincount(both.edges()[1], minlength=30)
    few = {e for e in seeds.tolist() if min(degree[end[e]] for end in both.edges()) < 6}
    assert 0 < len(few) < 50
    left_out = set(spot(seeds).tolist())
    assert left_out == few | {int(reverse[e]) for e in few}
    sampler = dl.as_edge_prediction_sampler(dl.NeighborSampler([-1]), exclude=spot)
    loader = dl.DataLoader(both, seeds, sampler, batch_size=50)
    _, _, (block,) = next(iter(loader))
    nodes = set(block.dstdata[sg.NID].tolist())
    kept = {e for e, v in enumerate(both.edges()[1].tolist()) if v in nodes} - left_out
    assert set(block.edata[sg.EID].tolist()) == kept
    with pytest.raises(smex.SmexValueError, match="SpotTarget: expected exclude 'self'"):
        dl.SpotTarget(both, "all")


def test_subgraphs_for_edges():
    g, _ = both_ways()
    sampler = dl.as_edge_prediction_sampler(dl.ShaDowKHopSampler([3]), exclude="self")
    input_nodes, pairs, part = sampler.sample(g, torch.tensor([1, 2]))
    assert torch.equal(part.ndata[sg.NID], input_nodes)
    assert not {1, 2} & set(part.edata[sg.EID].tolist())
    number = pairs.num_nodes()
    assert torch.equal(input_nodes[:number], pairs.ndata[sg.NID])


def test_negatives_of_ones_own():
    g, _ = both_ways()
    sampler = dl.as_edge_prediction_sampler(
        dl.NeighborSampler([2]), negative_sampler=lambda g, eids: (eids * 0, eids * 0 + 1)
    )
    _, _, none, _ = sampler.sample(g, torch.tensor([1, 2, 3]))
    assert ends(g, None, none).tolist() == [[0, 0, 0], [1, 1, 1]]


def test_a_list_of_reverse_edges():
    g, reverse = both_ways()
    seeds = torch.tensor([1, 2])
    parts = [
        dl.as_edge_prediction_sampler(
            dl.NeighborSampler([-1]), exclude="reverse_id", reverse_eids=given
        ).sample(g, seeds)[2][0]
        for given in (reverse, reverse.tolist())
    ]
    assert torch.equal(*(part.edata[sg.EID] for part in parts))


@pytest.mark.parametrize(
    ("pairs", "error", "text"),
    [
        (([0, 1], [0, 400]), smex.SmexValueError, "destinations of .*: expected ids from 0 to"),
        (([-1, 1], [0, 1]), smex.SmexValueError, "sources of .*: expected ids from 0 to .* -1"),
        (([0, 1], [0]), smex.SmexValueError, "must return as many sources as destinations"),
        (torch.tensor([0, 1]), smex.SmexTypeError, r"must return \(src, dst\), or a dict of these"),
    ],
)
def test_mistakes_of_a_negative_sampler_name_it(pairs, error, text):
    if isinstance(pairs, tuple):
        pairs = tuple(torch.tensor(ids) for ids in pairs)
    sampler = dl.as_edge_prediction_sampler(
        dl.NeighborSampler([2]), negative_sampler=lambda g, eids: pairs
    )
    with pytest.raises(error, match=f"as_edge_prediction_sampler: negative_sampler.*{text}"):
        sampler.sample(both_ways()[0], torch.tensor([1, 2]))


@pytest.mark.parametrize(
    ("call", "error", "text"),
    [
        (
            lambda s: dl.as_edge_prediction_sampler(s, exclude="all"),
            smex.SmexValueError,
            "expected exclude 'self', 'reverse_id', 'reverse_types'.* found 'all'",
        ),
        (
            lambda s: dl.as_edge_prediction_sampler(s, exclude="reverse_id"),
            smex.SmexValueError,
            "needs reverse_eids, found None",
        ),
        (
            lambda s: dl.as_edge_prediction_sampler(s, exclude="reverse_types"),
            smex.SmexValueError,
            "needs reverse_etypes, found None",
        ),
        (
            lambda s: dl.as_edge_prediction_sampler(
                s, exclude="reverse_id", reverse_eids=[1, 0]
            ).sample(both_ways()[0], [3]),
            smex.SmexValueError,
            "reverse_eids must have the reverse of each of 400 edges of type",
        ),
        (
            lambda s: dl.as_edge_prediction_sampler(5),
            smex.SmexTypeError,
            "a sampler with a method sample, found int",
        ),
        (
            lambda s: dl.as_edge_prediction_sampler(s).sample(both_ways()[0], [400]),
            smex.SmexValueError,
            "expected ids from 0 to 399, found 400",
        ),
        (
            lambda s: dl.negative_sampler.Uniform(0),
            smex.SmexValueError,
            "k of at least 1, found 0",
        ),
    ],
)
def test_errors(call, error, text):
    with pytest.raises(error, match=text):
        call(dl.NeighborSampler([2]))
