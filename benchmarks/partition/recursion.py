"""What a recursion of single steps loses, and whether its steps cost more and more (Tofu §5.2).

    python benchmarks/partition/recursion.py

The fewest bytes for 4 workers in two steps of 2: of the paper's recursion, of steps that are chosen
anew given the others (`refine`), of both steps chosen together (`joint=2`), which is the minimum of
all plans on this mesh where "exact" and tensors need not be merged for it, and of one step of 4.
Then for 16 workers the bytes that each step of the recursion adds; the paper's Theorem 2 says that
they never fall.
"""

from __future__ import annotations

import itertools

import modern
import planners
import torch

import smex

GRAPHS = {
    "WResNet-152-10, batch 8": planners.wresnet,
    "RNN-4-8K, batch 512": planners.rnn,
    "GPT-2 small, batch 32": lambda: modern.capture(modern.CASES["GPT-2 small, 1,024 tokens"], 4)[
        0
    ],
    "U-Net, batch 16": lambda: modern.capture(modern.CASES["U-Net, 64 channels, 256×256"], 4)[0],
}


def gib(nbytes: float) -> str:
    """Of bytes, with three decimals."""
    return f"{nbytes / 2**30:.3f}"


def cell(plan: smex.Plan) -> str:
    """Bytes, what is known of them, and the seconds of the search."""
    known = "exact" if plan.exact else f"gap {plan.gap:.0%}"
    return f"{gib(plan.total_bytes)} ({known}, {plan.search_seconds:.2f} s)"


def main() -> None:
    """Prints both tables."""
    print(f"torch {torch.__version__}; bytes in GiB\n")
    print("| model | recursion | refined | both steps together | one step of 4 | lost | refined |")
    print("| --- | ---: | ---: | ---: | ---: | ---: | ---: |")
    graphs = {name: make() for name, make in GRAPHS.items()}
    for name, graph in graphs.items():
        plain = smex.search(graph, 4, mesh=[2, 2], refine=False)
        refined = smex.search(graph, 4, mesh=[2, 2])
        joint = smex.search(graph, 4, mesh=[2, 2], joint=2, refine=False)
        at_once = smex.search(graph, 4, mesh=[4])
        lost = [plan.total_bytes / joint.total_bytes - 1 for plan in (plain, refined)]
        cells = [gib(plain.total_bytes), gib(refined.total_bytes), cell(joint), cell(at_once)]
        print(f"| {name} | {' | '.join(cells)} | {lost[0]:.1%} | {lost[1]:.1%} |", flush=True)
    print("\n| model | step 1 | step 2 | step 3 | step 4 | never falls |")
    print("| --- | ---: | ---: | ---: | ---: | --- |")
    for name, graph in graphs.items():
        steps = smex.search(graph, 16, mesh=[2, 2, 2, 2], refine=False).step_bytes
        rises = all(a <= b for a, b in itertools.pairwise(steps))
        print(
            f"| {name} | {' | '.join(map(gib, steps))} | {'yes' if rises else 'no'} |", flush=True
        )


if __name__ == "__main__":
    main()
