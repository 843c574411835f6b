"""Whole tensors in files as Hugging Face has them, written by all processes together."""

from __future__ import annotations

import dataclasses
import itertools
import json
import os
from collections.abc import Callable, Iterator, Mapping, Sequence

import torch

from smex.checkpoint import files
from smex.checkpoint.assignment import Task, assigned, shape_of
from smex.distributed.world import World
from smex.errors import SmexValueError
from smex.execution.saved import Bounds, Saved

WHOLE = "model.safetensors"
INDEX = "model.safetensors.index.json"

Names = Mapping[str, str] | Callable[[str], str | None]
"""By the net's name of a tensor that in a file; None leaves it out."""


def named(names: Names | None, name: str) -> str | None:
    """Returns what a tensor is called in a file."""
    if names is None:
        return name
    return names.get(name, name) if isinstance(names, Mapping) else names(name)


def consolidated(
    tensors: Sequence[Saved], world: World, names: Names | None, max_shard_bytes: int
) -> Whole:
    """Divides whole tensors into files, in their order; none but one tensor alone is larger.

    Raises:
        SmexValueError: two tensors have the same name in the file.
    """
    placed: dict[str, str] = {}
    shards: list[list[files.Piece]] = [[]]
    also: dict[str, str] = {}
    left = max_shard_bytes
    for saved in tensors:
        told = [each for each in (named(names, name) for name in saved.names) if each is not None]
        if not told:
            continue
        if told[0] in placed.values():
            raise SmexValueError(
                f'save: names= calls "{saved.name}" "{told[0]}", as another tensor is called; '
                "give each a name of its own"
            )
        placed[saved.name] = told[0]
        also |= {other: told[0] for other in told[1:] if other != told[0]}
        piece = files.Piece(told[0], saved.dtype, saved.shape)
        if shards[-1] and piece.bytes > left:
            shards.append([])
            left = max_shard_bytes
        shards[-1].append(piece)
        left -= piece.bytes
    # As the library of safetensors does: tied names beside the one that is stored.
    metadata = {"format": "pt", **also}
    count = len(shards)
    made = [
        _File(
            WHOLE if count == 1 else f"model-{number:05}-of-{count:05}.safetensors",
            files.aligned(pieces),
            metadata,
        )
        for number, pieces in enumerate(shards, 1)
    ]
    tasks = [task for task in assigned(tensors, world) if task.saved.name in placed]
    return Whole(made, [task for task in tasks if task.rank == world.rank], placed)


@dataclasses.dataclass
class _File:
    """A file and what is in it."""

    name: str
    pieces: list[files.Piece]
    metadata: dict[str, str]

    def layout(self) -> tuple[bytes, dict[str, int], int]:
        """Returns the header, where each tensor begins, and the size."""
        begin, places = files.header(self.pieces, self.metadata)
        size = len(begin) + sum(piece.bytes for piece in self.pieces)
        return begin, {p.key: place for p, place in zip(self.pieces, places, strict=True)}, size


@dataclasses.dataclass
class Whole:
    """Files of whole tensors, of which this process writes some boxes.

    Attributes:
        files: all of them.
        tasks: the boxes that this process writes.
        names: by the net's name that in the file.
        tiles: copies of the boxes, by task.
    """

    files: list[_File]
    tasks: list[Task]
    names: dict[str, str]
    tiles: dict[int, torch.Tensor] = dataclasses.field(default_factory=dict)

    @property
    def bytes(self) -> int:
        """That this process writes."""
        return sum(task.piece.bytes for task in self.tasks)

    def copy(self) -> None:
        """Copies the boxes of this process to the CPU's memory."""
        for number, task in enumerate(self.tasks):
            self.tiles[number] = task.copied()

    def make(self, folder: str) -> None:
        """Makes all files, with their headers and in their sizes."""
        for file in self.files:
            begin, _, size = file.layout()
            with open(os.path.join(folder, file.name), "xb") as made:
                made.write(begin)
                made.truncate(size)
                made.flush()
                os.fsync(made.fileno())

    def fill(self, folder: str, progress: Callable[[int], None]) -> None:
        """Writes the boxes of this process, and waits until the disk has them."""
        by_name = {self.names[task.saved.name]: [] for task in self.tasks}  # type: ignore[var-annotated]
        for number, task in enumerate(self.tasks):
            by_name[self.names[task.saved.name]].append((number, task))
        for file in self.files:
            _, places, _ = file.layout()
            mine = [(key, each) for key in places for each in by_name.get(key, [])]
            if not mine:
                continue
            descriptor = os.open(os.path.join(folder, file.name), os.O_WRONLY)
            try:
                for key, (number, task) in mine:
                    tile = self.tiles.pop(number) if self.tiles else task.tile()
                    _put(descriptor, places[key], task, tile)
                    progress(task.piece.bytes)
                os.fsync(descriptor)
            finally:
                os.close(descriptor)

    def finish(self, folder: str) -> list[str]:
        """Writes the index where there are several files; returns all names, the last one last."""
        names = [file.name for file in self.files]
        if len(names) == 1:
            return names
        total = sum(piece.bytes for file in self.files for piece in file.pieces)
        index = {
            "metadata": {"total_size": total},
            "weight_map": {piece.key: file.name for file in self.files for piece in file.pieces},
        }
        with open(os.path.join(folder, INDEX), "x") as made:
            json.dump(index, made, indent=1, sort_keys=True)
            made.flush()
            os.fsync(made.fileno())
        return [*names, INDEX]


def _put(descriptor: int, begin: int, task: Task, tile: torch.Tensor) -> None:
    """Writes a box of a whole tensor that begins at a place."""
    data = files.bytes_of(tile)
    run, places = runs(task.saved.shape, task.box)
    size = run * task.saved.dtype.itemsize
    for number, place in enumerate(places):
        part = data[number * size : (number + 1) * size]
        at = begin + place * task.saved.dtype.itemsize
        while part:
            done = os.pwrite(descriptor, part, at)
            part, at = part[done:], at + done


def runs(shape: Sequence[int], box: Bounds) -> tuple[int, Iterator[int]]:
    """Returns of a box how many elements lie in one piece, and where each such piece begins."""
    strides = [1] * len(shape)
    for dim in range(len(shape) - 1, 0, -1):
        strides[dim - 1] = strides[dim] * shape[dim]
    split = len(shape)
    run = 1
    while split > 0:
        split -= 1
        run *= shape_of(box)[split]
        if box[split] != (0, shape[split]):
            break
    corner = sum(lo * stride for (lo, _), stride in zip(box, strides, strict=True))
    outer = [
        [offset * stride for offset in range(hi - lo)]
        for (lo, hi), stride in zip(box[:split], strides[:split], strict=True)
    ]
    return run, (corner + sum(offsets) for offsets in itertools.product(*outer))
