"""Programs for DGL with their import changed: links of a graph, without or with learned rows."""

import argparse

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn

import smex.graph as dgl
import smex.graph.distributed  # noqa: F401, as programs for DGL have it
import smex.graph.function as fn
import smex.graph.nn.pytorch as dglnn
from smex.graph.distributed import DistEmbedding


class SAGE(nn.Module):
    def __init__(self, inputs, hidden):
        super().__init__()
        self.hidden = hidden
        self.layers = nn.ModuleList(
            [dglnn.SAGEConv(inputs, hidden, "mean"), dglnn.SAGEConv(hidden, hidden, "mean")]
        )

    def forward(self, blocks, h):
        for number, (layer, block) in enumerate(zip(self.layers, blocks)):
            h = layer(block, h)
            h = torch.relu(h) if number == 0 else h
        return h

    def inference(self, g, x, batch_size):
        """All nodes, layer by layer, each rank its share."""
        nodes = dgl.distributed.node_split(
            np.arange(g.num_nodes()), g.get_partition_book(), force_even=True
        )
        for number, layer in enumerate(self.layers):
            y = dgl.distributed.DistTensor(
                (g.num_nodes(), self.hidden), torch.float32, f"h{number}", persistent=True
            )
            loader = dgl.distributed.DistNodeDataLoader(
                g, nodes, dgl.dataloading.NeighborSampler([-1]), batch_size=batch_size,
                shuffle=False, drop_last=False,
            )  # fmt: skip
            for input_nodes, output_nodes, blocks in loader:
                h = x[input_nodes]
                h = layer(blocks[0], (h, h[: blocks[0].number_of_dst_nodes()]))
                y[output_nodes] = torch.relu(h) if number == 0 else h
            x = y
            g.barrier()
        return x


class Rows(nn.Module):
    """Learned numbers of nodes."""

    def __init__(self, g, size):
        super().__init__()
        self.emb = DistEmbedding(g.num_nodes(), size, name="sage", init_func=uniform)

    def forward(self, ids):
        return self.emb(ids.cpu(), device="cpu")


def uniform(shape, dtype):
    return torch.zeros(shape, dtype=dtype).uniform_(-1, 1)


def written(rows, g, size):
    """All learned rows as a DistTensor, each rank its share."""
    nodes = dgl.distributed.node_split(
        np.arange(g.num_nodes()), g.get_partition_book(), force_even=True
    )
    x = dgl.distributed.DistTensor((g.num_nodes(), size), torch.float32, "rows", persistent=True)
    for ids in nodes.split(100):
        x[ids] = rows(ids).cpu()
    g.barrier()
    return x


def scored(graph, h):
    with graph.local_scope():
        graph.ndata["h"] = h
        graph.apply_edges(fn.u_dot_v("h", "h", "score"))
        return graph.edata["score"]


def train(g, model, inputs, loader, optimizers, args):
    for epoch in range(args.num_epochs):
        losses = []
        with model.join():
            for input_nodes, pos_graph, neg_graph, blocks in loader:
                seeds = pos_graph.edata[dgl.EID]
                for block in blocks if args.remove_edge else []:
                    assert not torch.isin(block.edata[dgl.EID], seeds).any()
                h = model([block.to("cpu") for block in blocks], inputs(input_nodes))
                score = torch.cat([scored(pos_graph, h), scored(neg_graph, h)])
                label = torch.zeros_like(score)
                label[: pos_graph.num_edges()] = 1
                loss = F.binary_cross_entropy_with_logits(score, label)
                for optimizer in optimizers:
                    optimizer.zero_grad()
                loss.backward()
                for optimizer in optimizers:
                    optimizer.step()
                losses.append(float(loss))
        if g.rank() == 0:
            print(f"epoch {epoch}: loss {np.mean(losses):.4f}")


def main(args):
    dgl.distributed.initialize(ip_config=args.ip_config)
    torch.distributed.init_process_group(backend="gloo")
    g = dgl.distributed.DistGraph(args.graph_name)
    torch.manual_seed(1)
    everything = torch.ones((g.num_edges(),), dtype=torch.bool)
    eids = dgl.distributed.edge_split(everything, g.get_partition_book(), force_even=True)
    loader = dgl.dataloading.DistEdgeDataLoader(
        g=g,
        eids=eids,
        graph_sampler=dgl.dataloading.NeighborSampler([10, 5]),
        negative_sampler=dgl.dataloading.negative_sampler.Uniform(1),
        exclude="reverse_id" if args.remove_edge else None,
        reverse_eids=torch.arange(g.num_edges()) if args.remove_edge else None,
        batch_size=500,
        shuffle=True,
        drop_last=False,
    )
    rows = Rows(g, 16) if args.dgl_sparse else None
    width = 16 if args.dgl_sparse else g.ndata["features"].shape[1]
    model = nn.parallel.DistributedDataParallel(SAGE(width, 16))
    optimizers = [torch.optim.Adam(model.parameters(), lr=0.01)]
    if rows is not None:
        optimizers.append(dgl.distributed.optim.SparseAdam([rows.emb], lr=0.02))
    inputs = rows if rows is not None else lambda ids: g.ndata["features"][ids]
    train(g, model, inputs, loader, optimizers, args)
    model.eval()
    with torch.no_grad():
        x = g.ndata["features"] if rows is None else written(rows, g, 16)
        found = model.module.inference(g, x, 1000)
    torch.distributed.barrier()
    g._client.barrier()
    if g.rank() == 0:
        torch.save(found, args.output)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    for name in ("--graph_name", "--ip_config", "--output"):
        parser.add_argument(name)
    parser.add_argument("--num_epochs", type=int, default=4)
    parser.add_argument("--remove_edge", action="store_true")
    parser.add_argument("--dgl_sparse", action="store_true")
    main(parser.parse_args())
