"""A tensor of a model, cut into the tiles that workers hold."""

from __future__ import annotations

import dataclasses
import enum
import functools
import weakref
from collections.abc import Sequence
from typing import Any

import torch
from torch.utils.weak import WeakIdKeyDictionary

from smex.capture.in_shards import give_up, is_in_shards, take_back
from smex.distributed.relayout import Boxes, Tiles
from smex.errors import SmexRuntimeError

Box = Sequence[tuple[int, int]]


class Keeping(enum.Enum):
    """What becomes of the memory of a model's tensors."""

    OWN = "stays beside the shards"
    SHARED = "is the shards'"
    GIVEN_UP = "is the shards' where they can lie in it, or is given up"


_CUT_BY: WeakIdKeyDictionary = WeakIdKeyDictionary()
"""By tensor of a model a reference to the cut whose values it has."""


@dataclasses.dataclass
class Pieces:
    """The shard that each worker holds, and where these are."""

    tiles: Tiles
    boxes: Boxes

    @functools.cached_property
    def unique(self) -> list[tuple[torch.Tensor, int]]:
        """The distinct shards, each with the first worker that holds it."""
        found: dict[int, tuple[torch.Tensor, int]] = {}
        for worker, tile in enumerate(self.tiles):
            if tile is not None:
                found.setdefault(id(tile), (tile, worker))
        return list(found.values())

    def whole(self, tiles: Tiles | None = None) -> torch.Tensor:
        """Puts the shards together, or others in their places: their gradients.

        Raises:
            SmexRuntimeError: some of them are other processes'.
        """
        if not self.is_here():
            raise SmexRuntimeError(
                f"partition: a tensor of shape {self.shape()} lies in the shards of several "
                "processes and cannot be read from one; every rank calls net.state_dict(), which "
                "gathers it"
            )
        if tiles is None:
            tiles = [None if tile is None else tile.detach() for tile in self.tiles]
        return assembled(self.shape(), self.boxes, tiles)

    def shape(self) -> list[int]:
        """The shape of the whole."""
        boxes = [box for held, box in self.boxes if held]
        return [max(hi for _, hi in dims) for dims in zip(*boxes, strict=True)]

    def is_here(self) -> bool:
        """Whether this process has all there is of the tensor."""
        here = {
            tuple(box)
            for (_, box), tile in zip(self.boxes, self.tiles, strict=True)
            if tile is not None
        }
        return all(
            tuple(box) in here or any(lo == hi for lo, hi in box)
            for held, box in self.boxes
            if held
        ) or any(list(box) == [(0, size) for size in self.shape()] for box in here)

    def write(self, whole: torch.Tensor) -> None:
        """Copies a whole tensor into the shards."""
        with torch.no_grad():
            for tile, worker in self.unique:
                tile.copy_(sliced(whole, self.boxes[worker][1]))


@dataclasses.dataclass
class Cut:
    """A tensor of the model and its shards.

    Shards can be parts of the tensor's memory where each is in one piece, since the kernels of
    optimisers take no others, and on its device. Where the memory is given up and they cannot, the
    tensor is gathered when it is read; of several nets of one model, by the last.

    Attributes:
        source: the model's own.
        pieces: its shards.
        placement: what the plan says.
        keys: under which the shards are registered.
        keeping: what becomes of the source's memory.
    """

    source: torch.Tensor
    pieces: Pieces
    placement: list[int]
    keys: list[str]
    keeping: Keeping

    def __post_init__(self) -> None:
        self._memory = _address(self.source)

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Of a copy, whose source has memory of its own."""
        vars(self).update(state)
        self._memory = _address(self.source)

    @property
    def tiles(self) -> Tiles:
        """The shard that each worker holds."""
        return self.pieces.tiles

    @property
    def boxes(self) -> Boxes:
        """Where these are."""
        return self.pieces.boxes

    @property
    def unique(self) -> list[tuple[torch.Tensor, int]]:
        """The distinct shards, each with the first worker that holds it."""
        return self.pieces.unique

    def whole(self) -> torch.Tensor:
        """The values of the shards, put together."""
        return self.source.detach() if self.is_shared() else self.pieces.whole()

    def copied(self) -> torch.Tensor:
        """The same in memory of its own; what is put together has that already."""
        whole = self.whole()
        is_own = all(whole.data_ptr() != tile.data_ptr() for tile, _ in self.unique)
        return whole if is_own else whole.clone()

    def write(self, whole: torch.Tensor) -> None:
        """Copies a whole tensor into the shards."""
        self.pieces.write(whole)

    def is_shared(self) -> bool:
        """Whether the shards are the source's own memory."""
        parts = self._parts()
        return parts is not None and all(
            part.data_ptr() == tile.data_ptr()
            for part, (tile, _) in zip(parts, self.unique, strict=True)
        )

    def share(self) -> None:
        """Keeps each value once from here on, if that is wanted."""
        if self.keeping is Keeping.OWN:
            return
        parts = self._parts()
        if parts is not None and not self.is_shared():
            for (tile, _), part in zip(self.unique, parts, strict=True):
                tile.data = part.copy_(tile.detach())
        if parts is None and not is_in_shards(self.source):
            give_up(self.source, self.pieces)
        _CUT_BY[self.source] = weakref.ref(self)
        self._memory = _address(self.source)

    def leave(self) -> None:
        """Gives the source memory of its own, with the values that the shards have."""
        if self.keeping is Keeping.OWN:
            with torch.no_grad():
                self.source.copy_(self.whole())
        elif self._has_source():
            take_back(self.source, self.copied())
            del _CUT_BY[self.source]

    def has_other_data(self) -> bool:
        """Whether the source was given other memory (`weight.data = ...`) since this last asked."""
        before, self._memory = self._memory, _address(self.source)
        return before != self._memory

    def fits(self, tensor: torch.Tensor) -> bool:
        """Returns whether another tensor could have been cut like this."""
        source = self.source
        return (
            tensor.shape == source.shape
            and tensor.dtype == source.dtype
            and isinstance(tensor, torch.nn.Parameter) == isinstance(source, torch.nn.Parameter)
        )

    def _has_source(self) -> bool:
        """Whether no other net was made of the source since."""
        return self.source in _CUT_BY and _CUT_BY[self.source]() is self

    def _parts(self) -> list[torch.Tensor] | None:
        """Returns the source's memory that shards can be."""
        if not self.pieces.is_here():
            return None
        boxes = [(self.boxes[worker][1], tile.device) for tile, worker in self.unique]
        return parts_of(self.source, boxes)


def release(tensor: torch.Tensor) -> None:
    """Makes a tensor plain: a net that has its values keeps its shards."""
    _CUT_BY.pop(tensor, None)
    take_back(tensor, tensor.detach().clone())


def _address(tensor: torch.Tensor) -> int | None:
    return None if is_in_shards(tensor) else tensor.data_ptr()


def parts_of(
    whole: torch.Tensor, boxes: Sequence[tuple[Box, torch.device]]
) -> list[torch.Tensor] | None:
    """Returns views of a tensor's boxes where each is in one piece and on the device asked for."""
    if is_in_shards(whole):
        return None
    parts = [sliced(whole.detach(), box) for box, _ in boxes]
    fit = all(
        part.is_contiguous() and part.device == device
        for part, (_, device) in zip(parts, boxes, strict=True)
    )
    return parts if fit else None


def sliced(whole: torch.Tensor, box: Sequence[tuple[int, int]]) -> torch.Tensor:
    """Returns a view of what lies in a box."""
    for dim, (lo, hi) in enumerate(box):
        if lo != 0 or hi != whole.shape[dim]:
            whole = whole.narrow(dim, lo, hi - lo)
    return whole


def assembled(shape: Sequence[int], boxes: Boxes, tiles: Tiles) -> torch.Tensor:
    """Returns the tensor that tiles make up; one that is whole is returned as it is."""
    for (held, box), tile in zip(boxes, tiles, strict=True):
        if (
            held
            and tile is not None
            and all((lo, hi) == (0, size) for (lo, hi), size in zip(box, shape, strict=True))
        ):
            return tile
    first = next(tile for tile in tiles if tile is not None)
    whole = torch.zeros(list(shape), dtype=first.dtype, device=first.device)
    done = set()
    for (held, box), tile in zip(boxes, tiles, strict=True):
        if held and tile is not None and tuple(box) not in done:
            done.add(tuple(box))
            sliced(whole, box).copy_(tile)
    return whole
