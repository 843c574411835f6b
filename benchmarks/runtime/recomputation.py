"""Activation checkpoints and memory limits beside eager PyTorch: time and memory of a step.

    python benchmarks/runtime/recomputation.py [--layers 12] [--tokens 1024] [--rounds 7]

A transformer of layers of 256 with 4 heads, batch 2, float32, forward and backward. "checkpoints"
puts torch.utils.checkpoint around each layer; "limit" gives smex.partition a memory_limit of the
peak of that in place of checkpoints. Eager and 1 worker use all threads, of 2 workers each has one.
Median [min, max] in milliseconds and the median of the ratios to eager of the same kind in the
same round. Memory is the largest number of bytes alive in a step, parameters, input and gradients
included: of eager what the allocator was asked for, of ours what the runtime counted and what the
plan had predicted, per worker; the ratio is of all workers to eager of the same kind. Losses and
gradients are compared with eager's first.
"""

from __future__ import annotations

import argparse
import copy
import statistics
import time
from collections.abc import Callable

import torch
from eager_memory import peak_of_eager
from torch.nn import functional as F
from torch.utils.checkpoint import checkpoint

import smex

WIDTH, HEADS = 256, 4


class Layer(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norms = torch.nn.ModuleList(torch.nn.LayerNorm(WIDTH) for _ in range(2))
        self.qkv, self.out = torch.nn.Linear(WIDTH, 3 * WIDTH), torch.nn.Linear(WIDTH, WIDTH)
        self.up, self.down = torch.nn.Linear(WIDTH, 4 * WIDTH), torch.nn.Linear(4 * WIDTH, WIDTH)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        n, t, d = x.shape
        q, k, v = self.qkv(self.norms[0](x)).view(n, t, 3, HEADS, d // HEADS).permute(2, 0, 3, 1, 4)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(y.transpose(1, 2).reshape(n, t, d))
        return x + self.down(F.gelu(self.up(self.norms[1](x))))


class Transformer(torch.nn.Module):
    def __init__(self, layers: int) -> None:
        super().__init__()
        self.layers = torch.nn.ModuleList(Layer() for _ in range(layers))
        self.checkpoints = False

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for layer in self.layers:
            x = checkpoint(layer, x, use_reentrant=False) if self.checkpoints else layer(x)
        return x


def compare(net: torch.nn.Module, model: torch.nn.Module, x: torch.Tensor, y: torch.Tensor) -> None:
    """Raises where a net's loss or gradients are not the model's."""
    model.zero_grad()
    losses = [net(x, y), F.mse_loss(model(x), y)]
    torch.testing.assert_close(*losses)
    for loss in losses:
        loss.backward()
    grads = net.full_grads()  # type: ignore[operator]
    for key, p in model.named_parameters():
        torch.testing.assert_close(grads[key], p.grad, rtol=1e-3, atol=1e-5)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--layers", type=int, default=12)
    parser.add_argument("--tokens", type=int, default=1024)
    parser.add_argument("--rounds", type=int, default=7)
    options = parser.parse_args()
    torch.manual_seed(0)
    print(f"torch {torch.__version__}, CPU, {torch.get_num_threads()} threads")
    model = Transformer(options.layers)
    x, target = (torch.randn(2, options.tokens, WIDTH) for _ in range(2))
    steps: dict[tuple[str, str], Callable[[], None]] = {}
    peaks: dict[tuple[str, str], list[int]] = {}
    predicted: dict[tuple[str, str], int] = {}
    for kind in ("all kept", "checkpoints", "limit"):
        plain = copy.deepcopy(model)
        plain.checkpoints = kind != "all kept"

        def eager_step(plain=plain) -> None:
            F.mse_loss(plain(x), target).backward()

        steps[kind, "eager"] = eager_step
        peaks[kind, "eager"] = [peak_of_eager(eager_step, plain, [x, target])]
        for workers in (1, 2):
            own = copy.deepcopy(model)
            own.checkpoints = kind == "checkpoints"
            name = f"{workers} worker{'s' * (workers > 1)}"
            limit = max(peaks["checkpoints", name]) if kind == "limit" else None
            net = smex.partition(
                own, workers=workers, loss_fn=F.mse_loss, args=(x, target), memory_limit=limit
            )
            compare(net, plain, x, target)
            steps[kind, name] = lambda net=net: net(x, target).backward()
            peaks[kind, name] = net.stats()["peak_bytes"]
            predicted[kind, name] = max(net.plan.peak_bytes())
    taken: dict[tuple[str, str], list[float]] = {name: [] for name in steps}
    for number in range(options.rounds + 1):
        for each, step in steps.items():
            started = time.perf_counter()
            step()
            if number:  # the first warms up
                taken[each].append((time.perf_counter() - started) * 1e3)
    for (kind, name), times in taken.items():
        eager = kind, "eager"
        ratio = statistics.median(
            mine / other for mine, other in zip(times, taken[eager], strict=True)
        )
        told = f"{predicted[kind, name] / 2**20:.1f}" if name != "eager" else ""
        print(
            f"| {kind} | {name} | {statistics.median(times):.0f} [{min(times):.0f}, "
            f"{max(times):.0f}] | {ratio:.2f} | {max(peaks[kind, name]) / 2**20:.1f} | {told} | "
            f"{sum(peaks[kind, name]) / peaks[eager][0]:.2f} |",
            flush=True,
        )


if __name__ == "__main__":
    main()
