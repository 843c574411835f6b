"""What becomes of each feature when nodes are updated in topological order.

Features that messages read of their sources, and that are set on the way, are states of vertices;
other features that functions read are inputs; what is set and not read by messages is pushed.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass, field
from functools import partial

import torch
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensorMode

from smex._logging import quiet_fakes
from smex.graph.features.column import Scheme
from smex.graph.features.frame import Frame
from smex.graph.recursion.cells import Columns, Ends, Functions, Getters, Seen, View, evaluate, send
from smex.graph.recursion.levels import ANY, Bucket
from smex.graph.recursion.surroundings import Replaced, Surroundings
from smex.graph.words import named
from smex.vertex.compile.trace import UntraceableError
from smex.vertex.words.function import ROWS, VertexFunction

KEPT = 64
"""How many plans are kept."""
MOST_PLANS = 8
"""How many of them may be for the same functions, on the same features."""


@dataclass
class Reads:
    """What functions read and set on nodes of one degree."""

    written: dict[str, Scheme] = field(default_factory=dict)
    own: set[str] = field(default_factory=set)
    source: set[str] = field(default_factory=set)
    edge: set[str] = field(default_factory=set)


@dataclass
class RecursionPlan:
    """What becomes of each feature, and the vertex functions by number of in-edges.

    Attributes:
        nodes: features of nodes that are set before.
        edges: features of edges.
        family: equal for the same functions on the same features, whatever else they read.
        empty: the rows of messages, where there are none.
        visible: features that nodes with in-edges, and their sources, have.
        seen: what functions asked for.
        written: the features that are set.
        states: those that messages gather.
        cells: by number of in-edges.
        is_settled: whether it is known what nodes with in-edges do.
        refused: why it cannot run, if so.
    """

    nodes: dict[str, Scheme]
    edges: dict[str, Scheme]
    family: Hashable
    empty: dict[str, Scheme] = field(default_factory=dict)
    visible: dict[str, Scheme] = field(default_factory=dict)
    seen: Seen = field(default_factory=Seen)
    written: dict[str, Scheme] = field(default_factory=dict)
    states: dict[str, Scheme] = field(default_factory=dict)
    cells: dict[int, Cell] = field(default_factory=dict)
    is_settled: bool = False
    refused: str | None = None

    def inputs(self, bucket: Bucket, nodes: Frame, edges: Frame) -> dict[str, tuple[Tensor, bool]]:
        """What a cell pulls: by name, and whether it has rows for the bucket's nodes alone."""
        reads = self.cells[bucket.degree].reads
        given: dict[str, tuple[Tensor, bool]] = {"ids": (bucket.ids, True)}
        for name in sorted(reads.own):
            if name in nodes:
                column = nodes[name]
            else:  # set on the way, and not by these nodes: they have what it is made with
                column = nodes._fill(name, self.written[name], bucket.ids.device)
            given[f"own {name}"] = (column, False)
        for name in sorted(reads.source - set(self.states)):
            given[f"source {name}"] = (_taken(nodes[name], bucket.sources), True)
        for name in sorted(reads.edge):
            given[f"edge {name}"] = (_taken(edges[name], bucket.edges), True)
        return given


def _taken(column: Tensor, rows: Tensor) -> Tensor:
    """Rows of a column, ``[n, degree, ...]``."""
    return column.index_select(0, rows.flatten()).view(*rows.shape, *column.shape[1:])


_plans: OrderedDict[Hashable, RecursionPlan] = OrderedDict()


def plan_of(
    functions: Functions,
    buckets: list[Bucket],
    nodes: Frame,
    edges: Frame,
    outside: Surroundings,
) -> RecursionPlan:
    """Returns the plan for functions and features, with a cell for each bucket.

    Kept for all graphs.

    Raises:
        UntraceableError: there is none.
    """
    schemes = nodes.schemes(), edges.schemes()
    degrees = [bucket.degree for bucket in buckets]
    features = (*(tuple(s.items()) for s in schemes), len(degrees) > 1, ANY in degrees)
    family = (outside.codes, tuple((x.shape, x.dtype) for x in outside.tensors), features)
    key = (outside.key, features)
    plan = _plans.pop(key, None) or RecursionPlan(*schemes, family)
    if sum(other.family == family for other in _plans.values()) >= MOST_PLANS:
        raise UntraceableError("what the functions read differs from call to call")
    _plans[key] = plan
    if len(_plans) > KEPT:
        _plans.popitem(last=False)
    if plan.refused is None:
        try:
            _add_cells(plan, functions, degrees, outside.tensors, buckets[0].ids)
        except UntraceableError as error:
            plan.refused = str(error)
        except Exception as error:  # a user's mistake is met again where the function runs
            plan.refused = f"{type(error).__name__}: {error}"
    if plan.refused is not None:
        raise UntraceableError(plan.refused)
    return plan


def _add_cells(
    plan: RecursionPlan,
    functions: Functions,
    degrees: list[int],
    tensors: list[Tensor],
    ids: Tensor,
) -> None:
    """Finds out what the functions read and set on nodes of each degree, by calls on fakes."""
    missing = [degree for degree in degrees if degree not in plan.cells]
    if not missing:
        return
    with quiet_fakes(), torch.no_grad(), FakeTensorMode():
        fakes = [torch.empty(x.shape, dtype=x.dtype, device=x.device) for x in tensors]
        probe = _Probe(plan, functions, ids)
        with Replaced(zip(tensors, fakes)):
            found = {degree: probe.reads(degree) for degree in missing}
    for degree, reads in found.items():
        reads.own |= set(plan.written) - set(reads.written) | set(plan.states) - set(plan.written)
        plan.cells[degree] = Cell(degree, plan, reads)


class _Probe:
    """Calls functions on nodes that are fake, to find out what they read and set."""

    def __init__(self, plan: RecursionPlan, functions: Functions, ids: Tensor):
        self._plan = plan
        self._functions = functions
        self._ids = ids

    def reads(self, degree: int) -> Reads:
        """Returns what they do on nodes of a degree; those without in-edges come first."""
        plan, reads = self._plan, Reads()
        if degree == 0:
            plan.visible = dict(plan.nodes)
            view = self._view(1, Reads())
            plan.empty = _schemes(send(self._functions.message, view, view.edges[0]))
        # Of any number of in-edges a sum looks like that of one.
        written = evaluate(self._functions, self._view(abs(degree), reads))
        reads.written = _schemes(written)
        for name, value in written.items():
            if value.shape[0] != ROWS:
                raise UntraceableError(f"feature {named(name)} has not a row for each node")
            held = plan.written.get(name, plan.visible.get(name))
            if held not in (None, reads.written[name]):
                raise UntraceableError(f"feature {named(name)} changes its type or shape")
        if degree == 0:
            plan.visible.update(reads.written)
            plan.written = dict(reads.written)
        else:
            self._settle(degree, reads)
        return reads

    def _settle(self, degree: int, reads: Reads) -> None:
        """Decides what becomes of the features, once it is known what nodes with in-edges do."""
        plan = self._plan
        late = set(reads.written) - set(plan.visible)
        if late & plan.seen.names or (late and plan.seen.everything):
            raise UntraceableError("it looks at which features are set, which change on the way")
        if degree == ANY and reads.edge:
            raise UntraceableError("features of edges are read")
        known = {**plan.visible, **reads.written}
        is_set = {*plan.written, *reads.written}
        gathered = [n for n in known if n in reads.source and (n in is_set or degree == ANY)]
        states = {name: known[name] for name in gathered}
        if plan.is_settled and (late - set(plan.written) or states != plan.states):
            raise UntraceableError("it treats nodes apart by their numbers of messages")
        if len({scheme.dtype for scheme in states.values()}) > 1:
            raise UntraceableError("features that messages read are of distinct types")
        plan.written.update(reads.written)
        plan.states, plan.is_settled = states, True

    def _view(self, degree: int, reads: Reads) -> View:
        plan, device = self._plan, self._ids.device

        def fake(name: str, scheme: Scheme, read: set[str]) -> Tensor:
            read.add(name)
            return torch.empty((ROWS, *scheme.shape), dtype=scheme.dtype, device=device)

        def getters(schemes: Mapping[str, Scheme], read: set[str]) -> Getters:
            return {name: partial(fake, name, scheme, read) for name, scheme in schemes.items()}

        own = getters(plan.visible, reads.own)
        ends = Ends(getters(plan.visible, reads.source), getters(plan.edges, reads.edge), own)
        return View(
            torch.empty(ROWS, dtype=torch.int64, device=device),
            lambda: torch.empty(ROWS, dtype=self._ids.dtype, device=device),
            own,
            [ends] * degree,
            plan.empty,
            plan.seen,
        )


def _schemes(columns: Columns) -> dict[str, Scheme]:
    return {name: Scheme(tuple(x.shape[1:]), x.dtype) for name, x in columns.items()}


class Cell(VertexFunction):
    """What nodes with as many in-edges each compute."""

    only_traced = True

    def __init__(self, degree: int, plan: RecursionPlan, reads: Reads):
        shapes: dict[str, int | tuple[int, ...]] = {n: s.shape for n, s in plan.states.items()}
        super().__init__(**(shapes or {"none": 0}))
        if degree != ANY:
            self.arity = (degree, degree)  # type: ignore[misc]
        self.state_dtype = next((scheme.dtype for scheme in plan.states.values()), None)
        self.reads = reads
        self._degree = degree
        self._plan = plan
        self._functions = Functions(None, None)
        self._originals: list[Tensor] = []

    def bound(self, functions: Functions, tensors: list[Tensor]) -> Cell:
        """This cell, which shares its traces, with functions and the tensors that they read."""
        new = Cell.__new__(Cell)
        new.__dict__.update(self.__dict__)
        new._functions, new._originals = functions, tensors
        new._buffers = {f"tensor{i}": x for i, x in enumerate(tensors)}
        return new

    def forward(self) -> None:
        """Sets what the functions set, and keeps what they do not."""
        plan = self._plan
        pulled: Columns = {}

        def pull(name: str) -> Tensor:
            if name not in pulled:
                pulled[name] = self.pull(name)
            return pulled[name]

        own = self._own(pull)
        edges = [self._ends(pull, place) for place in range(max(self._degree, 0))]
        if self._degree == ANY:
            edges = [self._all_ends(pull)]
        add = self.sum_children if self._degree == ANY else None
        counts = self.num_children()
        view = View(counts, partial(pull, "ids"), own, edges, plan.empty, Seen(), add)
        present = [x for x in self._buffers.values() if x is not None]
        with Replaced(zip(self._originals, present)):
            written = evaluate(self._functions, view)
        values = {
            name: written[name] if name in written else pull(f"own {name}")
            for name in [*plan.written, *plan.states]
        }
        if plan.states:
            self.scatter(**{name: values[name] for name in plan.states})
        self.push(**{name: values[name] for name in plan.written if name not in plan.states})

    def _own(self, pull: Callable[[str], Tensor]) -> dict[str, Callable[[], Tensor]]:
        visible = self._plan.visible if self._degree else self._plan.nodes
        return {name: partial(pull, f"own {name}") for name in visible}

    def _ends(self, pull: Callable[[str], Tensor], place: int) -> Ends:
        """Returns the in-edges at one argument position."""
        plan = self._plan

        def source(name: str) -> Tensor:
            if name in plan.states:
                return self.gather(place)[name]
            return pull(f"source {name}").select(1, place)

        def edge(name: str) -> Tensor:
            return pull(f"edge {name}").select(1, place)

        return Ends(
            {name: partial(source, name) for name in plan.visible},
            {name: partial(edge, name) for name in plan.edges},
            self._own(pull),
        )

    def _all_ends(self, pull: Callable[[str], Tensor]) -> Ends:
        """Returns all in-edges, a row for each."""

        def source(name: str) -> Tensor:
            return self.gather_each()[name]

        def destination(name: str) -> Tensor:
            return self.spread(pull(f"own {name}"))

        visible = self._plan.visible
        return Ends(
            {name: partial(source, name) for name in visible},
            {},
            {name: partial(destination, name) for name in visible},
        )
