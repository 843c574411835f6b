"""Seconds to capture and to search WResNet-152-10 and RNN-10-8K, and the memory of their plans.

    python benchmarks/partition/capture_and_search.py [--workers 8] [--repeats 3] [--no-aot]

Neither model is allocated. For each it prints

* capture beside plain AOT export of the same fake model: median CPU seconds of the process over the
  repeats, and the median of the ratios of neighbouring runs (the bar is 1.30);
* where the time of a capture goes: torch's trace and the conversion to records, wall seconds;
* specs, search for these, 64 and 1,024 workers (wall seconds of all meshes that it tries: median,
  min and max), by how much the process grows, and the bytes that the plans move in an iteration;
* the predicted peak bytes per worker at 1, 2, 4 … workers, and k · peak(k) / peak(1), which is 1
  when memory per worker falls with their number (the bar is 1.10).
"""

from __future__ import annotations

import argparse
import contextlib
import copy
import gc
import pathlib
import statistics
import sys
import time
from collections.abc import Callable

import torch
from measure import added_memory, words
from torch._functorch.aot_autograd import aot_export_joint_with_descriptors
from torch._subclasses import FakeTensorMode
from torch.nn import functional as F

import smex

sys.path.insert(0, str(pathlib.Path(__file__).parents[2] / "examples"))
import models

Case = tuple[torch.nn.Module, tuple[torch.Tensor, ...]]


def wresnet() -> Case:
    """WResNet-152 of width 10, batch 32 of ImageNet images."""
    with torch.device("meta"):
        model = models.WResNet(152, 10)
        return model, (torch.empty(32, 3, 224, 224), torch.empty(32, dtype=torch.int64))


def rnn() -> Case:
    """10 LSTM layers of 8192 over 20 steps, batch 128."""
    with torch.device("meta"):
        model = models.RNN(10, 8192)
        return model, (torch.empty(128, 20, 8192), torch.empty(128, 20, 8192))


class _WithLoss(torch.nn.Module):
    def __init__(self, model: torch.nn.Module, loss_fn: Callable) -> None:
        super().__init__()
        self.model, self.loss_fn = model, loss_fn

    def forward(self, *args: torch.Tensor) -> torch.Tensor:
        return self.loss_fn(self.model(*args[:-1]), args[-1])


def plain_export(
    model: torch.nn.Module, args: tuple[torch.Tensor, ...], loss_fn: Callable
) -> Callable[[], object]:
    """A function that exports forward and backward with torch alone."""
    model = copy.deepcopy(model)
    fake_mode = FakeTensorMode(allow_non_fake_inputs=True)
    with fake_mode:
        for module in model.modules():
            for name, tensor in module._parameters.items():
                if tensor is not None:
                    fake = torch.empty(tensor.shape, dtype=tensor.dtype)
                    module._parameters[name] = torch.nn.Parameter(fake)
            for name, tensor in module._buffers.items():
                if tensor is not None:
                    module._buffers[name] = torch.empty(tensor.shape, dtype=tensor.dtype)
        fakes = tuple(torch.empty(arg.shape, dtype=arg.dtype) for arg in args)
    whole = _WithLoss(model, loss_fn)

    def run() -> object:
        with fake_mode, contextlib.ExitStack() as stack:
            return aot_export_joint_with_descriptors(stack, whole, fakes).graph_module

    return run


def cpu_seconds(run: Callable[[], object]) -> float:
    """CPU seconds of this process; other processes' load matters less than for wall seconds."""
    gc.collect()
    started = time.process_time()
    run()
    return time.process_time() - started


def report_capture(
    name: str, capture: Callable[[], object], export: Callable[[], object], repeats: int
) -> None:
    """Prints capture beside plain export, in alternating order after a first run of both."""
    export(), capture()
    pairs = []
    for i in range(repeats):
        order = [export, capture] if i % 2 == 0 else [capture, export]
        seconds = {run: cpu_seconds(run) for run in order}
        pairs.append((seconds[capture], seconds[export]))
    ratios = sorted(mine / plain for mine, plain in pairs)
    print(
        f"{name}: capture {statistics.median(p[0] for p in pairs):.2f} s beside plain AOT "
        f"{statistics.median(p[1] for p in pairs):.2f} s of CPU, ratio "
        f"{statistics.median(ratios):.2f} [{ratios[0]:.2f}, {ratios[-1]:.2f}]",
        flush=True,
    )


def report_search(name: str, graph: smex.SemanticGraph, workers: int, repeats: int) -> None:
    """Prints wall seconds of the search over all its meshes, and the memory that it adds."""
    grown = added_memory(lambda: smex.search(graph, workers))
    seconds = []
    for _ in range(repeats):
        started = time.perf_counter()
        plan = smex.search(graph, workers)
        seconds.append(time.perf_counter() - started)
    print(
        f"{name}: search for {workers} workers {words(sorted(seconds))}, "
        f"{grown / 2**20:.0f} MiB more memory, {'exact' if plan.exact else 'bounded'}, "
        f"moves {plan.total_bytes / 2**30:.2f} GiB",
        flush=True,
    )


def report_memory(name: str, graph: smex.SemanticGraph, workers: int) -> None:
    """Prints the largest worker's predicted peak for 1, 2, 4 … workers."""
    alone = 0
    k = 1
    while k <= workers:
        peak = max(smex.search(graph, k).peak_bytes())
        alone = alone or peak
        print(
            f"{name}: {k} workers, peak {peak / 2**30:6.2f} GiB each, "
            f"k·peak(k)/peak(1) {k * peak / alone:.3f}",
            flush=True,
        )
        k *= 2


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--workers", type=int, default=8)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--aot", action=argparse.BooleanOptionalAction, default=True)
    options = parser.parse_args()
    cases = {"WResNet-152-10": (wresnet, F.cross_entropy), "RNN-10-8K": (rnn, F.mse_loss)}
    print(
        f"torch {torch.__version__}, {torch.get_num_threads()} threads, {options.workers} workers"
    )
    for name, (build, loss_fn) in cases.items():
        model, args = build()

        def capture(model=model, args=args, loss_fn=loss_fn):
            return smex.capture(model, args, loss_fn=loss_fn)

        if options.aot:
            report_capture(name, capture, plain_export(model, args, loss_fn), options.repeats)
        captured = capture()
        captured_at = time.perf_counter()
        graph = smex.SemanticGraph(captured)
        specs = time.perf_counter() - captured_at
        print(
            f"{name}: {len(captured.ops)} ops; trace {captured.timings['trace']:.2f} s, "
            f"convert {captured.timings['convert']:.2f} s, specs {specs:.2f} s",
            flush=True,
        )
        for workers in (options.workers, 64, 1024):
            report_search(name, graph, workers, options.repeats)
        report_memory(name, graph, options.workers)


if __name__ == "__main__":
    main()
