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
        name: for messages.
        tiles: by worker; those of other processes are None.
        boxes: where these are.
        wanted: where they are to be.
        dtype: of the tensor, for a process that holds none of it.
    """

    name: str
    tiles: Tiles
    boxes: Boxes
    wanted: Boxes
    dtype: torch.dtype


def relayout(world: World, devices: Sequence[torch.device], moves: Sequence[Move]) -> list[Tiles]:
    """Brings tensors to other tiles; every process calls this with the same moves.

    Returns:
        By move and worker the wanted tile, of this process's workers. One that is there already is
        not copied.
    """
    if not moves:
        return []
    program = relayout_program(
        [
            (
                move.name,
                str(move.dtype).removeprefix("torch."),
                move.dtype.itemsize,
                move.boxes,
                move.wanted,
            )
            for move in moves
        ]
    )
    executor = Executor(
        program, devices=[str(device) for device in devices], take=True, **world.executor_options()
    )
    tiles = [[None if t is None else t.detach() for t in move.tiles] for move in moves]
    session = executor.start(tiles)
    session.run_forward()
    return [session.outputs(n) for n in range(len(moves))]


def whole_at(shape: Sequence[int], workers: Sequence[int], count: int) -> Boxes:
    """Returns the boxes of a tensor that some of `count` workers hold whole."""
    box = [(0, size) for size in shape]
    return [(worker in workers, box if worker in workers else []) for worker in range(count)]
