"""Graphs from and to PyTorch Geometric and torch's sparse tensors."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from smex.errors import SmexImportError, SmexTypeError, SmexValueError
from smex.graph.constants import DEFAULT_ETYPE, DEFAULT_NTYPE, EID, ETYPE, NID, NTYPE
from smex.graph.features.frame import Frame
from smex.graph.graph import Graph
from smex.graph.structure.relation import Relation
from smex.graph.words import CanonicalType, EdgeType

__all__ = [
    "bipartite_from_torch_sparse",
    "from_pyg",
    "from_torch_sparse",
    "to_pyg",
    "to_torch_sparse",
]

_NODE_NAMES = {NID: "n_id", NTYPE: "node_type"}
_EDGE_NAMES = {EID: "e_id", ETYPE: "edge_type"}
_LAYOUTS = (torch.sparse_coo, torch.sparse_csr, torch.sparse_csc)


# ---- PyTorch Geometric ----


def from_pyg(
    data: Any, idtype: torch.dtype | None = None, device: torch.device | str | None = None
) -> Graph:
    """Returns a graph from PyG's ``Data``, ``HeteroData`` or a ``Batch`` of ``Data``.

    Tensors with one row for each node or edge become features of the same names (``x``,
    ``edge_attr``, ...); ``n_id`` and ``e_id`` become ``NID`` and ``EID``, ``node_type`` and
    ``edge_type`` become ``NTYPE`` and ``ETYPE``. Of ``Data`` with as many edges as nodes, PyG takes
    names that contain "edge" for those of edges. What belongs to the whole graph, such as its label
    ``y``, has no place in a graph and is left out. Edge ``i`` is column ``i`` of ``edge_index``.

    Args:
        data: the data; of ``adj_t`` instead of ``edge_index``, the edges that it stores.
        idtype: int64 by default.
        device: that of the edges by default.

    Raises:
        SmexTypeError: it is no such object.
        SmexValueError: a ``HeteroData`` has no edge types.

    Example:
        >>> import smex.graph as sg
        >>> from torch_geometric.data import Data
        >>> g = sg.from_pyg(Data(x=torch.ones(3, 2), edge_index=torch.tensor([[0, 1], [1, 2]])))
        >>> g.num_edges(), g.ndata["x"].shape
        (2, torch.Size([3, 2]))
    """
    if hasattr(data, "node_types") and hasattr(data, "edge_types"):
        return _from_hetero_data(data, idtype, device)
    if not hasattr(data, "edge_index") or not hasattr(data, "is_node_attr"):
        raise SmexTypeError(
            f"from_pyg: expected torch_geometric's Data or HeteroData, found {type(data).__name__}"
        )
    num_nodes = int(data.num_nodes or 0)
    relation = _pyg_relation(data, num_nodes, num_nodes, idtype, device)
    items = {k: v for k, v in data.to_dict().items() if isinstance(v, Tensor)}
    nodes = {k: v for k, v in items.items() if data.is_node_attr(k) and k != "batch"}
    edges = {k: v for k, v in items.items() if data.is_edge_attr(k) and k not in _STRUCTURE}
    result = Graph(
        {DEFAULT_ETYPE: relation},
        {DEFAULT_NTYPE: num_nodes},
        src_frames={DEFAULT_NTYPE: _frame(num_nodes, nodes, _NODE_NAMES, relation)},
        edge_frames={DEFAULT_ETYPE: _frame(relation.num_edges, edges, _EDGE_NAMES, relation)},
    )
    if isinstance(items.get("ptr"), Tensor):
        _set_batch(result, items["ptr"])
    return result


def to_pyg(g: Graph) -> Any:
    """PyG's ``Data`` of a graph of one node and edge type, ``HeteroData`` of any other.

    Features keep their names, but for those that :func:`from_pyg` names. A batch of one node type
    has ``batch`` and ``ptr`` as PyG's loaders make them.

    Raises:
        SmexImportError: torch_geometric is not installed.
        SmexTypeError: the graph is a block; use :func:`block_to_graph`.
        SmexValueError: a node and an edge feature have one name, which ``Data`` cannot tell apart.

    Example:
        >>> import smex.graph as sg
        >>> sg.to_pyg(sg.graph(([0, 1], [1, 2]))).edge_index
        tensor([[0, 1],
                [1, 2]])
    """
    try:
        from torch_geometric.data import Data, HeteroData
    except ImportError as error:
        raise SmexImportError(
            "to_pyg: the package torch_geometric is not installed; pip install torch_geometric"
        ) from error
    if g.is_block:
        raise SmexTypeError("to_pyg: expected a graph, found a block; use block_to_graph first")
    if not g.is_homogeneous:
        data = HeteroData()
        for ntype, frame in g._src_frames.items():
            data[ntype].num_nodes = frame.num_rows
            data[ntype].update(_renamed(frame, _NODE_NAMES))
        for canonical, relation in g._relations.items():
            data[canonical].edge_index = _edge_index(relation)
            data[canonical].update(_renamed(g._edge_frames[canonical], _EDGE_NAMES))
        return data
    nodes = _renamed(g._src_frames[g.ntypes[0]], _NODE_NAMES)
    edges = _renamed(g._edge_frames[g.canonical_etypes[0]], _EDGE_NAMES)
    both = sorted(nodes.keys() & edges.keys())
    if both:
        raise SmexValueError(
            f'to_pyg: node and edge features must have different names, found "{both[0]}" in both; '
            "rename one"
        )
    data = Data(edge_index=_edge_index(g.relation()), num_nodes=g.num_nodes(), **nodes, **edges)
    if g.batch_size > 1:
        sizes = g.batch_num_nodes().long()
        data.batch = torch.repeat_interleave(sizes)
        data.ptr = torch.nn.functional.pad(sizes.cumsum(0), (1, 0))
    return data


_STRUCTURE = ("edge_index", "adj_t", "adj")


def _from_hetero_data(data: Any, idtype: Any, device: Any) -> Graph:
    if not data.edge_types:
        raise SmexValueError("from_pyg: expected a HeteroData with edge types, found none")
    sizes = {ntype: int(data[ntype].num_nodes or 0) for ntype in sorted(data.node_types)}
    relations: dict[CanonicalType, Relation] = {}
    edge_frames = {}
    for canonical in sorted(data.edge_types):
        store = data[canonical]
        ends = (sizes[canonical[0]], sizes[canonical[2]])
        relations[canonical] = relation = _pyg_relation(store, *ends, idtype, device)
        items = _rows_of(store, relation.num_edges, _STRUCTURE)
        edge_frames[canonical] = _frame(relation.num_edges, items, _EDGE_NAMES, relation)
    first = next(iter(relations.values()))
    node_frames = {
        t: _frame(n, _rows_of(data[t], n, ("batch", "ptr")), _NODE_NAMES, first)
        for t, n in sizes.items()
    }
    return Graph(relations, sizes, src_frames=node_frames, edge_frames=edge_frames)


def _rows_of(store: Any, size: int, without: tuple[str, ...]) -> dict[str, Tensor]:
    return {
        key: value
        for key, value in store.items()
        if isinstance(value, Tensor)
        and key not in without
        and value.dim() > 0
        and value.shape[0] == size
    }


def _pyg_relation(store: Any, num_src: int, num_dst: int, idtype: Any, device: Any) -> Relation:
    edge_index = store.get("edge_index")
    if edge_index is None and store.get("adj_t") is not None:
        dst, src = (
            store["adj_t"].to_torch_sparse_coo_tensor()._indices()
            if hasattr(store["adj_t"], "to_torch_sparse_coo_tensor")
            else store["adj_t"].to_sparse_coo()._indices()
        )
        edge_index = torch.stack([src, dst])
    if edge_index is None:
        edge_index = torch.empty(2, 0, dtype=torch.int64)
    edge_index = edge_index.as_subclass(Tensor).to(device=device, dtype=idtype or torch.int64)
    return Relation.from_coo(edge_index[0], edge_index[1], num_src, num_dst)


def _frame(size: int, items: Mapping[str, Tensor], names: dict[str, str], r: Relation) -> Frame:
    own = {theirs: ours for ours, theirs in names.items()}
    return Frame(size, {own.get(name, name): t.to(r.device) for name, t in items.items()})


def _renamed(frame: Frame, names: dict[str, str]) -> dict[str, Tensor]:
    return {names.get(name, name): column for name, column in frame.items()}


def _edge_index(relation: Relation) -> Tensor:
    return torch.stack(relation.coo()).long()


def _set_batch(g: Graph, ptr: Tensor) -> None:
    """Sizes of the parts from where their nodes start."""
    src = g.relation().coo()[0].long()
    part = torch.searchsorted(ptr.to(src.device), src, right=True) - 1
    g.set_batch_num_nodes(ptr.diff())
    g.set_batch_num_edges(torch.bincount(part, minlength=ptr.shape[0] - 1))


# ---- torch.sparse ----


def from_torch_sparse(
    matrix: Tensor,
    eweight_name: str | None = None,
    idtype: torch.dtype | None = None,
    device: torch.device | str | None = None,
) -> Graph:
    """Returns a graph from a sparse tensor: an edge from row to column for each stored entry.

    Edges stand in the order in which the tensor stores its entries, zeros and duplicates too; a COO
    tensor that requires a gradient is coalesced first.

    Args:
        matrix: ``[num_nodes, num_nodes]`` of layout COO, CSR or CSC.
        eweight_name: edge feature that takes the entries' values; gradients flow through it.
        idtype: that of the tensor's indices by default.
        device: that of the tensor by default.

    Raises:
        SmexTypeError: `matrix` is of no such layout.
        SmexValueError: it is no square matrix.

    Example:
        >>> import smex.graph as sg
        >>> sg.from_torch_sparse(torch.eye(3).to_sparse(), eweight_name="w").edata["w"]
        tensor([1., 1., 1.])
    """
    _check_sparse("from_torch_sparse", matrix)
    if matrix.shape[0] != matrix.shape[1]:
        raise SmexValueError(
            f"from_torch_sparse: expected a square matrix, found shape {list(matrix.shape)}; use "
            "bipartite_from_torch_sparse"
        )
    sizes = {DEFAULT_NTYPE: matrix.shape[0]}
    return _from_sparse(matrix, sizes, DEFAULT_ETYPE, eweight_name, idtype, device)


def bipartite_from_torch_sparse(
    matrix: Tensor,
    utype: str,
    etype: str,
    vtype: str,
    eweight_name: str | None = None,
    idtype: torch.dtype | None = None,
    device: torch.device | str | None = None,
) -> Graph:
    """Returns a graph from `utype` (rows) to `vtype` (columns), see :func:`from_torch_sparse`.

    Raises:
        SmexTypeError: `matrix` is of no such layout.
        SmexValueError: it is no matrix, or both types have one name and it is not square.

    Example:
        >>> import smex.graph as sg
        >>> sg.bipartite_from_torch_sparse(torch.ones(2, 3).to_sparse(), "u", "e", "v").num_edges()
        6
    """
    _check_sparse("bipartite_from_torch_sparse", matrix)
    if utype == vtype and matrix.shape[0] != matrix.shape[1]:
        raise SmexValueError(
            f'bipartite_from_torch_sparse: rows and columns both are of type "{utype}", expected a '
            f"square matrix, found shape {list(matrix.shape)}"
        )
    sizes = {utype: matrix.shape[0], vtype: matrix.shape[1]}
    return _from_sparse(matrix, sizes, (utype, etype, vtype), eweight_name, idtype, device)


def to_torch_sparse(
    g: Graph,
    eweight_name: str | None = None,
    layout: torch.layout = torch.sparse_coo,
    etype: EdgeType = None,
) -> Tensor:
    """Returns the adjacency matrix as a sparse tensor ``[num_src, num_dst]``: rows are sources.

    Args:
        g: the graph.
        eweight_name: edge feature ``[num_edges]`` of the values; ones (float32) by default.
            Gradients flow through it.
        layout: ``torch.sparse_coo`` (entries in the order of edge ids, parallel edges apart),
            ``torch.sparse_csr`` or ``torch.sparse_csc`` (structure is shared with the graph).
        etype: the edge type.

    Raises:
        SmexTypeError: another layout.
        SmexValueError: the feature is missing, or is no vector.

    Example:
        >>> import smex.graph as sg
        >>> sg.to_torch_sparse(sg.graph(([0, 1], [1, 1]))).to_dense()
        tensor([[0., 1.],
                [0., 1.]])
    """
    if layout not in _LAYOUTS:
        raise SmexTypeError(
            f"to_torch_sparse: layout must be one of {list(map(str, _LAYOUTS))}, found {layout}"
        )
    canonical = g.to_canonical_etype(etype)
    relation = g._relations[canonical]
    size = (relation.num_src, relation.num_dst)
    if eweight_name is None:
        values = torch.ones(relation.num_edges, device=g.device)
    else:
        values = g._edge_frames[canonical][eweight_name]
    if values.dim() != 1:
        raise SmexValueError(
            f'to_torch_sparse: edge feature "{eweight_name}" must be a vector, found shape '
            f"{list(values.shape)}"
        )
    if layout == torch.sparse_coo:
        indices = torch.stack(relation.coo()).long()
        return torch.sparse_coo_tensor(indices, values, size, check_invariants=False)
    by_row = layout == torch.sparse_csr
    indptr, indices, eids = relation.csr() if by_row else relation.csc()
    values = values if eids is None else values[eids.long()]
    make = torch.sparse_csr_tensor if by_row else torch.sparse_csc_tensor
    return make(indptr, indices, values, size, check_invariants=False)


def _check_sparse(op: str, matrix: Any) -> None:
    if not isinstance(matrix, Tensor) or matrix.layout not in _LAYOUTS:
        found = matrix.layout if isinstance(matrix, Tensor) else type(matrix).__name__
        raise SmexTypeError(
            f"{op}: expected a sparse tensor of layout COO, CSR or CSC, found {found}"
        )
    if matrix.dim() - matrix.dense_dim() != 2:
        raise SmexValueError(f"{op}: expected a matrix, found shape {list(matrix.shape)}")


def _from_sparse(matrix, sizes, canonical, eweight_name, idtype, device) -> Graph:
    num_src, num_dst = matrix.shape[:2]
    if matrix.layout == torch.sparse_coo:
        if matrix.requires_grad:
            matrix = matrix.coalesce()  # values of others are not differentiable
        coalesced = matrix.is_coalesced()
        ends = matrix.indices() if coalesced else matrix._indices()
        values = matrix.values() if coalesced else matrix._values()
        src, dst = (ids.to(device=device, dtype=idtype) for ids in ends)
        relation = Relation.from_coo(src, dst, num_src, num_dst, check=False)
    else:
        by_row = matrix.layout == torch.sparse_csr
        structure = (
            (matrix.crow_indices(), matrix.col_indices())
            if by_row
            else (matrix.ccol_indices(), matrix.row_indices())
        )
        values = matrix.values()
        indptr, indices = (ids.to(device=device, dtype=idtype) for ids in structure)
        make = Relation.from_csr if by_row else Relation.from_csc
        relation = make(indptr, indices, None, num_src, num_dst)
    result = Graph({canonical: relation}, sizes)
    if eweight_name is not None:
        result._edge_frames[canonical][eweight_name] = values.to(result.device)
    return result
