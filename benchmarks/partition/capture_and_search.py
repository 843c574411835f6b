"""Seconds to capture and to search WResNet-152-10 and RNN-10-8K, without allocating them.

    python benchmarks/partition/capture_and_search.py [--workers 8] [--repeats 3]

Prints one line a model: graph size, capture (torch's trace and the conversion apart), specs, search
(median, min and max), and the bytes that the plan moves in an iteration.
"""

from __future__ import annotations

import argparse
import pathlib
import statistics
import sys
import time

import torch
from torch.nn import functional as F

import smex

sys.path.insert(0, str(pathlib.Path(__file__).parents[2] / "examples"))
import models


def wresnet() -> tuple[torch.nn.Module, tuple[torch.Tensor, ...]]:
    """WResNet-152 of width 10, batch 32 of ImageNet images."""
    with torch.device("meta"):
        model = models.WResNet(152, 10)
        return model, (torch.empty(32, 3, 224, 224), torch.empty(32, dtype=torch.int64))


def rnn() -> tuple[torch.nn.Module, tuple[torch.Tensor, ...]]:
    """10 LSTM layers of 8192 over 20 steps, batch 128."""
    with torch.device("meta"):
        model = models.RNN(10, 8192)
        return model, (torch.empty(128, 20, 8192), torch.empty(128, 20, 8192))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--workers", type=int, default=8)
    parser.add_argument("--repeats", type=int, default=3)
    options = parser.parse_args()
    cases = {"WResNet-152-10": (wresnet, F.cross_entropy), "RNN-10-8K": (rnn, F.mse_loss)}
    print(
        f"torch {torch.__version__}, {torch.get_num_threads()} threads, {options.workers} workers"
    )
    for name, (build, loss_fn) in cases.items():
        model, args = build()
        started = time.perf_counter()
        captured = smex.capture(model, args, loss_fn=loss_fn)
        captured_at = time.perf_counter()
        graph = smex.SemanticGraph(captured)
        specs = time.perf_counter() - captured_at
        plans = [smex.search(graph, options.workers) for _ in range(options.repeats)]
        seconds = sorted(plan.search_seconds for plan in plans)
        print(
            f"{name}: {len(captured.ops)} ops; capture {captured_at - started:.1f} s "
            f"(trace {captured.timings['trace']:.1f}, convert {captured.timings['convert']:.1f}), "
            f"specs {specs:.1f} s, search {statistics.median(seconds):.2f} s "
            f"[{seconds[0]:.2f}, {seconds[-1]:.2f}], {'exact' if plans[0].exact else 'bounded'}, "
            f"moves {plans[0].total_bytes / 2**30:.2f} GiB"
        )


if __name__ == "__main__":
    main()
