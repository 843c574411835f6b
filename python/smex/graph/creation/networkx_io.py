"""Graphs from and to networkx."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from typing import Any

import torch
from torch import Tensor

from smex.graph.content import networkx_graphs as networkx_arrays
from smex.graph.creation.convert import block_to_graph
from smex.graph.features.column import MissingFeatureError
from smex.graph.features.frame import Frame
from smex.graph.graph import Graph

__all__ = ["bipartite_from_networkx", "from_networkx", "to_networkx"]


def from_networkx(
    nx_graph: Any,
    node_attrs: Sequence[str] | None = None,
    edge_attrs: Sequence[str] | None = None,
    edge_id_attr_name: str | None = None,
    idtype: torch.dtype | None = None,
    device: torch.device | str | None = None,
) -> Graph:
    """Returns a graph from a networkx graph; of an undirected one, with an edge in each direction.

    Nodes are numbered in the order of their sorted labels, edges as ``nx_graph.edges`` lists them.

    Args:
        nx_graph: a networkx graph, directed or not, with parallel edges or not.
        node_attrs: node attributes that become node features; every node must have them.
        edge_attrs: edge attributes that become edge features; every edge must have them. Only for
            directed graphs.
        edge_id_attr_name: an edge attribute that holds edge ids: each of 0 to num_edges - 1 once.
            Only for directed graphs.
        idtype: int64 by default.
        device: the CPU by default.

    Raises:
        SmexTypeError: `nx_graph` is no networkx graph, or labels cannot be sorted.
        SmexValueError: an attribute is missing or its values do not stack, edge ids are no
            permutation, or edge attributes are asked for of an undirected graph.

    Example:
        >>> import networkx, smex.graph as sg
        >>> sg.from_networkx(networkx.path_graph(3)).edges()
        (tensor([0, 1, 1, 2]), tensor([1, 0, 2, 1]))
    """
    content = networkx_arrays.from_networkx(
        nx_graph, node_attrs, edge_attrs, edge_id_attr_name, idtype, device
    )
    return content.made(Graph)


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
) -> Graph:
    """Returns a bipartite graph from a directed networkx graph.

    Nodes whose attribute ``bipartite`` is 0 are of `utype`, those with 1 of `vtype`; all edges go
    from the first to the second. Otherwise as :func:`from_networkx`.

    Raises:
        SmexTypeError: `nx_graph` is no networkx graph, or labels cannot be sorted.
        SmexValueError: it is undirected, a node has no ``bipartite`` of 0 or 1, an edge does not
            go from 0 to 1, or as for :func:`from_networkx`.

    Example:
        >>> import networkx, smex.graph as sg
        >>> n = networkx.DiGraph()
        >>> n.add_nodes_from(["ann", "bob"], bipartite=0)
        >>> n.add_node("chess", bipartite=1)
        >>> n.add_edge("bob", "chess")
        >>> sg.bipartite_from_networkx(n, "user", "plays", "game").edges()
        (tensor([1]), tensor([0]))
    """
    content = networkx_arrays.bipartite_from_networkx(
        nx_graph, utype, etype, vtype, u_attrs, e_attrs, v_attrs, edge_id_attr_name, idtype, device
    )
    return content.made(Graph)


def to_networkx(
    g: Graph,
    node_attrs: Iterable[str] | None = None,
    edge_attrs: Iterable[str] | None = None,
    ntype_attr: str = "ntype",
    etype_attr: str = "etype",
    eid_attr: str = "id",
) -> Any:
    """Returns a ``networkx.MultiDiGraph`` with the graph's edges, for each its id as an attribute.

    Nodes are numbered from 0, those of the first node type first, and so are edges; of a graph
    with several types, nodes and edges have their types as attributes. A block is converted as
    :func:`block_to_graph` of it.

    Args:
        g: the graph; it is copied to the CPU.
        node_attrs: node features to copy, to the nodes of the types that have them.
        edge_attrs: edge features to copy, likewise.
        ntype_attr: name of the attribute of a node's type.
        etype_attr: name of the attribute of an edge's canonical type.
        eid_attr: name of the attribute of an edge's id.

    Raises:
        SmexValueError: no type has a feature of that name.

    Example:
        >>> import smex.graph as sg
        >>> n = sg.to_networkx(sg.graph(([0, 0], [1, 1])))
        >>> list(n.edges(data="id"))
        [(0, 1, 0), (0, 1, 1)]
    """
    import networkx

    g = (block_to_graph(g) if g.is_block else g).cpu()
    typed = not g.is_homogeneous
    result = networkx.MultiDiGraph()
    offsets: dict[str, int] = {}
    node_rows = _rows_of("node", g._src_frames, node_attrs)
    for ntype, size in g._src_num_nodes.items():
        offsets[ntype] = result.number_of_nodes()
        for n in range(size):
            attrs: dict[str, Any] = {ntype_attr: ntype} if typed else {}
            attrs |= {name: column[n] for name, column in node_rows[ntype].items()}
            result.add_node(offsets[ntype] + n, **attrs)
    edge_rows = _rows_of("edge", g._edge_frames, edge_attrs)
    number = itertools.count()  # networkx counts its edges anew each time it is asked
    for canonical, relation in g._relations.items():
        src, dst = (ids.tolist() for ids in relation.coo())
        for e, (u, v) in enumerate(zip(src, dst)):
            attrs = {eid_attr: next(number)}
            if typed:
                attrs[etype_attr] = canonical
            attrs |= {name: column[e] for name, column in edge_rows[canonical].items()}
            result.add_edge(u + offsets[canonical[0]], v + offsets[canonical[2]], **attrs)
    return result


def _rows_of(
    kind: str, frames: dict[Any, Frame], names: Iterable[str] | None
) -> dict[Any, dict[str, Tensor]]:
    names = list(names or ())
    for name in names:
        if not any(name in frame for frame in frames.values()):
            raise MissingFeatureError(f'to_networkx: no {kind} type has a feature "{name}"')
    return {key: {n: f[n].detach() for n in names if n in f} for key, f in frames.items()}
