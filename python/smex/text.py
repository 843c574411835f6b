"""Tables as text."""

from __future__ import annotations

from collections.abc import Sequence


def aligned(
    rows: Sequence[tuple[str, ...]], right: tuple[int, ...] = (), indent: str = "  "
) -> list[str]:
    """One line a row; the columns `right` are aligned to the right."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = []
    for row in rows:
        cells = [
            cell.rjust(width) if c in right else cell.ljust(width)
            for c, (cell, width) in enumerate(zip(row, widths, strict=True))
        ]
        lines.append(indent + "  ".join(cells).rstrip())
    return lines
