"""A program for DGL with its import changed: papers of a typed graph, with learned authors."""

import argparse

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn
from torch.nn.parallel import DistributedDataParallel

import smex.graph as dgl
import smex.graph.distributed  # noqa: F401, as programs for DGL have it
import smex.graph.nn as dglnn
from smex.graph.distributed import DistEmbedding


class Layer(nn.Module):
    """A sum over relations with matrices of shared bases."""

    def __init__(self, inputs, outputs, etypes, bases, is_last):
        super().__init__()
        self.etypes, self.is_last = etypes, is_last
        self.basis = dglnn.WeightBasis((inputs, outputs), bases, len(etypes))
        self.convs = dglnn.HeteroGraphConv(
            {
                e: dglnn.GraphConv(inputs, outputs, norm="right", weight=False, bias=False)
                for e in etypes
            }
        )

    def forward(self, block, h):
        block = block.local_var()
        weights = zip(self.etypes, self.basis())
        h = self.convs(block, h, mod_kwargs={e: {"weight": w} for e, w in weights})
        return h if self.is_last else {t: torch.relu(x) for t, x in h.items()}


class Inputs(nn.Module):
    """Projected features of nodes that have some, learned rows of others."""

    def __init__(self, g, size):
        super().__init__()
        self.g = g
        self.ids = {g.get_ntype_id(t): t for t in g.ntypes}
        self.projections, self.rows = nn.ModuleDict(), {}
        for ntype in g.ntypes:
            if "feat" in g.nodes[ntype].data:
                width = g.nodes[ntype].data["feat"].shape[1]
                self.projections[ntype] = nn.Linear(width, size)
            else:
                policy = g.get_node_partition_policy(ntype)
                self.rows[ntype] = DistEmbedding(
                    g.num_nodes(ntype), size, f"rows_{ntype}", uniform, policy
                )

    def forward(self, ids):
        found = {}
        for ntype in ids:
            if ntype in self.projections:
                x = self.g.nodes[ntype].data["feat"][ids[ntype]]
                found[ntype] = self.projections[ntype](x)
            else:
                found[ntype] = self.rows[ntype](ids[ntype])
        return found


def uniform(shape, dtype):
    return torch.empty(shape, dtype=dtype).uniform_(-1, 1)


def chosen(g, mask):
    """The share of this rank of the papers of a mask, and all of them."""
    data = g.nodes["paper"].data
    trainers = {"node_trainer_ids": data["trainer_id"]} if "trainer_id" in data else {}
    share = dgl.distributed.node_split(
        data[mask], g.get_partition_book(), ntype="paper", force_even=True, **trainers
    )
    whole = np.nonzero(data[mask][np.arange(g.num_nodes("paper"))])
    return share, torch.LongTensor(whole).squeeze()


def evaluate(g, inputs, model, labels, loader, ids):
    """The accuracy of all ranks' papers, on rank 0."""
    found = dgl.distributed.DistTensor(labels.shape, torch.long, "found", persistent=True)
    model.eval()
    with torch.no_grad():
        for input_nodes, seeds, blocks in loader:
            out = model(blocks, inputs(input_nodes))
            assert len(out) == 1
            found[seeds["paper"]] = out["paper"].argmax(1)
    model.train()
    g.barrier()
    return float((found[ids] == labels[ids]).float().mean()) if g.rank() == 0 else -1


class Model(nn.Module):
    def __init__(self, size, classes, etypes):
        super().__init__()
        self.layers = nn.ModuleList(
            [Layer(size, size, etypes, 2, False), Layer(size, classes, etypes, 2, True)]
        )

    def forward(self, blocks, h):
        for layer, block in zip(self.layers, blocks):
            h = layer(block.to("cpu"), h)
        return h


def main(args):
    dgl.distributed.initialize(args.ip_config, net_type="socket", use_graphbolt=True)
    torch.distributed.init_process_group(backend="gloo")
    g = dgl.distributed.DistGraph(args.graph_name, part_config=args.conf_path)
    torch.manual_seed(1)
    book = g.get_partition_book()
    local = book.partid2nids(book.partid, "paper").detach().numpy()
    train, _ = chosen(g, "train_mask")
    test, every = chosen(g, "test_mask")
    print(f"rank {g.rank()}: {len(train)} papers, {len(np.intersect1d(train, local))} local")
    labels = g.nodes["paper"].data["labels"][np.arange(g.num_nodes("paper"))]
    sampler = dgl.dataloading.MultiLayerNeighborSampler([5, 5])
    make = dgl.distributed.DistNodeDataLoader
    loader = make(g, {"paper": train}, sampler, batch_size=16, shuffle=True, drop_last=False)
    tests = make(g, {"paper": test}, sampler, batch_size=64, shuffle=False, drop_last=False)
    inputs = Inputs(g, 16)
    rows = list(inputs.rows.values())
    inputs = DistributedDataParallel(inputs)
    model = DistributedDataParallel(Model(16, len(labels.unique()), g.etypes))
    dense = list(model.parameters()) + list(inputs.module.projections.parameters())
    optimizer = torch.optim.Adam(dense, lr=0.02)
    sparse = dgl.distributed.optim.SparseAdam(rows, lr=0.02)
    for epoch in range(args.n_epochs):
        total = 0.0
        for input_nodes, seeds, blocks in loader:
            out = model(blocks, inputs(input_nodes))["paper"]
            loss = F.cross_entropy(out, labels[seeds["paper"]])
            optimizer.zero_grad()
            sparse.zero_grad()
            loss.backward()
            optimizer.step()
            sparse.step()
            total += float(loss)
        if g.rank() == 0:
            print(f"epoch {epoch}: loss {total / len(loader):.4f}")
        g.barrier()
        accuracy = evaluate(g, inputs, model, labels, tests, every)
        if accuracy >= 0:
            print(f"accuracy {accuracy:.4f}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    for name in ("--graph-name", "--ip-config", "--conf-path"):
        parser.add_argument(name)
    parser.add_argument("--n-epochs", type=int, default=5)
    main(parser.parse_args())
