"""What objects of this package have, and what its functions take, without making or calling any."""

from __future__ import annotations

import ast
import functools
import inspect
import textwrap
from typing import Any

import torch
from torch.utils.data import IterDataPipe

__all__ = ["has_member", "takes_keyword"]

_REGISTERED = ("register_buffer", "register_parameter", "add_module", "setattr")


def has_member(kind: type, name: str) -> bool:
    """Whether objects of a class have an attribute: its own, or one that its methods assign.

    Data pipes of torch have the stages that are registered, too.
    """
    if hasattr(kind, name):
        return True
    if issubclass(kind, IterDataPipe) and name in IterDataPipe.functions:
        return True
    return any(name in _assigned(base) for base in kind.__mro__ if base is not object)


@functools.cache
def _assigned(kind: type) -> frozenset[str]:
    """Names that the methods of a class assign to ``self``."""
    try:
        tree = ast.parse(textwrap.dedent(inspect.getsource(kind)))
    except (OSError, TypeError, SyntaxError):  # a class of a native library
        return frozenset()
    found = set(getattr(kind, "__annotations__", {}))
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
            if isinstance(node.value, ast.Name) and node.value.id == "self":
                found.add(node.attr)
        elif isinstance(node, ast.Call):
            function = node.func
            called = getattr(function, "attr", getattr(function, "id", None))
            if called in _REGISTERED:
                found.update(
                    x.value
                    for x in node.args[:2]
                    if isinstance(x, ast.Constant) and isinstance(x.value, str)
                )
    return frozenset(found)


def takes_keyword(function: Any, name: str) -> bool:
    """Returns whether a function, or the making of a class, has a parameter of this name."""
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return True  # nobody knows
    if any(p.name == name and p.kind is not p.POSITIONAL_ONLY for p in parameters):
        return True
    if not any(p.kind is p.VAR_KEYWORD for p in parameters):
        return False
    loader = torch.utils.data.DataLoader
    if inspect.isclass(function) and issubclass(function, loader) and function is not loader:
        return takes_keyword(loader, name)
    return True
