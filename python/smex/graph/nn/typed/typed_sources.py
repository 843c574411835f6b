"""Sources that send another row along each type of edges."""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import Tensor

from smex.errors import SmexValueError
from smex.graph.graph import Graph
from smex.graph.ops.kernels import edges_of_gradient
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


def typed_sum(
    relation: Relation, x: Tensor, weight: Tensor, types: Tensor, factor: Tensor | None = None
) -> Tensor:
    """Returns the sums of sources' rows times the matrices of their edges' types.

    It does not ask how many pairs there are, which is not known while types are traced. Where they
    are known `typed_sources` are faster: this sorts the edges of each call, forward and backward.

    Args:
        relation: the edges.
        x: ``[num_src, blocks, in_size]``.
        weight: ``[num_types, blocks, in_size, out_size]``.
        types: ``[num_edges]``.
        factor: of the messages, ``[num_edges, blocks]`` or ``[num_edges, 1]``.

    Returns:
        ``[num_dst, blocks, out_size]``.
    """
    operands = [x, weight] if factor is None else [x, weight, factor]
    return torch.ops.smex.typed_spmm.default(
        relation.in_edges(), edges_of_gradient(relation, operands), x, weight, types, factor
    )


def typed_dots(relation: Relation, x: Tensor, weight: Tensor, y: Tensor, types: Tensor) -> Tensor:
    """Returns the products of both ends' rows with the matrix of each edge's type between them.

    Args:
        relation: the edges.
        x: ``[num_src, blocks, in_size]``.
        weight: ``[num_types, blocks, in_size, out_size]``.
        y: ``[num_dst, blocks, out_size]``.
        types: ``[num_edges]``.

    Returns:
        ``[num_edges, blocks]``.
    """
    return torch.ops.smex.typed_sddmm.default(
        relation.in_edges(), edges_of_gradient(relation, [x, weight, y]), x, weight, y, types
    )


def typed_sources(graph: Graph, types: Tensor) -> TypedSources:
    """Returns the pairs of a graph whose edge ``i`` has the type ``types[i]``.

    Those of the last types are kept with the graph's structure, beside a copy of the types, to
    which the next are compared: a loop over one graph sorts its edges once.
    """
    relation = graph.relation()
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
