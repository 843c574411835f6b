"""Graphs of :mod:`smex.graph` as input graphs whose types are numbers of in-edges."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from smex.graph.core.graph_core import GraphCore
from smex.graph.core.traversal import topological_nodes_generator
from smex.graph.structure.relation import Relation
from smex.vertex.compile.trace import UntraceableError
from smex.vertex.words.graphs import GraphBatch, InputGraph

ANY = -1
"""Stands for any number of in-edges above 0."""
MOST_DEGREES = 16
"""How many numbers of in-edges there may be in a graph: each has traces and tasks of its own."""
MOST_EDGES = 32
"""How many in-edges a node may have: a trace has the message function once for each of them."""

FEW_EDGES = 4
"""Up to how many in-edges of each node are rather added one by one than as rows of edges."""


@dataclass
class Bucket:
    """The nodes with as many in-edges each (degree bucketing, thesis §4.6.1).

    Attributes:
        degree: how many, or ANY.
        ids: ``[n]``, of the nodes, ascending.
        sources: ``[n, degree]``, the in-neighbours in the order of the edges' ids; empty for ANY.
        edges: ``[n, degree]``, these ids; empty for ANY.
    """

    degree: int
    ids: Tensor
    sources: Tensor
    edges: Tensor


@dataclass
class Levels:
    """A graph as input of vertex functions.

    Attributes:
        batch: of one sample; the types are the buckets' degrees.
        buckets: nodes without in-edges first.
    """

    batch: GraphBatch
    buckets: list[Bucket]


def levels_of(graph: GraphCore, by_degree: bool) -> Levels:
    """The structure of a graph as vertex functions run it, made once and kept with the structure.

    Args:
        graph: homogeneous, with nodes.
        by_degree: a bucket for each number of in-edges, rather than one for all above 0.

    Raises:
        SmexValueError: the graph has a cycle.
        UntraceableError: numbers of in-edges are too many or too large.
    """

    def make() -> Levels | str:
        topological_nodes_generator(graph)  # for its error
        return _levels(relation, by_degree)

    relation = graph.relation()
    found = relation.keep(("levels", by_degree), make)
    if isinstance(found, str):
        raise UntraceableError(found)
    return found


def has_one_degree(graph: GraphCore) -> bool:
    """Whether all nodes that have in-edges have as many of them, and few: as in binary trees."""
    relation = graph.relation()

    def look() -> bool:
        degrees = torch.unique(relation.in_degrees())
        return int((degrees > 0).sum()) < 2 and int(degrees.max()) <= FEW_EDGES

    return relation.keep("has one degree", look)


def _levels(relation: Relation, by_degree: bool) -> Levels | str:
    """Returns the levels, or why there are none."""
    indptr, indices, eids = relation.csc()
    degrees = indptr.diff()
    if not by_degree:
        degrees = torch.where(degrees > 0, ANY, degrees)
    different = sorted(torch.unique(degrees).tolist(), key=abs)
    if len(different) > MOST_DEGREES:
        return f"nodes have {len(different)} different numbers of in-edges"
    if different[-1] > MOST_EDGES:
        return f"a node has {different[-1]} in-edges"
    buckets = []
    for degree in different:
        nodes = torch.nonzero(degrees == degree).flatten()
        steps = torch.arange(max(degree, 0), device=indptr.device)
        places = indptr[nodes].long().unsqueeze(1) + steps
        edges = places if eids is None else eids.long()[places]
        sources = indices[places].long()
        buckets.append(Bucket(degree, nodes.to(indices.dtype), sources, edges))
    offsets, children = (x.cpu().numpy().astype(np.int64) for x in (indptr, indices))
    batch = GraphBatch([InputGraph(offsets, children)])
    # By hand, since a list with a name for each vertex would take longer than the schedule.
    batch.type_names = sorted(map(str, different))
    values = np.sort(different)
    place = np.array([batch.type_names.index(str(d)) for d in values], np.int64)
    batch.types = place[np.searchsorted(values, degrees.cpu().numpy())]
    return Levels(batch, buckets)
