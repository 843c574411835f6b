"""Checksums of what graphs in files consist of: CRC-32, as zlib computes it.

zlib is several times faster than the CRC-32 of torch's archives, which no reader of torch verifies
and which files of graphs therefore do not have.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor

__all__ = ["of_graphs", "of_tensors", "verify_graph", "verify_tensor", "without_those_of_torch"]

_NONE = -1  # in the place of a sparse tensor's


def _sum_of(tensor: Tensor) -> int:
    """Returns the checksum of all bytes that a tensor is a view of."""
    if tensor.layout != torch.strided:
        return _NONE
    flat = torch.empty(0, dtype=torch.uint8).set_(tensor.untyped_storage())
    return zlib.crc32(flat.numpy().data)


def of_tensors(tensors: Sequence[Tensor]) -> Tensor:
    """Returns the checksum of each tensor, int64."""
    return torch.tensor([_sum_of(tensor) for tensor in tensors], dtype=torch.int64)


def of_graphs(records: Tensor, ends: Tensor, small: Tensor, small_ends: Tensor) -> Tensor:
    """Returns for each graph the checksum of its record and its small tensors, int64.

    Args:
        records: uint8, the records of all graphs.
        ends: where each of them ends.
        small: uint8, the small tensors of all graphs.
        small_ends: where those of each graph end.
    """
    texts, numbers = records.numpy().data, small.numpy().data
    sums, start, small_start = [], 0, 0
    for end, small_end in zip(ends.tolist(), small_ends.tolist()):
        sums.append(zlib.crc32(numbers[small_start:small_end], zlib.crc32(texts[start:end])))
        start, small_start = end, small_end
    return torch.tensor(sums, dtype=torch.int64)


def verify_graph(content: Mapping[str, Any], n: int) -> None:
    """Raise a ValueError unless the record and the small tensors of graph `n` are as written."""
    sums = content.get("sums")
    if sums is None:  # written before there were any
        return
    bounds = (content["ends"], sums["small_ends"])
    parts = (content["records"], content["bytes"])
    found = 0
    for ends, part in zip(bounds, parts):
        start = int(ends[n - 1]) if n else 0
        found = zlib.crc32(part[start : int(ends[n])].numpy().data, found)
    _compare(found, int(sums["graphs"][n]))


def verify_tensor(tensor: Tensor, expected: Tensor | None) -> None:
    """Raise a ValueError unless a tensor's bytes have this checksum."""
    if expected is not None and int(expected) != _NONE:
        _compare(_sum_of(tensor), int(expected))


def _compare(found: int, expected: int) -> None:
    if found != expected:
        raise ValueError(f"its checksum is {found:08x} and was {expected:08x}")


@contextmanager
def without_those_of_torch() -> Iterator[None]:
    """Lets ``torch.save`` compute no checksums of its own."""
    before = torch.serialization.get_crc32_options()
    torch.serialization.set_crc32_options(False)
    try:
        yield
    finally:
        torch.serialization.set_crc32_options(before)
