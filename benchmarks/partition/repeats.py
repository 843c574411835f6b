"""Seconds to capture deep models and long loops, with equal calls traced once and with each traced.

    python benchmarks/partition/repeats.py [--repeats 3] [--only GPT]
    python benchmarks/partition/repeats.py --plan

Nothing is allocated. For each model the least CPU seconds of the process over the repeats, in which
both ways alternate; "copies" are calls of modules that were not traced. The row of Hugging Face's
Llama is there where transformers is installed. A loop's row of 128 steps also has its ratio to that
of 16.

With `--plan`: Llama-3-405B on 1,024 workers, wall seconds of capture, Specs and search, without a
limit and within 80 GB with Adam's two states, where calls run again; CPU seconds beside them.
"""

from __future__ import annotations

import argparse
import gc
import importlib.util
import pathlib
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch.nn import functional as F

import smex

sys.path.insert(0, str(pathlib.Path(__file__).parents[2] / "examples"))
import models

Case = tuple[torch.nn.Module, tuple[torch.Tensor, ...], Callable | None]


def next_token(logits: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
    """Cross entropy of `[N, T, vocab]` and `[N, T]`."""
    return F.cross_entropy(logits.flatten(0, 1), targets.flatten())


def tokens(batch: int, length: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Sequences and what follows them."""
    return (torch.empty(batch, length, dtype=torch.int64),) * 2


def llama(size: str) -> torch.nn.Module:
    """Llama 3 in bfloat16."""
    return models.Llama.of_size(size).to(torch.bfloat16)


def hugging_face() -> Case:
    """Llama-3-8B of transformers, without a cache of keys and values."""
    import transformers

    config = transformers.LlamaConfig(
        vocab_size=128256,
        hidden_size=4096,
        intermediate_size=14336,
        num_hidden_layers=32,
        num_attention_heads=32,
        num_key_value_heads=8,
        use_cache=False,
        return_dict=False,
    )
    return transformers.LlamaForCausalLM(config).to(torch.bfloat16), tokens(1, 4096)[:1], None


def loop(model: torch.nn.Module, steps: int) -> Case:
    """A recurrent network over so many steps."""
    return model, (torch.empty(8, steps, 1024),), None


def cases() -> dict[str, Callable[[], Case]]:
    """By name what makes a model and its arguments, on the meta device."""
    found: dict[str, Callable[[], Case]] = {
        "GPT, 160 layers": lambda: (
            models.GPT(160, 768, 12, 50257, 1024, fused_attention=True),
            tokens(8, 1024),
            next_token,
        ),
        "Llama-3-8B": lambda: (llama("8B"), tokens(8, 4096), next_token),
    }
    if importlib.util.find_spec("transformers"):
        found["Llama-3-8B of transformers"] = hugging_face
    for steps in (16, 128):
        found[f"LSTM cells in a loop, {steps} steps"] = lambda n=steps: loop(models.RNN(1, 1024), n)
    for steps in (16, 128):
        found[f"nn.LSTM, {steps} steps"] = lambda n=steps: loop(
            torch.nn.LSTM(1024, 1024, batch_first=True), n
        )
    return found


def seconds(case: Case, repeats: bool) -> tuple[float, Any]:
    """CPU seconds of one capture, and the graph."""
    model, args, loss_fn = case
    gc.collect()
    started = time.process_time()
    graph = smex.capture(model, args, loss_fn=loss_fn, repeats=repeats)
    return time.process_time() - started, graph


def rows(only: str, repeats: int) -> Iterator[str]:
    """Yields the table, a line at a time."""
    yield "| model | calls | copies | each call traced | equal calls copied | ratio |"
    yield "| --- | ---: | ---: | ---: | ---: | ---: |"
    before = [0.0, 0.0]
    for name, make in cases().items():
        if only not in name:
            continue
        with torch.device("meta"):
            case = make()
        least = [float("inf")] * 2
        for _ in range(repeats):
            for n, copied in enumerate((False, True)):
                took, graph = seconds(case, copied)
                least[n] = min(least[n], took)
        text = [f"{took:.2f} s" for took in least]
        if "128 steps" in name:
            text = [f"{t} ({a / b:.1f} ×)" for t, a, b in zip(text, least, before, strict=True)]
        yield (
            f"| {name} | {len(graph.ops)} | {graph.copies} | {text[0]} | {text[1]} | "
            f"{least[0] / least[1]:.1f} |"
        )
        before = least


def plan() -> None:
    """Prints where the seconds of a plan for Llama-3-405B go."""
    with torch.device("meta"):
        model, args = llama("405B"), tokens(1024, 4096)
    marks = [time.perf_counter()]
    captured = smex.capture(model, args, loss_fn=next_token)
    marks.append(time.perf_counter())
    graph = smex.SemanticGraph(captured)
    marks.append(time.perf_counter())
    print(
        f"Llama-3-405B: {len(captured.ops)} calls; capture {marks[1] - marks[0]:.1f} s "
        f"(trace {captured.timings['trace']:.1f} s, convert {captured.timings['convert']:.1f} s), "
        f"specs {marks[2] - marks[1]:.1f} s",
        flush=True,
    )
    for words, options in {
        "search for 1,024 workers": {},
        "within 80 GB": {"memory_limit": 80e9, "optimizer_states": 2},
    }.items():
        started, cpu = time.perf_counter(), time.process_time()
        found = smex.search(graph, 1024, **options)
        took = time.perf_counter() - started, time.process_time() - cpu
        again = sum(found.graph.native.runs_again())
        print(
            f"{words} {took[0]:.1f} s, CPU {took[1]:.1f} s, of the last search native "
            f"{found.search_seconds:.1f} s; moves {found.total_bytes / 2**40:.0f} TiB, peak "
            f"{found.peak() / 1e9:.1f} GB, {again} calls run again, gap {found.native.gap:.0%}",
            flush=True,
        )


def main() -> None:
    """Prints what the options ask for."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", default="", help="part of the names of the models")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--plan", action="store_true", help="Llama-3-405B on 1,024 workers")
    options = parser.parse_args()
    print(f"torch {torch.__version__}, {torch.get_num_threads()} threads")
    if options.plan:
        plan()
        return
    for row in rows(options.only, options.repeats):
        print(row, flush=True)


if __name__ == "__main__":
    main()
