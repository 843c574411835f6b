"""Graphs whose edges stand for something else: paths, pairs of edges; and features converted."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from smex.errors import SmexTypeError
from smex.graph.constants import DEFAULT_ETYPE, DEFAULT_NTYPE
from smex.graph.graph import Graph
from smex.graph.parts.selection import check_hops
from smex.graph.structure.relation import Relation
from smex.graph.words import EdgeType

__all__ = [
    "khop_adj",
    "khop_graph",
    "line_graph",
    "norm_by_dst",
    "to_bfloat16",
    "to_double",
    "to_float",
    "to_half",
]


def line_graph(g: Graph, backtracking: bool = True, shared: bool = False) -> Graph:
    """The graph whose nodes are the edges of `g`, joined where one ends and the next starts.

    A self loop is not joined to itself. Edges are ordered by their source, then by edge id in `g`.
    The line graph of a batch is one graph: ``sg.batch`` of the line graphs of its parts is a batch.

    Args:
        g: a graph of one node type and one edge type.
        backtracking: whether the edge from ``u`` to ``v`` is joined to one from ``v`` to ``u``.
        shared: whether the edge features of `g` are the node features of the result.

    Raises:
        SmexTypeError: the graph has several types.

    Example:
        >>> import smex.graph as sg
        >>> sg.line_graph(sg.graph(([0, 1, 1], [1, 0, 2]))).edges()
        (tensor([0, 0, 1]), tensor([1, 2, 0]))
    """
    relation = _only_relation("line_graph", g)
    src, dst = relation.coo()
    _, after, following = relation.out_edges_of(dst)
    edge = torch.repeat_interleave(relation.out_degrees(dst).long()).to(g.idtype)
    keep = edge != following
    if not backtracking:
        keep &= after != src[edge.long()]
    edge, following = edge[keep], following[keep]
    number = relation.num_edges
    frame = next(iter(g._edge_frames.values()))
    return Graph(
        {DEFAULT_ETYPE: Relation.from_coo(edge, following, number, number, check=False)},
        {DEFAULT_NTYPE: number},
        src_frames={DEFAULT_NTYPE: frame.clone()} if shared else None,
    )


def khop_adj(g: Graph, k: int) -> Tensor:
    """The number of walks of `k` edges between any two nodes, float32 ``[num_nodes, num_nodes]``.

    Rows are sources. The result is dense; :func:`khop_graph` is not.

    Raises:
        SmexTypeError: the graph has several types.
        SmexValueError: `k` is negative.

    Example:
        >>> import smex.graph as sg
        >>> sg.khop_adj(sg.graph(([0, 1], [1, 2])), 2)
        tensor([[0., 0., 1.],
                [0., 0., 0.],
                [0., 0., 0.]])
    """
    relation = _only_relation("khop_adj", g)
    check_hops("khop_adj", k)
    walks = _walks(relation, k)
    src, dst = (ids.long() for ids in walks.relation(relation.num_dst).coo())
    counts = torch.ones(1, device=g.device) if walks.counts is None else walks.counts.float()
    result = torch.zeros(relation.num_src, relation.num_dst, device=g.device)
    return result.index_put((src, dst), counts, accumulate=True)


def khop_graph(g: Graph, k: int, copy_ndata: bool = True) -> Graph:
    """The graph with an edge for each walk of `k` edges, ordered by source, then destination.

    Batches are kept. Time and memory go with the number of walks of `k` edges, which are the edges
    of the result, and with the number of pairs of nodes that shorter walks join.

    Args:
        g: a graph of one node type and one edge type.
        k: length of the walks.
        copy_ndata: whether the result has the node features.

    Raises:
        SmexTypeError: the graph has several types.
        SmexValueError: `k` is negative.

    Example:
        >>> import smex.graph as sg
        >>> sg.khop_graph(sg.graph(([0, 1], [1, 2])), 2).edges()
        (tensor([0]), tensor([2]))
    """
    relation = _only_relation("khop_graph", g)
    check_hops("khop_graph", k)
    number = g.num_nodes()
    walks = _walks(relation, k)
    if walks.counts is not None:
        times = walks.counts.long()
        walks = _repeated(walks, times, walks.ends.repeat_interleave(times))
    indptr, ends, _ = walks.relation(number).sorted_csr()
    frames = {DEFAULT_NTYPE: next(iter(g._src_frames.values())).clone()} if copy_ndata else None
    return Graph(
        {DEFAULT_ETYPE: Relation.from_csr(indptr, ends, None, number, number)},
        {DEFAULT_NTYPE: number},
        src_frames=frames,
    )._batched_as(g)


class _Walks(NamedTuple):
    """Walks by where they start; rows of one start and one end may repeat."""

    indptr: Tensor  # [num_nodes + 1], int64
    ends: Tensor  # [num_rows]
    counts: Tensor | None  # [num_rows], how many walks a row stands for, float64; None: one

    def relation(self, num_nodes: int) -> Relation:
        """Returns an edge for each row."""
        indptr = self.indptr.to(self.ends.dtype)
        return Relation.from_csr(indptr, self.ends, None, num_nodes, num_nodes)


def _walks(relation: Relation, k: int) -> _Walks:
    """Returns the walks of `k` edges: the k-th power of the adjacency matrix, row by row.

    No more is stored than the walks that prolong those of ``k - 1`` edges by one, of which those
    between the same nodes are one row with their number.
    """
    if k == 0:
        nodes = torch.arange(relation.num_src + 1, device=relation.device)
        return _Walks(nodes, nodes[:-1].to(relation.idtype), None)
    indptr, ends, _ = relation.csr()
    walks = _Walks(indptr.long(), ends, None)
    for step in range(1, k):
        walks = _prolonged(_merged(walks, relation) if step > 1 else walks, relation)
    return walks


def _merged(walks: _Walks, relation: Relation) -> _Walks:
    """Each pair of ends once."""
    simple, counts, pair = walks.relation(relation.num_dst).to_simple()
    sums = counts.double()
    if walks.counts is not None:
        sums = torch.zeros_like(sums).index_add(0, pair, walks.counts)
    indptr, ends, _ = simple.csr()
    return _Walks(indptr.long(), ends, sums)


def _prolonged(walks: _Walks, relation: Relation) -> _Walks:
    """Returns the walks with each edge out of their ends appended."""
    degrees = relation.out_degrees(walks.ends).long()
    return _repeated(walks, degrees, relation.out_edges_of(walks.ends)[1])


def _repeated(walks: _Walks, times: Tensor, ends: Tensor) -> _Walks:
    """Some rows in the place of each, with the given ends."""
    before = torch.nn.functional.pad(times.cumsum(0), (1, 0))
    counts = None if walks.counts is None else walks.counts.repeat_interleave(times)
    return _Walks(before[walks.indptr], ends, counts)


def norm_by_dst(g: Graph, etype: EdgeType = None) -> Tensor:
    """Returns one over the in-degree of each edge's destination, float32 ``[num_edges]``.

    Example:
        >>> import smex.graph as sg
        >>> sg.norm_by_dst(sg.graph(([0, 1, 2], [2, 2, 0])))
        tensor([0.5000, 0.5000, 1.0000])
    """
    relation = g._relations[g.to_canonical_etype(etype)]
    return 1.0 / relation.in_degrees(relation.coo()[1], check=False).float()


def to_half(g: Graph) -> Graph:
    """Returns the graph with all floating point features in float16.

    Example:
        >>> import smex.graph as sg
        >>> g = sg.graph(([0], [1]))
        >>> g.ndata["h"] = torch.ones(2)
        >>> sg.to_half(g).ndata["h"].dtype
        torch.float16
    """
    return _with_floats(g, torch.float16)


def to_float(g: Graph) -> Graph:
    """Returns the graph with all floating point features in float32, see :func:`to_half`."""
    return _with_floats(g, torch.float32)


def to_double(g: Graph) -> Graph:
    """Returns the graph with all floating point features in float64, see :func:`to_half`."""
    return _with_floats(g, torch.float64)


def to_bfloat16(g: Graph) -> Graph:
    """Returns the graph with all floating point features in bfloat16, see :func:`to_half`."""
    return _with_floats(g, torch.bfloat16)


def _with_floats(g: Graph, dtype: torch.dtype) -> Graph:
    result = g.clone()
    result._set_frames(lambda f: f.map(lambda t: t.to(dtype) if t.is_floating_point() else t))
    return result


def _only_relation(op: str, g: Graph) -> Relation:
    if not g.is_homogeneous:
        raise SmexTypeError(
            f"{op}: expected a graph of one node type and one edge type, found {len(g.ntypes)} and "
            f"{len(g.etypes)}; use to_homogeneous or edge_type_subgraph"
        )
    return g.relation()
