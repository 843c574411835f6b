"""One graph on many ranks: rows, batches and embeddings are those of one process."""

import hashlib
import os
import pathlib
import signal
import time

import pytest
import torch
import torch.distributed as dist

import smex
import smex.graph as sg
from support.parted import SAGE, small_graph, typed_graph

pytestmark = pytest.mark.costly

sgd = sg.distributed
ROOT = pathlib.Path(__file__).parents[3]

WAYS = [{}, {"SMEX_SHARED_MEMORY": "0"}]
"""Through memory, and by messages as between machines."""
MESSAGES = {"SMEX_SHARED_MEMORY": "0"}


@pytest.fixture
def folder(tmp_path):
    sgd.partition_graph(small_graph(), "g", 2, tmp_path, part_method="random")
    return str(tmp_path)


def opened(folder, name="g"):
    return sgd.DistGraph(name, part_config=folder)


# ---- rows ----


def read_and_write(rank, folder):
    size = dist.get_world_size()
    g = opened(folder)
    y = sgd.DistTensor((300, 2), torch.float64, "y")
    flags = sgd.DistTensor((17,), torch.bool)
    mine = torch.arange(rank, 300, size)
    y[mine] = mine[:, None].double() + torch.tensor([0.0, 0.5])
    flags[rank] = True
    g.barrier()
    assert flags[:].tolist() == [n < size for n in range(17)] and flags.count_nonzero() == size
    drawn = sgd.DistTensor((9000, 2), torch.float32, init_func=random_rows)
    both = flags | flags
    assert torch.equal(both[:], flags[:])
    part = y.local_partition
    assert torch.equal(part, y[y.local_start : y.local_start + len(part)])
    part += 0.25  # themselves: seen by all
    g.barrier()
    rows = g.ndata["x"][:], g.edata["w"][torch.arange(1500).flip(0)], y[:], drawn[:]
    g.barrier()
    return rows


def random_rows(shape, dtype):
    return torch.rand(shape, dtype=dtype)


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("ranks", [1, 2, 3])
def test_rows_of_all_ranks(processes, folder, ranks, way):
    torch.manual_seed(5)
    x, w, y, drawn = read_and_write_alone(folder)
    for found in processes.run(seeded_read_and_write, ranks, folder, variables=way):
        assert torch.equal(found[0], x) and torch.equal(found[1], w)
        assert torch.equal(found[2], y) and torch.equal(found[3], drawn)


def seeded_read_and_write(rank, folder):
    torch.manual_seed(5)
    return read_and_write(rank, folder)


def read_and_write_alone(folder):
    g = opened(folder)
    drawn = sgd.DistTensor((9000, 2), torch.float32, init_func=random_rows)
    y = torch.arange(300).double()[:, None] + torch.tensor([0.0, 0.5]) + 0.25
    w = g.edata["w"][torch.arange(1500).flip(0)]
    # Names without one are numbers: the same tensors are made before it.
    del drawn
    sgd.exit_client()
    g = opened(folder)
    sgd.DistTensor((300, 2), torch.float64, "y"), sgd.DistTensor((17,), torch.bool)
    drawn = sgd.DistTensor((9000, 2), torch.float32, init_func=random_rows)
    return g.ndata["x"][:], w, y, drawn[:]


def named_rows(rank):
    first = sgd.DistTensor((8, 2), torch.float32, "kept", persistent=True)
    first[:] = 3.0
    del first
    again = sgd.DistTensor((8, 2), torch.float32, "kept")
    assert again.count_nonzero() == 16
    passing = sgd.DistTensor((8,), torch.int64, "passing")
    passing[:] = 1
    other = sgd.DistTensor((8,), torch.int64, "passing")  # another object with the same rows
    assert other.count_nonzero() == 8
    sgd.DistTensor((1,), torch.bool)[:]
    del passing, other
    assert sgd.DistTensor((8,), torch.int64, "passing").count_nonzero() == 0
    texts = []
    for make in (
        lambda: sgd.DistTensor((9, 2), torch.float32, "kept"),
        lambda: sgd.DistTensor((8, 2), torch.float64, "kept"),
        lambda: sgd.DistTensor((8 + rank,), torch.float32),
    ):
        with pytest.raises(smex.SmexValueError) as caught:
            make()
        texts.append(str(caught.value))
    return texts


def test_names_of_tensors(processes):
    for texts in processes.run(named_rows, 2, variables=MESSAGES):
        assert "by the name 'node~_N~kept', found that it is taken by torch.float32" in texts[0]
        assert "is taken" in texts[1]
        assert "expected the same tensor on all ranks" in texts[2] and "rank 1" in texts[2]


def read_what_another_has_dropped(rank):
    y = sgd.DistTensor((10, 1), torch.float32, init_func=lambda shape, dtype: torch.ones(shape))
    if rank == 1:
        del y
        time.sleep(0.5)
        sgd.DistTensor((2,), torch.bool)
    else:
        time.sleep(0.2)
        assert y.count_nonzero() == 10
        kept = y  # and still after a step that all take together
        sgd.DistTensor((2,), torch.bool)
        assert kept.count_nonzero() == 10
    sgd.exit_client()


def test_rows_are_served_until_all_ranks_have_dropped_them(processes):
    processes.run(read_what_another_has_dropped, 2, variables=MESSAGES)


def test_memory_leaves_no_files(processes, folder):
    before = set(os.listdir("/dev/shm"))
    processes.run(seeded_read_and_write, 2, folder)
    assert not {n for n in set(os.listdir("/dev/shm")) - before if n.startswith("smex-rows")}


# ---- batches ----


def digest(*parts):
    told = hashlib.sha256()
    for part in parts:
        told.update(part.contiguous().numpy().tobytes())
    return told.hexdigest()


def sampled(rank, folder, epochs, **options):
    g = opened(folder)
    ids = g.ndata["train"][:].nonzero().view(-1)
    sampler = sg.dataloading.NeighborSampler([4, 3], prefetch_node_feats=["x"])
    loader = sgd.DistNodeDataLoader(g, ids, sampler, batch_size=16, shuffle=True, **options)
    found = []
    for _ in range(epochs):
        of_epoch = []
        for input_nodes, seeds, blocks in loader:
            x = blocks[0].srcdata["x"]
            assert torch.equal(x, g.ndata["x"][input_nodes])
            edges = [end for block in blocks for end in block.edges()]
            eids = [block.edata[sg.EID] for block in blocks]
            of_epoch.append(digest(seeds, input_nodes, x, *edges, *eids))
        assert len(of_epoch) == len(loader)
        found.append(of_epoch)
    g.barrier()
    return found, loader.stats()


def check_batches(processes, folder, ranks, way):
    ((alone, _),) = processes.run(sampled, 1, folder, 3)
    assert len({tuple(of_epoch) for of_epoch in alone}) == 3
    by_rank = processes.run(sampled, ranks, folder, 3, variables=way)
    for epoch, expected in enumerate(alone):
        steps = -(-len(expected) // ranks)
        for rank, (found, _) in enumerate(by_rank):
            wanted = [expected[(step * ranks + rank) % len(expected)] for step in range(steps)]
            assert found[epoch] == wanted
    return by_rank


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("ranks", [2, 4])
def test_batches_are_the_same_at_any_number_of_ranks(processes, folder, ranks, way):
    for _, stats in check_batches(processes, folder, ranks, way):
        parts = [stats[name] for name in ("memory", "cached", "repeated", "fetched")]
        assert sum(parts) >= stats["asked"] > 0  # those that are kept are fetched beside
        assert (stats["fetched"] > 0) == bool(way)


def test_batches_are_the_same_at_eight_ranks(processes, folder):
    check_batches(processes, folder, 8, {})


def test_fewer_rows_are_fetched_where_some_are_kept_and_batches_made_together(processes, folder):
    def rows(**options):
        found = processes.run(sampled_with, 2, folder, options, variables=MESSAGES)
        return sum(stats["fetched"] for _, stats in found)

    one_by_one = rows(cache_rows=0, ahead=1)
    together = rows(cache_rows=0, ahead=4)
    kept = rows(cache_rows=60, ahead=4)
    assert kept < together < one_by_one


def sampled_with(rank, folder, options):
    return sampled(rank, folder, 3, **options)


def read_as_dgl_programs_do(rank, folder):
    g = opened(folder)
    sampler = sg.dataloading.NeighborSampler([4, 3])
    ids = sgd.node_split(g.ndata["train"], g.get_partition_book(), force_even=True)
    loader = sg.dataloading.DistNodeDataLoader(g, ids, sampler, batch_size=8, shuffle=True)
    for _ in range(2):
        for input_nodes, seeds, blocks in loader:
            expected = g.ndata["x"][input_nodes.clone()]
            assert torch.equal(g.ndata["x"][input_nodes], expected)
            assert torch.equal(g.ndata["x"][input_nodes], expected)  # and once more
            assert torch.equal(g.ndata["label"][seeds], g.ndata["label"][seeds.clone()])
            assert torch.equal(blocks[0].srcdata["x"], expected)
    g.barrier()
    return loader.stats()


def test_rows_that_a_program_reads_are_noticed_and_read_ahead(processes, folder):
    for stats in processes.run(read_as_dgl_programs_do, 2, folder, variables=MESSAGES):
        assert stats["asked"] > 0 and stats["cached"] > 0


def typed_batches(rank, folder):
    g = opened(folder, "typed")
    ids = {"user": torch.arange(40), "game": torch.arange(25)}
    sampler = sg.dataloading.NeighborSampler(
        [3, 3], prefetch_node_feats={"user": ["x"], "game": ["x"]}
    )
    found = []
    for inputs, seeds, blocks in sgd.DistNodeDataLoader(
        g, ids, sampler, batch_size=9, shuffle=True
    ):
        for ntype in ("user", "game"):
            x = blocks[0].srcnodes[ntype].data["x"]
            assert torch.equal(x, g.nodes[ntype].data["x"][inputs[ntype]])
        found.append({t: s.tolist() for t, s in seeds.items()})
    shares = {t: sgd.node_split(ids[t], g.get_partition_book(), ntype=t) for t in ids}
    steps = len(sgd.DistNodeDataLoader(g, shares, sampler, batch_size=4))
    hours = sgd.edge_split(torch.ones(200, dtype=torch.bool), g.get_partition_book(), "plays")
    loader = sgd.DistEdgeDataLoader(
        g, {"plays": hours}, sg.dataloading.NeighborSampler([2]), batch_size=30,
        negative_sampler=sg.dataloading.negative_sampler.Uniform(2), exclude="self",
    )  # fmt: skip
    seen = []
    for _inputs, pairs, negative, _blocks in loader:
        assert negative.num_edges("plays") == 2 * pairs.num_edges("plays")
        eids = pairs.edges["plays"].data[sg.EID]
        assert torch.equal(pairs.edges["plays"].data["hours"], g.edges["plays"].data["hours"][eids])
        seen.append(eids)
    g.barrier()
    return found, steps, torch.cat(seen)


@pytest.mark.parametrize("way", WAYS)
def test_graphs_of_several_types(processes, tmp_path, way):
    sgd.partition_graph(typed_graph(), "typed", 3, tmp_path, part_method="random")
    ((alone, _, _),) = processes.run(typed_batches, 1, str(tmp_path))
    found = processes.run(typed_batches, 2, str(tmp_path), variables=way)
    both = [batch for pair in zip(*(of_rank for of_rank, _, _ in found)) for batch in pair]
    assert both[: len(alone)] == alone
    assert found[0][1] == found[1][1]
    assert torch.equal(torch.cat([eids for _, _, eids in found]).unique(), torch.arange(200))


# ---- shares ----


def shares(rank, folder):
    g = opened(folder)
    book = g.get_partition_book()
    train = g.ndata["train"]
    even = sgd.node_split(train, book)
    local = sgd.node_split(train[:], book, force_even=False)
    first, last = (int(book.partid2nids(book.partid)[end]) for end in (0, -1))
    assert ((local >= first) & (local <= last)).all()
    assert torch.equal(sgd.node_split(train, rank=rank), even)
    few = sgd.node_split(torch.tensor([0, 1, 2, 3, 299]), book, force_even=False)
    sampler = sg.dataloading.NeighborSampler([2])
    steps = []
    for ids in (even, local, few):
        loader = sgd.DistNodeDataLoader(g, ids, sampler, batch_size=2, shuffle=True)
        batches = [seeds for _, seeds, _ in loader]
        assert len(batches) == len(loader)
        assert torch.equal(torch.cat(batches).unique(), ids)
        steps.append(len(batches))
    none = sgd.node_split(torch.tensor([0, 1]), book, force_even=False)
    with pytest.raises(smex.SmexValueError, match="a batch on every rank, found none on rank 1"):
        sgd.DistNodeDataLoader(g, none, sampler, batch_size=2)
    g.barrier()
    return even, local, steps


@pytest.mark.parametrize("way", WAYS)
def test_shares_and_their_steps(processes, folder, way):
    found = processes.run(shares, 2, folder, variables=way)
    train = torch.cat([even for even, _, _ in found])
    assert torch.equal(train, torch.cat([local for _, local, _ in found]))
    sizes = [len(even) for even, _, _ in found]
    assert max(sizes) - min(sizes) <= 1
    assert found[0][2] == found[1][2]


def other_ids(rank, folder):
    g = opened(folder)
    sampler = sg.dataloading.NeighborSampler([2])
    sgd.DistNodeDataLoader(g, torch.arange(50) + rank, sampler, use_ddp=False)
    try:
        sgd.DistNodeDataLoader(g, torch.arange(50) + rank, sampler)
        g.barrier()
    except smex.SmexError as error:
        return type(error).__name__, str(error)


def test_ids_that_differ_between_ranks(processes, folder):
    found = [kind_text for kind_text in processes.run(other_ids, 2, folder) if kind_text]
    texts = [text for kind, text in found if kind == "SmexValueError"]
    assert texts and "expected the same ids, batch_size, shuffle and seed" in texts[0]


def go_on(rank, folder):
    g = opened(folder)
    sampler = sg.dataloading.NeighborSampler([2])

    def made():
        return sgd.DistNodeDataLoader(
            g, torch.arange(100), sampler, batch_size=10, shuffle=True, ddp_seed=3
        )

    loader = made()
    list(loader)
    expected = [seeds for _, seeds, _ in loader]
    loader = made()
    list(loader)
    seen = []
    for _, seeds, _ in loader:
        seen.append(seeds)
        if len(seen) == 2:
            break
    state = loader.state_dict()
    assert state == {"epoch": 1, "step": 2}
    loader = made()
    loader.load_state_dict(state)
    seen += [seeds for _, seeds, _ in loader]
    assert len(seen) == len(expected) and all(map(torch.equal, seen, expected))
    third = [seeds for _, seeds, _ in loader]
    loader = made()
    loader.set_epoch(2)
    assert all(map(torch.equal, third, [seeds for _, seeds, _ in loader]))
    with pytest.raises(smex.SmexValueError, match="expected a step from 0 to 5, found 77"):
        loader.load_state_dict({"epoch": 0, "step": 77})


def test_a_loader_goes_on_where_another_was(processes, folder):
    processes.run(go_on, 2, folder)


# ---- training ----


def trained(rank, folder, ranks, as_ranks):
    """Losses of 3 epochs: each of `ranks` takes a batch in a step; one process all of them."""
    torch.manual_seed(7)
    g = opened(folder)
    net = SAGE().double()
    if ranks == as_ranks and ranks > 1:
        net = torch.nn.parallel.DistributedDataParallel(net)
    optimizer = torch.optim.Adam(net.parameters(), lr=0.02)
    ids = g.ndata["train"][:].nonzero().view(-1)
    sampler = sg.dataloading.NeighborSampler([4, 4], prefetch_node_feats=["x"])
    loader = sgd.DistNodeDataLoader(g, ids, sampler, batch_size=16, shuffle=True)
    losses = []
    for _ in range(3):
        batches = iter(loader)
        steps = -(-len(loader) // (as_ranks // ranks))
        every = []
        for _ in range(steps):
            group = []
            for _ in range(as_ranks // ranks):
                batch = next(batches, None)
                group.append(batch if batch is not None else every[len(group)])
            every += group
            optimizer.zero_grad()
            total = 0.0
            for input_nodes, seeds, blocks in group:
                scores = net(blocks, g.ndata["x"][input_nodes].double())
                loss = torch.nn.functional.cross_entropy(scores, g.ndata["label"][seeds])
                (loss / len(group)).backward()
                total += float(loss.detach()) / len(group)
            optimizer.step()
            losses.append(total)
    net = net.module if hasattr(net, "module") else net
    right = None
    if rank == 0:  # alone, by asking the others, which wait
        found = sgd.DistNodeDataLoader(
            g, torch.arange(300), sg.dataloading.MultiLayerFullNeighborSampler(2), batch_size=64,
            use_ddp=False,
        )  # fmt: skip
        with torch.no_grad():
            right = torch.cat([net(b, g.ndata["x"][i].double()) for i, _, b in found])
    g.barrier()
    return losses, right


@pytest.mark.parametrize("way", WAYS)
def test_training_on_two_ranks_is_that_of_one_process(processes, folder, way):
    ((alone, scores),) = processes.run(trained, 1, folder, 1, 2)
    (first, right), (second, _) = processes.run(trained, 2, folder, 2, 2, variables=way)
    both = torch.tensor([first, second], dtype=torch.float64).mean(0)
    torch.testing.assert_close(both, torch.tensor(alone, dtype=torch.float64), rtol=1e-9, atol=1e-9)
    torch.testing.assert_close(right, scores, rtol=1e-8, atol=1e-8)


def learned(rank, size, kind, dtype, folder, load):
    """Embeddings after 5 steps; one process takes what all ranks would."""
    torch.manual_seed(2)
    emb = sgd.DistEmbedding(50, 4, "emb", init_func=random_rows, dtype=dtype)
    other = sgd.DistEmbedding(7, 2, "other", dtype=dtype)
    opt = getattr(sgd.optim, kind)([emb, other], lr=0.1)
    if load:
        opt.load(folder)
    torch.manual_seed(3)
    for step in range(5):
        opt.zero_grad()
        for source in range(size):
            ids, target = torch.randint(50, (12,)), torch.randn(12, 4, dtype=dtype)
            if dist.get_world_size() == 1 or source == rank:
                ((emb(ids) - target) ** 2).sum().backward()
                if step % 2:
                    other(torch.tensor([source, 3])).sum().backward()
        opt.step()
    if not load:
        opt.save(folder)
    rows = emb.weight[:], other.weight[:]
    dist.barrier()
    return rows


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("kind", ["SparseAdam", "SparseAdagrad"])
def test_embeddings_are_those_of_one_process(processes, tmp_path, kind, dtype, way):
    def run(ranks, folder, load=False, **options):
        return processes.run(learned, ranks, 2, kind, dtype, str(folder), load, **options)

    near = 1e-6 if dtype == torch.float32 else 1e-12
    (alone,) = run(1, tmp_path / "alone")
    found = run(2, tmp_path / "two", variables=way)
    for rows in found:
        for mine, expected in zip(rows, alone):
            torch.testing.assert_close(mine, expected, rtol=near, atol=near)
    assert all(map(torch.equal, *found))
    again = run(2, tmp_path / "again", variables=way)
    assert all(map(torch.equal, again[0], found[0]))  # the same bits each time
    (on_one,) = run(1, tmp_path / "two", load=True)
    for rows in run(2, tmp_path / "alone", load=True, variables=way):
        for mine, expected in zip(rows, on_one):
            torch.testing.assert_close(mine, expected, rtol=10 * near, atol=10 * near)


# ---- failures ----


def read_of_one_that_is_gone(rank, folder, how, what):
    g = opened(folder)
    y = sgd.DistTensor((300, 2), torch.float32)
    g.barrier()
    if rank == 1:
        os.kill(os.getpid(), how)
        time.sleep(60)
    time.sleep(0.2)
    started = time.monotonic()
    try:
        while True:
            if what == "rows":
                y[:]
            elif what == "barrier":
                g.barrier()
            else:
                sampler = sg.dataloading.NeighborSampler([4, 3], prefetch_node_feats=["x"])
                list(sgd.DistNodeDataLoader(
                    g, torch.arange(300), sampler, batch_size=16, use_ddp=False
                ))  # fmt: skip
    except smex.RankFailure as error:
        return error.rank, error.kind, time.monotonic() - started, str(error)


@pytest.mark.parametrize("what", ["rows", "barrier", "loader"])
@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGSTOP])
def test_a_rank_that_is_gone_is_named_in_seconds(processes, folder, how, what):
    found = processes.outcomes(
        read_of_one_that_is_gone, 2, folder, how, what, variables=MESSAGES, timeout=14
    )
    good, answer = found[0]
    assert good, answer
    rank, _, seconds, text = answer
    assert rank == 1 and "rank 1" in text
    assert seconds < (3 if how == signal.SIGKILL else 9)


def one_finds_a_bad_file(rank, folder):
    with pytest.raises(smex.SmexRuntimeError, match=r"rank 1: .*node0.*expected sum"):
        opened(folder)


def test_a_file_that_changed_is_told_on_all_ranks(processes, folder):
    path = os.path.join(folder, "g", "part1", "node0.0.bin")
    files = sgd.partition.read_graph(os.path.join(folder, "g.json"), "test").files()
    number = [entry.path for entry in files].index("g/part1/node0.0.bin")
    with open(path, "r+b") as file:
        file.seek(8)
        file.write(b"\xff\xff")
    processes.run(one_finds_a_bad_file if number % 2 else other_finds_it, 2, folder)


def other_finds_it(rank, folder):
    with pytest.raises(smex.SmexRuntimeError, match=r"rank 0: .*node0.*expected sum"):
        opened(folder)


def other_manifests(rank, folder, other):
    with pytest.raises(smex.SmexValueError, match="expected one manifest on all ranks, found anot"):
        opened(other if rank else folder)


def test_ranks_with_different_folders(processes, folder, tmp_path):
    other = tmp_path / "other"
    sgd.partition_graph(small_graph(seed=1), "g", 2, other, part_method="random")
    processes.run(other_manifests, 2, folder, str(other))


def cora_trained(rank, folder, ranks):
    torch.manual_seed(1)
    g = opened(folder, "cora")
    net = SAGE(g.ndata["feat"].shape[1], 32, 7)
    wrapped = torch.nn.parallel.DistributedDataParallel(net) if ranks > 1 else net
    optimizer = torch.optim.Adam(net.parameters(), lr=0.01, weight_decay=5e-3)
    sampler = sg.dataloading.NeighborSampler([10, 10], prefetch_node_feats=["feat"])
    train = g.ndata["train_mask"][:].nonzero().view(-1)
    loader = sgd.DistNodeDataLoader(g, train, sampler, batch_size=70 // ranks, shuffle=True)
    for _ in range(12):
        for _, seeds, blocks in loader:
            scores = wrapped(blocks, blocks[0].srcdata["feat"])
            loss = torch.nn.functional.cross_entropy(scores, g.ndata["label"][seeds])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    test = g.ndata["test_mask"]
    everything = sg.dataloading.MultiLayerFullNeighborSampler(2)
    mine = sgd.node_split(test, force_even=True)
    right = 0
    with torch.no_grad():
        for ids, seeds, blocks in sgd.DistNodeDataLoader(
            g, mine, everything, batch_size=1000, use_ddp=False
        ):
            scores = net(blocks, g.ndata["feat"][ids])
            right += int((scores.argmax(1) == g.ndata["label"][seeds]).sum())
    counts = torch.tensor([right, len(mine)])
    dist.all_reduce(counts)
    return int(counts[0]) / int(counts[1]), loader.stats()


@pytest.mark.parametrize("ranks", [1, 2])
def test_cora_in_two_parts(processes, tmp_path, ranks):
    data = pathlib.Path(os.environ.get("SMEX_DATA") or ROOT.parent / "shared" / "data")
    if not (data / "planetoid").is_dir():
        pytest.skip(f"no folder planetoid in $SMEX_DATA or {data}")
    pytest.importorskip("pymetis", reason="pymetis is not installed")
    g = sg.data.CoraGraphDataset(raw_dir=str(data / "planetoid"), verbose=False)[0]
    sgd.partition_graph(g, "cora", 2, tmp_path, balance_ntypes=g.ndata["train_mask"])
    for right, stats in processes.run(
        cora_trained, ranks, str(tmp_path), ranks, variables=MESSAGES
    ):
        assert right > 0.74  # guessing gets 0.14, GraphSAGE about 0.8
        assert (stats["fetched"] > 0) == (ranks > 1)
