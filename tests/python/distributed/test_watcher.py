"""Processes hear in bounded time that one of them has failed, and by no mistake."""

import contextlib
import ctypes
import multiprocessing
import os
import pickle
import signal
import subprocess
import sys
import textwrap
import threading
import time

import pytest
import torch.distributed as dist

import smex
from smex import _C
from smex.distributed.failure import unless_failed, watch

# Ranks are forked from a process that has imported everything and runs nothing.
multiprocessing.set_forkserver_preload(["smex.distributed.failure"])
CONTEXT = multiprocessing.get_context("forkserver")
TIMES = {"interval": 0.1, "limit": 2.0}
LONG = 60.0  # for what ends much sooner where nothing is wrong


def facts(failure):
    """What can travel of a failure."""
    if failure is None:
        return None
    return failure.kind, failure.rank, failure.where, failure.message()


def open_store(address):
    kind, *rest = address
    if kind == "file":
        return dist.FileStore(rest[0], -1)
    host, port, is_host = rest
    return dist.TCPStore(host, port, None, is_host, wait_for_workers=False)


def be_rank(connection, address, rank, size, times):
    """Does what it is told until the connection closes."""
    store = open_store(address)
    if address[0] == "tcp" and address[3]:
        connection.send(store.port)
    watcher = watch(store, rank, size, **times)
    while True:
        try:
            command, *arguments = connection.recv()
        except EOFError:
            return
        if command == "sleep in C":
            ctypes.PyDLL(None).usleep(int(1e6 * arguments[0]))  # PyDLL keeps Python's lock
            connection.send(None)
        elif command == "exit":
            os._exit(arguments[0])
        elif command == "return":
            return
        elif command == "raise":
            raise ValueError(arguments[0])
        elif command in ("report", "settle", "wait", "failure", "failure_awaiting"):
            connection.send(facts(getattr(watcher, command)(*arguments)))
        else:
            connection.send(getattr(watcher, command)(*arguments))


class Ranks:
    """Processes that watch each other, by rank."""

    def __init__(self, size, address=None, first=0, times=TIMES):
        self.store = None
        if address is None:
            self.store = dist.TCPStore("127.0.0.1", 0, None, True, wait_for_workers=False)
            address = ("tcp", "127.0.0.1", self.store.port, False)
        self.processes, self.connections = {}, {}
        for rank in range(first, size):
            ours, theirs = CONTEXT.Pipe()
            process = CONTEXT.Process(target=be_rank, args=(theirs, address, rank, size, times))
            process.start()
            theirs.close()
            self.processes[rank], self.connections[rank] = process, ours
            if address[0] == "tcp" and address[3]:
                address = ("tcp", "127.0.0.1", ours.recv(), False)
        for rank in self.processes:
            self(rank, "failure")

    def begin(self, rank, *command):
        self.connections[rank].send(command)

    def end(self, rank):
        assert self.connections[rank].poll(LONG), f"rank {rank} does not answer"
        return self.connections[rank].recv()

    def __call__(self, rank, *command):
        self.begin(rank, *command)
        return self.end(rank)

    def all(self, ranks, *command):
        for rank in ranks:
            self.begin(rank, *command)
        return [self.end(rank) for rank in ranks]

    def meet(self):
        """Returns when each has heard of each other one."""
        for rank in self.processes:
            for other in self.processes:
                while not self(rank, "arrived", other):
                    time.sleep(0.01)

    def signal(self, rank, number):
        os.kill(self.processes[rank].pid, number)

    def close(self):
        for connection in self.connections.values():
            connection.close()
        for rank, process in self.processes.items():
            with contextlib.suppress(ProcessLookupError):
                self.signal(rank, signal.SIGCONT)
            process.join(LONG)
            if process.exitcode is None:
                process.kill()
                pytest.fail(f"rank {rank} did not end")


@pytest.fixture
def ranks(request):
    """Makes ranks that are ended after the test."""
    with contextlib.ExitStack() as stack:

        def make(*args, **kwargs):
            made = Ranks(*args, **kwargs)
            stack.callback(made.close)
            return made

        yield make


# ---- failures ----


def test_a_killed_rank_is_named_by_all_others(ranks):
    group = ranks(3)
    pid = group.processes[2].pid
    group.meet()
    group.signal(2, signal.SIGKILL)
    found = group.all([0, 1], "wait", LONG)
    assert found[0] == found[1]
    kind, rank, where, message = found[0]
    assert (kind, rank, where) == ("gone", 2, "")
    assert message.startswith(f"rank 2 was killed or has crashed (its process {pid} on ")


def test_a_stopped_rank_is_named_and_hears_of_it_when_it_goes_on(ranks):
    group = ranks(3)
    group.meet()
    group.signal(1, signal.SIGSTOP)
    found = group.all([0, 2], "wait", LONG)
    assert found[0] == found[1]
    assert found[0][:2] == ("silent", 1)
    assert "rank 1 has not answered for " in found[0][3]
    assert found[0][3].endswith("is stopped)")
    group.signal(1, signal.SIGCONT)
    assert group(1, "wait", LONG) == found[0]


def test_an_error_is_told_with_its_text_and_place(ranks):
    group = ranks(3)
    expected = (
        "raised",
        0,
        "backward instruction 118 (fetch of layer3.weight)",
        "rank 0 failed in backward instruction 118 (fetch of layer3.weight): no memory",
    )
    where = expected[2]
    assert group(0, "report", "no memory", where) == expected
    assert group.all([1, 2], "wait", LONG) == [expected, expected]


def test_a_second_failure_does_not_replace_the_first(ranks):
    group = ranks(3)
    group.meet()
    first = group(0, "report", "first")
    assert group(1, "report", "second") == first
    group.signal(0, signal.SIGKILL)
    assert group(2, "wait", LONG) == first
    time.sleep(5 * TIMES["interval"])  # the end of rank 0 is seen meanwhile
    assert group.all([1, 2], "failure") == [first, first]


def test_failures_at_the_same_time_are_one(ranks):
    group = ranks(4)
    for rank in range(4):
        group.begin(rank, "report", f"error {rank}")
    found = [group.end(rank) for rank in range(4)]
    assert len(set(found)) == 1


def test_a_symptom_gives_way_to_its_cause(ranks):
    group = ranks(3)
    group.begin(1, "settle", "connection closed by peer")
    cause = group(0, "report", "the cause")
    assert group.end(1) == cause


def test_a_symptom_without_a_cause_is_reported(ranks):
    group = ranks(2)
    found = group(1, "settle", "connection closed by peer", "", None, 0.2)
    assert found[:2] == ("raised", 1)
    assert group(0, "wait", LONG) == found


def test_a_rank_that_never_comes():
    store = dist.HashStore()
    watcher = watch(store, 0, 2, arrival=0.2, **TIMES)
    failure = watcher.wait(LONG)
    assert (failure.kind, failure.rank) == ("absent", 1)
    assert failure.message().startswith("rank 1 has not come within 0.2 s")
    with pytest.raises(smex.RankFailure, match="rank 1 has not come"):
        watcher.check()


# ---- the store ----


def test_the_rank_that_hosts_the_store_is_killed(ranks):
    group = ranks(3, ("tcp", "127.0.0.1", 0, True))
    group.meet()
    group.signal(0, signal.SIGKILL)
    for kind, rank, _, _ in group.all([1, 2], "wait", LONG):
        assert (kind, rank) == ("gone", 0)


def test_the_rank_that_hosts_the_store_is_stopped(ranks):
    group = ranks(3, ("tcp", "127.0.0.1", 0, True))
    group.meet()
    group.signal(0, signal.SIGSTOP)
    for kind, rank, _, message in group.all([1, 2], "wait", LONG):
        assert (kind, rank) == ("silent", 0)
        assert message.endswith("is stopped)")


def host_store(connection):
    store = dist.TCPStore("127.0.0.1", 0, None, True, wait_for_workers=False)
    connection.send(store.port)
    connection.recv()


@pytest.mark.parametrize(
    ("number", "text"),
    [
        (signal.SIGKILL, "the store's host is gone: rank 0's machine or the launcher (torchrun)"),
        (signal.SIGSTOP, "the store has not answered for "),
    ],
)
def test_a_store_that_no_rank_hosts_ends(ranks, number, text):
    ours, theirs = CONTEXT.Pipe()
    host = CONTEXT.Process(target=host_store, args=(theirs,))
    host.start()
    try:
        group = ranks(2, ("tcp", "127.0.0.1", ours.recv(), False))
        os.kill(host.pid, number)
        for kind, rank, _, message in group.all([0, 1], "wait", LONG):
            assert (kind, rank) == ("store", None)
            assert message.startswith(text)
    finally:
        host.kill()
        host.join()


def test_a_file_as_the_store(ranks, tmp_path):
    group = ranks(3, ("file", str(tmp_path / "store")))
    group.meet()
    group.signal(1, signal.SIGKILL)
    assert group(0, "wait", LONG)[:2] == ("gone", 1)


def test_threads_of_one_process_with_a_hash_store():
    store = dist.HashStore()
    first = _C.Watcher(store, 0, 2, **TIMES)
    second = _C.Watcher(store, 1, 2, **TIMES)
    reported = second.report("an error", "forward instruction 3")
    assert facts(first.wait(LONG)) == facts(reported)
    with pytest.raises(smex.RankFailure) as caught:
        first.check()
    again = pickle.loads(pickle.dumps(caught.value))
    for error in (caught.value, again):
        assert str(error) == "rank 1 failed in forward instruction 3: an error"
        assert (error.rank, error.where) == (1, "forward instruction 3")
        assert (error.original, error.kind) == ("an error", "raised")


# ---- nothing has failed ----


def test_who_leaves_has_not_failed(ranks):
    group = ranks(3)
    group.meet()
    group.all([1, 2], "leave")
    group.signal(1, signal.SIGKILL)
    assert group(0, "wait", 1.2 * TIMES["limit"]) is None
    assert group(0, "failure_awaiting", [0]) is None
    kind, rank, _, message = group(0, "failure_awaiting", [1])
    assert (kind, rank) == ("left", 1)
    assert "rank 1 has ended while rank 0 waits for it" in message


def test_the_host_of_the_store_leaves_first(ranks):
    group = ranks(3, ("tcp", "127.0.0.1", 0, True))
    group.meet()
    group(0, "leave")
    group.signal(0, signal.SIGKILL)  # ends the store with it
    assert group.all([1, 2], "wait", TIMES["limit"]) == [None, None]
    assert group(1, "left", 0)
    group(1, "leave")
    group.begin(1, "exit", 0)
    assert group(2, "wait", TIMES["limit"]) is None


def test_who_holds_pythons_lock_is_not_accused(ranks):
    group = ranks(2)
    group.meet()
    group.begin(1, "sleep in C", 2 * TIMES["limit"])
    assert group(0, "wait", 2.2 * TIMES["limit"]) is None
    assert group.end(1) is None
    assert group(1, "failure") is None


def test_who_were_all_stopped_accuse_nobody(ranks):
    group = ranks(2)
    group.meet()
    for number in (signal.SIGSTOP, signal.SIGCONT):
        for rank in (0, 1):
            group.signal(rank, number)
        time.sleep(1.5 * TIMES["limit"] if number == signal.SIGSTOP else 0)
    assert group.all([0, 1], "wait", 1.2 * TIMES["limit"]) == [None, None]


# ---- ends of processes ----


def run(code, *, options=()):
    """Runs a program that says `watcher`, and what ends it, to its end."""
    head = """
        import os, sys, torch.distributed as dist
        from smex.distributed.failure import unless_failed, watch
        host, port = sys.argv[1].split(":")
        store = dist.TCPStore(host, int(port), None, False, wait_for_workers=False)
        watcher = watch(store, 1, 2, interval=0.1, limit=2.0)
    """
    store = dist.TCPStore("127.0.0.1", 0, None, True, wait_for_workers=False)
    watcher = watch_as_first(store)
    program = textwrap.dedent(head) + textwrap.dedent(code)
    done = subprocess.run(
        [sys.executable, *options, "-c", program, f"127.0.0.1:{store.port}"],
        capture_output=True,
        text=True,
        timeout=LONG,
    )
    return done, watcher


def watch_as_first(store):
    """The first watcher of a store, as in a process that makes one only."""
    return _C.Watcher(dist.PrefixStore("watcher", store), 0, 2, **TIMES)


@pytest.mark.parametrize("options", [(), ("-X", "faulthandler")])
def test_the_interpreter_ends_while_the_watcher_lives(options):
    done, watcher = run("", options=options)
    assert (done.returncode, done.stderr) == (0, "")
    assert watcher.wait(5 * TIMES["interval"]) is None
    assert watcher.left(1)


def test_an_uncaught_error_is_told_to_the_others():
    done, watcher = run("raise ValueError('a bad batch')")
    assert done.returncode == 1
    assert watcher.wait(LONG).message() == "rank 1 failed: ValueError: a bad batch"


def test_a_crash_is_told_though_nobody_has_asked_for_its_status():
    store = dist.TCPStore("127.0.0.1", 0, None, True, wait_for_workers=False)
    code = """
        import os, sys, torch.distributed as dist
        from smex.distributed.failure import unless_failed, watch
        store = dist.TCPStore("127.0.0.1", int(sys.argv[1]), None, False, wait_for_workers=False)
        watcher = watch(store, 1, 2, interval=0.1, limit=2.0)
        watcher.wait(0.5)
        os.abort()
    """
    program = [sys.executable, "-c", textwrap.dedent(code), str(store.port)]
    watcher = watch_as_first(store)
    with subprocess.Popen(program) as process:  # a zombie until the end of this block
        assert (
            watcher.wait(LONG)
            .message()
            .startswith(f"rank 1 was killed or has crashed (its process {process.pid} on ")
        )


def test_processes_of_multiprocessing_tell_how_they_end(ranks):
    group = ranks(3)
    group.meet()
    group.begin(1, "return")
    while not group(0, "left", 1):
        time.sleep(0.01)
    assert group(0, "failure") is None
    group.begin(2, "raise", "a bad batch")
    assert group(0, "wait", LONG)[3] == "rank 2 failed: ValueError: a bad batch"


def test_a_forked_process_is_none_of_the_ranks():
    done, watcher = run("""
        child = os.fork()
        if child == 0:
            try:
                watcher.failure()
            except ValueError as error:
                print(error)
            sys.exit(3)  # through all of the interpreter's end
        _, status = os.waitpid(child, 0)
        print(os.waitstatus_to_exitcode(status), watcher.wait(0.5))
    """)
    assert (done.returncode, done.stderr) == (0, "")
    told, ended = done.stdout.splitlines()
    assert "which was forked from it; make another one there" in told
    assert ended == "3 None"
    assert watcher.wait(5 * TIMES["interval"]) is None


def test_no_thread_stays_behind():
    def count():
        return len(os.listdir("/proc/self/task"))

    store = dist.HashStore()
    watch(store, 0, 1, **TIMES).leave()
    before, descriptors = count(), len(os.listdir("/proc/self/fd"))
    for _ in range(3):
        watcher = watch(store, 0, 1, **TIMES)
        assert count() == before + 2
        del watcher
    assert (count(), len(os.listdir("/proc/self/fd"))) == (before, descriptors)


# ---- what a user can get wrong ----


def test_impossible_arguments():
    store = dist.HashStore()
    with pytest.raises(smex.SmexValueError, match="found rank 2 of 2"):
        watch(store, 2, 2)
    with pytest.raises(smex.SmexValueError, match="limit of at least 3 intervals"):
        watch(store, 0, 2, interval=1.0, limit=2.0)
    with pytest.raises(smex.SmexValueError, match="seconds of at least 0, found -1"):
        watch(store, 0, 2, interval=-1.0)


def test_a_store_made_in_python():
    class Own(dist.Store):
        pass

    with pytest.raises(smex.SmexValueError, match="expected a TCPStore, FileStore or HashStore"):
        watch(Own(), 0, 2)


def test_waiting_lets_other_threads_of_python_run():
    watcher = watch(dist.HashStore(), 0, 1, **TIMES)
    thread = threading.Thread(target=lambda: watcher.report("from another thread"))
    thread.start()
    assert watcher.wait(LONG).rank == 0
    thread.join()


# ---- what waits for others ----


@pytest.fixture
def two():
    store = dist.HashStore()
    watchers = [watch(store, rank, 2, **TIMES) for rank in range(2)]
    yield watchers
    for watcher in watchers:
        watcher.leave()


def test_a_result_is_returned_and_an_own_error_raised(two):
    assert unless_failed(two[0], lambda: 3) == 3
    with pytest.raises(KeyError):
        unless_failed(two[0], lambda: {}["none"])


def test_a_call_that_never_ends_is_left_when_a_rank_fails(two):
    never = threading.Event()

    def do():
        two[1].report("no more data")
        never.wait()

    with pytest.raises(smex.RankFailure, match="rank 1 failed: no more data"):
        unless_failed(two[0], do)
    never.set()


def test_a_connection_that_breaks_is_told_as_the_failure_that_broke_it(two):
    def do():
        threading.Timer(0.3, two[1].report, ["no more data"]).start()
        raise dist.DistNetworkError("Connection reset by peer")

    with pytest.raises(smex.RankFailure, match="rank 1 failed: no more data") as found:
        unless_failed(two[0], do)
    assert found.value.rank == 1
