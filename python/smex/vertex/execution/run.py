"""Runs vertex functions over the input graphs of a mini-batch (Cavs §3)."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from smex._C import TaskLoop, Tasks
from smex.errors import SmexError, SmexKeyError, SmexRuntimeError, SmexTypeError, SmexValueError
from smex.vertex.compile.mixing import warn_of_mixed_rows
from smex.vertex.compile.phases import assign
from smex.vertex.compile.program import VertexProgram, build
from smex.vertex.compile.trace import (
    TRACING,
    SetAttributeError,
    Signature,
    UntraceableError,
    reads,
    trace,
    training_flags,
)
from smex.vertex.execution.bodies import Body, CallBody, InputRows, Memory, ProgramBody, explained
from smex.vertex.execution.schedule import KindRows, Schedule, schedule
from smex.vertex.execution.uncompiled import uncompiled
from smex.vertex.words.function import VertexFunction
from smex.vertex.words.graphs import GraphBatch, as_batch
from smex.vertex.words.options import Options, current, is_autocast

__all__ = ["Result", "Values", "run"]

logger = logging.getLogger(__name__)

ANY = (0, -1, False)
"""Any number of children."""

STRETCH = 1024
"""So many tasks run before Python hears of an interrupt."""

ABSENT = -1
"""In place of a kind: that of outputs which no vertex of the batch pushes."""

Tensors = dict[str, Tensor]


@uncompiled  # a run is large calls already
def run(
    function: VertexFunction | Mapping[str, VertexFunction] | nn.ModuleDict,
    graphs: Any,
    inputs: Tensor | Mapping[str, Any] | None = None,
) -> Result:
    """Evaluates a vertex function on every vertex of every graph, children first.

    Vertices of all samples are levelled together and evaluated many at a time; what does not
    depend on children is computed once for all of them, and so are the gradients of parameters
    and inputs (see :class:`Options`). Where ``forward`` looks at values, at the number of rows, or
    changes tensors that others see, it is called as it is for each set of vertices.

    Args:
        function: a vertex function; for vertices of several types a mapping from the types' names,
            all with the same states.
        graphs: a list of :class:`InputGraph`, a :class:`GraphBatch`, or a graph of
            :mod:`smex.graph`, of which each graph batched in it is a sample.
        inputs: what ``pull`` reads: a tensor with a row for each vertex, sample after sample, or a
            mapping from names to such tensors. With several types also a mapping from a type to
            the inputs of its vertices alone, a row for each of them in the same order.

    Returns:
        The states and outputs of all vertices. Gradients of parameters and inputs have
        no gradients of their own.

    Raises:
        SmexTypeError: an argument has the wrong type.
        SmexValueError: a cycle, a missing child, a wrong number of children (named by sample and
            vertex), or inputs and states that do not fit.
        SmexRuntimeError: ``forward`` sets no state, or one twice.

    Example:
        >>> class Count(smex.vertex.VertexFunction):
        ...     def __init__(self):
        ...         super().__init__(n=1)
        ...     def forward(self):
        ...         self.scatter(n=self.pull() + self.gather(0).n + self.gather(1).n)
        >>> samples = [smex.vertex.tree(((), ())), smex.vertex.chain(2)]
        >>> smex.vertex.run(Count(), samples, torch.ones(5, 1)).states["n"].flatten()
        tensor([1., 1., 3., 1., 2.])
    """
    batch = as_batch(graphs)
    functions, numbers = _functions(function, batch)
    return execute(batch, functions, numbers, _inputs(inputs, batch, functions, numbers))


def execute(
    batch: GraphBatch,
    functions: Mapping[str, VertexFunction],
    numbers: dict[str, int] | None,
    given: Mapping[str, dict[str, tuple[Tensor, bool]]],
) -> Result:
    """Runs checked functions on checked inputs; see :func:`run`.

    Args:
        batch: the input graphs.
        functions: by type, all with the same states.
        numbers: the types' numbers, None for one type without a name.
        given: for each type its inputs, and whether they have rows for its vertices alone.

    Raises:
        UntraceableError: a function that must be looked into cannot be.
    """
    if torch._C._functorch.peek_interpreter_stack() is not None:
        raise SmexRuntimeError(
            "smex.vertex.run: found a transform of torch.func around it, such as grad or vmap, "
            "which cannot look into it; use torch.autograd.grad, and larger batches"
        )
    chosen = current()
    types = [
        _Type(one, given[name], name, chosen, _has_kinds(batch, number, numbers))
        for number, (name, one) in enumerate(functions.items())
    ]
    device = next((t.device for t in types if t.device is not None), torch.device("cpu"))
    planned = schedule(
        batch, [t.arity for t in types], [t.slots(batch) for t in types],
        [t.label for t in types], numbers, chosen.policy, device,
    )  # fmt: skip
    execution = _Execution(types, planned, device, chosen.beside)
    values = _Run.apply(execution, *execution.tensors)
    return execution.result(values)


class Values(Mapping[str, Tensor]):
    """Tensors by name, each with a row for each vertex, put in order when they are asked for.

    Raises:
        SmexKeyError: there is none of that name.
    """

    def __init__(
        self,
        makers: Mapping[str, Callable[[], Tensor]],
        shapes: Mapping[str, Sequence[int]],
        what: str = "value",
    ):
        self._makers = dict(makers)
        self._shapes = {name: list(shapes[name]) for name in self._makers}
        self._made: Tensors = {}
        self._what = what

    def __contains__(self, name: object) -> bool:
        return name in self._makers

    def __getitem__(self, name: str) -> Tensor:
        if name not in self._makers:
            known = ", ".join(map(repr, self._makers)) or "none"
            raise SmexKeyError(
                f"smex.vertex.run: there is no {self._what} {name!r}; there are {known}"
            )
        if name not in self._made:
            with torch.enable_grad():  # kept, whatever the mode is where it is first asked for
                self._made[name] = self._makers[name]()
        return self._made[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._makers)

    def __len__(self) -> int:
        return len(self._makers)

    def __repr__(self) -> str:
        return f"Values({', '.join(f'{name}: {size}' for name, size in self._shapes.items())})"


class Result:
    """What a run computed.

    Attributes:
        states: by name ``[vertices, ...]``, in the order of the batch's vertices.
        outputs: what was pushed, likewise; zeros for vertices of types that do not push it.
        roots: the same for the vertices without parents alone, sample after sample.
        root_vertices: int64, which these are.
        num_tasks: how many sets of vertices were evaluated one after the other.
    """

    def __init__(self, states: Values, outputs: Values):
        self.states = states
        self.outputs = outputs
        self.roots: Result = self
        self.root_vertices = torch.empty(0, dtype=torch.int64)
        self.num_tasks = 0

    def __repr__(self) -> str:
        return f"Result(states={self.states}, outputs={self.outputs}, num_tasks={self.num_tasks})"


class _Type:
    """A type of vertices: its function, what it reads, and its programs."""

    def __init__(
        self,
        function: VertexFunction,
        inputs: dict[str, tuple[Tensor, bool]],
        name: str,
        chosen: Options,
        has_kinds: tuple[bool, bool],
    ):
        self.function = function
        self.inputs = inputs
        self.label = f'"{name}"' if name else type(function).__name__
        with TRACING:  # while another thread traces it, others are in their place
            self.params: Tensors = dict(function.named_parameters(remove_duplicate=True))
            self.params.update(function.named_buffers())
        tensors = [*self.params.values(), *(x for x, _ in inputs.values())]
        self.device = tensors[0].device if tensors else None
        floating = [t.dtype for t in tensors if t.is_floating_point()]
        found = floating[0] if floating else torch.get_default_dtype()
        self.dtype = function.state_dtype or found
        wanted = [f"param:{n}" for n, p in self.params.items() if p.requires_grad]
        wanted += [f"input:{n}" for n, (x, _) in inputs.items() if x.requires_grad]
        self._wants = frozenset(wanted)
        self._with_gradients = torch.is_grad_enabled()
        self._chosen = chosen
        self._traces: dict[bool, VertexProgram | None] = {}
        self._shared: list[Any] = []  # by the traces of its kinds
        self.is_there = any(has_kinds)
        # The kind without children is looked into first if there is one of it alone.
        for is_leaf in (leaf for leaf, there in zip((True, False), has_kinds) if there):
            self._traces[is_leaf] = self._program(is_leaf)
        self._shared = []
        self.outside: Tensors = {}
        for program in self._traces.values():
            for one in program.source.joint.outside if program is not None else ():
                self.outside[one.name] = one.current(function).detach()  # type: ignore[union-attr]

    @property
    def arity(self) -> tuple[int, int, bool]:
        """How many children are right: fewest, most, and whether none is right too."""
        declared = self.function.arity
        if isinstance(declared, tuple):
            return (*declared, False)
        if declared is not None:
            return (declared, declared, True)
        reads = [p.source.joint.reads for p in self._traces.values() if p is not None]
        if not self.is_there or len(reads) < len(self._traces) or any(r.each for r in reads):
            return ANY
        return (0, max(r.slots for r in reads), False)

    def input_shapes(self) -> dict[str, torch.Size]:
        """Returns the shapes of the inputs as they were given."""
        return {name: x.shape for name, (x, _) in self.inputs.items()}

    def slots(self, batch: GraphBatch) -> int:
        """Returns how many argument positions are gathered one by one."""
        programs = list(self._traces.values())
        if any(p is None for p in programs):
            return int(np.diff(batch.child_offsets).max(initial=0))
        slots = (p.source.joint.reads.slots for p in programs if p is not None)
        return max(slots, default=0)

    def signature(self, is_leaf: bool) -> Signature:
        """Returns what a trace depends on; the inputs of all vertices stand for those of a kind."""
        inputs = {n: x for n, (x, _) in self.inputs.items()}
        return Signature(
            self.params, inputs, self.dtype, is_leaf, self._wants, self._with_gradients,
            self._shared,
        )  # fmt: skip

    def body(
        self, rows: KindRows, inputs: Mapping[str, InputRows], params: Tensors, memory: Memory,
        wants_gradients: bool,
    ) -> Body:  # fmt: skip
        """Returns what runs the vertices of a kind."""
        program = self._traces[rows.is_leaf]
        if program is not None:
            return ProgramBody(program, rows, params, inputs, memory)
        return self.called(rows, inputs, params, memory, wants_gradients)

    def called(
        self, rows: KindRows, inputs: Mapping[str, InputRows], params: Tensors, memory: Memory,
        wants_gradients: bool,
    ) -> CallBody:  # fmt: skip
        """Returns what runs the vertices of a kind by calls of the function."""
        signature = self.signature(rows.is_leaf)
        checks_gradients, signature.with_gradients = self._with_gradients, wants_gradients
        own = {name: params[name] for name in self.params}
        return CallBody(self.function, signature, rows, own, inputs, memory, checks_gradients)

    def pushed(self) -> dict[str, tuple[torch.Size, torch.dtype]]:
        """Returns the outputs of a type that the batch lacks: the shapes of rows, and types.

        Of a function that cannot be called on fakes, those of an earlier run.
        """
        traces, key = self.function._own_traces(), ("pushed", self._key(is_leaf=False))
        if key not in traces:
            try:
                with TRACING:
                    seen = reads(self.function, self.signature(is_leaf=False))
            except (SmexError, UntraceableError):
                return self.function._pushed
            traces[key] = {name: (x.shape[1:], x.dtype) for name, x in seen.outputs.items()}
        return traces[key]

    def _program(self, is_leaf: bool) -> VertexProgram | None:
        """Returns the program of a kind, made once for each signature.

        None where there can be none.
        """
        if not self._chosen.trace:
            return None
        key = self._key(is_leaf)
        traces = self.function._own_traces()
        with TRACING:
            self._add_trace(traces, key, is_leaf)
        return traces.get(key)

    def _fits(self, program: VertexProgram | None) -> bool:
        """Returns whether what the function reads from outside is what it was traced with."""
        outside = [] if program is None else program.source.joint.outside
        return all(found.current(self.function) is not None for found in outside)

    def _add_trace(self, traces: dict[Any, Any], key: Any, is_leaf: bool) -> None:
        if key not in traces or not self._fits(traces[key]):
            try:
                traces[key] = build(
                    assign(trace(self.function, self.signature(is_leaf)), self._chosen)
                )
            except UntraceableError as error:
                if self.function.only_traced:
                    raise
                logger.info(
                    "%s is called for each task, since %s", type(self.function).__name__, error
                )
                warn_of_mixed_rows(self.function, self.signature(is_leaf=False))
                tried = ("tried", key)
                if not isinstance(error, SetAttributeError) or tried in traces:
                    traces[key] = None
                traces[tried] = True  # what a call has kept for the next ones is there then

    def _key(self, is_leaf: bool) -> Any:
        tensors = tuple((n, p.shape, p.dtype, p.device) for n, p in self.params.items()) + tuple(
            (n, x.shape[1:], x.dtype, x.device) for n, (x, _) in self.inputs.items()
        )
        chosen = self._chosen
        kind = "cpu" if self.device is None else self.device.type
        autocast = is_autocast(kind)
        return (
            is_leaf, tensors, self._wants, torch.is_grad_enabled(), training_flags(self.function),
            chosen.hoist, chosen.lazy, chosen.fuse, autocast,
        )  # fmt: skip


class _Execution:
    """One run: forward, and at most one backward."""

    def __init__(
        self, types: list[_Type], planned: Schedule, device: torch.device, beside: bool
    ):  # fmt: skip
        self._types = types
        self._plan = planned
        self._device = device
        self._beside = beside
        self.with_gradients = torch.is_grad_enabled()  # autograd turns it off in forward
        self.tensors: list[Tensor] = []
        self._names: list[tuple[int, str, str]] = []  # (type, "param" or "input", name)
        for number, one in enumerate(types):
            for name, param in (*one.params.items(), *one.outside.items()):
                self._names.append((number, "param", name))
                self.tensors.append(param)
            for name, (value, _) in one.inputs.items():
                self._names.append((number, "input", name))
                self.tensors.append(value)
        self._memory = Memory({})
        self._bodies: list[Body | None] = []
        self._outputs: list[tuple[int, str]] = []  # (kind, name)
        self._versions: list[int] = []
        self._likes: list[tuple[torch.Size, torch.dtype]] = []  # of the outputs

    @property
    def _states(self) -> list[str]:
        return list(self._types[0].function.state_shapes)

    def forward(self, tensors: tuple[Tensor, ...], wants_gradients: bool) -> list[Tensor]:
        """Returns the states by row, then the outputs of each kind that has any."""
        rows = self._plan.num_vertices
        first = self._types[0]
        for name, shape in first.function.state_shapes.items():
            state = torch.empty((rows + 1, *shape), dtype=first.dtype, device=self._device)
            state[rows].zero_()
            self._memory.states[name] = state
        given = dict(zip(self._names, tensors))
        self._bodies = [self._body(kind, given, wants_gradients) for kind in self._plan.kinds]
        for number, body in enumerate(self._bodies):
            if body is not None:
                with self._telling(number, given):
                    body.start()
        self._run_tasks(given, backward=False)
        values = [self._memory.states[name][:rows] for name in self._states]
        for number, body in enumerate(self._bodies):
            if body is None:
                continue
            with self._telling(number, given):
                results = body.finish()
            for name, value in results.items():
                self._outputs.append((number, name))
                values.append(value)
        for name, zeros in self._absent().items():
            self._outputs.append((ABSENT, name))
            values.append(zeros)
        self._likes = [(v.shape, v.dtype) for v in values[len(self._states) :]]
        if not torch.is_inference_mode_enabled():  # whose tensors have no versions
            self._versions = [state._version for state in self._memory.states.values()]
        if not wants_gradients:
            self._bodies = []
        return values

    def _run_tasks(self, given: Any, backward: bool) -> None:
        """Runs all tasks in their order; one by one where a function is called for each."""
        plan = self._plan
        loops: list[TaskLoop | None] = [None] * len(plan.kinds)
        for number, body in enumerate(self._bodies):
            if isinstance(body, ProgramBody):
                loops[number] = body.loop_back() if backward else body.loop()
        tasks = Tasks(plan.task_plan, loops, self._beside)
        stretches = self._stretches()
        for begin, end in reversed(stretches) if backward else stretches:
            body = self._bodies[plan.kind_of_task[begin]]
            if isinstance(body, CallBody):
                _, task = plan.order[begin]
                body.run_task_back(task) if backward else body.run_task(task)
                continue
            try:
                tasks.run(begin, end, backward)
            except Exception:
                if backward:
                    raise
                with self._telling(tasks.running, given):
                    raise

    def _stretches(self) -> list[tuple[int, int]]:
        """Tasks to run at once, first and behind the last: one where a function is called."""
        kinds = self._plan.kind_of_task
        calls = [isinstance(body, CallBody) for body in self._bodies]
        if not any(calls):
            bounds = list(range(0, len(kinds), STRETCH))
        else:
            bounds = [n for n, k in enumerate(kinds) if not n or calls[k] or calls[kinds[n - 1]]]
        return list(zip(bounds, [*bounds[1:], len(kinds)]))

    def _absent(self) -> Tensors:
        """Returns the outputs that only types push which the batch lacks: zeros."""
        known = {name for _, name in self._outputs}
        found: Tensors = {}
        for one in self._types:
            for name, (shape, dtype) in ({} if one.is_there else one.pushed()).items():
                if name not in known and name not in found:
                    zero = torch.zeros((1, *shape), dtype=dtype, device=self._device)
                    found[name] = zero.expand(self._plan.num_vertices, *shape)
        return found

    @contextmanager
    def _telling(self, kind: int, given: Any) -> Iterator[None]:
        """Around what a kind computes: an error of torch's tells where, and of which function."""
        try:
            yield
        except SmexError:
            raise
        except Exception as error:
            if not isinstance(self._bodies[kind], ProgramBody):
                raise
            # Calls of the function meet the same error at the user's line.
            called = self._body(self._plan.kinds[kind], given, False, is_called=True)
            for task in range(len(self._plan.kinds[kind].tasks)):
                called.run_task(task)  # type: ignore[union-attr]
            one = self._types[self._plan.kinds[kind].type]
            ours = explained(error, one.function, one.input_shapes(), "")
            if ours is error:
                raise
            raise ours from error

    def backward(self, grads: tuple[Tensor | None, ...]) -> list[Tensor | None]:
        """Returns the gradients of all tensors."""
        if self._versions != [state._version for state in self._memory.states.values()]:
            raise SmexRuntimeError(
                "smex.vertex.run: states were changed in place after the run, and backward needs "
                "them; change a clone of them"
            )
        self._memory.start_back(dict(zip(self._states, grads)))
        keeps = _keeps_graph()
        by_kind: list[Tensors] = [{} for _ in self._plan.kinds]
        for (kind, name), grad in zip(self._outputs, grads[len(self._states) :]):
            if grad is not None and kind != ABSENT:
                by_kind[kind][name] = grad
        for number, body in enumerate(self._bodies):
            if body is not None:
                body.start_back(self._filled(number, by_kind[number]), keeps)
        self._run_tasks(None, backward=True)
        found: dict[tuple[int, str, str], Tensor] = {}
        for number, body in enumerate(self._bodies):
            if body is not None:
                self._collect(self._plan.kinds[number], *body.finish_back(), found)
        self._memory.grads = {}
        if not keeps:
            self._bodies = []
            self._memory = Memory({})
        return [found.get(name) for name in self._names]

    def result(self, values: tuple[Tensor, ...]) -> Result:
        """Returns what the user gets, of the tensors that autograd knows."""
        plan = self._plan
        states = dict(zip(self._states, values))
        pushed: dict[str, dict[int, Tensor]] = {}
        for (kind, name), value in zip(self._outputs, values[len(states) :]):
            pushed.setdefault(name, {})[kind] = value
        for name, parts in pushed.items():
            self._check_outputs(name, parts)
        joined = {n: partial(self._joined, parts) for n, parts in pushed.items()}
        widths = {n: s.shape[1:] for n, s in states.items()}
        pushed_widths = {n: next(iter(parts.values())).shape[1:] for n, parts in pushed.items()}
        whole = Values(joined, pushed_widths, "output")

        def picked(index: Tensor, inverse: Tensor | None) -> Result:
            rows = len(index)
            return Result(
                Values(
                    {n: partial(_Take.apply, s, index, inverse) for n, s in states.items()},
                    {n: (rows, *width) for n, width in widths.items()},
                    "state",
                ),
                Values(
                    {n: partial(_taken, whole, n, index, inverse) for n in pushed},
                    {n: (rows, *width) for n, width in pushed_widths.items()},
                    "output",
                ),
            )

        result = picked(plan.rows, plan.vertices)
        result.roots = picked(plan.roots, None)
        result.root_vertices = result.roots.root_vertices = plan.root_vertices
        result.num_tasks = result.roots.num_tasks = plan.num_tasks
        return result

    def _body(
        self, rows: KindRows, given: Any, wants_gradients: bool, is_called: bool = False
    ) -> Body | None:
        if rows.size == 0:
            return None
        one = self._types[rows.type]
        params = {n: given[rows.type, "param", n] for n in (*one.params, *one.outside)}
        inputs = {
            n: InputRows(given[rows.type, "input", n], self._rows_of(rows, of_type))
            for n, (_, of_type) in one.inputs.items()
            if one._traces[rows.is_leaf] is None
            or n in one._traces[rows.is_leaf].source.joint.reads.inputs  # type: ignore[union-attr]
        }
        make = one.called if is_called else one.body
        return make(rows, inputs, params, self._memory, wants_gradients)

    def _rows_of(self, rows: KindRows, of_type: bool) -> Tensor:
        """Returns where the inputs of a kind's rows lie."""
        if not of_type:
            return rows.vertices

        def places() -> Tensor:
            same = [k.vertices for k in self._plan.kinds if k.type == rows.type]
            return torch.searchsorted(torch.cat(same).sort().values, rows.vertices)

        return rows.index.kept(f"inputs of type {rows.type}, leaf {rows.is_leaf}", places)

    def _filled(self, kind: int, grads: Tensors) -> Tensors:
        """Returns the gradients of a kind's outputs, zeros where none came."""
        for (number, name), (shape, dtype) in zip(self._outputs, self._likes):
            if number == kind and name not in grads:
                grads[name] = torch.zeros(shape, dtype=dtype, device=self._device)
        return grads

    def _collect(
        self, rows: KindRows, params: Tensors, inputs: Tensors,
        found: dict[tuple[int, str, str], Tensor],
    ) -> None:  # fmt: skip
        for name, grad in params.items():
            key = (rows.type, "param", name)
            found[key] = grad if key not in found else found[key] + grad
        for name, grad in inputs.items():
            key = (rows.type, "input", name)
            value, of_type = self._types[rows.type].inputs[name]
            if key not in found:
                found[key] = torch.zeros_like(value)
            found[key].index_copy_(0, self._rows_of(rows, of_type), grad)

    def _joined(self, parts: dict[int, Tensor]) -> Tensor:
        """Returns an output of all vertices by row."""
        like = next(iter(parts.values()))
        if like.shape[0] == self._plan.num_vertices:
            return like
        return torch.cat(
            [
                parts[i] if i in parts else like.new_zeros((kind.size, *like.shape[1:]))
                for i, kind in enumerate(self._plan.kinds)
                if kind.size
            ]
        )

    def _check_outputs(self, name: str, parts: dict[int, Tensor]) -> None:
        shapes = {(tuple(v.shape[1:]), v.dtype) for v in parts.values()}
        if len(shapes) > 1:
            raise SmexValueError(
                f"smex.vertex.run: expected output {name!r} to have rows of one shape and type, "
                f"found {', '.join(f'{list(s)} of {d}' for s, d in sorted(shapes, key=str))} from "
                "different vertices; push them under different names"
            )


def _first_order(backward: Callable[..., Any]) -> Callable[..., Any]:
    """Makes an error of gradients of gradients.

    ``once_differentiable`` lets those through in silence that no incoming gradient asks for, which
    is the case of a penalty on gradients.
    """

    def checked(ctx: Any, *grads: Tensor | None) -> Any:
        with torch.no_grad():
            found = backward(ctx, *grads)
        if not torch.is_grad_enabled():
            return found
        refuse = torch._C._functions.DelayedError(
            b"smex.vertex.run: results have no second derivatives; compute what needs them with "
            b"torch's own operators, vertex by vertex",
            len(found),
        )
        return refuse(*[x.detach().requires_grad_() if isinstance(x, Tensor) else x for x in found])

    return checked


class _Run(torch.autograd.Function):
    """A run as one operation for autograd."""

    @staticmethod
    def forward(ctx: Any, execution: _Execution, *tensors: Tensor) -> tuple[Tensor, ...]:
        wants_gradients = execution.with_gradients and any(ctx.needs_input_grad)
        values = execution.forward(tensors, wants_gradients)
        if wants_gradients:
            ctx.execution = execution
            ctx.save_for_backward(*tensors)  # which tells of changes in place, and of a second time
            ctx.set_materialize_grads(False)
        whole = [v for v in values if not v.is_floating_point()]
        ctx.mark_non_differentiable(*whole)
        return tuple(values)

    @staticmethod
    @_first_order
    def backward(ctx: Any, *grads: Tensor | None) -> Any:
        ctx.saved_tensors  # noqa: B018
        return (None, *ctx.execution.backward(grads))


def _taken(values: Values, name: str, index: Tensor, inverse: Tensor | None) -> Tensor:
    return _Take.apply(values[name], index, inverse)


def _keeps_graph() -> bool:
    """Returns whether the backward that is running was asked to retain the graph."""
    keeps = getattr(torch._C._autograd, "_get_current_graph_task_keep_graph", None)
    return keeps is not None and bool(keeps())


class _Take(torch.autograd.Function):
    """Rows in another order, or some of them."""

    @staticmethod
    def forward(ctx: Any, value: Tensor, index: Tensor, inverse: Tensor | None) -> Tensor:
        ctx.index, ctx.inverse, ctx.rows = index, inverse, value.shape[0]
        return value.index_select(0, index)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> Any:
        if ctx.inverse is not None:
            return grad.index_select(0, ctx.inverse), None, None
        whole = grad.new_zeros((ctx.rows, *grad.shape[1:]))
        return whole.index_copy_(0, ctx.index, grad), None, None


def _functions(
    function: Any, batch: GraphBatch
) -> tuple[dict[str, VertexFunction], dict[str, int] | None]:
    """Returns the functions by type, and the types' numbers; one function has the name ""."""
    if isinstance(function, VertexFunction):
        if len(batch.type_names) > 1:
            raise SmexValueError(
                f"smex.vertex.run: expected a mapping from the types {', '.join(batch.type_names)} "
                f"to vertex functions, found one function, {type(function).__name__}"
            )
        return {"": function}, None
    if not isinstance(function, (Mapping, nn.ModuleDict)) or not len(function):
        raise SmexTypeError(
            "smex.vertex.run: expected a VertexFunction, or a mapping from types to them, found "
            f"{type(function).__name__}"
        )
    functions = dict(function.items())
    for name, one in functions.items():
        if not isinstance(one, VertexFunction):
            raise SmexTypeError(
                f"smex.vertex.run: expected a VertexFunction for type {name!r}, found "
                f"{type(one).__name__}; derive it from smex.vertex.VertexFunction"
            )
    missing = [name for name in batch.type_names if name not in functions]
    if missing:
        raise SmexValueError(
            f"smex.vertex.run: there is no vertex function for type {missing[0]!r}; there are "
            f"functions for {', '.join(map(repr, functions))}"
        )
    if not batch.type_names and batch.num_vertices and len(functions) > 1:
        raise SmexValueError(
            "smex.vertex.run: the graphs have no types, and there are functions for "
            f"{', '.join(map(repr, functions))}; give the types when you make the graphs"
        )
    first_name, first = next(iter(functions.items()))
    for name, one in functions.items():
        if one.state_shapes != first.state_shapes:
            raise SmexValueError(
                f"smex.vertex.run: expected the same states for all types, found "
                f"{_texts(first.state_shapes)} for {first_name!r} and {_texts(one.state_shapes)} "
                f"for {name!r}; a parent may gather vertices of any type"
            )
    return functions, {name: number for number, name in enumerate(functions)}


def _texts(shapes: Mapping[str, Any]) -> str:
    return ", ".join(f"{name}{list(shape)}" for name, shape in shapes.items())


def _has_kinds(batch: GraphBatch, number: int, numbers: dict[str, int] | None) -> tuple[bool, bool]:
    """Returns whether a type has vertices without children, and with."""
    has_children = np.diff(batch.child_offsets) > 0
    if numbers is not None and len(batch.types):
        of_name = np.array([numbers[name] for name in batch.type_names], np.int64)
        has_children = has_children[of_name[batch.types] == number]
    return bool((~has_children).any()), bool(has_children.any())


def _inputs(
    inputs: Any, batch: GraphBatch, functions: dict[str, VertexFunction],
    numbers: dict[str, int] | None,
) -> dict[str, dict[str, tuple[Tensor, bool]]]:  # fmt: skip
    """For each type its inputs, and whether they have rows for its vertices alone."""
    if inputs is None:
        inputs = {}
    if isinstance(inputs, Tensor):
        inputs = {"x": inputs}
    if not isinstance(inputs, Mapping):
        raise SmexTypeError(
            "smex.vertex.run: expected a tensor or a mapping from names to tensors as inputs, "
            f"found {type(inputs).__name__}"
        )
    by_type = numbers is not None and inputs and set(inputs) <= set(functions)
    found: dict[str, dict[str, tuple[Tensor, bool]]] = {name: {} for name in functions}
    if not by_type:
        _check_names(inputs, batch, functions)
        for name, value in inputs.items():
            _check_input(name, value, batch.num_vertices, "the batch")
            for of in found.values():
                of[name] = (value, False)
        return found
    counts = np.bincount(batch.types, minlength=len(batch.type_names))
    for type_name, values in inputs.items():
        own = {"x": values} if isinstance(values, Tensor) else values
        if not isinstance(own, Mapping):
            raise SmexTypeError(
                "smex.vertex.run: expected a tensor or a mapping from names to tensors as inputs "
                f"of type {type_name!r}, found {type(values).__name__}"
            )
        there = type_name in batch.type_names
        rows = int(counts[batch.type_names.index(type_name)]) if there else 0
        for name, value in own.items():
            _check_input(name, value, rows, f"type {type_name!r}")
            found[type_name][name] = (value, True)
    return found


def _check_names(inputs: Mapping[str, Any], batch: GraphBatch, functions: Iterable[str]) -> None:
    """Raise where some inputs are clearly those of a type, and others of none."""
    types = sorted(functions)
    others = sorted(set(inputs) - set(types))
    for name in set(inputs) & set(types):
        value = inputs[name]
        rows = value.shape[0] if isinstance(value, Tensor) and value.ndim else None
        if others and rows != batch.num_vertices:
            raise SmexValueError(
                f"smex.vertex.run: expected inputs by type, of {', '.join(types)}, found those of "
                f"{', '.join(map(repr, others))} too; give all by the names of types, or none"
            )


def _check_input(name: str, value: Any, rows: int, of: str) -> None:
    if not isinstance(value, Tensor):
        raise SmexTypeError(
            f"smex.vertex.run: expected a tensor as input {name!r}, found {type(value).__name__}"
        )
    if value.ndim == 0 or value.shape[0] != rows:
        raise SmexValueError(
            f"smex.vertex.run: expected a row for each of the {rows} vertices of {of} in input "
            f"{name!r}, found shape {list(value.shape)}"
        )
