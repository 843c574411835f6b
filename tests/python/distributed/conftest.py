import pytest

from support.processes import ProcessPool


@pytest.fixture(scope="session")
def processes():
    """The pool of processes that tests share."""
    pool = ProcessPool()
    yield pool
    pool.close()
