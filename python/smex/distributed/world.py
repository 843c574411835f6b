"""The processes that run one plan together."""

from __future__ import annotations

import concurrent.futures
import contextlib
import dataclasses
import functools
import itertools
import os
import pathlib
import pickle
import secrets
import socket
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import Any, cast

import torch
import torch.distributed as dist
from torch.distributed import rendezvous  # type: ignore[attr-defined]
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.distributed_c10d import PrefixStore, _get_default_store

from smex._C import Communicator, Recorder, Segment
from smex._logging import logger
from smex.distributed.failure import watch
from smex.distributed.flight import flight_folder
from smex.errors import SmexRuntimeError, SmexTypeError, SmexValueError

_LANES = (4 << 20, 2 << 20, 9 << 17)
"""Bytes of shared memory from one process to another: the first that there is; two packets."""


@dataclasses.dataclass(frozen=True)
class World:
    """Which process is this, and which workers are whose.

    Attributes:
        rank: of this process.
        ranks: by worker the process that runs it, in ascending order.
        links: what programs send each other's tiles through, and what tells of failures; None
            where it is alone.
        meeting: where they exchange small objects; None where it is alone.
    """

    rank: int
    ranks: tuple[int, ...]
    links: Links | None = None
    meeting: Meeting | None = None

    @staticmethod
    def alone(workers: int) -> World:
        """Returns that of one process, whose threads are all workers."""
        return World(0, (0,) * workers)

    @staticmethod
    def of(members: Sequence[int], workers: int, device: str, timeout: float) -> World:
        """Returns that of processes which divide the workers evenly; they all call this.

        Args:
            members: their ranks in torch's default group, in the order of their workers.
            workers: of all.
            device: the type of device that tiles lie on, "cpu" or "cuda".
            timeout: seconds after which torch's groups give up.
        """
        if workers % len(members):
            raise SmexValueError(
                f"partition: {workers} workers do not divide into {len(members)} processes; give "
                f"a multiple, or leave workers= out for one worker a process"
            )
        own = dist.get_rank()
        if own not in members:
            raise SmexValueError(
                f"partition: rank {own} calls it, whose mesh is of ranks {list(members)}: only "
                "those take part"
            )
        links = _connected(tuple(members), device, timeout)
        each = workers // len(members)
        ranks = tuple(worker // each for worker in range(workers))
        return World(list(members).index(own), ranks, links, links.meeting)

    @property
    def size(self) -> int:
        """Number of processes."""
        return self.ranks[-1] + 1

    @property
    def is_alone(self) -> bool:
        """Whether this process runs all workers."""
        return self.links is None

    @property
    def workers(self) -> Sequence[int]:
        """The workers of this process."""
        return [worker for worker, rank in enumerate(self.ranks) if rank == self.rank]

    def gather(self, what: Any) -> list[Any]:
        """Returns what every process passed, by rank; every process calls this."""
        return [what] if self.meeting is None else self.meeting.gather(what)

    def beside(self, name: str) -> World:
        """Returns the same processes with a meeting of its own, for a thread beside the training.

        Args:
            name: of the thread's purpose, one thread at a time.
        """
        if self.links is None:
            return self
        return dataclasses.replace(self, meeting=self.links.meeting_of(name))

    def executor_options(self) -> dict[str, Any]:
        """Returns what an Executor is told of the processes."""
        if self.links is None:
            return {}
        return {"communicator": self.links.communicator, "ranks": list(self.ranks)}

    def __deepcopy__(self, memo: dict[int, Any]) -> World:
        return self

    def __reduce__(self) -> Any:
        if self.is_alone:
            return World, (self.rank, self.ranks)
        raise SmexTypeError(
            "a net over several processes cannot be pickled: smex.save(path, net) writes a "
            "checkpoint, net.state_dict() has whole tensors"
        )


def members_of(mesh: DeviceMesh | None) -> list[int]:
    """Returns the ranks of a mesh, in the order of its workers; None: of the default group."""
    if mesh is None:
        return members_of_default()
    members: list[int] = mesh.mesh.flatten().tolist()
    return members


def members_of_default() -> list[int]:
    """Returns the ranks of torch's default group, which torchrun's environment may have to start.

    One, where there is neither.
    """
    if not dist.is_available():
        return [0]
    if not dist.is_initialized():
        if "TORCHELASTIC_RUN_ID" not in os.environ or int(os.environ.get("WORLD_SIZE", "1")) == 1:
            return [0]
        init_processes()
    return list(range(dist.get_world_size()))


def init_processes(backend: str | None = None, timeout: float = 1800.0) -> None:
    """Starts torch's default process group, in a program that torchrun has started.

    In place of `torch.distributed.init_process_group`, which a restart of torchrun may break: the
    store of the failed attempt lives on, and ranks find the addresses of processes that are gone.
    Here each attempt has keys of its own. `smex.partition` calls this where there is no group yet;
    a program that makes a `DeviceMesh` calls it before that.

    Args:
        backend: as in torch, by default Gloo on the CPU and NCCL on CUDA.
        timeout: seconds after which collectives of the group give up.
    """
    store, rank, size = next(iter(rendezvous("env://")))
    own = PrefixStore(f"smex/{_attempt(store, rank, size)}", store)
    seconds = timedelta(seconds=timeout)
    dist.init_process_group(backend, store=own, rank=rank, world_size=size, timeout=seconds)


def _attempt(store: Any, rank: int, size: int) -> str:
    """Returns a word that the ranks of this attempt have in common, and no other attempt has.

    Rank 0 answers whoever asks, each question once, until all of this attempt have heard it. Those
    of earlier attempts do no harm.
    """
    if rank > 0:
        question = store.add("smex/questions", 1)
        word: str = store.get(f"smex/answer/{question}").decode()
        store.set(f"smex/heard/{word}/{rank}", "")
        return word
    word = secrets.token_hex(6)
    others = [f"smex/heard/{word}/{other}" for other in range(1, size)]
    answered = 0
    while others and not store.check(others):
        asked = store.add("smex/questions", 0)
        for question in range(answered + 1, asked + 1):
            store.set(f"smex/answer/{question}", word)
        answered = asked
        time.sleep(_GLANCE)
    return word


class Meeting:
    """Where processes exchange small objects, through the store.

    Not through a group, whose collectives nobody can leave when another process has failed.

    Args:
        store: with keys of its own.
        rank: of this process.
        size: number of processes.
        watcher: tells of failures.
        count: gives each exchange its number, which is the same in all processes.
        refuse: is called after a long wait with the number, and raises where nobody will come.
    """

    def __init__(
        self,
        store: Any,
        rank: int,
        size: int,
        watcher: Any,
        count: Callable[[], int],
        refuse: Callable[[int], None] = lambda number: None,
    ):
        self._store = store
        self._rank, self._size = rank, size
        self._watcher = watcher
        self._count = count
        self._refuse = refuse
        self._before: str | None = None

    def gather(self, what: Any) -> list[Any]:
        """Returns what every process passed, by rank.

        Raises:
            RankFailure: one has failed.
        """
        number = self._count()
        own = f"{number}/{self._rank}"
        self._store.set(own, pickle.dumps(what))
        found = []
        for rank in range(self._size):
            key = f"{number}/{rank}"
            started = time.monotonic()
            while not self._store.check([key]):
                self._watcher.check([rank])
                if time.monotonic() - started > _LONG_WAIT:
                    self._refuse(number)
                time.sleep(_GLANCE)
            found.append(pickle.loads(self._store.get(key)))
        if self._before is not None:  # all have begun this one, and so have read the one before
            self._store.delete_key(self._before)
        self._before = own
        return found


class Links:
    """What connects the processes of one mesh.

    Args:
        members: ranks in torch's default group.
        device: the type of device that tiles lie on.
        timeout: seconds after which torch's groups give up.

    Attributes:
        control: a group for tensors on the CPU.
        watcher: tells of failures.
        communicator: what programs send each other's tiles through.
        meeting: of the threads that train.
        measured: what is known of collectives, see `smex.distributed.collectives`.
    """

    def __init__(self, members: Sequence[int], device: str, timeout: float):
        options: dict[str, Any] = {
            "ranks": list(members),
            "timeout": timedelta(seconds=timeout),
            "use_local_synchronization": len(members) < dist.get_world_size(),
        }
        self._rank, self._size = list(members).index(dist.get_rank()), len(members)
        self._members = list(members)
        self._options = options
        self._groups: set[tuple[int, ...]] = set()
        self.measured: dict[Any, Any] = {}
        self.control = dist.new_group(backend="gloo", **options)
        self._backend = "gloo" if device == "cpu" else "nccl"
        data: Any = dist.new_group(backend=self._backend, **options)
        hosts, segments = _shared_memory(self.control, self._rank, self._size, device)
        self._hosts = hosts
        # Whoever restarts a program may keep its store, with the keys of the attempt that failed.
        nonces: list[Any] = [None] * self._size
        control: Any = self.control
        dist.all_gather_object(nonces, secrets.token_hex(6), group=control)
        self._store = PrefixStore(f"smex/{nonces[0]}", _get_default_store())
        self._passes = PrefixStore("passes", self._store)
        self.watcher = watch(self._store, self._rank, self._size)
        self.communicator = Communicator(
            self._rank, data, hosts, segments, self._passes, self.watcher, Recorder(),
            str(flight_folder() or ""),
        )  # fmt: skip
        self.meeting = Meeting(
            PrefixStore("gathered", self._store), self._rank, self._size, self.watcher,
            self.communicator.next_event, self._refuse_pass,
        )  # fmt: skip
        self._others: dict[str, Meeting] = {}

    def shares_memory(self, group: Sequence[int]) -> bool:
        """Returns whether these processes put what they send each other into shared memory."""
        hosts = {self._hosts[rank] for rank in group}
        return len(hosts) == 1 and -1 not in hosts

    def connect(self, groups: Sequence[tuple[int, ...]], device: torch.device) -> None:
        """Makes torch's groups of some processes each, for collectives.

        All processes call this together with the same groups. Each is made once.

        Args:
            groups: of ranks of these processes, ascending.
            device: of this process's tiles.

        Raises:
            RankFailure: one has failed.
        """
        for group in groups:
            if len(group) == self._size or group in self._groups:
                continue
            made = self._watched(functools.partial(self._made_group, group, device))
            self._groups.add(group)
            if self._rank in group:
                self.communicator.add_group(list(group), made)

    def _made_group(self, group: tuple[int, ...], device: torch.device) -> Any:
        options = {**self._options, "ranks": [self._members[rank] for rank in group]}
        made: Any = dist.new_group(backend=self._backend, **options)
        if self._rank in group:
            dist.all_reduce(torch.zeros(1, device=device), group=made)  # NCCL connects here
        return made

    def _watched(self, call: Callable[[], Any]) -> Any:
        """Returns what a call does that waits for other processes, unless one of them fails.

        It runs on a thread, which is left alone where it never ends.
        """
        future: concurrent.futures.Future[Any] = concurrent.futures.Future()

        def run() -> None:
            try:
                future.set_result(call())
            except BaseException as error:  # the caller's
                future.set_exception(error)

        threading.Thread(target=run, name="smex connects", daemon=True).start()
        while True:
            try:
                return future.result(timeout=_GLANCE)
            except concurrent.futures.TimeoutError:
                self.watcher.check()
            except RuntimeError as error:  # torch's, perhaps since another process has failed
                self.watcher.settle(str(error))
                self.watcher.check()

    def meeting_of(self, name: str) -> Meeting:
        """Returns a meeting of other threads."""
        if name not in self._others:
            store = PrefixStore(f"gathered/{name}", self._store)
            count = itertools.count().__next__
            self._others[name] = Meeting(store, self._rank, self._size, self.watcher, count)
        return self._others[name]

    def _refuse_pass(self, number: int) -> None:
        """Raises RankFailure where another process runs a net at this place."""
        if not self._passes.check([f"pass/{number}"]):
            return
        other = int(self._passes.get(f"pass/{number}"))
        self.watcher.report(
            f"it captures a call of a net, loads or gathers, while rank {other} waits for it in a "
            "net that it runs: every rank must call the same nets in the same order, with inputs "
            "of the same shapes and under the same modes"
        )
        self.watcher.check()


_LONG_WAIT = 1.0
"""Seconds after which another process may be doing something else."""
_GLANCE = 0.002
"""Seconds between two looks for what another process has stored."""
_CONNECTED: dict[Any, Links] = {}
"""By torch's default group, members and type of device."""


def _connected(members: tuple[int, ...], device: str, timeout: float) -> Links:
    """Returns what connects some processes, which is made once for each default group."""
    known = dist.group.WORLD, members, device
    if known not in _CONNECTED:
        disconnect_old()
        _CONNECTED[known] = Links(members, device, timeout)
    return _CONNECTED[known]


def disconnect_old() -> None:
    """Says goodbye to the processes of default groups that torch has destroyed."""
    current = dist.group.WORLD if dist.is_initialized() else None
    for known in [known for known in _CONNECTED if known[0] is not current]:
        _CONNECTED.pop(known).watcher.leave()


def _shared_memory(control: Any, rank: int, size: int, device: str) -> tuple[list[int], list[Any]]:
    """Maps the memory of the processes of this host, unless SMEX_SHARED_MEMORY=0.

    Returns:
        By process the host, -1 for one that shares no memory, and its memory as it lies here.
    """
    wanted = device == "cpu" and os.environ.get("SMEX_SHARED_MEMORY", "1") != "0"
    made = _made_segment(rank, size) if wanted else None
    places: list[Any] = [None] * size
    dist.all_gather_object(places, made and (_host(), made[0]), group=control)
    known = {host: n for n, host in enumerate(dict.fromkeys(p[0] for p in places if p))}
    hosts = [known[place[0]] if place else -1 for place in places]
    segments: list[Segment | None] = [None] * size
    problem = ""
    try:
        for n, place in enumerate(places):
            if made is not None and n == rank:
                segments[n] = made[1]
            elif made is not None and hosts[n] == hosts[rank]:
                segments[n] = Segment.open(place[1])
    except ValueError as error:
        problem = str(error)
    problems: list[Any] = [None] * size
    dist.all_gather_object(problems, problem, group=control)  # all have mapped, or have not
    if made is not None:
        pathlib.Path(made[0]).unlink()
    if any(problems):
        logger.info("shared memory is not used: %s", next(filter(None, problems)))
        return [-1] * size, []
    return hosts, segments


def _made_segment(rank: int, size: int) -> tuple[str, Segment] | None:
    shared = pathlib.Path("/dev/shm")
    folder = shared if shared.is_dir() else pathlib.Path(tempfile.gettempdir())
    for nbytes in _LANES:
        path = str(folder / f"smex-{os.getpid()}-{secrets.token_hex(6)}")
        try:
            return path, Segment.create(path, rank, size, nbytes)
        except ValueError as error:
            logger.info("%s", error)
    return None


def _host() -> str:
    """What processes have in common that may share memory: the machine, and who sees its network.

    Those in network namespaces of their own are to talk through these.
    """
    boot = ""
    with contextlib.suppress(OSError):
        boot = pathlib.Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    network = ""
    with contextlib.suppress(OSError):
        network = os.readlink("/proc/self/ns/net")
    return f"{socket.gethostname()} {boot} {network}"


class Equals:
    """Compares what processes have made, and tells who failed to make it.

    Args:
        world: of the processes, which all enter this at the same place.
        what: they make, for messages.
    """

    def __init__(self, world: World, what: str):
        self._world = world
        self._what = what
        self._told = False

    def __enter__(self) -> Equals:
        return self

    def check(self, digest: int, text: str) -> None:
        """Raises SmexRuntimeError where a process has another digest, with the first difference."""
        if self._world.is_alone:
            return
        self._told = True
        found = self._world.gather((digest, None))
        self._refuse_failed(found)
        if len({digest for digest, _ in found}) == 1:
            return
        texts = cast("list[str]", self._world.gather(text))
        other = next(n for n, (digest, _) in enumerate(found) if digest != found[0][0])
        here, there = texts[0].splitlines(), texts[other].splitlines()
        line = next(
            (n for n, (a, b) in enumerate(zip(here, there, strict=False)) if a != b),
            min(len(here), len(there)),
        )
        first, second = (
            lines[line].strip() if line < len(lines) else "" for lines in (here, there)
        )
        raise SmexRuntimeError(
            f"partition: rank 0 and rank {other} made different programs of {self._what}, first in "
            f'line {line + 1}: "{first}" and "{second}"; every rank must have the same model and '
            "inputs of the same shapes"
        )

    def _refuse_failed(self, found: Sequence[tuple[int, str | None]]) -> None:
        for rank, (_, problem) in enumerate(found):
            if problem is not None:
                raise SmexRuntimeError(f"partition: rank {rank} failed: {problem}")

    def __exit__(self, kind: Any, error: BaseException | None, trace: Any) -> None:
        if error is not None and not self._told and not self._world.is_alone:
            self._told = True
            self._world.gather((0, f"{type(error).__name__}: {error}"))
