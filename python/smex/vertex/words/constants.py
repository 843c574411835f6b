"""What a vertex function reads besides tensors, by value: equal ones are traced alike."""

from __future__ import annotations

import copy
from typing import Any

import torch
from torch import Tensor, nn

_PLAIN = (
    bool, int, float, complex, str, bytes, type(None), torch.dtype, torch.device, torch.Size,
)  # fmt: skip
_TENSORS = ("_parameters", "_buffers", "_modules")
_OURS = (
    "_traces",
    "_inherited",
    "_former",
    "_settings",
    "_pushed",
    "_has_warned",
    "_changes_often",
)
_HOOKS = ("_forward_hooks", "_forward_pre_hooks")
_OF_TORCH = set(vars(nn.Module())) - {"training"}


def constants_of(function: nn.Module) -> dict[tuple[str, str], Any] | None:
    """Returns by module and attribute what is no tensor.

    None where there is what cannot be compared by value: hooks, functions, objects of any class.
    """
    found: dict[tuple[str, str], Any] = {}
    for path, module in function.named_modules():
        found[path, ""] = type(module)
        for name, value in vars(module).items():
            if name in _TENSORS or name in _OURS or isinstance(value, Tensor):
                continue
            if name in _OF_TORCH and not value:  # no hooks
                continue
            if not _is_plain(value):
                return None
            found[path, name] = copy.deepcopy(value)
    return found


def settings_of(function: nn.Module) -> tuple[Any, ...]:
    """Returns the numbers and texts that are attributes of its modules, and which hooks they have.

    Looked at in every run: what is in lists and dicts is not.
    """
    found: list[Any] = []
    for module in function.modules():
        for name, value in vars(module).items():
            kind = type(value)
            if kind in _SETTINGS:
                if name != "training" and name not in _OURS:  # that one is looked at anyway
                    found.append(value)
                    found.append(kind)
            elif name in _HOOKS and value:
                found.append(tuple(value))
    return tuple(found)


_SETTINGS = {bool, int, float, complex, str, torch.dtype, torch.device}


def _is_plain(value: Any) -> bool:
    if type(value) in (list, tuple, set):
        return all(_is_plain(item) for item in value)
    if type(value) is dict:
        return all(_is_plain(item) for pair in value.items() for item in pair)
    return type(value) in _PLAIN
