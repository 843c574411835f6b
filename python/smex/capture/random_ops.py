"""The random mask operator that captured graphs call, where the native one is not loaded."""

from __future__ import annotations

import contextlib
import importlib

import torch

_SCHEMA = (
    "dropout_mask(Tensor like, float p, int seed, int stream, int[] offset, int[] global_shape, "
    "*, ScalarType? dtype=None) -> Tensor"
)

_library: torch.library.Library | None = None


def _fake(like, p, seed, stream, offset, global_shape, *, dtype=None):
    return torch.empty_like(like, dtype=dtype, memory_format=torch.contiguous_format)


def _draw(like, p, seed, stream, offset, global_shape, *, dtype=None):
    generator = torch.Generator().manual_seed((seed * 1_000_003 + stream) % 2**63)
    keep = torch.rand(global_shape, generator=generator, dtype=torch.float64) >= p
    for dim, (start, size) in enumerate(zip(offset, like.shape, strict=True)):
        keep = keep.narrow(dim, start, size)
    scale = 0.0 if p >= 1 else 1 / (1 - p)
    return keep.to(device=like.device, dtype=dtype or like.dtype) * scale


def ensure_dropout_mask() -> torch._ops.OpOverload:
    """The operator `smex::dropout_mask`, defined here when the native library did not.

    `dropout_mask(like, p, seed, stream, offset, global_shape)` has `like`'s shape; each element is
    0 with probability `p` and otherwise `1 / (1 - p)`. It depends only on seed, stream and the
    element's place in `global_shape`, where `like` begins at `offset`.
    """
    global _library
    with contextlib.suppress(ImportError):
        importlib.import_module("smex._C")  # defines the operator, where it is built
    if _library is None:
        library = torch.library.Library("smex", "FRAGMENT")
        if not hasattr(torch.ops.smex, "dropout_mask"):
            library.define(_SCHEMA)
            library.impl("dropout_mask", _draw, "CPU")
            library.impl("dropout_mask", _draw, "CUDA")
        if not torch._C._dispatch_has_kernel_for_dispatch_key("smex::dropout_mask", "Meta"):
            library.impl("dropout_mask", _fake, "Meta")
        _library = library
    return torch.ops.smex.dropout_mask.default
