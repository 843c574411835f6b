"""What the workers of this computer compute and move in a second, measured."""

from __future__ import annotations

import abc
import concurrent.futures
import contextlib
import os
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch

from smex.distributed.world import synchronize

DTYPES = ("float16", "float32", "float64")
"""Of which matrix products are measured."""

_ROUND = 0.03
"""Seconds within which a round of measurements ends, unless it is of a single call."""
_ROUNDS = 5

Prepare = Callable[[], Callable[[], Any]]
"""Makes tensors, and returns what is called with them."""


@contextlib.contextmanager
def one_thread() -> Iterator[None]:
    """Has torch compute with one thread, as a worker on the CPU does."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)


class Rates(abc.ABC):
    """Rates of a worker while all do the same.

    Attributes:
        device: of the tensors.
        side: rows of a square matrix whose products take the device's whole strength.
        large: elements of a tensor that does not fit the caches.
        rows: of a table that sums are gathered from, of 256 bytes each.
        short: how often a call is repeated that takes no time.
    """

    device: torch.device
    side: int
    large: int
    rows: int
    short: int

    @abc.abstractmethod
    def seconds(self, prepare: Prepare, repeats: int) -> float:
        """Returns the median over rounds of the seconds of a call.

        A round is of `repeats` calls, or of as few as take `_ROUND` by the time of the first.
        """

    @abc.abstractmethod
    def memory(self) -> float:
        """Bytes of a worker."""

    def pace(self) -> float:
        """Seconds that pass for one of those that were measured."""
        return 1.0

    def numbers(self, *shape: int) -> torch.Tensor:
        """Of 4 bytes, whatever the user's defaults are."""
        return torch.rand(*shape, dtype=torch.float32, device=self.device)

    def flops(self, dtype: torch.dtype) -> float:
        """Operations a second of a matrix product."""
        n = self.side

        def prepare() -> Callable[[], Any]:
            a, b = self.numbers(n, n).to(dtype), self.numbers(n, n).to(dtype)
            return lambda: torch.mm(a, b)

        return 2 * n**3 / self.seconds(prepare, 8)

    def memory_bandwidth(self) -> float:
        """Bytes a second of an addition whose operands do not fit the caches.

        Its result is a new tensor, as those of a program are: the pages that it takes are part of
        what memory costs.
        """

        def prepare() -> Callable[[], Any]:
            a, b = self.numbers(self.large), self.numbers(self.large)
            return lambda: torch.add(a, b)

        return 3 * 4 * self.large / self.seconds(prepare, 4)

    def gather_bandwidth(self) -> float:
        """Bytes a second of sums over rows that are drawn from a table."""
        rows, width, degree = self.rows, 64, 16
        indptr = torch.arange(0, degree * rows + 1, degree, device=self.device)
        drawn = torch.Generator(self.device).manual_seed(0)

        def prepare() -> Callable[[], Any]:
            indices = torch.randint(rows, (degree * rows,), generator=drawn, device=self.device)
            table = self.numbers(rows, width)
            return lambda: torch.ops.smex.spmm([indptr, indices], [], "u0", "sum", [table])

        return 4 * width * degree * rows / self.seconds(prepare, 4)

    def launch(self) -> float:
        """Seconds of an addition of few elements."""

        def prepare() -> Callable[[], Any]:
            a = self.numbers(8)
            return lambda: torch.add(a, a)

        return self.seconds(prepare, self.short)


class ThreadRates(Rates):
    """Of `workers` threads that do the same at once, each on tensors of its own.

    They are told from what the processor computes, and from how much time passes meanwhile over all
    of it: where a process has a part of a processor only, by a quota or beside others, it stands
    still for longer than what is measured takes.
    """

    device = torch.device("cpu")
    side = 512
    large = 4 << 20
    rows = 1 << 15
    short = 2000

    def __init__(self, workers: int):
        self.workers = workers
        self._spent: list[tuple[float, float]] = []  # seconds of the processor, and that passed

    def seconds(self, prepare: Prepare, repeats: int) -> float:
        """Of the processor, in the slowest of all threads."""
        runs = [prepare() for _ in range(self.workers)]

        def loop(run: Callable[[], Any]) -> float:
            torch.set_num_threads(1)
            start = time.thread_time()
            run()
            first = time.thread_time() - start
            count = max(1, min(repeats, int(_ROUND / max(first, 1e-9))))
            started, start = time.perf_counter(), time.thread_time()
            for _ in range(count):
                run()
            spent = time.thread_time() - start
            self._spent.append((spent, time.perf_counter() - started))
            return spent / count

        with concurrent.futures.ThreadPoolExecutor(self.workers) as pool:
            rounds = sorted(max(pool.map(loop, runs)) for _ in range(_ROUNDS))
        return rounds[_ROUNDS // 2]

    def pace(self) -> float:
        """Seconds that pass for one of the processor's."""
        spent, passed = map(sum, zip(*self._spent, strict=True))
        return max(1.0, passed / spent)

    def memory(self) -> float:
        """An equal part of the main memory."""
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / self.workers

    def flops(self, dtype: torch.dtype) -> float:
        """Operations a second of a matrix product; of float16 those of bfloat16."""
        return super().flops(torch.bfloat16 if dtype is torch.float16 else dtype)

    def launch(self) -> float:
        """Seconds of an addition of few elements, with no other thread beside it."""
        return super().launch() if self.workers == 1 else ThreadRates(1).launch()

    def link(self) -> tuple[float, float]:
        """Latency, and the bytes a second that a worker receives from the others."""
        seconds, received = _exchange(self, [self.device] * self.workers)
        return _handover(), received / (seconds * self.pace())


class GpuRates(Rates):
    """Of the first of some GPUs, which are taken to be alike."""

    side = 4096
    large = 64 << 20
    rows = 1 << 17
    short = 500

    def __init__(self, devices: Sequence[torch.device]):
        self.devices = devices
        self.device = devices[0]

    def seconds(self, prepare: Prepare, repeats: int) -> float:
        """Of one of the calls that are queued, of the host's time and the device's the longer."""
        run = prepare()

        def round_of(count: int) -> float:
            for device in self.devices:
                synchronize(device)
            started = time.perf_counter()
            for _ in range(count):
                run()
            for device in self.devices:
                synchronize(device)
            return (time.perf_counter() - started) / count

        with torch.cuda.device(self.device):
            round_of(1)  # loads the kernel
            count = max(1, min(repeats, int(_ROUND / round_of(1))))
            return sorted(round_of(count) for _ in range(_ROUNDS))[_ROUNDS // 2]

    def memory(self) -> float:
        """Of the GPU."""
        return float(torch.cuda.get_device_properties(self.device).total_memory)

    def link(self) -> tuple[float, float]:
        """Latency, and the bytes a second that the first GPU receives from the others."""
        seconds, received = _exchange(self, self.devices)
        there = self.numbers(8).to(self.devices[-1])

        def prepare() -> Callable[[], Any]:
            here = torch.empty_like(there, device=self.device)
            return lambda: here.copy_(there)

        return self.seconds(prepare, self.short), received / seconds


def _exchange(rates: Rates, devices: Sequence[torch.device]) -> tuple[float, int]:
    """Returns the seconds of a gathering and a sum of tiles on devices, and the bytes received.

    As a program's fetches do it: into a new tensor, which the worker's own part is copied to as
    well. Half of the bytes are gathered, half are summed.
    """
    parts = [rates.numbers(rates.large // 2).to(device) for device in devices]
    received = 2 * 4 * sum(part.numel() for part in parts[1:] or parts)

    def gather() -> None:
        whole = parts[0].new_empty(len(parts), parts[0].numel())
        for row, part in zip(whole, parts, strict=True):
            row.copy_(part)

    def reduce() -> None:
        whole = torch.empty_like(parts[0]).copy_(parts[0])
        for part in parts[1:]:
            whole.add_(part.to(whole.device))

    return rates.seconds(lambda: gather, 4) + rates.seconds(lambda: reduce, 4), received


def _handover() -> float:
    """Seconds until a waiting thread goes on after another has called it."""
    here, there = threading.Semaphore(0), threading.Semaphore(0)
    count = 500

    def other() -> None:
        for _ in range(count):
            there.acquire()
            here.release()

    thread = threading.Thread(target=other)
    thread.start()
    start = time.perf_counter()
    for _ in range(count):
        there.release()
        here.acquire()
    seconds = time.perf_counter() - start
    thread.join()
    return seconds / count / 2
