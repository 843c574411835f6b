"""Vertex functions: what every vertex of an input graph computes (Cavs §3.1)."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Iterator, Mapping
from contextvars import ContextVar
from typing import Any, ClassVar, Protocol

import torch
from torch import Tensor, nn

from smex.errors import SmexKeyError, SmexRuntimeError, SmexTypeError, SmexValueError
from smex.vertex.words.constants import constants_of, settings_of

__all__ = ["State", "VertexFunction"]

Shape = tuple[int, ...]

_MOST_SETTINGS = 8
"""Of so many other settings traces are kept."""
ROWS, EDGES = 12, 20
"""How many vertices and edges a trace is made with; the graph holds for any number."""


class State(Mapping[str, Tensor]):
    """The states of some vertices by name, a row for each: ``state.h`` is ``state["h"]``."""

    def __init__(self, values: Mapping[str, Tensor]):
        vars(self).update(values)  # in front of the methods of a mapping that are called so
        self._values = dict(values)

    def __getitem__(self, name: str) -> Tensor:
        if name not in self._values:
            raise SmexKeyError(_no_state(name, self._values))
        return self._values[name]

    def __contains__(self, name: object) -> bool:
        return name in self._values

    def __getattr__(self, name: str) -> Tensor:
        values = self.__dict__.get("_values", {})
        if name in values:
            return values[name]
        raise AttributeError(_no_state(name, values))

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)

    def __repr__(self) -> str:
        return f"State({', '.join(f'{k}={list(v.shape)}' for k, v in self._values.items())})"


def _no_state(name: str, known: Mapping[str, Tensor]) -> str:
    return f"a vertex has no state {name!r}; its states are {', '.join(known)}"


class Evaluation(Protocol):
    """What the words of a vertex function mean while it is called on some rows."""

    def gather(self, slot: int) -> State:
        """Returns the states of the children at one argument position, a row for each vertex."""

    def gather_each(self) -> State:
        """Returns the states of all children, a row for each edge."""

    def spread(self, value: Tensor) -> Tensor:
        """Returns a row for each edge from a row for each vertex."""

    def sum_children(self, value: Tensor) -> Tensor:
        """Returns a row for each vertex from a row for each edge."""

    def num_children(self) -> Tensor:
        """Returns the number of children of each vertex."""

    def pull(self, name: str | None) -> Tensor:
        """Returns the vertices' input."""

    def scatter(self, states: dict[str, Tensor]) -> None:
        """Sets the vertices' states."""

    def push(self, outputs: dict[str, Tensor]) -> None:
        """Sets the vertices' outputs."""


CURRENT: ContextVar[Evaluation | None] = ContextVar("smex_vertex_evaluation", default=None)
"""The evaluation that the words belong to."""


class VertexFunction(nn.Module):
    """What every vertex computes from its children and its input; the base class to derive from.

    ``forward(self)`` is written for one vertex, in any torch code, with Cavs's four words
    (Cavs §3.1): :meth:`gather` (or :meth:`gather_sum`, :meth:`gather_each`) reads the children's
    states, :meth:`pull` the vertex's input, :meth:`scatter` sets its state for its parents, and
    :meth:`push` its output for the world. :func:`smex.vertex.run` calls it for many vertices at
    once: each tensor has a further dimension in front, a row for each vertex, and rows must not
    be mixed.

    Args:
        state: for each state its size, or its shape without the row: ``h=150, c=150``.

    Attributes:
        arity: how many children a vertex may have: an int n for n children or none, a pair
            (fewest, most), or None for any number that ``forward`` gathers.
        state_dtype: the type of the states; None for that of the parameters, or of the inputs
            where there are none.
        only_traced: whether it is an error, rather than slow, if ``forward`` cannot be traced.

    Raises:
        SmexTypeError: a size is no int or tuple of ints.
        SmexValueError: there is no state, or a size is negative.

    Example:
        >>> class Sum(smex.vertex.VertexFunction):
        ...     def __init__(self):
        ...         super().__init__(total=1)
        ...     def forward(self):
        ...         self.scatter(total=self.pull() + self.gather_sum().total)
        >>> tree = smex.vertex.tree(((), ((), ())))
        >>> smex.vertex.run(Sum(), [tree], torch.ones(5, 1)).roots.states["total"]
        tensor([[5.]])
    """

    arity: ClassVar[int | tuple[int, int] | None] = None
    state_dtype: torch.dtype | None = None
    only_traced: ClassVar[bool] = False
    _changes_often = False
    _inherited: tuple[dict[Any, Any], Any] | None = None
    """Of a copy, until it runs, the traces of its original, and what these hold for."""

    def __init__(self, **state: int | tuple[int, ...]):
        super().__init__()
        if not state:
            raise SmexValueError(
                f"{type(self).__name__}: expected the size of at least one state, found none; "
                "write super().__init__(h=150)"
            )
        self.state_shapes: dict[str, Shape] = {
            name: _shape(type(self).__name__, name, size) for name, size in state.items()
        }
        self._traces: dict[Any, Any] = {}
        self._settings: tuple[Any, ...] | None = None  # that the traces are of
        self._former: dict[tuple[Any, ...], dict[Any, Any]] = {}  # the traces of others
        self._pushed: dict[str, tuple[torch.Size, torch.dtype]] = {}  # seen in calls
        self._has_warned = False

    def __getstate__(self) -> dict[str, Any]:
        forgotten: dict[str, Any] = {
            "_traces": {},
            "_inherited": None,
            "_settings": None,
            "_former": {},
        }
        return {**self.__dict__, **forgotten}

    def __deepcopy__(self, memo: dict[int, Any]) -> VertexFunction:
        import copy

        new = type(self).__new__(type(self))
        memo[id(self)] = new
        new.__dict__.update(copy.deepcopy(self.__getstate__(), memo))
        constants = constants_of(self)
        if self._traces and constants is not None:
            new._inherited = (dict(self._traces), constants)
        return new

    def _own_traces(self) -> dict[Any, Any]:
        """What was made of ``forward``: of a copy's original, too, if the copy is still like it."""
        if self._inherited is not None:
            traces, constants = self._inherited
            self._inherited = None
            if constants_of(self) == constants:
                self._traces = {**traces, **self._traces}
        settings = settings_of(self)
        if settings != self._settings:
            self._follow(settings)
        return self._traces

    def _follow(self, settings: tuple[Any, ...]) -> None:
        """Goes on with the traces of other settings."""
        former, self._settings = self._settings, settings
        if former is None or None in self._traces.values():  # one that is called follows anyway
            return
        tried = {key: True for key in self._traces if key[0] == "tried"}
        self._former[former] = self._traces
        self._traces = self._former.pop(settings, tried)
        if len(self._former) <= _MOST_SETTINGS:
            return
        del self._former[next(iter(self._former))]
        if not self._changes_often:
            self._changes_often = True
            warnings.warn(
                f"{type(self).__name__}: a number that is an attribute changes often, and forward "
                "is traced anew for each, which takes a while; let it be a tensor "
                "(self.k = torch.tensor(0.5)), whose numbers may change",
                stacklevel=5,
            )

    def retrace(self) -> None:
        """Forgets what was made of ``forward``: needed after a change of what it reads.

        Parameters, buffers, ``train()`` and ``eval()``, numbers and texts that are attributes,
        hooks, and the inputs' types are looked at anew in each run; other attributes are taken for
        constants.
        """
        self._traces.clear()
        self._former.clear()
        self._inherited = None

    def gather(self, slot: int) -> State:
        """The states of the child at argument position `slot`, zeros where there is none."""
        if not isinstance(slot, int) or isinstance(slot, bool):
            raise SmexTypeError(f"gather: expected an int as the child's position, found {slot!r}")
        if slot < 0:
            raise SmexValueError(
                f"gather: expected the child's position from 0, found {slot}; positions do not "
                "count from the end, since vertices differ in the number of children"
            )
        return _evaluation("gather").gather(slot)

    def gather_sum(self) -> State:
        """Returns the sum of the states of all children, zeros where there are none."""
        children = self.gather_each()
        return State({name: self.sum_children(value) for name, value in children.items()})

    def gather_each(self) -> State:
        """The states of all children, a row for each edge from a vertex to a child of it."""
        return _evaluation("gather_each").gather_each()

    def spread(self, value: Tensor) -> Tensor:
        """`value`, with a row for each vertex, at the edges to its children: a row for each."""
        return _evaluation("spread").spread(value)

    def sum_children(self, value: Tensor) -> Tensor:
        """Returns the sum of `value`, with a row for each edge, over each vertex's children."""
        return _evaluation("sum_children").sum_children(value)

    def num_children(self) -> Tensor:
        """Returns the number of children of each vertex, int64 ``[rows]``."""
        return _evaluation("num_children").num_children()

    def pull(self, name: str | None = None) -> Tensor:
        """Returns the input of that name, a row for each vertex; without a name the only one."""
        return _evaluation("pull").pull(name)

    def scatter(self, *values: Tensor, **states: Tensor) -> None:
        """Sets the vertices' states, by name, or in the order in which they were declared."""
        states.update(zip(self.state_shapes, values))
        who = f"{type(self).__name__}: scatter"
        if len(values) > len(self.state_shapes) or set(states) != set(self.state_shapes):
            raise SmexValueError(
                f"{who}: expected the states {', '.join(self.state_shapes)}, found "
                f"{', '.join(states) or 'none'}; set all that __init__ declares"
            )
        for name, value in states.items():
            if not isinstance(value, Tensor):
                raise SmexTypeError(
                    f"{who}: expected a tensor as state {name!r}, found {type(value).__name__}"
                )
            if tuple(value.shape[1:]) != self.state_shapes[name] or value.ndim == 0:
                raise SmexValueError(
                    f"{who}: expected rows of shape {list(self.state_shapes[name])} as state "
                    f"{name!r}, found {sizes_text(value.shape[1:])}; change it or its size in "
                    "__init__"
                )
        _evaluation("scatter").scatter({name: states[name] for name in self.state_shapes})

    def push(self, *value: Tensor, **outputs: Tensor) -> None:
        """Sets outputs of the vertices, by name; one without a name is called ``"out"``."""
        who = f"{type(self).__name__}: push"
        if len(value) > 1 or (value and "out" in outputs):
            count = len(value) + ("out" in outputs)
            raise SmexTypeError(
                f"{who}: expected one output without a name, found {count}; name them: "
                "push(a=a, b=b)"
            )
        if value:
            outputs["out"] = value[0]
        for name, output in outputs.items():
            if not isinstance(output, Tensor) or output.ndim == 0:
                found = "one number" if isinstance(output, Tensor) else repr(output)
                raise SmexTypeError(
                    f"{who}: expected a tensor with a row for each vertex as {name!r}, found "
                    f"{found}; name several outputs: push(a=a, b=b)"
                )
        _evaluation("push").push(outputs)


def _evaluation(word: str) -> Evaluation:
    current = CURRENT.get()
    if current is None:
        raise SmexRuntimeError(
            f"{word}: called outside of smex.vertex.run, where there are no vertices; use it in "
            "the forward of a VertexFunction and call smex.vertex.run(function, graphs, inputs)"
        )
    return current


def sizes_text(sizes: Iterable[Any]) -> str:
    """Returns a shape for a message.

    Numbers of vertices and edges in a trace have no digits to show.
    """
    words = {ROWS: "vertices", EDGES: "edges"}
    texts = [str(n) if isinstance(n, int) else words.get(n.node.hint, "any") for n in sizes]
    return f"[{', '.join(texts)}]"


def _shape(owner: str, name: str, size: Any) -> Shape:
    sizes = size if isinstance(size, tuple) else (size,)
    if not all(isinstance(n, int) and not isinstance(n, bool) for n in sizes):
        raise SmexTypeError(
            f"{owner}: expected an int or a tuple of ints as the size of state {name!r}, found "
            f"{size!r}"
        )
    if any(n < 0 for n in sizes):
        raise SmexValueError(
            f"{owner}: expected a size of at least 0 for state {name!r}, found {size!r}"
        )
    return torch.Size(sizes)
