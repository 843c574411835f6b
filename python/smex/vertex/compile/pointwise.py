"""Element-wise calls of a phase that are computed together as one (Cavs §3.4)."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch import Tensor, fx

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
    """The calls of a phase in an order to make them in, element-wise ones together.

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
        """The level at which a value can be read, by a call of that key."""
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
    """What calls have in common that can be made together; None where a call is made alone."""
    value = node.meta.get("val")
    if node.target not in CALLS or not isinstance(value, Tensor) or value.ndim < 2:
        return None
    operands = [n.meta.get("val") for n in node.all_input_nodes]
    is_alike = all(isinstance(x, Tensor) and x.dtype == value.dtype for x in operands)
    others = [x for x in (*node.args, *node.kwargs.values()) if not isinstance(x, fx.Node)]
    is_plain = all(isinstance(x, (int, float)) and math.isfinite(x) for x in others)
    if not is_alike or not is_plain or kinds[node] not in (ROW, EDGE):
        return None
    if value.dtype not in TYPES.get(value.device.type, ()):
        return None
    return tuple(str(n) for n in value.shape), value.dtype


def _group(nodes: list[fx.Node], results: Collection[fx.Node]) -> Group:
    operands: dict[fx.Node, None] = {}
    for node in nodes:
        operands.update((n, None) for n in node.all_input_nodes if n not in nodes)
    writer = _Writer(len(operands))
    values = {node: Value(i) for i, node in enumerate(operands)}
    for node in nodes:
        args, kwargs = fx.map_arg((node.args, node.kwargs), lambda n: values[n])
        values[node] = CALLS[node.target](writer, *args, **kwargs)
    outs = [n for n in nodes if n in results or any(user not in nodes for user in n.users)]
    places = " ".join(str(values[n].number) for n in outs)
    return Group(nodes, list(operands), outs, f"{';'.join(writer.calls)} > {places}")


class Value(NamedTuple):
    """The number of a value in a program."""

    number: int


class _Writer:
    """Writes a program call by call."""

    def __init__(self, num_operands: int):
        self.calls: list[str] = []
        self._next = num_operands
        self._constants: dict[float, Value] = {}

    def __call__(self, name: str, *args: Value | float) -> Value:
        """A call, of which numbers among the arguments are constants."""
        texts = [str(self._value(x).number) for x in args]
        return self._call(f"{name} {' '.join(texts)}")

    def with_number(self, name: str, value: Value | float, number: float) -> Value:
        """A call of an operation that takes a number."""
        return self._call(f"{name} {self._value(value).number} ={float(number)!r}")

    def _value(self, x: Value | float) -> Value:
        if isinstance(x, Value):
            return x
        if x not in self._constants:
            self._constants[x] = self._call(f"constant ={float(x)!r}")
        return self._constants[x]

    def _call(self, text: str) -> Value:
        self.calls.append(text)
        self._next += 1
        return Value(self._next - 1)


def _scaled(w: _Writer, x: Any, by: float) -> Any:
    return x if by == 1 else w("mul", x, by)


def _one_minus_square(w: _Writer, x: Value) -> Value:
    return w("sub", 1, w("mul", x, x))


def _above(w: _Writer, x: Value, threshold: float) -> Value:
    """1 where x is above the threshold or no number, else 0."""
    return w("sub", 1, w("less_equal", x, threshold))


def _gelu(w: _Writer, x: Value) -> Value:
    return w("mul", x, _normal(w, x))


def _normal(w: _Writer, x: Value) -> Value:
    """The standard normal distribution's probability below x."""
    return w("mul", w("add", w("erf", w("mul", x, math.sqrt(0.5))), 1), 0.5)


def _gelu_backward(w: _Writer, grad: Value, x: Value) -> Value:
    density = w("mul", w("exp", w("mul", w("mul", x, x), -0.5)), 1 / math.sqrt(2 * math.pi))
    return w("mul", grad, w("add", _normal(w, x), w("mul", x, density)))


def _silu_backward(w: _Writer, grad: Value, x: Value) -> Value:
    s = w("sigmoid", x)
    rest = w("add", 1, w("mul", x, w("sub", 1, s)))
    return w("mul", grad, w("mul", s, rest))


def _leaky_relu_backward(w: _Writer, grad: Value, x: Value, slope: float, of_result: bool) -> Value:
    return w("mul", grad, w.with_number("leaky_step", x, slope))


def _same(name: str) -> Callable[..., Value]:
    return lambda w, *args: w(name, *args)


Call = Callable[..., Value]
CALLS: dict[Any, Call] = {
    aten.abs.default: _same("abs"),
    aten.add.Tensor: lambda w, a, b, alpha=1: w("add", a, _scaled(w, b, alpha)),
    aten.cos.default: _same("cos"),
    aten.div.Tensor: _same("div"),
    aten.erf.default: _same("erf"),
    aten.exp.default: _same("exp"),
    aten.expm1.default: _same("expm1"),
    aten.gelu.default: _gelu,
    aten.gelu_backward.default: _gelu_backward,
    aten.leaky_relu.default: lambda w, x, slope=0.01: w.with_number("leaky_relu", x, slope),
    aten.leaky_relu_backward.default: _leaky_relu_backward,
    aten.log.default: _same("log"),
    aten.log1p.default: _same("log1p"),
    aten.maximum.default: _same("maximum"),
    aten.minimum.default: _same("minimum"),
    aten.mul.Tensor: _same("mul"),
    aten.neg.default: _same("neg"),
    aten.pow.Tensor_Scalar: lambda w, x, exponent: w.with_number("pow", x, exponent),
    aten.reciprocal.default: lambda w, x: w("div", 1, x),
    aten.relu.default: _same("relu"),
    aten.rsqrt.default: lambda w, x: w("div", 1, w("sqrt", x)),
    aten.rsub.Scalar: lambda w, a, b, alpha=1: w("sub", b, _scaled(w, a, alpha)),
    aten.sigmoid.default: _same("sigmoid"),
    aten.sigmoid_backward.default: lambda w, grad, y: w("mul", grad, w("mul", w("sub", 1, y), y)),
    aten.silu.default: lambda w, x: w("mul", x, w("sigmoid", x)),
    aten.silu_backward.default: _silu_backward,
    aten.sin.default: _same("sin"),
    aten.sqrt.default: _same("sqrt"),
    aten.sub.Tensor: lambda w, a, b, alpha=1: w("sub", a, _scaled(w, b, alpha)),
    aten.tanh.default: _same("tanh"),
    aten.tanh_backward.default: lambda w, grad, y: w("mul", grad, _one_minus_square(w, y)),
    aten.threshold_backward.default: lambda w, grad, x, threshold: w(
        "select", _above(w, x, threshold), grad
    ),
}
"""For each element-wise operator what it computes: a writer and the call's arguments."""
