"""Calls of modules with other tensors in place of their own."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn


def call_with(module: nn.Module, tensors: Mapping[str, Tensor], *args: Any, **kwargs: Any) -> Any:
    """Calls a module with other parameters and buffers: `torch.func.functional_call`.

    That one leaves the others behind in a module which stands at two places.

    Args:
        module: what is called.
        tensors: by the names of `named_parameters()` and `named_buffers()`, each tensor once.
        args: of the call.
        kwargs: of the call.
    """
    named = (*module.named_parameters(), *module.named_buffers())
    given = {id(tensor): tensors[name] for name, tensor in named if name in tensors}
    wanted: dict[str, Tensor] = {}
    for path, part in module.named_modules():  # each once
        held = {**part._parameters, **part._buffers}
        wanted |= {
            f"{path}.{name}" if path else name: given[id(tensor)]
            for name, tensor in held.items()
            if id(tensor) in given
        }
    return torch.func.functional_call(module, wanted, args, kwargs, tie_weights=False)
