"""A model's parameters and buffers, cut into the tiles that workers hold."""

from __future__ import annotations

import contextlib
import warnings
import weakref
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeVar

import torch

from smex.capture.in_shards import is_in_shards, own_attributes
from smex.capture.origin import user_stacklevel
from smex.capture.swap import StateSlot, all_slots, loss_prefix, swapped
from smex.distributed.relayout import Boxes, Move, Relayout, Tiles, whole_at
from smex.distributed.world import World
from smex.errors import CaptureWarning, SmexRuntimeError
from smex.execution.cut import Cut, Keeping, Pieces, parts_of, release, sliced
from smex.execution.scaling import expect_elementwise, expect_shared_scale

_Made = TypeVar("_Made")


class ShardedState:
    """The shards of a model's tensors, which the model's own names lead to.

    A shard is registered with `owner` for each distinct tile and device; replicas share it. The
    model's own tensors stay what they were when they were cut, or go with the shards (`keeping`).

    Attributes:
        cuts: by name what is cut.
        devices: of the workers.
        world: the processes that hold shards.
        version: another number once the cuts are others.
        net_number: of the net among those of its processes, see `World.next_net`.
    """

    def __init__(
        self,
        owner: torch.nn.Module,
        model: torch.nn.Module,
        loss_fn: Callable | None,
        devices: Sequence[torch.device],
        keeping: Keeping,
        world: World,
    ):
        self.cuts: dict[str, Cut] = {}
        self.version = 0
        self.prefix = loss_prefix(model)
        self._names: dict[str, str] = {}  # of registered shards: as `named_parameters` tells them
        self._owner: weakref.ref[torch.nn.Module] | None = weakref.ref(owner)
        self._model = model
        self._loss_fn = loss_fn
        self.devices = devices
        self.world = world
        self.net_number = world.next_net()
        self._times_copied = 0
        self._keeping = keeping
        self._parameters: list[tuple[str, torch.Tensor]] = []
        self._trained: list[torch.Tensor] = []  # for each parameter what tells whether it is
        self._flags: list[bool] = []
        self._made: dict[Any, tuple[int, Any]] = {}
        self._blank: set[str] = set()  # cut of the meta device, and not given values since
        self._list_parameters(self._slots())

    def _slots(self) -> list[StateSlot]:
        return all_slots(self._model, self._loss_fn)

    def _list_parameters(self, slots: list[StateSlot]) -> None:
        self._parameters = [(s.names[0], s.tensor) for s in slots if s.role == "parameter"]
        self._flags = [parameter.requires_grad for _, parameter in self._parameters]
        self._trained = [
            self.cuts[name].unique[0][0]
            if name in self.cuts and self.cuts[name].unique  # this process may have none of it
            else parameter
            for name, parameter in self._parameters
        ]

    # ---- shards ----

    def cut(
        self, names: Sequence[str], boxes: Sequence[Boxes], placements: Sequence[list[int]]
    ) -> None:
        """Makes the shards of tensors of the model, of all or of none.

        Those of tensors on the meta device have no values until somebody gives them some.
        """
        self.version += 1
        slots = self._slots()
        sources = {slot.names[0]: slot for slot in slots}
        boxes = self._some_for_all([sources[name].tensor for name in names], boxes)
        try:
            for name, where, placement in zip(names, boxes, placements, strict=True):
                self._cut(name, sources[name], where, placement)
        except BaseException:  # no memory, or the user's patience
            for name in self.cuts.keys() & set(names):
                self._unregister(self.cuts.pop(name))
                self._blank.discard(name)
            raise
        self._take_values_of_first([self.cuts[n] for n in names if n not in self._blank])
        for name in names:
            self.cuts[name].share()
        self._list_parameters(slots)

    def _some_for_all(
        self, tensors: Sequence[torch.Tensor], boxes: Sequence[Boxes]
    ) -> Sequence[Boxes]:
        """Gives processes that would have no parameter an empty shard of one.

        Optimisers refuse to have no parameters, and autograd to go back to none, while all
        processes take part in the backward pass.
        """
        if self.world.is_alone:
            return boxes
        known = [(cut.source, cut.boxes) for cut in self.cuts.values()]
        trained = [
            (tensor, where)
            for tensor, where in [*known, *zip(tensors, boxes, strict=True)]
            if isinstance(tensor, torch.nn.Parameter) and tensor.requires_grad
        ]
        ranks = self.world.ranks
        served = {rank for _, where in trained for rank, (held, _) in zip(ranks, where) if held}
        chosen = next(
            (n for n, t in enumerate(tensors) if t.dim() and any(t is one for one, _ in trained)),
            None,
        )
        if chosen is None:
            return boxes
        given = list(boxes[chosen])
        for worker, rank in enumerate(ranks):
            if rank not in served:
                served.add(rank)
                given[worker] = (True, [(0, 0)] * tensors[chosen].dim())
        return [given if n == chosen else where for n, where in enumerate(boxes)]

    def _take_values_of_first(self, cuts: Sequence[Cut]) -> None:
        """Gives the shards the values that rank 0's model has, if others' differ."""
        if self.world.is_alone:
            return
        own = [_checksum(cut.source) for cut in cuts]
        if all(sums == own for sums in self.world.gather(own)):
            return
        moves, given = [], []
        for cut in cuts:
            first: Tiles = [None] * len(self.devices)
            if self.world.rank == 0:
                first[0] = cut.source.detach().to(self.devices[0]).contiguous()
            given.append(first)
            boxes = whole_at(cut.source.shape, [0], len(self.devices))
            moves.append(Move(boxes, cut.boxes, cut.source.dtype))
        with torch.no_grad():
            found = Relayout(self.world, self.devices, moves, self.net_number).run(given)
            for cut, tiles in zip(cuts, found, strict=True):
                for tile, worker in cut.unique:
                    tile.copy_(_there(tiles[worker]))

    def wholes(self, cuts: Sequence[Cut], tiles: Sequence[Tiles]) -> list[torch.Tensor]:
        """Puts tiles that lie as shards together in each process, which all call this."""
        moves = [
            Move(cut.boxes, self.whole_everywhere(cut.pieces.shape()), cut.source.dtype)
            for cut in cuts
        ]
        found = Relayout(self.world, self.devices, moves).run(tiles)
        own = self.world.workers[0]
        return [_there(one[own]) for one in found]

    def cached(self, make: Callable[[ShardedState], _Made]) -> _Made:
        """Returns what was made of these cuts, once."""
        made = self._made.get(make)
        if made is None or made[0] != self.version:
            made = self._made[make] = self.version, make(self)
        return made[1]

    def gradients(self) -> set[int]:
        """Returns the `id`s of the gradients that the shards of this process have."""
        return {
            id(tile.grad)
            for cut in self.cuts.values()
            for tile, _ in cut.unique
            if tile.grad is not None
        }

    def whole_everywhere(self, shape: Sequence[int]) -> Boxes:
        """Returns the boxes of a tensor that the first worker of each process holds whole."""
        ranks = self.world.ranks
        first = [w for w, rank in enumerate(ranks) if w == 0 or rank != ranks[w - 1]]
        return whole_at(shape, first, len(self.devices))

    def _cut(self, name: str, slot: StateSlot, boxes: Boxes, placement: list[int]) -> None:
        keeping = self._keeping_of(slot)
        if keeping is not Keeping.OWN and is_in_shards(slot.tensor):
            release(slot.tensor)  # by another net
        if keeping is Keeping.SHARED and not slot.tensor.is_contiguous():
            slot.tensor.data = slot.tensor.detach().contiguous()
        cut = self.cuts[name] = Cut(slot.tensor, Pieces([], boxes), placement, [], keeping)
        here = self.world.workers
        identities = [
            (tuple(box), device) if held and worker in here else None
            for worker, ((held, box), device) in enumerate(zip(boxes, self.devices, strict=True))
        ]
        distinct = list(dict.fromkeys(each for each in identities if each is not None))
        apart = keeping is Keeping.OWN or not self.world.is_alone
        parts = None if apart else parts_of(slot.tensor, distinct)
        made: dict[Any, torch.Tensor | None] = {None: None}
        has_one_shard = len(distinct) == 1 and not self.world.is_alone
        for number, (box, device) in enumerate(distinct):
            if parts is not None:
                piece = parts[number]
            elif slot.tensor.is_meta:
                piece = slot.tensor.new_empty([hi - lo for lo, hi in box], device=device)
            else:
                piece = sliced(slot.tensor.detach(), box).to(device, copy=True).contiguous()
            made[box, device] = self._register(name, cut, piece, has_one_shard)
        cut.tiles.extend(made[identity] for identity in identities)
        if slot.tensor.is_meta:
            self._blank.add(name)
        _tell_of_hooks(name, slot.tensor)

    def _keeping_of(self, slot: StateSlot) -> Keeping:
        """Returns what becomes of a tensor's memory.

        One worker on its device trains it; what TorchScript reads is never gathered. What is on the
        meta device stays there.
        """
        if slot.tensor.is_meta:
            return Keeping.OWN
        if self.devices == [slot.tensor.device]:
            return Keeping.SHARED
        if not self.world.is_alone and self._keeping is not Keeping.OWN:
            return Keeping.GIVEN_UP
        is_of_script = any(isinstance(part, torch.jit.ScriptModule) for part, _ in slot.holders)
        return Keeping.OWN if is_of_script else self._keeping

    def _register(
        self, name: str, cut: Cut, piece: torch.Tensor, has_one_shard: bool
    ) -> torch.Tensor:
        number, source = len(cut.keys), cut.source
        key = f"{name.replace('.', '__')}__shard{number}"
        while key in self._names:  # of `a.b` and `a__b`
            key += "_"
        cut.keys.append(key)
        self._names[key] = name if has_one_shard else f"shard{number}.{name}"
        if isinstance(source, torch.nn.Parameter):
            shard = torch.nn.Parameter(piece, requires_grad=source.requires_grad)
            vars(shard).update(own_attributes(source))  # what optimisers go by
            self._registry().register_parameter(key, shard)
            self._expect_steps(name, cut, shard)
            return shard
        self._registry().register_buffer(key, piece)
        return piece

    def _expect_steps(self, name: str, cut: Cut, shard: torch.nn.Parameter) -> None:
        tiles = {(held, tuple(box)) for held, box in cut.boxes}
        if not self.world.is_alone and len(tiles) > 1:
            expect_shared_scale(shard)
        if sum(held for held, _ in tiles) > 1:
            expect_elementwise(shard, name)

    def _registry(self) -> torch.nn.Module:
        assert self._owner is not None
        owner = self._owner()
        assert owner is not None
        return owner

    def _unregister(self, cut: Cut) -> None:
        owner = self._registry()
        for key in cut.keys:
            del self._names[key]
            if hasattr(owner, key):
                delattr(owner, key)

    def __getstate__(self) -> dict[str, Any]:
        """Of a copy, which has an owner of its own."""
        return {**self.__dict__, "_owner": None, "_made": {}}

    def count_copy(self) -> None:
        """Notes that the net is about to be copied: copies have numbers of their own."""
        self._times_copied += 1

    def belong_to(self, owner: torch.nn.Module) -> None:
        """Completes the copy of a net, whose shards and model were copied one by one."""
        if self._owner is not None:  # the very same
            return
        if not self.world.is_alone:
            told = (self.net_number, self._times_copied)
            self.net_number = hash(told) % (1 << 63)  # of numbers it is the same everywhere
        self._times_copied = 0
        self._owner = weakref.ref(owner)
        for name, cut in self.cuts.items():
            cut.share()
            for key in cut.keys:
                if key in owner._parameters:
                    self._expect_steps(name, cut, getattr(owner, key))

    def write(self, name: str, whole: torch.Tensor) -> None:
        """Copies a whole tensor into its shards, where there are any."""
        if name in self.cuts and not whole.is_meta:
            self.cuts[name].write(whole)
            self._blank.discard(name)

    # ---- shards without values ----

    def tiles_of(
        self, name: str, workers: Iterable[int]
    ) -> Iterator[tuple[torch.Tensor, tuple[tuple[int, int], ...]]]:
        """Yields the distinct shards of some workers, each with its box."""
        cut = self.cuts[name]
        done = set()
        for worker in workers:
            tile = cut.tiles[worker]
            if tile is not None and id(tile) not in done:
                done.add(id(tile))
                yield tile.detach(), tuple([(lo, hi) for lo, hi in cut.boxes[worker][1]])

    def has_values(self, names: Iterable[str]) -> None:
        """Notes that the shards of these tensors, by their first names, were given values."""
        self._blank.difference_update(names)

    def lose_values(self, name: str) -> None:
        """Notes that the shards of a tensor are about to be written over."""
        self._blank.add(name)

    def refuse_blank(self, what: str) -> None:
        """Raises SmexRuntimeError where something has no values, of what reads it."""
        blank = {slot.names[0]: None for slot in self._slots() if self._is_blank(slot)}
        if not blank:
            return
        names = ", ".join(f'"{name}"' for name in list(blank)[:4])
        more = f" and {len(blank) - 4} more" if len(blank) > 4 else ""
        raise SmexRuntimeError(
            f"{what}: {names}{more} of a model on the meta device, or of an initialisation that "
            "failed, have no values: "
            "smex.init(net, seed=0), smex.load(path, net) or net.load_state_dict(state) gives them"
            + ("" if self.cuts else "; first net.prepare((x,)), which makes the shards")
        )

    def _is_blank(self, slot: StateSlot) -> bool:
        name = slot.names[0]
        return name in self._blank or (slot.tensor.is_meta and name not in self.cuts)

    def name_of(self, key: str) -> str:
        """Returns the model's own name of a registered shard."""
        return next(name for name, cut in self.cuts.items() if key in cut.keys)

    def told_name(self, key: str) -> str:
        """Returns how a registered shard is called: `shard0.layer.weight`."""
        start, _, last = key.rpartition(".")
        return f"{start}.{self._names[last]}" if start else self._names[last]

    def full_grads(self) -> dict[str, torch.Tensor]:
        """Returns the whole gradient of each parameter that has one, under all of its names."""
        found = []
        for slot in self._slots():
            cut = self.cuts.get(slot.names[0])
            if cut:
                found.append(
                    (slot, cut, [tile if tile is None else tile.grad for tile in cut.tiles])
                )
        # Of a tensor cut into few shards a process may have none.
        own = {
            slot.names[0] for slot, _, pieces in found if any(piece is not None for piece in pieces)
        }
        names = set().union(*self.world.gather(own))
        found = [entry for entry in found if entry[0].names[0] in names]
        if self.world.is_alone:
            wholes = [cut.pieces.whole(pieces) for _, cut, pieces in found]
        else:
            wholes = self.wholes([cut for _, cut, _ in found], [pieces for *_, pieces in found])
        grads: dict[str, torch.Tensor] = {}
        for (slot, *_), grad in zip(found, wholes, strict=True):
            grads |= dict.fromkeys(slot.names, grad)
        return grads

    # ---- what the user does with the model ----

    def is_cut(self) -> bool:
        """Returns whether every parameter of the model and the loss has shards."""
        return all(name in self.cuts for name, _ in self._parameters)

    def trained(self) -> tuple[bool, ...]:
        """For each parameter whether it requires a gradient: as the shards say.

        Whom the user freezes or thaws in the model itself, is so in its shards too.
        """
        with torch._C.DisableTorchFunctionSubclass():
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
            shard = next((tile for tile, _ in cut.unique), None)  # this process may have none
            if shard is not None and shard.dtype != cut.source.dtype:
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
        self.trained()  # who was frozen before it was moved stays so
        slots = self._slots()
        now = {slot.names[0]: slot for slot in slots}
        before = {
            name: cut
            for name, cut in self.cuts.items()
            if name not in now or now[name].tensor is not cut.source
        }
        if before:
            self.version += 1
            self._take_over(now, before)
        self._list_parameters(slots)
        return {
            name
            for name, cut in before.items()
            if name not in self.cuts or self.cuts[name].boxes != cut.boxes
        }

    def _take_over(self, now: Mapping[str, StateSlot], before: Mapping[str, Cut]) -> None:
        known = {id(cut.source): cut for cut in before.values()}
        left = {id(cut): cut for cut in before.values()}
        blank = {id(cut) for name, cut in before.items() if name in self._blank}
        for name in before:
            del self.cuts[name]
            self._blank.discard(name)
        for name, slot in now.items():
            if id(slot.tensor) in known:
                self.cuts[name] = left.pop(id(known[id(slot.tensor)]))
                if id(self.cuts[name]) in blank:
                    self._blank.add(name)
                self._rename(self.cuts[name], name)
        for name, cut in before.items():
            new = now[name].tensor if name in now else None
            if id(cut) in left and new is not None and _is_buffer(new) and cut.fits(new):
                self.cuts[name] = left.pop(id(cut))
                cut.leave()
                cut.source = new
                self.write(name, new.detach())
                if new.is_meta:
                    self._blank.add(name)
                cut.share()
        for cut in left.values():
            self._unregister(cut)
            cut.leave()
        for name, cut in before.items():
            if name in now and name not in self.cuts and cut.fits(now[name].tensor):
                self._cut(name, now[name], cut.boxes, cut.placement)
                self.cuts[name].share()

    def _rename(self, cut: Cut, name: str) -> None:
        for number, key in enumerate(cut.keys):
            self._names[key] = f"shard{number}.{name}"
        if cut.has_other_data():  # prune.remove writes the mask
            cut.write(cut.source.detach())
            cut.share()

    # ---- saving and loading ----

    def save(self, destination: Any, prefix: str) -> dict[str, Any]:
        """The state dict of the model, and of a loss that is trained, as they would make it.

        Of copies, which training does not change.

        Raises:
            SmexRuntimeError: something has no values.
        """
        self.refuse_blank("state_dict")
        slots = self._slots()
        with swapped(slots, self._copies(slots)):
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
        if any(slot.tensor.is_meta and slot.names[0] not in self.cuts for slot in slots):
            self.refuse_blank("load_state_dict")
        blank = set(self._blank)
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
        # What the state does not have is as it was.
        self._blank |= blank - self._loaded(slots, state, set(result.missing_keys))
        return result

    def _loaded(
        self, slots: list[StateSlot], state: Mapping[str, Any], missing: set[str]
    ) -> set[str]:
        """Returns the first names of tensors that a state has values for."""
        kept = set(self._model.state_dict())
        loss = self._trained_loss()
        if loss is not None and any(name.startswith(self.prefix) for name in state):
            kept |= {self.prefix + name for name in loss.state_dict()}
        return {slot.names[0] for slot in slots if not (kept - missing).isdisjoint(slot.names)}

    def apply(self, change: Callable[[torch.nn.Module], Any]) -> None:
        """Lets a function change the tensors of the model's modules, as `nn.Module.apply` does.

        Raises:
            SmexRuntimeError: it gives a tensor another shape, or one has no values; no shard is
                changed.
        """
        self.refuse_blank("apply")
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

    def _copies(self, slots: list[StateSlot]) -> list[torch.Tensor]:
        """Wholes that may be written to; of what has no shards the model's own."""
        cuts = [self.cuts.get(slot.names[0]) for slot in slots]
        if not self.world.is_alone:
            held = [cut for cut in cuts if cut is not None]
            wholes = iter(self.wholes(held, [cut.tiles for cut in held]))
            copies = (next(wholes).detach().clone() if cut else None for cut in cuts)
            return [s.tensor if c is None else c for s, c in zip(slots, copies, strict=True)]
        return [cut.copied() if cut else slot.tensor for cut, slot in zip(cuts, slots, strict=True)]

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


def _there(tile: torch.Tensor | None) -> torch.Tensor:
    assert tile is not None
    return tile


def _checksum(tensor: torch.Tensor) -> int:
    """A sum over all bits, to tell other values cheaply."""
    flat = tensor.detach().contiguous().flatten().view(torch.uint8)
    words = flat[: flat.numel() // 8 * 8].view(torch.int64)
    odd = words * torch.arange(1, 2 * words.numel(), 2, device=words.device)
    return int(odd.sum()) + int(flat[words.numel() * 8 :].sum())


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
