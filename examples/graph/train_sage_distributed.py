"""GraphSAGE on one graph that several processes share, on sampled neighbours.

    python examples/graph/train_sage_distributed.py [--nodes 20000] [--epochs 6] [--folder FOLDER]
    torchrun --nproc-per-node 2 examples/graph/train_sage_distributed.py ...

The graph of ``train_sage_minibatch.py`` is written in parts once (METIS, or ranges of nodes where
pymetis is not installed). Each rank maps the folder, samples from the whole graph and trains on its
share of the nodes; ``--embed`` learns numbers of each node beside the features, whose rows are
divided among the ranks. Rank 0 measures the result alone.
"""

import argparse
import importlib.util
import os
import tempfile

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch.nn.parallel import DistributedDataParallel
from train_sage_minibatch import FEATURES, GROUPS, SAGE, drawn_graph

import smex.graph as sg

EMBEDDED = 8


def write(folder, options, num_parts):
    """Draws the graph and writes it in parts, a tenth of its nodes for training."""
    torch.manual_seed(options.seed)
    g = drawn_graph(options.nodes)
    g.ndata["train"] = torch.rand(g.num_nodes()) < 0.1
    if options.embed:
        g.ndata["x"] = g.ndata["x"][:, : FEATURES - EMBEDDED].contiguous()
    method = "metis" if importlib.util.find_spec("pymetis") else "range"
    sg.distributed.partition_graph(
        g, "groups", num_parts, folder, part_method=method, balance_ntypes=g.ndata["train"]
    )


def first_rows(shape, dtype):
    return torch.randn(shape, dtype=dtype) / 10


class Inputs:
    """Features of nodes, with learned numbers beside them."""

    def __init__(self, g, embed):
        self.x = g.ndata["x"]
        self.embedding = self.optimizer = None
        if embed:
            self.embedding = sg.distributed.DistEmbedding(
                g.num_nodes(), EMBEDDED, "numbers", first_rows, g.get_node_partition_policy()
            )
            self.optimizer = sg.distributed.optim.SparseAdam([self.embedding], lr=0.01)

    def __call__(self, ids):
        if self.embedding is None:
            return self.x[ids]
        return torch.cat([self.x[ids], self.embedding(ids)], 1)


def accuracy(net, g, inputs, sampler):
    """The part of the other nodes that are right, told by this rank alone."""
    nodes = (~g.ndata["train"][:]).nonzero().view(-1)
    loader = sg.distributed.DistNodeDataLoader(g, nodes, sampler, batch_size=512, use_ddp=False)
    with torch.no_grad():
        right = [
            net(blocks, inputs(ids)).argmax(1) == g.ndata["group"][seeds]
            for ids, seeds, blocks in loader
        ]
    return float(torch.cat(right).float().mean())


def train(g, options):
    torch.manual_seed(options.seed)
    size = dist.get_world_size() if dist.is_initialized() else 1
    inputs = Inputs(g, options.embed)
    net = SAGE(GROUPS)
    wrapped = DistributedDataParallel(net) if size > 1 else net
    optimizer = torch.optim.Adam(net.parameters(), lr=0.01)
    sampler = sg.dataloading.NeighborSampler([10, 10])
    share = sg.distributed.node_split(g.ndata["train"], g.get_partition_book())
    loader = sg.distributed.DistNodeDataLoader(g, share, sampler, batch_size=256, shuffle=True)
    right = 0.0
    for epoch in range(options.epochs):
        for ids, seeds, blocks in loader:
            loss = F.cross_entropy(wrapped(blocks, inputs(ids)), g.ndata["group"][seeds])
            optimizer.zero_grad()
            (loss / size if inputs.optimizer and size > 1 else loss).backward()
            optimizer.step()
            if inputs.optimizer:
                inputs.optimizer.step()
        if g.rank() == 0:
            right = accuracy(net, g, inputs, sampler)
            print(f"epoch {epoch}: loss {loss:.4f}, {right:.1%} of the other nodes are right")
        g.barrier()
    print(f"rank {g.rank()}: {len(share)} nodes, {loader.stats()}")
    return right


def main(arguments=None):
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--nodes", type=int, default=20000)
    parser.add_argument("--epochs", type=int, default=6)
    parser.add_argument("--embed", action="store_true", help="learn numbers of each node too")
    parser.add_argument("--folder", help="of the graph, written where there is none")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args(arguments)
    sg.distributed.initialize()
    size = dist.get_world_size() if dist.is_initialized() else 1
    made = None if options.folder else tempfile.TemporaryDirectory()
    folders = [options.folder or made.name]
    if size > 1:
        dist.broadcast_object_list(folders)  # rank 0's
    writes = size == 1 or dist.get_rank() == 0
    if writes and not os.path.exists(os.path.join(folders[0], "groups.json")):
        write(folders[0], options, max(size, 2))
    if size > 1:
        dist.barrier()
    g = sg.distributed.DistGraph("groups", part_config=folders[0])
    right = train(g, options)
    sg.distributed.exit_client()
    if made:
        made.cleanup()
    return right


if __name__ == "__main__":
    main()
