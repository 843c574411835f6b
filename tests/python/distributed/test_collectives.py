"""Relayouts that go through torch's collectives: forced over Gloo, and chosen."""

import copy
import os
import signal
import time

import pytest
import torch
from torch.nn import functional as F

import smex
from smex import _C
from smex.distributed.collectives import _SIZES, Measured, _interpolated
from smex.distributed.world import World
from support.families import FAMILIES

GROUP = {"SMEX_SHARED_MEMORY": "0"}


def train(rank, family, workers, **options):
    """A few steps in float64; what a user may read afterwards, and how tiles travelled."""
    torch.manual_seed(0)
    torch.set_num_threads(1)
    cls, loss_fn = FAMILIES[family]
    model = cls.small().double()
    *inputs, target = cls.small_inputs()
    if loss_fn is F.mse_loss:
        with torch.no_grad():
            target = torch.randn(copy.deepcopy(model)(*inputs).shape, dtype=torch.float64)
    net = smex.partition(model, workers=workers, loss_fn=loss_fn, replicate_bytes=0, **options)
    net.prepare((*inputs, target))
    optimizer = torch.optim.SGD(net.parameters(), lr=1e-2)
    torch.manual_seed(1)
    losses = []
    for _ in range(2):
        loss = net(*inputs, target)
        loss.backward()
        grads = net.full_grads()
        optimizer.step()
        optimizer.zero_grad()
        losses.append(loss.detach())
    stats = net.stats()
    tensors = {**{f"grad {n}": g for n, g in grads.items()}, **net.state_dict()}
    tensors["losses"] = torch.stack(losses)
    bytes_moved = stats["bytes_moved"], stats["predicted_bytes_moved"]
    return tensors, bytes_moved, net.plan.carried


def train_with(rank, family, workers, options):
    return train(rank, family, workers, **options)


EVEN = {"all_gather", "all_to_all"}
SUMS = {"reduce_scatter", "all_reduce"}
FORCED = [
    ("gpt", 2, {}),
    ("gpt", 4, GROUP),
    ("llama", 3, GROUP),
    ("dlrm", 4, {}),
    ("wresnet", 4, GROUP),
]


@pytest.mark.costly(cases=2)
@pytest.mark.parametrize(("family", "world", "variables"), FORCED)
def test_forced_ones_change_no_bit(processes, family, world, variables):
    expected, _, _ = train(0, family, world)
    options = {"collectives": "always"}
    for tensors, (counted, predicted), carried in processes.run(
        train_with, world, family, world, options, variables=variables
    ):
        assert counted == predicted
        assert tensors.keys() == expected.keys()
        for name, tensor in expected.items():
            assert torch.equal(tensors[name], tensor), name
        assert EVEN & carried.ways.keys()
        assert not SUMS & carried.ways.keys()
        assert carried.reasons == ()


@pytest.mark.costly(cases=2)
@pytest.mark.parametrize(("family", "world"), [("wresnet", 4), ("llama", 3), ("unet", 4)])
def test_sums_in_any_order_are_equal_to_rounding(processes, family, world):
    expected, _, _ = train(0, family, world)
    options = {"collectives": "always", "deterministic": False}
    results = processes.run(train_with, world, family, world, options, variables=GROUP)
    for tensors, (counted, predicted), carried in results:
        assert counted == predicted
        for name, tensor in expected.items():
            torch.testing.assert_close(tensors[name], tensor, rtol=1e-9, atol=1e-11)
        assert SUMS & carried.ways.keys()


def of_four_workers(rank):
    """Two threads in each of two processes: no worker's sum is of one part of each process."""
    tensors, _, carried = train(
        rank, "gpt", 4, collectives="always", deterministic=False
    )  # fmt: skip
    return tensors, carried


def test_processes_of_two_threads_each(processes):
    expected, _, _ = train(0, "gpt", 4)
    for tensors, carried in processes.run(of_four_workers, 2):
        assert not SUMS & carried.ways.keys()
        for name, tensor in expected.items():
            assert torch.equal(tensors[name], tensor), name


KINDS = ("all_gather", "all_reduce", "all_to_all", "reduce_scatter")


def run_samples(rank, groups, nbytes):
    """Runs each kind of collective between groups; by kind what there is, and what this rank got.

    That is by packets, and by the collective.
    """
    world = World.of(range(4), 4, "cpu", 60.0)
    world.links.connect(groups, torch.device("cpu"))
    found = {}
    for kind in KINDS:
        program = _C.sample_collective(kind, groups, world.ranks, nbytes)
        sent = [
            torch.randn([hi - lo for lo, hi in box], generator=torch.Generator().manual_seed(n))
            for n, box in enumerate(program.inputs[0].regions)
        ]
        got = []
        for used in ([], _C.find_collectives(program, world.ranks, True)):
            executor = _C.Executor(program, collectives=used, **world.executor_options())
            session = executor.start([sent])
            session.run_forward()
            got.append(session.outputs(0)[rank])
        found[kind] = sent, got, executor.volumes
    return found


def what_comes(kind, sent, group, place):
    own = [sent[member] for member in group]
    if kind == "all_gather":
        return torch.cat(own)
    if kind == "all_reduce":
        return sum(own)
    parts = [each.chunk(len(group))[place] for each in own]
    return sum(parts) if kind == "reduce_scatter" else torch.cat(parts)


@pytest.mark.parametrize("groups", [[(0, 1, 2, 3)], [(0, 2), (1, 3)], [(1, 2, 3)]])
@pytest.mark.parametrize("nbytes", [4, 1_200_000])  # the latter in several rounds
def test_each_kind_brings_what_packets_do(processes, groups, nbytes):
    for rank, found in enumerate(processes.run(run_samples, 4, groups, nbytes, variables=GROUP)):
        for kind, (sent, got, volumes) in found.items():
            assert kind in volumes or len(groups[0]) == 2
            group = next((group for group in groups if rank in group), None)
            if group is None:
                assert got == [None, None]
                continue
            expected = what_comes(kind, sent, group, group.index(rank))
            assert torch.equal(got[0], expected)
            torch.testing.assert_close(got[1], expected, rtol=1e-6, atol=1e-6)
            if kind in EVEN:
                assert torch.equal(got[1], expected)


def choose(rank, mode):
    x = torch.randn(32, 64, generator=torch.Generator().manual_seed(0))
    net = smex.partition(torch.nn.Linear(64, 64), planner="fsdp", collectives=mode, args=x)
    carried = net.plan.carried
    assert str(carried) in str(net.plan)
    return dict(carried.ways), carried.reasons


def test_the_plan_says_what_is_used(processes):
    """By default nothing between ranks that share memory; over Gloo what is measured."""
    for ways, reasons in processes.run(choose, 2, "auto"):
        assert ways.keys() == {"shared memory"}
        assert reasons == ("all_gather: processes share memory",)
    for ways, reasons in processes.run(choose, 2, "never"):
        assert (ways.keys(), reasons) == ({"shared memory"}, ())
    first, second = processes.run(choose, 2, "auto", variables=GROUP)
    assert first == second
    ways, reasons = first
    said = any("512.0 KiB take" in reason for reason in reasons)
    assert "all_gather" in ways or said  # or both: one may gain for the weight and not for the bias


def test_one_process_sends_nobody_anything():
    net = smex.partition(torch.nn.Linear(4, 4), workers=2, args=torch.randn(2, 4))
    assert net.plan.carried is None


def test_what_is_measured_is_compared_at_the_size_that_is_sent():
    assert [_interpolated([1.0, 2.0, 4.0], size) for size in (1, *_SIZES)] == [1, 1, 2, 4]
    between = (_SIZES[0] + _SIZES[1]) // 2
    assert _interpolated([1.0, 2.0, 4.0], between) == pytest.approx(1.5)
    assert _interpolated([1.0, 2.0, 4.0], 2 * _SIZES[2] - _SIZES[1]) == pytest.approx(6)
    measured = Measured(packets=[1.0, 2.0, 4.0], collective=[2.0, 1.95, 3.0])
    assert [measured.gains(size) for size in _SIZES] == [False, False, True]


def differ(rank):
    try:
        smex.partition(
            torch.nn.Linear(8, 8),
            collectives="never" if rank else "always",
            args=torch.randn(4, 8),
        )
    except smex.SmexRuntimeError as error:
        return str(error)
    return ""


def test_ranks_that_choose_otherwise_are_found(processes):
    for text in processes.run(differ, 2):
        assert "rank 0 and rank 1 differ in collectives: 'always' and 'never'" in text


def connect_without_one(rank):
    """Rank 1 ends while the others make a group with it."""
    world = World.of(range(3), 3, "cpu", 60.0)
    while not all(map(world.links.watcher.arrived, range(3))):
        time.sleep(0.01)
    world.gather(None)
    if rank == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    try:
        world.links.connect([(0, 1), (1, 2)], torch.device("cpu"))
    except smex.RankFailure as failure:
        return failure.kind, failure.rank
    return None


def test_a_rank_that_is_killed_while_groups_are_made_is_named(processes):
    found = processes.outcomes(connect_without_one, 3, timeout=30)
    assert found[0] == found[2] == (True, ("gone", 1))


def kill_in_step(rank, how):
    """Trains through collectives; rank 1 fails. Returns what this one was told."""
    x = torch.randn(12, 48)
    net = smex.partition(torch.nn.Linear(48, 48), planner="fsdp", collectives="always", args=x)
    assert "all_gather" in net.plan.carried.ways
    try:
        for step in range(20):
            if rank == 1 and step == 2:
                if how == "killed":
                    os.kill(os.getpid(), signal.SIGKILL)
                with torch.no_grad():
                    net(x)
            net(x).sum().backward()
    except smex.RankFailure as failure:
        return failure.kind, str(failure)
    return None


@pytest.mark.parametrize("variables", [{}, GROUP], ids=["shared memory", "group"])
def test_a_rank_that_is_killed_is_named(processes, variables):
    found = processes.outcomes(kill_in_step, 3, "killed", timeout=20, variables=variables)
    assert not found[1][0]
    for rank in (0, 2):
        good, what = found[rank]
        assert good, what
        assert what[0] == "gone", what


def test_a_rank_that_runs_something_else_ends_all(processes):
    for what in processes.run(kill_in_step, 3, "evaluates", timeout=30):
        assert what is not None


@pytest.mark.parametrize("options", [{"collectives": "sometimes"}, {"deterministic": 1}])
def test_impossible_options(options):
    with pytest.raises((smex.SmexValueError, smex.SmexTypeError), match=next(iter(options))):
        smex.partition(torch.nn.Linear(2, 2), **options)
