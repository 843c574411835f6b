"""What modules, and objects that they keep, hold beside parameters and buffers, before a call.

Python runs once, or twice, when a model is captured, and never again: what the model sets is put
back, hooks, modules, parameters and buffers that it adds among it.
"""

from __future__ import annotations

import collections
import dataclasses
import operator
import types
from collections.abc import Callable, Iterator
from typing import Any

import torch

from smex.capture.objects import hidden_tensors, is_of_user, own_attributes
from smex.capture.side_effects import Ledger, is_traced
from smex.errors import CaptureError

_CONTAINERS = (dict, list, set, collections.OrderedDict, collections.defaultdict, collections.deque)
_MODULE_STATE = frozenset(vars(torch.nn.Module()))
_TENSORS = ("_parameters", "_buffers")
_ABSENT = object()

_DEPTH = 4
"""So deep containers and objects are looked for in a module."""

_LONGEST = 512
"""What is in a longer container is put back as it is."""


@dataclasses.dataclass
class _Holder:
    """A module's attributes, an object or a container, and what it held."""

    path: str
    thing: Any
    before: Any
    role: str = ""  # of a module's own dicts of modules, parameters and buffers: their name


class Attributes:
    """What is held when it is made.

    Args:
        models: modules; of anything else only what is kept as an attribute.
    """

    def __init__(self, *models: Any) -> None:
        self._holders: list[_Holder] = []
        self._seen: set[int] = set()
        for model in models:
            if isinstance(model, torch.nn.Module):
                for name, module in model.named_modules():
                    self._add_module(name, module)
            else:
                self._add(type(model).__name__, model, _DEPTH)

    def _add_module(self, path: str, module: torch.nn.Module) -> None:
        if id(module) in self._seen or isinstance(module, torch.jit.ScriptModule):
            return
        self._add(path, module, _DEPTH)
        for role in ("_modules", *_TENSORS):
            held = vars(module)[role]
            self._holders.append(_Holder(path, held, held.copy(), role))

    def _add(self, path: str, thing: Any, depth: int) -> None:
        if id(thing) in self._seen:
            return
        self._seen.add(id(thing))
        if isinstance(thing, tuple):
            held: Any = thing
        elif type(thing) in _CONTAINERS or isinstance(thing, torch.nn.Module) or is_of_user(thing):
            held = _content(thing)
            self._holders.append(_Holder(path, thing, held))
        else:
            return
        if depth > 0 and len(held) <= _LONGEST:
            for key, item in _pairs(held):
                if not isinstance(item, torch.nn.Module):
                    self._add(_spelt(path, thing, key), item, depth - 1)

    def put_back(self, ledger: Ledger, tell: Callable[[str], None]) -> None:
        """Restores everything; `tell` is given the text of a warning for each counter.

        Raises:
            CaptureError: the model has kept a tensor that varies with the inputs, or has made a
                parameter.
        """
        refused = ""
        for holder in self._holders:
            if _is_same(_content(holder.thing), holder.before):
                continue
            for path, old, new in _changes(holder):
                refused = refused or _refusal(holder, path, new, ledger)
                if _is_count(old, new):
                    tell(
                        f'capture: the model changes its attribute "{path}" from {old} to {new} '
                        "when it is called; a captured model does not: it stays as it was. "
                        "Register a buffer if results depend on it"
                    )
            _restore(holder)
        if refused:
            raise CaptureError(refused)


def attributes_of(module: torch.nn.Module) -> dict[str, Any]:
    """Returns what a module has of its own beside parameters, buffers, submodules and hooks."""
    return {key: value for key, value in vars(module).items() if key not in _MODULE_STATE}


def _content(thing: Any) -> Any:
    """Returns what something holds now: a dict of attributes, or a copy of a container."""
    if isinstance(thing, torch.nn.Module):
        return {k: v for k, v in vars(thing).items() if k != "_modules" and k not in _TENSORS}
    return thing.copy() if type(thing) in _CONTAINERS else own_attributes(thing)


def _pairs(content: Any) -> Iterator[tuple[Any, Any]]:
    if isinstance(content, dict):
        return iter(content.items())
    if isinstance(content, set):
        return ((item, item) for item in content)
    return enumerate(content)


def _is_same(now: Any, before: Any) -> bool:
    if len(now) != len(before):
        return False
    if isinstance(now, set):
        return now == before
    if isinstance(now, dict):
        return all(key in now and now[key] is item for key, item in before.items())
    return all(map(operator.is_, now, before))


def _changes(holder: _Holder) -> Iterator[tuple[str, Any, Any]]:
    """Yields the path of each change, what was there and what is now."""
    before = dict(_pairs(holder.before))
    now = dict(_pairs(_content(holder.thing)))
    for key in before.keys() | now.keys():
        old, new = before.get(key, _ABSENT), now.get(key, _ABSENT)
        if new is not old:
            yield _spelt(holder.path, holder.thing, key, holder.role), old, new


def _spelt(path: str, thing: Any, key: Any, role: str = "") -> str:
    if type(thing) in (tuple, *_CONTAINERS) and not role:
        return f"{path}[{key!r}]"
    return f"{path}.{key}" if path else str(key)


def _restore(holder: _Holder) -> None:
    thing, before = holder.thing, holder.before
    if type(thing) not in _CONTAINERS:
        _set_attributes(thing, _content(thing), before)
        return
    if holder.role == "_buffers":  # one that has a new tensor is written to the model's own
        before = {k: v if v is None or k not in thing else thing[k] for k, v in before.items()}
    thing.clear()
    if isinstance(thing, (dict, set)):
        thing.update(before)
    else:
        thing.extend(before)


def _set_attributes(thing: Any, now: dict[str, Any], before: dict[str, Any]) -> None:
    for name in now.keys() - before.keys():
        object.__delattr__(thing, name)
    for name, value in before.items():
        if now.get(name, _ABSENT) is value:
            continue
        if isinstance(getattr(type(thing), name, None), types.MemberDescriptorType):
            object.__setattr__(thing, name, value)
        else:
            vars(thing)[name] = value


def _refusal(holder: _Holder, path: str, new: Any, ledger: Ledger) -> str:
    """Why a new value cannot be, or nothing."""
    if holder.role in ("_modules", "_parameters"):
        made = next(_made_parameters(path, new), None)
        if made is not None:
            return (
                f'capture: the model makes its parameter "{made}" when it is called: call the '
                "model once before smex.partition, or make it in __init__"
            )
        return ""
    if holder.role == "_buffers" and holder.before.get(path.rpartition(".")[2]) is not None:
        return ""
    for where, tensor in hidden_tensors(new):
        made_by = ledger.of(tensor)
        if made_by is not None and made_by.varies:
            return (
                f'capture: the model keeps a tensor {made_by.place} as its attribute "{path}'
                f'{where}", which a divided model never writes: return the tensor instead, or '
                "register a buffer of its shape under that name, which calls hand on"
            )
    return ""


def _made_parameters(path: str, new: Any) -> Iterator[str]:
    """Yields the names of parameters that were made in this call."""
    if isinstance(new, torch.nn.Module):
        for name, parameter in new.named_parameters():
            if is_traced(parameter):
                yield f"{path}.{name}"
    elif is_traced(new):
        yield path


def _is_count(old: Any, new: Any) -> bool:
    """Returns whether a number has changed, or has come or gone."""
    pair = [value for value in (old, new) if value is not None]
    numbers = [isinstance(v, (int, float)) and not isinstance(v, bool) for v in pair]
    return len(numbers) > 0 and all(numbers) and old != new
