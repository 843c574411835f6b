"""Processes that train a net together until something happens to one of them.

They are forked from one process that has imported everything and runs nothing, so that a trial
takes no seconds of imports, and end as programs do, through the interpreter's end. What each does
is a line in its file: when it enters `smex.partition`, when it trains, when it is told of what.
"""

from __future__ import annotations

import contextlib
import faulthandler
import json
import os
import pathlib
import select
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from typing import Any

import torch
import torch.distributed as dist
from cases import Case, gpt, mlp, wresnet

import smex

FAMILIES: dict[str, Case] = {
    "mlp": mlp(256, 4, 64),
    "gpt": gpt(2, 64, 4, 128, 16, 8),
    "wresnet": wresnet(26, 1, 4, 16, 4),
}
SAVE_EVERY = 10


class OrderedError(Exception):
    """What a rank raises when it is told to."""


def raise_error(number: int, frame: Any) -> None:
    raise OrderedError("no more data")


def train(job: dict[str, Any]) -> None:
    """Trains as one rank, so many steps; saves every tenth, in the background in turns."""
    lines = os.open(f"{job['folder']}/rank-{job['rank']}.jsonl", os.O_WRONLY | os.O_CREAT)

    def say(what: str, **more: Any) -> None:
        os.write(
            lines, (json.dumps({"what": what, "at": time.monotonic(), **more}) + "\n").encode()
        )

    signal.signal(signal.SIGUSR1, raise_error)
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background has none
    faulthandler.register(signal.SIGUSR2, all_threads=True)
    torch.set_num_threads(1)
    smex.init_processes()
    case = FAMILIES[job["family"]]
    torch.manual_seed(0)
    with torch.device("meta"):
        model = case.build()
    batch = case.batch()
    # All have torch's group from here on; what happens before that is torch's.
    dist.barrier()
    say("partition")
    try:
        net = smex.partition(model, args=batch, loss_fn=case.loss_fn, replicate_bytes=1024)
        opt = torch.optim.AdamW(net.parameters(), lr=1e-3)
        smex.init(net, seed=0)
        say("trains")
        for step in range(job["steps"]):
            loss = net(*batch)
            loss.backward()
            smex.clip_grad_norm_(net, 1.0)
            opt.step()
            opt.zero_grad()
            if step % SAVE_EVERY == SAVE_EVERY - 1:
                say("saves")
                path = f"{job['folder']}/saved/{step // SAVE_EVERY % 3}"
                smex.save(path, net, opt, {"step": step}, background=step % 20 == 9)
        say("done", loss=loss.item())
    except BaseException as error:
        failure = isinstance(error, smex.RankFailure)
        named = {"kind": error.kind, "rank": error.rank} if failure else {}
        say("failed", error=type(error).__name__, text=str(error), **named)
        raise


def serve() -> dict[str, Any] | None:
    """Forks a process for each line of the input; returns in those what they are to do."""
    print("ready", flush=True)
    while True:
        with contextlib.suppress(ChildProcessError):
            pid, status = os.waitpid(-1, os.WNOHANG)
            if pid:
                print(f"ended {pid} {os.waitstatus_to_exitcode(status)}", flush=True)
        if not select.select([sys.stdin.fileno()], [], [], 0.005)[0]:
            continue
        # One byte after the other: what is buffered here would be read by the forks too.
        line = b""
        while not line.endswith(b"\n"):
            byte = os.read(sys.stdin.fileno(), 1)
            if not byte:
                return None
            line += byte
        job = json.loads(line)
        pid = os.fork()
        if pid == 0:
            os.setsid()
            os.environ.update(job["environment"])
            text = os.open(f"{job['folder']}/rank-{job['rank']}.txt", os.O_WRONLY | os.O_CREAT)
            null = os.open(os.devnull, os.O_RDONLY)
            os.dup2(null, 0)
            os.dup2(text, 1)
            os.dup2(text, 2)
            return job
        print(f"started {pid}", flush=True)


class Starter:
    """The process that forks ranks, and tells when they have ended."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, __file__], stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0
        )
        self.ended: dict[int, int] = {}
        self._rest = b""
        assert self._read(60) == "ready"

    def _read(self, seconds: float) -> str | None:
        """The next line, or None after so many seconds."""
        out = self._process.stdout
        while b"\n" not in self._rest:
            if not select.select([out], [], [], seconds)[0]:
                return None
            found = os.read(out.fileno(), 65536)
            if not found:
                raise RuntimeError("the process that starts the others has ended")
            self._rest += found
        line, _, self._rest = self._rest.partition(b"\n")
        return line.decode()

    def look(self, seconds: float = 0.0) -> str | None:
        """Takes note of one process that has ended; returns another line."""
        line = self._read(seconds)
        if line and line.startswith("ended"):
            _, pid, code = line.split()
            self.ended[int(pid)] = int(code)
            return None
        return line

    def start(self, job: dict[str, Any]) -> int:
        """Returns the pid."""
        self._process.stdin.write((json.dumps(job) + "\n").encode())
        while not (line := self.look(5.0)):
            pass
        return int(line.split()[1])

    def close(self) -> None:
        self._process.stdin.close()
        self._process.wait()


def free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return found.getsockname()[1]


class Ranks:
    """The processes of one training.

    Args:
        starter: that forks them.
        family: of the model.
        size: how many there are.
        steps: of the training.
        shared: whether they may share memory.
    """

    def __init__(self, starter: Starter, family: str, size: int, steps: int, shared: bool):
        self._starter = starter
        self.folder = tempfile.mkdtemp(prefix="disturbed-")
        self.size = size
        environment = {
            "MASTER_ADDR": "127.0.0.1",
            "MASTER_PORT": str(free_port()),
            "WORLD_SIZE": str(size),
            "SMEX_SHARED_MEMORY": str(int(shared)),
            "SMEX_FLIGHT_FOLDER": f"{self.folder}/flight",
            "TORCH_CPP_LOG_LEVEL": "ERROR",  # torch warns of each store that is lost
        }
        job = {"folder": self.folder, "family": family, "steps": steps}
        self.pids = [
            starter.start({**job, "rank": rank, "environment": {**environment, "RANK": str(rank)}})
            for rank in range(size)
        ]

    def lines(self, rank: int) -> list[dict[str, Any]]:
        path = pathlib.Path(f"{self.folder}/rank-{rank}.jsonl")
        return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []

    def output(self, rank: int) -> str:
        return pathlib.Path(f"{self.folder}/rank-{rank}.txt").read_text()

    def code(self, rank: int) -> int | None:
        """How it has ended; None while it has not."""
        self._starter.look()
        return self._starter.ended.get(self.pids[rank])

    def has(self, rank: int, what: str) -> bool:
        return any(line["what"] == what for line in self.lines(rank))

    def await_all(self, ranks: list[int], what: str, seconds: float) -> bool:
        """Whether so many of them say so, or have ended, within a time."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            if all(self.has(rank, what) or self.code(rank) is not None for rank in ranks):
                return True
            time.sleep(0.002)
        return False

    def await_ends(self, ranks: list[int], seconds: float) -> bool:
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            if all(self.code(rank) is not None for rank in ranks):
                return True
            time.sleep(0.002)
        return False

    def signal(self, rank: int, number: int) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.pids[rank], number)

    def close(self, keep: bool = False) -> None:
        for rank in range(self.size):
            if self.code(rank) is None:
                self.signal(rank, signal.SIGKILL)
        self.await_ends(list(range(self.size)), 10)
        if not keep:
            shutil.rmtree(self.folder, ignore_errors=True)


@contextlib.contextmanager
def starting() -> Iterator[Starter]:
    starter = Starter()
    try:
        yield starter
    finally:
        starter.close()


if __name__ == "__main__":
    found = serve()
    if found is not None:
        train(found)
