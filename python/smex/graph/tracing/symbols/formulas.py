"""Formulas as messages and operands, as ``smex::`` operators take them, and their reductions."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from torch import Tensor

from smex.formula import Message, Term, text_of
from smex.graph.ops.kernels import aggregate, per_edge
from smex.graph.tracing.symbols.symbols import Leaf, Value

if TYPE_CHECKING:
    from smex.graph.structure.relation import Relation


class Formula(Message):
    """A message whose leaves are features at hand, the operands in the order of their numbers."""

    def __init__(self, term: Term, text: str, leaves: tuple[Leaf, ...]):
        super().__init__(term, tuple([leaf.letter for leaf in leaves]), text)
        self.leaves = leaves

    def operands(self, relation: Relation) -> list[Tensor]:
        """Returns the operands, for the edges of a relation."""
        return [leaf.of(relation) for leaf in self.leaves]

    def on_edges(self, relation: Relation) -> Tensor:
        """Returns the value on every edge."""
        if self.term.op == "leaf" and self.letters == ("e",):
            return self.leaves[0].of(relation)
        return per_edge(relation, self, self.operands(relation))

    def named(self) -> str:
        """Returns the text with the features' names, such as ``u.h * e.w``."""
        return text_of(self.term, _name_of, _in_order)


def _name_of(leaf: Leaf) -> str:
    if leaf.tensor is None:
        return leaf.key
    if leaf.letter == "c":
        return f"tensor{list(leaf.tensor.shape[1:])}"
    return f"{leaf.letter}.{leaf.key}"


def formula_of(term: Term) -> Formula:
    """Returns the message of a formula.

    Operands are numbered in the order of their first appearance.
    """
    numbers: dict[tuple[str, str], int] = {}
    leaves: list[Leaf] = []

    def name(leaf: Leaf) -> str:
        number = numbers.setdefault((leaf.letter, leaf.key), len(leaves))
        if number == len(leaves):
            leaves.append(leaf)
        return f"{leaf.letter}{number}"

    text = text_of(term, name, _in_order)
    return Formula(term, text, tuple(leaves))


class Reduction(NamedTuple):
    """What each node makes of its messages."""

    reduce: str
    formula: Formula
    dropped: bool  # the formula's last dimension, of size 1, is not in the result

    @staticmethod
    def of(reduce: str, value: Value) -> Reduction:
        """Returns the reduction of messages with a value."""
        term = value.term if reduce in ("sum", "mean") else without_inner_sums(value.term)
        return Reduction(reduce, formula_of(term), value.dropped)

    def named(self) -> str:
        """Returns the text with the features' names, such as ``sum(u.h * e.w)``."""
        return f"{self.reduce}({self.formula.named()})"

    def run(self, relation: Relation, zero_empty: bool = True) -> Tensor:
        """Returns the result ``[num_dst, ...]``, by one kernel."""
        operands = self.formula.operands(relation)
        out = aggregate(relation, self.formula, self.reduce, operands, zero_empty)
        return out.squeeze(-1) if self.dropped else out


def without_inner_sums(term: Term) -> Term:
    """The same formula with sums over the last dimension as operands, but for the outermost one.

    ``max`` and ``min`` are found element by element, where a sum inside of the message has no
    place; the sums are small, one number for each edge or head.
    """
    if term.op not in SUMS:
        return _hoisted(term)
    return Term(term.op, tuple(_hoisted(arg) for arg in term.args), term.size)


SUMS = ("dot", "sum_last")
"""Operations that add up over the last dimension."""


def _hoisted(term: Term) -> Term:
    if term.op in ("leaf", "number"):
        return term
    if term.op in SUMS:
        formula = formula_of(term)
        return Term("leaf", (Leaf("e", formula.named(), None, formula.on_edges),))
    return Term(term.op, tuple(_hoisted(arg) for arg in term.args), term.size)


def _in_order(term: Term) -> tuple[Term, ...]:
    """Returns the arguments.

    Of a product or a sum of two features the source's first, as built-ins say.
    """
    letters = [arg.args[0].letter for arg in term.args if arg.op == "leaf"]
    if term.op in ("+", "*", "dot") and letters in (["e", "u"], ["v", "u"], ["e", "v"]):
        return (term.args[1], term.args[0])
    return term.args
