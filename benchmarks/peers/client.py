"""The measuring side: starts one worker per environment and asks them in turn."""

from __future__ import annotations

import dataclasses
import json
import os
import pathlib
import resource
import subprocess
from typing import Any

import environments
import numpy as np
from systems.base import Case

WORKER = pathlib.Path(__file__).parent / "worker.py"
PARAMETERS = ("weight", "own", "bias", "left", "right")  # of each layer, which may be numbered


class PeerError(RuntimeError):
    """A worker could not do what it was asked; `unsupported` when its system has no such thing."""

    def __init__(self, text: str, *, unsupported: bool = False) -> None:
        super().__init__(text)
        self.unsupported = unsupported


class Worker:
    """A process in the environment of a peer, alive until `close()`."""

    def __init__(self, name: str, device: str, memory_limit: int, **environment: str) -> None:
        python = environments.interpreter(name)
        if python is None:
            raise PeerError(f"no environment: python benchmarks/peers/environments.py {name}")
        limits = (memory_limit, memory_limit)
        self.name = name
        self.process = subprocess.Popen(
            [python, WORKER, name, device],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, **environment},
            preexec_fn=lambda: (
                resource.setrlimit(resource.RLIMIT_DATA, limits) if memory_limit else None
            ),
        )
        try:
            self.about = self.ask("hello")
        except BaseException:
            self.close()
            raise

    def ask(self, do: str, **arguments: Any) -> dict[str, Any]:
        try:
            self.process.stdin.write(json.dumps({"do": do, **arguments}) + "\n")
            self.process.stdin.flush()
        except BrokenPipeError:
            raise PeerError(f"the worker of {self.name} is dead") from None
        line = self.process.stdout.readline()
        if not line:
            raise PeerError(f"the worker of {self.name} ended with {self.process.wait()}")
        reply = json.loads(line)
        if "unsupported" in reply:
            raise PeerError(reply["unsupported"], unsupported=True)
        if "error" in reply:
            raise PeerError(reply["error"])
        return reply

    def close(self) -> None:
        self.process.stdin.close()
        self.process.wait()


class Peers:
    """The workers of a run, and the files through which they get the same inputs."""

    def __init__(
        self,
        names: list[str],
        folder: pathlib.Path,
        *,
        device: str = "cpu",
        memory_limit: int = 0,
        seed: int = 0,
        **environment: str,
    ) -> None:
        self.folder, self.seed = folder, seed
        self.missing: dict[str, str] = {}
        self.of_system: dict[str, Worker] = {}
        self.workers: list[Worker] = []
        for name in names:
            try:
                worker = Worker(name, device, memory_limit, **environment)
            except PeerError as error:
                self.missing[name] = str(error)
                continue
            self.workers.append(worker)
            self.of_system.update(dict.fromkeys(worker.about["systems"], worker))

    def __enter__(self) -> Peers:
        return self

    def __exit__(self, *exception: object) -> None:
        for worker in self.workers:
            worker.close()

    def versions(self) -> str:
        """One line: what runs, and what does not and why."""
        found = [
            f"{worker.name}: {', '.join(f'{k} {v}' for k, v in worker.about['versions'].items())}"
            for worker in self.workers
        ]
        return "; ".join(found + [f"{k}: NOT MEASURED, {v}" for k, v in self.missing.items()])

    def load_graph(self, name: str, src, dst, num_nodes: int, idtype: str) -> None:
        paths = {}
        for role, array in (("src", src), ("dst", dst)):
            paths[role] = str(self.folder / f"graph-{role}.npy")
            np.save(paths[role], array)
        self.tell_all("graph", name=name, num_nodes=num_nodes, idtype=idtype, **paths)

    def tell_all(self, do: str, **arguments: Any) -> None:
        for worker in self.workers:
            if worker.process.poll() is None:
                worker.ask(do, **arguments)

    def features(self, shapes: dict[str, tuple[int, ...]]) -> dict[str, str]:
        """Files of normally distributed numbers, one per role, the same for the same shape.

        Parameters of layers are scaled by their fan-in.
        """
        paths = {}
        for index, (role, shape) in enumerate(shapes.items()):
            path = self.folder / f"{role}-{'x'.join(map(str, shape))}.npy"
            if not path.exists():
                generator = np.random.default_rng([self.seed, index, *shape])
                scale = shape[-1] ** -0.5 if role.rstrip("12") in PARAMETERS else 1.0
                array = generator.standard_normal(shape, dtype=np.float32)
                np.save(path, array * np.float32(scale))
            paths[role] = str(path)
        return paths

    def clear_features(self) -> None:
        for path in self.folder.glob("*.npy"):
            path.unlink()

    def prepare(self, key: str, system: str, graph: str, case: Case, inputs: dict) -> None:
        self.of_system[system].ask(
            "prepare",
            key=key,
            system=system,
            graph=graph,
            case=dataclasses.asdict(case),
            inputs=inputs,
        )
