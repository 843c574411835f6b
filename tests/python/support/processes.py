"""A pool of processes that run functions together, as ranks of one group.

They are forked from a server that has imported torch and smex once, and serve all tests of a file.
"""

import contextlib
import importlib.util
import multiprocessing
import os
import pickle
import signal
import sys
import tempfile
import time
import traceback
from datetime import timedelta

import torch
import torch.distributed as dist

from smex.distributed.world import disconnect_old

_FILES: dict = {}
_PATIENCE = 20
"""Seconds within which a process ends that has nothing to do any more."""


def _function(path, name):
    """Loads the file that a test's function is from, without pytest."""
    if path not in _FILES:
        spec = importlib.util.spec_from_file_location(f"in_processes_{len(_FILES)}", path)
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        _FILES[path] = module
    found = _FILES[path]
    for part in name.split("."):
        found = getattr(found, part)
    return found


def _join(store, rank, world, timeout):
    dist.init_process_group(
        "gloo", store=dist.FileStore(store, world), rank=rank, world_size=world,
        timeout=timedelta(seconds=timeout),
    )  # fmt: skip
    # A rank whose function says nothing to the others may be done, and its connections
    # closed, before another has finished to connect.
    dist.barrier()


def _serve(pipe, search_path):
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    sys.path[:] = search_path
    torch.set_num_threads(1)
    while True:
        try:
            task = pipe.recv()
        except EOFError:
            return
        if task is None:
            return
        path, name, store, rank, world, timeout, variables, ends, args = task
        before = {key: os.environ.get(key) for key in variables}
        os.environ.update(variables)
        if ends:  # as a program does
            _join(store, rank, world, timeout)
            pipe.send((True, pickle.dumps(_function(path, name)(rank, *args))))
            return
        try:
            function = _function(path, name)
            _join(store, rank, world, timeout)
            answer = True, pickle.dumps(function(rank, *args))
        except BaseException as error:
            answer = False, f"{type(error).__name__}: {error}\n{traceback.format_exc()}"
        finally:
            if dist.is_initialized():
                with contextlib.suppress(dist.DistBackendError):  # NCCL's, where a rank has failed
                    dist.destroy_process_group()
            disconnect_old()
            for key, value in before.items():
                os.environ.pop(key) if value is None else os.environ.update({key: value})
        pipe.send(answer)


class ProcessPool:
    """So many processes as a test asked for last, at least."""

    def __init__(self):
        self._context = multiprocessing.get_context("forkserver")
        self._context.set_forkserver_preload(
            ["torch", "torch._functorch.aot_autograd", "smex", "support.families"]
        )
        self._members = []

    def _start(self, count):
        while len(self._members) < count:
            here, there = self._context.Pipe()
            process = self._context.Process(
                target=_serve, args=(there, list(sys.path)), daemon=True
            )
            process.start()
            there.close()
            self._members.append((process, here))

    def outcomes(self, function, world, *args, timeout=60, variables=None, ends=False):
        """Runs `function(rank, *args)` in so many ranks; by rank (succeeded, result or text).

        With `ends` the processes end afterwards as a program's do, by an error where there is one.
        """
        self._start(world)
        path = sys.modules[function.__module__].__file__
        with tempfile.TemporaryDirectory() as folder:
            store = os.path.join(folder, "store")
            for rank in range(world):
                self._members[rank][1].send(
                    (
                        path,
                        function.__qualname__,
                        store,
                        rank,
                        world,
                        timeout,
                        variables or {},
                        ends,
                        args,
                    )
                )
            found = []
            end = time.monotonic() + timeout
            for rank in range(world):
                process, pipe = self._members[rank]
                if not pipe.poll(max(0, end - time.monotonic())):
                    found.append((False, f"rank {rank} does not answer after {timeout} s"))
                    continue
                try:
                    good, what = pipe.recv()
                    found.append((good, pickle.loads(what) if good else what))
                except EOFError:
                    found.append((False, f"rank {rank} has ended, exit code {process.exitcode}"))
        if ends:
            for rank, (process, _) in enumerate(self._members[:world]):
                process.join(_PATIENCE)
                assert process.exitcode is not None, f"rank {rank} does not end"
        if ends or not all(good for good, _ in found):
            self.close()  # what failed may have left groups that hang
        return found

    def run(self, function, world, *args, **options):
        """Returns the ranks' results; fails with the first text of a rank that failed."""
        found = self.outcomes(function, world, *args, **options)
        for rank, (good, what) in enumerate(found):
            assert good, f"rank {rank} of {world}: {what}"
        return [what for _, what in found]

    def close(self):
        for process, pipe in self._members:
            pipe.close()
            process.kill()
            process.join()
        self._members = []
