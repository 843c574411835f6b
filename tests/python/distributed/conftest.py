import pytest
import torch

from support.processes import ProcessPool


@pytest.fixture(scope="session")
def processes():
    """The pool of processes that tests share."""
    pool = ProcessPool()
    yield pool
    pool.close()


@pytest.fixture(autouse=True)
def one_thread():
    """As many threads as a process of the pool has: torch adds in another order with more."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)
