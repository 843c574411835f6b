"""A net's tensors as torch's DTensors: tiles brought to the chunks that torch cuts, and back."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.tensor import DTensor, Replicate, Shard
from torch.distributed.tensor._utils import compute_local_shape_and_global_offset

from smex.distributed.outcomes import together
from smex.distributed.relayout import Boxes, Move, Relayout
from smex.distributed.world import World
from smex.errors import SmexRuntimeError, SmexValueError
from smex.execution.saved import Bounds, Saved, tensors_of, whole_box
from smex.execution.shards import ShardedState


def dtensors(state: ShardedState, mesh: DeviceMesh | None) -> dict[str, DTensor]:
    """See `PartitionedModule.dtensors`."""
    world = state.world
    mesh = _mesh_of(world, state.devices, mesh)
    tensors = tensors_of(state)
    placements = [_placements(saved, mesh) for saved in tensors]
    own = [
        _local_box(saved.shape, mesh, where)
        for saved, where in zip(tensors, placements, strict=True)
    ]
    everyone = world.gather(own)
    moves = [
        Move(
            _tile_boxes(saved), _first_workers(world, [boxes[number] for boxes in everyone]),
            saved.dtype, saved.name,
        )
        for number, saved in enumerate(tensors)
    ]  # fmt: skip
    first = world.workers[0]
    found: dict[str, DTensor] = {}
    brought = Relayout(world, state.devices, moves, state.net_number).run(
        [saved.tiles for saved in tensors]
    )
    for saved, where, box, tiles in zip(tensors, placements, own, brought, strict=True):
        local = tiles[first]
        if local is None:
            sizes = [hi - lo for lo, hi in box]
            local = torch.empty(sizes, dtype=saved.dtype, device=state.devices[first])
        strides = torch.empty(saved.shape, device="meta").stride()
        value = DTensor.from_local(
            local, mesh, where, run_check=False, shape=torch.Size(saved.shape), stride=strides
        )
        found |= dict.fromkeys(saved.names, value)
    return found


def load_dtensors(state: ShardedState, given: Mapping[str, Any], strict: bool) -> None:
    """See `PartitionedModule.load_dtensors`."""
    world = state.world
    wanted = [(saved, _given(saved, given)) for saved in tensors_of(state)]

    def boxes() -> list[Bounds]:
        _refuse_alone(world)
        _check(wanted, given, strict)
        return [
            _local_box(saved.shape, value.device_mesh, value.placements)
            for saved, value in wanted
            if value is not None
        ]

    everyone = together(world, boxes)
    loaded = [(saved, value) for saved, value in wanted if value is not None]
    first = world.workers[0]
    moves, have = [], []
    for number, (saved, value) in enumerate(loaded):
        tiles: list[torch.Tensor | None] = [None] * len(state.devices)
        local = value.to_local().detach().contiguous()
        tiles[first] = local if local.numel() else None
        have.append(tiles)
        boxes_of_chunks = _first_workers(world, [own[number] for own in everyone])
        moves.append(Move(boxes_of_chunks, _tile_boxes(saved), saved.dtype, saved.name))
    brought = Relayout(world, state.devices, moves, state.net_number).run(have)
    with torch.no_grad():
        for (saved, _), tiles in zip(loaded, brought, strict=True):
            for tile, _ in saved.unique():
                worker = next(w for w, each in enumerate(saved.tiles) if each is tile)
                found = tiles[worker]
                if found is not None:
                    tile.copy_(found)


def _refuse_alone(world: World) -> None:
    if world.is_alone:
        raise SmexRuntimeError(
            "dtensors: all workers of the net are in this process; DTensors are of several. "
            "net.state_dict() has whole tensors"
        )


def _mesh_of(world: World, devices: Sequence[torch.device], mesh: DeviceMesh | None) -> DeviceMesh:
    _refuse_alone(world)
    if mesh is None:
        assert world.links is not None
        group: Any = world.links.control
        return DeviceMesh.from_group(group, devices[world.workers[0]].type)
    if mesh.size() != world.size:
        raise SmexValueError(
            f"dtensors: the mesh is of {mesh.size()} ranks, the net of {world.size}; give one of "
            "the same ranks"
        )
    return mesh


def _placements(saved: Saved, mesh: DeviceMesh) -> list[Any]:
    """Returns a cut along the first dimension in which the tiles are cut."""
    for dim, whole in enumerate(whole_box(saved.shape)):
        if any(box is not None and box[dim] != whole for box in saved.boxes):
            return [Shard(dim)] * mesh.ndim
    return [Replicate()] * mesh.ndim


def _local_box(shape: tuple[int, ...], mesh: DeviceMesh, placements: Sequence[Any]) -> Bounds:
    sizes, offsets = compute_local_shape_and_global_offset(shape, mesh, placements)
    return tuple((lo, lo + size) for lo, size in zip(offsets, sizes, strict=True))


def _tile_boxes(saved: Saved) -> Boxes:
    return [(box is not None, list(box or ())) for box in saved.boxes]


def _first_workers(world: World, by_rank: Sequence[Bounds]) -> Boxes:
    """Returns the boxes where each process's first worker holds what the process has."""
    found: Boxes = [(False, [])] * len(world.ranks)
    for worker, rank in reversed(list(enumerate(world.ranks))):
        box = by_rank[rank]
        is_first = worker == 0 or world.ranks[worker - 1] != rank
        has_elements = all(hi > lo for lo, hi in box)
        if is_first and has_elements:
            found[worker] = True, list(box)
    return found


def _given(saved: Saved, given: Mapping[str, Any]) -> Any:
    return next((given[name] for name in saved.names if name in given), None)


def _check(wanted: Sequence[tuple[Saved, Any]], given: Mapping[str, Any], strict: bool) -> None:
    """Raises SmexValueError where DTensors do not fit the net."""
    wrong = []
    for saved, value in wanted:
        if value is None:
            wrong += [f'"{saved.name}" is missing'] if strict else []
        elif not isinstance(value, DTensor):
            wrong.append(f'"{saved.name}" is a {type(value).__name__}, no DTensor')
        elif tuple(value.shape) != saved.shape or value.dtype != saved.dtype:
            wrong.append(
                f'"{saved.name}" has shape {list(value.shape)} of {value.dtype}, the net '
                f"{list(saved.shape)} of {saved.dtype}"
            )
        elif any(type(each) not in (Shard, Replicate) for each in value.placements):
            wrong.append(
                f'"{saved.name}" has placements {value.placements}; redistribute it to Shard and '
                "Replicate"
            )
    known = {name for saved, _ in wanted for name in saved.names}
    wrong += [f'"{name}" is unexpected' for name in given if name not in known and strict]
    if wrong:
        raise SmexValueError("load_dtensors: the net is another one:\n  " + "\n  ".join(wrong))
