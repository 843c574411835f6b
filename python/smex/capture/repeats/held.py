"""What code may read by way of a value: whether it is as it was, and whether two values are equal.

Only what can be followed to its end is held: numbers, texts, containers, functions with their
cells, and objects that are their attributes. Of anything else `Unsure` is raised.
"""

from __future__ import annotations

import collections
import enum
import functools
import logging
import operator
import os
import pathlib
import types
from collections.abc import Callable, Iterable
from typing import Any

import numpy
import torch

from smex._C import Contents
from smex.capture.objects import is_of_user, slot_names
from smex.capture.side_effects import is_traced


class Unsure(Exception):  # noqa: N818  (an answer, not an error)
    """It cannot be told that two calls are equal; the text says why."""


ABSENT = object()

_DEPTH = 6
_LONGEST = 512
"""Longer containers are tables, which are not followed."""

_PLAIN = (bool, int, str, bytes, type(None), type(Ellipsis), type(NotImplemented), range)
_NUMBERS = (float, complex)
_TORCH_PLAIN = (torch.dtype, torch.device, torch.layout, torch.memory_format, torch.Size)
_STATELESS = (
    types.BuiltinFunctionType,
    types.GenericAlias,
    types.MethodDescriptorType,
    types.MethodWrapperType,
    types.UnionType,
    types.WrapperDescriptorType,
    operator.attrgetter,
    operator.itemgetter,
    operator.methodcaller,
    torch._ops.OpOverload,
    torch._ops.OpOverloadPacket,
    torch._ops._OpNamespace,
    torch._ops._Ops,
    logging.Logger,  # what it prints is no result
    numpy.ufunc,
)
_CONTAINERS = (dict, list, set, collections.OrderedDict, collections.defaultdict, collections.deque)

_TRUSTED = (
    *(os.path.dirname(str(package.__file__)) + os.sep for package in (torch, numpy)),
    str(pathlib.Path(__file__).resolve().parents[2]) + os.sep,  # smex
)
_STANDARD = os.path.dirname(os.__file__) + os.sep


@functools.lru_cache(maxsize=4096)
def is_trusted_file(filename: str) -> bool:
    """Returns whether code is of torch, NumPy, SMEX or Python.

    These keep no settings of a model beside those that `Repeats` reads for each call.
    """
    if filename.startswith((*_TRUSTED, "<frozen ")):
        return True
    return filename.startswith(_STANDARD) and f"-packages{os.sep}" not in filename


def is_trusted_code(code: types.CodeType) -> bool:
    """Returns the same of code."""
    return is_trusted_file(code.co_filename)


@functools.lru_cache(maxsize=4096)
def is_trusted_class(cls: type) -> bool:
    """Returns the same of a class: whether none of its functions is a user's."""
    functions = [f for f in vars(cls).values() if isinstance(f, types.FunctionType)]
    root = cls.__module__.partition(".")[0]
    if not functions:
        return root in ("builtins", "torch", "numpy", "smex", "collections", "typing", "enum")
    return all(is_trusted_code(f.__code__) for f in functions)


def plain(thing: Any) -> bool:
    """Returns whether it is a number, a text or a setting of torch: what is equal by its value."""
    kind = type(thing)
    return (
        kind in _PLAIN or kind in _NUMBERS or kind in _TORCH_PLAIN or isinstance(thing, enum.Enum)
    )


class Held:
    """What was found by following values; `same` tells whether it still is what it was."""

    def __init__(self) -> None:
        self.functions: list[types.FunctionType] = []
        self.tensors: list[torch.Tensor] = []
        self._seen: dict[int, Any] = {}  # by id, kept alive
        self._containers: list[Any] = []
        self._entries: list[tuple[Any, Any, Any]] = []  # mapping, key, value
        self._classes: dict[type, tuple[Any, ...]] = {}
        self._contents: Contents | None = None

    # ---- building ----

    def entry(self, mapping: Any, key: Any) -> Any:
        """Holds one item of a mapping, and returns it."""
        value = mapping.get(key, ABSENT)
        self._entries.append((mapping, key, value))
        return value

    def add_class(self, cls: type) -> None:
        """Holds what a user's class and those that it derives from have."""
        for each in cls.__mro__:
            if each not in self._classes and not is_trusted_class(each):
                self._classes[each] = tuple(vars(each).values())

    @property
    def classes(self) -> list[type]:
        """The users' classes that were met."""
        return list(self._classes)

    def add(self, thing: Any, depth: int = _DEPTH) -> None:
        """Holds a value and what it leads to.

        Raises:
            Unsure: what it leads to cannot be told.
        """
        if plain(thing) or thing is ABSENT or id(thing) in self._seen:
            return
        self._seen[id(thing)] = thing
        if depth < 0:
            raise Unsure(f"a {type(thing).__name__} lies too deep")
        if isinstance(thing, torch.Tensor):
            if is_traced(thing):
                raise Unsure("a tensor of this call is kept")
            self.tensors.append(thing)
        elif isinstance(thing, type):
            self.add_class(thing)
        elif isinstance(thing, types.FunctionType):
            self._add_function(thing, depth)
        elif isinstance(thing, types.MethodType):
            self._add_all((thing.__func__, thing.__self__), depth)
        elif isinstance(thing, types.BuiltinFunctionType) and not isinstance(
            thing.__self__, (types.ModuleType, type(None), type)
        ):
            self.add(thing.__self__, depth - 1)  # list.append of one list
        elif isinstance(thing, (*_STATELESS, types.ModuleType)):
            pass
        elif type(thing) is functools.partial:
            self._containers.append(thing.keywords)
            self._add_all((thing.func, thing.args, thing.keywords), depth)
        elif type(thing) in (staticmethod, classmethod):
            self.add(thing.__func__, depth - 1)
        elif type(thing) is property:
            self._add_all((thing.fget, thing.fset, thing.fdel), depth)
        elif type(thing) is slice:
            self._add_all((thing.start, thing.stop, thing.step), depth)
        elif type(thing) in (tuple, frozenset) or type(thing) in _CONTAINERS:
            self._add_container(thing, depth)
        elif type(thing).__module__ == "typing":
            pass
        elif is_of_user(thing) and not isinstance(thing, torch.nn.Module):
            self._add_object(thing, depth)
        else:
            raise Unsure(f"a {type(thing).__module__}.{type(thing).__name__} may be read")

    def _add_all(self, things: Iterable[Any], depth: int) -> None:
        for thing in things:
            self.add(thing, depth - 1)

    def _add_function(self, function: types.FunctionType, depth: int) -> None:
        self.functions.append(function)
        if is_trusted_code(function.__code__) and not function.__closure__:
            return
        for cell in function.__closure__ or ():
            self._containers.append(cell)
            try:
                self.add(cell.cell_contents, depth - 1)
            except ValueError:  # empty
                continue
        self._add_all((function.__defaults__, function.__kwdefaults__), depth)
        if function.__dict__:
            self._containers.append(function.__dict__)

    def _add_container(self, thing: Any, depth: int) -> None:
        if len(thing) > _LONGEST:
            raise Unsure(f"a {type(thing).__name__} of {len(thing)} items may be read")
        if not isinstance(thing, (tuple, frozenset)):
            self._containers.append(thing)
        if isinstance(thing, dict):
            self._add_all(thing.keys(), depth)
            self._add_all(thing.values(), depth)
        else:
            self._add_all(thing, depth)

    def _add_object(self, thing: Any, depth: int) -> None:
        own = getattr(thing, "__dict__", None)
        if not isinstance(own, dict) or slot_names(thing) or len(own) > _LONGEST:
            raise Unsure(f"a {type(thing).__name__} may be read")
        self.add_class(type(thing))
        self._containers.append(own)
        self._add_all(own.values(), depth)
        if isinstance(thing, (dict, list, set, collections.deque)):
            self._containers.append(thing)
            self._add_all(thing, depth)
            if isinstance(thing, dict):
                self._add_all(thing.values(), depth)

    # ---- comparing with now ----

    def seal(self) -> None:
        """Takes down what everything holds now."""
        self._contents = Contents(self._containers)

    def same(self) -> bool:
        """Returns whether everything holds the very things that it held."""
        assert self._contents is not None
        return (
            self._contents.same()
            and all(mapping.get(key, ABSENT) is value for mapping, key, value in self._entries)
            and all(_same_items(vars(cls).values(), held) for cls, held in self._classes.items())
        )


def _same_items(now: Any, before: tuple[Any, ...]) -> bool:
    return len(now) == len(before) and all(map(operator.is_, now, before))


def equal(a: Any, b: Any, depth: int = _DEPTH) -> bool:
    """Returns whether code cannot tell two values apart, but for their identity.

    Objects that are one and the same are equal; what they hold is told by `Held`.
    """
    if a is b:
        return True
    if type(a) is not type(b) or depth < 0:
        return False
    if isinstance(a, _NUMBERS):
        return repr(a) == repr(b)  # tells -0.0 from 0.0
    if plain(a):
        return bool(a == b)
    return _equal_parts(a, b, depth - 1)


def _equal_parts(a: Any, b: Any, depth: int) -> bool:
    if isinstance(a, types.FunctionType):
        return (
            a.__code__ is b.__code__
            and a.__globals__ is b.__globals__
            and _all_equal(_cells(a), _cells(b), depth)
            and equal(a.__defaults__, b.__defaults__, depth)
            and equal(a.__kwdefaults__, b.__kwdefaults__, depth)
            and equal(a.__dict__, b.__dict__, depth)
        )
    if type(a) is functools.partial:
        return all(
            equal(x, y, depth)
            for x, y in ((a.func, b.func), (a.args, b.args), (a.keywords, b.keywords))
        )
    if type(a) in (tuple, list, collections.deque):
        return _all_equal(list(a), list(b), depth)
    if type(a) in (dict, collections.OrderedDict):
        return _all_equal(list(a), list(b), depth) and _all_equal(
            list(a.values()), list(b.values()), depth
        )
    if type(a) in (set, frozenset):
        return all(map(plain, a)) and bool(a == b)
    if is_of_user(a) and not isinstance(a, (torch.nn.Module, dict, list, set, collections.deque)):
        own = [getattr(thing, "__dict__", None) for thing in (a, b)]
        return isinstance(own[0], dict) and not slot_names(a) and equal(own[0], own[1], depth)
    return False


def _cells(function: types.FunctionType) -> list[Any]:
    found = []
    for cell in function.__closure__ or ():
        try:
            found.append(cell.cell_contents)
        except ValueError:
            found.append(ABSENT)
    return found


def _all_equal(a: list[Any], b: list[Any], depth: int) -> bool:
    compare: Callable[[Any, Any], bool] = lambda x, y: equal(x, y, depth)  # noqa: E731
    return len(a) == len(b) and all(map(compare, a, b))
