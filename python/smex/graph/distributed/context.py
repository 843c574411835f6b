"""The processes that work on one graph: who they are, and what each has for the others."""

from __future__ import annotations

import atexit
import contextlib
import itertools
import os
import pathlib
import secrets
import sys
import tempfile
import time
from collections.abc import Callable
from typing import Any, TypeVar

import torch
import torch.distributed as dist
from torch import Tensor

from smex.distributed.failure import unless_failed
from smex.distributed.outcomes import together
from smex.distributed.world import World, init_processes, members_of_default
from smex.errors import SmexRuntimeError
from smex.graph.distributed.messages import Asker, Part, Service, own_address

__all__ = ["exit_client", "initialize", "is_initialized"]

Result = TypeVar("Result")

_TIMEOUT = 1800.0
_FAREWELL = 30.0
"""Seconds that a rank at its end waits for those that may still read its rows."""
_GLANCE = 0.01
_ANSWER_TIMEOUT = 60.0
"""Seconds within which a rank that lives answers."""


class Context:
    """What connects this process with the others; made once for each default group of torch's.

    Args:
        timeout: seconds after which torch's groups give up.

    Attributes:
        world: of the processes.
        rank: of this one.
        size: how many there are.
        policies: how rows of known sizes are divided, by name.
    """

    def __init__(self, timeout: float = _TIMEOUT):
        members = members_of_default()
        self.group = dist.group.WORLD if dist.is_initialized() else None
        alone = len(members) == 1
        whole = World.alone(1) if alone else World.of(members, len(members), "cpu", timeout)
        self.world = whole.beside("graph")
        self.rank, self.size = self.world.rank, self.world.size
        self.policies: dict[str, Any] = {}
        self.named: dict[str, Any] = {}
        self.numbers = itertools.count()
        self.loaders = itertools.count()
        self._dropped: list[int] = []
        self._drops: dict[int, int] = {}
        self._service: Service | None = None
        self._asker: Asker | None = None
        self.is_open = True
        if not alone and not all(self.shares_memory(rank) for rank in range(self.size)):
            self._connect()

    def _connect(self) -> None:
        host = own_address(os.environ.get("MASTER_ADDR"))
        word = secrets.token_hex(8)
        word = self.gather(word)[0]
        self._service = Service(word.encode(), host)
        addresses = [tuple(place) for place in self.gather(self._service.address)]
        assert self.world.links is not None
        self._asker = Asker(
            word.encode(), self.rank, addresses, self.world.links.watcher, _ANSWER_TIMEOUT
        )

    def shares_memory(self, rank: int) -> bool:
        """Returns whether a rank's rows are reached through memory: it is on this machine.

        ``SMEX_SHARED_MEMORY=0`` says no of all others.
        """
        if rank == self.rank or self.world.links is None:
            return True
        return self.world.links.shares_memory((self.rank, rank))

    @property
    def asker(self) -> Asker:
        """What asks other processes for rows."""
        if self._asker is None:
            raise SmexRuntimeError(
                "DistTensor: the processes are no longer connected; call exit_client last"
            )
        return self._asker

    # ---- steps that all ranks take together ----

    def gather(self, what: Any) -> list[Any]:
        """Returns what every rank passed, by rank; all ranks call this.

        Raises:
            RankFailure: one has failed.
        """
        dropped, self._dropped = self._dropped, []
        found = self.world.gather((what, dropped))
        for _, numbers in found:
            for number in numbers:
                self._drops[number] = self._drops.get(number, 0) + 1
                if self._drops[number] == self.size and self._service is not None:
                    self._service.forget(number)
        return [each for each, _ in found]

    def together(self, do: Callable[[], Result]) -> list[Result]:
        """Runs a function on all ranks; what fails on one is raised on all."""
        return together(self.world, do)

    def barrier(self) -> None:
        """Waits until all ranks have come here.

        Raises:
            RankFailure: one has failed.
        """
        self.gather(None)

    def exchange(self, parts: list[Tensor], like: Tensor) -> list[Tensor]:
        """Sends each rank its part and returns what came from each, by rank; all call this.

        Args:
            parts: by rank ``[n_r, ...]``, of one type and row shape.
            like: a tensor of such rows.

        Raises:
            RankFailure: one has failed.
        """
        if self.world.links is None:
            return parts
        group = self.world.links.control
        width = int(torch.Size(like.shape[1:]).numel())

        def run() -> list[Tensor]:
            counts = torch.tensor([part.shape[0] for part in parts])
            coming = torch.empty_like(counts)
            dist.all_to_all_single(coming, counts, group=group)
            sizes = coming.tolist()
            received = torch.empty(sum(sizes) * width, dtype=like.dtype)
            dist.all_to_all_single(
                received,
                torch.cat([part.reshape(-1) for part in parts]),
                [size * width for size in sizes],
                [part.shape[0] * width for part in parts],
                group=group,
            )
            return list(received.view(-1, *like.shape[1:]).split(sizes))

        return unless_failed(self.world.links.watcher, run)

    # ---- memory that ranks have for each other ----

    def share(self, number: int, bounds: list[int], rows: Tensor) -> list[Tensor]:
        """Returns the rows of each rank, as far as they are reached through memory.

        All ranks call this together.

        Args:
            number: of the tensor.
            bounds: where each rank's rows begin, and where the last one's end.
            rows: of this rank; they are copied.

        Returns:
            By rank its rows, this one's among them, or no rows where it shares no memory.
        """
        none = rows.new_empty((0, *rows.shape[1:]))
        sharing = [rank for rank in range(self.size) if self.shares_memory(rank)]
        if len(sharing) == 1:
            mine = rows.contiguous()
            pieces = [mine if rank == self.rank else none for rank in range(self.size)]
        else:
            pieces = self._mapped(number, bounds, rows, none)
        if self._service is not None:
            self._service.serve(number, Part(bounds[self.rank], pieces[self.rank]))
        self.barrier()  # all have it
        return pieces

    def serve(self, number: int, start: int, rows: Tensor) -> None:
        """Lets ranks of other machines read rows that all of this machine's have mapped."""
        if self._service is not None:
            self._service.serve(number, Part(start, rows))

    def _mapped(self, number: int, bounds: list[int], rows: Tensor, none: Tensor) -> list[Tensor]:
        shape = tuple(rows.shape[1:])
        path = None
        mine = rows.contiguous()
        if rows.numel():
            handle, path = tempfile.mkstemp(prefix=f"smex-rows-{number}-", dir=_memory_folder())
            os.close(handle)
            os.truncate(path, rows.numel() * rows.element_size())
            mine = _map(path, rows.numel(), rows.dtype).view(rows.shape)
            mine.copy_(rows)
        try:
            paths = self.gather(path)
            pieces = []
            for rank, other in enumerate(paths):
                count = bounds[rank + 1] - bounds[rank]
                if rank == self.rank:
                    pieces.append(mine)
                elif not self.shares_memory(rank) or other is None:
                    pieces.append(none)
                else:
                    size = count * max(1, int(torch.Size(shape).numel()))
                    pieces.append(_map(other, size, rows.dtype).view(count, *shape))
            self.barrier()  # all have mapped
        finally:
            if path is not None:
                pathlib.Path(path).unlink(missing_ok=True)
        return pieces

    def drop(self, number: int) -> None:
        """Tells, at the next step that ranks take together, that this one needs a tensor no more.

        Others may still read it: it is served until all have dropped it.
        """
        self._dropped.append(number)

    def wait_for_readers(self) -> None:
        """Serves rows until all ranks are at their end, or one has failed; for a while at most.

        For programs that end without :func:`exit_client`. Ranks that share memory need nobody.
        """
        links = self.world.links
        if self._service is None or links is None:
            return
        store = links.store_of("ends")
        until = time.monotonic() + _FAREWELL
        with contextlib.suppress(dist.DistError):
            store.set(str(self.rank), "")
            others = [str(rank) for rank in range(self.size)]
            while time.monotonic() < until and links.watcher.failure() is None:
                if store.check(others) or all(map(links.watcher.left, self._others())):
                    return
                time.sleep(_GLANCE)

    def _others(self) -> list[int]:
        return [rank for rank in range(self.size) if rank != self.rank]

    def close(self) -> None:
        """Ends the connections with other processes."""
        self.is_open = False
        self.policies.clear()
        self.named.clear()
        if self._asker is not None:
            self._asker.close()
            self._asker = None
        if self._service is not None:
            self._service.close()
            self._service = None


def _memory_folder() -> str:
    shared = pathlib.Path("/dev/shm")
    return str(shared) if shared.is_dir() else tempfile.gettempdir()


def _map(path: str, count: int, dtype: torch.dtype) -> Tensor:
    return torch.from_file(path, shared=True, size=count, dtype=dtype)


_current: Context | None = None
_timeout = _TIMEOUT


def context() -> Context:
    """Returns what connects the processes; made at the first call, which all ranks make together.

    Raises:
        RankFailure: a rank does not come, or fails.
    """
    global _current
    group = dist.group.WORLD if dist.is_available() and dist.is_initialized() else None
    if _current is not None and (_current.group is not group or not _current.is_open):
        _current.close()
        _current = None
    if _current is None:
        _current = Context(_timeout)
        atexit.unregister(_at_exit)
        atexit.register(_at_exit)  # before the watcher says goodbye, which was registered by now
    return _current


def initialize(
    ip_config: Any = None,
    max_queue_size: Any = None,
    net_type: Any = None,
    num_worker_threads: int = 1,
    use_graphbolt: bool = False,
    *,
    timeout: float = _TIMEOUT,
    **kwargs: Any,
) -> None:
    """Begins to work on one graph with several processes, which torchrun has started.

    Every rank calls it, or leaves it out: :class:`DistGraph` does what is missing. There are no
    servers. A program of one process works too.

    Where torch has no process group yet, one of Gloo is started from torchrun's environment
    (:func:`smex.init_processes`); with `ip_config`, as programs for DGL give it, that waits until
    the first :class:`DistGraph`, since they start the group themselves next.

    Args:
        ip_config: taken for compatibility; torchrun knows the machines.
        max_queue_size: taken for compatibility.
        net_type: taken for compatibility.
        num_worker_threads: taken for compatibility.
        use_graphbolt: taken for compatibility.
        timeout: seconds after which collectives of torch's groups give up. Ranks that end or are
            stopped are noticed within seconds, whatever this is.
        kwargs: taken for compatibility.

    Raises:
        RankFailure: a rank does not come, or fails.

    Example:
        >>> import smex.graph as sg
        >>> sg.distributed.initialize()
        >>> sg.distributed.is_initialized()
        True
        >>> sg.distributed.exit_client()
    """
    global _timeout, _begun
    _timeout, _begun = timeout, True
    started = dist.is_available() and dist.is_initialized()
    if not started and "TORCHELASTIC_RUN_ID" in os.environ and ip_config is None:
        init_processes("gloo", timeout=timeout)


_begun = False


def is_initialized() -> bool:
    """Returns whether :func:`initialize` was called and :func:`exit_client` not yet."""
    return _begun


def exit_client() -> None:
    """Waits until all ranks have come here, and ends the connections between them.

    Torch's process group stays. A program that ends without it serves its rows until the others end
    too, for half a minute at most.

    Raises:
        RankFailure: a rank has failed.
    """
    global _current, _begun
    _begun = False
    if _current is None or not _current.is_open:
        return
    here, _current = _current, None
    group = dist.group.WORLD if dist.is_available() and dist.is_initialized() else None
    try:
        if here.group is group:
            here.barrier()
    finally:
        here.close()


def _at_exit() -> None:
    if _current is not None and _current.is_open:
        if getattr(sys, "last_value", None) is None:  # it ends in good order
            _current.wait_for_readers()
        _current.close()
