"""Functions of tensors by the names of DGL's ``backend``, each one of torch's."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor, arange, float16, float32, float64, int8, int16, int32, int64, uint8
from torch import argsort as argsort
from torch import cat as cat
from torch import exp as exp
from torch import full_like as full_like
from torch import matmul as matmul
from torch import ones_like as ones_like
from torch import reshape as reshape
from torch import softmax as softmax
from torch import split as split
from torch import stack as stack
from torch import unique as unique
from torch import zeros_like as zeros_like

backend_name = "pytorch"
data_type_dict = {
    str(kind).rpartition(".")[2]: kind
    for kind in (
        *(torch.bfloat16, float16, float32, float64),
        *(uint8, int8, int16, int32, int64, torch.bool),
    )
}
"""Dtypes by their names."""

__all__ = [
    "arange",
    "argsort",
    "asnumpy",
    "astype",
    "backend_name",
    "boolean_mask",
    "cat",
    "context",
    "copy_to",
    "cpu",
    "cuda",
    "data_type_dict",
    "dtype",
    "exp",
    "float16",
    "float32",
    "float64",
    "full_1d",
    "full_like",
    "gather_row",
    "get_preferred_backend",
    "int8",
    "int16",
    "int32",
    "int64",
    "is_tensor",
    "matmul",
    "ndim",
    "nonzero_1d",
    "ones",
    "ones_like",
    "reshape",
    "shape",
    "softmax",
    "sort_1d",
    "split",
    "squeeze",
    "stack",
    "sum",
    "tensor",
    "to_dgl_nd",
    "uint8",
    "unique",
    "unsqueeze",
    "zerocopy_from_numpy",
    "zerocopy_to_numpy",
    "zeros",
    "zeros_like",
]


def asnumpy(input: Tensor) -> np.ndarray:
    """Returns the numbers as an array of NumPy, on the CPU and without gradient.

    Example:
        >>> import smex.graph as sg
        >>> sg.backend.asnumpy(torch.ones(2, requires_grad=True))
        array([1., 1.], dtype=float32)
    """
    return input.detach().cpu().numpy()


def zerocopy_to_numpy(input: Tensor) -> np.ndarray:
    """As :func:`asnumpy`."""
    return asnumpy(input)


def zerocopy_from_numpy(np_array: np.ndarray) -> Tensor:
    """Returns a tensor with the array's memory."""
    return torch.as_tensor(np_array)


def astype(input: Tensor, ty: torch.dtype) -> Tensor:
    """Returns the tensor in another dtype."""
    return input.to(ty)


def boolean_mask(input: Tensor, mask: Tensor) -> Tensor:
    """Returns the rows where a mask is not 0."""
    return input[mask != 0]


def context(input: Tensor) -> torch.device:
    """Returns the device."""
    return input.device


def copy_to(input: Tensor, ctx: torch.device | str, **kwargs: Any) -> Tensor:
    """Returns the tensor on a device."""
    return input.to(ctx, **kwargs)


def cpu() -> torch.device:
    """Returns the device of the CPU."""
    return torch.device("cpu")


def cuda() -> torch.device:
    """Returns the device of the GPU."""
    return torch.device("cuda")


def dtype(input: Tensor) -> torch.dtype:
    """Returns the dtype."""
    return input.dtype


def full_1d(length: int, fill_value: Any, dtype: torch.dtype, ctx: Any) -> Tensor:
    """Returns a vector of one number."""
    return torch.full((length,), fill_value, dtype=dtype, device=ctx)


def gather_row(data: Tensor, row_index: Tensor) -> Tensor:
    """Returns some rows."""
    return torch.index_select(data, 0, row_index.long())


def get_preferred_backend() -> str:
    """Returns the only backend that there is."""
    return backend_name


def is_tensor(obj: Any) -> bool:
    """Returns whether something is a tensor."""
    return isinstance(obj, Tensor)


def ndim(input: Tensor) -> int:
    """Returns the number of dimensions."""
    return input.dim()


def nonzero_1d(input: Tensor) -> Tensor:
    """Returns where a vector is not 0."""
    return torch.nonzero(input).reshape(-1)


def ones(shape: Sequence[int], dtype: torch.dtype, ctx: Any) -> Tensor:
    """Returns ones."""
    return torch.ones(shape, dtype=dtype, device=ctx)


def shape(input: Tensor) -> torch.Size:
    """Returns the shape."""
    return input.shape


def sort_1d(input: Tensor) -> tuple[Tensor, Tensor]:
    """Returns the numbers in ascending order, and where each of them was."""
    ordered = torch.sort(input)
    return ordered.values, ordered.indices


def squeeze(input: Tensor, dim: int) -> Tensor:
    """Returns the tensor without a dimension of 1."""
    return torch.squeeze(input, dim)


def sum(input: Tensor, dim: int, keepdims: bool = False) -> Tensor:
    """Returns the sums along a dimension."""
    return torch.sum(input, dim, keepdim=keepdims)


def tensor(data: Any, dtype: torch.dtype | None = None) -> Tensor:
    """Returns a tensor, the same where it is one of this dtype."""
    return torch.as_tensor(data, dtype=dtype)


def to_dgl_nd(data: Tensor) -> Tensor:
    """Returns the tensor: there is no other kind of array."""
    return data


def unsqueeze(input: Tensor, dim: int) -> Tensor:
    """Returns the tensor with another dimension of 1."""
    return torch.unsqueeze(input, dim)


def zeros(shape: Sequence[int], dtype: torch.dtype, ctx: Any) -> Tensor:
    """Returns zeros."""
    return torch.zeros(shape, dtype=dtype, device=ctx)
