"""The files of a graph that is to be partitioned: named one by one, or by DGL's metadata.json."""

from __future__ import annotations

import json
import os
import pathlib
from collections.abc import Mapping
from typing import Any, NamedTuple

from smex.errors import SmexTypeError, SmexValueError
from smex.graph.constants import DEFAULT_ETYPE, DEFAULT_NTYPE
from smex.graph.distributed.sources import Edges, Rows, open_edges, open_rows
from smex.graph.words import CanonicalType

METADATA = "metadata.json"


class GraphFiles(NamedTuple):
    """What files a graph has; types in the order of their names.

    Attributes:
        edges: of each type.
        num_nodes: of each type; None where no one has said.
        ndata: features by node type and name.
        edata: features by edge type and name.
    """

    edges: dict[CanonicalType, Edges]
    num_nodes: dict[str, int | None]
    ndata: dict[str, dict[str, Rows]]
    edata: dict[CanonicalType, dict[str, Rows]]


def open_graph(
    op: str, edges: Any, num_nodes: Any, ndata: Any, edata: Any, scratch: pathlib.Path
) -> GraphFiles:
    """Opens the files of a graph.

    Args:
        op: the operation, for messages.
        edges: as :func:`smex.graph.distributed.sources.open_edges` takes them, a dict of these by
            canonical edge type, or a metadata.json or the folder that has one.
        num_nodes: of the only type, or by type.
        ndata: features by name, by node type first where edges are given by type.
        edata: features by name, by edge type first where edges are given by type.
        scratch: a folder for numbers of text and Parquet.

    Raises:
        SmexTypeError: arguments are of other types.
        SmexValueError: a file is missing, cut off, or something else.
    """
    if isinstance(edges, (str, os.PathLike)):
        path = pathlib.Path(edges)
        if path.is_dir() or path.suffix == ".json":
            given = [n for n, v in (("ndata", ndata), ("edata", edata)) if v is not None]
            if num_nodes is not None:
                given.append("num_nodes")
            if given:
                raise SmexTypeError(
                    f"{op}: expected no {given[0]} beside {path}, which tells of all files, found "
                    "it given"
                )
            return _of_metadata(op, path / METADATA if path.is_dir() else path, scratch)
    if not isinstance(edges, Mapping):
        edges = {DEFAULT_ETYPE: edges}
        num_nodes = {DEFAULT_NTYPE: num_nodes}
        ndata = {DEFAULT_NTYPE: ndata or {}}
        edata = {DEFAULT_ETYPE: edata or {}}
    etypes = sorted(_canonical(op, etype) for etype in edges)
    ntypes = {end for etype in etypes for end in (etype[0], etype[2])}
    sizes = _mapping(op, "num_nodes", num_nodes)
    nodes, of_edges = _mapping(op, "ndata", ndata), _mapping(op, "edata", edata)
    _check_types(op, "edata", of_edges, etypes)
    _check_types(op, "ndata", nodes, sorted(ntypes | set(sizes)))
    ntypes_in_order = sorted(ntypes | set(sizes))
    return GraphFiles(
        {t: open_edges(op, edges[t], scratch / f"edges{n}") for n, t in enumerate(etypes)},
        {t: sizes.get(t) for t in ntypes_in_order},
        {t: _columns(op, nodes.get(t, {})) for t in ntypes_in_order},
        {t: _columns(op, of_edges.get(t, {})) for t in etypes},
    )


def _canonical(op: str, etype: Any) -> CanonicalType:
    if not isinstance(etype, tuple) or len(etype) != 3:
        raise SmexTypeError(
            f"{op}: expected edges by (source type, type, destination type), found {etype!r}"
        )
    return etype


def _mapping(op: str, name: str, given: Any) -> Mapping[Any, Any]:
    if given is None:
        return {}
    if not isinstance(given, Mapping):
        raise SmexTypeError(
            f"{op}: expected {name} as a dict by type, as edges are, found {type(given).__name__}"
        )
    return given


def _check_types(op: str, name: str, given: Mapping[Any, Any], types: list[Any]) -> None:
    for key in given:
        if key not in types:
            raise SmexValueError(
                f"{op}: expected {name} of types that the graph has, found {key!r}; there are "
                f"{', '.join(map(repr, types))}"
            )


def _columns(op: str, given: Any) -> dict[str, Rows]:
    if not isinstance(given, Mapping):
        raise SmexTypeError(
            f"{op}: expected features as a dict by name, found {type(given).__name__}"
        )
    return {str(name): open_rows(op, rows) for name, rows in given.items()}


# ---- DGL's chunked graph format ----


def _of_metadata(op: str, path: pathlib.Path, scratch: pathlib.Path) -> GraphFiles:
    try:
        told = json.loads(path.read_bytes())
    except OSError as error:
        raise SmexValueError(
            f"{op}: expected a chunked graph's {METADATA} at {path}, found none ({error.strerror})"
        ) from error
    except ValueError as error:
        raise SmexValueError(
            f"{op}: expected the JSON of a chunked graph in {path}, found something else ({error})"
        ) from error
    try:
        return _opened(op, path, told, scratch)
    except (KeyError, AttributeError, TypeError, ValueError) as error:
        if isinstance(error, (SmexTypeError, SmexValueError)):
            raise
        raise SmexValueError(
            f"{op}: expected node_type, num_nodes_per_type or num_nodes_per_chunk, edge_type and "
            f"edges of a chunked graph in {path}, found something else ({type(error).__name__}: "
            f"{error})"
        ) from error


def _opened(op: str, path: pathlib.Path, told: Any, scratch: pathlib.Path) -> GraphFiles:
    ntypes, names = [str(t) for t in told["node_type"]], [str(t) for t in told["edge_type"]]
    sizes = _counts(told, "num_nodes", ntypes) or dict(zip(ntypes, told["num_nodes_per_type"]))
    num_edges = _counts(told, "num_edges", names)
    etypes: dict[CanonicalType, str] = {}
    for name in names:
        source, kind, destination = name.split(":")
        etypes[source, kind, destination] = name
    edges = {}
    for number, canonical in enumerate(sorted(etypes)):
        name = etypes[canonical]
        files = _files(path, told["edges"][name])
        delimiter = told["edges"][name].get("format", {}).get("delimiter", ",")
        place = scratch / f"edges{number}"
        edges[canonical] = open_edges(op, files, place, str(delimiter), chunks=True)
        found, expected = edges[canonical].num_edges, num_edges.get(name)
        if expected is not None and found != expected:
            raise SmexValueError(
                f"{op}: expected {expected} edges of type {name} as {path} tells, found {found} in "
                f"{', '.join(edges[canonical].names)}; a file is cut off or of another graph"
            )
    ndata, edata = told.get("node_data") or {}, told.get("edge_data") or {}
    return GraphFiles(
        edges,
        {t: sizes[t] for t in sorted(ntypes)},
        {t: _data(op, path, ndata.get(t, {})) for t in sorted(ntypes)},
        {t: _data(op, path, edata.get(etypes[t], {})) for t in sorted(etypes)},
    )


def _counts(told: Any, what: str, types: list[str]) -> dict[str, int]:
    numbers = told.get(f"{what}_per_type")
    if numbers is None:
        chunks = told.get(f"{what}_per_chunk")
        numbers = None if chunks is None else [sum(of_type) for of_type in chunks]
    return {} if numbers is None else dict(zip(types, map(int, numbers), strict=True))


def _files(path: pathlib.Path, told: Any) -> list[pathlib.Path]:
    return [path.parent / str(name) for name in told["data"]]


def _data(op: str, path: pathlib.Path, told: Any) -> dict[str, Rows]:
    return {str(n): open_rows(op, _files(path, column)) for n, column in told.items()}
