"""Formulas as data, their text, and the operations that they are made of.

Messages of graphs and element-wise programs are formulas over operands. They are data until the
native library reads their text, which ``csrc/kernels/message/expression.h`` describes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from smex._C import message_operations, parse_message

OPERATIONS = {
    operation.sign if operation.sign and operation.arguments == 2 else operation.name: operation
    for operation in message_operations()
}
"""What is known of each operation, by its name, or by its sign if it stands between two arguments;
each is a line of ``csrc/kernels/message/operations.def``."""


class Term(NamedTuple):
    """A node of a formula: an operation, a leaf or a number."""

    op: str  # a key of OPERATIONS, "dot" or "cat"; "leaf" or "number"
    args: tuple[Any, ...]
    size: int = 1


class Operand(NamedTuple):
    """A leaf of a message: a feature of sources (u), destinations (v) or edges (e); shared (c)."""

    letter: str
    number: int


class Message:
    """A formula whose leaves are features of an edge and its ends.

    Attributes:
        term: the formula.
        letters: of each operand, by its number: whose feature it is.
        text: what the ``smex::`` operators read.
    """

    def __init__(self, term: Term, letters: tuple[str, ...], text: str):
        self.term = term
        self.letters = letters
        self.text = text

    @classmethod
    def of(cls, op: str, *letters: str) -> Message:
        """Returns an operation on one operand of each letter.

        With "leaf", the one operand itself.
        """
        leaves = tuple(Term("leaf", (Operand(x, i),)) for i, x in enumerate(letters))
        return cls._of_operands(leaves[0] if op == "leaf" else Term(op, leaves), letters)

    @classmethod
    def _of_operands(cls, term: Term, letters: tuple[str, ...]) -> Message:
        return cls(term, letters, text_of(term, lambda leaf: f"{leaf.letter}{leaf.number}"))

    @classmethod
    def parse(cls, text: str) -> Message:
        """Returns the message of a text.

        Raises:
            ValueError: where the text is wrong.
        """
        letters: dict[int, str] = {}

        def term_of(node: tuple[Any, ...]) -> Term:
            op, args = node
            if op == "leaf":
                letters[args[1]] = args[0]
                return Term("leaf", (Operand(*args),))
            return Term(op, args if op == "number" else tuple(term_of(arg) for arg in args))

        term = term_of(parse_message(text))
        count = max(letters, default=-1) + 1
        return cls._of_operands(term, tuple(letters.get(i, "") for i in range(count)))

    def __repr__(self) -> str:
        return self.text


def shape_of(term: Term, features: Sequence[Sequence[int]]) -> tuple[int, ...]:
    """Returns the shape of a message, or of a part of it.

    Args:
        term: the message.
        features: of each operand the shape of a row, by its number.
    """
    if term.op == "number":
        return ()
    if term.op == "leaf":
        return tuple(features[term.args[0].number])
    shapes = [shape_of(arg, features) for arg in term.args]
    rank = max(map(len, shapes))
    filled = [(1,) * (rank - len(shape)) + shape for shape in shapes]
    shape = tuple(max(sizes) if 0 not in sizes else 0 for sizes in zip(*filled))
    return (*shape[:-1], 1) if term.op == "sum_last" and shape else shape


_SIGNS = {op: operation.sign for op, operation in OPERATIONS.items() if operation.sign}


def text_of(
    term: Term,
    leaf_text: Callable[[Any], str],
    arguments: Callable[[Term], tuple[Any, ...]] = lambda term: term.args,
) -> str:
    """Returns the text of a formula.

    Args:
        term: the formula.
        leaf_text: the text of a leaf.
        arguments: of an operation, in the order to write them in.
    """
    op = term.op
    if op == "number":
        return repr(term.args[0])
    if op == "leaf":
        return leaf_text(term.args[0])
    sign = _SIGNS.get(op)
    parts = []
    for arg in arguments(term):
        part = text_of(arg, leaf_text, arguments)
        parts.append(f"({part})" if sign and arg.op in _SIGNS else part)
    if sign is None:
        return f"{op}({', '.join(parts)})"
    return sign + parts[0] if len(parts) == 1 else f"{parts[0]} {sign} {parts[1]}"
