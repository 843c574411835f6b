"""The loaders: every seed once, the same batches for any number of workers."""

import os

import pytest
import torch

import smex
import smex.graph as sg
from smex.graph.dataloading import feature_caches
from smex.graph.dataloading import loader as loader_module
from smex.graph.features.row_cache import RowCache

dl = sg.dataloading


def graph():
    torch.manual_seed(0)
    g = sg.rand_graph(200, 2000)
    g.ndata["x"], g.ndata["y"] = torch.rand(200, 3), torch.arange(200)
    g.edata["w"] = torch.arange(2000.0)
    return g


def hetero():
    torch.manual_seed(0)
    ends = [torch.randint(30, (200,)) for _ in range(4)]
    h = sg.heterograph({("u", "r", "v"): tuple(ends[:2]), ("v", "s", "u"): tuple(ends[2:])})
    for ntype in h.ntypes:
        h.nodes[ntype].data["x"] = torch.arange(float(h.num_nodes(ntype)))
    return h


def content(batches):
    """Everything of some batches that a test can compare."""
    return [
        (
            nodes.tolist(),
            seeds.tolist(),
            [block.edata[sg.EID].tolist() for block in blocks],
            blocks[0].srcdata["x"].tolist(),
            blocks[-1].dstdata["y"].tolist(),
            blocks[0].edata["w"].tolist(),
            [list(block.srcdata) for block in blocks],
        )
        for nodes, seeds, blocks in batches
    ]


@pytest.mark.parametrize("drop_last", [False, True])
@pytest.mark.parametrize("shuffle", [False, True])
def test_each_seed_once(shuffle, drop_last):
    ids = torch.randperm(200)[:77]
    loader = dl.DataLoader(
        graph(), ids, dl.NeighborSampler([2]), batch_size=10, shuffle=shuffle, drop_last=drop_last
    )
    batches = [seeds for _, seeds, _ in loader]
    assert len(batches) == len(loader) == (7 if drop_last else 8)
    seen = torch.cat(batches).tolist()
    assert len(set(seen)) == len(seen) == (70 if drop_last else 77) and set(seen) <= set(
        ids.tolist()
    )
    assert (seen == ids.tolist()[: len(seen)]) != shuffle
    again = torch.cat([seeds for _, seeds, _ in loader]).tolist()
    assert (again == seen) != shuffle


def test_any_number_of_workers_and_threads():
    g = graph()
    sampler = dl.NeighborSampler([3, 3], prefetch_node_feats=["x"], prefetch_labels=["y"])
    results = []
    for options in (
        {},
        {"use_prefetch_thread": True},
        {"num_workers": 1},
        {"num_workers": 2, "use_prefetch_thread": True},
    ):
        torch.manual_seed(5)
        loader = dl.DataLoader(
            g, torch.arange(200), sampler, batch_size=64, shuffle=True, **options
        )
        results.append(content(loader) + content(loader))
    assert all(result == results[0] for result in results[1:])
    assert results[0][:4] != results[0][4:]
    torch.manual_seed(6)
    loader = dl.DataLoader(g, torch.arange(200), sampler, batch_size=64)
    assert content(loader) != results[0][:4]


def test_a_generator_of_its_own():
    g = graph()
    results = []
    for _ in range(2):
        generator = torch.Generator().manual_seed(3)
        loader = dl.DataLoader(
            g,
            torch.arange(50),
            dl.NeighborSampler([2]),
            batch_size=9,
            shuffle=True,
            generator=generator,
        )
        results.append(content(loader))
    assert results[0] == results[1]


def test_sampling_leaves_the_callers_generator_alone():
    g = graph()
    torch.manual_seed(0)
    loader = iter(dl.DataLoader(g, torch.arange(50), dl.NeighborSampler([2]), batch_size=5))
    next(loader)
    before = torch.get_rng_state()
    list(loader)
    assert torch.equal(before, torch.get_rng_state())


@pytest.mark.parametrize("num_workers", [0, 2])
def test_several_types(num_workers):
    h = hetero()
    seeds = {"u": torch.arange(20), "v": torch.arange(7)}
    loader = dl.DataLoader(
        h, seeds, dl.NeighborSampler([2, 2]), batch_size=6, num_workers=num_workers
    )
    seen = {"u": [], "v": []}
    for input_nodes, output_nodes, blocks in loader:
        assert 0 < sum(ids.shape[0] for ids in output_nodes.values()) <= 6
        for ntype, ids in output_nodes.items():
            seen[ntype] += ids.tolist()
            assert torch.equal(blocks[0].srcnodes[ntype].data["x"], input_nodes[ntype].float())
    assert seen == {"u": list(range(20)), "v": list(range(7))}


def test_prefetched_features_are_there():
    g = graph()
    sampler = dl.NeighborSampler([2], prefetch_node_feats=["x"], prefetch_edge_feats=["w"])
    for num_workers in (0, 1):
        loader = dl.DataLoader(g, torch.arange(4), sampler, batch_size=4, num_workers=num_workers)
        ((_, _, (block,)),) = loader
        columns = block._src_frames["_N"]._columns
        assert isinstance(columns["x"], torch.Tensor) and not isinstance(columns["y"], torch.Tensor)
        assert isinstance(block._edge_frames["_N", "_E", "_N"]._columns["w"], torch.Tensor)


def test_gradients_reach_the_features():
    g = graph()
    g.ndata["x"] = torch.rand(200, 3, requires_grad=True)
    for options in ({}, {"num_workers": 1}, {"use_prefetch_thread": True}):
        g.ndata["x"].grad = None
        sampler = dl.NeighborSampler([2], prefetch_node_feats=["x"])
        for nodes, _, blocks in dl.DataLoader(g, torch.arange(5), sampler, batch_size=5, **options):
            blocks[0].srcdata["x"].sum().backward()
            assert g.ndata["x"].grad.sum() == 3 * nodes.shape[0]


def test_subgraph_samplers_in_a_loader():
    g = graph()
    for sampler in (dl.ShaDowKHopSampler([3]), dl.SAINTSampler("node", 20)):
        for num_workers in (0, 1):
            loader = dl.DataLoader(
                g, torch.arange(6), sampler, batch_size=2, num_workers=num_workers
            )
            for batch in loader:
                part = batch if isinstance(batch, sg.Graph) else batch[2]
                assert torch.equal(part.ndata["x"], g.ndata["x"][part.ndata[sg.NID]])


def test_device_and_masks():
    mask = torch.zeros(200, dtype=torch.bool)
    mask[[3, 5]] = True
    ((nodes, seeds, blocks),) = dl.DataLoader(
        graph(), mask, dl.NeighborSampler([2]), device="meta", batch_size=4
    )
    assert {nodes.device.type, seeds.device.type, blocks[0].device.type} == {"meta"}
    assert blocks[0].srcdata["x"].device.type == "meta" and seeds.shape == (2,)


def test_nothing_to_load():
    loader = dl.DataLoader(graph(), [], dl.NeighborSampler([2]))
    assert len(loader) == 0 and list(loader) == []


class _Cores(dl.Sampler):
    def sample(self, g, indices):
        return torch.tensor(sorted(os.sched_getaffinity(0)))


@pytest.mark.skipif(not hasattr(os, "sched_getaffinity"), reason="no such system call")
def test_a_core_for_each_worker():
    cores = sorted(os.sched_getaffinity(0))
    begun, threads = [], torch.get_num_threads()
    loader = dl.DataLoader(
        graph(), torch.arange(4), _Cores(), num_workers=1, worker_init_fn=begun.append
    )
    with loader.enable_cpu_affinity(loader_cores=[cores[-1]], compute_cores=[cores[0]]):
        assert torch.get_num_threads() == 1 and os.sched_getaffinity(0) == {cores[0]}
        assert [batch.tolist() for batch in loader] == [[cores[-1]]] * 4
    assert sorted(os.sched_getaffinity(0)) == cores and torch.get_num_threads() == threads
    assert loader.worker_init_fn == begun.append
    with loader.enable_cpu_affinity():
        assert [batch.tolist() for batch in loader] == [[cores[0]]] * 4
    with dl.DataLoader(graph(), [0], _Cores(), device="meta").enable_cpu_affinity():
        pass
    for options in ({"loader_cores": cores * 2 + [cores[0]]}, {"compute_cores": [max(cores) + 1]}):
        with pytest.raises(smex.SmexValueError, match="enable_cpu_affinity: expected a core of"):
            loader.enable_cpu_affinity(**options).__enter__()
    with pytest.raises(smex.SmexValueError, match="found .* for num_workers=0"):
        dl.DataLoader(graph(), [0], _Cores()).enable_cpu_affinity().__enter__()


def test_a_sampler_that_fails():
    class Failing(dl.Sampler):
        def sample(self, g, indices):
            if int(indices[0]) == 2:
                raise RuntimeError("no such luck")
            return indices

    for options in ({}, {"use_prefetch_thread": True}, {"num_workers": 1}):
        loader = dl.DataLoader(graph(), torch.arange(4), Failing(), **options)
        seen = []
        with pytest.raises(RuntimeError, match="no such luck"):
            seen.extend(iter(loader))


def test_a_loader_that_is_left_early():
    for options in ({"use_prefetch_thread": True}, {"num_workers": 2}):
        loader = dl.DataLoader(graph(), torch.arange(200), dl.NeighborSampler([2]), **options)
        batches = iter(loader)
        next(batches)
        del batches


def test_processes_of_a_group_share_the_seeds(tmp_path):
    seeds = loader_module.Seeds(torch.arange(10))
    ordering = loader_module._Ordering(True, False, None)
    torch.distributed.init_process_group(
        "gloo", init_method=f"file://{tmp_path / 'store'}", rank=0, world_size=1
    )
    try:
        loader = dl.DataLoader(
            graph(),
            torch.arange(10),
            dl.NeighborSampler([1]),
            batch_size=3,
            shuffle=True,
            use_ddp=True,
        )
        orders = []
        for epoch in (0, 1, 0):
            loader.set_epoch(epoch)
            orders.append(torch.cat([s for _, s, _ in loader]).tolist())
        assert orders[0] == orders[2] != orders[1] and sorted(orders[0]) == list(range(10))
        parts = []
        for rank in range(3):
            batches = loader_module._Batches(seeds, 2, ordering, True, 0)
            batches._shared = torch.utils.data.DistributedSampler(range(10), 3, rank)
            assert len(batches) == 2
            parts += [ids for _, batch in batches for ids in batch.tolist()]
        assert set(parts) == set(range(10)) and len(parts) == 12
        items = [sg.graph(([0], [1]))] * 4
        shared = dl.GraphDataLoader(items, use_ddp=True, batch_size=2, shuffle=True)
        shared.set_epoch(1)
        assert [b.batch_size for b in shared] == [2, 2]
        with pytest.raises(smex.SmexValueError, match="found sampler; leave one of them out"):
            dl.GraphDataLoader(items, use_ddp=True, sampler=range(4))
    finally:
        torch.distributed.destroy_process_group()


@pytest.mark.parametrize("num_workers", [0, 1])
def test_batches_of_graphs(num_workers):
    items = [
        (sg.graph(([0] * n, [0] * n), num_nodes=n + 1), {"y": torch.tensor(n), "name": str(n)}, 0.5)
        for n in range(5)
    ]
    for n, (g, _, _) in enumerate(items):
        g.ndata["h"] = torch.full((n + 1,), float(n))
    loader = dl.GraphDataLoader(items, batch_size=2, drop_last=True, num_workers=num_workers)
    batches = list(loader)
    assert len(batches) == len(loader) == 2
    g, labels, halves = batches[1]
    assert g.batch_num_nodes().tolist() == [3, 4] and g.ndata["h"].tolist() == [2.0] * 3 + [3.0] * 4
    assert labels["y"].tolist() == [2, 3] and labels["name"] == ["2", "3"]
    assert halves.tolist() == [0.5, 0.5]
    own = dl.GraphDataLoader(items, collate_fn=len, batch_size=3)
    assert list(own) == [3, 2]


@pytest.mark.parametrize(
    ("options", "error", "text"),
    [
        ({"graph": 3}, smex.SmexTypeError, "DataLoader: expected a graph, found int"),
        ({"graph_sampler": 3}, smex.SmexTypeError, "a sampler with a method sample, found int"),
        ({"indices": torch.rand(3)}, smex.SmexTypeError, "indices must be a vector of ids"),
        ({"batch_size": 0}, smex.SmexValueError, "batch_size of at least 1, found 0"),
        ({"collate_fn": len}, smex.SmexValueError, "collate_fn is the loader's own"),
    ],
)
def test_errors(options, error, text):
    arguments = {"graph": graph(), "indices": [0], "graph_sampler": dl.NeighborSampler([1])}
    with pytest.raises(error, match=text):
        dl.DataLoader(**{**arguments, **options})


def test_seeds_that_do_not_exist():
    loader = dl.DataLoader(graph(), [200], dl.NeighborSampler([1]))
    with pytest.raises(smex.SmexValueError, match="expected ids from 0 to 199, found 200"):
        list(loader)


def test_uva_and_its_rules(monkeypatch):
    g, sampler = graph(), dl.NeighborSampler([2])
    with pytest.raises(smex.SmexValueError, match="use_uva does not go with num_workers"):
        dl.DataLoader(g, [0], sampler, use_uva=True, num_workers=1)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(smex.SmexRuntimeError, match="use_uva needs a CUDA device, found none"):
        dl.DataLoader(g, [0], sampler, use_uva=True)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "current_device", lambda: 2)
    loader = dl.DataLoader(g, [0], sampler, use_uva=True)
    assert loader.device == torch.device("cuda", 2) and loader.use_prefetch_thread
    assert loader.use_uva and not g.is_pinned()
    (batch,) = dl.DataLoader(g, [3], sampler, use_uva=True, device="cpu")
    assert batch[1].tolist() == [3]  # where the caller wants it


def test_a_graph_elsewhere_is_sampled_on_the_cpu():
    g, sampler = graph(), dl.NeighborSampler([2], prefetch_node_feats=["x"])
    with pytest.raises(smex.SmexValueError, match="a graph on meta does not go with num_workers"):
        dl.DataLoader(g.to("meta"), [0], sampler, num_workers=1)
    with pytest.raises(smex.SmexValueError, match="use_uva expects a graph on the CPU, found one"):
        dl.DataLoader(g.to("meta"), [0], sampler, use_uva=True)
    device = loader_module._device_of_batches(g.to("meta"), None, False, False)
    assert device == torch.device("meta")
    other = g.clone()  # stands for a graph on a GPU, whose features change
    sampling = loader_module._Sampling(other, g, sampler, None)
    other.ndata["x"] = other.ndata["x"] + 1
    nodes, _, blocks = sampling[0, torch.tensor([7])]
    assert torch.equal(blocks[0].srcdata["x"], other.ndata["x"][nodes])


def test_caches_of_features():
    g = graph()
    caches = feature_caches.FeatureCaches(g, {"node": {"x": 20, "none": 3}}, torch.device("meta"))
    assert len(caches) == 1
    assert not feature_caches.FeatureCaches(g, {"edge": {"w": 0}}, torch.device("meta"))
    (cached,) = caches._of.values()
    cached.cache = RowCache(20, (3,), torch.float32, torch.device("cpu"))
    sampler = dl.NeighborSampler([3], prefetch_node_feats=["x"], prefetch_labels=["y"])
    loader = dl.DataLoader(g, torch.arange(200), sampler, batch_size=5)
    loader._caches = caches
    missed = []
    for _ in range(2):
        for nodes, _, blocks in loader:
            assert torch.equal(blocks[0].srcdata["x"], g.ndata["x"][nodes])
            missed.append(blocks[0].srcdata["x"].__cache_miss__)
        g.ndata["x"].add_(1)  # what is kept is read anew
    assert missed[0] == 1 and 0 < sum(missed) / len(missed) < 1


@pytest.mark.parametrize(
    ("sizes", "error", "text"),
    [
        ({"node": {"x": 3}}, smex.SmexRuntimeError, "gpu_cache keeps rows on the GPU"),
        ({"node": 3}, smex.SmexTypeError, "gpu_cache must be"),
        ({"graph": {}}, smex.SmexValueError, '"node" and "edge", found \'graph\''),
    ],
)
def test_errors_of_caches(sizes, error, text):
    with pytest.raises(error, match=text):
        dl.DataLoader(graph(), [0], dl.NeighborSampler([1]), gpu_cache=sizes)
    off = dl.DataLoader(graph(), [0], dl.NeighborSampler([1]), gpu_cache={"node": {"x": 0}})
    assert off._caches is None and len(list(off)) == 1


@pytest.mark.parametrize("num_workers", [0, 1])
def test_features_that_stand_for_others(num_workers):
    class Own(dl.Sampler):
        def sample(self, g, indices):
            part = sg.node_subgraph(g, indices)
            part.ndata.update({"x": sg.LazyFeature(), "z": sg.LazyFeature("y", indices + 1)})
            part.edata["v"] = sg.LazyFeature("w")
            assert (
                isinstance(part.ndata["x"], sg.LazyFeature) and "x" not in part.node_attr_schemes()
            )
            _, _, (block,) = dl.NeighborSampler([2]).sample(g, indices)
            block.srcdata["a"], block.dstdata["a"] = sg.LazyFeature("x"), sg.LazyFeature("y")
            return part, sg.node_subgraph(part, [1, 0], store_ids=False).to("cpu"), block

    g = graph()
    for part, again, block in dl.DataLoader(
        g, torch.arange(100), Own(), batch_size=20, num_workers=num_workers
    ):
        ids = part.ndata[sg.NID]
        assert torch.equal(part.ndata["x"], g.ndata["x"][ids])
        assert torch.equal(part.ndata["z"], g.ndata["y"][ids + 1])
        assert torch.equal(part.edata["v"], g.edata["w"][part.edata[sg.EID]])
        assert torch.equal(again.ndata["z"], part.ndata["z"][[1, 0]])
        assert torch.equal(block.srcdata["a"], g.ndata["x"][block.srcdata[sg.NID]])
        assert torch.equal(block.dstdata["a"], g.ndata["y"][block.dstdata[sg.NID]])


@pytest.mark.parametrize(
    ("feature", "store_ids", "text"),
    [
        (
            sg.LazyFeature("none"),
            True,
            'LazyFeature "none": the graph that was sampled from has no',
        ),
        (sg.LazyFeature("x"), False, 'LazyFeature "x": expected ids, found none'),
    ],
)
def test_errors_of_features_that_stand_for_others(feature, store_ids, text):
    class Own(dl.Sampler):
        def sample(self, g, indices):
            part = sg.node_subgraph(g, indices, store_ids=store_ids)
            part.ndata["q"] = feature
            return part

    with pytest.raises(smex.SmexValueError, match=text):
        list(dl.DataLoader(graph(), [0], Own()))


def test_loaders_and_samplers_tell_what_they_are():
    g = sg.rand_graph(9, 20)
    sampler = sg.dataloading.NeighborSampler([2, 3], prob="w")
    assert repr(sampler).startswith("NeighborSampler(fanouts=[2, 3], edge_dir='in', prob='w'")
    loader = sg.dataloading.DataLoader(g, torch.arange(9), sampler, batch_size=4)
    assert repr(loader) == f"DataLoader(9 seeds in 3 batches of 4, {sampler!r})"
