"""What an iteration waits for from its beginning to its end, and what takes most of that."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from smex._C import ComputeInstr, FreeInstr, MoveInstr, list_exchanges
from smex.planning import markup
from smex.planning.markup import code, escape, section, table
from smex.planning.page.names import collapse
from smex.planning.placed import PlacedGraph
from smex.text import duration_words

_MOST_ROWS = 12
_MOST_CALLS = 2**18  # of all workers, that are simulated for a page
_KINDS = {
    "compute": "arithmetic",
    "message": "messages",
    "copy": "copies of what arrives and of own tiles",
    "move": "moves between device and host",
}


class Link(NamedTuple):
    """One that the next waits for.

    Attributes:
        kind: "compute", "copy", "message", or "move" between a device and the host.
        name: of the operator that runs, makes what is sent, or reads what is copied.
        op: the number of that call, of several that run as one the last; -1: of the graph's none.
        where: the worker, or "0 → 1" for a message.
        seconds: that it takes, until the next begins.
    """

    kind: str
    name: str
    op: int
    where: str
    seconds: float


def critical_path(plan: PlacedGraph) -> tuple[float, list[Link]]:
    """Returns an iteration's seconds by the simulator, and its path without what takes no time."""
    program, timeline = plan.program(), plan.timeline()
    rows, messages = timeline.instructions(program), timeline.transfers()
    made_by = {
        value: op.id for op in plan.graph.captured.ops for value in op.outputs if value is not None
    }
    sent = {
        exchange.relayout: made_by.get(exchange.value, -1)
        for exchanges in list_exchanges(program, list(range(plan.workers)))
        for exchange in exchanges
    }

    def target(op: int) -> str:
        return plan.graph.captured.ops[op].target if op >= 0 else ""

    ops = [
        ops_of(own, positions)
        for own, positions in zip(program.workers, timeline.positions(program), strict=True)
    ]
    path: list[Link] = []
    spans: list[tuple[float, float]] = []
    for is_message, worker, number in timeline.critical_path():
        if is_message:
            relayout, source, dest, begin, end, _ = messages[number]
            op, where = sent.get(relayout, -1), f"{source} → {dest}"
            path.append(Link("message", target(op), op, where, 0))
        else:
            name, kind, begin, end = rows[worker][number]
            op = ops[worker][number]
            kind = kind if kind in ("compute", "move") else "copy"
            name = name.partition("[")[0] if kind == "compute" else target(op)
            path.append(Link(kind, name, op, str(worker), 0))
        spans.append((begin, end))
    ends = [begin for begin, _ in spans[1:]] + [timeline.seconds]
    path = [
        link._replace(seconds=min(end, following) - begin)
        for link, (begin, end), following in zip(path, spans, ends, strict=True)
        if min(end, following) > begin
    ]
    return timeline.seconds, path


def ops_of(worker: Any, positions: Sequence[int]) -> list[int]:
    """By instruction the op it computes, or the one that reads what it copies; -1 for none.

    Args:
        worker: its lists of instructions.
        positions: through both lists, of the instructions in the order in which they ran.
    """
    instrs = [*worker.forward, *worker.backward]
    found, after = [], -1
    for position in reversed(positions):
        instr = instrs[position]
        if isinstance(instr, ComputeInstr):
            after = instr.op
        found.append(-1 if isinstance(instr, (FreeInstr, MoveInstr)) else after)
    return found[::-1]


def critical_path_section(plan: PlacedGraph, rows: Mapping[int, str]) -> str:
    """Returns what the path is made of, in words and as a table.

    Args:
        plan: with a machine; "" for one without.
        rows: by op the id of its row in the table of ops, to refer to.
    """
    if plan.machine is None or not plan.graph.captured.ops:
        return ""
    if plan.workers * len(plan.graph.captured.ops) > _MOST_CALLS:
        words = "The plan has too many calls to be simulated for its page; smex.simulate does it."
        return section("Critical path", f"<p>{words}</p>")
    seconds, path = critical_path(plan)
    if not path:
        return ""
    groups = _groups(plan, path)
    head = ("what", "op", "module", "pass", "on", "times", "takes", "share")
    cells = [_row(group, seconds, rows) for group in groups[:_MOST_ROWS]]
    drawn = table(head, cells, right=(5, 6, 7))
    return section("Critical path", *_words(plan, seconds, path, groups), drawn)


class _Group(NamedTuple):
    kind: str
    target: str
    module: str
    backward: bool | None
    where: tuple[str, ...]
    op: int
    times: int
    seconds: float


def _groups(plan: PlacedGraph, path: list[Link]) -> list[_Group]:
    """Joins what one operator and module are on the path for; what takes most comes first."""
    ops = plan.graph.captured.ops
    found: dict[tuple[str, tuple[str, str, bool | None]], list[Link]] = defaultdict(list)
    for link in path:
        op = ops[link.op] if link.op >= 0 else None
        key = (link.kind, link.name, op.backward if op else None)
        found[op.module_path if op else "", key].append(link)
    groups = []
    for module, (kind, target, backward), modules in collapse(found):
        links = [link for name in modules for link in found[name, (kind, target, backward)]]
        first = max(links, key=lambda link: link.seconds)
        where = tuple(sorted({link.where for link in links}))
        seconds = sum(link.seconds for link in links)
        groups.append(_Group(kind, target, module, backward, where, first.op, len(links), seconds))
    return sorted(groups, key=lambda group: -group.seconds)


def _row(group: _Group, seconds: float, rows: Mapping[int, str]) -> tuple[str, ...]:
    target = code(group.target) if group.target else ""
    if group.op in rows:
        target = f'<a href="#{rows[group.op]}">{target}</a>'
    where = ", ".join(group.where[:3]) + (" …" if len(group.where) > 3 else "")
    on = where if group.kind == "message" else f"worker {where}"
    on = f'<span class="unbroken">{escape(on)}</span>'
    turn = "" if group.backward is None else "backward" if group.backward else "forward"
    return (
        group.kind, target, markup.module(group.module), turn, on, f"{group.times:,} ×",
        duration_words(group.seconds), f"{group.seconds / seconds:.1%}",
    )  # fmt: skip


def _words(
    plan: PlacedGraph, seconds: float, path: list[Link], groups: list[_Group]
) -> Iterator[str]:
    sums: dict[str, float] = defaultdict(float)
    for link in path:
        sums[link.kind] += link.seconds
    parts = ", ".join(
        f"{sums[kind] / seconds:.0%} {_KINDS[kind]}"
        for kind in sorted(sums, key=lambda k: -sums[k])
    )
    yield (
        f"<p>By the simulator, in which tiles are on their way while workers compute, an iteration "
        f"takes {duration_words(seconds)}. From its beginning to its end it waits for: {parts}. It "
        "becomes shorter only if one of these does, or is not waited for.</p>"
    )
    first = groups[0]
    what = {
        "compute": f"{first.target} on worker {', '.join(first.where[:3])}",
        "message": f"what {first.target or 'the inputs'} makes, sent {', '.join(first.where[:3])}",
        "copy": f"copies for {first.target or 'the results'}",
        "move": "moves between device and host",
    }[first.kind]
    at = f" in {first.module}" if first.module else ""
    yield (
        f"<p><b>Bottleneck:</b> {escape(what + at)}, {first.times:,} times on the path, together "
        f"{duration_words(first.seconds)} ({first.seconds / seconds:.0%}).</p>"
    )
