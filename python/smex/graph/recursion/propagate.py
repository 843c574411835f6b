"""``prop_nodes_topo`` of :mod:`smex.graph` as a vertex function (Cavs §3, thesis §4.5.2).

Level by level, nodes pull messages from their in-neighbours, which were updated before them: a
recursion over a DAG. Nodes with as many in-edges each are vertices of one type; where sums or means
of built-in messages need no features of edges, all nodes with in-edges are.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from functools import lru_cache
from typing import Any

import torch

from smex._logging import quiet_fakes
from smex.graph.core.graph_core import GraphCore
from smex.graph.function import MessageFunction, ReduceFunction
from smex.graph.recursion.cells import Functions
from smex.graph.recursion.levels import Levels, has_one_degree, levels_of
from smex.graph.recursion.plans import plan_of
from smex.graph.recursion.surroundings import surroundings
from smex.vertex.compile.trace import UntraceableError
from smex.vertex.execution.run import execute
from smex.vertex.words.options import current

logger = logging.getLogger(__name__)


def propagate(
    graph: GraphCore, message: Any, reduce: Any, apply: Callable[..., Any] | None = None
) -> bool:
    """Updates all nodes in topological order as one run of a vertex function, if it can be one.

    Args:
        graph: has nodes.
        message: what edges send.
        reduce: what a node makes of the messages it gets.
        apply: what becomes of the results.

    Returns:
        False where nothing was done; the log says why.

    Raises:
        SmexValueError: the graph has a cycle.
    """
    try:
        run(graph, Functions(message, reduce, apply))
    except UntraceableError as error:
        _say(f"prop_nodes_topo runs level by level, since {error}")
        return False
    return True


@lru_cache(maxsize=256)
def _say(text: str) -> None:
    """Logs a text once."""
    logger.info(text)


def run(graph: GraphCore, functions: Functions) -> None:
    """As :func:`propagate`, which catches the error.

    Raises:
        UntraceableError: the graph or the functions are none that vertex functions compute.
    """
    _check_surroundings(graph)
    levels = _levels(graph, functions)
    outside = surroundings(functions)
    nodes = graph._node_frame(graph._slots()[0])
    edges = graph._edge_frames[graph.canonical_etypes[0]]
    plan = plan_of(functions, levels.buckets, nodes, edges, outside)
    if not plan.written:
        return
    cells, given = {}, {}
    for bucket in levels.buckets:
        name = str(bucket.degree)
        cells[name] = plan.cells[bucket.degree].bound(functions, outside.tensors)
        given[name] = plan.inputs(bucket, nodes, edges)
    numbers = {name: number for number, name in enumerate(cells)}
    with quiet_fakes():
        try:
            result = execute(levels.batch, cells, numbers, given)
        except UntraceableError as error:
            plan.refused = str(error)
            raise
    found = {
        name: result.states[name] if name in plan.states else result.outputs[name]
        for name in plan.written
    }
    nodes.update(found)


def _check_surroundings(graph: GraphCore) -> None:
    if torch.compiler.is_compiling():
        raise UntraceableError("torch.compile traces it")
    if not graph.is_homogeneous:
        raise UntraceableError("the graph has several types")
    if not current().trace:
        raise UntraceableError("the option trace is off")
    if torch.is_autocast_enabled(graph.device.type):
        raise UntraceableError("autocast is on, where types depend on each call")
    if torch._C._functorch.peek_interpreter_stack() is not None:
        raise UntraceableError("a transform of torch.func is active")


def _levels(graph: GraphCore, functions: Functions) -> Levels:
    message, reduce, _ = functions
    is_sum = isinstance(reduce, ReduceFunction) and reduce.name in ("sum", "mean")
    reads_nodes = isinstance(message, MessageFunction) and "e" not in dict(message.operands)
    return levels_of(graph, has_one_degree(graph) or not (is_sum and reads_nodes))
