"""Graphs from arrays of node ids and from SciPy's sparse matrices."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch

from smex.errors import SmexTypeError, SmexValueError
from smex.graph.constants import DEFAULT_ETYPE, DEFAULT_NTYPE
from smex.graph.content import arrays
from smex.graph.graph import Graph
from smex.graph.structure import edge_data
from smex.graph.words import CanonicalType

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
    """Returns a graph of one node type and one edge type.

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
    content = arrays.graph(
        data,
        num_nodes=num_nodes,
        idtype=idtype,
        device=device,
        row_sorted=row_sorted,
        col_sorted=col_sorted,
    )
    return content.made(Graph)


def heterograph(
    data_dict: Mapping[CanonicalType, Any],
    num_nodes_dict: Mapping[str, int] | None = None,
    idtype: torch.dtype | None = None,
    device: torch.device | str | None = None,
) -> Graph:
    """Returns a graph of several node or edge types.

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
    raw = arrays.parse_dict("heterograph", data_dict)
    edges = arrays.convert("heterograph", raw, idtype, device)
    sizes = arrays.sizes_of("heterograph", edges, num_nodes_dict)
    return arrays.assemble(edges, sizes).made(Graph)


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
        raw = arrays.parse_dict("create_block", data_dict)
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
    edges = arrays.convert("create_block", raw, idtype, device)
    content = arrays.assemble(
        edges,
        arrays.sizes_of("create_block", edges, given[0], (0,)),  # type: ignore[arg-type]
        arrays.sizes_of("create_block", edges, given[1], (2,)),  # type: ignore[arg-type]
    )
    return content.made(Graph)


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
    """Returns a graph from a SciPy sparse matrix: an edge from row to column for each stored entry.

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
    return arrays.from_scipy(sp_mat, eweight_name, idtype, device).made(Graph)


def bipartite_from_scipy(
    sp_mat: Any,
    utype: str,
    etype: str,
    vtype: str,
    eweight_name: str | None = None,
    idtype: torch.dtype | None = None,
    device: torch.device | str | None = None,
) -> Graph:
    """Returns a graph from `utype` (rows) to `vtype` (columns), see :func:`from_scipy`.

    Raises:
        SmexTypeError: `sp_mat` is no sparse matrix.
        SmexValueError: both types have one name and the matrix is not square.

    Example:
        >>> import scipy.sparse, smex.graph as sg
        >>> m = scipy.sparse.coo_array(([1.0], ([0], [2])), shape=(2, 3))
        >>> sg.bipartite_from_scipy(m, "user", "plays", "game").num_nodes("game")
        3
    """
    arrays.check_sparse("bipartite_from_scipy", sp_mat)
    rows, columns = sp_mat.shape
    if utype == vtype and rows != columns:
        raise SmexValueError(
            f'bipartite_from_scipy: rows and columns both are of type "{utype}", expected a square '
            f"matrix, found {rows} × {columns}"
        )
    content = arrays.of_matrix(
        "bipartite_from_scipy",
        sp_mat,
        {utype: rows, vtype: columns},
        (utype, etype, vtype),
        eweight_name,
        idtype,
        device,
    )
    return content.made(Graph)


def _of_one_type(number: Any) -> Any:
    """Returns a number, or a dict with the one type, as a dict."""
    if number is None or isinstance(number, Mapping):
        return number
    return {DEFAULT_NTYPE: number}
