"""Who receives how many bytes of whom in an iteration, as a matrix."""

from __future__ import annotations

from collections.abc import Sequence

from smex._C import list_exchanges
from smex.planning.markup import escape, section
from smex.planning.placed import PlacedGraph
from smex.text import size_words

_MOST_WORKERS = 32
_ONE_PACKET = 1 << 62  # bytes: nothing is sent in parts


def link_bytes(plan: PlacedGraph) -> list[list[int]]:
    """By sender and by receiver the bytes that the plan's program moves in an iteration."""
    found = [[0] * plan.workers for _ in range(plan.workers)]
    for exchanges in list_exchanges(plan.program(), list(range(plan.workers)), _ONE_PACKET):
        for exchange in exchanges:
            for packet in exchange.packets:
                found[packet.source][packet.dest] += packet.bytes
    return found


def links_section(plan: PlacedGraph) -> str:
    """Returns a row for each sender and a column for each receiver; "" for one worker."""
    if plan.workers == 1:
        return ""
    moved = link_bytes(plan)
    received = [sum(column) for column in zip(*moved, strict=True)]
    most = max(max(row) for row in moved)
    if not most:
        return section("Links", "<p>No worker receives anything of another.</p>")
    source, dest = max(
        ((a, b) for a in range(plan.workers) for b in range(plan.workers)),
        key=lambda pair: moved[pair[0]][pair[1]],
    )
    words = (
        f"Bytes that the program moves in an iteration, {size_words(sum(received))}: rows send, "
        f"columns receive. The most, {size_words(most)}, go from worker {source} to worker {dest}; "
        f"worker {max(range(plan.workers), key=received.__getitem__)} receives the most, "
        f"{size_words(max(received))}."
    )
    return section("Links", f"<p>{escape(words)}</p>", _matrix(moved))


def links_matrix(plan: PlacedGraph) -> str:
    """Returns the matrix alone; "" for one worker."""
    return _matrix(link_bytes(plan)) if plan.workers > 1 else ""


def _matrix(moved: Sequence[Sequence[int]]) -> str:
    """Returns nothing where there are too many workers to be told by a cell each."""
    if len(moved) > _MOST_WORKERS:
        return ""
    workers = range(len(moved))
    received = [sum(column) for column in zip(*moved, strict=True)]
    most = max(max(row) for row in moved)
    head = "".join(f'<th class="n">{worker}</th>' for worker in workers)
    rows = [f'<tr><th class="n">sends</th>{head}<th class="n">together</th></tr>']
    for source in workers:
        cells = "".join(_cell(source, dest, moved[source][dest], most) for dest in workers)
        total = size_words(sum(moved[source]))
        rows.append(f'<tr><th class="n">{source}</th>{cells}<td class="n">{total}</td></tr>')
    sums = "".join(f'<td class="n">{size_words(nbytes)}</td>' for nbytes in received)
    rows.append(
        f'<tr><th class="n">receives</th>{sums}<td class="n">{size_words(sum(received))}</td></tr>'
    )
    body = "\n".join(rows)
    return f'<div class="scroll"><table class="matrix">\n{body}\n</table></div>'


def _cell(source: int, dest: int, nbytes: int, most: int) -> str:
    if source == dest:
        return '<td class="n"></td>'
    # At most half covered, that the number stays legible.
    shade = f"background:rgba(var(--heat), {nbytes / max(most, 1) / 2:.3f})"
    title = f"worker {source} to worker {dest}: {nbytes:,} bytes"
    return f'<td class="n" style="{shade}" title="{title}">{size_words(nbytes)}</td>'
