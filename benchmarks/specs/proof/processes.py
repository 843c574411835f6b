"""Many short tasks, each in a process of its own: some end it, and some never end."""

from __future__ import annotations

import multiprocessing
import time
import traceback
import warnings
from collections.abc import Callable, Iterator, Sequence
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, NamedTuple

import torch
from tqdm.auto import tqdm


class Outcome(NamedTuple):
    """What came of a task: a value, or why there is none."""

    item: Any
    value: Any
    error: str


def describe(error: Exception) -> str:
    """An error's kind, text and line."""
    line = traceback.extract_tb(error.__traceback__)[-1]
    return f"{type(error).__name__}: {error} ({Path(line.filename).name}:{line.lineno})"


def _child(connection: Connection, function: Callable[[Any], Any], item: Any) -> None:
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    try:
        connection.send(Outcome(item, function(item), ""))
    except Exception as error:
        connection.send(Outcome(item, None, describe(error)))


class _Running:
    def __init__(self, function: Callable[[Any], Any], item: Any, max_seconds: float):
        context = multiprocessing.get_context("fork")
        self._item = item
        self._start = time.time()
        self._max_seconds = max_seconds
        self._receiver, sender = context.Pipe(duplex=False)
        self._process = context.Process(target=_child, args=(sender, function, item))
        self._process.start()
        sender.close()

    def outcome(self) -> Outcome | None:
        """None while it runs."""
        result = None
        if self._receiver.poll(0.01):
            try:
                result = self._receiver.recv()
            except EOFError:
                self._process.join()
                error = f"its process ended with status {self._process.exitcode}"
                result = Outcome(self._item, None, error)
        elif time.time() - self._start > self._max_seconds:
            self._process.kill()
            result = Outcome(self._item, None, f"stopped after {self._max_seconds:.0f} s")
        if result is not None:
            self._process.join()
            self._receiver.close()
        return result


def run_each(
    function: Callable[[Any], Any],
    items: Sequence[Any],
    title: str,
    processes: int = 2,
    max_seconds: float = 60,
) -> Iterator[Outcome]:
    """Runs a function on items side by side, in forked processes, and yields as they end.

    Args:
        function: what it returns is pickled; anything that is defined may be used.
        items: its arguments.
        title: for the progress bar.
        processes: so many at a time.
        max_seconds: for one of them.
    """
    waiting = list(reversed(items))
    running: list[_Running] = []
    with tqdm(total=len(items), desc=title, disable=None) as bar:
        while waiting or running:
            while waiting and len(running) < processes:
                running.append(_Running(function, waiting.pop(), max_seconds))
            for one in list(running):
                outcome = one.outcome()
                if outcome is not None:
                    running.remove(one)
                    bar.update()
                    yield outcome
