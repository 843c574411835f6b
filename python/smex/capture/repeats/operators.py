"""Operators that mark, in a graph that is being traced, what is traced once and copied.

`enter(tensors, body, call)` stands before the calls of a body, whose operands are its results, and
`leave(tensors, body)` after them. `repeat(tensors, body, call, meta)` stands for all of a body's
calls on other operands. None of them is left when the graph is converted.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch.fx.node import has_side_effect

_LIBRARY = torch.library.Library("smex_capture", "DEF")
_LIBRARY.define("enter(Tensor[] tensors, int body, int call) -> Tensor[]")
_LIBRARY.define("leave(Tensor[] tensors, int body) -> Tensor[]")
_LIBRARY.define("repeat(Tensor[] tensors, int body, int call, SymInt[] meta) -> Tensor[]")

_DTYPES = tuple(sorted({d for d in vars(torch).values() if isinstance(d, torch.dtype)}, key=str))
_NUMBER = {dtype: number for number, dtype in enumerate(_DTYPES)}


def described(tensors: Sequence[torch.Tensor]) -> list[int]:
    """Returns shapes, strides and dtypes as numbers, for `repeat`."""
    meta = []
    for tensor in tensors:
        meta += [_NUMBER[tensor.dtype], tensor.dim(), *tensor.shape, *tensor.stride()]
    return meta


def _same(tensors: Sequence[torch.Tensor], body: int, call: int = 0) -> list[torch.Tensor]:
    return [
        torch.empty_strided(t.shape, t.stride(), dtype=t.dtype, device=t.device) for t in tensors
    ]


def _made(
    tensors: Sequence[torch.Tensor], body: int, call: int, meta: Sequence[int]
) -> list[torch.Tensor]:
    made = []
    at = 0
    while at < len(meta):
        dtype, dim = _DTYPES[meta[at]], meta[at + 1]
        shape, stride = meta[at + 2 : at + 2 + dim], meta[at + 2 + dim : at + 2 + 2 * dim]
        made.append(torch.empty_strided(shape, stride, dtype=dtype))
        at += 2 + 2 * dim
    return made


torch.library.register_fake("smex_capture::enter", _same)
torch.library.register_fake("smex_capture::leave", _same)
torch.library.register_fake("smex_capture::repeat", _made)

ENTER = torch.ops.smex_capture.enter.default
LEAVE = torch.ops.smex_capture.leave.default
REPEAT = torch.ops.smex_capture.repeat.default
for _operator in (ENTER, LEAVE, REPEAT):
    has_side_effect(_operator)  # a body's end is found also where nothing uses it
