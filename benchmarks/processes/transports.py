"""Seconds and bandwidth of what can carry an exchange between two processes.

    python benchmarks/processes/transports.py [--rounds 200] [--threads 1] [--only Gloo]

Both processes send as many bytes as they receive, as workers that exchange tiles do. A round ends
for a process when it has received; the median of rank 0's rounds, its least, and the bytes that
one direction carries a second. All start from a tensor and end in a tensor:

* Gloo: `all_to_all_single` with sizes that are given; `isend` and `irecv` in both orders. A receive
  of Gloo tells the sender that it waits by a message in the same stream, which comes after the data
  of a send that was started before it: then one direction follows the other.
* shared memory: a copy into a file of /dev/shm, a copy out. "spinning" waits for the peer by
  reading a number in that file, "sleeping" by a byte through a pipe. "one copy" leaves out the
  first copy: the tensor already lies in the file.
* `process_vm_readv`: the kernel copies from the peer's tensor, wherever it lies; it refuses between
  processes of different owners, and where Yama is strict (process_vm_readv(2)).

Over links (see `emulate`) Gloo only, and beside it all_reduce of as many bytes, all_gather and
reduce_scatter of which each rank has as many bytes.
"""

from __future__ import annotations

import argparse
import ctypes
import mmap
import os
import pathlib
import statistics
import sys
import tempfile
import time
from collections.abc import Callable

import torch
import torch.distributed as dist
from emulate import emulated

SIZES = (4 * 1024, 64 * 1024, 2**20, 16 * 2**20)
LINKS = (None, "1gbit", "200mbit")
FLAGS = 4096  # bytes before the data: one cache line per rank
LINE = 64
WARM_UP = 3

Transports = dict[str, Callable[[], None]]


class Shared:
    """A file of /dev/shm: numbers that the ranks count up, then a tensor of each rank."""

    def __init__(self, path: str, rank: int, size: int) -> None:
        with pathlib.Path(path).open("a+b") as file:
            file.truncate(FLAGS + 2 * size)
            self.map = mmap.mmap(file.fileno(), FLAGS + 2 * size)
        numbers = memoryview(self.map)[:FLAGS].cast("q")
        self.mine, self.theirs = rank * LINE // 8, (1 - rank) * LINE // 8
        self.numbers = numbers
        data = torch.frombuffer(self.map, dtype=torch.uint8, offset=FLAGS)
        self.out, self.into = data[rank * size :][:size], data[(1 - rank) * size :][:size]

    def signal(self) -> None:
        """Tells the peer; stores become visible in the order in which x86 makes them."""
        self.numbers[self.mine] += 1

    def spin(self) -> None:
        """Until the peer has told as often as this rank."""
        numbers, theirs, count = self.numbers, self.theirs, self.numbers[self.mine]
        while numbers[theirs] < count:
            pass


class Vector(ctypes.Structure):
    """`struct iovec`."""

    _fields_ = (("base", ctypes.c_void_p), ("bytes", ctypes.c_size_t))


def gloo(rank: int, send: torch.Tensor, receive: torch.Tensor) -> Transports:
    """Exchanges by torch.distributed."""
    size, peer = send.numel(), 1 - rank
    split = [0, size] if rank == 0 else [size, 0]

    def all_to_all() -> None:
        dist.all_to_all_single(receive, send, split, split, async_op=True).wait()

    def send_first() -> None:
        works = [dist.isend(send, peer), dist.irecv(receive, peer)]
        for work in works:
            work.wait()

    def receive_first() -> None:
        works = [dist.irecv(receive, peer), dist.isend(send, peer)]
        for work in works:
            work.wait()

    return {
        "Gloo all_to_all_single": all_to_all,
        "Gloo isend, irecv": send_first,
        "Gloo irecv, isend": receive_first,
    }


def collectives(size: int) -> Transports:
    """What DDP and FSDP2 call, with so many bytes of each rank."""
    own, all_ = torch.zeros(size // 4), torch.zeros(2 * size // 4)
    return {
        "Gloo all_reduce": lambda: dist.all_reduce(own),
        "Gloo all_gather_into_tensor": lambda: dist.all_gather_into_tensor(all_, own),
        "Gloo reduce_scatter_tensor": lambda: dist.reduce_scatter_tensor(own, all_),
    }


def of_one_computer(
    rank: int, send: torch.Tensor, receive: torch.Tensor, folder: str
) -> Transports:
    """Exchanges that need a common memory, with what they need made before."""
    size = send.numel()
    shared = Shared(f"{folder}/{size}", rank, size)
    # Opened for both so that neither waits for the other to open it.
    pipes = [os.open(f"{folder}/to{r}", os.O_RDWR) for r in range(2)]
    libc = ctypes.CDLL(None, use_errno=True)
    there = [None, None]
    dist.all_gather_object(there, (os.getpid(), send.data_ptr()))
    peer, address = there[1 - rank]
    local, remote = Vector(receive.data_ptr(), size), Vector(address, size)

    def spinning() -> None:
        shared.out.copy_(send)
        shared.signal()
        shared.spin()
        receive.copy_(shared.into)

    def sleeping() -> None:
        shared.out.copy_(send)
        os.write(pipes[1 - rank], b"x")
        os.read(pipes[rank], 1)
        receive.copy_(shared.into)

    def one_copy() -> None:
        shared.signal()
        shared.spin()
        receive.copy_(shared.into)

    def process_vm_readv() -> None:
        shared.signal()
        shared.spin()
        got = libc.process_vm_readv(
            peer, ctypes.byref(local), 1, ctypes.byref(remote), 1, ctypes.c_ulong(0)
        )
        if got != size:
            error = os.strerror(ctypes.get_errno())
            raise OSError(f"process_vm_readv copied {got} of {size} bytes: {error}")

    return {
        "shared memory, spinning": spinning,
        "shared memory, sleeping": sleeping,
        "shared memory, one copy, spinning": one_copy,
        "process_vm_readv, spinning": process_vm_readv,
    }


def check(rank: int, name: str, run: Callable[[], None], receive: torch.Tensor) -> None:
    """Raises where the peer's bytes do not arrive."""
    receive.zero_()
    dist.barrier()
    run()
    dist.barrier()  # the peer has read before anything changes
    if not receive.eq(2 - rank).all():
        raise AssertionError(f"{name}: rank {rank} did not receive what rank {1 - rank} sent")


def worker(options: argparse.Namespace) -> None:
    """Measures as one of the two ranks; rank 0 prints."""
    torch.set_num_threads(options.threads)
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    for size in SIZES:
        send = torch.full((size,), rank + 1, dtype=torch.uint8)
        receive = torch.empty_like(send)
        exchanges = gloo(rank, send, receive)
        if options.link == "loopback":
            exchanges |= of_one_computer(rank, send, receive, options.worker)
        for name, run in exchanges.items():
            check(rank, name, run, receive)
        rounds = max(10, min(options.rounds, options.rounds * 2**20 // size))
        for name, run in (exchanges | collectives(size)).items():
            if options.only not in name:
                continue
            taken = []
            for _ in range(WARM_UP + rounds):
                dist.barrier()
                started = time.perf_counter()
                run()
                taken.append(time.perf_counter() - started)
            middle, least = statistics.median(taken[WARM_UP:]), min(taken[WARM_UP:])
            if rank == 0:
                print(
                    f"| {options.link} | {name} | {size // 1024} KiB | {middle * 1e6:.0f} µs | "
                    f"{least * 1e6:.0f} µs | {size / middle / 1e9:.3f} GB/s |",
                    flush=True,
                )
    dist.barrier()
    dist.destroy_process_group()


def main() -> None:
    """Prints a table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=200, help="at 1 MiB and less, on loopback")
    parser.add_argument("--threads", type=int, default=1, help="of each process")
    parser.add_argument("--only", default="", help="part of the names of the transports")
    parser.add_argument("--link", help=argparse.SUPPRESS)
    parser.add_argument("--worker", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.worker:
        worker(options)
        return
    print(f"torch {torch.__version__}, 2 processes of {options.threads} threads\n")
    print("| link | transport | bytes each way | median | least | one direction |")
    print("| --- | --- | ---: | ---: | ---: | ---: |", flush=True)
    for rate in LINKS:
        with tempfile.TemporaryDirectory(dir="/dev/shm") as folder, emulated(2, rate) as hosts:
            for rank in range(2):
                os.mkfifo(f"{folder}/to{rank}")
            rounds = options.rounds if rate is None else max(10, options.rounds // 20)
            flags = ["--rounds", str(rounds), "--threads", str(options.threads)]
            flags += ["--only", options.only, "--link", rate or "loopback", "--worker", folder]
            said = hosts.run([sys.executable, __file__, *flags], env={"OMP_NUM_THREADS": "1"})
            print(said[0], end="", flush=True)


if __name__ == "__main__":
    main()
