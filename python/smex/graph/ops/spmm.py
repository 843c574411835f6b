"""Generalised sparse-dense products: messages of all edges, reduced at their destinations."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from smex.errors import SmexValueError
from smex.graph.core.graph_core import GraphCore
from smex.graph.function import BINARY, COPIES, binary_message
from smex.graph.ops.kernels import REDUCERS, aggregate, for_operands
from smex.graph.structure.relation import Relation

_COPIES = {"copy_lhs": "u", "copy_u": "u", "copy_rhs": "e", "copy_e": "e"}


def gspmm(g: GraphCore, op: str, reduce_op: str, lhs_data: Any, rhs_data: Any) -> Any:
    r"""Reduces the message ``lhs op rhs`` of every edge at its destination, storing no message.

    .. math:: out_v = \rho_{(u, e, v)} \; op(lhs_u, rhs_e)

    Args:
        g: a graph with one edge type; with several, features are tuples by type id.
        op: ``add``, ``sub``, ``mul``, ``div``, ``dot``, ``copy_lhs`` or ``copy_rhs``.
        reduce_op: ``sum``, ``mean``, ``max`` or ``min``.
        lhs_data: ``[num_src, *f]`` features of sources, or None for ``copy_rhs``.
        rhs_data: ``[num_edges, *f]`` features of edges, or None for ``copy_lhs``; feature
            dimensions line up from the right and broadcast.

    Returns:
        ``[num_dst, *f]``; without in-edges ``sum`` and ``mean`` are 0, ``max`` -inf, ``min`` inf.

    Raises:
        SmexValueError: the operation or the reducer is unknown, an operand is missing, or the
            sources' rows are not as many as there are sources.
        ValueError: shapes do not broadcast.
        SmexTypeError: the operands' dtypes differ.

    Example:
        >>> g = sg.graph(([0, 1], [2, 2]))
        >>> sg.ops.gspmm(g, "mul", "sum", torch.ones(3, 2), torch.tensor([1.0, 2.0]))
        tensor([[0., 0.],
                [0., 0.],
                [3., 3.]])
    """
    if op not in _COPIES and op not in BINARY:
        raise SmexValueError(
            f"gspmm: unknown operation {op!r}; expected one of {', '.join(BINARY)}, copy_lhs, "
            "copy_rhs"
        )
    if reduce_op not in REDUCERS:
        raise SmexValueError(
            f"gspmm: unknown reducer {reduce_op!r}; expected one of {', '.join(REDUCERS)}"
        )
    if isinstance(lhs_data, (tuple, list)) or isinstance(rhs_data, (tuple, list)):
        return _gspmm_by_type(g, op, reduce_op, lhs_data, rhs_data)
    return _gspmm(g.relation(), op, reduce_op, lhs_data, rhs_data)


def _gspmm(
    relation: Relation, op: str, reduce: str, lhs: Tensor | None, rhs: Tensor | None
) -> Tensor:
    letter = _COPIES.get(op)
    if letter is not None:
        operand = operand_of("gspmm", op, lhs if letter == "u" else rhs)
        return aggregate(relation, COPIES[letter], reduce, [operand], False)
    left, right = operand_of("gspmm", op, lhs), operand_of("gspmm", op, rhs)
    message = for_operands(binary_message(op, "u", "e"), left, right)
    return aggregate(relation, message, reduce, [left, right], False)


def operand_of(function: str, op: str, x: Tensor | None) -> Tensor:
    """Returns the operand, which must be there."""
    if x is None:
        raise SmexValueError(f"{function}: {op} needs this operand, found None; pass a tensor")
    return x


def _gspmm_by_type(
    g: GraphCore, op: str, reduce: str, lhs: Sequence[Any] | None, rhs: Sequence[Any] | None
) -> tuple[Tensor, ...]:
    """One result for each node type, what several relations bring reduced by the same reducer."""
    found: dict[int, list[Tensor]] = {}
    for i, canonical in enumerate(g.canonical_etypes):
        left = None if lhs is None else lhs[g.get_ntype_id_from_src(canonical[0])]
        right = None if rhs is None else rhs[i]
        out = _gspmm(g.relation(canonical), op, reduce, left, right)
        found.setdefault(g.get_ntype_id_from_dst(canonical[2]), []).append(out)
    return tuple(
        merge_relations(found[i], reduce) if i in found else torch.empty(0, device=g.device)
        for i in range(len(g.ntypes))
    )


def merge_relations(parts: list[Tensor], reduce: str) -> Tensor:
    """Returns what the same nodes got through several relations, as if through one."""
    if len(parts) == 1:
        return parts[0]
    if reduce == "mean":
        raise SmexValueError(
            "mean over several edge types at once: expected sum, max or min; use multi_update_all "
            "with a cross reducer"
        )
    stacked = torch.stack(parts)
    return stacked.sum(0) if reduce == "sum" else getattr(stacked, reduce)(0).values


def _binary(op: str, reduce: str) -> Callable[..., Any]:
    def function(g: GraphCore, x: Any, y: Any) -> Any:
        return gspmm(g, op, reduce, x, y)

    return _named(function, f"u_{op}_e_{reduce}", f"gspmm(g, {op!r}, {reduce!r}, x, y)")


def _copy(letter: str, reduce: str) -> Callable[..., Any]:
    def copy_u(g: GraphCore, x: Any) -> Any:
        return gspmm(g, "copy_lhs", reduce, x, None)

    def copy_e(g: GraphCore, x: Any) -> Any:
        return gspmm(g, "copy_rhs", reduce, None, x)

    call = f"gspmm(g, 'copy_lhs', {reduce!r}, x, None)"
    if letter == "e":
        call = f"gspmm(g, 'copy_rhs', {reduce!r}, None, x)"
    return _named(copy_u if letter == "u" else copy_e, f"copy_{letter}_{reduce}", call)


def _named(function: Callable[..., Any], name: str, call: str) -> Callable[..., Any]:
    function.__name__ = function.__qualname__ = name
    function.__doc__ = f"The same as ``{call}``, see :func:`gspmm`."
    return function


GENERATED: dict[str, Callable[..., Any]] = {
    **{f"copy_{x}_{reduce}": _copy(x, reduce) for x in "ue" for reduce in REDUCERS},
    **{f"u_{op}_e_{reduce}": _binary(op, reduce) for op in BINARY for reduce in REDUCERS},
}
"""``copy_u_sum``, ``u_mul_e_max`` and their like."""
