"""One graph for all types of nodes and edges, by column, to sample from."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import torch
from torch import Tensor

from smex.errors import SmexTypeError, SmexValueError
from smex.graph.creation.random import draw_seed
from smex.graph.graph import Graph
from smex.graph.graphbolt.base import (
    ORIGINAL_EDGE_ID,
    CSCFormatBase,
    etype_str_to_tuple,
    etype_tuple_to_str,
    moved,
)
from smex.graph.graphbolt.subgraphs import SampledSubgraph
from smex.graph.sampling.arguments import Neighbors
from smex.graph.utils import recursive_apply

__all__ = [
    "FusedCSCSamplingGraph",
    "from_dglgraph",
    "from_fused_csc",
    "fused_csc_sampling_graph",
]


class _Rows(NamedTuple):
    """Edges by column, and what they are called."""

    indptr: Tensor
    indices: Tensor
    eids: Tensor | None


class _Before(NamedTuple):
    """Edges that are drawn are older than what they are drawn for."""

    times: Any  # of the nodes that are drawn for, by type where these are
    of_nodes: Tensor | None
    of_edges: Tensor | None

    def of(self, times: Tensor) -> _Before:
        """Returns it for some of the nodes."""
        return self._replace(times=times)

    def chosen(self, drawn: Neighbors) -> Tensor:
        """Returns which of the edges are old enough."""
        own = self.times.repeat_interleave(drawn.offsets.diff().long())
        found = torch.ones(len(own), dtype=torch.bool)
        if self.of_nodes is not None:
            found &= self.of_nodes[drawn.ends.long()] < own
        if self.of_edges is not None:
            found &= self.of_edges[drawn.eids.long()] < own
        return found


class _Question(NamedTuple):
    """How neighbours are drawn."""

    fanouts: list[int]
    replace: bool
    weights: Tensor | None
    by_layer: bool = False
    before: _Before | None = None


@dataclasses.dataclass(repr=False, eq=False)
class FusedCSCSamplingGraph:
    """A graph as edges by column, from which in-neighbours are sampled.

    Nodes of one type have ids in a row, and are called by their place among them outside; edges of
    a column are in the order of their types.

    Args:
        csc_indptr: ``[total_num_nodes + 1]``.
        indices: ``[total_num_edges]``.
        node_type_offset: ``[num_types + 1]``, where each type's nodes begin.
        type_per_edge: ``[total_num_edges]``.
        node_type_to_id: numbers of types.
        edge_type_to_id: numbers of types ``"source:relation:destination"``.
        node_attributes: by name tensors ``[total_num_nodes, ...]``.
        edge_attributes: by name tensors ``[total_num_edges, ...]``.
    """

    csc_indptr: Tensor
    indices: Tensor
    node_type_offset: Tensor | None = None
    type_per_edge: Tensor | None = None
    node_type_to_id: dict[str, int] | None = None
    edge_type_to_id: dict[str, int] | None = None
    node_attributes: dict[str, Tensor] | None = None
    edge_attributes: dict[str, Tensor] | None = None

    def __post_init__(self) -> None:
        self._rows_by_type: dict[int, _Rows] = {}

    # ---- what there is ----

    @property
    def total_num_nodes(self) -> int:
        """The number of nodes of all types."""
        return len(self.csc_indptr) - 1

    @property
    def total_num_edges(self) -> int:
        """The number of edges of all types."""
        return len(self.indices)

    @property
    def num_nodes(self) -> Any:
        """The number of nodes, by type where there are types."""
        if self.node_type_to_id is None:
            return self.total_num_nodes
        offsets = self._offsets()
        return {t: offsets[n + 1] - offsets[n] for t, n in self.node_type_to_id.items()}

    @property
    def num_edges(self) -> Any:
        """The number of edges, by type where there are types."""
        if self.edge_type_to_id is None or self.type_per_edge is None:
            return self.total_num_edges
        most = max(self.edge_type_to_id.values(), default=0) + 1
        counts = torch.bincount(self.type_per_edge.long(), minlength=most).tolist()
        return {etype: counts[n] for etype, n in self.edge_type_to_id.items()}

    def __repr__(self) -> str:
        parts = [
            f"csc_indptr={self.csc_indptr}",
            f"indices={self.indices}",
            f"total_num_nodes={self.total_num_nodes}, num_edges={self.num_edges}",
        ]
        for name in ("node_type_offset", "type_per_edge", "node_type_to_id", "edge_type_to_id",
                     "node_attributes", "edge_attributes"):  # fmt: skip
            if getattr(self, name) is not None:
                parts.append(f"{name}={getattr(self, name)}")
        indent = ",\n" + " " * len("FusedCSCSamplingGraph(")
        return f"FusedCSCSamplingGraph({indent.join(parts)})"

    def __getstate__(self) -> dict[str, Any]:
        return {**vars(self), "_rows_by_type": {}}

    # ---- where it is ----

    def to(self, device: torch.device | str) -> FusedCSCSamplingGraph:
        """Returns a copy on a device; ``"pinned"``: in pinned memory."""
        if device == "pinned":
            return self._copied(
                lambda each: each.pin_memory() if isinstance(each, Tensor) else each
            )
        return self._copied(lambda each: moved(each, device))

    def pin_memory_(self) -> FusedCSCSamplingGraph:
        """Moves all tensors into pinned memory, and returns the same object.

        Without a GPU they stay.
        """
        if torch.accelerator.is_available():
            vars(self).update(vars(self.to("pinned")))
        return self

    def _copied(self, change: Any) -> FusedCSCSamplingGraph:
        values = {f.name: getattr(self, f.name) for f in dataclasses.fields(self)}
        return FusedCSCSamplingGraph(
            **{name: recursive_apply(each, change) for name, each in values.items()}
        )

    # ---- sampling ----

    def in_subgraph(self, nodes: Any) -> SampledSubgraph:
        """Returns all edges into some nodes.

        Args:
            nodes: distinct ids, by type where there are types.

        Returns:
            Edges by column. Without types, ids of edges are their positions where the graph has no
            original ones.

        Raises:
            SmexValueError: an id comes twice.
        """
        for ids in nodes.values() if isinstance(nodes, Mapping) else (nodes,):
            if len(ids.unique()) != len(ids):
                raise SmexValueError("in_subgraph: expected distinct nodes, found some twice")
        return self._sampled("in_subgraph", nodes, _Question([-1], False, None))

    def sample_neighbors(
        self, nodes: Any, fanouts: Tensor, replace: bool = False, probs_name: str | None = None
    ) -> SampledSubgraph:
        """Returns edges drawn for each of some nodes.

        Args:
            nodes: ids, by type where there are types.
            fanouts: one number, how many edges of a node are drawn, -1 for all of them; or one for
                each edge type.
            replace: whether an edge may be drawn more than once.
            probs_name: name of an attribute of edges with weights, or a mask of those that may be
                drawn.

        Returns:
            Edges by column in the order of the nodes; rows are ids.

        Raises:
            SmexTypeError: ids are of another dtype than the graph's.
            SmexValueError: there are not as many fanouts as types, or no such attribute.
        """
        question = self._question("sample_neighbors", fanouts, replace, probs_name)
        return self._sampled("sample_neighbors", nodes, question)

    def sample_layer_neighbors(
        self, nodes: Any, fanouts: Tensor, replace: bool = False, probs_name: str | None = None
    ) -> SampledSubgraph:
        """Returns edges drawn for each of some nodes so that they share neighbours.

        Each row has one random number for all columns, and a column takes the edges whose rows have
        the smallest, divided by the edge's weight: as many as :meth:`sample_neighbors`, from fewer
        rows (Balin and Çatalyürek, "Layer-Neighbor Sampling", 2023, appendix A.3).

        Args:
            nodes: as for :meth:`sample_neighbors`.
            fanouts: as for :meth:`sample_neighbors`.
            replace: whether an edge may be drawn more than once.
            probs_name: as for :meth:`sample_neighbors`.
        """
        question = self._question("sample_layer_neighbors", fanouts, replace, probs_name)
        return self._sampled("sample_layer_neighbors", nodes, question._replace(by_layer=True))

    def temporal_sample_neighbors(
        self,
        nodes: Any,
        input_nodes_timestamp: Any,
        fanouts: Tensor,
        replace: bool = False,
        probs_name: str | None = None,
        node_timestamp_attr_name: str | None = None,
        edge_timestamp_attr_name: str | None = None,
    ) -> SampledSubgraph:
        """Returns edges drawn for each of some nodes, of those that are older than it.

        Args:
            nodes: as for :meth:`sample_neighbors`.
            input_nodes_timestamp: the time of each of `nodes`, by type where they are.
            fanouts: as for :meth:`sample_neighbors`.
            replace: as for :meth:`sample_neighbors`.
            probs_name: as for :meth:`sample_neighbors`.
            node_timestamp_attr_name: name of an attribute of nodes with times: neighbours are drawn
                that are before the node's.
            edge_timestamp_attr_name: the same of edges.

        Raises:
            SmexTypeError: as :meth:`sample_neighbors`.
            SmexValueError: as :meth:`sample_neighbors`; there is not a time for each node, or no
                such attribute.
        """
        op = "temporal_sample_neighbors"
        _check_times(op, nodes, input_nodes_timestamp)
        before = _Before(
            input_nodes_timestamp,
            self._times(op, "nodes", self.node_attributes, node_timestamp_attr_name),
            self._times(op, "edges", self.edge_attributes, edge_timestamp_attr_name),
        )
        question = self._question(op, fanouts, replace, probs_name)._replace(before=before)
        return self._sampled(op, nodes, question)

    def _times(self, op: str, of: str, attributes: Any, name: str | None) -> Tensor | None:
        if name is None:
            return None
        if name not in (attributes or {}):
            raise SmexValueError(
                f'{op}: the graph has no attribute "{name}" of {of}, found '
                f"{sorted(attributes or {})}"
            )
        found: Tensor = attributes[name]
        return found

    def sample_negative_edges_uniform(
        self, edge_type: str | None, node_pairs: Any, negative_ratio: int
    ) -> tuple[None, Tensor]:
        """Returns for each pair ``(u, v)`` some destinations, drawn from all nodes.

        Args:
            edge_type: of the pairs; None without types.
            node_pairs: sources [n] and destinations [n].
            negative_ratio: k, how many for each pair.

        Returns:
            None, since sources are the pairs', and ids [n * k].
        """
        src = node_pairs[0]
        return None, self._drawn_destinations(edge_type, src, len(src) * negative_ratio)

    def sample_negative_edges_uniform_2(
        self, edge_type: str | None, node_pairs: Tensor, negative_ratio: int
    ) -> Tensor:
        """Returns pairs [n, 2] and, after them, k for each with another destination."""
        src = node_pairs[:, 0].repeat_interleave(negative_ratio)
        dst = self._drawn_destinations(edge_type, src, len(src))
        return torch.cat((node_pairs, torch.stack((src, dst), 1)))

    def _drawn_destinations(self, edge_type: str | None, like: Tensor, count: int) -> Tensor:
        nodes = self.num_nodes
        most = nodes[etype_str_to_tuple(edge_type)[2]] if edge_type else self.total_num_nodes
        generator = torch.Generator().manual_seed(draw_seed())
        drawn = torch.randint(most, (count,), dtype=like.dtype, generator=generator)
        return drawn.to(like.device)

    def _question(self, op: str, fanouts: Any, replace: bool, probs_name: str | None) -> _Question:
        listed = [int(n) for n in torch.as_tensor(fanouts).reshape(-1).tolist()]
        types = len(self.edge_type_to_id) if self.edge_type_to_id else 1
        if len(listed) not in (1, types) or min(listed) < -1:
            raise SmexValueError(
                f"{op}: expected one fanout of at least -1, or one for each of {types} edge types, "
                f"found {listed}"
            )
        weights = None
        if probs_name is not None:
            known = self.edge_attributes or {}
            if probs_name not in known:
                raise SmexValueError(
                    f'{op}: the graph has no attribute "{probs_name}" of edges, found '
                    f"{sorted(known)}"
                )
            weights = known[probs_name]
            if weights.dim() != 1 or len(weights) != self.total_num_edges:
                raise SmexValueError(
                    f'{op}: attribute "{probs_name}" must have a number for each of '
                    f"{self.total_num_edges} edges, found shape {list(weights.shape)}"
                )
            if weights.dtype not in (torch.bool, torch.float32, torch.float64):
                weights = weights.float()
        return _Question(listed, replace, weights)

    def _sampled(self, op: str, nodes: Any, question: _Question) -> SampledSubgraph:
        if self.node_type_to_id is None or self.type_per_edge is None:
            if isinstance(nodes, Mapping):
                raise SmexTypeError(
                    f"{op}: expected a tensor of nodes of a graph without types, found a dict"
                )
            drawn = self._drawn(op, self._all_rows(), nodes, question.fanouts[0], question)
            csc: Any = CSCFormatBase(drawn.offsets, drawn.ends)
            original = self._original_ids(drawn.eids)
            if original is None and op == "in_subgraph":
                original = drawn.eids
            return SampledSubgraph(csc, original_edge_ids=original)
        by_type, times = nodes, None
        if question.before is not None:
            times = question.before.times
        if not isinstance(nodes, Mapping):
            by_type = self._by_type(nodes)
            times = None if times is None else self._by_type(nodes, times)
        csc, ids = {}, {}
        offsets = self._offsets()
        assert self.edge_type_to_id is not None
        columns = {
            ntype: by_type[ntype] + offsets[n] if ntype in by_type else self.indices[:0]
            for ntype, n in self.node_type_to_id.items()
        }
        together = {}
        if len(question.fanouts) == 1:
            for ntype, own in columns.items():
                together[ntype] = self._drawn(
                    op, self._all_rows(), own, question.fanouts[0], _at(question, times, ntype)
                )
        for place, (etype, number) in enumerate(self.edge_type_to_id.items()):
            source, _, destination = etype_str_to_tuple(etype)
            if together:
                drawn = _of_type(together[destination], self.type_per_edge, number)
            else:
                fanout = question.fanouts[place]
                rows = self._rows_of(number)
                asked = _at(question, times, destination)
                drawn = self._drawn(op, rows, columns[destination], fanout, asked)
            begin = offsets[self.node_type_to_id[source]]
            csc[etype] = CSCFormatBase(drawn.offsets, drawn.ends - begin)
            original = self._original_ids(drawn.eids)
            if original is not None:
                ids[etype] = original
        return SampledSubgraph(csc, original_edge_ids=ids or None)

    def _drawn(
        self, op: str, rows: _Rows, nodes: Tensor, fanout: int, question: _Question
    ) -> Neighbors:
        if nodes.dtype != self.indices.dtype:
            raise SmexTypeError(
                f"{op}: expected nodes of dtype {self.indices.dtype} as the graph's indices, found "
                f"{nodes.dtype}"
            )
        if question.before is not None:
            return _drawn_before(rows, nodes, fanout, question)
        if question.by_layer and fanout != -1:
            return _drawn_by_layer(rows, nodes, fanout, question)
        return Neighbors(
            *torch.ops.smex.sample_neighbors(
                *rows, nodes, fanout, question.replace and fanout != -1, question.weights, None,
                draw_seed(),
            )
        )  # fmt: skip

    # ---- the parts of it ----

    def _offsets(self) -> list[int]:
        assert self.node_type_offset is not None
        found: list[int] = self.node_type_offset.tolist()
        return found

    def _all_rows(self) -> _Rows:
        if -1 not in self._rows_by_type:
            # The kernels take both in one dtype.
            self._rows_by_type[-1] = _Rows(
                self.csc_indptr.to(self.indices.dtype), self.indices, None
            )
        return self._rows_by_type[-1]

    def _rows_of(self, number: int) -> _Rows:
        """Returns the edges of one type."""
        if number not in self._rows_by_type:
            assert self.type_per_edge is not None
            eids = (self.type_per_edge == number).nonzero().view(-1).to(self.indices.dtype)
            indptr = torch.searchsorted(eids, self.csc_indptr.to(eids.dtype)).to(eids.dtype)
            self._rows_by_type[number] = _Rows(indptr, self.indices[eids.long()], eids)
        return self._rows_by_type[number]

    def _by_type(self, nodes: Tensor, values: Tensor | None = None) -> dict[str, Tensor]:
        """Returns ids of all types as ids of each, in their order, or values of theirs."""
        offsets = self._offsets()
        assert self.node_type_to_id is not None
        found = {}
        for ntype, n in self.node_type_to_id.items():
            own = (nodes >= offsets[n]) & (nodes < offsets[n + 1])
            found[ntype] = nodes[own] - offsets[n] if values is None else values[own]
        return found

    def _original_ids(self, eids: Tensor) -> Tensor | None:
        known = self.edge_attributes or {}
        return known[ORIGINAL_EDGE_ID][eids.long()] if ORIGINAL_EDGE_ID in known else None


def _check_times(op: str, nodes: Any, times: Any) -> None:
    ids = nodes if isinstance(nodes, Mapping) else {"": nodes}
    of = times if isinstance(times, Mapping) else {"": times}
    for ntype, own in ids.items():
        found = of.get(ntype)
        if found is None or len(found) != len(own):
            raise SmexValueError(
                f"{op}: expected a time for each of {len(own)} nodes, found "
                f"{0 if found is None else len(found)}"
            )


def _at(question: _Question, times: Any, ntype: str) -> _Question:
    """Returns the question for nodes of a type."""
    if question.before is None:
        return question
    own = times.get(ntype)
    own = torch.empty(0, dtype=torch.int64) if own is None else own
    return question._replace(before=question.before.of(own))


def _of_type(drawn: Neighbors, type_per_edge: Tensor, number: int) -> Neighbors:
    """Returns those of the edges that are of one type."""
    return _those(drawn, type_per_edge[drawn.eids.long()] == number)


def _those(drawn: Neighbors, chosen: Tensor) -> Neighbors:
    """Returns some of the edges."""
    counts = torch.cat((chosen.new_zeros(1, dtype=drawn.offsets.dtype), chosen.cumsum(0)))
    offsets = counts[drawn.offsets.long()].to(drawn.offsets.dtype)
    return Neighbors(offsets, drawn.ends[chosen], drawn.eids[chosen])


def _all_edges(rows: _Rows, nodes: Tensor, question: _Question) -> Neighbors:
    """Returns all edges into nodes, but those of weight 0."""
    return Neighbors(
        *torch.ops.smex.sample_neighbors(
            *rows, nodes, -1, False, question.weights, None, draw_seed()
        )
    )


def _drawn_before(rows: _Rows, nodes: Tensor, fanout: int, question: _Question) -> Neighbors:
    every = _all_edges(rows, nodes, question)
    assert question.before is not None
    every = _those(every, question.before.chosen(every))
    if fanout == -1:
        return every
    generator = torch.Generator().manual_seed(draw_seed())
    weights = None if question.weights is None else question.weights[every.eids.long()].double()

    def keys() -> Tensor:
        """Whose smallest are a draw by weights (Efraimidis and Spirakis, 2006)."""
        found = torch.rand(len(every.ends), dtype=torch.float64, generator=generator)
        return found if weights is None else -torch.log1p(-found) / weights

    return _with_smallest(every, nodes, fanout, question.replace, keys)


def _drawn_by_layer(rows: _Rows, nodes: Tensor, fanout: int, question: _Question) -> Neighbors:
    every = _all_edges(rows, nodes, question)
    generator = torch.Generator().manual_seed(draw_seed())
    distinct, (number,) = torch.ops.smex.relabel_ids([every.ends])

    def keys() -> Tensor:
        found = torch.rand(len(distinct), dtype=torch.float64, generator=generator)[number.long()]
        if question.weights is None:
            return found
        return found / question.weights[every.eids.long()].double()

    return _with_smallest(every, nodes, fanout, question.replace, keys)


def _with_smallest(
    every: Neighbors, nodes: Tensor, fanout: int, replace: bool, keys: Callable[[], Tensor]
) -> Neighbors:
    """Returns the edges of each column with the smallest keys, or one of each round."""
    columns = torch.arange(len(nodes), dtype=nodes.dtype)
    count = 1 if replace else fanout
    rounds = [
        torch.ops.smex.select_topk(every.offsets, every.ends, None, columns, count, keys(), True)
        for _ in range(fanout if replace else 1)
    ]
    if len(rounds) == 1:
        offsets, _, places = rounds[0]
    elif not rounds:
        offsets, places = torch.zeros_like(every.offsets), every.eids[:0]
    else:  # a column's edges of all rounds stand together
        offsets = torch.stack([each[0] for each in rounds]).sum(0).to(every.offsets.dtype)
        of_column = torch.cat([columns.repeat_interleave(each[0].diff().long()) for each in rounds])
        places = torch.cat([each[2] for each in rounds])[of_column.argsort(stable=True)]
    return Neighbors(offsets, every.ends[places.long()], every.eids[places.long()])


def fused_csc_sampling_graph(
    csc_indptr: Tensor,
    indices: Tensor,
    node_type_offset: Tensor | None = None,
    type_per_edge: Tensor | None = None,
    node_type_to_id: dict[str, int] | None = None,
    edge_type_to_id: dict[str, int] | None = None,
    node_attributes: dict[str, Tensor] | None = None,
    edge_attributes: dict[str, Tensor] | None = None,
) -> FusedCSCSamplingGraph:
    """Makes a graph to sample from; see :class:`FusedCSCSamplingGraph`.

    Raises:
        SmexValueError: types are not what the tensors say.

    Example:
        >>> import smex.graph.graphbolt as gb
        >>> g = gb.fused_csc_sampling_graph(torch.tensor([0, 2, 3]), torch.tensor([0, 1, 0]))
        >>> g.num_nodes, g.num_edges
        (2, 3)
    """
    if int(csc_indptr[-1]) != len(indices):
        raise SmexValueError(
            f"fused_csc_sampling_graph: expected {int(csc_indptr[-1])} indices, the last of "
            f"csc_indptr, found {len(indices)}"
        )
    if node_type_to_id is not None and edge_type_to_id is not None:
        for etype in edge_type_to_id:
            source, _, destination = etype_str_to_tuple(etype)
            for ntype in (source, destination):
                if ntype not in node_type_to_id:
                    raise SmexValueError(
                        f'fused_csc_sampling_graph: edge type "{etype}" has node type "{ntype}", '
                        f"which is none of {sorted(node_type_to_id)}"
                    )
        if node_type_offset is not None and len(node_type_offset) != len(node_type_to_id) + 1:
            raise SmexValueError(
                f"fused_csc_sampling_graph: expected {len(node_type_to_id) + 1} offsets for "
                f"{len(node_type_to_id)} node types, found {len(node_type_offset)}"
            )
    for what, attributes, count in (
        ("node", node_attributes, len(csc_indptr) - 1),
        ("edge", edge_attributes, len(indices)),
    ):
        for name, each in (attributes or {}).items():
            if len(each) != count:
                raise SmexValueError(
                    f'fused_csc_sampling_graph: {what} attribute "{name}" must have {count} rows, '
                    f"found {len(each)}"
                )
    return FusedCSCSamplingGraph(
        csc_indptr, indices, node_type_offset, type_per_edge, node_type_to_id, edge_type_to_id,
        node_attributes, edge_attributes,
    )  # fmt: skip


def from_fused_csc(
    csc_indptr: Tensor,
    indices: Tensor,
    node_type_offset: Tensor | None = None,
    type_per_edge: Tensor | None = None,
    edge_attributes: dict[str, Tensor] | None = None,
    metadata: Any = None,
) -> FusedCSCSamplingGraph:
    """As :func:`fused_csc_sampling_graph`, by the name and arguments of DGL before 2.1.

    Args:
        csc_indptr: as there.
        indices: as there.
        node_type_offset: as there.
        type_per_edge: as there.
        edge_attributes: as there.
        metadata: has ``node_type_to_id`` and ``edge_type_to_id``, or is None without types.
    """
    return fused_csc_sampling_graph(
        csc_indptr,
        indices,
        node_type_offset,
        type_per_edge,
        getattr(metadata, "node_type_to_id", None),
        getattr(metadata, "edge_type_to_id", None),
        edge_attributes=edge_attributes,
    )


def from_dglgraph(
    g: Graph, is_homogeneous: bool = False, include_original_edge_id: bool = False
) -> FusedCSCSamplingGraph:
    """Makes a graph to sample from of a graph, with features that all its types have.

    Args:
        g: the graph.
        is_homogeneous: whether to leave types out.
        include_original_edge_id: whether subgraphs tell which of a type's edges theirs are.

    Example:
        >>> import smex.graph as sg
        >>> import smex.graph.graphbolt as gb
        >>> g = gb.from_dglgraph(sg.graph(([0, 1, 2], [1, 2, 0])), is_homogeneous=True)
        >>> g.sample_neighbors(torch.tensor([2, 0]), torch.tensor([-1])).sampled_csc.indices
        tensor([1, 2])
    """
    ntypes = {ntype: n for n, ntype in enumerate(g.ntypes)}
    counts = [g.num_nodes(ntype) for ntype in g.ntypes]
    offsets = torch.tensor([0, *counts], dtype=g.idtype).cumsum(0).to(g.idtype)
    src, dst, types, own = [], [], [], []
    for number, canonical in enumerate(g.canonical_etypes):
        u, v = g.edges(etype=canonical, order="eid")
        src.append(u + offsets[ntypes[canonical[0]]])
        dst.append(v + offsets[ntypes[canonical[2]]])
        types.append(torch.full((len(u),), number, dtype=torch.int64))
        own.append(torch.arange(len(u), dtype=g.idtype))
    total = int(offsets[-1])
    indptr, indices, order = torch.ops.smex.compress_edges(
        torch.cat(dst), torch.cat(src), None, total, total
    )
    order = order.long()
    nodes = {
        name: torch.cat([g.nodes[ntype].data[name] for ntype in g.ntypes])
        for name in _common(g.nodes[ntype].data for ntype in g.ntypes)
    }
    edges = {
        name: torch.cat([g.edges[c].data[name] for c in g.canonical_etypes])[order]
        for name in _common(g.edges[c].data for c in g.canonical_etypes)
    }
    if include_original_edge_id:
        edges[ORIGINAL_EDGE_ID] = torch.cat(own)[order]
    if is_homogeneous:
        return fused_csc_sampling_graph(
            indptr, indices, node_attributes=nodes or None, edge_attributes=edges or None
        )
    etypes = {etype_tuple_to_str(c): n for n, c in enumerate(g.canonical_etypes)}
    return fused_csc_sampling_graph(
        indptr, indices, offsets, torch.cat(types)[order], ntypes, etypes, nodes or None,
        edges or None,
    )  # fmt: skip


def _common(frames: Any) -> list[str]:
    """Returns the names that all frames have."""
    listed = [list(frame) for frame in frames]
    return [name for name in listed[0] if all(name in names for names in listed)]
