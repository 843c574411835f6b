"""Optimisers of :class:`DistEmbedding`: rows without gradients stay as they are."""

from __future__ import annotations

import os
import pathlib
from collections.abc import Iterable, Sequence
from typing import Any

import torch
from torch import Tensor

from smex.errors import SmexTypeError, SmexValueError
from smex.graph.distributed.book import rank_bounds
from smex.graph.distributed.context import context
from smex.graph.distributed.dist_tensor import DistTensor
from smex.graph.distributed.embedding import DistEmbedding
from smex.graph.distributed.files import (
    FileEntry,
    check_column,
    entry_of,
    map_column,
    read_manifest,
    write_column,
    write_manifest,
)
from smex.graph.words import quoted

__all__ = ["SparseAdagrad", "SparseAdam"]

_KIND = "optimiser"


class DistSparseGradOptimizer:
    """What both have in common.

    A step is one that all ranks take together, also those without gradients. The gradients of a row
    go to the rank that has it and are added up there: those of rank 0 first, in the order in which
    they were read; so the result is the same each time. They are the sum over ranks: for what
    ``DistributedDataParallel`` makes of other parameters, the mean, divide the loss by the number
    of ranks. (DGL takes the mean of all gradients of a row.)

    Args:
        params: the embeddings.
        lr: step size.

    Raises:
        SmexTypeError: one is no :class:`DistEmbedding`.
        SmexValueError: two have one name.
    """

    _words: tuple[str, ...] = ()

    def __init__(self, params: Iterable[DistEmbedding], lr: float):
        self._params = list(params)
        self._lr = lr
        self._context = context()
        self._state: dict[str, dict[str, DistTensor]] = {}
        for number, emb in enumerate(self._params):
            if not isinstance(emb, DistEmbedding):
                raise SmexTypeError(
                    f"{type(self).__name__}: expected DistEmbedding objects, found "
                    f"{type(emb).__name__}"
                )
            key = self._key(number, emb)
            if key in self._state:
                raise SmexValueError(
                    f"{type(self).__name__}: expected embeddings of different names, found {key!r} "
                    "twice"
                )
            self._state[key] = {word: self._zeros(emb, word) for word in self._words}

    def _key(self, number: int, emb: DistEmbedding) -> str:
        return emb.name or f"embedding{number}"

    def _zeros(self, emb: DistEmbedding, word: str) -> DistTensor:
        shape = tuple(emb.weight.shape) if word != "step" else (emb.num_embeddings,)
        return DistTensor(shape, emb.weight.dtype, part_policy=emb.part_policy)

    def zero_grad(self) -> None:
        """Does nothing: a step forgets the gradients that it has taken.

        Programs call it between reading rows and the backward pass, so that it must not.
        """

    def step(self) -> None:
        """Writes all rows that have gradients; all ranks call it.

        Raises:
            RankFailure: one has failed.
        """
        with torch.no_grad():
            for number, emb in enumerate(self._params):
                ids, grads = self._brought(emb)
                emb.reset_trace()
                if ids.shape[0]:
                    self.update(ids, grads, emb.weight, self._state[self._key(number, emb)])
        self._context.barrier()

    def _brought(self, emb: DistEmbedding) -> tuple[Tensor, Tensor]:
        """Ids of this rank's rows that have gradients on any rank, ascending, and their sums."""
        ids, grads = emb.gradients()
        here = self._context
        bounds = torch.tensor(rank_bounds(emb.part_policy.starts, here.size))
        owner = torch.searchsorted(bounds, ids, right=True) - 1
        order = torch.argsort(owner, stable=True)
        counts = torch.bincount(owner, minlength=here.size).tolist()
        found = here.exchange(list(ids[order].split(counts)), ids[:0])
        brought = here.exchange(list(grads[order].split(counts)), grads[:0])
        rows, place = torch.unique(torch.cat(found), return_inverse=True)
        total = torch.zeros((rows.shape[0], *grads.shape[1:]), dtype=grads.dtype)
        # On the CPU index_add_ adds up in the order of the list.
        return rows, total.index_add_(0, place, torch.cat(brought))

    def update(
        self, ids: Tensor, grads: Tensor, weight: DistTensor, state: dict[str, DistTensor]
    ) -> None:
        """Writes some rows of this rank.

        Args:
            ids: of the rows, different.
            grads: the sums of their gradients.
            weight: the rows.
            state: what is kept for each row, by word.
        """
        raise NotImplementedError

    # ---- files ----

    def _defaults(self) -> dict[str, Any]:
        return {"lr": self._lr}

    def save(self, f: str | os.PathLike) -> None:
        """Writes what is kept for each row, and the embeddings, for any number of ranks.

        All ranks call it. ``f`` becomes a folder with a file for each rank and tensor, and
        ``manifest.json``, which is written last.

        Raises:
            SmexRuntimeError: a file cannot be written; on all ranks.
            RankFailure: a rank has failed.
        """
        folder, here = pathlib.Path(f), self._context
        if here.rank == 0:
            (folder / "manifest.json").unlink(missing_ok=True)
        here.barrier()

        def write() -> list[dict[str, Any]]:
            return [
                write_column(folder, f"{n}.{here.rank}.bin", tensor.local_partition)._asdict()
                for n, tensor in enumerate(self._tensors().values())
            ]

        files = here.together(write)
        columns = {
            name: {"shape": list(tensor.shape), "files": [of_rank[n] for of_rank in files]}
            for n, (name, tensor) in enumerate(self._tensors().items())
        }
        told = {"optimiser": type(self).__name__, "options": self._defaults(), "columns": columns}

        def finish() -> None:
            if here.rank == 0:
                write_manifest(folder / "manifest.json", _KIND, told)

        here.together(finish)

    def load(self, f: str | os.PathLike) -> None:
        """Reads what :meth:`save` has written, at any number of ranks; all call it.

        Raises:
            SmexValueError: there is no manifest, or it is of other embeddings or another optimiser;
                on all ranks.
            SmexRuntimeError: a file is missing, or is not what was written; on all ranks.
            RankFailure: a rank has failed.
        """
        self._context.together(lambda: self._load(f))

    def _load(self, f: str | os.PathLike) -> None:
        op = f"{type(self).__name__}.load"
        place = pathlib.Path(f) / "manifest.json"
        folder, told = read_manifest(place, _KIND, op)
        tensors = self._tensors()
        found = told["optimiser"], sorted(told["columns"])
        if found != (type(self).__name__, sorted(tensors)):
            raise SmexValueError(
                f"{op}: expected {type(self).__name__} with {quoted(sorted(tensors))} in {place}, "
                f"found {found[0]} with {quoted(found[1])}"
            )
        for name, tensor in tensors.items():
            column = told["columns"][name]
            if column["shape"] != list(tensor.shape):
                raise SmexValueError(
                    f"{op}: expected {name!r} of shape {list(tensor.shape)} in {place}, found "
                    f"{column['shape']}"
                )
            _read_rows(folder, [entry_of(entry, place) for entry in column["files"]], tensor)
        for option, value in told["options"].items():
            setattr(self, f"_{option}", value)

    def _tensors(self) -> dict[str, DistTensor]:
        result = {}
        for number, emb in enumerate(self._params):
            key = self._key(number, emb)
            result[key] = emb.weight
            result.update({f"{key}/{word}": t for word, t in self._state[key].items()})
        return result


def _read_rows(folder: pathlib.Path, entries: Sequence[FileEntry], tensor: DistTensor) -> None:
    """Writes this rank's rows from the files that have them."""
    begin, mine = tensor.local_start, tensor.local_partition
    end = begin + mine.shape[0]
    first = 0
    for entry in entries:
        last = first + entry.shape[0]
        low, high = max(first, begin), min(last, end)
        if low < high:
            check_column(folder, entry, range(entry.num_blocks))
            rows = map_column(folder, entry)
            mine[low - begin : high - begin] = rows[low - first : high - first]
        first = last


class SparseAdagrad(DistSparseGradOptimizer):
    """Adagrad (Duchi et al. 2011) of the rows that have gradients.

    ``sum += g²``, ``row -= lr · g / (√sum + eps)``, ``g`` being the sum over all ranks.

    Args:
        params: the embeddings.
        lr: step size.
        eps: keeps divisors above 0.

    Raises:
        SmexTypeError: one is no :class:`DistEmbedding`.
        SmexValueError: two have one name.
    """

    _words = ("sum",)

    def __init__(self, params: Iterable[DistEmbedding], lr: float, eps: float = 1e-10):
        super().__init__(params, lr)
        self._eps = eps

    def _defaults(self) -> dict[str, Any]:
        return {"lr": self._lr, "eps": self._eps}

    def update(
        self, ids: Tensor, grads: Tensor, weight: DistTensor, state: dict[str, DistTensor]
    ) -> None:
        """Writes some rows; see the class."""
        total = state["sum"][ids] + grads * grads
        state["sum"][ids] = total
        weight[ids] = weight[ids] - self._lr * grads / (total.sqrt() + self._eps)


class SparseAdam(DistSparseGradOptimizer):
    """Adam (Kingma and Ba 2015) of the rows that have gradients, each with its number of steps.

    ``m = β₁ m + (1 - β₁) g``, ``v = β₂ v + (1 - β₂) g²``,
    ``row -= lr · m / (1 - β₁ᵗ) / (√(v / (1 - β₂ᵗ)) + eps)``, ``g`` being the sum over all ranks and
    ``t`` the number of steps in which the row had gradients.

    Args:
        params: the embeddings.
        lr: step size.
        betas: β₁ and β₂.
        eps: keeps divisors above 0.

    Raises:
        SmexTypeError: one is no :class:`DistEmbedding`.
        SmexValueError: two have one name.
    """

    _words = ("step", "mem", "power")

    def __init__(
        self,
        params: Iterable[DistEmbedding],
        lr: float,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
    ):
        super().__init__(params, lr)
        self._beta1, self._beta2 = betas
        self._eps = eps

    def _defaults(self) -> dict[str, Any]:
        options = {"lr": self._lr, "beta1": self._beta1, "beta2": self._beta2}
        return {**options, "eps": self._eps}

    def update(
        self, ids: Tensor, grads: Tensor, weight: DistTensor, state: dict[str, DistTensor]
    ) -> None:
        """Writes some rows; see the class."""
        step = state["step"][ids] + 1
        mem = self._beta1 * state["mem"][ids] + (1 - self._beta1) * grads
        power = self._beta2 * state["power"][ids] + (1 - self._beta2) * grads * grads
        for word, rows in (("step", step), ("mem", mem), ("power", power)):
            state[word][ids] = rows
        # In double precision: 1 - β₂ᵗ of a first step has three digits fewer.
        wide = step.double()[:, None]
        scale = self._lr / (1 - self._beta1**wide)
        root = (power.double() / (1 - self._beta2**wide)).sqrt() + self._eps
        weight[ids] = weight[ids] - (scale * mem.double() / root).to(weight.dtype)
