"""Emulated hosts: what the kernel counts, how fast the links are, and that nothing is left behind."""

import json
import os
import pathlib
import signal
import subprocess
import sys
import textwrap

import emulate
import pytest

pytestmark = pytest.mark.skipif(
    emulate.unavailable() is not None, reason=f"no emulated hosts: {emulate.unavailable()}"
)

ENVIRONMENT = {"OMP_NUM_THREADS": "1"}


def python(text):
    return [sys.executable, "-c", textwrap.dedent(text)]


def test_what_the_kernel_counts_is_what_an_all_to_all_sends():
    """The counters of the interfaces are an oracle that knows nothing of what runs."""
    command = python(
        """
        import torch, torch.distributed as dist
        from emulate import Counters
        dist.init_process_group("gloo")
        rank, part = dist.get_rank(), 500_000
        sent = torch.full((3, part), rank, dtype=torch.uint8)
        received = torch.empty_like(sent)
        dist.barrier()
        before = Counters.read()
        dist.all_to_all_single(received, sent)
        dist.barrier()
        assert received.tolist() == [[r] * part for r in range(3)], received
        print((Counters.read() - before).sent_payload)
        dist.barrier()
        dist.destroy_process_group()
        """
    )
    path = str(pathlib.Path(emulate.__file__).parent)
    with emulate.emulated(ranks=3, rate="1gbit") as hosts:
        said = hosts.run(command, timeout=120, env={**ENVIRONMENT, "PYTHONPATH": path})
        whole = hosts.sent()
    for text in said:
        assert int(text) == pytest.approx(1e6, rel=0.05)  # of three parts a rank keeps its own
    assert 3e6 < whole < 3.3e6  # with the rendezvous


# Received bytes over the seconds from the first to the last, without torch, which takes a second to
# be imported.
STREAM = """
    import os, socket, time
    address = os.environ["MASTER_ADDR"], 5000
    size = 4_000_000
    if os.environ["RANK"] == "0":
        with socket.create_server(address) as server:
            connection, _ = server.accept()
        connection.sendall(bytes(size))
        connection.recv(1)
    else:
        while True:
            try:
                connection = socket.create_connection(address)
                break
            except ConnectionRefusedError:
                time.sleep(0.01)
        got = 0
        while got < size:
            got += len(connection.recv(1 << 20))
            if got > size // 4 and "started" not in globals():
                started, early = time.perf_counter(), got
        print((got - early) * 8 / (time.perf_counter() - started))
        connection.send(b"x")
"""


@pytest.mark.parametrize("rate", ["50mbit", "200mbit"])
def test_a_link_carries_what_its_rate_says_and_no_more(rate):
    shares = []
    with emulate.emulated(ranks=2, rate=rate) as hosts:
        while not any(share > 0.5 for share in shares) and len(shares) < 5:  # others may run too
            measured = float(hosts.run(python(STREAM), timeout=60)[1])
            shares.append(measured / emulate.bits_per_second(rate))
    assert 0.5 < max(shares) < 1.05  # the rest is headers


def test_loopback_is_counted_too():
    with emulate.emulated(ranks=2, rate=None) as hosts:
        assert len(hosts.counters()) == 1
        sent = []
        while not any(bytes_ < 4_004_000 for bytes_ in sent) and len(sent) < 5:
            before = hosts.sent()
            hosts.run(python(STREAM), timeout=60)
            sent.append(hosts.sent() - before)  # with segments that a busy host sends again
        assert min(sent) == pytest.approx(4_000_001, rel=1e-3)


def test_a_rank_that_fails_is_named_and_ends_the_others():
    command = python(
        """
        import os, time
        if os.environ["RANK"] == "1":
            raise ValueError("the disk is full")
        time.sleep(1000)
        """
    )
    with (
        emulate.emulated(ranks=2, rate=None) as hosts,
        pytest.raises(emulate.EmulationError, match=r"(?s)rank 1 ended with 1.*the disk is full"),
    ):
        hosts.run(command, timeout=60)
    with (
        emulate.emulated(ranks=1, rate=None) as hosts,
        pytest.raises(emulate.EmulationError, match=r"rank 0 is not done after 0\.2 s"),
    ):
        hosts.run(["sleep", "1000"], timeout=0.2)


def alive(pid):
    try:
        stat = pathlib.Path(f"/proc/{pid}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):  # the latter where it ends between the two
        return False
    return stat.rsplit(")", 1)[1].split()[0] != "Z"


def wait_until_gone(pids):
    """The system ends them; the test runner's own limit is the limit here."""
    while any(alive(pid) for pid in pids):
        signal.sigtimedwait([], 0.01)


def test_what_a_killed_rank_leaves_is_gone():
    with emulate.emulated(ranks=2, rate="1gbit") as hosts:
        ranks = hosts.start(["sh", "-c", "sleep 1000 & wait"])
        namespaces = [space.pid for space in hosts._spaces]
        ranks[0].kill()
        ranks[0].wait()
        assert alive(ranks[1].pid)
    wait_until_gone([*(rank.pid for rank in ranks), *namespaces])


def test_nothing_outlives_a_killed_caller():
    """Not even after SIGKILL of the process that made the hosts."""
    command = python(
        """
        import emulate, sys, time
        with emulate.emulated(ranks=2, rate="1gbit") as hosts:
            ranks = hosts.start(["sleep", "1000"])
            print(*(p.pid for p in ranks), *(space.pid for space in hosts._spaces), flush=True)
            time.sleep(1000)
        """
    )
    path = str(pathlib.Path(emulate.__file__).parent)
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, text=True, env={**os.environ, "PYTHONPATH": path}
    ) as caller:
        pids = [int(pid) for pid in caller.stdout.readline().split()]
        caller.kill()
    assert len(pids) == 4
    wait_until_gone(pids)


@pytest.mark.skipif(emulate.no_quotas() is not None, reason=f"no CPU quotas: {emulate.no_quotas()}")
def test_a_rank_gets_its_part_of_the_processors():
    """By the CPU time that the kernel gives, which does not depend on who else is there."""
    command = python(
        """
        import time
        until, begun = time.monotonic() + 0.6, time.process_time()
        while time.monotonic() < until:
            pass
        print((time.process_time() - begun) / 0.6)
        """
    )
    with emulate.emulated(ranks=2, rate=None, cpus=[0.5, 0.25]) as hosts:
        folders = [quota.folder for quota in hosts._quotas]
        half, quarter = map(float, hosts.run(command, timeout=60))
    assert half < 0.6
    assert quarter < 0.35
    assert not any(folder.exists() for folder in folders)


@pytest.mark.costly(cases=0)
@pytest.mark.skipif(emulate.no_quotas() is not None, reason=f"no CPU quotas: {emulate.no_quotas()}")
def test_what_has_a_part_of_a_processor_is_measured_so_much_slower():
    """By how much time passes for the processor's, however fast that is."""
    command = python(
        """
        import torch
        from smex.planning.rates import ThreadRates
        torch.set_num_threads(1)
        rates = ThreadRates(1)
        rates.memory_bandwidth(), rates.flops(torch.float32), rates.launch()
        print(rates.pace())
        """
    )
    with emulate.emulated(ranks=1, rate=None, cpus=[0.2]) as hosts:
        (pace,) = hosts.run(command, timeout=240, env=ENVIRONMENT)
    assert float(pace) > 3.5  # 5, less what a quota lets through at first


@pytest.mark.costly(cases=0)
def test_a_profile_tells_what_connects_hosts():
    """Ranks of one computer whose networks are apart share no memory, and are nodes of their own."""
    command = python(
        """
        import json, torch, torch.distributed as dist, smex
        dist.init_process_group("gloo")
        cluster = smex.cluster.profile()
        print(json.dumps([cluster.nodes, cluster.link(0, 1).bandwidth]))
        dist.barrier()
        dist.destroy_process_group()
        """
    )
    with emulate.emulated(ranks=2, rate="200mbit") as hosts:
        said = hosts.run(command, timeout=240, env=ENVIRONMENT)
    for text in said:
        nodes, bandwidth = json.loads(text)
        assert nodes == [0, 1]
        assert 15e6 < bandwidth < 26e6  # 24e6 is what Ethernet, IP and TCP leave


def test_what_is_not_a_rate_is_refused():
    with pytest.raises(ValueError, match="rate '1 gigabit', expected a number and one of bit"):
        emulate.bits_per_second("1 gigabit")
    with (
        pytest.raises(ValueError, match="cpus for 1 ranks, expected 2"),
        emulate.emulated(cpus=[1]),
    ):
        pass
