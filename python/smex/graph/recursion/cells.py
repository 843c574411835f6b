"""Message, reduce and apply functions of :mod:`smex.graph` on vertices that are computed together.

Where vertices have as many in-edges each, the messages of their first in-edges are computed
together, then those of the second ones, and so on: in-edges are argument positions. Sums and means
are also computed over any number of in-edges, a row for each.
"""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, NamedTuple, NoReturn

import torch
from torch import Tensor

from smex.graph.features.column import Scheme
from smex.graph.function import BinaryMessageFunction, MessageFunction, ReduceFunction
from smex.graph.udf import EdgeBatch, Mailbox, NodeBatch
from smex.vertex.compile.trace import UntraceableError

Columns = dict[str, Tensor]
Getters = Mapping[str, Callable[[], Tensor]]


class Functions(NamedTuple):
    """What is computed: each is built-in, or a user's function."""

    message: Any
    reduce: Any
    apply: Any = None


@dataclass
class Seen:
    """What functions asked for: names by test, and whether for all names."""

    names: set[str] = field(default_factory=set)
    everything: bool = False


class Features(Mapping[str, Tensor]):
    """Features by name, computed when they are read."""

    def __init__(self, getters: Getters, seen: Seen):
        self._getters = getters
        self._seen = seen

    def __getitem__(self, name: str) -> Tensor:
        if name not in self._getters:
            self._seen.names.add(name)  # get asks so
            raise KeyError(name)
        return self._getters[name]()

    def __contains__(self, name: object) -> bool:
        self._seen.names.add(str(name))
        return name in self._getters

    def __iter__(self) -> Iterator[str]:
        self._seen.everything = True
        return iter(self._getters)

    def __len__(self) -> int:
        self._seen.everything = True
        return len(self._getters)


class Ends(NamedTuple):
    """What message functions see of some edges: features by name, each a row for each edge."""

    source: Getters
    edge: Getters
    destination: Getters


@dataclass
class View:
    """What functions see of some vertices and of their in-edges.

    Attributes:
        counts: int64 ``[n]``, the vertices' numbers of in-edges.
        ids: gives the vertices' ids ``[n]``.
        own: the vertices' features, each ``[n, ...]``.
        edges: for each argument position the in-edges there, as many as vertices; with `add` one,
            for all in-edges of all vertices.
        empty: the shape and type of a message's row, where there are no in-edges.
        seen: what the functions asked for.
        add: adds up a row for each in-edge at their vertices.
    """

    counts: Tensor
    ids: Callable[[], Tensor]
    own: Getters
    edges: Sequence[Ends]
    empty: Mapping[str, Scheme]
    seen: Seen
    add: Callable[[Tensor], Tensor] | None = None


def evaluate(functions: Functions, view: View) -> Columns:
    """Returns the features that the functions set, each ``[n, ...]``.

    Messages in the order of edge ids.

    Raises:
        UntraceableError: what a function returns is not understood here.
    """
    reduce = functions.reduce
    result: Columns = {}
    if view.edges:
        result = _reduced(reduce, [send(functions.message, view, e) for e in view.edges], view)
    elif isinstance(reduce, ReduceFunction):
        like = view.empty[reduce.msg_field]
        shape = (view.counts.shape[0], *like.shape)
        result = {reduce.out_field: view.counts.new_zeros(shape, dtype=like.dtype)}
    if functions.apply is None:
        return result
    data: dict[str, Callable[[], Tensor]] = dict(view.own)
    data.update({name: partial(_same, x) for name, x in result.items()})
    return _checked(functions.apply(_Nodes(view, data)))


def send(message: Any, view: View, ends: Ends) -> Columns:
    """Returns the messages that run along edges, each ``[n, ...]``."""
    source, edge, destination = (Features(getters, view.seen) for getters in ends)
    if isinstance(message, MessageFunction):
        frames = {"u": source, "v": destination, "e": edge}
        operands = [frames[letter][name] for letter, name in message.operands]
        return {message.out_field: _builtin(message, operands)}
    return _checked(message(_Edges(None, view.counts, ("", "", ""), source, edge, destination)))


def _builtin(message: MessageFunction, operands: list[Tensor]) -> Tensor:
    if not isinstance(message, BinaryMessageFunction):
        return operands[0]
    if operands[0].dtype != operands[1].dtype:
        raise UntraceableError(f"the operands of {message!r} are of distinct types")
    last = [x.shape[-1] if x.dim() > 1 else 1 for x in operands]
    if message.binary_op == "dot" and last[0] != last[1]:
        raise UntraceableError(f"the last dimensions of {message!r} differ")
    # Features line up from the right, after the first dimension.
    most = max(x.dim() for x in operands)
    lhs, rhs = (x.reshape(x.shape[0], *[1] * (most - x.dim()), *x.shape[1:]) for x in operands)
    if message.binary_op == "dot":
        return lhs * rhs if most == 1 else (lhs * rhs).sum(-1, keepdim=True)
    return _OPERATORS[message.binary_op](lhs, rhs)


_OPERATORS = {
    "add": operator.add, "sub": operator.sub, "mul": operator.mul, "div": operator.truediv,
}  # fmt: skip


def _reduced(reduce: Any, sent: list[Columns], view: View) -> Columns:
    if not isinstance(reduce, ReduceFunction):
        box = Mailbox((name, _stacked([one[name] for one in sent])) for name in sent[0])
        return _checked(reduce(_Nodes(view, view.own, box)))
    values = [one[reduce.msg_field] for one in sent]
    if not values[0].is_floating_point():
        raise UntraceableError(f"messages of {reduce!r} are not of floating point")
    if view.add is None:
        result = functools.reduce(_REDUCERS[reduce.name], values)
        return {reduce.out_field: result / len(values) if reduce.name == "mean" else result}
    result = view.add(values[0])
    if reduce.name == "mean":
        counts = view.counts.to(result.dtype)
        result = result / counts.view(-1, *[1] * (result.dim() - 1))
    return {reduce.out_field: result}


def _stacked(messages: list[Tensor]) -> Tensor:
    """Messages ``[n, degree, ...]``; of one each the same memory."""
    first = messages[0]
    if len(messages) == 1:
        return first.unsqueeze(1)
    if first.dim() != 2:
        return torch.stack(messages, 1)
    # Children side by side are gathered at once.
    return torch.cat(messages, 1).unflatten(1, (len(messages), first.shape[1]))


# Of equal messages the first counts, and gets the gradient.
_REDUCERS: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "max": lambda held, x: torch.where(x > held, x, held),
    "mean": operator.add,
    "min": lambda held, x: torch.where(x < held, x, held),
    "sum": operator.add,
}


def _checked(result: Any) -> Columns:
    if not isinstance(result, Mapping) or not all(
        isinstance(name, str) and isinstance(x, Tensor) and x.dim() for name, x in result.items()
    ):
        raise UntraceableError("a function does not return a dict of tensors")
    return dict(result)


def _same(value: Tensor) -> Tensor:
    return value


class _Nodes(NodeBatch):
    """Vertices, as a reduce or apply function sees them."""

    def __init__(self, view: View, data: Getters, mailbox: Mailbox | None = None):
        super().__init__(None, view.counts, "", Features(data, view.seen), mailbox)
        self._ids = view.ids

    def nodes(self) -> Tensor:
        """Ids of the nodes ``[n]``."""
        return self._ids()

    @property
    def ntype(self) -> str:
        """Type of the nodes."""
        raise UntraceableError("the type of the nodes is asked for")


class _Edges(EdgeBatch):
    """In-edges, as a message function sees them."""

    def edges(self) -> NoReturn:
        """Ids are not there."""
        raise UntraceableError("the ids of edges are asked for")

    @property
    def canonical_etype(self) -> NoReturn:
        """Types are not there."""
        raise UntraceableError("the type of the edges is asked for")
