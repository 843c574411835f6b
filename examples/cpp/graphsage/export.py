"""Writes GraphSAGE for C++, a graph, and results of sampled nodes for `main.cpp`.

python examples/cpp/graphsage/export.py FOLDER [--compiled]

As TorchScript, or with --compiled as machine code by AOTInductor, which needs a C++ compiler.
"""

from __future__ import annotations

import argparse
import pathlib
import warnings

import torch
from torch import Tensor, nn

import smex.graph as sg


class GraphSAGE(nn.Module):
    """Two layers over blocks, of which `targets` are the numbers of destination nodes.

    These are arguments because a trace has `block.num_dst_nodes()` as a constant.
    """

    def __init__(self, features: int, hidden: int, classes: int) -> None:
        super().__init__()
        self.first = sg.nn.SAGEConv(features, hidden, "mean", activation=torch.relu)
        self.second = sg.nn.SAGEConv(hidden, classes, "mean")

    def forward(self, blocks: list[sg.Graph], targets: list[int], x: Tensor) -> Tensor:
        x = self.first(blocks[0], (x, x[: targets[0]]))
        return self.second(blocks[1], (x, x[: targets[1]]))


class OfTensors(nn.Module):
    """The same of the blocks' tensors: neither kind of program has graphs."""

    def __init__(self, model: GraphSAGE) -> None:
        super().__init__()
        self.model = model

    def forward(
        self, indptr_0: Tensor, indices_0: Tensor, indptr_1: Tensor, indices_1: Tensor, x: Tensor
    ) -> Tensor:
        none = indptr_0.new_empty(0)  # edges are numbered as they lie
        targets = [indptr_0.shape[0] - 1, indptr_1.shape[0] - 1]
        first = sg.create_block(("csc", (indptr_0, indices_0, none)), x.shape[0], targets[0])
        second = sg.create_block(("csc", (indptr_1, indices_1, none)), *targets)
        return self.model([first, second], targets, x)


def script_for(example: tuple[Tensor, ...], module: nn.Module, path: pathlib.Path) -> None:
    """Writes TorchScript."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", torch.jit.TracerWarning)  # of checks of shapes
        torch.jit.trace(module, example, check_trace=False).save(path)


def compile_for(example: tuple[Tensor, ...], module: nn.Module, path: pathlib.Path) -> None:
    """Writes a program for any numbers of nodes and edges, compiled."""
    sizes = ({0: torch.export.Dim.DYNAMIC},) * len(example)
    program = torch.export.export(module, example, dynamic_shapes=sizes)
    torch._inductor.aoti_compile_and_package(program, package_path=str(path))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--compiled", action="store_true", help="by AOTInductor")
    options = parser.parse_args()

    torch.manual_seed(0)
    nodes, edges = 1000, 12000
    source, target = torch.randint(nodes, (2, edges))
    x = torch.randn(nodes, 32)
    model = GraphSAGE(32, 64, 7).eval()

    g = sg.graph((source, target), num_nodes=nodes)
    sampler = sg.dataloading.NeighborSampler([10, 5])
    seeds = torch.arange(0, nodes, 9)
    torch.manual_seed(1)
    inputs, _, blocks = sampler.sample(g, seeds)
    with torch.no_grad():
        expected = model(blocks, [block.num_dst_nodes() for block in blocks], x[inputs])

    # The trace is of other sizes than what C++ calls it with.
    inputs, _, blocks = sampler.sample(g, seeds[:20])
    structure = [part for block in blocks for part in block.adj_tensors("csc")[:2]]
    example = (*structure, x[inputs])
    options.folder.mkdir(parents=True, exist_ok=True)
    # Without gradients, whose edges would be made of sizes of this batch.
    with torch.no_grad():
        if options.compiled:
            compile_for(example, OfTensors(model), options.folder / "model.pt2")
        else:
            script_for(example, OfTensors(model), options.folder / "model.pt")
    torch.save([source, target, x, seeds], options.folder / "inputs.pt")
    torch.save([expected], options.folder / "expected.pt")


if __name__ == "__main__":
    main()
