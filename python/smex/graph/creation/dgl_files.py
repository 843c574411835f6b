"""Graphs in files that DGL wrote by ``save_graphs``, versions 0.5 to 2: read without DGL.

Numbers are little endian. A file begins with 4096 bytes, of which four numbers of 8 bytes are used:
a mark, the format (2), the kind of graphs (2), how many there are; then where graphs begin, the
labels, the graphs, where each of them begins, and how long that list is. A list is its length and
its elements, a text likewise, an array a mark, its dtype, shape and bytes. A graph is

* marks, and the graph of its types, whose nodes and edges are the types of nodes and of edges, as
  compressed rows;
* for each edge type a matrix: its entries in the order of edge ids, or compressed rows of sources
  or of destinations with edge ids;
* the number of nodes of each type, features of nodes and of edges by type, and names of the types.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from smex.graph.creation.convert import heterograph
from smex.graph.graph import Graph

__all__ = ["DglBytes", "DglFile", "ends_of_rows"]

_HEADER = 4096  # bytes
_FORMAT, _KIND = 2, 2
_MARKS = {
    "array": 0xDD5E40F096B4A13F,
    "coo": 0xDD61FFD305DFF127,
    "csr": 0xDD6CD31205DFF127,
    "file": 0xDD2E4FF046B4A13F,
    "graph": 0xDD589FBE35224ABF,
    "matrix": 0xDD2E60F0F6B4A127,
    "types": 0xDD3C5FFE20046ABF,
}
_CODES = {0: "i", 1: "u", 2: "f"}  # DGL's names of dtypes, and NumPy's
_COO, _CSR, _CSC = 1, 2, 4
_OLD_FORMATS = {0: _CSC, 1: _COO, 2: _CSR, 3: _CSC}
_MANY = 1 << 32  # in a number of formats: it is a set of them


class DglBytes:
    """What DGL writes graphs in, read from the front.

    Raises:
        ValueError: in all methods: something else is there.
    """

    def __init__(self, content: np.ndarray):
        self._bytes = content
        self._at = 0

    def take(self, size: int) -> np.ndarray:
        """Returns the next bytes."""
        part = self._bytes[self._at : self._at + size]
        if len(part) != size:
            raise ValueError("its end is missing")
        self._at += size
        return part

    def number(self, kind: str = "<Q") -> int:
        """Returns the next number, by default of 8 bytes."""
        return struct.unpack(kind, self.take(struct.calcsize(kind)).tobytes())[0]

    def marked(self, name: str) -> None:
        """Raise unless a mark is next."""
        found = self.number()
        if found != _MARKS[name]:
            raise ValueError(f"expected the mark of {name}, found {found:#x}")

    def listed(self, element: Callable[[], Any]) -> list[Any]:
        """Returns the next list, whose elements a function reads."""
        return [element() for _ in range(self.number())]

    def text(self) -> str:
        """Returns the next text."""
        return self.take(self.number()).tobytes().decode()

    def named(self) -> tuple[str, Tensor]:
        """Returns the next text and array."""
        return self.text(), self.array()

    def array(self) -> Tensor:
        """Returns the next array."""
        self.marked("array")
        self._at += 16  # a reserved number and the device
        dims = self.number("<i")
        code, bits, lanes = struct.unpack("<BBH", self.take(4).tobytes())
        shape = [self.number("<q") for _ in range(dims)]
        size = self.number("<q")
        if code not in (*_CODES, 4) or bits % 8 or lanes != 1:
            raise ValueError(f"expected a dtype of numbers, found {code}, {bits}, {lanes}")
        if size != math.prod(shape) * bits // 8:
            raise ValueError(f"an array of shape {shape} has {size} bytes")
        kind = np.dtype(f"<{_CODES.get(code, 'i')}{bits // 8}")
        values = torch.from_numpy(self.take(size).view(kind).reshape(shape).copy())
        return values.view(torch.bfloat16) if code == 4 else values

    def types(self) -> tuple[list[int], list[int]]:
        """Returns the source and the destination type of each edge type."""
        self.marked("types")
        src, dst = self.rows()
        return src.tolist(), dst.tolist()

    def entries(self) -> tuple[Tensor, Tensor]:
        """Returns the ends of edges in the order of their ids."""
        self.marked("coo")
        self._at += 16  # numbers of columns and rows
        src, dst, ids = (self.array() for _ in range(3))
        self._at += 2  # whether they are sorted
        return _by_id(src, ids), _by_id(dst, ids)

    def rows(self) -> tuple[Tensor, Tensor]:
        """Returns the rows and columns of compressed rows in the order of ids."""
        self.marked("csr")
        self._at += 16
        bounds, columns, ids = (self.array() for _ in range(3))
        self._at += 1
        return ends_of_rows(bounds, columns, ids)


class DglFile(DglBytes):
    """A file of DGL's, mapped into memory: what is not asked for is not read.

    Raises:
        ValueError: the file is damaged, or of another format.
        OSError: it cannot be read.
    """

    def __init__(self, filename: Any):
        super().__init__(np.memmap(filename, np.uint8, "r"))
        self.marked("file")
        found = (self.number(), self.number())
        if found != (_FORMAT, _KIND):
            raise ValueError(f"expected format {_FORMAT} of graphs of kind {_KIND}, found {found}")
        self._size = self.number()
        self._at = _HEADER
        self._first = self.number()

    def __len__(self) -> int:
        """Number of graphs."""
        return self._size

    def labels(self) -> dict[str, Tensor]:
        """Returns the labels by name."""
        self._at = _HEADER + 8
        return dict(self.listed(self.named))

    def graphs(self, wanted: Sequence[int]) -> list[Graph]:
        """Returns the graphs at some positions."""
        end = len(self._bytes) - 8
        self._at = end
        self._at = end - self.number()
        starts = self.listed(self.number)
        if len(starts) != self._size:
            raise ValueError(f"it has {self._size} graphs and {len(starts)} places of graphs")
        return [self._graph(starts[n]) for n in wanted]

    # ---- graphs ----

    def _graph(self, start: int) -> Graph:
        self._at = start
        self.marked("graph")
        types = self.types()
        ends = self.listed(self._matrix)
        sizes = self.listed(lambda: self.number("<q"))
        features = [self.listed(lambda: dict(self.listed(self.named))) for _ in range(2)]
        ntypes, etypes = self.listed(self.text), self.listed(self.text)
        canonical = [
            (ntypes[src], etypes[n], ntypes[dst]) for n, (src, dst) in enumerate(zip(*types))
        ]
        made = heterograph(dict(zip(canonical, ends)), dict(zip(ntypes, sizes)))
        for ntype, rows in zip(ntypes, features[0]):
            made.nodes[ntype].data.update(rows)
        for etype, rows in zip(canonical, features[1]):
            made.edges[etype].data.update(rows)
        return made

    def _matrix(self) -> tuple[Tensor, Tensor]:
        """Returns the ends of edges in the order of their ids."""
        self.marked("matrix")
        saved = self.number()
        self._at += 8  # the formats that may be made
        formats = saved % _MANY if saved >= _MANY else _OLD_FORMATS[saved]
        found = None
        for kind in (_COO, _CSR, _CSC):
            if formats & kind:
                self.types()
                ends = self.entries() if kind == _COO else self.rows()
                found = found or (ends[::-1] if kind == _CSC else ends)
        if found is None:
            raise ValueError(f"expected a format of edges, found {saved}")
        return found


def ends_of_rows(bounds: Tensor, columns: Tensor, ids: Tensor) -> tuple[Tensor, Tensor]:
    """Returns the rows and columns of compressed rows in the order of ids."""
    rows = torch.repeat_interleave(bounds.diff().long()).to(columns.dtype)
    return _by_id(rows, ids), _by_id(columns, ids)


def _by_id(values: Tensor, ids: Tensor) -> Tensor:
    """Returns the values of edges in the order of their ids; none of these: they count up."""
    return torch.empty_like(values).index_copy_(0, ids.long(), values) if len(ids) else values
