"""Memory that processes share, and functions in threads of their own."""

import os
import socket
import threading

import pytest
import torch

from smex.graph import multiprocessing


def fill(rank, port, queue):
    os.environ.update(MASTER_ADDR="localhost", MASTER_PORT=str(port))
    torch.distributed.init_process_group("gloo", rank=rank, world_size=2)
    shared = multiprocessing.shared_tensor((2, 3), torch.int64)
    shared[rank] = rank + 1
    once = multiprocessing.call_once_and_share(lambda: torch.ones(4) * rank, (4,), torch.float32, 1)
    empty = multiprocessing.shared_tensor((0, 3))
    torch.distributed.barrier()
    queue.put((rank, shared.tolist(), once.tolist(), list(empty.shape)))
    torch.distributed.barrier()
    torch.distributed.destroy_process_group()


def free_port():
    with socket.socket() as probe:
        probe.bind(("localhost", 0))
        return probe.getsockname()[1]


def test_ranks_write_what_all_of_them_read():
    context = multiprocessing.get_context("spawn")
    queue, port = context.Queue(), free_port()
    ranks = [context.Process(target=fill, args=(rank, port, queue)) for rank in range(2)]
    for rank in ranks:
        rank.start()
    found = sorted(queue.get(timeout=120) for _ in ranks)
    for rank in ranks:
        rank.join(60)
        assert rank.exitcode == 0
    expected = ([[1, 1, 1], [2, 2, 2]], [1.0] * 4, [0, 3])
    assert found == [(0, *expected), (1, *expected)]
    left = os.listdir("/dev/shm") if os.path.isdir("/dev/shm") else []
    assert not [name for name in left if name.startswith("smex_shared_")]


def test_without_a_group():
    shared = multiprocessing.call_once_and_share(lambda: torch.arange(3), (3,), torch.int32)
    assert shared.is_shared() and shared.tolist() == [0, 1, 2]


def test_functions_run_in_threads_and_raise():
    assert multiprocessing.thread_wrapped_func(threading.get_ident)() != threading.get_ident()
    with pytest.raises(ValueError, match="invalid literal"):
        multiprocessing.thread_wrapped_func(int)("x")


def put(queue, value):
    queue.put((value, threading.current_thread() is threading.main_thread()))


def test_processes_run_their_function_in_a_thread():
    queue = multiprocessing.get_context("fork").SimpleQueue()
    process = multiprocessing.Process(target=put, args=(queue,), kwargs={"value": 3})
    process.start()
    assert queue.get() == (3, False)
    process.join(60)
    assert process.exitcode == 0
