"""A tensor of a model, cut into the tiles that workers hold."""

from __future__ import annotations

import dataclasses
import functools
import weakref
from collections.abc import Sequence

import torch
from torch.utils.weak import WeakIdKeyDictionary

from smex.capture.in_shards import give_up, is_in_shards, take_back

Tiles = list[torch.Tensor | None]
Boxes = list[tuple[bool, list[tuple[int, int]]]]
"""By worker whether it holds a tile, and the tile's bounds in every dimension."""

Box = Sequence[tuple[int, int]]

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
        """Puts the shards together, or others in their places: their gradients."""
        if tiles is None:
            tiles = [None if tile is None else tile.detach() for tile in self.tiles]
        shape = [0] * len(self.boxes[0][1])
        for held, box in self.boxes:
            if held:
                shape = [max(size, hi) for size, (_, hi) in zip(shape, box, strict=True)]
        return assembled(shape, self.boxes, tiles)

    def write(self, whole: torch.Tensor) -> None:
        """Copies a whole tensor into the shards."""
        with torch.no_grad():
            for tile, worker in self.unique:
                tile.copy_(sliced(whole, self.boxes[worker][1]))


@dataclasses.dataclass
class Cut:
    """A tensor of the model and its shards, which are kept in one memory.

    The shards are parts of the tensor's where they can be: where each is in one piece, since the
    kernels of optimisers take no others, and on its device. Otherwise the tensor has none, and is
    gathered when it is read. Of several nets that are made of one model, it goes with the last.

    Attributes:
        source: the model's own.
        pieces: its shards.
        placement: what the plan says.
        keys: under which the shards are registered.
        is_of_script: whether TorchScript reads the source, which would not gather it.
    """

    source: torch.Tensor
    pieces: Pieces
    placement: list[int]
    keys: list[str]
    is_of_script: bool = False
    _was_shared = False

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
        """Keeps each value once, from here on."""
        parts = self._parts()
        if parts is not None and not self.is_shared():
            for (tile, _), part in zip(self.unique, parts, strict=True):
                tile.data = part.copy_(tile.detach())
        self._was_shared = parts is not None
        if parts is None and not is_in_shards(self.source) and not self.is_of_script:
            give_up(self.source, self.pieces)
        _CUT_BY[self.source] = weakref.ref(self)

    def leave(self) -> None:
        """Gives the source memory of its own, with the values that the shards have."""
        if self._has_source():
            take_back(self.source, self.whole().clone())
            del _CUT_BY[self.source]
        self._was_shared = False

    def has_other_data(self) -> bool:
        """Whether the source was given other memory (`weight.data = ...`)."""
        return self._was_shared and not self.is_shared()

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
        boxes = [(self.boxes[worker][1], tile.device) for tile, worker in self.unique]
        return parts_of(self.source, boxes)


def release(tensor: torch.Tensor) -> None:
    """Makes a tensor plain and free to be cut: a net that was made of it keeps its shards."""
    cut = _CUT_BY.pop(tensor, lambda: None)()
    if cut is not None:
        cut._was_shared = False
    if cut is not None or is_in_shards(tensor):
        take_back(tensor, tensor.detach().clone())


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
