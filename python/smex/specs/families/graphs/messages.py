"""Specs of the operators on messages along edges (Wang et al., "Deep Graph Library", §3).

The structure of a graph is compressed: row ``v`` has the places ``indptr[v]`` up to
``indptr[v + 1]``, the edge at place ``e`` comes from ``indices[e]`` and is number ``eids[e]``, or
``e``. Where it is known when a program is made, a cut of the rows needs the features of their
sources only, and their edges'; a cut of the places gives partial sums.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from smex import tdl
from smex.formula import Message, Term, shape_of
from smex.specs.common import named
from smex.tdl import Max, Min, Sum, in_row, maximum, spec, told, where, whole
from smex.tdl.expressions import call

_FUNCTIONS = {
    "+": lambda a, b: a + b,
    "-": lambda a, b: a - b,
    "*": lambda a, b: a * b,
    "/": lambda a, b: a / b,
    "neg": lambda a: -a,
    "equal": lambda a, b: call("eq", a, b),
    "greater": lambda a, b: where(call("lt", a, b), 0, where(call("eq", a, b), 0.5, 1)),
    "less": lambda a, b: call("lt", a, b),
    "less_equal": lambda a, b: call("le", a, b),
    "maximum": maximum,
    "minimum": tdl.minimum,
    "part": lambda a, b: where(a, b, 0),
    "select": lambda a, b: where(a, b, 0),
    "slope": lambda a, b: tdl.like(b, a),
    "straight_through": lambda a, b: tdl.like(a, b),
    "weigh": lambda a, b: where(a, a * b, 0),
    "leaky_relu": lambda a, slope: where(a > 0, a, a * slope),
    "leaky_step": lambda a, slope: where(a > 0, 1, slope),
    "pow": lambda a, exponent: a**exponent,
    "abs": tdl.abs_,
    "softplus": lambda a: where(a > 20, a, tdl.log1p(tdl.exp(a))),
    "step": lambda a: where(a <= 0, 0, 1),
    **{name: getattr(tdl, name) for name in ("cos", "erf", "exp", "expm1", "log", "log1p")},
    **{name: getattr(tdl, name) for name in ("relu", "sigmoid", "sign", "sin", "sqrt", "tanh")},
}
"""What the operations of messages are, by the names of `smex.formula.OPERATIONS`."""


class _Formula:
    """A message of operands; `rows` are the operands' first indices, by letter."""

    def __init__(self, text: str, operands: Sequence[Any]):
        self._operands = operands
        self.term = Message.parse(text).term
        self.shape = self._shape(self.term)

    def _shape(self, term: Term) -> tuple[int, ...]:
        return shape_of(term, [operand.shape[1:] for operand in self._operands])

    def value(self, rows: dict[str, Any], index: Sequence[Any], term: Term | None = None) -> Any:
        """Returns the element of a message, or of a part of it, at an index of features."""
        term = self.term if term is None else term
        if term.op == "number":
            return term.args[0]
        if term.op == "leaf":
            leaf = term.args[0]
            operand = self._operands[leaf.number]
            return operand[(rows[leaf.letter], *self._at(operand.shape[1:], index))]
        if term.op == "sum_last":
            return self._sum(rows, index, term.args[0])
        parts = [self.value(rows, self._at(self._shape(arg), index), arg) for arg in term.args]
        return _FUNCTIONS[term.op](*parts)

    def _sum(self, rows: dict[str, Any], index: Sequence[Any], term: Term) -> Any:
        shape = self._shape(term)
        if not shape:
            return self.value(rows, (), term)
        first = self._at(shape, index)[:-1]
        return Sum(lambda k: self.value(rows, (*first, k), term), k=shape[-1])

    @staticmethod
    def _at(shape: Sequence[int], index: Sequence[Any]) -> tuple[Any, ...]:
        """Returns the index of what broadcasts to `index`."""
        last = index[len(index) - len(shape) :] if shape else ()
        return tuple(0 if size == 1 else i for size, i in zip(shape, last))


def _told_of(edges: Sequence[Any], e: Any, value: Any) -> Any:
    """Returns a message; there are as many sources and numbers of edges as there are places."""
    for numbers in edges[1:]:
        value = tdl.like(value, numbers[e])
    return value


def _over_row(reduce: Any, edges: Sequence[Any], row: Any, value: Any, neutral: float) -> Any:
    """Returns the messages of a row's edges, `value` of their places, reduced."""
    indptr, indices = edges[:2]

    def message(e: Any) -> Any:
        is_in_row = in_row(e, indptr[row], indptr[row + 1])
        return where(is_in_row, _told_of(edges, e, value(e)), neutral)

    return reduce(message, e=indices.shape[0])


def _reduced(reduce: Any, edges: Sequence[Any], formula: _Formula, neutral: float) -> Any:
    """Returns the lambda of the messages of each row, reduced."""
    _, indices, *eids = edges

    def out(v: Any, *f: Any) -> Any:
        def value(e: Any) -> Any:
            rows = {"u": indices[e], "v": v, "e": eids[0][e] if eids else e, "c": 0}
            return formula.value(rows, f)

        return _over_row(reduce, edges, v, value, neutral)

    return out


def _named_by_row(body: Any, formula: _Formula) -> Any:
    return named(body, ["v", *(f"f{dim}" for dim in range(len(formula.shape)))])


def _degree(edges: Sequence[Any], v: Any) -> Any:
    indptr, indices = edges[:2]
    return Sum(lambda n: where(in_row(n, indptr[v], indptr[v + 1]), 1, 0), n=indices.shape[0])


@spec("smex::spmm")
def spmm(in_edges, out_edges, message, reduce, operands):
    if out_edges:
        return None  # they are checked, and would have to be cut as well
    formula = _Formula(message, operands)
    total = _reduced(Sum, in_edges, formula, 0)
    if reduce == "sum":
        return _named_by_row(total, formula)
    return _named_by_row(lambda v, *f: total(v, *f) / maximum(_degree(in_edges, v), 1), formula)


def _winner(edges: Sequence[Any], formula: _Formula, best: Any) -> Any:
    """Returns the lambda of the first place of each row whose message is the best, -1 for none."""
    indptr, indices, *eids = edges

    def out(v: Any, *f: Any) -> Any:
        def first(place: Any) -> Any:
            number = eids[0][place] if eids else place
            rows = {"u": indices[place], "v": v, "e": number, "c": 0}
            value = _told_of(edges, place, formula.value(rows, f))
            wins = where(call("eq", value, best(v, *f)), told(place), float("inf"))
            return where(in_row(place, indptr[v], indptr[v + 1]), wins, float("inf"))

        return where(_degree(edges, v), Min(first, place=indices.shape[0]), -1)

    return out


@spec("smex::spmm_extremum", local={"offset": "begin:place"})
def spmm_extremum(in_edges, out_edges, message, reduce, operands, zero_empty, need_winner, offset):
    if out_edges:
        return None
    formula = _Formula(message, operands)
    infinity = float("inf")
    kind, neutral = (Max, -infinity) if reduce == "max" else (Min, infinity)
    best = _reduced(kind, in_edges, formula, neutral)
    winner = _named_by_row(_winner(in_edges, formula, best), formula) if need_winner else None
    if not zero_empty:
        return _named_by_row(best, formula), winner

    def out(v, *f):
        return where(_degree(in_edges, v), best(v, *f), 0)

    return _named_by_row(out, formula), winner


@spec("smex::sddmm")
def sddmm(in_edges, out_edges, message, operands, reduce_to):
    if out_edges or len(in_edges) == 3:
        return None  # by their numbers edges lie in any order
    indptr, indices = in_edges
    formula = _Formula(message, operands)
    if reduce_to is not None:
        return None  # captured calls that are not summed leave it away
    rows = {"v": indptr.shape[0] - 1}

    def out(e, *f):
        def value(v):
            at = {"u": indices[e], "v": whole(v), "e": e, "c": 0}
            message = _told_of(in_edges, e, formula.value(at, f))
            return where(in_row(e, indptr[v], indptr[v + 1]), message, 0)

        return Sum(value, **rows)

    return named(out, ["e", *(f"f{dim}" for dim in range(len(formula.shape)))])


# ---- graph attention ----


class _Gat:
    """The scores, and what belongs to edges in the gradient, of edges at places of a structure."""

    def __init__(self, edges: Sequence[Any], left: Any, right: Any, slope: float):
        self._edges, self._left, self._right, self._slope = edges, left, right, slope

    def score(self, u: Any, v: Any, h: Any) -> Any:
        return _FUNCTIONS["leaky_relu"](self._left[u, h] + self._right[v, h], self._slope)

    def gradient(
        self, u: Any, v: Any, h: Any, value: Any, log_sum: Any, change: Any, grad: Any
    ) -> Any:
        """The gradient of an edge's `left[u] + right[v]`."""
        product = Sum(lambda k: value[u, h, k] * grad[v, h, k], k=value.shape[2])
        share = tdl.exp(self.score(u, v, h) - log_sum[v, h])
        step = _FUNCTIONS["leaky_step"](self._left[u, h] + self._right[v, h], self._slope)
        return share * (product - change[v, h]) * step

    def over_row(self, row: Any, summand: Any) -> Any:
        """The sum over a row's edges of a function of their other end."""
        indices = self._edges[1]
        return _over_row(Sum, self._edges, row, lambda e: summand(indices[e]), 0)


@spec("smex::gat_attention")
def gat_attention(in_edges, out_edges, left, right, value, slope):
    if out_edges:
        return None
    gat = _Gat(in_edges, left, right, slope)

    def total(v, h):
        return gat.over_row(v, lambda u: tdl.exp(gat.score(u, v, h)))

    def out(v, h, f):
        mean = gat.over_row(v, lambda u: tdl.exp(gat.score(u, v, h)) * value[u, h, f]) / total(v, h)
        return where(_degree(in_edges, v), mean, 0)

    return out, lambda v, h: tdl.log(total(v, h))


@spec("smex::gat_gradient_by_source")
def gat_gradient_by_source(out_edges, left, right, value, log_sum, change, grad, slope):
    gat = _Gat(out_edges, left, right, slope)

    def of_left(u, h):
        return gat.over_row(u, lambda v: gat.gradient(u, v, h, value, log_sum, change, grad))

    def of_value(u, h, f):
        def weighed(v):
            return tdl.exp(gat.score(u, v, h) - log_sum[v, h]) * grad[v, h, f]

        return gat.over_row(u, weighed)

    return of_left, of_value


@spec("smex::gat_gradient_by_destination")
def gat_gradient_by_destination(in_edges, left, right, value, log_sum, change, grad, slope):
    gat = _Gat(in_edges, left, right, slope)

    def of_right(v, h):
        return gat.over_row(v, lambda u: gat.gradient(u, v, h, value, log_sum, change, grad))

    return of_right
