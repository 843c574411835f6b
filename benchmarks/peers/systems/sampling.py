"""What all samplers of neighbours draw: an epoch over some seeds, batch by batch."""

from __future__ import annotations

from collections.abc import Iterable

import torch
from torch import Tensor

FANOUTS = [15, 10, 5]  # of the layers, the first computed first: 5 edges into a seed
BATCH_SIZE = 1024
BATCHES = 8


def seeds(order: Tensor) -> Tensor:
    """Distinct nodes in random order, chosen by a random number for each node."""
    return order.argsort()[: BATCHES * BATCH_SIZE]


def counted(batches: Iterable[tuple[int, int]]) -> Tensor:
    """The sums over batches, given how many edges each has into its seeds and in all layers."""
    return torch.tensor(list(batches), dtype=torch.float64).sum(0)
