"""A model's parameters and buffers, cut into the tiles that workers hold."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import warnings
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import torch

from smex.capture.origin import user_stacklevel
from smex.capture.swap import StateSlot, all_slots, loss_prefix, swapped
from smex.errors import CaptureWarning, SmexRuntimeError, SmexValueError

Tiles = list[torch.Tensor | None]
Boxes = list[tuple[bool, list[tuple[int, int]]]]
"""By worker whether it holds a tile, and the tile's bounds in every dimension."""


@dataclasses.dataclass
class Cut:
    """A tensor of the model, cut.

    Attributes:
        source: the model's own.
        tiles: the shard that each worker holds.
        boxes: where these are.
        placement: what the plan says.
        keys: under which the shards are registered.
    """

    source: torch.Tensor
    tiles: Tiles
    boxes: Boxes
    placement: list[int]
    keys: list[str]

    def __post_init__(self) -> None:
        self._memory = self.source.data_ptr()

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Of a copy, whose source has memory of its own."""
        vars(self).update(state)
        self._memory = self.source.data_ptr()

    def has_other_data(self) -> bool:
        """Whether the source was given other memory (`weight.data = ...`) since this last asked."""
        before, self._memory = self._memory, self.source.data_ptr()
        return before != self._memory

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

    def fits(self, tensor: torch.Tensor) -> bool:
        """Returns whether another tensor could have been cut like this."""
        source = self.source
        return (
            tensor.shape == source.shape
            and tensor.dtype == source.dtype
            and isinstance(tensor, torch.nn.Parameter) == isinstance(source, torch.nn.Parameter)
        )


class ShardedState:
    """The shards of a model's tensors, which the model's own names lead to.

    A shard is registered with `owner` for each distinct tile and device; replicas share it. The
    model's own tensors stay what they were when they were cut.

    Attributes:
        cuts: by name what is cut.
        devices: of the workers.
        version: another number once the cuts are others.
    """

    def __init__(
        self,
        owner: torch.nn.Module,
        model: torch.nn.Module,
        loss_fn: Callable | None,
        devices: Sequence[torch.device],
    ):
        self.cuts: dict[str, Cut] = {}
        self.version = 0
        self.prefix = loss_prefix(model)
        self._names: dict[str, str] = {}  # of registered shards: as `named_parameters` tells them
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
            self.cuts[name].unique[0][0] if name in self.cuts else parameter
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
        self.version += 1
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
            for name in self.cuts.keys() & set(names):
                self._unregister(self.cuts.pop(name))
            raise
        self._list_parameters(slots)

    def _cut(self, name: str, whole: torch.Tensor, boxes: Boxes, placement: list[int]) -> None:
        cut = self.cuts[name] = Cut(whole, [], boxes, placement, [])
        made: dict[Any, torch.Tensor] = {}
        for (held, box), device in zip(boxes, self.devices, strict=True):
            identity = (tuple(box), device)
            if held and identity not in made:
                made[identity] = self._register(name, cut, box, device)
            cut.tiles.append(made[identity] if held else None)
        _tell_of_hooks(name, whole)

    def _register(
        self, name: str, cut: Cut, box: Sequence[tuple[int, int]], device: torch.device
    ) -> torch.Tensor:
        number, whole = len(cut.keys), cut.source
        key = f"{name.replace('.', '__')}__shard{number}"
        while key in self._names:  # of `a.b` and `a__b`
            key += "_"
        cut.keys.append(key)
        self._names[key] = f"shard{number}.{name}"
        # A copy: the model's own tensor must not change with the shard.
        piece = sliced(whole.detach(), box).to(device, copy=True).contiguous()
        if isinstance(whole, torch.nn.Parameter):
            shard = torch.nn.Parameter(piece, requires_grad=whole.requires_grad)
            vars(shard).update(vars(whole))  # what optimisers go by
            self._owner.register_parameter(key, shard)
            return shard
        self._owner.register_buffer(key, piece)
        return piece

    def _unregister(self, cut: Cut) -> None:
        for key in cut.keys:
            del self._names[key]
            if hasattr(self._owner, key):
                delattr(self._owner, key)

    def write(self, name: str, whole: torch.Tensor) -> None:
        """Copies a whole tensor into its shards, where there are any."""
        if name in self.cuts:
            self.cuts[name].write(whole)

    def told_name(self, key: str) -> str:
        """Returns how a registered shard is called: `shard0.layer.weight`."""
        start, _, last = key.rpartition(".")
        return f"{start}.{self._names[last]}" if start else self._names[last]

    def full_grads(self) -> dict[str, torch.Tensor]:
        """Returns the whole gradient of each parameter that has one, under all of its names."""
        grads: dict[str, torch.Tensor] = {}
        for slot in self._slots():
            cut = self.cuts.get(slot.names[0])
            pieces = [None if tile is None else tile.grad for tile in cut.tiles] if cut else []
            if cut and any(piece is not None for piece in pieces):
                grads |= dict.fromkeys(slot.names, cut.whole(pieces))
        return grads

    # ---- what the user does with the model ----

    def is_cut(self) -> bool:
        """Returns whether every parameter of the model and the loss has shards."""
        return all(name in self.cuts for name, _ in self._parameters)

    def trained(self) -> tuple[bool, ...]:
        """For each parameter whether it requires a gradient: as the shards say.

        Whom the user freezes or thaws in the model itself, is so in its shards too.
        """
        flags = [parameter.requires_grad for _, parameter in self._parameters]
        if flags != self._flags:
            for (name, _), now, before in zip(self._parameters, flags, self._flags, strict=True):
                if now != before and name in self.cuts:
                    for shard, _ in self.cuts[name].unique:
                        shard.requires_grad_(now)
            self._flags = flags
        return tuple([tensor.requires_grad for tensor in self._trained])

    @contextlib.contextmanager
    def frozen_as_shards(self) -> Iterator[None]:
        """Makes the model's own parameters require gradients where their shards do."""
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

    def refuse_converted(self) -> None:
        """Raises SmexRuntimeError where the model is of another type than what was cut of it."""
        for name, cut in self.cuts.items():
            shard = cut.unique[0][0]
            if shard.dtype != cut.source.dtype:
                raise SmexRuntimeError(
                    f'partition: the shards of "{name}" are {shard.dtype} on {shard.device} and '
                    f"cannot become {cut.source.dtype} on {cut.source.device}: convert the model "
                    "before smex.partition, or pass devices="
                )

    def follow(self) -> set[str]:
        """Takes over tensors that the user has put into the model, or taken out of it.

        A tensor that has another name now keeps its shards. One that leaves the model takes their
        values along. A new parameter has new shards, which no optimiser knows yet; a new buffer is
        written into those that are there.

        Returns:
            The names whose shards are gone or cut otherwise: programs that read them are of no use.
        """
        slots = self._slots()
        now = {slot.names[0]: slot.tensor for slot in slots}
        before = {n: cut for n, cut in self.cuts.items() if now.get(n) is not cut.source}
        if before:
            self.version += 1
            self._take_over(now, before)
        self._list_parameters(slots)
        return {
            name
            for name, cut in before.items()
            if name not in self.cuts or self.cuts[name].boxes != cut.boxes
        }

    def _take_over(self, now: Mapping[str, torch.Tensor], before: Mapping[str, Cut]) -> None:
        known = {id(cut.source): cut for cut in before.values()}
        left = {id(cut): cut for cut in before.values()}
        for name in before:
            del self.cuts[name]
        for name, tensor in now.items():
            if id(tensor) in known:
                self.cuts[name] = left.pop(id(known[id(tensor)]))
                self._rename(self.cuts[name], name)
        for name, cut in before.items():
            new = now.get(name)
            if id(cut) in left and new is not None and _is_buffer(new) and cut.fits(new):
                self.cuts[name] = left.pop(id(cut))
                cut.source = new
                cut.write(new)
        for cut in left.values():
            self._unregister(cut)
            with torch.no_grad():
                cut.source.copy_(cut.whole())
        for name, cut in before.items():
            if name in now and name not in self.cuts and cut.fits(now[name]):
                self._cut(name, now[name], cut.boxes, cut.placement)

    def _rename(self, cut: Cut, name: str) -> None:
        for number, key in enumerate(cut.keys):
            self._names[key] = f"shard{number}.{name}"
        if cut.has_other_data():  # prune.remove writes the mask
            cut.write(cut.source.detach())

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
        with swapped(slots, self._copies(slots)):
            result = self._model.load_state_dict(of_model, strict=strict)
            loss = self._trained_loss()
            if loss is not None and of_loss:  # one of the model alone leaves the loss as it is
                more = loss.load_state_dict(of_loss, strict=strict)
                result.missing_keys.extend(self.prefix + name for name in more.missing_keys)
                result.unexpected_keys.extend(self.prefix + name for name in more.unexpected_keys)
            loaded = _held(slots)
        for slot, tensor in _reshaped(slots, loaded):
            raise SmexRuntimeError(
                f'load_state_dict: the model gives "{slot.names[0]}" the shape '
                f"{list(tensor.shape)} when it loads, its shards have {list(slot.tensor.shape)}"
                "; load into the model before smex.partition"
            )
        self._write_all(slots, loaded)
        return result

    def apply(self, change: Callable[[torch.nn.Module], Any]) -> None:
        """Lets a function change the tensors of the model's modules, as `nn.Module.apply` does.

        Raises:
            SmexRuntimeError: it gives a tensor another shape; no shard is changed.
        """
        slots = self._slots()
        with swapped(slots, self._copies(slots)):
            self._model.apply(change)
            changed = _held(slots)
        for slot, tensor in _reshaped(slots, changed):
            raise SmexRuntimeError(
                f'apply: the function gives "{slot.names[0]}" the shape {list(tensor.shape)}, its '
                f"shards have {list(slot.tensor.shape)}; change the model before smex.partition"
            )
        self._write_all(slots, changed)

    def _write_all(self, slots: list[StateSlot], tensors: Sequence[torch.Tensor]) -> None:
        for slot, tensor in zip(slots, tensors, strict=True):
            self.write(slot.names[0], tensor.detach())

    def metadata(self) -> Any:
        """Returns the versions of the model's modules, as its state dict has them."""
        return getattr(self._model.state_dict(), "_metadata", {})

    def _value(self, slot: StateSlot) -> torch.Tensor:
        name = slot.names[0]
        return self.cuts[name].whole() if name in self.cuts else slot.tensor

    def _copies(self, slots: list[StateSlot]) -> list[torch.Tensor]:
        """Wholes that may be written to; of what has no shards the model's own."""
        return [self._value(s).clone() if s.names[0] in self.cuts else s.tensor for s in slots]

    def _trained_loss(self) -> torch.nn.Module | None:
        """Returns the loss, if it has parameters.

        Weights of classes, say, are buffers that stay.
        """
        loss = self._loss_fn
        if isinstance(loss, torch.nn.Module) and any(True for _ in loss.parameters()):
            return loss
        return None

    def _divided(self, state: Mapping[str, Any]) -> tuple[Mapping[str, Any], dict[str, Any]]:
        """Returns a whole state's part that is the model's, and the loss's under its own names."""
        if self._trained_loss() is None:
            return state, {}
        of_model = OrderedDict((n, v) for n, v in state.items() if not n.startswith(self.prefix))
        if hasattr(state, "_metadata"):
            of_model._metadata = state._metadata  # type: ignore[attr-defined]
        return of_model, {n.removeprefix(self.prefix): state[n] for n in state if n not in of_model}


def _reshaped(
    slots: list[StateSlot], tensors: Sequence[torch.Tensor]
) -> Iterator[tuple[StateSlot, torch.Tensor]]:
    """Returns what no longer fits its shards."""
    return (
        (slot, tensor)
        for slot, tensor in zip(slots, tensors, strict=True)
        if tensor.shape != slot.tensor.shape
    )


def _held(slots: list[StateSlot]) -> list[torch.Tensor]:
    """Returns what is in the slots now."""
    return [getattr(*slot.holders[0]) for slot in slots]


def _is_buffer(tensor: torch.Tensor) -> bool:
    return not isinstance(tensor, torch.nn.Parameter)


def _tell_of_hooks(name: str, whole: torch.Tensor) -> None:
    if whole._backward_hooks or getattr(whole, "_post_accumulate_grad_hooks", None):
        warnings.warn(
            f'partition: "{name}" has hooks for its gradient, which its shards do not have: '
            "register them on net.parameters()",
            CaptureWarning,
            stacklevel=user_stacklevel(),
        )


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
