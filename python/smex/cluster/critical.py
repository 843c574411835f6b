"""Which operators the critical path of a simulated iteration goes through."""

from __future__ import annotations

import collections
from collections.abc import Iterator
from typing import Any

from smex._C import ComputeInstr, FetchInstr, list_exchanges
from smex.planning.semantic import SemanticGraph


class Path:
    """The critical path of a program's iteration.

    Args:
        graph: that the program is of.
        program: what ran, on paper.
        timeline: how it went.
    """

    def __init__(self, graph: SemanticGraph, program: Any, timeline: Any):
        self._graph = graph.native
        self._path = timeline.critical_path()
        self._rows = timeline.instructions(program)
        self._messages = timeline.transfers()
        used = {worker for is_message, worker, _ in self._path if not is_message}
        workers = program.workers
        self._ops = {worker: self._ops_of(workers[worker], worker) for worker in used}
        self._values = _values_of_relayouts(program, len(workers))
        self._makers = {
            value: op.id for op in self._graph.ops for value in op.outputs if value >= 0
        }

    def seconds_of_ops(self) -> Iterator[tuple[int, float]]:
        """Yields an op and how long it keeps the path busy, of each thing on the path in order.

        Messages and fetches count for who makes the tensor and who reads it, half each.
        """
        users = self._graph.values
        for is_message, worker, index in self._path:
            if is_message:
                relayout, _, _, begin, end, _ = self._messages[index]
                value = self._values.get(relayout, -1)
            else:
                _, _, begin, end = self._rows[worker][index]
                op, value = self._ops[worker].get(index, (-1, -1))
                if op >= 0:
                    yield op, end - begin
            if value < 0 or end <= begin:
                continue
            concerned = [self._makers.get(value, -1), *users[value].users]
            concerned = [op for op in concerned if op >= 0]
            for op in concerned:
                yield op, (end - begin) / len(concerned)

    def _ops_of(self, worker: Any, number: int) -> dict[int, tuple[int, int]]:
        """By place in the order of running the op of a call, or the value of a fetch.

        The n-th call of an operator that ran is the n-th in the worker's lists.
        """
        listed: dict[str, collections.deque[tuple[int, int]]] = collections.defaultdict(
            collections.deque
        )
        for instr in (*worker.forward, *worker.backward):
            if isinstance(instr, ComputeInstr):
                listed[instr.target].append((instr.op, -1))
            elif isinstance(instr, FetchInstr):
                listed[instr.kind].append((-1, instr.value))
        found = {}
        for place, (name, kind, _, _) in enumerate(self._rows[number]):
            key = name.partition("[")[0] if kind == "compute" else kind
            if listed[key]:
                found[place] = listed[key].popleft()
        return found


def _values_of_relayouts(program: Any, workers: int) -> dict[int, int]:
    """By number of a relayout the value that it brings."""
    whole = 2**62  # in one packet each
    lists = list_exchanges(program, list(range(workers)), whole)
    return {exchange.relayout: exchange.value for own in lists for exchange in own}
