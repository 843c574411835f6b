"""Graphs from arrays of node ids and from SciPy's sparse matrices."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch

from smex.errors import SmexTypeError, SmexValueError
from smex.graph import edge_data
from smex.graph.constants import DEFAULT_ETYPE, DEFAULT_NTYPE
from smex.graph.core import CanonicalType
from smex.graph.edge_data import EdgeData, RawEdges
from smex.graph.frame import Frame
from smex.graph.graph import Graph

__all__ = [
    "bipartite_from_scipy",
    "block_to_graph",
    "create_block",
    "from_scipy",
    "graph",
    "heterograph",
]


def graph(
    data: Any,
    *,
    num_nodes: int | None = None,
    idtype: torch.dtype | None = None,
    device: torch.device | str | None = None,
    row_sorted: bool = False,
    col_sorted: bool = False,
) -> Graph:
    """A graph of one node type and one edge type.

    Args:
        data: the edges; edge ids are their positions. One of

            * ``(src, dst)``: node ids ``[num_edges]`` as tensors, arrays, lists or iterables;
            * a list of ``(src, dst)`` pairs;
            * ``("coo", (src, dst))``;
            * ``("csr", (indptr, indices, eids))``: node ``u`` points to
              ``indices[indptr[u]:indptr[u + 1]]``; empty `eids` stand for 0, 1, 2, ...;
            * ``("csc", (indptr, indices, eids))``: the same by destination.
        num_nodes: number of nodes; by default what the largest id asks for.
        idtype: ``torch.int32`` or ``torch.int64``; by default that of the tensors, else int64.
        device: by default that of the tensors, else the CPU.
        row_sorted: taken for compatibility; sorted edges need no announcement.
        col_sorted: taken for compatibility.

    Returns:
        The graph. It keeps the tensors of ids that fit, and they must not be changed afterwards.

    Raises:
        SmexTypeError: `data` is of another kind, or ids are not integers of one dtype.
        SmexValueError: an id is negative or not below `num_nodes`, or arrays do not fit together.

    Example:
        >>> import smex.graph as sg
        >>> g = sg.graph(([0, 0, 1], [1, 2, 2]), num_nodes=4)
        >>> g.num_nodes(), g.num_edges()
        (4, 3)
        >>> g.in_degrees()
        tensor([0, 1, 2, 0])
    """
    raw = edge_data.parse("graph", data)
    edges = _convert("graph", {DEFAULT_ETYPE: raw}, idtype, device)
    sizes = _sizes("graph", edges, None if num_nodes is None else {DEFAULT_NTYPE: num_nodes})
    return _assemble(edges, sizes)


def heterograph(
    data_dict: Mapping[CanonicalType, Any],
    num_nodes_dict: Mapping[str, int] | None = None,
    idtype: torch.dtype | None = None,
    device: torch.device | str | None = None,
) -> Graph:
    """A graph of several node or edge types.

    Node types and edge types are numbered in alphabetical order, whatever the order of the dict.

    Args:
        data_dict: for each (source type, edge type, destination type) the edges, in one of the
            forms that :func:`graph` takes.
        num_nodes_dict: number of nodes of each type; those of types that it leaves out are what
            the largest id asks for. Types without edges may be added here.
        idtype: as for :func:`graph`; one for all types.
        device: as for :func:`graph`.

    Raises:
        SmexTypeError: as for :func:`graph`, or a key is no triple of names.
        SmexValueError: as for :func:`graph`, or `data_dict` is empty.

    Example:
        >>> import smex.graph as sg
        >>> g = sg.heterograph({("user", "plays", "game"): ([0, 1], [0, 0])})
        >>> g.ntypes, g.num_nodes("user"), g.num_nodes("game")
        (['game', 'user'], 2, 1)
    """
    raw = _parse_dict("heterograph", data_dict)
    edges = _convert("heterograph", raw, idtype, device)
    return _assemble(edges, _sizes("heterograph", edges, num_nodes_dict))


def create_block(
    data_dict: Any,
    num_src_nodes: Mapping[str, int] | int | None = None,
    num_dst_nodes: Mapping[str, int] | int | None = None,
    idtype: torch.dtype | None = None,
    device: torch.device | str | None = None,
) -> Graph:
    """A block: sources and destinations are numbered apart even where their types are equal.

    Args:
        data_dict: as for :func:`heterograph`; or, for one type, the edges as :func:`graph` takes
            them.
        num_src_nodes: number of source nodes, for each type, or of the one type; by default what
            the largest source id asks for.
        num_dst_nodes: the same for destinations.
        idtype: as for :func:`graph`.
        device: as for :func:`graph`.

    Raises:
        SmexTypeError: as for :func:`heterograph`, or numbers are no dict where `data_dict` is one.
        SmexValueError: as for :func:`heterograph`.

    Example:
        >>> import smex.graph as sg
        >>> b = sg.create_block(([0, 1, 2], [0, 0, 1]), num_src_nodes=4)
        >>> b.num_src_nodes(), b.num_dst_nodes(), b.is_block
        (4, 2, True)
    """
    if isinstance(data_dict, Mapping):
        raw = _parse_dict("create_block", data_dict)
        given = (num_src_nodes, num_dst_nodes)
    else:
        raw = {DEFAULT_ETYPE: edge_data.parse("create_block", data_dict)}
        given = (_of_one_type(num_src_nodes), _of_one_type(num_dst_nodes))
    for name, numbers in zip(("num_src_nodes", "num_dst_nodes"), given):
        if numbers is not None and not isinstance(numbers, Mapping):
            raise SmexTypeError(
                f"create_block: {name} must be a dict from node type to number as data_dict is a "
                f"dict, found {type(numbers).__name__}"
            )
    edges = _convert("create_block", raw, idtype, device)
    return _assemble(
        edges,
        _sizes("create_block", edges, given[0], (0,)),  # type: ignore[arg-type]
        _sizes("create_block", edges, given[1], (2,)),  # type: ignore[arg-type]
    )


def block_to_graph(block: Graph) -> Graph:
    """The bipartite graph of a block: types named ``..._src`` and ``..._dst``, all features kept.

    Raises:
        SmexTypeError: the graph is no block.

    Example:
        >>> import smex.graph as sg
        >>> sg.block_to_graph(sg.create_block(([0, 1], [0, 0]))).ntypes
        ['_N_src', '_N_dst']
    """
    if not block.is_block:
        raise SmexTypeError("block_to_graph: expected a block, found a graph that is none")
    num_nodes = {f"{t}_src": n for t, n in block._src_num_nodes.items()}
    num_nodes |= {f"{t}_dst": n for t, n in block._dst_num_nodes.items()}
    frames = {f"{t}_src": f.clone() for t, f in block._src_frames.items()}
    frames |= {f"{t}_dst": f.clone() for t, f in block._dst_frames.items()}
    names = {(s, e, d): (f"{s}_src", e, f"{d}_dst") for s, e, d in block._relations}
    return Graph(
        {names[c]: r for c, r in block._relations.items()},
        num_nodes,
        src_frames=frames,
        edge_frames={names[c]: f.clone() for c, f in block._edge_frames.items()},
    )


def from_scipy(
    sp_mat: Any,
    eweight_name: str | None = None,
    idtype: torch.dtype | None = None,
    device: torch.device | str | None = None,
) -> Graph:
    """A graph from a SciPy sparse matrix: an edge from row to column for each stored entry.

    Edges stand in the order in which the matrix stores its entries, zeros and duplicates too.

    Args:
        sp_mat: a square sparse matrix or sparse array ``[num_nodes, num_nodes]``.
        eweight_name: edge feature that takes the entries' values.
        idtype: int64 by default.
        device: the CPU by default.

    Raises:
        SmexTypeError: `sp_mat` is no sparse matrix.
        SmexValueError: it is not square.

    Example:
        >>> import scipy.sparse, smex.graph as sg
        >>> sg.from_scipy(scipy.sparse.eye_array(3), eweight_name="w").edata["w"].dtype
        torch.float64
    """
    _check_sparse("from_scipy", sp_mat)
    rows, columns = sp_mat.shape
    if rows != columns:
        raise SmexValueError(
            f"from_scipy: expected a square matrix, found {rows} × {columns}; use "
            "bipartite_from_scipy"
        )
    return _from_scipy(
        "from_scipy", sp_mat, {DEFAULT_NTYPE: rows}, DEFAULT_ETYPE, eweight_name, idtype, device
    )


def bipartite_from_scipy(
    sp_mat: Any,
    utype: str,
    etype: str,
    vtype: str,
    eweight_name: str | None = None,
    idtype: torch.dtype | None = None,
    device: torch.device | str | None = None,
) -> Graph:
    """A graph from `utype` (rows) to `vtype` (columns), see :func:`from_scipy`.

    Raises:
        SmexTypeError: `sp_mat` is no sparse matrix.
        SmexValueError: both types have one name and the matrix is not square.

    Example:
        >>> import scipy.sparse, smex.graph as sg
        >>> m = scipy.sparse.coo_array(([1.0], ([0], [2])), shape=(2, 3))
        >>> sg.bipartite_from_scipy(m, "user", "plays", "game").num_nodes("game")
        3
    """
    _check_sparse("bipartite_from_scipy", sp_mat)
    rows, columns = sp_mat.shape
    if utype == vtype and rows != columns:
        raise SmexValueError(
            f'bipartite_from_scipy: rows and columns both are of type "{utype}", expected a square '
            f"matrix, found {rows} × {columns}"
        )
    return _from_scipy(
        "bipartite_from_scipy",
        sp_mat,
        {utype: rows, vtype: columns},
        (utype, etype, vtype),
        eweight_name,
        idtype,
        device,
    )


def _check_sparse(op: str, sp_mat: Any) -> None:
    module = type(sp_mat).__module__
    if not module.startswith("scipy.sparse") or not hasattr(sp_mat, "tocoo"):
        raise SmexTypeError(f"{op}: expected a SciPy sparse matrix, found {type(sp_mat).__name__}")


def _from_scipy(op, sp_mat, num_nodes, canonical, eweight_name, idtype, device) -> Graph:
    if sp_mat.format in ("csr", "csc"):
        raw = RawEdges(sp_mat.format, (sp_mat.indptr, sp_mat.indices, []))
    else:
        sp_mat = sp_mat.tocoo()
        raw = RawEdges("coo", (sp_mat.row, sp_mat.col))
    edges = _convert(op, {canonical: raw}, idtype or torch.int64, device)
    result = _assemble(edges, num_nodes)
    if eweight_name is not None:
        weights = torch.as_tensor(sp_mat.data, device=result.device)
        result._edge_frames[canonical][eweight_name] = weights
    return result


def _of_one_type(number: Any) -> Any:
    """A number, or a dict with the one type, as a dict."""
    if number is None or isinstance(number, Mapping):
        return number
    return {DEFAULT_NTYPE: number}


def _parse_dict(op: str, data_dict: Mapping[CanonicalType, Any]) -> dict[CanonicalType, RawEdges]:
    if not isinstance(data_dict, Mapping) or not data_dict:
        raise SmexTypeError(
            f"{op}: expected a dict from (source type, edge type, destination type) to edges with "
            f"at least one entry, found {data_dict!r}"
        )
    for key in data_dict:
        triple = isinstance(key, tuple) and len(key) == 3
        if not triple or not all(isinstance(name, str) for name in key):
            raise SmexTypeError(
                f"{op}: expected keys (source type, edge type, destination type), found {key!r}"
            )
    return {key: edge_data.parse(op, data_dict[key]) for key in sorted(data_dict)}


def _convert(
    op: str, raw: Mapping[CanonicalType, RawEdges], idtype: torch.dtype | None, device: Any
) -> dict[CanonicalType, EdgeData]:
    dtype = edge_data.choose_idtype(op, raw.values(), idtype)
    target = edge_data.choose_device(raw.values(), device)
    return {c: edge_data.convert(op, edges, dtype, target) for c, edges in raw.items()}


def _sizes(
    op: str,
    edges: Mapping[CanonicalType, EdgeData],
    given: Mapping[str, int] | None,
    sides: tuple[int, ...] = (0, 2),
) -> dict[str, int]:
    """Number of nodes of each type in alphabetical order; `sides` of a triple that count."""
    needed: dict[str, int] = {}
    for canonical, data in edges.items():
        for side in sides:
            number = data.num_src if side == 0 else data.num_dst
            needed[canonical[side]] = max(needed.get(canonical[side], 0), number)
    for ntype, number in (given or {}).items():
        if number < needed.get(ntype, 0):
            raise SmexValueError(
                f'{op}: the number of nodes of type "{ntype}" must be above the largest id '
                f"{needed[ntype] - 1}, found {number}"
            )
    sizes = needed | {t: int(n) for t, n in (given or {}).items()}
    return {ntype: sizes[ntype] for ntype in sorted(sizes)}


def _assemble(
    edges: Mapping[CanonicalType, EdgeData],
    num_nodes: Mapping[str, int],
    dst_num_nodes: Mapping[str, int] | None = None,
    edge_frames: Mapping[CanonicalType, Frame] | None = None,
) -> Graph:
    dst_sizes = num_nodes if dst_num_nodes is None else dst_num_nodes
    relations = {c: d.relation(num_nodes[c[0]], dst_sizes[c[2]]) for c, d in edges.items()}
    return Graph(relations, num_nodes, dst_num_nodes, edge_frames=edge_frames)
