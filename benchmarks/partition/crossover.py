"""Where cutting sequences stops being cheaper than cutting columns: at as many rows as columns.

    python benchmarks/partition/crossover.py [--size 256] [--layers 4]

A chain of linear layers `[M, N] -> [M, N]`, forward and backward, every tensor cut, the fewest
bytes. Each layer has three products: of its output, of its input's gradient and of its weight's.
Cut by rows of the batch, each product moves a whole weight or the gradient of one, N·N elements for
every worker but one; cut by columns it moves activations, M·N. Which is cheaper changes at M = N.
For each M the table has how the activations between the layers are cut, how many of the products
are cut by rows, what an iteration moves and the bound 3 · layers · min(M, N) · N. The last rows are
a mesh of two steps, which may cut rows in one and columns in the other.
"""

from __future__ import annotations

import argparse
import dataclasses
import math
from collections.abc import Sequence

import torch

import smex


@dataclasses.dataclass(frozen=True)
class Row:
    """What a search chose for `rows` rows."""

    rows: int
    activations: tuple[str, ...]  # placements of the layers' outputs
    by_rows: int  # products that are cut along the batch in all steps
    products: int
    moved: int  # elements, all workers together
    bound: int  # those of the cheaper of the two ways


def chain(rows: int, size: int, layers: int) -> smex.SemanticGraph:
    """Linear layers without a bias on the meta device, with the gradient of their input."""
    with torch.device("meta"):
        model = torch.nn.Sequential(
            *(torch.nn.Linear(size, size, bias=False) for _ in range(layers))
        )
        return smex.capture_graph(model, (torch.empty(rows, size, requires_grad=True),))


def choose(rows: int, size: int, layers: int, mesh: Sequence[int]) -> Row:
    """The plan that moves the fewest bytes, as a line of the table."""
    graph = chain(rows, size, layers)
    plan = smex.search(graph, math.prod(mesh), mesh=mesh, replicate_bytes=0)
    products = [op for op in graph.captured.ops if op.target == "aten::mm"]
    weights = {tuple(v.shape) for v in graph.captured.values if v.role == "parameter"}
    by_rows = 0
    for position, op in enumerate(products):
        # Backward, the weight's gradient comes before the input's: the rows are what it sums over.
        gradient = op.backward and (position - layers) % 2 == 0
        assert not gradient or graph.captured.values[op.outputs[0]].shape in weights
        names = [index.name for index in graph.native.ops[op.id].spec.indices]
        along = names.index("k" if gradient else "i")
        by_rows += all(choice == along for choice in plan.native.ops[op.id])
    outputs = [op.outputs[0] for op in products if not op.backward]
    return Row(
        rows,
        tuple(smex.text.placement_words(plan.native.values[value], mesh) for value in outputs),
        by_rows,
        len(products),
        plan.total_bytes // 4,
        3 * layers * min(rows, size) * size * (plan.workers - 1),
    )


def main() -> None:
    """Prints a table for each mesh."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--size", type=int, default=256)
    parser.add_argument("--layers", type=int, default=4)
    options = parser.parse_args()
    size = options.size
    print(f"torch {torch.__version__}; {options.layers} layers, N = {size}")
    for mesh in ([2], [4], [2, 2]):
        print(f"\n{smex.text.mesh_words(mesh)} workers\n")
        print("| M | activations | products cut by rows | moved | of the bound |")
        print("| ---: | --- | ---: | ---: | ---: |")
        for share in (0.25, 0.5, 0.75, 1, 1.25, 1.5, 2, 4):
            for rows in [size - 4, size, size + 4] if share == 1 else [int(share * size)]:
                row = choose(rows, size, options.layers, mesh)
                cuts = ", ".join(row.activations)
                print(
                    f"| {row.rows} | {cuts} | {row.by_rows} of {row.products} | {row.moved} | "
                    f"{row.moved / row.bound:.3f} |",
                    flush=True,
                )


if __name__ == "__main__":
    main()
