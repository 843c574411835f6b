"""Numbers, cuts and tables as text."""

from __future__ import annotations

import difflib
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


def near_words(name: object, names: Iterable[object]) -> str:
    """`; did you mean 'a' or 'b'?` with up to three names that are like one, else nothing."""
    known = {str(one): one for one in names}
    near = difflib.get_close_matches(str(name), known, n=3, cutoff=0.7)
    return f"; did you mean {' or '.join(repr(known[one]) for one in near)}?" if near else ""


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
