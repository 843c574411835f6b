"""Capture, search and predicted seconds of GPT-2 small, Llama-3-8B and a U-Net on H100s.

    python benchmarks/partition/modern.py [--only GPT] [--workers 8 64] [--repeats 5]
    python benchmarks/partition/modern.py --scaling [--deep]
    python benchmarks/partition/modern.py --limited

Nothing is allocated. The batch is as many sequences (images) for each worker, however many workers
there are; machines are nodes of 8 H100 (`smex.Machine.h100_nvlink`), as their data sheet tells.

Without `--scaling`, for each model and number of workers: the seconds of capture and of the search
for the least time (median [min, max] of wall seconds; the bar is 0.5 s), the part of it that the
native library takes, and what it adds to the process's memory; then a table of plans: what an
iteration moves and takes, the part of it that is communication, a worker's peak memory with Adam's
two states, and the seconds of that search. Every planner has the fastest of the meshes: of prime
numbers, one step of all workers, and a step of the nodes and one of the workers within. "Megatron"
are pins by name (Shoeybi et al., 2019): matrices that open a block cut by columns and those that
close it by rows within a node, the batch between nodes; the search chooses the rest.

With `--scaling`: the search's seconds by number of workers, and of a model of ten times as many
layers, with the ratio (the bar is 12); `--deep` does so for Llama too, whose 80 layers take a
minute to capture.

With `--limited`: plans of Llama-3-8B on 64 workers of 80 GB, a step of the nodes and one of the
GPUs within, whose peak with Adam's two states keeps to that; layers may run again in backward.
"""

from __future__ import annotations

import argparse
import dataclasses
import pathlib
import re
import statistics
import sys
import time
from collections.abc import Callable

import torch
from measure import added_memory, words
from torch.nn import functional as F

import smex
from smex import _C

sys.path.insert(0, str(pathlib.Path(__file__).parents[2] / "examples"))
import models

COLUMNS = r"\.(query|key|value|up|gate)\.(weight|bias)$|^(tokens|head)\.weight$"
ROWS = r"\.(proj|out|down)\.weight$"


@dataclasses.dataclass(frozen=True)
class Case:
    """A model, the examples of a batch for each worker, and how they are made."""

    each: int
    build: Callable[[], torch.nn.Module]
    inputs: Callable[[int], tuple[torch.Tensor, torch.Tensor]]
    loss: Callable[[torch.Tensor, torch.Tensor], torch.Tensor]
    transformer: bool = True


def next_token(logits: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
    """Cross entropy of `[N, T, vocab]` and `[N, T]`."""
    return F.cross_entropy(logits.flatten(0, 1), targets.flatten())


def tokens(length: int) -> Callable[[int], tuple[torch.Tensor, torch.Tensor]]:
    """Sequences and what follows them."""
    return lambda batch: (torch.empty(batch, length, dtype=torch.int64),) * 2


def images(batch: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Images of 256×256 and a mask of each."""
    return torch.empty(batch, 3, 256, 256), torch.empty(batch, 1, 256, 256)


def gpt(layers: int = 12) -> torch.nn.Module:
    """GPT-2 small, or deeper."""
    return models.GPT(layers, 768, 12, 50257, 1024, fused_attention=True)


def llama(layers: int = 32) -> torch.nn.Module:
    """Llama-3-8B in bfloat16, or of other depth."""
    return models.Llama.of_size("8B", layers).to(torch.bfloat16)


CASES = {
    "GPT-2 small, 1,024 tokens": Case(8, gpt, tokens(1024), next_token),
    "Llama-3-8B, 4,096 tokens, bfloat16": Case(1, llama, tokens(4096), next_token),
    "U-Net, 64 channels, 256×256": Case(
        4, models.UNet, images, F.binary_cross_entropy_with_logits, transformer=False
    ),
}


def capture(case: Case, workers: int) -> tuple[smex.SemanticGraph, float]:
    """The graph, on the meta device, and the seconds that it took."""
    with torch.device("meta"):
        model, args = case.build(), case.inputs(case.each * workers)
    started = time.perf_counter()
    graph = smex.capture_graph(model, args, loss_fn=case.loss)
    return graph, time.perf_counter() - started


def machine(workers: int) -> smex.Machine:
    """As many H100s in nodes of 8."""
    return smex.Machine.h100_nvlink(nodes=max(1, workers // 8))


def meshes(workers: int) -> list[list[int]]:
    """What a search by time tries: steps of prime numbers, one step, one for each level."""
    tried = [_C.default_mesh(workers, "tofu"), [workers], machine(workers).mesh(workers)]
    return [mesh for n, mesh in enumerate(tried) if mesh not in tried[:n]]


def by_time(graph: smex.SemanticGraph, workers: int, **options: object) -> smex.Plan:
    """The plan of the least time that the search finds by itself."""
    return smex.search(graph, workers, objective="time", machine=machine(workers), **options)


def megatron(graph: smex.SemanticGraph, workers: int) -> smex.Plan:
    """Matrices cut within a node, by columns and then by rows; the batch between nodes."""
    mesh = machine(workers).mesh(workers)
    return by_time(graph, workers, mesh=mesh, pinned=megatron_pins(graph, workers))


def megatron_pins(graph: smex.SemanticGraph, workers: int) -> dict[str, list[int]]:
    """The placements of Megatron's plan."""
    mesh = machine(workers).mesh(workers)
    outer = [-1] * (len(mesh) - 1)
    pins = {}
    for value in graph.captured.with_role("parameter"):
        cut = 0 if re.search(COLUMNS, value.name) else 1 if re.search(ROWS, value.name) else -1
        pins[value.name] = [*outer, cut]
    for value in graph.captured.with_role("input"):
        pins[value.name] = [0] * len(outer) + [-1]
    return pins


def of_planner(graph: smex.SemanticGraph, workers: int, planner: str) -> smex.Plan:
    """The fastest of a planner's plans over the meshes."""
    found = [
        smex.search(graph, workers, planner=planner, machine=machine(workers), mesh=mesh)
        for mesh in meshes(workers)
    ]
    return min(found, key=lambda plan: plan.seconds)


def search_seconds(
    graph: smex.SemanticGraph, workers: int, repeats: int
) -> tuple[list[float], float]:
    """Sorted wall seconds of the search, and the median of the native library's part."""
    wall, native = [], []
    for _ in range(repeats):
        started = time.perf_counter()
        by_time(graph, workers)
        wall.append(time.perf_counter() - started)
        native.append(sum(_searched(graph, workers)))
    return sorted(wall), statistics.median(native)


def _searched(graph: smex.SemanticGraph, workers: int) -> list[float]:
    """Native seconds of the searches of which the fastest plan is returned."""
    plans = [by_time(graph, workers, mesh=mesh) for mesh in meshes(workers)]
    return [plan.search_seconds for plan in plans]


def row(name: str, plan: smex.Plan, took: float) -> str:
    """A line of the table of plans."""
    peak = max(plan.peak_bytes()) + 2 * plan.parameter_bytes()
    fits = "" if peak <= machine(plan.workers).memory else ", does not fit"
    return (
        f"| {name} | {smex.text.mesh_words(plan.mesh)} | {plan.total_bytes / 2**30:.2f} GiB | "
        f"{plan.seconds * 1e3:.1f} ms | {1 - plan.compute_seconds / plan.seconds:.0%} | "
        f"{peak / 2**30:.1f} GiB{fits} | {took:.3f} s |"
    )


def plans(case: Case, graph: smex.SemanticGraph, workers: int) -> None:
    """Prints the table of plans."""
    ways: dict[str, Callable[[], smex.Plan]] = {
        planner: lambda planner=planner: of_planner(graph, workers, planner)
        for planner in ("data_parallel", "fsdp")
    }
    if case.transformer:
        ways["Megatron"] = lambda: megatron(graph, workers)
    ways["tofu by time"] = lambda: by_time(graph, workers)
    if workers > 8:
        primes = _C.default_mesh(workers, "tofu")
        ways["tofu by time, steps of two"] = lambda: by_time(graph, workers, mesh=primes)
    print("| plan | mesh | moves | an iteration takes | communication | peak | search |")
    print("| --- | --- | ---: | ---: | ---: | ---: | ---: |")
    for name, find in ways.items():
        started = time.perf_counter()
        plan = find()
        print(row(name, plan, time.perf_counter() - started), flush=True)
        del plan  # not while the next search is timed


def report(name: str, case: Case, workers: int, repeats: int) -> None:
    """Prints what a model takes on so many workers."""
    graph, captured = capture(case, workers)
    groups, classes = _C.coarse_sizes(graph.native)
    grown = added_memory(lambda: by_time(graph, workers))
    wall, native = search_seconds(graph, workers, repeats)
    print(
        f"\n{name}, {workers} workers, batch {case.each * workers}: {len(graph.captured.ops)} "
        f"calls in {groups} groups of tensors and {classes} classes of calls; capture "
        f"{captured:.1f} s; search {words(wall)}, of which native {native:.3f} s, "
        f"{grown / 2**20:.0f} MiB more memory\n",
        flush=True,
    )
    plans(case, graph, workers)


def report_depth(name: str, case: Case, build: Callable[[int], torch.nn.Module],
                 layers: int, repeats: int) -> None:  # fmt: skip
    """Prints the search's seconds of a model and of one of ten times its depth, on 64 workers."""
    medians = []
    for depth in (layers, 10 * layers):
        deep = dataclasses.replace(case, build=lambda depth=depth: build(depth))
        graph, captured = capture(deep, 64)
        wall, _ = search_seconds(graph, 64, repeats)
        medians.append(statistics.median(wall))
        print(
            f"| {name}, {depth} layers | {len(graph.captured.ops)} | {captured:.1f} s | "
            f"{words(wall)} | {medians[-1] / medians[0]:.1f} |",
            flush=True,
        )


def limited() -> None:
    """Prints plans of Llama-3-8B that keep to the memory of 64 workers."""
    graph, captured = capture(CASES["Llama-3-8B, 4,096 tokens, bfloat16"], 64)
    on = machine(64)
    options = {"mesh": on.mesh(64), "memory_limit": on.memory, "optimizer_states": 2}
    print(f"\ncapture {captured:.1f} s, {len(graph.captured.ops)} calls\n")
    print("| plan | moves | an iteration takes | peak | runs again | search |")
    print("| --- | ---: | ---: | ---: | ---: | ---: |")
    for name, more in {
        "fsdp": {"planner": "fsdp"},
        "Megatron": {"pinned": megatron_pins(graph, 64)},
        "tofu by time": {},
    }.items():
        started = time.perf_counter()
        plan = by_time(graph, 64, **options, **more)
        took = time.perf_counter() - started
        again = sum(plan.graph.native.runs_again())
        print(
            f"| {name} | {plan.total_bytes / 2**30:.2f} GiB | {plan.seconds * 1e3:.1f} ms | "
            f"{plan.peak() / 2**30:.1f} GiB | {again} calls | {took:.1f} s |",
            flush=True,
        )


def scaling(repeats: int, deep: bool) -> None:
    """Prints search seconds by workers and by depth."""
    print("\n| model | workers | search by time | native | search by bytes |")
    print("| --- | ---: | ---: | ---: | ---: |")
    for name, case in CASES.items():
        graph, _ = capture(case, 64)
        for workers in (8, 64, 1024):
            wall, native = search_seconds(graph, workers, repeats)
            by_bytes = sorted(smex.search(graph, workers).search_seconds for _ in range(repeats))
            print(
                f"| {name} | {workers} | {words(wall)} | {native:.3f} s | {words(by_bytes)} |",
                flush=True,
            )
    print("\n| model, 64 workers | calls | capture | search by time | times the search |")
    print("| --- | ---: | ---: | ---: | ---: |")
    cases = list(CASES.values())
    report_depth("GPT", cases[0], gpt, 16, repeats)
    if deep:
        report_depth("Llama", cases[1], llama, 8, repeats)


def main() -> None:
    """Prints what the options ask for."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", default="", help="part of the names of the models")
    parser.add_argument("--workers", type=int, nargs="+", default=[8, 64])
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--scaling", action="store_true", help="seconds by workers and by depth")
    parser.add_argument("--limited", action="store_true", help="plans of Llama that fit 80 GB")
    parser.add_argument("--deep", action="store_true", help="Llama of 8 and 80 layers too")
    options = parser.parse_args()
    print(f"torch {torch.__version__}, {torch.get_num_threads()} threads")
    if options.limited:
        limited()
        return
    if options.scaling:
        scaling(options.repeats, options.deep)
        return
    for name, case in CASES.items():
        for workers in options.workers if options.only in name else []:
            report(name, case, workers, options.repeats)


if __name__ == "__main__":
    main()
