"""Time and memory of attention beside eager PyTorch: one layer, forward and backward, in one run.

    python benchmarks/runtime/attention.py [--tokens 1024 4096 8192] [--rounds 9] [--causal]
        [--kinds plain keys dropout bias]

A layer of 8 heads of 64 with its projections, batch 1, float32. Eager and 1 worker use all
threads, of 2 workers each has one; "heads" is the plan that the search finds, in "queries" the
input is cut along the tokens, so that each worker has half of the queries and all keys. In "keys" a
quarter as many queries as keys read another tensor, which is cut along its tokens: each worker
attends to its half of the keys, and the parts merge (that it does is checked). "dropout" drops a
tenth of the weights, and "bias" adds a trained number for each pair of tokens to the scores of all
heads: eager stores the scores of both, ours does not. Median
[min, max] in milliseconds and the median of the ratios to eager in the same round. Memory is the
largest number of bytes alive in a step, parameters, input and gradients included: of eager what the
allocator was asked for, of ours what the runtime counted, per worker; the ratio is of all workers
to eager. Losses and gradients are compared with eager's first, those with dropout with the same
attention as products on one worker, which draws the same.
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
    def __init__(self, causal: bool = False, dropout: float = 0.0, tokens: int = 0) -> None:
        super().__init__()
        self.causal, self.dropout, self.products = causal, dropout, False
        self.bias = torch.nn.Parameter(torch.randn(tokens, tokens)) if tokens else None
        self.qkv = torch.nn.Linear(HEADS * SIZE, 3 * HEADS * SIZE)
        self.out = torch.nn.Linear(HEADS * SIZE, HEADS * SIZE)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        n, t, d = x.shape
        q, k, v = self.qkv(x).view(n, t, 3, HEADS, SIZE).permute(2, 0, 3, 1, 4)
        if self.products:
            weight = F.dropout((q @ k.transpose(2, 3) / SIZE**0.5).softmax(-1), self.dropout)
            y = weight @ v
        else:
            y = F.scaled_dot_product_attention(
                q, k, v, self.bias, self.dropout, is_causal=self.causal
            )
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


def check(net: smex.PartitionedModule, model: torch.nn.Module, inputs: list[torch.Tensor]) -> None:
    """Raises an error unless loss and gradients are the model's."""
    model.zero_grad()
    reference: torch.nn.Module = model
    if isinstance(model, Attention) and model.dropout:
        products = copy.deepcopy(model)
        products.products = True
        reference = smex.partition(products, 1, loss_fn=loss_fn, args=tuple(inputs))
    torch.manual_seed(1)
    loss = net(*inputs)
    loss.backward()
    torch.manual_seed(1)
    wanted = loss_fn(model(*inputs[:-1]), inputs[-1]) if reference is model else reference(*inputs)
    wanted.backward()
    torch.testing.assert_close(loss, wanted)
    grads = {key: p.grad for key, p in model.named_parameters()}
    if isinstance(reference, smex.PartitionedModule):
        grads = reference.full_grads()
    for key, grad in grads.items():
        torch.testing.assert_close(net.full_grads()[key], grad, rtol=1e-3, atol=1e-6)
    model.zero_grad()
    net.zero_grad()


def measure(
    kind: str, tokens: int, model: torch.nn.Module, inputs: list[torch.Tensor],
    plans: dict[str, dict], rounds: int, queries: int,
) -> None:  # fmt: skip
    *given, target = inputs

    def eager_step() -> None:
        loss_fn(model(*given), target).backward()

    peak = peak_of_eager(eager_step, model, inputs)
    steps: dict[str, Callable[[], None]] = {f"{kind}, eager": eager_step}
    nets = {}
    for name, how in plans.items():
        net = smex.partition(copy.deepcopy(model), loss_fn=loss_fn, args=tuple(inputs), **how)
        nets[name] = net
        check(net, model, inputs)
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
            mine / eager for mine, eager in zip(times, taken[f"{kind}, eager"], strict=True)
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
    parser.add_argument("--kinds", nargs="+", default=["plain", "keys", "dropout", "bias"])
    options = parser.parse_args()
    torch.manual_seed(0)
    print(f"torch {torch.__version__}, CPU, {torch.get_num_threads()} threads")
    one = {"workers": 1}
    for tokens in options.tokens:
        x, target = (torch.randn(1, tokens, HEADS * SIZE) for _ in range(2))
        by_queries = {"workers": 2, "pins": {"x": 1}}
        few, memory, few_target = (
            torch.randn(1, n, HEADS * SIZE) for n in (tokens // 4, tokens, tokens // 4)
        )
        heads, keys = {"workers": 2}, {"workers": 2, "pins": {"x": "R", "memory": 1}}
        cases = {
            "plain": (
                Attention(options.causal), [x, target],
                {"1 worker": one, "2 workers, heads": heads, "2 workers, queries": by_queries},
            ),
            "keys": (
                Memory(), [few, memory, few_target], {"1 worker": one, "2 workers, keys": keys}
            ),
            "dropout": (
                Attention(options.causal, dropout=0.1), [x, target],
                {"1 worker": one, "2 workers": heads},
            ),
            "bias": (
                Attention(tokens=tokens), [x, target], {"1 worker": one, "2 workers": heads}
            ),
        }  # fmt: skip
        for kind in options.kinds:
            model, inputs, how = cases[kind]
            plans = {f"{kind}, {name}": plan for name, plan in how.items()}
            measure(kind, tokens, model, inputs, plans, options.rounds, inputs[0].shape[1])


if __name__ == "__main__":
    main()
