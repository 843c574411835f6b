"""The processes that run one plan together."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import torch.distributed as dist


@dataclasses.dataclass(frozen=True)
class World:
    """Which process is this, and which workers are whose.

    Attributes:
        rank: of this process.
        ranks: by worker the process that runs it, in ascending order.
        control: a group of all processes for small objects and barriers, of tensors on the CPU;
            None where this process is alone.
    """

    rank: int
    ranks: tuple[int, ...]
    control: Any = None

    @staticmethod
    def alone(workers: int) -> World:
        """Returns that of one process, whose threads are all workers."""
        return World(0, (0,) * workers)

    @property
    def size(self) -> int:
        """Number of processes."""
        return self.ranks[-1] + 1

    @property
    def workers(self) -> Sequence[int]:
        """The workers of this process."""
        return [worker for worker, rank in enumerate(self.ranks) if rank == self.rank]

    def gather(self, what: Any) -> list[Any]:
        """Returns what every process passed, by rank; every process calls this."""
        if self.control is None:
            return [what]
        found: list[Any] = [None] * self.size
        dist.all_gather_object(found, what, group=self.control)
        return found

    def barrier(self) -> None:
        """Returns once every process has called it."""
        if self.control is not None:
            dist.barrier(group=self.control)
