"""What a reduce function computes from reduced messages and features of nodes, by torch.

The reductions run as kernels; what follows them is done once for all nodes that got messages.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from smex.graph.structure.relation import Relation
from smex.graph.tracing.symbols import Leaf, Term, formula_of

_OPERATIONS: dict[str, Callable[..., Tensor]] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "/": operator.truediv,
    "abs": torch.abs,
    "cos": torch.cos,
    "cat": lambda dim, *parts: torch.cat(parts, dim),
    "dot": lambda a, b: (a * b).sum(-1, keepdim=True),
    "equal": lambda a, b: _compared(torch.eq, a, b),
    "erf": torch.erf,
    "exp": torch.exp,
    "expm1": torch.expm1,
    "leaky_relu": F.leaky_relu,
    "less": lambda a, b: _compared(torch.lt, a, b),
    "less_equal": lambda a, b: _compared(torch.le, a, b),
    "log": torch.log,
    "log1p": torch.log1p,
    "maximum": lambda a, b: _pointwise(torch.maximum, a, b),
    "minimum": lambda a, b: _pointwise(torch.minimum, a, b),
    "neg": torch.neg,
    "part": lambda condition, x: torch.where(condition != 0, x, -0.0),
    "pow": torch.pow,
    "relu": torch.relu,
    "select": lambda condition, x: torch.where(condition != 0, x, 0.0),
    "sigmoid": torch.sigmoid,
    "sin": torch.sin,
    "slope": lambda factor, x: _Slope.apply(factor, x),
    "sqrt": torch.sqrt,
    "straight_through": lambda a, b: _StraightThrough.apply(a, b),
    "sum_last": lambda x: x.sum(-1, keepdim=True),
    "tanh": torch.tanh,
}


def _pointwise(function: Callable[..., Tensor], a: Any, b: Any) -> Tensor:
    like = a if isinstance(a, Tensor) else b
    return function(*(x if isinstance(x, Tensor) else like.new_tensor(x) for x in (a, b)))


def _compared(function: Callable[..., Tensor], a: Any, b: Any) -> Tensor:
    like = a if isinstance(a, Tensor) else b
    return _pointwise(function, a, b).to(like.dtype)


class _Slope(torch.autograd.Function):
    """The second tensor, whose gradient is multiplied by the first."""

    @staticmethod
    def forward(ctx: Any, factor: Tensor, x: Tensor) -> Tensor:
        ctx.save_for_backward(factor)
        return x.view_as(x)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[None, Tensor]:
        (factor,) = ctx.saved_tensors
        return None, grad * factor


class _StraightThrough(torch.autograd.Function):
    """The first tensor, with the gradient of the second."""

    @staticmethod
    def forward(ctx: Any, a: Tensor, b: Tensor) -> Tensor:
        return a.view_as(a)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[None, Tensor]:
        return None, grad


class NodeFormula(NamedTuple):
    """A formula over features of nodes and reductions of their messages."""

    term: Term
    dropped: bool  # the formula's last dimension, of size 1, is not in the result

    def named(self) -> str:
        """The text with the features' names, such as ``relu(sum(u.h) + n.h)``."""
        return formula_of(self.term).named()

    def run(self, relation: Relation) -> Tensor:
        """The value ``[num_dst, ...]``; 0 for nodes without messages, whatever the formula says."""
        leaves = {leaf: leaf.of(relation) for leaf in formula_of(self.term).leaves}
        got = relation.in_degrees() > 0
        rows = None if bool(got.all()) else got.nonzero().view(-1)
        if rows is not None:  # no value or gradient comes from the others
            leaves = {
                leaf: x if leaf.letter == "c" else x.index_select(0, rows)
                for leaf, x in leaves.items()
            }
        operands = {(leaf.letter, leaf.key): x for leaf, x in leaves.items()}
        found = _evaluate(self.term, operands, {})
        found = found.squeeze(-1) if self.dropped else found
        if rows is None:
            return found
        return found.new_zeros(relation.num_dst, *found.shape[1:]).index_copy(0, rows, found)


def _evaluate(term: Term, leaves: dict[tuple[str, str], Tensor], known: dict[int, Any]) -> Any:
    """The value of a term; ``known`` are those of terms by their identity, each computed once."""
    if term.op == "number":
        return term.args[0]
    if term.op == "leaf":
        leaf: Leaf = term.args[0]
        return leaves[leaf.letter, leaf.key]
    if id(term) not in known:
        arguments = (_evaluate(arg, leaves, known) for arg in term.args)
        known[id(term)] = _OPERATIONS[term.op](*arguments)
    return known[id(term)]
