"""Tofu's Figures 8, 9 and 10 as the cost model predicts them, beside what the paper's text says.

    python benchmarks/partition/figures.py
        [--figure 8 9 10 bytes] [--models RNN-6-4K] [--global-batch]

On 8 workers of `smex.Machine.k80_pcie()`, the paper's testbed; nothing is allocated and nothing
runs. Figures 8 and 9 are throughputs as a part of Ideal's (§7.2): of SmallBatch, Swapping, operator
placement (of RNNs only, as in the paper) and Tofu's plans, each with the largest batch that fits,
in brackets, of 1, 2, 4 … to Ideal's, which is 128 for WResNets and 512 for RNNs. Batches of Ideal,
SmallBatch and Swapping are those of one GPU, whose throughput the paper multiplies by 8; those of
the others are of all GPUs together. With `--global-batch` each GPU of the three has an eighth, the
other way to read the paper; Tofu then exceeds Ideal, an upper bound in the paper, for RNNs. One
tensor of the weights' size is the optimiser's.
Swapping has two columns, by the order in which tensors go: "swap" is the one with knowledge of what
comes next, "lru" the one by last use. "bytes" is what plans of all planners move at the batch of
Tofu's. Each model is captured once.
"""

from __future__ import annotations

import argparse
import functools
import math
import pathlib
import sys
import time

import baselines
import batches
import planners
import torch
from torch.nn import functional as F

import smex

sys.path.insert(0, str(pathlib.Path(__file__).parents[2] / "examples"))
import models

MACHINE = smex.Machine.k80_pcie()
WORKERS = 8
STATES = 1.0
POWERS = [2**n for n in range(10)]
OOM = "OOM"


class Model:
    """A model of the paper: its graph at any batch, and what the text says of it."""

    def __init__(self, name: str, global_batch: bool) -> None:
        kind, depth, width = name.split("-")
        self.name, self.is_rnn = name, kind == "RNN"
        self.depth, self.width = int(depth), int(width.removesuffix("K"))
        most = 512 if self.is_rnn else 128
        self.batches = [n for n in POWERS if n <= most]  # of all workers together
        self.shares = [n for n in POWERS if n <= (most // WORKERS if global_batch else most)]
        self.rates: dict[str, float] = {}  # samples a second, once they are found

    @functools.cached_property
    def captured(self) -> smex.capture.CapturedGraph:
        n = batches.PRIME_BATCH
        with torch.device("meta"):
            if self.is_rnn:
                hidden = 1024 * self.width
                model = models.RNN(self.depth, hidden, inputs=1024)
                args = (torch.empty(n, 20, 1024), torch.empty(n, 20, hidden))
                return smex.capture(model, args, loss_fn=F.mse_loss)
            args = (torch.empty(n, 3, 224, 224), torch.empty(n, dtype=torch.int64))
            return smex.capture(
                models.WResNet(self.depth, self.width), args, loss_fn=F.cross_entropy
            )

    @functools.lru_cache(maxsize=16)  # noqa: B019
    def graph(self, batch: int) -> smex.SemanticGraph:
        return smex.SemanticGraph(batches.at_batch(self.captured, batch))

    # ---- baselines at a batch ----

    @functools.cache  # noqa: B019
    def ideal(self, batch: int) -> baselines.Estimate:
        return baselines.ideal(self.graph(batch), MACHINE, optimizer_states=STATES)

    def small_batch(self, batch: int) -> baselines.Estimate:
        return baselines.small_batch(self.graph(batch), MACHINE, optimizer_states=STATES)

    def swapping(self, batch: int, policy: str) -> baselines.Estimate:
        return baselines.swapping(
            self.graph(batch), MACHINE, optimizer_states=STATES, policy=policy
        )

    def op_placement(self, batch: int) -> baselines.Estimate:
        layers = [f"cells.{layer}" for layer in range(self.depth)]
        return baselines.op_placement(self.graph(batch), MACHINE, layers, optimizer_states=STATES)

    @functools.cache  # noqa: B019
    def tofu(self, batch: int) -> baselines.Estimate:
        whole = self.ideal(batch)  # of one worker that takes the batch of all
        if whole.peak_bytes > WORKERS * MACHINE.memory:  # more than all workers have together
            share = whole.peak_bytes / WORKERS
            return baselines.Estimate("tofu", math.inf, batch, share, 0, MACHINE.memory)
        plan = smex.search(self.graph(batch), WORKERS, machine=MACHINE)
        return baselines.planned(plan, optimizer_states=STATES)

    @functools.cached_property
    def tofu_batch(self) -> int | None:
        found = baselines.largest_fitting(self.tofu, self.batches)
        return found and found[0]

    # ---- what the paper's text says (§7.2) ----

    @property
    def small_batch_fits(self) -> bool | None:
        """None where the text does not say."""
        return None if self.is_rnn else (self.depth, self.width) in ((50, 4), (50, 6), (101, 4))

    @property
    def wins(self) -> list[tuple[str, str]]:
        """Pairs of which the first is faster in the paper."""
        won = [("tofu", "swap")]
        if not self.is_rnn and (self.depth, self.width) in ((50, 4), (101, 4)):
            won.append(("small batch", "tofu"))
        else:
            won.append(("tofu", "small batch"))
        if self.is_rnn:
            won.append(("tofu", "placement"))
        if self.is_rnn and self.width > 4:
            won.append(("placement", "swap"))  # "when the weight size is large"
        return won

    @property
    def out_of_memory(self) -> dict[str, bool]:
        """Whether a baseline is out of memory in the paper, where the text says so."""
        told = {"tofu": False, "swap": False}
        if self.small_batch_fits is not None:
            told["small batch"] = not self.small_batch_fits
        if self.is_rnn:
            told["placement"] = (self.depth, self.width) == (10, 8)
        return told


NAMES = [
    *(f"WResNet-{depth}-{width}" for width in (4, 6, 8, 10) for depth in (50, 101, 152)),
    *(f"RNN-{layers}-{thousands}K" for thousands in (4, 6, 8) for layers in (6, 8, 10)),
]


Found = tuple[int, baselines.Estimate] | None


def cell(found: Found, ideal: float) -> str:
    """`71% (32)`: a part of Ideal's throughput, and the batch."""
    if found is None:
        return OOM
    batch, estimate = found
    return f"{estimate.samples_per_second / ideal:.0%} ({batch})"


def differences(model: Model, found: dict[str, Found]) -> list[str]:
    """Where the order, or what is out of memory, differs from the paper's text."""
    differ = []
    for name, expected in model.out_of_memory.items():
        if (found[name] is None) != expected:
            differ.append(f"{name} {'fits' if expected else 'does not fit'}")
    for first, second in model.wins:
        rates = [f and f[1].samples_per_second for f in (found[first], found[second])]
        if all(rates) and rates[0] <= rates[1]:
            differ.append(f"{second} before {first}")
    return differ


def order(found: dict[str, Found]) -> str:
    """The baselines that fit, the fastest first; without the second kind of swapping."""
    fitting = {n: f[1].samples_per_second for n, f in found.items() if f and n != "lru"}
    return " > ".join(sorted(fitting, key=lambda name: -fitting[name]))


def report(figure: list[Model]) -> list[str]:
    """Prints Figure 8 or 9; returns the differences from the paper."""
    placement = any(model.is_rnn for model in figure)
    names = ["small batch", "swap", "lru", *["placement"] * placement, "tofu"]
    print(
        f"| model | ideal, samples/s | {' | '.join(names)} | order here | otherwise in the paper |"
    )
    print(f"| --- | ---: | {'---: | ' * len(names)}--- | --- |")
    notes = []
    for model in figure:
        ideal = model.ideal(model.shares[-1]).samples_per_second
        by_share = functools.partial(baselines.largest_fitting, batches=model.shares)
        at_once = functools.partial(baselines.largest_fitting, batches=model.batches)
        found: dict[str, Found] = {
            "small batch": by_share(model.small_batch),
            "swap": by_share(functools.partial(model.swapping, policy="belady")),
            "lru": by_share(functools.partial(model.swapping, policy="lru")),
            "placement": at_once(model.op_placement) if model.is_rnn else None,
            "tofu": at_once(model.tofu),
        }
        differ = differences(model, found)
        cells = " | ".join(cell(found[name], ideal) for name in names)
        print(
            f"| {model.name} | {ideal:.4g} | {cells} | {order(found)} | {'; '.join(differ)} |",
            flush=True,
        )
        notes += [f"{model.name}: {text}" for text in differ]
        model.rates = {name: f[1].samples_per_second for name, f in found.items() if f}
        model.rates["ideal"] = ideal
    return notes


def span(figure: list[Model], over: str, under: str) -> str:
    """The least and the most of the ratio of two throughputs."""
    ratios = [
        model.rates[over] / model.rates[under]
        for model in figure
        if over in model.rates and under in model.rates
    ]
    return f"{min(ratios):.0%} to {max(ratios):.0%}" if ratios else "-"


def quotes(rows: list[tuple[str, str, str]]) -> None:
    """Prints what the text says beside what is predicted."""
    print("\n| | paper | predicted |\n| --- | --- | --- |")
    for what, paper, here in rows:
        print(f"| {what} | {paper} | {here} |")


def figure8(chosen: list[Model]) -> None:
    """WResNets."""
    print("\nFigure 8, WResNet, Ideal at batch 128:\n")
    report(chosen)
    quotes([
        ("Tofu, of Ideal", "60% to 95%", span(chosen, "tofu", "ideal")),
        ("Swapping, of Tofu", "37% to 80%", span(chosen, "swap", "tofu")),
        ("the same by last use", "", span(chosen, "lru", "tofu")),
        *(
            (f"SmallBatch, of Tofu, {model.name}", said, span([model], "small batch", "tofu"))
            for model in chosen
            if (said := {"WResNet-50-4": "112%", "WResNet-101-4": "115%"}.get(model.name))
        ),
        *(
            (f"batch of Tofu, {model.name}", said, str(model.tofu_batch))
            for model in chosen
            if (said := {"WResNet-50-4": "128", "WResNet-152-4": "32", "WResNet-152-10": "8"}
                .get(model.name))
        ),
    ])  # fmt: skip


def figure9(chosen: list[Model]) -> None:
    """RNNs."""
    print("\nFigure 9, RNN of 20 steps, Ideal at batch 512:\n")
    report(chosen)
    tofu = {"RNN-6-4K": 210, "RNN-8-4K": 154, "RNN-10-4K": 122}
    placement = {"RNN-6-4K": 107, "RNN-8-4K": 95, "RNN-10-4K": 59}
    rates = [m for m in chosen if m.name in tofu]
    large = [m for m in chosen if m.width > 4]
    quotes([
        ("Tofu, of Ideal", "70% to 98%", span(chosen, "tofu", "ideal")),
        ("operator placement, of Tofu", "38% to 61%", span(chosen, "placement", "tofu")),
        ("Swapping, of Tofu, large weights (6K, 8K)", "23% to 30%", span(large, "swap", "tofu")),
        ("the same by last use", "", span(large, "lru", "tofu")),
        ("Swapping, of placement, large weights (6K, 8K)", "48% to 53%",
         span(large, "swap", "placement")),
        *((f"Tofu, {m.name} (Table 3)", f"{tofu[m.name]} samples/s",
           f"{m.rates['tofu']:.0f}" if "tofu" in m.rates else OOM) for m in rates),
        *((f"operator placement, {m.name} (Table 3)", f"{placement[m.name]} samples/s",
           f"{m.rates['placement']:.0f}" if "placement" in m.rates else OOM) for m in rates),
        *((f"batch of Tofu, {m.name}", "128", str(m.tofu_batch))
          for m in chosen if m.name == "RNN-10-8K"),
    ])  # fmt: skip


def figure10() -> None:
    """Planners, as `planners.py` prints them."""
    print("\nFigure 10, planners:")
    planners.main()


def moved(chosen: list[Model]) -> bool:
    """Prints what plans move; whether Tofu's move the least of those that cut every tensor.

    Data parallelism replicates parameters of any size, which the others may not.
    """
    cutting = ("tofu", "all_row", "spartan", "equal_chop", "icml18", "fsdp")
    print(f"\nBytes that an iteration moves, in GiB, {WORKERS} workers:\n")
    print(f"| model | batch | {' | '.join(cutting)} | data_parallel |")
    print(f"| --- | ---: | {' | '.join(['---:'] * 7)} |")
    less = []
    for model in chosen:
        batch = model.tofu_batch or 1
        plans = {p: smex.search(model.graph(batch), WORKERS, planner=p) for p in cutting}
        least = plans["tofu"].total_bytes
        less += [f"{model.name}: {p}" for p in cutting if plans[p].total_bytes < least]
        cells = [f"{plan.total_bytes / 2**30:.2f}" for plan in plans.values()]
        replicas = smex.search(model.graph(batch), WORKERS, planner="data_parallel")
        kept = replicas.parameter_bytes() * (2 + STATES)
        cells.append(f"{replicas.total_bytes / 2**30:.2f}")
        cells[-1] += ", does not fit" if kept > MACHINE.memory else ""
        print(f"| {model.name} | {batch} | {' | '.join(cells)} |", flush=True)
    print(f"\nmoves less than Tofu's plan and cuts every tensor: {', '.join(less) or 'none'}")
    return not less


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    figures = ("8", "9", "10", "bytes")
    parser.add_argument("--figure", nargs="+", choices=figures, default=figures)
    parser.add_argument("--models", nargs="+", choices=NAMES, default=NAMES, metavar="MODEL")
    parser.add_argument(
        "--global-batch", action="store_true", help="Ideal's batch is that of all GPUs"
    )
    options = parser.parse_args()
    started = time.perf_counter()
    chosen = [Model(name, options.global_batch) for name in options.models]
    print(f"torch {torch.__version__}; {MACHINE}")
    if "8" in options.figure:
        figure8([model for model in chosen if not model.is_rnn])
    if "9" in options.figure:
        figure9([model for model in chosen if model.is_rnn])
    least = moved(chosen) if "bytes" in options.figure else True
    if "10" in options.figure:
        figure10()
    print(f"\n{time.perf_counter() - started:.0f} s")
    sys.exit(not least)


if __name__ == "__main__":
    main()
