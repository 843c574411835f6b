"""Graphs in parts of few edges between them, found by METIS (Karypis and Kumar 1998)."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from smex.errors import SmexImportError, SmexValueError
from smex.graph.constants import EID, NID
from smex.graph.features.frame import Frame
from smex.graph.graph import Graph
from smex.graph.parts.selection import check_one_type
from smex.graph.structure.edge_data import as_id_tensor
from smex.graph.structure.relation import Relation, unique_and_relabel
from smex.graph.transforms.edits import to_bidirected
from smex.graph.words import counted

__all__ = [
    "metis_partition",
    "metis_partition_assignment",
    "partition_graph_with_halo",
    "reorder_nodes",
]

_MODES = ("k-way", "recursive")
_OBJECTIVES = {"cut": 0, "vol": 1}  # METIS_OBJTYPE_CUT, METIS_OBJTYPE_VOL


def metis_partition_assignment(
    g: Graph,
    k: int,
    balance_ntypes: Tensor | None = None,
    balance_edges: bool = False,
    mode: str = "k-way",
    objtype: str = "cut",
) -> Tensor:
    """Which of `k` parts each node is assigned to: few edges between parts, parts of similar size.

    Directions and parallel edges do not count.

    Args:
        g: a graph of one node type and one edge type.
        k: number of parts.
        balance_ntypes: not supported, see below.
        balance_edges: weigh each node by 1 + its in-degree, so that parts are similar in nodes and
            edges together.
        mode: ``"k-way"`` or ``"recursive"`` bisection.
        objtype: minimise edges between parts (``"cut"``) or communication (``"vol"``, k-way only).

    Returns:
        int64 ``[num_nodes]`` on the CPU.

    Raises:
        SmexImportError: the package pymetis is not installed.
        SmexTypeError: the graph has several types.
        SmexValueError: `k`, `mode` or `objtype` is impossible; or `balance_ntypes` is given:
            pymetis balances one weight for each node, and several would be needed.

    Example:
        >>> import smex.graph as sg
        >>> two_squares = ([0, 1, 2, 3, 4, 5, 6, 7, 0], [1, 2, 3, 0, 5, 6, 7, 4, 4])
        >>> parts = sg.metis_partition_assignment(sg.graph(two_squares), 2)
        >>> bool((parts[:4] == parts[0]).all() and (parts[4:] == parts[4]).all())
        True
    """
    op = "metis_partition_assignment"
    try:
        import pymetis
    except ImportError as error:
        raise SmexImportError(
            f"{op}: the package pymetis is not installed; pip install pymetis"
        ) from error
    check_one_type(op, g)
    if k < 1:
        raise SmexValueError(f"{op}: expected k of at least 1, found {k}")
    if mode not in _MODES or objtype not in _OBJECTIVES:
        raise SmexValueError(
            f"{op}: expected mode 'k-way' or 'recursive' and objtype 'cut' or 'vol', found "
            f"{mode!r} and {objtype!r}"
        )
    if mode == "recursive" and objtype == "vol":
        raise SmexValueError(f"{op}: objtype 'vol' needs mode 'k-way', found mode 'recursive'")
    if balance_ntypes is not None:
        raise SmexValueError(
            f"{op}: balance_ntypes needs several weights for each node, and pymetis takes one; "
            "partition the nodes of each type apart, or leave it out"
        )
    if g.num_nodes() == 0:
        return torch.empty(0, dtype=torch.int64)
    both_ways = to_bidirected(g.cpu().long())
    indptr, neighbours, _ = _without_loops(both_ways.relation()).csr()
    weights = (g.in_degrees().cpu().long() + 1).tolist() if balance_edges else None
    _, parts = pymetis.part_graph(
        k,
        pymetis.CSRAdjacency(indptr.numpy(), neighbours.numpy()),
        vweights=weights,
        recursive=mode == "recursive",
        options=pymetis.Options(objtype=_OBJECTIVES[objtype]),
    )
    return torch.tensor(list(parts), dtype=torch.int64)


def _without_loops(relation: Relation) -> Relation:
    src, dst = relation.coo()
    keep = src != dst
    return Relation.from_coo(src[keep], dst[keep], relation.num_src, relation.num_dst, check=False)


def metis_partition(
    g: Graph,
    k: int,
    extra_cached_hops: int = 0,
    reshuffle: bool = False,
    balance_ntypes: Tensor | None = None,
    balance_edges: bool = False,
    mode: str = "k-way",
) -> dict[int, Graph]:
    """Returns the graph in `k` parts, see :func:`metis_partition_assignment`.

    Args:
        g: a graph of one node type and one edge type.
        k: number of parts.
        extra_cached_hops: how far from a part's nodes other parts' nodes are added to it.
        reshuffle: whether nodes and edges are renumbered first, so that those of a part follow one
            another.
        balance_ntypes: as for :func:`metis_partition_assignment`.
        balance_edges: as for :func:`metis_partition_assignment`.
        mode: as for :func:`metis_partition_assignment`.

    Returns:
        The graphs of :func:`partition_graph_with_halo` by part.

    Raises:
        SmexImportError: the package pymetis is not installed.
        SmexTypeError: the graph has several types.
        SmexValueError: as for :func:`metis_partition_assignment`.

    Example:
        >>> import smex.graph as sg
        >>> ring = sg.graph((torch.arange(8), torch.arange(1, 9) % 8))
        >>> sum(part.num_nodes() for part in sg.metis_partition(ring, 2).values())
        8
    """
    parts = metis_partition_assignment(g, k, balance_ntypes, balance_edges, mode)
    return partition_graph_with_halo(g, parts, extra_cached_hops, reshuffle)[0]


def partition_graph_with_halo(
    g: Graph, node_part: Any, extra_cached_hops: int, reshuffle: bool = False
) -> tuple[dict[int, Graph], Tensor | None, Tensor | None]:
    """Returns a graph for each part: its nodes, the edges between them, and a halo of other nodes.

    With `extra_cached_hops` of 0 a part has the edges between its nodes. With 1 it has all edges
    into its nodes too, and the edges from its nodes to others; each further hop adds the edges into
    the nodes that the last one added. The part's own nodes and the edges into them come first; with
    `reshuffle` the other edges are in the order of their ids.

    Node features of the results: ``NID`` (id in the renumbered graph), ``part_id``, ``inner_node``
    (1 for the part's own, int32); with `reshuffle` ``orig_id`` (id in `g`). Edge features: ``EID``,
    ``inner_edge`` (1 for edges into the part's own nodes, int8); with `reshuffle` ``orig_id``.

    Args:
        g: a graph of one node type and one edge type.
        node_part: part of each node ``[num_nodes]``.
        extra_cached_hops: number of hops.
        reshuffle: whether nodes are renumbered part by part, and edges by their destination.

    Returns:
        The graphs by part, and with `reshuffle` the ids in `g` of the renumbered nodes and edges.

    Raises:
        SmexTypeError: the graph has several types.
        SmexValueError: `node_part` has another length, or holds negative numbers.

    Example:
        >>> import smex.graph as sg
        >>> g = sg.graph(([0, 1, 2, 3], [1, 2, 3, 0]))
        >>> parts, _, _ = sg.partition_graph_with_halo(g, [0, 0, 1, 1], 1)
        >>> parts[0].ndata[sg.NID], parts[0].ndata["inner_node"].tolist()
        (tensor([0, 1, 3, 2]), [1, 1, 0, 0])
    """
    op = "partition_graph_with_halo"
    check_one_type(op, g)
    part = as_id_tensor(op, "node_part", node_part, torch.int64, g.device)
    if part.shape[0] != g.num_nodes() or bool((part < 0).any()):
        raise SmexValueError(
            f"{op}: expected a part of at least 0 for each of {counted(g.num_nodes(), 'node')}, "
            f"found {counted(part.shape[0], 'part')}, the least of them "
            f"{int(part.min()) if part.numel() else None}"
        )
    relation, node_ids, edge_ids = g.relation(), None, None
    if reshuffle:
        relation, node_ids, edge_ids = _reshuffled(relation, part)
        part = part[node_ids.long()]
    graphs = {}
    for number in range(int(part.max()) + 1 if part.numel() else 0):
        inner = (part == number).nonzero().view(-1).to(g.idtype)
        graphs[number] = _part(relation, inner, extra_cached_hops, reshuffle)
        nodes, edges = graphs[number].ndata, graphs[number].edata
        nodes["part_id"] = part[nodes[NID].long()]
        if node_ids is not None and edge_ids is not None:
            nodes["orig_id"] = node_ids[nodes[NID].long()]
            edges["orig_id"] = edge_ids[edges[EID].long()]
            edges["inner_edge"] = edges.pop("inner_edge")  # stands last
    return graphs, node_ids, edge_ids


def _reshuffled(relation: Relation, part: Tensor) -> tuple[Relation, Tensor, Tensor]:
    """Nodes by part, edges by destination; and the old ids of both."""
    node_ids = torch.argsort(part, stable=True).to(relation.idtype)
    new = torch.empty_like(node_ids)
    new[node_ids.long()] = torch.arange(
        node_ids.shape[0], dtype=relation.idtype, device=relation.device
    )
    src, dst = (new[ids.long()] for ids in relation.coo())
    order = torch.argsort(dst, stable=True)
    sizes = (relation.num_src, relation.num_dst)
    shuffled = Relation.from_coo(src[order], dst[order], *sizes, check=False)
    return shuffled, node_ids, order.to(relation.idtype)


def _part(relation: Relation, inner: Tensor, hops: int, by_id: bool) -> Graph:
    """Returns the graph of one part, with the ids of its nodes and edges and which are its own."""
    if hops == 0:
        local, eids = relation.reverse().node_subgraph(inner, inner)
        local, nodes = local.reverse(), inner
        num_inner = eids.shape[0]
    else:
        src, dst, eids, num_inner = _halo_edges(relation, inner, hops)
        pairs = torch.stack([src, dst], 1).view(-1)
        nodes, (ends,) = unique_and_relabel([pairs], inner)
        if by_id:
            order = torch.argsort(eids[num_inner:]) + num_inner
            order = torch.cat([torch.arange(num_inner, device=order.device), order])
            eids, ends = eids[order], ends.view(-1, 2)[order].view(-1)
        size = nodes.shape[0]
        local = Relation.from_coo(ends[::2], ends[1::2], size, size, check=False)
    result = Graph({("_N", "_E", "_N"): local}, {"_N": nodes.shape[0]})
    own = torch.arange(nodes.shape[0], device=nodes.device) < inner.shape[0]
    inner_edge = torch.arange(eids.shape[0], device=eids.device) < num_inner
    result._src_frames["_N"] = Frame(nodes.shape[0], {NID: nodes, "inner_node": own.int()})
    columns = {EID: eids, "inner_edge": inner_edge.to(torch.int8)}
    result._edge_frames["_N", "_E", "_N"] = Frame(eids.shape[0], columns)
    return result


def _halo_edges(relation: Relation, inner: Tensor, hops: int) -> tuple[Tensor, Tensor, Tensor, int]:
    """(src, dst, edge ids, number of edges into `inner`), the latter's edges first."""
    is_inner = torch.zeros(relation.num_src, dtype=torch.bool, device=inner.device)
    is_inner[inner.long()] = True
    seen = is_inner.clone()
    parts = [relation.in_edges_of(inner)]
    for _ in range(hops - 1):
        sources = unique_and_relabel([parts[-1][0]])[0]
        frontier = sources[~seen[sources.long()]]
        seen[frontier.long()] = True
        edges = relation.in_edges_of(frontier)
        outer = ~is_inner[edges[0].long()]
        parts.append(tuple(ids[outer] for ids in edges))  # type: ignore[arg-type]
    edges = relation.out_edges_of(inner)
    outer = ~is_inner[edges[1].long()]
    parts.append(tuple(ids[outer] for ids in edges))  # type: ignore[arg-type]
    src, dst, eids = (torch.cat(ids) for ids in zip(*parts))
    return src, dst, eids, parts[0][0].shape[0]


def reorder_nodes(g: Graph, new_node_ids: Any) -> Graph:
    """Returns the graph with other numbers of its nodes; edges stay in their order.

    Args:
        g: a graph of one node type and one edge type.
        new_node_ids: a permutation of the node ids, the new one of each node.

    Returns:
        A graph without features but ``orig_id``, the id in `g` of each node.

    Raises:
        SmexTypeError: the graph has several types.
        SmexValueError: the ids are no permutation.

    Example:
        >>> import smex.graph as sg
        >>> g = sg.partition.reorder_nodes(sg.graph(([0, 1], [1, 2])), [2, 0, 1])
        >>> g.edges(), g.ndata["orig_id"]
        ((tensor([2, 0]), tensor([0, 1])), tensor([1, 2, 0]))
    """
    check_one_type("reorder_nodes", g)
    new = g._as_ids(new_node_ids, "reorder_nodes")
    order = new.argsort()
    number = g.num_nodes()
    if not torch.equal(new[order], torch.arange(number, dtype=new.dtype, device=new.device)):
        raise SmexValueError(
            f"reorder_nodes: expected each id from 0 to {number - 1} once as new_node_ids, found "
            f"{counted(new.shape[0], 'id')} that are no permutation"
        )
    src, dst = (new[ids.long()] for ids in g.edges())
    (canonical,) = g.canonical_etypes
    relation = Relation.from_coo(src, dst, number, number, check=False)
    result = Graph({canonical: relation}, g._src_num_nodes)
    result.ndata["orig_id"] = order
    return result
