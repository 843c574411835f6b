"""What a reduce function computes from reduced messages and features of nodes, by torch.

The reductions run as kernels; what follows them is done once for all nodes that got messages.
"""

from __future__ import annotations

from typing import NamedTuple

from torch import Tensor

from smex.formula import Term
from smex.graph.ops.formula_values import evaluate
from smex.graph.structure.relation import Relation
from smex.graph.tracing.symbols import formula_of


class NodeFormula(NamedTuple):
    """A formula over features of nodes and reductions of their messages."""

    term: Term
    dropped: bool  # the formula's last dimension, of size 1, is not in the result

    def named(self) -> str:
        """Returns the text with the features' names, such as ``relu(sum(u.h) + n.h)``."""
        return formula_of(self.term).named()

    def run(self, relation: Relation) -> Tensor:
        """Returns the value ``[num_dst, ...]``.

        0 for nodes without messages, whatever the formula says.
        """
        leaves = {leaf: leaf.of(relation) for leaf in formula_of(self.term).leaves}
        got = relation.in_degrees() > 0
        rows = None if bool(got.all()) else got.nonzero().view(-1)
        if rows is not None:  # no value or gradient comes from the others
            leaves = {
                leaf: x if leaf.letter == "c" else x.index_select(0, rows)
                for leaf, x in leaves.items()
            }
        operands = {(leaf.letter, leaf.key): x for leaf, x in leaves.items()}
        found = evaluate(self.term, lambda leaf: operands[leaf.letter, leaf.key])
        found = found.squeeze(-1) if self.dropped else found
        if rows is None:
            return found
        return found.new_zeros(relation.num_dst, *found.shape[1:]).index_copy(0, rows, found)
