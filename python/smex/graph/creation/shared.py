"""Graphs in memory that processes of a computer share by a name."""

from __future__ import annotations

import json
import os
import weakref
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from smex.errors import SmexRuntimeError, SmexValueError
from smex.graph.graph import Graph
from smex.graph.structure.relation import FORMATS, Relation

__all__ = ["hetero_from_shared_memory", "shared_memory"]

_MEMORY = Path("/dev/shm")
_ALIGNED = 64  # bytes, a cache line
_HEADER = 8  # bytes of its length


def shared_memory(g: Graph, name: str, formats: str | Sequence[str] = FORMATS) -> Graph:
    """Returns a graph without features whose structure is in memory that has a name.

    Other processes of the computer read the same memory by :func:`hetero_from_shared_memory`. The
    name is free again when the graph that is returned is gone, or its process has ended; who has
    read it keeps the memory.

    Args:
        g: the graph; on the CPU.
        name: of the memory.
        formats: which of ``coo``, ``csr`` and ``csc`` are there.

    Raises:
        SmexValueError: the name is taken, empty or has a slash, or a format does not exist.
        SmexRuntimeError: the system has no ``/dev/shm``.

    Example:
        >>> g = sg.graph(([0, 1], [1, 2]))
        >>> shared = g.shared_memory("doc_example")
        >>> sg.hetero_from_shared_memory("doc_example").edges()
        (tensor([0, 1]), tensor([1, 2]))
    """
    path = _path("shared_memory", name)
    wanted = [formats] if isinstance(formats, str) else list(formats)
    if not wanted or not set(wanted) <= set(FORMATS):
        raise SmexValueError(
            f"shared_memory: expected formats among 'coo', 'csr', 'csc', found {wanted}"
        )
    tensors: list[Tensor] = []
    relations = [
        _described(canonical, relation.to("cpu"), wanted, tensors)
        for canonical, relation in g._relations.items()
    ]
    sides = [g._src_num_nodes, g._dst_num_nodes if g.is_block else None]
    header = json.dumps({"relations": relations, "sides": sides}).encode()
    begins = _places(len(header), tensors)
    try:
        os.close(os.open(path, os.O_CREAT | os.O_EXCL, 0o600))
    except FileExistsError as error:
        raise SmexValueError(
            f'shared_memory: the name "{name}" is taken by a graph of this computer; choose '
            "another one, or let go of that graph"
        ) from error
    os.truncate(path, begins[-1])
    memory = torch.from_file(str(path), shared=True, size=begins[-1], dtype=torch.uint8)
    memory[:_HEADER] = torch.tensor(list(len(header).to_bytes(_HEADER, "little")))
    memory[_HEADER : _HEADER + len(header)] = torch.frombuffer(bytearray(header), dtype=torch.uint8)
    for begin, tensor in zip(begins, tensors):
        memory[begin : begin + tensor.nbytes].view(tensor.dtype).copy_(tensor)
    result = hetero_from_shared_memory(name)
    weakref.finalize(result, _forget, path, os.getpid())
    return result


def hetero_from_shared_memory(name: str) -> Graph:
    """Returns the graph that :func:`shared_memory` of this or another process gave a name.

    Raises:
        SmexValueError: there is none.
        SmexRuntimeError: the system has no ``/dev/shm``.
    """
    path = _path("hetero_from_shared_memory", name)
    if not path.exists():
        raise SmexValueError(
            f'hetero_from_shared_memory: there is no graph of the name "{name}"; call '
            "g.shared_memory(name), and keep the graph that it returns"
        )
    size = path.stat().st_size
    memory = torch.from_file(str(path), shared=True, size=size, dtype=torch.uint8)
    length = int.from_bytes(bytes(memory[:_HEADER].tolist()), "little")
    header = json.loads(bytes(memory[_HEADER : _HEADER + length].tolist()))
    begin = _aligned(_HEADER + length)
    relations = {}
    for each in header["relations"]:
        forms: dict[str, list[Tensor | None]] = {}
        for form, parts in each["forms"].items():
            forms[form] = []
            for dtype, count in parts:
                kind = getattr(torch, dtype)
                end = begin + count * kind.itemsize
                forms[form].append(None if count < 0 else memory[begin:end].view(kind))
                begin = begin if count < 0 else _aligned(end)
        relation = Relation.from_formats(forms, *each["sizes"])
        relations[tuple(each["kind"])] = relation.formats(list(forms))
    src, dst = header["sides"]
    return Graph(relations, src) if dst is None else Graph(relations, src, dst)


def _described(
    canonical: Sequence[str], relation: Relation, wanted: list[str], tensors: list[Tensor]
) -> dict[str, Any]:
    """Says which tensors a relation has, and adds them to a list."""
    forms: dict[str, list[tuple[str, int]]] = {}
    for form in wanted:
        forms[form] = []
        for part in getattr(relation, form)():
            count = -1 if part is None else part.numel()
            dtype = relation.idtype if part is None else part.dtype
            forms[form].append((str(dtype).rpartition(".")[2], count))
            if part is not None:
                tensors.append(part.contiguous())
    sizes = [relation.num_src, relation.num_dst]
    return {"kind": list(canonical), "sizes": sizes, "forms": forms}


def _places(header: int, tensors: list[Tensor]) -> list[int]:
    """Where each tensor begins, and the end of all."""
    found = [_aligned(_HEADER + header)]
    for tensor in tensors:
        found.append(_aligned(found[-1] + tensor.nbytes))
    return found


def _aligned(place: int) -> int:
    return -(-place // _ALIGNED) * _ALIGNED


def _path(op: str, name: str) -> Path:
    if not name or "/" in name:
        raise SmexValueError(f'{op}: expected a name without slashes, found "{name}"')
    if not _MEMORY.is_dir():
        raise SmexRuntimeError(
            f"{op}: expected a system with {_MEMORY}, such as Linux; use save_graphs and "
            "load_graphs"
        )
    return _MEMORY / f"smex_graph_{os.getuid()}_{name}"


def _forget(path: Path, process: int) -> None:
    if os.getpid() == process:  # not one that was forked
        path.unlink(missing_ok=True)
