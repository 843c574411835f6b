"""Which code of users a call runs, and what of modules, globals and closures that code reads."""

from __future__ import annotations

import builtins
import contextlib
import dis
import functools
import gc
import sys
import types
from collections.abc import Iterator, Sequence
from typing import Any

import torch

from smex.capture.repeats.held import (
    ABSENT,
    Held,
    Unsure,
    is_trusted_class,
    is_trusted_code,
    is_trusted_file,
)

_UNSEEN_BUILTINS = frozenset(
    [
        "__import__",
        "breakpoint",
        "compile",
        "eval",
        "exec",
        "exit",
        "globals",
        "hash",
        "help",
        "id",
        "input",
        "open",
        "print",
    ]
)
"""What runs with these leaves no trace, or depends on more than values."""

_UNSEEN_MODULES = frozenset(
    [
        "ctypes",
        "datetime",
        "gc",
        "inspect",
        "numpy.random",
        "random",
        "secrets",
        "time",
        "uuid",
        "weakref",
    ]
)
"""Modules whose functions tell more than values."""

_UNSEEN_ATTRIBUTES = frozenset(
    [
        "_base",
        "_getframe",
        "_is_view",
        "_version",
        "backward",
        "current_thread",
        "data_ptr",
        "environ",
        "f_back",
        "get_ident",
        "getenv",
        "getpid",
        "getrefcount",
        "grad",
        "grad_fn",
        "is_leaf",
        "register_hook",
        "register_full_backward_hook",
        "resize_",
        "retain_grad",
        "set_",
        "untyped_storage",
        "urandom",
    ]
)
"""Attributes that differ from call to call, or by whether a call's tensors come from outside."""

_MODULE_STATE = frozenset(vars(torch.nn.Module())) | {
    "forward",
    "_flat_weights",
    "_flat_weight_refs",
}
"""What `structure.py` compares of each module, or has no say in what it computes."""


class Observation:
    """What was seen of one call.

    Attributes:
        reads: (number of a module, name) of the attributes that were read.
        codes: the users' code that ran, with its globals.
    """

    def __init__(self) -> None:
        self.reads: set[tuple[int, str]] = set()
        self.codes: dict[types.CodeType, dict[str, Any]] = {}
        self.unsure = ""

    def within(self, other: Observation) -> bool:
        """Returns whether nothing was seen that the other has not."""
        return self.reads <= other.reads and self.codes.keys() <= other.codes.keys()


@contextlib.contextmanager
def observed(parts: Sequence[torch.nn.Module]) -> Iterator[Observation]:
    """Observes the calls inside, with what they read of these modules, in the place of a profiler.

    To be used where no profiler runs.
    """
    seen = Observation()
    known: set[types.CodeType] = set()

    def event(frame: types.FrameType, what: str, _: Any) -> None:
        code = frame.f_code
        if what == "call" and code not in known:
            known.add(code)
            if not is_trusted_code(code):
                seen.codes[code] = frame.f_globals

    with _reads_noted(parts, seen):
        sys.setprofile(event)
        try:
            yield seen
        finally:
            sys.setprofile(None)


@contextlib.contextmanager
def _reads_noted(parts: Sequence[torch.nn.Module], seen: Observation) -> Iterator[None]:
    number = {id(part): n for n, part in enumerate(parts)}
    with contextlib.ExitStack() as stack:
        for cls in dict.fromkeys(map(type, parts)):
            stack.enter_context(_class_noted(cls, number, seen))
        yield


@contextlib.contextmanager
def _class_noted(cls: type, number: dict[int, int], seen: Observation) -> Iterator[None]:
    kept = vars(cls).get("__getattribute__", ABSENT)
    original: Any = cls.__getattribute__

    def noted(self: Any, name: str) -> Any:
        n = number.get(id(self))
        if n is not None and name not in _MODULE_STATE:
            if name != "__dict__":
                seen.reads.add((n, name))
            elif not is_trusted_file(sys._getframe(1).f_code.co_filename):
                seen.unsure = "all attributes of a module are read"
        return original(self, name)

    cls.__getattribute__ = noted  # type: ignore[method-assign, assignment]
    try:
        yield
    finally:
        if kept is ABSENT:
            del cls.__getattribute__
        else:
            cls.__getattribute__ = kept  # type: ignore[method-assign]


@functools.lru_cache(maxsize=4096)
def _names(code: types.CodeType) -> tuple[frozenset[str], frozenset[str]]:
    """Returns the globals that code reads, and the modules that it imports.

    Raises:
        Unsure: it sets a global.
    """
    found: dict[str, set[str]] = {"read": set(), "import": set()}
    for step in dis.get_instructions(code):
        if step.opname in ("STORE_GLOBAL", "DELETE_GLOBAL"):
            raise Unsure(f'{code.co_name} sets the global "{step.argval}"')
        if step.opname in ("LOAD_GLOBAL", "LOAD_NAME"):
            found["read"].add(step.argval)
        elif step.opname == "IMPORT_NAME":
            found["import"].add(step.argval)
    return frozenset(found["read"]), frozenset(found["import"])


def hold(seen: Observation, parts: Sequence[torch.nn.Module], leaves: Sequence[Any]) -> Held:
    """Returns everything that the observed call may have read, but for its tensors.

    Raises:
        Unsure: something of it cannot be told.
    """
    if seen.unsure:
        raise Unsure(seen.unsure)
    held = Held()
    for leaf in leaves:
        held.add(leaf)
    for part in parts:
        held.add_class(type(part))
    for number, name in sorted(seen.reads):
        held.add(held.entry(vars(parts[number]), name))
    names = {name for _, name in seen.reads}
    for code, variables in seen.codes.items():
        names |= set(code.co_names)
        _hold_globals(held, code, variables)
    met: set[type] = set()
    while len(met) < len(held.classes):
        for cls in [cls for cls in held.classes if cls not in met]:
            met.add(cls)
            for name, value in list(vars(cls).items()):
                if name in names and not isinstance(value, types.FunctionType):
                    held.add(value)
    _hold_functions(held, seen.codes)
    held.seal()
    return held


def _hold_globals(held: Held, code: types.CodeType, variables: dict[str, Any]) -> None:
    unseen = _UNSEEN_ATTRIBUTES.intersection(code.co_names)
    if unseen:
        raise Unsure(f"{code.co_name} may read {sorted(unseen)[0]}")
    read, imported = _names(code)
    for name in imported:
        module = sys.modules.get(name)
        if module is None or name in _UNSEEN_MODULES or not _is_trusted_module(module):
            raise Unsure(f"{code.co_name} imports {name}")
    for name in read:
        value = held.entry(variables, name)
        if value is not ABSENT:
            held.add(value)
            _hold_members(held, value, code, set())
        elif name in _UNSEEN_BUILTINS or not hasattr(builtins, name):
            raise Unsure(f"{code.co_name} may call {name}")


def _hold_members(held: Held, value: Any, code: types.CodeType, met: set[int]) -> None:
    """Holds what code may read of a user's module or package."""
    if not isinstance(value, types.ModuleType) or id(value) in met:
        return
    met.add(id(value))
    if value.__name__ in _UNSEEN_MODULES:
        raise Unsure(f"{code.co_name} may read {value.__name__}")
    if _is_trusted_module(value):
        return
    for name in code.co_names:
        member = held.entry(vars(value), name)
        if member is not ABSENT:
            held.add(member)
            _hold_members(held, member, code, met)


def _is_trusted_module(module: types.ModuleType) -> bool:
    return is_trusted_file(getattr(module, "__file__", None) or "<frozen ")


def _hold_functions(held: Held, codes: dict[types.CodeType, Any]) -> None:
    """Holds defaults and cells of the functions that ran."""
    inner = {const for code in codes for const in _inner(code)}
    missing = {code for code in codes if code not in inner and not code.co_name.startswith("<")}
    for cls in held.classes:
        for value in vars(cls).values():
            if isinstance(value, types.FunctionType) and value.__code__ in missing:
                held.add(value)
    missing -= {function.__code__ for function in held.functions}
    if missing:
        for function in gc.get_referrers(*missing):
            if isinstance(function, types.FunctionType):
                held.add(function)


def _inner(code: types.CodeType) -> Iterator[types.CodeType]:
    for const in code.co_consts:
        if isinstance(const, types.CodeType):
            yield const
            yield from _inner(const)


def is_user_forward(module: torch.nn.Module) -> bool:
    """Returns whether a module's own calls are made by code of its author."""
    forward = getattr(type(module).forward, "__code__", None)
    return forward is not None and not is_trusted_code(forward)


__all__ = ["Observation", "hold", "is_trusted_class", "is_user_forward", "observed"]
