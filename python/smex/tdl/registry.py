"""The registry: which function says what an operator means."""

from __future__ import annotations

import contextlib
import inspect
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from smex import operators
from smex.errors import SmexValueError, SpecError

LOCAL_RULES = (
    *("output_shape", "zero", "max_int", "window", "window_rest", "rows", "offset", "diagonal"),
    "features",
)
_BEGIN = "begin:"
"""What stands before an index in the rule that tells where a tile of it begins."""


@dataclass(frozen=True)
class SpecDef:
    """A registered spec: the function and, by argument name, how arguments change in a tile."""

    target: str
    function: Callable[..., Any]
    local: dict[str, str]

    @property
    def source(self) -> Callable[..., Any]:
        """The function as it is written: without what fills in arguments or adapts it."""
        return inspect.unwrap(getattr(self.function, "func", self.function))


REGISTRY: dict[str, SpecDef] = {}


def spec(target: Any, *, local: dict[str, str] | None = None) -> Callable[[Any], Any]:
    """Registers the decorated function as what ``target`` means.

    Args:
        target: "namespace::op" for all functional overloads, or "namespace::op.overload" for one;
            or that operator or overload of ``torch.ops``.
        local: argument name → rule for the argument when only a tile is computed: "output_shape"
            (the tile's shape), "zero", "max_int", "window" (padding becomes 0; the input is
            padded instead, or the output cropped where windows land on it), "window_rest" (how far
            the tile reaches beyond where windows land), "rows" (size of dimension 0 of the first
            operand's tile), "offset" (the tile's lower corner), "diagonal" (as counted from the
            tile's first row and column), "features" (the tile's shape without its first
            dimension), "begin:j" (a list of the one number at which the tile of index j begins).

    Raises:
        SpecError: there is no such operator, argument or rule.

    Example:
        >>> @smex.spec("mylib::scale")
        ... def scale(x, factor):
        ...     return lambda *i: x[i] * factor
    """
    name = _checked_target(target, local or {})

    def register(function: Any) -> Any:
        if not callable(function):
            raise SpecError(
                f"spec of {name}: expected a function of the operator's arguments, found "
                f"{function!r}"
            )
        REGISTRY[name] = SpecDef(name, function, dict(local or {}))
        _registry_changed()
        return function

    return register


def _checked_target(target: Any, local: dict[str, str]) -> str:
    """Returns the operator's name.

    A SpecError where it or what is said of its arguments is unknown.
    """
    if isinstance(target, operators.Overload):
        target = target.name()
    elif isinstance(target, operators.Packet):
        target = target._qualified_op_name
    if not isinstance(target, str):
        raise SpecError(f'spec: expected an operator such as "mylib::op", found {target!r}')
    try:
        name, overload = operators.checked_name(target, f"spec of {target}")
    except SmexValueError as error:
        raise SpecError(str(error)) from None
    known = operators.argument_names_of(name)
    for argument, rule in local.items():
        if argument not in known:
            raise SpecError(
                f"spec of {target}: local rule for {argument}, expected an argument among "
                f"{', '.join(sorted(known))}"
            )
        if rule not in LOCAL_RULES and not _begins(rule):
            raise SpecError(
                f"spec of {target}: argument {argument}: expected a rule among "
                f"{', '.join([*LOCAL_RULES, _BEGIN + 'index'])}, found {rule!r}"
            )
    return f"{name}.{overload}" if overload else name


def _begins(rule: str) -> bool:
    return rule.startswith(_BEGIN) and rule.removeprefix(_BEGIN).isidentifier()


_listeners: list[Callable[[], None]] = []


def on_change(listener: Callable[[], None]) -> None:
    """Calls a function whenever the registry has changed."""
    _listeners.append(listener)


def _registry_changed() -> None:
    for listener in _listeners:
        listener()


@contextlib.contextmanager
def registered(target: str, function: Callable[..., Any], **local: str) -> Iterator[None]:
    """Sets a spec for the length of a ``with`` block; the one before it comes back afterwards."""
    before = dict(REGISTRY)
    spec(target, local=local)(function)
    changed = [name for name, known in REGISTRY.items() if before.get(name) is not known]
    try:
        yield
    finally:  # what else was registered meanwhile stays
        for name in changed:
            if name in before:
                REGISTRY[name] = before[name]
            else:
                del REGISTRY[name]
        _registry_changed()
