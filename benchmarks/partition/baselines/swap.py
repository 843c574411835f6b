"""Swapping: a worker keeps in the host's memory what has no room in its own."""

from __future__ import annotations

import heapq
import math

from baselines.estimates import Estimate, samples_of
from baselines.iteration import Iteration, Step
from smex.errors import SmexValueError
from smex.planning.machine import GB, Machine
from smex.planning.semantic import SemanticGraph

HOST_BANDWIDTH = 10 * GB
"""Bytes a second between the host's memory and all GPUs of Tofu's testbed together (§7.1)."""


def swapping(
    graph: SemanticGraph,
    machine: Machine,
    *,
    optimizer_states: float = 0,
    host_bandwidth: float = HOST_BANDWIDTH,
    policy: str = "belady",
) -> Estimate:
    """Every worker runs the graph's whole batch and keeps in the host's memory what has no room.

    Tofu's Swapping: any tensor may be swapped; one whose copy on the host is still right is dropped
    rather than copied again; copies are prefetched, so that an iteration takes the longer of its
    calls and of its copies. Copies in and copies out run at the same time. The host's bandwidth is
    shared by all workers. A parameter is updated as soon as its gradient is complete and the
    gradient is dropped then, which asks for the fewest copies. Counted is an iteration that follows
    another.

    Args:
        graph: as for `ideal`.
        machine: as for `ideal`.
        optimizer_states: as for `ideal`.
        host_bandwidth: bytes a second between the host and all workers, each way.
        policy: what goes first when room is needed: "lru", the tensor whose last use is the longest
            ago, or "belady", the one whose next use is the farthest ahead. Tofu's swaps by last use
            but for tensors needed soon, which lies between the two.

    Returns:
        The estimate; its peak is what was resident at most. Where the tensors of a single call
        exceed a worker's memory it is their bytes, so that the estimate does not fit.

    Raises:
        SmexTypeError: no graph or no machine.
        SmexValueError: unknown policy, or a bandwidth that is not above 0.
    """
    if policy not in ("belady", "lru"):
        raise SmexValueError(f'swapping: unknown policy "{policy}"; known are "belady" and "lru"')
    if not host_bandwidth > 0:
        raise SmexValueError(
            f"swapping: expected a host_bandwidth of more than 0, found {host_bandwidth!r}"
        )
    iteration = Iteration(graph, machine, optimizer_states)
    steps = iteration.with_updates()
    needed = max(
        (sum(iteration.nbytes[s] for s in iteration.storages(step)) for step in steps), default=0
    )
    swap = Swap(iteration, steps, max(machine.memory, needed), policy)
    swap.run()
    swap.brought = swap.written = 0
    swap.run()
    copying = max(swap.brought, swap.written) * machine.workers / host_bandwidth
    return Estimate(
        "swapping",
        max(sum(step.seconds for step in steps), copying),
        samples_of(graph) * machine.workers,
        swap.peak,
        (swap.brought + swap.written) * machine.workers,
        machine.memory,
    )


class Swap:
    """A device's memory while the steps of an iteration run, one iteration after the other.

    Attributes:
        brought: bytes copied from the host.
        written: bytes copied to the host.
        peak: bytes resident at most.
    """

    def __init__(
        self, iteration: Iteration, steps: list[Step], capacity: float, policy: str
    ) -> None:
        self._iteration, self._steps = iteration, steps
        self._capacity, self._belady = capacity, policy == "belady"
        self._nbytes = iteration.nbytes
        self._touched = [sorted(iteration.storages(step)) for step in steps]
        self._last = iteration.last_uses(steps)
        self._resident: dict[int, float] = {}  # storage: its key, the smallest goes first
        self._queue: list[tuple[float, int]] = []
        self._host: set[int] = set()  # storages whose copy on the host is right
        self._used = self.peak = self.brought = self.written = 0.0
        self._clock = 0
        gradients = {iteration.storage[update.inputs[0]] for update, _ in iteration.updates}
        self._until_end = iteration.kept - gradients - iteration.stays
        self._lasting = self._until_end | iteration.stays
        self._next = self._next_uses()

    def run(self) -> None:
        """One iteration; what stays is where the one before has left it."""
        for position, step in enumerate(self._steps):
            touched = self._touched[position]
            for storage in touched:
                if storage not in self._resident:
                    self._bring(storage, set(touched))
            self.peak = max(self.peak, self._used)
            written = {self._iteration.storage[value] for value in step.outputs}
            self._host -= written
            for storage, following in zip(touched, self._next[position], strict=True):
                key = -(self._clock + following) if self._belady else self._clock
                self._resident[storage] = key
                heapq.heappush(self._queue, (key, storage))
            self._clock += 1
            for storage in touched:
                if self._last[storage] == position and storage not in self._lasting:
                    self._drop(storage)
        for storage in self._until_end:
            self._drop(storage)

    def _bring(self, storage: int, pinned: set[int]) -> None:
        aside = []
        while self._used + self._nbytes[storage] > self._capacity and self._queue:
            entry = heapq.heappop(self._queue)
            key, victim = entry
            if self._resident.get(victim) != key:
                continue  # dropped, or touched again since
            if victim in pinned:
                aside.append(entry)
                continue
            if victim not in self._host:
                self.written += self._nbytes[victim]
                self._host.add(victim)
            self._used -= self._nbytes[victim]
            del self._resident[victim]
        for entry in aside:
            heapq.heappush(self._queue, entry)
        if storage in self._host:
            self.brought += self._nbytes[storage]
        self._used += self._nbytes[storage]
        self._resident[storage] = -math.inf

    def _drop(self, storage: int) -> None:
        self._host.discard(storage)
        if storage in self._resident:
            del self._resident[storage]
            self._used -= self._nbytes[storage]

    def _next_uses(self) -> list[list[int]]:
        """By step and touched storage in how many steps it is touched again."""
        count = len(self._steps)
        upcoming: dict[int, int] = {}
        for position in reversed(range(count)):
            for storage in self._touched[position]:
                if storage in self._iteration.stays:
                    upcoming[storage] = position + count  # in the next iteration
        found: list[list[int]] = [[] for _ in range(count)]
        for position in reversed(range(count)):
            for storage in self._touched[position]:
                found[position].append(upcoming.get(storage, 2 * count) - position)
                upcoming[storage] = position
        return found
