"""Graphs in the format of DGL's ``save_graphs``, of DGL 0.5 and later."""

from __future__ import annotations

import io
import struct
from pathlib import Path

import numpy as np

MARKS = {
    "array": 0xDD5E40F096B4A13F,
    "coo": 0xDD61FFD305DFF127,
    "csr": 0xDD6CD31205DFF127,
    "file": 0xDD2E4FF046B4A13F,
    "graph": 0xDD589FBE35224ABF,
    "matrix": 0xDD2E60F0F6B4A127,
    "types": 0xDD3C5FFE20046ABF,
}
NO_IDS = np.zeros(0, np.int64)


def numbers(*values):
    return struct.pack(f"<{len(values)}Q", *values)


def text(word):
    return numbers(len(word)) + word.encode()


def array(values):
    values = np.ascontiguousarray(values)
    code = {"i": 0, "u": 1, "b": 1, "f": 2}[values.dtype.kind]
    head = numbers(MARKS["array"], 0) + struct.pack("<iii", 1, 0, values.ndim)
    head += struct.pack("<BBH", code, values.dtype.itemsize * 8, 1)
    head += struct.pack(f"<{values.ndim}q", *values.shape)
    return head + struct.pack("<q", values.nbytes) + values.tobytes()


def named(arrays):
    parts = (text(name) + array(values) for name, values in arrays.items())
    return numbers(len(arrays)) + b"".join(parts)


def rows(src, dst, num_rows, num_columns):
    """Compressed rows with edge ids."""
    order = np.argsort(src, kind="stable")
    bounds = np.searchsorted(src[order], np.arange(num_rows + 1))
    arrays = (bounds.astype(src.dtype), dst[order], order.astype(src.dtype))
    return numbers(MARKS["csr"], num_columns, num_rows) + b"".join(map(array, arrays)) + b"\0"


def entries(src, dst, num_rows, num_columns):
    head = numbers(MARKS["coo"], num_columns, num_rows)
    return head + array(src) + array(dst) + array(NO_IDS) + b"\0\0"


def types(src, dst, number):
    return numbers(MARKS["types"]) + rows(np.array(src), np.array(dst), number, number)


def graph(edges, sizes, ndata, edata, form="coo"):
    """The bytes of a graph; arguments are those of `heterograph`, and features by type."""
    ntypes = list(sizes)
    ends = [[ntypes.index(c[side]) for c in edges] for side in (0, 2)]
    made = numbers(MARKS["graph"]) + types(*ends, len(ntypes)) + numbers(len(edges))
    for (source, _, target), (src, dst) in edges.items():
        shape, pair = (sizes[source], sizes[target]), (src, dst)
        saved = {"coo": 1, "csr": 2, "csc": 4}[form]
        made += numbers(MARKS["matrix"], saved | 1 << 32, 7 | 1 << 32)
        made += types([0], [0], 1) if source == target else types([0], [1], 2)
        if form == "csc":
            shape, pair = shape[::-1], pair[::-1]
        made += (entries if form == "coo" else rows)(*pair, *shape)
    made += numbers(len(sizes)) + numbers(*sizes.values())
    for data, names in ((ndata, ntypes), (edata, edges)):
        made += numbers(len(names)) + b"".join(named(data.get(name, {})) for name in names)
    for names in (ntypes, [name for _, name, _ in edges]):
        made += numbers(len(names)) + b"".join(map(text, names))
    return made


def write_dgl_graphs(path, graphs, labels=None):
    """A file of graphs, which :func:`graph` made, and labels by name."""
    file = io.BytesIO()
    file.write(numbers(MARKS["file"], 2, 2, len(graphs)).ljust(4096, b"\0"))
    head = named(labels or {})
    file.write(numbers(4096 + 8 + len(head)) + head)
    starts = []
    for content in graphs:
        starts.append(file.tell())
        file.write(content)
    places = numbers(len(starts)) + numbers(*starts)
    file.write(numbers(len(places)) + places + numbers(len(places)))
    Path(path).parent.mkdir(parents=True, exist_ok=True)
    Path(path).write_bytes(file.getvalue())
