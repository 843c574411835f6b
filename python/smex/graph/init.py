"""What features of new nodes and edges hold: functions for :meth:`Graph.set_n_initializer`."""

from __future__ import annotations

import torch
from torch import Tensor

__all__ = ["base_initializer", "zero_initializer"]


def base_initializer(
    shape: tuple[int, ...], dtype: torch.dtype, ctx: torch.device, id_range: slice
) -> Tensor:
    """Returns the signature of initialisers; it makes nothing itself.

    Args:
        shape: of the rows that are wanted; its first number is how many there are.
        dtype: of the rows.
        ctx: device of the rows.
        id_range: first id of the new nodes or edges, and the last one plus 1.

    Raises:
        NotImplementedError: always.

    Example:
        >>> def ones(shape, dtype, ctx, id_range):
        ...     return torch.ones(shape, dtype=dtype, device=ctx)
        >>> g = sg.graph(([0], [1]))
        >>> g.ndata["h"] = torch.zeros(2)
        >>> g.set_n_initializer(ones)
        >>> g.add_nodes(1)
        >>> g.ndata["h"]
        tensor([0., 0., 1.])
    """
    raise NotImplementedError(
        "base_initializer: it only shows the arguments of an initialiser, expected a function "
        "that returns a tensor; use zero_initializer, or write one"
    )


def zero_initializer(
    shape: tuple[int, ...], dtype: torch.dtype, ctx: torch.device, id_range: slice
) -> Tensor:
    """Rows of zeros, which new nodes and edges have unless the user says otherwise.

    Example:
        >>> sg.init.zero_initializer((2,), torch.int64, torch.device("cpu"), slice(0, 2))
        tensor([0, 0])
    """
    return torch.zeros(shape, dtype=dtype, device=ctx)
