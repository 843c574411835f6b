"""Values of edges in the order of a compressed structure, in place of that of the edges' numbers.

An operator on messages reads and writes values of edges by their numbers, which a structure has in
any order: cut by its rows, a structure would read edges all over. Between calls values keep the
structure's own order, and only what leaves the graph, or other operators read, is brought into the
order of the numbers.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import torch

from smex.capture.records import ValueRecord, ValueRef
from smex.formula import Message

aten = torch.ops.aten

_SDDMM = "smex::sddmm"
_SUMS = ("smex::spmm", "smex::spmm_extremum")
_TYPED = {"smex::typed_spmm": (4, 5), "smex::typed_outer": (4, 5), "smex::typed_sddmm": (5,)}
"""Operators on messages by type, and which of their arguments are of edges."""
_ROW_BY_ROW = ("aten::unsqueeze", "aten::squeeze.dim", "aten::view", "aten::reshape")
"""What leaves the first dimension as it is, if its size stays; and all pointwise operators do."""


class _Placed(NamedTuple):
    """Values of edges in the order of a structure.

    Attributes:
        value: their id.
        order: the structure's numbers of its edges, a constant.
    """

    value: int
    order: torch.Tensor


class EdgeOrders:
    """Makes calls on values of edges in the order in which structures have them.

    Args:
        values: all records, by id.
        add_value: makes a record of a tensor's shape and dtype, or of a constant.
        add_op: appends a call, given its name, overload, arguments and outputs.
    """

    def __init__(
        self,
        values: Sequence[ValueRecord],
        add_value: Callable[..., ValueRecord],
        add_op: Callable[[str, Any, list[Any], list[int | None]], None],
    ) -> None:
        self._values = values
        self._add_value = add_value
        self._add_op = add_op
        self._placed: dict[int, _Placed] = {}  # by id of a value in the order of numbers
        # By key what its ids stand for, and the value.
        self._constants: dict[Any, tuple[Any, int]] = {}
        self._brought: dict[tuple[int, int], ValueRef] = {}  # by a value's id and its order's
        self._inverses: dict[int, tuple[torch.Tensor, torch.Tensor]] = {}

    def call(
        self, name: str, target: Any, args: list[Any], fakes: Sequence[torch.Tensor | None]
    ) -> list[int | None] | None:
        """Makes a call in the order of a structure; None where it has none to follow.

        Args:
            name: the operator.
            target: its overload.
            args: its arguments.
            fakes: what it returns, in the order of the edges' numbers.
        """
        if name == _SDDMM:
            return self._per_edge(name, target, args, fakes)
        if name in _SUMS:
            return self._reduced(name, target, args, fakes)
        if name in _TYPED:
            return self._by_type(name, target, args, fakes)
        if self._placed and (torch.Tag.pointwise in target.tags or name in _ROW_BY_ROW):
            return self._row_by_row(name, target, args, fakes)
        return None

    # ---- operators on messages ----

    def _order_of(self, edges: Sequence[ValueRef]) -> torch.Tensor | None:
        """Returns a structure's numbers of its edges, where they are a constant."""
        if len(edges) != 3:
            return None
        tensor = self._values[edges[2].id].tensor
        return tensor if isinstance(tensor, torch.Tensor) and not tensor.is_meta else None

    def _per_edge(self, name, target, args, fakes):
        order = self._order_of(args[0])
        if order is None:
            return None
        letters = Message.parse(args[2]).letters
        operands = [
            self._in_order(operand, order) if letter == "e" else operand
            for operand, letter in zip(args[3], letters, strict=True)
        ]
        made = self._add_value("", fakes[0])
        self._add_op(name, target, [args[0][:2], args[1], args[2], operands, *args[4:]], [made.id])
        return [self._numbered(_Placed(made.id, order))]

    def _reduced(self, name, target, args, fakes):
        letters = Message.parse(args[2]).letters
        edges = [n for n, letter in enumerate(letters) if letter == "e"]
        if not edges:
            return self._without_numbers(name, target, args, fakes)
        found = [self._placed[args[4][n].id] for n in edges if args[4][n].id in self._placed]
        order = self._order_of(args[0])
        if not found or len(found) < len(edges) or len({id(f.order) for f in found}) > 1:
            return None
        if order is None and len(args[0]) == 3:
            return None
        given = found[0].order
        numbers = self._inverse(given)
        if order is not None:
            numbers = numbers[order.long()].to(order.dtype)
        structure = args[0][:2]
        if not torch.equal(numbers, torch.arange(numbers.numel(), dtype=numbers.dtype)):
            key = ("numbers", id(given), id(order))
            structure = [*structure, self._constant(key, (given, order), numbers)]
        operands = list(args[4])
        for n, placed in zip(edges, found, strict=True):
            operands[n] = ValueRef(placed.value)
        outputs = [None if fake is None else self._add_value("", fake).id for fake in fakes]
        self._add_op(name, target, [structure, *args[1:4], operands, *args[5:]], outputs)
        return outputs

    def _by_type(self, name, target, args, fakes):
        order = self._order_of(args[0])
        if order is None:
            return None
        args = [args[0][:2], *args[1:]]
        for n in _TYPED[name]:
            if n < len(args) and args[n] is not None:
                args[n] = self._in_order(args[n], order)
        made = self._add_value("", fakes[0])
        self._add_op(name, target, args, [made.id])
        if name == "smex::typed_sddmm":
            return [self._numbered(_Placed(made.id, order))]
        return [made.id]

    def _without_numbers(self, name, target, args, fakes):
        """A sum that reads no values of edges does not ask for their numbers."""
        if name != _SUMS[0] or len(args[0]) != 3:
            return None
        outputs = [None if fake is None else self._add_value("", fake).id for fake in fakes]
        self._add_op(name, target, [args[0][:2], *args[1:]], outputs)
        return outputs

    # ---- what is done row by row ----

    def _row_by_row(self, name, target, args, fakes):
        refs = [arg for arg in args if isinstance(arg, ValueRef)]
        placed = [self._placed[ref.id] for ref in refs if ref.id in self._placed]
        if len(fakes) != 1 or fakes[0] is None or not placed:
            return None
        made, order = fakes[0], placed[0].order
        rows = order.numel()
        if made.dim() == 0 or made.shape[0] != rows or any(f.order is not order for f in placed):
            return None
        if name in _ROW_BY_ROW and not self._keeps_rows(args, made):
            return None
        operands: list[Any] = []
        for arg in args:
            is_ref = isinstance(arg, ValueRef)
            shape: tuple[int, ...] = self._values[arg.id].shape if is_ref else ()
            has_rows = len(shape) == made.dim() and shape[0] == rows
            has_rows = has_rows or (is_ref and name in _ROW_BY_ROW)
            operands.append(self._in_order(arg, order) if is_ref and has_rows else arg)
        value = self._add_value("", made)
        self._add_op(name, target, operands, [value.id])
        return [self._numbered(_Placed(value.id, order))]

    def _keeps_rows(self, args: list[Any], made: torch.Tensor) -> bool:
        shape = self._values[args[0].id].shape
        rank = max(len(shape), made.dim())
        is_dim = isinstance(args[1], int)
        return len(shape) > 0 and shape[0] == made.shape[0] and (not is_dim or args[1] % rank > 0)

    # ---- orders ----

    def _in_order(self, operand: ValueRef, order: torch.Tensor) -> ValueRef:
        """Returns values of edges in the order of a structure."""
        placed = self._placed.get(operand.id)
        if placed is not None and placed.order is order:
            return ValueRef(placed.value)
        key = operand.id, id(order)
        if key not in self._brought:  # types of edges are read by each layer
            index = self._constant(("order", id(order)), order, order)
            self._brought[key] = self._selected(operand, index, self._values[operand.id])
        return self._brought[key]

    def _numbered(self, placed: _Placed) -> int:
        """Returns the same values in the order of the edges' numbers."""
        inverse = self._inverse(placed.order)
        index = self._constant(("inverse", id(placed.order)), placed.order, inverse)
        value = self._selected(ValueRef(placed.value), index, self._values[placed.value]).id
        self._placed[value] = placed
        return value

    def _selected(self, rows: ValueRef, index: ValueRef, like: ValueRecord) -> ValueRef:
        made = self._add_value("", torch.empty(like.shape, dtype=like.dtype, device="meta"))
        target = aten.index_select.default
        self._add_op("aten::index_select", target, [rows, 0, index], [made.id])
        return ValueRef(made.id)

    def _inverse(self, order: torch.Tensor) -> torch.Tensor:
        if id(order) not in self._inverses:
            self._inverses[id(order)] = (order, torch.argsort(order.long()))
        return self._inverses[id(order)][1]

    def _constant(self, key: Any, kept: Any, tensor: torch.Tensor) -> ValueRef:
        """Returns the constant of a key; `kept` are the tensors whose ids the key has."""
        if key not in self._constants:
            value = self._add_value("", tensor, "constant")
            value.tensor = tensor
            self._constants[key] = (kept, value.id)
        return ValueRef(self._constants[key][1])
