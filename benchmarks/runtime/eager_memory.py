"""Memory of an eager training step, as its allocator was asked for it."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch.profiler import profile


def peak_of_eager(step: Callable[[], None], model: torch.nn.Module, given: list) -> int:
    """Returns the most bytes alive in a step: parameters, what is given and what is allocated."""
    for p in model.parameters():
        p.grad = None
    with profile(profile_memory=True) as recorded:
        step()
    events = [e for e in recorded.profiler.kineto_results.events() if e.name() == "[memory]"]
    total = most = 0
    for event in sorted(events, key=lambda e: e.start_ns()):
        total += event.nbytes()
        most = max(most, total)
    return most + sum(t.nbytes for t in [*model.parameters(), *given])
