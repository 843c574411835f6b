"""Tensors whose rows are divided among the ranks, and read and written by any of them."""

from __future__ import annotations

import hashlib
import weakref
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from smex.errors import SmexIndexError, SmexTypeError, SmexValueError
from smex.graph.constants import DEFAULT_NTYPE
from smex.graph.distributed.book import GraphPartitionBook, PartitionPolicy, rank_bounds
from smex.graph.distributed.context import Context, context
from smex.graph.distributed.rows import SharedRows
from smex.graph.words import describe

__all__ = ["DistTensor"]

InitFunction = Callable[[tuple[int, ...], torch.dtype], Tensor]

_BLOCK = 4096
"""Rows that are initialised by one call."""


class DistTensor:
    """A tensor whose rows are divided among the ranks; on the CPU.

    ``x[ids]`` reads rows and ``x[ids] = values`` writes them, of any rank, any number of times: the
    others need not take part. On one machine that goes through memory, between machines by
    messages that a thread of the owner's process answers; ``SMEX_SHARED_MEMORY=0`` takes that way
    on one machine too. What one rank has written others see after a barrier
    (:meth:`DistGraph.barrier`).

    Making one is a step that all ranks take together. Those with a `name` that are still there are
    not made again, but are the same rows under two objects.

    Args:
        shape: of the tensor; the rows of dimension 0 are divided.
        dtype: of its numbers.
        name: the same on all ranks; by default it has none.
        init_func: returns the first values, from a shape and a dtype; zeros by default. It is
            called for 4,096 rows at a time, with torch's generator set by the first row's number,
            the name and ``torch.initial_seed()``: values do not depend on the number of ranks
            where that seed does not.
        part_policy: how rows are divided; by default as those nodes or edges of a
            :class:`DistGraph` of which there are as many, or else evenly.
        persistent: whether it stays when no object has it any more, to be found by its name.
        is_gdata: taken for compatibility.
        attach: taken for compatibility.

    Raises:
        SmexTypeError: `dtype` or what is written is of the wrong kind.
        SmexValueError: ranks differ in what they make, the name is that of a tensor of another
            kind, it has to be persistent without a name, or its rows could be divided in several
            ways.
        RankFailure: another rank fails meanwhile, or when its rows are read.

    Example:
        >>> import smex.graph as sg
        >>> x = sg.distributed.DistTensor((5, 2), torch.float32)
        >>> x[[1, 3]] = torch.ones(2, 2)
        >>> x[1:3]
        tensor([[1., 1.],
                [0., 0.]])
    """

    requires_grad = False
    device = torch.device("cpu")

    def __init__(
        self,
        shape: Sequence[int],
        dtype: torch.dtype,
        name: str | None = None,
        init_func: InitFunction | None = None,
        part_policy: PartitionPolicy | None = None,
        persistent: bool = False,
        is_gdata: bool = True,
        attach: bool = True,
    ):
        if not isinstance(dtype, torch.dtype):
            raise SmexTypeError(f"DistTensor: expected a torch.dtype, found {dtype!r}")
        if persistent and name is None:
            raise SmexValueError(
                "DistTensor: expected a name of a tensor that is persistent, found none"
            )
        here = context()
        size = tuple(int(n) for n in shape)
        policy = part_policy if part_policy is not None else _policy_of(here, size)
        if not size or policy.get_size() != size[0]:
            raise SmexValueError(
                f"DistTensor: expected {policy.get_size()} rows as {policy.policy_str} has, found "
                f"shape {list(size)}"
            )
        self._hold(here, size, dtype, policy, name)
        full = "" if name is None else policy.get_data_name(name)
        found = here.named.get(full)
        known: SharedRows | None = found() if isinstance(found, weakref.ref) else found
        told = (full, size, str(dtype), policy.policy_str, policy.starts)
        if _all_have_it(here, told, known):
            assert known is not None
            self._rows = known
            return
        self._rows = _made(here, size, dtype, policy, name, init_func)
        if name is not None:
            here.named[full] = self._rows if persistent else weakref.ref(self._rows)

    def _hold(
        self,
        here: Context,
        shape: tuple[int, ...],
        dtype: torch.dtype,
        policy: PartitionPolicy,
        name: str | None,
    ) -> None:
        self._shape, self._dtype, self._policy = shape, dtype, policy
        self._tensor_name = name
        self._context = here

    @classmethod
    def of_rows(
        cls, rows: SharedRows, policy: PartitionPolicy, name: str, shape: Sequence[int]
    ) -> DistTensor:
        """Returns the tensor of rows that are there already."""
        made = cls.__new__(cls)
        made._hold(rows.context, tuple(shape), rows.like.dtype, policy, name)
        made._rows = rows
        return made

    # ---- rows ----

    def __getitem__(self, ids: Any) -> Tensor:
        fetched = getattr(ids, "smex_fetched", None)  # ids that a loader has given out
        if fetched is not None:
            ready = fetched.rows_of(self)
            if ready is not None:
                return ready
        return self._rows.read(self._ids(ids))

    def __setitem__(self, ids: Any, values: Any) -> None:
        if self._rows.read_only:
            raise SmexTypeError(
                f"DistTensor: expected a tensor that may be written, found the feature "
                f"{self._tensor_name!r} of a folder, which all programs share; write a new "
                "DistTensor of its shape, dtype and part_policy"
            )
        places = self._ids(ids)
        rows = torch.as_tensor(values)
        if isinstance(values, Tensor) and rows.dim() and rows.dtype != self._dtype:
            raise SmexTypeError(
                f"DistTensor: expected rows of {self._dtype}, found {describe(rows)}; convert them"
            )
        wanted = (places.shape[0], *self._shape[1:])
        try:
            rows = rows.detach().to("cpu", self._dtype).expand(wanted)
        except RuntimeError as error:
            raise SmexValueError(
                f"DistTensor: expected rows of shape {list(wanted)}, found {describe(rows)}"
            ) from error
        self._rows.write(places, rows.contiguous())

    def _ids(self, ids: Any) -> Tensor:
        size = self._shape[0]
        if isinstance(ids, slice):
            return torch.arange(size)[ids] if ids.step not in (None, 1) else _range(ids, size)
        if isinstance(ids, (int, np.integer)) and not isinstance(ids, bool):
            ids = [int(ids)]
        found = torch.as_tensor(ids)
        if found.dtype == torch.bool:
            if found.shape != (size,):
                raise SmexIndexError(
                    f"DistTensor: expected a mask of shape [{size}], found {describe(found)}"
                )
            return found.nonzero().view(-1).cpu()
        if found.numel() == 0:
            return torch.empty(0, dtype=torch.int64)
        if found.is_floating_point() or found.is_complex() or found.dim() != 1:
            raise SmexTypeError(
                f"DistTensor: expected a vector of ids, a mask or a slice, found {describe(found)}"
            )
        found = found.to("cpu", torch.int64)
        low, high = (int(n) for n in torch.aminmax(found))
        if low < 0:
            found = torch.where(found < 0, found + size, found)
        if low < -size or high >= size:
            wrong = low if low < -size else high
            raise SmexIndexError(f"DistTensor: expected ids from 0 to {size - 1}, found {wrong}")
        return found

    def __reduce_ex__(self, protocol: Any) -> Any:
        """As a tensor of all rows, which is what comes back from a file."""
        return self[:].__reduce_ex__(protocol)

    def index_select(self, dim: int, ids: Tensor) -> Tensor:
        """Returns some rows, as torch's function of this name; `dim` is 0."""
        assert dim == 0
        return self[ids]

    def to(self, device: torch.device | str, **kwargs: Any) -> Tensor:
        """Returns all rows as a tensor on a device."""
        return self[:].to(device, **kwargs)

    def keep(self, ids: Any) -> int:
        """Fetches rows that are to be kept, such as those of nodes with many edges.

        Only of rows that are reached by messages and that never change: features of a folder.

        Args:
            ids: of the rows.

        Returns:
            How many are kept: 0 where all rows are reached through memory.
        """
        return self._rows.keep(self._ids(ids))

    # ---- facts ----

    def __len__(self) -> int:
        return self._shape[0]

    def __repr__(self) -> str:
        name = "" if self._tensor_name is None else f", name={self._tensor_name!r}"
        return f"DistTensor({list(self._shape)}, {self._dtype}{name}, {self._policy.policy_str})"

    @property
    def shape(self) -> torch.Size:
        """Shape of the whole."""
        return torch.Size(self._shape)

    @property
    def dtype(self) -> torch.dtype:
        """Type of its numbers."""
        return self._dtype

    @property
    def ndim(self) -> int:
        """Number of dimensions."""
        return len(self._shape)

    def dim(self) -> int:
        """Returns the number of dimensions."""
        return len(self._shape)

    @property
    def name(self) -> str:
        """Its name together with that of its policy."""
        return self._policy.get_data_name(self._tensor_name or f"anonymous-{self._rows.number}")

    @property
    def tensor_name(self) -> str | None:
        """The name that it was given."""
        return self._tensor_name

    @property
    def kvstore_key(self) -> str:
        """As :attr:`name`."""
        return self.name

    @property
    def part_policy(self) -> PartitionPolicy:
        """How its rows are divided."""
        return self._policy

    @property
    def local_partition(self) -> Tensor:
        """The rows of this rank, from :attr:`local_start` on; themselves where they are a piece.

        They are one piece but for features of a folder of which this rank has several parts.
        """
        return self._rows.own()

    @property
    def local_start(self) -> int:
        """The first row of this rank."""
        return rank_bounds(self._policy.starts, self._context.size)[self._context.rank]

    @property
    def is_read_only(self) -> bool:
        """Whether it is a feature of a folder, whose rows never change."""
        return self._rows.read_only

    def stats(self) -> dict[str, int]:
        """Returns how many rows this rank has read, and from where; see :class:`RowCounts`."""
        return self._rows.counts.told()

    def count_nonzero(self) -> int:
        """Returns how many numbers are not zero; reads all rows."""
        begins = range(0, self._shape[0], _BLOCK * 16)
        return sum(int(self[begin : begin + _BLOCK * 16].count_nonzero()) for begin in begins)

    def __or__(self, other: DistTensor) -> DistTensor:
        """Returns a new tensor of ``self | other``, element by element; all ranks call it."""
        made = DistTensor(self._shape, self._dtype, part_policy=self._policy)
        begin = self.local_start
        mine = torch.arange(begin, begin + self.local_partition.shape[0])
        made[mine] = self[mine] | other[mine]
        self._context.barrier()
        return made


def _range(ids: slice, size: int) -> Tensor:
    begin, end, _ = ids.indices(size)
    return torch.arange(begin, max(begin, end))


def _policy_of(here: Context, shape: tuple[int, ...]) -> PartitionPolicy:
    """The policy of the only nodes or edges of so many; or one that divides evenly."""
    rows = shape[0] if shape else 0
    found = {tuple(p.starts): p for p in here.policies.values() if p.get_size() == rows}
    if len(found) > 1:
        raise SmexValueError(
            f"DistTensor: {rows} rows may be those of "
            f"{', '.join(sorted(p.policy_str for p in found.values()))}; expected part_policy to "
            "say which, g.get_node_partition_policy(ntype) is one"
        )
    if found:
        return next(iter(found.values()))
    starts = [rank * rows // here.size for rank in range(here.size + 1)]
    book = GraphPartitionBook(here.rank, here.size, {DEFAULT_NTYPE: starts}, {})
    return PartitionPolicy(f"node~{DEFAULT_NTYPE}", book)


def _all_have_it(here: Context, told: Any, known: SharedRows | None) -> bool:
    """Returns whether all ranks have the tensor by its name; all ranks call this.

    Raises:
        SmexValueError: on all ranks, where they make different ones, or the name is taken.
    """
    full, size, dtype, _, _ = told
    state = "new"
    if known is not None:
        has = (known.size, *known.like.shape[1:]), str(known.like.dtype)
        state = "there" if has == (size, dtype) else f"{has[1]} of shape {list(has[0])}"
    everyone = here.gather((told, state))
    for rank, (other, found) in enumerate(everyone):
        if other != everyone[0][0]:
            raise SmexValueError(
                f"DistTensor: expected the same tensor on all ranks, found {everyone[0][0][:4]} on "
                f"rank 0 and {other[:4]} on rank {rank}"
            )
        if found not in ("new", "there"):
            raise SmexValueError(
                f"DistTensor: expected {dtype} of shape {list(size)} by the name {full!r}, found "
                f"that it is taken by {found}; give another name"
            )
    return all(found == "there" for _, found in everyone)


def _made(
    here: Context,
    shape: tuple[int, ...],
    dtype: torch.dtype,
    policy: PartitionPolicy,
    name: str | None,
    init_func: InitFunction | None,
) -> SharedRows:
    number = next(here.numbers)
    bounds = rank_bounds(policy.starts, here.size)
    begin, end = bounds[here.rank], bounds[here.rank + 1]

    def first() -> Tensor:
        return _initial(begin, end, shape, dtype, name or str(number), init_func)

    values: list[Tensor] = []
    here.together(lambda: values.append(first()))
    pieces = here.share(number, bounds, values.pop())
    return SharedRows(here, number, bounds, pieces, list(range(here.size)), read_only=False)


def _initial(
    begin: int,
    end: int,
    shape: tuple[int, ...],
    dtype: torch.dtype,
    name: str,
    init_func: InitFunction | None,
) -> Tensor:
    """Rows `begin` to `end`, of blocks that do not depend on the number of ranks."""
    if init_func is None:
        return torch.zeros((end - begin, *shape[1:]), dtype=dtype)
    result = torch.empty((end - begin, *shape[1:]), dtype=dtype)
    for first in range(begin - begin % _BLOCK, end, _BLOCK):
        last = min(first + _BLOCK, shape[0])
        words = f"{name}/{first}/{torch.initial_seed()}"
        seed = int.from_bytes(hashlib.sha256(words.encode()).digest()[:7], "little")
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            block = init_func((last - first, *shape[1:]), dtype)
        if not isinstance(block, Tensor) or tuple(block.shape) != (last - first, *shape[1:]):
            raise SmexValueError(
                f"DistTensor: expected init_func to return a tensor of shape "
                f"{[last - first, *shape[1:]]}, found {describe(block)}"
            )
        low, high = max(first, begin), min(last, end)
        result[low - begin : high - begin] = block[low - first : high - first].detach()
    return result
