"""What a vertex function computes on some rows, and its gradients, as one graph of ATen calls."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import torch
from torch import Tensor, fx, nn
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx.experimental.proxy_tensor import make_fx

from smex._calling import call_with
from smex._logging import quiet_fakes
from smex.errors import SmexRuntimeError, SmexValueError
from smex.vertex.compile.outside import Attributes, Found, Outside, check_gradients
from smex.vertex.words.function import CURRENT, EDGES, ROWS, State, VertexFunction
from smex.vertex.words.options import is_autocast

TRACING = threading.RLock()
"""Held where a function is called: its parameters are put in place of its own meanwhile."""


class Operand(NamedTuple):
    """What an input or output of the graph is.

    ``role`` is one of param, buffer, input, counts, parents, state, output, gather (the states at
    one argument position, ``slot``), each (the states of all children, a row for each edge) and
    beside (the states at the first ``slot`` argument positions, side by side in a row).
    """

    role: str
    name: str
    slot: int = -1

    @property
    def is_gathered(self) -> bool:
        """Whether it is made of children's states."""
        return self.role in ("gather", "each", "beside")


@dataclass
class Reads:
    """What one call of a vertex function read and set."""

    slots: int = 0
    each: bool = False
    inputs: list[str] = field(default_factory=list)
    states: dict[str, Tensor] = field(default_factory=dict)
    outputs: dict[str, Tensor] = field(default_factory=dict)


class Rows:
    """The words of a vertex function for given rows (:class:`function.Evaluation`).

    Args:
        function: it.
        inputs: each with a row for each vertex.
        counts: int64 ``[rows]``, the numbers of children.
        parents: int64 ``[edges]``, for each edge the row of its parent.
        child: gives the states at an argument position, or None where no vertex has a child.
        each: gives the states of all children, or None where there are none.
    """

    def __init__(
        self,
        function: VertexFunction,
        inputs: Mapping[str, Tensor],
        counts: Tensor,
        parents: Tensor,
        child: Callable[[int], dict[str, Tensor] | None],
        each: Callable[[], dict[str, Tensor] | None],
        dtype: torch.dtype,
    ):
        self.reads = Reads()
        self._function = function
        self._name = type(function).__name__
        self._inputs = inputs
        self._counts = counts
        self._parents = parents
        self._child = child
        self._each = each
        self._dtype = dtype

    def gather(self, slot: int) -> State:
        """Returns the states of the children at one argument position."""
        self.reads.slots = max(self.reads.slots, slot + 1)
        return self._state(self._child(slot), self._counts)

    def gather_each(self) -> State:
        """Returns the states of all children, a row for each edge."""
        self.reads.each = True
        return self._state(self._each(), self._parents)

    def spread(self, value: Tensor) -> Tensor:
        """Returns a row for each edge from a row for each vertex."""
        return value.index_select(0, self._parents)

    def sum_children(self, value: Tensor) -> Tensor:
        """Returns a row for each vertex from a row for each edge."""
        zeros = value.new_zeros((self._counts.shape[0], *value.shape[1:]))
        return zeros.index_add(0, self._parents, value)

    def num_children(self) -> Tensor:
        """Returns the number of children of each vertex."""
        return self._counts

    def pull(self, name: str | None) -> Tensor:
        """Returns the vertices' input."""
        if name is None:
            if len(self._inputs) != 1:
                raise SmexValueError(
                    f"{self._name}: pull: expected exactly one input to pull without a name, found "
                    f'{", ".join(map(repr, self._inputs)) or "none"}; name it: pull("x")'
                )
            name = next(iter(self._inputs))
        if name not in self._inputs:
            have = ", ".join(map(repr, self._inputs)) or "none"
            raise SmexValueError(
                f"{self._name}: pull: there is no input {name!r}; smex.vertex.run was given {have}"
            )
        if name not in self.reads.inputs:
            self.reads.inputs.append(name)
        return self._inputs[name]

    def scatter(self, states: dict[str, Tensor]) -> None:
        """Sets the vertices' states."""
        if self.reads.states:
            raise SmexRuntimeError(
                f"{self._name}: scatter: called twice for a vertex; set all states in one call"
            )
        states = dict(states)
        for name, value in states.items():
            self._check_rows("scatter", name, value)
            if _is_narrowed(value):
                value = states[name] = value.to(self._dtype)
            if value.dtype != self._dtype:
                raise SmexValueError(
                    f"{self._name}: scatter: expected {self._dtype} as the type of state {name!r}, "
                    f"found {value.dtype}; states are of the type of the function's parameters, or "
                    "of its inputs where it has none"
                )
        self.reads.states = states

    def push(self, outputs: dict[str, Tensor]) -> None:
        """Sets the vertices' outputs."""
        for name, value in outputs.items():
            self._check_rows("push", name, value)
            if name in self.reads.outputs:
                raise SmexRuntimeError(
                    f"{self._name}: push: output {name!r} was pushed twice for a vertex; give the "
                    "outputs different names"
                )
        self.reads.outputs.update(outputs)

    def call(self, run: Callable[[], Any]) -> Reads:
        """Calls the function, and tells what it read and set."""
        token = CURRENT.set(self)
        try:
            run()
        finally:
            CURRENT.reset(token)
        if not self.reads.states and not self.reads.outputs:
            raise SmexRuntimeError(
                f"{self._name}: forward ended without scatter or push, so it has no results; call "
                "self.scatter(...) with the vertex's states"
            )
        if not self.reads.states and (self.reads.slots or self.reads.each):
            raise SmexRuntimeError(
                f"{self._name}: forward gathers states that it never sets; call self.scatter(...)"
            )
        return self.reads

    def _state(self, values: dict[str, Tensor] | None, like: Tensor) -> State:
        if values is not None:
            return State(values)
        shapes = self._function.state_shapes
        rows = like.shape[0]
        return State(
            {
                name: like.new_zeros((rows, *shape), dtype=self._dtype)
                for name, shape in shapes.items()
            }
        )

    def _check_rows(self, word: str, name: str, value: Tensor) -> None:
        if value.shape[0] != self._counts.shape[0]:
            raise SmexValueError(
                f"{self._name}: {word}: expected a row for each vertex in {name!r}, found "
                f"{_rows_text(value.shape[0])}; rows of gather_each are edges, which sum_children "
                "brings back to vertices"
            )


def _is_narrowed(value: Tensor) -> bool:
    """Returns whether a value may have its type from autocast around the run."""
    kind = value.device.type
    return is_autocast(kind) and value.dtype == torch.get_autocast_dtype(kind)


def _rows_text(rows: Any) -> str:
    """Returns a number of rows for a message.

    One that stands for any number has no digits to show.
    """
    if isinstance(rows, int):
        return f"{rows} rows"
    hint = rows.node.hint
    return {ROWS: "a row for each vertex", EDGES: "a row for each edge"}.get(hint, "other rows")


@dataclass
class Signature:
    """What a trace depends on.

    Attributes:
        params: parameters and buffers by name.
        inputs: by name.
        dtype: of the states.
        is_leaf: the vertices have no children.
        wants: the parameters and inputs that gradients are wanted of.
        with_gradients: whether gradients are wanted at all.
        shared: what the first trace of a function leaves for that of its other kind of vertices,
            which differs in `is_leaf` alone.
    """

    params: Mapping[str, Tensor]
    inputs: Mapping[str, Tensor]
    dtype: torch.dtype
    is_leaf: bool
    wants: frozenset[str]
    with_gradients: bool
    shared: list[tuple[_Builder, Reads]] = field(default_factory=list)


@dataclass
class Joint:
    """A vertex function and its gradients as a graph.

    Attributes:
        graph: of calls of ATen operators, functional.
        inputs: its placeholders, and what they are.
        values: the results of the function: states and outputs.
        tangents: the placeholders of the gradients of `values`.
        gradients: the gradients of params, inputs, gathered states.
        reads: what the function read.
        is_leaf: the vertices have no children.
        outside: tensors that are no parameters, buffers, inputs or states: they are among the
            placeholders as parameters of their names.
    """

    graph: fx.Graph
    inputs: dict[fx.Node, Operand]
    values: dict[Operand, fx.Node]
    tangents: dict[fx.Node, Operand]
    gradients: dict[Operand, fx.Node]
    reads: Reads
    is_leaf: bool
    outside: list[Found] = field(default_factory=list)


class UntraceableError(Exception):
    """The function cannot be looked into, for the reason given."""


class SetAttributeError(UntraceableError):
    """The function sets attributes: it may be that it does so in its first call alone."""


def trace(function: VertexFunction, signature: Signature) -> Joint:
    """Returns the graph of a vertex function for any number of rows.

    Raises:
        UntraceableError: the function looks at values or at the number of rows, or changes tensors
            or its own attributes.
    """
    if not signature.shared:
        with _looking_into(function):
            builder = _builder(function, signature)
            signature.shared.append((builder, builder.dry_run()))
    builder, read = signature.shared[0]
    builder.signature = signature
    with _looking_into(function):
        return builder.joint(read)


def reads(function: VertexFunction, signature: Signature) -> Reads:
    """Returns what a function reads and sets, as fake tensors, told by a call on fakes.

    Raises:
        UntraceableError: as of :func:`trace`.
    """
    with _looking_into(function):
        return _builder(function, signature).dry_run()


@contextlib.contextmanager
def _looking_into(function: VertexFunction) -> Iterator[None]:
    """Around calls on fakes: nothing of them is left behind, and other errors become ours."""
    attributes = Attributes(function)
    try:
        # Hooks of the caller, such as those of checkpoints, are not meant for fake tensors.
        with torch.autograd.graph.saved_tensors_hooks(_same, _same), quiet_fakes():
            yield
    except (SmexValueError, SmexRuntimeError, UntraceableError):
        raise
    except Exception as error:
        raise UntraceableError(f"{type(error).__name__}: {error}") from error
    finally:
        changed = attributes.restore()
    if changed is not None:
        raise SetAttributeError(f"it changes the attribute {changed!r}")


def _builder(function: VertexFunction, signature: Signature) -> _Builder:
    from torch.fx.experimental.symbolic_shapes import ShapeEnv  # seconds, for traces alone

    mode = FakeTensorMode(shape_env=ShapeEnv())
    return _Builder(function, signature, mode, _symbol(mode, ROWS), _symbol(mode, EDGES))


def _same(tensor: Tensor) -> Tensor:
    return tensor


def _symbol(mode: FakeTensorMode, hint: int) -> Any:
    """Returns a number of rows that nothing is known of."""
    from torch.fx.experimental.symbolic_shapes import DimDynamic, StatelessSymbolicContext

    context: Any = StatelessSymbolicContext(dynamic_sizes=[DimDynamic.DYNAMIC])
    return mode.from_tensor(torch.empty(hint), symbolic_context=context).shape[0]


class _Builder:
    def __init__(self, function, signature, mode, rows, edges):
        self.function = function
        self.signature = signature
        self.mode = mode
        self.rows = rows
        self.edges = edges
        self.outside: dict[str, Found] = {}
        self._fakes: dict[str, Tensor] = {}
        device = next((p.device for p in signature.params.values()), None)
        self.device = device or next(
            (x.device for x in signature.inputs.values()), torch.device("cpu")
        )

    def _like(self, tensor: Tensor, lead: Any = None) -> Tensor:
        """Returns a fake of the tensor, with `lead` rows if that is given."""
        shape = tuple(tensor.shape) if lead is None else (lead, *tensor.shape[1:])
        with self.mode:
            return torch.empty(shape, dtype=tensor.dtype, device=tensor.device)

    def _fresh(self, lead: Any, shape: tuple[int, ...], dtype: torch.dtype) -> Tensor:
        with self.mode:
            return torch.empty((lead, *shape), dtype=dtype, device=self.device)

    def _state(self, lead: Any) -> dict[str, Tensor]:
        shapes = self.function.state_shapes
        return {n: self._fresh(lead, s, self.signature.dtype) for n, s in shapes.items()}

    def dry_run(self) -> Reads:
        """Returns what the function reads, told by a call on fakes."""
        signature = self.signature
        params = {n: self._like(p) for n, p in signature.params.items()}
        rows = Rows(
            self.function,
            {n: self._like(x, self.rows) for n, x in signature.inputs.items()},
            self._fresh(self.rows, (), torch.int64),
            self._fresh(self.edges, (), torch.int64),
            lambda slot: self._state(self.rows),
            lambda: self._state(self.edges),
            signature.dtype,
        )
        outside = Outside(self.function, (), self._fake_of)
        with self.mode, torch.no_grad():
            found = self._run(rows, params, outside)
        self.outside = outside.found
        return found

    def _fake_of(self, found: Found) -> Tensor:
        if found.name not in self._fakes:
            fake = self.mode.from_tensor(found.tensor, static_shapes=True)
            self._fakes[found.name] = fake.detach()
        return self._fakes[found.name]

    def _run(self, rows: Rows, params: dict[str, Tensor], outside: Outside) -> Reads:
        def run() -> None:
            with outside:
                call_with(self.function, params)

        return rows.call(run)

    def joint(self, reads: Reads) -> Joint:
        operands, fakes = self._operands(reads)
        results = [Operand("state", n) for n in reads.states]
        results += [Operand("output", n) for n in reads.outputs]
        tangents = []
        if self.signature.with_gradients:
            for kind, values in (("state", reads.states), ("output", reads.outputs)):
                for name, value in values.items():
                    if value.is_floating_point() or value.is_complex():
                        tangents.append(Operand(kind, name))
                        fakes.append(self._fresh(self.rows, tuple(value.shape[1:]), value.dtype))
        wanted = [op for op in operands if self._is_wanted(op, fakes[operands.index(op)])]
        found: list[Operand] = []

        def run(*tensors: Tensor) -> list[Tensor]:
            given = dict(zip(operands, tensors))
            leaves = {op: given[op].detach().requires_grad_() for op in wanted}
            given.update(leaves)
            with torch.enable_grad():
                values = self._call(given)
                after = dict(zip(tangents, tensors[len(operands) :]))
                pairs = [(values[op], t) for op, t in after.items() if values[op].requires_grad]
                grads: list[Any] = [None] * len(wanted)
                if pairs and wanted:
                    grads = list(
                        torch.autograd.grad(
                            [p[0] for p in pairs],
                            list(leaves.values()),
                            [p[1] for p in pairs],
                            allow_unused=True,
                        )
                    )
            found[:] = [op for op, grad in zip(wanted, grads) if grad is not None]
            return [values[op] for op in results] + [g for g in grads if g is not None]

        with self.mode, _mathematics():
            module = make_fx(run, tracing_mode="real")(*fakes)
        if any(str(self.rows.node.expr) in str(g.expr) or str(self.edges.node.expr) in str(g.expr)
               for g in self.mode.shape_env.guards):  # fmt: skip
            raise UntraceableError("it looks at the number of rows")
        if any(n.op == "get_attr" for n in module.graph.nodes):
            raise UntraceableError("it makes a tensor of numbers")
        placeholders = [n for n in module.graph.nodes if n.op == "placeholder"]
        outputs = next(n for n in module.graph.nodes if n.op == "output").args[0]
        return Joint(
            module.graph,
            dict(zip(placeholders, operands)),
            dict(zip(results, outputs)),
            dict(zip(placeholders[len(operands) :], tangents)),
            dict(zip(found, outputs[len(results) :])),
            reads,
            self.signature.is_leaf,
            list(self.outside.values()),
        )

    def _operands(self, reads: Reads) -> tuple[list[Operand], list[Tensor]]:
        signature = self.signature
        pairs = [(Operand("param", n), self._like(p)) for n, p in signature.params.items()]
        pairs += [(Operand("param", n), self._fake_of(f)) for n, f in self.outside.items()]
        pairs += [
            (Operand("input", n), self._like(signature.inputs[n], self.rows)) for n in reads.inputs
        ]
        pairs.append((Operand("counts", ""), self._fresh(self.rows, (), torch.int64)))
        pairs.append((Operand("parents", ""), self._fresh(self.edges, (), torch.int64)))
        if not signature.is_leaf:
            for slot in range(reads.slots):
                for name, fake in self._state(self.rows).items():
                    pairs.append((Operand("gather", name, slot), fake))
            if reads.each:
                for name, fake in self._state(self.edges).items():
                    pairs.append((Operand("each", name), fake))
        return [p[0] for p in pairs], [p[1] for p in pairs]

    def _is_wanted(self, operand: Operand, fake: Tensor) -> bool:
        if not self.signature.with_gradients or not fake.is_floating_point():
            return False
        if operand.role in ("param", "input"):
            return f"{operand.role}:{operand.name}" in self.signature.wants
        return operand.is_gathered

    def _call(self, given: dict[Operand, Tensor]) -> dict[Operand, Tensor]:
        names = self.function.state_shapes
        params = {n: given[Operand("param", n)] for n in self.signature.params}
        inputs = {op.name: t for op, t in given.items() if op.role == "input"}
        inputs = {n: inputs.get(n, x) for n, x in self.signature.inputs.items()}
        leaf = self.signature.is_leaf
        rows = Rows(
            self.function,
            inputs,
            given[Operand("counts", "")],
            given[Operand("parents", "")],
            lambda slot: None if leaf else {n: given[Operand("gather", n, slot)] for n in names},
            lambda: None if leaf else {n: given[Operand("each", n)] for n in names},
            self.signature.dtype,
        )
        stand_ins = self._stand_ins(given)
        known = {id(stand_ins[name]): found for name, found in self.outside.items()}

        def stand_in(found: Found) -> Tensor:
            if found.name not in stand_ins:
                raise UntraceableError("it reads other tensors in each call")
            return stand_ins[found.name]

        reads = self._run(rows, params, Outside(self.function, self.outside.values(), stand_in))
        if self.signature.with_gradients:
            own = [t for t in given.values() if id(t) not in known]
            results = [*reads.states.values(), *reads.outputs.values()]
            check_gradients(type(self.function).__name__, results, own, known)
        values = {Operand("state", n): v for n, v in reads.states.items()}
        values.update({Operand("output", n): v for n, v in reads.outputs.items()})
        return values

    def _stand_ins(self, given: dict[Operand, Tensor]) -> dict[str, Tensor]:
        """Returns what stands for tensors from outside: asks for gradients where they do."""
        found = {}
        for name, one in self.outside.items():
            tensor = given[Operand("param", name)]
            asks = self.signature.with_gradients and one.tensor.requires_grad
            found[name] = tensor.detach().requires_grad_() if asks else tensor
        return found


def _mathematics() -> Any:
    """Attention as its mathematics, of which the gradients are operators that are known."""
    return torch.nn.attention.sdpa_kernel(torch.nn.attention.SDPBackend.MATH)


def training_flags(module: nn.Module) -> tuple[bool, ...]:
    """Which submodules are in training."""
    return tuple(m.training for m in module.modules())
