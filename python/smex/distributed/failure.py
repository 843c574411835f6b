"""How the processes of a group hear that one of them has failed."""

from __future__ import annotations

import atexit
import contextlib
import multiprocessing.util
import os
import pathlib
import queue
import sys
import threading
import weakref
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from torch.distributed.distributed_c10d import PrefixStore, Store

from smex._C import Recorder, Watcher
from smex.errors import RankFailure, SmexError

__all__ = ["record_at_end", "unless_failed", "watch"]

Result = TypeVar("Result")


def watch(
    store: Store,
    rank: int,
    size: int,
    *,
    interval: float = 0.5,
    limit: float = 4.0,
    arrival: float = 300.0,
) -> Watcher:
    """Starts to watch the other processes, which each make the same call.

    A process that ends by an exception tells the others which one, another that ends in good
    order says goodbye. Returns at once.

    Args:
        store: of ``torch.distributed``: a ``TCPStore``, a ``FileStore`` or a ``HashStore``,
            in a ``PrefixStore`` of this group's own where there are several.
        rank: of this process, from 0.
        size: number of processes.
        interval: seconds between two signs of life.
        limit: seconds without one after which a rank has failed; at least 3 intervals. Those on
            the machine of a process that is killed know at once. A store fails where it does not
            answer for twice as long.
        arrival: seconds within which all are to come.

    Raises:
        SmexValueError: for other stores and times, and ranks that are not below `size`.
    """
    own = PrefixStore("watcher", store)
    watcher = Watcher(own, rank, size, interval=interval, limit=limit, arrival=arrival)
    arguments = weakref.ref(watcher), os.getpid()
    atexit.register(_end, *arguments)
    if multiprocessing.parent_process() is not None:  # such a process ends without atexit
        multiprocessing.util.Finalize(None, _end, arguments, exitpriority=0)
    return watcher


def record_at_end(watcher: Watcher, recorder: Recorder, folder: pathlib.Path | None) -> None:
    """Has a process that ends after a failure write its last instructions.

    Those that wait for others write them when they hear of it, see `Communicator`.

    Args:
        watcher: knows of the failure.
        recorder: of the instructions.
        folder: where they are written; None: nowhere.
    """
    if folder is not None:
        _RECORDS[watcher] = recorder, folder


def unless_failed(
    watcher: Watcher, do: Callable[[], Result], awaited: Callable[[], Sequence[int]] = tuple
) -> Result:
    """Returns what a function returns, or leaves it when another process fails meanwhile.

    For calls of torch that nobody can leave: those of a store whose host is stopped, and groups
    whose members do not come. The function runs on a thread of its own; after a failure it may
    hang there to the end of the process.

    Args:
        watcher: tells of failures.
        do: what waits for other processes.
        awaited: returns the ranks that it waits for at the moment.

    Raises:
        RankFailure: a process has failed, or the function has raised an error of torch's, which
            may follow from that.
    """
    answers: queue.SimpleQueue[tuple[Any, BaseException | None]] = queue.SimpleQueue()

    def run() -> None:
        try:
            answers.put((do(), None))
        except BaseException as error:  # raised below, by whoever waits
            answers.put((None, error))

    threading.Thread(target=run, name="smex.waits", daemon=True).start()
    while True:
        try:
            result, error = answers.get(timeout=_LOOK)
            break
        except queue.Empty:
            watcher.check(awaited())
    if error is None:
        return result
    if isinstance(error, RuntimeError) and not isinstance(error, SmexError):
        watcher.settle(f"{type(error).__name__}: {error}")
        watcher.check()
    raise error


_RECORDS: weakref.WeakKeyDictionary[Watcher, tuple[Recorder, pathlib.Path]] = (
    weakref.WeakKeyDictionary()
)
_LOOK = 0.05
"""Seconds between two looks for a failure."""


def _end(reference: weakref.ref[Watcher], owner: int) -> None:
    """Tells the others how this process ends, before the watcher says goodbye by itself."""
    watcher = reference()
    if watcher is None or owner != os.getpid() or hasattr(sys, "ps1"):
        return
    # What passes through multiprocessing at this moment, or what the interpreter has printed last.
    error = sys.exc_info()[1] or getattr(sys, "last_value", None)
    if isinstance(error, SystemExit) and not error.code:
        error = None
    if isinstance(error, RankFailure) and error.rank is not None:  # whose fault it is
        watcher.report(error.original, rank=error.rank)
    elif error is not None:
        watcher.report(f"{type(error).__name__}: {error}")
    failure = watcher.failure()
    if failure is not None and watcher in _RECORDS:
        recorder, folder = _RECORDS[watcher]
        with contextlib.suppress(SmexError):  # on the way of the error that matters
            recorder.dump(str(folder), watcher.rank, watcher.size, failure)
    watcher.leave()
