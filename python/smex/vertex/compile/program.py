"""The phases of a vertex function as programs, and the buffers between them."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import fx

from smex._C import Calls
from smex.vertex.compile.calls import native_calls
from smex.vertex.compile.phases import BACKWARD, FORWARD, Phases
from smex.vertex.compile.pointwise import Group, grouped
from smex.vertex.compile.rows import EDGE, ROW
from smex.vertex.compile.simplify import is_like, is_view, readers

aten = torch.ops.aten
ALL = (*FORWARD, *BACKWARD)
STEPS = ("step", "step_back")


@dataclass
class Phase:
    """The calls of one phase, which csrc/runtime makes.

    Attributes:
        calls: their `run` takes the values of `reads`, a buffer for each of `writes` and memory for
            each of `passing`; it returns the values of `returns`.
        reads: the nodes whose values it needs.
        writes: the nodes whose rows it writes into buffers.
        passing: the nodes whose values are not needed after the task.
        returns: the nodes whose values it returns.
        takes: for some of `writes` the value of an earlier phase, or the gradient of the rows'
            states, whose memory it may have: this call is the last that reads it, and each number
            before it writes it.
    """

    calls: Calls
    reads: list[fx.Node]
    writes: list[fx.Node]
    passing: list[fx.Node]
    returns: list[fx.Node]
    takes: dict[fx.Node, fx.Node] = field(default_factory=dict)


@dataclass
class VertexProgram:
    """All phases, and what becomes of their values.

    Attributes:
        source: the graph and the phase of each call.
        phases: by name, without those that have nothing to do.
        last_use: for each node the phase that reads it last.
    """

    source: Phases
    phases: dict[str, Phase] = field(default_factory=dict)
    last_use: dict[fx.Node, str] = field(default_factory=dict)


def build(source: Phases) -> VertexProgram:
    """Returns the programs of all phases."""
    ends = _ends(source)
    reads = {name: _reads(source, name, ends[name]) for name in ALL}
    program = VertexProgram(source)
    places: dict[str, dict[fx.Node, int]] = {}
    for name in ALL:
        elsewhere = {n for other in ALL if other != name for n in reads[other]}
        results = [n for n in source.nodes(name) if n in elsewhere]
        results += [n for n in ends[name] if n not in results]
        if source.nodes(name) or results:
            calls = _calls(source, name, results)
            place = {n: i for i, c in enumerate(calls) for n in _nodes_of(c)}
            program.phases[name] = _phase(source, name, reads[name], results, calls)
            places[name] = place
        for node in reads[name]:
            program.last_use[node] = name
    for name in STEPS:
        if name in program.phases:
            program.phases[name].takes = _takes(program, name, places[name])
    return program


def _calls(source: Phases, name: str, results: Sequence[fx.Node]) -> list[fx.Node | Group]:
    """Returns the calls of a phase in the order in which they are made."""
    nodes = source.nodes(name)
    if not source.fuse:
        return list(nodes)
    return grouped(nodes, source.kind, results)


def _nodes_of(call: fx.Node | Group) -> list[fx.Node]:
    return call.nodes if isinstance(call, Group) else [call]


def _takes(program: VertexProgram, name: str, place: dict[fx.Node, int]) -> dict[fx.Node, fx.Node]:
    """For the writes of a phase the values whose memory they may have, see :class:`Phase`.

    ``place`` is the order in which calls are made; those made together have one, and those whose
    results are constants of others, which read the shape of a value alone, have none.
    """
    source = program.source
    ends = {*source.joint.values.values(), *source.joint.gradients.values()}
    kept = ends | set(source.seeds.values())
    found: dict[fx.Node, fx.Node] = {}
    for node in program.phases[name].writes:
        if node in ends:  # a state has memory of its own
            continue
        call: Any = node.args[0] if node.target is operator.getitem else node
        for old in _overwritten(node, call):
            tangent = source.joint.tangents.get(old)
            is_grad = tangent is not None and tangent.role == "state"
            is_free = (
                (is_grad or source.phase.get(old, name) != name)
                and program.last_use.get(old) == name
                and old not in kept
                and old not in found.values()
                and (is_grad or not _may_share_memory(old))
                and source.kind[old] == source.kind[node]
                and is_like(old, node)
                and call.all_input_nodes.count(old) == 1
            )
            here = [r for r in readers(old) if r in place and r is not call]
            is_last = all(
                place[r] < place[call] or (place[r] == place[call] and old in r.all_input_nodes)
                for r in here
            )
            if is_free and is_last:
                found[node] = old
                break
    return found


def _overwritten(node: fx.Node, call: fx.Node) -> list[fx.Node]:
    """The arguments of which a call reads each number before it writes that of its result."""
    target = call.target
    if target is torch.ops.smex.tree_lstm_backward.default:
        args = call.args[2:3] if node.args[1] == 0 else ()
    elif target is aten.addmm.default:
        args = call.args[:1]
    elif isinstance(target, torch._ops.OpOverload) and torch.Tag.pointwise in target.tags:
        args = call.args
    else:
        args = ()
    return [arg for arg in args if isinstance(arg, fx.Node)]


def _may_share_memory(node: fx.Node) -> bool:
    """Returns whether a value may lie in the memory of another."""
    target = node.target
    if not isinstance(target, torch._ops.OpOverload):
        return not (target is operator.getitem and not is_view(node))
    is_alias = any(r.alias_info is not None for r in target._schema.returns)
    return is_alias or target is aten._unsafe_view.default


def _home(source: Phases, node: fx.Node) -> str:
    """Returns the phase in which a value is there for the first time."""
    if node in source.phase:
        return source.phase[node]
    if node.op == "placeholder":
        operand = source.joint.inputs.get(node)
        if operand is None:
            is_state = source.joint.tangents[node].role == "state"
            return "step_back" if is_state else "before_back"
        return "step" if operand.is_gathered else "before"
    inner = [ALL.index(_home(source, n)) for n in node.all_input_nodes]
    return ALL[max(inner, default=ALL.index("before"))]


def _ends(source: Phases) -> dict[str, list[fx.Node]]:
    """Returns the results of the whole, by the phase that delivers them."""
    found: dict[str, dict[fx.Node, None]] = {name: {} for name in ALL}
    joint = source.joint
    for operand, node in joint.values.items():
        where = _home(source, node)
        if operand.role == "state":
            where = "before" if source.phase.get(node) == "before" else "step"
        found[where][node] = None
    for operand, node in joint.gradients.items():
        where = _home(source, node)
        if operand.is_gathered:
            where = "step_back"
        elif where in FORWARD:
            where = "before_back"
        found[where][node] = None
    for node in source.seeds.values():
        found["before_back"][node] = None
    return {name: list(nodes) for name, nodes in found.items()}


def _reads(source: Phases, name: str, ends: Sequence[fx.Node]) -> list[fx.Node]:
    """Returns the nodes of other phases, and placeholders, that a phase reads through views."""
    found: dict[fx.Node, None] = {}
    seen: set[fx.Node] = set()

    def visit(node: fx.Node) -> None:
        if node in seen:
            return
        seen.add(node)
        if node.op == "placeholder" or source.phase.get(node, name) != name:
            found[node] = None
        elif is_view(node):
            for n in node.all_input_nodes:
                visit(n)

    for node in source.nodes(name):
        for n in node.all_input_nodes:
            visit(n)
    for node in ends:
        visit(node)
    return list(found)


def _phase(
    source: Phases, name: str, reads: list[fx.Node], results: list[fx.Node],
    calls: list[fx.Node | Group],
) -> Phase:  # fmt: skip
    graph = fx.Graph()
    place: dict[fx.Node, fx.Node] = {}
    for i, node in enumerate(reads):
        place[node] = graph.placeholder(f"in{i}_{node.name}")
    writes = [n for n in results if _is_written(source, name, n)]
    buffers = {n: graph.placeholder(f"out{i}_{n.name}") for i, n in enumerate(writes)}
    passing = [n for c in calls for n in _passing(source, name, c) if n not in buffers]
    scratch = {n: graph.placeholder(f"tmp{i}_{n.name}") for i, n in enumerate(passing)}

    def copied(node: fx.Node) -> fx.Node:
        if node not in place:
            for n in node.all_input_nodes:
                copied(n)
            place[node] = graph.node_copy(node, lambda n: place[n])
        return place[node]

    direct: set[fx.Node] = set()
    for call in calls:
        if isinstance(call, Group):
            for n in call.operands:
                copied(n)
            outs = _group_call(graph, call, place, {**buffers, **scratch})
            place.update(outs)
            direct.update(n for n in outs if n in buffers)
            continue
        node = call
        if node in place:  # a result of an operator that has several
            continue
        for n in node.all_input_nodes:
            copied(n)
        several = _several_written(graph, node, place, buffers)
        memory = buffers.get(node, scratch.get(node))
        written = _written(graph, source, node, place, memory)
        place.update(several)
        direct.update(n for n, value in several.items() if value is buffers.get(n))
        if written is not None:
            place[node] = written
            direct.add(node)
        elif not several:
            copied(node)
    for node, buffer in buffers.items():
        if node not in direct:
            graph.call_function(aten.copy_.default, (buffer, copied(node)))
    gathered = {n for op, n in source.joint.gradients.items() if op.is_gathered}
    returns = [n for n in results if n not in buffers or (name == "step_back" and n in gathered)]
    graph.output(tuple(copied(n) for n in returns))
    return Phase(native_calls(graph), reads, writes, passing, returns)


def _is_written(source: Phases, name: str, node: fx.Node) -> bool:
    """Whether a result's rows are put into a buffer: they are a part of it, or of the states."""
    joint = source.joint
    if name == "before":
        return any(op.role == "state" and n is node for op, n in joint.values.items())
    if node in source.seeds.values():
        return True
    kind = source.kind[node]
    if name not in STEPS or isinstance(kind, list) or kind.name != "row":
        return False
    if name == "step":
        return True
    gathered = [n for op, n in joint.gradients.items() if op.is_gathered]
    others = [n for op, n in joint.gradients.items() if op.role in ("param", "input")]
    after = {n for other in ("after_back",) for m in source.nodes(other) for n in _through(m)}
    return node not in gathered or node in others or node in after


def _passing(source: Phases, name: str, call: fx.Node | Group) -> list[fx.Node]:
    """Returns the values of a task that can lie where those of the task before lay."""
    if name not in STEPS:
        return []
    if isinstance(call, Group):
        return call.outs
    has_out = source.kind[call] in (ROW, EDGE) and out_overload(call.target) is not None
    return [call] if has_out else []


def _group_call(
    graph: fx.Graph, group: Group, place: dict[fx.Node, fx.Node], memory: dict[fx.Node, fx.Node]
) -> dict[fx.Node, fx.Node]:
    """Makes the calls of a group as one; for each of its results what stands for it."""
    operands = [place[n] for n in group.operands]
    there = [memory[n] for n in group.outs if n in memory]
    if there:
        outs = [memory[n] if n in memory else _empty(graph, there[0], n) for n in group.outs]
        into = torch.ops.smex.pointwise_into.default
        graph.call_function(into, (operands, group.program, outs))
        return dict(zip(group.outs, outs))
    made = graph.call_function(torch.ops.smex.pointwise.default, (operands, group.program))
    return {n: graph.call_function(operator.getitem, (made, i)) for i, n in enumerate(group.outs)}


def _empty(graph: fx.Graph, beside: fx.Node, node: fx.Node) -> fx.Node:
    """Memory for a node's value, which has as many rows as there are beside it."""
    value = node.meta["val"]
    rows = graph.call_function(aten.sym_size.int, (beside, 0))
    size = [rows, *value.shape[1:]]
    return graph.call_function(aten.new_empty.default, (beside, size), {"dtype": value.dtype})


def _through(node: fx.Node) -> list[fx.Node]:
    """Returns what a call reads, through views."""
    found = []
    stack = list(node.all_input_nodes)
    while stack:
        one = stack.pop()
        if is_view(one):
            stack.extend(one.all_input_nodes)
        else:
            found.append(one)
    return found


def _written(
    graph: fx.Graph, source: Phases, node: fx.Node, place: dict[fx.Node, fx.Node],
    buffer: fx.Node | None,
) -> fx.Node | None:  # fmt: skip
    """The call that writes a node's value into a buffer at once, if its operator has one."""
    # Where rows are no first dimension a task's part of a buffer has gaps, in which some of
    # PyTorch's kernels write (softmax).
    has_gaps = buffer is not None and source.kind[node].dim != 0
    found = None if buffer is None or has_gaps else out_overload(node.target)
    if found is None:
        return None
    overload, name = found
    args, kwargs = fx.map_arg((node.args, node.kwargs), lambda n: place[n])
    return graph.call_function(overload, args, {**kwargs, name: buffer})


def _several_written(
    graph: fx.Graph, node: fx.Node, place: dict[fx.Node, fx.Node], buffers: dict[fx.Node, fx.Node]
) -> dict[fx.Node, fx.Node]:
    """The results of an LSTM cell or its gradient, written into buffers at once if these are there.

    Returns:
        For each use of a result what stands for it; none where nothing was written.
    """
    if node.target not in (
        torch.ops.smex.tree_lstm.default,
        torch.ops.smex.tree_lstm_backward.default,
    ):
        return {}
    uses: dict[int, fx.Node] = {user.args[1]: user for user in node.users}  # type: ignore[misc]
    args = [fx.map_arg(arg, lambda n: place[n]) for arg in node.args]
    if node.target is torch.ops.smex.tree_lstm.default:
        outs = [buffers.get(uses[i]) if i in uses else None for i in (0, 1)]
        if None in outs or len(node.users) != len(uses):
            return {}
        graph.call_function(torch.ops.smex.tree_lstm_into.default, (*args, *outs))
        return {uses[i]: outs[i] for i in (0, 1)}  # type: ignore[misc]
    if node.target is torch.ops.smex.tree_lstm_backward.default:
        if uses.get(0) not in buffers or len(node.users) != len(uses):
            return {}
        buffer = buffers[uses[0]]
        into = torch.ops.smex.tree_lstm_backward_into.default
        grad_cells = graph.call_function(into, (*args, buffer))
        return {uses[0]: buffer, **({uses[1]: grad_cells} if 1 in uses else {})}
    return {}


def out_overload(target: Any) -> tuple[Any, str] | None:
    """Returns the overload that writes its only result into a tensor, and that argument's name."""
    if not isinstance(target, torch._ops.OpOverload) or target.namespace != "aten":
        return None
    packet = target.overloadpacket
    schema = target._schema
    own = [(a.name, str(a.type)) for a in schema.arguments]
    if len(schema.returns) != 1:
        return None
    for name in packet.overloads():
        other = getattr(packet, name)
        outs = [a for a in other._schema.arguments if a.is_out]
        rest = [(a.name, str(a.type)) for a in other._schema.arguments if not a.is_out]
        if len(outs) == 1 and rest == own:
            return other, outs[0].name
    return None
