"""A graph written in parts, and read as files that are mapped into memory."""

from __future__ import annotations

import os
import pathlib
from collections.abc import Mapping
from typing import Any, NamedTuple

import torch
from torch import Tensor

from smex.errors import SmexTypeError, SmexValueError
from smex.graph.constants import DEFAULT_ETYPE, DEFAULT_NTYPE, EID, ETYPE, NID, NTYPE
from smex.graph.distributed.assignment import assigned_parts
from smex.graph.distributed.book import GraphPartitionBook
from smex.graph.distributed.files import (
    FileEntry,
    check_column,
    entry_of,
    map_column,
    read_manifest,
)
from smex.graph.distributed.writer import KIND, GraphWriter
from smex.graph.features.frame import Frame
from smex.graph.graph import Graph
from smex.graph.sampling.arguments import check_count
from smex.graph.structure.formats import Structure
from smex.graph.structure.relation import Compressed, Relation, unique_and_relabel
from smex.graph.words import CanonicalType

__all__ = [
    "load_partition",
    "load_partition_book",
    "load_partition_feats",
    "partition_graph",
]

_HARMLESS = {"store_eids", "store_inner_node", "store_inner_edge", "n_jobs"}
"""Options of DGL's other formats, which mean nothing here."""


def partition_graph(
    g: Graph,
    graph_name: str,
    num_parts: int,
    out_path: str | os.PathLike,
    num_hops: int = 1,
    part_method: Any = "metis",
    balance_ntypes: Any = None,
    balance_edges: bool = False,
    return_mapping: bool = False,
    num_trainers_per_machine: int = 1,
    objtype: str = "cut",
    graph_formats: Any = None,
    use_graphbolt: bool = False,
    **kwargs: Any,
) -> Any:
    """Writes a graph in parts, for :class:`DistGraph`.

    Nodes are renumbered so that those of a part follow one another, of each type, in their old
    order; edges by their destinations, those of one in their old order, so that the edges into the
    nodes of a part follow one another too.

    The folder `out_path` has ``GRAPH_NAME.json``, the manifest, which is written last; below
    ``GRAPH_NAME/structure`` the edges of the whole graph by destination, once; and below
    ``GRAPH_NAME/partN`` the features of each part's nodes and edges and their old ids. All files
    are plain numbers that are mapped into memory; the manifest has their types, shapes and sums.

    Args:
        g: the graph, of any types.
        graph_name: names the files.
        num_parts: number of parts, usually one for each machine or rank.
        out_path: the folder, which is made.
        num_hops: how many steps the halo that :func:`load_partition` adds to a part goes; 1 at
            least.
        part_method: ``"metis"`` (few edges between parts; :func:`metis_partition_assignment`),
            ``"fennel"`` or ``"ldg"`` (the streams of :func:`partition_files`, without pymetis),
            ``"random"``, ``"range"`` (equal ranges of the ids as they are), or the part of each
            node ``[num_nodes]``, a dict of these where there are several node types.
        balance_ntypes: with METIS and streams, a kind of each node ``[num_nodes]``, such as a
            training mask, by node type where there are several; parts then have about as many nodes
            of each kind of each type. True: of each type.
        balance_edges: with METIS and streams, whether parts have about as many edges.
        return_mapping: whether the old ids are returned.
        num_trainers_per_machine: taken for compatibility; ranks share the parts evenly.
        objtype: as for :func:`metis_partition_assignment`.
        graph_formats: taken for compatibility; other forms are made when they are needed.
        use_graphbolt: taken for compatibility.
        kwargs: options of DGL's other formats, which are ignored.

    Returns:
        None; with `return_mapping` the old ids of all nodes and of all edges in their new order,
        int64, as dicts by type where there are several.

    Raises:
        SmexImportError: pymetis is not installed, and METIS asked for.
        SmexTypeError: a feature is of a type that has no name in files, an option does not exist,
            or a dict by type is missing.
        SmexValueError: an argument is impossible.
        SmexRuntimeError: a file cannot be written.

    Example:
        >>> import tempfile
        >>> import smex.graph as sg
        >>> g = sg.rand_graph(100, 400)
        >>> g.ndata["x"] = torch.arange(100.0)
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     nodes, edges = sg.distributed.partition_graph(
        ...         g, "small", 2, folder, part_method="range", return_mapping=True)
        ...     sg.distributed.load_partition_feats(folder, 1)[0]["_N/x"][0]
        tensor(50.)
    """
    op = "partition_graph"
    if not isinstance(g, Graph) or g.is_block:
        raise SmexTypeError(f"{op}: expected a graph that is no block, found {type(g).__name__}")
    num_parts, num_hops = check_names(op, graph_name, num_parts, num_hops)
    unknown = [option for option in kwargs if option not in _HARMLESS]
    if unknown:
        raise SmexTypeError(f"{op}: expected no option {unknown[0]!r}, found it given")
    on_cpu = g.cpu()
    parts = assigned_parts(
        op, on_cpu, num_parts, part_method, balance_ntypes, balance_edges, objtype
    )
    nodes = {ntype: torch.argsort(part, stable=True) for ntype, part in parts.items()}
    node_map = {t: starts_of(part, num_parts) for t, part in parts.items()}
    writer = GraphWriter(pathlib.Path(out_path), graph_name)
    edge_map, edges = {}, {}
    for number, (canonical, relation) in enumerate(on_cpu._relations.items()):
        indptr, indices, old = _by_new_ids(relation, nodes[canonical[0]], nodes[canonical[2]])
        edges[canonical] = old
        edge_map[canonical] = indptr[torch.tensor(node_map[canonical[2]])].tolist()
        writer.structure(number, indptr, indices)
    for number, ntype in enumerate(on_cpu.ntypes):
        frame, old = on_cpu._src_frames[ntype], nodes[ntype]
        writer.rows("node", number, node_map[ntype], frame, old)
    for number, canonical in enumerate(on_cpu.canonical_etypes):
        frame, old = on_cpu._edge_frames[canonical], edges[canonical]
        writer.rows("edge", number, edge_map[canonical], frame, old)
    writer.finish(num_parts, num_hops, g.idtype, node_map, edge_map)
    if not return_mapping:
        return None
    by_type = (nodes, edges)
    return tuple(m if len(m) > 1 else next(iter(m.values())) for m in by_type)


def check_names(op: str, name: Any, num_parts: Any, num_hops: Any) -> tuple[int, int]:
    """Returns the numbers; raises unless files can be named and the numbers are possible."""
    if not isinstance(name, str) or not name or pathlib.PurePath(name).name != name:
        raise SmexValueError(f"{op}: expected graph_name fit for a file, found {name!r}")
    return check_count(op, "num_parts", num_parts, 1), check_count(op, "num_hops", num_hops, 1)


def starts_of(part: Tensor, num_parts: int) -> list[int]:
    """Returns where the nodes of each part begin, and where the last one's end."""
    return [0, *torch.bincount(part, minlength=num_parts).cumsum(0).tolist()]


def _by_new_ids(
    relation: Relation, sources: Tensor, destinations: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """The edges by new destination: indptr, new sources, and the edges' old ids."""
    indptr, columns, eids = relation.csc()
    degrees = indptr.diff()[destinations]
    offsets = torch.cat([degrees.new_zeros(1), degrees.cumsum(0, dtype=degrees.dtype)])
    # Where each edge lies in the old form: rows as they follow one another now.
    shift = (indptr[:-1][destinations] - offsets[:-1]).long()
    place = torch.arange(columns.shape[0]) + shift.repeat_interleave(degrees.long())
    new = torch.empty_like(sources)
    new[sources] = torch.arange(sources.shape[0])
    old = place if eids is None else eids[place].long()
    return offsets.to(relation.idtype), new[columns[place].long()].to(relation.idtype), old


# ---- reading ----


class WrittenGraph(NamedTuple):
    """What a manifest tells of a graph, and where its files are."""

    folder: pathlib.Path
    manifest: pathlib.Path
    name: str
    num_hops: int
    idtype: torch.dtype
    book: GraphPartitionBook
    structure: dict[CanonicalType, dict[str, FileEntry]]
    columns: dict[Any, dict[str, list[FileEntry]]]  # by node type or canonical edge type
    old_ids: dict[Any, list[FileEntry]]

    def relations(self) -> dict[CanonicalType, Relation]:
        """Returns the edges of the whole graph, mapped."""
        result = {}
        for canonical, files in self.structure.items():
            sizes = (self.book._num_nodes(canonical[0]), self.book._num_nodes(canonical[2]))
            indptr, indices = (map_column(self.folder, files[n]) for n in ("indptr", "indices"))
            form = Compressed(indptr, indices, None)
            result[canonical] = Relation(Structure(sizes, by_destination=form))
        return result

    def files(self) -> list[FileEntry]:
        """Returns all of them, those of the structure first."""
        found = [entry for files in self.structure.values() for entry in files.values()]
        for columns in self.columns.values():
            found += [entry for entries in columns.values() for entry in entries]
        return found + [entry for entries in self.old_ids.values() for entry in entries]

    def verify(self, share: int = 0, shares: int = 1) -> None:
        """Reads a share of the files' blocks and compares their sums.

        Raises:
            SmexRuntimeError: a file is missing, or is not what was written.
        """
        number = 0
        for entry in self.files():
            blocks = [n for n in range(entry.num_blocks) if (number + n) % shares == share]
            check_column(self.folder, entry, blocks)
            number += entry.num_blocks


def read_graph(part_config: str | os.PathLike, op: str, part_id: int = 0) -> WrittenGraph:
    """Returns what is known of a graph that :func:`partition_graph` has written.

    Raises:
        SmexValueError: there is no manifest, or it is not one of this program's.
    """
    folder, told = read_manifest(part_config, KIND, op)
    place = pathlib.Path(part_config)
    try:
        ntypes = [str(t) for t in told["ntypes"]]
        etypes: list[Any] = [tuple(map(str, t)) for t in told["etypes"]]
        node_map = dict(zip(ntypes, told["node_map"], strict=True))
        edge_map = dict(zip(etypes, told["edge_map"], strict=True))
        rows = [*zip(ntypes, told["node"], strict=True), *zip(etypes, told["edge"], strict=True)]
        structure = zip(etypes, told["structure"], strict=True)
        idtype = {"int32": torch.int32, "int64": torch.int64}[told["idtype"]]
        graph = WrittenGraph(
            folder,
            place,
            str(told["graph_name"]),
            int(told["num_hops"]),
            idtype,
            GraphPartitionBook(part_id, int(told["num_parts"]), node_map, edge_map),
            {t: {n: entry_of(f[n], place) for n in ("indptr", "indices")} for t, f in structure},
            {
                t: {n: [entry_of(e, place) for e in es] for n, es in of["columns"].items()}
                for t, of in rows
            },
            {t: [entry_of(e, place) for e in of["old_ids"]] for t, of in rows},
        )
        _check_shapes(graph)
    except (KeyError, TypeError, ValueError) as error:
        if isinstance(error, SmexValueError):
            raise
        raise SmexValueError(
            f"{op}: expected the manifest of a graph in {place}, found that of something else "
            f"({type(error).__name__}: {error}); copy it again"
        ) from error
    return graph


def _check_shapes(graph: WrittenGraph) -> None:
    """Raise unless files have as many rows as the book says."""
    book = graph.book
    for canonical, files in graph.structure.items():
        expected = {
            "indptr": book._num_nodes(canonical[2]) + 1,
            "indices": book._num_edges(canonical),
        }
        for name, rows in expected.items():
            _check_rows(graph, files[name], rows)
    for key, columns in graph.columns.items():
        starts = book.node_map[key] if isinstance(key, str) else book.edge_map[key]
        for entries in [*columns.values(), graph.old_ids[key]]:
            if len(entries) != book.num_partitions():
                raise SmexValueError(
                    f"{graph.manifest}: expected a file for each of {book.num_partitions()} parts "
                    f"of a column of {key!r}, found {len(entries)}"
                )
            for part, entry in enumerate(entries):
                _check_rows(graph, entry, starts[part + 1] - starts[part])


def _check_rows(graph: WrittenGraph, entry: FileEntry, rows: int) -> None:
    if entry.shape[:1] != [rows]:
        raise SmexValueError(
            f"{graph.manifest}: expected {rows} rows in {entry.path}, found shape {entry.shape}; "
            "the manifest is of another graph"
        )


def _checked_part(op: str, graph: WrittenGraph, part_id: int) -> None:
    if not 0 <= part_id < graph.book.num_partitions():
        last = graph.book.num_partitions() - 1
        raise SmexValueError(
            f"{op}: expected a part from 0 to {last} of {graph.manifest}, found {part_id}"
        )


def load_partition_book(
    part_config: str | os.PathLike, part_id: int, part_metadata: Any = None
) -> tuple[GraphPartitionBook, str, list[str], list[CanonicalType]]:
    """Returns the book of a graph that :func:`partition_graph` has written.

    Args:
        part_config: the manifest, or its folder.
        part_id: the part whose book it is.
        part_metadata: taken for compatibility.

    Returns:
        The book, the graph's name, its node types and its canonical edge types.

    Raises:
        SmexValueError: there is no such manifest or part.
    """
    graph = read_graph(part_config, "load_partition_book", part_id)
    _checked_part("load_partition_book", graph, part_id)
    return graph.book, graph.name, graph.book.ntypes, graph.book.canonical_etypes


def load_partition_feats(
    part_config: str | os.PathLike, part_id: int, load_nodes: bool = True, load_edges: bool = True
) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
    """Returns the features of one part, mapped from their files.

    Args:
        part_config: the manifest, or its folder.
        part_id: the part.
        load_nodes: whether those of nodes are wanted.
        load_edges: whether those of edges are.

    Returns:
        Features ``[rows of the part, ...]`` of nodes by ``"TYPE/NAME"``, and of edges by
        ``"SOURCE:TYPE:DESTINATION/NAME"``.

    Raises:
        SmexValueError: there is no such manifest or part.
        SmexRuntimeError: a file is missing, or is not what was written.
    """
    graph = read_graph(part_config, "load_partition_feats", part_id)
    _checked_part("load_partition_feats", graph, part_id)
    return _features(graph, part_id, load_nodes, load_edges)


def _features(
    graph: WrittenGraph, part_id: int, load_nodes: bool, load_edges: bool
) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
    nodes: dict[str, Tensor] = {}
    edges: dict[str, Tensor] = {}
    for key, columns in graph.columns.items():
        is_node = isinstance(key, str)
        if not (load_nodes if is_node else load_edges):
            continue
        for name, entries in columns.items():
            entry = entries[part_id]
            check_column(graph.folder, entry, range(entry.num_blocks))
            word = key if is_node else ":".join(key)
            (nodes if is_node else edges)[f"{word}/{name}"] = map_column(graph.folder, entry)
    return nodes, edges


def load_partition(
    part_config: str | os.PathLike,
    part_id: int,
    load_feats: bool = True,
    use_graphbolt: bool = False,
) -> Any:
    """Returns one part of a graph that :func:`partition_graph` has written.

    The graph has one node type and one edge type, whatever the whole has, as in DGL. Its own nodes
    come first, then those of the halo: sources of edges into nodes up to ``num_hops - 1`` steps
    away. Edges into own nodes come first too.

    Node features: ``NID`` (ids among nodes of all types, see
    :meth:`GraphPartitionBook.map_to_per_ntype`), ``inner_node`` (1 for own nodes, int32),
    ``part_id``, ``orig_id`` (id in the graph that was partitioned, within its type), ``NTYPE``.
    Edge features: ``EID``, ``inner_edge``, ``orig_id``, ``ETYPE``.

    Args:
        part_config: the manifest, or its folder.
        part_id: the part.
        load_feats: whether features are loaded too.
        use_graphbolt: taken for compatibility.

    Returns:
        The graph, features of nodes and of edges as of :func:`load_partition_feats`, the book, the
        graph's name, its node types and its canonical edge types.

    Raises:
        SmexValueError: there is no such manifest or part.
        SmexRuntimeError: a file is missing, or is not what was written.
    """
    op = "load_partition"
    graph = read_graph(part_config, op, part_id)
    _checked_part(op, graph, part_id)
    for files in graph.structure.values():
        for entry in files.values():
            check_column(graph.folder, entry, range(entry.num_blocks))
    feats = _features(graph, part_id, load_feats, load_feats)
    local = part_of_graph(graph, graph.relations(), part_id)
    book = graph.book
    return local, *feats, book, graph.name, book.ntypes, book.canonical_etypes


def part_of_graph(
    graph: WrittenGraph, relations: Mapping[CanonicalType, Relation], part_id: int
) -> Graph:
    """Returns the graph of one part, as :func:`load_partition` does."""
    book = graph.book
    inner = torch.cat([book.map_to_homo_nid(book.partid2nids(part_id, t), t) for t in book.ntypes])
    edges = [_edges_into(book, relations, inner)]
    seen = inner
    for _ in range(graph.num_hops - 1):
        sources = torch.unique(edges[-1][0])
        frontier = sources[~torch.isin(sources, seen)]
        seen = torch.cat([seen, frontier])
        edges.append(_edges_into(book, relations, frontier))
    src, dst, eids, kinds = (torch.cat(lists) for lists in zip(*edges))
    nodes, (pairs,) = unique_and_relabel([torch.stack([src, dst], 1).view(-1)], inner)
    size = nodes.shape[0]
    relation = Relation.from_coo(pairs[::2], pairs[1::2], size, size, check=False)
    types, ids = book.map_to_per_ntype(nodes)
    own_edges = torch.arange(eids.shape[0]) < edges[0][2].shape[0]
    part = torch.zeros_like(nodes)
    old = torch.zeros_like(nodes)
    for number, ntype in enumerate(book.ntypes):
        mine = types == number
        part[mine] = book.nid2partid(ids[mine], ntype)
        old[mine] = _old_ids(graph, ntype, ids[mine], book.node_map[ntype])
    per_type = book.map_to_per_etype(eids)[1]
    old_edges = torch.zeros_like(eids)
    for number, canonical in enumerate(book.canonical_etypes):
        mine = kinds == number
        starts = book.edge_map[canonical]
        old_edges[mine] = _old_ids(graph, canonical, per_type[mine], starts)
    result = Graph({DEFAULT_ETYPE: relation}, {DEFAULT_NTYPE: size})
    result._src_frames[DEFAULT_NTYPE] = Frame(size, {
        NID: nodes,
        "inner_node": (torch.arange(size) < inner.shape[0]).int(),
        "part_id": part,
        "orig_id": old,
        NTYPE: types,
    })  # fmt: skip
    result._edge_frames[DEFAULT_ETYPE] = Frame(eids.shape[0], {
        EID: eids,
        "inner_edge": own_edges.to(torch.int8),
        "orig_id": old_edges,
        ETYPE: kinds,
    })  # fmt: skip
    return result


def _old_ids(graph: WrittenGraph, key: Any, ids: Tensor, starts: list[int]) -> Tensor:
    pieces = [map_column(graph.folder, entry) for entry in graph.old_ids[key]]
    rows, _ = torch.ops.smex.gather_rows(pieces, torch.tensor(starts), ids)
    return rows


def _edges_into(
    book: GraphPartitionBook, relations: Mapping[CanonicalType, Relation], nodes: Tensor
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """(source, destination, edge, number of its type) of the edges into nodes of all types."""
    types, ids = book.map_to_per_ntype(nodes)
    found = []
    for number, (canonical, relation) in enumerate(relations.items()):
        wanted = ids[types == book.ntypes.index(canonical[2])].to(relation.idtype)
        src, dst, eids = relation.in_edges_of(wanted, check=False)
        found.append(
            (
                book.map_to_homo_nid(src.long(), canonical[0]),
                book.map_to_homo_nid(dst.long(), canonical[2]),
                book.map_to_homo_eid(eids.long(), canonical),
                torch.full((eids.shape[0],), number, dtype=torch.int64),
            )
        )
    src, dst, eids, kinds = (torch.cat(lists) for lists in zip(*found))
    return src, dst, eids, kinds
