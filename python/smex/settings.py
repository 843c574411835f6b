"""The settings of a module, on which what it computes depends as on its inputs' shapes."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import torch

_PLAIN = (bool, int, float, str, type(None), torch.Tensor)


class _One:
    """A tensor, equal to itself alone."""

    def __init__(self, tensor: torch.Tensor):
        self.tensor = tensor

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _One) and other.tensor is self.tensor

    def __hash__(self) -> int:
        return id(self.tensor)


class Settings:
    """A module's mode and its attributes that are numbers, text or plain tensors.

    They are read in every call, so they are looked up together.
    """

    def __init__(self, module: torch.nn.Module):
        self._module = module
        self._read = self._reader()

    def _reader(self) -> Callable[[dict[str, Any]], tuple[Any, ...]]:
        names = [
            name
            for name, value in vars(self._module).items()
            if (isinstance(value, _PLAIN) and not name.startswith("_")) or name == "training"
        ]
        # With one name alone an itemgetter would not return a tuple.
        return operator.itemgetter("training", *names) if "training" in names else _of_script

    def values(self) -> tuple[Any, ...]:
        """All of them, to be compared and hashed."""
        if self._read is _of_script:
            return (self._module.training,)
        try:
            found = self._read(vars(self._module))
        except KeyError:  # one was deleted
            self._read = self._reader()
            found = self._read(vars(self._module))
        return tuple([_One(x) if isinstance(x, torch.Tensor) else x for x in found])


def _of_script(_: dict[str, Any]) -> tuple[Any, ...]:
    return ()
