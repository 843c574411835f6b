"""Tensors that lie in tiles with workers, brought to other tiles."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import torch

from smex._C import Executor, relayout_program
from smex.distributed.world import World

Boxes = list[tuple[bool, list[tuple[int, int]]]]
"""By worker whether it holds a tile, and the tile's bounds in every dimension."""
Tiles = list[torch.Tensor | None]


class Move(NamedTuple):
    """A tensor that is to lie otherwise.

    Attributes:
        boxes: where its tiles are.
        wanted: where they are to be.
        dtype: of the tensor.
        name: for messages.
    """

    boxes: Boxes
    wanted: Boxes
    dtype: torch.dtype
    name: str = ""


class Relayout:
    """Brings tensors to other tiles; every process makes one with the same moves, and runs it.

    Args:
        world: of the processes.
        devices: of the workers.
        moves: one for each tensor.
        net: the number of the net that they are of, see :meth:`World.next_net`.
    """

    def __init__(
        self, world: World, devices: Sequence[torch.device], moves: Sequence[Move], net: int = 0
    ):
        self._net = net
        self._count = len(moves)
        if not moves:
            return
        program = relayout_program(
            [
                (m.name, str(m.dtype).removeprefix("torch."), m.dtype.itemsize, m.boxes, m.wanted)
                for m in moves
            ]
        )
        self._executor = Executor(
            program,
            devices=[str(device) for device in devices],
            take=True,
            **world.executor_options(),
        )

    def run(self, tiles: Sequence[Tiles]) -> list[Tiles]:
        """Returns by move and worker the wanted tile, of this process's workers.

        Args:
            tiles: by move and worker what there is; those of other processes are None. One that is
                wanted as it is, is returned as it is.
        """
        if not self._count:
            return []
        session = self._executor.start(
            [[None if tile is None else tile.detach() for tile in each] for each in tiles],
            net=self._net,
        )
        session.run_forward()
        return [session.outputs(n) for n in range(self._count)]


def whole_at(shape: Sequence[int], workers: Sequence[int], count: int) -> Boxes:
    """Returns the boxes of a tensor that some of `count` workers hold whole."""
    box = [(0, size) for size in shape]
    return [(worker in workers, box if worker in workers else []) for worker in range(count)]
