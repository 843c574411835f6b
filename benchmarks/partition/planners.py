"""Tofu's plans beside those of the other planners (Tofu §7.3, Figure 10), as the models predict.

    python benchmarks/partition/planners.py

RNN-4-8K at batch 512 and WResNet-152-10 at batch 8, 8 workers of `smex.Machine.k80_pcie()`, the
paper's testbed; nothing is allocated. For each planner the bytes that an iteration moves, its
seconds and the part of them that is communication, the peak memory of a worker (with one more
tensor of the weights' size, the optimiser's) and the seconds of the search. The last rows are the
search of the paper, one step after the other, and those for the least time.
"""

from __future__ import annotations

import pathlib
import sys

import torch
from torch.nn import functional as F

import smex

sys.path.insert(0, str(pathlib.Path(__file__).parents[2] / "examples"))
import models

MACHINE = smex.Machine.k80_pcie()
PLANNERS = (
    *("all_row", "spartan", "equal_chop", "icml18", "data_parallel", "fsdp", "random", "tofu"),
)


def wresnet() -> smex.SemanticGraph:
    """WResNet-152-10, batch 8."""
    with torch.device("meta"):
        args = (torch.empty(8, 3, 224, 224), torch.empty(8, dtype=torch.int64))
        return smex.capture_graph(models.WResNet(152, 10), args, loss_fn=F.cross_entropy)


def rnn() -> smex.SemanticGraph:
    """4 LSTM layers of 8192 over 20 steps, batch 512."""
    with torch.device("meta"):
        args = (torch.empty(512, 20, 8192), torch.empty(512, 20, 8192))
        return smex.capture_graph(models.RNN(4, 8192), args, loss_fn=F.mse_loss)


def row(name: str, plan: smex.Plan) -> str:
    """A line of the table."""
    peak = plan.peak() + plan.parameter_bytes()
    fits = "" if peak <= MACHINE.memory else ", does not fit"
    return (
        f"| {name} | {plan.total_bytes / 2**30:.2f} GiB | {plan.seconds:.2f} s | "
        f"{1 - plan.compute_seconds / plan.seconds:.0%} | {peak / 2**30:.1f} GiB{fits} | "
        f"{plan.search_seconds:.3f} s |"
    )


def main() -> None:
    """Prints a table for each model."""
    print(f"torch {torch.__version__}; {MACHINE}")
    for name, capture in {"RNN-4-8K": rnn, "WResNet-152-10": wresnet}.items():
        graph = capture()
        print(f"\n{name}\n")
        print("| planner | moves | an iteration takes | communication | peak | search |")
        print("| --- | ---: | ---: | ---: | ---: | ---: |")
        for planner in PLANNERS:
            print(row(planner, smex.search(graph, 8, planner=planner, machine=MACHINE)), flush=True)
        paper = smex.search(graph, 8, machine=MACHINE, refine=False)
        print(row("tofu, not refined", paper))
        cut = smex.search(graph, 8, objective="time", machine=MACHINE, replicate_bytes=64 * 1024)
        print(row("tofu by time", cut))
        free = smex.search(graph, 8, objective="time", machine=MACHINE)
        print(row("tofu by time, replicas of any size", free))


if __name__ == "__main__":
    main()
