"""What of a net and its optimisers outlives a run: tensors by their tiles, numbers, options."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, TypeVar

import torch

from smex.distributed.outcomes import together
from smex.distributed.world import World
from smex.errors import SmexTypeError, SmexValueError
from smex.execution.shards import ShardedState

Bounds = tuple[tuple[int, int], ...]
"""A box: (lo, hi) by dimension."""

Optimizers = (
    torch.optim.Optimizer | Sequence[torch.optim.Optimizer] | Mapping[str, torch.optim.Optimizer]
)
Told = TypeVar("Told")
Scalar = bool | int | float | str | list | dict | None

HOW = ("capturable", "differentiable", "foreach", "fused")
"""Options that say how a step runs and not what it computes: each optimiser keeps its own."""


def whole_box(shape: Sequence[int]) -> Bounds:
    """Returns the box of all elements."""
    return tuple((0, size) for size in shape)


def numel(box: Bounds) -> int:
    """Returns the number of elements in a box."""
    count = 1
    for lo, hi in box:
        count *= max(hi - lo, 0)
    return count


@dataclasses.dataclass
class Saved:
    """A tensor by the tiles that workers hold.

    Attributes:
        name: the model's own; of an optimiser's state with a prefix.
        names: all of a tied tensor.
        shape: of the whole.
        dtype: of the tiles.
        boxes: by worker, of all processes; None where a worker holds none.
        tiles: by worker; None where another process has it.
        is_parameter: whether an optimiser may know it.
    """

    name: str
    names: list[str]
    shape: tuple[int, ...]
    dtype: torch.dtype
    boxes: list[Bounds | None]
    tiles: list[torch.Tensor | None]
    is_parameter: bool = False

    def holders(self) -> dict[Bounds, list[int]]:
        """Returns the workers of each distinct box that has elements, in their order."""
        found: dict[Bounds, list[int]] = {}
        for worker, box in enumerate(self.boxes):
            if box is not None and numel(box):
                found.setdefault(box, []).append(worker)
        return found

    def unique(self) -> list[tuple[torch.Tensor, Bounds]]:
        """Returns the distinct tiles of this process, with their boxes."""
        found: dict[int, tuple[torch.Tensor, Bounds]] = {}
        for tile, box in zip(self.tiles, self.boxes, strict=True):
            if tile is not None and box is not None:
                found.setdefault(id(tile), (tile, box))
        return list(found.values())


def tensors_of(state: ShardedState) -> list[Saved]:
    """Returns the parameters, then the buffers that a state dict has, tied ones once."""
    workers = range(len(state.devices))
    found = []
    for slot in state._slots():
        name = slot.names[0]
        is_parameter = slot.role == "parameter"
        if not is_parameter and not any(map(_is_persistent, slot.holders)):
            continue
        cut = state.cuts.get(name)
        shape = tuple(slot.tensor.shape)
        boxes: list[Bounds | None]
        tiles: list[torch.Tensor | None]
        if cut is None:  # of no use to any call: every worker has the model's own
            dtype = slot.tensor.dtype
            boxes, tiles = [whole_box(shape) for _ in workers], [slot.tensor for _ in workers]
        else:
            dtype = next((tile.dtype for tile, _ in cut.unique), cut.source.dtype)
            boxes = [tuple((lo, hi) for lo, hi in box) if held else None for held, box in cut.boxes]
            tiles = list(cut.tiles)
        found.append(Saved(name, list(slot.names), shape, dtype, boxes, tiles, is_parameter))
    return found


def _is_persistent(holder: tuple[Any, str]) -> bool:
    module, name = holder
    return name not in getattr(module, "_non_persistent_buffers_set", ())


# ---- optimisers ----


@dataclasses.dataclass
class State:
    """A state of a parameter.

    Attributes:
        kind: "tile" where it is cut as its parameter is, "whole" where it has a shape of its own,
            "value" where it is a number.
        dtype: of a tensor, also of one of no dimensions; None of what is none.
        shape: of a "whole".
        value: of a "value".
    """

    kind: str
    dtype: torch.dtype | None = None
    shape: tuple[int, ...] = ()
    value: Scalar = None


@dataclasses.dataclass
class Group:
    """A group of parameters: their names, and the options."""

    params: list[str]
    options: dict[str, Any]


@dataclasses.dataclass
class Contents:
    """What an optimiser is made of, over all processes, but for its tensors."""

    kind: str
    groups: list[Group]
    states: dict[str, dict[str, State]]


def by_name(opt: Optimizers | None) -> dict[str, torch.optim.Optimizer]:
    """Returns optimisers by the names they are saved under: keys, or numbers.

    Raises:
        SmexTypeError: one of them is none.
    """
    if opt is None:
        return {}
    if isinstance(opt, torch.optim.Optimizer):
        named: dict[str, Any] = {"0": opt}
    elif isinstance(opt, Mapping):
        named = {str(name): each for name, each in opt.items()}
    elif isinstance(opt, Sequence) and not isinstance(opt, str):
        named = {str(number): each for number, each in enumerate(opt)}
    else:
        named = {"": opt}
    for name, each in named.items():
        if not isinstance(each, torch.optim.Optimizer):
            raise SmexTypeError(
                f"opt: expected a torch.optim.Optimizer, or a list or dict of them, got "
                f"{type(each).__name__}{f' as {name!r}' if name else ''}"
            )
    return named


class Members:
    """The parameters of an optimiser that are a net's, by name.

    Args:
        optimizer: made of `net.parameters()`, or some of them.
        tensors: of the net.

    Attributes:
        tiles: by name the distinct tiles that the optimiser has here.
        groups: by group the names.

    Raises:
        SmexValueError: the optimiser has a parameter that is not the net's.
    """

    def __init__(self, optimizer: torch.optim.Optimizer, tensors: Iterable[Saved]):
        self.optimizer = optimizer
        self.tiles: dict[str, list[torch.Tensor]] = {}
        self.groups: list[list[str]] = []
        names = {
            id(tile): saved.name for saved in tensors for tile, _ in saved.unique()
            if saved.is_parameter
        }  # fmt: skip
        for number, group in enumerate(optimizer.param_groups):
            found: dict[str, None] = {}
            for param in group["params"]:
                if id(param) in names:
                    found[names[id(param)]] = None
                    self.tiles.setdefault(names[id(param)], []).append(param)
                elif param.numel():
                    raise SmexValueError(
                        f"opt: group {number} of {type(optimizer).__name__} has a parameter of "
                        f"shape {list(param.shape)} that is not the net's; make the optimiser of "
                        "net.parameters() after the net was captured"
                    )
            self.groups.append(list(found))

    def contents(self) -> Contents:
        """Returns what the optimiser of this process says.

        Raises:
            SmexValueError: a state cannot be saved.
        """
        groups = [
            Group(names, {key: _option(key, group[key]) for key in group if key != "params"})
            for names, group in zip(self.groups, self.optimizer.param_groups, strict=True)
        ]
        states: dict[str, dict[str, State]] = {}
        for name, tiles in self.tiles.items():
            found = [(tile, self.optimizer.state[tile]) for tile in tiles
                     if tile in self.optimizer.state]  # fmt: skip
            if found:
                states[name] = _described(name, found)
            if found and any(t.numel() and t not in self.optimizer.state for t in tiles):
                raise SmexValueError(
                    f'opt: some tiles of "{name}" have a state and others have none; take a step '
                    "with gradients of all of them, or leave the parameter out of the optimiser"
                )
        return Contents(type(self.optimizer).__name__, groups, states)


def _described(
    name: str, tiles: Sequence[tuple[torch.Tensor, Mapping[str, Any]]]
) -> dict[str, State]:
    found: dict[str, State] = {}
    for tile, states in tiles:
        for key, value in states.items():
            state = _state(name, key, tile, value)
            known = found.setdefault(key, state)
            if (known.kind, known.dtype) != (state.kind, state.dtype):
                raise SmexValueError(
                    f'opt: the state "{key}" of "{name}" is {_told(known)} in one tile and '
                    f"{_told(state)} in another; only states that are alike can be saved"
                )
    return found


def _told(state: State) -> str:
    return f"{state.kind} {state.dtype}" if state.dtype else f"{state.kind}"


def _state(name: str, key: str, tile: torch.Tensor, value: Any) -> State:
    if not isinstance(value, torch.Tensor):
        if value is None or isinstance(value, (bool, int, float, str)):
            return State("value", value=value)
        raise SmexValueError(
            f'opt: the state "{key}" of "{name}" is a {type(value).__name__}; tensors, numbers and '
            "texts can be saved"
        )
    if value.dim() == 0:
        return State("value", value.dtype, value=_number(value))
    if value.shape == tile.shape:
        return State("tile", value.dtype)
    return State("whole", value.dtype, tuple(value.shape))


def _number(value: torch.Tensor) -> Scalar:
    number = value.item()
    return [number.real, number.imag] if isinstance(number, complex) else number


def number_of(value: Scalar, dtype: torch.dtype | None, device: Any) -> Any:
    """Returns the state that a "value" stands for."""
    if dtype is None:
        return value
    if isinstance(value, list):
        value = complex(*value)  # type: ignore[assignment]
    return torch.tensor(value, dtype=dtype, device=device)


def _option(key: str, value: Any) -> Any:
    """Returns an option as JSON has it.

    Raises:
        SmexValueError: it is no number, text, tensor of one, or list of them.
    """
    if isinstance(value, torch.Tensor) and value.numel() == 1:
        return _number(value.reshape(()))
    if isinstance(value, (list, tuple)):
        return [_option(key, each) for each in value]
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    raise SmexValueError(
        f'opt: the option "{key}" is a {type(value).__name__}; numbers, texts and lists of them '
        "can be saved"
    )


def placed_number(
    key: str, value: torch.Tensor, tile: torch.Tensor, group: Mapping[str, Any]
) -> torch.Tensor:
    """Returns a state of no dimensions where the optimiser's kernels want it.

    As `torch.optim.Optimizer.load_state_dict`: a step is on the CPU but for those of fused and
    capturable optimisers. Each tile has its own.
    """
    on_device = key != "step" or group.get("fused") or group.get("capturable")
    return value.detach().clone().to(tile.device if on_device else "cpu")


def set_options(group: dict[str, Any], options: Mapping[str, Any]) -> None:
    """Gives a group of parameters the options that were saved, but for how it runs."""
    for key, value in options.items():
        before = group.get(key)
        if key in HOW:
            continue
        if isinstance(before, torch.Tensor):
            before.fill_(value)
        elif isinstance(before, tuple):
            group[key] = tuple(value)
        else:
            group[key] = value


def merged(name: str, parts: Sequence[Contents]) -> Contents:
    """Returns what the processes say of one optimiser.

    Raises:
        SmexValueError: they do not say the same.
    """
    first = parts[0]
    groups = [Group([], dict(group.options)) for group in first.groups]
    states: dict[str, dict[str, State]] = {}
    members: list[dict[str, None]] = [{} for _ in groups]
    for rank, part in enumerate(parts):
        if (part.kind, len(part.groups)) != (first.kind, len(groups)):
            raise SmexValueError(
                f'opt: "{name}" is {first.kind} with {len(groups)} groups on rank 0 and '
                f"{part.kind} with {len(part.groups)} on rank {rank}; make it alike on all ranks"
            )
        for number, (mine, group) in enumerate(zip(members, part.groups, strict=True)):
            mine |= dict.fromkeys(group.params)
            _refuse_other_options(name, number, rank, first.groups[number], group)
        for param, found in part.states.items():
            known = states.setdefault(param, found)
            for key in known.keys() ^ found.keys():
                raise SmexValueError(
                    f'opt: "{param}" has the state "{key}" on some ranks only; take the same steps '
                    "on all ranks"
                )
            for key, state in found.items():
                if (known[key].kind, known[key].dtype) != (state.kind, state.dtype):
                    raise SmexValueError(
                        f'opt: the state "{key}" of "{param}" is {_told(known[key])} on one rank '
                        f"and {_told(state)} on rank {rank}; states have to be alike"
                    )
    for group, mine in zip(groups, members, strict=True):
        group.params = list(mine)
    return Contents(first.kind, groups, states)


def _refuse_other_options(name: str, number: int, rank: int, first: Group, group: Group) -> None:
    for key in (first.options.keys() | group.options.keys()) - set(HOW):
        here, there = first.options.get(key), group.options.get(key)
        if here != there:
            raise SmexValueError(
                f'opt: group {number} of "{name}" has {key}={here!r} on rank 0 and {there!r} on '
                f"rank {rank}, so that the ranks take different steps; give all of them the same"
            )


def state_name(optimizer: str, param: str, key: str) -> str:
    """Returns what an optimiser's tensor is called in a file."""
    return f"optimizer/{optimizer}/{param}/{key}"


def states_of(
    name: str, members: Members, contents: Contents, tensors: Sequence[Saved]
) -> list[Saved]:
    """Returns the tensors among an optimiser's states, in the boxes of their parameters.

    Raises:
        SmexValueError: one has another shape than its parameter, which is cut.
    """
    found = []
    for saved in tensors:
        for key, state in contents.states.get(saved.name, {}).items():
            if state.kind == "value":
                continue
            shape, boxes = saved.shape, list(saved.boxes)
            if state.kind == "whole":
                refuse_cut(key, saved, state.shape)
                shape = state.shape
                boxes = [None if box is None else whole_box(shape) for box in boxes]
            assert state.dtype is not None
            tiles = [_state_tensor(members, tile, key) for tile in saved.tiles]
            full = state_name(name, saved.name, key)
            found.append(Saved(full, [full], shape, state.dtype, boxes, tiles))
    return found


def refuse_cut(key: str, saved: Saved, shape: tuple[int, ...]) -> None:
    """Raises SmexValueError where a state of a shape of its own would have to be cut."""
    whole = whole_box(saved.shape)
    for box in saved.boxes:
        if box is not None and box != whole:
            raise SmexValueError(
                f'opt: the state "{key}" of "{saved.name}" has shape {list(shape)}, which does not '
                f"follow its parameter's, of which a worker holds {list(box)} of "
                f"{list(saved.shape)}; keep the parameter whole (smex.pin), or use an optimiser "
                "whose states are shaped as their parameters"
            )


def _state_tensor(members: Members, tile: torch.Tensor | None, key: str) -> torch.Tensor | None:
    if tile is None or tile not in members.optimizer.state:
        return None
    found = members.optimizer.state[tile].get(key)
    return found if isinstance(found, torch.Tensor) else None


def all_saved(
    state: ShardedState,
    world: World,
    opt: Callable[[], Mapping[str, torch.optim.Optimizer]],
    first: Callable[[], Told],
) -> tuple[list[Saved], dict[str, Contents], list[Told]]:
    """Returns all tensors, what else there is of the optimisers, and what processes tell besides.

    Every process calls this.

    Args:
        state: of the net.
        world: of the net.
        opt: gives the optimisers.
        first: is called before anything else is done; what it returns is told by rank.

    Raises:
        SmexValueError: a process has something that cannot be saved, or another thing than others.
    """
    tensors: list[Saved] = []
    members: dict[str, Members] = {}

    def mine() -> tuple[dict[str, Contents], Told]:
        told = first()
        tensors.extend(tensors_of(state))
        for name, optimizer in opt().items():
            members[name] = Members(optimizer, tensors)
        return {name: each.contents() for name, each in members.items()}, told

    everyone = together(world, mine)
    found, contents = list(tensors), {}
    for name, each in members.items():
        contents[name] = merged(name, [part[name] for part, _ in everyone])
        found += states_of(name, each, contents[name], tensors)
    return found, contents, [told for _, told in everyone]
