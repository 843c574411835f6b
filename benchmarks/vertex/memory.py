"""Memory of a training step of a vertex function, beside its states and saved activations.

    python benchmarks/vertex/memory.py [--batch 256] [--hidden 256]

For each model of models.py: the states and the activations that autograd saves for the same
batched calls, without what the caller owns (parameters and inputs); what is held between our
forward and backward; the peak of our step above what was there before it and without the gradients
of parameters; and the ratio of the peak to the first. Bytes are those that PyTorch's allocator is
asked for.
"""

from __future__ import annotations

import argparse
import functools

import torch
import torch.nn.functional as F
from models import Model
from torch.profiler import profile
from training import trees_of

import smex.vertex as sv

MODELS = {"tree-lstm": 1.0, "child-sum": 1.0, "tree-fc": 0.125, "var-lstm": 0.5, "fixed-lstm": 0.5}
"""Each with the part of the batch it is measured with, as in training.py's tables."""


def running_bytes(run) -> tuple[list[int], object]:
    """The bytes in use after each allocation and release, from zero, and the function's result."""
    with profile(profile_memory=True) as recorded:
        result = run()
    events = [e for e in recorded.profiler.kineto_results.events() if e.name() == "[memory]"]
    events.sort(key=lambda e: e.start_ns())
    sums, total = [0], 0
    for event in events:
        total += event.nbytes()
        sums.append(total)
    return sums, result


def saved_by_autograd(model: Model) -> int:
    """The bytes of all states and of what autograd saves, each task's calls made by torch."""
    owned = [*model.parameters, model.x]
    own = {t.untyped_storage().data_ptr() for t in owned}
    saved: dict[int, torch.UntypedStorage] = {}

    def keep(tensor: torch.Tensor) -> torch.Tensor:
        storage = tensor.untyped_storage()
        if storage.data_ptr() not in own:
            saved[storage.data_ptr()] = storage  # held, so that no other has its address
        return tensor

    with sv.options(trace=False), torch.autograd.graph.saved_tensors_hooks(keep, lambda x: x):
        sv.run(model.functions, model.graphs, model.inputs)
    return sum(storage.nbytes() for storage in saved.values())


def measured(model: Model) -> tuple[int, int]:
    """The bytes held after forward, and the peak of the step."""
    model.step()  # traces, and makes the schedule

    def forward() -> torch.Tensor:
        result = sv.run(model.functions, model.graphs, model.inputs)
        return F.cross_entropy(result.outputs["out"], model.labels, reduction="sum")

    for p in model.parameters:
        p.grad = None
    first, loss = running_bytes(forward)
    second, _ = running_bytes(functools.partial(loss.backward))
    of_parameters = sum(p.grad.nbytes for p in model.parameters)
    peak = max(max(first), first[-1] + max(second) - of_parameters)
    return first[-1], peak


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--batch", type=int, default=256)
    parser.add_argument("--hidden", type=int, default=256)
    options = parser.parse_args()
    print("| model | states and saved, MB | held, MB | peak, MB | peak of states and saved |")
    print("|---|---:|---:|---:|---:|")
    for name, part in MODELS.items():
        trees = trees_of(name, round(options.batch * part))
        model = Model(name.removeprefix("var-").removeprefix("fixed-"), trees, options.hidden)
        saved = saved_by_autograd(model)
        held, peak = measured(model)
        of_saved = f"{peak / saved:.2f} ×"
        print(f"| {name} | {saved / 1e6:.1f} | {held / 1e6:.1f} | {peak / 1e6:.1f} | {of_saved} |")


if __name__ == "__main__":
    main()
