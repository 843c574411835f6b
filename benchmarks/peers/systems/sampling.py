"""What all samplers of neighbours draw: an epoch over some seeds, batch by batch."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True)
class Draw:
    """Batches of seeds, and how many neighbours each layer draws, the first computed first."""

    fanouts: list[int]
    batch_size: int
    batches: int

    def seeds(self, order: Tensor) -> Tensor:
        """Distinct nodes in random order, chosen by a random number for each node."""
        return order.argsort()[: self.batches * self.batch_size]


MANY = Draw([15, 10, 5], 1024, 8)
FEW = Draw([5, 5], 8, 100)


def counted(batches: Iterable[tuple[int, int]]) -> Tensor:
    """The sums over batches, given how many edges each has into its seeds and in all layers."""
    return torch.tensor(list(batches), dtype=torch.float64).sum(0)
