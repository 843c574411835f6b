"""The process that measures the systems of one environment; driven by client.py over pipes.

Each line of its input is a request, `{"do": NAME, ...}`, answered by one line: what the method
`NAME` returns, `{"unsupported": TEXT}` or `{"error": TEXT}`. Arrays travel as .npy files. It runs
in the environment of the peer, so it imports nothing of the project.
"""

from __future__ import annotations

import ctypes
import gc
import importlib
import json
import os
import pathlib
import sys
import time
import traceback
import warnings

import numpy as np
import torch
from edge_list import Edges
from prepared import Prepared, Training
from systems.base import Case, Unsupported
from torch import Tensor

SPIN = 0.02  # seconds after which the threads of OpenMP have gone to sleep
SHORT = 0.005  # seconds that a measured block of calls lasts at least


class Worker:
    def __init__(self, name: str, device: str) -> None:
        self.device = torch.device(device)
        self.module = importlib.import_module(f"systems.{name}_system")
        self.systems = {system.name: system() for system in self.module.SYSTEMS}
        self.edges: dict[str, Edges] = {}
        self.prepared: dict[str, Prepared] = {}
        self.threads = 0
        self.clock = time.perf_counter

    def hello(self) -> dict:
        versions = {"torch": torch.__version__, **self.module.VERSIONS}
        return {"systems": list(self.systems), "versions": versions}

    def graph(self, name: str, src: str, dst: str, num_nodes: int, idtype: str) -> dict:
        self.edges[name] = Edges(self._load(src, idtype), self._load(dst, idtype), num_nodes)
        return {}

    def forget_graph(self, name: str) -> dict:
        self.edges.pop(name, None)
        return {}

    def prepare(self, key: str, system: str, graph: str, case: dict, inputs: dict) -> dict:
        spec = Case(**case)
        edges = self.edges[graph]
        operator = self.systems[system].operator(spec, edges)
        loaded = {role: self._load(path) for role, path in inputs.items()}
        if operator.parameters:
            self.prepared[key] = Training(operator, loaded)
        else:
            self.prepared[key] = Prepared(operator, spec, edges, loaded)
        return {}

    def release(self) -> dict:
        self.prepared.clear()
        gc.collect()
        return {}

    def measure(self, key: str, threads: int, repeats: int, clock: str = "perf_counter") -> dict:
        """Seconds per call: the median of `repeats` blocks, after a call that warms up."""
        self._set_threads(threads)
        self.clock = getattr(time, clock)
        self.prepared[key].move()
        step = self.prepared[key].step
        warm = self._seconds(step, 1)
        calls = max(1, int(SHORT / max(warm, 1e-7)))
        if calls > 1:
            calls = max(1, int(SHORT / max(self._seconds(step, calls), 1e-7)))
        blocks = [self._seconds(step, calls) for _ in range(repeats if warm < 0.2 else 1)]
        if threads > 1:
            time.sleep(SPIN)  # idle threads of this process would disturb the next one's
        return {"seconds": float(np.median(blocks))}

    def save(self, key: str, folder: str) -> dict:
        self._set_threads(1)
        arrays, seconds = self._results(key)
        for role, array in arrays.items():
            np.save(pathlib.Path(folder) / f"{role}.npy", array)
        found = {role: {"checksum": float(a.sum(dtype=np.float64))} for role, a in arrays.items()}
        return {"results": found, "seconds": seconds}

    def compare(self, key: str, folder: str, tolerance: float) -> dict:
        """Each result beside the saved one.

        Checksum, largest absolute difference, largest absolute value of the saved one, and the
        share of elements whose difference is above `tolerance` times that value.
        """
        arrays, seconds = self._results(key)
        found = {}
        for role, array in arrays.items():
            path = pathlib.Path(folder) / f"{role}.npy"
            if not path.exists():
                continue
            saved = np.load(path).reshape(array.shape)
            off, scale = np.abs(array - saved), float(np.abs(saved).max(initial=0))
            found[role] = {
                "checksum": float(array.sum(dtype=np.float64)),
                "difference": float(off.max(initial=0)),
                "scale": scale,
                "share": float(np.mean(off > tolerance * scale)) if off.size else 0.0,
            }
        return {"results": found, "seconds": seconds}

    def _results(self, key: str) -> tuple[dict[str, np.ndarray], float]:
        """The results, and the seconds of the call that made them, which is the first one."""
        self._set_threads(1)
        found = {}
        seconds = self._seconds(lambda: found.update(self.prepared[key].run()), 1)
        return self.prepared[key].in_common_layout(found), seconds

    def peak(self, key: str, threads: int) -> dict:
        """Bytes of memory that a step needs above what is held before it.

        On CPUs the process's peak resident set, which counts every allocator alike.
        """
        self._set_threads(threads)
        prepared = self.prepared[key]
        prepared.step()
        prepared.forget_gradients()
        gc.collect()
        if self.device.type == "cuda":
            torch.cuda.reset_peak_memory_stats()
            before = torch.cuda.memory_allocated()
            prepared.step()
            return {"bytes": torch.cuda.max_memory_allocated() - before}
        ctypes.CDLL(None).malloc_trim(0)
        before = _status_bytes("VmRSS")
        pathlib.Path("/proc/self/clear_refs").write_text("5")  # resets VmHWM
        prepared.step()
        return {"bytes": _status_bytes("VmHWM") - before}

    def _seconds(self, step, calls: int) -> float:
        self._synchronize()
        started = self.clock()
        for _ in range(calls):
            step()
        self._synchronize()
        return (self.clock() - started) / calls

    def _synchronize(self) -> None:
        if self.device.type == "cuda":
            torch.cuda.synchronize()

    def _set_threads(self, threads: int) -> None:
        if threads != self.threads:
            torch.set_num_threads(threads)
            getattr(self.module, "set_num_threads", lambda n: None)(threads)
            self.threads = threads

    def _load(self, path: str, dtype: str | None = None) -> Tensor:
        tensor = torch.from_numpy(np.load(path)).to(self.device)
        return tensor.to(getattr(torch, dtype)) if dtype else tensor


def _status_bytes(field: str) -> int:
    for line in pathlib.Path("/proc/self/status").read_text().splitlines():
        if line.startswith(field + ":"):
            return int(line.split()[1]) * 1024
    raise RuntimeError(f"/proc/self/status has no {field}")


def answer(worker: Worker, request: dict) -> dict:
    try:
        return getattr(worker, request.pop("do"))(**request)
    except Unsupported as reason:
        return {"unsupported": str(reason)}
    except Exception as error:
        return {"error": f"{type(error).__name__}: {error}", "trace": traceback.format_exc()}


def main() -> None:
    warnings.filterwarnings("ignore")
    replies = os.fdopen(os.dup(sys.stdout.fileno()), "w")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())  # prints of the libraries are no replies
    worker = Worker(*sys.argv[1:3])
    for line in sys.stdin:
        print(json.dumps(answer(worker, json.loads(line))), file=replies, flush=True)


if __name__ == "__main__":
    main()
