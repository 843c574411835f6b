"""Records with references in the place of their tensors, as files of graphs hold them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from smex.graph.creation import checksums

__all__ = ["Packed", "as_bytes", "record_of", "unpacked"]

_SMALL = 1 << 16  # bytes of a tensor from which it has a place of its own in the file
_ALIGN = 16  # bytes, of the largest numbers


class Packed:
    """The tensors of records, apart from these: a file of thousands of them is slow to open."""

    def __init__(self) -> None:
        self.small: list[Tensor] = []
        self.large: list[Tensor] = []
        self.size = 0

    def of(self, value: Any) -> Any:
        """Returns a record with references in the place of its tensors, which are kept."""
        if isinstance(value, Mapping):
            return {key: self.of(each) for key, each in value.items()}
        if isinstance(value, (list, tuple)):
            return [self.of(each) for each in value]
        return self._reference(value) if isinstance(value, Tensor) else value

    def _reference(self, tensor: Tensor) -> dict[str, Any]:
        if tensor.layout != torch.strided or tensor.nbytes > _SMALL:
            self.large.append(tensor)
            return {"tensor": [len(self.large) - 1]}
        numbers = tensor.resolve_conj().resolve_neg().clone(memory_format=torch.contiguous_format)
        flat = torch.empty(0, dtype=torch.uint8).set_(numbers.untyped_storage())
        start = self.size
        self.small += [flat, flat.new_zeros(-flat.shape[0] % _ALIGN)]
        self.size += sum(part.shape[0] for part in self.small[-2:])
        return {"tensor": [str(tensor.dtype).removeprefix("torch."), list(tensor.shape), start]}


def unpacked(value: Any, content: Mapping[str, Any]) -> Any:
    """Returns the reverse of :meth:`Packed.of`; tensors are copies."""
    if isinstance(value, list):
        return [unpacked(each, content) for each in value]
    if not isinstance(value, dict):
        return value
    reference = value.get("tensor")
    if not isinstance(reference, list):
        return {key: unpacked(each, content) for key, each in value.items()}
    if len(reference) == 1:
        found, sums = content["tensors"][reference[0]], content.get("sums")
        checksums.verify_tensor(found, None if sums is None else sums["tensors"][reference[0]])
        return found.clone()
    name, shape, start = reference
    result = torch.empty(shape, dtype=getattr(torch, name))
    part = content["bytes"][start : start + result.nbytes]
    return result.copy_(part.view(result.dtype).view(shape)) if result.nbytes else result


def record_of(content: Mapping[str, Any], n: int) -> Any:
    """Returns the record of graph `n`."""
    ends = content["ends"]
    start = int(ends[n - 1]) if n else 0
    return json.loads(content["records"][start : int(ends[n])].numpy().tobytes())


def as_bytes(text: bytes) -> Tensor:
    """Returns bytes as a tensor, uint8."""
    return (
        torch.frombuffer(bytearray(text), dtype=torch.uint8)
        if text
        else torch.empty(0, dtype=torch.uint8)
    )
