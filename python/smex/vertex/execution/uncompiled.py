"""Functions at which ``torch.compile`` stops."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from typing import ParamSpec, TypeVar

import torch

__all__ = ["uncompiled"]

P = ParamSpec("P")
R = TypeVar("R")


def uncompiled(function: Callable[P, R]) -> Callable[P, R]:
    """Returns the function for eager calls alone, with all that it calls.

    As `torch.compiler.disable`, which imports torch's compiler, two seconds and more; here only
    those wait for it who compile something.
    """
    disabled: list[Callable[P, R]] = []

    @functools.wraps(function)
    def eager(*args: P.args, **kwargs: P.kwargs) -> R:
        if "torch._dynamo" not in sys.modules:  # nobody has compiled anything
            return function(*args, **kwargs)
        if not disabled:
            disabled.append(torch.compiler.disable(function))
        return disabled[0](*args, **kwargs)

    eager._torchdynamo_disable = True  # type: ignore[attr-defined]
    return eager
