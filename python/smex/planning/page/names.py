"""Names that differ in numbers only, written as one: `layer3.{1..35}.conv2.weight`."""

from __future__ import annotations

import re
from collections.abc import Hashable, Iterable
from typing import TypeVar

K = TypeVar("K", bound=Hashable)
_Parts = tuple["str | tuple[int, ...]", ...]


def collapse(rows: Iterable[tuple[str, K]]) -> list[tuple[str, K, list[str]]]:
    """Joins rows of equal keys whose names differ in whole numbers between dots.

    Each group is all combinations of the numbers that its name shows. Groups come in the order of
    their first names.

    Returns:
        For each group its name, the key, and the names that it stands for.
    """
    groups: dict[tuple[_Parts, K], list[str]] = {}
    for name, key in rows:
        groups.setdefault((_split(name), key), []).append(name)
    longest = max((len(parts) for parts, _ in groups), default=0)
    for position in range(longest):
        groups = _merged(groups, position)
    return [(_joined(parts), key, names) for (parts, key), names in groups.items()]


def _split(name: str) -> _Parts:
    return tuple(
        (int(part),) if part.isdecimal() and str(int(part)) == part else part
        for part in name.split(".")
    )


def _merged(groups: dict[tuple[_Parts, K], list[str]], position: int) -> dict:
    """Groups that differ in the numbers at one position only become one."""
    merged: dict[tuple, list[tuple[tuple[int, ...], list[str]]]] = {}
    for (parts, key), names in groups.items():
        part = parts[position] if position < len(parts) else ""
        if isinstance(part, str):
            merged.setdefault((parts, None, key), []).append(((), names))
        else:
            merged.setdefault((parts[:position], parts[position + 1 :], key), []).append(
                (part, names)
            )
    found = {}
    for (head, tail, key), members in merged.items():
        numbers = tuple(sorted(n for part, _ in members for n in part))
        parts = head if tail is None else (*head, numbers, *tail)
        found[parts, key] = [name for _, names in members for name in names]
    return found


def _joined(parts: _Parts) -> str:
    return ".".join(part if isinstance(part, str) else numbers_words(part) for part in parts)


def machine_words(machine: object) -> str:
    """Returns a machine or cluster as a sentence has it, without the name of its class."""
    found = re.fullmatch(r"[A-Z]\w*\((.*)\)", str(machine))
    return found.group(1) if found else str(machine)


def numbers_words(numbers: tuple[int, ...]) -> str:
    """`7` or `{0,2..5}` for ascending numbers."""
    if len(numbers) == 1:
        return str(numbers[0])
    runs: list[list[int]] = []
    for n in numbers:
        if runs and n == runs[-1][-1] + 1:
            runs[-1].append(n)
        else:
            runs.append([n])
    words = (str(run[0]) if len(run) == 1 else f"{run[0]}..{run[-1]}" for run in runs)
    return "{" + ",".join(words) + "}"
