"""Forward and backward pass of layers of LSTMs, GRUs and RNNs: eager, and a net of one worker.

    python benchmarks/runtime/recurrent.py [LSTM|GRU|RNN ...] [--threads 1 2] [--hidden ...]
        [--batch ...] [--steps ...] [--rounds 30]

A pass is the output, and the gradients of the parameters, of one layer with as many inputs as
hidden numbers. Eager and the net take turns, a pass at a time. Times are those of the processor
with one thread, so that others on the machine count less, and the wall's with more; the ratio is
that of the least of all rounds. `bound` is the pass's products at the speed of one large product of
oneDNN on as many threads, over the net's time: 1 would be nothing but products. Outputs and
gradients are compared with eager's.
"""

from __future__ import annotations

import argparse
import copy
import itertools
import time
from collections.abc import Callable

import torch

import smex

LAYERS: dict[str, tuple[type[torch.nn.RNNBase], int]] = {
    "LSTM": (torch.nn.LSTM, 4),
    "GRU": (torch.nn.GRU, 3),
    "RNN": (torch.nn.RNN, 1),
}
"""With their numbers of gates."""


def least(run: Callable[[], object], rounds: int, clock: Callable[[], float]) -> float:
    """Returns the least seconds of a run."""
    best = float("inf")
    for _ in range(rounds):
        started = clock()
        run()
        best = min(best, clock() - started)
    return best


def product_flops(clock: Callable[[], float]) -> float:
    """Returns what one large product does in a second."""
    size = 1024
    a, b = torch.randn(size, size), torch.randn(size, size)
    return 2 * size**3 / least(lambda: torch.ops.smex.recurrent_product(a, b), 20, clock)


def passes(module: torch.nn.Module, x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    """Runs the layer forward and backward."""
    for parameter in module.parameters():
        parameter.grad = None
    out = module(x)[0]
    out.backward(weight)
    return out


def compare(net: smex.PartitionedModule, model: torch.nn.Module, outs: list[torch.Tensor]) -> None:
    torch.testing.assert_close(*outs, rtol=1e-3, atol=1e-4)
    for name, grad in net.full_grads().items():
        wanted = model.get_parameter(name).grad
        assert wanted is not None
        assert (grad - wanted).norm() <= 1e-4 * wanted.norm() + 1e-6, name


def measure(name: str, hidden: int, batch: int, steps: int, rounds: int, clock) -> list[float]:
    """Returns the seconds of eager and of the net, and the products' floating-point operations."""
    build, gates = LAYERS[name]
    torch.manual_seed(0)
    model = build(hidden, hidden)
    x, weight = torch.randn(steps, batch, hidden), torch.randn(steps, batch, hidden)
    net = smex.partition(copy.deepcopy(model), workers=1, args=(x,))
    compare(net, model, [passes(net, x, weight), passes(model, x, weight)])
    best = [float("inf"), float("inf")]
    for _ in range(rounds):
        for n, module in enumerate((model, net)):
            best[n] = min(best[n], least(lambda: passes(module, x, weight), 1, clock))  # noqa: B023
    # Forward two products, of input and state; backward these of both, but for the input's own.
    return [*best, 5 * 2 * steps * batch * gates * hidden**2]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(LAYERS)}; all")
    for option, values in {
        "threads": [1, 2],
        "hidden": [64, 128, 256, 512],
        "batch": [1, 16, 64],
        "steps": [16, 128],
    }.items():
        parser.add_argument(f"--{option}", type=int, nargs="+", default=values)
    parser.add_argument("--rounds", type=int, default=30)
    options = parser.parse_args()
    print(f"torch {torch.__version__}, CPU")
    print("| layer | threads | hidden | batch | steps | eager | 1 worker | ratio | bound |")
    print(f"|{' --- |' * 9}")
    for threads in options.threads:
        torch.set_num_threads(threads)
        clock = time.process_time if threads == 1 else time.perf_counter
        speed = product_flops(clock)
        for name, *sizes in itertools.product(
            options.names or LAYERS, options.hidden, options.batch, options.steps
        ):
            eager, net, flops = measure(name, *sizes, options.rounds, clock)
            cells = [name, threads, *sizes, f"{eager * 1e3:.3g} ms", f"{net * 1e3:.3g} ms"]
            cells += [f"{net / eager:.2f}", f"{flops / speed / net:.2f}"]
            print(f"| {' | '.join(map(str, cells))} |", flush=True)


if __name__ == "__main__":
    main()
