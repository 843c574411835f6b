"""Seconds and memory of a search, for the benchmarks beside this file."""

from __future__ import annotations

import ctypes
import pathlib
import re
import statistics
from collections.abc import Callable


def words(seconds: list[float]) -> str:
    """Median [min, max]."""
    return f"{statistics.median(seconds):.3f} s [{seconds[0]:.3f}, {seconds[-1]:.3f}]"


def status(key: str) -> int:
    """Bytes that /proc/self/status tells: VmRSS, VmHWM."""
    text = pathlib.Path("/proc/self/status").read_text()
    return int(re.search(rf"{key}:\s+(\d+) kB", text)[1]) * 1024


def added_memory(run: Callable[[], object]) -> int:
    """Bytes by which the process grows at most while `run` runs."""
    ctypes.CDLL(None).malloc_trim(0)  # what capture has freed goes back
    pathlib.Path("/proc/self/clear_refs").write_text("5")  # the peak starts anew (proc(5))
    before = status("VmRSS")
    run()
    return status("VmHWM") - before
