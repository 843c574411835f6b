"""The size of Tofu's models (Table 2): weights, gradients and one optimiser state, in GiB.

    python benchmarks/partition/weights.py

Nothing is allocated. Beside each the paper's figure, the ratio, and whether it is within the bar of
2 % of a number that the paper would round to its figure, of one decimal.
"""

from __future__ import annotations

import pathlib
import sys

import torch

sys.path.insert(0, str(pathlib.Path(__file__).parents[2] / "examples"))
import models

WRESNET = {
    (50, 4): 4.2, (101, 4): 7.8, (152, 4): 10.5,
    (50, 6): 9.6, (101, 6): 17.1, (152, 6): 23.4,
    (50, 8): 17.1, (101, 8): 30.6, (152, 8): 41.7,
    (50, 10): 26.7, (101, 10): 47.7, (152, 10): 65.1,
}  # fmt: skip
RNN = {
    (6, 4): 8.4, (8, 4): 11.4, (10, 4): 14.4,
    (6, 6): 18.6, (8, 6): 28.5, (10, 6): 32.1,
    (6, 8): 33.0, (8, 8): 45.3, (10, 8): 57.0,
}  # fmt: skip

ROUNDING = 0.05  # of the paper's figures, in GiB
BAR = 0.02


def gib(model: torch.nn.Module) -> float:
    """Three times the parameters in float32."""
    return 3 * sum(parameter.numel() * 4 for parameter in model.parameters()) / 2**30


def row(name: str, ours: float, paper: float) -> None:
    """Prints a line of the table."""
    nearest = min(max(ours, paper - ROUNDING), paper + ROUNDING)
    within = "yes" if abs(ours / nearest - 1) <= BAR else "no"
    print(f"| {name} | {ours:.1f} | {paper:.1f} | {ours / paper:.3f} | {within} |", flush=True)


def main() -> None:
    """Prints the table."""
    print("| model | GiB | the paper's | ratio | within 2 % |")
    print("| --- | ---: | ---: | ---: | --- |")
    with torch.device("meta"):
        for (depth, width), paper in WRESNET.items():
            row(f"WResNet-{depth}-{width}", gib(models.WResNet(depth, width)), paper)
        for (layers, thousands), paper in RNN.items():
            model = models.RNN(layers, 1024 * thousands, inputs=1024)
            row(f"RNN-{layers}-{thousands}K", gib(model), paper)


if __name__ == "__main__":
    main()
