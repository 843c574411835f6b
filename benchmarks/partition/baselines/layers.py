"""Operator placement: every layer runs on one device, and devices overlap."""

from __future__ import annotations

import heapq
import math
from collections.abc import Sequence

from baselines.estimates import Estimate, samples_of
from baselines.iteration import Iteration
from smex.errors import SmexValueError
from smex.planning.machine import Machine
from smex.planning.semantic import SemanticGraph


def op_placement(
    graph: SemanticGraph,
    machine: Machine,
    layers: Sequence[str],
    *,
    devices: int | None = None,
    optimizer_states: float = 0,
) -> Estimate:
    """Every layer runs on one device; layers on different devices overlap where data allows it.

    Tofu's Operator Placement: layers go to the devices in turn. A device runs the first call, in
    the captured order, whose operands have arrived; a tensor is sent once to each device that reads
    it and takes the latency and bandwidth of the slowest link among the devices, whatever else is
    sent. Calls outside of the layers run where the first of their operands was made, else on the
    first device. Inputs are everywhere. Gradients are kept to the end of the iteration.

    Args:
        graph: with the batch of all devices together.
        machine: as for `ideal`.
        layers: module paths in order, as `["cells.0", "cells.1"]`.
        devices: how many; by default the machine's workers.
        optimizer_states: as for `ideal`.

    Raises:
        SmexTypeError: no graph or no machine.
        SmexValueError: a layer without a call, or a number of devices that the machine has not.
    """
    iteration = Iteration(graph, machine, optimizer_states)
    devices = machine.workers if devices is None else devices
    if type(devices) is not int or not 1 <= devices <= machine.workers:
        raise SmexValueError(
            f"op_placement: expected 1 to {machine.workers} devices, found {devices!r}"
        )
    paths = {step.op.module_path for step in iteration.steps if step.op}
    for layer in layers:
        if not any(within(path, layer) for path in paths):
            raise SmexValueError(f'op_placement: no call belongs to a module "{layer}"')
    schedule = Schedule(iteration, layers, devices)
    schedule.run()
    return Estimate(
        "op_placement", max(schedule.free), samples_of(graph), schedule.peak(),
        schedule.moved_bytes, machine.memory,
    )  # fmt: skip


def within(path: str, layer: str) -> bool:
    """Whether a module's path is a layer's or lies below it."""
    return path == layer or path.startswith(f"{layer}.")


class Schedule:
    """Steps on several devices, each of which runs one at a time.

    Attributes:
        free: by device when it has finished.
        moved_bytes: between devices.
    """

    def __init__(self, iteration: Iteration, layers: Sequence[str], devices: int) -> None:
        self._iteration = iteration
        self._devices = devices
        self._steps = [*iteration.steps, *(update for update, _ in iteration.updates)]
        slowest = iteration.machine.links([devices] if devices > 1 else [])
        self._latency = max((link.latency for link in slowest), default=0.0)
        self._bandwidth = min((link.bandwidth for link in slowest), default=math.inf)
        self._producer = {
            value: n for n, step in enumerate(self._steps) if step.op for value in step.outputs
        }
        self.device = self._place(layers)
        self._home = self._homes()
        self.free = [0.0] * devices
        self.moved_bytes = 0.0
        self.finish = [0.0] * len(self._steps)
        self._start = [0.0] * len(self._steps)
        self._arrived: dict[tuple[int, int], float] = {}  # of a value on a device

    def run(self) -> None:
        """Runs all steps; a device takes the first in order that is ready."""
        readers: dict[int, list[int]] = {}
        missing = []
        for n, step in enumerate(self._steps):
            made = {self._producer[v] for v in step.inputs if v in self._producer}
            missing.append(len(made))
            for producer in made:
                readers.setdefault(producer, []).append(n)
        coming: list[list[tuple[float, int]]] = [[] for _ in self.free]
        ready: list[list[int]] = [[] for _ in self.free]
        for n, count in enumerate(missing):
            if count == 0:
                heapq.heappush(coming[self.device[n]], (self._operands_at(n), n))
        for _ in self._steps:
            starts = [
                self.free[d] if ready[d] else max(self.free[d], coming[d][0][0])
                for d in range(self._devices)
                if ready[d] or coming[d]
            ]
            owners = [d for d in range(self._devices) if ready[d] or coming[d]]
            now, d = min(zip(starts, owners, strict=True))
            while coming[d] and coming[d][0][0] <= now:
                heapq.heappush(ready[d], heapq.heappop(coming[d])[1])
            n = heapq.heappop(ready[d])
            self._start[n], self.finish[n] = now, now + self._steps[n].seconds
            self.free[d] = self.finish[n]
            for reader in readers.get(n, []):
                missing[reader] -= 1
                if missing[reader] == 0:
                    arrival = self._operands_at(reader)
                    heapq.heappush(coming[self.device[reader]], (arrival, reader))

    def peak(self) -> float:
        """Bytes of the fullest device over time."""
        return max(self._peak_of(d) for d in range(self._devices))

    def _place(self, layers: Sequence[str]) -> list[int]:
        device: list[int] = []
        for n, step in enumerate(self._steps):
            path = step.op.module_path if step.op else ""
            layer = next((i for i, name in enumerate(layers) if within(path, name)), None)
            made = [self._producer[v] for v in step.inputs if self._producer.get(v, n) < n]
            if layer is not None:
                device.append(layer % self._devices)
            else:
                device.append(device[made[0]] if made else 0)
        return device

    def _homes(self) -> dict[int, int]:
        """By value that no step makes the device of its first reader."""
        homes: dict[int, int] = {}
        for n, step in enumerate(self._steps):
            for value in step.inputs:
                if value not in self._producer:
                    homes.setdefault(value, self.device[n])
        return homes

    def _operands_at(self, n: int) -> float:
        """When all operands of a step are on its device; those elsewhere are sent."""
        latest = 0.0
        values = self._iteration.graph.captured.values
        for value in self._steps[n].inputs:
            made = self._producer.get(value)
            source = self._home[value] if made is None else self.device[made]
            at = 0.0 if made is None else self.finish[made]
            is_input = value < len(values) and values[value].role in ("input", "tangent")
            if source != self.device[n] and not is_input:
                key = (value, self.device[n])
                if key not in self._arrived:
                    nbytes = self._bytes(value)
                    self.moved_bytes += nbytes
                    self._arrived[key] = at + self._latency + nbytes / self._bandwidth
                at = self._arrived[key]
            latest = max(latest, at)
        return latest

    def _bytes(self, value: int) -> float:
        """Of the value itself, which of a view may be less than its storage's."""
        return self._iteration.nbytes[value]

    def _peak_of(self, device: int) -> float:
        """Bytes over time: what was made here, what was sent here, and what stays here."""
        iteration, end = self._iteration, max(self.free)
        born: dict[tuple[str, int], float] = {}
        dead: dict[tuple[str, int], float] = {}

        def alive(key: tuple[str, int], since: float, until: float) -> None:
            born[key] = min(born.get(key, since), since)
            dead[key] = max(dead.get(key, until), until)

        for n, step in enumerate(self._steps):
            for value in step.outputs if step.op else ():
                if self.device[n] == device:
                    storage = iteration.storage[value]
                    until = end if storage in iteration.kept else self.finish[n]
                    alive(("made", storage), self._start[n], until)
            for value in step.inputs:
                made = self._producer.get(value)
                source = self._home[value] if made is None else self.device[made]
                arrived = self._arrived.get((value, self.device[n]))
                if source == device and iteration.storage[value] not in iteration.stays:
                    sent = arrived is not None and self.device[n] != device
                    until = arrived if sent and arrived is not None else self.finish[n]
                    since = 0.0 if made is None else self._start[made]
                    alive(("made", iteration.storage[value]), since, until)
                elif self.device[n] == device and arrived is not None:
                    alive(("sent", value), arrived, self.finish[n])
        changes = []
        for key, since in born.items():
            if key[0] == "made" and key[1] in iteration.stays:
                continue  # a view of what stays
            changes += [(since, 1, iteration.nbytes[key[1]])]
            changes += [(dead[key], 0, -iteration.nbytes[key[1]])]
        peak = live = sum(
            iteration.nbytes[s] for s in iteration.stays if self._home.get(s) == device
        )
        for _, _, change in sorted(changes):
            live += change
            peak = max(peak, live)
        return peak
