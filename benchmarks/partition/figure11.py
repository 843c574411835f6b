"""How WResNet-152-10 is cut for 8 workers, layer by layer, as a page (Tofu §7.4, Figure 11).

    python benchmarks/partition/figure11.py [--out figure11.html]

Batch 8 on `smex.Machine.k80_pcie()`, the paper's testbed; nothing is allocated. The section
"Layers" of the page is the figure. Prints for each convolution the placements of its weight and of
the activations that it reads and makes (S0 of a weight: output channels, S1: input channels; of an
activation the batch and the channels), and the index along which each step divides the call: n the
batch, co and ci the output and input channels. Neighbouring blocks that are alike are one line.
"""

from __future__ import annotations

import argparse
import pathlib
import re

from planners import MACHINE, wresnet

import smex


def rows(plan: smex.Plan) -> list[tuple[str, ...]]:
    """For each forward convolution its module and what is said of it."""
    found = []
    for op, native in zip(plan.graph.captured.ops, plan.graph.native.ops):
        if op.target == "aten::convolution":
            tensors = (native.inputs[1], native.inputs[0], native.outputs[0])
            cells = [smex.text.placement_words(plan.value_choices[i], plan.mesh) for i in tensors]
            split = smex.text.strategy_words(native.spec, plan.op_choices[op.id])
            found.append((op.module_path, *(cell.replace("/2", "") for cell in cells), split))
    return found


def blocks(lines: list[tuple[str, ...]]) -> list[tuple[str, int, list[tuple[str, ...]]]]:
    """Residual blocks in order: the first of those that are alike, how many, and its lines."""
    found: list[tuple[str, int, list[tuple[str, ...]]]] = []
    for module, *cells in lines:
        block, _, layer = re.fullmatch(r"(layer\d\.\d+)?(\.?)(.*)", module).groups()
        if found and found[-1][0] == block and block:
            found[-1][2].append((layer, *cells))
        else:
            found.append((block or "", 1, [(layer, *cells)]))
    merged = found[:1]
    for block, _, inside in found[1:]:
        first, count, before = merged[-1]
        if inside == before and block.partition(".")[0] == first.partition(".")[0]:
            merged[-1] = (first, count + 1, before)
        else:
            merged.append((block, 1, inside))
    return merged


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=pathlib.Path, default=pathlib.Path("figure11.html"))
    options = parser.parse_args()
    plan = smex.search(wresnet(), 8, machine=MACHINE)
    print(plan.summary())
    print(
        "\n| convolution | weight | reads | makes | divided by |\n| --- | --- | --- | --- | --- |"
    )
    for block, count, inside in blocks(rows(plan)):
        for layer, *cells in inside:
            name = ".".join(filter(None, (block, layer)))
            repeated = f" × {count}" if count > 1 else ""
            print(f"| {name}{repeated} | {' | '.join(cells)} |")
    print(f"\n{plan.show(options.out)}")


if __name__ == "__main__":
    main()
