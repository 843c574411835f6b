"""Graphs in files: all that they consist of, as one ``torch.save`` file of plain tensors.

A file holds tensors, numbers, strings, None, and lists and dicts of these, so that
``torch.load(path, weights_only=True)`` reads it:

* ``format`` and ``version``: ``"smex-graphs"`` and 2;
* ``labels``: {name: tensor};
* ``records`` and ``ends``: uint8, the graphs' records as JSON, one behind the other, and int64,
  where each of them ends, so that one graph is read without the others;
* ``bytes``: uint8, the small tensors of all graphs, and ``tensors``: a list of the others;
* ``sums``: checksums, CRC-32, which are verified for what is loaded: ``graphs``, of each graph's
  record and small tensors, which end at ``small_ends``; ``tensors``; ``labels``. Files of earlier
  versions of SMEX have none.

A record holds, with ``{"tensor": [dtype, shape, first byte]}`` or ``{"tensor": [position]}`` in the
place of a tensor:

* ``idtype``: ``"int32"`` or ``"int64"``;
* ``nodes``: {node type: {``number``, ``features``}}, of a block those of the source side;
* ``dst_nodes``: the same of a block's destination side; None for other graphs;
* ``edges``: by edge type id ``type`` (three names), ``allowed`` (names of formats), ``formats``
  ({name: tensors, or None for edge ids that count up}) and ``features``;
* ``batch_num_nodes`` and ``batch_num_edges``: sizes of a batch by node type, and by edge type id;
  None where they were not set.
"""

from __future__ import annotations

import copy
import json
import os
import pickle
import secrets
import zipfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from smex.errors import SmexTypeError, SmexValueError
from smex.graph.creation import checksums
from smex.graph.creation.dgl_files import DglFile
from smex.graph.creation.packing import Packed, as_bytes, record_of, unpacked
from smex.graph.features.frame import Frame
from smex.graph.graph import Graph
from smex.graph.structure.relation import FORMATS, Relation
from smex.graph.words import CanonicalType

__all__ = ["load_graphs", "load_labels", "save_graphs"]

_FORMAT, _VERSION = "smex-graphs", 2
_ZIP_BEGIN = b"PK\x03\x04"
_DGL_BEGIN = (0xDD2E4FF046B4A13F).to_bytes(8, "little")  # of the files that DGL writes

FileName = str | os.PathLike[str]


def save_graphs(
    filename: FileName,
    g_list: Graph | Sequence[Graph],
    labels: Mapping[str, Tensor] | None = None,
    formats: str | Sequence[str] | None = None,
) -> None:
    """Writes graphs with all their features to one file; blocks and batches too.

    The file appears when it is complete: after a failure an older one is there as it was. Devices,
    initialisers and whether features require gradients are not kept.

    Args:
        filename: path of the file; folders that do not exist are made.
        g_list: a graph, or a list of graphs.
        labels: tensors by name, such as ones with a row for each graph.
        formats: names among "coo", "csr" and "csc": the sparse formats to write, which are made
            where they do not exist. By default those that exist; "coo" makes the smallest file.

    Raises:
        SmexTypeError: there is something that is no graph, or a label is no tensor.
        SmexValueError: a label has another number of rows, or a format is unknown.
        OSError: the file cannot be written.

    Example:
        >>> import os, tempfile
        >>> path = os.path.join(tempfile.mkdtemp(), "graphs.bin")
        >>> g = sg.graph(([0, 1], [1, 2]))
        >>> g.ndata["h"] = torch.ones(3, 5)
        >>> sg.save_graphs(path, [g, sg.reverse(g)], {"y": torch.tensor([0, 1])})
        >>> graphs, labels = sg.load_graphs(path)
        >>> graphs[0].ndata["h"].shape, labels
        (torch.Size([3, 5]), {'y': tensor([0, 1])})
    """
    graphs = [g_list] if isinstance(g_list, Graph) else list(g_list)
    labels = dict(labels or {})
    _check(graphs, labels)
    content = _content([_graph_record(g, formats) for g in graphs], labels)
    _write(Path(os.path.realpath(filename)), content)


def load_graphs(
    filename: FileName, idx_list: Iterable[int] | None = None
) -> tuple[list[Graph], dict[str, Tensor]]:
    """Graphs that :func:`save_graphs` wrote, here or in DGL, on the CPU.

    Args:
        filename: path of the file.
        idx_list: which graphs, by their positions in the file; all by default. The others are not
            read.

    Returns:
        The graphs, and the labels of all graphs in the file, whichever are read.

    Raises:
        SmexValueError: the file is not one of :func:`save_graphs`, incomplete, damaged (by the
            checksums of what is read) or of a later version, or has no graph at a position.
        OSError: the file does not exist or cannot be read.
    """
    if _is_of_dgl(filename):
        return _of_dgl("load_graphs", filename, idx_list)
    content = _read("load_graphs", filename)
    number = content["ends"].shape[0]
    wanted = _positions(filename, number, idx_list)
    graphs = []
    for n in wanted:
        try:
            checksums.verify_graph(content, n)
            graphs.append(_graph(unpacked(record_of(content, n), content)))
        except (AttributeError, LookupError, RuntimeError, TypeError, ValueError) as error:
            raise SmexValueError(
                f"load_graphs: graph {n} in {filename} is damaged, {error}; write it again"
            ) from error
    return graphs, _labels("load_graphs", filename, content)


def load_labels(filename: FileName) -> dict[str, Tensor]:
    """Returns the labels in a file that :func:`save_graphs` wrote, by name.

    The graphs are not read.

    Raises:
        SmexValueError: as for :func:`load_graphs`.
        OSError: the file does not exist or cannot be read.
    """
    if _is_of_dgl(filename):
        return _of_dgl("load_labels", filename, ())[1]
    return _labels("load_labels", filename, _read("load_labels", filename))


def _positions(filename: FileName, number: int, idx_list: Iterable[int] | None) -> Sequence[int]:
    """Returns the positions of the graphs that are asked for."""
    wanted = range(number) if idx_list is None else [int(n) for n in idx_list]
    for n in wanted:
        if not 0 <= n < number:
            raise SmexValueError(
                f"load_graphs: {filename} has {number} graphs, expected positions of at least 0 "
                f"and below that, found {n}"
            )
    return wanted


def _labels(op: str, filename: FileName, content: Mapping[str, Any]) -> dict[str, Tensor]:
    """Returns copies of a file's labels."""
    labels, sums = content["labels"], content.get("sums")
    for n, (name, label) in enumerate(labels.items()):
        try:
            checksums.verify_tensor(label, None if sums is None else sums["labels"][n])
        except ValueError as error:
            raise SmexValueError(
                f'{op}: label "{name}" in {filename} is damaged, {error}; write it again'
            ) from error
    return copy.deepcopy(labels)


def _check(graphs: Sequence[Any], labels: Mapping[str, Any]) -> None:
    for n, g in enumerate(graphs):
        if not isinstance(g, Graph):
            raise SmexTypeError(
                f"save_graphs: expected a graph or a list of graphs, found {type(g).__name__} at "
                f"position {n}"
            )
    for name, label in labels.items():
        if not isinstance(name, str) or not isinstance(label, Tensor):
            raise SmexTypeError(
                f"save_graphs: expected labels as tensors by name, found {name!r} with "
                f"{type(label).__name__}"
            )


# ---- records and their tensors ----


def _content(records: Sequence[Any], labels: Mapping[str, Tensor]) -> dict[str, Any]:
    """Returns what a file holds."""
    packed = Packed()
    texts, small_ends = [], []
    for record in records:
        texts.append(json.dumps(packed.of(record)).encode())
        small_ends.append(packed.size)
    content = {
        "format": _FORMAT,
        "version": _VERSION,
        "labels": _plain(labels),
        "records": as_bytes(b"".join(texts)),
        "ends": torch.tensor([len(text) for text in texts], dtype=torch.int64).cumsum(0),
        "bytes": torch.cat(packed.small) if packed.small else as_bytes(b""),
        "tensors": packed.large,
    }
    return {**content, "sums": _sums(content, torch.tensor(small_ends, dtype=torch.int64))}


def _sums(content: Mapping[str, Any], small_ends: Tensor) -> dict[str, Any]:
    parts = (content["records"], content["ends"], content["bytes"], small_ends)
    return {
        "graphs": checksums.of_graphs(*parts),
        "small_ends": small_ends,
        "tensors": checksums.of_tensors(content["tensors"]),
        "labels": checksums.of_tensors(list(content["labels"].values())),
    }


# ---- graphs as plain values ----


def _graph_record(g: Graph, formats: str | Sequence[str] | None) -> dict[str, Any]:
    relations, sizes = g._relations, g._batch_num_edges
    return {
        "idtype": str(g.idtype).removeprefix("torch."),
        "nodes": _node_records(g._src_frames),
        "dst_nodes": _node_records(g._dst_frames) if g.is_block else None,
        "edges": [_edge_record(c, r, g._edge_frames[c], formats) for c, r in relations.items()],
        "batch_num_nodes": _plain(g._batch_num_nodes),
        "batch_num_edges": None if sizes is None else [_plain(sizes.get(c)) for c in relations],
    }


def _node_records(frames: Mapping[str, Frame]) -> dict[str, Any]:
    return {
        ntype: {"number": frame.num_rows, "features": _plain(dict(frame.items()))}
        for ntype, frame in frames.items()
    }


def _edge_record(
    canonical: CanonicalType,
    relation: Relation,
    frame: Frame,
    formats: str | Sequence[str] | None,
) -> dict[str, Any]:
    written = relation
    if formats is not None:
        written = relation.formats(formats)
        written.create_formats_()
    return {
        "type": list(canonical),
        "allowed": relation.allowed_formats(),
        "formats": {name: _plain(getattr(written, name)()) for name in written.created_formats()},
        "features": _plain(dict(frame.items())),
    }


def _plain(value: Any) -> Any:
    """Tensors on the CPU, without history and without the rest of a storage that they view."""
    if isinstance(value, Mapping):
        return {key: _plain(each) for key, each in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(each) for each in value]
    if not isinstance(value, Tensor):
        return value
    tensor = value.detach().cpu().as_subclass(Tensor)
    if tensor.layout != torch.strided:
        return tensor
    own_bytes = tensor.numel() * tensor.element_size()
    if tensor.untyped_storage().nbytes() == own_bytes:
        return tensor
    return tensor.clone(memory_format=torch.contiguous_format)


def _graph(record: Mapping[str, Any]) -> Graph:
    """Returns the reverse of _graph_record."""
    src_frames = _frames(record["nodes"])
    dst_frames = None if record["dst_nodes"] is None else _frames(record["dst_nodes"])
    relations, edge_frames = {}, {}
    for edges in record["edges"]:
        src_type, name, dst_type = edges["type"]
        num_src = src_frames[src_type].num_rows
        num_dst = (src_frames if dst_frames is None else dst_frames)[dst_type].num_rows
        relation = Relation.from_formats(edges["formats"], num_src, num_dst)
        if edges["allowed"] != list(FORMATS):
            relation = relation.formats(edges["allowed"])
        relations[src_type, name, dst_type] = relation
        edge_frames[src_type, name, dst_type] = _frame(relation.num_edges, edges["features"])
    batch_num_edges = record["batch_num_edges"]
    if batch_num_edges is not None:
        batch_num_edges = {c: s for c, s in zip(relations, batch_num_edges) if s is not None}
    return Graph(
        relations,
        _sizes(src_frames),
        None if dst_frames is None else _sizes(dst_frames),
        src_frames=src_frames,
        dst_frames=dst_frames,
        edge_frames=edge_frames,
        batch_num_nodes=record["batch_num_nodes"],
        batch_num_edges=batch_num_edges,
        idtype={"int32": torch.int32, "int64": torch.int64}[record["idtype"]],
    )


def _frames(records: Mapping[str, Any]) -> dict[str, Frame]:
    return {ntype: _frame(each["number"], each["features"]) for ntype, each in records.items()}


def _frame(num_rows: int, features: Mapping[str, Tensor]) -> Frame:
    result = Frame(num_rows)
    result.update(features)
    return result


def _sizes(frames: Mapping[str, Frame]) -> dict[str, int]:
    return {ntype: frame.num_rows for ntype, frame in frames.items()}


# ---- files ----


def _write(path: Path, content: Mapping[str, Any]) -> None:
    """Writes a file beside `path` and renames it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(f"{path.name}.{secrets.token_hex(4)}.part")
    try:
        with part.open("xb") as file, checksums.without_those_of_torch():
            torch.save(content, part)  # by its name: torch writes without Python's buffers
            os.fsync(file.fileno())
        part.replace(path)
    except BaseException:
        part.unlink(missing_ok=True)
        raise


def _is_of_dgl(filename: FileName) -> bool:
    with open(filename, "rb") as file:
        return file.read(8) == _DGL_BEGIN


def _of_dgl(
    op: str, filename: FileName, idx_list: Iterable[int] | None
) -> tuple[list[Graph], dict[str, Tensor]]:
    """Returns graphs and labels of a file that DGL wrote."""
    with _told_of_dgl(op, filename):
        file = DglFile(filename)
    wanted = _positions(filename, len(file), idx_list)
    with _told_of_dgl(op, filename):
        return file.graphs(wanted), file.labels()


@contextmanager
def _told_of_dgl(op: str, filename: FileName) -> Iterator[None]:
    """Lets errors name the file."""
    try:
        yield
    except (LookupError, OverflowError, RuntimeError, ValueError) as error:
        raise SmexValueError(
            f"{op}: {filename} was written by DGL and is not read: {error}; write it again with "
            "DGL 0.5 or later"
        ) from error


def _read(op: str, filename: FileName) -> dict[str, Any]:
    """Returns what a file holds, mapped into memory: what is not asked for is not read."""
    with open(filename, "rb") as file:
        begin = file.read(8)
    if begin.startswith(_ZIP_BEGIN) and not zipfile.is_zipfile(filename):
        raise SmexValueError(
            f"{op}: {filename} is incomplete, its end is missing; copy or write it again"
        )
    content = None
    if begin.startswith(_ZIP_BEGIN):
        try:
            content = torch.load(filename, map_location="cpu", weights_only=True, mmap=True)
        except (EOFError, LookupError, RuntimeError, ValueError, pickle.UnpicklingError) as error:
            raise _foreign(op, filename) from error
    if not isinstance(content, dict) or content.get("format") != _FORMAT:
        raise _foreign(op, filename)
    if content.get("version") != _VERSION:
        raise SmexValueError(
            f"{op}: {filename} has version {content.get('version')} of the format, expected "
            f"{_VERSION}; read it with the version of SMEX that wrote it, or a later one"
        )
    return content


def _foreign(op: str, filename: FileName) -> SmexValueError:
    return SmexValueError(
        f"{op}: {filename} holds something else, expected a file that save_graphs wrote"
    )
