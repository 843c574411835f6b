"""The last instructions of several processes side by side: who was where, and who was missing.

``python -m smex.distributed FOLDER`` prints the same.
"""

from __future__ import annotations

import dataclasses
import html
import json
import os
import pathlib
import re
from typing import Any

from smex.errors import SmexValueError

__all__ = ["Diagnosis", "Flight", "FlightEntry", "diagnose"]

_WHY_MISSING = {
    "gone": "it was killed, or crashed, which leaves no time to write",
    "silent": "it was stopped, or cannot be reached",
    "absent": "it has never come",
}
"""By kind of the failure of the rank that wrote nothing."""
_PHASES = ("forward", "backward", "other")


@dataclasses.dataclass(frozen=True)
class FlightEntry:
    """An instruction of one worker, or an exchange of several processes.

    Attributes:
        sequence: its number among all entries of the process.
        kind: "instruction" or "exchange".
        run: number of the call of the net.
        phase: "forward", "backward" or "other".
        worker: whose instruction it is.
        number: in the worker's list; of an exchange the same in all processes.
        text: what it does.
        peer: the rank that it waits for, or None: none, or several.
        bytes: that it moves.
        begin: in seconds since 1970, by the clock of its machine.
        end: likewise, or None where it has not ended.
    """

    sequence: int
    kind: str
    run: int
    phase: str
    worker: int
    number: int
    text: str
    peer: int | None
    bytes: int
    begin: float
    end: float | None

    @property
    def position(self) -> tuple[int, int, int]:
        """Orders the exchanges of a process, and those of several alike."""
        return self.run, _PHASES.index(self.phase), self.number

    def __str__(self) -> str:
        """Returns what an error calls it."""
        return f"run {self.run}, {self.phase} {self.kind} {self.number} ({self.text})"


@dataclasses.dataclass(frozen=True)
class Flight:
    """What one process wrote.

    Attributes:
        rank: of the process.
        size: number of processes.
        pid: its id.
        time: at which it wrote, in seconds since 1970.
        failure: what it knew of: kind, rank, where, text, message; or None.
        entries: the last ones, in the order in which they began.
    """

    rank: int
    size: int
    pid: int
    time: float
    failure: dict[str, Any] | None
    entries: tuple[FlightEntry, ...]

    @property
    def current(self) -> FlightEntry | None:
        """The last entry that has not ended, or the last one where all have."""
        open_entries = [entry for entry in self.entries if entry.end is None]
        return (open_entries or self.entries or (None,))[-1]

    @property
    def exchanges(self) -> dict[tuple[int, int, int], FlightEntry]:
        """The exchanges, by position."""
        return {e.position: e for e in self.entries if e.kind == "exchange"}


@dataclasses.dataclass(frozen=True)
class Diagnosis:
    """What :func:`diagnose` found; prints as a table, and as one in a notebook.

    Attributes:
        folder: that was read.
        size: number of processes that ran.
        flights: by rank what it wrote, of those that wrote.
        missing: ranks that wrote nothing: killed, stopped, or on a machine with another folder.
        failure: the failure that the ranks knew of, or None.
        difference: a sentence with the first exchange in which ranks differ, or None.
        waits: by rank the ranks that it waits for, of those that wait.
    """

    folder: pathlib.Path
    size: int
    flights: dict[int, Flight]
    missing: tuple[int, ...]
    failure: dict[str, Any] | None
    difference: str | None
    waits: dict[int, tuple[int, ...]]

    def _head(self) -> list[str]:
        lines = [f"{len(self.flights)} of {_counted(self.size, 'rank')} wrote what they did last"]
        if self.missing:
            lines[0] += f"; nothing of {_ranks(self.missing)} ({self._why_missing()})"
        if self.failure is not None:
            lines.append(f"failure: {self.failure['message']}")
        lines.append(f"first difference: {self.difference or 'none'}")
        return lines

    def _why_missing(self) -> str:
        failure = self.failure or {}
        if self.missing == (failure.get("rank"),) and failure["kind"] in _WHY_MISSING:
            return _WHY_MISSING[failure["kind"]]
        return "killed, stopped, or elsewhere"

    def _rows(self) -> list[tuple[str, ...]]:
        rows: list[tuple[str, ...]] = [("rank", "in", "for", "bytes", "waits for")]
        for rank in range(self.size):
            flight = self.flights.get(rank)
            if flight is None:
                rows.append((str(rank), "-", "-", "-", "-"))
                continue
            entry = flight.current
            if entry is None:
                rows.append((str(rank), "nothing yet", "-", "-", "-"))
                continue
            is_over = entry.end is not None
            rows.append(
                (
                    str(rank),
                    f"after {entry}" if is_over else str(entry),
                    f"{flight.time - (entry.end or entry.begin):.3f} s",
                    f"{entry.bytes:,}",
                    _ranks(self.waits.get(rank, ())) or "-",
                )
            )
        return rows

    def __str__(self) -> str:
        """Returns the table."""
        rows = self._rows()
        widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
        table = [
            "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
            for row in rows
        ]
        return "\n".join([*self._head(), "", *table])

    def __repr__(self) -> str:
        """Returns the same text, so that a terminal session shows it at once."""
        return str(self)

    def _repr_html_(self) -> str:
        head = "".join(f"<p>{html.escape(line)}</p>" for line in self._head())
        rows = "".join(
            "<tr>" + "".join(f"<td>{html.escape(cell)}</td>" for cell in row) + "</tr>"
            for row in self._rows()
        )
        return f"{head}<table>{rows}</table>"


def diagnose(folder: str | os.PathLike[str]) -> Diagnosis:
    """Compares what the processes of a failed run did last, and names the first difference.

    Args:
        folder: with files ``rank-<r>.json``, which every process writes when an error ends a run
            that several make together: ``SMEX_FLIGHT_FOLDER``, or the folder ``flight`` in
            torchrun's logs. Of a folder with one folder for each restart the last one is read.
            Files of several machines are put into one folder first.

    Raises:
        SmexValueError: where there are no such files, or some are not of one run.

    Example:
        >>> import tempfile, torch
        >>> from smex._C import Recorder
        >>> folder = tempfile.mkdtemp()
        >>> recorder = Recorder()
        >>> _ = recorder.begin("fetch of layer3.weight", exchange=True, number=118)
        >>> _ = recorder.dump(folder, rank=0, size=2)
        >>> smex.diagnose(folder).missing
        (1,)
    """
    path = pathlib.Path(folder)
    files = sorted(path.glob("rank-*.json"))
    if not files:
        attempts = sorted(path.glob("attempt_*"), key=_attempt)
        if attempts:
            return diagnose(attempts[-1])
        raise SmexValueError(
            f'diagnose: expected files rank-<r>.json in "{path}", found none; they are written '
            "when a run of several processes fails and SMEX_FLIGHT_FOLDER names a folder"
        )
    flights = {flight.rank: flight for flight in sorted(map(_read, files), key=lambda f: f.rank)}
    sizes = {flight.size for flight in flights.values()}
    if len(sizes) > 1:
        raise SmexValueError(
            f'diagnose: "{path}" has files of runs of {" and ".join(map(str, sorted(sizes)))} '
            "processes; keep one folder for each run"
        )
    size = sizes.pop()
    missing = tuple(rank for rank in range(size) if rank not in flights)
    failures = [flight.failure for flight in flights.values() if flight.failure is not None]
    return Diagnosis(
        folder=path,
        size=size,
        flights=flights,
        missing=missing,
        failure=failures[0] if failures else None,
        difference=_difference(flights, missing),
        waits=_waits(flights, missing),
    )


def _attempt(path: pathlib.Path) -> int:
    number = re.search(r"\d+$", path.name)
    return int(number[0]) if number else -1


def _read(path: pathlib.Path) -> Flight:
    try:
        # An error's text may hold bytes that are no characters.
        found = json.loads(path.read_bytes().decode(errors="replace"))
        entries = tuple(FlightEntry(**entry) for entry in found.pop("entries"))
        found.pop("version")
        return Flight(**found, entries=entries)
    except (ValueError, TypeError, KeyError) as error:
        raise SmexValueError(
            f'diagnose: "{path}" is not a file that a process of this version wrote ({error})'
        ) from error


def _difference(flights: dict[int, Flight], missing: tuple[int, ...]) -> str | None:
    exchanges = {rank: flight.exchanges for rank, flight in flights.items()}
    positions = sorted(set().union(*exchanges.values()))
    for position in positions:
        by_text: dict[str, list[int]] = {}
        for rank, own in exchanges.items():
            if position in own:
                by_text.setdefault(own[position].text, []).append(rank)
        if len(by_text) > 1:
            told = "; ".join(f'"{text}" on {_ranks(ranks)}' for text, ranks in by_text.items())
            any_entry = next(own[position] for own in exchanges.values() if position in own)
            return (
                f"run {any_entry.run}, {any_entry.phase} exchange {any_entry.number} is {told}: "
                "the ranks run different programs"
            )
    if not positions:
        return None
    reached = {rank: max(own, default=(-1, -1, -1)) for rank, own in exchanges.items()}
    last, least = max(reached.values()), min(reached.values())
    if last != least:
        behind = [rank for rank, position in reached.items() if position == least]
        ahead = [rank for rank in reached if rank not in behind]
        first = min(p for rank in ahead for p in exchanges[rank] if p > least)
        entry = next(exchanges[rank][first] for rank in ahead if first in exchanges[rank])
        begun = [rank for rank in ahead if first in exchanges[rank]]
        return f"{_ranks(begun)} began {entry}, which {_ranks(behind)} did not"
    entry = next(iter(exchanges.values()))[last]
    waiting = [rank for rank, own in exchanges.items() if own[last].end is None]
    ended = [rank for rank in exchanges if rank not in waiting]
    if waiting and ended:
        return f"{entry} has ended on {_ranks(ended)} and not on {_ranks(waiting)}"
    if waiting and missing:
        return f"{_ranks(waiting)} were in {entry}; nothing is known of {_ranks(missing)}"
    return None


def _waits(flights: dict[int, Flight], missing: tuple[int, ...]) -> dict[int, tuple[int, ...]]:
    waits: dict[int, tuple[int, ...]] = {}
    for rank, flight in flights.items():
        entry = flight.current
        if entry is None or entry.end is not None or entry.kind != "exchange":
            continue
        if entry.peer is not None:
            waits[rank] = (entry.peer,)
            continue
        behind = [
            other
            for other, others in flights.items()
            if max(others.exchanges, default=(-1, -1, -1)) < entry.position
        ]
        waits[rank] = tuple(sorted([*behind, *missing]))
    return waits


def _ranks(ranks: tuple[int, ...] | list[int]) -> str:
    if not ranks:
        return ""
    names = [str(rank) for rank in ranks]
    if len(names) == 1:
        return f"rank {names[0]}"
    return f"ranks {', '.join(names[:-1])} and {names[-1]}"


def _counted(number: int, what: str) -> str:
    return f"{number} {what}" if number == 1 else f"{number} {what}s"
