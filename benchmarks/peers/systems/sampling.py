"""What all samplers of neighbours draw: an epoch over some seeds, batch by batch."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import torch
from torch import Tensor

FANOUTS = [15, 10, 5]  # of the layers, the first computed first: 5 edges into a seed
BATCH_SIZE = 1024
BATCHES = 8


def seeds(order: Tensor) -> Tensor:
    """Distinct nodes in random order, chosen by a random number for each node."""
    return order.argsort()[: BATCHES * BATCH_SIZE]


def counted(batches: Iterable[Sequence[int]]) -> Tensor:
    """The edges drawn in all batches, layer by layer from the seeds."""
    return torch.tensor([list(batch) for batch in batches], dtype=torch.float64).sum(0)
