"""Specs of products with the matrix of a type, of edges and of rows.

(Schlichtkrull et al., "Modeling Relational Data with Graph Convolutional Networks", eq. 2.) Cut by
rows, messages need the features of their sources and the types of their edges only, as without
types; a cut of the features of results needs parts of the matrices.
"""

from __future__ import annotations

from smex.tdl import Sum, in_row, spec, where, whole
from smex.tdl.expressions import call


class _Edges:
    """The places of rows; `place(e)` is what an edge's type and factor are read at."""

    def __init__(self, edges):
        self.indptr, self.indices, *eids = edges
        self._eids = eids[0] if eids else None
        self.rows, self.places = self.indptr.shape[0] - 1, self.indices.shape[0]

    def number(self, e):
        return e if self._eids is None else self._eids[e]

    def within(self, e, v, value):
        return where(in_row(e, self.indptr[v], self.indptr[v + 1]), value, 0)


def _weighed(value, factor, number, b):
    if factor is None:
        return value
    return value * factor[number, 0 if factor.shape[1] == 1 else b]


@spec("smex::typed_spmm")
def typed_spmm(in_edges, out_edges, x, weight, types, factor):
    if out_edges:
        return None  # they are checked, and would have to be cut as well
    edges = _Edges(in_edges)

    def out(v, b, o):
        def message(e):
            n = edges.number(e)
            product = Sum(
                lambda i: x[edges.indices[e], b, i] * weight[types[n], b, i, o], i=x.shape[2]
            )
            return edges.within(e, v, _weighed(product, factor, n, b))

        return Sum(message, e=edges.places)

    return out


@spec("smex::typed_outer")
def typed_outer(in_edges, out_edges, x, y, types, factor, num_types):
    if out_edges:
        return None
    edges = _Edges(in_edges)

    def out(t, b, i, o):
        def message(e, v):
            n = edges.number(e)
            product = _weighed(x[edges.indices[e], b, i] * y[v, b, o], factor, n, b)
            is_own = call("eq", types[n], whole(t))
            return edges.within(e, v, where(is_own, product, 0))

        return Sum(lambda e: Sum(lambda v: message(e, v), v=edges.rows), e=edges.places)

    return out


@spec("smex::typed_sddmm")
def typed_sddmm(in_edges, out_edges, x, weight, y, types):
    if out_edges or len(in_edges) == 3:
        return None  # by their numbers edges lie in any order
    edges = _Edges(in_edges)

    def out(e, b):
        def message(v):
            whole(v)
            return edges.within(
                e,
                v,
                Sum(
                    lambda i, o: x[edges.indices[e], b, i] * weight[types[e], b, i, o] * y[v, b, o],
                    i=x.shape[2],
                    o=y.shape[2],
                ),
            )

        return Sum(message, v=edges.rows)

    return out


@spec("smex::gather_mm")
def gather_mm(a, b, index):
    return lambda n, o: Sum(lambda i: a[n, i] * b[index[n], i, o], i=a.shape[1])


@spec("smex::gather_outer")
def gather_outer(a, g, index, num_matrices):
    def out(t, i, o):
        return Sum(
            lambda n: where(call("eq", index[n], whole(t)), a[n, i] * g[n, o], 0), n=a.shape[0]
        )

    return out
