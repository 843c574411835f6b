"""Tensors that a vertex function reads besides parameters, buffers, inputs and states.

Plain attributes, tensors in lists, of closures and globals, and those that ``forward`` makes of
numbers: a trace has them as arguments, so that a change of their numbers is seen in the next run.
"""

from __future__ import annotations

import copy
import sys
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.fx.experimental.proxy_tensor import get_proxy_mode
from torch.overrides import TorchFunctionMode
from torch.utils import _pytree as pytree

from smex.capture.origin import user_line
from smex.errors import SmexValueError

MAKERS = (torch.tensor, torch.as_tensor)
"""Functions that make a tensor of numbers."""

_OF_MODULES = ("_parameters", "_buffers", "_modules", "_traces", "_inherited", "_former")


class Place(NamedTuple):
    """Where a tensor is kept: an attribute of a submodule, or an entry of a list or dict there."""

    module: str
    attribute: str
    key: Any = None

    def look_up(self, function: nn.Module) -> Any:
        """Returns what is kept there now; None where there is nothing any more."""
        try:
            value = vars(function.get_submodule(self.module))[self.attribute]
            return value if self.key is None else value[self.key]
        except (AttributeError, LookupError, TypeError):
            return None


class Found(NamedTuple):
    """A tensor from outside.

    Attributes:
        name: of the argument of the trace; equal for the same tensor.
        tensor: as it was found.
        scheme: its shape, type and so on, which the trace holds for.
        place: where it is looked up in each run; None for one that stays the same.
        line: of the user's first call that reads it.
    """

    name: str
    tensor: Tensor
    scheme: tuple[Any, ...]
    place: Place | None
    line: str

    def current(self, function: nn.Module) -> Tensor | None:
        """Returns the tensor that a run reads; None where the trace does not fit it."""
        now = self.tensor if self.place is None else self.place.look_up(function)
        return now if isinstance(now, Tensor) and _scheme(now) == self.scheme else None


def _scheme(tensor: Tensor) -> tuple[Any, ...]:
    return tensor.shape, tensor.stride(), tensor.dtype, tensor.device, tensor.requires_grad


class Outside(TorchFunctionMode):
    """While it is on, torch's functions get other tensors in place of those from outside.

    It also notes the user's line on each node that is traced: ``node.meta["smex_line"]``.

    Args:
        function: the vertex function that is called.
        known: what was found in an earlier call.
        stand_in: gives what stands for a tensor.
    """

    def __init__(
        self, function: nn.Module, known: Iterable[Found], stand_in: Callable[[Found], Tensor]
    ):
        super().__init__()
        self.found = {found.name: found for found in known}
        self._function = function
        self._stand_in = stand_in
        self._made = 0

    def __torch_function__(self, func, types, args=(), kwargs=None):
        """Calls the function with the others."""
        line = user_line(sys._getframe(1))
        kwargs = kwargs or {}
        if func in MAKERS and not _has_tensors((args, kwargs)):
            return self._of_numbers(func, args, kwargs, line)
        args, kwargs = pytree.tree_map(lambda x: self._other(x, line), (args, kwargs))
        mode = get_proxy_mode()
        if mode is None:
            return func(*args, **kwargs)
        root = mode.tracer.graph._root
        before = root._prev
        result = func(*args, **kwargs)
        node = root._prev
        while node is not before:
            node.meta.setdefault("smex_line", line)
            node = node._prev
        return result

    def _other(self, value: Any, line: str) -> Any:
        is_plain = type(value) in (Tensor, nn.Parameter) and value.layout == torch.strided
        if not is_plain or torch._is_functional_tensor(value):
            return value
        return self._replaced(f"outside {id(value)}", value, line)

    def _of_numbers(self, func: Any, args: Any, kwargs: Any, line: str) -> Tensor:
        """Numbers are kept: they are those of the call that was traced first."""
        name, self._made = f"made {self._made}", self._made + 1
        with torch._C._DisableTorchDispatch():
            value = func(*args, **kwargs)
        return self._replaced(name, value, line)

    def _replaced(self, name: str, value: Tensor, line: str) -> Tensor:
        if name not in self.found:
            place = _place(self._function, value)
            self.found[name] = Found(name, value, _scheme(value), place, line)
        return self._stand_in(self.found[name])


def _has_tensors(values: Any) -> bool:
    return any(isinstance(x, Tensor) for x in pytree.tree_leaves(values))


def _place(function: nn.Module, tensor: Tensor) -> Place | None:
    for path, module in function.named_modules():
        for attribute, value in vars(module).items():
            if attribute in _OF_MODULES:
                continue
            if value is tensor:
                return Place(path, attribute)
            entries: Iterable[tuple[Any, Any]] = ()
            if isinstance(value, (list, tuple)):
                entries = enumerate(value)
            elif isinstance(value, dict):
                entries = value.items()
            for key, entry in entries:
                if entry is tensor:
                    return Place(path, attribute, key)
    return None


def check_gradients(
    owner: str, values: Iterable[Tensor], own: Iterable[Tensor], known: Mapping[int, Found]
) -> None:
    """Gradients end at parameters, inputs and states: nothing else may ask for them.

    Args:
        owner: the name of the vertex function.
        values: its results.
        own: the tensors that may ask for gradients.
        known: tensors from outside, by the ids of what stands for them.

    Raises:
        SmexValueError: a result depends on another tensor that requires a gradient.
    """
    allowed = {id(leaf) for leaf in own}
    stack = [value.grad_fn for value in values]
    # A result may be such a tensor itself.
    leaves = [value for value in values if value.requires_grad and value.grad_fn is None]
    seen: set[Any] = set()
    while stack:
        node = stack.pop()
        if node is None or node in seen:
            continue
        seen.add(node)
        leaf = getattr(node, "variable", None)
        if leaf is not None:
            leaves.append(leaf)
        stack.extend(following for following, _ in node.next_functions)
    for leaf in leaves:
        if id(leaf) in allowed:
            continue
        found = known.get(id(leaf))
        at = f" at {found.line}" if found is not None and found.line else ""
        raise SmexValueError(
            f"{owner}: forward reads{at} a tensor of shape {list(leaf.shape)} that requires a "
            "gradient and is no parameter, input or state, or what was computed of one: make it a "
            "parameter of the function (torch.nn.Parameter, a submodule), or give it to "
            "smex.vertex.run as an input"
        )


class Attributes:
    """Attributes of a function's modules, and lists and dicts there, before a call on fakes."""

    def __init__(self, function: nn.Module):
        self._modules = [(m, dict(vars(m))) for m in function.modules()]
        self._containers = [
            (name, value, copy.copy(value))
            for _, before in self._modules
            for name, value in before.items()
            if type(value) in (list, dict) and name not in _OF_MODULES
        ]

    def restore(self) -> str | None:
        """Puts back what the call has changed; the name of such an attribute."""
        changed = None
        for module, before in self._modules:
            now = vars(module)
            for name in [*now, *(n for n in before if n not in now)]:
                if _is_same(now.get(name, self), before.get(name, self)):
                    continue
                changed = changed or name
                now.pop(name, None)
                if name in before:
                    now[name] = before[name]
        for name, value, before in self._containers:
            if not _has_same(value, before):
                changed = changed or name
                value.clear()
                value.extend(before) if isinstance(value, list) else value.update(before)
        return changed


def _is_same(value: Any, before: Any) -> bool:
    """Whether two attributes are the same object, or lists or dicts with the same entries."""
    is_container = type(value) in (list, dict) and type(value) is type(before)
    return value is before or (is_container and _has_same(value, before))


def _has_same(value: Any, before: Any) -> bool:
    """Returns whether two lists or dicts have the same entries, as objects."""
    pairs: Iterable[tuple[Any, Any]] = zip(value, before)
    if isinstance(value, dict):
        pairs = ((value[k], before.get(k, _OF_MODULES)) for k in value)
    return len(value) == len(before) and all(a is b for a, b in pairs)
