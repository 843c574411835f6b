"""Numbers, cuts and tables as text."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any


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


def placement_words(placement: Sequence[int], mesh: Sequence[int]) -> str:
    """`S0/2 R/2`: cut along dimension 0 by 2, then replicated by 2."""
    return (
        " ".join(
            f"R/{k}" if dim < 0 else f"S{dim}/{k}" for dim, k in zip(placement, mesh, strict=True)
        )
        or "whole"
    )


_UNSPLIT = {-1: "repeat", -2: "addends"}  # what an op does that no step splits


def strategy_words(spec: Any, choices: Sequence[int]) -> str:
    """Returns the index of a Spec along which each step splits an op: `i·k`."""
    names = [_UNSPLIT.get(choice) or spec.indices[choice].name for choice in choices]
    return "·".join(names) or "unsplit"
