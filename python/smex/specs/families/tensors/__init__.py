"""Tensors made, viewed, joined, cut, indexed and drawn."""

from smex.specs.families.tensors import (
    factory,
    indexing,
    pieces,
    random,
    rearrange,
    selection,
    view,
)

__all__ = [
    "factory",
    "indexing",
    "pieces",
    "random",
    "rearrange",
    "selection",
    "view",
]
