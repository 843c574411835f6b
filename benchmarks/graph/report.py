"""Tables of the measurements, and the bars they are held against."""

from __future__ import annotations

import dataclasses
import math
from collections import defaultdict
from collections.abc import Sequence

from cases import Bounds
from harness import COPY, NOT_PEERS, SORTED, Entry, Measured

HEADER = (
    "operation",
    "graph",
    "pass",
    "threads",
    "ours, ms",
    "fastest peer, ms",
    "ratio",
    "GB/s compulsory",
    "GB/s gather",
    "GB/s copy",
    "of gather bound",
)


SORTED_LABEL = ", sorted"


def line(cells) -> str:
    return f"| {' | '.join(str(cell) for cell in cells)} |"


def header(cells=HEADER) -> str:
    return f"{line(cells)}\n{line('---' for _ in cells)}"


def name(case) -> str:
    heads = f", {case.heads} heads" if case.heads else ""
    width = f", F = {case.width}" if case.op not in ("edge_softmax", "to_csc") else ""
    short = f", {case.dtype}" if case.dtype != "float32" else ""
    return f"{case.op}{heads}{width}{short}"


def peers_of(entry: Entry, measured: Measured) -> list[Entry]:
    """The peers measured on the same case with the same threads."""
    return [
        other
        for other in measured.seconds
        if other.system not in NOT_PEERS
        and dataclasses.replace(other, system=entry.system, label=entry.label) == entry
    ]


def rates(entry: Entry, measured: Measured, bounds: Bounds | None) -> list[str]:
    """GB/s against both bounds, of the copy, and the share of the gather bound's time."""
    copy = next(
        (e for e in measured.seconds if e.system == COPY and e.threads == entry.threads), None
    )
    if bounds is None or entry not in measured.seconds:
        return ["-"] * 4
    seconds = measured.median(entry)
    found = [f"{bytes_ / seconds / 1e9:.1f}" for bytes_ in bounds]
    if copy is None:
        return [*found, "-", "-"]
    copied = copy.case.width / measured.median(copy)
    share = measured.ratio(copy, entry) * bounds.gather / copy.case.width
    return [*found, f"{copied / 1e9:.1f}", f"{share:.2f}"]


def row(
    ours: Entry, measured: Measured, bounds: Bounds | None, *, rates_too: bool = True
) -> tuple[str, float]:
    """A line of the table about ours beside the fastest peer, and the ratio (nan without one)."""
    best = measured.fastest(peers_of(ours, measured), ours)
    peer, ratio = best if best else (None, math.nan)
    shown = ours if ours in measured.seconds else peer
    cells = [
        name(ours.case) + (SORTED_LABEL if ours.system == SORTED else ""),
        ours.graph,
        "fwd + bwd" if ours.case.backward else "fwd",
        ours.threads,
        measured.spread(ours) if ours in measured.seconds else "-",
        f"{peer.system}: {measured.spread(peer)}" if peer else "-",
        f"{ratio:.2f}",
    ]
    if rates_too:
        cells += rates(shown, measured, bounds) if shown else ["-"] * 4
    return line(cells), ratio


def peer_rows(ours: Entry, measured: Measured, blank: int = 4) -> list[str]:
    """A line per peer; one that was asked in the first round only is marked."""
    lines = []
    for entry in sorted(peers_of(ours, measured), key=measured.median):
        asked = sum(s is not None for s in measured.seconds[entry])
        once = " (one round: too slow)" if asked < len(measured.seconds[entry]) else ""
        cell = f"{entry.system}: {measured.spread(entry)}{once}"
        lines.append(line([*[""] * 5, cell, "", *[""] * blank]))
    return lines


def print_notes(measured: Measured) -> None:
    """What was not measured and why, and results that differ."""
    for key, note in measured.notes.items():
        print(f"  {key.split('|')[0]}: {note}")


def geomean(values: list[float]) -> float:
    return math.exp(sum(map(math.log, values)) / len(values)) if values else math.nan


class Bars:
    """Ratios gathered under names, held against the least geomean (and the least single one).

    Graphs that are not among `only` (empty: all) have no part in it.
    """

    def __init__(
        self,
        bars: dict[str, float],
        floors: dict[str, float] | None = None,
        only: Sequence[str] = (),
    ) -> None:
        self.bars, self.floors, self.only = bars, floors or {}, only
        self.ratios: dict[tuple[str, str], list[float]] = defaultdict(list)

    def add(self, bar: str, group: str, ratio: float, graph: str = "") -> None:
        counted = not (self.only and graph) or graph in self.only
        if counted and bar in self.bars and not math.isnan(ratio):
            self.ratios[bar, group].append(ratio)

    def table(self) -> str:
        cells = ["bar", "of", "geomean", "smallest", "largest", "required", "met"]
        lines = [header(cells)]
        for (bar, group), found in sorted(self.ratios.items()):
            required, floor = self.bars[bar], self.floors.get(bar, 0.0)
            met = geomean(found) >= required and min(found) >= floor
            asked = f"≥ {required:.3g}" + (f", never < {floor}" if floor else "")
            numbers = [f"{x:.2f}" for x in (geomean(found), min(found), max(found))]
            lines.append(line([bar, group, *numbers, asked, "pass" if met else "FAIL"]))
        return "\n".join(lines) if self.ratios else "No bar could be judged: ours is not measured."


def record(measured: Measured) -> list[dict]:
    """The measurements as they go into the JSON file."""
    return [
        {
            "system": entry.system,
            "graph": entry.graph,
            "threads": entry.threads,
            **dataclasses.asdict(entry.case),
            "seconds": seconds,
            "check": measured.checks.get(entry.key),
            "note": measured.notes.get(entry.key),
        }
        for entry, seconds in measured.seconds.items()
    ]
