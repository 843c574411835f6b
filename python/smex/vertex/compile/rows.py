"""Which calls of a graph treat rows apart, told by what the operators mean (Tofu §4).

A call that the operator's Spec lets split along the rows gives the same whether it is made for the
rows of one task or for those of all: it may be made once for the batch. A call whose results the
Spec lets add up over parts of the rows, such as a weight's gradient, may be made once too.
"""

from __future__ import annotations

import dataclasses
import functools
from typing import Any, NamedTuple

import torch
from torch import Tensor, fx
from torch.utils import _pytree as pytree

from smex.specs.strategies import OperatorCall
from smex.tdl.registry import on_change
from smex.vertex.compile.trace import Joint
from smex.vertex.words.function import EDGES, ROWS

aten = torch.ops.aten


class Kind(NamedTuple):
    """How a value depends on the rows.

    ``name`` is ``"const"``: not at all; ``"row"``: along dimension ``dim`` there is an element for
    each row (``of``: ROWS or EDGES), or ``per`` of them one after another, made from that row
    alone; ``"sum"``: the sum of the parts' values; ``"size"``: a number that depends on the number
    of rows; ``"mixed"``: anything else.
    """

    name: str
    dim: int = 0
    of: int = 0
    per: int = 1


CONST, SUM, SIZE, MIXED = Kind("const"), Kind("sum"), Kind("size"), Kind("mixed")
ROW, EDGE = Kind("row", 0, ROWS), Kind("row", 0, EDGES)

# Each row draws for itself.
DRAWS = {
    aten.bernoulli.p, aten.bernoulli.default, aten.rand_like.default, aten.randn_like.default,
    aten.native_dropout.default,
}  # fmt: skip

# Linear in their first argument, whatever its shape is.
LINEAR = {
    aten.t.default, aten.transpose.int, aten.permute.default, aten.view.default,
    aten.reshape.default, aten._unsafe_view.default, aten.alias.default, aten.detach.default,
    aten.neg.default, aten.squeeze.dim, aten.squeeze.default, aten.squeeze.dims,
    aten.unsqueeze.default, aten.slice.Tensor, aten.select.int, aten.slice_backward.default,
    aten.select_backward.default, aten.clone.default, aten.sum.dim_IntList, aten.sum.default,
    aten._to_copy.default, aten.expand.default,
}  # fmt: skip

# Made of a shape, and the same everywhere.
CREATORS = {
    aten.new_zeros.default, aten.zeros.default, aten.ones.default, aten.full.default,
    aten.new_ones.default, aten.new_full.default, aten.zeros_like.default, aten.ones_like.default,
    aten.full_like.default, aten.scalar_tensor.default,
}  # fmt: skip

# Sizes among their arguments are those of the result.
TAKE_SHAPES = {
    aten.view.default, aten._unsafe_view.default, aten.reshape.default, aten.expand.default,
    aten.slice_backward.default, aten.select_backward.default,
    aten.native_group_norm.default, aten.native_group_norm_backward.default,
}  # fmt: skip


def kinds(joint: Joint) -> dict[fx.Node, Any]:
    """For each node its kind; for one with several results a list of kinds."""
    found: dict[fx.Node, Any] = {}
    for node in joint.graph.nodes:
        if node.op == "placeholder":
            found[node] = _placeholder(node)
        elif node.op == "call_function":
            found[node] = _call(node, found)
        elif node.op == "get_attr":
            found[node] = MIXED
    return found


def symbol(size: Any) -> int:
    """ROWS or EDGES if the size is a multiple of it, 0 if it is fixed, -1 for anything else."""
    return _multiple(size)[0]


def _multiple(size: Any) -> tuple[int, int]:
    """ROWS or EDGES, as :func:`symbol` tells, and how many times it the size is."""
    if isinstance(size, int):
        return 0, 1
    factor, rest = size.node.expr.as_coeff_Mul()
    if not rest.is_symbol or not factor.is_Integer or factor < 1:
        return -1, 1
    hint = size.node.hint // int(factor)
    return (hint, int(factor)) if hint in (ROWS, EDGES) else (-1, 1)


def shape_kind(value: Any) -> Kind:
    """Returns the kind of a tensor that is made of its shape alone, or of a placeholder."""
    symbols = [(d, *_multiple(n)) for d, n in enumerate(value.shape) if symbol(n) != 0]
    if not symbols:
        return CONST
    if len(symbols) == 1 and symbols[0][1] > 0:
        return Kind("row", *symbols[0])
    return MIXED


def _placeholder(node: fx.Node) -> Kind:
    return shape_kind(node.meta["val"])


def _call(node: fx.Node, found: dict[fx.Node, Any]) -> Any:
    value = node.meta.get("val")
    target = node.target
    if getattr(target, "__name__", "") == "getitem":
        of = found[node.args[0]]  # type: ignore[index]
        return of[node.args[1]] if isinstance(of, list) else MIXED  # type: ignore[index]
    if isinstance(value, (torch.SymInt, torch.SymFloat, int, float)):
        return SIZE
    if not isinstance(target, torch._ops.OpOverload):
        return MIXED
    inputs = [found[n] for n in node.all_input_nodes]
    if any(k == MIXED or isinstance(k, list) for k in inputs):
        return _all(value, MIXED)
    if target in CREATORS:
        return shape_kind(value)
    if target in DRAWS:
        return _all(value, inputs[0] if inputs[0].name == "row" else MIXED)
    if any(k == SUM for k in inputs):
        is_linear = target in LINEAR and len(inputs) == 1
        is_sum = target is aten.add.Tensor and all(k == SUM for k in inputs) and not node.kwargs
        return _all(value, SUM if is_linear or is_sum else MIXED)
    of = {k.of for k in inputs if k.name == "row"}
    if len(of) == 2:
        return _edges_and_rows(node, found)
    if not of and SIZE not in inputs:
        return _all(value, CONST)
    of |= {symbol(n) for v in pytree.tree_leaves(value) if isinstance(v, Tensor) for n in v.shape}
    of.discard(0)
    if len(of) != 1 or -1 in of:
        return _all(value, MIXED)
    return _by_spec(node, found, of.pop())


def _all(value: Any, kind: Kind) -> Any:
    return [kind] * len(value) if isinstance(value, (tuple, list)) else kind


def _edges_and_rows(node: fx.Node, found: dict[fx.Node, Any]) -> Kind:
    """Rows of vertices at their edges, and sums of edges' rows at their vertices."""
    args = node.args
    if node.target is aten.index_select.default and args[1] == 0:
        source, index = found[args[0]], found[args[2]]  # type: ignore[index]
        if source == ROW and index == EDGE:
            return EDGE
    if node.target is aten.index_add.default and args[1] == 0 and not node.kwargs:
        parts = [found[args[i]] for i in (0, 2, 3)]  # type: ignore[index]
        if parts == [ROW, EDGE, EDGE]:
            return ROW
    return MIXED


def _by_spec(node: fx.Node, found: dict[fx.Node, Any], of: int) -> Any:
    """Returns what the operator's Spec says of a split of the rows in two.

    For two numbers of rows: what holds for one may be a coincidence, such as a roll by it.
    """
    value = node.meta["val"]
    if any(found[n] == SIZE for n in node.all_input_nodes) and node.target not in TAKE_SHAPES:
        return _all(value, MIXED)
    first = _outs_for(node, found, of, {})
    second = _outs_for(node, found, of, {ROWS: 3 * ROWS - 2, EDGES: 3 * EDGES - 2})
    if first is None or first != second:
        return _all(value, MIXED)
    if not isinstance(value, (tuple, list)):
        return first[0]
    # Gradients that nobody asked for are None, and the Spec does not tell of them.
    told = [v for v in value if v is not None]
    if len(first) != len(told):
        return _all(value, MIXED)
    kept = iter(first)
    return [first[0] if v is None else next(kept) for v in value]


def _outs_for(
    node: fx.Node, found: dict[fx.Node, Any], of: int, numbers: dict[int, int]
) -> list[Kind] | None:
    """The kinds of the results for other numbers of rows and edges than those of the trace."""

    def size(value: Any) -> Any:
        if isinstance(value, (int, float)):
            return value
        expr = value.node.expr
        hints = {s: value.node.shape_env.backed_var_to_val[s] for s in expr.free_symbols}
        return int(expr.subs({s: numbers.get(int(h), int(h)) for s, h in hints.items()}))

    def concrete(arg: fx.Node) -> Any:
        value = arg.meta["val"]
        if not isinstance(value, Tensor):
            return size(value)
        return _Operand(tuple(size(n) for n in value.shape), value.dtype, found[arg])

    try:
        args, kwargs = fx.map_arg((node.args, node.kwargs), concrete)
    except Exception:  # sizes of other symbols than the trace's
        return None
    text = repr((args, kwargs))
    return _outs_of(_Call(node.target, text, of, numbers.get(of, of), args, kwargs))


class _Operand(NamedTuple):
    """A tensor of a call."""

    shape: tuple[int, ...]
    dtype: torch.dtype
    kind: Kind


@dataclasses.dataclass(frozen=True)
class _Call:
    """A call on a number of rows or edges; equal to another if its arguments are written alike."""

    target: Any
    text: str
    of: int
    rows: int
    args: Any = dataclasses.field(compare=False)
    kwargs: Any = dataclasses.field(compare=False)


@functools.lru_cache(maxsize=4096)
def _outs_of(called: _Call) -> list[Kind] | None:
    """The kinds of a call's results, of the first split in which each worker has its rows."""
    tensors: list[tuple[Tensor, Kind]] = []

    def stand_in(operand: _Operand) -> Tensor:
        tensor = torch.empty(operand.shape, dtype=operand.dtype, device="meta")
        tensors.append((tensor, operand.kind))
        return tensor

    try:
        args, kwargs = pytree.tree_map_only(
            _Operand, stand_in, (called.args, called.kwargs), is_leaf=_is_operand
        )
        call = OperatorCall(called.target, args, kwargs)
        ways = call.strategies(2) if call.spec is not None else []
    except Exception:  # what the Spec cannot tell is not known
        return None
    bounds = [[0, called.rows // 2], [called.rows // 2, called.rows]]
    for way in ways:
        if way["op"] is None and _splits_rows(way, tensors, bounds):
            outs = [_out_kind(out, called.of, bounds) for out in way["outs"]]
            kept = [out for out in outs if out is not None]
            if len(kept) == len(outs):
                return kept
    return None


on_change(_outs_of.cache_clear)


def _is_operand(x: Any) -> bool:
    return isinstance(x, _Operand)


def _splits_rows(
    way: dict[str, Any], tensors: list[tuple[Tensor, Kind]], bounds: list[list[int]]
) -> bool:
    """Whether each worker reads its part of the rows, and both the same of what has no rows."""
    boxes = []
    for worker in way["workers"]:
        leaves = pytree.tree_leaves((worker["args"], worker["kwargs"]), is_leaf=_is_stand_in)
        boxes.append([x["box"] for x in leaves if _is_stand_in(x)])
    if any(len(own) != len(tensors) for own in boxes):
        return False
    for place, (_, kind) in enumerate(tensors):
        pair = [own[place] for own in boxes]
        if kind.name == "row":
            wanted = [[kind.per * n for n in part] for part in bounds]
            if None in pair or [list(box[kind.dim]) for box in pair] != wanted:
                return False
            pair = [[b for d, b in enumerate(box) if d != kind.dim] for box in pair]
        if pair[0] != pair[1]:
            return False
    return True


def _is_stand_in(x: Any) -> bool:
    return isinstance(x, dict) and "leaf" in x


def _out_kind(out: dict[str, Any], of: int, bounds: list[list[int]]) -> Kind | None:
    if out.get("reduce") == "sum" and out.get("weights") is None:
        return SUM
    if "place" not in out or out.get("crop"):
        return None
    places = out["place"]
    for dim in range(len(places[0])):
        others = [[b for d, b in enumerate(place) if d != dim] for place in places]
        own = [list(place[dim]) for place in places]
        per = own[1][1] // bounds[1][1]
        if others[0] == others[1] and own == [[per * n for n in part] for part in bounds]:
            return Kind("row", dim, of, per)
    return None
