"""The ways to run one operator call on several workers, as plain data that others can check."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode
from torch.utils import _pytree as pytree

from smex._C import Graph, Role, ValueRef, cut, tile_call
from smex.specs.lookup import instantiate

__all__ = ["strategies"]


def strategies(
    op: torch._ops.OpOverload, args: Sequence[Any] = (), kwargs: dict[str, Any] | None = None,
    k: int = 2,
) -> list[dict[str, Any]]:  # fmt: skip
    """The ways that an operator's Spec gives to divide one call among workers (Tofu §4.2).

    Args:
        op: the operator, such as ``torch.ops.aten.mm.default``.
        args: its arguments, with real or fake tensors.
        kwargs: its keyword arguments.
        k: the number of workers.

    Returns:
        One dict for each strategy; none for an operator without a Spec, and none for running the
        whole call everywhere:

        * ``name``: the index that is split, as the Spec calls it.
        * ``workers``: for each worker the operator's ``args`` and ``kwargs``. In place of a tensor
          stands ``{"leaf": i, "box": [[lo, hi], ...] or None, "fill": value}``: the part of the
          i-th tensor of ``(args, kwargs)`` in pytree order, None for all of it; what lies outside
          of the tensor is ``fill``. Other arguments are as this worker must use them.
        * ``outs``: for each tensor that is returned ``{"place": [box] * k, "crop": [box] * k or
          None}``, where the workers' results, cropped, lie in the whole; or ``{"reduce": "sum",
          "max", "min" or "prod", "weights": None}``; or ``{"same": True}``.
        * ``op``: another overload that the workers run instead, or None.

    Raises:
        SpecError: the Spec contradicts the operator.
        ValueError: fewer than 2 workers.

    Example:
        >>> a, b = torch.ones(4, 6), torch.ones(6, 5)
        >>> [s["name"] for s in smex.specs.strategies(torch.ops.aten.mm.default, (a, b), k=2)]
        ['i', 'j', 'k']
    """
    if k < 2:
        raise ValueError(f"strategies: expected at least 2 workers, found {k}")
    call = _Call(op, args, kwargs or {})
    return call.strategies(k)


def spec_of_call(
    op: torch._ops.OpOverload, args: Sequence[Any] = (), kwargs: dict[str, Any] | None = None
) -> Any:
    """The native Spec of one call, None where no registered one describes it."""
    return described_call(op, args, kwargs)[0]


def described_call(
    op: torch._ops.OpOverload, args: Sequence[Any] = (), kwargs: dict[str, Any] | None = None
) -> tuple[Any, list[Tensor]]:
    """The native Spec of one call or None, and the tensors that it reads, in its order."""
    call = _Call(op, args, kwargs or {})
    found = call.described()
    return None if found is None else found[0], [call.tensors[n] for n in call.order]


class _Operand:
    """A tensor in an argument record; `id` counts the distinct tensors."""

    def __init__(self, id: int):
        self.id = id


class _Call:
    """One operator call, with its arguments in the order of the schema."""

    def __init__(self, op: Any, args: Sequence[Any], kwargs: dict[str, Any]):
        self.op = op
        self.kwargs = kwargs
        leaves = [x for x in pytree.tree_leaves((args, kwargs)) if isinstance(x, Tensor)]
        self.leaf_of: list[int] = []  # the first leaf of each distinct tensor
        self.tensors: list[Tensor] = []
        numbers: dict[int, int] = {}
        for leaf, tensor in enumerate(leaves):
            if id(tensor) not in numbers:
                numbers[id(tensor)] = len(self.tensors)
                self.tensors.append(tensor)
                self.leaf_of.append(leaf)
        self.given = [
            args[n] if n < len(args) else kwargs.get(argument.name, argument.default_value)
            for n, argument in enumerate(op._schema.arguments)
        ]
        self.records = _mapped(self.given, lambda x: _Operand(numbers[id(x)]))
        self.order = _order(self.records)
        self.outputs = _output_shapes(op, args, kwargs)

    def described(self) -> tuple[Any, Any] | None:
        """The native Spec and the arguments that change in a tile."""
        shapes = [tuple(self.tensors[n].shape) for n in self.order]
        dtypes = [str(self.tensors[n].dtype).removeprefix("torch.") for n in self.order]
        return instantiate(self.op.name(), self.records, shapes, self.outputs, dtypes)

    def strategies(self, k: int) -> list[dict[str, Any]]:
        found = self.described()
        if found is None:
            return []
        spec, local = found
        order = self.order
        graph = self._graph(spec, local, order)
        result = []
        for split in spec.splits():
            pieces = cut(spec.indices[split.index].extent, k, split.granule)
            if all(lo < hi for lo, hi in pieces):
                result.append(self._strategy(graph, spec, local, order, split, pieces))
        return result

    def _graph(self, spec: Any, local: Any, order: list[int]) -> Any:
        """The call alone in a native graph; of its arguments only those that change."""
        graph = Graph()
        for n in order:
            x = self.tensors[n]
            dtype = str(x.dtype).removeprefix("torch.")
            graph.add_value(f"x{n}", list(x.shape), dtype, x.dtype.itemsize, Role.input)
        outputs = []
        for shape in self.outputs:
            outputs.append(-1)
            if shape is not None:
                outputs[-1] = graph.add_value("", list(shape), "float64", 8, Role.intermediate)
        changing = {position for position, _ in local}
        number = {n: position for position, n in enumerate(order)}

        def native(position: int, record: Any) -> Any:
            if isinstance(record, _Operand):
                return ValueRef(number[record.id])
            if isinstance(record, (list, tuple)) and any(isinstance(x, _Operand) for x in record):
                return [native(position, x) for x in record]
            return record if position in changing else None

        graph.add_op(
            target=self.op.name(),
            args=[native(n, record) for n, record in enumerate(self.records)],
            outputs=outputs, spec=spec, local=local, module_path="", source="", backward=False,
        )  # fmt: skip
        return graph

    def _strategy(
        self, graph: Any, spec: Any, local: Any, order: list[int], split: Any, pieces: Any
    ) -> dict[str, Any]:
        workers, regions, crops = [], [], []
        for piece in pieces:
            ranges = spec.full_ranges()
            ranges[split.index] = piece
            operands, native, crop = tile_call(graph, 0, ranges)
            boxes = dict(zip(order, operands))
            workers.append(self._arguments(boxes, {at: native[at] for at, _ in local}))
            regions.append([spec.output_region(o, ranges) for o in range(len(self.outputs))])
            crops.append(crop)
        outs = [
            self._out(o, split, spec, regions, crops)
            for o, shape in enumerate(self.outputs)
            if shape is not None
        ]
        name = spec.indices[split.index].name
        return {"name": name, "workers": workers, "outs": outs, "op": None}

    def _out(self, o: int, split: Any, spec: Any, regions: Any, crops: Any) -> dict[str, Any]:
        if split.reduces[o] is not None:
            return {"reduce": split.reduces[o].name, "weights": None}
        if not spec.describes(o) or split.index not in spec.output_axes[o]:
            return {"same": True}
        place = [_box(region[o]) for region in regions]
        crop = None
        if any(crops):
            crop = [
                _box(c) if c else [[0, hi - lo] for lo, hi in box] for c, box in zip(crops, place)
            ]
        return {"place": place, "crop": crop}

    def _arguments(self, boxes: dict[int, Any], changed: dict[int, Any]) -> dict[str, Any]:
        def placed(operand: _Operand) -> dict[str, Any]:
            _, box, fill = boxes[operand.id]
            whole = [(0, size) for size in self.tensors[operand.id].shape]
            leaf = self.leaf_of[operand.id]
            return {"leaf": leaf, "box": None if box == whole else _box(box), "fill": fill}

        args: list[Any] = []
        kwargs: dict[str, Any] = {}
        for n, (argument, record) in enumerate(zip(self.op._schema.arguments, self.records)):
            value = changed[n] if n in changed else _mapped(record, placed, _Operand)
            if not argument.kwarg_only:
                args.append(value)
            elif argument.name in self.kwargs or n in changed:
                kwargs[argument.name] = value
        return {"args": args, "kwargs": kwargs}


def _mapped(x: Any, function: Any, kind: type = Tensor) -> Any:
    """`x` with `function` applied to what is of a kind, in lists too."""
    if isinstance(x, kind):
        return function(x)
    if isinstance(x, (list, tuple)):
        return [_mapped(item, function, kind) for item in x]
    return x


def _order(records: Any) -> list[int]:
    """The tensors in the order of the schema, each once."""
    found: list[int] = []
    _mapped(records, lambda x: found.append(x.id) if x.id not in found else None, _Operand)
    return found


def _box(bounds: Any) -> list[list[int]]:
    return [[lo, hi] for lo, hi in bounds]


def _output_shapes(op: Any, args: Any, kwargs: Any) -> list[tuple[int, ...] | None]:
    """The shapes of what a call returns, without running it where that can be avoided."""
    tensors = [x for x in pytree.tree_leaves((args, kwargs)) if isinstance(x, Tensor)]
    fakes = [x for x in tensors if isinstance(x, FakeTensor)]
    mode = fakes[0].fake_mode if fakes else FakeTensorMode(allow_non_fake_inputs=True)
    out: Any = None
    with mode if fakes or tensors else contextlib.nullcontext(), torch.no_grad():
        try:
            out = op(*_faked(args, mode), **_faked(kwargs, mode))
        except Exception:
            if fakes:
                raise
    if out is None and not fakes:
        copies = pytree.tree_map_only(Tensor, torch.clone, (args, kwargs))
        out = op(*copies[0], **copies[1])
    outs = out if isinstance(out, (list, tuple)) else [out]
    return [tuple(x.shape) if isinstance(x, Tensor) else None for x in _flat(outs)]


def _flat(outs: Any) -> list[Any]:
    return [y for x in outs for y in (_flat(x) if isinstance(x, (list, tuple)) else [x])]


def _faked(x: Any, mode: FakeTensorMode) -> Any:
    def fake(t: Tensor) -> Tensor:
        return t if isinstance(t, FakeTensor) else mode.from_tensor(t)

    return pytree.tree_map_only(Tensor, fake, x)
