"""The types that members compute in."""

import torch


def compute_dtype(x: torch.Tensor) -> torch.dtype:
    """Returns the type in which ATen adds up numbers of the tensor's type."""
    return torch.float32 if x.dtype in (torch.float16, torch.bfloat16) else x.dtype
