"""GraphBolt's stages: what each makes, and whole pipelines, beside brute force."""

import functools
import pickle

import numpy as np
import pytest
import torch
from torch.utils.data import functional_datapipe

import smex
import smex.graph as sg
import smex.graph.graphbolt as gb


def ring(n=40, extra=160, seed=0):
    """A graph whose nodes all have in-edges, with weights, ids and features."""
    torch.manual_seed(seed)
    src = torch.cat([torch.arange(n), torch.randint(n, (extra,))])
    dst = torch.cat([(torch.arange(n) + 1) % n, torch.randint(n, (extra,))])
    g = sg.graph((src, dst), num_nodes=n)
    g.ndata["feat"] = torch.randn(n, 3)
    g.edata["w"] = torch.rand(n + extra)
    return g


def two_types(seed=0):
    torch.manual_seed(seed)
    u, v = torch.randint(12, (60,)), torch.randint(9, (60,))
    g = sg.heterograph({
        ("user", "buys", "item"): (u, v),
        ("item", "sold", "user"): (v, u),
        ("user", "knows", "user"): (u, u.roll(1)),
    }, num_nodes_dict={"user": 12, "item": 9})  # fmt: skip
    for etype in g.canonical_etypes:
        g.edges[etype].data["w"] = torch.rand(60)
    return g


def edge_set(g, etype=None):
    src, dst = g.edges(etype=etype)
    return set(zip(src.tolist(), dst.tolist(), strict=True))


def edges_of(subgraph, etype=None):
    """(source, destination) of a subgraph's edges as ids of the graph."""
    csc, rows, columns = (
        subgraph.sampled_csc, subgraph.original_row_node_ids, subgraph.original_column_node_ids
    )  # fmt: skip
    if etype is not None:
        source, _, destination = gb.etype_str_to_tuple(etype)
        csc, rows, columns = csc[etype], rows[source], columns[destination]
    dst = gb.expand_indptr(csc.indptr, csc.indices.dtype, columns, len(csc.indices))
    return torch.stack([rows[csc.indices.long()], dst])


# ---- items ----


@pytest.mark.parametrize(
    ("items", "length", "some"),
    [
        (10, 10, torch.tensor([2, 3])),
        (torch.tensor(10, dtype=torch.int32), 10, torch.tensor([2, 3], dtype=torch.int32)),
        (torch.arange(5) * 2, 5, torch.tensor([4, 6])),
        (np.arange(5) * 2, 5, np.array([4, 6])),
    ],
    ids=["int", "scalar", "tensor", "array"],
)
def test_items_of_one_part(items, length, some):
    found = gb.ItemSet(items, names="seed_nodes")
    assert len(found) == length
    assert found[2:4].dtype == some.dtype
    assert list(found[2:4]) == list(some)
    assert [int(each) for each in found] == [int(found[n]) for n in range(length)]
    assert found.names == ("seed_nodes",)
    with pytest.raises(IndexError):
        found[length]


def test_items_of_several_parts_and_types():
    a = gb.ItemSet((torch.arange(3), torch.tensor([7, 8, 9])), ("seed_nodes", "labels"))
    b = gb.ItemSet((torch.arange(10, 14), torch.arange(4)), ("seed_nodes", "labels"))
    both = gb.ItemSetDict({"a": a, "b": b})
    assert len(both) == 7 and both.names == ("seed_nodes", "labels")
    assert {key: each[0].tolist() for key, each in both[2:5].items()} == {"a": [2], "b": [10, 11]}
    assert both[-1] == {"b": (13, 3)}
    assert [next(iter(each)) for each in both] == list("aaabbbb")
    with pytest.raises(smex.SmexValueError, match="same names"):
        gb.ItemSetDict({"a": a, "b": gb.ItemSet(3, "seed_nodes")})
    with pytest.raises(smex.SmexValueError, match="a name for each of 2 parts"):
        gb.ItemSet((torch.arange(3), torch.arange(3)), "labels")


@pytest.mark.parametrize("drop_last", [False, True])
@pytest.mark.parametrize("buffer_size", [-1, 5])
def test_batches_cover_the_items_once(drop_last, buffer_size):
    torch.manual_seed(0)
    items = gb.ItemSet((torch.arange(23), torch.arange(23) * 2), ("seed_nodes", "labels"))
    sampler = gb.ItemSampler(items, 4, shuffle=True, drop_last=drop_last, buffer_size=buffer_size)
    epochs = [list(sampler) for _ in range(2)]
    for batches in epochs:
        nodes = torch.cat([batch.seed_nodes for batch in batches])
        assert torch.equal(torch.cat([batch.labels for batch in batches]), nodes * 2)
        assert len(set(nodes.tolist())) == len(nodes) == (20 if drop_last else 23)
    assert not torch.equal(epochs[0][0].seed_nodes, epochs[1][0].seed_nodes)
    torch.manual_seed(0)
    again = gb.ItemSampler(items, 4, shuffle=True, drop_last=drop_last, buffer_size=buffer_size)
    assert torch.equal(next(iter(again)).seed_nodes, epochs[0][0].seed_nodes)


def test_batches_of_types_graphs_and_streams():
    items = gb.ItemSetDict({"a": gb.ItemSet(5, "seed_nodes"), "b": gb.ItemSet(4, "seed_nodes")})
    found = [batch.seed_nodes for batch in gb.ItemSampler(items, 4)]
    assert [{t: n.tolist() for t, n in each.items()} for each in found] == [
        {"a": [0, 1, 2, 3]}, {"a": [4], "b": [0, 1, 2]}, {"b": [3]},
    ]  # fmt: skip
    graphs = [sg.rand_graph(10, 20) for _ in range(5)]
    with pytest.warns(UserWarning, match="no names"):
        batches = list(gb.ItemSampler(gb.ItemSet(graphs), 3))
    assert [batch.num_nodes() for batch in batches] == [30, 20]
    stream = gb.ItemSet((n for n in range(7)), names="seed_nodes")
    assert [b.seed_nodes.tolist() for b in gb.ItemSampler(stream, 3)] == [[0, 1, 2], [3, 4, 5], [6]]
    pairs = gb.ItemSet(torch.arange(8).view(-1, 2), names="node_pairs")
    (batch,) = gb.ItemSampler(pairs, 4)
    assert batch.node_pairs[0].tolist() == [0, 2, 4, 6]


# ---- sampling ----


@pytest.mark.parametrize("idtype", [torch.int32, torch.int64])
@pytest.mark.parametrize("method", ["sample_neighbors", "sample_layer_neighbors"])
@pytest.mark.parametrize("fanout", [0, 1, 3, -1])
@pytest.mark.parametrize("prob", [None, "w", "mask"])
@pytest.mark.parametrize("replace", [False, True])
def test_neighbours_of_a_layer(idtype, method, fanout, prob, replace):
    g = ring().astype(idtype)
    g.edata["mask"] = g.edata["w"] > 0.4
    graph = gb.from_dglgraph(g, is_homogeneous=True, include_original_edge_id=True)
    nodes = torch.tensor([5, 0, 17], dtype=idtype)
    found = getattr(graph, method)(nodes, torch.tensor([fanout]), replace, prob)
    csc, ids = found.sampled_csc, found.original_edge_ids.long()
    src, dst = g.edges()
    allowed = g.edata["mask"] if prob == "mask" else torch.ones(g.num_edges(), dtype=torch.bool)
    for n, node in enumerate(nodes.tolist()):
        own = ids[csc.indptr[n] : csc.indptr[n + 1]]
        there = ((dst == node) & allowed).nonzero().view(-1)
        wanted = len(there) if fanout == -1 else fanout if replace else min(fanout, len(there))
        assert len(own) == wanted
        assert set(own.tolist()) <= set(there.tolist())
        assert replace or len(set(own.tolist())) == len(own)
        assert torch.equal(csc.indices[csc.indptr[n] : csc.indptr[n + 1]], src[own])


def test_weights_and_shared_neighbours():
    """Frequencies follow weights, and layers share neighbours more than chance would."""
    torch.manual_seed(0)
    src = torch.arange(50).repeat(30)
    dst = torch.arange(30).repeat_interleave(50)
    g = sg.graph((src, dst))
    g.edata["w"] = (src == 0).double() * 9 + 1
    graph = gb.from_dglgraph(g, is_homogeneous=True)
    nodes = torch.arange(30)
    drawn = [
        graph.sample_neighbors(nodes, torch.tensor([1]), False, "w").sampled_csc.indices
        for _ in range(100)
    ]
    share = (torch.cat(drawn) == 0).double().mean().item()
    assert share == pytest.approx(10 / 59, abs=0.03)
    apart = graph.sample_neighbors(nodes, torch.tensor([5])).sampled_csc.indices.unique()
    together = graph.sample_layer_neighbors(nodes, torch.tensor([5])).sampled_csc.indices.unique()
    assert len(together) == 5 and len(apart) > 40
    heavy = [
        graph.sample_layer_neighbors(nodes, torch.tensor([1]), False, "w").sampled_csc.indices[0]
        for _ in range(600)
    ]
    # min over r_t / w_t is not proportional to weights for uniform numbers: row 0 wins with
    # the integral of (1 - r / 10)^0 ... = 0.2 here, by simulation.
    r = torch.rand(100_000, 50, dtype=torch.float64)
    r[:, 0] /= 10
    expected = (r.argmin(1) == 0).double().mean().item()
    found = (torch.stack(heavy) == 0).double().mean().item()
    assert found == pytest.approx(expected, abs=0.06)


@pytest.mark.parametrize("fanouts", [[2], [-1], [1, 2, -1]])
@pytest.mark.parametrize("as_ids", [False, True])
def test_neighbours_of_types(fanouts, as_ids):
    g = two_types()
    graph = gb.from_dglgraph(g, include_original_edge_id=True)
    assert graph.num_nodes == {"item": 9, "user": 12}
    assert graph.num_edges == {"item:sold:user": 60, "user:buys:item": 60, "user:knows:user": 60}
    nodes = {"user": torch.tensor([3, 1]), "item": torch.tensor([8])}
    given = nodes
    if as_ids:  # of all types: items have the first ones
        given = torch.tensor([8, 3 + 9, 1 + 9])
    found = graph.sample_neighbors(given, torch.tensor(fanouts))
    total = {"user": 0, "item": 0}
    for etype, csc in found.sampled_csc.items():
        canonical = gb.etype_str_to_tuple(etype)
        own = nodes[canonical[2]]
        assert len(csc.indptr) == len(own) + 1
        ids = found.original_edge_ids[etype]
        dst = gb.expand_indptr(csc.indptr, torch.int64, own)
        src_of, dst_of = g.edges(etype=canonical)
        assert torch.equal(src_of[ids], csc.indices) and torch.equal(dst_of[ids], dst)
        total[canonical[2]] += len(ids)
        if len(fanouts) > 1:
            fanout = fanouts[list(found.sampled_csc).index(etype)]
            degrees = g.in_degrees(own, etype=canonical)
            most = degrees if fanout == -1 else degrees.clamp(max=fanout)
            assert torch.equal(csc.indptr.diff(), most)
    if fanouts == [2]:
        assert total == {"user": 4, "item": 2}
    if fanouts == [-1]:
        degree = sum(g.in_degrees(nodes[c[2]], etype=c).sum().item() for c in g.canonical_etypes)
        assert sum(total.values()) == degree


def test_edges_into_nodes_and_refusals():
    g = ring()
    graph = gb.from_dglgraph(g, is_homogeneous=True)
    found = graph.in_subgraph(torch.tensor([4, 2]))
    assert torch.equal(found.sampled_csc.indptr.diff(), g.in_degrees(torch.tensor([4, 2])))
    column = torch.repeat_interleave(graph.csc_indptr.diff())
    assert torch.equal(column[found.original_edge_ids].unique(), torch.tensor([2, 4]))
    assert torch.equal(graph.indices[found.original_edge_ids], found.sampled_csc.indices)
    with pytest.raises(smex.SmexValueError, match="some twice"):
        graph.in_subgraph(torch.tensor([4, 4]))
    with pytest.raises(smex.SmexTypeError, match="dtype torch.int64"):
        graph.sample_neighbors(torch.tensor([1], dtype=torch.int32), torch.tensor([2]))
    with pytest.raises(smex.SmexValueError, match='no attribute "p"'):
        graph.sample_neighbors(torch.tensor([1]), torch.tensor([2]), probs_name="p")
    with pytest.raises(smex.SmexValueError, match="one fanout"):
        graph.sample_neighbors(torch.tensor([1]), torch.tensor([2, 3]))
    with pytest.raises(smex.SmexTypeError, match="without types"):
        graph.sample_neighbors({"user": torch.tensor([1])}, torch.tensor([2]))
    again = pickle.loads(pickle.dumps(graph))
    assert torch.equal(again.indices, graph.indices)
    assert "total_num_nodes=40" in repr(graph)


@pytest.mark.parametrize("deduplicate", [False, True])
@pytest.mark.parametrize("sampler", ["sample_neighbor", "sample_layer_neighbor"])
def test_layers_are_blocks_of_the_graph(sampler, deduplicate):
    g = ring()
    graph = gb.from_dglgraph(g, is_homogeneous=True, include_original_edge_id=True)
    items = gb.ItemSet((torch.arange(40), torch.arange(40)), ("seed_nodes", "labels"))
    pipe = getattr(gb.ItemSampler(items, 16, shuffle=True), sampler)(
        graph, [3, 2], deduplicate=deduplicate
    )
    store = gb.BasicFeatureStore({
        ("node", None, "feat"): gb.TorchBasedFeature(g.ndata["feat"]),
        ("edge", None, "w"): gb.TorchBasedFeature(g.edata["w"].unsqueeze(1)),
    })  # fmt: skip
    pipe = pipe.fetch_feature(store, ["feat"], ["w"]).copy_to("cpu", extra_attrs=["seed_nodes"])
    for batch in gb.DataLoader(pipe):
        first, last = batch.blocks
        assert torch.equal(batch.labels, batch.seed_nodes)
        assert torch.equal(first.srcdata[sg.NID], batch.input_nodes)
        assert torch.equal(batch.node_features["feat"], g.ndata["feat"][batch.input_nodes])
        assert first.num_dst_nodes() == last.num_src_nodes()
        assert last.num_dst_nodes() == len(batch.seed_nodes)
        for layer, block in enumerate(batch.blocks):
            subgraph = batch.sampled_subgraphs[layer]
            src, dst = edges_of(subgraph)
            ids = block.edata[sg.EID]
            assert torch.equal(torch.stack(g.find_edges(ids)), torch.stack([src, dst]))
            weights = batch.edge_features[layer]["w"]
            assert torch.equal(weights.view(-1), g.edata["w"][ids])
        distinct = len(batch.input_nodes.unique()) == len(batch.input_nodes)
        assert distinct or not deduplicate


@pytest.mark.parametrize("workers", [0, 1, 2])
def test_workers_make_the_same_batches_and_other_draws(workers):
    g = ring()
    graph = gb.from_dglgraph(g, is_homogeneous=True)
    torch.manual_seed(3)
    items = gb.ItemSet(torch.arange(40), names="seed_nodes")
    sampler = gb.ItemSampler(items, 8, shuffle=True)
    store = gb.BasicFeatureStore({("node", None, "feat"): gb.TorchBasedFeature(g.ndata["feat"])})
    pipe = sampler.sample_neighbor(graph, [1, 1]).fetch_feature(store, ["feat"])
    loader = gb.DataLoader(pipe, num_workers=workers, persistent_workers=workers == 2)
    torch.manual_seed(3)
    alone = list(gb.ItemSampler(items, 8, shuffle=True))
    epochs = [list(loader) for _ in range(3)]
    for batches in epochs:
        seeds = torch.cat([batch.seed_nodes for batch in batches])
        assert torch.equal(seeds.sort().values, torch.arange(40))
        for batch in batches:
            assert torch.equal(batch.node_features["feat"], g.ndata["feat"][batch.input_nodes])
    orders = [torch.cat([b.seed_nodes for b in batches]).tolist() for batches in epochs]
    assert orders[0] == torch.cat([batch.seed_nodes for batch in alone]).tolist()
    assert len({tuple(order) for order in orders}) == 3


def test_draws_of_workers_do_not_depend_on_their_number():
    graph = gb.from_dglgraph(ring(), is_homogeneous=True)
    found = []
    for workers in (1, 2):
        torch.manual_seed(5)
        items = gb.ItemSet(torch.arange(40), names="seed_nodes")
        pipe = gb.ItemSampler(items, 8).sample_neighbor(graph, [1])
        loader = gb.DataLoader(pipe, num_workers=workers, persistent_workers=False)
        found.append([batch.input_nodes.tolist() for _ in range(2) for batch in loader])
    assert found[0] == found[1]
    assert found[0][:5] != found[0][5:]  # the second epoch's


# ---- pairs ----


@pytest.mark.parametrize("has_types", [False, True])
def test_pairs_negatives_and_what_is_left_out(has_types):
    g = two_types() if has_types else ring()
    graph = gb.from_dglgraph(g, is_homogeneous=not has_types)
    if has_types:
        src, dst = g.edges(etype="buys")
        items = gb.ItemSetDict(
            {"user:buys:item": gb.ItemSet(torch.stack([src, dst], 1), names="node_pairs")}
        )
        back = {"user:buys:item": "item:sold:user"}
    else:
        items = gb.ItemSet(torch.stack(g.edges(), 1), names="node_pairs")
        back = None
    pipe = gb.ItemSampler(items, 20, shuffle=True).sample_uniform_negative(graph, 3)
    pipe = pipe.sample_neighbor(graph, [-1])
    pipe = pipe.transform(
        functools.partial(
            gb.exclude_seed_edges, include_reverse_edges=True, reverse_etypes_mapping=back
        )
    )
    for batch in gb.DataLoader(pipe):
        pairs, labels = batch.node_pairs_with_labels
        (subgraph,) = batch.sampled_subgraphs
        rows = subgraph.original_row_node_ids
        if has_types:
            etype = "user:buys:item"
            (src, dst), label = pairs[etype], labels[etype]
            wanted = batch.node_pairs[etype]
            negative = batch.negative_dsts[etype]
            src_ids, dst_ids = rows["user"], rows["item"]
            left = edges_of(subgraph, etype)
            other = edges_of(subgraph, "item:sold:user").flip(0)
        else:
            (src, dst), label = pairs, labels
            wanted, negative, src_ids, dst_ids = batch.node_pairs, batch.negative_dsts, rows, rows
            left = other = edges_of(subgraph)
        count = len(wanted[0])
        assert label.tolist() == [1] * count + [0] * (3 * count)
        assert torch.equal(src_ids[src[:count]], wanted[0])
        assert torch.equal(dst_ids[dst[:count]], wanted[1])
        assert torch.equal(src_ids[src[count:]], wanted[0].repeat_interleave(3))
        assert torch.equal(dst_ids[dst[count:]], negative.view(-1))
        gone = set(zip(*(each.tolist() for each in wanted), strict=True))
        assert not gone & set(zip(*left.tolist(), strict=True))
        assert not gone & set(zip(*other.tolist(), strict=True))
        assert len(batch.blocks) == 1


def test_seeds_of_two_columns():
    g = ring()
    graph = gb.from_dglgraph(g, is_homogeneous=True)
    items = gb.ItemSet(torch.stack(g.edges(), 1), names="seeds")
    pipe = gb.ItemSampler(items, 10).sample_uniform_negative(graph, 2).sample_neighbor(graph, [2])
    batch = next(iter(pipe))
    assert batch.seeds.shape == (30, 2)
    assert batch.labels.tolist() == [True] * 10 + [False] * 20
    assert batch.indexes.tolist() == [*range(10), *(n for n in range(10) for _ in range(2))]
    nodes = batch.sampled_subgraphs[-1].original_column_node_ids
    assert torch.equal(nodes[batch.compacted_seeds], batch.seeds)
    without = gb.exclude_seed_edges(batch, include_reverse_edges=True)
    gone = {tuple(pair) for pair in batch.seeds.tolist()}
    left = set(zip(*edges_of(without.sampled_subgraphs[0]).tolist(), strict=True))
    assert not left & gone and not left & {pair[::-1] for pair in gone}


def test_excluding_keeps_all_else():
    g = ring(n=12, extra=80)
    graph = gb.from_dglgraph(g, is_homogeneous=True, include_original_edge_id=True)
    nodes = torch.arange(12)
    drawn = graph.in_subgraph(nodes)
    whole = gb.SampledSubgraph(drawn.sampled_csc, nodes, nodes, drawn.original_edge_ids)
    u, v = (ends[::3] for ends in g.edges())
    found = whole.exclude_edges((u, v))
    gone = set(zip(u.tolist(), v.tolist(), strict=True))
    assert set(zip(*edges_of(found).tolist(), strict=True)) == edge_set(g) - gone
    src, dst = g.find_edges(found.original_edge_ids)
    assert torch.equal(torch.stack([src, dst]), edges_of(found))
    with pytest.raises(smex.SmexTypeError, match="without types"):
        whole.exclude_edges({"a:b:c": (u, v)})


# ---- stages of one's own, and models ----


@functional_datapipe("first_neighbours_of_test")
class FirstNeighbours(gb.SubgraphSampler):
    def __init__(self, datapipe, graph):
        super().__init__(datapipe)
        self.graph = graph

    def sample_subgraphs(self, seeds, seeds_timestamp):
        drawn = self.graph.sample_neighbors(seeds, torch.tensor([1]))
        rows, csc = gb.unique_and_compact_csc_formats(drawn.sampled_csc, seeds)
        return rows, [gb.SampledSubgraphImpl(csc, seeds, rows)]


class OfSeedsAlone(FirstNeighbours):
    def sample_subgraphs(self, seeds):
        return super().sample_subgraphs(seeds, None)


def test_a_sampler_of_ones_own():
    graph = gb.from_dglgraph(ring(), is_homogeneous=True)
    items = gb.ItemSet(torch.arange(8), names="seed_nodes")
    batch = next(iter(gb.ItemSampler(items, 8).first_neighbours_of_test(graph)))
    assert batch.blocks[0].num_edges() == 8
    batch = next(iter(OfSeedsAlone(gb.ItemSampler(items, 8), graph)))
    assert batch.blocks[0].num_edges() == 8
    with pytest.raises(NotImplementedError, match="defines sample_subgraphs"):
        next(iter(gb.ItemSampler(items, 8).sample_subgraph()))
    with pytest.raises(smex.SmexTypeError, match="returns a MiniBatch"):
        next(iter(gb.ItemSampler(items, 8).transform(lambda batch: None)))
    with pytest.raises(smex.SmexValueError, match="neither seed_nodes"):
        next(iter(gb.ItemSampler(gb.ItemSet(8, "labels"), 8).sample_neighbor(graph, [1])))


@pytest.mark.skipif(torch.accelerator.is_available(), reason="memory is pinned where a GPU is")
def test_nothing_is_pinned_without_a_gpu():
    graph = gb.from_dglgraph(ring(), is_homogeneous=True)
    assert graph.pin_memory_() is graph and graph.num_nodes > 0
    feature = gb.TorchBasedFeature(torch.arange(6.0).reshape(3, 2))
    assert feature.pin_memory_() is feature and not feature.is_pinned()
    assert feature.read(torch.tensor([1])).tolist() == [[2.0, 3.0]]


def test_a_model_learns():
    torch.manual_seed(0)
    n = 300
    label = torch.arange(n) % 3
    src = torch.randint(n, (4000,))
    dst = torch.randint(n, (4000,))
    same = label[src] == label[dst]
    g = sg.graph((src[same], dst[same]), num_nodes=n).remove_self_loop().add_self_loop()
    feat = torch.nn.functional.one_hot(label, 3).float() + torch.randn(n, 3)
    graph = gb.from_dglgraph(g, is_homogeneous=True)
    store = gb.BasicFeatureStore({("node", None, "feat"): gb.TorchBasedFeature(feat)})
    items = gb.ItemSet((torch.arange(n), label), ("seed_nodes", "labels"))
    pipe = gb.ItemSampler(items, 64, shuffle=True).sample_neighbor(graph, [5, 5])
    loader = gb.DataLoader(pipe.fetch_feature(store, ["feat"]))
    layers = torch.nn.ModuleList([sg.nn.SAGEConv(3, 16, "mean"), sg.nn.SAGEConv(16, 3, "mean")])
    optimizer = torch.optim.Adam(layers.parameters(), lr=0.02)
    for _ in range(12):
        right = 0
        for batch in loader:
            h = layers[0](batch.blocks[0], batch.node_features["feat"]).relu()
            logits = layers[1](batch.blocks[1], h)
            loss = torch.nn.functional.cross_entropy(logits, batch.labels)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            right += (logits.argmax(1) == batch.labels).sum().item()
    assert right / n > 0.9


def test_to_pyg():
    pyg = pytest.importorskip("torch_geometric.data", reason="PyG is not installed")
    graph = gb.from_dglgraph(ring(), is_homogeneous=True)
    items = gb.ItemSet((torch.arange(8), torch.arange(8)), ("seed_nodes", "labels"))
    batch = next(iter(gb.ItemSampler(items, 8).sample_neighbor(graph, [2, 2])))
    batch.node_features = {"feat": torch.randn(len(batch.input_nodes), 3)}
    data = batch.to_pyg_data()
    assert isinstance(data, pyg.Data) and data.x.shape[1] == 3
    assert data.edge_index.max() < len(batch.input_nodes)


# ---- features ----


def test_features_are_read_and_written(tmp_path):
    torch.save(torch.arange(6.0).view(3, 2), tmp_path / "a.pt")
    np.save(tmp_path / "b.npy", np.arange(8.0).reshape(4, 2))
    store = gb.TorchBasedFeatureStore([
        gb.OnDiskFeatureData("node", "a", "torch", str(tmp_path / "a.pt"), extra_fields={"k": 1}),
        gb.OnDiskFeatureData(
            "edge", "b", "numpy", str(tmp_path / "b.npy"), "u:r:v", in_memory=False
        ),
    ])  # fmt: skip
    assert store.keys() == [("node", None, "a"), ("edge", "u:r:v", "b")] and len(store) == 2
    assert store.metadata("node", None, "a") == {"k": 1}
    assert store.size("edge", "u:r:v", "b") == torch.Size([2])
    ids = torch.tensor([2, 0], dtype=torch.int32)
    assert store.read("edge", "u:r:v", "b", ids).tolist() == [[4.0, 5.0], [0.0, 1.0]]
    store.update("edge", "u:r:v", "b", torch.ones(1, 2), torch.tensor([3]))
    assert np.load(tmp_path / "b.npy")[3].tolist() == [1.0, 1.0]  # it is the file
    with pytest.raises(smex.SmexValueError, match="there is no feature"):
        store.read("node", None, "c")
    with pytest.raises(smex.SmexValueError, match=r"rows of shape \[1, 2\]"):
        store.update("node", None, "a", torch.ones(2, 2), torch.tensor([0]))
    with pytest.raises(smex.SmexValueError, match="at least 2 dimensions"):
        gb.TorchBasedFeature(torch.ones(3))
    with pytest.raises(smex.SmexValueError, match="to be mapped"):
        gb.TorchBasedFeatureStore(
            [gb.OnDiskFeatureData("node", "a", "torch", str(tmp_path / "a.pt"), in_memory=False)]
        )


def test_parts_by_name():
    assert gb.etype_tuple_to_str(("a", "b", "c")) == "a:b:c"
    with pytest.raises(smex.SmexValueError, match="source:relation:destination"):
        gb.etype_str_to_tuple("a:b")
    with pytest.raises(smex.SmexTypeError, match="a tuple"):
        gb.etype_tuple_to_str("abc")
    with pytest.raises(smex.SmexValueError, match="neither"):
        gb.expand_indptr(torch.tensor([0, 1]))
    with pytest.raises(smex.SmexValueError, match="expected 3 indices"):
        gb.CSCFormatBase(torch.tensor([0, 3]), torch.tensor([1]))
    nodes = {"a": torch.tensor([5, 6])}
    csc = {"a:r:a": gb.CSCFormatBase(torch.tensor([0, 2, 3]), torch.tensor([6, 9, 9]))}
    ids, found, times = gb.compact_csc_format(csc, nodes, {"a": torch.tensor([1, 2])})
    assert ids["a"].tolist() == [5, 6, 6, 9, 9] and times["a"].tolist() == [1, 2, 1, 1, 2]
    assert found["a:r:a"].indices.tolist() == [2, 3, 4]
    ids, found = gb.unique_and_compact_csc_formats(csc, nodes)
    assert ids["a"].tolist() == [5, 6, 9] and found["a:r:a"].indices.tolist() == [1, 2, 2]
    with pytest.raises(smex.SmexValueError, match="have 2 columns, found 1"):
        gb.unique_and_compact_csc_formats(csc, {"a": torch.tensor([5])})


# ---- times ----


@pytest.mark.parametrize("replace", [False, True])
@pytest.mark.parametrize("names", [("t", None), (None, "t"), ("t", "t"), (None, None)])
@pytest.mark.parametrize("fanout", [0, 2, -1])
def test_edges_that_are_drawn_are_older(names, replace, fanout):
    g = ring()
    torch.manual_seed(1)
    of_nodes, of_edges = torch.randint(100, (40,)), torch.randint(100, (200,))
    graph = gb.from_dglgraph(g, is_homogeneous=True)
    graph.node_attributes["t"] = of_nodes
    graph.edge_attributes.update(t=of_edges, eid=torch.arange(200))
    graph.edge_attributes[gb.ORIGINAL_EDGE_ID] = torch.arange(200)
    nodes, times = torch.tensor([3, 7, 3, 12]), torch.tensor([50, 0, 90, 120])
    drawn = graph.temporal_sample_neighbors(
        nodes, times, torch.tensor([fanout]), replace, None, *names
    )
    begins = drawn.sampled_csc.indptr.tolist()
    for n, (node, time) in enumerate(zip(nodes.tolist(), times.tolist())):
        eids = drawn.original_edge_ids[begins[n] : begins[n + 1]].tolist()
        may = [
            e
            for e in range(graph.csc_indptr[node], graph.csc_indptr[node + 1])
            if (names[0] is None or of_nodes[graph.indices[e]] < time)
            and (names[1] is None or of_edges[e] < time)
        ]
        assert set(eids) <= set(may)
        if fanout == -1 or (not replace and fanout):
            most = len(may) if fanout == -1 else min(fanout, len(may))
            assert len(set(eids)) == len(eids) == most
        else:
            assert len(eids) == (fanout if may else 0)


def test_times_of_several_types_and_weights():
    h = two_types()
    graph = gb.from_dglgraph(h)
    graph.node_attributes = {"t": torch.arange(21)}  # items come first
    nodes = {"user": torch.tensor([4, 4]), "item": torch.tensor([2])}
    times = {"user": torch.tensor([0, 100]), "item": torch.tensor([14])}
    for fanouts in ([-1], [-1, -1, -1]):
        found = graph.temporal_sample_neighbors(
            nodes, times, torch.tensor(fanouts), node_timestamp_attr_name="t"
        ).sampled_csc
        assert found["item:sold:user"].indptr[1] == 0 == found["user:knows:user"].indptr[1]
        assert found["item:sold:user"].indptr[2] == h.in_degrees(4, etype="sold")
        assert (found["user:buys:item"].indices + 9 < 14).all()
        known = set(h.in_edges(2, etype="buys")[0].tolist())
        assert set(found["user:buys:item"].indices.tolist()) == {u for u in known if u + 9 < 14}
    flat = graph.temporal_sample_neighbors(
        torch.tensor([13, 2]), torch.tensor([100, 0]), torch.tensor([-1]), False, None, "t"
    ).sampled_csc  # ids of all types
    assert flat["item:sold:user"].indptr.tolist() == [0, int(h.in_degrees(4, etype="sold"))]
    assert flat["user:buys:item"].indptr.tolist() == [0, 0]
    one = gb.from_dglgraph(ring(), is_homogeneous=True)
    one.edge_attributes["only"] = (one.indices == one.indices[one.csc_indptr[5]]).float()
    for replace in (False, True):
        drawn = one.temporal_sample_neighbors(
            torch.tensor([5]), torch.tensor([0]), torch.tensor([3]), replace, "only"
        )
        assert set(drawn.sampled_csc.indices.tolist()) == {int(one.indices[one.csc_indptr[5]])}


def test_batches_with_times():
    graph = gb.from_dglgraph(ring(), is_homogeneous=True)
    graph.node_attributes["t"] = torch.arange(40)
    pairs, times = torch.tensor([[3, 30], [30, 3], [9, 30]]), torch.tensor([10, 40, 1])
    items = gb.ItemSet((pairs, times), names=("node_pairs", "timestamp"))
    pipe = gb.ItemSampler(items, 3).sample_uniform_negative(graph, 2)
    pipe = pipe.temporal_sample_neighbor(graph, [2, -1], node_timestamp_attr_name="t")
    (batch,) = pipe
    first, last = batch.sampled_subgraphs
    seeds = last.original_column_node_ids
    src, dst = batch.compacted_node_pairs
    assert seeds[src].tolist() == [3, 30, 9] and seeds[dst].tolist() == [30, 3, 30]
    assert len(seeds) == 6 + 6 and len(set(torch.cat((src, dst)).tolist())) == 6
    of_seed = torch.cat((times, times, times.repeat_interleave(2)))
    rows, columns = edges_of(last)
    place = gb.expand_indptr(last.sampled_csc.indptr, torch.int64, None, len(rows))
    assert (rows < of_seed[place]).all() and torch.equal(seeds[place], columns)
    assert torch.equal(first.original_column_node_ids, last.original_row_node_ids)

    rows = gb.ItemSet((pairs, times), names=("seeds", "timestamp"))
    (batch,) = gb.ItemSampler(rows, 3).temporal_sample_neighbor(graph, [-1])
    assert batch.compacted_seeds.tolist() == [[0, 1], [2, 3], [4, 5]]
    typed = gb.from_dglgraph(two_types())
    seeds = gb.ItemSetDict(
        {
            "user:buys:item": gb.ItemSet(
                (torch.tensor([[4, 2], [4, 1]]), torch.tensor([7, 8])), names=("seeds", "timestamp")
            )
        }
    )
    (batch,) = gb.ItemSampler(seeds, 2).temporal_sample_neighbor(typed, [-1])
    assert batch.compacted_seeds["user:buys:item"].tolist() == [[0, 0], [1, 1]]
    pairs = gb.ItemSetDict(
        {
            "user:knows:user": gb.ItemSet(
                (torch.tensor([[4, 2], [4, 1]]), torch.tensor([7, 8])),
                names=("node_pairs", "timestamp"),
            )
        }
    )
    (batch,) = gb.ItemSampler(pairs, 2).temporal_sample_neighbor(typed, [1])
    assert [x.tolist() for x in batch.compacted_node_pairs["user:knows:user"]] == [[0, 1], [2, 3]]


def test_errors_of_times():
    graph = gb.from_dglgraph(ring(), is_homogeneous=True)
    sample = graph.temporal_sample_neighbors
    nodes, fanouts = torch.tensor([1, 2]), torch.tensor([1])
    with pytest.raises(smex.SmexValueError, match="a time for each of 2 nodes, found 1"):
        sample(nodes, torch.tensor([1]), fanouts)
    with pytest.raises(smex.SmexValueError, match='no attribute "t" of edges'):
        sample(nodes, nodes, fanouts, edge_timestamp_attr_name="t")
    items = gb.ItemSet(nodes, names="seed_nodes")
    with pytest.raises(smex.SmexValueError, match="expected a timestamp of the batch, found none"):
        next(iter(gb.ItemSampler(items, 2).temporal_sample_neighbor(graph, [1])))


# ---- features that are kept, former names ----


def test_features_that_are_kept():
    torch.manual_seed(0)
    rows = torch.rand(30, 2)
    slow = gb.TorchBasedFeature(rows.clone(), {"of": "nodes"})
    feature = gb.GPUCachedFeature(slow, 8)
    assert feature.size() == (2,) and feature.metadata() == {"of": "nodes"}
    assert torch.equal(feature.read(), rows)
    for _ in range(20):
        ids = torch.randint(30, (5,))
        assert torch.equal(feature.read(ids).cpu(), rows[ids])
    assert 0 < feature.miss_rate < 1
    feature.update(torch.zeros(2, 2), torch.tensor([3, 4]))
    assert not feature.read(torch.tensor([4, 3])).any() and not slow.read(torch.tensor([3])).any()
    feature.update(rows + 1)
    assert torch.equal(feature.read(ids).cpu(), rows[ids] + 1)
    with pytest.raises(smex.SmexTypeError, match="expected a Feature as fallback_feature"):
        gb.GPUCachedFeature(rows, 3)


def test_the_former_name_of_a_graph():
    indptr, indices = torch.tensor([0, 2, 3]), torch.tensor([0, 1, 0])
    g = gb.from_fused_csc(indptr, indices, None, None, {"w": torch.ones(3)}, None)
    assert g.num_nodes == 2 and list(g.edge_attributes) == ["w"]
