"""Formulas as messages and operands, as ``smex::`` operators take them, and their reductions."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from torch import Tensor

from smex.formula import Message, Operand, Term, text_of
from smex.graph.ops.kernels import aggregate, per_edge
from smex.graph.symbolic.symbols import Leaf, Value

if TYPE_CHECKING:
    from smex.graph.relation import Relation


class Formula(NamedTuple):
    """A formula as a message, and its operands in the order of their numbers."""

    message: Message
    leaves: tuple[Leaf, ...]

    def operands(self, relation: Relation) -> list[Tensor]:
        """The operands, for the edges of a relation."""
        return [leaf.of(relation) for leaf in self.leaves]

    def on_edges(self, relation: Relation) -> Tensor:
        """The value on every edge."""
        if self.message.term.op == "leaf" and self.leaves[0].letter == "e":
            return self.leaves[0].of(relation)
        return per_edge(relation, self.message, self.operands(relation))

    def named(self) -> str:
        """The text with the features' names, such as ``u.h * e.w``."""
        names = [_name_of(leaf) for leaf in self.leaves]
        return text_of(self.message.term, lambda operand: names[operand.number])


def _name_of(leaf: Leaf) -> str:
    if leaf.tensor is None:
        return leaf.key
    if leaf.letter == "c":
        return f"tensor{list(leaf.tensor.shape[1:])}"
    return f"{leaf.letter}.{leaf.key}"


def formula_of(term: Term) -> Formula:
    """The message of a formula; operands are numbered in the order of their first appearance."""
    leaves: dict[tuple[str, str], tuple[Leaf, Operand]] = {}
    numbered = _numbered(term, leaves)
    letters = tuple(operand.letter for _, operand in leaves.values())
    return Formula(Message(numbered, letters), tuple(leaf for leaf, _ in leaves.values()))


def _numbered(term: Term, leaves: dict[tuple[str, str], tuple[Leaf, Operand]]) -> Term:
    """The formula with operands as its leaves."""
    if term.op == "number":
        return term
    if term.op == "leaf":
        leaf = term.args[0]
        known = leaves.get((leaf.letter, leaf.key))
        if known is None:
            known = (leaf, Operand(leaf.letter, len(leaves)))
            leaves[leaf.letter, leaf.key] = known
        return Term("leaf", (known[1],))
    return Term(term.op, tuple(_numbered(arg, leaves) for arg in _in_order(term)), term.size)


class Reduction(NamedTuple):
    """What each node makes of its messages."""

    reduce: str
    formula: Formula
    dropped: bool  # the formula's last dimension, of size 1, is not in the result

    @staticmethod
    def of(reduce: str, value: Value) -> Reduction:
        """The reduction of messages with a value."""
        term = value.term if reduce in ("sum", "mean") else without_inner_sums(value.term)
        return Reduction(reduce, formula_of(term), value.dropped)

    def named(self) -> str:
        """The text with the features' names, such as ``sum(u.h * e.w)``."""
        return f"{self.reduce}({self.formula.named()})"

    def run(self, relation: Relation, zero_empty: bool = True) -> Tensor:
        """The result ``[num_dst, ...]``, by one kernel."""
        operands = self.formula.operands(relation)
        out = aggregate(relation, self.formula.message, self.reduce, operands, zero_empty)
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
    """The arguments; of a product or a sum of two features the source's first, as built-ins say."""
    letters = [arg.args[0].letter for arg in term.args if arg.op == "leaf"]
    if term.op in ("+", "*", "dot") and letters in (["e", "u"], ["v", "u"], ["e", "v"]):
        return (term.args[1], term.args[0])
    return term.args
