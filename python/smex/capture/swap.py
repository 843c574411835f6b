"""Putting other tensors in the place of a model's parameters and buffers, and back."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Callable, Iterator
from typing import Any

import torch


@dataclasses.dataclass
class StateSlot:
    """A distinct parameter or buffer: its tensor, its names, and the modules that hold it."""

    tensor: torch.Tensor
    role: str
    names: list[str]
    holders: list[tuple[Any, str]]


def state_slots(model: Callable) -> list[StateSlot]:
    """Parameters, then buffers, each once.

    A tied one has several names and holders; one of a module that is used twice several names.
    """
    if not isinstance(model, torch.nn.Module):
        return []
    slots: dict[int, StateSlot] = {}
    for role, members in (("parameter", _parameters), ("buffer", _buffers)):
        held: set[tuple[int, str]] = set()
        for prefix, module in model.named_modules(remove_duplicate=False):
            for name, tensor in members(module):
                slot = slots.setdefault(id(tensor), StateSlot(tensor, role, [], []))
                slot.names.append(f"{prefix}.{name}" if prefix else name)
                if (id(module), name) not in held:
                    held.add((id(module), name))
                    slot.holders.append((module, name))
    return list(slots.values())


def all_slots(model: Callable, loss_fn: Callable | None) -> list[StateSlot]:
    """Returns the model's state, and after it that of a loss that is a module."""
    slots = state_slots(model)
    if not isinstance(loss_fn, torch.nn.Module):
        return slots
    known = {id(slot.tensor): slot for slot in slots}
    prefix = loss_prefix(model)
    for slot in state_slots(loss_fn):
        slot.names = [prefix + name for name in slot.names]
        shared = known.setdefault(id(slot.tensor), slot)
        if shared is not slot:
            shared.names += slot.names
            shared.holders += slot.holders
    return list(known.values())


def loss_prefix(model: Callable) -> str:
    """What the names of a loss's state begin with: `loss_fn.`, unless the model has such a part."""
    prefix = "loss_fn"
    while hasattr(model, prefix):
        prefix += "_"
    return f"{prefix}."


def _parameters(module: torch.nn.Module) -> Iterator[tuple[str, torch.Tensor]]:
    return module.named_parameters(recurse=False, remove_duplicate=False)


def _buffers(module: torch.nn.Module) -> Iterator[tuple[str, torch.Tensor]]:
    return module.named_buffers(recurse=False, remove_duplicate=False)


def _put(module: torch.nn.Module, name: str, tensor: torch.Tensor) -> None:
    if isinstance(module, torch.jit.ScriptModule):
        module._c.setattr(name, tensor)  # the attribute dictionaries of scripts are read-only
    elif name in module._parameters:
        module._parameters[name] = tensor  # type: ignore[assignment]
    else:
        module._buffers[name] = tensor


def _put_all(slots: list[StateSlot], tensors: list[torch.Tensor]) -> None:
    for slot, tensor in zip(slots, tensors, strict=True):
        for module, name in slot.holders:
            _put(module, name, tensor)


@contextlib.contextmanager
def swapped(slots: list[StateSlot], tensors: list[torch.Tensor]) -> Iterator[None]:
    """Runs the body with `tensors` in place of the slots' own; restores them also on error."""
    flat_lists = {
        id(module): (module, module._flat_weights)
        for slot in slots
        for module, _ in slot.holders
        if isinstance(module, torch.nn.RNNBase) and not isinstance(module, torch.jit.ScriptModule)
    }
    _put_all(slots, tensors)
    for module, _ in flat_lists.values():
        module._flat_weights = [getattr(module, name) for name in module._flat_weights_names]
    try:
        yield
    finally:
        _put_all(slots, [slot.tensor for slot in slots])
        for module, weights in flat_lists.values():
            module._flat_weights = weights
