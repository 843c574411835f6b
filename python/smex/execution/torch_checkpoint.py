"""A net's tensors as `torch.distributed.checkpoint` (DCP) takes them: boxes of a whole.

A value is the tile itself, so that DCP reads and writes where the net computes. torch 2.15 takes a
plain tensor that says which box it is (`CheckpointableTensor`). Before that, and where a process
has several tiles of a tensor, it is a tensor without memory that answers for them
(`_Checkpointable`, which DTensor answers too).
"""

from __future__ import annotations

import copy
import importlib.util
from collections import defaultdict
from collections.abc import Mapping
from typing import Any

import torch
from torch.distributed.checkpoint.metadata import (
    ChunkStorageMetadata,
    MetadataIndex,
    TensorProperties,
)
from torch.distributed.checkpoint.planner import TensorWriteData, WriteItem, WriteItemType

from smex.distributed.world import World
from smex.errors import SmexRuntimeError, SmexValueError
from smex.execution.saved import (
    Bounds,
    Contents,
    Members,
    Saved,
    State,
    all_saved,
    number_of,
    numel,
    placed_number,
    set_options,
    state_name,
    tensors_of,
    whole_box,
)
from smex.execution.shards import ShardedState

_PLAIN = importlib.util.find_spec("torch.distributed.checkpoint.protocol") is not None
_OPTIMIZER = "optimizer"


class TiledTensor(torch.Tensor):
    """A whole tensor that has no memory but tiles; what DCP asks of it is all that it can do.

    Attributes:
        tiles: by box, of this process.
    """

    tiles: dict[Bounds, torch.Tensor]

    @staticmethod
    def of(saved: Saved, tiles: dict[Bounds, torch.Tensor]) -> TiledTensor:
        """Returns the tensor of some tiles."""
        device = next((tile.device for tile in tiles.values()), torch.device("cpu"))
        whole = torch.Tensor._make_wrapper_subclass(
            TiledTensor, saved.shape, dtype=saved.dtype, device=device
        )
        whole.tiles = tiles
        return whole

    @classmethod
    def __torch_dispatch__(  # type: ignore[override]
        cls, func: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        raise SmexRuntimeError(
            f"sharded_state_dict: {func} of a tensor that has tiles alone; it is for "
            "torch.distributed.checkpoint, net.state_dict() has whole tensors"
        )

    def __repr__(self) -> str:  # type: ignore[override]
        boxes = ", ".join(map(str, self.tiles))
        return f"TiledTensor(shape={tuple(self.shape)}, dtype={self.dtype}, boxes=[{boxes}])"

    def __create_write_items__(self, fqn: str, of: Any) -> list[WriteItem]:
        items = []
        for chunk, tile in zip(self.__create_chunk_list__(), self.tiles.values(), strict=True):
            properties = TensorProperties.create_from_tensor(tile)
            data = TensorWriteData(chunk=chunk, properties=properties, size=self.size())
            index = MetadataIndex(fqn, chunk.offsets)
            items.append(WriteItem(index=index, type=WriteItemType.SHARD, tensor_data=data))
        return items

    def __create_chunk_list__(self) -> list[ChunkStorageMetadata]:
        return [
            ChunkStorageMetadata(
                offsets=torch.Size([lo for lo, _ in box]),
                sizes=torch.Size([hi - lo for lo, hi in box]),
            )
            for box in self.tiles
        ]

    def __get_tensor_shard__(self, index: MetadataIndex) -> torch.Tensor:
        for box, tile in self.tiles.items():
            if index.offset is None or [lo for lo, _ in box] == list(index.offset):
                return tile
        raise SmexValueError(
            f'sharded_state_dict: "{index.fqn}" has no tile here that begins at '
            f"{list(index.offset or ())}"
        )


def _value(saved: Saved) -> torch.Tensor:
    """Returns a tensor as DCP takes it."""
    tiles = {box: tile.detach() for tile, box in saved.unique() if numel(box)}
    whole = whole_box(saved.shape)
    if whole in tiles:
        return tiles[whole]
    if not numel(whole):
        return torch.empty(saved.shape, dtype=saved.dtype)
    if not _PLAIN or len(tiles) > 1:
        return TiledTensor.of(saved, tiles)
    value: Any = torch.empty([0] * len(saved.shape), dtype=saved.dtype)
    for tile in tiles.values():
        value = tile
    value.global_shape = saved.shape
    value.global_offsets = tuple(tuple(lo for lo, _ in box) for box in tiles)
    value.local_offsets = tuple((0,) * len(box) for box in tiles)
    value.local_sizes = tuple(tuple(hi - lo for lo, hi in box) for box in tiles)
    return value


def _tile_in(value: Any, box: Bounds) -> torch.Tensor:
    return value.tiles[box] if isinstance(value, TiledTensor) else value


def sharded_state_dict(
    state: ShardedState,
    world: World,
    optimizers: Mapping[str, torch.optim.Optimizer],
    for_loading: bool,
) -> dict[str, Any]:
    """See `PartitionedModule.sharded_state_dict`."""

    def given() -> Mapping[str, torch.optim.Optimizer]:
        if not for_loading:
            return optimizers
        return {name: _with_rooms(each) for name, each in optimizers.items()}

    tensors, contents, _ = all_saved(state, world, given, lambda: None)
    by_name = {saved.name: saved for saved in tensors}
    found: dict[str, Any] = {}
    for saved in tensors_of(state):
        found |= dict.fromkeys(saved.names, _value(saved))
    if optimizers:
        found[_OPTIMIZER] = {
            name: _optimizer_value(name, each, by_name) for name, each in contents.items()
        }
    return found


def _optimizer_value(name: str, contents: Contents, by_name: Mapping[str, Saved]) -> dict[str, Any]:
    groups = {
        str(number): {"params": group.params, **group.options}
        for number, group in enumerate(contents.groups)
    }

    def value_of(param: str, key: str, state: State) -> Any:
        if state.kind == "value":
            return number_of(state.value, state.dtype, "cpu")
        return _value(by_name[state_name(name, param, key)])

    states = {
        param: {key: value_of(param, key, state) for key, state in states.items()}
        for param, states in contents.states.items()
    }
    return {"state": states, "param_groups": groups}


def _with_rooms(optimizer: torch.optim.Optimizer) -> torch.optim.Optimizer:
    """Returns a stand-in that has room for all states that the optimiser is going to have.

    Which these are, steps of single parameters of the same shapes tell.
    """
    stand_in = copy.copy(optimizer)
    state = defaultdict[torch.Tensor, Any](dict)
    for group in optimizer.param_groups:
        for param in group["params"]:
            if param in optimizer.state:
                state[param] = optimizer.state[param]
            elif param.requires_grad:
                other = torch.zeros_like(param, requires_grad=True)
                other.grad = torch.zeros_like(other)
                stand_in.state = defaultdict[torch.Tensor, Any](dict)
                stand_in.param_groups = [{**group, "params": [other]}]
                stand_in.step()
                if other in stand_in.state:
                    state[param] = stand_in.state[other]
    stand_in.state = state
    stand_in.param_groups = optimizer.param_groups
    return stand_in


def load_sharded_state_dict(
    state: ShardedState,
    loaded: Mapping[str, Any],
    optimizers: Mapping[str, torch.optim.Optimizer],
) -> None:
    """See `PartitionedModule.load_sharded_state_dict`."""
    tensors = tensors_of(state)
    for name in [
        *(n for saved in tensors for n in saved.names),
        *([_OPTIMIZER] * bool(optimizers)),
    ]:
        if name not in loaded:
            raise SmexValueError(
                f'load_sharded_state_dict: "{name}" is missing; pass what net.sharded_state_dict('
                "opt, for_loading=True) returned, after dcp.load"
            )
    members = {name: Members(each, tensors) for name, each in optimizers.items()}
    with torch.no_grad():
        for saved in tensors:
            for tile, box in saved.unique():
                if numel(box):
                    _take(tile, _tile_in(loaded[saved.name], box))
        for name, each in members.items():
            _attach(each, loaded[_OPTIMIZER][name], tensors)


def _take(tile: torch.Tensor, value: torch.Tensor) -> None:
    if tile.data_ptr() != value.data_ptr():
        tile.copy_(value)


def _attach(members: Members, loaded: Mapping[str, Any], tensors: list[Saved]) -> None:
    optimizer = members.optimizer
    boxes = {id(tile): (saved, box) for saved in tensors for tile, box in saved.unique()}
    for number, group in enumerate(optimizer.param_groups):
        options = loaded["param_groups"].get(str(number), {})
        set_options(group, {key: each for key, each in options.items() if key != "params"})
        for tile in group["params"]:
            if id(tile) not in boxes:
                continue
            saved, box = boxes[id(tile)]
            before = optimizer.state.get(tile, {})
            after = {}
            for key, value in loaded["state"].get(saved.name, {}).items():
                if not isinstance(value, torch.Tensor):
                    after[key] = value
                elif not value.dim():
                    after[key] = placed_number(key, value, tile, group)
                elif tile.numel():
                    after[key] = _kept(before.get(key), _tile_in(value, box))
                else:
                    after[key] = torch.empty(tile.shape, dtype=value.dtype, device=tile.device)
            if after:
                optimizer.state[tile] = after


def _kept(before: Any, value: torch.Tensor) -> torch.Tensor:
    """Returns the state that is there, with these values, or the values themselves."""
    if not isinstance(before, torch.Tensor) or before.shape != value.shape:
        return value
    _take(before, value)
    return before
