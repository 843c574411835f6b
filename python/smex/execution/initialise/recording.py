"""Recording what initialises a model: its calls on fake tensors become a graph of nodes."""

from __future__ import annotations

import itertools
import math
import sys
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch._subclasses import FakeTensor, FakeTensorMode
from torch.utils import _pytree as pytree
from torch.utils._python_dispatch import TorchDispatchMode

from smex.capture.origin import user_line
from smex.capture.random_ops import NO_GENERATOR
from smex.errors import SmexRuntimeError
from smex.execution.initialise.boxes import whole_box
from smex.execution.initialise.draws import drawing
from smex.execution.initialise.nodes import (
    Blank,
    Call,
    Cast,
    Constant,
    Draw,
    Eye,
    Fill,
    Node,
    Result,
    View,
    Write,
    missing_after,
    reachable,
    views_in,
)

aten = torch.ops.aten

_BLANK = {
    aten.empty.memory_format,
    aten.empty_like.default,
    aten.empty_permuted.default,
    aten.empty_strided.default,
    aten.new_empty.default,
    aten.new_empty_strided.default,
}
_FILLED: dict[Any, int | float] = {
    aten.zeros.default: 0,
    aten.zeros_like.default: 0,
    aten.new_zeros.default: 0,
    aten.zero_.default: 0,
    aten.ones.default: 1,
    aten.ones_like.default: 1,
    aten.new_ones.default: 1,
}
_FILLED_BY = {
    aten.full.default: 1,
    aten.full_like.default: 1,
    aten.new_full.default: 2,
    aten.fill_.Scalar: 1,
    aten.fill_.Tensor: 1,
}
"""The position of the number."""

_COPIES = {
    aten._to_copy.default: 0,
    aten.clone.default: 0,
    aten.lift_fresh.default: 0,
    aten.lift_fresh_copy.default: 0,
    aten.copy_.default: 1,
}
"""The position of what is copied."""

_EYES = {aten.eye.default, aten.eye.m, aten.eye.out, aten.eye.m_out}
_NUMBER = aten._local_scalar_dense.default


class _Memory:
    """What a fake tensor's memory holds now."""

    def __init__(self, tensor: torch.Tensor, node: Node, name: str | None) -> None:
        self.tensor = tensor  # so that its memory is nobody else's
        self.node = node
        self.name = name


class Recorder(TorchDispatchMode):
    """Records calls on fake tensors; nothing is computed.

    Args:
        read: computes the number that a view of constants shows, for what asks for it.
    """

    def __init__(self, read: Callable[[View], Any]) -> None:
        super().__init__()
        self.fakes = FakeTensorMode(allow_non_fake_inputs=True)
        self._read = read
        self._memory: dict[int, _Memory] = {}
        self._constants: dict[int, tuple[torch.Tensor, int, torch.Tensor]] = {}
        self._numbers = itertools.count()
        self._draws: dict[str, itertools.count] = {}
        self._keyed: set[int] = set()

    # ---- tensors ----

    def blank(self, shape: Sequence[int], dtype: torch.dtype, name: str) -> torch.Tensor:
        """Returns a fake tensor of the model that has no values yet."""
        return self._given(shape, dtype, lambda common: Blank(**common), name)

    def constant(self, tensor: torch.Tensor, name: str | None = None) -> torch.Tensor:
        """Returns a fake tensor that has another one's values."""
        made = lambda common: Constant(**{**common, "missing": []}, tensor=tensor)  # noqa: E731
        return self._given(tensor.shape, tensor.dtype, made, name)

    def _given(
        self, shape: Sequence[int], dtype: torch.dtype, made: Callable, name: str | None
    ) -> torch.Tensor:
        with self.fakes:
            fake = torch.empty(list(shape), dtype=dtype)
        self._remember(fake, made(self._common(fake, ())), name)
        return fake

    def view(self, tensor: torch.Tensor) -> View:
        """Returns what a fake tensor shows now."""
        memory = self._memory[_address(tensor)]
        return View(
            memory.node, tuple(tensor.shape), tuple(tensor.stride()), int(tensor.storage_offset())
        )

    def owner(self, tensor: torch.Tensor) -> str | None:
        """Returns the name of the model's tensor in whose memory another one lies."""
        return self._memory[_address(tensor)].name

    def assign(self, name: str, view: View) -> None:
        """Notes that a tensor of the model becomes what a view shows."""
        self._number_draws(name, [view])

    def _common(self, tensor: torch.Tensor, views: Sequence[View]) -> dict[str, Any]:
        """Returns the fields of a node that has no values, but for what is of its kind."""
        shape = tuple(tensor.shape)
        return {
            "shape": shape,
            "stride": tuple(tensor.stride()),
            "dtype": tensor.dtype,
            "missing": [whole_box(shape)] if tensor.numel() else [],
            "number": next(self._numbers),
            "depth": 1 + max((view.node.depth for view in views), default=0),
        }

    def _remember(self, tensor: torch.Tensor, node: Node, name: str | None = None) -> None:
        self._memory[_address(tensor)] = _Memory(tensor, node, name)

    def _faked(self, tensor: torch.Tensor) -> torch.Tensor:
        """Returns a tensor of this recording, for one that holds numbers a constant."""
        if isinstance(tensor, FakeTensor):
            return tensor
        version = -1 if tensor.is_inference() else tensor._version
        known = self._constants.get(id(tensor))
        if known is None or known[1] != version:
            fake = self.constant(tensor.to("cpu", copy=True).contiguous())
            known = self._constants[id(tensor)] = (tensor, version, fake)
        return known[2]

    # ---- calls ----

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        kwargs = dict(kwargs or {})
        if kwargs.get("device") is not None:
            kwargs["device"] = torch.device("cpu")
        args, kwargs = pytree.tree_map_only(torch.Tensor, self._faked, (args, kwargs))
        if func is _NUMBER:
            return self._number(args[0])
        if any(isinstance(leaf, torch.Generator) for leaf in (*args, *kwargs.values())):
            raise SmexRuntimeError(
                f"init: {func.name()}{_at_line()} is given a generator; "
                f"{NO_GENERATOR.replace('torch.manual_seed', 'smex.init(net, seed=)')}"
            )
        views = pytree.tree_map_only(torch.Tensor, self.view, (args, kwargs))
        written = self._written(func, args, kwargs)
        with self.fakes:
            result = func(*args, **kwargs)
        self._record(func, views, written, result)
        return result

    def _record(
        self, func: Any, views: tuple, written: dict[str, torch.Tensor], result: Any
    ) -> None:
        args, kwargs = views
        call = Call(func, args, kwargs, tuple(written))
        for name, tensor in written.items():
            self._write(tensor, self._node(call, tensor, name))
        results = result if isinstance(result, (list, tuple)) else [result]
        for number, tensor in enumerate(results):
            if isinstance(tensor, torch.Tensor) and _address(tensor) not in self._memory:
                self._remember(tensor, self._node(call, tensor, number))

    def _written(self, func: Any, args: tuple, kwargs: dict[str, Any]) -> dict[str, torch.Tensor]:
        """Returns the tensors that a call changes, by the argument's name."""
        if not func._schema.is_mutable:
            return {}
        found = {}
        for position, argument in enumerate(func._schema.arguments):
            if argument.alias_info is None or not argument.alias_info.is_write:
                continue
            value = args[position] if position < len(args) else kwargs.get(argument.name)
            if isinstance(value, (list, tuple)):  # of a _foreach_ operator
                raise SmexRuntimeError(
                    f"init: {func.name()}{_at_line()} changes a list of tensors at once, which is "
                    "not recorded: change one after the other"
                )
            if value is not None:
                found[argument.name] = value
        return found

    def _node(self, call: Call, tensor: torch.Tensor, which: int | str) -> Node:
        """Returns what a call makes of a tensor, which it returns or writes."""
        func, args = call.function, call.args
        if func in _BLANK:
            return Blank(**self._common(tensor, ()))
        if func in _FILLED or func in _FILLED_BY:
            value = _FILLED[func] if func in _FILLED else args[_FILLED_BY[func]]
            views = [value] if isinstance(value, View) else []
            return Fill(**self._known(tensor, views), value=value)
        if func in _EYES:
            return Eye(**self._known(tensor, ()))
        if func in _COPIES:
            source = args[_COPIES[func]]
            return Cast(**self._known(tensor, [source]), source=source)
        if torch.Tag.nondeterministic_seeded in func.tags:
            return self._draw(call, tensor)
        read = list(call.operands())
        if which == "out":
            call.kwargs = {k: v for k, v in call.kwargs.items() if k != "out"}
            read = list(call.operands())
        by_element = torch.Tag.pointwise in func.tags and all(
            _broadcasts(view.shape, tensor.shape) for view in read
        )
        known = self._known(tensor, read)
        return Result(**known, call=call, which=which, by_element=by_element)

    def _draw(self, call: Call, tensor: torch.Tensor) -> Node:
        found = drawing(call.function, call.args, call.kwargs, tensor.dtype)
        if found is None:
            raise SmexRuntimeError(
                f"init: {call.function.name()}{_at_line()} draws numbers one after another, of "
                "which a part cannot be drawn alone: use uniform_, normal_, bernoulli_, randint, "
                "or another of torch's elementary distributions"
            )
        function, args, kwargs, by_element = found
        views = list(views_in((args, kwargs)))
        return Draw(
            **self._known(tensor, views),
            function=function,
            args=args,
            kwargs=kwargs,
            by_element=by_element,
        )

    def _known(self, tensor: torch.Tensor, views: Sequence[View]) -> dict[str, Any]:
        """Returns the fields of what is computed from others."""
        common = self._common(tensor, views)
        if not any(view.is_missing() for view in views):
            common["missing"] = []
        return common

    def _write(self, tensor: torch.Tensor, value: Node) -> None:
        memory = self._memory[_address(tensor)]
        place = self.view(tensor)
        source = View(value, value.shape, value.stride, 0)
        before = memory.node
        if place.shape == before.shape and place.stride == before.stride and place.offset == 0:
            memory.node = value
        elif (
            place.offset == 0
            and math.prod(place.shape) == math.prod(before.shape)
            and tensor.is_contiguous()
            and before.stride == _contiguous(before.shape)
        ):
            memory.node = self._reshaped(value, before)
        elif math.prod(place.shape):
            axes = place.axes
            common = (before.shape, before.stride, before.dtype)
            missing = missing_after(axes, place, source)
            # Chains of writes are followed without recursion.
            depth = max(value.depth + 1, before.depth + (not isinstance(before, Write)))
            number = next(self._numbers)
            memory.node = Write(*common, missing, number, depth, before, place, axes, source)
        if memory.name is not None:
            self._number_draws(memory.name, [View(memory.node, before.shape, before.stride, 0)])

    def _reshaped(self, value: Node, like: Node) -> Node:
        """Returns what was written to a tensor as a whole that has another shape."""
        source = View(value, value.shape, value.stride, 0)
        call = Call(aten.reshape.default, (source, list(like.shape)), {})
        missing = [whole_box(like.shape)] if value.missing else []
        common = (like.shape, like.stride, like.dtype, missing, next(self._numbers))
        return Result(*common, value.depth + 1, call, 0, by_element=False)

    def _number_draws(self, name: str, views: Sequence[View]) -> None:
        """Gives draws that end up in a tensor of the model, and in none before, their streams."""
        for node in reachable(views, self._keyed):
            if isinstance(node, Draw):
                node.key = name, next(self._draws.setdefault(name, itertools.count()))

    def _number(self, tensor: torch.Tensor) -> Any:
        """Returns a number that follows from constants alone."""
        view = self.view(tensor)
        nodes = reachable([view], set())
        if any(isinstance(node, (Draw, Blank)) for node in nodes):
            raise SmexRuntimeError(
                f"init: a value of a tensor that is being initialised is read{_at_line()} "
                "(.item(), an if or a while): each worker computes its own tiles only; compute "
                "with tensors, torch.where(...), or give the tensor values by smex.load or "
                "net.load_state_dict"
            )
        return self._read(view)


def _address(tensor: torch.Tensor) -> int:
    return tensor.untyped_storage()._cdata


def _broadcasts(shape: Sequence[int], to: Sequence[int]) -> bool:
    missing = len(to) - len(shape)
    return missing >= 0 and all(
        size in (1, wanted) for size, wanted in zip(shape, to[missing:], strict=True)
    )


def _contiguous(shape: Sequence[int]) -> tuple[int, ...]:
    strides = [1]
    for size in reversed(shape[1:]):
        strides.append(strides[-1] * max(size, 1))
    return tuple(reversed(strides)) if shape else ()


def _at_line() -> str:
    line = user_line(sys._getframe(1))
    return f" at {line}" if line else ""
