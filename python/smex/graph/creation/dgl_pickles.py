"""Graphs in pickles that DGL 2 wrote: the names in them, and what they become.

A pickle has a graph's attributes: the structure as bytes and arrays, names of types, frames of
features. The bytes are as those of :mod:`smex.graph.creation.dgl_files`: the graph of types, the
number of nodes of each type, from the second version on whether memory is pinned, and for each edge
type a format, 1 for entries and 2 for compressed rows, and flags that tell whether it is sorted.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from torch import Tensor

from smex.errors import SmexValueError
from smex.graph.creation.convert import create_block, heterograph
from smex.graph.creation.dgl_files import DglBytes, ends_of_rows
from smex.graph.graph import DGLBlock, Graph

__all__ = ["HeteroGraphIndex", "HeteroPickleStates", "new_object", "restored", "set_state"]

_ENTRIES, _ROWS = 1, 2


def new_object(kind: Any) -> Any:
    """Returns an object that gets its state afterwards."""
    return object.__new__(kind)


class HeteroPickleStates:
    """A structure: its version, bytes and arrays."""

    version: int
    meta: bytes
    arrays: Sequence[Tensor]

    def __setstate__(self, state: Any) -> None:
        if not isinstance(state, tuple) or len(state) != 3 or state[0] not in (1, 2):
            raise _of_another_version()
        self.version, self.meta, self.arrays = state[0], bytes(state[1]), state[2]


class HeteroGraphIndex:
    """What has a structure."""

    states: HeteroPickleStates

    def __setstate__(self, state: Any) -> None:
        if not isinstance(state, HeteroPickleStates):
            raise _of_another_version()
        self.states = state


def _of_another_version() -> SmexValueError:
    return SmexValueError(
        "pickle: expected a graph of DGL 0.5 or later, found one of another version; load it with "
        "that DGL and write it by dgl.save_graphs, which load_graphs reads"
    )


def restored(state: Mapping[str, Any], is_block: bool) -> Graph:
    """Returns the graph or block of an object of DGL's with these attributes.

    Raises:
        SmexValueError: the bytes are damaged, or features were not gathered before it was pickled.
    """
    try:
        sizes, ends = _structure(state["_graph"].states)
    except (ValueError, IndexError, StopIteration) as error:
        raise SmexValueError(f"pickle: a graph of DGL's is damaged: {error}") from error
    data: Any = dict(zip(map(tuple, state["_canonical_etypes"]), ends, strict=True))
    if is_block:
        sources, destinations = state["_srctypes_invmap"], state["_dsttypes_invmap"]
        num_src, num_dst = (
            {name: sizes[n] for name, n in side.items()} for side in (sources, destinations)
        )
        made = create_block(data, num_src, num_dst)
        nodes = [(made.srcnodes, name, n) for name, n in sources.items()]
        nodes += [(made.dstnodes, name, n) for name, n in destinations.items()]
    else:
        made = heterograph(data, dict(zip(state["_ntypes"], sizes)))
        nodes = [(made.nodes, name, n) for n, name in enumerate(state["_ntypes"])]
    for view, name, number in nodes:
        view[name].data.update(_columns(state["_node_frames"][number]))
    for etype, frame in zip(data, state["_edge_frames"], strict=True):
        made.edges[etype].data.update(_columns(frame))
    if state.get("_batch_num_nodes") and state.get("_batch_num_edges"):
        made.set_batch_num_nodes(state["_batch_num_nodes"])
        made.set_batch_num_edges(state["_batch_num_edges"])
    return made


def set_state(graph: Graph, state: dict[str, Any]) -> None:
    """Takes up the attributes that a graph was pickled with, here or by DGL."""
    if "_graph" in state:
        is_block = type(graph) is DGLBlock
        graph.__class__ = Graph
        state = vars(restored(state, is_block))
    graph.__dict__.update(state)


def _structure(states: HeteroPickleStates) -> tuple[list[int], list[tuple[Tensor, Tensor]]]:
    """Returns the number of nodes of each type, and the ends of each type's edges by their ids."""
    content = DglBytes(np.frombuffer(states.meta, np.uint8))
    sources, _ = content.types()
    sizes = content.listed(lambda: content.number("<q"))
    if states.version > 1:
        content.take(1)
    arrays = iter(states.arrays)
    return sizes, [_ends(content, arrays) for _ in sources]


def _ends(content: DglBytes, arrays: Iterator[Tensor]) -> tuple[Tensor, Tensor]:
    kind = content.number("<i")
    if kind == _ENTRIES:
        content.take(2)
        return next(arrays), next(arrays)
    if kind != _ROWS:
        raise ValueError(f"expected format {_ENTRIES} or {_ROWS} of edges, found {kind}")
    content.take(1)
    bounds, columns, ids = (next(arrays) for _ in range(3))
    return ends_of_rows(bounds, columns, ids)


def _columns(frame: Any) -> dict[str, Tensor]:
    columns = {name: column.storage for name, column in vars(frame)["_columns"].items()}
    missing = [name for name, rows in columns.items() if rows is None]
    if missing:
        raise SmexValueError(
            f"pickle: features {', '.join(missing)} of a graph of DGL's were not gathered before "
            "it was pickled; read them once there"
        )
    return columns
