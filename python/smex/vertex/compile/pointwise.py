"""Element-wise calls of a phase, and those along rows, that are computed together (Cavs §3.4)."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, fx

from smex.formula import Term, text_of
from smex.vertex.compile.formulas import (
    CALLS,
    CLAMPS,
    CONDITIONS,
    FILLED,
    LOGIC,
    has_options,
)
from smex.vertex.compile.norms import WIDE, call_by_rows, formula_by_rows, rows_of
from smex.vertex.compile.rows import EDGE, ROW
from smex.vertex.compile.simplify import is_view

__all__ = ["Group", "grouped"]

aten = torch.ops.aten
TYPES = {"cpu": WIDE, "cuda": (*WIDE, torch.float16, torch.bfloat16)}
"""For each device the types that there is a kernel for."""


@dataclass
class Group:
    """Calls with results of one shape or a column of it, and their program for ``smex::pointwise``.

    Attributes:
        nodes: the calls, in order.
        operands: what they read from elsewhere.
        outs: those that others read.
        program: see ``csrc/kernels/pointwise/program.h``.
    """

    nodes: list[fx.Node]
    operands: list[fx.Node]
    outs: list[fx.Node]
    program: str


def grouped(
    nodes: list[fx.Node], kinds: Mapping[fx.Node, Any], results: Collection[fx.Node]
) -> list[fx.Node | Group]:
    """Returns the calls of a phase in an order to make them in, element-wise ones together.

    Args:
        nodes: the calls, in order.
        kinds: how values depend on rows.
        results: what others than these calls need.
    """
    # Calls of one shape and level depend on one another through themselves alone: what lies
    # between two of them would be of a higher level than the first.
    types: dict[fx.Node, torch.dtype | None] = {}
    keys: dict[fx.Node, Any] = {}
    for node in nodes:
        keys[node] = _key(node, kinds, types, keys)
    for node in reversed(nodes):
        keys[node] = _key_of_readers(node, keys)
    level: dict[fx.Node, int] = {}
    members: dict[tuple[int, Any], list[fx.Node]] = {}

    def level_of(node: fx.Node, key: Any) -> int:
        """Returns the level at which a value can be read, by a call of that key."""
        if is_view(node):
            return max((level_of(n, None) for n in node.all_input_nodes), default=0)
        if node not in keys:
            return 0
        return level[node] + (0 if keys[node] in (key, None) else 1)

    for node, key in keys.items():
        level[node] = max((level_of(n, key) for n in node.all_input_nodes), default=0)
        if key is not None:
            members.setdefault((level[node], key), []).append(node)
    found: list[fx.Node | Group] = []
    for height in range(max(level.values(), default=-1) + 1):
        found += [n for n in nodes if level[n] == height and keys[n] is None]
        for (of, (shape, dtype)), some in members.items():
            if of == height:
                found += _joined(some, shape, dtype, results)
    return _without_constants(found, results)


def _without_constants(
    calls: list[fx.Node | Group], results: Collection[fx.Node]
) -> list[fx.Node | Group]:
    """Leaves out what is filled with a number that all who read it have in their programs."""
    reads = {n for c in calls if isinstance(c, Group) for n in c.operands}
    for call in calls:
        if isinstance(call, fx.Node):
            reads.update(call.all_input_nodes)

    def is_read(node: fx.Node) -> bool:
        views = [user for user in node.users if is_view(user)]
        return node in reads or node in results or bool(views)

    return [c for c in calls if isinstance(c, Group) or _constant(c) is None or is_read(c)]


def _key(
    node: fx.Node, kinds: Mapping[fx.Node, Any], types: dict[fx.Node, torch.dtype | None],
    keys: Mapping[fx.Node, Any],
) -> Any:  # fmt: skip
    """Returns what calls have in common that can be made together.

    None where a call is made alone. ``keys`` are those of the calls before.
    """
    if (call := call_by_rows(node)) is not None:
        return _key_by_rows(call, kinds)
    value = node.meta.get("val")
    if node.target not in CALLS or not isinstance(value, Tensor) or value.ndim < 2:
        return None
    of = _type(node, types)
    # Of half types the calls one by one compare rounded numbers.
    known = WIDE if value.dtype is torch.bool else TYPES.get(value.device.type, ())
    if of not in known or kinds[node] not in (ROW, EDGE):
        return None
    is_alike = all(_is_operand(n, node, of) for n in node.all_input_nodes)
    if not is_alike or not _has_plain_numbers(node) or has_options(node):
        return None
    own = _shape(value)
    # A column that is made of rows is computed with them.
    wide = {keys[n][0] for n in node.all_input_nodes if keys.get(n) is not None}
    wide = {shape for shape in wide if shape != own and shape[:-1] == own[:-1]}
    return wide.pop() if own[-1] == "1" and len(wide) == 1 else own, of


def _key_of_readers(node: fx.Node, keys: Mapping[fx.Node, Any]) -> Any:
    """Returns for a column that of the rows that it is read for, where these are alike.

    On CPUs: elsewhere a program that has a column for a result has no kernel.
    """
    key = keys[node]
    if key is None or key[0][-1] != "1" or node.meta["val"].device.type != "cpu":
        return key
    wide = {keys[user] for user in node.users if keys.get(user) is not None}
    wide = {other for other in wide if other[0][:-1] == key[0][:-1] and other[1] == key[1]}
    wide.discard(key)
    return wide.pop() if len(wide) == 1 else key


def _key_by_rows(call: fx.Node, kinds: Mapping[fx.Node, Any]) -> Any:
    rows: Any = rows_of(call)
    kind = kinds[call][0] if isinstance(kinds[call], list) else kinds[call]
    if kind not in (ROW, EDGE):
        return None
    if not all(_is_operand(n, call, rows.dtype) for n in call.all_input_nodes):
        return None
    return _shape(rows), rows.dtype


def _shape(value: Tensor) -> tuple[str, ...]:
    return tuple(str(n) for n in value.shape)


def _type(node: fx.Node, known: dict[fx.Node, torch.dtype | None]) -> torch.dtype | None:
    """Returns the type that a call computes with.

    That of what is compared, where its result is bool; None where there is not one such type.
    """
    value = node.meta.get("val")
    if not isinstance(value, Tensor):
        return None
    if value.dtype is not torch.bool:
        return value.dtype
    if node not in known:
        read = [n for n in node.all_input_nodes if _constant(n) is None]
        found = {_type(n, known) for n in read if node.target in CONDITIONS} - {None}
        known[node] = found.pop() if len(found) == 1 else None
    return known[node]


def _is_operand(arg: fx.Node, node: fx.Node, of: torch.dtype) -> bool:
    """Returns whether a call that computes with a type can read a value in a program."""
    value = arg.meta.get("val")
    if not isinstance(value, Tensor):
        return False
    if node.target in LOGIC or node.target is aten._to_copy.default:
        return value.dtype is torch.bool
    return value.dtype in (of, torch.bool) or (value.ndim == 0 and _constant(arg) is not None)


def _has_plain_numbers(node: fx.Node) -> bool:
    """Returns whether what a call is made with beside tensors can be written in a program."""
    kwargs = dict(node.kwargs)
    if node.target is aten._to_copy.default:
        return len(node.args) == 1 and list(kwargs) == ["dtype"]
    others = [x for x in (*node.args, *kwargs.values()) if not isinstance(x, fx.Node)]
    if node.target in CLAMPS:
        others = [x for x in others if x is not None]
    return all(isinstance(x, (int, float)) and not math.isnan(x) for x in others)


def _constant(node: fx.Node) -> float | None:
    """Returns the number that a call fills a tensor with, None for other calls."""
    value = node.meta.get("val")
    if node.target not in FILLED or not isinstance(value, Tensor) or value.dtype is torch.bool:
        return None
    place, number = FILLED[node.target]
    if number is None and place < len(node.args):
        number = node.args[place]
    if not isinstance(number, (int, float)) or math.isnan(number):
        return None
    return float(torch.tensor(number, dtype=value.dtype))


def _joined(
    nodes: list[fx.Node], shape: tuple[str, ...], of: torch.dtype, results: Collection[fx.Node]
) -> list[fx.Node | Group]:
    """Returns calls of one shape and type as one, or as they are where that cannot be."""
    read = dict.fromkeys(n for node in nodes for n in node.all_input_nodes if n not in nodes)
    constants = {n: number for n in read if (number := _constant(n)) is not None}
    operands = [n for n in read if n not in constants]
    for tried in (shape, (*shape[:-1], "1")):
        # Some sizes may be told by tensors that are constants.
        for known, given in ((constants, operands), ({}, list(read))):
            if len(nodes) > 1 and _fits(nodes, tried) and _have_shape(given, tried, of):
                return [_group(nodes, tried, given, known, results)]
    return list(nodes)


def _fits(nodes: list[fx.Node], shape: tuple[str, ...]) -> bool:
    """Returns whether values have a shape, or are columns of it."""
    values = (n.meta["val"] for n in nodes)
    found = {_shape(value) for value in values if isinstance(value, Tensor)}
    return found <= {shape, (*shape[:-1], "1")}


def _have_shape(operands: list[fx.Node], shape: tuple[str, ...], of: torch.dtype) -> bool:
    """Returns whether operands broadcast to a shape, of one type or bool but not all bool."""
    values = [n.meta["val"] for n in operands]
    sizes = [{str(v.shape[-d]) for v in values if v.ndim >= d} for d in range(1, len(shape) + 1)]
    is_whole = all(
        size in found and found <= {size, "1"} for size, found in zip(reversed(shape), sizes)
    )
    types = {v.dtype for v in values}
    return is_whole and of in types and types <= {of, torch.bool}


def _group(
    nodes: list[fx.Node], shape: tuple[str, ...], operands: list[fx.Node],
    constants: Mapping[fx.Node, float], results: Collection[fx.Node],
) -> Group:  # fmt: skip
    made = [n for n in nodes if isinstance(n.meta["val"], Tensor)]
    numbers = {node: i for i, node in enumerate((*operands, *made))}
    values: dict[fx.Node, Any] = {node: Term("leaf", (i,)) for node, i in numbers.items()}
    values.update(constants)
    formulas = []
    for node in made:
        formula = _formula(node, values.__getitem__)
        formulas.append(formula if isinstance(formula, Term) else Term("number", (formula,)))
    outs = [n for n in made if n in results or any(user not in nodes for user in n.users)]
    calls = "; ".join(text_of(formula, _name) for formula in formulas)
    places = []
    for node in outs:
        value = node.meta["val"]
        mark = "" if _shape(value) == shape else ":1"
        places.append(_name(numbers[node]) + mark + "?" * (value.dtype is torch.bool))
    return Group(nodes, operands, outs, f"{calls} > {' '.join(places)}")


def _formula(node: fx.Node, values: Callable[[fx.Node], Any]) -> Any:
    if call_by_rows(node) is not None:
        return formula_by_rows(node, values)
    args, kwargs = fx.map_arg((node.args, node.kwargs), values)
    return CALLS[node.target](*args, **kwargs)


def _name(value: int) -> str:
    return f"x{value}"
