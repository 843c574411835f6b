"""Time and memory of a training step: eager PyTorch and 1 and 2 workers, in one run.

    python benchmarks/runtime/train_step.py [--repeats 7] [--only GPT]

Eager and 1 worker use all threads, 2 workers one thread each of two. Median [min, max] in
milliseconds and the median of the ratios to eager in the same round, of which there are as many as
fit into 5 s of eager's time (at least `--repeats`, at most 50); then the peak bytes per worker, and
times the number of workers as a ratio to 1 worker's, whose bound is 1. The first loss is checked
against eager's.
"""

from __future__ import annotations

import argparse
import copy
import pathlib
import statistics
import sys
import time
from collections.abc import Callable

import torch
from torch.nn import functional as F

import smex

sys.path.insert(0, str(pathlib.Path(__file__).parents[2] / "examples"))
import models


def cases() -> dict[str, tuple]:
    """Models with a batch and a loss; a step takes from 10 ms (bound by Python) to a second."""
    images, labels = torch.randn(32, 3, 32, 32), torch.randint(10, (32,))
    tokens, clicks = torch.randint(512, (8, 129)), torch.rand(3072)
    return {
        "WResNet-26-2": (
            models.WResNet(26, 2, 10, 3, base_channels=32, small_stem=True),
            (images, labels),
            F.cross_entropy,
        ),
        "GPT-4, width 256": (
            models.GPT(4, 256, 8, vocab=512, context=128),
            (tokens[:, :-1], tokens[:, 1:]),
            lambda y, t: F.cross_entropy(y.flatten(0, 1), t.flatten()),
        ),
        "U-Net, 16 channels": (
            models.UNet(3, 2, channels=16, depth=3),
            (torch.randn(4, 3, 96, 96), torch.randn(4, 2, 96, 96)),
            F.mse_loss,
        ),
        "DLRM, 8 tables": (
            models.DLRM([20_000] * 8),
            (torch.randn(3072, 13), torch.randint(20_000, (8, 3072, 4)), clicks),
            F.binary_cross_entropy_with_logits,
        ),
        "RNN-2, hidden 64": (
            models.RNN(2, 64),
            (torch.randn(16, 20, 64), torch.randn(16, 20, 64)),
            F.mse_loss,
        ),
        "RNN-3, hidden 512": (
            models.RNN(3, 512),
            (torch.randn(64, 10, 512), torch.randn(64, 10, 512)),
            F.mse_loss,
        ),
    }


def seconds(loss: Callable[[], torch.Tensor]) -> float:
    started = time.perf_counter()
    loss().backward()
    return time.perf_counter() - started


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repeats", type=int, default=7)
    parser.add_argument("--only", default="", help="part of the names of the cases to run")
    options = parser.parse_args()
    repeats = options.repeats
    torch.manual_seed(0)
    print(f"torch {torch.__version__}, CPU, {torch.get_num_threads()} threads")
    chosen = [name for name in cases() if options.only in name]
    for name in chosen:
        model, (*x, y), loss_fn = cases()[name]
        nets = {
            k: smex.partition(copy.deepcopy(model), workers=k, loss_fn=loss_fn, args=(*x, y))
            for k in (1, 2, 4, 8)
        }
        eager = loss_fn(copy.deepcopy(model)(*x), y)
        for net in nets.values():
            torch.testing.assert_close(net(*x, y), eager, rtol=1e-4, atol=1e-5)
            net(*x, y).backward()
        peaks = {k: max(net.stats()["peak_bytes"]) for k, net in nets.items()}
        steps = {
            "eager": lambda m=model, f=loss_fn, x=x, y=y: f(m(*x), y),
            "1 worker": lambda n=nets[1], x=x, y=y: n(*x, y),
            "2 workers": lambda n=nets[2], x=x, y=y: n(*x, y),
        }
        taken: dict[str, list[float]] = {key: [] for key in steps}
        seconds(steps["eager"])
        rounds = max(repeats, min(50, int(5 / seconds(steps["eager"]))))
        for repeat in range(rounds + 1):
            for key, step in steps.items():
                elapsed = seconds(step)
                if repeat:  # the first warms up
                    taken[key].append(elapsed * 1e3)
        for key, times in taken.items():
            ratios = [mine / eager for mine, eager in zip(times, taken["eager"], strict=True)]
            print(
                f"{name}, {key}: {statistics.median(times):.1f} ms [{min(times):.1f}, "
                f"{max(times):.1f}], {statistics.median(ratios):.2f} of eager in the same round"
            )
        for k, peak in peaks.items():
            print(f"{name}, {k} workers: peak {peak / 2**20:.1f} MiB, x{k * peak / peaks[1]:.2f}")


if __name__ == "__main__":
    main()
