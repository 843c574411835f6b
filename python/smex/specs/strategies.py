"""The ways to run one operator call on several workers, as plain data that others can check."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode
from torch.utils import _pytree as pytree

from smex._C import Graph, Role, ValueRef, cut, cut_by_shares, tile_call
from smex._logging import quiet_fakes
from smex.errors import SmexTypeError, SmexValueError
from smex.operators import called, operator_named
from smex.specs.lookup import instantiate, told
from smex.specs.oracle import flat, is_reference

__all__ = ["strategies"]


def strategies(
    op: torch._ops.OpOverload | str, args: Sequence[Any] = (),
    kwargs: dict[str, Any] | None = None, k: int = 2,
) -> list[dict[str, Any]]:  # fmt: skip
    """Returns the ways that an operator's Spec gives to divide one call among workers (Tofu §4.2).

    Args:
        op: the operator, such as ``torch.ops.aten.mm.default`` or ``"aten::mm"``.
        args: its arguments, with real or fake tensors.
        kwargs: its keyword arguments.
        k: the number of workers.

    Returns:
        One dict for each strategy. There are none for an operator without a Spec, for one that
        draws random numbers in turn, for tensors that are not strided, along an index of fewer
        steps than workers, and for running the whole call everywhere:

        * ``name``: the index that is split, as the Spec calls it.
        * ``workers``: for each worker the operator's ``args`` and ``kwargs``. In place of a tensor
          stands ``{"leaf": i, "box": [[lo, hi], ...] or None, "fill": value}``: the part of the
          i-th tensor of ``(args, kwargs)`` in pytree order, None for all of it; what lies outside
          of the tensor is ``fill``. With ``"rows": [dim, indices]`` the part has only these of one
          dimension, with ``"table": numbers`` other numbers stand in a vector's place, which count
          in the worker's own parts. Other arguments are as this worker must use them.
        * ``outs``: for each tensor that is returned ``{"place": [box] * k, "crop": [box] * k or
          None}``, where the workers' results, cropped, lie in the whole; or ``{"reduce": "sum",
          "max", "min" or "prod", "weights": [number] * k or None}``, the workers' results times
          their weights, reduced (means of parts weigh as much as the parts); or ``{"same": True}``.
          Of attention whose keys are cut also ``"logsumexp"``, and ``{"reduce": "softmaxmean",
          "by": o}``: the sum of the workers' results, each times the exponential of what its own
          output `o` lacks to the reduced one.
        * ``op``: another overload that the workers run instead, or None.

    Raises:
        SpecError: the Spec contradicts the operator.
        SmexTypeError: `op` is no operator, `args` no list of arguments, or `k` no int.
        SmexValueError: there is no such operator, it refuses the arguments, or `k` is below 2.

    Example:
        >>> a, b = torch.ones(4, 6), torch.ones(6, 5)
        >>> [s["name"] for s in smex.specs.strategies(torch.ops.aten.mm.default, (a, b), k=2)]
        ['i', 'j', 'k']
    """
    check_workers(k, "strategies")
    op = operator_named(op, "strategies")
    if not isinstance(args, (tuple, list)):
        raise SmexTypeError(
            f"strategies: expected the arguments of {op.name()} in a tuple, found "
            f"{type(args).__name__}; write (x,)"
        )
    if kwargs is not None and not isinstance(kwargs, dict):
        raise SmexTypeError(
            f"strategies: expected the keyword arguments of {op.name()} in a dict, found "
            f"{type(kwargs).__name__}"
        )
    return OperatorCall(op, args, kwargs).strategies(k)


def check_workers(k: Any, who: str) -> None:
    """Raises an error unless `k` is a number of workers that something can be divided among."""
    if not isinstance(k, int) or isinstance(k, bool):
        raise SmexTypeError(f"{who}: expected an int as the number of workers, found {k!r}")
    if k < 2:
        raise SmexValueError(f"{who}: expected at least 2 workers, found {k}")


class _Operand:
    """A tensor in an argument record; `id` counts the distinct tensors."""

    def __init__(self, id: int):
        self.id = id


class OperatorCall:
    """One operator call, and what its Spec says of it.

    Attributes:
        inputs: the distinct tensors, in the order of the schema.
        outputs: the shapes of what it returns, None for what is no tensor.
        spec: the Spec of the call, or None.

    Raises:
        SmexValueError: the operator refuses the arguments.
    """

    def __init__(
        self,
        op: torch._ops.OpOverload,
        args: Sequence[Any] = (),
        kwargs: dict[str, Any] | None = None,
    ):
        self.op = op
        self.args = args
        self.kwargs = kwargs or {}
        self.inputs: list[Tensor] = []
        self._leaves: list[int] = []  # of each input the first leaf
        self._records = self._recorded()
        self.outputs = _output_shapes(op, self.args, self.kwargs)
        shapes = [tuple(x.shape) for x in self.inputs]
        self._dtypes = [str(x.dtype).removeprefix("torch.") for x in self.inputs]
        found = None
        if all(x.layout is torch.strided and not x.is_nested for x in self.inputs):
            found = instantiate(op.name(), self._records, shapes, self.outputs, self._dtypes)
        self.spec: Any = found[0] if found else None
        if self.spec is not None and self.spec.has_rows():
            self.spec = told(self.spec, self.inputs)  # the structure of a graph is known before
        self._local = found[1] if found else []

    def _recorded(self) -> list[Any]:
        """The arguments in the order of the schema, with operands in the tensors' places."""
        leaves: dict[int, int] = {}
        tensors = [x for x in pytree.tree_leaves((self.args, self.kwargs)) if isinstance(x, Tensor)]
        for leaf, tensor in enumerate(tensors):
            leaves.setdefault(id(tensor), leaf)
        numbers: dict[int, int] = {}

        def operand(tensor: Tensor) -> _Operand:
            if id(tensor) not in numbers:
                numbers[id(tensor)] = len(self.inputs)
                self.inputs.append(tensor)
                self._leaves.append(leaves[id(tensor)])
            return _Operand(numbers[id(tensor)])

        given = [
            self.args[n]
            if n < len(self.args)
            else self.kwargs.get(argument.name, argument.default_value)
            for n, argument in enumerate(self.op._schema.arguments)
        ]
        return _mapped(given, operand)

    def inputs_among(self, leaves: Sequence[Tensor]) -> list[Tensor]:
        """Returns the inputs of a like call with these tensors, in pytree order."""
        return [leaves[leaf] for leaf in self._leaves]

    def strategies(self, k: int, shares: Sequence[float] | None = None) -> list[dict[str, Any]]:
        """See :func:`strategies`.

        With `shares`, one for each of the workers, these get parts in proportion; who gets nothing
        does not run the operator and is left out of a strategy.
        """
        if self.spec is None or torch.Tag.nondeterministic_seeded in self.op.tags:
            return []
        sums, divisors = self.spec.without_divisors()
        graphs = {False: self._graph(self.spec), True: self._graph(sums)}
        result = []
        for split, is_mean in self.splits():
            spec = sums if is_mean else self.spec
            extent = spec.indices[split.index].extent
            if shares is None:
                pieces = cut(extent, k, split.granule)
            else:
                pieces = cut_by_shares(extent, shares, split.granule)
                pieces = [(lo, hi) for lo, hi in pieces if lo < hi] or [(0, 0)]
            if any(lo >= hi for lo, hi in pieces):
                continue
            strategy = self._strategy(graphs[is_mean], spec, split, pieces)
            if not is_mean or self._weigh(strategy, divisors):
                result.append(strategy)
        return result

    def splits(self) -> list[tuple[Any, bool]]:
        """The ways to divide a described call, each with whether the workers make means of parts.

        Those of the Spec come first; then those of the sums that its means divide by a number.
        """
        own = self.spec.splits()
        sums, divisors = self.spec.without_divisors()
        if not any(divisors):
            return [(split, False) for split in own]
        known = {split.index for split in own}
        means = [split for split in sums.splits() if split.index not in known]
        return [(split, False) for split in own] + [(split, True) for split in means]

    def _weigh(self, strategy: dict[str, Any], divisors: list[float | None]) -> bool:
        """Gives the workers' means their weights; false where a worker's Spec is no mean."""
        leaves = [x for x in pytree.tree_leaves((self.args, self.kwargs)) if isinstance(x, Tensor)]
        tensors = [o for o, shape in enumerate(self.outputs) if shape is not None]
        means = [
            (out, o) for out, o in zip(strategy["outs"], tensors) if "reduce" in out and divisors[o]
        ]
        parts = [
            OperatorCall(self.op, *(_stand_ins(worker[x], leaves) for x in worker)).spec
            for worker in strategy["workers"]
        ]
        if any(spec is None for spec in parts):
            return False
        theirs = [spec.without_divisors()[1] for spec in parts]
        if not all(mine[o] for mine in theirs for _, o in means):
            return False
        for out, o in means:
            weights = [mine[o] / divisors[o] for mine in theirs]
            if any(weight != 1 for weight in weights):
                out["weights"] = weights
        return True

    def _graph(self, spec: Any) -> Any:
        """Returns the call alone in a native graph; of its arguments only those that change."""
        graph = Graph()
        for x, dtype in zip(self.inputs, self._dtypes):
            graph.add_value("", list(x.shape), dtype, x.dtype.itemsize, Role.input)
        outputs = []
        for shape in self.outputs:
            outputs.append(-1)
            if shape is not None:
                outputs[-1] = graph.add_value("", list(shape), "float64", 8, Role.intermediate)
        changing = {position for position, _ in self._local}

        def native(position: int, record: Any) -> Any:
            if isinstance(record, _Operand):
                return ValueRef(record.id)
            if isinstance(record, (list, tuple)) and any(isinstance(x, _Operand) for x in record):
                return [native(position, x) for x in record]
            return record if position in changing else None

        graph.add_op(
            target=self.op.name(),
            args=[native(n, record) for n, record in enumerate(self._records)],
            outputs=outputs, spec=spec, local=self._local, module_path="", source="",
            backward=False,
        )  # fmt: skip
        return graph

    def _strategy(self, graph: Any, spec: Any, split: Any, pieces: Any) -> dict[str, Any]:
        workers, regions, crops = [], [], []
        for piece in pieces:
            ranges = spec.full_ranges()
            ranges[split.index] = piece
            operands, native, crop = tile_call(graph, 0, ranges)
            workers.append(self._arguments(operands, {at: native[at] for at, _ in self._local}))
            regions.append([spec.output_region(o, ranges) for o in range(len(self.outputs))])
            crops.append(crop)
        outs = [
            self._out(o, split, regions, crops)
            for o, shape in enumerate(self.outputs)
            if shape is not None
        ]
        name = self.spec.indices[split.index].name
        return {"name": name, "workers": workers, "outs": outs, "op": None}

    def _out(self, o: int, split: Any, regions: Any, crops: Any) -> dict[str, Any]:
        if split.reduces[o] is not None:
            out: dict[str, Any] = {"reduce": split.reduces[o].name, "weights": None}
            if out["reduce"] == "softmaxmean":
                out["by"] = self.spec.weight_sums()[o]
            return out
        if not self.spec.describes(o) or split.index not in self.spec.output_axes[o]:
            return {"same": True}
        place = [_box(region[o]) for region in regions]
        crop = None
        if any(crops):
            crop = [
                _box(c) if c else [[0, hi - lo] for lo, hi in box] for c, box in zip(crops, place)
            ]
        return {"place": place, "crop": crop}

    def _arguments(self, operands: Any, changed: dict[int, Any]) -> dict[str, Any]:
        def placed(operand: _Operand) -> dict[str, Any]:
            _, box, fill, rows, table = operands[operand.id]
            whole = [(0, size) for size in self.inputs[operand.id].shape]
            leaf = self._leaves[operand.id]
            found = {"leaf": leaf, "box": None if box == whole else _box(box), "fill": fill}
            if rows is not None:
                found["rows"] = list(rows)
            if table is not None:
                found["table"] = table
            return found

        args: list[Any] = []
        kwargs: dict[str, Any] = {}
        for n, (argument, record) in enumerate(zip(self.op._schema.arguments, self._records)):
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


def _stand_ins(arguments: Any, leaves: list[Tensor]) -> Any:
    """Returns a worker's arguments with tensors of the right shapes and no content."""

    def stand_in(x: Any) -> Any:
        if not is_reference(x):
            return x
        whole = leaves[x["leaf"]]
        shape = whole.shape if x["box"] is None else [hi - lo for lo, hi in x["box"]]
        return torch.empty(shape, dtype=whole.dtype, device="meta")

    return pytree.tree_map(stand_in, arguments, is_leaf=is_reference)


def _box(bounds: Any) -> list[list[int]]:
    return [[lo, hi] for lo, hi in bounds]


def _output_shapes(op: Any, args: Any, kwargs: Any) -> list[tuple[int, ...] | None]:
    """Returns the shapes of what a call returns, without running it where that can be avoided."""
    tensors = [x for x in pytree.tree_leaves((args, kwargs)) if isinstance(x, Tensor)]
    fakes = [x for x in tensors if isinstance(x, FakeTensor)]
    mode = fakes[0].fake_mode if fakes else FakeTensorMode(allow_non_fake_inputs=True)
    try:
        try:
            with mode if tensors else contextlib.nullcontext(), torch.no_grad(), quiet_fakes():
                out = op(*_faked(args, mode), **_faked(kwargs, mode))
        except Exception:
            if fakes:
                raise
            copies = pytree.tree_map_only(Tensor, torch.clone, (args, kwargs))
            with torch.no_grad():
                out = op(*copies[0], **copies[1])
    except Exception as error:
        raise SmexValueError(f"{called(op, args, kwargs)} fails: {error}") from error
    return [tuple(x.shape) if isinstance(x, Tensor) else None for x in flat(out)]


def _faked(x: Any, mode: FakeTensorMode) -> Any:
    def fake(t: Tensor) -> Tensor:
        return t if isinstance(t, FakeTensor) else mode.from_tensor(t)

    return pytree.tree_map_only(Tensor, fake, x)
