"""Loading a net: of the files' boxes those parts that its tiles need."""

from __future__ import annotations

import dataclasses
import json
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import torch

from smex._C import relayout
from smex.checkpoint import manifest
from smex.checkpoint.assignment import shape_of
from smex.checkpoint.consolidated import INDEX, WHOLE, Names, named
from smex.checkpoint.files import BLOCK, File, read_header
from smex.checkpoint.manifest import Manifest, SavedBox, SavedTensor
from smex.distributed.outcomes import together
from smex.errors import CheckpointError, SmexTypeError, SmexValueError
from smex.execution.cut import sliced
from smex.execution.module import PartitionedModule
from smex.execution.saved import (
    Bounds,
    Contents,
    Members,
    Optimizers,
    Saved,
    State,
    by_name,
    number_of,
    placed_number,
    refuse_cut,
    set_options,
    state_name,
    tensors_of,
    whole_box,
)


def load(
    path: str | os.PathLike,
    net: PartitionedModule,
    opt: Optimizers | None = None,
    *,
    strict: bool = True,
    names: Names | None = None,
) -> dict[str, Any]:
    """Reads a checkpoint into a net and its optimisers, whatever the number of workers was.

    Each process reads the parts of files that its workers' tiles are made of, twice: to compare
    them with their sums, and then into the tiles. Nothing is changed before all processes have
    found everything right. Optimisers need not have a state yet; they keep how they run (`foreach`,
    `fused`, `capturable`) and take all other options. The state of torch's default generator is
    that of rank 0 when it saved. All processes of a net call this.

    Args:
        path: what `smex.save` wrote, or a folder or file of safetensors as Hugging Face has them.
        net: captured, with any number of workers.
        opt: as it was given to `smex.save`; None leaves optimisers out.
        strict: False leaves alone what only the net or only the checkpoint has, takes options of
            groups that are divided otherwise, and converts floating-point numbers of another type.
        names: of whole tensors by the net's name that in the files, as for `smex.save`.

    Returns:
        The `extra` of `smex.save`; an empty dict for Hugging Face's files.

    Raises:
        CheckpointError: files are missing, cut short or changed, or of something else.
        SmexValueError: the net or an optimiser does not fit what was saved; the text lists how.
    """
    if not isinstance(net, PartitionedModule):
        raise SmexTypeError(f"load: expected a net of smex.partition, got {type(net).__name__}")
    with net._world.during("smex.load"):
        return _loaded(os.fspath(path), net, opt, strict, names)


def _loaded(
    where: str,
    net: PartitionedModule,
    opt: Optimizers | None,
    strict: bool,
    names: Names | None,
) -> dict[str, Any]:
    world = net._world
    reading: list[_Reading] = []
    try:

        def prepare() -> str:
            net._look()
            net._refuse_uncut("load")
            reading.append(_Reading(where, net, by_name(opt), strict, names))
            return reading[0].source.nonce

        nonces = together(world, prepare)
        for rank, nonce in enumerate(nonces):
            if nonce != nonces[0]:
                raise CheckpointError(
                    f"load: rank {rank} reads another checkpoint at {where} than rank 0; give all "
                    "ranks the same one"
                )
        together(world, reading[0].check)
        together(world, reading[0].read)
        net._state.has_values(reading[0].wanted)
        reading[0].attach()
        return reading[0].source.extra
    finally:
        for each in reading:
            each.close()


# ---- what there is to read ----


@dataclasses.dataclass
class _Source:
    """The tensors of a checkpoint, and the rest."""

    folder: str
    nonce: str
    tensors: dict[str, SavedTensor]
    files: list[tuple[str, int | None, list[int] | None]]
    optimizers: dict[str, Contents] | None
    random: bytes | None
    extra: dict[str, Any]

    def find(self, names: Iterable[str]) -> str | None:
        """Returns under which of a tied tensor's names it is stored."""
        for name in names:
            if name in self.tensors:
                return name
        return None


def _source_of(path: str) -> _Source:
    if os.path.isfile(path) and os.path.basename(path) in (manifest.NAME, INDEX):
        path = os.path.dirname(path) or "."  # it tells of the files beside it
    if os.path.isfile(path):
        return _whole_source(os.path.dirname(path) or ".", [os.path.basename(path)])
    if not os.path.isdir(path):
        raise CheckpointError(f"load: there is no {path}; smex.latest(folder) finds checkpoints")
    if os.path.isfile(os.path.join(path, manifest.NAME)):
        found = manifest.read(path)
        manifest.refuse_incomplete(path, found)
        return _own_source(path, found)
    if os.path.isfile(os.path.join(path, INDEX)):
        return _whole_source(path, _files_of_index(os.path.join(path, INDEX)))
    if os.path.isfile(os.path.join(path, WHOLE)):
        return _whole_source(path, [WHOLE])
    if os.path.isfile(os.path.join(path, ".metadata")):
        raise CheckpointError(
            f"load: {path} is of torch.distributed.checkpoint: state = "
            "net.sharded_state_dict(opt); dcp.load(state, checkpoint_id=...); "
            "net.load_sharded_state_dict(state, opt)"
        )
    last = manifest.latest(path)
    raise CheckpointError(
        f"load: {path} is no checkpoint: it has neither {manifest.NAME} nor {WHOLE} nor {INDEX}"
        + (f"; it has checkpoints, smex.latest of it is {last}" if last else "")
        + ("; it is what a save that did not end left" if manifest.is_temporary(path) else "")
    )


def _own_source(path: str, found: Manifest) -> _Source:
    tensors = {}
    for name, saved in found.tensors.items():
        for each in (name, *saved.names):
            tensors[each] = saved
    return _Source(
        path,
        found.nonce,
        tensors,
        [(file.name, file.size, file.sums) for file in found.files],
        found.optimizers,
        found.random,
        found.extra,
    )


def _files_of_index(path: str) -> list[str]:
    try:
        with open(path) as file:
            return sorted(set(json.load(file)["weight_map"].values()))
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise CheckpointError(f"load: {path} is no index of safetensors files: {error}") from error


def _whole_source(folder: str, names: Sequence[str]) -> _Source:
    tensors: dict[str, SavedTensor] = {}
    for number, name in enumerate(names):
        if os.path.basename(name) != name:
            raise CheckpointError(f"load: {folder} names a file outside of it, {name!r}")
        file = File(os.path.join(folder, name))
        try:
            found, metadata = read_header(file)
        finally:
            file.close()
        for key, (dtype, shape, begin) in found.items():
            box = SavedBox(number, begin, whole_box(shape))
            tensors[key] = SavedTensor(dtype, shape, [key], [box])
        for other, stored in metadata.items():
            if stored in found and other not in found:  # tied, told by who wrote it
                tensors[stored].names.append(other)
                tensors[other] = tensors[stored]
    files: list[tuple[str, int | None, list[int] | None]] = [(name, None, None) for name in names]
    return _Source(folder, "", tensors, files, None, None, {})


# ---- what is wanted of it ----


@dataclasses.dataclass
class _Read:
    """A part of a file's box, and where it goes."""

    source: SavedBox
    dtype: torch.dtype
    region: Bounds
    tile: torch.Tensor
    box: Bounds


class _Reading:
    """All that a process reads.

    Attributes:
        source: what is read.
        wanted: the net's tensors that are.

    Raises:
        CheckpointError, SmexValueError: it cannot be, and why.
    """

    def __init__(
        self,
        path: str,
        net: PartitionedModule,
        optimizers: Mapping[str, torch.optim.Optimizer],
        strict: bool,
        names: Names | None,
    ):
        self.source = _source_of(path)
        self.wanted: list[str] = []
        self._strict = strict
        self._wrong: list[str] = []
        self._unfit: set[str] = set()
        self._reads: list[_Read] = []
        self._attach: list[Callable[[], None]] = []
        self._files: dict[int, File] = {}
        own = self.source.optimizers is not None
        if own and names is not None:
            raise SmexValueError("load: names= is for Hugging Face's files; this has the net's own")
        tensors = tensors_of(net._state)
        known = self._parameters(tensors, names)
        if own:
            self._optimizers(tensors, known, optimizers)
        elif optimizers:
            raise SmexValueError(f"load: {path} has no optimisers; leave opt out")
        if self._wrong:
            text = "".join(f"\n  {each}" for each in self._wrong)
            raise SmexValueError(f"load: {path} does not fit the net:{text}")

    def _refuse(self, what: str, always: bool = True) -> None:
        if always or self._strict:
            self._wrong.append(what)

    # ---- the model ----

    def _parameters(self, tensors: Sequence[Saved], names: Names | None) -> dict[str, str]:
        """Finds every tensor of the net; returns by its name that in the checkpoint."""
        found: dict[str, str] = {}
        used: set[int] = set()
        for saved in tensors:
            told = [each for each in (named(names, n) for n in saved.names) if each is not None]
            if not told:
                continue
            name = self.source.find(told)
            if name is None:
                self._refuse(f'"{told[0]}" is missing: the net has it, the checkpoint does not',
                             always=False)  # fmt: skip
                continue
            found[saved.name] = name
            stored = self.source.tensors[name]
            used.add(id(stored))
            if self._fits(name, stored, saved.shape, saved.dtype):
                self._want(stored, saved)
                self.wanted.append(saved.name)
            else:
                self._unfit.add(saved.name)
        optimizers = self.source.optimizers or {}
        for name, stored in self.source.tensors.items():
            is_state = any(name.startswith(f"optimizer/{each}/") for each in optimizers)
            if id(stored) not in used and not is_state and name == stored.names[0]:
                self._refuse(f'"{name}" is unexpected: the checkpoint has it, the net does not',
                             always=False)  # fmt: skip
        return found

    def _fits(
        self, name: str, stored: SavedTensor, shape: tuple[int, ...], dtype: torch.dtype
    ) -> bool:
        if stored.shape != shape:
            self._refuse(f'"{name}" was saved as {list(stored.shape)}, the net has {list(shape)}')
            return False
        both_float = stored.dtype.is_floating_point and dtype.is_floating_point
        if stored.dtype != dtype and (self._strict or not both_float):
            hint = " (convert the model, or pass strict=False)" if both_float else ""
            self._refuse(f'"{name}" was saved as {stored.dtype}, the net has {dtype}{hint}')
            return False
        return True

    def _want(self, stored: SavedTensor, saved: Saved) -> None:
        for tile, box in saved.unique():
            self._want_tile(stored, tile.detach(), box)

    def _want_tile(self, stored: SavedTensor, tile: torch.Tensor, box: Bounds) -> None:
        if not tile.numel():
            return
        for number, _, region in relayout([each.box for each in stored.boxes], [box]):
            self._reads.append(_Read(stored.boxes[number], stored.dtype, tuple(region), tile, box))

    # ---- optimisers ----

    def _optimizers(
        self,
        tensors: Sequence[Saved],
        known: Mapping[str, str],
        optimizers: Mapping[str, torch.optim.Optimizer],
    ) -> None:
        stored = self.source.optimizers
        assert stored is not None
        if optimizers and optimizers.keys() != stored.keys():
            have = ", ".join(map(repr, stored)) or "none"
            raise SmexValueError(
                f"load: optimisers were saved as {have}, opt has "
                f"{', '.join(map(repr, optimizers))}; give them as they were given to smex.save"
            )
        for name, optimizer in optimizers.items():
            self._optimizer(name, stored[name], Members(optimizer, tensors), tensors, known)

    def _optimizer(
        self,
        name: str,
        stored: Contents,
        members: Members,
        tensors: Sequence[Saved],
        known: Mapping[str, str],
    ) -> None:
        optimizer = members.optimizer
        kind = type(optimizer).__name__
        if kind != stored.kind:
            self._refuse(f"the optimiser saved is {stored.kind}, opt is {kind}")
            return
        all_names = {id(self.source.tensors[own]): param for param, own in known.items()}
        stored_as: dict[str, str] = {}  # by the net's name that in the optimiser's contents
        group_of: dict[str, int] = {}
        for number, group in enumerate(stored.groups):
            for param in group.params:
                tensor = self.source.tensors.get(param)
                ours = all_names.get(id(tensor))
                if ours is not None:
                    stored_as[ours], group_of[ours] = param, number
        for number, params in enumerate(members.groups):
            self._group(optimizer, number, params, stored, group_of)
        self._other_groups(members, tensors, stored, group_of)
        for saved in tensors:
            has_both = saved.name in members.tiles and saved.name in stored_as
            if has_both and saved.name not in self._unfit:
                param = stored_as[saved.name]
                self._states(name, param, stored.states.get(param, {}), saved, members)

    def _group(
        self,
        optimizer: torch.optim.Optimizer,
        number: int,
        params: Sequence[str],
        stored: Contents,
        group_of: Mapping[str, int],
    ) -> None:
        for param in params:
            if param not in group_of:
                self._refuse(f'"{param}" was in no group of the optimiser that was saved; opt has '
                             f"it in group {number}", always=False)  # fmt: skip
        groups = sorted({group_of[param] for param in params if param in group_of})
        if not params and number < len(stored.groups) and not stored.groups[number].params:
            groups = [number]
        options = [stored.groups[each].options for each in groups]
        if not options:
            return
        if any(each != options[0] for each in options):
            self._refuse(
                f"group {number} of opt has parameters of the groups {groups} that were saved, "
                "whose options differ; divide the parameters as they were"
            )
            return
        group = optimizer.param_groups[number]
        self._attach.append(lambda: set_options(group, options[0]))

    def _other_groups(
        self,
        members: Members,
        tensors: Sequence[Saved],
        stored: Contents,
        group_of: Mapping[str, int],
    ) -> None:
        """Refuses parameters that were in the optimiser and are not, or are in another group."""
        own = {param: number for number, group in enumerate(members.groups) for param in group}
        for saved in tensors:
            before, now = group_of.get(saved.name), own.get(saved.name)
            if before is None or not any(tile.numel() for tile, _ in saved.unique()):
                continue  # a process has no part of a tensor of which it has no tile
            if now is None:
                self._refuse(f'"{saved.name}" was in group {before} of the optimiser that was '
                             "saved; opt does not have it", always=False)  # fmt: skip
            elif now != before:
                self._refuse(f'"{saved.name}" was in group {before} of the optimiser that was '
                             f"saved; opt has it in group {now}", always=False)  # fmt: skip
        if len(stored.groups) != len(members.groups):
            self._refuse(
                f"the optimiser that was saved has {len(stored.groups)} groups of parameters, opt "
                f"has {len(members.groups)}",
                always=False,
            )

    def _states(
        self,
        optimizer: str,
        param: str,
        states: Mapping[str, State],
        saved: Saved,
        members: Members,
    ) -> None:
        for key, state in states.items():
            if state.kind == "whole":
                try:
                    refuse_cut(key, saved, state.shape)
                except SmexValueError as error:
                    self._refuse(str(error))
                    return
        boxes = {id(tile): box for tile, box in saved.unique()}
        groups = members.optimizer.param_groups
        for tile in members.tiles[saved.name]:
            group = next(g for g in groups if any(tile is each for each in g["params"]))
            before = members.optimizer.state.get(tile, {})
            after: dict[str, Any] = {}
            for key, state in states.items():
                if state.kind == "value":
                    after[key] = _number(key, state, tile, group)
                    continue
                stored = self.source.tensors[state_name(optimizer, param, key)]
                box = boxes[id(tile)] if state.kind == "tile" else whole_box(state.shape)
                after[key] = _Room(stored, box, tile, before.get(key), self)
            self._attach.append(lambda tile=tile, after=after: _set_state(  # type: ignore[misc]
                members.optimizer, tile, after))  # fmt: skip

    # ---- reading ----

    def _file(self, number: int) -> File:
        if number not in self._files:
            name, size, _ = self.source.files[number]
            self._files[number] = File(os.path.join(self.source.folder, name), size)
        return self._files[number]

    def check(self) -> None:
        """Compares all that is going to be read with its sums."""
        blocks: dict[int, set[int]] = {}
        for read in self._reads:
            begin, end = _extent(read.source.box, read.region)
            size = read.dtype.itemsize
            first = (read.source.begin + begin * size) // BLOCK
            last = (read.source.begin + end * size - 1) // BLOCK
            blocks.setdefault(read.source.file, set()).update(range(first, last + 1))
        for number, wanted in sorted(blocks.items()):
            sums = self.source.files[number][2]
            file = self._file(number)
            if sums is not None:
                file.check(sorted(wanted), sums)

    def read(self) -> None:
        """Reads into the tiles."""
        self._reads.sort(key=lambda read: (read.source.file, read.source.begin))
        with torch.no_grad():
            for read in self._reads:
                _copy(self._file(read.source.file), read)

    def attach(self) -> None:
        """Gives optimisers what was read, and the generator its state."""
        for each in self._attach:
            each()
        if self.source.random is not None:
            torch.set_rng_state(torch.frombuffer(bytearray(self.source.random), dtype=torch.uint8))

    def close(self) -> None:
        """Lets go of the files."""
        for file in self._files.values():
            file.close()


def _extent(box: Bounds, region: Bounds) -> tuple[int, int]:
    """Returns the first element of a part of a box, and the one after the last, as they lie."""
    first, last = 0, 0
    for (lo, hi), (begin, end) in zip(box, region, strict=True):
        first = first * (hi - lo) + begin - lo
        last = last * (hi - lo) + end - 1 - lo
    return first, last + 1


def _copy(file: File, read: _Read) -> None:
    dtype, size = read.dtype, read.dtype.itemsize
    box, region, tile, within = read.source.box, read.region, read.tile, read.box
    if read.source.begin % size:  # as other programs may write: no tensor begins there
        saved = file.tensor(read.source.begin, torch.uint8, _in_bytes(shape_of(box), size))
        part = sliced(saved, _scaled(_relative(region, box), size)).clone().view(dtype)
        part = part.reshape(shape_of(region))
    else:
        part = sliced(file.tensor(read.source.begin, dtype, shape_of(box)), _relative(region, box))
    sliced(tile, _relative(region, within)).copy_(part)


def _in_bytes(shape: tuple[int, ...], size: int) -> tuple[int, ...]:
    return (*shape[:-1], shape[-1] * size) if shape else (size,)


def _scaled(box: Bounds, size: int) -> Bounds:
    return (*box[:-1], (box[-1][0] * size, box[-1][1] * size)) if box else ((0, size),)


def _relative(region: Bounds, box: Bounds) -> Bounds:
    return tuple((lo - base, hi - base) for (lo, hi), (base, _) in zip(region, box, strict=True))


# ---- what is attached ----


class _Room:
    """Where a state is read to: the tensor that is there, or a new one."""

    def __init__(
        self, stored: SavedTensor, box: Bounds, tile: torch.Tensor, before: Any, reading: _Reading
    ):
        shape = shape_of(box)
        fits = (
            isinstance(before, torch.Tensor)
            and before.shape == shape
            and before.dtype == stored.dtype
        )
        self.tensor = before if fits else torch.empty(shape, dtype=stored.dtype, device=tile.device)
        reading._want_tile(stored, self.tensor, box)


def _number(key: str, state: State, tile: torch.Tensor, group: Mapping[str, Any]) -> Any:
    value = number_of(state.value, state.dtype, "cpu")
    is_tensor = isinstance(value, torch.Tensor)
    return placed_number(key, value, tile, group) if is_tensor else value


def _set_state(
    optimizer: torch.optim.Optimizer, tile: torch.Tensor, after: Mapping[str, Any]
) -> None:
    if not after:
        optimizer.state.pop(tile, None)
        return
    optimizer.state[tile] = {
        key: value.tensor if isinstance(value, _Room) else value for key, value in after.items()
    }
