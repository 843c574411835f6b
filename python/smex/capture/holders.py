"""What holds a tensor that should be gone: found by the garbage collector, and taken out of it."""

from __future__ import annotations

import collections
import functools
import gc
import sys
import types
from collections.abc import Iterator
from typing import Any

import torch

from smex.capture.objects import is_of_user, own_attributes

_SEQUENCES = (list, collections.deque, tuple)
_SETS = (set, frozenset)
_FIXED = (tuple, frozenset, functools.partial)
_DEPTH = 4
"""So deep these are followed to what holds them."""


class Place:
    """Something, held by something else under a key."""

    def __init__(self, thing: Any, holder: Any, key: Any, outer: Place | None = None):
        self.thing = thing
        self.holder = holder
        self.key = key
        self.outer = outer  # of what cannot be changed: where it is
        self.depth: int = 0 if outer is None else outer.depth + 1

    def __str__(self) -> str:
        holder = self.holder
        if self.outer is not None:
            return f"in a {type(holder).__name__} {self.outer}"
        if isinstance(holder, dict):
            return _dict_text(holder, self.key)
        if isinstance(holder, types.FunctionType):
            return f'in the variable "{self.key}" of an enclosing function'
        if isinstance(holder, (*_SEQUENCES, *_SETS)):
            return f"in a {type(holder).__name__}"
        return f'as the attribute "{self.key}" of a {type(holder).__name__}'

    def clear(self) -> None:
        """Takes the thing out of what holds it."""
        holder = self.holder
        if self.outer is not None:
            self.outer.clear()
        elif isinstance(holder, dict):
            _clear_dict(holder, self.key, self.thing)
        elif isinstance(holder, (list, collections.deque)):
            for place in reversed([n for n, item in enumerate(holder) if item is self.thing]):
                del holder[place]
        elif isinstance(holder, set):
            holder.discard(self.thing)
        elif isinstance(holder, types.FunctionType):
            _cells(holder)[self.key].cell_contents = None
        elif own_attributes(holder).get(self.key) is self.thing:
            object.__delattr__(holder, self.key)


def places(things: list[Any]) -> Iterator[Place]:
    """Yields where things are held: in containers, objects, and variables that functions share.

    What is only on its way through running functions is not among them.
    """
    yield from _places(things, {id(things)}, _DEPTH)


def _places(things: list[Any], own: set[int], depth: int) -> Iterator[Place]:
    wanted = {id(thing) for thing in things}
    found = gc.get_referrers(*things)
    own = own | {id(found)}
    cells, fixed = [], []
    for holder in found:
        if id(holder) in own:
            continue
        if isinstance(holder, types.CellType):
            cells.append(holder)
        elif isinstance(holder, _FIXED):
            fixed.append(holder)
        else:
            for key, item in _items(holder):
                if id(item) in wanted:
                    yield Place(item, holder, key)
    own |= {id(cells), id(fixed), id(things)}
    if cells:
        yield from _of_functions(cells, own)
    if fixed and depth > 0:
        for outer in _places(fixed, own, depth - 1):
            for key, item in _items(outer.thing):
                if id(item) in wanted:
                    yield Place(item, outer.thing, key, outer)


def _items(holder: Any) -> list[tuple[Any, Any]]:
    if isinstance(holder, dict):
        return list(holder.items())
    if isinstance(holder, (*_SEQUENCES, *_SETS)):
        return list(enumerate(holder))
    if isinstance(holder, functools.partial):
        return [("args", holder.args), ("keywords", holder.keywords)]
    if isinstance(holder, torch.nn.Module) or is_of_user(holder):
        return list(own_attributes(holder).items())
    return []


def _of_functions(cells: list[Any], own: set[int]) -> Iterator[Place]:
    """Yields the functions of users that share a variable."""
    closures = [c for c in gc.get_referrers(*cells) if type(c) is tuple and id(c) not in own]
    wanted = {id(cell) for cell in cells}
    for function in gc.get_referrers(*closures) if closures else ():
        if isinstance(function, types.FunctionType) and _is_of_user(function):
            for name, cell in _cells(function).items():
                if id(cell) in wanted:
                    yield Place(cell.cell_contents, function, name)


def _cells(function: types.FunctionType) -> dict[str, Any]:
    return dict(zip(function.__code__.co_freevars, function.__closure__ or (), strict=True))


def _is_of_user(function: types.FunctionType) -> bool:
    return (function.__module__ or "").partition(".")[0] not in ("torch", "smex")


def _dict_text(holder: dict, key: Any) -> str:
    module = sys.modules.get(str(holder.get("__name__")))
    if module is not None and vars(module) is holder:
        return f'as the global variable "{key}" of module {module.__name__}'
    for owner in gc.get_referrers(holder):
        if isinstance(owner, type) and _is_class_dict(holder):
            return f'as the attribute "{key}" of class {owner.__name__}'
        if isinstance(owner, types.FunctionType) and vars(owner) is holder:
            return f'as the attribute "{key}" of function {owner.__name__}'
        if getattr(owner, "__dict__", None) is holder:
            return f'as the attribute "{key}" of a {type(owner).__name__}'
    return f"under {key!r} in a dict"


def _is_class_dict(holder: dict) -> bool:
    return "__module__" in holder and "__doc__" in holder


def _clear_dict(holder: dict, key: Any, thing: Any) -> None:
    if holder.get(key) is not thing:
        return
    for owner in gc.get_referrers(holder) if _is_class_dict(holder) else ():
        if isinstance(owner, type) and owner.__dict__.get(key) is thing:
            delattr(owner, key)
            return
    del holder[key]
