"""A pool of processes with a Gloo group, which all tests of a module share."""

import multiprocessing
import os
import sys
import traceback


class Ranks:
    """Processes that call functions together.

    Args:
        size: how many.
        folder: for the store by which they find each other.
    """

    def __init__(self, size, folder):
        # One process imports, and is forked: three that import take three times as long.
        context = multiprocessing.get_context("forkserver")
        context.set_forkserver_preload(["support.checkpoint_ranks"])
        os.environ.setdefault("OMP_NUM_THREADS", "1")
        self._pipes, self.processes = [], []
        for rank in range(size):
            ours, theirs = context.Pipe()
            args = (rank, size, str(folder / "store"), theirs, sys.path)
            process = context.Process(target=_serve, args=args, daemon=True)
            process.start()
            self._pipes.append(ours)
            self.processes.append(process)

    def call(self, function, *args):
        """Runs a function on all ranks, with the rank first; returns (class of an error, result)."""
        for pipe in self._pipes:
            pipe.send((function, args))
        found = []
        for rank, pipe in enumerate(self._pipes):
            if not pipe.poll(120):
                raise TimeoutError(f"rank {rank} has not answered {function.__name__} in 120 s")
            found.append(pipe.recv())
        return found

    def results(self, function, *args):
        """Returns what a function returns on each rank; no rank fails."""
        found = self.call(function, *args)
        for rank, (error, result) in enumerate(found):
            assert error is None, f"rank {rank}: {result}"
        return [result for _, result in found]

    def close(self):
        """Ends the processes."""
        for pipe in self._pipes:
            pipe.send(None)
        for process in self.processes:
            process.join(20)
            if process.is_alive():
                process.kill()
                process.join()


def _serve(rank, size, store, pipe, path):
    sys.path[:] = path
    import torch
    import torch.distributed as dist

    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{store}", rank=rank, world_size=size)
    while (task := pipe.recv()) is not None:
        function, args = task
        try:
            pipe.send((None, function(rank, *args)))
        except Exception as error:
            text = (
                str(error) if type(error).__module__.startswith("smex") else traceback.format_exc()
            )
            pipe.send((type(error).__name__, text))
    dist.destroy_process_group()
