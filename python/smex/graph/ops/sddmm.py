"""Generalised sampled dense-dense products: one value for each edge from features at its ends."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torch import Tensor

from smex.errors import SmexValueError
from smex.graph.core.graph_core import GraphCore
from smex.graph.function import BINARY, COPIES, LETTERS, binary_message
from smex.graph.ops.kernels import for_operands, per_edge
from smex.graph.ops.spmm import operand_of
from smex.graph.structure.relation import Relation


def gsddmm(
    g: GraphCore,
    op: str,
    lhs_data: Any,
    rhs_data: Any,
    lhs_target: str = "u",
    rhs_target: str = "v",
) -> Any:
    r"""Computes ``lhs op rhs`` on every edge.

    .. math:: out_e = op(lhs_{x(e)}, rhs_{y(e)}) \qquad e = (u, v), \; x, y \in \{u, v, e\}

    Args:
        g: a graph with one edge type; with several, features are tuples by type id.
        op: ``add``, ``sub``, ``mul``, ``div``, ``dot``, ``copy_lhs`` or ``copy_rhs``.
        lhs_data: features ``[num_src | num_dst | num_edges, *f]``, as ``lhs_target`` says.
        rhs_data: likewise; feature dimensions line up from the right and broadcast.
        lhs_target: ``u``, ``v`` or ``e``: whose features the left ones are.
        rhs_target: whose features the right ones are.

    Returns:
        ``[num_edges, *f]`` in the order of edge ids, a tuple of them by type id for several types;
        ``dot`` leaves the last dimension with size 1.

    Raises:
        SmexValueError: an operation or a target is unknown, an operand is missing, or shapes do
            not broadcast.
        SmexTypeError: the operands' dtypes differ.

    Example:
        >>> g = sg.graph(([0, 1], [1, 1]))
        >>> h = torch.tensor([[1.0, 2.0], [3.0, 4.0]])
        >>> sg.ops.gsddmm(g, "dot", h, h, "u", "v")
        tensor([[11.],
                [25.]])
    """
    if op not in ("copy_lhs", "copy_rhs", *BINARY):
        raise SmexValueError(
            f"gsddmm: unknown operation {op!r}; expected one of {', '.join(BINARY)}, copy_lhs, "
            "copy_rhs"
        )
    for target in (lhs_target, rhs_target):
        if target not in LETTERS:
            raise SmexValueError(f"gsddmm: unknown target {target!r}; expected u, v or e")
    if isinstance(lhs_data, (tuple, list)) or isinstance(rhs_data, (tuple, list)):
        return tuple(
            _gsddmm(
                g.relation(canonical),
                op,
                _of_relation(g, i, lhs_data, lhs_target),
                _of_relation(g, i, rhs_data, rhs_target),
                lhs_target,
                rhs_target,
            )
            for i, canonical in enumerate(g.canonical_etypes)
        )
    return _gsddmm(g.relation(), op, lhs_data, rhs_data, lhs_target, rhs_target)


def _of_relation(g: GraphCore, etype_id: int, data: Any, target: str) -> Tensor | None:
    """Returns the features that an edge type's operand has, of features by type id."""
    if data is None:
        return None
    src, _, dst = g.canonical_etypes[etype_id]
    if target == "u":
        return data[g.get_ntype_id_from_src(src)]
    return data[etype_id] if target == "e" else data[g.get_ntype_id_from_dst(dst)]


def _gsddmm(
    relation: Relation, op: str, lhs: Tensor | None, rhs: Tensor | None, left: str, right: str
) -> Tensor:
    if op == "copy_lhs":
        return per_edge(relation, COPIES[left], [operand_of("gsddmm", op, lhs)])
    if op == "copy_rhs":
        return per_edge(relation, COPIES[right], [operand_of("gsddmm", op, rhs)])
    x, y = operand_of("gsddmm", op, lhs), operand_of("gsddmm", op, rhs)
    return per_edge(relation, for_operands(binary_message(op, left, right), x, y), [x, y])


def _binary(left: str, op: str, right: str) -> Callable[..., Any]:
    def function(g: GraphCore, x: Any, y: Any) -> Any:
        return gsddmm(g, op, x, y, left, right)

    function.__name__ = function.__qualname__ = f"{left}_{op}_{right}"
    function.__doc__ = f"The same as ``gsddmm(g, {op!r}, x, y, {left!r}, {right!r})``."
    return function


def _copy(letter: str) -> Callable[..., Any]:
    def function(g: GraphCore, x: Any) -> Any:
        return gsddmm(g, "copy_lhs", x, None, letter)

    function.__name__ = function.__qualname__ = "copy_" + letter
    function.__doc__ = f"{letter}'s features on every edge, ``[num_edges, *f]``."
    return function


GENERATED: dict[str, Callable[..., Any]] = {
    **{"copy_" + letter: _copy(letter) for letter in LETTERS},
    **{
        f"{left}_{op}_{right}": _binary(left, op, right)
        for op in BINARY
        for left in LETTERS
        for right in LETTERS
        if left != right
    },
}
"""``copy_u``, ``u_dot_v`` and their like."""
