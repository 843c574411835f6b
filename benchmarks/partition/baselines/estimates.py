"""What an iteration takes: of one worker alone, and of a plan."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Iterable

from baselines.iteration import check, update_seconds
from smex.errors import SmexTypeError, SmexValueError
from smex.planning.machine import Machine
from smex.planning.plan import Plan
from smex.planning.search import search
from smex.planning.semantic import SemanticGraph
from smex.text import size_words


@dataclasses.dataclass(frozen=True)
class Estimate:
    """What one iteration takes.

    Attributes:
        name: of the baseline.
        seconds: of one iteration.
        samples: what all workers together have trained on after it.
        peak_bytes: of the fullest worker, the optimiser's states included.
        moved_bytes: between workers, or to and from the host, of all workers together.
        memory: bytes that a worker has.
    """

    name: str
    seconds: float
    samples: int
    peak_bytes: float
    moved_bytes: float
    memory: float

    @property
    def samples_per_second(self) -> float:
        """The throughput of all workers."""
        return self.samples / self.seconds if self.seconds else math.inf

    @property
    def fits(self) -> bool:
        """Whether a worker has the memory."""
        return self.peak_bytes <= self.memory

    def __repr__(self) -> str:
        peak = size_words(self.peak_bytes)
        if not self.fits:
            peak += f" does not fit {size_words(self.memory)}"
        return (
            f"Estimate({self.name}: {self.samples_per_second:.4g} samples/s, {self.samples} in "
            f"{self.seconds:.4g} s, peak {peak}, moves {size_words(self.moved_bytes)})"
        )


def ideal(graph: SemanticGraph, machine: Machine, *, optimizer_states: float = 0) -> Estimate:
    """Every worker runs the graph's whole batch, communicates nothing and has infinite memory.

    Tofu's Ideal: the throughput of one GPU, at a batch that saturates it, times their number.

    Args:
        graph: what `smex.capture_graph` returns, with the batch of one worker; its samples are the
            first dimension of the first input.
        machine: what it runs on.
        optimizer_states: tensors of each parameter's size that the optimiser keeps, as for
            `smex.search`.

    Raises:
        SmexTypeError: no graph or no machine.
        SmexValueError: a graph without an input of at least one dimension.
    """
    found = _small_batch(graph, machine, optimizer_states)
    return dataclasses.replace(found, name="ideal", memory=math.inf)


def small_batch(graph: SemanticGraph, machine: Machine, *, optimizer_states: float = 0) -> Estimate:
    """Every worker runs the graph's whole batch in its own memory and communicates nothing.

    Tofu's SmallBatch, an upper bound of data parallelism; `largest_fitting` finds its batch.
    Arguments and errors are those of `ideal`.
    """
    return _small_batch(graph, machine, optimizer_states)


def planned(plan: Plan, *, optimizer_states: float = 0) -> Estimate:
    """What a plan that was searched with a machine takes, the update of the parameters included.

    Args:
        plan: with a machine.
        optimizer_states: as for `ideal`; the plan's own are not counted again.

    Raises:
        SmexTypeError: a plan without a machine.
    """
    if plan.machine is None:
        raise SmexTypeError("planned: the plan has no machine; give one to smex.search or plan.on")
    parameters = plan.parameter_bytes()
    return Estimate(
        plan.planner,
        plan.seconds + update_seconds(parameters, plan.machine, optimizer_states),
        samples_of(plan.graph),
        max(plan.peak_bytes()) + optimizer_states * parameters,
        plan.total_bytes,
        plan.machine.memory,
    )


def largest_fitting(
    estimate: Callable[[int], Estimate], batches: Iterable[int]
) -> tuple[int, Estimate] | None:
    """The largest of some batches whose estimate fits, as Tofu chooses them; None if none does.

    Example:
        >>> largest_fitting(lambda n: small_batch(capture(n), machine), [1, 2, 4])  # doctest: +SKIP
        (2, Estimate(small_batch: 31.2 samples/s, 16 in 0.5128 s, peak 9.1 GiB, moves 0 B))
    """
    for batch in sorted(batches, reverse=True):
        found = estimate(batch)
        if found.fits:
            return batch, found
    return None


def samples_of(graph: SemanticGraph) -> int:
    """The first dimension of the first input."""
    inputs = [graph.captured.values[i] for i in graph.captured.inputs]
    if not inputs or not inputs[0].shape:
        raise SmexValueError(
            "baselines: the model's first input has no dimension whose size is the batch's"
        )
    return inputs[0].shape[0]


def _small_batch(graph: SemanticGraph, machine: Machine, optimizer_states: float) -> Estimate:
    check(graph, machine)
    plan = search(graph, 1, machine=machine)
    found = planned(plan, optimizer_states=optimizer_states)
    return dataclasses.replace(
        found, name="small_batch", samples=found.samples * machine.workers, moved_bytes=0
    )
