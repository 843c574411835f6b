"""Rows that ranks fetch for mini-batches of one graph, with and without what saves some.

    torchrun --nproc-per-node 2 benchmarks/graph/parted.py [--nodes 100000] [--epochs 2]

A graph with a few nodes of many edges (Barabási-Albert: a new node is joined to ends of edges) is
cut by METIS or at random; features have 128 numbers. Ranks send each other messages, as between
machines (``SMEX_SHARED_MEMORY=0`` is set here), unless ``--memory`` is given. A row of the table is
an epoch of all ranks: batches of 512 nodes, 10 and 10 neighbours of each.
"""

import argparse
import os
import tempfile
import time

import torch
import torch.distributed as dist

import smex.graph as sg

FEATURES = 128
BATCH = 512


def attached_graph(num_nodes, degree=8):
    """Each node is joined to ends of earlier edges: who has more gets more."""
    ends = torch.randint(degree, (2 * degree * degree,))
    src, dst = [], []
    step = max(1, num_nodes // 200)
    for first in range(degree, num_nodes, step):
        new = torch.arange(first, min(first + step, num_nodes)).repeat_interleave(degree)
        old = ends[torch.randint(len(ends), (len(new),))]
        src.append(new)
        dst.append(old)
        ends = torch.cat([ends, new, old])
    g = sg.to_bidirected(sg.graph((torch.cat(src), torch.cat(dst)), num_nodes=num_nodes))
    g.ndata["x"] = torch.randn(num_nodes, FEATURES)
    return g


def epochs(g, options, **settings):
    """Rows asked for and fetched by all ranks, and seconds, of an epoch."""
    sampler = sg.dataloading.NeighborSampler([10, 10], prefetch_node_feats=["x"])
    train = torch.arange(g.num_nodes()) % 10 == 0
    share = sg.distributed.node_split(train, g.get_partition_book(), force_even=True)
    loader = sg.distributed.DistNodeDataLoader(
        g, share, sampler, batch_size=BATCH, shuffle=True, **settings
    )
    g.barrier()
    started = time.perf_counter()
    for _ in range(options.epochs):
        for _, _, blocks in loader:
            blocks[0].srcdata["x"].sum()
    g.barrier()
    seconds = (time.perf_counter() - started) / options.epochs
    stats = loader.stats()
    numbers = torch.tensor([stats[n] for n in ("asked", "memory", "repeated", "cached", "fetched")])
    dist.all_reduce(numbers)
    return [n // options.epochs for n in numbers.tolist()], seconds


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--nodes", type=int, default=100_000)
    parser.add_argument("--epochs", type=int, default=2)
    parser.add_argument("--memory", action="store_true", help="ranks share memory")
    options = parser.parse_args()
    if not options.memory:
        os.environ["SMEX_SHARED_MEMORY"] = "0"
    sg.distributed.initialize()
    rank, size = dist.get_rank(), dist.get_world_size()
    with tempfile.TemporaryDirectory() as own:
        folder = [own]
        dist.broadcast_object_list(folder)
        if rank == 0:
            torch.manual_seed(0)
            g = attached_graph(options.nodes)
            print(f"{g.num_nodes()} nodes, {g.num_edges()} edges, {size} ranks")
            for method in ("random", "metis"):
                started = time.perf_counter()
                sg.distributed.partition_graph(g, method, size, folder[0], part_method=method)
                print(f"written by {method} in {time.perf_counter() - started:.1f} s")
            words = ("asked", "memory", "repeated", "cached", "fetched", "seconds")
            print(f"{'parts, made together, kept':30}" + "".join(f"{w:>10}" for w in words))
        dist.barrier()
        for method in ("random", "metis"):
            started = time.perf_counter()
            g = sg.distributed.DistGraph(method, part_config=f"{folder[0]}/{method}.json")
            opened = time.perf_counter() - started
            for ahead, share in ((1, 0), (4, 0), (16, 0), (4, 20), (16, 20), (16, 5)):
                kept = g.num_nodes() // share if share else 0
                numbers, seconds = epochs(g, options, ahead=ahead, cache_rows=kept)
                if rank == 0:
                    what = f"{method}, {ahead}, {kept}"
                    print(f"{what:30}" + "".join(f"{n:10}" for n in numbers) + f"{seconds:10.2f}")
                for tensor in g.ndata.values():
                    tensor._rows.forget_kept()
            if rank == 0:
                print(f"(opened and compared in {opened:.2f} s)")
        sg.distributed.exit_client()


if __name__ == "__main__":
    main()
