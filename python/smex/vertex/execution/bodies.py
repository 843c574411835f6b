"""Runs a kind of vertices: by its program, or by calling the vertex function for each task."""

from __future__ import annotations

from collections.abc import Container, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, fx

from smex._C import TaskLoop
from smex._calling import call_with
from smex.capture.origin import error_line
from smex.errors import (
    SmexError,
    SmexIndexError,
    SmexRuntimeError,
    SmexTypeError,
    SmexValueError,
)
from smex.vertex.compile.outside import check_gradients
from smex.vertex.compile.phases import BACKWARD
from smex.vertex.compile.program import VertexProgram
from smex.vertex.compile.rows import CONST, ROW, SUM, Kind
from smex.vertex.compile.trace import TRACING, Operand, Rows, Signature
from smex.vertex.execution.schedule import KindRows, RowPart, TaskRows
from smex.vertex.words.function import EDGES, VertexFunction

Tensors = dict[str, Tensor]

Column = tuple[str, Any, int, int, int]
"""What `TaskLoop` gives a phase of each task: role, value, dimension, elements for a row, slot."""


class Memory:
    """The states of all vertices, and their gradients: a row for each, and one for no child.

    Attributes:
        states: by name ``[vertices + 1, ...]``.
        grads: by name ``[vertices + 1, ...]``, while gradients are computed.
    """

    def __init__(self, states: Tensors):
        self.states = states
        self.grads: Tensors = {}
        self._given: Mapping[str, Tensor | None] = {}

    def clear_rows(self, rows: KindRows) -> None:
        """Zeros as the states of a kind."""
        for state in self.states.values():
            state[rows.begin : rows.end].zero_()

    def start_back(self, given: Mapping[str, Tensor | None]) -> None:
        """Memory for the gradients, which kinds of vertices start row by row.

        Args:
            given: by name the gradients of the result ``[vertices, ...]``, None for zeros.
        """
        self._given = given
        self.grads = {name: torch.empty_like(state) for name, state in self.states.items()}
        for grad in self.grads.values():
            grad[-1:].zero_()

    def start_rows(self, rows: KindRows, seeded: Container[str] = ()) -> None:
        """Sets the gradients of a kind's rows before the tasks; `seeded` are written later."""
        for name, grad in self.grads.items():
            given = self._given[name]
            if given is not None:
                grad[rows.begin : rows.end] = given[rows.begin : rows.end]
            elif name not in seeded:
                grad[rows.begin : rows.end].zero_()

    def is_given(self, name: str) -> bool:
        """Returns whether the result's states have gradients of their own."""
        return self._given[name] is not None

    def gather(self, name: str, task: TaskRows, slot: int) -> Tensor:
        """Returns the states of a task's children at an argument position."""
        values = self.states[name]
        if slot >= len(task.slots):
            return values.new_zeros((task.size, *values.shape[1:]))
        place = task.slots[slot]
        if isinstance(place, int):
            return values.narrow(0, place, task.size)
        return values.index_select(0, place)

    def add(self, name: str, task: TaskRows, slot: int, grad: Tensor) -> None:
        """Adds to the gradients of a task's children at an argument position."""
        if slot >= len(task.slots):
            return
        place = task.slots[slot]
        if isinstance(place, int):
            self.grads[name].narrow(0, place, task.size).add_(grad)
        else:
            self._add_rows(name, place, grad, task.slot_orders[slot])

    def add_each(self, name: str, task: TaskRows, grad: Tensor) -> None:
        """Adds to the gradients of all children of a task, edge by edge."""
        self._add_rows(name, task.edges, grad, task.edge_order)

    def _add_rows(self, name: str, index: Tensor, grad: Tensor, order: Tensor | None) -> None:
        to = self.grads[name]
        # Nothing reads the gradient of the row that stands for no child.
        torch.ops.smex.add_rows(to, index, grad, absent=to.shape[0] - 1, order=order)


@dataclass(frozen=True)
class InputRows:
    """An input of a kind's rows, which lie anywhere in the tensor that was given.

    They are gathered where they are read: so much memory less is kept until backward.
    """

    values: Tensor
    place: Tensor

    def part(self, begin: int, end: int) -> Tensor:
        """Some of the rows."""
        return self.values.index_select(0, self.place[begin:end])


class ProgramBody:
    """Runs the phases of a program over the tasks of a kind.

    Args:
        program: of the kind's vertex function.
        rows: the kind's place in the schedule.
        params: parameters and buffers by name.
        inputs: by name, of the kind's vertices.
        memory: the states of all vertices.
    """

    def __init__(
        self, program: VertexProgram, rows: KindRows, params: Tensors,
        inputs: Mapping[str, InputRows],
        memory: Memory,
    ):  # fmt: skip
        self.program = program
        self._rows = rows
        self._params = params
        self._inputs = inputs
        self._memory = memory
        self._joint = program.source.joint
        self._env: dict[fx.Node, Any] = {}
        self._partial: dict[fx.Node, Tensor] = {}
        self._output_grads: Tensors = {}
        self._kept: dict[fx.Node, Any] = {}
        self._keeps = False
        self._loop: TaskLoop | None = None
        self._state_names: dict[fx.Node, list[str]] = {}
        for operand, node in self._joint.values.items():
            if operand.role == "state":
                self._state_names.setdefault(node, []).append(operand.name)

    # ---- forward ----

    def start(self) -> None:
        """Computes what comes before the tasks."""
        if not self._state_names:
            self._memory.clear_rows(self._rows)
        self._run_whole("once")
        self._run_whole("before")
        for node in self.program.phases["before"].writes if "before" in self.program.phases else []:
            self._copy_twins(node, slice(self._rows.begin, self._rows.end))

    def loop(self) -> TaskLoop | None:
        """Returns what runs the forward of the tasks; None where nothing does."""
        phase = self.program.phases.get("step")
        if phase is None or not len(self._rows.numbers):
            return None
        states = self._memory.states
        twins = [
            (states[names[0]], states[other])
            for names in (self._state_names.get(node, []) for node in phase.writes)
            for other in names[1:]
        ]
        self._loop = TaskLoop(phase.calls, self._columns("step"), [], twins)
        return self._loop

    def finish(self) -> Tensors:
        """Returns what is computed after the tasks; the outputs, by name."""
        self._release("step")
        self._run_whole("after")
        found: Tensors = {}
        used: set[int] = set()
        for operand, node in self._joint.values.items():
            if operand.role == "output":
                value = self._whole(node)
                # Each output is memory of its own, which its user may change.
                is_shared = node in self._state_names or node in used_nodes(self.program, node)
                found[operand.name] = value.clone() if is_shared or id(node) in used else value
                used.add(id(node))
        return found

    def _copy_twins(self, node: fx.Node, rows: slice) -> None:
        """Writes the states; the same value may be several."""
        first, *others = self._state_names.get(node, [""])
        for name in others:
            self._memory.states[name][rows] = self._memory.states[first][rows]

    # ---- backward ----

    def start_back(self, output_grads: Tensors, keeps: bool) -> None:
        """Computes what comes before the tasks go backwards; `keeps`: they may do so again."""
        self._output_grads = output_grads
        self._kept = dict(self._env) if keeps else {}
        self._keeps = keeps
        self._partial = {}
        self._memory.start_rows(self._rows, self.program.source.seeds)
        self._run_whole("once_back")
        self._run_whole("before_back")
        for name, node in self.program.source.seeds.items():
            seed = self._env.pop(node)
            if self._memory.is_given(name):
                self._memory.grads[name][self._rows.begin : self._rows.end] += seed

    def loop_back(self) -> TaskLoop | None:
        """Returns what runs the backward of the tasks: it adds to the gradients of children."""
        phase = self.program.phases.get("step_back")
        if phase is None or not len(self._rows.numbers):
            return None
        grads = self._memory.grads
        sinks = [
            [
                ("slot" if of.role == "gather" else "each", grads[of.name], of.slot)
                for of in self._gathered[node]
            ]
            if node in self._gathered
            else [("sum", None, 0)]
            for node in phase.returns
        ]
        self._loop = TaskLoop(phase.calls, self._columns("step_back"), sinks)
        return self._loop

    def finish_back(self) -> tuple[Tensors, Tensors]:
        """Returns the gradients of the parameters and of the inputs."""
        if self._loop is not None:
            for node, total in zip(self.program.phases["step_back"].returns, self._loop.sums):
                if total is not None:
                    self._partial[node] = total
        self._release("step_back")
        self._run_parts("after_back")
        params: Tensors = {}
        inputs: Tensors = {}
        for operand, node in self._joint.gradients.items():
            if operand.role == "param":
                params[operand.name] = self._whole(node)
            elif operand.role == "input":
                inputs[operand.name] = self._whole(node)
        self._env = self._kept
        return params, inputs

    @property
    def _gathered(self) -> dict[fx.Node, list[Operand]]:
        if not hasattr(self, "_gathered_nodes"):
            self._gathered_nodes: dict[fx.Node, list[Operand]] = {}
            for operand, node in self._joint.gradients.items():
                if operand.is_gathered:
                    self._gathered_nodes.setdefault(node, []).append(operand)
        return self._gathered_nodes

    # ---- values ----

    def _run_whole(self, name: str) -> None:
        """Runs a phase once for all rows."""
        phase = self.program.phases.get(name)
        if phase is None:
            return
        buffers = [self._rows_buffer(node) for node in phase.writes]
        values = phase.calls.run(*[self._whole(n) for n in phase.reads], *buffers)
        self._env.update(zip(phase.returns, values))
        self._env.update(zip(phase.writes, buffers))
        self._release(name)

    def _run_parts(self, name: str) -> None:
        """Runs a phase part by part of the rows; its results add up or have a row for each.

        What it computes on the way takes the memory of a part alone.
        """
        phase = self.program.phases.get(name)
        parts = self._rows.parts
        kinds = [self._kind(n) for n in phase.returns] if phase is not None else []
        divides = all(not isinstance(k, list) and k in (CONST, SUM, ROW) for k in kinds)
        if phase is None or len(parts) == 1 or not divides or phase.writes:
            self._run_whole(name)
            return
        for part in parts:
            values = phase.calls.run(*[self._of_part(n, part) for n in phase.reads])
            for node, kind, value in zip(phase.returns, kinds, values):
                self._put(node, kind, part, value)
        for node in phase.returns:
            self._env[node] = self._env[node].to(node.meta["val"].dtype)
        self._release(name)

    def _put(self, node: fx.Node, kind: Kind, part: RowPart, value: Tensor) -> None:
        """Adds a value of a part to those of the parts before, or puts it below them."""
        begin, end = part.rows
        if kind == ROW:
            if begin == 0:
                self._env[node] = value.new_empty((self._rows.size, *value.shape[1:]))
            self._env[node][begin:end] = value
        elif begin == 0:
            is_narrow = value.dtype in (torch.float16, torch.bfloat16)
            self._env[node] = value.float() if is_narrow else value
        elif kind == SUM:
            self._env[node] += value

    def _columns(self, name: str) -> list[Column]:
        """Returns what the calls of a phase are given of each task, and sets up its buffers."""
        phase = self.program.phases[name]
        columns = [self._read(n) for n in phase.reads]
        column_of = dict(zip(phase.reads, columns))
        for node in phase.writes:
            old = phase.takes.get(node)
            taken = None if old is None else self._taken(name, old)
            if old is not None and taken is not None:
                self._env[node] = taken
                columns.append(column_of[old])
                continue
            self._env[node] = self._buffer(node)
            columns.append(self._cut(node, self._env[node]))
        for node in phase.passing:
            kind, rows = self._kind(node), self._rows
            most = rows.most_edges if kind.of == EDGES else rows.most_rows
            memory = self._allocated(node, kind.per * most)
            role = "scratch_of_edges" if kind.of == EDGES else "scratch"
            columns.append((role, memory, kind.dim, kind.per, 0))
        return columns

    def _read(self, node: fx.Node) -> Column:
        """Returns what stands for a value: of what is gathered the states it comes from."""
        operand = self._joint.inputs.get(node)
        if operand is not None and operand.is_gathered:
            return (operand.role, self._memory.states[operand.name], 0, 1, operand.slot)
        if operand is not None and operand.role == "parents":
            return ("parents", None, 0, 1, 0)
        value = self._whole(node)
        if self._kind(node).name != "row":
            return ("whole", value, 0, 1, 0)
        return self._cut(node, value)

    def _cut(self, node: fx.Node, value: Tensor) -> Column:
        """Returns what stands for a task's part of a value of the whole kind."""
        kind = self._kind(node)
        return ("edges" if kind.of == EDGES else "rows", value, kind.dim, kind.per, 0)

    def _whole(self, node: fx.Node) -> Any:
        """Returns a value for all rows of the kind."""
        return self._of_part(node, self._rows.whole)

    def _of_part(self, node: fx.Node, part: RowPart) -> Any:
        """Returns a value for some of the rows."""
        if node in self._partial:
            return self._partial[node]  # a sum over the tasks
        if node in self._env:
            value, kind = self._env[node], self._kind(node)
            if part is self._rows.whole or isinstance(kind, list) or kind.name != "row":
                return value
            begin, end = part.edges if kind.of == EDGES else part.rows
            return value.narrow(kind.dim, kind.per * begin, kind.per * (end - begin))
        operand = self._joint.inputs.get(node)
        begin, end = part.rows
        if operand is None:
            tangent = self._joint.tangents[node]
            if tangent.role == "state":
                first = self._rows.begin
                return self._memory.grads[tangent.name][first + begin : first + end]
            return self._output_grads[tangent.name][begin:end]
        if operand.role == "param":
            return self._params[operand.name]
        if operand.role == "input":
            return self._inputs[operand.name].part(begin, end)
        if operand.role == "counts":
            return self._rows.counts[begin:end]
        if operand.role == "gather":
            index = self._rows.slot(operand.slot)[begin:end]
            return self._memory.states[operand.name].index_select(0, index)
        edges = slice(*part.edges)
        if operand.role == "beside" and self._rows.degree != operand.slot:
            states = self._memory.states[operand.name]
            slots = [self._rows.slot(i)[begin:end] for i in range(operand.slot)]
            return torch.cat([states.index_select(0, index) for index in slots], 1)
        if operand.role == "parents":
            return self._rows.parents[edges] - begin if begin else self._rows.parents[edges]
        found = self._memory.states[operand.name].index_select(0, self._rows.edges[edges])
        return found.view(end - begin, -1) if operand.role == "beside" else found

    def _kind(self, node: fx.Node) -> Any:
        return self.program.source.kind[node]

    def _buffer(self, node: fx.Node) -> Tensor:
        """Memory for the rows of a value."""
        if node in self._state_names:
            return self._state_buffer(node)
        kind, rows = self._kind(node), self._rows
        return self._allocated(
            node, kind.per * (len(rows.edges) if kind.of == EDGES else rows.size)
        )

    def _taken(self, name: str, old: fx.Node) -> Tensor | None:
        """Returns the memory of a value for another, if nobody needs it again and it is plain."""
        if old in self._joint.tangents:
            return self._whole(old)
        value = self._env.get(old)
        is_needed = self._keeps and name in BACKWARD
        is_plain = isinstance(value, Tensor) and value.is_contiguous()
        return value if is_plain and not is_needed else None

    def _allocated(self, node: fx.Node, rows: int) -> Tensor:
        value = node.meta["val"]
        shape = list(value.shape)
        shape[self._kind(node).dim] = rows
        return torch.empty(shape, dtype=value.dtype, device=self._rows.vertices.device)

    def _state_buffer(self, node: fx.Node) -> Tensor:
        name = self._state_names[node][0]
        return self._memory.states[name][self._rows.begin : self._rows.end]

    def _rows_buffer(self, node: fx.Node) -> Tensor:
        """Memory for a value of all rows: among the states or their gradients, where it can be."""
        for name, seed in self.program.source.seeds.items():
            if seed is node:
                if self._memory.is_given(name):
                    return self._allocated(node, self._rows.size)
                return self._memory.grads[name][self._rows.begin : self._rows.end]
        return self._state_buffer(node)

    def _release(self, name: str) -> None:
        """Forgets the values that the phase was the last to read."""
        self._loop = None
        phase = self.program.phases.get(name)
        if phase is None:
            return
        ends = {*self._joint.values.values(), *self._joint.gradients.values()}
        for node in phase.reads:
            if self.program.last_use[node] == name and node not in ends:
                self._env.pop(node, None)


def used_nodes(program: VertexProgram, node: fx.Node) -> set[fx.Node]:
    """Returns the node itself if it is read in a later phase than the one that makes it."""
    return {node} if node in program.last_use else set()


_OURS: dict[type, type[Exception]] = {
    IndexError: SmexIndexError,
    RuntimeError: SmexRuntimeError,
    TypeError: SmexTypeError,
    ValueError: SmexValueError,
}
"""What stands for an error that torch raises in a vertex function; others stay what they are."""


def explained(
    error: Exception, function: VertexFunction, inputs: Mapping[str, torch.Size], rows: str
) -> Exception:
    """An error of ``forward`` with the function, the line and the inputs' shapes in its text.

    Args:
        error: as it was raised.
        function: whose ``forward`` raised it.
        inputs: the shapes of the inputs as the user gave them.
        rows: which rows were computed, `` for 3 vertices``.
    """
    line = error_line(error, "run_task")
    shapes = ", ".join(f"{name!r} {list(shape)}" for name, shape in inputs.items()) or "none"
    states = ", ".join(f"{n!r} {list(s)}" for n, s in function.state_shapes.items())
    where = f" at {line}" if line else ""
    text = (
        f"{type(function).__name__}: forward failed{where}{rows}: {error}; inputs given to "
        f"smex.vertex.run: {shapes}; states of a vertex: {states}"
    )
    ours = _OURS.get(type(error))
    if ours is not None:
        return ours(text)
    if hasattr(error, "add_note"):  # Python 3.11
        error.add_note(text)
    return error


class CallBody:
    """Calls the vertex function for each task, with autograd of its own: right for any code."""

    def __init__(
        self,
        function: VertexFunction,
        signature: Signature,
        rows: KindRows,
        params: Tensors,
        inputs: Mapping[str, InputRows],
        memory: Memory,
        checks_gradients: bool,
    ):
        self._function = function
        self._checks_gradients = checks_gradients
        self._signature = signature
        self._rows = rows
        self._params = params
        self._inputs = inputs
        self._memory = memory
        self._calls: dict[int, tuple[dict[Operand, Tensor], dict[Operand, Tensor]]] = {}
        self._outputs: list[Tensors] = [{} for _ in rows.tasks]
        self._output_grads: Tensors = {}
        self._param_grads: Tensors = {}
        self._input_grads: Tensors = {}
        self._keeps = False

    def start(self) -> None:
        """Nothing is computed before the tasks; states that `forward` does not set are zeros."""
        self._memory.clear_rows(self._rows)

    def run_task(self, index: int) -> None:
        """Runs the forward of one task."""
        task = self._rows.tasks[index]
        signature = self._signature
        leaves: dict[Operand, Tensor] = {}

        def leaf(operand: Operand, value: Tensor) -> Tensor:
            if operand in leaves:
                return leaves[operand]
            # Not detach(): other tasks write other rows of the same memory; that is no change.
            value = value.data
            is_wanted = operand.is_gathered
            is_wanted = is_wanted or f"{operand.role}:{operand.name}" in signature.wants
            if signature.with_gradients and is_wanted and value.is_floating_point():
                value = value.requires_grad_()
            leaves[operand] = value
            return value

        def child(slot: int) -> Tensors | None:
            if slot >= len(task.slots):
                return None
            return {
                n: leaf(Operand("gather", n, slot), self._memory.gather(n, task, slot))
                for n in self._memory.states
            }

        def each() -> Tensors:
            return {
                n: leaf(Operand("each", n), s.index_select(0, task.edges))
                for n, s in self._memory.states.items()
            }

        params = {n: leaf(Operand("param", n), p) for n, p in self._params.items()}
        inputs = {
            n: leaf(Operand("input", n), x.part(task.begin, task.end))
            for n, x in self._inputs.items()
        }
        counts = self._rows.counts[task.begin : task.end]
        rows = Rows(self._function, inputs, counts, task.parents, child, each, signature.dtype)
        checks = self._checks_gradients and index == 0
        with TRACING, torch.set_grad_enabled(signature.with_gradients or checks):
            try:
                reads = rows.call(lambda: call_with(self._function, params))
            except SmexError:
                raise
            except Exception as error:
                shapes = {n: x.values.shape for n, x in self._inputs.items()}
                many = f" for {task.size} vert{'ex' if task.size == 1 else 'ices'}"
                ours = explained(error, self._function, shapes, many)
                if ours is error:
                    raise
                raise ours from error
        if checks:
            values_of = [*reads.states.values(), *reads.outputs.values()]
            check_gradients(self._name, values_of, leaves.values(), {})
        most = task.most_children
        if not reads.each and most > reads.slots:
            row = int(counts.argmax())
            raise SmexValueError(
                f"{type(self._function).__name__}: {self._rows.place(task.begin + row)} has "
                f"{most} children, but forward gathers {reads.slots}; gather all of them, or "
                "change the graph"
            )
        values: dict[Operand, Tensor] = {}
        for name, value in reads.states.items():
            values[Operand("state", name)] = value
            end = task.first_row + task.size
            self._memory.states[name][task.first_row : end] = value.detach()
        for name, value in reads.outputs.items():
            values[Operand("output", name)] = value
            self._outputs[index][name] = value.detach()
        if signature.with_gradients:
            self._calls[index] = leaves, values

    def finish(self) -> Tensors:
        """Returns the outputs, by name."""
        first = self._outputs[0] if self._outputs else {}
        for other in self._outputs:
            if set(other) != set(first):
                raise SmexRuntimeError(
                    f"{self._name}: push: expected the same outputs for all vertices, found "
                    f"{_names(first)} for some and {_names(other)} for others; push zeros where "
                    "there is nothing"
                )
        found = {n: torch.cat([one[n] for one in self._outputs]) for n in first}
        self._function._pushed.update({n: (x.shape[1:], x.dtype) for n, x in found.items()})
        return found

    @property
    def _name(self) -> str:
        return type(self._function).__name__

    def start_back(self, output_grads: Tensors, keeps: bool) -> None:
        """Nothing is computed before the tasks go backwards; `keeps`: they may do so again."""
        self._memory.start_rows(self._rows)
        self._output_grads = output_grads
        self._keeps = keeps
        self._param_grads, self._input_grads = {}, {}

    def run_task_back(self, index: int) -> None:
        """Runs the backward of one task: adds to the gradients of its children."""
        task = self._rows.tasks[index]
        leaves, values = self._calls[index] if self._keeps else self._calls.pop(index)
        pairs = []
        for operand, value in values.items():
            if not value.requires_grad:
                continue
            if operand.role == "state":
                end = task.first_row + task.size
                grad = self._memory.grads[operand.name][task.first_row : end]
            else:
                grad = self._output_grads[operand.name][task.begin : task.end]
            pairs.append((value, grad))
        wanted = {op: x for op, x in leaves.items() if x.requires_grad}
        if not pairs or not wanted:
            return
        grads = torch.autograd.grad(
            [p[0] for p in pairs], list(wanted.values()), [p[1] for p in pairs],
            retain_graph=self._keeps, allow_unused=True,
        )  # fmt: skip
        for operand, grad in zip(wanted, grads):
            if grad is not None:
                self._add(operand, task, grad)

    def finish_back(self) -> tuple[Tensors, Tensors]:
        """Returns the gradients of the parameters and of the inputs."""
        return self._param_grads, self._input_grads

    def _add(self, operand: Operand, task: TaskRows, grad: Tensor) -> None:
        name = operand.name
        if operand.role == "gather":
            self._memory.add(name, task, operand.slot, grad)
        elif operand.role == "each":
            self._memory.add_each(name, task, grad)
        elif operand.role == "param":
            held = self._param_grads.get(name)
            self._param_grads[name] = grad.clone() if held is None else held.add_(grad)
        else:
            if name not in self._input_grads:
                whole = (self._rows.size, *grad.shape[1:])
                self._input_grads[name] = grad.new_zeros(whole)
            self._input_grads[name][task.begin : task.end] = grad


def _names(values: Tensors) -> str:
    return ", ".join(map(repr, values)) or "none"


Body = ProgramBody | CallBody
