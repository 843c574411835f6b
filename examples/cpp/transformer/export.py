"""Partitions a transformer, and writes it, inputs and its results for `main.cpp`.

python examples/cpp/transformer/export.py FOLDER [--workers 4]
"""

from __future__ import annotations

import argparse
import pathlib
import sys

import torch

import smex

sys.path.insert(0, str(pathlib.Path(__file__).parents[2]))
import models


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--workers", type=int, default=4)
    options = parser.parse_args()

    torch.manual_seed(0)
    model = models.GPT(layers=2, embed=64, heads=4, vocab=101, context=32).eval()
    tokens = torch.randint(101, (8, 32))
    net = smex.partition(model, workers=options.workers, args=(tokens,))
    with torch.no_grad():
        logits = net(tokens)

    options.folder.mkdir(parents=True, exist_ok=True)
    net.export(options.folder / "model.smex")
    torch.save([tokens], options.folder / "inputs.pt")
    torch.save([logits], options.folder / "expected.pt")
    print(net.plan)


if __name__ == "__main__":
    main()
