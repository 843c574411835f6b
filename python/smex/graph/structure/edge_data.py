"""Edges as users pass them to constructors: pairs of id arrays, lists of pairs, CSR and CSC."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from smex.errors import SmexTypeError, SmexValueError
from smex.graph.structure.relation import Relation
from smex.graph.words import counted

_ARRAYS = {"coo": ("src", "dst"), "csr": ("indptr", "indices", "eids")}
_ARRAYS["csc"] = _ARRAYS["csr"]


class RawEdges(NamedTuple):
    """Edges in one of the formats, their arrays still of any kind."""

    form: str  # coo, csr or csc
    arrays: tuple[Any, ...]  # (src, dst) or (indptr, indices, eids)


class EdgeData(NamedTuple):
    """Checked edges: ids are non-negative, of one dtype and on one device."""

    form: str
    tensors: tuple[Tensor, ...]  # (src, dst), or (indptr, indices) and perhaps eids
    num_src: int | None  # the least number of source nodes; None: torch.export does not know it
    num_dst: int | None  # the same of destination nodes

    def relation(self, num_src: int, num_dst: int) -> Relation:
        """Returns the structure between at least as many nodes as the edges need."""
        if self.form == "coo":
            src, dst = self.tensors
            return Relation.from_coo(src, dst, num_src, num_dst, check=False)
        indptr, indices = self.tensors[:2]
        eids = self.tensors[2] if len(self.tensors) == 3 else None
        rows = num_src if self.form == "csr" else num_dst
        missing = rows + 1 - indptr.shape[0]
        if missing:
            indptr = torch.cat([indptr, indptr[-1:].expand(missing)])
        make = Relation.from_csr if self.form == "csr" else Relation.from_csc
        return make(indptr, indices, eids, num_src, num_dst)


def parse(op: str, data: Any) -> RawEdges:
    """Recognises the format of a constructor's argument.

    Raises:
        SmexTypeError: it is none of those that `op` takes.
        SmexValueError: the name of the format is unknown, or arrays are missing.
    """
    module = type(data).__module__.split(".")[0]
    if module in ("scipy", "networkx"):
        raise SmexTypeError(
            f"{op}: expected edges as arrays, found a {type(data).__name__} of {module}; "
            f"use from_{module}"
        )
    if isinstance(data, list):  # of pairs
        pairs = list(zip(*data)) if data else [(), ()]
        if len(pairs) != 2:
            raise SmexValueError(f"{op}: a list must hold (src, dst) pairs, found {data[0]!r}")
        return RawEdges("coo", tuple(pairs))
    if not isinstance(data, tuple):
        raise SmexTypeError(
            f"{op}: expected edges as (src, dst), a list of pairs, or a format with its arrays, "
            f"found {type(data).__name__}"
        )
    form, arrays = ("coo", data)
    if len(data) == 2 and isinstance(data[0], str):
        form, arrays = data
    if form not in _ARRAYS or len(arrays) != len(_ARRAYS[form]):
        raise SmexValueError(
            f"{op}: expected (src, dst), ('coo', (src, dst)), ('csr', (indptr, indices, eids)) or "
            f"('csc', (indptr, indices, eids)), found {form!r} with "
            f"{counted(len(arrays), 'array')}"
        )
    return RawEdges(form, tuple(arrays))


def choose_idtype(op: str, edges: Iterable[RawEdges], idtype: torch.dtype | None) -> torch.dtype:
    """Returns the dtype of ids: as asked for, or that of the tensors, or int64.

    Raises:
        SmexTypeError: it is not int32 or int64, or tensors differ.
    """
    found = {a.dtype for e in edges for a in e.arrays if isinstance(a, Tensor) and a.numel()}
    if idtype is None and len(found) > 1:
        raise SmexTypeError(
            f"{op}: ids must be of one dtype, found {sorted(map(str, found))}; pass idtype="
        )
    chosen = idtype or next(iter(found), None) or _dtype_of_empty(edges)
    if chosen not in (torch.int32, torch.int64):
        raise SmexTypeError(f"{op}: ids must be torch.int32 or torch.int64, found {chosen}")
    return chosen


def _dtype_of_empty(edges: Iterable[RawEdges]) -> torch.dtype:
    dtypes = [a.dtype for e in edges for a in e.arrays if isinstance(a, Tensor)]
    integer = [d for d in dtypes if d in (torch.int32, torch.int64)]
    return integer[0] if integer else torch.int64


def choose_device(edges: Iterable[RawEdges], device: Any) -> torch.device:
    """Returns the device: as asked for, or that of the first tensor, or the CPU."""
    if device is not None:
        return torch.device(device)
    tensors = [a for e in edges for a in e.arrays if isinstance(a, Tensor)]
    return tensors[0].device if tensors else torch.device("cpu")


def convert(op: str, edges: RawEdges, idtype: torch.dtype, device: torch.device) -> EdgeData:
    """Checked tensors of the edges, and how many nodes they need.

    Raises:
        SmexTypeError: an array does not hold integers.
        SmexValueError: an id is negative or does not fit into `idtype`, lengths differ, ``indptr``
            is no row pointer, or ``eids`` is no permutation.
    """
    names = _ARRAYS[edges.form]
    tensors = tuple(
        as_id_tensor(op, name, array, idtype, device) for name, array in zip(names, edges.arrays)
    )
    counts = [_check_range(op, name, t) for name, t in zip(names, tensors)]
    if edges.form == "coo":
        if tensors[0].shape != tensors[1].shape:
            raise SmexValueError(
                f"{op}: src and dst must be of one length, found {tensors[0].shape[0]} and "
                f"{tensors[1].shape[0]}"
            )
        return EdgeData("coo", tensors, *counts)
    indptr, indices, eids = tensors
    _check_indptr(op, indptr, indices.shape[0])
    if eids.numel():
        check_permutation(op, "eids", eids, indices.shape[0])
    tensors = tensors if eids.numel() else (indptr, indices)
    sizes = (indptr.shape[0] - 1, counts[1])
    return EdgeData(edges.form, tensors, *(sizes if edges.form == "csr" else reversed(sizes)))


def as_id_tensor(
    op: str, name: str, array: Any, idtype: torch.dtype, device: torch.device
) -> Tensor:
    """Returns a vector of ids; tensors that fit already are not copied."""
    tensor = array if isinstance(array, Tensor) else _tensor_of(op, name, array)
    if tensor.numel() == 0 and tensor.dim() == 1:
        return tensor.to(idtype).to(device)
    integer = not (tensor.dtype.is_floating_point or tensor.dtype.is_complex)
    if not integer or tensor.dtype == torch.bool or tensor.dim() != 1:
        raise SmexTypeError(
            f"{op}: {name} must be a vector of integers, found {tensor.dtype} of shape "
            f"{list(tensor.shape)}"
        )
    wrong = id_beyond(tensor, idtype)
    if wrong is not None:
        raise SmexValueError(
            f"{op}: {name} has id {wrong}, which does not fit into int32; use idtype=torch.int64"
        )
    return tensor.to(device=device, dtype=idtype)


def id_beyond(ids: Tensor, idtype: torch.dtype) -> int | None:
    """Returns an id that would become another one in 32 bits.

    Not looked for under torch.compile.
    """
    wide = ids.dtype == torch.int64 and idtype == torch.int32
    if not wide or torch.compiler.is_compiling() or ids.numel() == 0:
        return None
    limits = torch.iinfo(idtype)
    low, high = (int(x) for x in torch.aminmax(ids))
    if low < limits.min:
        return low
    return high if high > limits.max else None


def _tensor_of(op: str, name: str, array: Any) -> Tensor:
    """Ids from a sequence, an array or any iterable of integers."""
    try:
        values = np.asarray(array if hasattr(array, "__len__") else list(array))
        if values.dtype.kind == "f" and (values == np.floor(values)).all():
            values = values.astype(np.int64)  # whole numbers, as data frames hold them
        return torch.from_numpy(values.copy())
    except (TypeError, ValueError) as error:
        raise SmexTypeError(
            f"{op}: {name} must be a vector of integers, found {type(array).__name__}"
        ) from error


def _check_range(op: str, name: str, ids: Tensor) -> int | None:
    """Returns the number of nodes that ids ask for; None if torch.export does not know it."""
    if torch.compiler.is_exporting():
        return None
    if ids.numel() == 0:
        return 0
    low, high = (int(x) for x in torch.aminmax(ids))
    if low < 0:
        raise SmexValueError(f"{op}: {name} has id {low}, expected ids of at least 0")
    return high + 1


def _check_indptr(op: str, indptr: Tensor, num_edges: int) -> None:
    if torch.compiler.is_exporting():
        return
    starts = indptr.numel() > 0 and int(indptr[0]) == 0 and int(indptr[-1]) == num_edges
    if not starts or bool((indptr.diff() < 0).any()):
        raise SmexValueError(
            f"{op}: indptr must rise from 0 to the number of edges {num_edges}, found "
            f"{indptr[:3].tolist()} ... {indptr[-1:].tolist()}"
        )


def check_permutation(op: str, name: str, ids: Tensor, size: int) -> None:
    """Raise unless `ids` holds each of ``0 .. size - 1`` once."""
    if torch.compiler.is_exporting():
        return
    seen = torch.zeros(size, dtype=torch.bool, device=ids.device)
    if ids.shape[0] == size and not bool(((ids < 0) | (ids >= size)).any()):
        seen[ids.long()] = True
    if ids.shape[0] != size or not bool(seen.all()):
        raise SmexValueError(
            f"{op}: {name} must hold each of 0 to {size - 1} once, found "
            f"{counted(ids.shape[0], 'id')}"
        )
