"""How the processes of a group hear that one of them has failed."""

from __future__ import annotations

import atexit
import multiprocessing.util
import os
import sys
import weakref

from torch.distributed.distributed_c10d import PrefixStore, Store

from smex._C import Watcher

__all__ = ["watch"]


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


def _end(reference: weakref.ref[Watcher], owner: int) -> None:
    """Tells the others how this process ends, before the watcher says goodbye by itself."""
    watcher = reference()
    if watcher is None or owner != os.getpid() or hasattr(sys, "ps1"):
        return
    # What passes through multiprocessing at this moment, or what the interpreter has printed last.
    error = sys.exc_info()[1] or getattr(sys, "last_value", None)
    if isinstance(error, SystemExit) and not error.code:
        error = None
    if error is not None:
        watcher.report(f"{type(error).__name__}: {error}")
    watcher.leave()
