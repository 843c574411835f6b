"""What graphs of arrays of node ids and of SciPy's sparse matrices are made of.

Functions have the names of those in :mod:`smex.graph.creation.convert` that make graphs of it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple, TypeVar

import torch

from smex.errors import SmexTypeError, SmexValueError
from smex.graph.constants import DEFAULT_ETYPE, DEFAULT_NTYPE
from smex.graph.core.graph_core import GraphCore
from smex.graph.features.frame import Frame
from smex.graph.structure import edge_data
from smex.graph.structure.edge_data import EdgeData, RawEdges
from smex.graph.structure.relation import Relation
from smex.graph.words import CanonicalType, number_of

_Kind = TypeVar("_Kind", bound=GraphCore)


class Content(NamedTuple):
    """Relations, sizes and features, as :class:`GraphCore` takes them."""

    relations: Mapping[CanonicalType, Relation]
    num_nodes: Mapping[str, int]
    dst_num_nodes: Mapping[str, int] | None = None
    src_frames: Mapping[str, Frame] | None = None
    edge_frames: Mapping[CanonicalType, Frame] | None = None

    def made(self, kind: type[_Kind]) -> _Kind:
        """Returns a graph of it."""
        return kind(
            self.relations,
            self.num_nodes,
            self.dst_num_nodes,
            src_frames=self.src_frames,
            edge_frames=self.edge_frames,
        )

    def fill(self, graph: GraphCore) -> None:
        """Makes a new graph one of it."""
        GraphCore.__init__(
            graph,
            self.relations,
            self.num_nodes,
            self.dst_num_nodes,
            src_frames=self.src_frames,
            edge_frames=self.edge_frames,
        )


def graph(
    data: Any,
    *,
    num_nodes: int | None = None,
    idtype: torch.dtype | None = None,
    device: torch.device | str | None = None,
    row_sorted: bool = False,
    col_sorted: bool = False,
) -> Content:
    """Of one node type and one edge type; see :func:`smex.graph.graph`."""
    raw = edge_data.parse("graph", data)
    edges = convert("graph", {DEFAULT_ETYPE: raw}, idtype, device)
    sizes = sizes_of("graph", edges, None if num_nodes is None else {DEFAULT_NTYPE: num_nodes})
    return assemble(edges, sizes)


def from_scipy(
    sp_mat: Any,
    eweight_name: str | None = None,
    idtype: torch.dtype | None = None,
    device: torch.device | str | None = None,
) -> Content:
    """Of a square matrix; see :func:`smex.graph.from_scipy`."""
    check_sparse("from_scipy", sp_mat)
    rows, columns = sp_mat.shape
    if rows != columns:
        raise SmexValueError(
            f"from_scipy: expected a square matrix, found {rows} × {columns}; use "
            "bipartite_from_scipy"
        )
    return of_matrix(
        "from_scipy", sp_mat, {DEFAULT_NTYPE: rows}, DEFAULT_ETYPE, eweight_name, idtype, device
    )


def check_sparse(op: str, sp_mat: Any) -> None:
    """Raise unless it is a sparse matrix of SciPy."""
    module = type(sp_mat).__module__
    if not module.startswith("scipy.sparse") or not hasattr(sp_mat, "tocoo"):
        raise SmexTypeError(f"{op}: expected a SciPy sparse matrix, found {type(sp_mat).__name__}")


def of_matrix(
    op: str,
    sp_mat: Any,
    num_nodes: Mapping[str, int],
    canonical: CanonicalType,
    eweight_name: str | None,
    idtype: torch.dtype | None,
    device: torch.device | str | None,
) -> Content:
    """Returns what a graph of a SciPy sparse matrix is made of: rows are sources."""
    if sp_mat.format in ("csr", "csc"):
        raw = RawEdges(sp_mat.format, (sp_mat.indptr, sp_mat.indices, []))
    else:
        sp_mat = sp_mat.tocoo()
        raw = RawEdges("coo", (sp_mat.row, sp_mat.col))
    edges = convert(op, {canonical: raw}, idtype or torch.int64, device)
    content = assemble(edges, num_nodes)
    if eweight_name is None:
        return content
    relation = content.relations[canonical]
    weights = torch.as_tensor(sp_mat.data, device=relation.device)
    frame = Frame(relation.num_edges)
    frame[eweight_name] = weights
    return content._replace(edge_frames={canonical: frame})


def parse_dict(op: str, data_dict: Mapping[CanonicalType, Any]) -> dict[CanonicalType, RawEdges]:
    """Returns the edges of each type, types in alphabetical order."""
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


def convert(
    op: str, raw: Mapping[CanonicalType, RawEdges], idtype: torch.dtype | None, device: Any
) -> dict[CanonicalType, EdgeData]:
    """Returns the edges in one dtype of ids, on one device."""
    dtype = edge_data.choose_idtype(op, raw.values(), idtype)
    target = edge_data.choose_device(raw.values(), device)
    return {c: edge_data.convert(op, edges, dtype, target) for c, edges in raw.items()}


def sizes_of(
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
            ntype = canonical[side]
            if number is None and ntype not in (given or {}):
                raise SmexValueError(
                    f'{op}: expected the number of nodes of type "{ntype}" under torch.export, '
                    "which does not know ids; give it, such as num_nodes=x.shape[0]"
                )
            needed[ntype] = max(needed.get(ntype, 0), 0 if number is None else number)
    for ntype, number in (given or {}).items():
        if number < needed.get(ntype, 0):
            raise SmexValueError(
                f'{op}: the number of nodes of type "{ntype}" must be above the largest id '
                f"{needed[ntype] - 1}, found {number}"
            )
    sizes = needed | {t: number_of(n) for t, n in (given or {}).items()}
    return {ntype: sizes[ntype] for ntype in sorted(sizes)}


def assemble(
    edges: Mapping[CanonicalType, EdgeData],
    num_nodes: Mapping[str, int],
    dst_num_nodes: Mapping[str, int] | None = None,
) -> Content:
    """Returns what a graph of these edges is made of.

    A block if destinations have their own sizes.
    """
    dst_sizes = num_nodes if dst_num_nodes is None else dst_num_nodes
    relations = {c: d.relation(num_nodes[c[0]], dst_sizes[c[2]]) for c, d in edges.items()}
    return Content(relations, num_nodes, dst_num_nodes)
