"""What sampling functions are asked for, checked, and their results as graphs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from numbers import Real
from typing import Any, NamedTuple, TypeVar

import torch
from torch import Tensor

from smex.errors import SmexTypeError, SmexValueError
from smex.graph.constants import EID
from smex.graph.graph import Graph
from smex.graph.parts.selection import edges_by_type, nodes_by_type, reject_block
from smex.graph.parts.subgraph import Parts, graph_of_parts
from smex.graph.structure.relation import Compressed, Relation
from smex.graph.words import CanonicalType, counted, describe, integer, named

Result = TypeVar("Result")

_DIRECTIONS = ("in", "out")


class Neighbors(NamedTuple):
    """Edges that were drawn for nodes: those of node ``i`` are ``offsets[i]`` to its next."""

    offsets: Tensor  # [num_nodes + 1]
    ends: Tensor  # [num_drawn], the other end of each edge
    eids: Tensor  # [num_drawn]


def check_graph(op: str, g: Graph) -> None:
    """Raise unless the graph can be sampled from: no block, on the CPU."""
    reject_block(op, g)
    if g.device.type != "cpu":
        raise SmexValueError(
            f"{op}: expected a graph on the CPU, found one on {g.device}; sample from g.cpu() and "
            "move what is drawn"
        )


def check_direction(op: str, edge_dir: str) -> None:
    """Raise unless edges are those into or out of nodes."""
    if edge_dir not in _DIRECTIONS:
        raise SmexValueError(f"{op}: expected edge_dir 'in' or 'out', found {edge_dir!r}")


def rows_of(relation: Relation, edge_dir: str) -> Compressed:
    """Returns the edges by the node that they are drawn for."""
    return relation.csc() if edge_dir == "in" else relation.csr()


def fanouts_by_type(op: str, g: Graph, name: str, fanout: Any) -> dict[CanonicalType, int]:
    """Returns how many edges of each type are asked for, one number for all of them or a dict."""
    if not isinstance(fanout, Mapping):
        fanout = dict.fromkeys(g.canonical_etypes, fanout)
    numbers = {g.to_canonical_etype(etype): number for etype, number in fanout.items()}
    for canonical in g.canonical_etypes:
        if canonical not in numbers:
            raise SmexValueError(
                f"{op}: {name} must have a number for each edge type, {canonical} is missing; "
                "0 draws none of its edges"
            )
        given = numbers[canonical]
        number = integer(given)
        if number is None or number < -1:
            raise SmexValueError(
                f"{op}: expected {name} of at least 0, or -1 for all edges, found {given!r} for "
                f"{canonical}"
            )
        numbers[canonical] = number
    return numbers


def weights_of(
    op: str, g: Graph, prob: Any, dtypes: tuple[torch.dtype, ...] = ()
) -> dict[CanonicalType, Tensor | None]:
    """The weights of each edge type that has any, as a vector of a dtype that kernels read.

    Args:
        op: the operation.
        g: the graph.
        prob: name of an edge feature ``[num_edges]``; or a tensor, a list with one for each edge
            type, or a dict of them by edge type; None: no weights.
        dtypes: others become float32.
    """
    result: dict[CanonicalType, Tensor | None] = dict.fromkeys(g.canonical_etypes)
    for canonical, given in _given_weights(op, g, prob).items():
        weights, number = given.detach(), g._relations[canonical].num_edges
        if weights.numel() != number or weights.dtype.is_complex:
            raise SmexValueError(
                f"{op}: {_weights_name(prob)} must have one real number for each of "
                f"{number} edges of type {canonical}, found {describe(weights)}"
            )
        if weights.dtype not in (dtypes or (torch.bool, torch.float32, torch.float64)):
            weights = weights.float()
        result[canonical] = weights.reshape(-1).contiguous()
    return result


def _given_weights(op: str, g: Graph, prob: Any) -> dict[CanonicalType, Tensor]:
    """Returns the weights as they are given, of the edge types that have any."""
    if prob is None:
        return {}
    if isinstance(prob, str):
        found = {c: frame[prob] for c, frame in g._edge_frames.items() if prob in frame}
        if not found:
            first = next(iter(g._edge_frames.values()))
            raise first.missing(prob, first.owner)
        return found
    if isinstance(prob, Mapping):
        lists = {g.to_canonical_etype(etype): weights for etype, weights in prob.items()}
    else:
        each = list(prob) if isinstance(prob, (list, tuple)) else [prob]
        if len(each) != len(g.canonical_etypes):
            raise SmexValueError(
                f"{op}: prob must have a tensor for each of {counted(len(g.etypes), 'edge type')}, "
                f"found {len(each)}; None stands for equal weights"
            )
        lists = dict(zip(g.canonical_etypes, each))
    for canonical, weights in lists.items():
        if weights is not None and not isinstance(weights, Tensor):
            raise SmexTypeError(
                f"{op}: prob must be the name of an edge feature, or tensors of weights, found "
                f"{describe(weights)} for {canonical}; set it as g.edata['w'] and pass prob='w'"
            )
    # DGL writes equal weights as a tensor without elements.
    return {c: w for c, w in lists.items() if w is not None and w.numel()}


def _weights_name(prob: Any) -> str:
    """What weights are called in an error message."""
    return f"edge feature {named(prob)}" if isinstance(prob, str) else "prob"


def excluded_by_type(op: str, g: Graph, exclude_edges: Any) -> dict[CanonicalType, Tensor]:
    """Ids of the edges that must not be drawn."""
    return {} if exclude_edges is None else edges_by_type(op, g, exclude_edges)


def checked(op: str, prob: Any, canonical: object, draw: Callable[[], Result]) -> Result:
    """Returns what a kernel returns; its complaint about a weight names the feature."""
    try:
        return draw()
    except ValueError as error:
        name = f"edge feature {prob!r}" if isinstance(prob, str) else "prob"
        raise SmexValueError(f"{op}: {name} of type {canonical}: {error}") from error


def drawn_parts(
    op: str,
    g: Graph,
    nodes: Any,
    edge_dir: str,
    draw: Callable[[CanonicalType, Compressed, Tensor], Neighbors | None],
) -> Parts:
    """What `draw` returns for each edge type and the nodes that are given, between all nodes."""
    check_graph(op, g)
    check_direction(op, edge_dir)
    side = 2 if edge_dir == "in" else 0
    given = nodes_by_type(op, g, nodes)
    none = torch.empty(0, dtype=g.idtype, device=g.device)
    parts: Parts = {}
    for canonical, relation in g._relations.items():
        chosen = given.get(canonical[side], none)
        drawn = None
        if chosen.shape[0]:
            drawn = draw(canonical, rows_of(relation, edge_dir), chosen)
        if drawn is None:
            ends = owners = eids = none
        else:
            rows = torch.ops.smex.expand_rows(drawn.offsets, drawn.ends.shape[0])
            ends, owners, eids = drawn.ends, chosen[rows], drawn.eids
        src, dst = (ends, owners) if edge_dir == "in" else (owners, ends)
        sizes = (relation.num_src, relation.num_dst)
        parts[canonical] = (Relation.from_coo(src, dst, *sizes, check=False), eids)
    return parts


def graph_of_drawn(
    g: Graph,
    parts: Parts,
    copy_ndata: bool,
    copy_edata: bool,
    output_device: torch.device | str | None,
) -> Graph:
    """Returns the drawn edges between all nodes, with ``EID``."""
    result = graph_of_parts(g, parts, None, store_ids=True)
    if not copy_ndata:
        for frame in result._src_frames.values():
            frame.clear()
    if not copy_edata:
        for canonical, frame in result._edge_frames.items():
            frame.clear()
            frame[EID] = parts[canonical][1]
    return result.to(output_device)


def check_positive(op: str, name: str, number: Any) -> None:
    """Raise unless a parameter is a number above 0."""
    if not isinstance(number, Real) or not 0 < float(number) < float("inf"):
        raise SmexValueError(f"{op}: expected {name} above 0, found {number!r}")


def check_count(op: str, name: str, number: Any, least: int = 0) -> int:
    """Returns a parameter as an int; raise unless it is an integer of at least `least`."""
    found = integer(number)
    if found is None:
        raise SmexTypeError(f"{op}: expected an integer as {name}, found {type(number).__name__}")
    if found < least:
        raise SmexValueError(f"{op}: expected {name} of at least {least}, found {found}")
    return found
