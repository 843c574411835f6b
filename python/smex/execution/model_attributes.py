"""What a net answers when it is asked for what its model has."""

from __future__ import annotations

import inspect
import types
from typing import Any

import torch
from torch.utils import _pytree as pytree


def attribute_of_model(net: torch.nn.Module, model: torch.nn.Module, name: str) -> Any:
    """Returns an attribute of the model for the net that runs it.

    Methods and properties of the model's class are run with the net in the place of the model, so
    that what they call (``self(tokens)`` in ``generate``) is the net. Everything else is the
    model's own object: a setting that is changed is changed for both.

    Raises:
        AttributeError: where it is, or holds, a module or tensor of the model.
    """
    of_class = inspect.getattr_static(type(model), name, None)
    if name not in vars(model):
        if inspect.isfunction(of_class):
            return types.MethodType(of_class, net)
        if isinstance(of_class, property) and of_class.fget is not None:
            return of_class.fget(net)
    value = getattr(model, name)
    if any(isinstance(leaf, (torch.nn.Module, torch.Tensor)) for leaf in pytree.tree_leaves(value)):
        raise AttributeError(
            f"'{type(net).__name__}' object has no attribute '{name}': the model's is a "
            f"{type(value).__name__}, whose tensors are not those that the net trains. Call the "
            "net, net.full_grads() or net.state_dict(), or keep the model at hand"
        )
    return value
