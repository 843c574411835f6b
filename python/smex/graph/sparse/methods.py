"""Gives matrices the functions as methods and operators."""

from smex.graph.sparse import arithmetic, products, reductions
from smex.graph.sparse.matrix import SparseMatrix

_OPERATORS = {
    "__add__": arithmetic.add,
    "__sub__": arithmetic.sub,
    "__mul__": arithmetic.mul,
    "__rmul__": arithmetic.mul,
    "__truediv__": arithmetic.div,
    "__pow__": arithmetic.power,
    "__neg__": arithmetic.neg,
    "__matmul__": products.matmul,
}

for _name, _function in _OPERATORS.items():
    setattr(SparseMatrix, _name, _function)
for _function in (
    arithmetic.inv,
    arithmetic.neg,
    reductions.reduce,
    reductions.smax,
    reductions.smean,
    reductions.smin,
    reductions.softmax,
    reductions.sprod,
    reductions.sum,
):
    setattr(SparseMatrix, _function.__name__, _function)
