"""Hosts that are network namespaces of this computer, with links of a given rate between them.

    with emulated(ranks=2, rate="200mbit") as hosts:
        hosts.run([sys.executable, "train.py"])
        print(hosts.sent())

Each rank runs in a network namespace of its own whose only interface is one end of a veth pair; the
other ends are ports of a bridge in one more namespace, the switch. `tc tbf` limits both directions
of each port (tc-tbf(8)), so a rank sends and receives at the rate at the same time. A rate of
200 Mbit/s carries 0.192 Gbit/s of payload: Ethernet, IP and TCP take the rest. There is no latency:
netem is a module that few kernels of virtual machines have. With `rate=None` all ranks share one
namespace that has the loopback interface only.

What the kernel counts at the interfaces is a measurement from outside of what runs: no system can
move bytes between the ranks that are not counted. `cpus` gives each rank a part of the processors
(cgroup v1, `cpu.cfs_quota_us`), `processors` the one that it keeps to: where quotas add up to all
processors, ranks that wander between them get less than theirs.

A namespace lives as long as a process in it, here one that reads a pipe from the process that
called `emulated` and ends when that does, even by SIGKILL: nothing has a name in a file system, so
nothing is left behind.
"""

from __future__ import annotations

import contextlib
import dataclasses
import errno
import functools
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import IO

HEADER = 66
"""Bytes of a segment that are not payload: Ethernet 14, IPv4 20, TCP with time stamps 32."""

SUBNET = "10.77.0."
PORT = "29500"  # any is free: the namespaces are new
PERIOD_US = 5_000  # of a CPU quota: who waits loses what it does not use of it
TOOLS = ("ip", "tc", "unshare", "nsenter", "setpriv", "taskset")
CPU_CGROUP = pathlib.Path("/sys/fs/cgroup/cpu")
UNITS = {"bit": 1, "kbit": 1e3, "mbit": 1e6, "gbit": 1e9}


class EmulationError(RuntimeError):
    """The kernel does not allow it, or a rank failed."""


@dataclasses.dataclass(frozen=True)
class Counters:
    """What an interface has sent and received, with the headers."""

    sent_bytes: int
    sent_packets: int
    received_bytes: int
    received_packets: int

    @property
    def sent_payload(self) -> int:
        """Bytes sent without the headers: the kernel counts those once a packet that it makes."""
        return self.sent_bytes - HEADER * self.sent_packets

    def __sub__(self, before: Counters) -> Counters:
        return Counters(
            *(
                now - then
                for now, then in zip(dataclasses.astuple(self), dataclasses.astuple(before))
            )
        )

    @staticmethod
    def read(process: int | str = "self") -> Counters:
        """Those of a process's namespace: of its interface "eth0", or of "lo" if it has none."""
        lines = pathlib.Path(f"/proc/{process}/net/dev").read_text().splitlines()[2:]
        found = {name.strip(): values.split() for name, values in (x.split(":") for x in lines)}
        values = [int(value) for value in found["eth0" if "eth0" in found else "lo"]]
        return Counters(values[8], values[9], values[0], values[1])


def bits_per_second(rate: str) -> float:
    """The number that `rate` stands for, "200mbit" or "1gbit"."""
    match = re.fullmatch(r"([0-9.]+)([kmg]?bit)", rate)
    if match is None:
        raise ValueError(f"rate {rate!r}, expected a number and one of {', '.join(UNITS)}")
    return float(match[1]) * UNITS[match[2]]


@functools.cache
def unavailable() -> str | None:
    """Why there can be no emulated hosts here, or None."""
    if sys.platform != "linux":
        return f"network namespaces are Linux's, this is {sys.platform}"
    missing = [tool for tool in TOOLS if shutil.which(tool) is None]
    if missing:
        return f"{', '.join(missing)} not found; install iproute2 and util-linux"
    try:
        with emulated(ranks=2, rate="1gbit"):
            return None
    except EmulationError as error:
        return str(error)


def no_quotas() -> str | None:
    """Why ranks cannot be given parts of the processors here, or None."""
    if not (CPU_CGROUP / "cgroup.procs").exists():
        return f"no cgroup v1 at {CPU_CGROUP}"
    if not os.access(CPU_CGROUP, os.W_OK):
        return f"{CPU_CGROUP} cannot be written to"
    return None


def _tool(*command: str) -> None:
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        raise EmulationError(f"{' '.join(command)}: {done.stderr.strip() or done.stdout.strip()}")


class Namespace:
    """A network namespace, alive until `close` or the end of this process."""

    def __init__(self) -> None:
        self.holder = subprocess.Popen(
            ["unshare", "--net", "sh", "-c", "echo made; exec cat"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        if self.holder.stdout.readline() != "made\n":
            self.close()
            raise EmulationError(f"no network namespace: {self.holder.stderr.read().strip()}")
        self.tool("ip", "link", "set", "lo", "up")

    @property
    def pid(self) -> int:
        return self.holder.pid

    def enter(self, *command: str) -> list[str]:
        """The command that runs `command` in this namespace."""
        return ["nsenter", f"--net=/proc/{self.pid}/ns/net", "--", *command]

    def tool(self, *command: str) -> None:
        _tool(*self.enter(*command))

    def close(self) -> None:
        with contextlib.suppress(BrokenPipeError):
            self.holder.stdin.close()
        self.holder.wait()


class Quota:
    """A cgroup with a part of the processors, removed by `close`."""

    def __init__(self, rank: int, cpus: float) -> None:
        self.folder = CPU_CGROUP / f"emulated-{os.getpid()}-{rank}"
        try:
            self.folder.mkdir()
            (self.folder / "cpu.cfs_period_us").write_text(str(PERIOD_US))
            (self.folder / "cpu.cfs_quota_us").write_text(str(round(PERIOD_US * cpus)))
        except OSError as error:
            self.close()
            raise EmulationError(f"no CPU quota of {cpus} for rank {rank}: {error}") from error

    def enter(self, command: Sequence[str]) -> list[str]:
        """The command that runs `command` in this cgroup."""
        return ["sh", "-c", f'echo $$ > {self.folder}/cgroup.procs && exec "$@"', "sh", *command]

    def close(self) -> None:
        """Kills what has left its session, and removes the cgroup when that has ended."""
        while self.folder.exists():
            for pid in (self.folder / "cgroup.procs").read_text().split():
                with contextlib.suppress(ProcessLookupError):
                    os.kill(int(pid), signal.SIGKILL)
            try:
                self.folder.rmdir()
            except OSError as error:
                if error.errno != errno.EBUSY:
                    raise
                time.sleep(0.01)


class Hosts:
    """Ranks in network namespaces; made by `emulated`.

    Attributes:
        ranks: how many.
        interface: the name of each rank's interface, "eth0", or "lo" where the rate is None.
    """

    def __init__(
        self,
        ranks: int,
        rate: str | None,
        cpus: Sequence[float] | None,
        processors: Sequence[int] | None = None,
    ) -> None:
        for what, given in (("cpus", cpus), ("processors", processors)):
            if given is not None and len(given) != ranks:
                raise ValueError(f"emulated: {what} for {len(given)} ranks, expected {ranks}")
        self.ranks = ranks
        self._processors = processors
        self.interface = "eth0" if rate else "lo"
        self._started: list[subprocess.Popen] = []
        self._open = contextlib.ExitStack()
        try:
            self._quotas = [self._keep(Quota(rank, part)) for rank, part in enumerate(cpus or ())]
            self._spaces = self._connected(rate) if rate else [self._keep(Namespace())]
        except BaseException:
            self.close()
            raise

    def _keep(self, made):
        self._open.callback(made.close)
        return made

    def _connected(self, rate: str) -> list[Namespace]:
        # A packet of the kernel's segmentation offload has up to 64 KiB, and a bucket below that
        # would take it apart; a fifth of a second of queue loses nothing where ranks send to one.
        bits = bits_per_second(rate)
        burst, queue = max(66 * 1024, int(bits / 8 / 1000)), max(2**20, int(bits / 8 / 5))
        limit = ("tbf", "rate", rate, "burst", str(burst), "limit", str(queue))
        switch = self._keep(Namespace())
        switch.tool("ip", "link", "add", "bridge", "type", "bridge")
        switch.tool("ip", "link", "set", "bridge", "up")
        spaces = []
        for rank in range(self.ranks):
            space, port = self._keep(Namespace()), f"port{rank}"
            pair = ("veth", "peer", "name", "eth0", "netns", str(space.pid))
            switch.tool("ip", "link", "add", port, "type", *pair)
            switch.tool("ip", "link", "set", port, "master", "bridge", "up")
            switch.tool("tc", "qdisc", "add", "dev", port, "root", *limit)
            space.tool("ip", "address", "add", f"{self.address(rank)}/24", "dev", "eth0")
            space.tool("ip", "link", "set", "eth0", "up")
            space.tool("tc", "qdisc", "add", "dev", "eth0", "root", *limit)
            spaces.append(space)
        return spaces

    def address(self, rank: int) -> str:
        """The rank's IPv4 address."""
        return f"{SUBNET}{rank + 1}" if self.interface == "eth0" else "127.0.0.1"

    def environment(self, rank: int) -> dict[str, str]:
        """What `torch.distributed.init_process_group` reads, and the interface of Gloo."""
        return {
            "RANK": str(rank),
            "LOCAL_RANK": "0",
            "WORLD_SIZE": str(self.ranks),
            "LOCAL_WORLD_SIZE": "1",
            "MASTER_ADDR": self.address(0),
            "MASTER_PORT": PORT,
            "GLOO_SOCKET_IFNAME": self.interface,
        }

    def counters(self) -> list[Counters]:
        """What the ranks' interfaces have counted so far; one entry where all share "lo"."""
        return [Counters.read(space.pid) for space in self._spaces]

    def sent(self) -> int:
        """Bytes that all ranks have sent so far, without headers."""
        return sum(counters.sent_payload for counters in self.counters())

    def start(
        self,
        command: Sequence[str],
        env: Mapping[str, str] | None = None,
        outputs: Sequence[tuple[IO, IO]] | None = None,
    ) -> list[subprocess.Popen]:
        """Starts the command once for each rank, which tell themselves apart by RANK.

        The processes are killed at the end of `emulated`, and when the thread that called this
        ends in any way.

        Args:
            env: variables beside this process's and the rank's own.
            outputs: by rank where its output and its errors go; by default where this process's
                do.
        """
        started = []
        for rank in range(self.ranks):
            inside = self._spaces[rank % len(self._spaces)].enter(*command)
            if self._quotas:
                inside = self._quotas[rank].enter(inside)
            if self._processors:
                inside = ["taskset", "--cpu-list", str(self._processors[rank]), *inside]
            out, errors = outputs[rank] if outputs else (None, None)
            process = subprocess.Popen(
                ["setpriv", "--pdeathsig", "KILL", *inside],
                env={**os.environ, **(env or {}), **self.environment(rank)},
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=errors,
                start_new_session=True,
            )
            started.append(process)
            self._started.append(process)
        return started

    def run(
        self, command: Sequence[str], timeout: float = 600.0, env: Mapping[str, str] | None = None
    ) -> list[str]:
        """Runs the command once for each rank, to the end, and returns what each has printed.

        Raises:
            EmulationError: a rank failed, with the last lines of its errors, or some are not done
                after `timeout` seconds. The others are killed.
        """
        with contextlib.ExitStack() as files:
            outputs = [
                tuple(files.enter_context(tempfile.TemporaryFile("w+")) for _ in range(2))
                for _ in range(self.ranks)
            ]
            processes = self.start(command, env, outputs)
            deadline = time.monotonic() + timeout
            while any(process.poll() is None for process in processes):
                if time.monotonic() > deadline or any(process.poll() for process in processes):
                    break
                time.sleep(0.02)
            ended = [process.poll() for process in processes]
            for process in processes:
                _kill(process)
            problems = []
            for rank, (code, (_, errors)) in enumerate(zip(ended, outputs)):
                errors.seek(0)
                if code:
                    last = "".join(errors.readlines()[-25:])
                    problems.append(f"rank {rank} ended with {code}:\n{last}")
            if not problems and None in ended:
                problems = [f"rank {ended.index(None)} is not done after {timeout:g} s"]
            if problems:
                raise EmulationError("\n".join(problems))
            for out, _ in outputs:
                out.seek(0)
            return [out.read() for out, _ in outputs]

    def close(self) -> None:
        """Kills the ranks and gives up the namespaces and quotas."""
        for process in self._started:
            _kill(process)
        self._open.close()


def _kill(process: subprocess.Popen) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)  # it leads a session of its own
    process.wait()


@contextlib.contextmanager
def emulated(
    ranks: int = 2,
    rate: str | None = None,
    cpus: Sequence[float] | None = None,
    processors: Sequence[int] | None = None,
) -> Iterator[Hosts]:
    """Hosts for as many ranks, gone at the end with all that runs on them.

    Args:
        rate: of each rank's link, in each direction, as tc writes it: "200mbit", "1gbit". None:
            the ranks share a loopback interface.
        cpus: by rank how many processors' time it may take, 0.5 for half of one. More than the
            computer has in all measures how they get in each other's way.
        processors: by rank the one that it keeps to.

    Raises:
        EmulationError: the kernel does not allow it (`unavailable` says so without raising).
    """
    hosts = Hosts(ranks, rate, cpus, processors)
    try:
        yield hosts
    finally:
        hosts.close()
