"""Seconds from a failure of one process to the named error on all others.

    python benchmarks/processes/failures.py [--ranks 4] [--trials 100] [--events killed stopped ...]

In each trial processes start to watch each other with the usual times, and after a random time one
of them, or the host of their store, meets with an event. Counted is, from just before it, the time
to the last of the others that knows. `killed` and `stopped` are SIGKILL and SIGSTOP, to a random
rank; `raised` is an error that a rank reports; `host killed` and `host stopped` hit rank 0 while it
hosts the store, `store killed` and `store stopped` a host that is no rank. With "apart" each
process is in a PID namespace of its own, as on a machine of its own, so that only the beats tell
(needs root).

The last lines count false alarms: ranks that hold Python's lock in C for 8 s, and `--ranks` ranks
that compute on all cores for that long, with nothing wrong.

Ends with an error where the wrong rank is named, somebody hears nothing or another failure, a false
alarm is raised, or a bar is missed: 5 s, 10 s for what is stopped.
"""

from __future__ import annotations

import argparse
import contextlib
import ctypes
import multiprocessing
import os
import random
import signal
import statistics
import sys
import time
from collections.abc import Iterator
from multiprocessing.connection import Connection
from typing import Any

import torch
import torch.distributed as dist

from smex.distributed.failure import watch

# Processes are forked from one that has imported everything and runs nothing.
multiprocessing.set_forkserver_preload(["smex.distributed.failure"])
CONTEXT = multiprocessing.get_context("forkserver")
GIVE_UP = 60.0
NEW_PID = 0x20000000
"""CLONE_NEWPID of unshare(2)."""

EVENTS = {
    "killed": ("gone", 5.0),
    "killed apart": ("silent", 5.0),
    "stopped": ("silent", 10.0),
    "stopped apart": ("silent", 10.0),
    "raised": ("raised", 5.0),
    "host killed": ("gone", 5.0),
    "host killed apart": ("store", 5.0),
    "host stopped": ("silent", 10.0),
    "host stopped apart": ("store", 10.0),
    "store killed": ("store", 5.0),
    "store stopped": ("store", 10.0),
}
"""What is to be told of each, and its bar in seconds."""


def be_rank(pipe: Connection, rank: int, size: int, port: int, hosts: bool, apart: bool) -> None:
    """Watches the others, says when it knows all of them, and then when it knows of a failure."""
    if apart:
        if ctypes.CDLL(None, use_errno=True).unshare(NEW_PID) != 0:
            raise OSError(ctypes.get_errno(), "unshare: PID namespaces need root")
        child = os.fork()
        if child != 0:
            pipe.send(child)  # its pid as seen from here
            os.waitpid(child, 0)
            return
    else:
        pipe.send(os.getpid())
    torch.set_num_threads(1)
    store = dist.TCPStore("127.0.0.1", port, None, hosts, wait_for_workers=False)
    if hosts:
        pipe.send(store.port)
    watcher = watch(store, rank, size)
    while not all(watcher.arrived(other) for other in range(size)):
        time.sleep(0.01)
    pipe.send("ready")
    while True:
        try:
            command = pipe.recv()
        except EOFError:
            os._exit(0)
        if command == "wait":
            failure = watcher.wait(GIVE_UP)
            pipe.send((time.monotonic(), failure and (failure.kind, failure.rank)))
        elif command == "raise":
            watcher.report("an error", "backward instruction 118 (fetch of layer3.weight)")
        elif command == "sleep in C":
            ctypes.PyDLL(None).usleep(8_000_000)  # PyDLL keeps Python's lock
            pipe.send(watcher.failure() and watcher.failure().message())
        elif command == "compute":
            end, matrix = time.monotonic() + 8, torch.rand(256, 256)
            while time.monotonic() < end:
                matrix = torch.softmax(matrix @ matrix, dim=0)
            pipe.send(watcher.failure() and watcher.failure().message())


def be_store(pipe: Connection) -> None:
    """Hosts a store until the other end closes."""
    store = dist.TCPStore("127.0.0.1", 0, None, True, wait_for_workers=False)
    pipe.send((os.getpid(), store.port))
    with contextlib.suppress(EOFError):
        pipe.recv()


@contextlib.contextmanager
def ranks(size: int, *, hosted: bool, apart: bool) -> Iterator[tuple[list[Any], list[int], int]]:
    """Connections and pids of ranks that know each other, and the pid of the store's host."""
    pipes, pids, processes = [], [], []
    store_pipe = None
    try:
        port = host = 0
        if not hosted:
            store_pipe, theirs = CONTEXT.Pipe()
            processes.append(CONTEXT.Process(target=be_store, args=(theirs,)))
            processes[-1].start()
            host, port = store_pipe.recv()
        for rank in range(size):
            ours, theirs = CONTEXT.Pipe()
            is_host = hosted and rank == 0
            arguments = (theirs, rank, size, port, is_host, apart)
            processes.append(CONTEXT.Process(target=be_rank, args=arguments))
            processes[-1].start()
            theirs.close()
            pipes.append(ours)
            pids.append(ours.recv())
            if is_host:
                host, port = pids[0], ours.recv()
        for pipe in pipes:
            assert pipe.recv() == "ready"
        yield pipes, pids, host
    finally:
        for pid in [*pids, *([host] if host else [])]:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        for process in processes:
            process.join()


def trial(event: str, size: int) -> float:
    """Seconds until all who are left know the right failure."""
    apart = event.endswith(" apart")
    what = event.removesuffix(" apart")
    with ranks(size, hosted=what.startswith("host"), apart=apart) as (pipes, pids, host):
        victim: int | None = random.randrange(size)
        if what.startswith("host"):
            victim = 0
        elif what.startswith("store"):
            victim = None
        others = [rank for rank in range(size) if rank != victim]
        for rank in others:
            pipes[rank].send("wait")
        time.sleep(random.uniform(0, 1))
        start = time.monotonic()
        if what == "raised":
            pipes[victim].send("raise")
        else:
            number = signal.SIGKILL if what.endswith("killed") else signal.SIGSTOP
            os.kill(host if victim is None else pids[victim], number)
        times = []
        for rank in others:
            known, failure = pipes[rank].recv()
            if failure != (EVENTS[event][0], victim):
                raise SystemExit(f"{event}: rank {rank} was told {failure}, not of {victim}")
            times.append(known - start)
        return max(times)


def false_alarms(command: str, size: int) -> int:
    """How many of the ranks have heard of a failure where there is none."""
    with ranks(size, hosted=False, apart=False) as (pipes, _, _):
        for pipe in pipes:
            pipe.send(command)
        return sum(pipe.recv() is not None for pipe in pipes)


def main() -> int:
    """Prints a line for each event."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--ranks", type=int, default=4)
    parser.add_argument("--trials", type=int, default=100, help="of kills; a fifth of the others")
    parser.add_argument("--events", nargs="*", choices=EVENTS, default=list(EVENTS))
    parser.add_argument("--alarms", type=int, default=8, help="ranks of the last lines, 0: none")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    random.seed(options.seed)
    os.environ.setdefault("TORCH_CPP_LOG_LEVEL", "ERROR")  # torch warns of each store that is lost
    failed = False
    print(f"{'event':<20} {'told as':<8} {'trials':>6} {'median':>9} {'max':>9} {'bar':>5}")
    for event in options.events:
        kind, bar = EVENTS[event]
        trials = options.trials if event == "killed" else max(1, options.trials // 5)
        times = [trial(event, options.ranks) for _ in range(trials)]
        failed |= max(times) > bar
        print(
            f"{event:<20} {kind:<8} {trials:>6} {statistics.median(times):>7.3f} s "
            f"{max(times):>7.3f} s {bar:>3.0f} s",
            flush=True,
        )
    if options.alarms:
        for command in ("sleep in C", "compute"):
            count = false_alarms(command, options.alarms)
            failed |= count > 0
            print(f"{options.alarms} ranks {command} for 8 s: {count} false alarms", flush=True)
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
