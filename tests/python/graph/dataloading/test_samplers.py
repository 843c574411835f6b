"""Mini-batches of nodes: blocks and subgraphs."""

import itertools

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import smex
import smex.graph as sg
from support.graphs import TRIPLES, graphs, heterographs, pairs, some_of

dl = sg.dataloading
MANY = settings(max_examples=40, deadline=None)


def check_block(g, block, canonicals):
    """Edges and features are those of the graph; sources start with the destinations."""
    for s, e, d in canonicals:
        src, dst = block.srcnodes[s].data[sg.NID], block.dstnodes[d].data[sg.NID]
        eids = block.edges[s, e, d].data[sg.EID]
        u, v = block.edges(etype=(s, e, d))
        found = torch.stack([src[u.long()], dst[v.long()]])
        assert torch.equal(found, torch.stack(g.find_edges(eids, etype=(s, e, d))))
        kept = block.dstnodes[s].data[sg.NID]
        assert torch.equal(src[: kept.shape[0]], kept)
        assert torch.equal(block.srcnodes[s].data["h"], g.nodes[s].data["h"][src.long()])
        assert torch.equal(block.dstnodes[d].data["h"], g.nodes[d].data["h"][dst.long()])
        weights = g.edges[s, e, d].data["w"][eids.long()]
        assert torch.equal(block.edges[s, e, d].data["w"], weights)
        assert block.num_src_nodes(s) == src.unique().shape[0]


@MANY
@given(st.data())
@pytest.mark.parametrize("make", [dl.NeighborSampler, dl.LaborSampler])
def test_blocks_chain(make, data):
    g = data.draw(graphs(min_nodes=1))
    seeds = torch.tensor(data.draw(some_of(g.num_nodes())), dtype=g.idtype)
    input_nodes, output_nodes, blocks = make([2, -1, 1]).sample(g, seeds)
    assert torch.equal(output_nodes, seeds) and len(blocks) == 3
    assert torch.equal(blocks[-1].dstdata[sg.NID], seeds)
    assert torch.equal(blocks[0].srcdata[sg.NID], input_nodes)
    for before, after in itertools.pairwise(blocks):
        assert torch.equal(before.dstdata[sg.NID], after.srcdata[sg.NID])
    for block in blocks:
        check_block(g, block, g.canonical_etypes)
    degrees = g.in_degrees(blocks[1].dstdata[sg.NID])
    assert torch.equal(blocks[1].in_degrees(), degrees)
    if make is dl.NeighborSampler:
        degrees = g.in_degrees(blocks[0].dstdata[sg.NID])
        assert torch.equal(blocks[0].in_degrees(), degrees.clamp_max(2))


@MANY
@given(st.data())
def test_blocks_of_several_types(data):
    h = data.draw(heterographs())
    seeds = {t: torch.tensor(data.draw(some_of(h.num_nodes(t))), dtype=h.idtype) for t in "uv"}
    excluded = {TRIPLES[0]: data.draw(some_of(h.num_edges(TRIPLES[0])))}
    fanout = {canonical: n for n, canonical in enumerate(TRIPLES, -1)}
    sampler = dl.NeighborSampler([fanout, 2])
    input_nodes, output_nodes, blocks = sampler.sample(h, seeds, excluded)
    assert set(input_nodes) == set(h.ntypes) and set(output_nodes) == {"u", "v"}
    for ntype in h.ntypes:
        assert torch.equal(blocks[0].srcnodes[ntype].data[sg.NID], input_nodes[ntype])
        middle = blocks[1].srcnodes[ntype].data[sg.NID]
        assert torch.equal(blocks[0].dstnodes[ntype].data[sg.NID], middle)
    for block in blocks:
        check_block(h, block, TRIPLES)
        assert not set(block.edges[TRIPLES[0]].data[sg.EID].tolist()) & set(excluded[TRIPLES[0]])
    assert blocks[0].num_edges(TRIPLES[1]) == 0


def test_blocks_as_to_block_makes_them():
    torch.manual_seed(0)
    g = sg.rand_graph(50, 300)
    seeds = torch.tensor([4, 7, 1])
    _, _, (block,) = dl.MultiLayerFullNeighborSampler(1).sample(g, seeds)
    frontier = sg.in_subgraph(g, seeds)
    expected = sg.to_block(frontier, seeds)
    assert pairs(block) == pairs(expected)
    assert torch.equal(block.srcdata[sg.NID], expected.srcdata[sg.NID])
    assert torch.equal(block.edata[sg.EID], frontier.edata[sg.EID])


def test_weights_and_masks():
    g = sg.graph(([0, 1, 2], [3, 3, 3]))
    g.edata["p"] = torch.tensor([0.0, 1.0, 1.0])
    g.edata["m"] = torch.tensor([True, False, False])
    seeds = torch.tensor([3])
    assert dl.NeighborSampler([5], prob="p").sample(g, seeds)[0].tolist() == [3, 1, 2]
    assert dl.NeighborSampler([5], mask="m").sample(g, seeds)[0].tolist() == [3, 0]
    block = dl.LaborSampler([5], prob="p").sample(g, seeds)[2][0]
    assert block.edata["edge_weights"].tolist() == [1.0, 1.0]
    assert "edge_weights" not in dl.LaborSampler([5]).sample(g, seeds)[2][0].edata


def test_labor_dependencies():
    torch.manual_seed(0)
    g = sg.rand_graph(300, 9000)
    seeds = torch.arange(100)
    sizes = []
    for layers in (False, True):
        sampler = dl.LaborSampler([5, 5], layer_dependency=layers)
        sizes.append(sum(sampler.sample(g, seeds)[0].shape[0] for _ in range(20)))
    assert sizes[1] < sizes[0]

    def common(batch_dependency):
        sampler = dl.LaborSampler([5], batch_dependency=batch_dependency)
        batches = [set(sampler.sample(g, seeds)[2][0].edata[sg.EID].tolist()) for _ in range(9)]
        return sum(len(a & b) for a, b in itertools.pairwise(batches))

    assert common(8) > 2 * common(1)


def test_shadow():
    torch.manual_seed(0)
    g = sg.rand_graph(60, 300)
    g.ndata["h"] = torch.rand(60)
    seeds = torch.tensor([9, 3])
    input_nodes, output_nodes, part = dl.ShaDowKHopSampler([3, 2]).sample(g, seeds)
    assert torch.equal(input_nodes[:2], seeds) and torch.equal(output_nodes, seeds)
    expected = sg.node_subgraph(g, input_nodes)
    assert torch.equal(part.ndata[sg.NID], input_nodes) and pairs(part) == pairs(expected)
    excluded = part.edata[sg.EID][::2]
    _, _, rest = dl.ShaDowKHopSampler([-1, -1]).sample(g, seeds, excluded)
    assert not set(rest.edata[sg.EID].tolist()) & set(excluded.tolist())
    u, v = rest.edges()
    ids = rest.ndata[sg.NID]
    assert torch.equal(torch.stack(g.find_edges(rest.edata[sg.EID])), torch.stack([ids[u], ids[v]]))
    assert torch.equal(rest.ndata["h"], g.ndata["h"][ids])


@pytest.mark.parametrize(("mode", "budget"), [("node", 8), ("edge", 8), ("walk", (4, 3))])
def test_saint(mode, budget):
    torch.manual_seed(0)
    g = sg.rand_graph(40, 60)
    g.ndata["h"] = torch.rand(40)
    most = {"node": 8, "edge": 16, "walk": 16}[mode]
    for cache in (True, False):
        sampler = dl.SAINTSampler(mode, budget, cache, prefetch_ndata=["h"])
        parts = [sampler.sample(g) for _ in range(3)]
        for part in parts:
            ids = part.ndata[sg.NID]
            assert 0 < part.num_nodes() <= most
            assert pairs(part) == pairs(sg.node_subgraph(g, ids))
            assert torch.equal(part.ndata["h"], g.ndata["h"][ids])
        assert parts[0].ndata[sg.NID].tolist() != parts[1].ndata[sg.NID].tolist()


def test_saint_draws_by_degree():
    g = sg.graph(([0, 0, 0, 1], [2, 2, 2, 3]), num_nodes=5)
    torch.manual_seed(0)
    nodes, ends = dl.SAINTSampler("node", 1), dl.SAINTSampler("edge", 1)
    drawn = [int(nodes.sample(g).ndata[sg.NID]) for _ in range(4000)]
    assert drawn.count(2) + drawn.count(3) == 4000
    assert drawn.count(2) / 4000 == pytest.approx(0.75, abs=0.03)
    # Edges 0 to 2 have the weight 1 / 3 + 1 / 3, edge 3 has 1 + 1.
    drawn = [ends.sample(g).ndata[sg.NID].tolist() for _ in range(4000)]
    assert drawn.count([1, 3]) / 4000 == pytest.approx(0.5, abs=0.03)


def test_clusters(tmp_path):
    pytest.importorskip("pymetis", reason="pymetis is not installed")
    ring = sg.graph((torch.arange(30), torch.arange(1, 31) % 30))
    path = tmp_path / "parts"
    first = dl.ClusterGCNSampler(ring, 5, path)
    again = dl.ClusterGCNSampler(ring, 5, path)
    parts = [first.sample(ring, torch.tensor([n])) for n in range(5)]
    assert sorted(torch.cat([part.ndata[sg.NID] for part in parts]).tolist()) == list(range(30))
    for n, part in enumerate(parts):
        assert torch.equal(part.ndata[sg.NID], again.sample(ring, [n]).ndata[sg.NID])
    whole = first.sample(ring, torch.arange(5))
    assert (whole.num_nodes(), whole.num_edges()) == (30, 30)
    with pytest.raises(smex.SmexValueError, match="no partition of this graph in 4 parts"):
        dl.ClusterGCNSampler(ring, 4, path)
    with pytest.raises(smex.SmexValueError, match="different numbers of parts below 5"):
        first.sample(ring, [5])


def test_base_classes_say_what_is_missing():
    with pytest.raises(NotImplementedError, match="Sampler has no sample"):
        dl.Sampler().sample(None, None)
    with pytest.raises(NotImplementedError, match="BlockSampler has no sample_blocks"):
        dl.BlockSampler().sample(None, None)


def line():
    g = sg.graph(([0, 1], [1, 2]))
    g.ndata["h"] = torch.zeros(3)
    return g


@pytest.mark.parametrize(
    ("call", "error", "text"),
    [
        (lambda: dl.NeighborSampler([]), smex.SmexValueError, "a fanout for each layer"),
        (lambda: dl.NeighborSampler(5), smex.SmexValueError, "a fanout for each layer, found 5"),
        (
            lambda: dl.NeighborSampler([1], edge_dir="out"),
            smex.SmexValueError,
            "expected edge_dir='in', found 'out'",
        ),
        (
            lambda: dl.NeighborSampler([1], prob="p", mask="m"),
            smex.SmexValueError,
            "expected prob or mask, found both",
        ),
        (
            lambda: dl.NeighborSampler([1]).sample(line(), [1, 1]),
            smex.SmexValueError,
            'seeds of type "_N" must differ',
        ),
        (
            lambda: dl.NeighborSampler([1]).sample(line(), [3]),
            smex.SmexValueError,
            "expected ids from 0 to 2, found 3",
        ),
        (
            lambda: dl.NeighborSampler([1], prefetch_node_feats=["x"]).sample(line(), [1]),
            smex.SmexValueError,
            'feature "x" is not set',
        ),
        (
            lambda: dl.NeighborSampler([1], prefetch_node_feats="h").sample(line(), [1]),
            smex.SmexTypeError,
            "expected a list of node feature names",
        ),
        (
            lambda: dl.NeighborSampler([1], prefetch_labels={"z": ["h"]}).sample(line(), [1]),
            smex.SmexTypeError,
            "the graph has no node type 'z'",
        ),
        (lambda: dl.SAINTSampler("edges", 3), smex.SmexValueError, "found 'edges'"),
        (lambda: dl.SAINTSampler("walk", (3,)), smex.SmexValueError, "budget=.number of walks"),
        (
            lambda: dl.SAINTSampler("walk", 5),
            smex.SmexValueError,
            "budget=.number of walks.*found 5",
        ),
        (
            lambda: dl.ClusterGCNSampler(sg.rand_graph(5, 10), 7, ""),
            smex.SmexValueError,
            "k of at most the number of nodes, 5, found 7",
        ),
        (lambda: dl.SAINTSampler("node", 0), smex.SmexValueError, "budget of at least 1, found 0"),
        (
            lambda: dl.SAINTSampler("node", 1).sample(sg.graph(([], []), num_nodes=2)),
            smex.SmexValueError,
            "needs a graph with edges, found none",
        ),
        (
            lambda: dl.MultiLayerFullNeighborSampler(0),
            smex.SmexValueError,
            "num_layers of at least 1, found 0",
        ),
    ],
)
def test_errors(call, error, text):
    with pytest.raises(error, match=text):
        call()


def test_prefetching_several_types_needs_a_dict():
    h = sg.heterograph({("a", "x", "b"): ([0], [0])})
    with pytest.raises(smex.SmexTypeError, match="the graph has several node types, expected a d"):
        dl.NeighborSampler([1], prefetch_node_feats=["h"]).sample(h, {"b": [0]})


@pytest.mark.parametrize("layers", [False, True])
def test_labor_samplers_of_one_seed_draw_alike(layers):
    g, seeds = sg.rand_graph(200, 4000), torch.arange(30)
    samplers = [dl.LaborSampler([3, 3], layer_dependency=layers) for _ in range(2)]
    samplers[0].sample(g, seeds)

    def drawn(sampler):
        return [block.edata[sg.EID].tolist() for block in sampler.sample(g, seeds)[2]]

    for sampler in samplers:
        sampler.set_seed(11)
    first, second = drawn(samplers[0]), drawn(samplers[1])
    assert first == second
    assert drawn(samplers[0]) != first  # the next batch has a seed of its own
    samplers[0].set_seed(12)
    assert drawn(samplers[0]) != first


def test_features_are_marked_by_functions():
    g = sg.graph(([0, 1, 2], [1, 2, 0]))
    g.ndata["h"], g.edata["w"] = torch.arange(3.0), torch.arange(3.0)
    block = sg.to_block(sg.in_subgraph(g, [1]), torch.tensor([1]))
    sg.set_src_lazy_features(block, ["h"])
    sg.set_edge_lazy_features(block, ["w"])
    sg.set_dst_lazy_features(block, ["h"])
    assert block.srcdata["h"].tolist() == [1.0, 0.0] and block.dstdata["h"].tolist() == [1.0]
    assert block.edata["w"].tolist() == [0.0]
    with pytest.raises(smex.SmexTypeError, match="expected a list of node feature names"):
        sg.set_node_lazy_features(g, "h")
    with pytest.raises(KeyError, match="q"):
        sg.set_node_lazy_features(g, ["q"])


def test_collators_work_in_processes():
    g = sg.rand_graph(20, 100)
    collator = sg.dataloading.NodeCollator(g, torch.arange(20), sg.dataloading.NeighborSampler([2]))
    loader = torch.utils.data.DataLoader(
        collator.dataset, 8, collate_fn=collator.collate, num_workers=1
    )
    assert torch.cat([output for _, output, _ in loader]).tolist() == list(range(20))
    items = [(sg.graph(([0], [1])), 1.0), (sg.graph(([0, 1], [1, 0])), 2.0)]
    graphs, labels = sg.dataloading.GraphCollator().collate(items)
    assert graphs.batch_size == 2 and labels.tolist() == [1.0, 2.0]
    with pytest.raises(smex.SmexTypeError, match="several node types, expected a dict"):
        sg.dataloading.NodeCollator(sg.heterograph({("a", "x", "b"): ([0], [0])}), [0], None)
