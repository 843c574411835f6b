"""Operators on like devices, first come first served, and where to place them."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

import numpy as np

from smex._C import Dataflow as _Dataflow
from smex.cluster.progress import Bar
from smex.errors import SmexValueError

SEARCHES = ("anneal", "random")


class Dataflow:
    """Operators that read each other's results, on devices that are alike.

    An operator is ready when the results that it reads are on its device. A device does what is
    ready one after the other, first come, first served; when an operator ends, its result is on its
    way to all who read it elsewhere at once. The rules, and the order of what happens at the same
    time, are those of DOPPLER's simulator (Yao et al., ICLR 2026).

    Args:
        compute: seconds of each operator.
        transfer: seconds to move each operator's result to another device.
        edges: pairs of operators, the second of which reads the first one's result.
        devices: how many there are.

    Raises:
        SmexValueError: numbers that are of no operator, times that are negative, or a ring.

    Example:
        >>> import smex.cluster
        >>> graph = smex.cluster.Dataflow([2, 3, 4, 1], [1] * 4, [(0, 1), (0, 2), (1, 3)], 2)
        >>> graph.makespan([0, 0, 0, 0]), graph.makespan([0, 1, 0, 1])
        (10.0, 7.0)
        >>> graph.place(calls=200).makespan
        7.0
    """

    def __init__(
        self,
        compute: Sequence[float],
        transfer: Sequence[float],
        edges: Sequence[tuple[int, int]],
        devices: int,
    ) -> None:
        self.devices = devices
        self._native = _Dataflow(devices, list(compute), list(transfer), [(a, b) for a, b in edges])
        self._num_edges = len(edges)

    def __len__(self) -> int:
        return len(self._native)

    def __repr__(self) -> str:
        return f"Dataflow({len(self)} operators, {self._num_edges} edges, {self.devices} devices)"

    def makespan(self, placement: Sequence[int]) -> float:
        """Returns when the last result has arrived, with the device of each operator.

        Raises:
            SmexValueError: not a device for each operator.
        """
        numbers: Any = np.asarray(placement, dtype=np.int32)
        return float(self._native.makespan(numbers))

    def place(
        self,
        calls: int = 20_000,
        start: Sequence[int] | None = None,
        seed: int = 0,
        search: str = "anneal",
        verbose: bool = False,
    ) -> Placement:
        """Returns the best placement that a search has found.

        Args:
            calls: of the simulator, at most.
            start: where the search begins; by default all operators are on one device.
            seed: of what is drawn; the same one finds the same placement.
            search: "anneal", which moves operators with those around them, or "random", which draws
                all of them each time, to compare with.
            verbose: whether a bar tells the best time so far (where tqdm is installed).

        Raises:
            SmexValueError: not such a search, or not a device for each operator.
        """
        if search not in SEARCHES:
            raise SmexValueError(f"place: expected search to be of {SEARCHES}, found {search!r}")
        if not isinstance(calls, (int, np.integer)) or isinstance(calls, bool) or calls < 1:
            raise SmexValueError(f"place: expected 1 call or more, found {calls!r}")
        given = np.zeros(len(self), dtype=np.int32) if start is None else start
        first = np.asarray(given, dtype=np.int32)
        with Bar(calls, verbose, "place") as bar:
            if search == "random":
                return self._drawn(calls, first, seed, bar)
            found = self._native.anneal(first.tolist(), calls, seed, bar.told)
        return Placement(found.devices.tolist(), float(found.makespan), int(found.calls))

    def _drawn(self, calls: int, first: np.ndarray, seed: int, bar: Bar) -> Placement:
        best = Placement(first.tolist(), self.makespan(first.tolist()), 1)
        rng = random.Random(seed)
        for call in range(2, calls + 1):
            drawn = [rng.randrange(self.devices) for _ in range(len(self))]
            seconds = self.makespan(drawn)
            if seconds < best.makespan:
                best = Placement(drawn, seconds, call)
            if call % 1024 == 0:
                bar.told(call, best.makespan)
        return Placement(best.devices, best.makespan, calls)


class Placement:
    """Where operators are, and how long that takes.

    Attributes:
        devices: of each operator.
        makespan: in seconds.
        calls: of the simulator that the search has made.
    """

    def __init__(self, devices: list[int], makespan: float, calls: int) -> None:
        self.devices, self.makespan, self.calls = devices, makespan, calls

    def __repr__(self) -> str:
        return f"Placement({self.makespan:.4g} s, {self.calls:,} calls)"
