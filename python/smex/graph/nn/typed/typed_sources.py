"""Sources that send another row along each type of edges."""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import Tensor

from smex.errors import SmexValueError
from smex.graph.graph import Graph
from smex.graph.structure.formats import kept_tensors
from smex.graph.structure.relation import Relation
from smex.graph.words import check_range, counted, describe


class TypedSources(NamedTuple):
    """The pairs (source, edge type) that there are, and the edges out of pairs.

    What a layer projects by the edge's type is projected once for each pair, of which there are at
    most as many as edges, and travels along ``relation`` as any other row of a source.
    """

    nodes: Tensor  # [num_pairs], the sources
    types: Tensor  # [num_pairs], ascending
    relation: Relation  # from pairs to destinations, its edges in the graph's order


def edge_types(layer: str, graph: Graph, etypes: Any, num_types: int) -> Tensor:
    """Returns the type of each edge as a tensor ``[num_edges]``.

    Raises:
        SmexValueError: there is not one type for each edge, or it is none of ``num_types``.
    """
    types = torch.as_tensor(etypes, device=graph.device)
    if types.shape != (graph.num_edges(),) or types.is_floating_point():
        raise SmexValueError(
            f"{layer}: expected one integer for each of {counted(graph.num_edges(), 'edge')}, its "
            f"type, found {describe(types)}"
        )
    check_range(types, num_types, f"{layer}: edge types")
    return types.long()


def typed_sources(graph: Graph, types: Tensor) -> TypedSources:
    """Returns the pairs of a graph whose edge ``i`` has the type ``types[i]``.

    Those of the last types are kept with the graph's structure, beside a copy of the types, to
    which the next are compared: a loop over one graph sorts its edges once.
    """
    relation = graph.relation()
    if torch.compiler.is_compiling() or type(types) is not Tensor:
        return _pairs(relation, types)  # those of a tracer stand for numbers only while it runs
    known, found = relation.kept.get("typed_sources", (None, None))
    if found is not None and torch.equal(known, types):
        return found
    with kept_tensors(types, relation.coo()[0]):
        found = _pairs(relation, types)
        relation.kept["typed_sources"] = (types.clone(), found)
    return found


def _pairs(relation: Relation, types: Tensor) -> TypedSources:
    source, destination = relation.coo()
    pairs, position = torch.unique(types * relation.num_src + source, return_inverse=True)
    num_src = max(relation.num_src, 1)
    edges = Relation.from_coo(
        position.to(relation.idtype),
        destination,
        pairs.shape[0],
        relation.num_dst,
        check=False,
    )
    return TypedSources(pairs % num_src, pairs // num_src, edges)
