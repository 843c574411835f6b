"""Numbers, cuts and tables as text."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from smex._C import coordinate_of, cut_of, is_only, weighting_of


def aligned(
    rows: Sequence[tuple[str, ...]], right: tuple[int, ...] = (), indent: str = "  "
) -> list[str]:
    """Returns one line a row; the columns `right` are aligned to the right."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = []
    for row in rows:
        cells = [
            cell.rjust(width) if c in right else cell.ljust(width)
            for c, (cell, width) in enumerate(zip(row, widths, strict=True))
        ]
        lines.append(indent + "  ".join(cells).rstrip())
    return lines


def folded(rows: Sequence[tuple[str, ...]]) -> list[tuple[str, ...]]:
    """Returns rows in which those of repeated blocks are one: `layers.[0-11].fc.weight`.

    Rows are of one where the other cells are equal and the names, in the first cell, differ in one
    number between dots, of which there are three or more in a row.
    """
    found = [tuple(row) for row in rows]
    depth = max((row[0].count(".") for row in found), default=0)
    for place in range(depth, -1, -1):  # the inner ones first
        found = _folded_at(found, place)
    return found


def _folded_at(rows: list[tuple[str, ...]], place: int) -> list[tuple[str, ...]]:
    numbers_of: dict[Any, set[int]] = {}
    keys: list[Any] = []
    for row in rows:
        words = row[0].split(".")
        if place >= len(words) or not words[place].isdecimal():
            keys.append(None)
            continue
        keys.append(((*words[:place], None, *words[place + 1 :]), row[1:]))
        numbers_of.setdefault(keys[-1], set()).add(int(words[place]))
    found = []
    for row, key in zip(rows, keys, strict=True):
        if key is None:
            found.append(row)
            continue
        words = row[0].split(".")
        first = last = number = int(words[place])
        while first - 1 in numbers_of[key]:
            first -= 1
        while last + 1 in numbers_of[key]:
            last += 1
        if last - first < 2:
            found.append(row)
        elif number == first:
            words[place] = f"[{first}-{last}]"
            found.append((".".join(words), *row[1:]))
    return found


def size_words(nbytes: float) -> str:
    """Bytes for people: 1.5 MiB."""
    if nbytes < 1024:
        return f"{nbytes:.0f} B"
    for unit in ("KiB", "MiB"):
        nbytes /= 1024
        if nbytes < 1024:
            return f"{nbytes:.1f} {unit}"
    return f"{nbytes / 1024:.1f} GiB"


def duration_words(seconds: float) -> str:
    """Seconds for people: 1.5 ms."""
    for unit in ("s", "ms"):
        if seconds >= 1:
            return f"{seconds:.3g} {unit}"
        seconds *= 1000
    return f"{seconds:.3g} µs"


def shape_words(shape: Sequence[int]) -> str:
    """Sizes of the dimensions: 640×3×7×7."""
    return "×".join(map(str, shape)) or "scalar"


def mesh_words(mesh: Iterable[int]) -> str:
    """Returns the steps as text: `2×2`."""
    return "×".join(map(str, mesh)) or "1"


def placement_words(
    placement: Sequence[int], mesh: Sequence[int], weightings: Sequence[str] = ()
) -> str:
    """`S0/2@speed R/2`: cut along dimension 0 by 2 in such proportions, then replicated by 2.

    `W1/2` is held by number 1 of 2 only.
    """
    words = [
        f"{cut_words(choice)}/{parts}{_proportions(choice, weightings)}"
        for choice, parts in zip(placement, mesh, strict=True)
    ]
    return " ".join(words) or "whole"


def cut_words(choice: int) -> str:
    """Returns `S0` for a cut along dimension 0, `R` for replicas, `W1` for worker 1 alone."""
    if is_only(choice):
        return f"W{coordinate_of(choice)}"
    return "R" if choice < 0 else f"S{cut_of(choice)}"


def _proportions(choice: int, weightings: Sequence[str]) -> str:
    """`@` and the name of what a cut is weighted by; nothing where it is even."""
    number = weighting_of(choice)
    if number == 0:
        return ""
    return f"@{weightings[number - 1] if number <= len(weightings) else f'w{number}'}"


_UNSPLIT = {-1: "repeat", -2: "addends"}  # what an op does that no step splits


def strategy_words(spec: Any, choices: Sequence[int]) -> str:
    """Returns the index of a Spec along which each step splits an op: `i·k`."""
    return "·".join(_split_words(spec, choice) for choice in choices) or "unsplit"


def _split_words(spec: Any, choice: int) -> str:
    if is_only(choice):
        return cut_words(choice)
    return _UNSPLIT.get(choice) or spec.indices[cut_of(choice)].name
