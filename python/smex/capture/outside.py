"""Tensors that a model reads and that are none of its parameters, buffers and inputs.

They are constants of the graph: results of them may be changed in place as any other tensor, they
themselves may not, for that would happen once, when the model is captured.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from types import FrameType
from typing import Any

import torch
from torch._subclasses import FakeTensor
from torch._subclasses.functional_tensor import FunctionalTensor
from torch.nn import functional as F
from torch.utils import _pytree as pytree
from torch.utils._python_dispatch import TorchDispatchMode, _disable_current_modes

from smex.capture.attention import scaled_dot_product
from smex.capture.attributes import attributes_of
from smex.capture.objects import refuse_layout
from smex.capture.origin import user_frame, user_line
from smex.errors import CaptureError

_FUNCTIONAL = torch._C._TorchDispatchModeKey.FUNCTIONAL
_READS_VALUES = torch.ops.aten._local_scalar_dense.default


def is_outside(thing: Any) -> bool:
    """Returns whether it is a tensor that holds numbers while a model is traced."""
    return (
        isinstance(thing, torch.Tensor)
        and not isinstance(thing, (FunctionalTensor, FakeTensor))
        and type(thing).__torch_dispatch__ is torch._C._disabled_torch_dispatch_impl
        and not torch._C._functorch.is_functorch_wrapped_tensor(thing)
        and not torch._is_functional_tensor(thing)
    )


class OutsideMode(TorchDispatchMode):
    """Hands such tensors to the tracer as constants, and refuses to change them.

    Args:
        models: whose attributes have names.
    """

    supports_higher_order_operators = True

    def __init__(self, *models: Callable | None) -> None:
        super().__init__()
        self.given: frozenset[int] = frozenset()  # ids of the tensors that are the model's
        self._models = models
        self._constants: dict[int, tuple[torch.Tensor, torch.Tensor]] = {}  # by id of the outside
        self._moved: dict[int, tuple[torch.Tensor, torch.Tensor]] = {}
        self._of_storage: dict[int, torch.Tensor] = {}
        self._instead = self._functions()

    def moved(self, tensor: torch.Tensor) -> torch.Tensor:
        """What the tracer was given of an outside tensor: itself, if it is on the CPU."""
        return self._moved.get(id(tensor), (tensor, tensor))[1]

    def __enter__(self):
        self._constants.clear()
        self._moved.clear()
        self._of_storage.clear()
        return super().__enter__()

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        if isinstance(func, torch._ops.HigherOrderOperator):
            raise NotImplementedError(
                f"the higher-order operator {func.name()} is not captured; write it with plain "
                "operators, a branch with torch.where"
            )
        if not isinstance(func, torch._ops.OpOverload) or not _is_functional_now():
            return func(*args, **kwargs)
        if func._schema.is_mutable:
            self._refuse_writes(func, args, kwargs)
        if func is not _READS_VALUES and any(map(is_outside, _tensors(args, kwargs))):
            args, kwargs = pytree.tree_map_only(torch.Tensor, self._constant, (args, kwargs))
        return func(*args, **kwargs)

    def _constant(self, tensor: torch.Tensor) -> torch.Tensor:
        """Returns what stands for an outside tensor."""
        if not is_outside(tensor):
            return tensor
        known = self._constants.get(id(tensor))
        if known is None:
            refuse_layout(tensor, self._name(tensor, user_frame(sys._getframe(1))))
            lifted = torch.ops.aten.lift_fresh.default(
                tensor if tensor.is_meta else self._on_cpu(tensor)
            )
            known = self._constants[id(tensor)] = (tensor, lifted)
            self._of_storage[lifted.untyped_storage()._cdata] = tensor
        return known[1]

    def _refuse_writes(self, func: torch._ops.OpOverload, args: Any, kwargs: Any) -> None:
        for argument, value in _given(func, args, kwargs):
            if argument.alias_info is None or not argument.alias_info.is_write:
                continue
            for tensor in _tensors((value,), {}):
                outside = self._seen_through(tensor)
                if outside is not None:
                    self.refuse(outside)

    def _seen_through(self, tensor: torch.Tensor) -> torch.Tensor | None:
        """Returns the outside tensor that a tensor is, or is a view of."""
        if is_outside(tensor):
            return tensor
        if isinstance(tensor, FunctionalTensor):
            return self._of_storage.get(tensor.untyped_storage()._cdata)
        return None

    def call(self, function: Callable, args: Any, kwargs: dict[str, Any]) -> Any:
        """What runs in the place of a call, with outside tensors on the CPU: captures are there."""
        if any(tensor.device.type != "cpu" for tensor in _tensors(args, kwargs)):
            args, kwargs = pytree.tree_map_only(torch.Tensor, self._on_cpu, (args, kwargs))
        return self._instead.get(function, function), args, kwargs

    def _on_cpu(self, tensor: torch.Tensor) -> torch.Tensor:
        if tensor.device.type == "cpu" or not is_outside(tensor):
            return tensor
        if id(tensor) not in self._moved:
            if tensor.is_meta:  # of shapes alone, which modes know how to move
                moved = tensor.to("cpu")
            else:
                with _disable_current_modes():  # it stays a tensor that holds numbers
                    moved = tensor.to("cpu")
            self._moved[id(tensor)] = (tensor, moved)
            self._of_storage[moved.untyped_storage()._cdata] = tensor
        return self._moved[id(tensor)][1]

    def _functions(self) -> dict[Callable, Callable]:
        """Returns what runs in the place of functions that the dispatcher sees too late, or not."""
        return {
            torch.Tensor.data.__set__: self._set_data,  # type: ignore[attr-defined]
            torch.Tensor.numpy: _of_numbers(torch.Tensor.numpy),
            torch.Tensor.__array__: _of_numbers(torch.Tensor.__array__),
            torch.Tensor.__deepcopy__: _copied,
            F.one_hot: _one_hot,
            torch._C._nn.scaled_dot_product_attention: scaled_dot_product,
            torch.ops.aten.one_hot.default: _one_hot,
        }

    def _set_data(self, tensor: torch.Tensor, value: torch.Tensor) -> None:
        """Refuses a change in place: the tracer does not see what is assigned."""
        if is_outside(tensor):
            self.refuse(tensor)
        if tensor.shape == value.shape and tensor.dtype == value.dtype:
            if not _is_view_of_all(value, tensor):
                tensor.data.copy_(value)
        elif id(tensor) in self.given:
            raise CaptureError(
                f"capture: the model assigns {value.dtype}{list(value.shape)} to the data of a "
                f"parameter, buffer or input of {tensor.dtype}{list(tensor.shape)}, which keeps "
                "its shape and dtype"
            )
        else:
            torch.Tensor.data.__set__(tensor, value)  # type: ignore[attr-defined]
            tensor.elem = value.elem  # type: ignore[attr-defined]

    def refuse(self, tensor: torch.Tensor) -> None:
        """Raises CaptureError for an outside tensor that the model is about to change."""
        frame = user_frame(sys._getframe(1))
        line = user_line(frame)
        raise CaptureError(
            f"capture: the model changes {self._name(tensor, frame)}{f' at {line}' * bool(line)} "
            "in place, which is none of its parameters, buffers and inputs and would change once, "
            "when the model is captured: register a buffer, or work on a copy (tensor.clone())"
        )

    def _name(self, tensor: torch.Tensor, frame: FrameType | None) -> str:
        for model in self._models:
            if isinstance(model, torch.nn.Module):
                for path, attribute in attribute_tensors(model):
                    if attribute is tensor:
                        return f'its attribute "{path}"'
        if frame is not None:
            for what, names in (("global ", frame.f_globals), ("", frame.f_locals)):
                for name, value in names.items():
                    if value is tensor:
                        return f'the {what}tensor "{name}"'
        return f"a tensor of shape {list(tensor.shape)}"


def attribute_tensors(model: torch.nn.Module) -> Iterator[tuple[str, torch.Tensor]]:
    """Tensors that modules keep beside parameters and buffers, and where."""
    for prefix, module in model.named_modules():
        for key, value in attributes_of(module).items():
            yield from _tensors_in(value, f"{prefix}.{key}" if prefix else key, set())


def _tensors_in(value: Any, path: str, seen: set[int]) -> Iterator[tuple[str, torch.Tensor]]:
    """Tensors in an attribute's dicts and lists, which may lead back to themselves."""
    if isinstance(value, torch.Tensor):
        yield path, value
    elif isinstance(value, (dict, list, tuple)) and id(value) not in seen:
        seen.add(id(value))
        for key, item in value.items() if isinstance(value, dict) else enumerate(value):
            yield from _tensors_in(item, f"{path}[{key!r}]", seen)


def _of_numbers(function: Callable) -> Callable:
    """Returns a function that reads a tensor's memory; that of an outside tensor is there."""

    def read(tensor: torch.Tensor, *args: Any, **kwargs: Any) -> Any:
        if not is_outside(tensor):
            return function(tensor, *args, **kwargs)
        with _disable_current_modes():
            return function(tensor, *args, **kwargs)

    return read


def _copied(tensor: torch.Tensor, memo: dict[int, Any]) -> torch.Tensor:
    """Returns a deep copy, that of an outside tensor as a tensor of the trace."""
    if not is_outside(tensor) or tensor.requires_grad:
        return tensor.__deepcopy__(memo)
    return memo.setdefault(id(tensor), tensor.clone())


def _one_hot(x: torch.Tensor, num_classes: int = -1) -> torch.Tensor:
    """One-hot vectors; what lies outside of the classes is an error, as it is in torch."""
    if num_classes > 0 and x.dtype is torch.int64:
        x = torch.ops.smex.bounded(x, 0, num_classes - 1, "one_hot: a value is no class")
    return F.one_hot(x, num_classes)


def _is_view_of_all(value: torch.Tensor, tensor: torch.Tensor) -> bool:
    same_memory = value.untyped_storage()._cdata == tensor.untyped_storage()._cdata
    places = [(t.storage_offset(), t.stride()) for t in (value, tensor)]
    return same_memory and places[0] == places[1]


def _is_functional_now() -> bool:
    return torch._C._get_dispatch_mode(_FUNCTIONAL) is not None


def _tensors(args: Any, kwargs: dict[str, Any]) -> Iterator[torch.Tensor]:
    for value in (*args, *kwargs.values()):
        for item in value if isinstance(value, (list, tuple)) else (value,):
            if isinstance(item, torch.Tensor):
                yield item


def _given(func: torch._ops.OpOverload, args: Any, kwargs: dict[str, Any]) -> Iterator[Any]:
    """Yields the schema's arguments that a call gives, each with its value."""
    for position, argument in enumerate(func._schema.arguments):
        if position < len(args):
            yield argument, args[position]
        elif argument.name in kwargs:
            yield argument, kwargs[argument.name]
