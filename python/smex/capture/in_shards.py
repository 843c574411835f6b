"""Tensors of a model whose values lie in the shards of a net alone.

Shards that are not part of the model's own memory, because they are cut along columns or lie on
other devices, take its place: the memory is given up, and whoever reads the tensor gathers it.
"""

from __future__ import annotations

import math
from typing import Any, Protocol

import torch
from torch.utils import _pytree as pytree

from smex.errors import SmexRuntimeError


class Pieces(Protocol):
    """What a tensor is gathered from."""

    def whole(self) -> torch.Tensor:
        """Returns the values, put together."""

    def write(self, whole: torch.Tensor) -> None:
        """Takes over others."""


def _properties(*names: str) -> set[Any]:
    found = [getattr(torch.Tensor, name) for name in names]
    return {access for each in found for access in (each.__get__, each.__set__)}


_OF_ITSELF = {
    *_properties("dtype", "device", "layout", "shape", "ndim", "requires_grad", "grad"),
    *_properties("grad_fn", "is_leaf", "output_nr", "is_meta", "is_cuda", "is_cpu", "is_sparse"),
    *_properties("is_quantized", "is_nested", "itemsize", "nbytes", "retains_grad", "_version"),
    *_properties("_backward_hooks", "_post_accumulate_grad_hooks"),
    torch.Tensor.dim,
    torch.Tensor.size,
    torch.Tensor.numel,
    torch.Tensor.nelement,
    torch.Tensor.element_size,
    torch.Tensor.is_complex,
    torch.Tensor.is_floating_point,
    torch.Tensor.is_inference,
    torch.Tensor.is_shared,
    torch.Tensor.register_hook,
    torch.Tensor.register_post_accumulate_grad_hook,
    torch.Tensor.requires_grad_,
    torch.Tensor.__hash__,
    torch.Tensor.__len__,
    torch.is_complex,
    torch.is_floating_point,
    torch.numel,
}
"""What is asked of a tensor itself, whatever its values."""

_OF_GRAPHS = {torch.autograd.grad, torch.autograd.backward, torch.Tensor.backward}
"""What asks for the tensor's place in a graph."""

_OF_MEMORY = {
    torch.Tensor.data_ptr,
    torch.Tensor.storage,
    torch.Tensor._typed_storage,
    torch.Tensor.untyped_storage,
    torch.Tensor.set_,
    torch.Tensor.share_memory_,
    torch.Tensor.resize_,
}


_DATA: Any = torch.Tensor.data


class _InShards:
    """Gathers the tensor for what reads it, and writes back what changes it in place."""

    _pieces: Pieces

    @classmethod
    def __torch_function__(
        cls, func: Any, types: Any, args: tuple = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        with torch._C.DisableTorchFunctionSubclass():
            if func in _OF_ITSELF or func in _OF_GRAPHS:
                return func(*args, **(kwargs or {}))
            if func == _DATA.__get__:  # `tensor.data.copy_(...)` counts
                return _stand_in(args[0]._pieces, torch.Tensor.detach(args[0]), BufferInShards)
            if func == _DATA.__set__:
                return _assign(*args)
            if func in _OF_MEMORY:
                raise SmexRuntimeError(
                    f"partition: {func.__name__} of a tensor of shape {list(args[0].shape)}, which "
                    "has no memory of its own since its model was partitioned: its values lie in "
                    "the net's shards. Take a copy, tensor.detach()"
                )
            return _with_wholes(func, args, kwargs or {})

    def __deepcopy__(self, memo: dict[int, Any]) -> torch.Tensor:
        """Returns a plain tensor."""
        copied = memo[id(self)] = _plain(self)
        return copied

    def __reduce_ex__(self, protocol: Any) -> Any:
        return _plain(self).__reduce_ex__(protocol)


class ParameterInShards(_InShards, torch.nn.Parameter):
    """A parameter of a model that a net holds; reads as its shards are."""


class BufferInShards(_InShards, torch.Tensor):
    """A buffer of a model that a net holds; reads as its shards are."""


def is_in_shards(tensor: torch.Tensor) -> bool:
    """Returns whether a tensor has no memory of its own."""
    return isinstance(tensor, _InShards)


def give_up(tensor: torch.Tensor, pieces: Pieces) -> None:
    """Frees a tensor's memory, which `pieces` holds a copy of."""
    kind = ParameterInShards if isinstance(tensor, torch.nn.Parameter) else BufferInShards
    loud = math.nan if tensor.is_floating_point() or tensor.is_complex() else 0
    tensor.data = tensor.detach().new_full((), loud).expand(tensor.shape)
    _stand_in(pieces, tensor, kind)


def take_back(tensor: torch.Tensor, data: torch.Tensor) -> None:
    """Makes the tensor a plain one, with memory of its own."""
    tensor.__class__ = (
        torch.nn.Parameter if isinstance(tensor, torch.nn.Parameter) else torch.Tensor
    )
    vars(tensor).pop("_pieces", None)
    tensor.data = data


def own_attributes(tensor: torch.Tensor) -> dict[str, Any]:
    """Returns what a user has set on a tensor."""
    return {name: value for name, value in vars(tensor).items() if name != "_pieces"}


def _stand_in(pieces: Pieces, tensor: torch.Tensor, kind: type) -> torch.Tensor:
    tensor.__class__ = kind
    tensor._pieces = pieces  # type: ignore[attr-defined]
    return tensor


def _plain(tensor: Any) -> torch.Tensor:
    whole = _gathered(tensor).clone()
    if not isinstance(tensor, torch.nn.Parameter):
        return whole
    with torch._C.DisableTorchFunctionSubclass():
        copied = torch.nn.Parameter(whole, requires_grad=tensor.requires_grad)
        vars(copied).update(own_attributes(tensor))
        return copied


class _Gather(torch.autograd.Function):
    """The tensor's values, whose gradient is the tensor's."""

    @staticmethod
    def forward(ctx: Any, tensor: Any) -> torch.Tensor:
        return _gathered(tensor)

    @staticmethod
    def backward(ctx: Any, *grads: torch.Tensor) -> torch.Tensor:
        return grads[0]


def _gathered(tensor: Any) -> torch.Tensor:
    with torch._C.DisableTorchFunctionSubclass():
        return tensor._pieces.whole().detach().to(tensor.device)


def _read(tensor: Any) -> torch.Tensor:
    if not (torch.is_grad_enabled() and tensor.requires_grad):
        return _gathered(tensor)
    gathered: torch.Tensor = _Gather.apply(tensor)
    return gathered


_INIT = torch.nn.init.__name__


def _version_of(tensor: torch.Tensor) -> int:
    return -1 if tensor.is_inference() else tensor._version


def _with_wholes(func: Any, args: tuple, kwargs: dict[str, Any]) -> Any:
    found: dict[int, tuple[Any, torch.Tensor, int]] = {}
    # Kernels of optimisers count no versions, and initialisations write through views.
    writes = func.__name__.startswith("_fused_") or getattr(func, "__module__", "") == _INIT

    def whole(tensor: Any) -> torch.Tensor:
        if id(tensor) not in found:
            gathered = _gathered(tensor) if writes else _read(tensor)
            found[id(tensor)] = tensor, gathered, _version_of(gathered)
        return found[id(tensor)][1]

    args, kwargs = pytree.tree_map_only(_InShards, whole, (args, kwargs))
    result = func(*args, **kwargs)
    for tensor, gathered, version in found.values():
        if writes or _version_of(gathered) != version:
            _refuse_leaf(func, gathered)
            tensor._pieces.write(gathered)
        if result is gathered:
            result = tensor
    return result


def _refuse_leaf(func: Any, gathered: torch.Tensor) -> None:
    if gathered.grad_fn is not None:
        raise SmexRuntimeError(
            f"partition: {func.__name__} changes a leaf that requires a gradient in place, a "
            f"parameter of shape {list(gathered.shape)} whose values lie in a net's shards: do it "
            "under torch.no_grad()"
        )


def _assign(tensor: Any, data: torch.Tensor) -> None:
    if isinstance(data, _InShards):
        data = _gathered(data)
    if (data.shape, data.dtype, data.device) == (tensor.shape, tensor.dtype, tensor.device):
        tensor._pieces.write(data)
    else:  # converted: the next call tells that shards are not
        take_back(tensor, data)
