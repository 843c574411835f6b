"""What a relation and its reverse share: the formats of one set of edges, made on demand.

Everything here is tensors and the calls of ``smex::`` operators on them;
:mod:`smex.graph.structure.relation` gives it names and checks.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.utils._python_dispatch import _disable_current_modes

__all__ = ["Compressed", "Structure", "induced_edges", "merge_parallel", "relabel", "take_rows"]

# Reading this many edges takes as long as sorting one does.
_SORT_COST = 8


class Compressed(NamedTuple):
    """Edges grouped by row: sources in a ``csr``, destinations in a ``csc``.

    Row ``r`` is joined to ``indices[indptr[r]:indptr[r + 1]]``; position ``p`` is edge ``eids[p]``,
    or edge ``p`` where ``eids`` is None.
    """

    indptr: Tensor  # [num_rows + 1]
    indices: Tensor  # [num_edges]
    eids: Tensor | None  # [num_edges]; None: the identity

    def edge_ids(self) -> Tensor:
        """Edge id of each position ``[num_edges]``."""
        if self.eids is not None:
            return self.eids
        indices = self.indices
        return torch.arange(indices.shape[0], dtype=indices.dtype, device=indices.device)

    def tensors(self) -> list[Tensor]:
        """As ``smex::`` operators take it; two tensors where ids are the identity."""
        if self.eids is None:
            return [self.indptr, self.indices]
        return [self.indptr, self.indices, self.eids]


Pair = tuple[Tensor, Tensor]


@contextlib.contextmanager
def kept_tensors(*ids: Tensor) -> Iterator[None]:
    """Makes tensors of ids that are kept: ordinary ones, also in inference mode and tracers.

    A tensor made in inference mode could not be part of a gradient later on, and one that a tracer
    makes stands for numbers only while it runs. Ids that are a tracer's own stay with it, and
    `torch.compile` keeps nothing.
    """
    traced = torch.compiler.is_dynamo_compiling() or any(type(each) is not Tensor for each in ids)
    with (
        torch.inference_mode(False),
        contextlib.nullcontext() if traced else _disable_current_modes(),
    ):
        yield


def _compress(
    rows: Tensor, columns: Tensor, eids: Tensor | None, num_rows: int, num_columns: int
) -> Compressed:
    with kept_tensors(rows):
        made = torch.ops.smex.compress_edges(rows, columns, eids, num_rows, num_columns)
    return Compressed(*made)


def _expand(form: Compressed) -> Pair:
    """(row, column) of each edge, in the order of edge ids."""
    with kept_tensors(form.indptr):
        if form.eids is None:
            num_edges = form.indices.shape[0]
            return torch.ops.smex.expand_rows(form.indptr, num_edges), form.indices
        return torch.ops.smex.expand_edges(form.indptr, form.indices, form.eids)


def _map(form: Any, change: Callable[[Tensor], Tensor]) -> Any:
    """`change` applied to the tensors of a tuple of tensors and Nones."""
    if form is None:
        return None
    changed: list[Any] = [None if t is None else change(t) for t in form]
    return Compressed(*changed) if isinstance(form, Compressed) else tuple(changed)


def _at(pair: Pair, eids: Tensor) -> Pair:
    return pair[0][eids], pair[1][eids]


class Structure:
    """The formats of one set of edges; a relation and its reverse hold the same one.

    A format is stored by one assignment of a finished tuple. Threads that race make it twice, and
    either result is right. In inference mode formats are made as ordinary tensors, since those of
    that mode could not be part of a gradient later on.
    """

    def __init__(
        self,
        sizes: tuple[int, int],
        coo: Pair | None = None,
        by_source: Compressed | None = None,
        by_destination: Compressed | None = None,
    ):
        self.sizes = sizes
        self.coo = coo
        self.by_source = by_source
        self.by_destination = by_destination
        self.sorted: Compressed | None = None
        self.scanned = 0  # edges read by queries so far

    def any_tensor(self) -> Tensor:
        """Returns a tensor ``[num_edges]``."""
        if self.coo is not None:
            return self.coo[0]
        form = self.by_source if self.by_source is not None else self.by_destination
        assert form is not None
        return form.indices

    def get_coo(self) -> Pair:
        """(source, destination) of each edge."""
        if self.coo is None:
            if self.by_source is not None:
                self.coo = _expand(self.by_source)
            else:
                assert self.by_destination is not None
                destinations, sources = _expand(self.by_destination)
                self.coo = (sources, destinations)
        return self.coo

    def ends_of(self, eids: Tensor) -> Pair:
        """(source, destination) of some edges.

        Where edges are numbered by row, the rows of few are searched for in place of making the
        list of all edges, which may be more than the memory holds.
        """
        form = self.by_source if self.by_source is not None else self.by_destination
        if self.coo is not None or form is None or form.eids is not None:
            return _at(self.get_coo(), eids)
        if _SORT_COST * eids.shape[0] > form.indices.shape[0]:
            return _at(self.get_coo(), eids)
        rows = torch.searchsorted(form.indptr, eids, right=True).to(eids.dtype) - 1
        columns = form.indices[eids]
        return (rows, columns) if form is self.by_source else (columns, rows)

    def get_by_source(self) -> Compressed:
        """Edges grouped by source, in the order of their ids."""
        if self.by_source is None:
            sources, destinations = self.get_coo()
            self.by_source = _compress(sources, destinations, None, *self.sizes)
        return self.by_source

    def get_by_destination(self) -> Compressed:
        """Edges grouped by destination, in the order of their ids."""
        if self.by_destination is None:
            sources, destinations = self.get_coo()
            num_sources, num_destinations = self.sizes
            self.by_destination = _compress(
                destinations, sources, None, num_destinations, num_sources
            )
        return self.by_destination

    def get_sorted(self) -> Compressed:
        """Grouped by source, destinations ascending, parallel edges in the order of their ids."""
        if self.sorted is None:
            form = self.get_by_destination()
            destinations = torch.ops.smex.expand_rows(form.indptr, form.indices.shape[0])
            # The sort is stable: edges that come by destination stay so.
            self.sorted = _compress(form.indices, destinations, form.eids, *self.sizes)
        return self.sorted

    def first_edge(self, sources: Tensor, destinations: Tensor) -> Tensor:
        """Returns the least id of the edges between each pair, or -1.

        Reads rows while that costs less than sorting all edges would have cost, and from then on
        searches the sorted edges: no sequence of queries costs more than twice the cheaper way.
        Off the CPU the edges are sorted at once: what is read takes memory there, and is counted
        by waiting for the device.
        """
        if self.sorted is None and sources.device.type == "cpu":
            form = self.get_by_source()
            cost = int((form.indptr[sources + 1] - form.indptr[sources]).sum())
            if self.scanned + cost <= _SORT_COST * form.indices.shape[0]:
                self.scanned += cost
                return torch.ops.smex.find_scan(*form, sources, destinations)
        form, first, count = self.find_sorted(sources, destinations)
        eids = form.edge_ids()
        if eids.shape[0] == 0:
            return torch.full_like(first, -1)
        return torch.where(count > 0, eids[first.clamp_max(eids.shape[0] - 1)], -1)

    def find_sorted(
        self, sources: Tensor, destinations: Tensor
    ) -> tuple[Compressed, Tensor, Tensor]:
        """Returns the sorted edges, and where each pair's begin there and how many they are."""
        form = self.get_sorted()
        found = torch.ops.smex.find_sorted(form.indptr, form.indices, sources, destinations)
        return form, found[0], found[1]

    def map(self, change: Callable[[Tensor], Tensor]) -> Structure:
        """Returns a structure with every format that exists, changed."""
        forms = [_map(f, change) for f in (self.coo, self.by_source, self.by_destination)]
        result = Structure(self.sizes, *forms)
        result.sorted = _map(self.sorted, change)
        return result


def take_rows(form: Compressed, rows: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """(columns, rows, edge ids) of the edges in `rows`, one row after another."""
    return torch.ops.smex.take_rows(*form, rows)


def induced_edges(form: Compressed, rows: Tensor, names: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """(place in `rows`, ``names[column]``, edge id) of the edges whose column's name is not -1."""
    return torch.ops.smex.induced_edges(*form, rows, names)


def merge_parallel(form: Compressed) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """(row, column, count) of each joined pair, and each edge's pair; `form` has columns sorted."""
    return torch.ops.smex.merge_parallel(*form)


def has_parallel(form: Compressed) -> bool:
    """Returns whether a pair is joined twice; `form` has its columns sorted."""
    return torch.ops.smex.has_parallel(form.indptr, form.indices)


def relabel(lists: list[Tensor], num_ids: int | None) -> tuple[Tensor, list[Tensor]]:
    """The different ids in the order of their first appearance, and the lists numbered so."""
    unique, numbers = torch.ops.smex.relabel_ids(lists, num_ids)
    return unique, list(numbers)
