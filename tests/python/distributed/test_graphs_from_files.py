"""A graph's way from files through parts to trained ranks, and on with others."""

import numpy as np
import pytest
import torch
import torch.distributed as dist
from torch.nn import functional

import smex.graph as sg
from support.parted import SAGE

sgd = sg.distributed
NODES, GROUPS = 400, 3


def written(folder):
    """Files of a graph whose nodes have most of their edges within their group; its parts."""
    draw = np.random.default_rng(0)
    group = draw.integers(GROUPS, size=NODES)
    src = np.repeat(np.arange(NODES), 8)
    dst = draw.integers(NODES, size=len(src))
    for number in range(GROUPS):
        own = np.flatnonzero(group == number)
        rows = np.flatnonzero((group[src] == number) & (draw.random(len(src)) < 0.8))
        dst[rows] = draw.choice(own, size=len(rows))
    (folder / "edges.csv").write_text("".join(f"{u},{v}\n" for u, v in zip(src, dst)))
    x = np.eye(GROUPS)[group] + draw.normal(size=(NODES, GROUPS))
    np.save(folder / "x.npy", x.astype(np.float32))
    np.save(folder / "group.npy", group)
    np.save(folder / "train.npy", draw.random(NODES) < 0.5)
    np.save(folder / "weight.npy", draw.random(len(src)))
    sgd.partition_files(
        folder / "edges.csv",
        "g",
        3,
        folder / "parts",
        balance_ntypes=torch.from_numpy(np.load(folder / "train.npy")),
        ndata={name: folder / f"{name}.npy" for name in ("x", "group", "train")},
        edata={"weight": folder / "weight.npy"},
    )


def train(rank, folder, saved, epochs):
    """Some epochs, from what was saved if anything was; losses, rows learned, batches seen."""
    size = dist.get_world_size()
    torch.manual_seed(3)
    g = sgd.DistGraph("g", part_config=f"{folder}/parts/g.json")
    learned = sgd.DistEmbedding(NODES, 4, "learned", rows, g.get_node_partition_policy())
    net = SAGE(GROUPS + 4, 16, GROUPS).double()
    optimizer = torch.optim.Adam(net.parameters(), lr=0.01)
    sparse = sgd.optim.SparseAdam([learned], lr=0.01)
    begun = 0
    if saved:
        state = torch.load(f"{folder}/{saved}.pt")
        net.load_state_dict(state["net"])
        optimizer.load_state_dict(state["optimizer"])
        sparse.load(f"{folder}/{saved}")
        begun = state["epochs"]
    wrapped = torch.nn.parallel.DistributedDataParallel(net) if size > 1 else net
    first = learned.weight[:]
    ids = g.ndata["train"][:].nonzero().view(-1)
    sampler = sg.dataloading.NeighborSampler([4, 4], prefetch_node_feats=["x"])
    loader = sgd.DistNodeDataLoader(g, ids, sampler, batch_size=16, shuffle=True)
    loader.set_epoch(begun)
    losses, seen = [], []
    for _ in range(epochs):
        total = 0.0
        for inputs, seeds, blocks in loader:
            seen.append((seeds.clone(), blocks[0].srcdata["x"]))
            x = torch.cat([blocks[0].srcdata["x"].double(), learned(inputs).double()], 1)
            loss = functional.cross_entropy(wrapped(blocks, x), g.ndata["group"][seeds])
            optimizer.zero_grad()
            (loss / size).backward()
            optimizer.step()
            sparse.step()
            total += loss.item()
        losses.append(total / len(loader))
    name = f"after{begun + epochs}by{size}"
    sparse.save(f"{folder}/{name}")
    if rank == 0:
        state = {"net": net.state_dict(), "optimizer": optimizer.state_dict()}
        torch.save({**state, "epochs": begun + epochs}, f"{folder}/{name}.pt")
    g.barrier()
    return losses, first, learned.weight[:], seen, name


def rows(shape, dtype):
    return torch.randn(shape, dtype=dtype) / 10


@pytest.mark.parametrize("way", [{}, {"SMEX_SHARED_MEMORY": "0"}])
def test_from_files_to_ranks_and_on_with_others(processes, tmp_path, way):
    written(tmp_path)
    folder, batches = str(tmp_path), []
    saved, before, losses = "", None, []
    for ranks in (1, 2, 4, 2):
        found = processes.run(train, ranks, folder, saved, 2, variables=way)
        if before is not None:  # what one number of ranks has saved, another begins with
            assert all(torch.equal(first, before) for _, first, *_ in found)
        before, saved = found[0][2], found[0][4]
        assert not torch.equal(before, found[0][1])
        losses += [sum(each[0][epoch] for each in found) / ranks for epoch in range(2)]
        batches.append([each[3] for each in found])
    assert losses[-1] < 0.6 * losses[0]
    # Epochs go on: the batches of the last two runs' first epochs are other ones.
    assert not torch.equal(batches[0][0][0][0], batches[1][0][0][0])


@pytest.mark.parametrize("ranks", [2, 4])
def test_batches_are_those_of_one_process(processes, tmp_path, ranks):
    written(tmp_path)
    ((_, _, _, alone, _),) = processes.run(train, 1, str(tmp_path), "", 1)
    found = processes.run(train, ranks, str(tmp_path), "", 1)
    for number, (seeds, x) in enumerate(alone):
        mine = found[number % ranks][3][number // ranks]
        assert torch.equal(mine[0], seeds) and torch.equal(mine[1], x)
