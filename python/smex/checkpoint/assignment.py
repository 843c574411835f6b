"""Which process writes which box."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import torch

from smex.checkpoint.files import Piece
from smex.distributed.world import World
from smex.errors import SmexValueError
from smex.execution.saved import Bounds, Saved, numel


@dataclasses.dataclass
class Task:
    """A box of a tensor that a process writes.

    Attributes:
        saved: the tensor.
        box: of it.
        worker: one that holds it.
        rank: of the process that writes it.
    """

    saved: Saved
    box: Bounds
    worker: int
    rank: int

    @property
    def piece(self) -> Piece:
        """What it is in a file."""
        return Piece(key(self.saved.name, self.box), self.saved.dtype, shape_of(self.box))

    def tile(self) -> torch.Tensor:
        """Returns the values, in the process that writes them.

        Raises:
            SmexValueError: they are not there.
        """
        tile = self.saved.tiles[self.worker]
        if tile is None:
            raise SmexValueError(
                f'save: rank {self.rank} has no "{self.saved.name}" of its worker {self.worker}; '
                "make the optimiser of all of net.parameters() on all ranks"
            )
        return tile.detach()

    def copied(self) -> torch.Tensor:
        """Returns a copy of the values on the CPU."""
        tile = self.tile()
        if tile.device.type != "cpu":
            return tile.cpu()
        return tile.clone(memory_format=torch.contiguous_format)


def key(name: str, box: Bounds) -> str:
    """Returns what a box is called in a file: `fc.weight#0:512,0:1024`."""
    return f"{name}#{','.join(f'{lo}:{hi}' for lo, hi in box)}"


def shape_of(box: Bounds) -> tuple[int, ...]:
    """Returns the sizes of a box."""
    return tuple(hi - lo for lo, hi in box)


def assigned(tensors: Sequence[Saved], world: World) -> list[Task]:
    """Gives every distinct box to one of the processes that hold it.

    Each takes about as many bytes: the largest boxes are given first, to the holder that has the
    fewest bytes so far. All processes come to the same result. O(boxes · workers).
    """
    boxes = [(saved, box, held) for saved in tensors for box, held in saved.holders().items()]
    boxes.sort(key=lambda each: -numel(each[1]) * each[0].dtype.itemsize)
    bytes_by_rank = [0] * world.size
    tasks = []
    for saved, box, holders in boxes:
        worker = min(holders, key=lambda worker: bytes_by_rank[world.ranks[worker]])
        rank = world.ranks[worker]
        bytes_by_rank[rank] += numel(box) * saved.dtype.itemsize
        tasks.append(Task(saved, box, worker, rank))
    return tasks
