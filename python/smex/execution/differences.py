"""What ranks have to have alike, by name: an error tells the first in which they differ."""

from __future__ import annotations

import itertools
import zlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import torch

from smex.capture.objects import Objects, flatten_with_paths
from smex.capture.swap import StateSlot
from smex.capture.trace import argument_names
from smex.distributed.world import World
from smex.errors import RankFailure, SmexRuntimeError

_PLAIN = (bool, int, float, complex, str, type(None), torch.dtype)
_LONGEST = 200
"""Letters of a value that is told."""
_DIGESTS, _PROGRAMS, _WHOLES = "whether all are alike", "the programs", "what differs"
"""What processes tell each other."""


def refuse_differences(world: World, call: str, described: Mapping[str, str], hint: str) -> None:
    """Raises SmexRuntimeError on all ranks where they describe something differently.

    Args:
        world: of the processes, which all call this at the same place.
        call: for the message.
        described: by name what this rank has.
        hint: what to do.
    """
    if world.is_alone:
        return
    own = dict(described)
    digests = world.gather(zlib.crc32(repr(sorted(own.items())).encode()), _DIGESTS)
    if len(set(digests)) == 1:
        return
    difference = _first_difference(world.gather(own, _WHOLES))
    if difference is not None:
        rank, what = difference
        raise SmexRuntimeError(f"{call}: rank 0 and rank {rank} differ in {what}; {hint}")


def _first_difference(by_rank: Sequence[Mapping[str, str]]) -> tuple[int, str] | None:
    """Returns which rank differs from the first one, and in what."""
    first = by_rank[0]
    for rank, other in enumerate(by_rank):
        for name in dict.fromkeys([*first, *other]):
            here, there = (each.get(name, "nothing") for each in (first, other))
            if here != there:
                return rank, f"{name}: {here} and {there}"
    return None


def told_value(value: Any) -> str:
    """Returns a value as ranks compare it: of a tensor type and shape, of objects the class."""
    if isinstance(value, torch.Tensor):
        return f"{str(value.dtype).removeprefix('torch.')}{list(value.shape)}"
    if isinstance(value, _PLAIN):
        return repr(value)[:_LONGEST]
    if isinstance(value, (list, tuple)) and all(isinstance(each, _PLAIN) for each in value):
        return repr(value)[:_LONGEST]
    return f"a {type(value).__name__}"


def described_inputs(model: Any, loss_fn: Any, args: tuple, kwargs: dict) -> dict[str, str]:
    """Describes what a net is called with."""
    keyed, _ = flatten_with_paths(Objects().pack((args, kwargs)))
    names = argument_names(model, loss_fn, args, keyed, object)
    leaves = [leaf for _, leaf in keyed if not isinstance(leaf, bool)]
    named = [(f'argument "{name}"', leaf) for name, leaf in zip(names, leaves, strict=True)]
    return {name: told_value(leaf) for name, leaf in named}


def described_state(slots: Iterable[StateSlot]) -> dict[str, str]:
    """Describes parameters and buffers."""
    found = {}
    for slot in slots:
        where = f'{slot.role} "{slot.names[0]}"'
        found[where] = told_value(slot.tensor)
        found[f"requires_grad of {where}"] = str(slot.tensor.requires_grad)
    return found


def described_modules(model: torch.nn.Module) -> dict[str, str]:
    """Describes the modules of a model: their classes, modes and settings."""
    found = {}
    for name, module in model.named_modules():
        where = f'module "{name}"' if name else "the model"
        found[where] = type(module).__name__
        for key, value in vars(module).items():
            if isinstance(value, _PLAIN):
                found[f'"{key}" of {where}'] = repr(value)[:_LONGEST]
    return found


class Equals:
    """Compares what processes have made, and tells who failed to make it.

    Args:
        world: of the processes, which all enter this at the same place.
        what: they make, for messages.
        settings: describes what it may depend on besides what was compared before.
    """

    def __init__(self, world: World, what: str, settings: Callable[[], dict[str, str]]):
        self._world = world
        self._what = what
        self._settings = settings
        self._told = False

    def __enter__(self) -> Equals:
        return self

    def check(self, digest: int, text: str) -> None:
        """Raises SmexRuntimeError where a process has another digest, with the first difference."""
        if self._world.is_alone:
            return
        self._told = True
        found = self._world.gather((digest, None), _PROGRAMS)
        self._refuse_failed(found)
        if len({digest for digest, _ in found}) == 1:
            return
        everyone = self._world.gather((self._settings(), text), _WHOLES)
        other = next(rank for rank, (each, _) in enumerate(found) if each != found[0][0])
        rank, difference = _first_difference([settings for settings, _ in everyone]) or (
            other,
            _first_line(everyone[0][1], everyone[other][1]),
        )
        raise SmexRuntimeError(
            f"partition: different programs of {self._what}: rank 0 and rank {rank} differ in "
            f"{difference}; every rank must have the same model and inputs of the same shapes"
        )

    def _refuse_failed(self, found: Sequence[tuple[int, str | None]]) -> None:
        for rank, (_, problem) in enumerate(found):
            if problem is not None:
                raise RankFailure(f"partition: rank {rank} failed: {problem}", rank, "", problem)

    def __exit__(self, kind: Any, error: BaseException | None, trace: Any) -> None:
        if error is not None and not self._told and not self._world.is_alone:
            self._told = True
            self._world.gather((0, f"{type(error).__name__}: {error}"), _PROGRAMS)


def _first_line(here: str, there: str) -> str:
    """Returns the first line in which two programs differ."""
    lines = itertools.zip_longest(here.splitlines(), there.splitlines(), fillvalue="")
    for number, (a, b) in enumerate(lines, 1):
        if a != b:
            return f"line {number} of the program: {a.strip()!r} and {b.strip()!r}"
    return "what the lines of the program do not tell"
