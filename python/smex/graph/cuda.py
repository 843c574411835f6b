"""Rows kept on a GPU, by the name of DGL's ``cuda`` module."""

from __future__ import annotations

import torch
from torch import Tensor

from smex.graph.features.row_cache import RowCache

__all__ = ["GPUCache"]


class GPUCache(RowCache):
    """Rows of float32 by their ids, those that were asked for last.

    It is on the current CUDA device, or where there is none on the CPU, which serves tests alone.

    Args:
        num_items: for how many rows there is room.
        num_feats: numbers of a row.
        idtype: dtype of the ids that :meth:`query` returns.

    Example:
        >>> cache = sg.cuda.GPUCache(10, 2)
        >>> cache.replace(torch.tensor([3]), torch.ones(1, 2))
        >>> cache.query(torch.tensor([3, 4]))[2].tolist(), cache.miss_rate
        ([4], 0.5)
    """

    def __init__(self, num_items: int, num_feats: int, idtype: torch.dtype = torch.int64):
        device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
        super().__init__(num_items, (num_feats,), torch.float32, device)
        self.idtype = idtype

    def query(self, keys: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Returns the rows of some ids, and which are missing; see :class:`RowCache`."""
        return super().query(keys.to(self.idtype))
