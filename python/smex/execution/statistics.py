"""What several processes measured, as one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any


def merged_stats(stats: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Returns the statistics of a run whose workers were in several processes.

    What is counted is added, worker by worker or key by key; a phase takes as long as in the
    process where it took longest.
    """
    first, *others = stats
    merged = dict(first)
    for other in others:
        for key, value in other.items():
            if isinstance(value, dict):
                merged[key] = {k: merged[key].get(k, 0) + v for k, v in value.items()} | {
                    k: v for k, v in merged[key].items() if k not in value
                }
            elif isinstance(value, list):
                merged[key] = [a + b for a, b in zip(merged[key], value, strict=True)]
            else:
                merged[key] = max(merged[key], value)
    return merged
