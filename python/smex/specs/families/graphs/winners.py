"""Specs of gradients of extremes: what comes from and goes to the edges that won.

Cut by rows, gradients of the sources are partial sums, since which rows a source has won is not
known before.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from smex.specs.common import named
from smex.tdl import Sum, spec, where, whole
from smex.tdl.expressions import call


def _row_of(winner: Any, table: Any, v: Any, index: Sequence[Any]) -> Any:
    """Returns the row that won at an index of features, -1 for none."""
    sizes = winner.shape[1:]
    last = index[len(index) - len(sizes) :] if sizes else ()
    place = winner[(v, *(0 if size == 1 else i for size, i in zip(sizes, last)))]
    return place if table is None else table.pad(-1)[place]


@spec("smex::scatter_winners", local={"features": "features"})
def scatter_winners(grad, winner, table, rows, features, is_distinct):
    seen, first = grad.shape[1:], grad.ndim - 1 - len(features)
    # Along these an element was broadcast, and gets a sum.
    summed = [d for d, size in enumerate(seen) if d < first or features[d - first] != size]

    def out(n, *f):
        def won(v, *s):
            more = iter(s)
            at = [next(more) if d in summed else f[d - first] for d in range(len(seen))]
            is_own = call("eq", _row_of(winner, table, v, at), whole(n))
            return where(is_own, grad[(v, *at)], 0)

        return Sum(won, v=grad.shape[0], **{f"s{d}": seen[d] for d in summed})

    return named(out, ["n", *(f"f{d}" for d in range(len(features)))])


@spec("smex::gather_winners", local={"seen": "features"})
def gather_winners(x, winner, table, seen, is_distinct):
    sizes = x.shape[1:]

    def out(v, *s):
        last = s[len(s) - len(sizes) :] if sizes else ()
        at = [0 if size == 1 else i for size, i in zip(sizes, last)]
        return x.pad(0)[(_row_of(winner, table, v, s), *at)]

    return named(out, ["v", *(f"s{d}" for d in range(len(seen)))])
