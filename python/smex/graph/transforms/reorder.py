"""Nodes and edges numbered anew, so that what is used together lies together."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from smex.errors import SmexImportError, SmexValueError
from smex.graph.constants import EID, NID
from smex.graph.features.frame import Frame
from smex.graph.graph import Graph
from smex.graph.parts.selection import check_one_type, reject_block
from smex.graph.structure.edge_data import as_id_tensor, check_permutation
from smex.graph.structure.relation import Relation
from smex.graph.transforms.partition import metis_partition_assignment

__all__ = ["reorder_graph"]


def reorder_graph(
    g: Graph,
    node_permute_algo: str | None = None,
    edge_permute_algo: str | None = "src",
    store_ids: bool = True,
    permute_config: Mapping[str, Any] | None = None,
) -> Graph:
    """Returns the graph with other node and edge ids; features move along.

    Kernels read features of edges in the order of destinations. With ``edge_permute_algo="dst"``
    that is the order in which they lie, and no edge ids are stored for it: the way to choose for
    message passing with narrow edge features on large graphs.

    Args:
        g: a graph of one node type and one edge type.
        node_permute_algo: ``"rcmk"`` (reverse Cuthill-McKee, by SciPy) puts neighbours close
            together, ``"metis"`` puts those of a part of `permute_config` ``["k"]`` parts one after
            another, ``"custom"`` takes the old ids in their new order from ``["nodes_perm"]``; None
            keeps the nodes.
        edge_permute_algo: ``"src"`` or ``"dst"`` sorts edges by their new source or destination
            (those of one node stay in order), ``"custom"`` takes the old ids in their new order
            from ``["edges_perm"]``; None keeps the order.
        store_ids: whether features ``NID`` and ``EID`` hold the ids in `g`.
        permute_config: see above.

    Raises:
        SmexTypeError: the graph has several types or is a block, or ids are not integers.
        SmexValueError: an algorithm does not exist or lacks its configuration, or what it is given
            is no permutation.
        SmexImportError: SciPy or pymetis is not installed, and asked for.

    Example:
        >>> import smex.graph as sg
        >>> g = sg.graph(([0, 1, 2, 0], [2, 0, 1, 1]))
        >>> r = sg.reorder_graph(g, edge_permute_algo="dst")
        >>> r.edges(), r.edata[sg.EID]
        ((tensor([1, 2, 0, 0]), tensor([0, 1, 1, 2])), tensor([1, 2, 3, 0]))
    """
    op = "reorder_graph"
    reject_block(op, g)
    check_one_type(op, g)
    config = dict(permute_config or {})
    nodes = _node_order(op, g, node_permute_algo, config)
    relation, edges = _with_edges(op, g, _with_nodes(g, nodes), edge_permute_algo, config)
    (ntype,), (canonical,) = g.ntypes, g.canonical_etypes
    result = Graph(
        {canonical: relation},
        {ntype: g.num_nodes()},
        src_frames={ntype: _moved(g._src_frames[ntype], nodes)},
        edge_frames={canonical: _moved(g._edge_frames[canonical], edges)},
    )
    if store_ids:
        result.ndata[NID] = _all(g, g.num_nodes()) if nodes is None else nodes
        result.edata[EID] = _all(g, g.num_edges()) if edges is None else edges
    return result


def _all(g: Graph, count: int) -> Tensor:
    return torch.arange(count, dtype=g.idtype, device=g.device)


def _moved(frame: Frame, order: Tensor | None) -> Frame:
    return frame.clone() if order is None else frame.subframe(order)


def _with_nodes(g: Graph, order: Tensor | None) -> Relation:
    """Returns the edges between nodes in a new order."""
    relation = g.relation()
    if order is None:
        return relation
    place = torch.empty_like(order)
    place[order] = torch.arange(order.shape[0], dtype=order.dtype, device=order.device)
    src, dst = relation.coo()
    return Relation.from_coo(place[src], place[dst], g.num_nodes(), g.num_nodes(), check=False)


def _node_order(op: str, g: Graph, algorithm: str | None, config: dict[str, Any]) -> Tensor | None:
    """Returns the old ids in their new order; None where they stay."""
    if algorithm is None:
        return None
    if algorithm == "custom":
        return _given(op, g, config, "nodes_perm", g.num_nodes())
    if algorithm == "metis":
        if "k" not in config:
            raise SmexValueError(
                f'{op}: node_permute_algo "metis" needs permute_config={{"k": number of parts}}'
            )
        parts = metis_partition_assignment(g, config["k"])
        return torch.argsort(parts, stable=True).to(device=g.device, dtype=g.idtype)
    if algorithm == "rcmk":
        return _reverse_cuthill_mckee(op, g)
    raise SmexValueError(
        f"{op}: expected node_permute_algo 'rcmk', 'metis', 'custom' or None, found {algorithm!r}"
    )


def _with_edges(
    op: str, g: Graph, relation: Relation, algorithm: str | None, config: dict[str, Any]
) -> tuple[Relation, Tensor | None]:
    """Returns the edges in their new order, and their old ids; None where they stay."""
    if algorithm is None:
        return relation, None
    if algorithm == "custom":
        order = _given(op, g, config, "edges_perm", g.num_edges())
        return relation.edge_subgraph(order), order
    if algorithm not in ("src", "dst"):
        raise SmexValueError(
            f"{op}: expected edge_permute_algo 'src', 'dst', 'custom' or None, found {algorithm!r}"
        )
    # The compressed form is the order, and becomes a form without edge ids.
    form = relation.csr() if algorithm == "src" else relation.csc()
    make = Relation.from_csr if algorithm == "src" else Relation.from_csc
    size = g.num_nodes()
    return make(form.indptr, form.indices, None, size, size), form.edge_ids().clone()


def _given(op: str, g: Graph, config: dict[str, Any], name: str, size: int) -> Tensor:
    if name not in config:
        raise SmexValueError(
            f'{op}: the algorithm "custom" needs permute_config={{"{name}": old ids in their new '
            "order}"
        )
    order = as_id_tensor(op, name, config[name], g.idtype, g.device)
    check_permutation(op, name, order, size)
    return order


def _reverse_cuthill_mckee(op: str, g: Graph) -> Tensor:
    try:
        from scipy.sparse import csr_matrix
        from scipy.sparse.csgraph import reverse_cuthill_mckee
    except ImportError as error:
        raise SmexImportError(
            f"{op}: the package scipy is not installed; pip install scipy"
        ) from error
    indptr, indices, _ = (None if t is None else t.cpu().numpy() for t in g.relation().csr())
    ones = torch.ones(g.num_edges(), dtype=torch.bool).numpy()
    matrix = csr_matrix((ones, indices, indptr), shape=(g.num_nodes(), g.num_nodes()))
    order = torch.from_numpy(reverse_cuthill_mckee(matrix).copy())
    return order.to(device=g.device, dtype=g.idtype)
