"""An elastic training under torchrun whose nodes are killed and join, beside an undisturbed one.

Each node is an agent of torchrun with one rank, in a session of its own (`--nnodes 1:4`); the
rendezvous' store is in the process that kills them. The training saves in each fifth step and goes
on from `smex.latest`, with as many ranks as there are.
"""

from __future__ import annotations

import contextlib
import json
import os
import pathlib
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from typing import Any

import torch
import torch.distributed as dist
from cases import Case, gpt, mlp

import smex

EVERY = 20
"""Steps to a restart, at one of these."""
SAVE_EVERY = 5
FAMILIES: dict[str, Case] = {"mlp": mlp(128, 4, 48), "gpt": gpt(2, 48, 4, 64, 12, 12)}
START = 120.0  # seconds to the first step after a restart


def train(family: str, folder: str, steps: int) -> None:
    """Trains from the last checkpoint on; the first rank writes a line for each step."""
    torch.set_num_threads(1)
    case = FAMILIES[family]
    torch.set_default_dtype(torch.float64)
    torch.manual_seed(0)
    with torch.device("meta"):
        model = case.build()

    def batch(step: int) -> tuple[torch.Tensor, ...]:
        torch.manual_seed(step)
        return case.batch()

    net = smex.partition(model, args=batch(0), loss_fn=case.loss_fn, replicate_bytes=1024)
    opt = torch.optim.AdamW(net.parameters(), lr=1e-3)
    start = smex.latest(f"{folder}/saved")
    extra = smex.load(start, net, opt) if start else smex.init(net, seed=0)
    is_first = int(os.environ.get("RANK", 0)) == 0
    size = int(os.environ.get("WORLD_SIZE", 1))
    for step in range(extra.get("step", -1) + 1, steps):
        loss = net(*batch(step))
        loss.backward()
        smex.clip_grad_norm_(net, 1.0)
        opt.step()
        opt.zero_grad()
        if is_first:
            line = {"step": step, "loss": loss.item().hex(), "size": size, "at": time.monotonic()}
            with open(f"{folder}/losses.jsonl", "a") as lines:
                lines.write(json.dumps(line) + "\n")
        if step % SAVE_EVERY == SAVE_EVERY - 1:
            path = f"{folder}/saved/{step // SAVE_EVERY % 2}"
            smex.save(path, net, opt, {"step": step}, background=step % 2 == 0)
        # A training takes longer than its restarts; this one waits for its own.
        limit = pathlib.Path(f"{folder}/limit")
        while limit.exists() and step >= int(limit.read_text()):
            time.sleep(0.05)


def lines_of(folder: str) -> list[dict[str, Any]]:
    path = pathlib.Path(f"{folder}/losses.jsonl")
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def descendants(pid: int) -> list[int]:
    """A process and those that it has started."""
    found = [pid]
    for parent in found:
        for task in pathlib.Path(f"/proc/{parent}/task").glob("*/children"):
            with contextlib.suppress(OSError):
                found += map(int, task.read_text().split())
    return found


class Nodes:
    """Agents of torchrun."""

    def __init__(self, family: str, folder: str, steps: int, allowed: str):
        self._store = dist.TCPStore("127.0.0.1", 0, None, True, wait_for_workers=False)
        conf = "is_host=false,last_call_timeout=1,keep_alive_interval=1,keep_alive_max_attempt=3"
        self._command = [
            sys.executable, "-m", "torch.distributed.run", f"--nnodes={allowed}",
            "--nproc-per-node=1", "--max-restarts=1000", "--monitor-interval=0.1",
            "--rdzv-backend=c10d", f"--rdzv-endpoint=127.0.0.1:{self._store.port}",
            f"--rdzv-conf={conf}", "--rdzv-id=restarts", "--local-addr=127.0.0.1",
            __file__, family, folder, str(steps),
        ]  # fmt: skip
        self._folder = folder
        self._count = 0
        self.agents: list[subprocess.Popen] = []

    def add(self) -> None:
        self._count += 1
        environment = {
            **os.environ,
            "OMP_NUM_THREADS": "1",
            "TORCH_CPP_LOG_LEVEL": "ERROR",
            # torch's agents keep the store of the first round otherwise, whose address those who
            # join later are never told (2.15).
            "TORCH_DISABLE_SHARE_RDZV_TCP_STORE": "1",
        }
        with open(f"{self._folder}/agent-{self._count}.txt", "w") as text:
            agent = subprocess.Popen(
                self._command, stdin=subprocess.DEVNULL, stdout=text, stderr=text,
                start_new_session=True, env=environment,
            )  # fmt: skip
        self.agents.append(agent)

    def kill(self, which: int) -> None:
        """A machine that is lost: the agent and its rank, at once."""
        agent = self.agents.pop(which)
        for pid in descendants(agent.pid):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        agent.wait()

    def close(self) -> None:
        while self.agents:
            self.kill(0)


def await_step(folder: str, step: int, size: int, since: float) -> float:
    """Waits for a step of so many ranks; returns when that was."""
    end = time.monotonic() + START
    while time.monotonic() < end:
        for line in lines_of(folder):
            if line["step"] >= step and line["size"] == size and line["at"] > since:
                return line["at"]
        time.sleep(0.05)
    raise SystemExit(f"no step {step} of {size} ranks within {START:g} s; see {folder}")


def undisturbed(family: str, steps: int) -> dict[int, float]:
    folder = tempfile.mkdtemp(prefix="undisturbed-")
    command = [sys.executable, __file__, family, folder, str(steps)]
    subprocess.run(command, check=True, env={**os.environ, "OMP_NUM_THREADS": "1"})
    found = {line["step"]: float.fromhex(line["loss"]) for line in lines_of(folder)}
    shutil.rmtree(folder)
    return found


def run(family: str, restarts: int, seed: int) -> int:
    """Prints what was seen; returns whether the losses differ."""
    draw = random.Random(seed)
    steps = EVERY * (restarts + 1)
    whole = undisturbed(family, steps)
    folder = tempfile.mkdtemp(prefix="restarts-")
    limit = pathlib.Path(f"{folder}/limit")
    nodes = Nodes(family, folder, steps, "1:4")
    sizes, seconds = [2], []
    try:
        at = [EVERY * n + draw.randrange(EVERY) for n in range(restarts)]
        limit.write_text(str(at[0]))
        for _ in range(2):
            nodes.add()
        await_step(folder, at[0], 2, 0)
        for n in range(restarts):
            grows = len(nodes.agents) == 1 or (len(nodes.agents) < 4 and draw.random() < 0.5)
            time.sleep(draw.uniform(0, 0.5))
            limit.write_text(str(at[n + 1] if n + 1 < restarts else steps))
            started = time.monotonic()
            if grows:
                nodes.add()
            else:
                nodes.kill(draw.randrange(len(nodes.agents)))
            sizes.append(len(nodes.agents))
            print(f"\r\033[K{n + 1}/{restarts}, {sizes[-1]} ranks", end="", file=sys.stderr)
            first = await_step(folder, 0, sizes[-1], started)
            seconds.append(first - started)
            if n + 1 < restarts:
                await_step(folder, at[n + 1], sizes[-1], started)
        for agent in nodes.agents:
            if agent.wait(timeout=START) != 0:
                raise SystemExit(f"an agent has ended with {agent.returncode}; see {folder}")
        nodes.agents.clear()
    finally:
        nodes.close()
    lines = lines_of(folder)
    furthest = 0.0
    for line in lines:
        loss, wanted = float.fromhex(line["loss"]), whole[line["step"]]
        furthest = max(furthest, abs(loss - wanted) / abs(wanted))
    complete = {line["step"] for line in lines} == set(range(steps))
    shutil.rmtree(folder)
    print(
        f"\n{family}: {restarts} restarts, ranks {', '.join(map(str, sizes))}; {steps} steps, of "
        f"which {len(lines) - steps} ran twice; seconds to the first step after a restart: median "
        f"{sorted(seconds)[len(seconds) // 2]:.1f}, most {max(seconds):.1f}; last loss "
        f"{float.fromhex(lines[-1]['loss']):.12f}, undisturbed in one process "
        f"{whole[steps - 1]:.12f}; furthest of all steps {furthest:.1e} (relative, float64)"
    )
    return int(not complete or furthest > 1e-9)


if __name__ == "__main__":
    name, where, count = sys.argv[1:]
    train(name, where, int(count))
