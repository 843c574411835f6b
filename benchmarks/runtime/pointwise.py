"""Chains of element-wise calls: a net that joins them, one that does not, and `torch.compile`.

    python benchmarks/runtime/pointwise.py [NAME ...] [--rows 4096] [--seconds 3] [--no-compile]

Each chain runs forward, without gradients, with one worker and one thread, on float32 of ROWS x
1024 numbers and of 8 x 1024. In a round each takes its turn, so that a busy machine slows all
alike; medians of the thread's CPU time of a call, and of the ratios in the same round. The bound
is the time of a copy of as many bytes as the chain reads and writes. Results are compared with
eager's.
"""

from __future__ import annotations

import argparse
import functools
import statistics
import time
from collections.abc import Callable
from unittest import mock

import torch
from torch.nn import functional as F

import smex
from smex._C import lower

WIDTH, FEW = 1024, 8
Tensors = tuple[torch.Tensor, ...]


def gelu(x: torch.Tensor) -> torch.Tensor:
    return 0.5 * x * (1 + torch.tanh(0.7978845608 * (x + 0.044715 * x * x * x)))


def swiglu(gate: torch.Tensor, up: torch.Tensor) -> torch.Tensor:
    return F.silu(gate) * up


def norm_tail(x: torch.Tensor, scale: torch.Tensor, weight: torch.Tensor, y: torch.Tensor):
    return y + x * scale * weight


def dropout_tail(x: torch.Tensor, mask: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    return y + x * mask * (1 / 0.9)


def adam(p: torch.Tensor, g: torch.Tensor, m: torch.Tensor, v: torch.Tensor) -> Tensors:
    m = 0.9 * m + 0.1 * g
    v = 0.999 * v + 0.001 * g * g
    return p - 0.001 * m / (torch.sqrt(v) + 1e-8), m, v


def cases(rows: int) -> dict[str, tuple[Callable, Tensors]]:
    def whole(count: int) -> Tensors:
        return tuple(torch.rand(count, rows, WIDTH))

    mask = (torch.rand(rows, WIDTH) > 0.1).float()
    x, y = whole(2)
    return {
        "GELU-tanh written out": (gelu, whole(1)),
        "SwiGLU": (swiglu, whole(2)),
        "RMSNorm's tail": (norm_tail, (x, torch.rand(rows, 1), torch.rand(WIDTH), y)),
        "dropout and residual": (dropout_tail, (x, mask, y)),
        "Adam": (adam, whole(4)),
    }


class Chain(torch.nn.Module):
    def __init__(self, function: Callable) -> None:
        super().__init__()
        self.function = function

    def forward(self, *inputs: torch.Tensor) -> torch.Tensor | Tensors:
        return self.function(*inputs)


def contenders(function: Callable, inputs: Tensors, with_compiler: bool) -> dict[str, Callable]:
    joined = smex.partition(Chain(function), args=inputs)
    with mock.patch("smex.planning.placed.lower", functools.partial(lower, join=False)):
        apart = smex.partition(Chain(function), args=inputs)
        apart(*inputs)
    made: dict[str, Callable] = {"eager": function, "apart": apart, "joined": joined}
    if with_compiler:
        made["compiled"] = torch.compile(function)
    for name, each in made.items():
        torch.testing.assert_close(
            each(*inputs),
            function(*inputs),
            rtol=1e-5,
            atol=1e-6,
            msg=lambda m, n=name: f"{n}: {m}",
        )
    return made


def seconds_of(call: Callable, repeats: int) -> float:
    started = time.thread_time()
    for _ in range(repeats):
        call()
    return (time.thread_time() - started) / repeats


def bytes_of(function: Callable, inputs: Tensors) -> int:
    outputs = function(*inputs)
    outputs = outputs if isinstance(outputs, tuple) else (outputs,)
    return sum(t.nbytes for t in (*inputs, *outputs))


@torch.no_grad()
def measure(name: str, rows: int, seconds: float, with_compiler: bool) -> str:
    """Returns the chain's row of the table."""
    function, inputs = cases(rows)[name]
    made = contenders(function, inputs, with_compiler)
    source = torch.rand(max(1, bytes_of(function, inputs) // 8))
    target = torch.empty_like(source)
    calls = {key: functools.partial(each, *inputs) for key, each in made.items()}
    calls["bound"] = lambda: target.copy_(source)
    repeats = {key: max(1, int(2e-3 / seconds_of(call, 3))) for key, call in calls.items()}
    times: dict[str, list[float]] = {key: [] for key in calls}
    ends = time.perf_counter() + seconds
    while time.perf_counter() < ends or len(times["bound"]) < 9:
        for key, call in calls.items():
            times[key].append(seconds_of(call, repeats[key]))
    cells = [name, f"{rows} x {WIDTH}"]
    cells += [f"{statistics.median(times[key]) * 1e6:.4g}" for key in calls]
    for other in ("apart", "compiled", "bound"):
        if other in times:
            pairs = zip(times["joined"], times[other], strict=True)
            cells.append(f"{statistics.median(a / b for a, b in pairs):.2f}")
    return f"| {' | '.join(cells)} |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(cases(1))}; all")
    parser.add_argument("--rows", type=int, default=4096)
    parser.add_argument("--seconds", type=float, default=3, help="that a chain is measured for")
    parser.add_argument("--no-compile", action="store_true", help="leave the compiler out")
    options = parser.parse_args()
    torch.set_num_threads(1)
    torch.manual_seed(0)
    print(f"torch {torch.__version__}, CPU, one thread; microseconds of a call")
    columns = ["chain", "float32", "eager", "apart", "joined", "compiled", "bound"]
    columns += ["joined / apart", "/ compiled", "/ bound"]
    if options.no_compile:
        columns = [column for column in columns if "compiled" not in column]
    print(f"| {' | '.join(columns)} |\n|{' --- |' * len(columns)}")
    for name in options.names or cases(1):
        for rows in (FEW, options.rows):
            print(measure(name, rows, options.seconds, not options.no_compile), flush=True)


if __name__ == "__main__":
    main()
