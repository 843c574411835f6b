"""What a net has trained, given to another net of the same model that is divided otherwise."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch

from smex.execution.cut import sliced
from smex.execution.module import PartitionedModule
from smex.execution.torch_checkpoint import TiledTensor

_NAME = "0"
"""Of the only optimiser."""


def hand_over(
    before: PartitionedModule,
    after: PartitionedModule,
    trained_by: torch.optim.Optimizer,
    optimizer: torch.optim.Optimizer,
) -> None:
    """Copies parameters, buffers, the optimiser's states and options from a net to another.

    Tensors are put together one after the other. The workers of both nets are in this process.

    Args:
        before: what has been trained.
        after: of the same model, by any plan.
        trained_by: the optimiser of `before`.
        optimizer: that of `after`, of the same kind and with as many groups of parameters.

    Raises:
        SmexRuntimeError: something of `before` has no values, or one of the nets is not captured.
        SmexValueError: the optimiser has a state that cannot be saved, or one of a shape of its own
            of a parameter that `after` cuts.
    """
    before._state.refuse_blank("use")
    for name, cut in before._state.cuts.items():
        after._state.write(name, cut.copied())
    given = before.sharded_state_dict(trained_by)["optimizer"][_NAME]
    state = after.sharded_state_dict(optimizer, for_loading=True)
    rooms = state["optimizer"][_NAME]["state"]
    states = {param: _filled(rooms.get(param, {}), own) for param, own in given["state"].items()}
    state["optimizer"][_NAME] = {"state": states, "param_groups": given["param_groups"]}
    after.load_sharded_state_dict(state, optimizer)


def _filled(rooms: Mapping[str, Any], given: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the states of a parameter in the tiles of `rooms`; numbers are as they were."""
    found = {}
    for key, value in given.items():
        is_cut = isinstance(value, torch.Tensor) and value.dim() > 0
        found[key] = _written(rooms[key], _whole(value)) if is_cut else value
    return found


def _whole(value: torch.Tensor) -> torch.Tensor:
    if not isinstance(value, TiledTensor):
        return value
    whole = torch.empty(value.shape, dtype=value.dtype, device=value.device)
    for box, tile in value.tiles.items():
        sliced(whole, box).copy_(tile)
    return whole


def _written(room: torch.Tensor, whole: torch.Tensor) -> torch.Tensor:
    with torch.no_grad():
        if not isinstance(room, TiledTensor):
            return room.copy_(whole)
        for box, tile in room.tiles.items():
            tile.copy_(sliced(whole, box))
    return room
