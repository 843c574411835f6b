"""Element-wise calls of a phase that are computed together as one (Cavs §3.4)."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, fx

from smex.formula import OPERATIONS, Term, text_of
from smex.vertex.compile.rows import EDGE, ROW
from smex.vertex.compile.simplify import is_view

__all__ = ["Group", "grouped"]

aten = torch.ops.aten
WIDE = (torch.float32, torch.float64)
TYPES = {"cpu": WIDE, "cuda": (*WIDE, torch.float16, torch.bfloat16)}
"""For each device the types that there is a kernel for."""


@dataclass
class Group:
    """Calls with results of one shape, and their program for ``smex::pointwise``.

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
    own = set(nodes)
    level: dict[fx.Node, int] = {}
    members: dict[tuple[int, Any], list[fx.Node]] = {}

    def level_of(node: fx.Node, key: Any) -> int:
        """Returns the level at which a value can be read, by a call of that key."""
        if is_view(node):
            return max((level_of(n, None) for n in node.all_input_nodes), default=0)
        if node not in own:
            return 0
        is_same = key is not None and _key(node, kinds) == key
        return level[node] + (0 if is_same or _key(node, kinds) is None else 1)

    for node in nodes:
        key = _key(node, kinds)
        level[node] = max((level_of(n, key) for n in node.all_input_nodes), default=0)
        if key is not None:
            members.setdefault((level[node], key), []).append(node)
    found: list[fx.Node | Group] = []
    for height in range(max(level.values(), default=-1) + 1):
        found += [n for n in nodes if level[n] == height and _key(n, kinds) is None]
        for (of, _), some in members.items():
            if of == height:
                found += [_group(some, results)] if len(some) > 1 else some
    return found


def _key(node: fx.Node, kinds: Mapping[fx.Node, Any]) -> Any:
    """Returns what calls have in common that can be made together.

    None where a call is made alone.
    """
    value = node.meta.get("val")
    if node.target not in CALLS or not isinstance(value, Tensor) or value.ndim < 2:
        return None
    operands = [n.meta.get("val") for n in node.all_input_nodes]
    is_alike = all(isinstance(x, Tensor) and x.dtype == value.dtype for x in operands)
    others = [x for x in (*node.args, *node.kwargs.values()) if not isinstance(x, fx.Node)]
    is_plain = all(isinstance(x, (int, float)) and math.isfinite(x) for x in others)
    if not is_alike or not is_plain or _has_options(node) or kinds[node] not in (ROW, EDGE):
        return None
    if value.dtype not in TYPES.get(value.device.type, ()):
        return None
    return tuple(str(n) for n in value.shape), value.dtype


def _group(nodes: list[fx.Node], results: Collection[fx.Node]) -> Group:
    operands: dict[fx.Node, None] = {}
    for node in nodes:
        operands.update((n, None) for n in node.all_input_nodes if n not in nodes)
    values = {node: Term("leaf", (i,)) for i, node in enumerate((*operands, *nodes))}
    formulas = []
    for node in nodes:
        args, kwargs = fx.map_arg((node.args, node.kwargs), lambda n: values[n])
        formulas.append(CALLS[node.target](*args, **kwargs))
    outs = [n for n in nodes if n in results or any(user not in nodes for user in n.users)]
    calls = "; ".join(text_of(formula, _name) for formula in formulas)
    places = " ".join(text_of(values[n], _name) for n in outs)
    return Group(nodes, list(operands), outs, f"{calls} > {places}")


def _name(value: int) -> str:
    return f"x{value}"


Formula = Term | float
"""What calls are made with; numbers are constants."""


def _of(op: str, *args: Formula) -> Term:
    """Returns an operation of formulas and numbers."""
    return Term(op, tuple(x if isinstance(x, Term) else Term("number", (float(x),)) for x in args))


def _plain(op: str) -> Callable[..., Term]:
    return lambda *args: _of(op, *args)


def _operator_of(operation: Any) -> Any:
    """Returns the ATen operator of an operation, of two tensors or of one and a number."""
    packet = getattr(aten, operation.torch)
    overload = "Tensor_Scalar" if operation.takes_number else "Tensor"
    return getattr(packet, overload if overload in packet.overloads() else "default")


def _sum(a: Formula, b: Formula, alpha: float = 1) -> Term:
    return _of("+", a, _of("*", b, alpha))


def _difference(a: Formula, b: Formula, alpha: float = 1) -> Term:
    return _of("-", a, _of("*", b, alpha))


def _one_minus(x: Formula) -> Term:
    return _of("-", 1, x)


def _above(x: Formula, threshold: float) -> Term:
    """1 where x is above the threshold or no number, else 0."""
    return _one_minus(_of("less_equal", x, threshold))


def _gelu(x: Formula) -> Term:
    return _of("*", x, _normal(x))


def _normal(x: Formula) -> Term:
    """Returns the standard normal distribution's probability below x."""
    return _of("*", _of("+", _of("erf", _of("*", x, math.sqrt(0.5))), 1), 0.5)


def _gelu_backward(grad: Formula, x: Formula) -> Term:
    bell = _of("exp", _of("*", _of("*", x, x), -0.5))
    density = _of("*", bell, 1 / math.sqrt(2 * math.pi))
    return _of("*", grad, _of("+", _normal(x), _of("*", x, density)))


def _silu_backward(grad: Formula, x: Formula) -> Term:
    share = _of("sigmoid", x)
    rest = _of("+", 1, _of("*", x, _one_minus(share)))
    return _of("*", grad, _of("*", share, rest))


def _leaky_relu_backward(grad: Formula, x: Formula, slope: float, of_result: bool) -> Term:
    return _of("*", grad, _of("leaky_step", x, slope))


_COMPOSED: dict[Any, Callable[..., Term]] = {
    aten.add.Tensor: _sum,
    aten.gelu.default: _gelu,
    aten.gelu_backward.default: _gelu_backward,
    aten.leaky_relu.default: lambda x, slope=0.01: _of("leaky_relu", x, slope),
    aten.leaky_relu_backward.default: _leaky_relu_backward,
    aten.reciprocal.default: lambda x: _of("/", 1, x),
    aten.rsqrt.default: lambda x: _of("/", 1, _of("sqrt", x)),
    aten.rsub.Scalar: lambda a, b, alpha=1: _difference(b, a, alpha),
    aten.sigmoid_backward.default: lambda grad, y: _of("*", grad, _of("*", _one_minus(y), y)),
    aten.silu.default: lambda x: _of("*", x, _of("sigmoid", x)),
    aten.silu_backward.default: _silu_backward,
    aten.sub.Tensor: _difference,
    aten.tanh_backward.default: lambda grad, y: _of("*", grad, _one_minus(_of("*", y, y))),
    aten.threshold_backward.default: lambda grad, x, threshold: _of(
        "select", _above(x, threshold), grad
    ),
}

_PLAIN = {
    _operator_of(operation): op
    for op, operation in OPERATIONS.items()
    if operation.torch and not operation.is_condition and _operator_of(operation) not in _COMPOSED
}

CALLS = {**{target: _plain(op) for target, op in _PLAIN.items()}, **_COMPOSED}
"""For each element-wise operator the formula of what it is called with."""


def _has_options(node: fx.Node) -> bool:
    """Returns whether a call that is one operation says more than its arguments."""
    op = _PLAIN.get(node.target)
    return op is not None and len(node.args) + len(node.kwargs) > OPERATIONS[op].arguments
