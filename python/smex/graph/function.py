"""Built-in message and reduce functions, named as DGL names them.

A message function says what an edge sends: ``u_mul_e("h", "w", "m")`` is the source's ``h`` times
the edge's ``w``, sent as ``m``. A reduce function says what a node makes of what it receives:
``sum("m", "out")``. Both only describe; :meth:`smex.graph.Graph.update_all` computes them in one
kernel.

Operands are the source node ``u``, the destination node ``v`` and the edge ``e``; features line up
from the right, as in NumPy, after the first dimension. ``dot`` multiplies and adds up over the last
dimension, which stays with size 1.
"""

from __future__ import annotations

from collections.abc import Callable

from smex.errors import SmexTypeError
from smex.formula import OPERATIONS, Message

__all__ = [
    "BinaryMessageFunction",
    "BuiltinFunction",
    "CopyMessageFunction",
    "MessageFunction",
    "ReduceFunction",
    "TargetCode",
    "copy_e",
    "copy_edge",
    "copy_src",
    "copy_u",
    "e_add_u",
    "e_add_v",
    "e_div_u",
    "e_div_v",
    "e_dot_u",
    "e_dot_v",
    "e_mul_u",
    "e_mul_v",
    "e_sub_u",
    "e_sub_v",
    "max",
    "mean",
    "min",
    "sum",
    "u_add_e",
    "u_add_v",
    "u_div_e",
    "u_div_v",
    "u_dot_e",
    "u_dot_v",
    "u_mul_e",
    "u_mul_v",
    "u_sub_e",
    "u_sub_v",
    "v_add_e",
    "v_add_u",
    "v_div_e",
    "v_div_u",
    "v_dot_e",
    "v_dot_u",
    "v_mul_e",
    "v_mul_u",
    "v_sub_e",
    "v_sub_u",
]


class TargetCode:
    """Whose feature an operand is, as a number."""

    SRC = 0
    DST = 1
    EDGE = 2


LETTERS = ("u", "v", "e")
"""Whose feature an operand is, by target code."""

BINARY = {**{OPERATIONS[sign].name: sign for sign in "+-*/"}, "dot": "dot"}
"""What formulas call the operations of binary built-ins, by their names."""

COPIES = {letter: Message.of("leaf", letter) for letter in LETTERS}
"""The message that an operand itself is, by whose feature it is."""

_BINARIES = {
    (op, lhs, rhs): Message.of(BINARY[op], lhs, rhs)
    for op in BINARY
    for lhs in LETTERS
    for rhs in LETTERS
}


def binary_message(op: str, lhs: str, rhs: str) -> Message:
    """Returns the message of a binary built-in.

    Args:
        op: add, sub, mul, div or dot.
        lhs: whose feature the left operand is: u, v or e.
        rhs: whose feature the right operand is.
    """
    return _BINARIES[op, lhs, rhs]


class BuiltinFunction:
    """What all built-in functions are."""

    name: str


class MessageFunction(BuiltinFunction):
    """A built-in message function.

    Attributes:
        name: such as ``u_mul_e``.
        message: what it sends, of its operands in their order.
        operands: (u, v or e, name of the feature) of each operand.
        out_field: what the message is called.
    """

    message: Message
    operands: tuple[tuple[str, str], ...]
    out_field: str

    @property
    def text(self) -> str:
        """The message as ``smex::`` operators take it."""
        return self.message.text


class CopyMessageFunction(MessageFunction):
    """Sends a feature as it is."""

    def __init__(self, target: int, in_field: str, out_field: str):
        letter = LETTERS[target]
        self.name = "copy_" + letter
        self.target = target
        self.in_field = in_field
        self.out_field = out_field
        self.message = COPIES[letter]
        self.operands = ((letter, in_field),)

    def __repr__(self) -> str:
        return f"{self.name}({self.in_field!r}, {self.out_field!r})"


class BinaryMessageFunction(MessageFunction):
    """Sends what one operation makes of two features."""

    def __init__(
        self, binary_op: str, lhs: int, rhs: int, lhs_field: str, rhs_field: str, out_field: str
    ):
        left, right = LETTERS[lhs], LETTERS[rhs]
        self.name = f"{left}_{binary_op}_{right}"
        self.binary_op = binary_op
        self.lhs = lhs
        self.rhs = rhs
        self.lhs_field = lhs_field
        self.rhs_field = rhs_field
        self.out_field = out_field
        self.message = binary_message(binary_op, left, right)
        self.operands = ((left, lhs_field), (right, rhs_field))

    def __repr__(self) -> str:
        return f"{self.name}({self.lhs_field!r}, {self.rhs_field!r}, {self.out_field!r})"


class ReduceFunction(BuiltinFunction):
    """A built-in reduce function: ``sum``, ``mean``, ``max`` or ``min`` of the messages."""

    def __init__(self, name: str, msg_field: str, out_field: str):
        self.name = name
        self.msg_field = msg_field
        self.out_field = out_field

    def __repr__(self) -> str:
        return f"{self.name}({self.msg_field!r}, {self.out_field!r})"


def copy_u(
    u: str | None = None, out: str | None = None, *, src: str | None = None
) -> CopyMessageFunction:
    """Returns the source's feature ``u``, sent as ``out``; ``src`` is a former name of ``u``.

    Raises:
        SmexTypeError: one of the two is left out, or both names of one are given.

    Example:
        >>> import smex.graph.function as fn
        >>> fn.copy_u("h", "m")
        copy_u('h', 'm')
    """
    return CopyMessageFunction(TargetCode.SRC, *_fields("copy_u", u, src, out))


def copy_e(
    e: str | None = None, out: str | None = None, *, edge: str | None = None
) -> CopyMessageFunction:
    """Returns the edge's feature ``e``, sent as ``out``; ``edge`` is a former name of ``e``.

    Raises:
        SmexTypeError: one of the two is left out, or both names of one are given.
    """
    return CopyMessageFunction(TargetCode.EDGE, *_fields("copy_e", e, edge, out))


def _fields(op: str, now: str | None, former: str | None, out: str | None) -> tuple[str, str]:
    given = former if now is None else now
    if given is None or out is None or (now is not None and former is not None):
        raise SmexTypeError(
            f"{op}: expected the name of a feature and that of the message, found {given!r} and "
            f"{out!r}; each is given once"
        )
    return given, out


copy_src = copy_u
copy_edge = copy_e


def _binary(op: str, lhs: int, rhs: int) -> Callable[[str, str, str], BinaryMessageFunction]:
    def builtin(lhs_field: str, rhs_field: str, out: str) -> BinaryMessageFunction:
        return BinaryMessageFunction(op, lhs, rhs, lhs_field, rhs_field, out)

    builtin.__name__ = builtin.__qualname__ = f"{LETTERS[lhs]}_{op}_{LETTERS[rhs]}"
    builtin.__doc__ = (
        f"{LETTERS[lhs]}'s ``lhs_field`` {op} {LETTERS[rhs]}'s ``rhs_field``, sent as ``out``."
    )
    return builtin


_U, _V, _E = TargetCode.SRC, TargetCode.DST, TargetCode.EDGE

e_add_u = _binary("add", _E, _U)
e_add_v = _binary("add", _E, _V)
e_div_u = _binary("div", _E, _U)
e_div_v = _binary("div", _E, _V)
e_dot_u = _binary("dot", _E, _U)
e_dot_v = _binary("dot", _E, _V)
e_mul_u = _binary("mul", _E, _U)
e_mul_v = _binary("mul", _E, _V)
e_sub_u = _binary("sub", _E, _U)
e_sub_v = _binary("sub", _E, _V)
u_add_e = _binary("add", _U, _E)
u_add_v = _binary("add", _U, _V)
u_div_e = _binary("div", _U, _E)
u_div_v = _binary("div", _U, _V)
u_dot_e = _binary("dot", _U, _E)
u_dot_v = _binary("dot", _U, _V)
u_mul_e = _binary("mul", _U, _E)
u_mul_v = _binary("mul", _U, _V)
u_sub_e = _binary("sub", _U, _E)
u_sub_v = _binary("sub", _U, _V)
v_add_e = _binary("add", _V, _E)
v_add_u = _binary("add", _V, _U)
v_div_e = _binary("div", _V, _E)
v_div_u = _binary("div", _V, _U)
v_dot_e = _binary("dot", _V, _E)
v_dot_u = _binary("dot", _V, _U)
v_mul_e = _binary("mul", _V, _E)
v_mul_u = _binary("mul", _V, _U)
v_sub_e = _binary("sub", _V, _E)
v_sub_u = _binary("sub", _V, _U)


def sum(msg: str, out: str) -> ReduceFunction:
    """Returns the sum of the messages ``msg``, set as ``out``; 0 without messages.

    Example:
        >>> import smex.graph.function as fn
        >>> fn.sum("m", "h")
        sum('m', 'h')
    """
    return ReduceFunction("sum", msg, out)


def mean(msg: str, out: str) -> ReduceFunction:
    """Returns the mean of the messages ``msg``, set as ``out``; 0 without messages."""
    return ReduceFunction("mean", msg, out)


def max(msg: str, out: str) -> ReduceFunction:
    """Returns the largest of the messages ``msg``, set as ``out``; 0 without messages."""
    return ReduceFunction("max", msg, out)


def min(msg: str, out: str) -> ReduceFunction:
    """Returns the smallest of the messages ``msg``, set as ``out``; 0 without messages."""
    return ReduceFunction("min", msg, out)
