"""Loaders of mini-batches of one graph on many ranks."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import torch
from torch import Tensor

from smex.errors import SmexTypeError, SmexValueError
from smex.graph.creation.random import drawing_from
from smex.graph.dataloading.edge_prediction import (
    EdgePredictionSampler,
    as_edge_prediction_sampler,
)
from smex.graph.dataloading.loader import graphs_in, made_ahead
from smex.graph.dataloading.transport import map_graphs
from smex.graph.distributed.batches import BatchOrder
from smex.graph.distributed.context import context
from smex.graph.distributed.dist_graph import DistGraph
from smex.graph.distributed.dist_tensor import DistTensor
from smex.graph.distributed.rows import RowCounts, SharedRows
from smex.graph.features.column import Pending
from smex.graph.graph import Graph
from smex.graph.sampling.arguments import check_count

__all__ = ["DistDataLoader", "DistEdgeDataLoader", "DistNodeDataLoader"]

_KEPT_SHARE = 20
"""One of so many nodes has its rows of other machines kept, if not said otherwise."""


class DistDataLoader:
    """Hands out batches of ids, made by a thread ahead of the caller.

    Batches are a function of `ddp_seed`, the epoch and their place. With ids of all ranks, which is
    what they are unless :func:`node_split` has made them, batch ``k`` of their order is that of
    rank ``k mod size``: it is the same at every number of ranks. With a share of
    :func:`node_split` a rank orders and cuts its own. Every rank makes as many steps; where batches
    do not come out even, those who lack one begin again with the first of their order.

    Args:
        dataset: ids, a vector or a dict of vectors by type.
        batch_size: number of ids in a batch.
        shuffle: whether the order is another one in each epoch.
        collate_fn: makes a batch of ids; by default they are the batch. It is called by a thread.
        drop_last: whether a last batch of fewer ids is left out.
        queue_size: taken for compatibility.
        use_ddp: whether the ids are those of all ranks, each to take its batches; False: this rank
            goes through all of them alone, whatever others do. By default as said above.
        ddp_seed: seed of orders and samples, the same on all ranks.
        ahead: how many batches are made ahead, together.
        kwargs: taken for compatibility: ``num_workers``, ``pin_memory``, ``persistent_workers``.

    Raises:
        SmexTypeError: ids are not integers, or an option does not exist.
        SmexValueError: `batch_size` is less than 1, a rank's share has no batch, or other ranks
            have other ids.

    Example:
        >>> import smex.graph as sg
        >>> list(sg.distributed.DistDataLoader(torch.arange(5), 2))
        [tensor([0, 1]), tensor([2, 3]), tensor([4])]
    """

    def __init__(
        self,
        dataset: Any,
        batch_size: int = 1,
        shuffle: bool = False,
        collate_fn: Callable[[Any], Any] | None = None,
        drop_last: bool = False,
        queue_size: int | None = None,
        *,
        use_ddp: bool | None = None,
        ddp_seed: int = 0,
        ahead: int = 4,
        **kwargs: Any,
    ):
        op = type(self).__name__
        unknown = [name for name in kwargs if name not in _HARMLESS]
        if unknown:
            raise SmexTypeError(f"{op}: expected no option {unknown[0]!r}, found it given")
        ahead = check_count(op, "ahead", ahead, 1)
        self._order = BatchOrder(
            op, context(), dataset, batch_size, shuffle, drop_last, ddp_seed, use_ddp
        )
        self._collate = collate_fn
        self._ahead = ahead
        self._epoch = -1
        self._step = 0
        self._resumed = 0
        self._counts = RowCounts()
        self._batches = 0

    def __len__(self) -> int:
        """Number of steps of an epoch, the same on all ranks."""
        return len(self._order)

    def set_epoch(self, epoch: int) -> None:
        """Choose the next epoch; by default they count from 0."""
        self._epoch = epoch - 1

    def state_dict(self) -> dict[str, int]:
        """Returns where the loader is: the epoch, and how many of its batches were given out."""
        return {"epoch": self._epoch, "step": self._step}

    def load_state_dict(self, state: Mapping[str, int]) -> None:
        """Goes on, with the next iteration, where another loader was; with other ranks from step 0.

        Raises:
            SmexValueError: there is no such step.
        """
        if not 0 <= state["step"] <= len(self):
            raise SmexValueError(
                f"{type(self).__name__}: expected a step from 0 to {len(self)}, found "
                f"{state['step']}; the state is of another loader or number of ranks"
            )
        is_done = state["step"] == len(self)
        self._epoch = state["epoch"] - (0 if is_done else 1)
        self._resumed = 0 if is_done else state["step"]

    def stats(self) -> dict[str, int]:
        """Returns what this rank has done for its batches so far.

        ``batches`` made, and of the rows of features that were read ahead: ``asked`` for, and of
        these in ``memory`` or files of this machine, ``cached`` from an earlier time, ``repeated``
        among batches that were made together, and ``fetched`` from other processes.
        """
        return {"batches": self._batches, **self._counts.told()}

    def __iter__(self) -> Iterator[Any]:
        self._epoch += 1
        first, self._resumed = self._resumed, 0
        self._step = first
        return self._given_out(made_ahead(self._made(self._epoch, first), self._ahead))

    def _given_out(self, batches: Any) -> Iterator[Any]:
        try:
            for batch in batches:
                self._step += 1
                yield self._finish(batch)
        finally:
            batches.close()

    def _made(self, epoch: int, first: int) -> Iterator[Any]:
        """Makes batches, some at a time; on the loader's thread."""
        window: list[Any] = []
        for seed, ids in self._order.of_epoch(epoch, first):
            with drawing_from(seed):
                window.append(self._sample(ids))
            self._batches += 1
            if len(window) == self._ahead:
                self._prefetch(window)
                yield from window
                window = []
        self._prefetch(window)
        yield from window

    def _sample(self, ids: Any) -> Any:
        return ids if self._collate is None else self._collate(ids)

    def _prefetch(self, window: list[Any]) -> None:
        """Reads ahead what batches need."""

    def _finish(self, batch: Any) -> Any:
        """Returns the batch as the caller gets it; on the caller's thread."""
        return batch


_HARMLESS = {"num_workers", "pin_memory", "persistent_workers", "prefetch_factor", "gb_padding"}


class _FetchedRows:
    """Rows that were read ahead for ids that a loader has given out.

    A program that reads ``g.ndata["x"][input_nodes]`` is noticed, and finds the rows of that
    feature ready from then on.
    """

    def __init__(self, noticed: dict[Any, list[SharedRows]], slot: Any, ids: Tensor):
        self._noticed = noticed
        self._slot = slot
        self._ids = weakref.ref(ids)
        self._version = ids._version
        self.rows: dict[int, Tensor] = {}

    def rows_of(self, tensor: DistTensor) -> Tensor | None:
        """Returns the rows of a feature, once."""
        rows, ids = tensor._rows, self._ids()
        if not rows.read_only or (ids is not None and ids._version != self._version):
            return None
        known = self._noticed.setdefault(self._slot, [])
        if all(each is not rows for each in known):
            known.append(rows)
        return self.rows.pop(rows.number, None)


class _GraphLoader(DistDataLoader):
    """Of batches that a sampler makes."""

    def __init__(
        self,
        g: DistGraph,
        ids: Any,
        sampler: Any,
        device: torch.device | str | None,
        cache_rows: int | None,
        **kwargs: Any,
    ):
        op = type(self).__name__
        if not isinstance(g, DistGraph):
            raise SmexTypeError(
                f"{op}: expected a DistGraph, found {type(g).__name__}; "
                "smex.graph.dataloading.DataLoader takes other graphs"
            )
        if not hasattr(sampler, "sample"):
            raise SmexTypeError(
                f"{op}: expected a sampler with a method sample, found {type(sampler).__name__}"
            )
        if "collate_fn" in kwargs:
            raise SmexTypeError(
                f"{op}: expected a sampler to make batches, found collate_fn beside it"
            )
        super().__init__(ids, **kwargs)
        self._g, self._sampler = g, sampler
        self._device = None if device is None else torch.device(device)
        self._cache_rows = cache_rows
        self._warm: set[int] = set()
        self._noticed: dict[Any, list[SharedRows]] = {}

    def _sample(self, ids: Any) -> Any:
        return map_graphs(Graph, _with_ends, self._sampler.sample(self._g.graph, ids))

    def _prefetch(self, window: list[Any]) -> None:
        wanted: dict[int, list[tuple[Tensor, Callable[[Tensor], None]]]] = {}
        sources: dict[int, SharedRows] = {}

        def want(source: SharedRows, ids: Tensor, put: Callable[[Tensor], None]) -> None:
            sources[source.number] = source
            wanted.setdefault(source.number, []).append((ids.long(), put))

        for batch in window:
            for graph in graphs_in(batch):
                for frame in graph._all_frames():
                    for name, column in frame._columns.items():
                        rows = _fixed_rows(column)
                        if rows is not None:
                            want(*rows, _setter(frame._columns, name))
            for slot, ids in _slots(batch):
                held = _FetchedRows(self._noticed, slot, ids)
                ids.smex_fetched = held  # type: ignore[attr-defined]
                for source in self._noticed.get(slot, ()):
                    want(source, ids, _setter(held.rows, source.number))
        for number, lists in wanted.items():
            self._read(sources[number], lists)

    def _read(
        self, source: SharedRows, lists: list[tuple[Tensor, Callable[[Tensor], None]]]
    ) -> None:
        """Reads the rows for all batches at once, so that each comes from its rank once."""
        if source.is_whole:
            for ids, put in lists:
                put(source.read(ids, self._counts))
            return
        self._keep_hot(source)
        rows = source.read(torch.cat([ids for ids, _ in lists]), self._counts)
        for part, (_, put) in zip(rows.split([ids.shape[0] for ids, _ in lists]), lists):
            put(part)

    def _keep_hot(self, source: SharedRows) -> None:
        """Keeps the rows of other machines that are sampled most: of nodes with many out-edges."""
        if source.number in self._warm:
            return
        self._warm.add(source.number)
        for ntype in self._g.ntypes:
            tensors = self._g.nodes[ntype].data.values()
            if any(tensor._rows is source for tensor in tensors):
                limit = self._cache_rows
                if limit is None:
                    limit = self._g.num_nodes(ntype) // _KEPT_SHARE
                if limit:
                    self._counts.add(fetched=source.keep(_hot(self._g, ntype, source, limit)))

    def _finish(self, batch: Any) -> Any:
        for graph in graphs_in(batch):
            for frame in graph._all_frames():
                frame.read_prefetched()  # features that may be written
        if self._device is None:
            return batch
        slots = dict(_slots(batch))
        moved = map_graphs((Graph, Tensor), lambda part: part.to(self._device), batch)
        for slot, ids in _slots(moved):
            fetched = getattr(slots[slot], "smex_fetched", None)
            if fetched is not None:
                ids.smex_fetched = fetched  # type: ignore[attr-defined]
        return moved


def _with_ends(graph: Graph) -> Graph:
    """A block without edge types that end at none of its nodes; other graphs as they are."""
    if not graph.is_block:
        return graph
    kept = {c: r for c, r in graph._relations.items() if graph._dst_num_nodes[c[2]]}
    if not kept or len(kept) == len(graph._relations):
        return graph
    return Graph(
        kept,
        graph._src_num_nodes,
        graph._dst_num_nodes,
        src_frames=graph._src_frames,
        dst_frames=graph._dst_frames,
        edge_frames={c: graph._edge_frames[c] for c in kept},
    )


def _hot(g: DistGraph, ntype: str, source: SharedRows, limit: int) -> Tensor:
    degrees = torch.zeros(g.num_nodes(ntype), dtype=torch.int64)
    for canonical in g.canonical_etypes:
        if canonical[0] == ntype:
            degrees += g.out_degrees(etype=canonical)
    degrees[source.is_here(torch.arange(degrees.shape[0]))] = -1
    found, ids = degrees.topk(min(limit, degrees.shape[0]))
    return ids[found > 0]


def _fixed_rows(column: Any) -> tuple[SharedRows, Tensor] | None:
    """What of a column is to be read ahead, if no one writes it meanwhile."""
    if not isinstance(column, Pending) or not column.prefetch or column.rows is None:
        return None
    source: Any = column.source
    if not isinstance(source, DistTensor) or not source.is_read_only:
        return None
    return source._rows, column.rows


def _setter(target: dict[Any, Any], key: Any) -> Callable[[Tensor], None]:
    def put(rows: Tensor) -> None:
        target[key] = rows

    return put


def _slots(batch: Any) -> Iterator[tuple[Any, Tensor]]:
    """The vectors of ids in a batch, and where they stand in it."""
    for place, item in enumerate(batch if isinstance(batch, (tuple, list)) else [batch]):
        parts = item.items() if isinstance(item, Mapping) else [(None, item)]
        for key, ids in parts:
            if isinstance(ids, Tensor) and ids.dtype in (torch.int32, torch.int64):
                yield (place, key), ids


class DistNodeDataLoader(_GraphLoader):
    """Hands out what a sampler makes of the nodes, batch by batch; on several ranks.

    See :class:`DistDataLoader` for who gets which batch. A thread samples batches ahead, and reads
    those rows of features that the sampler was told to prefetch, or that the program was seen to
    read for ids of a batch (``g.ndata["x"][input_nodes]``): of rows of other machines each comes
    once for some batches together, and those of nodes with the most edges are kept. Only features
    of the folder are read ahead; what programs write is read when it is used.

    Blocks have all node types, but only those edge types that end at nodes of theirs: where all
    seeds are papers, a layer for typed graphs returns papers alone from the last block. Parameters
    of other types have no gradients then, which :class:`torch.nn.parallel.DistributedDataParallel`
    is told by ``find_unused_parameters=True``.

    Args:
        g: the graph.
        nids: ids of the seeds, a vector or a dict by node type: of all ranks, or the share of
            :func:`node_split`.
        graph_sampler: such as :class:`smex.graph.dataloading.NeighborSampler`.
        device: of the batches.
        cache_rows: how many rows of a feature of nodes are kept at most, of those that other
            machines send; by default one for each 20 nodes.
        kwargs: as for :class:`DistDataLoader`: ``batch_size``, ``shuffle``, ``drop_last``,
            ``use_ddp``, ``ddp_seed``, ``ahead``.

    Raises:
        SmexTypeError: the graph or sampler is none, ids are not integers, or an option does not
            exist.
        SmexValueError: as for :class:`DistDataLoader`.
        RankFailure: a rank whose rows are wanted has failed.

    Example:
        >>> import tempfile
        >>> import smex.graph as sg
        >>> folder = tempfile.mkdtemp()
        >>> small = sg.graph(([0, 1, 2, 3], [1, 2, 3, 0]))
        >>> small.ndata["x"] = torch.arange(4.0)
        >>> sg.distributed.partition_graph(small, "ring", 2, folder, part_method="range")
        >>> g = sg.distributed.DistGraph("ring", part_config=folder)
        >>> sampler = sg.dataloading.NeighborSampler([2])
        >>> loader = sg.distributed.DistNodeDataLoader(g, torch.arange(4), sampler, batch_size=2)
        >>> for input_nodes, seeds, blocks in loader:
        ...     print(seeds, g.ndata["x"][input_nodes])
        tensor([0, 1]) tensor([0., 1., 3.])
        tensor([2, 3]) tensor([2., 3., 1.])
    """

    def __init__(
        self,
        g: DistGraph,
        nids: Any,
        graph_sampler: Any,
        device: torch.device | str | None = None,
        *,
        cache_rows: int | None = None,
        **kwargs: Any,
    ):
        super().__init__(g, nids, graph_sampler, device, cache_rows, **kwargs)


class DistEdgeDataLoader(_GraphLoader):
    """Hands out what a sampler makes of the ends of edges; see :class:`DistNodeDataLoader`.

    Args:
        g: the graph.
        eids: ids of the edges, a vector or a dict by edge type.
        graph_sampler: of nodes, or what
            :func:`smex.graph.dataloading.as_edge_prediction_sampler` makes of one.
        device: of the batches.
        exclude: which edges blocks leave out, as for ``as_edge_prediction_sampler``.
        reverse_eids: as there.
        reverse_etypes: as there.
        negative_sampler: as there.
        cache_rows: as for :class:`DistNodeDataLoader`.
        kwargs: as for :class:`DistDataLoader`.

    Raises:
        SmexTypeError: as for :class:`DistNodeDataLoader`.
        SmexValueError: as for :class:`DistDataLoader`, or what to leave out does not exist.
        RankFailure: a rank whose rows are wanted has failed.
    """

    def __init__(
        self,
        g: DistGraph,
        eids: Any,
        graph_sampler: Any,
        device: torch.device | str | None = None,
        *,
        exclude: Any = None,
        reverse_eids: Any = None,
        reverse_etypes: Any = None,
        negative_sampler: Any = None,
        cache_rows: int | None = None,
        **kwargs: Any,
    ):
        sampler = graph_sampler
        if not isinstance(sampler, EdgePredictionSampler):
            sampler = as_edge_prediction_sampler(
                graph_sampler, exclude, reverse_eids, reverse_etypes, negative_sampler
            )
        super().__init__(g, eids, sampler, device, cache_rows, **kwargs)
