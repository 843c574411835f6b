"""When each call of a vertex function is made: for each task, or once for all vertices (Cavs §3).

A forward and backward run over a kind of vertices (one type, with children or without) goes

    once    values of parameters alone
    before  forward, once for all vertices: what needs no child
    step    forward, task by task: what parents gather
    after   forward, once: what no parent gathers
    once_back, before_back, step_back, after_back     the same for gradients: task by task only
            what children's gradients need; gradients of parameters and inputs come after
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import torch
from torch import fx

from smex.vertex.compile.norms import split_gradients
from smex.vertex.compile.rows import CONST, MIXED, SUM, Kind, kinds
from smex.vertex.compile.simplify import ancestors, is_getitem, is_like, is_view, simplify
from smex.vertex.compile.trace import Joint, UntraceableError
from smex.vertex.words.options import Options

aten = torch.ops.aten

FORWARD = ("once", "before", "step", "after")
BACKWARD = ("once_back", "before_back", "step_back", "after_back")


@dataclass
class Phases:
    """The calls of a joint graph, by the phase they are made in.

    Attributes:
        joint: the graph.
        kind: of each node.
        phase: of each node that is neither a placeholder nor a view.
        seeds: by state, the gradient that its rows have from what no parent gathers. It is not
            added to the others in each task, as they are added to it.
        fuse: element-wise calls are to be made together.
    """

    joint: Joint
    kind: dict[fx.Node, Any]
    phase: dict[fx.Node, str]
    seeds: dict[str, fx.Node] = field(default_factory=dict)
    fuse: bool = True

    def nodes(self, name: str) -> list[fx.Node]:
        """Returns the nodes of a phase, in order."""
        return [n for n in self.joint.graph.nodes if self.phase.get(n) == name]


def assign(joint: Joint, chosen: Options) -> Phases:
    """Returns the phase of each call.

    Raises:
        UntraceableError: a forward call mixes rows.
    """
    simplify(joint)
    if chosen.fuse:
        split_gradients(joint)
    kind = kinds(joint)
    gathers = {n for n, op in joint.inputs.items() if op.is_gathered}
    state_tangents = {n for n, op in joint.tangents.items() if op.role == "state"}
    recursive = _descendants(joint.graph, gathers)
    waits = _descendants(joint.graph, state_tangents)
    forward = ancestors(joint.values.values())
    for_states = ancestors(n for op, n in joint.values.items() if op.role == "state")
    for_gathers = ancestors(n for op, n in joint.gradients.items() if op.is_gathered)
    phase: dict[fx.Node, str] = {}
    stuck: set[fx.Node] = set()  # must be computed in the tasks, as do those that read them
    for node in joint.graph.nodes:
        if node.op != "call_function":
            continue
        one = kind[node][0] if isinstance(kind[node], list) else kind[node]
        read_stuck = any(n in stuck for n in node.all_input_nodes)
        if node in forward:
            if one in (MIXED, SUM) or read_stuck:
                raise UntraceableError(f"{node.target} mixes the rows of different vertices")
            found = _forward_phase(node, one, recursive, for_states, chosen)
        else:
            found = _backward_phase(node, one, waits, for_gathers, chosen)
            if read_stuck or one == MIXED or (one == SUM and found == "step_back"):
                found = "step_back"
                stuck.add(node)
        if is_getitem(node) and node.args[0] in phase:
            found = phase[node.args[0]]
        if not is_view(node):
            phase[node] = found
        elif read_stuck or one == MIXED:
            stuck.add(node)
    phase = _not_before_inputs(joint, phase)
    seeds = _seeds(joint, kind, phase)
    _add_in_products(joint, phase)
    return Phases(joint, kind, phase, seeds, chosen.fuse)


def _add_in_products(joint: Joint, phase: dict[fx.Node, str]) -> None:
    """Makes one call of a matrix product and the sum with what is there in the same phase."""
    for node in list(joint.graph.nodes):
        if node.target is not aten.add.Tensor or node.kwargs:
            continue
        for product, other in (node.args[:2], node.args[1::-1]):
            is_product = isinstance(product, fx.Node) and product.target is aten.mm.default
            if not is_product or not isinstance(other, fx.Node) or product is other:
                continue
            is_own = set(product.users) == {node} and phase[product] == phase[node]
            if is_own and is_like(product, node) and is_like(other, node):
                node.target, node.args = aten.addmm.default, (other, *product.args)
                joint.graph.erase_node(product)
                phase.pop(product)
                break


def _seeds(joint: Joint, kind: dict[fx.Node, Any], phase: dict[fx.Node, str]) -> dict[str, fx.Node]:
    """Takes the sums of a state's gradient and what is known before the tasks out of the graph."""
    found: dict[str, fx.Node] = {}
    ends = {*joint.values.values(), *joint.gradients.values()}
    for tangent, operand in joint.tangents.items():
        users = list(tangent.users)
        if operand.role != "state" or len(users) != 1 or tangent in ends:
            continue
        total = users[0]
        terms = total.args[:2]
        if total.target is not aten.add.Tensor or total.kwargs or tangent not in terms:
            continue
        seed = terms[1] if terms[0] is tangent else terms[0]
        if not isinstance(seed, fx.Node) or total in ends:
            continue
        is_own = set(seed.users) == {total} and seed not in ends
        if not is_own or phase.get(seed) != "before_back" or kind[seed] != kind[tangent]:
            continue
        if not is_like(seed, tangent):
            continue
        total.replace_all_uses_with(tangent)
        joint.graph.erase_node(total)
        phase.pop(total)
        found[operand.name] = seed
    return found


def _forward_phase(
    node: fx.Node, kind: Kind, recursive: set, for_states: set, chosen: Options
) -> str:
    if kind == CONST:
        return "once"
    if not chosen.hoist:
        return "step"
    if node not in recursive:
        return "before"
    return "step" if node in for_states else "after"


def _backward_phase(
    node: fx.Node, kind: Kind, waits: set, for_gathers: set, chosen: Options
) -> str:
    if kind == CONST:
        return "once_back"
    if node in for_gathers:
        return "before_back" if node not in waits and chosen.hoist else "step_back"
    return "after_back" if chosen.lazy else "step_back"


def _not_before_inputs(joint: Joint, phase: dict[fx.Node, str]) -> dict[fx.Node, str]:
    """A call waits for what it reads: what reads results of the tasks is not made before them."""
    order = {name: i for i, name in enumerate((*FORWARD, *BACKWARD))}
    latest: dict[fx.Node, int] = {}
    for node in joint.graph.nodes:
        reads = [latest.get(n, 0) for n in node.all_input_nodes]
        latest[node] = max([order[phase[node]] if node in phase else 0, *reads])
        if node in phase:
            phase[node] = (*FORWARD, *BACKWARD)[latest[node]]
    return phase


def _descendants(graph: fx.Graph, roots: set[fx.Node]) -> set[fx.Node]:
    found = set(roots)
    for node in graph.nodes:
        if node.op != "output" and any(n in found for n in node.all_input_nodes):
            found.add(node)
    return found
