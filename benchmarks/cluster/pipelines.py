"""Pipelines in the order of DeepSpeed's pipeline engine (1F1B), as tasks on devices.

A device of a pipeline is one stage of one replica. Of the steps that `TrainSchedule` counts a stage
takes its forward passes in those of its own parity and its backward passes in the others, and at
the beginning of a step neighbours exchange what the step before has made.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Hashable, Iterator, Sequence

from smex.cluster import Tasks

Instruction = tuple[str, int, int]
"""What is done, by which stage, with which micro-batch."""

WAITS = {
    "forward": ("activation", -1),
    "activation": ("forward", 0),
    "gradient": ("backward", 0),
    "backward": ("gradient", 1),
}
"""What an instruction reads, and how many stages after its own that was done."""


@dataclasses.dataclass(frozen=True)
class Stage:
    """Seconds of one micro-batch: the two passes, and sends to the next and the previous stage."""

    forward: float
    backward: float
    activation: float = 0.0
    gradient: float = 0.0


def turn(step: int, stage: int, stages: int) -> tuple[int, bool]:
    """The micro-batch of a stage in a step, which may not exist, and whether it goes forward."""
    if (step - stage) % 2 == 0:
        return (step - stage) // 2, True
    return (step + 1 + stage) // 2 - stages, False


def instructions(stages: int, micro_batches: int) -> Iterator[Instruction]:
    """Yields what a pipeline does, with what each one reads before it.

    Args:
        stages: how many there are.
        micro_batches: how many each of them has.
    """

    def at(step: int, wanted: bool) -> Iterator[tuple[int, int]]:
        for stage in range(stages):
            micro_batch, is_forward = turn(step, stage, stages)
            if is_forward == wanted and 0 <= micro_batch < micro_batches:
                yield stage, micro_batch

    for step in range(2 * (micro_batches + stages - 1)):
        yield from (("gradient", s, i) for s, i in at(step - 1, False) if s > 0)
        yield from (("activation", s, i) for s, i in at(step - 1, True) if s < stages - 1)
        yield from (("forward", s, i) for s, i in at(step, True))
        yield from (("backward", s, i) for s, i in at(step, False))


def add_pipeline(
    tasks: Tasks,
    stages: Sequence[Stage],
    micro_batches: int,
    replica: int = 0,
    *,
    blocks_receivers: bool = True,
) -> list[Hashable]:
    """Adds a pipeline's tasks on the devices (replica, stage).

    Args:
        tasks: where they are added.
        stages: the seconds of each stage.
        micro_batches: how many there are.
        replica: the number that tells pipelines apart.
        blocks_receivers: whether a send occupies the receiver's device too.

    Returns:
        Their names in an order for `Tasks.schedule`: (what, replica, stage, micro-batch).
    """
    order: list[Hashable] = []
    known = set()
    for what, stage, micro_batch in instructions(len(stages), micro_batches):
        on = [(replica, stage)]
        if blocks_receivers and what in ("activation", "gradient"):
            on.append((replica, stage + (1 if what == "activation" else -1)))
        read, offset = WAITS[what]
        waited = (read, replica, stage + offset, micro_batch)
        name = (what, replica, stage, micro_batch)
        tasks.add(name, getattr(stages[stage], what), on, [waited] if waited in known else [])
        known.add(name)
        order.append(name)
    return order
