"""What a user's functions read besides their arguments: a key for it, and the tensors in it.

A trace of a function holds for as long as everything that the function refers to (closures,
globals, attributes of modules) is what it was: the key tells. Tensors may change; they are listed,
to be put in place of those that the trace was made with.
"""

from __future__ import annotations

import enum
import types
from collections.abc import Callable, Hashable, Iterable
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode
from torch.utils import _pytree as pytree

from smex.graph.function import BuiltinFunction
from smex.graph.tracing.purity import INERT, has_hooks, impurity_of, plain_function
from smex.graph.udf import name_of
from smex.vertex.compile.trace import UntraceableError

CONSTANTS = (*INERT, torch.device, torch.Size, bytes, enum.Enum)
HARMLESS = frozenset({isinstance, len, max, min, reversed, sorted})


class Surroundings(NamedTuple):
    """What functions read.

    Attributes:
        codes: the functions themselves.
        key: equal where the functions compute the same of equal arguments and tensors.
        tensors: each once, in the order in which they are found.
    """

    codes: tuple[Hashable, ...]
    key: tuple[Hashable, ...]
    tensors: list[Tensor]


def surroundings(functions: Iterable[Callable[..., Any] | BuiltinFunction | None]) -> Surroundings:
    """Returns what message, reduce and apply functions read.

    Raises:
        UntraceableError: a function has a side effect, or reads something that may change unseen.
    """
    visitor = _Visitor()
    codes: list[Hashable] = []
    for function in functions:
        if function is None or isinstance(function, BuiltinFunction):
            codes.append(repr(function))
            continue
        plain, _ = plain_function(function)
        codes.append(None if plain is None else plain.__code__)
        impure = impurity_of(function, visitor)
        if impure is not None:
            raise UntraceableError(f"{name_of(function)} {impure.reason}")
    return Surroundings(tuple(codes), (*codes, *visitor.tokens), visitor.tensors)


class _Visitor:
    """Keeps what paths end in; says of each whether it is harmless as it is."""

    def __init__(self) -> None:
        self.tokens: list[Hashable] = []
        self.tensors: list[Tensor] = []

    def __call__(self, value: Any) -> bool:
        if isinstance(value, Tensor):
            return self._tensor(value)
        if isinstance(value, CONSTANTS):
            self.tokens.append((type(value), value))
            return True
        if type(value) is tuple and all(isinstance(x, CONSTANTS) for x in value):
            self.tokens.append(tuple((type(x), x) for x in value))
            return True
        if isinstance(value, nn.Module):
            return self._module(value)
        plain = getattr(value, "__func__", value)
        if isinstance(plain, types.FunctionType):
            self.tokens.append(plain.__code__)
            return (plain.__module__ or "").startswith(("torch.nn.", "torch.functional", "smex."))
        is_known = _is_torch(value) or _is_harmless(value)
        if is_known:
            self.tokens.append(value)
        return is_known

    def _tensor(self, value: Tensor) -> bool:
        if type(value) not in (Tensor, nn.Parameter) or value.layout != torch.strided:
            return False
        number = next((i for i, x in enumerate(self.tensors) if x is value), len(self.tensors))
        if number == len(self.tensors):
            self.tensors.append(value)
        self.tokens.append((number, value.shape, value.dtype, value.device))
        return True

    def _module(self, module: nn.Module) -> bool:
        """Modules of torch are taken as they are; the code of others is looked at."""
        parts = list(module.modules())
        self.tokens.append((type(module), module.training))
        if any(
            not type(m).__module__.startswith("torch.nn.modules") or has_hooks(m) for m in parts
        ):
            return False
        for part in parts:
            constants = tuple((n, v) for n, v in vars(part).items() if isinstance(v, CONSTANTS))
            self.tokens.append((type(part), constants))
            tensors = [*part._parameters.values(), *part._buffers.values()]
            if not all(self._tensor(x) for x in tensors if x is not None):
                return False
        return True


def _is_torch(value: Any) -> bool:
    """Returns whether it is a function of torch that is written in C++."""
    if isinstance(value, (torch._ops.OpOverload, torch._ops.OpOverloadPacket)):
        return True
    is_builtin = isinstance(value, types.BuiltinFunctionType)
    return is_builtin and (value.__module__ or "").split(".")[0] == "torch"


def _is_harmless(value: Any) -> bool:
    try:
        return value in HARMLESS
    except TypeError:  # not hashable
        return False


class Replaced(TorchFunctionMode):
    """While it is on, torch's functions get other tensors in place of some.

    Args:
        pairs: tensors, and what stands for each of them.
    """

    def __init__(self, pairs: Iterable[tuple[Tensor, Tensor]]):
        super().__init__()
        self._pairs = list(pairs)
        self._of = {id(old): new for old, new in self._pairs}

    def __torch_function__(self, func, types, args=(), kwargs=None):
        """Calls the function with the others."""
        args, kwargs = pytree.tree_map(self._other, (args, kwargs or {}))
        return func(*args, **kwargs)

    def _other(self, value: Any) -> Any:
        return self._of.get(id(value), value) if isinstance(value, Tensor) else value
