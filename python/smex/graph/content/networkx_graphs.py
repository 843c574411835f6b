"""What graphs of networkx graphs are made of.

Functions have the names of those in :mod:`smex.graph.creation.networkx_io` that make graphs of it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from smex.errors import SmexTypeError, SmexValueError
from smex.graph.constants import DEFAULT_ETYPE, DEFAULT_NTYPE
from smex.graph.content.arrays import Content
from smex.graph.features.column import MissingFeatureError
from smex.graph.features.frame import Frame
from smex.graph.structure.edge_data import check_permutation
from smex.graph.structure.relation import Relation
from smex.graph.words import quoted


def from_networkx(
    nx_graph: Any,
    node_attrs: Sequence[str] | None = None,
    edge_attrs: Sequence[str] | None = None,
    edge_id_attr_name: str | None = None,
    idtype: torch.dtype | None = None,
    device: torch.device | str | None = None,
) -> Content:
    """Of nodes and edges of one type; see :func:`smex.graph.from_networkx`."""
    _check_networkx("from_networkx", nx_graph)
    if not nx_graph.is_directed():
        if edge_attrs is not None or edge_id_attr_name is not None:
            raise SmexValueError(
                "from_networkx: edges of an undirected graph become two, expected edge_attrs and "
                f"edge_id_attr_name to be None, found {edge_attrs!r} and {edge_id_attr_name!r}; "
                "pass nx_graph.to_directed()"
            )
        nx_graph = nx_graph.to_directed()
    labels = _sorted("from_networkx", nx_graph.nodes)
    number = {label: n for n, label in enumerate(labels)}
    edges = _edges("from_networkx", nx_graph, edge_id_attr_name)
    relation = _relation(edges, number, number, idtype, device)
    node_columns = _columns("node", [nx_graph.nodes[v] for v in labels], node_attrs, relation)
    edge_columns = _columns("edge", [attrs for _, _, attrs in edges], edge_attrs, relation)
    return Content(
        {DEFAULT_ETYPE: relation},
        {DEFAULT_NTYPE: len(labels)},
        src_frames={DEFAULT_NTYPE: Frame(len(labels), node_columns)},
        edge_frames={DEFAULT_ETYPE: Frame(len(edges), edge_columns)},
    )


def bipartite_from_networkx(
    nx_graph: Any,
    utype: str,
    etype: str,
    vtype: str,
    u_attrs: Sequence[str] | None = None,
    e_attrs: Sequence[str] | None = None,
    v_attrs: Sequence[str] | None = None,
    edge_id_attr_name: str | None = None,
    idtype: torch.dtype | None = None,
    device: torch.device | str | None = None,
) -> Content:
    """Of two node types; see :func:`smex.graph.bipartite_from_networkx`."""
    op = "bipartite_from_networkx"
    _check_networkx(op, nx_graph)
    if not nx_graph.is_directed():
        raise SmexValueError(f"{op}: expected a directed networkx graph, found an undirected one")
    sides: dict[int, list[Any]] = {0: [], 1: []}
    for label, attrs in nx_graph.nodes(data=True):
        if attrs.get("bipartite") not in (0, 1):
            raise SmexValueError(
                f"{op}: expected every node to have the attribute bipartite of 0 or 1, found node "
                f"{label!r} with {attrs.get('bipartite')!r}"
            )
        sides[attrs["bipartite"]].append(label)
    ordered = [_sorted(op, sides[side]) for side in (0, 1)]
    sources, destinations = ({v: n for n, v in enumerate(labels)} for labels in ordered)
    edges = _edges(op, nx_graph, edge_id_attr_name)
    for u, v, _ in edges:
        if u not in sources or v not in destinations:
            raise SmexValueError(
                f"{op}: expected edges from nodes with bipartite=0 to nodes with bipartite=1, "
                f"found ({u!r}, {v!r})"
            )
    relation = _relation(edges, sources, destinations, idtype, device)
    u_nodes, v_nodes = ([nx_graph.nodes[v] for v in labels] for labels in ordered)
    canonical = (utype, etype, vtype)
    return Content(
        {canonical: relation},
        {utype: len(sources), vtype: len(destinations)},
        src_frames={
            utype: Frame(len(sources), _columns("node", u_nodes, u_attrs, relation)),
            vtype: Frame(len(destinations), _columns("node", v_nodes, v_attrs, relation)),
        },
        edge_frames={
            canonical: Frame(len(edges), _columns("edge", [e[2] for e in edges], e_attrs, relation))
        },
    )


def _check_networkx(op: str, nx_graph: Any) -> None:
    if not hasattr(nx_graph, "is_directed") or not hasattr(nx_graph, "nodes"):
        raise SmexTypeError(f"{op}: expected a networkx graph, found {type(nx_graph).__name__}")


def _sorted(op: str, labels: Iterable[Any]) -> list[Any]:
    try:
        return sorted(labels)
    except TypeError as error:
        raise SmexTypeError(
            f"{op}: nodes are numbered by their sorted labels, found labels that cannot be "
            f"compared ({error}); use networkx.convert_node_labels_to_integers first"
        ) from error


def _edges(op: str, nx_graph: Any, id_attr: str | None) -> list[tuple[Any, Any, dict[str, Any]]]:
    """(u, v, attributes) of each edge in the order of ids."""
    edges = list(nx_graph.edges(data=True))
    if id_attr is None:
        return edges
    if any(id_attr not in attrs for _, _, attrs in edges):
        raise SmexValueError(
            f'{op}: every edge must have its id in the attribute "{id_attr}", found an edge without'
        )
    ids = torch.tensor([int(attrs[id_attr]) for _, _, attrs in edges], dtype=torch.int64)
    check_permutation(op, id_attr, ids, len(edges))
    return [edges[n] for n in torch.argsort(ids).tolist()]


def _relation(edges, sources, destinations, idtype, device) -> Relation:
    dtype = idtype or torch.int64
    src = torch.tensor([sources[u] for u, _, _ in edges], dtype=dtype, device=device)
    dst = torch.tensor([destinations[v] for _, v, _ in edges], dtype=dtype, device=device)
    return Relation.from_coo(src, dst, len(sources), len(destinations))


def _columns(
    kind: str, items: list[dict[str, Any]], names: Sequence[str] | None, relation: Relation
) -> dict[str, Tensor]:
    """Returns a tensor per attribute, one row for each node or edge."""
    columns = {}
    for name in names or ():
        missing = [n for n, attrs in enumerate(items) if name not in attrs]
        if missing:
            have = quoted(items[missing[0]])
            raise MissingFeatureError(
                f'from_networkx: {kind} {missing[0]} has no attribute "{name}"; it has: {have}'
            )
        columns[name] = _stack(kind, name, [attrs[name] for attrs in items]).to(relation.device)
    return columns


def _stack(kind: str, name: str, values: list[Any]) -> Tensor:
    try:
        if values and isinstance(values[0], Tensor):
            return torch.stack(values)
        if values and isinstance(values[0], np.ndarray):
            return torch.from_numpy(np.stack(values))
        return torch.tensor(values)
    except (TypeError, ValueError, RuntimeError) as error:
        raise SmexValueError(
            f'from_networkx: values of the {kind} attribute "{name}" do not stack to a tensor '
            f"({error})"
        ) from error
