"""Graphs of calls as `csrc/runtime/vertex/calls.h` makes them."""

from __future__ import annotations

import itertools
import operator
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import fx

from smex._C import Calls, ValueRef
from smex.vertex.compile.trace import UntraceableError

_ARITHMETIC = {
    operator.add: "+",
    operator.sub: "-",
    operator.mul: "*",
    operator.floordiv: "/",
}
"""Of sizes."""


def native_calls(graph: fx.Graph) -> Calls:
    """Returns the calls of a graph, whose placeholders are given in order.

    Raises:
        UntraceableError: one is neither of an operator nor arithmetic of sizes.
    """
    numbers: dict[fx.Node, int] = {}
    fresh = itertools.count()
    for node in graph.nodes:
        if node.op == "placeholder":
            numbers[node] = next(fresh)
    given = len(numbers)
    calls: list[tuple[str, str, list[Any], list[int]]] = []
    results: list[int] = []

    def value(node: Any) -> ValueRef:
        return ValueRef(numbers[node])

    for node in graph.nodes:
        if node in numbers:  # given, or one of the results of a call before
            continue
        if node.op == "output":
            results = [numbers[n] for n in node.args[0]]
        elif node.target is operator.getitem:
            numbers[node] = next(fresh)
            calls.append(("[]", "", [value(node.args[0]), node.args[1]], [numbers[node]]))
        else:
            made = _made(node, numbers, fresh)
            calls.append((*_target(node), _arguments(node, value), made))
    return Calls(given, calls, results)


def _made(node: fx.Node, numbers: dict[fx.Node, int], fresh: Iterator[int]) -> list[int]:
    """Numbers what a call makes: each of its results, and all of them as a list, -1 for none."""
    items = [user for user in node.users if user.target is operator.getitem]
    if len(items) < len(node.users) or not items:
        numbers[node] = next(fresh)
        is_list = isinstance(node.meta.get("val"), (list, tuple))
        return [numbers[node]] if is_list else [numbers[node], -1]
    places: dict[fx.Node, Any] = {item: item.args[1] for item in items}
    made = [-1] * (1 + max(places.values()))
    for item, place in places.items():
        made[place] = made[place] if made[place] >= 0 else next(fresh)
        numbers[item] = made[place]
    return [*made, -1]


def _target(node: fx.Node) -> tuple[str, str]:
    """Returns an operator's name and overload, or the sign of arithmetic."""
    target = node.target
    if isinstance(target, torch._ops.OpOverload):
        overload = target._schema.overload_name
        return target._schema.name, overload
    if target in _ARITHMETIC:
        return _ARITHMETIC[target], ""
    raise UntraceableError(f"it calls {target}, which is no operator")


def _arguments(node: fx.Node, value: Callable[[fx.Node], Any]) -> list[Any]:
    """Returns an argument for each that the operator has, ... for its default."""
    args, kwargs = fx.map_arg((node.args, node.kwargs), value)
    if node.target in _ARITHMETIC:
        return list(args)
    expected = node.target._schema.arguments  # type: ignore[union-attr]
    named = [kwargs.get(argument.name, ...) for argument in expected[len(args) :]]
    return [*args, *named]
