"""What share of SST's sentences a Tree-LSTM with random word vectors labels right.

    python benchmarks/vertex/sst_roots.py --data DATA [--seeds 3] [--epochs 8] [NAME ...]

Trains `examples/vertex/train_sst.py` with some settings and several seeds each, on one thread. Each
run is judged by the test set at the epoch that was best for dev, so the setting that is best for
dev is the one to compare; DATA is as there.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import pathlib
import re
import statistics
import sys

import torch

sys.path.insert(0, str(pathlib.Path(__file__).parents[2] / "examples" / "vertex"))
import train_sst

SETTINGS: dict[str, list[str]] = {
    "N-ary": [],
    "no word hidden": ["--unknown", "0"],
    "a tenth of the words hidden": ["--unknown", "0.1"],
    "child-sum": ["--model", "childsum"],
    "hidden 300, words 300": ["--hidden", "300", "--words", "300"],
    "dropout 0.3": ["--dropout", "0.3"],
    "decay 0.1": ["--decay", "0.1"],
    "rate 0.001": ["--rate", "1e-3"],
    "batch 16": ["--batch", "16"],
}


def trained(options: argparse.Namespace, name: str, seed: int) -> tuple[float, float]:
    """The share of dev's and of test's roots that are right, in percent."""
    told = io.StringIO()
    arguments = ["--data", options.data, "--epochs", str(options.epochs), "--seed", str(seed)]
    with contextlib.redirect_stdout(told):
        test = train_sst.main([*arguments, *SETTINGS[name]])
    return max(map(float, re.findall(r"([0-9.]+) % of dev", told.getvalue()))), test


def spread(numbers: list[float]) -> str:
    """Mean and standard deviation."""
    return f"{statistics.mean(numbers):.1f} ± {statistics.stdev(numbers) if numbers[1:] else 0:.1f}"


def main() -> None:
    """Prints a row for each setting."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(SETTINGS)}")
    parser.add_argument("--data", required=True)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--epochs", type=int, default=8)
    options = parser.parse_args()
    torch.set_num_threads(1)
    print(f"torch {torch.__version__}, seeds 0 to {options.seeds - 1}\n")
    print("| setting | dev, % | test, % |\n|---|---:|---:|")
    for name in options.names or SETTINGS:
        found = [trained(options, name, seed) for seed in range(options.seeds)]
        dev, test = zip(*found, strict=True)
        print(f"| {name} | {spread([*dev])} | {spread([*test])} |", flush=True)


if __name__ == "__main__":
    main()
