"""Embeddings whose rows are divided among the ranks."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from smex.graph.distributed.book import PartitionPolicy
from smex.graph.distributed.dist_tensor import DistTensor, InitFunction

__all__ = ["DistEmbedding"]


class DistEmbedding:
    """Numbers that are learned for each node, whose rows are divided among the ranks.

    ``emb(ids)`` reads rows; their gradients are kept until
    :class:`smex.graph.distributed.optim.SparseAdam` or ``SparseAdagrad`` takes a step, which writes
    the rows that had some. Making one is a step that all ranks take together.

    Args:
        num_embeddings: number of rows.
        embedding_dim: numbers in each.
        name: the same on all ranks; needed to save what an optimiser keeps.
        init_func: as for :class:`DistTensor`; zeros by default.
        part_policy: as for :class:`DistTensor`.
        dtype: of the numbers.

    Raises:
        SmexValueError: as for :class:`DistTensor`.
        RankFailure: as for :class:`DistTensor`.

    Example:
        >>> import smex.graph as sg
        >>> emb = sg.distributed.DistEmbedding(4, 2)
        >>> opt = sg.distributed.optim.SparseAdagrad([emb], lr=0.1)
        >>> emb(torch.tensor([1, 1])).sum().backward()
        >>> opt.step()
        >>> emb(torch.tensor([0, 1]))
        tensor([[ 0.0000,  0.0000],
                [-0.1000, -0.1000]], requires_grad=True)
    """

    def __init__(
        self,
        num_embeddings: int,
        embedding_dim: int,
        name: str | None = None,
        init_func: InitFunction | None = None,
        part_policy: PartitionPolicy | None = None,
        dtype: torch.dtype = torch.float32,
    ):
        self._tensor = DistTensor(
            (num_embeddings, embedding_dim), dtype, name, init_func, part_policy
        )
        self._trace: list[tuple[Tensor, Tensor]] = []

    def __call__(self, idx: Any, device: torch.device | str = "cpu") -> Tensor:
        """Returns rows ``[n, embedding_dim]`` on a device; a leaf that records its gradient.

        Args:
            idx: ids ``[n]``.
            device: of the rows.

        Raises:
            SmexIndexError: an id does not exist.
            RankFailure: a rank whose rows are wanted has failed.
        """
        ids = self._tensor._ids(idx)
        rows = self._tensor[ids].to(device)
        if torch.is_grad_enabled():
            rows.requires_grad_()
            self._trace.append((ids, rows))
        return rows

    def reset_trace(self) -> None:
        """Forgets the rows that were read, and their gradients."""
        self._trace = []

    def gradients(self) -> tuple[Tensor, Tensor]:
        """Returns the ids of all rows that were read and got gradients, and these."""
        found = [(ids, rows.grad) for ids, rows in self._trace if rows.grad is not None]
        like = self._tensor._rows.like
        if not found:
            return torch.empty(0, dtype=torch.int64), like
        grads = torch.cat([grad.detach().to(like) for _, grad in found if grad is not None])
        return torch.cat([ids for ids, _ in found]), grads

    @property
    def weight(self) -> DistTensor:
        """The rows."""
        return self._tensor

    @property
    def part_policy(self) -> PartitionPolicy:
        """How rows are divided."""
        return self._tensor.part_policy

    @property
    def name(self) -> str | None:
        """The name that it was given."""
        return self._tensor.tensor_name

    @property
    def data_name(self) -> str:
        """Its name together with that of its policy."""
        return self._tensor.name

    @property
    def num_embeddings(self) -> int:
        """Number of rows."""
        return self._tensor.shape[0]

    @property
    def embedding_dim(self) -> int:
        """Numbers in a row."""
        return self._tensor.shape[1]
