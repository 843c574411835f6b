"""The processes that run one plan together."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import hashlib
import itertools
import os
import pathlib
import pickle
import secrets
import socket
import tempfile
import threading
import time
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import timedelta
from typing import Any, NamedTuple

import torch
import torch.distributed as dist
from torch.distributed import rendezvous  # type: ignore[attr-defined]
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.distributed_c10d import PrefixStore, _get_default_store

from smex._C import Communicator, Recorder, Segment, Watcher
from smex._logging import logger
from smex.distributed.failure import record_at_end, unless_failed, watch
from smex.distributed.flight import flight_folder
from smex.errors import RankFailure, SmexRuntimeError, SmexTypeError, SmexValueError

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
        links = _connected(tuple(members), device, timeout)
        each = workers // len(members)
        ranks = tuple(worker // each for worker in range(workers))
        return World(list(members).index(dist.get_rank()), ranks, links, links.meeting)

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

    def gather(self, what: Any, topic: str = "") -> list[Any]:
        """Returns what every process passed, by rank; every process calls this.

        Args:
            what: a small object.
            topic: of what it tells, where calls exchange several things.
        """
        return [what] if self.meeting is None else self.meeting.gather(what, topic)

    @contextlib.contextmanager
    def during(self, call: str, details: str = "") -> Iterator[None]:
        """Has errors of ranks that do different things tell what this one does meanwhile.

        Args:
            call: that all processes make; of calls within each other the outermost is told.
            details: of this process.
        """
        if self.links is None or self.links.call.name:
            yield
            return
        self.links.call.name, self.links.call.details = call, details
        try:
            yield
        except RankFailure as failure:
            self.tell_calls(failure, call)
            raise
        finally:
            self.links.call.name = self.links.call.details = ""

    def tell_calls(self, failure: RankFailure, call: str) -> None:
        """Adds to a failure of ranks that do different things what each does."""
        (message,) = failure.args
        is_told = _CALLS in message or failure.kind != "raised"
        if self.links is not None and _EVERY_RANK in failure.original and not is_told:
            if not self.links.told_calls:  # of the first to notice; others are in later ones by now
                self.links.told_calls = self.links.exchanged_calls(call)
            failure.args = (f"{message} ({_CALLS}{self.links.told_calls})",)

    def next_net(self) -> int:
        """Returns the number of a new net: the same in processes that make as many nets.

        What runs carries it, so that equal programs of different nets are not taken for each other.
        """
        return 0 if self.links is None else next(self.links.nets)

    def check(self) -> None:
        """Raises RankFailure where a process has failed, for one that is busy for long."""
        if self.links is not None:
            self.links.watcher.check()

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


def synchronize(device: torch.device) -> None:
    """Waits for what a device has been asked to do; the CPU has done it."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def members_of(mesh: DeviceMesh | None) -> list[int]:
    """Returns the ranks of a mesh, in the order of its workers; None: of the default group.

    Raises:
        SmexValueError: this process is none of them.
    """
    if mesh is None:
        return members_of_default()
    members: list[int] = mesh.mesh.flatten().tolist()
    if dist.get_rank() not in members:
        raise SmexValueError(
            f"partition: rank {dist.get_rank()} calls it, whose mesh is of ranks {members}: only "
            "those take part; processes=1 is for a net of this rank's own"
        )
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
    a program that makes a `DeviceMesh` calls it before that. From here on the ranks watch each
    other: one that fails before it comes to `smex.partition` is named to those that are there.
    A group that is there already stays as it is.

    Args:
        backend: as in torch, by default Gloo on the CPU and NCCL on CUDA.
        timeout: seconds after which collectives of the group give up, and within which all ranks
            are to come.

    Raises:
        RankFailure: another rank fails meanwhile.
    """
    if dist.is_initialized():
        return
    store, rank, size = next(iter(rendezvous("env://")))
    seconds = timedelta(seconds=timeout)
    word = _own_or_asked(store, rank, timeout)
    own = PrefixStore(f"smex/{word}", store)
    watcher = watch(PrefixStore("world", own), rank, size, arrival=timeout)

    def start() -> None:
        if rank == 0:
            _answer(store, word, size)
        dist.init_process_group(backend, store=own, rank=rank, world_size=size, timeout=seconds)

    unless_failed(watcher, start)
    _BEGUN[dist.group.WORLD] = _Begun(word, watcher)


class _Begun(NamedTuple):
    """What the ranks of a default group have in common from the beginning.

    Attributes:
        word: that no other attempt has.
        watcher: of all ranks.
    """

    word: str
    watcher: Watcher


_BEGUN: dict[Any, _Begun] = {}
"""By default group, of those that `init_processes` has started."""


def _own_or_asked(store: Any, rank: int, timeout: float) -> str:
    """Returns a word that the ranks of this attempt have in common, and no other attempt has.

    It is rank 0's, which then has to answer the others. Whoever restarts a program may keep its
    store, with the keys of the attempt that failed. So rank 0 answers questions, of which each has
    a number of its own; those of earlier attempts do no harm.

    Raises:
        RankFailure: rank 0 does not come, or the store has gone.
    """
    if rank == 0:
        return secrets.token_hex(6)
    question = store.add("smex/questions", 1)
    key = f"smex/answer/{question}"
    started = time.monotonic()
    try:
        while not store.check([key]):
            if time.monotonic() - started > timeout:
                text = f"rank 0 has not come to this place within {timeout:g} s"
                raise RankFailure(text, 0, "", text, "absent")
            time.sleep(_GLANCE)
        word: str = store.get(key).decode()
        store.set(f"smex/heard/{word}/{rank}", "")
    except dist.DistError as error:
        text = f"torch's store is gone: {error}"
        raise RankFailure(text, None, "", text, "store") from error
    return word


def _answer(store: Any, word: str, size: int) -> None:
    """Answers the questions of all other ranks, until they have heard it."""
    others = [f"smex/heard/{word}/{other}" for other in range(1, size)]
    answered = 0
    while others and not store.check(others):
        asked = store.add("smex/questions", 0)
        for question in range(answered + 1, asked + 1):
            store.set(f"smex/answer/{question}", word)
        answered = asked
        time.sleep(_GLANCE)


class _Call(threading.local):
    """What a thread does that all processes do together.

    Attributes:
        name: of the call; empty between calls.
        details: of this process.
    """

    name = ""
    details = ""


class Meeting:
    """Where processes exchange small objects, through the store.

    Not through a group, whose collectives nobody can leave when another process has failed.

    Args:
        store: with keys of its own.
        rank: of this process.
        size: number of processes.
        watcher: tells of failures.
        count: gives each exchange its number, which is the same in all processes.
        call: that the thread makes.
        refuse: is called after a long wait with the number and what this process does, and raises
            where nobody will come.
    """

    def __init__(
        self,
        store: Any,
        rank: int,
        size: int,
        watcher: Any,
        count: Callable[[], int],
        call: _Call,
        refuse: Callable[[int, str], None] = lambda number, doing: None,
    ):
        self._store = store
        self._rank, self._size = rank, size
        self._watcher = watcher
        self._count = count
        self._call = call
        self._refuse = refuse
        self._before: str | None = None
        self._has_told = False

    def gather(self, what: Any, topic: str = "") -> list[Any]:
        """Returns what every process passed, by rank.

        Args:
            what: of this process.
            topic: is the same in all processes that are at the same place of a call.

        Raises:
            RankFailure: one has failed.
            SmexRuntimeError: one makes another call, or is at another place of it.
        """
        self._watcher.check()  # after a failure nobody knows what others exchange
        call, doing = self._call.name, self._call.name + self._call.details
        place = f"{call} ({topic})" if topic else call
        number, content = self._count(), pickle.dumps((place, what))
        awaited: list[int] = []
        found = unless_failed(
            self._watcher, lambda: self._gathered(number, content, awaited, doing), lambda: awaited
        )
        calls, values = zip(*map(pickle.loads, found), strict=True)
        if len(set(calls)) > 1:
            raise SmexRuntimeError(
                f"{call}: the ranks make different calls, {_told_calls(dict(enumerate(calls)))}; "
                "every rank must make the same ones in the same order"
            )
        return list(values)

    def _gathered(self, number: int, content: bytes, awaited: list[int], doing: str) -> list[bytes]:
        """Gathers bytes; has in `awaited` the rank that has not come yet."""
        own = f"{number}/{self._rank}"
        self._store.set(own, content)
        found = []
        for rank in range(self._size):
            key = f"{number}/{rank}"
            started = time.monotonic()
            awaited[:] = [rank]
            while not self._store.check([key]):
                self._watcher.check(awaited)  # nobody may be there any more who waits for this
                waited = time.monotonic() - started
                if waited > _LONG_WAIT:
                    self._refuse(number, doing)
                if waited > _VERY_LONG_WAIT and not self._has_told:
                    self._has_told = True
                    text = _WAITS.format(self._rank, rank, waited, doing)
                    warnings.warn(text, stacklevel=2)
                time.sleep(_GLANCE)
            found.append(self._store.get(key))
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
        nets: their numbers, of nets over these processes.
        call: that a thread makes.
        measured: what is known of collectives (`smex.distributed.collectives`) and machines.
        told_calls: what each rank did when ranks did different things; empty before that.
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
        self.nets = itertools.count(1)
        self.call = _Call()
        self.told_calls = ""
        self._backend = "gloo" if device == "cpu" else "nccl"
        store = _get_default_store()
        told = hashlib.sha256(repr((members, device)).encode()).hexdigest()[:12]
        questions = PrefixStore(f"smex/{told}", store)
        begun = _BEGUN.get(dist.group.WORLD)
        word = begun.word if begun else _own_or_asked(questions, self._rank, timeout)
        name = f"smex-{word}-{told}"
        self._store = PrefixStore(name, store)
        self._passes = PrefixStore("passes", self._store)
        # First of all, so that what fails from here on is named.
        if begun and list(members) == list(range(begun.watcher.size)):
            self.watcher = begun.watcher
        else:
            self.watcher = watch(self._store, self._rank, self._size, arrival=timeout)
        made = _made_segment(name, self._rank, self._size, device)
        recorder, folder = Recorder(), flight_folder()
        record_at_end(self.watcher, recorder, folder)

        def connect() -> tuple[Any, list[int], Communicator]:
            if begun is None and self._rank == 0:
                _answer(questions, word, self._size)
            control: Any = dist.new_group(backend="gloo", **options)
            data: Any = dist.new_group(backend=self._backend, **options)
            hosts, segments = _shared_memory(control, self._rank, self._size, made)
            return control, hosts, Communicator(
                self._rank, data, hosts, segments, self._passes, self.watcher, recorder,
                str(folder or ""),
            )  # fmt: skip

        try:
            self.control, self._hosts, self.communicator = unless_failed(self.watcher, connect)
        finally:
            for path in _shared_folder().glob(f"{name}-*"):  # also of those that are gone
                path.unlink(missing_ok=True)
        self.meeting = Meeting(
            PrefixStore("gathered", self._store), self._rank, self._size, self.watcher,
            self.communicator.next_event, self.call, self._refuse_pass,
        )  # fmt: skip
        self._others: dict[str, Meeting] = {}

    def shares_memory(self, group: Sequence[int]) -> bool:
        """Returns whether these processes put what they send each other into shared memory."""
        hosts = {self._hosts[rank] for rank in group}
        return len(hosts) == 1 and -1 not in hosts

    @property
    def sends_messages_only(self) -> bool:
        """Whether all of these processes send each other messages, none through shared memory."""
        shared = [host for host in self._hosts if host >= 0]
        return self._backend == "gloo" and len(set(shared)) == len(shared)

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
            made = unless_failed(self.watcher, functools.partial(self._made_group, group, device))
            self._groups.add(group)
            if self._rank in group:
                self.communicator.add_group(list(group), made)

    def _made_group(self, group: tuple[int, ...], device: torch.device) -> Any:
        options = {**self._options, "ranks": [self._members[rank] for rank in group]}
        made: Any = dist.new_group(backend=self._backend, **options)
        if self._rank in group:
            dist.all_reduce(torch.zeros(1, device=device), group=made)  # NCCL connects here
        return made

    def store_of(self, name: str) -> Any:
        """Returns a store of these processes, with keys for one purpose."""
        return PrefixStore(name, self._store)

    def meeting_of(self, name: str) -> Meeting:
        """Returns a meeting of other threads."""
        if name not in self._others:
            store = PrefixStore(f"gathered/{name}", self._store)
            count = itertools.count().__next__
            self._others[name] = Meeting(
                store, self._rank, self._size, self.watcher, count, self.call
            )
        return self._others[name]

    def _refuse_pass(self, number: int, doing: str) -> None:
        """Raises RankFailure where another process runs a net at this place."""
        if not self._passes.check([f"pass/{number}"]):
            return
        other = int(self._passes.get(f"pass/{number}").split()[0])
        runs_net = doing.startswith("net(")
        self.watcher.report(
            f"it is in {doing}, while rank {other} waits for it in a net that it runs: every rank "
            + (_SAME_NETS if runs_net else _SAME_CALLS)
        )
        self.watcher.check()

    def exchanged_calls(self, call: str) -> str:
        """Tells others what this process does, and returns what they tell within a second."""
        calls = dict.fromkeys(range(self._size), "a backward pass, or none that is told")
        calls[self._rank] = call

        def exchange() -> None:
            self._passes.set(f"call/{self._rank}", call)
            end = time.monotonic() + _LONG_WAIT
            for rank in range(self._size):
                key = f"call/{rank}"
                while not (is_told := self._passes.check([key])) and time.monotonic() < end:
                    time.sleep(_GLANCE)
                if is_told:
                    calls[rank] = self._passes.get(key).decode()

        thread = threading.Thread(target=exchange, name="smex.calls", daemon=True)
        thread.start()
        thread.join(2 * _LONG_WAIT)
        return _told_calls(calls)


_LONG_WAIT = 1.0
"""Seconds after which another process may be doing something else."""
_VERY_LONG_WAIT = 10.0
"""Seconds after which the user may want to know."""
_WAITS = (
    "rank {} has waited for rank {} for {:.0f} s in {}. If that one is not just slow, it does "
    "something else: every rank must call the same nets, state_dict, smex.save and smex.load, in "
    "the same order"
)
_SAME_NETS = (
    "must call the same nets in the same order, with inputs of the same shapes (drop_last=True of "
    "a DataLoader leaves out a smaller last batch) and under the same modes (net.train(), "
    "net.eval(), torch.no_grad())"
)
_SAME_CALLS = "must make this call at the same place, not one of them alone"
_EVERY_RANK = "every rank must"
"""Is in the failures of ranks that do different things."""
_CALLS = "calls: "
_GLANCE = 0.002
"""Seconds between two looks for what another process has stored."""
_CONNECTED: dict[Any, Links] = {}
"""By torch's default group, members and type of device."""


def _told_calls(calls: Mapping[int, str]) -> str:
    return ", ".join(f"rank {rank} {call or 'none'}" for rank, call in sorted(calls.items()))


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
    for group in [group for group in _BEGUN if group is not current]:
        _BEGUN.pop(group).watcher.leave()


def _shared_memory(
    control: Any, rank: int, size: int, made: tuple[pathlib.Path, Segment] | None
) -> tuple[list[int], list[Any]]:
    """Maps the memory of the processes of this host.

    Args:
        control: a group of the processes.
        rank: of this process.
        size: number of processes.
        made: its own memory, if it shares any.

    Returns:
        By process the host, -1 for one that shares no memory, and its memory as it lies here.
    """
    places: list[Any] = [None] * size
    dist.all_gather_object(places, made and (_host(), str(made[0])), group=control)
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
    if any(problems):
        logger.info("shared memory is not used: %s", next(filter(None, problems)))
        return [-1] * size, []
    return hosts, segments


def _shared_folder() -> pathlib.Path:
    shared = pathlib.Path("/dev/shm")
    return shared if shared.is_dir() else pathlib.Path(tempfile.gettempdir())


def _made_segment(
    name: str, rank: int, size: int, device: str
) -> tuple[pathlib.Path, Segment] | None:
    """Makes this process's memory, unless SMEX_SHARED_MEMORY=0, with a name that others know."""
    if device != "cpu" or os.environ.get("SMEX_SHARED_MEMORY", "1") == "0":
        return None
    path = _shared_folder() / f"{name}-{rank}"
    for nbytes in _LANES:
        try:
            return path, Segment.create(str(path), rank, size, nbytes)
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
