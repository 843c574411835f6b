"""A model's parameters and buffers, cut into the tiles that workers hold."""

from __future__ import annotations

import contextlib
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import torch

from smex.capture.swap import StateSlot, all_slots, loss_prefix, swapped
from smex.errors import SmexRuntimeError, SmexValueError

Tiles = list[torch.Tensor | None]
Boxes = list[tuple[bool, list[tuple[int, int]]]]
"""By worker whether it holds a tile, and the tile's bounds in every dimension."""


class ShardedState:
    """The shards of a model's tensors, which the model's own names lead to.

    A shard is registered with `owner` for each distinct tile and device; replicas share it. The
    model's own tensors stay what they were when they were cut.

    Attributes:
        tiles: of each tensor the shard that each worker holds.
        boxes: of each tensor where these are.
        placements: of each tensor what the plan says.
        devices: of the workers.
    """

    def __init__(
        self,
        owner: torch.nn.Module,
        model: torch.nn.Module,
        loss_fn: Callable | None,
        devices: Sequence[torch.device],
    ):
        self.tiles: dict[str, Tiles] = {}
        self.boxes: dict[str, Boxes] = {}
        self.placements: dict[str, list[int]] = {}
        self.prefix = loss_prefix(model)
        self._keys: dict[str, list[str]] = {}  # under which the shards of a tensor are registered
        self._names: dict[str, str] = {}  # of registered shards: as `named_parameters` tells them
        self._sources: dict[str, torch.Tensor] = {}  # the model's own that was cut
        self._owner = owner
        self._model = model
        self._loss_fn = loss_fn
        self.devices = devices
        self._parameters: list[tuple[str, torch.Tensor]] = []
        self._trained: list[torch.Tensor] = []  # for each parameter what tells whether it is
        self._flags: list[bool] = []
        self._list_parameters(self._slots())

    def _slots(self) -> list[StateSlot]:
        return all_slots(self._model, self._loss_fn)

    def _list_parameters(self, slots: list[StateSlot]) -> None:
        self._parameters = [(s.names[0], s.tensor) for s in slots if s.role == "parameter"]
        self._flags = [parameter.requires_grad for _, parameter in self._parameters]
        self._trained = [
            self.unique(name)[0][0] if name in self.tiles else parameter
            for name, parameter in self._parameters
        ]

    # ---- shards ----

    def cut(
        self, names: Sequence[str], boxes: Sequence[Boxes], placements: Sequence[list[int]]
    ) -> None:
        """Makes the shards of tensors of the model, of all or of none.

        Raises:
            SmexValueError: one of them is on the meta device.
        """
        slots = self._slots()
        sources = {slot.names[0]: slot.tensor for slot in slots}
        for name in names:
            if sources[name].is_meta:
                raise SmexValueError(
                    f'partition: "{name}" is on the meta device; give it values '
                    "(model.to_empty(device='cpu') and initialise) before it is trained"
                )
        try:
            for name, where, placement in zip(names, boxes, placements, strict=True):
                self._cut(name, sources[name], where, placement)
        except BaseException:  # no memory, or the user's patience
            for name in self._keys.keys() & set(names):
                self._drop(name)
            raise
        self._list_parameters(slots)

    def _cut(self, name: str, whole: torch.Tensor, boxes: Boxes, placement: list[int]) -> None:
        self._keys[name] = []
        self.boxes[name] = boxes
        self.placements[name] = placement
        self._sources[name] = whole
        made: dict[Any, torch.Tensor] = {}
        tiles: Tiles = []
        for (held, box), device in zip(boxes, self.devices, strict=True):
            identity = (tuple(box), device)
            if held and identity not in made:
                made[identity] = self._register(name, whole, box, device)
            tiles.append(made[identity] if held else None)
        self.tiles[name] = tiles

    def _register(
        self, name: str, whole: torch.Tensor, box: Sequence[tuple[int, int]], device: torch.device
    ) -> torch.Tensor:
        number = len(self._keys[name])
        key = f"{name.replace('.', '__')}__shard{number}"
        while key in self._names:  # of `a.b` and `a__b`
            key += "_"
        self._keys[name].append(key)
        self._names[key] = f"shard{number}.{name}"
        # A copy: the model's own tensor must not change with the shard.
        piece = sliced(whole.detach(), box).to(device, copy=True).contiguous()
        if isinstance(whole, torch.nn.Parameter):
            shard = torch.nn.Parameter(piece, requires_grad=whole.requires_grad)
            self._owner.register_parameter(key, shard)
            return shard
        self._owner.register_buffer(key, piece)
        return piece

    def _drop(self, name: str) -> None:
        for key in self._keys.pop(name):
            del self._names[key]
            if hasattr(self._owner, key):
                delattr(self._owner, key)
        for known in (self.tiles, self.boxes, self.placements, self._sources):
            known.pop(name, None)

    def unique(self, name: str) -> list[tuple[torch.Tensor, int]]:
        """The distinct tiles of a tensor, each with the first worker that holds it."""
        found: dict[int, tuple[torch.Tensor, int]] = {}
        for worker, tile in enumerate(self.tiles[name]):
            if tile is not None:
                found.setdefault(id(tile), (tile, worker))
        return list(found.values())

    def whole(self, name: str, tiles: Tiles | None = None) -> torch.Tensor:
        """Puts the tiles of a tensor together, or others in their places: its gradient's."""
        if tiles is None:
            tiles = [None if tile is None else tile.detach() for tile in self.tiles[name]]
        boxes = self.boxes[name]
        shape = [0] * len(boxes[0][1])
        for held, box in boxes:
            if held:
                shape = [max(size, hi) for size, (_, hi) in zip(shape, box, strict=True)]
        return assembled(shape, boxes, tiles)

    def write(self, name: str, whole: torch.Tensor) -> None:
        """Copies a whole tensor into its shards, where there are any."""
        with torch.no_grad():
            for tile, worker in self.unique(name) if name in self.tiles else []:
                tile.copy_(sliced(whole, self.boxes[name][worker][1]))

    def told_name(self, key: str) -> str:
        """How a registered shard is called: `shard0.layer.weight`."""
        start, _, last = key.rpartition(".")
        return f"{start}.{self._names[last]}" if start else self._names[last]

    def full_grads(self) -> dict[str, torch.Tensor]:
        """The whole gradient of each parameter that has one, under all of its names."""
        grads: dict[str, torch.Tensor] = {}
        for slot in self._slots():
            name = slot.names[0]
            pieces = [None if tile is None else tile.grad for tile in self.tiles.get(name, [])]
            if any(piece is not None for piece in pieces):
                grads |= dict.fromkeys(slot.names, self.whole(name, pieces))
        return grads

    # ---- what the user does with the model ----

    def is_cut(self) -> bool:
        """Whether every parameter of the model and the loss has shards."""
        return all(name in self.tiles for name, _ in self._parameters)

    def trained(self) -> tuple[bool, ...]:
        """For each parameter whether it requires a gradient: as the shards say.

        Whom the user freezes or thaws in the model itself, is so in its shards too.
        """
        flags = [parameter.requires_grad for _, parameter in self._parameters]
        if flags != self._flags:
            for (name, _), now, before in zip(self._parameters, flags, self._flags, strict=True):
                for shard, _ in self.unique(name) if now != before and name in self.tiles else ():
                    shard.requires_grad_(now)
            self._flags = flags
        return tuple([tensor.requires_grad for tensor in self._trained])

    @contextlib.contextmanager
    def frozen_as_shards(self) -> Iterator[None]:
        """The model's own parameters require gradients where their shards do."""
        own = self._flags
        try:
            self._require([told.requires_grad for told in self._trained])
            yield
        finally:
            self._require(own)

    def _require(self, flags: Sequence[bool]) -> None:
        for (_, parameter), flag in zip(self._parameters, flags, strict=True):
            if parameter.requires_grad != flag:
                parameter.requires_grad_(flag)

    def follow(self) -> set[str]:
        """Takes over tensors that the user has put into the model, or taken out of it.

        What leaves the model takes its shards' values along. One of the same shape and type is
        written into the shards that are there.

        Returns:
            The names whose shards are gone: programs that read them are of no use.
        """
        slots = self._slots()
        now = {slot.names[0]: slot.tensor for slot in slots}
        known = {id(source): name for name, source in self._sources.items()}
        moved = {name for name, source in self._sources.items() if now.get(name) is not source}
        given = {}
        for name in moved & now.keys():
            other = known.get(id(now[name]))
            given[name] = now[name].detach() if other is None else self.whole(other).clone()
        with torch.no_grad():
            for name in moved:
                self._sources[name].copy_(self.whole(name))
        gone = {name for name in moved if name not in now or not self._fits(name, now[name])}
        for name in moved:
            if name in gone:
                self._drop(name)
            else:
                self._sources[name] = now[name]
                self.write(name, given[name])
        self._list_parameters(slots)
        return gone

    def _fits(self, name: str, tensor: torch.Tensor) -> bool:
        source = self._sources[name]
        return (
            tensor.shape == source.shape
            and tensor.dtype == source.dtype
            and isinstance(tensor, torch.nn.Parameter) == isinstance(source, torch.nn.Parameter)
        )

    # ---- saving and loading ----

    def save(self, destination: Any, prefix: str) -> dict[str, Any]:
        """The state dict of the model, and of a loss that is trained, as they would make it."""
        slots = self._slots()
        with swapped(slots, [self._value(slot) for slot in slots]):
            state = self._model.state_dict(destination=destination, prefix=prefix)
            loss = self._trained_loss()
            if loss is not None:
                loss.state_dict(destination=state, prefix=prefix + self.prefix)
        return state

    def load(self, state: Mapping[str, Any], strict: bool) -> Any:
        """Loads what `save` returned, as the model and the loss would load it.

        Raises:
            RuntimeError: keys or shapes do not fit; no shard is changed.
        """
        slots = self._slots()
        of_model, of_loss = self._divided(state)
        copies = [self._value(s).clone() if s.names[0] in self.tiles else s.tensor for s in slots]
        with swapped(slots, copies):
            result = self._model.load_state_dict(of_model, strict=strict)
            loss = self._trained_loss()
            if loss is not None and of_loss:  # one of the model alone leaves the loss as it is
                more = loss.load_state_dict(of_loss, strict=strict)
                result.missing_keys.extend(self.prefix + name for name in more.missing_keys)
                result.unexpected_keys.extend(self.prefix + name for name in more.unexpected_keys)
            loaded = [getattr(*slot.holders[0]) for slot in slots]
        for slot, tensor in zip(slots, loaded, strict=True):
            if tensor.shape != slot.tensor.shape:
                raise SmexRuntimeError(
                    f'load_state_dict: the model gives "{slot.names[0]}" the shape '
                    f"{list(tensor.shape)} when it loads, its shards have {list(slot.tensor.shape)}"
                    "; load into the model before smex.partition"
                )
        for slot, tensor in zip(slots, loaded, strict=True):
            self.write(slot.names[0], tensor)
        return result

    def metadata(self) -> Any:
        """The versions of the model's modules, as its state dict has them."""
        return getattr(self._model.state_dict(), "_metadata", {})

    def _value(self, slot: StateSlot) -> torch.Tensor:
        name = slot.names[0]
        return self.whole(name) if name in self.tiles else slot.tensor

    def _trained_loss(self) -> torch.nn.Module | None:
        """The loss, if it has parameters; weights of classes, say, are buffers that stay."""
        loss = self._loss_fn
        if isinstance(loss, torch.nn.Module) and any(True for _ in loss.parameters()):
            return loss
        return None

    def _divided(self, state: Mapping[str, Any]) -> tuple[Mapping[str, Any], dict[str, Any]]:
        """A whole state's part that is the model's, and the loss's under its own names."""
        if self._trained_loss() is None:
            return state, {}
        of_model = OrderedDict((n, v) for n, v in state.items() if not n.startswith(self.prefix))
        if hasattr(state, "_metadata"):
            of_model._metadata = state._metadata  # type: ignore[attr-defined]
        return of_model, {n.removeprefix(self.prefix): state[n] for n in state if n not in of_model}


def sliced(whole: torch.Tensor, box: Sequence[tuple[int, int]]) -> torch.Tensor:
    """A view of what lies in a box."""
    for dim, (lo, hi) in enumerate(box):
        if lo != 0 or hi != whole.shape[dim]:
            whole = whole.narrow(dim, lo, hi - lo)
    return whole


def assembled(shape: Sequence[int], boxes: Boxes, tiles: Tiles) -> torch.Tensor:
    """The tensor that tiles make up; one that is whole is returned as it is."""
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
