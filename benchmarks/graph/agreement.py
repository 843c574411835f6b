"""Whether layers compute what those of DGL do, from the same state dicts.

    python benchmarks/graph/agreement.py [--only GIN]

Needs DGL's environment (`python benchmarks/peers/environments.py dgl`). Every layer is made here,
its state dict is loaded into DGL's, which must have the same names and shapes, and both run on the
same graph of 12 nodes, 52 edges and random features in float32, or on tensors without a graph.
Printed are the largest differences of the results and of the gradients of the inputs; the command
fails where one exceeds 1e-4 of the largest number.
"""

from __future__ import annotations

import argparse
import pathlib
import subprocess
import sys
import tempfile
from typing import Any

import torch

NODES, EDGES = 12, 40
TOLERANCE = 1e-4


def cases(nn: Any) -> dict[str, tuple[Any, tuple[Any, ...]]]:
    """By name how a layer is made, and what it is called with beside the graph."""
    gen = torch.Generator().manual_seed(1)
    every = EDGES + NODES

    def drawn(*size: int) -> torch.Tensor:
        return torch.randn(size, generator=gen)

    x, start, e = drawn(NODES, 6), drawn(NODES, 6), drawn(every, 5)
    wide, weight = drawn(every, 6), torch.rand(every, generator=gen) + 0.1
    etype = torch.randint(3, (every,), generator=gen)
    ntype = torch.randint(2, (NODES,), generator=gen)
    linear = torch.nn.Linear
    known = torch.arange(NODES) % 2 == 0
    moments = ["mean", "max", "sum", "std", "var"]
    scalers = ["identity", "amplification", "attenuation"]
    return {
        "GraphConv": (lambda: nn.GraphConv(6, 4), (x,)),
        "GATConv": (lambda: nn.GATConv(6, 4, 3), (x,)),
        "GATConv, residual": (lambda: nn.GATConv(6, 4, 3, residual=True), (x,)),
        "GATv2Conv": (lambda: nn.GATv2Conv(6, 4, 3, residual=True), (x,)),
        "SAGEConv mean": (lambda: nn.SAGEConv(6, 4, "mean"), (x,)),
        "SAGEConv mean, weighted": (lambda: nn.SAGEConv(6, 4, "mean"), (x, weight)),
        "SAGEConv gcn": (lambda: nn.SAGEConv(6, 4, "gcn"), (x,)),
        "SAGEConv pool": (lambda: nn.SAGEConv(6, 4, "pool"), (x,)),
        "SAGEConv lstm": (lambda: nn.SAGEConv(6, 4, "lstm"), (x,)),
        "GINConv sum": (lambda: nn.GINConv(linear(6, 4), "sum"), (x,)),
        "GINConv mean": (lambda: nn.GINConv(linear(6, 4), "mean"), (x,)),
        "GINConv max": (lambda: nn.GINConv(linear(6, 4), "max", learn_eps=True), (x,)),
        "GINEConv": (lambda: nn.GINEConv(linear(6, 4)), (x, wide)),
        "RelGraphConv basis": (lambda: nn.RelGraphConv(6, 4, 3, "basis", 2), (x, etype)),
        "RelGraphConv bdd": (lambda: nn.RelGraphConv(6, 4, 3, "bdd", 2), (x, etype)),
        "RelGraphConv": (lambda: nn.RelGraphConv(6, 4, 3, layer_norm=True), (x, etype)),
        "HGTConv": (lambda: nn.HGTConv(6, 3, 2, 2, 3, 0.0, use_norm=True), (x, ntype, etype)),
        "SGConv": (lambda: nn.SGConv(6, 4, k=2), (x,)),
        "TAGConv": (lambda: nn.TAGConv(6, 4, k=3), (x,)),
        "APPNPConv": (lambda: nn.APPNPConv(4, 0.2), (x,)),
        "ChebConv": (lambda: nn.ChebConv(6, 4, 3), (x, torch.tensor([1.7]))),
        "GatedGraphConv": (lambda: nn.GatedGraphConv(6, 7, 2, 3), (x, etype)),
        "NNConv": (lambda: nn.NNConv(6, 4, linear(5, 24), "mean", residual=True), (x, e)),
        "GMMConv": (lambda: nn.GMMConv(6, 4, 5, 3, "mean", residual=True), (x, e)),
        "EdgeConv": (lambda: nn.EdgeConv(6, 4), (x,)),
        "EdgeConv, batch norm": (lambda: nn.EdgeConv(6, 4, batch_norm=True), (x,)),
        "DotGatConv": (lambda: nn.DotGatConv(6, 4, 2), (x,)),
        "AGNNConv": (lambda: nn.AGNNConv(0.7), (x,)),
        "GCN2Conv": (lambda: nn.GCN2Conv(6, 2, alpha=0.3, lambda_=0.8), (x, start)),
        "GCN2Conv, two matrices": (
            lambda: nn.GCN2Conv(6, 2, alpha=0.3, lambda_=0.8, project_initial_features=False),
            (x, start),
        ),
        "EGATConv": (lambda: nn.EGATConv(6, 5, 4, 3, 2), (x, e)),
        "EdgeGATConv": (lambda: nn.EdgeGATConv(6, 5, 4, 2), (x, e)),
        "GatedGCNConv": (lambda: nn.GatedGCNConv(6, 5, 4, 0.0), (x, e)),
        "CFConv": (lambda: nn.CFConv(6, 5, 8, 4), (x, e)),
        "PNAConv": (lambda: nn.PNAConv(6, 4, moments, scalers, 2.5), (x,)),
        "DGNConv": (
            lambda: nn.DGNConv(6, 4, ["dir1-av", "dir2-dx", "mean"], scalers, 2.5, num_towers=2),
            (x, None, start[:, :3]),
        ),
        "DGNConv, edges": (
            lambda: nn.DGNConv(6, 6, ["dir3-av", "dir1-dx"], scalers, 2.5, edge_feat_size=5),
            (x, e, start[:, :3]),
        ),
        "AtomicConv": (
            lambda: nn.AtomicConv(weight[:4] + 1, weight[4:8], weight[8:12]),
            (x[:, :1], weight[:, None]),
        ),
        "AtomicConv, types": (
            lambda: nn.AtomicConv(
                weight[:4] + 1, weight[4:8], weight[8:12], torch.tensor([0.0, 1.0])
            ),
            (ntype[:, None].float(), weight[:, None]),
        ),
        "TWIRLSConv": (lambda: nn.TWIRLSConv(6, 4, 8, prop_step=4, num_mlp_before=1), (x,)),
        "TWIRLSConv, attention": (
            lambda: nn.TWIRLSConv(6, 4, 8, 6, attention=True, tau=0.2, T=1, p=1, use_eta=True),
            (x,),
        ),
        "SortPooling": (lambda: nn.SortPooling(3), (x,)),
        "GlobalAttentionPooling": (lambda: nn.GlobalAttentionPooling(linear(6, 1)), (x,)),
        "Set2Set": (lambda: nn.Set2Set(6, 3, 2), (x,)),
        "WeightAndSum": (lambda: nn.WeightAndSum(6), (x,)),
        "SetTransformerEncoder": (lambda: nn.SetTransformerEncoder(6, 2, 3, 8, 2), (x,)),
        "SetTransformerDecoder": (lambda: nn.SetTransformerDecoder(6, 2, 3, 8, 2, 2), (x,)),
        "LabelPropagation": (lambda: nn.LabelPropagation(3, 0.6), (ntype, known)),
    }


def cases_without_graph(nn: Any) -> dict[str, tuple[Any, tuple[Any, ...]]]:
    """The layers of matrices, padded batches, rows and lists."""
    gen = torch.Generator().manual_seed(3)

    def drawn(*size: int) -> torch.Tensor:
        return torch.randn(size, generator=gen)

    def numbers(high: int, *size: int) -> torch.Tensor:
        return torch.randint(high, size, generator=gen)

    adjacency = numbers(2, NODES, NODES).float() + 0.1  # off 1, where the clamp of a degree bends
    both = ((adjacency + adjacency.t()) > 0).float()
    x, rows = drawn(NODES, 6), drawn(2, 5, 6)
    types, bias = numbers(3, NODES), drawn(2, 5, 5, 3)
    hidden = torch.zeros(2, 5, 5).masked_fill(torch.eye(5).bool().roll(1, 0), -torch.inf)
    dist = numbers(5, 2, 5, 5) - 1
    eigenvalues = torch.rand(NODES, 4, generator=gen)
    eigenvalues[: NODES // 2, 3] = torch.nan
    two = {"a": 6, "b": 4}
    return {
        "DenseGraphConv": (lambda: nn.DenseGraphConv(6, 4), (adjacency, x)),
        "DenseSAGEConv": (lambda: nn.DenseSAGEConv(6, 4), (adjacency, x)),
        "DenseChebConv": (lambda: nn.DenseChebConv(6, 4, 3), (both, x, 1.7)),
        "BiasedMHA": (lambda: nn.BiasedMHA(6, 3), (rows, bias, hidden.isinf())),
        "BiasedMHA, products": (lambda: nn.BiasedMHA(6, 3, attn_bias_type="mul"), (rows, bias)),
        "GraphormerLayer": (lambda: nn.GraphormerLayer(6, 8, 3), (rows, bias)),
        "EGTLayer": (lambda: nn.EGTLayer(6, 4, 3, 2), (rows, drawn(2, 5, 5, 4), hidden)),
        "EGTLayer, nodes only": (
            lambda: nn.EGTLayer(6, 4, 2, 0, edge_update=False),
            (rows, drawn(2, 5, 5, 4)),
        ),
        "DegreeEncoder": (lambda: nn.DegreeEncoder(4, 6), (numbers(7, 2, 3, 5),)),
        "DegreeEncoder, in": (lambda: nn.DegreeEncoder(4, 6, "in"), (numbers(7, 3, 5),)),
        "SpatialEncoder": (lambda: nn.SpatialEncoder(3, 2), (dist,)),
        "SpatialEncoder3d": (lambda: nn.SpatialEncoder3d(4, 2, 3), (drawn(2, 5, 3),)),
        "SpatialEncoder3d, types": (
            lambda: nn.SpatialEncoder3d(4, 2, 3),
            (drawn(2, 5, 3), numbers(3, 2, 5)),
        ),
        "PathEncoder": (lambda: nn.PathEncoder(3, 6, 2), (dist, drawn(2, 5, 5, 3, 6))),
        "LapPosEncoder Transformer": (
            lambda: nn.LapPosEncoder("Transformer", 2, 4, 8, n_head=2, num_post_layer=1),
            (eigenvalues, drawn(NODES, 4)),
        ),
        "LapPosEncoder DeepSet": (  # without gradients, which DGL's has not
            lambda: nn.LapPosEncoder("DeepSet", 3, 4, 8, batch_norm=True, num_post_layer=3),
            (eigenvalues, eigenvalues.flip(0)),
        ),
        "TypedLinear": (lambda: nn.TypedLinear(6, 4, 3), (x, types)),
        "TypedLinear basis": (lambda: nn.TypedLinear(6, 4, 3, "basis", 2), (x, types)),
        "TypedLinear bdd": (lambda: nn.TypedLinear(6, 4, 3, "bdd", 2), (x, types)),
        "HeteroLinear": (
            lambda: nn.HeteroLinear(two, 3),
            ({"a": x, "b": drawn(5, 4)},),
        ),
        "HeteroEmbedding": (
            lambda: nn.HeteroEmbedding(two, 3),
            ({"a": numbers(6, 5), "b": numbers(4, 3)},),
        ),
        "JumpingKnowledge lstm": (lambda: nn.JumpingKnowledge("lstm", 6, 2), ([x, x * 2],)),
        "EdgePredictor cat": (lambda: nn.EdgePredictor("cat", 6, 3, bias=True), (x, x + 1)),
        "EdgePredictor ele": (lambda: nn.EdgePredictor("ele", 6, 3, bias=True), (x, x + 1)),
        "TransE": (lambda: nn.TransE(3, 6), (x, x + 1, types)),
        "TransR": (lambda: nn.TransR(3, 4, 6), (x, x + 1, types)),
    }


def run(graphs: Any, name: str, state: dict[str, torch.Tensor] | None) -> dict[str, Any]:
    """The layer's parameters, its results, and the gradients of its float inputs."""
    alone = cases_without_graph(graphs.nn)
    make, args = alone[name] if name in alone else cases(graphs.nn)[name]
    gen = torch.Generator().manual_seed(2)
    loops = torch.arange(NODES)
    src, dst = (torch.cat([torch.randint(NODES, (EDGES,), generator=gen), loops]) for _ in range(2))
    torch.manual_seed(0)
    layer = make().eval()
    if state is not None:
        layer.load_state_dict(state)
    leaves = [_leaf(a) for a in args]
    first = () if name in alone else (graphs.graph((src, dst), num_nodes=NODES),)
    made = layer(*first, *leaves)
    made = tuple(made.values()) if isinstance(made, dict) else made
    made = made if isinstance(made, tuple) else (made,)
    wanted = [leaf for leaf in leaves if isinstance(leaf, torch.Tensor) and leaf.requires_grad]
    grads: tuple[torch.Tensor | None, ...] = ()
    if wanted and any(part.requires_grad for part in made):
        total = sum((part * part.detach().cos()).sum() for part in made)
        grads = torch.autograd.grad(total, wanted, allow_unused=True)
    values = [part.detach().double() for part in made]
    return {
        "state": layer.state_dict(),
        "results": values,
        "gradients": [grad.double() for grad in grads if grad is not None],
    }


def _leaf(argument: Any) -> Any:
    """A copy that takes a gradient, of a tensor of numbers that are all finite."""
    plain = isinstance(argument, torch.Tensor) and argument.is_floating_point()
    return argument.clone().requires_grad_(bool(argument.isfinite().all())) if plain else argument


def difference(ours: list[torch.Tensor], others: list[torch.Tensor]) -> float:
    """The largest difference over the largest number; infinite where shapes differ."""
    if [x.shape for x in ours] != [x.shape for x in others]:
        return float("inf")
    pairs = list(zip(ours, others))
    largest = max((x.abs().max().item() for x in ours if x.numel()), default=0.0)
    apart = max(((x - y).abs().max().item() for x, y in pairs if x.numel()), default=0.0)
    return apart / max(largest, 1e-30)


def other_side(path: str) -> None:
    """In DGL's environment: adds DGL's results to the file."""
    import dgl
    import dgl.nn.pytorch as layers

    dgl.nn = layers
    found = torch.load(path)
    torch.save({name: run(dgl, name, ours["state"]) for name, ours in found.items()}, path)


def main() -> None:
    """Prints the table; the exit code is 1 where a layer differs."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", default="", help="part of the names of the layers")
    parser.add_argument("--other-side", metavar="FILE", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.other_side:
        other_side(options.other_side)
        return
    sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "peers"))
    from environments import interpreter

    import smex.graph as sg

    python = interpreter("dgl")
    if python is None:
        sys.exit("agreement: no environment of DGL; python benchmarks/peers/environments.py dgl")
    every = [*cases(sg.nn), *cases_without_graph(sg.nn)]
    names = [name for name in every if options.only in name]
    ours = {name: run(sg, name, None) for name in names}
    with tempfile.TemporaryDirectory() as folder:
        path = str(pathlib.Path(folder) / "layers.pt")
        torch.save(ours, path)
        subprocess.run([python, __file__, "--other-side", path], check=True)
        theirs = torch.load(path)
    print("| layer | results | gradients |\n| --- | ---: | ---: |")
    differ = []
    for name in names:
        apart = [difference(ours[name][key], theirs[name][key]) for key in ("results", "gradients")]
        print(f"| {name} | {apart[0]:.1e} | {apart[1]:.1e} |")
        differ += [name] if max(apart) > TOLERANCE else []
    print(f"\n{len(names)} layers, {len(differ)} differ{': ' if differ else ''}{', '.join(differ)}")
    sys.exit(bool(differ))


if __name__ == "__main__":
    main()
