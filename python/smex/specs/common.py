"""What the families share: broadcasting, dimension numbers, several targets for one meaning."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from smex.operators import argument_names_of
from smex.tdl import Expr, Opaque, SymbolicTensor, spec


def specs(*targets: str, local: dict[str, str] | None = None) -> Callable[[Any], Any]:
    """`smex.spec` for operators of equal meaning; each has some of the arguments in `local`."""

    def register(function: Any) -> Any:
        for target in targets:
            known = argument_names_of(target.partition(".")[0])
            own = {name: rule for name, rule in (local or {}).items() if name in known}
            spec(target, local=own)(function)
        return function

    return register


def element(x: Any, index: Sequence[Expr]) -> Any:
    """Returns the element of `x` that broadcasts to `index`; a number stands for itself."""
    if not isinstance(x, SymbolicTensor):
        return x
    last = index[len(index) - x.ndim :] if x.ndim else ()
    return x[tuple(0 if size == 1 else i for size, i in zip(x.shape, last))]


def all_of(x: Any, *first: Any) -> Any:
    """Returns all of a tensor, or of the part of it at the first indices, as an Opaque reads it."""
    return x[(*first, *[slice(None)] * (x.ndim - len(first)))]


def made_of_all(name: str, *tensors: Any) -> Any:
    """Returns an unknown function of all elements of the tensors; what is no tensor is left out."""
    reads = [all_of(x) for x in tensors if isinstance(x, SymbolicTensor)]
    return lambda *i: Opaque(name, *reads)


def named(body: Any, names: Sequence[str]) -> Any:
    """`body` of ``*indices`` as an output whose indices have these names."""
    body.index_names = names
    return body


def dims_of(dims: Any, ndim: int) -> list[int]:
    """Dimension numbers counted from the front; None or an empty list is all of them."""
    if dims is None or dims == []:
        return list(range(ndim))
    dims = dims if isinstance(dims, (list, tuple)) else [dims]
    return [dim + ndim if dim < 0 else dim for dim in dims]


def replaced(index: Sequence[Any], dims: Sequence[int], values: Sequence[Any]) -> tuple[Any, ...]:
    """Returns the index with `values` at `dims`."""
    result = list(index)
    for dim, value in zip(dims, values):
        result[dim] = value
    return tuple(result)


def geometry(values: Any, spatial: int) -> list[int]:
    """Returns a stride, padding or dilation list with one number per spatial dimension."""
    values = list(values) if isinstance(values, (list, tuple)) else [values]
    return values * spatial if len(values) == 1 else values
