"""Time and memory of attention beside eager PyTorch: one layer, forward and backward, in one run.

    python benchmarks/runtime/attention.py [--tokens 1024 4096 8192] [--rounds 9] [--causal]

A layer of 8 heads of 64 with its projections, batch 1, float32. Eager and 1 worker use all
threads, of 2 workers each has one; "heads" is the plan that the search finds, in "queries" the
input is cut along the tokens, so that each worker has half of the queries and all keys. In "keys" a
quarter as many queries as keys read another tensor, which is cut along its tokens: each worker
attends to its half of the keys, and the parts merge (that it does is checked). Median
[min, max] in milliseconds and the median of the ratios to eager in the same round. Memory is the
largest number of bytes alive in a step, parameters, input and gradients included: of eager what the
allocator was asked for, of ours what the runtime counted, per worker; the ratio is of all workers
to eager. Losses and gradients are compared with eager's first.
"""

from __future__ import annotations

import argparse
import copy
import pathlib
import statistics
import tempfile
import time
from collections.abc import Callable

import torch
from eager_memory import peak_of_eager
from torch.nn import functional as F

import smex

HEADS, SIZE = 8, 64


class Attention(torch.nn.Module):
    def __init__(self, causal: bool) -> None:
        super().__init__()
        self.causal = causal
        self.qkv = torch.nn.Linear(HEADS * SIZE, 3 * HEADS * SIZE)
        self.out = torch.nn.Linear(HEADS * SIZE, HEADS * SIZE)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        n, t, d = x.shape
        q, k, v = self.qkv(x).view(n, t, 3, HEADS, SIZE).permute(2, 0, 3, 1, 4)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=self.causal)
        return self.out(y.transpose(1, 2).reshape(n, t, d))


class Memory(torch.nn.Module):
    """Attention whose keys and values come from another tensor than the queries."""

    def __init__(self) -> None:
        super().__init__()
        self.q = torch.nn.Linear(HEADS * SIZE, HEADS * SIZE)
        self.kv = torch.nn.Linear(HEADS * SIZE, 2 * HEADS * SIZE)
        self.out = torch.nn.Linear(HEADS * SIZE, HEADS * SIZE)

    def forward(self, x: torch.Tensor, memory: torch.Tensor) -> torch.Tensor:
        n, t, d = x.shape
        q = self.q(x).view(n, t, HEADS, SIZE).transpose(1, 2)
        k, v = self.kv(memory).view(n, memory.shape[1], 2, HEADS, SIZE).permute(2, 0, 3, 1, 4)
        y = F.scaled_dot_product_attention(q, k, v)
        return self.out(y.transpose(1, 2).reshape(n, t, d))


def loss_fn(y: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
    return F.mse_loss(y, target)


def check_keys(net: smex.PartitionedModule, inputs: list[torch.Tensor]) -> None:
    """Raises an error unless the workers merge parts of attention."""
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "trace.json"
        net.trace(path, *inputs)
        if "weigh_part" not in path.read_text():
            raise RuntimeError("the plan does not cut the keys")


def measure(
    tokens: int, model: torch.nn.Module, inputs: list[torch.Tensor], plans: dict[str, dict],
    rounds: int, queries: int,
) -> None:  # fmt: skip
    *given, target = inputs

    def eager_step() -> None:
        loss_fn(model(*given), target).backward()

    peak = peak_of_eager(eager_step, model, inputs)
    steps: dict[str, Callable[[], None]] = {"eager": eager_step}
    nets = {}
    for name, how in plans.items():
        net = smex.partition(copy.deepcopy(model), loss_fn=loss_fn, args=tuple(inputs), **how)
        nets[name] = net
        loss = net(*inputs)
        loss.backward()
        torch.testing.assert_close(loss, loss_fn(model(*given), target))
        for key, p in model.named_parameters():
            torch.testing.assert_close(net.full_grads()[key], p.grad, rtol=1e-3, atol=1e-6)
        if name.endswith("keys"):
            check_keys(net, inputs)
        steps[name] = lambda net=net: net(*inputs).backward()
    taken: dict[str, list[float]] = {name: [] for name in steps}
    for number in range(rounds + 1):
        for name, step in steps.items():
            started = time.perf_counter()
            step()
            if number:  # the first warms up
                taken[name].append((time.perf_counter() - started) * 1e3)
    for name, times in taken.items():
        ratio = statistics.median(
            mine / eager for mine, eager in zip(times, taken["eager"], strict=True)
        )
        peaks = nets[name].stats()["peak_bytes"] if name in nets else [peak]
        print(
            f"| {queries} to {tokens} | {name} | {statistics.median(times):.1f} [{min(times):.1f}, "
            f"{max(times):.1f}] | {ratio:.2f} | {max(peaks) / 2**20:.1f} | "
            f"{sum(peaks) / peak:.2f} |",
            flush=True,
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--tokens", type=int, nargs="+", default=[1024, 4096, 8192])
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--causal", action="store_true")
    options = parser.parse_args()
    torch.manual_seed(0)
    print(f"torch {torch.__version__}, CPU, {torch.get_num_threads()} threads")
    one = {"workers": 1}
    for tokens in options.tokens:
        x, target = (torch.randn(1, tokens, HEADS * SIZE) for _ in range(2))
        plans = {
            "1 worker": one,
            "2 workers, heads": {"workers": 2},
            "2 workers, queries": {"workers": 2, "pins": {"x": 1}},
        }
        measure(tokens, Attention(options.causal), [x, target], plans, options.rounds, tokens)
        few, memory, target = (
            torch.randn(1, n, HEADS * SIZE) for n in (tokens // 4, tokens, tokens // 4)
        )
        plans = {
            "1 worker": one,
            "2 workers, keys": {"workers": 2, "pins": {"x": "R", "memory": 1}},
        }
        measure(tokens, Memory(), [few, memory, target], plans, options.rounds, tokens // 4)


if __name__ == "__main__":
    main()
